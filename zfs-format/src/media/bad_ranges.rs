//! Which bytes of a device cannot be read.

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Ranges that are kept. A disk that has more of them is lost as a whole.
const RANGES_MAX: usize = 4096;

/// A range that cannot be read, and what the device said.
#[derive(Clone, Debug)]
struct Bad {
    start: u64,
    end: u64,
    source: Arc<io::Error>,
}

/// Ranges that cannot be read, in order, apart from each other.
#[derive(Clone, Debug, Default)]
pub(super) struct BadRanges {
    ranges: Vec<Bad>,
    /// There are more than are kept.
    is_cut: bool,
}

impl BadRanges {
    /// Adds a range; one that overlaps or touches others is merged with them.
    pub(super) fn add(&mut self, range: Range<u64>, source: &Arc<io::Error>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        let first = self.ranges.partition_point(|bad| bad.end < start);
        let after = self.ranges.partition_point(|bad| bad.start <= end);
        let mut source = Arc::clone(source);
        let touched = self.ranges.get(first..after).unwrap_or_default();
        if let (Some(lowest), Some(highest)) = (touched.first(), touched.last()) {
            start = start.min(lowest.start);
            end = end.max(highest.end);
            source = Arc::clone(&lowest.source);
        } else if self.ranges.len() >= RANGES_MAX {
            self.is_cut = true;
            return;
        }
        self.ranges.splice(first..after, [Bad { start, end, source }]);
    }

    /// The first part of `range` that is known to be bad.
    pub(super) fn first_in(&self, range: &Range<u64>) -> Option<(Range<u64>, Arc<io::Error>)> {
        let first = self.ranges.partition_point(|bad| bad.end <= range.start);
        let bad = self.ranges.get(first).filter(|bad| bad.start < range.end && !range.is_empty())?;
        Some((bad.start.max(range.start)..bad.end.min(range.end), Arc::clone(&bad.source)))
    }

    /// All ranges, in order.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        self.ranges.iter().map(|bad| bad.start..bad.end).collect()
    }

    /// Whether there are more ranges than are kept.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error() -> Arc<io::Error> {
        Arc::new(io::Error::other("bad"))
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut bad = BadRanges::default();
        for number in 0..RANGES_MAX as u64 {
            bad.add(number * 10..number * 10 + 1, &error());
        }
        assert!(!bad.is_cut());
        bad.add(5..6, &error());
        assert!(bad.is_cut() && bad.ranges().len() == RANGES_MAX);
        // What touches a range that is kept makes it longer.
        bad.add(1..2, &error());
        assert_eq!(bad.ranges()[0], 0..2);
    }

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(
            added in proptest::collection::vec((0..200_u64, 0..20_u64), 0..30),
            asked in (0..220_u64, 0..40_u64),
        ) {
            let mut bad = BadRanges::default();
            let mut bytes = [false; 300];
            for (start, length) in added {
                bad.add(start..start + length, &error());
                bytes[start as usize..(start + length) as usize].fill(true);
            }
            let mut listed = [false; 300];
            for range in bad.ranges() {
                prop_assert!(range.start < range.end);
                listed[range.start as usize..range.end as usize].fill(true);
            }
            prop_assert_eq!(listed, bytes);
            prop_assert!(bad.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
            let range = asked.0..asked.0 + asked.1;
            let wanted = range.clone().find(|&byte| bytes[byte as usize]);
            let found = bad.first_in(&range).map(|(found, _)| found);
            prop_assert_eq!(found.clone().map(|found| found.start), wanted);
            if let Some(found) = found {
                prop_assert!(found.end <= range.end && found.clone().all(|byte| bytes[byte as usize]));
                prop_assert!(found.end == range.end || !bytes[found.end as usize]);
            }
        }
    }
}
