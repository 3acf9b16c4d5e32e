//! A close look at one block: every copy, what a bad one holds instead, and the finding that follows.

use super::Bookmark;
use super::batch::assumed;
use super::counters::Counters;
use super::journal::Journal;
use super::margin::{AtRisk, is_at_risk};
use super::patience::Patience;
use super::selection::Selection;
use crate::finding::{
    BLOCK_SPILL, CopyEvidence, CopyResult, Finding, Kind, LEVEL_OBJSET, LEVEL_ZIL, Observed, Place, Severity, Sink,
    StoredPart, stored_parts,
};
use crate::options::{Options, Progress, Stop};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use zfs_format::block::{BlockReader, CopyRead, CopyState, MacState, ReadError, Redundancy, Role, Verification, Work};
use zfs_format::codec::checksum::compute_plain;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ChecksumKind;
use zfs_format::vdev::LeafId;

/// What all parts of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared<'a> {
    pub(super) reader: BlockReader<'a>,
    pub(super) options: &'a Options,
    pub(super) progress: &'a Progress,
    pub(super) counters: &'a Counters,
    /// What is counted in leaf blocks, apart from the rest until the end.
    pub(super) leaf_counters: &'a Counters,
    pub(super) sink: &'a Sink,
    /// What of the pool's datasets is visited.
    pub(super) selection: &'a Selection,
    /// Where to note how far the run is.
    pub(super) journal: Option<&'a Journal<'a>>,
    /// When the run is to end.
    pub(super) deadline: Option<Instant>,
    /// How long names are looked for after it.
    pub(super) patience: Patience,
    /// Where to note what one more failure would lose, when that was asked for.
    pub(super) at_risk: Option<&'a AtRisk>,
}

/// A copy that a fast check found bad; the close look is for the first bad copy of a block only, so that a block with
/// several of them is reported once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) copy: usize,
    pub(super) leaf: LeafId,
    /// The block was not decoded yet, since decoding happens on this copy.
    pub(super) decodes_here: bool,
}

/// What reading all copies of a block gave.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) verification: Verification,
    /// What each part with wrong bytes holds instead.
    observed: Vec<Observed>,
}

