//! Blocks on raidz: reading cells, trying which of them lie, proving it by the block's checksum.
//!
//! A device is left out of the equations when its cell cannot be read, or on suspicion. Suspects are tried one by one,
//! then in pairs, then in threes, up to the parity; the set under which the checksum holds names the culprits. With the
//! right content known, every cell, parity included, is compared with what its device returned.

use super::{BlockReader, CopyState};
use crate::codec::parity;
use crate::ondisk::blkptr::Blkptr;
use crate::vdev::LeafId;
use crate::vdev::stripe::{Cell, Stripe};

/// Sets of suspects tried for one block: enough for three of eighty devices.
const ATTEMPTS_MAX: usize = 100_000;
/// Bytes put together for one block, over all sets: bounds the time that one large lost block can take.
const ATTEMPTED_BYTES_MAX: usize = 4 << 30;

/// One cell as it was read.
#[derive(Clone, Debug)]
pub(super) struct CellRead {
    pub(super) child: usize,
    pub(super) leaf: Option<LeafId>,
    pub(super) device_offset_bytes: u64,
    pub(super) length_bytes: usize,
    pub(super) is_parity: bool,
    pub(super) state: CopyState,
    /// What the device returned; empty when it returned nothing.
    pub(super) bytes: Vec<u8>,
    /// Other devices of the same child, where one is being replaced or spared: device, answer, bytes.
    pub(super) siblings: Vec<(LeafId, CopyState, Vec<u8>)>,
}

/// A block on raidz, read and judged.
#[derive(Clone, Debug)]
pub(super) struct RaidzRead {
    /// The content could be read or rebuilt.
    pub(super) is_good: bool,
    /// What is to be said of the block as a whole when it could not.
    pub(super) failure: CopyState,
    /// All cells: parity before data, stripe after stripe.
    pub(super) cells: Vec<CellRead>,
    /// Right content of the cells, when known; as long as `cells`.
    pub(super) right: Vec<Vec<u8>>,
}

impl BlockReader<'_> {
    /// Reads a block from its stripes into `payload`, rebuilding what is bad. `matches` says whether a content is right.
    pub(super) fn read_stripes(
        &self,
        bp: &Blkptr,
        children: &[Vec<LeafId>],
        stripes: &[Stripe],
        payload: &mut [u8],
        matches: &mut dyn FnMut(&[u8]) -> bool,
    ) -> RaidzRead {
        let cells = stripes.iter().flat_map(|stripe| {
            let parity = stripe.parity.iter().map(|cell| (cell, true));
            parity.chain(stripe.data.iter().map(|cell| (cell, false)))
        });
        let cells: Vec<CellRead> =
            cells.map(|(cell, is_parity)| self.read_cell(bp, children, cell, is_parity)).collect();
        let mut read = RaidzRead { is_good: false, failure: CopyState::BadChecksum, cells, right: Vec::new() };
        if read.is_as_stored(stripes, payload, matches) {
            read.is_good = true;
            return read;
        }
        let unreadable = read.unreadable();
        let parity = stripes.first().map_or(0, |stripe| stripe.parity.len());
        let mut devices: Vec<usize> = read.cells.iter().map(|cell| cell.child).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.retain(|device| !unreadable.contains(device));
        if unreadable.len() > parity {
            read.failure = read.why_unreadable(parity);
            return read;
        }
        let attempts_max = (ATTEMPTED_BYTES_MAX / payload.len().max(1)).min(ATTEMPTS_MAX);
        let mut attempts = 0;
        for count in 0..=parity - unreadable.len() {
            let mut suspects = Subsets::new(devices.len(), count);
            while let Some(chosen) = suspects.next_set() {
                attempts += 1;
                if attempts > attempts_max {
                    let why = format!("{attempts_max} combinations of devices were tried, not all there are");
                    read.failure = CopyState::Broken(why);
                    return read;
                }
                let mut left_out = unreadable.clone();
                left_out.extend(chosen.iter().filter_map(|&index| devices.get(index)));
                let Some(data) = read.assemble(stripes, &left_out) else { continue };
                fill(payload, stripes, &data);
                if matches(payload) {
                    read.conclude(stripes, data);
                    self.excuse_cells(bp, &mut read);
                    return read;
                }
            }
        }
        read
    }

    /// Reads one cell from all devices of its child. The first that answers, and is not known to be out of date, is the
    /// one the equations use.
    fn read_cell(&self, bp: &Blkptr, children: &[Vec<LeafId>], cell: &Cell, is_parity: bool) -> CellRead {
        let leaves = children.get(cell.child).map(Vec::as_slice).unwrap_or_default();
        let mut read = CellRead {
            child: cell.child,
            leaf: leaves.first().copied(),
            device_offset_bytes: cell.device_offset_bytes,
            length_bytes: cell.length_bytes,
            is_parity,
            state: CopyState::Missing,
            bytes: Vec::new(),
            siblings: Vec::new(),
        };
        if cell.length_bytes == 0 {
            read.state = CopyState::Good;
            return read;
        }
        let mut answers: Vec<(LeafId, CopyState, Vec<u8>)> = leaves
            .iter()
            .map(|&leaf| {
                let mut bytes = vec![0; cell.length_bytes];
                let state = self.read_leaf(leaf, cell.device_offset_bytes, &mut bytes);
                let bytes = if state.is_good() { bytes } else { Vec::new() };
                (leaf, state, bytes)
            })
            .collect();
        let birth = bp.physical_birth_txg();
        let rank = |(leaf, state, _): &(LeafId, CopyState, Vec<u8>)| {
            (!state.is_good(), matches!(state, CopyState::Missing), self.tree.is_stale(*leaf, birth))
        };
        if let Some(best) = (0..answers.len()).min_by_key(|&index| answers.get(index).map(rank)) {
            let (leaf, state, bytes) = answers.remove(best);
            (read.leaf, read.state, read.bytes) = (Some(leaf), state, bytes);
        }
        read.siblings = answers;
        read
    }

    /// What is wrong on devices that are known to be out of date for the block's txg is no damage.
    fn excuse_cells(&self, bp: &Blkptr, read: &mut RaidzRead) {
        let birth = bp.physical_birth_txg();
        let excuse = |leaf: Option<LeafId>, state: &mut CopyState| {
            let is_wrong = matches!(state, CopyState::BadChecksum | CopyState::OutOfRange);
            if is_wrong && leaf.is_some_and(|leaf| self.tree.is_stale(leaf, birth)) {
                *state = CopyState::Stale;
            }
        };
        for cell in &mut read.cells {
            excuse(cell.leaf, &mut cell.state);
            for (leaf, state, _) in &mut cell.siblings {
                excuse(Some(*leaf), state);
            }
        }
    }
}

