//! Ranges of devices read ahead in long requests, for blocks that are verified one by one.
//!
//! The cells of a run of blocks on raidz lie side by side on each child, and so do indirect blocks that were written
//! together. [`Windows::load`] reads each such run with one request for each device; a
//! [`BlockReader`](super::BlockReader) that [has windows](super::BlockReader::with_windows) finds the bytes there. What no
//! window holds is read from the device, so a request that failed costs nothing but time.

use crate::media::{ALIGN_BYTES, AlignedBuffer, whole_sectors};
use crate::ondisk::blkptr::Blkptr;
use crate::vdev::{LeafId, Place, Side, VdevTree};

/// A range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    leaf: LeafId,
    start_bytes: u64,
    end_bytes: u64,
}

/// A range that was read, and where its bytes are.
#[derive(Clone, Copy, Debug)]
struct Window {
    range: Range,
    at: usize,
}

/// Ranges that were read ahead; reused from run to run.
#[derive(Debug, Default)]
pub struct Windows {
    ranges: Vec<Range>,
    /// By device, then offset; they do not overlap.
    windows: Vec<Window>,
    bytes: AlignedBuffer,
}

/// What [`Windows::load`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Requests that were made, or are left to whoever needs one range alone.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Bytes among them that no block asked for: gaps that were read through.
    pub skipped_bytes: u64,
}

impl Windows {
    /// Forgets what was read, and keeps the memory.
    pub fn clear(&mut self) {
        self.windows.clear();
    }

    /// Reads what the copies of `blocks` need, those of gangs excepted: neighbours with one request, and through gaps
    /// of up to `gap_bytes_max`. At most `bytes_max` are read; what does not fit is left to be read block by block.
    pub fn load(
        &mut self,
        tree: &VdevTree,
        blocks: impl Iterator<Item = Blkptr>,
        gap_bytes_max: u64,
        bytes_max: usize,
    ) -> Loaded {
        self.windows.clear();
        self.ranges.clear();
        for bp in blocks {
            add_ranges(tree, &bp, &mut self.ranges);
        }
        self.ranges.sort_unstable();
        let mut loaded = Loaded::default();
        // Memory that is never touched costs nothing.
        self.bytes.reserve(bytes_max);
        let mut used = 0;
        let mut rest = self.ranges.as_slice();
        while let Some(&first) = rest.first() {
            let mut joined = first;
            let mut skipped = 0_u64;
            let mut count = 0;
            for next in rest {
                let gap = next.start_bytes.saturating_sub(joined.end_bytes);
                if next.leaf != joined.leaf || gap > gap_bytes_max {
                    break;
                }
                skipped = skipped.saturating_add(gap);
                joined.end_bytes = joined.end_bytes.max(next.end_bytes);
                count += 1;
            }
            rest = rest.get(count..).unwrap_or_default();
            let length = usize::try_from(joined.end_bytes - joined.start_bytes).unwrap_or(usize::MAX);
            // A range alone is read as well by whoever needs it.
            if count < 2 || length.saturating_add(ALIGN_BYTES) > bytes_max.saturating_sub(used) {
                loaded.requests += count as u64;
                loaded.bytes = loaded.bytes.saturating_add(length as u64 - skipped);
                continue;
            }
            let Some(medium) = tree.leaf(joined.leaf).and_then(|leaf| leaf.medium.as_ref()) else { continue };
            let asked = length as u64;
            let length = whole_sectors(medium.as_ref(), joined.start_bytes, length);
            let Some(target) = self.bytes.bytes_mut().get_mut(used..used + length) else { continue };
            loaded.requests += 1;
            if medium.read_extent(target, joined.start_bytes).is_err() {
                loaded.failed += 1;
            } else {
                loaded.bytes = loaded.bytes.saturating_add(asked);
                loaded.skipped_bytes = loaded.skipped_bytes.saturating_add(skipped);
                self.windows.push(Window { range: joined, at: used });
                used += length.next_multiple_of(ALIGN_BYTES);
            }
        }
        loaded
    }

    /// The bytes of a range, when a window holds all of it.
    pub(super) fn get(&self, leaf: LeafId, offset: u64, length: usize) -> Option<&[u8]> {
        let after = self.windows.partition_point(|w| (w.range.leaf, w.range.start_bytes) <= (leaf, offset));
        let window = self.windows.get(after.checked_sub(1)?)?;
        if window.range.leaf != leaf || offset.checked_add(length as u64)? > window.range.end_bytes {
            return None;
        }
        let at = window.at.checked_add(usize::try_from(offset - window.range.start_bytes).ok()?)?;
        self.bytes.bytes().get(at..at.checked_add(length)?)
    }
}

/// Adds all that the copies of a block occupy on devices that were given.
fn add_ranges(tree: &VdevTree, bp: &Blkptr, ranges: &mut Vec<Range>) {
    let mut add = |leaf: LeafId, start_bytes: u64, length: u64| {
        if let Some(end_bytes) = start_bytes.checked_add(length).filter(|_| length > 0 && tree.is_given(leaf)) {
            ranges.push(Range { leaf, start_bytes, end_bytes });
        }
    };
    // What a gang's address leads to is known only when it was read.
    for (_, dva) in bp.dvas().filter(|(_, dva)| !dva.is_gang) {
        let size = bp.psize_bytes();
        for side in tree.sides(&dva, size, bp.physical_birth_txg()) {
            match side {
                Side::Whole { place: Place::Leaf { leaf, device_offset_bytes }, .. } => {
                    add(leaf, device_offset_bytes, size);
                }
                Side::Whole { .. } => {}
                Side::Striped { vdev, stripes } => {
                    for cell in stripes.iter().flat_map(|stripe| stripe.parity.iter().chain(&stripe.data)) {
                        let mut add_cell = |leaf| add(leaf, cell.device_offset_bytes, cell.length_bytes as u64);
                        match vdev.only_leaf(cell) {
                            Some(leaf) => add_cell(leaf),
                            None => vdev.sources(tree, cell).iter().for_each(|source| add_cell(source.leaf)),
                        }
                    }
                }
                Side::Split(segments) => {
                    for segment in &segments {
                        for place in &segment.places {
                            if let Place::Leaf { leaf, device_offset_bytes } = *place {
                                add(leaf, device_offset_bytes, segment.length_bytes as u64);
                            }
                        }
                    }
                }
            }
        }
    }
}
