//! Blocks on raidz and dRAID: reading cells, trying which of them lie, proving it by the block's checksum.
//!
//! A device is left out of the equations when its cell cannot be read, or on suspicion. Suspects are tried one by one,
//! then in pairs, then in threes, up to the parity; the set under which the checksum holds names the culprits. With the
//! right content known, every cell, parity included, is compared with what its device returned.

use super::copies::Judge;
use super::{BlockReader, CopyState};
use crate::codec::parity;
use crate::ondisk::blkptr::Blkptr;
use crate::vdev::stripe::{Cell, Stripe};
use crate::vdev::{CellSource, LeafId, Striped};

/// Sets of suspects tried for one block: enough for three of eighty devices.
const ATTEMPTS_MAX: usize = 100_000;
/// Bytes put together for one block, over all sets: bounds the time that one large lost block can take.
const ATTEMPTED_BYTES_MAX: usize = 4 << 30;

/// What one device answered for a cell.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) leaf: Option<LeafId>,
    /// The device, or the spare space on it, is known to be out of date for the block.
    pub(super) is_stale: bool,
    pub(super) state: CopyState,
    /// What the device returned; empty when it returned nothing, or when it is known to be right.
    pub(super) bytes: Vec<u8>,
}

/// One cell as it was read.
#[derive(Clone, Debug)]
pub(super) struct CellRead {
    pub(super) child: usize,
    pub(super) device_offset_bytes: u64,
    pub(super) length_bytes: usize,
    /// The bytes behind these are zeros.
    pub(super) data_bytes: usize,
    pub(super) is_parity: bool,
    /// The answer that the equations use.
    pub(super) answer: Answer,
    /// Other devices of the same child, where one is being replaced or spared.
    pub(super) siblings: Vec<Answer>,
}

/// A block in stripes, read and judged.
#[derive(Clone, Debug)]
pub(super) struct StripedRead {
    /// The content could be read or rebuilt.
    pub(super) is_good: bool,
    /// What is to be said of the block as a whole when it could not.
    pub(super) failure: CopyState,
    /// All cells: parity before data, stripe after stripe.
    pub(super) cells: Vec<CellRead>,
    /// Right content of the cells, when known and not just what was read; as long as `cells` then.
    pub(super) right: Vec<Vec<u8>>,
}

