//! The manifest of an archive (`.mf`): a digest of each member.
//!
//! A comparison reads all of the archive once. Small archives are compared when they are opened. Larger ones are compared by a
//! thread of their own while the disk is read, so that what one of the two brought into the page cache serves the other;
//! who asks for the notes waits for it, and who drops the medium ends it.

use super::super::ImageFile;
use super::Member;
use crate::media::{MediaError, Note, NoteKind, Notes, ReadAt};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Manifests have a line for each member.
const TEXT_BYTES_MAX: u64 = 4 << 20;
/// Archives of up to so many bytes are compared at once: a fraction of a second.
const AT_ONCE_BYTES_MAX: u64 = 256 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// A comparison that is done, or under way.
#[derive(Debug, Default)]
pub(super) struct Check {
    notes: Arc<Notes>,
    is_given_up: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Check {
    /// What it found, when it has ended.
    pub(super) fn notes(&self) -> Vec<Note> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has no more to say; nothing in it does.
        let _ = thread.map(JoinHandle::join);
        self.notes.list()
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    algorithm: Algorithm,
    name: String,
    digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Sha1,
    Sha256,
    Sha512,
}

/// Compares the members of the archive `file` with its manifest, if it has one.
pub(super) fn check(file: &ImageFile, members: &[Member]) -> Result<Arc<Check>, MediaError> {
    let check = Check::default();
    let Some(manifest) = members.iter().find(|member| has_end(&member.name, ".mf")) else { return Ok(Arc::new(check)) };
    let size = file.bytes.size_bytes();
    let inside = size.saturating_sub(manifest.start).min(manifest.bytes).min(TEXT_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(inside).unwrap_or(0)];
    file.bytes.read_at(&mut bytes, manifest.start)?;
    let lines = parse(&String::from_utf8_lossy(&bytes));
    let work = Work {
        path: Arc::clone(&file.path),
        bytes: Arc::clone(&file.bytes),
        members: members.to_vec(),
        lines,
        notes: Arc::clone(&check.notes),
        is_given_up: Arc::clone(&check.is_given_up),
    };
    if size <= AT_ONCE_BYTES_MAX {
        work.run();
        return Ok(Arc::new(check));
    }
    match std::thread::Builder::new().name("manifest".to_owned()).spawn(move || work.run()) {
        Ok(thread) => *check.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
        Err(error) => {
            let message = format!("it was not compared with its manifest: {error}");
            check.notes.add(NoteKind::ManifestMismatch, &file.path, message);
        }
    }
    Ok(Arc::new(check))
}

fn has_end(name: &str, end: &str) -> bool {
    name.len().checked_sub(end.len()).and_then(|at| name.get(at..)).is_some_and(|last| last.eq_ignore_ascii_case(end))
}

/// Lines of the form `SHA256(disk.vmdk)= 0123...`, with blanks anywhere between.
fn parse(text: &str) -> Vec<Line> {
    text.lines()
        .filter_map(|line| {
            let (head, digest) = line.rsplit_once('=')?;
            let (algorithm, name) = head.trim_end().strip_suffix(')')?.split_once('(')?;
            let algorithm = match algorithm.trim().to_ascii_uppercase().as_str() {
                "SHA1" => Algorithm::Sha1,
                "SHA256" => Algorithm::Sha256,
                "SHA512" => Algorithm::Sha512,
                _ => return None,
            };
            Some(Line { algorithm, name: name.trim().to_owned(), digest: digest.trim().to_ascii_lowercase() })
        })
        .collect()
}

struct Work {
    path: Arc<Path>,
    bytes: Arc<dyn ReadAt>,
    members: Vec<Member>,
    lines: Vec<Line>,
    notes: Arc<Notes>,
    is_given_up: Arc<AtomicBool>,
}

impl Work {
    fn run(self) {
        for line in &self.lines {
            let message = match self.members.iter().find(|member| member.name == line.name) {
                None => Some(format!("its manifest lists {}, which is not in the archive", line.name)),
                Some(member) => match self.digest(member, line.algorithm) {
                    Ok(Some(digest)) if digest == line.digest => None,
                    Ok(Some(_)) => Some(format!(
                        "{} is not what it was when the archive was made: its digest is not that of the manifest",
                        line.name
                    )),
                    Ok(None) => return,
                    Err(error) => Some(format!("{} cannot be compared with the manifest: {error}", line.name)),
                },
            };
            if let Some(message) = message {
                self.notes.add(NoteKind::ManifestMismatch, &self.path, message);
            }
        }
    }

    fn digest(&self, member: &Member, algorithm: Algorithm) -> Result<Option<String>, MediaError> {
        match algorithm {
            Algorithm::Sha1 => self.digest_by(Sha1::new(), member),
            Algorithm::Sha256 => self.digest_by(Sha256::new(), member),
            Algorithm::Sha512 => self.digest_by(Sha512::new(), member),
        }
    }

    /// The digest of a member in hex digits; `None` when nobody waits for it any more.
    fn digest_by(&self, mut hasher: impl Digest, member: &Member) -> Result<Option<String>, MediaError> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut done = 0_u64;
        while done < member.bytes {
            if self.is_given_up.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let length = usize::try_from(member.bytes.saturating_sub(done)).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let Some(piece) = piece.get_mut(..length) else { break };
            self.bytes.read_at(piece, member.start.saturating_add(done))?;
            hasher.update(piece);
            done = done.saturating_add(length as u64);
        }
        Ok(Some(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_writers_are_understood() {
        let text = "SHA256(a.vmdk)= AB12\r\nSHA1 (b (copy).vmdk) = cd34\nMD5(c)= 00\n\nSHA512(d=e.vmdk)=ef\n";
        let lines: Vec<_> = parse(text).into_iter().map(|line| (line.algorithm, line.name, line.digest)).collect();
        let line = |algorithm, name: &str, digest: &str| (algorithm, name.to_owned(), digest.to_owned());
        let expected = [
            line(Algorithm::Sha256, "a.vmdk", "ab12"),
            line(Algorithm::Sha1, "b (copy).vmdk", "cd34"),
            line(Algorithm::Sha512, "d=e.vmdk", "ef"),
        ];
        assert_eq!(lines, expected);
    }
}