impl Shared<'_> {
    /// Verifies every copy of a block, counts and reports. True when [`Work::plain`] then holds the block.
    pub(super) fn check_block(&self, bp: &Blkptr, bookmark: Bookmark, work: &mut Work) -> bool {
        let look = self.look(bp, bookmark, work);
        self.settle(bp, bookmark, &look);
        look.verification.plain.is_ok()
    }

    /// Counts what a look at a block gave, and reports it.
    pub(super) fn settle(&self, bp: &Blkptr, bookmark: Bookmark, look: &Look) {
        let verification = &look.verification;
        self.count_parts(bp, verification);
        self.progress.add_done(bp.asize_bytes());
        self.count_decoded(bp, verification);
        if !verification.copies.is_empty() {
            self.counters.add_redundancy(&verification.redundancy);
            self.note_margin(bp, bookmark, &verification.redundancy);
        }
        self.report(bp, bookmark, look);
    }

    /// Counts what was read of a block.
    pub(super) fn count_parts(&self, bp: &Blkptr, verification: &Verification) {
        for part in &verification.copies {
            if matches!(part.state, CopyState::Unsupported(_)) {
                self.count_unsupported(bp, part.dva.asize_bytes);
            }
            let Some(leaf) = part.leaf else { continue };
            match part.state {
                CopyState::Good | CopyState::BadChecksum | CopyState::Broken(_) => {
                    self.counters.add_verified(leaf, part.role, part.length_bytes);
                }
                CopyState::Stale => {
                    self.counters.add_verified(leaf, part.role, part.length_bytes);
                    self.counters.add_stale(leaf);
                }
                CopyState::Missing => self.counters.add_missing(leaf, 1, part.length_bytes),
                CopyState::Unread => self.counters.add_unread(leaf, part.length_bytes),
                _ => {}
            }
        }
        // An address on raidz is one copy, whatever the number of its columns; of one that cannot be rebuilt nothing was
        // verified, and those of its columns that are listed could not be read.
        let is_judged = |part: &&CopyRead| {
            let is_known = matches!(part.state, CopyState::Good | CopyState::BadChecksum | CopyState::Stale);
            part.role != Role::Copy && is_known
        };
        // The parts of an address stand together.
        let (mut striped, mut last) = (0, None);
        for part in verification.copies.iter().filter(is_judged) {
            striped += u64::from(last != Some(part.copy));
            last = Some(part.copy);
        }
        self.counters.copies_verified.fetch_add(striped, Relaxed);
    }

    /// Notes an object that is one failure from loss.
    pub(super) fn note_margin(&self, bp: &Blkptr, bookmark: Bookmark, redundancy: &Redundancy) {
        // A log is no file: what it holds waits to become one.
        if let Some(at_risk) = self.at_risk
            && is_at_risk(redundancy)
            && bookmark.level != LEVEL_ZIL
        {
            at_risk.add(bp, bookmark);
        }
    }

    /// Looks again at a block of which a fast check found a copy bad.
    pub(super) fn check_suspect(&self, bp: &Blkptr, bookmark: Bookmark, suspect: Suspect, work: &mut Work) {
        let look = self.look(bp, bookmark, work);
        let verification = &look.verification;
        if suspect.decodes_here {
            self.count_decoded(bp, verification);
        }
        let is_suspect = |copy: &&CopyRead| (copy.copy, copy.leaf) == (suspect.copy, Some(suspect.leaf));
        if let Some(copy) = verification.copies.iter().find(is_suspect) {
            match copy.state {
                CopyState::Stale => self.counters.add_stale(suspect.leaf),
                CopyState::Unsupported(_) => self.count_unsupported(bp, copy.dva.asize_bytes),
                // The device disappeared since the walk; what is missing from the start is counted there.
                CopyState::Missing => self.counters.add_missing(suspect.leaf, 1, copy.length_bytes),
                CopyState::Unread => self.counters.add_unread(suspect.leaf, copy.length_bytes),
                _ => {}
            }
        }
        // Of several copies that are not good the first one corrects what was counted.
        let is_given = |copy: &CopyRead| copy.leaf.is_some_and(|leaf| self.reader.tree().is_given(leaf));
        let is_weaker =
            |copy: &&CopyRead| !copy.state.is_good() && (!matches!(copy.state, CopyState::Missing) || is_given(copy));
        if verification.copies.iter().find(is_weaker).is_some_and(|first| is_suspect(&first)) {
            let assumed = assumed(self.reader.tree(), bp);
            self.counters.take_redundancy(&assumed);
            self.counters.add_redundancy(&verification.redundancy);
            if !is_at_risk(&assumed) {
                self.note_margin(bp, bookmark, &verification.redundancy);
            }
        }
        let is_bad = |copy: &&CopyRead| !copy.state.is_good() && !copy.state.is_unknown();
        let reporter = match verification.copies.iter().find(is_bad) {
            Some(first) => (first.copy, first.leaf) == (suspect.copy, Some(suspect.leaf)),
            // All copies are good, so what is wrong shows in decoding.
            None => suspect.decodes_here,
        };
        if reporter {
            self.report(bp, bookmark, &look);
        }
    }

    /// Whether work that was begun is to be left. What is to go on later is finished: only whole tasks are remembered.
    pub(super) fn is_given_up(&self) -> bool {
        self.journal.is_none() && self.progress.is_cancelled()
    }

    /// Ends the run, when the first damage is enough.
    pub(super) fn stop_at_damage(&self) {
        if self.options.scope.fail_fast {
            self.progress.stop(Stop::FirstDamage);
        }
    }

    /// Reads every copy of a block.
    pub(super) fn look(&self, bp: &Blkptr, bookmark: Bookmark, work: &mut Work) -> Look {
        let mut observed = Vec::new();
        let verification = self.reader.of_objset(bookmark.objset).verify(bp, work, &mut |_, bytes, right| {
            observed.push(observe(bp, bytes, right));
        });
        Look { verification, observed }
    }

    /// Reads every copy of a block of an intent log.
    pub(super) fn look_at_log(&self, bp: &Blkptr, objset: u64, work: &mut Work) -> Look {
        let mut observed = Vec::new();
        let verification = self.reader.of_objset(objset).verify_log(bp, work, &mut |_, bytes, right| {
            observed.push(observe(bp, bytes, right));
        });
        Look { verification, observed }
    }

    fn count_unsupported(&self, bp: &Blkptr, bytes: u64) {
        if self.reader.lacks_salt(bp) {
            self.counters.add_unsalted(bytes);
        } else {
            self.counters.add_unsupported(bytes);
        }
    }

    fn count_decoded(&self, bp: &Blkptr, verification: &Verification) {
        match &verification.plain {
            Ok(()) => self.counters.decoded_blocks.fetch_add(1, Relaxed),
            Err(ReadError::NoKey) => self.counters.encrypted_blocks.fetch_add(1, Relaxed),
            Err(_) => 0,
        };
        if bp.checksum_kind().is_none() && !bp.is_embedded() {
            self.counters.unprotected_blocks.fetch_add(1, Relaxed);
        }
    }

    /// Turns a verification into a finding, when there is something to say.
    fn report(&self, bp: &Blkptr, bookmark: Bookmark, look: &Look) {
        let Look { verification, observed } = look;
        if verification.mac == MacState::Wrong {
            self.report_mac(bp, bookmark, verification);
        }
        let copies = &verification.copies;
        let bad: Vec<&CopyRead> = copies.iter().filter(|c| !c.state.is_good() && !c.state.is_unknown()).collect();
        // A copy that this version cannot read may be a good one.
        let is_unsure = copies.iter().any(|copy| matches!(copy.state, CopyState::Unsupported(_)));
        let is_lost = verification.is_lost && !is_unsure;
        let hides = bookmark.level != LEVEL_ZIL && (bookmark.level != 0 || bookmark.object == 0);
        let hidden_blocks = if verification.plain.is_ok() || !hides { 0 } else { bp.fill_count() };
        self.counters.add_hidden(bookmark, hidden_blocks);
        let error = verification.plain.as_ref().err();
        let (kind, message) = match error {
            Some(ReadError::Pointer(error)) => (Kind::PointerInvalid, error.to_string()),
            Some(ReadError::Undecodable { source }) => (Kind::BlockUndecodable, source.to_string()),
            _ if bad.is_empty() && !is_lost => return,
            _ => (kind_of(&bad, copies), message(bp, copies, is_lost, is_unsure)),
        };
        let is_whole = match error {
            None | Some(ReadError::NoKey | ReadError::WrongMac | ReadError::Redacted) => true,
            Some(ReadError::NoGoodCopy { .. }) => is_unsure,
            Some(_) => false,
        };
        self.count_errors(&bad, is_lost);
        if verification.is_lost {
            self.count_unlocks(copies, 1 + hidden_blocks);
        }
        let counter = if is_whole { &self.counters.degraded_blocks } else { &self.counters.lost_blocks };
        counter.fetch_add(1, Relaxed);
        if bookmark.level == 0 && bookmark.object != 0 {
            self.counters.bad_leaf_blocks.fetch_add(1, Relaxed);
        }
        self.progress.add_bad_block();
        if !is_whole {
            self.stop_at_damage();
        }
        self.sink.push(Finding {
            severity: if is_whole { Severity::Degraded } else { Severity::Damaged },
            copies: self.evidence(copies, observed, error),
            recoverable: is_whole,
            hidden_blocks,
            pointer: Some(*bp),
            ..Finding::new(kind, place(bp, bookmark), message)
        });
    }

    /// The bytes are those that the checksum covers, and still not those that the MAC does.
    fn report_mac(&self, bp: &Blkptr, bookmark: Bookmark, verification: &Verification) {
        let message = match bookmark.level {
            LEVEL_OBJSET => "the MACs of the object set do not match it",
            level if level > 0 => "the MAC of the indirect block does not match the pointers in it",
            _ => "the MAC does not match the content",
        };
        self.counters.lost_blocks.fetch_add(1, Relaxed);
        self.progress.add_bad_block();
        self.stop_at_damage();
        self.sink.push(Finding {
            copies: self.evidence(&verification.copies, &[], None),
            pointer: Some(*bp),
            ..Finding::new(Kind::MacWrong, place(bp, bookmark), message)
        });
    }

    /// What each copy gave, for a finding.
    pub(super) fn evidence_of(&self, look: &Look) -> Vec<CopyEvidence> {
        self.evidence(&look.verification.copies, &look.observed, look.verification.plain.as_ref().err())
    }

    /// Counts the bad copies of a block that is lost.
    pub(super) fn count_lost(&self, look: &Look) {
        let is_bad = |copy: &&CopyRead| !copy.state.is_good() && !copy.state.is_unknown();
        let bad: Vec<&CopyRead> = look.verification.copies.iter().filter(is_bad).collect();
        self.count_errors(&bad, true);
    }

    fn count_errors(&self, bad: &[&CopyRead], is_lost: bool) {
        for copy in bad {
            let Some(leaf) = copy.leaf.and_then(|leaf| self.counters.leaves.get(leaf.0)) else { continue };
            match copy.state {
                CopyState::Failed(_) | CopyState::OutOfRange => leaf.read_errors.fetch_add(1, Relaxed),
                _ => leaf.checksum_errors.fetch_add(1, Relaxed),
            };
        }
        if is_lost && let Some(first) = bad.first() {
            // A removed vdev is not where the block lies.
            let vdev = first.leaf.and_then(|leaf| self.reader.tree().leaf(leaf)).map(|leaf| leaf.top);
            let Some(top) = self.counters.tops.get(vdev.unwrap_or(first.dva.vdev as usize)) else { return };
            match first.state {
                CopyState::Failed(_) | CopyState::OutOfRange => top.read_errors.fetch_add(1, Relaxed),
                _ => top.checksum_errors.fetch_add(1, Relaxed),
            };
        }
    }

    /// A block is out of reach: which of the missing devices would bring it, and `blocks` with it, back?
    fn count_unlocks(&self, copies: &[CopyRead], blocks: u64) {
        let tree = self.reader.tree();
        let mut leaves = BTreeSet::new();
        let mut tops = BTreeSet::new();
        for part in copies {
            if !matches!(part.state, CopyState::Missing) {
                continue;
            }
            match (part.leaf, part.role) {
                (Some(leaf), Role::Copy) => drop(leaves.insert(leaf)),
                (Some(leaf), _) => {
                    // One device is enough when the missing ones are one more than parity makes up for.
                    let of_address = copies.iter().filter(|other| other.copy == part.copy && other.role != Role::Copy);
                    let missing: BTreeSet<LeafId> = of_address
                        .filter(|other| matches!(other.state, CopyState::Missing))
                        .filter_map(|other| other.leaf)
                        .collect();
                    if missing.len() as u64 <= tree.parity(part.dva.vdev) + 1 {
                        leaves.insert(leaf);
                    }
                }
                // An entry for a whole address stands behind those of its columns.
                (None, _) if tree.tops.get(part.dva.vdev as usize).is_some_and(Option::is_none) => {
                    tops.insert(part.dva.vdev);
                }
                (None, _) => {}
            }
        }
        for leaf in leaves {
            if let Some(leaf) = self.counters.leaves.get(leaf.0) {
                leaf.unlocks.fetch_add(blocks, Relaxed);
            }
        }
        for top in tops {
            if let Some(top) = self.counters.tops.get(top as usize) {
                top.unlocks.fetch_add(blocks, Relaxed);
            }
        }
    }

    fn evidence(&self, copies: &[CopyRead], observed: &[Observed], error: Option<&ReadError>) -> Vec<CopyEvidence> {
        let undecodable = matches!(error, Some(ReadError::Undecodable { .. }));
        let mut observed = observed.iter().copied();
        copies
            .iter()
            .map(|copy| CopyEvidence {
                copy: copy.copy,
                vdev: copy.dva.vdev,
                offset_bytes: copy.dva.offset_bytes,
                size_bytes: copy.dva.asize_bytes,
                device: copy.leaf.and_then(|leaf| self.reader.tree().leaf(leaf)).map(|leaf| leaf.name.clone()),
                device_offset_bytes: copy.device_offset_bytes,
                length_bytes: copy.length_bytes,
                result: match &copy.state {
                    CopyState::Good if undecodable => CopyResult::Undecodable,
                    CopyState::Good => CopyResult::Ok,
                    CopyState::BadChecksum | CopyState::Broken(_) => CopyResult::Checksum,
                    CopyState::Failed(_) => CopyResult::ReadError,
                    CopyState::Missing => CopyResult::Missing,
                    CopyState::Unread => CopyResult::Unread,
                    CopyState::Stale => CopyResult::Stale,
                    CopyState::OutOfRange => CopyResult::OutOfRange,
                    CopyState::Unsupported(_) => CopyResult::Unsupported,
                },
                observed: matches!(copy.state, CopyState::BadChecksum).then(|| observed.next()).flatten(),
                stored: self.stored(copy),
            })
            .collect()
    }

    /// Where a copy that is not good is stored: whether the image that holds it has anything there.
    fn stored(&self, copy: &CopyRead) -> Vec<StoredPart> {
        let is_bad = matches!(copy.state, CopyState::BadChecksum | CopyState::Broken(_) | CopyState::Failed(_));
        let device = copy.leaf.and_then(|leaf| self.reader.tree().leaf(leaf)).and_then(|leaf| leaf.medium.as_ref());
        match (device, copy.device_offset_bytes) {
            (Some(device), Some(offset)) if is_bad => stored_parts(&**device, offset, copy.length_bytes),
            _ => Vec::new(),
        }
    }
}