impl BlockReader<'_> {
    /// Reads a block from its stripes into `payload`, rebuilding what is bad.
    pub(super) fn read_stripes(
        &self,
        bp: &Blkptr,
        vdev: &Striped,
        stripes: &[Stripe],
        payload: &mut [u8],
        buffer: &mut Vec<u8>,
        judge: Judge<'_>,
    ) -> StripedRead {
        if let Some(read) = self
            .read_from_windows(bp, vdev, stripes, payload, buffer, judge)
            .or_else(|| self.read_plainly(bp, vdev, stripes, payload, buffer, judge))
        {
            return read;
        }
        let cells = cells(stripes).map(|(cell, is_parity)| self.read_cell(bp, vdev, cell, is_parity)).collect();
        let mut read = StripedRead { is_good: false, failure: CopyState::BadChecksum, cells, right: Vec::new() };
        let unreadable = read.unreadable();
        let parity = usize::try_from(vdev.parity()).unwrap_or(0);
        let mut devices: Vec<usize> =
            read.cells.iter().filter(|cell| cell.is_needed()).map(|cell| cell.child).collect();
        devices.sort_unstable();
        devices.dedup();
        devices.retain(|device| !unreadable.contains(device));
        let attempts_max =
            if self.searches { (ATTEMPTED_BYTES_MAX / payload.len().max(1)).min(ATTEMPTS_MAX) } else { 1 };
        let mut attempts = 0;
        let mut is_possible = false;
        for count in 0..=parity.saturating_sub(unreadable.len().min(parity)) {
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
                is_possible = true;
                fill(payload, stripes, &data);
                match judge(payload) {
                    CopyState::Good => {
                        read.conclude(stripes, data);
                        return read;
                    }
                    CopyState::BadChecksum => {}
                    // The checksum cannot be computed: what was put together is the best there is.
                    verdict => {
                        read.failure = verdict;
                        return read;
                    }
                }
            }
        }
        if !is_possible {
            read.failure = read.why_unreadable(parity);
        }
        read
    }

    /// The most usual case, without a copy of the cells: all are in windows, and right. `None` when it is another.
    fn read_from_windows(
        &self,
        bp: &Blkptr,
        vdev: &Striped,
        stripes: &[Stripe],
        payload: &mut [u8],
        expected: &mut Vec<u8>,
        judge: Judge<'_>,
    ) -> Option<StripedRead> {
        let windows = self.windows?;
        let mut found = Vec::with_capacity(stripes.iter().map(|stripe| stripe.parity.len() + stripe.data.len()).sum());
        let mut rows = [(0, &[][..]); parity::PARITY_MAX];
        let mut columns: Vec<&[u8]> = Vec::new();
        for stripe in stripes {
            let mut find = |cell: &Cell, is_parity: bool| {
                let leaf = self.only_source(bp, vdev, cell)?;
                found.push(CellRead::answered(cell, is_parity, leaf, CopyState::Good));
                if cell.length_bytes == 0 {
                    return Some(&[][..]);
                }
                windows.get(leaf, cell.device_offset_bytes, cell.length_bytes)
            };
            for (row, cell) in stripe.parity.iter().enumerate() {
                *rows.get_mut(row)? = (row, find(cell, true)?);
            }
            let rows = rows.get(..stripe.parity.len())?;
            columns.clear();
            for cell in &stripe.data {
                columns.push(find(cell, false)?);
            }
            for (cell, bytes) in stripe.data.iter().zip(&columns) {
                let (data, pad) = bytes.split_at_checked(cell.data_bytes).unwrap_or((bytes, &[]));
                if pad.iter().any(|&byte| byte != 0) {
                    return None;
                }
                put(payload, cell.block_offset, data);
            }
            if !agree(&columns, rows, 0, expected) {
                return None;
            }
        }
        let is_good = judge(payload).is_good();
        is_good.then(|| StripedRead { is_good, failure: CopyState::BadChecksum, cells: found, right: Vec::new() })
    }

    /// The device of a cell, when no other has it too and it is up to date.
    fn only_source(&self, bp: &Blkptr, vdev: &Striped, cell: &Cell) -> Option<LeafId> {
        let leaf = vdev.only_leaf(cell).or_else(|| {
            let sources = vdev.sources(self.tree, cell);
            let [CellSource { leaf, spare: None }] = *sources.as_slice() else { return None };
            Some(leaf)
        })?;
        (!self.tree.is_stale(leaf, bp.physical_birth_txg())).then_some(leaf)
    }

    /// The usual cases, without a buffer for each cell: all cells are right, or those of some children cannot be read,
    /// and the others are right. `None` when it is neither; then nothing is decided.
    fn read_plainly(
        &self,
        bp: &Blkptr,
        vdev: &Striped,
        stripes: &[Stripe],
        payload: &mut [u8],
        buffer: &mut Vec<u8>,
        judge: Judge<'_>,
    ) -> Option<StripedRead> {
        let size = cells(stripes).map(|(cell, _)| cell.length_bytes).fold(0_usize, usize::saturating_add);
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let mut found = Vec::with_capacity(stripes.iter().map(|stripe| stripe.parity.len() + stripe.data.len()).sum());
        let mut rest = buffer.get_mut(..size)?;
        for (cell, is_parity) in cells(stripes) {
            let bytes = rest.split_off_mut(..cell.length_bytes)?;
            let leaf = self.only_source(bp, vdev, cell)?;
            let state =
                if bytes.is_empty() { CopyState::Good } else { self.read_leaf(leaf, cell.device_offset_bytes, bytes) };
            if !state.is_good() && !state.is_absent() {
                return None;
            }
            found.push(CellRead::answered(cell, is_parity, leaf, state));
        }
        let (mut rest, mut at) = (buffer.get_mut(..size)?, 0);
        let mut is_right = true;
        let mut expected = Vec::new();
        for stripe in stripes {
            let count = stripe.parity.len() + stripe.data.len();
            let (parity_cells, data_cells) = found.get(at..at + count)?.split_at_checked(stripe.parity.len())?;
            at += count;
            let mut cut = |cells: &[CellRead]| {
                cells.iter().map(|cell| rest.split_off_mut(..cell.length_bytes)).collect::<Option<Vec<&mut [u8]>>>()
            };
            let (parity_bytes, mut data_bytes) = (cut(parity_cells)?, cut(data_cells)?);
            let is_read = |cell: &CellRead| cell.answer.state.is_good();
            let is_lost = |cell: &CellRead| cell.is_needed() && !is_read(cell);
            let lost: Vec<usize> =
                (0..data_cells.len()).filter(|&index| data_cells.get(index).is_some_and(is_lost)).collect();
            for (cell, bytes) in data_cells.iter().zip(&mut data_bytes) {
                if !is_read(cell) {
                    bytes.fill(0);
                }
            }
            let mut rows: Vec<(usize, &[u8])> = Vec::with_capacity(parity_cells.len());
            for (row, (cell, bytes)) in parity_cells.iter().zip(parity_bytes).enumerate() {
                if is_read(cell) {
                    rows.push((row, bytes));
                }
            }
            if !lost.is_empty() && !parity::reconstruct(&mut data_bytes, &lost, &rows) {
                return None;
            }
            let columns: Vec<&[u8]> = data_bytes.iter().map(|column| &**column).collect();
            for (cell, bytes) in stripe.data.iter().zip(&columns) {
                is_right &= bytes.get(cell.data_bytes..).is_none_or(|pad| pad.iter().all(|&byte| byte == 0));
                put(payload, cell.block_offset, bytes.get(..cell.data_bytes).unwrap_or(bytes));
            }
            is_right &= agree(&columns, &rows, lost.len(), &mut expected);
        }
        let is_good = is_right && judge(payload).is_good();
        is_good.then(|| StripedRead { is_good, failure: CopyState::BadChecksum, cells: found, right: Vec::new() })
    }

    /// Reads one cell from all devices of its child. The first that answers, and is not known to be out of date, is the
    /// one the equations use.
    fn read_cell(&self, bp: &Blkptr, vdev: &Striped, cell: &Cell, is_parity: bool) -> CellRead {
        let mut answers: Vec<Answer> =
            vdev.sources(self.tree, cell).into_iter().map(|source| self.ask(bp, source, cell)).collect();
        let rank = |answer: &Answer| (!answer.state.is_good(), answer.state.is_absent(), answer.is_stale);
        let best = (0..answers.len()).min_by_key(|&index| answers.get(index).map(rank));
        let nobody = Answer { leaf: None, is_stale: false, state: CopyState::Missing, bytes: Vec::new() };
        CellRead {
            child: cell.child,
            device_offset_bytes: cell.device_offset_bytes,
            length_bytes: cell.length_bytes,
            data_bytes: cell.data_bytes,
            is_parity,
            answer: best.map_or(nobody, |best| answers.remove(best)),
            siblings: answers,
        }
    }

    fn ask(&self, bp: &Blkptr, source: CellSource, cell: &Cell) -> Answer {
        let CellSource { leaf, spare } = source;
        let birth = bp.physical_birth_txg();
        let is_stale =
            self.tree.is_stale(leaf, birth) || spare.is_some_and(|spare| self.tree.is_spare_stale(spare, birth));
        let mut bytes = vec![0; cell.length_bytes];
        let state =
            if bytes.is_empty() { CopyState::Good } else { self.read_leaf(leaf, cell.device_offset_bytes, &mut bytes) };
        let bytes = if state.is_good() { bytes } else { Vec::new() };
        Answer { leaf: Some(leaf), is_stale, state, bytes }
    }
}