impl RaidzRead {
    /// Children of which a cell could not be read.
    fn unreadable(&self) -> Vec<usize> {
        let mut children: Vec<usize> =
            self.cells.iter().filter(|cell| !cell.state.is_good()).map(|cell| cell.child).collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// Why more cells cannot be read than `parity` makes up for. Devices that are not there explain it by themselves when
    /// they are too many; otherwise it is a device that failed.
    fn why_unreadable(&self, parity: usize) -> CopyState {
        let is_missing = |cell: &&CellRead| matches!(cell.state, CopyState::Missing);
        let mut missing: Vec<usize> = self.cells.iter().filter(is_missing).map(|cell| cell.child).collect();
        missing.sort_unstable();
        missing.dedup();
        let failed = self.cells.iter().find(|cell| !cell.state.is_good() && !is_missing(cell));
        match failed {
            Some(cell) if missing.len() <= parity => cell.state.clone(),
            _ => CopyState::Missing,
        }
    }

    /// The usual case, without copies of anything: all cells were read, the data is right as it is, and so is every
    /// parity cell. False when any of that is not so; then nothing is decided.
    fn is_as_stored(&self, stripes: &[Stripe], payload: &mut [u8], matches: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        if self.cells.iter().any(|cell| !cell.state.is_good() || !cell.siblings.is_empty()) {
            return false;
        }
        let mut first = 0;
        let mut parity = Vec::new();
        let mut is_right = true;
        for stripe in stripes {
            let parity_end = first + stripe.parity.len();
            let end = parity_end + stripe.data.len();
            let (Some(parity_cells), Some(data_cells)) =
                (self.cells.get(first..parity_end), self.cells.get(parity_end..end))
            else {
                return false;
            };
            first = end;
            let columns: Vec<&[u8]> = data_cells.iter().map(|cell| cell.bytes.as_slice()).collect();
            for (row, cell) in parity_cells.iter().enumerate() {
                parity.resize(cell.bytes.len(), 0);
                parity::generate(row, &columns, &mut parity);
                is_right &= parity == cell.bytes;
            }
            for (cell, bytes) in stripe.data.iter().zip(columns) {
                put(payload, cell.block_offset, bytes);
            }
        }
        is_right && matches(payload)
    }

    /// The data cells of all stripes, those of the children in `left_out` computed from parity. `None` when a stripe
    /// has too little of it.
    fn assemble(&self, stripes: &[Stripe], left_out: &[usize]) -> Option<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        let mut first = 0;
        for stripe in stripes {
            let parity_end = first + stripe.parity.len();
            let end = parity_end + stripe.data.len();
            let (parity_cells, data_cells) = (self.cells.get(first..parity_end)?, self.cells.get(parity_end..end)?);
            first = end;
            let trusted: Vec<(usize, &[u8])> = parity_cells
                .iter()
                .enumerate()
                .filter(|(_, cell)| !left_out.contains(&cell.child))
                .map(|(row, cell)| (row, cell.bytes.as_slice()))
                .collect();
            let lost: Vec<usize> =
                (0..data_cells.len()).filter(|&index| left_out.contains(&data_cells[index].child)).collect();
            let mut data: Vec<Vec<u8>> = data_cells
                .iter()
                .zip(&stripe.data)
                .map(|(read, cell)| if read.bytes.is_empty() { vec![0; cell.length_bytes] } else { read.bytes.clone() })
                .collect();
            let mut columns: Vec<&mut [u8]> = data.iter_mut().map(Vec::as_mut_slice).collect();
            if !lost.is_empty() && !parity::reconstruct(&mut columns, &lost, &trusted) {
                return None;
            }
            all.append(&mut data);
        }
        Some(all)
    }

