//! The copies of a block, address by address: read, judged, listed.

use super::redundancy::Strength;
use super::striped::{Answer, CellRead, StripedRead};
use super::{BlockReader, CopyRead, CopyState, OnBad, Role};
use crate::Txg;
use crate::media::{MediaError, ReadAt};
use crate::ondisk::blkptr::{Blkptr, Dva};
use crate::vdev::{LeafId, Place, Side};

/// Says what bytes are worth.
pub(super) type Judge<'a> = &'a mut dyn FnMut(&[u8]) -> CopyState;

/// Buffers for the bytes of a block, and what became of its copies so far.
pub(super) struct Search<'a> {
    /// Bytes of a copy.
    pub(super) size: usize,
    /// Whether to go on when a good copy was found.
    pub(super) all: bool,
    /// The first good copy.
    pub(super) payload: &'a mut Vec<u8>,
    /// Later ones are read here.
    pub(super) spare: &'a mut Vec<u8>,
    /// Cells of a stripe.
    pub(super) cells: &'a mut Vec<u8>,
    /// `payload` holds a good copy.
    pub(super) is_found: bool,
    pub(super) copies: Vec<CopyRead>,
    pub(super) strengths: Vec<Strength>,
}

impl BlockReader<'_> {
    /// Looks at all addresses of a pointer, which holds blocks of `search.size` bytes there.
    pub(super) fn search(&self, bp: &Blkptr, search: &mut Search<'_>, judge: Judge<'_>, on_bad: OnBad<'_>) {
        for (copy, dva) in bp.dvas() {
            if search.is_found && !search.all {
                break;
            }
            self.search_address(bp, copy, dva, search, judge, on_bad);
        }
    }

    fn search_address(
        &self,
        bp: &Blkptr,
        copy: usize,
        dva: Dva,
        search: &mut Search<'_>,
        judge: Judge<'_>,
        on_bad: OnBad<'_>,
    ) {
        let (mut good, mut failures_to_lose, mut is_full) = (0, 0, true);
        // A removed vdev is not where the copy lies.
        let mut vdev = dva.vdev as usize;
        for side in self.tree.sides(&dva, search.size as u64, bp.physical_birth_txg()) {
            if search.is_found && !search.all {
                break;
            }
            let buffer = if search.is_found { &mut *search.spare } else { &mut *search.payload };
            buffer.resize(search.size, 0);
            let (is_good, survives) = match side {
                Side::Whole { place, birth } => {
                    let mut read = self.read_side(copy, dva, place, buffer);
                    if read.state.is_good() {
                        read.state = judge(buffer);
                    }
                    self.excuse(&mut read, birth);
                    let is_good = read.state.is_good();
                    vdev = read.leaf.and_then(|leaf| self.tree.leaf(leaf)).map_or(vdev, |leaf| leaf.top);
                    if matches!(read.state, CopyState::BadChecksum) {
                        on_bad(&read, buffer, None);
                    }
                    search.copies.push(read);
                    good += usize::from(is_good);
                    (is_good, u32::from(is_good))
                }
                Side::Striped { vdev, stripes } => {
                    let read = self.read_stripes(bp, vdev, &stripes, buffer, search.cells, judge);
                    let (is_good, survives) = (read.is_good, read.failures_to_lose(&stripes));
                    is_full &= read.is_full();
                    push_cells(copy, dva, read, &mut search.copies, on_bad);
                    (is_good, survives)
                }
                Side::Split(segments) => {
                    let read = self.read_split(copy, dva, &segments, buffer, judge);
                    is_full &= read.is_full;
                    for (read, bytes) in &read.copies {
                        if matches!(read.state, CopyState::BadChecksum) {
                            on_bad(read, bytes, None);
                        }
                    }
                    search.copies.extend(read.copies.into_iter().map(|(read, _)| read));
                    (read.failures_to_lose > 0, read.failures_to_lose)
                }
            };
            failures_to_lose += survives;
            search.is_found |= is_good;
        }
        let of_copies = Strength::of_copies(self.tree, vdev, good);
        let is_full = is_full && failures_to_lose > 0 && (good == 0 || of_copies.is_full);
        search.strengths.push(Strength { failures_to_lose, is_full, ..of_copies });
    }

    /// A wrong copy on a device that is known to be out of date for the txg that wrote it is no damage.
    fn excuse(&self, read: &mut CopyRead, birth: Txg) {
        let is_wrong = matches!(read.state, CopyState::BadChecksum | CopyState::OutOfRange | CopyState::Broken(_));
        if is_wrong && read.leaf.is_some_and(|leaf| self.tree.is_stale(leaf, birth)) {
            read.state = CopyState::Stale;
        }
    }

    /// Reads a copy, or a part of one, that lies together. `Good` means only that the bytes came.
    pub(super) fn read_side(&self, copy: usize, dva: Dva, place: Place, buffer: &mut [u8]) -> CopyRead {
        let mut read = CopyRead { length_bytes: buffer.len() as u64, ..CopyRead::missing(copy, dva) };
        match place {
            Place::MissingVdev => {}
            Place::OutOfRange => read.state = CopyState::OutOfRange,
            Place::Unsupported(what) => read.state = CopyState::Unsupported(what),
            Place::Leaf { leaf, device_offset_bytes } => {
                (read.leaf, read.device_offset_bytes) = (Some(leaf), Some(device_offset_bytes));
                read.state = self.read_leaf(leaf, device_offset_bytes, buffer);
            }
        }
        read
    }

    /// Fills `buffer` from a device. `Good` means only that the bytes came.
    pub(super) fn read_leaf(&self, leaf: LeafId, offset: u64, buffer: &mut [u8]) -> CopyState {
        let Some(medium) = self.tree.leaf(leaf).and_then(|leaf| leaf.medium.as_ref()) else {
            return CopyState::Missing;
        };
        if let Some(bytes) = self.windows.and_then(|windows| windows.get(leaf, offset, buffer.len())) {
            buffer.copy_from_slice(bytes);
            return CopyState::Good;
        }
        match medium.read_at(buffer, offset) {
            Ok(()) => CopyState::Good,
            Err(MediaError::OutOfRange { .. }) => CopyState::OutOfRange,
            Err(MediaError::Gone { .. }) => CopyState::Missing,
            Err(MediaError::Unread { .. }) => CopyState::Unread,
            Err(error) => CopyState::Failed(error),
        }
    }
}

