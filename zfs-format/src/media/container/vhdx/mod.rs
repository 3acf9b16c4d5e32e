//! VHDX, the disk image of Hyper-V: a table of blocks of 1 to 256 MiB, and a log of changes to the tables.
//!
//! | offset | content |
//! | --- | --- |
//! | 0 | `vhdxfile` |
//! | 64 KiB, 128 KiB | two headers |
//! | 192 KiB, 256 KiB | two tables of the regions: table of blocks, metadata |
//!
//! All numbers are little endian, all checksums CRC-32C. An image that was not closed has a log that must be replayed before
//! its tables can be used: that is done in memory ([`overlay::Overlay`]).
//!
//! Source: Microsoft \[MS-VHDX\] "Virtual Hard Disk v2 (VHDX) File Format".

mod blocks;
mod guid;
mod header;
mod log;
mod metadata;
mod overlay;
mod parent;
mod regions;

use super::image::{Image, ImagePart};
use super::{Chain, ImageFile, bitmap, le_u32, le_u64, unusable};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use blocks::Blocks;
use crc::{CRC_32_ISCSI, Crc, Digest};
use guid::Guid;
use header::Header;
use metadata::Metadata;
use overlay::Overlay;
use regions::Regions;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// CRC-32C.
static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Whether `file` begins like a VHDX image.
pub(super) fn is(file: &dyn ReadAt) -> bool {
    let mut magic = [0; 8];
    file.read_at(&mut magic, 0).is_ok() && magic == *b"vhdxfile"
}

/// Opens the disk of a VHDX image.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let notes = Notes::default();
    let header = Header::current(file, &notes)?;
    let file = &ImageFile { path: Arc::clone(&file.path), bytes: replayed(file, &header, &notes) };
    let regions = Regions::read(file, &notes)?;
    let metadata = Metadata::read(file, &regions.metadata)?;
    let parent = match &metadata.parent {
        Some(locator) => Some(parent::open(file, locator, chain, &notes)?),
        None if metadata.has_parent => {
            return Err(unusable(&file.path, "it is a differencing image that does not say what its parent is"));
        }
        None => None,
    };
    let layout = Box::new(Blocks::new(&metadata, &regions, &header));
    let mut image = Image::new(metadata.disk_bytes, layout, vec![ImagePart::from(file)], parent);
    image.sector = metadata.sector_bytes;
    image.notes = notes;
    Ok(Arc::new(image))
}

/// The bytes of the image as they are when its log is replayed.
fn replayed(file: &ImageFile, header: &Header, notes: &Notes) -> Arc<dyn ReadAt> {
    if header.log_guid.is_zero() {
        return Arc::clone(&file.bytes);
    }
    match log::replay(&*file.bytes, header) {
        Ok(replay) => {
            let count = replay.entries;
            let entries = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
            let message = format!("it was not closed; its log ({entries}) was replayed in memory");
            notes.add(NoteKind::ImageUnclean, &file.path, message);
            let size = file.bytes.size_bytes();
            if size < replay.flushed_bytes {
                let flushed = replay.flushed_bytes;
                let message = format!("it ends at byte {size}; when its log was written it had {flushed} bytes");
                notes.add(NoteKind::ImageTruncated, &file.path, message);
            }
            Arc::new(Overlay::new(Arc::clone(&file.bytes), replay))
        }
        Err(why) => {
            let message =
                format!("it was not closed, and its log cannot be replayed ({why}): its tables may be out of date");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
            Arc::clone(&file.bytes)
        }
    }
}

/// The checksum of a structure whose own checksum is the word at 4, taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    add_first(&mut digest, bytes);
    digest.finalize()
}

/// Adds the first bytes of a structure to its checksum.
fn add_first(digest: &mut Digest<'_, u32>, bytes: &[u8]) {
    digest.update(bytes.get(..4).unwrap_or(bytes));
    digest.update(&[0; 4]);
    digest.update(bytes.get(8..).unwrap_or_default());
}

/// As [`le_u32`].
fn le_u16(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u16::from_le_bytes(*word))
}

#[cfg(test)]
mod tests;