/// All cells: parity before data, stripe after stripe.
fn cells(stripes: &[Stripe]) -> impl Iterator<Item = (&Cell, bool)> {
    stripes.iter().flat_map(|stripe| {
        let parity = stripe.parity.iter().map(|cell| (cell, true));
        parity.chain(stripe.data.iter().map(|cell| (cell, false)))
    })
}

impl StripedRead {
    /// Children of which a cell could not be read that is needed.
    fn unreadable(&self) -> Vec<usize> {
        let is_unreadable = |cell: &&CellRead| cell.is_needed() && !cell.answer.state.is_good();
        let mut children: Vec<usize> = self.cells.iter().filter(is_unreadable).map(|cell| cell.child).collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// Why more cells cannot be read than `parity` makes up for. Devices that are not there explain it by themselves when
    /// they are too many; otherwise it is a device that failed.
    fn why_unreadable(&self, parity: usize) -> CopyState {
        let is_missing = |cell: &&CellRead| cell.answer.state.is_absent();
        let mut missing: Vec<usize> = self.cells.iter().filter(is_missing).map(|cell| cell.child).collect();
        missing.sort_unstable();
        missing.dedup();
        let failed = self.cells.iter().find(|cell| !cell.answer.state.is_good() && !is_missing(cell));
        match failed {
            Some(cell) if missing.len() <= parity => cell.answer.state.clone(),
            _ if self.cells.iter().any(|cell| matches!(cell.answer.state, CopyState::Missing)) => CopyState::Missing,
            _ => CopyState::Unread,
        }
    }

    /// Every cell is good on a device of its child.
    pub(super) fn is_full(&self) -> bool {
        self.is_good && self.cells.iter().all(|cell| cell.is_good_somewhere())
    }

    /// Devices that have to fail before the content is lost; 0 when it is.
    pub(super) fn failures_to_lose(&self, stripes: &[Stripe]) -> u32 {
        if !self.is_good {
            return 0;
        }
        let mut cells = self.cells.iter();
        let left = stripes.iter().map(|stripe| {
            let of_stripe = cells.by_ref().take(stripe.parity.len() + stripe.data.len());
            let bad = of_stripe.filter(|cell| cell.is_needed() && !cell.is_good_somewhere()).count();
            (stripe.parity.len() + 1).saturating_sub(bad)
        });
        left.min().and_then(|left| u32::try_from(left).ok()).unwrap_or(0)
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
            // A device that failed in one stripe may have answered in another.
            let is_left_out = |cell: &CellRead| left_out.contains(&cell.child);
            let trusted: Vec<(usize, &[u8])> = parity_cells
                .iter()
                .enumerate()
                .filter(|(_, cell)| !is_left_out(cell))
                .map(|(row, cell)| (row, cell.answer.bytes.as_slice()))
                .collect();
            let is_lost = |cell: &CellRead| cell.is_needed() && is_left_out(cell);
            let lost: Vec<usize> =
                (0..data_cells.len()).filter(|&index| data_cells.get(index).is_some_and(is_lost)).collect();
            let mut data: Vec<Vec<u8>> = data_cells.iter().map(CellRead::padded).collect();
            let mut columns: Vec<&mut [u8]> = data.iter_mut().map(Vec::as_mut_slice).collect();
            if !lost.is_empty() && !parity::reconstruct(&mut columns, &lost, &trusted) {
                return None;
            }
            all.append(&mut data);
        }
        Some(all)
    }

