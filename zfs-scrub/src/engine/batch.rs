//! A batch: the blocks of one pass, cut into the requests that a disk likes.
//!
//! Whole copies are read in extents: long sequential reads that cover several blocks, small gaps included. Blocks whose
//! bytes lie in several places, on raidz for example, are verified one by one, in groups of neighbours whose cells are
//! read ahead together. Each device, and each vdev with parity, has a lane of tasks in the order of offsets.

use super::queue::{Blocks, Queued};
use std::collections::BTreeMap;
use zfs_format::block::{Redundancy, Strength};
use zfs_format::ondisk::blkptr::{Blkptr, Dva};
use zfs_format::ondisk::label::VDEV_LABEL_START_BYTES;
use zfs_format::vdev::{Layout, LeafId, Place, Side, VdevTree};

/// Gaps up to this size are read through: on a disk that is cheaper than a second request.
pub(super) const GAP_BYTES_MAX: u64 = 32 << 10;
/// An extent grows to about this size; a single block may be larger.
const EXTENT_BYTES_MAX: u64 = 1 << 20;
/// A group of blocks grows to this much for each child of its vdev, within the limits below.
const GROUP_BYTES_PER_CHILD: u64 = 256 << 10;
const GROUP_BYTES_MIN: u64 = 1 << 20;
pub(super) const GROUP_BYTES_MAX: u64 = 4 << 20;

/// One address of one block of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// Index of the top-level vdev that holds it, which is not the one of the pointer when that was removed.
    vdev: u32,
    /// Number of the block.
    pub(super) block: u32,
    pub(super) offset_bytes: u64,
    /// Bytes of the copy.
    pub(super) size_bytes: u32,
    /// Which of the pointer's addresses.
    pub(super) copy: u8,
    /// The first address that can be read: decoding happens there.
    pub(super) is_first: bool,
}
const _: () = assert!(size_of::<Target>() == 24);

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
    pub(super) first: u32,
    pub(super) end: u32,
}

/// What a worker takes from a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Read an extent and verify what lies in it.
    Extent(Extent),
    /// Verify blocks one by one: on raidz, a gang, an address out of range, no device that could be read.
    Group {
        /// Range in [`Batch::singles`].
        first: u32,
        end: u32,
    },
}

/// Which tasks share a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LaneKey {
    /// Extents of a device.
    Leaf(usize),
    /// Groups on a top-level vdev.
    Top(u32),
}

/// The tasks of one device, or of one vdev with parity.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) tasks: Vec<Task>,
}

/// Lanes that are being filled.
type Lanes = BTreeMap<LaneKey, Vec<Task>>;

/// A sealed batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) blocks: Blocks,
    pub(super) targets: Vec<Target>,
    /// Numbers of the blocks that are verified one by one.
    pub(super) singles: Vec<u32>,
    pub(super) lanes: Vec<Lane>,
}

/// Who hears of what lies in extents before it is read.
pub(super) trait Ledger {
    /// A block, and its redundancy when every device that was given is good.
    fn block(&mut self, block: &Queued, assumed: &Redundancy);
    /// A copy on a device that was not given, with its size.
    fn missing(&mut self, leaf: LeafId, bytes: u64);
}

