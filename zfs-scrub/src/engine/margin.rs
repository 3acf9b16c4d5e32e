//! Which objects have blocks that one more failure would lose, though their vdev promises more.

use super::Bookmark;
use super::judge::place;
use crate::finding::{Finding, Kind};
use crate::outcome::FileAtRisk;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use zfs_format::block::Redundancy;
use zfs_format::ondisk::blkptr::Blkptr;

/// Collects objects from all threads: the first `max` by object set and number, whatever order they come in.
#[derive(Debug)]
pub(super) struct AtRisk {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<(u64, u64), Object>,
    /// Objects from here on were dropped.
    end: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Object {
    /// One of its blocks, to find its names by: the first.
    bp: Blkptr,
    bookmark: Bookmark,
    blocks: u64,
}

/// True when one more failure loses a block whose vdev promises more.
pub(super) fn is_at_risk(redundancy: &Redundancy) -> bool {
    redundancy.failures_to_lose() == 1 && redundancy.vdevs().any(|(_, is_full)| !is_full)
}

impl AtRisk {
    pub(super) fn new(max: usize) -> Self {
        Self { max: max.max(1), state: Mutex::new(State::default()) }
    }

    /// Counts one block.
    pub(super) fn add(&self, bp: &Blkptr, bookmark: Bookmark) {
        let key = (bookmark.objset, bookmark.object);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.end.is_some_and(|end| key >= end) {
            return;
        }
        let object = state.objects.entry(key).or_insert(Object { bp: *bp, bookmark, blocks: 0 });
        object.blocks += 1;
        if (bookmark.level, bookmark.block) < (object.bookmark.level, object.bookmark.block) {
            (object.bp, object.bookmark) = (*bp, bookmark);
        }
        if state.objects.len() > self.max
            && let Some((last, _)) = state.objects.pop_last()
        {
            state.end = Some(last);
        }
    }

    /// The objects as findings, so that they get names as findings do; each with its number of blocks. And whether
    /// there are more than these.
    pub(super) fn into_findings(self) -> (Vec<Finding>, Vec<u64>, bool) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let finding = |object: &Object| Finding {
            pointer: Some(object.bp),
            ..Finding::new(Kind::BlockChecksum, place(&object.bp, object.bookmark), "")
        };
        let findings = state.objects.values().map(finding).collect();
        (findings, state.objects.values().map(|object| object.blocks).collect(), state.end.is_some())
    }
}

/// Named findings as files, by path; objects that are no file of a dataset by their numbers.
pub(super) fn files(findings: &[Finding], blocks: &[u64]) -> Vec<FileAtRisk> {
    let mut files: Vec<FileAtRisk> = findings
        .iter()
        .zip(blocks)
        .map(|(finding, &blocks)| FileAtRisk {
            path: finding.place.name(),
            blocks,
            also_in: finding.place.also_in.clone(),
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bookmark(object: u64, block: u64) -> Bookmark {
        Bookmark { objset: 54, object, level: 0, block }
    }

    #[test]
    fn the_first_objects_are_kept_in_any_order_of_arrival() {
        let bp = Blkptr::from_words([0; 16]);
        let seen: Vec<(u64, u64)> = (0..40).map(|n| (n % 20, n / 20)).collect();
        let kept = |order: &mut dyn Iterator<Item = &(u64, u64)>| {
            let at_risk = AtRisk::new(5);
            order.for_each(|&(object, block)| at_risk.add(&bp, bookmark(object, block)));
            let (findings, blocks, is_cut) = at_risk.into_findings();
            let places: Vec<_> = findings.iter().map(|f| (f.place.object, f.place.block)).collect();
            (places, blocks, is_cut)
        };
        let expected = ((0..5).map(|n| (Some(n), Some(0))).collect::<Vec<_>>(), vec![2; 5], true);
        assert_eq!(kept(&mut seen.iter()), expected);
        assert_eq!(kept(&mut seen.iter().rev()), expected);
    }
}
