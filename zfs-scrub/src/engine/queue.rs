//! Blocks waiting to be verified, in a compact form, and the order in which a disk likes to be read.
//!
//! The walk collects leaf blocks here. A full batch is sorted by device offset and cut into extents: long sequential
//! reads that cover several blocks, small gaps included. Memory is bounded by the size of a batch.

use super::Bookmark;
use zfs_format::block::{Redundancy, Strength};
use zfs_format::ondisk::blkptr::{Blkptr, Dva};
use zfs_format::ondisk::label::VDEV_LABEL_START_BYTES;
use zfs_format::vdev::{Layout, LeafId, Place, Side, VdevTree};

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
    /// Index of the top-level vdev that holds it, which is not the one of the pointer when that was removed.
    vdev: usize,
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

    /// Hands over what was collected, in the order of the walk.
    pub(super) fn take(&mut self) -> Vec<Queued> {
        std::mem::take(&mut self.blocks)
    }

    /// Hands over what was collected, sorted and cut into tasks. `ledger` hears of each block that is in an extent, and
    /// of each copy of it that lies on a device which was not given.
    pub(super) fn seal(&mut self, tree: &VdevTree, ledger: &mut dyn Ledger) -> Batch {
        let blocks = std::mem::take(&mut self.blocks);
        let mut targets = Vec::with_capacity(blocks.len());
        let mut tasks = Vec::new();
        let mut addresses = Vec::with_capacity(3);
        for (index, block) in blocks.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            addresses.clear();
            let is_regular = find_addresses(tree, &block.bp, &mut addresses);
            // What lies on no device that was given has no extent.
            let is_readable = |address: &&Address| first_readable(tree, address.vdev).is_some();
            let readable = addresses.iter().filter(is_readable);
            if !is_regular || readable.clone().next().is_none() {
                tasks.push(Task::Irregular(index));
                continue;
            }
            tell(tree, block, &addresses, ledger);
            targets.extend(readable.enumerate().map(|(order, &Address { vdev, offset_bytes, copy })| Target {
                vdev,
                offset_bytes,
                block: index,
                copy,
                is_first: order == 0,
            }));
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

/// Who hears of what lies in extents before it is read.
pub(super) trait Ledger {
    /// A block, and its redundancy when every device that was given is good.
    fn block(&mut self, block: &Queued, assumed: &Redundancy);
    /// A copy on a device that was not given, with its size.
    fn missing(&mut self, leaf: LeafId, bytes: u64);
}

/// One address of a block whose bytes lie together.
#[derive(Clone, Copy, Debug)]
struct Address {
    vdev: usize,
    offset_bytes: u64,
    copy: u8,
}

/// Finds the addresses of a block; false when one of them is such that the block has to be verified by itself.
fn find_addresses(tree: &VdevTree, bp: &Blkptr, found: &mut Vec<Address>) -> bool {
    for (copy, dva) in bp.dvas() {
        let Some((vdev, offset_bytes)) = regular(tree, bp, &dva).filter(|_| !dva.is_gang) else { return false };
        found.push(Address { vdev, offset_bytes, copy: u8::try_from(copy).unwrap_or(u8::MAX) });
    }
    true
}

/// The vdev, and the offset in it, of an address whose bytes lie together on each of its devices.
fn regular(tree: &VdevTree, bp: &Blkptr, dva: &Dva) -> Option<(usize, u64)> {
    let sides = tree.sides(dva, bp.psize_bytes(), bp.physical_birth_txg());
    let mut at = None;
    for side in &sides {
        let Side::Whole { place: Place::Leaf { leaf, device_offset_bytes }, .. } = side else { return None };
        let vdev = tree.leaf(*leaf)?.top;
        at.get_or_insert((vdev, device_offset_bytes.checked_sub(VDEV_LABEL_START_BYTES)?));
    }
    at.filter(|&(vdev, _)| leaves(tree, vdev).len() == sides.len())
}

/// Tells of a block in extents, and of its copies that lie on devices which were not given.
fn tell(tree: &VdevTree, block: &Queued, addresses: &[Address], ledger: &mut dyn Ledger) {
    for address in addresses {
        for &leaf in leaves(tree, address.vdev).iter().filter(|&&leaf| !tree.is_given(leaf)) {
            ledger.missing(leaf, block.bp.psize_bytes());
        }
    }
    ledger.block(block, &redundancy(tree, addresses));
}

/// What redundancy a block has when every device that was given is good.
fn redundancy(tree: &VdevTree, addresses: &[Address]) -> Redundancy {
    let mut strengths = [Strength::default(); 3];
    for (address, strength) in addresses.iter().zip(&mut strengths) {
        let given = leaves(tree, address.vdev).iter().filter(|&&leaf| tree.is_given(leaf)).count();
        *strength = Strength::of_copies(tree, address.vdev, given);
    }
    Redundancy::new(strengths.get(..addresses.len()).unwrap_or_default())
}

/// The redundancy that was told of a block in extents.
pub(super) fn assumed(tree: &VdevTree, bp: &Blkptr) -> Redundancy {
    let mut addresses = Vec::with_capacity(3);
    find_addresses(tree, bp, &mut addresses);
    redundancy(tree, &addresses)
}

/// The devices of a top-level vdev.
fn leaves(tree: &VdevTree, vdev: usize) -> &[LeafId] {
    match tree.tops.get(vdev).and_then(Option::as_ref).map(|top| &top.layout) {
        Some(Layout::Copies(leaves)) => leaves,
        _ => &[],
    }
}

fn first_readable(tree: &VdevTree, vdev: usize) -> Option<LeafId> {
    leaves(tree, vdev).iter().copied().find(|&leaf| tree.is_given(leaf))
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
        for &leaf in leaves(tree, head.vdev).iter().filter(|&&leaf| tree.is_given(leaf)) {
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
