//! VDI, the disk image of VirtualBox: one table of blocks, usually of 1 MiB each.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 64 | 4 | magic 0xbeda107f |
//! | 68 | 4 | version, 1.1 |
//! | 76 | 4 | type: 1 dynamic, 2 static, 4 differencing |
//! | 340, 344 | 4 each | where the table and the blocks begin |
//! | 368 | 8 | size of the disk |
//! | 376, 380, 384 | 4 each | bytes of a block, bytes before each block, number of blocks |
//! | 392, 424 | 16 each | UUID of this image, UUID of its parent |
//!
//! All numbers are little endian. An entry of the table is the number of a block, or one of two marks. A parent is named by
//! its UUID only, so it is looked for among the images of the same folder.
//!
//! Source: VirtualBox src/VBox/Storage/VDICore.h, `VDIHEADER1PLUS`; QEMU block/vdi.c.

use super::image::{Image, ImagePart, Layout, Place, Run};
use super::{Chain, ImageFile, Table, le_u32, le_u64, unusable};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use std::sync::Arc;

const HEADER_BYTES: usize = 512;
const MAGIC: u32 = 0xbeda_107f;
/// Block was never written.
const FREE: u32 = u32::MAX;
/// Block was given back: zeros.
const DISCARDED: u32 = u32::MAX - 1;
const DIFFERENCING: u32 = 4;

/// Whether `file` begins like a VDI image.
pub(super) fn is(file: &dyn ReadAt) -> bool {
    let mut magic = [0; 4];
    file.read_at(&mut magic, 64).is_ok() && u32::from_le_bytes(magic) == MAGIC
}

/// Opens the disk of a VDI image.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let header = Header::read(file)?;
    let parent = match header.kind {
        DIFFERENCING => Some(open_parent(file, &header, chain)?),
        _ => None,
    };
    let size = header.disk_bytes;
    let layout = Box::new(Blocks { header, table: Table::default() });
    Ok(Arc::new(Image::new(size, layout, vec![ImagePart::from(file)], parent)))
}

fn open_parent(file: &ImageFile, header: &Header, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    for candidate in chain.siblings(&file.path, "vdi") {
        let is_parent = Header::read(&candidate).is_ok_and(|found| found.uuid == header.parent_uuid);
        if is_parent {
            let name = candidate.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (parent, chain) = chain.open_parent(&file.path, &name)?;
            return super::open_or_raw(&parent, &chain);
        }
    }
    Err(unusable(&file.path, "it holds only what was written since a snapshot, and no image beside it is its parent"))
}

#[derive(Clone, Debug)]
struct Header {
    kind: u32,
    table_start: u64,
    data_start: u64,
    disk_bytes: u64,
    block_bytes: u64,
    extra_bytes: u64,
    blocks: u64,
    uuid: [u8; 16],
    parent_uuid: [u8; 16],
}

impl Header {
    fn read(file: &ImageFile) -> Result<Self, MediaError> {
        let bad = |why: &str| unusable(&file.path, format!("no usable VDI header: {why}"));
        let mut bytes = [0; HEADER_BYTES];
        file.bytes.read_at(&mut bytes, 0).map_err(|error| bad(&error.to_string()))?;
        let u32_at = |offset| le_u32(&bytes, offset);
        if u32_at(64) != MAGIC {
            return Err(bad("the magic number is missing"));
        }
        if u32_at(68) >> 16 != 1 {
            return Err(bad("its version is not 1"));
        }
        let uuid = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()).copied().unwrap_or_default();
        let header = Self {
            kind: u32_at(76),
            table_start: u32_at(340).into(),
            data_start: u32_at(344).into(),
            disk_bytes: le_u64(&bytes, 368),
            block_bytes: u32_at(376).into(),
            extra_bytes: u32_at(380).into(),
            blocks: u32_at(384).into(),
            uuid: uuid(392),
            parent_uuid: uuid(424),
        };
        if !matches!(header.kind, 1 | 2 | DIFFERENCING) {
            return Err(bad("its type is none of dynamic, static, differencing"));
        }
        if !header.block_bytes.is_power_of_two() || header.block_bytes < 512 || !header.table_start.is_multiple_of(4) {
            return Err(bad("the size of a block or the place of the table is impossible"));
        }
        if header.disk_bytes > header.blocks.saturating_mul(header.block_bytes) {
            return Err(bad("the disk is larger than all blocks of the table"));
        }
        Ok(header)
    }
}

#[derive(Debug)]
struct Blocks {
    header: Header,
    table: Table,
}

impl Layout for Blocks {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let header = &self.header;
        let (block, within) = (offset / header.block_bytes, offset % header.block_bytes);
        let length = header.block_bytes - within;
        let Some(file) = files.first() else { return Ok(Run::bad(length, "no file")) };
        let at = header.table_start.saturating_add(block.saturating_mul(4));
        let entry = match self.table.entry::<4>(&*file.bytes, at) {
            Ok(entry) => u32::from_le_bytes(entry),
            Err(error) => return super::bad_table(error, file, notes, length, "table of blocks", at),
        };
        let place = match entry {
            FREE => Place::Parent,
            DISCARDED => Place::Zero,
            _ if u64::from(entry) >= header.blocks => {
                let message = format!("the table of blocks names block {entry} of {} (entry {block})", header.blocks);
                notes.add(NoteKind::ImageDamaged, &file.path, message);
                return Ok(Run::bad(length, "an impossible entry of the table of blocks"));
            }
            _ => {
                let stored = u64::from(entry).saturating_mul(header.block_bytes.saturating_add(header.extra_bytes));
                let start = header.data_start.saturating_add(stored).saturating_add(header.extra_bytes);
                Place::Stored { file: 0, offset: start.saturating_add(within) }
            }
        };
        Ok(Run { length, place })
    }
}

#[cfg(test)]
mod tests;
