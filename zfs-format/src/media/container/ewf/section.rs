//! The head of a segment, and the heads of its sections.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 8 | signature of the segment |
//! | 9 | 2 | its number, from 1 on |
//!
//! | offset | size | content of a section's head |
//! | --- | --- | --- |
//! | 0 | 16 | its kind, such as `sectors` |
//! | 16, 24 | 8 each | where the next one begins, size of this one |
//! | 72 | 4 | Adler-32 of the 72 bytes before |

use super::super::{le_u32, le_u64};
use super::adler32;
use crate::media::{MediaError, NoteKind, ReadAt};

/// Bytes before the first section.
pub(super) const FILE_HEADER_BYTES: u64 = 13;
/// Bytes of a section's head.
pub(super) const HEAD_BYTES: u64 = 76;
/// A segment of 2 TiB has some thousands.
const SECTIONS_MAX: usize = 100_000;

/// The first bytes of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileHeader {
    pub(super) signature: [u8; 8],
    /// Number of the segment, from 1 on.
    pub(super) number: u16,
}

impl FileHeader {
    pub(super) fn read(file: &dyn ReadAt) -> Result<Self, MediaError> {
        let mut bytes = [0; FILE_HEADER_BYTES as usize];
        file.read_at(&mut bytes, 0)?;
        let [a, b, c, d, e, f, g, h, _, low, high, ..] = bytes;
        Ok(Self { signature: [a, b, c, d, e, f, g, h], number: u16::from_le_bytes([low, high]) })
    }
}

/// A section of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Its kind.
    pub(super) kind: String,
    /// Where its content begins.
    pub(super) start: u64,
    /// Where the next section begins.
    pub(super) end: u64,
}

fn damaged(why: String) -> (NoteKind, String) {
    (NoteKind::ImageDamaged, why)
}

/// The sections of a segment, in order, and what stopped the list before its end, if anything did.
pub(super) fn list(file: &dyn ReadAt) -> (Vec<Section>, Option<(NoteKind, String)>) {
    let mut sections = Vec::new();
    let mut at = FILE_HEADER_BYTES;
    while sections.len() < SECTIONS_MAX {
        let mut head = [0; HEAD_BYTES as usize];
        if let Err(error) = file.read_at(&mut head, at) {
            let stop = match error {
                MediaError::OutOfRange { size, .. } => {
                    (NoteKind::ImageTruncated, format!("it ends at byte {size}, before a section at byte {at}"))
                }
                other => damaged(format!("the head of a section at byte {at} cannot be read: {other}")),
            };
            return (sections, Some(stop));
        }
        let (covered, _) = head.split_at(72);
        if adler32(covered) != le_u32(&head, 72) {
            return (sections, Some(damaged(format!("the head of a section at byte {at} is damaged"))));
        }
        let name = head.split(|&byte| byte == 0).next().unwrap_or_default();
        let kind = String::from_utf8_lossy(name.get(..16).unwrap_or(name)).into_owned();
        let next = le_u64(&head, 16);
        let is_last = matches!(kind.as_str(), "next" | "done");
        let is_onward = next >= at.saturating_add(HEAD_BYTES);
        sections.push(Section { kind, start: at.saturating_add(HEAD_BYTES), end: next });
        if is_last {
            return (sections, None);
        }
        if !is_onward {
            return (sections, Some(damaged(format!("the section at byte {at} leads to byte {next}, not onwards"))));
        }
        at = next;
    }
    (sections, Some(damaged(format!("it has more than {SECTIONS_MAX} sections"))))
}
