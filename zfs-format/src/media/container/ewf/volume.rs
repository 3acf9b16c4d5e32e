//! How large the disk is: the section `volume` of the first segment, repeated as `data`.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 4 | 4 | number of chunks |
//! | 8, 12 | 4 each | sectors of a chunk, bytes of a sector |
//! | 16 | 8 | number of sectors |
//! | 1048, or 90 in the short form | 4 | Adler-32 of what is before |

use super::super::{le_u32, le_u64};
use super::adler32;
use super::section::Section;
use crate::media::ReadAt;

/// Bytes of the section before its checksum, in its two forms.
const BODIES_BYTES: [usize; 2] = [1048, 90];
/// As for compressed clusters of other formats.
const CHUNK_BYTES_MAX: u64 = 16 << 20;

/// The shape of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Size of the disk.
    pub(super) disk_bytes: u64,
    /// Bytes of the disk in a chunk; the last one may have fewer.
    pub(super) chunk_bytes: u64,
    /// Its sectors.
    pub(super) sector_bytes: u64,
}

impl Volume {
    /// Reads it from `section`; `None` when that is damaged.
    pub(super) fn read(file: &dyn ReadAt, section: &Section) -> Option<Self> {
        BODIES_BYTES.iter().find_map(|&length| {
            let mut body = vec![0; length.saturating_add(4)];
            file.read_at(&mut body, section.start).ok()?;
            let covered = body.get(..length)?;
            (adler32(covered) == le_u32(&body, length)).then(|| Self::parse(covered))?
        })
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (sector_bytes, of_chunk) = (u64::from(le_u32(body, 12)), u64::from(le_u32(body, 8)));
        let chunk_bytes = of_chunk.saturating_mul(sector_bytes);
        let is_possible = sector_bytes >= 512 && (sector_bytes..=CHUNK_BYTES_MAX).contains(&chunk_bytes);
        // In the short form the number has four bytes, and those behind them are zero.
        let stated = le_u64(body, 16).checked_mul(sector_bytes)?;
        let by_chunks = u64::from(le_u32(body, 4)).saturating_mul(chunk_bytes);
        let disk_bytes = if stated > 0 { stated } else { by_chunks };
        (is_possible && disk_bytes > 0).then_some(Self { disk_bytes, chunk_bytes, sector_bytes })
    }

    /// How many chunks the disk has.
    pub(super) fn chunks(&self) -> u64 {
        self.disk_bytes.div_ceil(self.chunk_bytes)
    }
}
