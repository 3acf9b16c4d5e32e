//! Looks for ZFS labels where no table says that they are.
//!
//! A label is told by the first bytes of its configuration, an nvlist in XDR at 16 KiB, and proven by its checksum, which
//! is over its place on the member, too. So a label that is found tells where its member begins: those at the front by
//! their two possible places, those at the end by the size that the configuration records.
//!
//! Source: OpenZFS module/nvpair/nvpair.c, `nvs_operation`, for the first bytes.

use super::labels::recorded_psize;
use crate::codec::checksum::{Embedded, verify_embedded_sha256};
use crate::media::ReadAt;
use crate::ondisk::label::{LABEL_BYTES, VDEV_PHYS_BYTES, VDEV_PHYS_OFFSET_BYTES};
use crate::ondisk::nvlist::NvList;
use std::collections::BTreeMap;

/// Grid on which labels are looked for: the smallest sectors.
const STEP_BYTES: usize = 512;
const PIECE_BYTES: u64 = 1 << 20;
/// What is read again where a piece cannot be read as a whole.
const SMALL_PIECE_BYTES: u64 = 64 << 10;
/// How much is searched at each end when the search is bounded.
const END_BYTES: u64 = 4 << 20;
/// A disk that is smaller has no room for a member.
const DISK_BYTES_MIN: u64 = 8 << 20;
/// Checksums that are tried: a disk full of what looks like labels must not take forever.
const TRIES_MAX: u32 = 20_000;
const MIB: u64 = 1 << 20;
/// Every partition of the last 15 years begins at a whole MiB; boot partitions before the pool are seldom larger.
const FRONT_MIBS: u64 = 128;
/// Sectors of 512 bytes at which partitions begin: GPT, DOS, illumos, FreeBSD, and their forms for large sectors.
const SECTORS: [u64; 12] = [1, 34, 40, 63, 64, 128, 256, 504, 1024, 2048, 16065, 16128];
/// Whole MiB behind boot partitions and swap of usual sizes.
const MIBS: [u64; 28] = [
    200, 201, 256, 257, 260, 261, 300, 301, 500, 501, 512, 513, 514, 538, 550, 551, 1024, 1025, 1026, 1536, 1537, 2048,
    2049, 2050, 4096, 4097, 8192, 8193,
];

/// Where a member begins, and how long it is, as far as its labels tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start_bytes: u64,
    pub(super) size_bytes: u64,
}

/// Searches where partitions usually begin, at `starts`, and at both ends of the disk.
pub(super) fn likely(disk: &dyn ReadAt, starts: &[u64]) -> Vec<Found> {
    let size = disk.size_bytes();
    if size < DISK_BYTES_MIN {
        return Vec::new();
    }
    let mut search = Search::new(disk);
    search.scan(0, END_BYTES.min(size));
    let usual = SECTORS.iter().map(|sectors| sectors * 512);
    let usual = usual.chain((1..=FRONT_MIBS).chain(MIBS).map(|mibs| mibs * MIB));
    let mut places: Vec<u64> = usual.chain(starts.iter().copied()).collect();
    places.sort_unstable();
    places.dedup();
    for start in places {
        for label in [0, LABEL_BYTES] {
            search.try_place(start.saturating_add(label).saturating_add(VDEV_PHYS_OFFSET_BYTES));
        }
    }
    search.scan(size.saturating_sub(END_BYTES).max(END_BYTES).next_multiple_of(STEP_BYTES as u64), size);
    search.into_found()
}

/// Searches the whole disk.
pub(super) fn everywhere(disk: &dyn ReadAt) -> Vec<Found> {
    let mut search = Search::new(disk);
    search.scan(0, disk.size_bytes());
    search.into_found()
}

struct Search<'a> {
    disk: &'a dyn ReadAt,
    /// Members by where they begin, with their size where a label told it.
    found: BTreeMap<u64, Option<u64>>,
    tries: u32,
}

impl<'a> Search<'a> {
    fn new(disk: &'a dyn ReadAt) -> Self {
        Self { disk, found: BTreeMap::new(), tries: 0 }
    }