    /// With the right data known: computes the right parity, and judges every cell.
    fn conclude(&mut self, stripes: &[Stripe], data: Vec<Vec<u8>>) {
        let mut data = data.into_iter();
        let mut right: Vec<Vec<u8>> = Vec::with_capacity(self.cells.len());
        for stripe in stripes {
            let columns: Vec<Vec<u8>> = data.by_ref().take(stripe.data.len()).collect();
            let slices: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
            for (row, cell) in stripe.parity.iter().enumerate() {
                let mut parity = vec![0; cell.length_bytes];
                parity::generate(row, &slices, &mut parity);
                right.push(parity);
            }
            right.extend(columns);
        }
        for (cell, right) in self.cells.iter_mut().zip(&right) {
            if cell.state.is_good() && cell.bytes != *right {
                cell.state = CopyState::BadChecksum;
            }
            for (_, state, bytes) in &mut cell.siblings {
                if state.is_good() && bytes != right {
                    *state = CopyState::BadChecksum;
                }
            }
        }
        self.right = right;
        self.is_good = true;
    }
}

/// Puts data cells where they belong in the block.
fn fill(payload: &mut [u8], stripes: &[Stripe], data: &[Vec<u8>]) {
    for (cell, bytes) in stripes.iter().flat_map(|stripe| &stripe.data).zip(data) {
        put(payload, cell.block_offset, bytes);
    }
}

/// Puts bytes at an offset of the block, which may end inside its last sector.
fn put(payload: &mut [u8], offset: usize, bytes: &[u8]) {
    let target = payload.get_mut(offset..).unwrap_or_default();
    let length = target.len().min(bytes.len());
    if let (Some(target), Some(bytes)) = (target.get_mut(..length), bytes.get(..length)) {
        target.copy_from_slice(bytes);
    }
}

/// All ascending sets of `count` of the numbers below `total`, one after the other.
struct Subsets {
    total: usize,
    current: Vec<usize>,
    is_first: bool,
}

impl Subsets {
    fn new(total: usize, count: usize) -> Self {
        Self { total, current: (0..count).collect(), is_first: true }
    }

    fn next_set(&mut self) -> Option<&[usize]> {
        let count = self.current.len();
        if self.is_first {
            self.is_first = false;
            return (count <= self.total).then_some(&self.current);
        }
        // The last number that can still grow does; those behind it follow closely.
        let grows = (0..count).rev().find(|&index| self.current[index] + count - index < self.total)?;
        let value = self.current[grows] + 1;
        for (step, number) in self.current.iter_mut().skip(grows).enumerate() {
            *number = value + step;
        }
        Some(&self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(total: usize, count: usize) -> Vec<Vec<usize>> {
        let mut subsets = Subsets::new(total, count);
        std::iter::from_fn(|| subsets.next_set().map(<[usize]>::to_vec)).collect()
    }

    #[test]
    fn every_set_comes_once() {
        assert_eq!(all(3, 0), [Vec::<usize>::new()]);
        assert_eq!(all(4, 2), [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!(all(7, 3).len(), 35);
        assert_eq!(all(2, 3), Vec::<Vec<usize>>::new());
    }
}
