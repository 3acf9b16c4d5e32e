//! The table of regions, of which there are two copies: where the table of blocks and the metadata are.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 4 | `regi` |
//! | 4 | 4 | checksum of 64 KiB |
//! | 8 | 4 | number of entries |
//! | 16 | 32 each | GUID (16), place (8), length (4), 1 if the region must be known (4) |

use super::{Guid, ImageFile, MIB, checksum, le_u32, le_u64, unusable};
use crate::media::{MediaError, NoteKind, Notes};
use std::ops::Range;

const TABLE_BYTES: usize = 64 << 10;
const PLACES: [u64; 2] = [192 << 10, 256 << 10];
const ENTRY_BYTES: usize = 32;
const ENTRIES_MAX: usize = 2047;
const BLOCKS: Guid = Guid::new(0x2DC2_7766, 0xF623, 0x4200, 0x9D64_115E_9BFD_4A08);
const METADATA: Guid = Guid::new(0x8B7C_A206, 0x4790, 0x4B9A, 0xB8FE_575F_050F_886E);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regions {
    pub(super) blocks: Range<u64>,
    pub(super) metadata: Range<u64>,
}

impl Regions {
    pub(super) fn read(file: &ImageFile, notes: &Notes) -> Result<Self, MediaError> {
        let [first, second] = PLACES.map(|at| table(file, at));
        let damaged = |message: &str| notes.add(NoteKind::ImageDamaged, &file.path, message);
        let entries = match (first, second) {
            (Some(first), Some(second)) => {
                if first != second {
                    damaged("its two tables of regions differ; the first one is used");
                }
                first
            }
            (Some(entries), None) => {
                damaged("the second table of regions is damaged; the first one is used");
                entries
            }
            (None, Some(entries)) => {
                damaged("the first table of regions is damaged; the second one is used");
                entries
            }
            (None, None) => return Err(unusable(&file.path, "both tables of the regions of the VHDX are damaged")),
        };
        let region = |guid| entries.iter().find(|entry| entry.guid == guid).map(|entry| entry.range.clone());
        if entries.iter().any(|entry| entry.is_required && ![BLOCKS, METADATA].contains(&entry.guid)) {
            return Err(unusable(&file.path, "a region of the VHDX that must be understood is of an unknown kind"));
        }
        match (region(BLOCKS), region(METADATA)) {
            (Some(blocks), Some(metadata)) => Ok(Self { blocks, metadata }),
            _ => {
                Err(unusable(&file.path, "the table of regions of the VHDX lacks the table of blocks or the metadata"))
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    guid: Guid,
    range: Range<u64>,
    is_required: bool,
}

/// The entries of the table at `at`, unless it is damaged.
fn table(file: &ImageFile, at: u64) -> Option<Vec<Entry>> {
    let mut bytes = vec![0; TABLE_BYTES];
    file.bytes.read_at(&mut bytes, at).ok()?;
    let count = usize::try_from(le_u32(&bytes, 8)).ok()?;
    if !bytes.starts_with(b"regi") || le_u32(&bytes, 4) != checksum(&bytes) || count > ENTRIES_MAX {
        return None;
    }
    let entry = |entry: &[u8]| {
        let (start, length) = (le_u64(entry, 16), u64::from(le_u32(entry, 24)));
        let is_possible = start >= MIB && start.is_multiple_of(MIB) && length.is_multiple_of(MIB);
        let range = start..start.checked_add(length)?;
        is_possible.then(|| Entry { guid: Guid::at(entry, 0), range, is_required: le_u32(entry, 28) & 1 == 1 })
    };
    bytes.get(16..)?.chunks_exact(ENTRY_BYTES).take(count).map(entry).collect()
}
