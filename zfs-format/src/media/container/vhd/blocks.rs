//! Where the bytes of a VHD image are.

use super::bitmap::{self, Bitmaps, Order};
use super::footer::FOOTER_BYTES;
use super::header::Header;
use crate::media::container::image::{ImagePart, Layout, Place, Run};
use crate::media::container::{Table, bad_table};
use crate::media::{MediaError, NoteKind, Notes};

const SECTOR_BYTES: u64 = 512;
/// Block was never written.
const FREE: u32 = u32::MAX;

/// The disk as it is, up to the footer.
#[derive(Debug)]
pub(super) struct Flat {
    pub(super) data_end: u64,
}

impl Layout for Flat {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        if offset < self.data_end {
            return Ok(Run { length: self.data_end - offset, place: Place::Stored { file: 0, offset } });
        }
        if let Some(file) = files.first() {
            let message = format!("its footer is at byte {}, before the end of the disk", self.data_end);
            notes.add(NoteKind::ImageTruncated, &file.path, message);
        }
        Ok(Run::bad(u64::MAX, "beyond the footer of the file"))
    }
}

/// A table of blocks with bitmaps.
#[derive(Debug)]
pub(super) struct Blocks {
    header_start: u64,
    table_start: u64,
    blocks: u64,
    block_bytes: u64,
    bitmap_bytes: u64,
    table: Table,
    bitmaps: Bitmaps,
}

impl Blocks {
    pub(super) fn new(header: &Header) -> Self {
        let &Header { start, table_start, blocks, block_bytes, .. } = header;
        let bitmap_bytes = (block_bytes / SECTOR_BYTES).div_ceil(8).next_multiple_of(SECTOR_BYTES);
        let (table, bitmaps) = (Table::default(), Bitmaps::default());
        Self { header_start: start, table_start, blocks, block_bytes, bitmap_bytes, table, bitmaps }
    }

    /// Whether a block at `start` of the file would lie over the footer's copy, the header or the table.
    fn is_taken(&self, start: u64) -> bool {
        let end = start.saturating_add(self.bitmap_bytes).saturating_add(self.block_bytes);
        let table_end = self.table_start.saturating_add(self.blocks.saturating_mul(4));
        let header = (self.header_start, self.header_start.saturating_add(Header::BYTES));
        [(0, FOOTER_BYTES), header, (self.table_start, table_end)].iter().any(|&(from, to)| start < to && from < end)
    }
}

impl Layout for Blocks {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let (block, within) = (offset / self.block_bytes, offset % self.block_bytes);
        let length = self.block_bytes - within;
        let Some(file) = files.first() else { return Ok(Run::bad(length, "no file")) };
        if block >= self.blocks {
            let message = format!("its table has {} blocks, which is less than the disk", self.blocks);
            notes.add(NoteKind::ImageDamaged, &file.path, message);
            return Ok(Run::bad(u64::MAX, "the table of blocks is too short"));
        }
        let at = self.table_start.saturating_add(block.saturating_mul(4));
        let entry = match self.table.entry::<4>(&*file.bytes, at) {
            Ok(entry) => u32::from_be_bytes(entry),
            Err(error) => return bad_table(error, file, notes, length, "table of blocks", at),
        };
        if entry == FREE {
            return Ok(Run { length, place: Place::Parent });
        }
        let start = u64::from(entry).saturating_mul(SECTOR_BYTES);
        if self.is_taken(start) {
            let message = format!("entry {block} of the table of blocks points into the tables (byte {start})");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
            return Ok(Run::bad(length, "an impossible entry of the table of blocks"));
        }
        let bits = match self.bitmaps.read(&*file.bytes, start, self.bitmap_bytes) {
            Ok(bits) => bits,
            Err(error) => return bad_table(error, file, notes, length, "bitmap of a block", start),
        };
        let (is_here, sectors) = bitmap::run(&bits, Order::HighFirst, within / SECTOR_BYTES);
        let run_bytes = sectors.saturating_mul(SECTOR_BYTES).saturating_sub(within % SECTOR_BYTES);
        let place = match is_here {
            true => Place::Stored { file: 0, offset: start.saturating_add(self.bitmap_bytes).saturating_add(within) },
            false => Place::Parent,
        };
        Ok(Run { length: length.min(run_bytes), place })
    }
}
