//! The metadata: what the disk is like. There is one copy, without a checksum.
//!
//! The table begins with `metadata` and the number of entries (2 bytes at 10). Its entries, from 32 on, have 32 bytes: GUID
//! (16), place in the region (4), length (4), flags (4; bit 2: must be known).

use super::{Guid, ImageFile, le_u16, le_u32, le_u64, unusable};
use crate::media::MediaError;
use std::ops::Range;

const TABLE_BYTES: usize = 64 << 10;
const ENTRY_BYTES: usize = 32;
/// Items of one file are small; a locator of the parent holds a few paths.
const ITEM_BYTES_MAX: u64 = 1 << 20;
const MUST_BE_KNOWN: u32 = 4;
const HAS_PARENT: u32 = 2;
const DISK_BYTES_MAX: u64 = 64 << 40;

const PARAMETERS: Guid = Guid::new(0xCAA1_6737, 0xFA36, 0x4D43, 0xB3B6_33F0_AA44_E76B);
const DISK_SIZE: Guid = Guid::new(0x2FA5_4224, 0xCD1B, 0x4876, 0xB211_5DBE_D83B_F4B8);
const DISK_ID: Guid = Guid::new(0xBECA_12AB, 0xB2E6, 0x4523, 0x93EF_C309_E000_C746);
const LOGICAL_SECTOR: Guid = Guid::new(0x8141_BF1D, 0xA96F, 0x4709, 0xBA47_F233_A8FA_AB5F);
const PHYSICAL_SECTOR: Guid = Guid::new(0xCDA3_48C7, 0x445D, 0x4471, 0x9CC9_E988_5251_C556);
const PARENT: Guid = Guid::new(0xA8D3_5F2D, 0xB30B, 0x454D, 0xABF7_D3D8_4834_AB0C);
const KNOWN: [Guid; 6] = [PARAMETERS, DISK_SIZE, DISK_ID, LOGICAL_SECTOR, PHYSICAL_SECTOR, PARENT];

#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) block_bytes: u64,
    pub(super) has_parent: bool,
    pub(super) disk_bytes: u64,
    /// Logical sectors: those that the addresses in a partition table and the bitmaps count.
    pub(super) sector_bytes: u64,
    /// What the parent is called, as stored.
    pub(super) parent: Option<Vec<u8>>,
}

impl Metadata {
    pub(super) fn read(file: &ImageFile, region: &Range<u64>) -> Result<Self, MediaError> {
        let bad = |why: String| unusable(&file.path, format!("no usable metadata of the VHDX: {why}"));
        let mut table = vec![0; TABLE_BYTES];
        file.bytes.read_at(&mut table, region.start).map_err(|error| bad(error.to_string()))?;
        if !table.starts_with(b"metadata") {
            return Err(bad("their table is damaged".to_owned()));
        }
        let entries = || table.chunks_exact(ENTRY_BYTES).skip(1).take(le_u16(&table, 10).into());
        let is_strange = |entry: &[u8]| le_u32(entry, 24) & MUST_BE_KNOWN != 0 && !KNOWN.contains(&Guid::at(entry, 0));
        if entries().any(is_strange) {
            return Err(bad("an item that must be understood is of an unknown kind".to_owned()));
        }
        let item = |guid: Guid, name: &str| {
            let Some(entry) = entries().find(|entry| Guid::at(entry, 0) == guid) else { return Ok(None) };
            let start = region.start.saturating_add(le_u32(entry, 16).into());
            let length = u64::from(le_u32(entry, 20)).min(ITEM_BYTES_MAX);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            let read = file.bytes.read_at(&mut bytes, start);
            read.map(|()| Some(bytes)).map_err(|error| bad(format!("the {name}: {error}")))
        };
        let needed = |guid: Guid, name: &str, length: usize| {
            let found = item(guid, name)?.filter(|bytes| bytes.len() >= length);
            found.ok_or_else(|| bad(format!("the {name} is missing")))
        };
        let parameters = needed(PARAMETERS, "block size", 8)?;
        let has_parent = le_u32(&parameters, 4) & HAS_PARENT != 0;
        let metadata = Self {
            block_bytes: le_u32(&parameters, 0).into(),
            has_parent,
            disk_bytes: le_u64(&needed(DISK_SIZE, "size of the disk", 8)?, 0),
            sector_bytes: le_u32(&needed(LOGICAL_SECTOR, "size of a sector", 4)?, 0).into(),
            parent: if has_parent { item(PARENT, "locator of the parent")? } else { None },
        };
        let is_block = metadata.block_bytes.is_power_of_two() && (1 << 20..=256 << 20).contains(&metadata.block_bytes);
        if !is_block || !matches!(metadata.sector_bytes, 512 | 4096) {
            return Err(bad("the size of a block or sector is impossible".to_owned()));
        }
        if metadata.disk_bytes > DISK_BYTES_MAX || !metadata.disk_bytes.is_multiple_of(metadata.sector_bytes) {
            return Err(bad("the size of the disk is impossible".to_owned()));
        }
        Ok(metadata)
    }
}
