//! The two headers, of which the newer one counts.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 4 | `head` |
//! | 4 | 4 | checksum of 4 KiB |
//! | 8 | 8 | sequence number |
//! | 32 | 16 | GUID of the written data: what children know their parent by |
//! | 48 | 16 | GUID of the log; zero when there is nothing to replay |
//! | 64, 66 | 2 each | version of the log (0) and of the format (1) |
//! | 68, 72 | 4, 8 | length and place of the log |

use super::{Guid, ImageFile, MIB, checksum, le_u16, le_u32, le_u64, unusable};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};

const HEADER_BYTES: usize = 4096;
const PLACES: [u64; 2] = [64 << 10, 128 << 10];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    sequence: u64,
    pub(super) data_guid: Guid,
    pub(super) log_guid: Guid,
    pub(super) log_version: u16,
    pub(super) log_start: u64,
    pub(super) log_bytes: u64,
}

impl Header {
    /// The one that counts, of the two of `file`.
    pub(super) fn current(file: &ImageFile, notes: &Notes) -> Result<Self, MediaError> {
        let [first, second] = PLACES.map(|at| Self::read(&*file.bytes, at));
        let damaged = |which: &str, other: &str| {
            let message = format!("the {which} header is damaged; the {other} one is used");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
        };
        match (first, second) {
            (Some(first), Some(second)) => {
                if first.sequence == second.sequence && first != second {
                    let message = "its two headers have the same number, but differ; the first one is used";
                    notes.add(NoteKind::ImageDamaged, &file.path, message);
                }
                Ok(if second.sequence > first.sequence { second } else { first })
            }
            (Some(header), None) => {
                damaged("second", "first");
                Ok(header)
            }
            (None, Some(header)) => {
                damaged("first", "second");
                Ok(header)
            }
            (None, None) => Err(unusable(&file.path, "no usable VHDX header: both are damaged")),
        }
    }

    /// By what the children of the image at `file` know it.
    pub(super) fn data_guid_of(file: &ImageFile) -> Option<Guid> {
        Self::current(file, &Notes::default()).ok().map(|header| header.data_guid)
    }

    fn read(file: &dyn ReadAt, at: u64) -> Option<Self> {
        let mut bytes = vec![0; HEADER_BYTES];
        file.read_at(&mut bytes, at).ok()?;
        let is_whole = bytes.starts_with(b"head") && le_u32(&bytes, 4) == checksum(&bytes) && le_u16(&bytes, 66) == 1;
        is_whole.then(|| Self {
            sequence: le_u64(&bytes, 8),
            data_guid: Guid::at(&bytes, 32),
            log_guid: Guid::at(&bytes, 48),
            log_version: le_u16(&bytes, 64),
            log_start: le_u64(&bytes, 72),
            log_bytes: le_u32(&bytes, 68).into(),
        })
    }

    /// Why there can be no log where the header says, if so.
    pub(super) fn log_fault(&self, file: &dyn ReadAt) -> Option<&'static str> {
        let end = self.log_start.saturating_add(self.log_bytes);
        if self.log_version != 0 {
            Some("its version is unknown")
        } else if self.log_bytes == 0 || !self.log_bytes.is_multiple_of(MIB) || !self.log_start.is_multiple_of(MIB) {
            Some("its place or length is impossible")
        } else if self.log_start < MIB || end > file.size_bytes() {
            Some("it does not lie inside of the file")
        } else {
            None
        }
    }
}
