//! Images beside the one that was given that hold what was written later: snapshots make a new file, and the old one stays as it was.

use super::super::{Chain, ImageFile};
use super::descriptor::Descriptor;
use crate::media::{Extent, FileMedium, MediaError, Note, NoteKind, Notes, ReadAt, RescueMap};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of newer images that a note lists.
const NAMED_MAX: usize = 4;
/// Larger extents of a descriptor are no text.
const PART_SUFFIXES: [&str; 3] = ["-delta", "-sesparse", "-s001"];

/// A descriptor in a folder.
#[derive(Debug)]
pub(super) struct Found {
    /// The file that is it, or holds it.
    pub(super) path: PathBuf,
    described: Descriptor,
}

impl Found {
    /// Whether it names the file at `path` as an extent.
    pub(super) fn has_extent(&self, path: &Path) -> bool {
        let is_it = |line: &super::ExtentLine| line.file.as_deref().is_some_and(|file| is_named(path, file));
        self.path != path && self.described.extents.iter().any(is_it)
    }

    fn has_parent(&self, path: &Path) -> bool {
        self.described.parent.as_deref().is_some_and(|parent| is_named(path, parent)) && self.path != path
    }
}

/// Whether the last part of `named`, which may be a path of another host, is the name of `path`.
fn is_named(path: &Path, named: &str) -> bool {
    let base = named.rsplit(['/', '\\']).next().unwrap_or_default();
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.eq_ignore_ascii_case(base))
}

/// The descriptors in the folder of `image`.
pub(super) fn descriptors(image: &Path, chain: &Chain<'_>) -> impl Iterator<Item = Found> {
    chain.sibling_paths(image, "vmdk").into_iter().filter_map(|path| {
        let bytes = Arc::new(FileMedium::open(&path).ok()?);
        let described = super::described_by(&ImageFile { path: path.as_path().into(), bytes })?;
        Some(Found { path, described })
    })
}

/// Notes that images beside the VMDK `file` hold later states of its disk.
pub(super) fn note(file: &ImageFile, chain: &Chain<'_>, notes: &Notes) {
    let all: Vec<Found> = descriptors(&file.path, chain).collect();
    note_children(&file.path, &file.path, &all, notes);
}

/// A raw image that is the flat extent of a VMDK with later states beside it.
pub(super) fn noted(file: &ImageFile, chain: &Chain<'_>) -> Option<Arc<dyn ReadAt>> {
    let is_candidate = file.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("vmdk"));
    if !is_candidate || !chain.is_first() {
        return None;
    }
    let notes = Notes::default();
    let all: Vec<Found> = descriptors(&file.path, chain).collect();
    for whole in all.iter().filter(|found| found.has_extent(&file.path)) {
        note_children(&whole.path, &file.path, &all, &notes);
    }
    if notes.list().is_empty() {
        note_by_name(&file.path, chain, &notes);
    }
    let inner = Arc::clone(&file.bytes);
    (!notes.list().is_empty()).then(|| Arc::new(Noted { inner, notes }) as Arc<dyn ReadAt>)
}

/// Follows the children of `image` up to those that have none.
fn note_children(image: &Path, given: &Path, all: &[Found], notes: &Notes) {
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    let mut newest: BTreeSet<&Path> = BTreeSet::new();
    let mut rest: Vec<&Path> = vec![image];
    while let Some(path) = rest.pop() {
        let children = all.iter().filter(|found| found.has_parent(path)).map(|found| found.path.as_path());
        let fresh: Vec<&Path> = children.filter(|child| *child != image && seen.insert(child)).collect();
        if fresh.is_empty() && path != image {
            newest.insert(path);
        }
        rest.extend(fresh);
    }
    if newest.is_empty() {
        return;
    }
    let names: Vec<_> = newest.iter().filter_map(|path| path.file_name()).map(OsStr::to_string_lossy).collect();
    let listed = names.get(..NAMED_MAX.min(names.len())).unwrap_or_default().join(" or ");
    let message = format!(
        "it is the state before a snapshot: {listed} beside it holds what was written later; give that to check the disk's current state"
    );
    notes.add(NoteKind::NewerImage, &given.into(), message);
}

/// Where descriptors are missing, names tell: `NAME-flat.vmdk` and `NAME-000001-delta.vmdk`.
fn note_by_name(path: &Path, chain: &Chain<'_>, notes: &Notes) {
    let stem = path.file_stem().and_then(OsStr::to_str).and_then(|stem| stem.strip_suffix("-flat"));
    let Some(disk) = stem else { return };
    let is_delta = |sibling: &&PathBuf| {
        let number = sibling.file_stem().and_then(OsStr::to_str).and_then(|stem| {
            let rest = stem.strip_prefix(disk)?.strip_prefix('-')?;
            PART_SUFFIXES.iter().find_map(|suffix| rest.strip_suffix(suffix))
        });
        number.is_some_and(|number| number.len() == 6 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let siblings = chain.sibling_paths(path, "vmdk");
    let Some(delta) = siblings.iter().rfind(is_delta).and_then(|delta| delta.file_name()) else { return };
    let message = format!(
        "{} lies beside it and seems to hold what was written later, but the descriptors are missing: copy them, too, and give \
         the newest to check the disk's current state",
        delta.to_string_lossy()
    );
    notes.add(NoteKind::NewerImage, &path.into(), message);
}

/// A medium with something to be said of it.
#[derive(Debug)]
struct Noted {
    inner: Arc<dyn ReadAt>,
    notes: Notes,
}

impl ReadAt for Noted {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        self.inner.read_at(buffer, offset)
    }

    fn sector_bytes(&self) -> u64 {
        self.inner.sector_bytes()
    }

    fn size_now_bytes(&self) -> u64 {
        self.inner.size_now_bytes()
    }

    fn map(&self) -> Option<&RescueMap> {
        self.inner.map()
    }

    fn extent_at(&self, offset: u64) -> Extent {
        self.inner.extent_at(offset)
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = self.inner.notes();
        notes.extend(self.notes.list());
        notes
    }
}