    /// With the right data known: computes the right parity, and judges every cell. What is wrong on devices that are
    /// known to be out of date for the block's txg is no damage.
    fn conclude(&mut self, stripes: &[Stripe], data: Vec<Vec<u8>>) {
        let mut data = data.into_iter();
        let mut right: Vec<Vec<u8>> = Vec::with_capacity(self.cells.len());
        for stripe in stripes {
            let mut columns: Vec<Vec<u8>> = data.by_ref().take(stripe.data.len()).collect();
            for (column, cell) in columns.iter_mut().zip(&stripe.data) {
                column.get_mut(cell.data_bytes..).unwrap_or_default().fill(0);
            }
            let slices: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
            for (row, cell) in stripe.parity.iter().enumerate() {
                let mut parity = vec![0; cell.length_bytes];
                parity::generate(row, &slices, &mut parity);
                right.push(parity);
            }
            right.extend(columns);
        }
        for (cell, right) in self.cells.iter_mut().zip(&right) {
            for answer in std::iter::once(&mut cell.answer).chain(&mut cell.siblings) {
                if answer.state.is_good() && answer.bytes != *right {
                    answer.state = CopyState::BadChecksum;
                }
                if answer.is_stale && matches!(answer.state, CopyState::BadChecksum | CopyState::OutOfRange) {
                    answer.state = CopyState::Stale;
                }
            }
        }
        self.right = right;
        self.is_good = true;
    }
}

