//! What could not be read when the image was made: the section `error2`. The image has zeros there.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 4 | number of entries |
//! | 516 | 4 | Adler-32 of what is before |
//! | 520 | 8 each | first sector, number of sectors |
//! | behind them | 4 | their Adler-32 |

use super::super::le_u32;
use super::adler32;
use super::section::Section;
use crate::media::ReadAt;
use std::ops::Range;

const HEADER_BYTES: usize = 520;
/// Entries that are used: 8 MiB of them.
const ENTRIES_MAX: u64 = 1 << 20;

/// Ranges of sectors, by the section's word, in order and without overlaps; `None` when that is damaged.
pub(super) fn sectors(file: &dyn ReadAt, section: &Section) -> Option<Vec<Range<u64>>> {
    let mut header = [0; HEADER_BYTES];
    file.read_at(&mut header, section.start).ok()?;
    let (covered, _) = header.split_at(516);
    let count = u64::from(le_u32(&header, 0));
    let start = section.start.checked_add(HEADER_BYTES as u64)?;
    let length = count.checked_mul(8)?;
    let is_possible = count <= ENTRIES_MAX && start.checked_add(length)? <= file.size_bytes();
    if adler32(covered) != le_u32(&header, 516) || !is_possible {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let mut entries = vec![0; length.checked_add(4)?];
    file.read_at(&mut entries, start).ok()?;
    let (entries, sum) = entries.split_at(length);
    if adler32(entries) != le_u32(sum, 0) {
        return None;
    }
    let range = |entry: &[u8]| {
        let first = u64::from(le_u32(entry, 0));
        first..first.saturating_add(le_u32(entry, 4).into())
    };
    Some(merged(entries.chunks_exact(8).map(range).collect()))
}

/// The same ranges in order, those that touch as one.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
