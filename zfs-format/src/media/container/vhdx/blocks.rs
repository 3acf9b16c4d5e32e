//! The table of blocks: for each block of the disk its state and place, and after each chunk of blocks the place of the
//! bitmap of its sectors.
//!
//! An entry has the state in bits 0 to 2, and the place in the file, in MiB, in bits 20 to 63. A bitmap has 1 MiB, a bit for
//! each sector of a chunk, the least significant bit first.

use super::bitmap::{self, Bitmaps, Order};
use super::{Header, MIB, Metadata, Regions};
use crate::media::container::image::{ImagePart, Layout, Place, Run};
use crate::media::container::{Table, bad_table};
use crate::media::{MediaError, NoteKind, Notes};
use std::ops::Range;

/// Sectors that a bitmap has bits for.
const CHUNK_SECTORS: u64 = 1 << 23;
/// State of a bitmap that is there.
const BITMAP_PRESENT: u64 = 6;

#[derive(Debug)]
pub(super) struct Blocks {
    table: Table,
    bitmaps: Bitmaps,
    table_range: Range<u64>,
    /// What no block can lie over: headers, tables, log.
    taken: [Range<u64>; 4],
    block_bytes: u64,
    sector_bytes: u64,
    chunk_blocks: u64,
    has_parent: bool,
}

impl Blocks {
    pub(super) fn new(metadata: &Metadata, regions: &Regions, header: &Header) -> Self {
        let &Metadata { block_bytes, sector_bytes, has_parent, .. } = metadata;
        let log = header.log_start..header.log_start.saturating_add(header.log_bytes);
        Self {
            table: Table::default(),
            bitmaps: Bitmaps::default(),
            table_range: regions.blocks.clone(),
            taken: [0..MIB, regions.blocks.clone(), regions.metadata.clone(), log],
            block_bytes,
            sector_bytes,
            chunk_blocks: (CHUNK_SECTORS.saturating_mul(sector_bytes) / block_bytes).max(1),
            has_parent,
        }
    }

    /// The state and place that the entry number `index` tells, or a run of `length` bytes that cannot be read.
    fn entry(
        &self,
        index: u64,
        length: u64,
        file: &ImagePart,
        notes: &Notes,
    ) -> Result<Result<(u64, u64), Run>, MediaError> {
        let at = self.table_range.start.saturating_add(index.saturating_mul(8));
        if at.saturating_add(8) > self.table_range.end {
            notes.add(NoteKind::ImageDamaged, &file.path, "its table of blocks is too short for the disk");
            return Ok(Err(Run::bad(length, "the table of blocks is too short")));
        }
        match self.table.entry::<8>(&*file.bytes, at) {
            Ok(entry) => {
                let entry = u64::from_le_bytes(entry);
                Ok(Ok((entry & 7, (entry >> 20).saturating_mul(MIB))))
            }
            Err(error) => bad_table(error, file, notes, length, "table of blocks", at).map(Err),
        }
    }

    fn is_taken(&self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        self.taken.iter().any(|taken| start < taken.end && taken.start < end)
    }

    /// A part of a block of which the bitmap says where its sectors are.
    fn partial(&self, block: u64, within: u64, start: u64, file: &ImagePart, notes: &Notes) -> Result<Run, MediaError> {
        let length = self.block_bytes - within;
        let chunk = block / self.chunk_blocks;
        let index = chunk.saturating_mul(self.chunk_blocks.saturating_add(1)).saturating_add(self.chunk_blocks);
        let (state, bitmap) = match self.entry(index, length, file, notes)? {
            Ok(found) => found,
            Err(run) => return Ok(run),
        };
        if state != BITMAP_PRESENT || self.is_taken(bitmap, MIB) {
            let message = format!("block {block} needs the bitmap of its sectors, which entry {index} does not have");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
            return Ok(Run::bad(length, "the bitmap of the block's sectors is missing"));
        }
        let bytes = self.block_bytes / self.sector_bytes / 8;
        let at = bitmap.saturating_add((block % self.chunk_blocks).saturating_mul(bytes));
        let bits = match self.bitmaps.read(&*file.bytes, at, bytes) {
            Ok(bits) => bits,
            Err(error) => return bad_table(error, file, notes, length, "bitmap of a block", at),
        };
        let (is_here, sectors) = bitmap::run(&bits, Order::LowFirst, within / self.sector_bytes);
        let run_bytes = sectors.saturating_mul(self.sector_bytes).saturating_sub(within % self.sector_bytes);
        let stored = Place::Stored { file: 0, offset: start.saturating_add(within) };
        Ok(Run { length: length.min(run_bytes), place: if is_here { stored } else { Place::Parent } })
    }
}

impl Layout for Blocks {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let (block, within) = (offset / self.block_bytes, offset % self.block_bytes);
        let length = self.block_bytes - within;
        let Some(file) = files.first() else { return Ok(Run::bad(length, "no file")) };
        // Behind the blocks of each chunk comes the entry of its bitmap.
        let index = block.saturating_add(block / self.chunk_blocks);
        let (state, start) = match self.entry(index, length, file, notes)? {
            Ok(found) => found,
            Err(run) => return Ok(run),
        };
        let bad = |what: &str| {
            let message = format!("entry {index} of the table of blocks {what}");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
            Ok(Run::bad(length, "an impossible entry of the table of blocks"))
        };
        let place = match state {
            // Not present.
            0 => Place::Parent,
            // Undefined, unmapped: given back, so the parent's bytes do not count.
            1 | 3 => {
                if self.has_parent {
                    Place::Zero
                } else {
                    Place::Parent
                }
            }
            2 => Place::Zero,
            6 | 7 if self.is_taken(start, self.block_bytes) => {
                return bad(&format!("points into the tables (byte {start})"));
            }
            6 => Place::Stored { file: 0, offset: start.saturating_add(within) },
            7 if self.has_parent => return self.partial(block, within, start, file, notes),
            7 => return bad("is partial in an image without a parent"),
            _ => return bad(&format!("has the unknown state {state}")),
        };
        Ok(Run { length, place })
    }
}