/// One sentence: how many copies, or columns of raidz, are bad, and what that means.
fn message(bp: &Blkptr, copies: &[CopyRead], is_lost: bool, is_unsure: bool) -> String {
    let reason = copies.iter().find_map(|copy| match &copy.state {
        CopyState::Failed(error) => Some(error.to_string()),
        CopyState::Broken(why) => Some(why.clone()),
        _ => None,
    });
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let is_striped = copies.iter().any(|copy| copy.role != Role::Copy);
    let parts: Vec<&CopyRead> = copies.iter().filter(|copy| !is_striped || copy.role != Role::Copy).collect();
    let unread = parts.iter().filter(|copy| matches!(copy.state, CopyState::Unread)).count();
    let bad = parts.iter().filter(|copy| !copy.state.is_good()).count() - unread;
    let total = parts.len();
    let unread = if unread > 0 { format!(", {unread} never read") } else { String::new() };
    let what = match (is_striped, is_lost) {
        (false, true) => format!("{bad} of {total} copies bad{unread}, no good copy"),
        (false, false) if is_unsure => format!("{bad} of {total} copies bad or not to be read by this version{unread}"),
        (false, false) => format!("{bad} of {total} copies bad{unread}, other copies are good"),
        (true, true) if copies.iter().any(|copy| matches!(copy.state, CopyState::Missing)) => {
            "too many of its columns are missing to rebuild it".to_owned()
        }
        (true, true) if !unread.is_empty() => "too many of its columns were never read to rebuild it".to_owned(),
        (true, true) => "it cannot be rebuilt from its columns".to_owned(),
        (true, false) => format!("{bad} of {total} columns bad{unread}, the content was read or rebuilt"),
    };
    format!("{what}; {} {} bytes{reason}", bp.checksum_kind(), bp.psize_bytes())
}

