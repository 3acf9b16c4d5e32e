//! Blocks waiting to be verified, in a compact form, and the order in which a disk likes to be read.
//!
//! The walk collects leaf blocks here. A full batch is sorted by device offset and cut into extents: long sequential
//! reads that cover several blocks, small gaps included. Memory is bounded by the size of a batch.

use super::Bookmark;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::vdev::{Layout, LeafId, Place, Placement, VdevTree};

/// Gaps up to this size are read through: on a disk that is cheaper than a second request.
const GAP_BYTES_MAX: u64 = 32 << 10;
/// An extent grows to about this size; a single block may be larger.
const EXTENT_BYTES_MAX: u64 = 1 << 20;

/// A block to verify, and where it belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) bp: Blkptr,
    pub(super) bookmark: Bookmark,
}

/// One address of one queued block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    vdev: u32,
    pub(super) offset_bytes: u64,
    /// Index in [`Batch::blocks`].
    pub(super) block: u32,
    /// Which of the pointer's addresses.
    pub(super) copy: u8,
    /// The first address that can be read: decoding happens there.
    pub(super) is_first: bool,
}

/// One sequential read from one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) leaf: LeafId,
    /// The first device of its vdev that can be read.
    pub(super) is_first_leaf: bool,
    /// Offset in the vdev.
    pub(super) start_bytes: u64,
    pub(super) length_bytes: u64,
    /// Range in [`Batch::targets`].
    pub(super) first: usize,
    pub(super) end: usize,
}

/// What a worker takes from a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Read an extent and verify what lies in it.
    Extent(Extent),
    /// Verify a block by itself: on raidz, a gang, an address out of range, no device that could be read.
    Irregular(u32),
}

/// A sealed batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) blocks: Vec<Queued>,
    pub(super) targets: Vec<Target>,
    pub(super) tasks: Vec<Task>,
}

/// Memory one queued block takes: itself, up to three addresses, its share of the tasks.
const BLOCK_COST_BYTES: usize = size_of::<Queued>() + 3 * size_of::<Target>() + size_of::<Task>();

/// A batch being filled.
#[derive(Debug)]
pub(super) struct Queue {
    blocks: Vec<Queued>,
    blocks_max: usize,
}

impl Queue {
    /// A queue whose batches take at most about `budget_bytes`.
    pub(super) fn new(budget_bytes: u64) -> Self {
        let budget = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
        Self { blocks: Vec::new(), blocks_max: (budget / BLOCK_COST_BYTES).clamp(64, u32::MAX as usize) }
    }

    pub(super) fn push(&mut self, block: Queued) {
        self.blocks.push(block);
    }

    pub(super) fn is_full(&self) -> bool {
        self.blocks.len() >= self.blocks_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Hands over what was collected, sorted and cut into tasks. `on_missing` hears of each copy that lies on a device
    /// which was not given, with its size.
    pub(super) fn seal(&mut self, tree: &VdevTree, on_missing: &mut dyn FnMut(LeafId, u64)) -> Batch {
        let blocks = std::mem::take(&mut self.blocks);
        let mut targets = Vec::with_capacity(blocks.len());
        let mut tasks = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            if push_targets(tree, index, &block.bp, &mut targets) {
                tell_missing(tree, &block.bp, on_missing);
            } else {
                tasks.push(Task::Irregular(index));
            }
        }
        // The head of a disk should move forward for these too.
        tasks.sort_by_cached_key(|task| match task {
            Task::Irregular(index) => blocks.get(*index as usize).and_then(|block| block.bp.dva(0)),
            Task::Extent(_) => None,
        });
        targets.sort_unstable();
        cut(tree, &blocks, &targets, &mut tasks);
        Batch { blocks, targets, tasks }
    }
}

/// Adds the addresses of a block; false when it has to be verified by itself.
fn push_targets(tree: &VdevTree, block: u32, bp: &Blkptr, targets: &mut Vec<Target>) -> bool {
    let before = targets.len();
    for (copy, dva) in bp.dvas() {
        let is_regular = !dva.is_gang
            && match tree.placement(&dva, bp.psize_bytes(), bp.physical_birth_txg()) {
                Placement::Sides(places) => places.iter().all(|place| matches!(place, Place::Leaf { .. })),
                Placement::Stripes { .. } => false,
            };
        if !is_regular {
            targets.truncate(before);
            return false;
        }
        if first_readable(tree, dva.vdev).is_some() {
            let is_first = targets.len() == before;
            let copy = u8::try_from(copy).unwrap_or(u8::MAX);
            targets.push(Target { vdev: dva.vdev, offset_bytes: dva.offset_bytes, block, copy, is_first });
        }
    }
    targets.len() > before
}

/// Names the copies of a block that lie on devices which were not given.
fn tell_missing(tree: &VdevTree, bp: &Blkptr, on_missing: &mut dyn FnMut(LeafId, u64)) {
    for (_, dva) in bp.dvas() {
        for &leaf in leaves(tree, dva.vdev).iter().filter(|&&leaf| !is_readable(tree, leaf)) {
            on_missing(leaf, bp.psize_bytes());
        }
    }
}

/// The devices of a top-level vdev.
fn leaves(tree: &VdevTree, vdev: u32) -> &[LeafId] {
    match tree.tops.get(vdev as usize).and_then(Option::as_ref).map(|top| &top.layout) {
        Some(Layout::Copies(leaves)) => leaves,
        _ => &[],
    }
}

fn is_readable(tree: &VdevTree, leaf: LeafId) -> bool {
    tree.leaf(leaf).is_some_and(|leaf| leaf.medium.is_some())
}

fn first_readable(tree: &VdevTree, vdev: u32) -> Option<LeafId> {
    leaves(tree, vdev).iter().copied().find(|&leaf| is_readable(tree, leaf))
}

/// Joins neighbours into extents, one for each device that holds them.
fn cut(tree: &VdevTree, blocks: &[Queued], targets: &[Target], tasks: &mut Vec<Task>) {
    let size = |target: &Target| blocks.get(target.block as usize).map_or(0, |block| block.bp.psize_bytes());
    let mut first = 0;
    while let Some(head) = targets.get(first) {
        let start = head.offset_bytes;
        let mut reach = start.saturating_add(size(head));
        let mut end = first + 1;
        while let Some(next) = targets.get(end) {
            let next_reach = reach.max(next.offset_bytes.saturating_add(size(next)));
            let is_near = next.vdev == head.vdev && next.offset_bytes <= reach.saturating_add(GAP_BYTES_MAX);
            if !is_near || next_reach - start > EXTENT_BYTES_MAX {
                break;
            }
            reach = next_reach;
            end += 1;
        }
        let first_leaf = first_readable(tree, head.vdev);
        for &leaf in leaves(tree, head.vdev).iter().filter(|&&leaf| is_readable(tree, leaf)) {
            tasks.push(Task::Extent(Extent {
                leaf,
                is_first_leaf: Some(leaf) == first_leaf,
                start_bytes: start,
                length_bytes: reach - start,
                first,
                end,
            }));
        }
        first = end;
    }
}