    fn into_found(self) -> Vec<Found> {
        let size = self.disk.size_bytes();
        let whole = |(start_bytes, told): (u64, Option<u64>)| Found {
            start_bytes,
            size_bytes: told.unwrap_or(u64::MAX).min(size.saturating_sub(start_bytes)),
        };
        self.found.into_iter().map(whole).collect()
    }

    /// Looks at every step from `start` to `end`. What cannot be read is passed over.
    fn scan(&mut self, start: u64, end: u64) {
        let mut piece = vec![0; PIECE_BYTES as usize];
        let mut at = start;
        while at < end {
            let length = PIECE_BYTES.min(end.saturating_sub(at));
            if !self.scan_piece(&mut piece, at, length) {
                let mut small = at;
                while small < at.saturating_add(length) {
                    let rest = at.saturating_add(length).saturating_sub(small);
                    self.scan_piece(&mut piece, small, SMALL_PIECE_BYTES.min(rest));
                    small = small.saturating_add(SMALL_PIECE_BYTES);
                }
            }
            at = at.saturating_add(length);
        }
    }

    fn scan_piece(&mut self, piece: &mut [u8], at: u64, length: u64) -> bool {
        let Some(piece) = usize::try_from(length).ok().and_then(|length| piece.get_mut(..length)) else { return true };
        if self.disk.read_at(piece, at).is_err() {
            return false;
        }
        for (index, step) in piece.chunks(STEP_BYTES).enumerate() {
            if begins_like_config(step) {
                self.judge(at.saturating_add((index * STEP_BYTES) as u64));
            }
        }
        true
    }

    /// Looks at one place only.
    fn try_place(&mut self, at: u64) {
        let mut bytes = [0; 12];
        let is_inside = at.checked_add(VDEV_PHYS_BYTES).is_some_and(|end| end <= self.disk.size_bytes());
        if is_inside && self.disk.read_at(&mut bytes, at).is_ok() && begins_like_config(&bytes) {
            self.judge(at);
        }
    }

    /// Finds out whether the configuration at `at` is that of a label, and of which member.
    fn judge(&mut self, at: u64) {
        let mut area = vec![0; VDEV_PHYS_BYTES as usize];
        let is_inside = at.checked_add(VDEV_PHYS_BYTES).is_some_and(|end| end <= self.disk.size_bytes());
        if !is_inside || self.disk.read_at(&mut area, at).is_err() {
            return;
        }
        let psize = NvList::parse(&area).ok().as_ref().and_then(recorded_psize);
        let mut starts: Vec<(u64, Option<u64>)> = Vec::new();
        for label in [0, LABEL_BYTES] {
            starts.extend(at.checked_sub(label + VDEV_PHYS_OFFSET_BYTES).map(|start| (start, psize)));
        }
        for from_end in [2 * LABEL_BYTES, LABEL_BYTES] {
            let offset = psize.and_then(|psize| psize.checked_sub(from_end)?.checked_add(VDEV_PHYS_OFFSET_BYTES));
            starts.extend(offset.and_then(|offset| at.checked_sub(offset)).map(|start| (start, psize)));
        }
        // Where the size is not recorded, or was another one: the last label of a member that is known already.
        for &start in self.found.keys().rev().take(8) {
            let label = at.saturating_sub(start).saturating_sub(VDEV_PHYS_OFFSET_BYTES);
            starts.push((start, label.checked_add(LABEL_BYTES)));
        }
        for (start, size) in starts {
            if self.tries >= TRIES_MAX {
                return;
            }
            self.tries += 1;
            let Some(offset) = at.checked_sub(start) else { continue };
            if matches!(verify_embedded_sha256(&area, [offset, 0, 0, 0]), Embedded::Valid(_)) {
                let known = self.found.entry(start).or_default();
                *known = (*known).max(size);
                return;
            }
        }
    }
}

/// The header of an XDR nvlist with unique names, by a writer of either byte order.
fn begins_like_config(bytes: &[u8]) -> bool {
    matches!(bytes.first_chunk::<12>(), Some([1, 0 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]))
}