fn kind_of(bad: &[&CopyRead], copies: &[CopyRead]) -> Kind {
    let has = |wanted: fn(&CopyState) -> bool| bad.iter().any(|copy| wanted(&copy.state));
    if has(|state| matches!(state, CopyState::BadChecksum | CopyState::Broken(_))) {
        Kind::BlockChecksum
    } else if has(|state| matches!(state, CopyState::Failed(_))) {
        Kind::BlockReadError
    } else if has(|state| matches!(state, CopyState::OutOfRange)) {
        Kind::BlockOutOfRange
    } else if copies.iter().any(|copy| matches!(copy.state, CopyState::Unread))
        && !copies.iter().any(|copy| matches!(copy.state, CopyState::Missing))
    {
        Kind::BlockUnread
    } else {
        Kind::BlockMissing
    }
}

/// The place as far as the block itself tells; names come later.
pub(super) fn place(bp: &Blkptr, bookmark: Bookmark) -> Place {
    Place {
        objset: Some(bookmark.objset),
        object: Some(bookmark.object),
        object_type: Some(bp.object_type()),
        level: Some(bookmark.level),
        block: Some(bookmark.block),
        ..Place::default()
    }
}

/// True for the number that stands for a spill block.
pub(super) fn is_spill(block: u64) -> bool {
    block == BLOCK_SPILL
}

