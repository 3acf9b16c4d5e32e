//! What a medium has to say about itself: damaged tables, an unclean end, a chain that does not fit.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Notes that are kept of one medium. A damaged table can make one for each of its entries.
const NOTES_MAX: usize = 64;

/// What kind of thing a [`Note`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// A table or header of a disk image is damaged. What depends on it cannot be read, unless a second one was used.
    ImageDamaged,
    /// A file of a disk image is shorter than it should be.
    ImageTruncated,
    /// The images of a chain do not fit together: a parent changed after its child was made.
    ChainMismatch,
    /// The image was not closed: it is marked dirty, or its log had to be replayed in memory.
    ImageUnclean,
    /// It does not say of which format its parent is; that was told by its content.
    FormatGuessed,
    /// There is a newer image of the same disk beside the one that was given.
    NewerImage,
    /// The contents of an archive do not match its manifest.
    ManifestMismatch,
    /// A partition table is damaged, or contradicts its copy or the size of the disk.
    PartitionTable,
}

/// A fact about a medium, not about the pool on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// What kind it is of.
    pub kind: NoteKind,
    /// The file it is about.
    pub file: Arc<Path>,
    /// One sentence without the name of the file: what is wrong, where.
    pub message: String,
}

/// The notes that a medium gathers while it is read: each once, and a bounded number.
#[derive(Debug, Default)]
pub struct Notes {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    notes: BTreeSet<Note>,
    is_cut: bool,
}

impl Notes {
    /// Adds a note, unless it is there already or there are too many.
    pub fn add(&self, kind: NoteKind, file: &Arc<Path>, message: impl Into<String>) {
        let note = Note { kind, file: Arc::clone(file), message: message.into() };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.notes.len() < NOTES_MAX {
            kept.notes.insert(note);
        } else if !kept.notes.contains(&note) {
            kept.is_cut = true;
        }
    }

    /// All notes, in order. Where some were dropped, the last one says so.
    #[must_use]
    pub fn list(&self) -> Vec<Note> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes: Vec<Note> = kept.notes.iter().cloned().collect();
        if let (true, Some(last)) = (kept.is_cut, notes.last()) {
            notes.push(Note { message: "and more of that kind".to_owned(), ..last.clone() });
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_once_and_up_to_a_bound() {
        let notes = Notes::default();
        let file: Arc<Path> = Path::new("a.vmdk").into();
        for _ in 0..3 {
            notes.add(NoteKind::ImageUnclean, &file, "it is marked dirty");
        }
        assert_eq!(notes.list().len(), 1);
        for number in 0..2 * NOTES_MAX {
            notes.add(NoteKind::ImageDamaged, &file, format!("entry {number:04}"));
        }
        let list = notes.list();
        assert_eq!(list.len(), NOTES_MAX + 1);
        assert_eq!(list[NOTES_MAX].message, "and more of that kind");
    }
}
