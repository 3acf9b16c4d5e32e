//! Blocks of a removed vdev that were split: several parts, each on a vdev of its own, perhaps with several copies.
//!
//! Only the whole has a checksum. Where copies of a part differ, each combination of them is tried until the whole
//! matches; the copies that differ from the one that made it are bad.
//!
//! Source: OpenZFS module/zfs/vdev_indirect.c, `vdev_indirect_reconstruct_io_done`.

use super::copies::Judge;
use super::{BlockReader, CopyRead, CopyState};
use crate::ondisk::blkptr::Dva;
use crate::vdev::Segment;

/// Combinations tried for one block (`zfs_reconstruct_indirect_combinations_max`).
const COMBINATIONS_MAX: usize = 4096;

/// A split copy, read and judged.
#[derive(Debug)]
pub(super) struct SplitRead {
    /// Each copy of each part, and its bytes.
    pub(super) copies: Vec<(CopyRead, Vec<u8>)>,
    /// Devices that have to fail before the copy is lost; 0 when it is.
    pub(super) failures_to_lose: u32,
    /// All copies of all parts are good.
    pub(super) is_full: bool,
}

/// One part: its copies, and what they can be.
struct Part {
    block_offset: usize,
    copies: Vec<(CopyRead, Vec<u8>)>,
    /// Indices of copies that were read and differ from one another; those on devices known to be out of date last.
    variants: Vec<usize>,
}

impl BlockReader<'_> {
    /// Reads all copies of all parts, and puts the block together in `payload`.
    pub(super) fn read_split(
        &self,
        copy: usize,
        dva: Dva,
        segments: &[Segment],
        payload: &mut [u8],
        judge: Judge<'_>,
    ) -> SplitRead {
        let parts: Vec<Part> = segments.iter().map(|segment| self.read_part(copy, dva, segment)).collect();
        let mut parts = parts;
        let verdict = combine(&parts, payload, judge);
        let is_stale =
            |copy: &CopyRead, segment: &Segment| copy.leaf.is_some_and(|leaf| self.tree.is_stale(leaf, segment.birth));
        let mut read = SplitRead { copies: Vec::new(), failures_to_lose: 0, is_full: false };
        if let CopyState::Good = verdict {
            let mut weakest = u32::MAX;
            read.is_full = true;
            for (part, segment) in parts.iter_mut().zip(segments) {
                let right = payload.get(part.block_offset..part.block_offset + segment.length_bytes);
                let mut good = 0;
                for (copy, bytes) in &mut part.copies {
                    if copy.state.is_good() && Some(bytes.as_slice()) != right {
                        copy.state = CopyState::BadChecksum;
                    }
                    if matches!(copy.state, CopyState::BadChecksum | CopyState::OutOfRange) && is_stale(copy, segment) {
                        copy.state = CopyState::Stale;
                    }
                    good += u32::from(copy.state.is_good());
                    read.is_full &= copy.state.is_good();
                }
                weakest = weakest.min(good);
            }
            read.failures_to_lose = weakest;
            read.copies = parts.into_iter().flat_map(|part| part.copies).collect();
            return read;
        }
        // Which part is wrong cannot be told: one entry for the whole, beside the parts that could not be read.
        let unread = parts.into_iter().flat_map(|part| part.copies).filter(|(copy, _)| !copy.state.is_good());
        read.copies = unread.collect();
        let length_bytes = payload.len() as u64;
        read.copies.push((CopyRead { length_bytes, state: verdict, ..CopyRead::missing(copy, dva) }, payload.to_vec()));
        read
    }

    fn read_part(&self, copy: usize, dva: Dva, segment: &Segment) -> Part {
        let mut part = Part { block_offset: segment.block_offset, copies: Vec::new(), variants: Vec::new() };
        let mut late = Vec::new();
        for place in &segment.places {
            let mut bytes = vec![0; segment.length_bytes];
            let read = self.read_side(copy, dva, place.clone(), &mut bytes);
            let index = part.copies.len();
            let is_known = |&other: &usize| part.copies.get(other).is_some_and(|(_, known)| *known == bytes);
            if read.state.is_good() && !part.variants.iter().chain(&late).any(is_known) {
                let is_stale = read.leaf.is_some_and(|leaf| self.tree.is_stale(leaf, segment.birth));
                if is_stale { &mut late } else { &mut part.variants }.push(index);
            }
            part.copies.push((read, bytes));
        }
        part.variants.append(&mut late);
        part
    }
}

/// Tries the combinations of differing copies until the whole matches.
fn combine(parts: &[Part], payload: &mut [u8], judge: Judge<'_>) -> CopyState {
    let absent = parts.iter().find(|part| part.variants.is_empty());
    if let Some(part) = absent {
        return part.copies.first().map_or(CopyState::Missing, |(copy, _)| copy.state.clone());
    }
    let mut choice = vec![0_usize; parts.len()];
    for _ in 0..COMBINATIONS_MAX {
        for (part, &chosen) in parts.iter().zip(&choice) {
            let bytes = part.variants.get(chosen).and_then(|&index| part.copies.get(index)).map(|(_, bytes)| bytes);
            let target = bytes.and_then(|bytes| payload.get_mut(part.block_offset..part.block_offset + bytes.len()));
            if let (Some(bytes), Some(target)) = (bytes, target) {
                target.copy_from_slice(bytes);
            }
        }
        match judge(payload) {
            CopyState::BadChecksum => {}
            verdict => return verdict,
        }
        // The next combination, counted as a number whose digits are the choices.
        let mut carry = true;
        for (digit, part) in choice.iter_mut().zip(parts) {
            if carry {
                *digit += 1;
                carry = *digit == part.variants.len();
                *digit = if carry { 0 } else { *digit };
            }
        }
        if carry {
            return CopyState::BadChecksum;
        }
    }
    CopyState::Broken(format!("{COMBINATIONS_MAX} combinations of its parts were tried, not all there are"))
}
