//! The header of dynamic and differencing images. There is one copy of it.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 8 | `cxsparse` |
//! | 16 | 8 | where the table of blocks is |
//! | 28 | 4 | entries of the table |
//! | 32 | 4 | bytes of a block |
//! | 36 | 4 | checksum |
//! | 40 | 16 | UUID of the parent |
//! | 64 | 512 | name of the parent, UTF-16 |
//! | 576 | 8 × 24 | locators of the parent: platform (4), space (4), length (4), reserved (4), where its text is (8) |

use super::footer::Footer;
use super::{ImageFile, be_u32, be_u64, checksum, unusable, uuid};
use crate::media::{MediaError, NoteKind, Notes};
use std::ops::Range;

const HEADER_BYTES: usize = 1024;
const CHECKSUM_AT: usize = 36;
const NAME: Range<usize> = 64..576;
const LOCATORS: Range<usize> = 576..768;
const LOCATOR_BYTES: usize = 24;

/// Where a name of the parent is, and for which platform.
#[derive(Clone, Debug)]
pub(super) struct Locator {
    pub(super) platform: [u8; 4],
    pub(super) length: u64,
    pub(super) start: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Header {
    /// Where this header is.
    pub(super) start: u64,
    pub(super) table_start: u64,
    pub(super) blocks: u64,
    pub(super) block_bytes: u64,
    pub(super) parent_uuid: [u8; 16],
    pub(super) parent_name: String,
    pub(super) locators: Vec<Locator>,
}

impl Header {
    pub(super) const BYTES: u64 = HEADER_BYTES as u64;

    pub(super) fn read(file: &ImageFile, footer: &Footer, notes: &Notes) -> Result<Self, MediaError> {
        let bad = |why: &str| unusable(&file.path, format!("no usable VHD header: {why}"));
        let mut bytes = [0; HEADER_BYTES];
        file.bytes.read_at(&mut bytes, footer.header_start).map_err(|error| bad(&error.to_string()))?;
        if !bytes.starts_with(b"cxsparse") {
            return Err(bad("it does not begin with cxsparse"));
        }
        if be_u32(&bytes, CHECKSUM_AT) != checksum(&bytes, CHECKSUM_AT) {
            // There is no other copy. What a wrong number would give, the checksums of the pool do not let pass.
            let message = "the checksum of its header is wrong; the header is used as far as it is possible";
            notes.add(NoteKind::ImageDamaged, &file.path, message);
        }
        let locator = |bytes: &[u8]| Locator {
            platform: bytes.first_chunk().copied().unwrap_or_default(),
            length: be_u32(bytes, 8).into(),
            start: be_u64(bytes, 16),
        };
        let name = bytes.get(NAME).unwrap_or_default();
        let header = Self {
            start: footer.header_start,
            table_start: be_u64(&bytes, 16),
            blocks: be_u32(&bytes, 28).into(),
            block_bytes: be_u32(&bytes, 32).into(),
            parent_uuid: uuid(&bytes, 40),
            parent_name: utf16(name.chunks_exact(2).map(be_u16)),
            locators: bytes.get(LOCATORS).unwrap_or_default().chunks_exact(LOCATOR_BYTES).map(locator).collect(),
        };
        if !header.block_bytes.is_power_of_two() || header.block_bytes < 512 {
            return Err(bad("the size of a block is impossible"));
        }
        if !header.table_start.is_multiple_of(4) || header.table_start >= file.bytes.size_bytes() {
            return Err(bad("the place of the table of blocks is impossible"));
        }
        Ok(header)
    }
}

fn be_u16(pair: &[u8]) -> u16 {
    pair.first_chunk().map_or(0, |pair| u16::from_be_bytes(*pair))
}

/// The text of these units, up to the first zero.
pub(super) fn utf16(units: impl Iterator<Item = u16>) -> String {
    char::decode_utf16(units.take_while(|&unit| unit != 0)).map(|unit| unit.unwrap_or('\u{fffd}')).collect()
}