impl Batch {
    /// Sorts blocks and cuts them into tasks. `ledger` hears of each block that is in an extent, and of each copy of it
    /// that lies on a device which was not given.
    pub(super) fn seal(blocks: Blocks, tree: &VdevTree, ledger: &mut dyn Ledger) -> Self {
        let mut targets = Vec::with_capacity(blocks.len());
        let mut singles = Vec::new();
        let mut addresses = Vec::with_capacity(3);
        for (number, block) in blocks.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            addresses.clear();
            let is_regular = find_addresses(tree, &block.bp, &mut addresses);
            // What lies on no device that was given has no extent.
            let is_readable = |address: &&Address| first_readable(tree, address.vdev).is_some();
            let readable = addresses.iter().filter(is_readable);
            if !is_regular || readable.clone().next().is_none() {
                singles.push(number);
                continue;
            }
            tell(tree, &block, &addresses, ledger);
            let size_bytes = u32::try_from(block.bp.psize_bytes()).unwrap_or(u32::MAX);
            targets.extend(readable.enumerate().map(|(order, &Address { vdev, offset_bytes, copy })| Target {
                vdev,
                block: number,
                offset_bytes,
                size_bytes,
                copy,
                is_first: order == 0,
            }));
        }
        targets.sort_unstable_by_key(|target| (target.vdev, target.offset_bytes, target.block, target.copy));
        let mut batch = Self { blocks, targets, singles, lanes: Vec::new() };
        let mut lanes = BTreeMap::new();
        batch.cut_extents(tree, &mut lanes);
        batch.cut_groups(tree, &mut lanes);
        batch.lanes = lanes.into_iter().map(|(key, tasks)| Lane { key, tasks }).collect();
        batch
    }

    /// How many tasks there are.
    pub(super) fn tasks(&self) -> usize {
        self.lanes.iter().map(|lane| lane.tasks.len()).sum()
    }

    /// The targets of an extent.
    pub(super) fn targets_of(&self, extent: &Extent) -> &[Target] {
        self.targets.get(extent.first as usize..extent.end as usize).unwrap_or_default()
    }

    /// The blocks of a group.
    pub(super) fn singles_of(&self, first: u32, end: u32) -> impl Iterator<Item = Queued> + Clone + '_ {
        let numbers = self.singles.get(first as usize..end as usize).unwrap_or_default();
        numbers.iter().filter_map(|&number| self.blocks.get(number as usize))
    }

    /// The most bytes one buffer of a task holds.
    pub(super) fn size_of(&self, task: &Task) -> u64 {
        let size = |block: Queued| block.bp.psize_bytes().max(block.bp.lsize_bytes());
        match *task {
            Task::Group { first, end } => self.singles_of(first, end).map(size).fold(0, u64::max),
            Task::Extent(extent) => {
                let blocks =
                    self.targets_of(&extent).iter().filter_map(|target| self.blocks.get(target.block as usize));
                blocks.map(size).fold(extent.length_bytes, u64::max)
            }
        }
    }

    /// Bytes that a task reads, about.
    pub(super) fn read_bytes(&self, task: &Task) -> u64 {
        match *task {
            Task::Extent(extent) => extent.length_bytes,
            Task::Group { first, end } => self.singles_of(first, end).map(|block| block.bp.psize_bytes()).sum(),
        }
    }

    /// Joins neighbours into extents, one for each device that holds them.
    fn cut_extents(&self, tree: &VdevTree, lanes: &mut Lanes) {
        let mut first = 0;
        while let Some(head) = self.targets.get(first) {
            let start = head.offset_bytes;
            let mut reach = start.saturating_add(head.size_bytes.into());
            let mut end = first + 1;
            while let Some(next) = self.targets.get(end) {
                let next_reach = reach.max(next.offset_bytes.saturating_add(next.size_bytes.into()));
                let is_near = next.vdev == head.vdev && next.offset_bytes <= reach.saturating_add(GAP_BYTES_MAX);
                if !is_near || next_reach - start > EXTENT_BYTES_MAX {
                    break;
                }
                reach = next_reach;
                end += 1;
            }
            let first_leaf = first_readable(tree, head.vdev);
            for &leaf in leaves(tree, head.vdev).iter().filter(|&&leaf| tree.is_given(leaf)) {
                let extent = Extent {
                    leaf,
                    is_first_leaf: Some(leaf) == first_leaf,
                    start_bytes: start,
                    length_bytes: reach - start,
                    first: u32::try_from(first).unwrap_or(u32::MAX),
                    end: u32::try_from(end).unwrap_or(u32::MAX),
                };
                lanes.entry(LaneKey::Leaf(leaf.0)).or_default().push(Task::Extent(extent));
            }
            first = end;
        }
    }

    /// Joins neighbours among the blocks that are verified one by one.
    fn cut_groups(&self, tree: &VdevTree, lanes: &mut Lanes) {
        let block = |index: usize| {
            let block = self.singles.get(index).and_then(|&number| self.blocks.get(number as usize));
            block.map(|block| (block.bp.dva(0).unwrap_or_default(), block.bp.psize_bytes())).unwrap_or_default()
        };
        let mut first = 0;
        while first < self.singles.len() {
            let (head, mut bytes) = block(first);
            let bytes_max = group_bytes_max(tree, head.vdev);
            let mut reach = end_of(&head);
            let mut end = first + 1;
            while end < self.singles.len() {
                let (next, size) = block(end);
                let next_reach = reach.max(end_of(&next));
                // Blocks of a damaged pool may claim more than the space they take, and all lie at one place.
                bytes = size.saturating_add(bytes);
                let is_much = next_reach - head.offset_bytes > bytes_max || bytes > bytes_max;
                if !is_near(&head, &next, reach) || is_much {
                    break;
                }
                reach = next_reach;
                end += 1;
            }
            let at = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
            let group = Task::Group { first: at(first), end: at(end) };
            lanes.entry(LaneKey::Top(head.vdev)).or_default().push(group);
            first = end;
        }
    }
}