/// What a copy with a wrong checksum holds.
fn observe(bp: &Blkptr, bytes: &[u8], right: Option<&[u8]>) -> Observed {
    if bytes.iter().all(|&byte| byte == 0) {
        Observed::Zeros
    } else if bytes.iter().all(|&byte| byte == 0xff) {
        Observed::Ones
    } else if right.map_or_else(|| has_single_bit_flip(bp, bytes), |right| differs_in_one_bit(bytes, right)) {
        Observed::BitFlip
    } else {
        Observed::Other
    }
}

fn differs_in_one_bit(bytes: &[u8], right: &[u8]) -> bool {
    bytes.iter().zip(right).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>() == 1
}

/// Finds a single flipped bit by the algebra of fletcher4, and proves it.
///
/// The first sum differs by the change of one 32-bit word, a power of two; the second by that times the word's
/// distance from the end. So two divisions name word and bit, and one more checksum proves them.
fn has_single_bit_flip(bp: &Blkptr, bytes: &[u8]) -> bool {
    if bp.checksum_kind() != ChecksumKind::FLETCHER4 || bp.is_protected() {
        return false;
    }
    let plain = compute_plain(ChecksumKind::FLETCHER4, bp.endian(), bytes, None);
    let Ok(found) = plain else { return false };
    let stored = bp.checksum();
    let change = found[0].wrapping_sub(stored[0]).cast_signed();
    let weighted = found[1].wrapping_sub(stored[1]).cast_signed();
    if change == 0 || !change.unsigned_abs().is_power_of_two() || change.unsigned_abs() > 1 << 31 {
        return false;
    }
    let words = bytes.len() / 4;
    let distance = weighted / change;
    let index = usize::try_from(distance).ok().and_then(|distance| words.checked_sub(distance));
    let Some(index) = index.filter(|&index| index < words && weighted % change == 0) else { return false };
    let bit = change.unsigned_abs().trailing_zeros() as usize;
    // Bit n of a word lies in byte n / 8 of it, counted from the end that its byte order puts first.
    let byte = match bp.endian() {
        zfs_format::Endian::Little => bit / 8,
        zfs_format::Endian::Big => 3 - bit / 8,
    };
    let mut repaired = bytes.to_vec();
    let Some(target) = repaired.get_mut(index * 4 + byte) else { return false };
    *target ^= 1 << (bit % 8);
    compute_plain(ChecksumKind::FLETCHER4, bp.endian(), &repaired, None) == Ok(stored)
}
