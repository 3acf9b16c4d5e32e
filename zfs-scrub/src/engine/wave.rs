//! A wave: blocks that lead to others, read and verified together instead of one after the other.
//!
//! The walk puts the next of them into a wave; all threads take part, neighbours on a vdev are read with one request, and
//! the walk goes on with what the blocks hold. On a disk that is a sweep instead of a seek for each; on anything else
//! many requests are in flight.

use super::batch::{GAP_BYTES_MAX, GROUP_BYTES_MAX, end_of, group_bytes_max, is_near};
use super::judge::Shared;
use super::queue::Queued;
use super::verify::{Buffers, SMALL_BYTES_MAX};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::vdev::VdevTree;

/// Blocks of a wave: enough for a disk to have a choice, and for every thread to have work.
pub(super) const BLOCKS_MAX: usize = 64;

/// Bytes that the longest buffer of a block takes.
pub(super) fn held(bp: &Blkptr) -> u64 {
    bp.lsize_bytes().max(bp.psize_bytes())
}

/// Counts a group as done; also when a thread panics, so that the walk does not wait for it.
struct Counting<'w>(&'w AtomicUsize);

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// What verifying a block gave.
type Result = Option<Vec<u8>>;

/// Blocks being verified.
#[derive(Debug)]
pub(super) struct Wave {
    blocks: Vec<Queued>,
    /// Numbers of blocks, in the order of their offsets.
    order: Vec<usize>,
    /// Ranges of `order` that are read together.
    groups: Vec<Range<usize>>,
    next: AtomicUsize,
    done: AtomicUsize,
    /// The decoded bytes of each block that is good; before that, memory to use again.
    results: Vec<Mutex<Result>>,
}

impl Wave {
    /// A wave of `blocks`. `memory` is what [`Wave::take_results`] gave before, to be used again.
    pub(super) fn new(blocks: Vec<Queued>, memory: &mut Vec<Vec<u8>>, tree: &VdevTree) -> Self {
        let dva = |&number: &usize| blocks.get(number).and_then(|block| block.bp.dva(0)).unwrap_or_default();
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_cached_key(dva);
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut reach = 0;
        for (index, number) in order.iter().enumerate() {
            let next = dva(number);
            let next_reach = end_of(&next).max(reach);
            match groups.last_mut() {
                Some(group)
                    if let Some(head) = order.get(group.start).map(dva)
                        && is_near(&head, &next, reach)
                        && next_reach - head.offset_bytes <= group_bytes_max(tree, head.vdev) =>
                {
                    group.end = index + 1;
                    reach = next_reach;
                }
                _ => {
                    groups.push(index..index + 1);
                    reach = end_of(&next);
                }
            }
        }
        let results = blocks.iter().map(|_| Mutex::new(memory.pop())).collect();
        Self { blocks, order, groups, next: AtomicUsize::new(0), done: AtomicUsize::new(0), results }
    }

    /// How many pieces of work there are.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Takes the next group and verifies it; false when none is left.
    pub(super) fn work(&self, shared: Shared<'_>, buffers: &mut Buffers) -> bool {
        let Some(group) = self.groups.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return false };
        let _counting = Counting(&self.done);
        let numbers = self.order.get(group.clone()).unwrap_or_default();
        // Large blocks get buffers of their own, which are given back.
        let is_large = |&number: &usize| self.blocks.get(number).is_some_and(|block| held(&block.bp) > SMALL_BYTES_MAX);
        let mut own = Buffers::default();
        let buffers = if numbers.iter().any(is_large) { &mut own } else { buffers };
        let Buffers { windows, work, .. } = buffers;
        let pointers = numbers.iter().filter_map(|&number| self.blocks.get(number)).map(|block| block.bp);
        let bytes_max = usize::try_from(GROUP_BYTES_MAX).unwrap_or(usize::MAX);
        shared.counters.add_loaded(&windows.load(shared.reader.tree(), pointers, GAP_BYTES_MAX, bytes_max));
        let shared = Shared { reader: shared.reader.with_windows(windows), ..shared };
        for &number in numbers {
            let (Some(block), Some(result)) = (self.blocks.get(number), self.results.get(number)) else { continue };
            let mut memory = result.lock().unwrap_or_else(PoisonError::into_inner);
            if !shared.progress.is_cancelled() && shared.check_block(&block.bp, block.bookmark, work) {
                work.swap_plain(memory.get_or_insert_default());
            } else {
                *memory = None;
            }
        }
        true
    }

    /// Whether nothing is left to take.
    pub(super) fn is_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.groups.len()
    }

    /// Whether all groups are verified.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.groups.len()
    }

    /// The decoded bytes of each block, `None` for those that have none. Only when the wave is done.
    pub(super) fn take_results(&self) -> impl Iterator<Item = Result> + '_ {
        self.results.iter().map(|result| result.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}