/// How much of a vdev is read at a time when its blocks are verified one by one.
pub(super) fn group_bytes_max(tree: &VdevTree, vdev: u32) -> u64 {
    let children = match tree.tops.get(vdev as usize).and_then(Option::as_ref).map(|top| &top.layout) {
        Some(Layout::Striped(striped)) => striped.children.len() as u64,
        _ => 1,
    };
    children.saturating_mul(GROUP_BYTES_PER_CHILD).clamp(GROUP_BYTES_MIN, GROUP_BYTES_MAX)
}

pub(super) fn end_of(dva: &Dva) -> u64 {
    dva.offset_bytes.saturating_add(dva.asize_bytes)
}

/// Whether `next`, which lies behind `head`, is read with what ends at `reach`.
pub(super) fn is_near(head: &Dva, next: &Dva, reach: u64) -> bool {
    let is_behind = next.offset_bytes >= head.offset_bytes && next.offset_bytes <= reach.saturating_add(GAP_BYTES_MAX);
    next.vdev == head.vdev && is_behind && !head.is_gang && !next.is_gang
}

/// One address of a block whose bytes lie together.
#[derive(Clone, Copy, Debug)]
struct Address {
    vdev: u32,
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
fn regular(tree: &VdevTree, bp: &Blkptr, dva: &Dva) -> Option<(u32, u64)> {
    if tree.copies_at(dva).is_some() {
        return Some((dva.vdev, dva.offset_bytes));
    }
    let sides = tree.sides(dva, bp.psize_bytes(), bp.physical_birth_txg());
    let mut at = None;
    for side in &sides {
        let Side::Whole { place: Place::Leaf { leaf, device_offset_bytes }, .. } = side else { return None };
        let vdev = u32::try_from(tree.leaf(*leaf)?.top).ok()?;
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
        *strength = Strength::of_copies(tree, address.vdev as usize, given);
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
fn leaves(tree: &VdevTree, vdev: u32) -> &[LeafId] {
    match tree.tops.get(vdev as usize).and_then(Option::as_ref).map(|top| &top.layout) {
        Some(Layout::Copies(leaves)) => leaves,
        _ => &[],
    }
}

fn first_readable(tree: &VdevTree, vdev: u32) -> Option<LeafId> {
    leaves(tree, vdev).iter().copied().find(|&leaf| tree.is_given(leaf))
}

#[cfg(test)]
mod tests {
    use super::super::Bookmark;
    use super::super::queue::Queue;
    use super::*;

    struct Nobody;

    impl Ledger for Nobody {
        fn block(&mut self, _: &Queued, _: &Redundancy) {}
        fn missing(&mut self, _: LeafId, _: u64) {}
    }

    /// Sizes of the groups of blocks that lie on no vdev that is known, `step` sectors apart, of so many sectors each.
    fn groups(blocks: u64, step: u64, sectors: u64) -> Vec<usize> {
        let mut queue = Queue::new(1 << 30);
        for number in 0..blocks {
            let mut words = [0; 16];
            // The asize of a damaged pointer may say anything.
            words[0] = 1;
            words[1] = number * step;
            words[6] = 1 << 63 | 19 << 48 | 7 << 40 | 2 << 32 | (sectors - 1) << 16 | (sectors - 1);
            (words[10], words[11], words[15]) = (5, 1, number);
            let bookmark = Bookmark { objset: 54, object: 7, level: 0, block: number };
            queue.push(&Queued { bp: Blkptr::from_words(words), bookmark });
        }
        let batch = Batch::seal(queue.take_rest(), &VdevTree::default(), &mut Nobody);
        let tasks = batch.lanes.iter().flat_map(|lane| &lane.tasks);
        let size = |task: &Task| match *task {
            Task::Group { first, end } => (end - first) as usize,
            Task::Extent(_) => panic!("there is no device"),
        };
        tasks.map(size).collect()
    }

    #[test]
    fn neighbours_are_verified_together() {
        assert_eq!(groups(100, 1, 1), [100]);
        assert_eq!(groups(3, 1000, 1), [1, 1, 1], "far apart");
    }

    #[test]
    fn groups_are_bounded_by_what_blocks_claim_and_not_only_by_where_they_lie() {
        // All at one place, a quarter of the least limit each.
        let sizes = groups(1000, 0, 512);
        assert_eq!(sizes.iter().sum::<usize>(), 1000);
        assert!(sizes.iter().all(|&size| size <= 4), "{sizes:?}");
        assert!(groups(10, 0, 32_768).iter().all(|&size| size == 1));
    }
}