impl CellRead {
    /// A cell that `leaf` answered for, without what it returned.
    fn answered(cell: &Cell, is_parity: bool, leaf: LeafId, state: CopyState) -> Self {
        Self {
            child: cell.child,
            device_offset_bytes: cell.device_offset_bytes,
            length_bytes: cell.length_bytes,
            data_bytes: cell.data_bytes,
            is_parity,
            answer: Answer { leaf: Some(leaf), is_stale: false, state, bytes: Vec::new() },
            siblings: Vec::new(),
        }
    }

    /// What the cell holds is not known from the format alone, as that of a cell of pads is.
    fn is_needed(&self) -> bool {
        self.is_parity || self.data_bytes > 0
    }

    fn is_good_somewhere(&self) -> bool {
        self.answer.state.is_good() || self.siblings.iter().any(|answer| answer.state.is_good())
    }

    /// What was read, with its pad as it should be; zeros when nothing was.
    fn padded(&self) -> Vec<u8> {
        let mut bytes = self.answer.bytes.clone();
        bytes.resize(self.length_bytes, 0);
        bytes.get_mut(self.data_bytes..).unwrap_or_default().fill(0);
        bytes
    }
}

/// Whether parity rows agree with the data. The first `used` of them rebuilt something, and agree by construction.
fn agree(columns: &[&[u8]], rows: &[(usize, &[u8])], used: usize, expected: &mut Vec<u8>) -> bool {
    let length = rows.first().map_or(0, |(_, stored)| stored.len());
    let is_whole = used == 0 && rows.iter().enumerate().all(|(at, &(row, stored))| at == row && stored.len() == length);
    if is_whole && length > 0 {
        expected.resize(length * rows.len(), 0);
        let mut wanted: [&mut [u8]; parity::PARITY_MAX] = Default::default();
        for (wanted, row) in wanted.iter_mut().zip(expected.chunks_mut(length)) {
            *wanted = row;
        }
        let wanted = wanted.get_mut(..rows.len()).unwrap_or_default();
        parity::generate_rows(columns, wanted);
        return rows.iter().zip(wanted).all(|((_, stored), wanted)| *stored == *wanted);
    }
    rows.iter().skip(used).all(|&(row, stored)| {
        expected.resize(stored.len(), 0);
        parity::generate(row, columns, expected);
        expected == stored
    })
}

/// Puts data cells where they belong in the block.
fn fill(payload: &mut [u8], stripes: &[Stripe], data: &[Vec<u8>]) {
    for (cell, bytes) in stripes.iter().flat_map(|stripe| &stripe.data).zip(data) {
        put(payload, cell.block_offset, bytes.get(..cell.data_bytes).unwrap_or(bytes));
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