/// Lists the cells of one address. Where the content is lost, cells that were read are neither good nor bad, as far as
/// can be told: then one entry stands for the address as a whole, beside the cells that could not be read.
fn push_cells(copy: usize, dva: Dva, read: StripedRead, copies: &mut Vec<CopyRead>, on_bad: OnBad<'_>) {
    let StripedRead { is_good, failure, cells, right } = read;
    for (index, cell) in cells.into_iter().enumerate() {
        let CellRead { device_offset_bytes, length_bytes, is_parity, answer, siblings, .. } = cell;
        let right = right.get(index).map(Vec::as_slice);
        for Answer { leaf, state, bytes, .. } in std::iter::once(answer).chain(siblings) {
            if !is_good && state.is_good() {
                continue;
            }
            let part = CopyRead {
                role: if is_parity { Role::Parity } else { Role::Data },
                length_bytes: length_bytes as u64,
                leaf,
                device_offset_bytes: Some(device_offset_bytes),
                state,
                ..CopyRead::missing(copy, dva)
            };
            if matches!(part.state, CopyState::BadChecksum) {
                on_bad(&part, &bytes, right);
            }
            copies.push(part);
        }
    }
    if !is_good {
        copies.push(CopyRead { length_bytes: dva.asize_bytes, state: failure, ..CopyRead::missing(copy, dva) });
    }
}
