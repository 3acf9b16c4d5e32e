//! Space that the newest state of the pool has freed and its checkpoint still holds.
//!
//! A block of the checkpoint outside of it is in use by the newest state too, with everything below it, as blocks never
//! change: the walk of the newest state has verified it.

use std::ops::ControlFlow;
use zfs_format::block::Work;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::pool::Mos;

/// A range of a top-level vdev: vdev, start, end.
type Range = (u32, u64, u64);

/// The space, or all of it where the list does not fit the budget or cannot be read: then shared blocks are verified
/// twice, which takes time and is not wrong.
#[derive(Debug, Default)]
pub(super) struct SparedSpace {
    ranges: Vec<Range>,
    ranges_max: usize,
    is_all: bool,
}

impl SparedSpace {
    /// Reads the list of what was freed since the checkpoint; `mos` is that of the newest state.
    pub(super) fn load(mos: &mut Mos<'_>, budget_bytes: u64, work: &mut Work) -> Self {
        let ranges_max = usize::try_from(budget_bytes).unwrap_or(usize::MAX) / size_of::<Range>();
        let mut spared = Self { ranges_max, ..Self::default() };
        let read = mos.checkpointed_ranges(work, &mut |vdev, start, length| {
            spared.add(vdev, start, length);
            if spared.is_all { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        spared.is_all |= read.is_err();
        spared
    }

    fn add(&mut self, vdev: u32, start: u64, length: u64) {
        if self.ranges.len() >= self.ranges_max {
            self.is_all = true;
            self.ranges = Vec::new();
        }
        if !self.is_all {
            self.ranges.push((vdev, start, start.saturating_add(length)));
        }
    }

    /// Adds a block that the newest state does not reach any more, though its space is not free yet.
    pub(super) fn add_block(&mut self, bp: &Blkptr) {
        for (_, dva) in bp.dvas() {
            self.add(dva.vdev, dva.offset_bytes, dva.asize_bytes);
        }
    }

    /// Sorts and joins; before that nothing is found.
    pub(super) fn seal(&mut self) {
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, last| {
            let joins = next.0 == last.0 && next.1 <= last.2;
            if joins {
                last.2 = last.2.max(next.2);
            }
            joins
        });
    }

    /// Whether a block lies there.
    pub(super) fn holds(&self, bp: &Blkptr) -> bool {
        let is_there = |vdev: u32, at: u64| {
            let after = self.ranges.partition_point(|range| (range.0, range.1) <= (vdev, at));
            let range = after.checked_sub(1).and_then(|index| self.ranges.get(index));
            range.is_some_and(|range| range.0 == vdev && at < range.2)
        };
        self.is_all || bp.dvas().any(|(_, dva)| is_there(dva.vdev, dva.offset_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(vdev: u64, sector: u64) -> Blkptr {
        let mut words = [0; 16];
        (words[0], words[1], words[10]) = (vdev << 32 | 2, sector, 9);
        Blkptr::from_words(words)
    }

    fn spared(ranges_max: usize) -> SparedSpace {
        let mut spared = SparedSpace { ranges_max, ..SparedSpace::default() };
        spared.add(1, 1024, 1024);
        spared.add(0, 512, 512);
        spared.add(1, 2048, 512);
        spared.add_block(&pointer(1, 100));
        spared.seal();
        spared
    }

    #[test]
    fn blocks_are_found_by_vdev_and_offset() {
        let spared = spared(10);
        assert_eq!(spared.ranges.len(), 3);
        for (vdev, sector, wanted) in
            [(0, 1, true), (0, 2, false), (1, 1, false), (1, 2, true), (1, 4, true), (1, 5, false), (1, 101, true)]
        {
            assert_eq!(spared.holds(&pointer(vdev, sector)), wanted, "{vdev}:{sector}");
        }
    }

    #[test]
    fn a_list_that_does_not_fit_stands_for_all_space() {
        let spared = spared(2);
        assert!(spared.ranges.is_empty() && spared.holds(&pointer(7, 7)));
    }
}
