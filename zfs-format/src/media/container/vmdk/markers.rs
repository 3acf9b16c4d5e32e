//! Compressed grains that follow each other in a stream, each with a marker before it. When the directory at the end of such a
//! file is lost, as by an export that was cut short, the markers still lead to all grains that arrived.

use super::super::image::{ImagePart, Place, Run};
use super::super::unpack::Codec;
use crate::media::{MediaError, NoteKind, Notes, ReadAt, SECTOR_BYTES};

const HEADER_BYTES: u64 = 12;
/// Compressed grains are not much larger than grains, and these have at most 16 MiB.
const PACKED_BYTES_MAX: u64 = 32 << 20;
/// A directory of 64 TiB has fewer.
const TABLE_SECTORS_MAX: u64 = 1 << 20;
/// Sectors that are looked at for where the stream goes on, 2 GiB in all.
const SKIPPED_SECTORS_MAX: u64 = 1 << 22;

/// The marker of a compressed grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrainMarker {
    /// Sector of the extent at which the grain begins.
    pub(super) sector: u64,
    /// Byte of the file at which the compressed bytes begin.
    pub(super) data: u64,
    /// Their number.
    pub(super) bytes: u64,
}

/// The marker at byte `at` of `file`, if it is one of a grain.
///
/// # Errors
/// What reading gives.
pub(super) fn grain_at(file: &dyn ReadAt, at: u64) -> Result<Option<GrainMarker>, MediaError> {
    let mut bytes = [0; 12];
    file.read_at(&mut bytes, at)?;
    let [sector @ .., a, b, c, d] = bytes;
    let (sector, length) = (u64::from_le_bytes(sector), u64::from(u32::from_le_bytes([a, b, c, d])));
    let marker = GrainMarker { sector, data: at.saturating_add(HEADER_BYTES), bytes: length };
    Ok((length > 0 && length <= PACKED_BYTES_MAX).then_some(marker))
}

/// Grains that were found by walking from marker to marker.
#[derive(Debug)]
pub(super) struct Walk {
    file: usize,
    disk_bytes: u64,
    grain_bytes: u64,
    found: Vec<Found>,
}

/// A grain that was found; they are in order.
#[derive(Debug)]
struct Found {
    grain: u64,
    at: u64,
    /// Something was between it and the one before that is no grain: some may be lost.
    is_after_gap: bool,
}

impl Walk {
    /// Walks over the grains of `file`, which has the index `number`. It takes a few bytes of memory for each.
    ///
    /// # Errors
    /// What reading gives.
    pub(super) fn new(file: &ImagePart, number: usize, disk_bytes: u64, grain_bytes: u64) -> Result<Self, MediaError> {
        let size = file.bytes.size_bytes();
        let mut found: Vec<Found> = Vec::new();
        let (mut is_after_gap, mut skipped) = (false, 0_u64);
        // The first sector is the header.
        let mut at = SECTOR_BYTES;
        while at.saturating_add(HEADER_BYTES) <= size && skipped < SKIPPED_SECTORS_MAX {
            let last = found.last().map(|found| found.grain);
            let marker = grain_at(&*file.bytes, at)?.filter(|marker| is_grain(marker, disk_bytes, grain_bytes, last));
            if let Some(marker) = marker {
                let end = marker.data.saturating_add(marker.bytes);
                if end <= size {
                    let grain = marker.sector.saturating_mul(SECTOR_BYTES) / grain_bytes;
                    found.push(Found { grain, at, is_after_gap });
                    is_after_gap = false;
                }
                at = end.div_ceil(SECTOR_BYTES).saturating_mul(SECTOR_BYTES);
            } else if let Some(end) = table_end(&*file.bytes, at) {
                at = end;
            } else {
                // The descriptor or padding, and what is damaged.
                is_after_gap = !found.is_empty();
                skipped = skipped.saturating_add(1);
                at = at.saturating_add(SECTOR_BYTES);
            }
        }
        Ok(Self { file: number, disk_bytes, grain_bytes, found })
    }

    /// Whether any grain was found.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The run at byte `within` of the extent.
    ///
    /// # Errors
    /// As those of a layout.
    pub(super) fn run_at(&self, within: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let Some(file) = files.get(self.file) else { return Ok(Run::bad(1, "no file")) };
        let (grain, inside) = (within / self.grain_bytes, within % self.grain_bytes);
        let next = self.found.partition_point(|found| found.grain < grain);
        let start = grain.saturating_mul(self.grain_bytes);
        let bytes = self.grain_bytes.min(self.disk_bytes.saturating_sub(start));
        let length = bytes.saturating_sub(inside).max(1);
        match self.found.get(next) {
            Some(found) if found.grain == grain => {
                let at = found.at;
                let marker = match grain_at(&*file.bytes, at) {
                    Ok(marker) => marker,
                    Err(error) => return super::super::bad_table(error, file, notes, length, "marker of a grain", at),
                };
                let Some(GrainMarker { data, bytes: packed, .. }) = marker else {
                    notes.add(NoteKind::ImageDamaged, &file.path, "it changed while it was read");
                    return Ok(Run::bad(length, "the marker of the grain is gone"));
                };
                let place = Place::Packed {
                    file: self.file,
                    offset: data,
                    length: packed,
                    cluster_start: start,
                    cluster_bytes: bytes,
                    codec: Codec::Zlib,
                };
                Ok(Run { length, place })
            }
            // Streams go upwards: what was left out was never written.
            Some(found) => {
                let left = found.grain.saturating_mul(self.grain_bytes).saturating_sub(within);
                let is_lost = found.is_after_gap;
                Ok(if is_lost {
                    Run::bad(left, "in a damaged part of a file without its end")
                } else {
                    Run { length: left, place: Place::Parent }
                })
            }
            None => {
                let rest = self.disk_bytes.saturating_sub(within).max(1);
                Ok(Run::bad(rest, "behind the last grain of a file without its end"))
            }
        }
    }
}

/// Whether a marker can be one: grains lie in order, inside of the disk.
fn is_grain(marker: &GrainMarker, disk_bytes: u64, grain_bytes: u64, last: Option<u64>) -> bool {
    let start = marker.sector.saturating_mul(SECTOR_BYTES);
    let is_next = last.is_none_or(|last| start / grain_bytes > last);
    start < disk_bytes && start.is_multiple_of(grain_bytes) && marker.bytes <= grain_bytes.saturating_mul(2) && is_next
}

/// Where the grain table or directory ends whose marker is at byte `at`.
fn table_end(file: &dyn ReadAt, at: u64) -> Option<u64> {
    let mut bytes = [0; 16];
    file.read_at(&mut bytes, at).ok()?;
    let [sectors @ .., a, b, c, d, e, f, g, h] = bytes;
    let (size, kind) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let sectors = u64::from_le_bytes(sectors);
    let is_table = size == 0 && matches!(kind, 1 | 2) && (1..=TABLE_SECTORS_MAX).contains(&sectors);
    is_table.then(|| at.saturating_add(sectors.saturating_add(1).saturating_mul(SECTOR_BYTES)))
}
