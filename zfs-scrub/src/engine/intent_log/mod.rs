//! Intent logs: every copy of each block that belongs to the log of a head is verified, the blocks that are allocated
//! are counted as `zdb` counts them, and what waits for replay is gathered.
//!
//! # Where a log ends
//!
//! The last pointer of a log leads to a block that was never written, on no device: such an end cannot be told from
//! damage to all copies of the next block, and is none. A log that was claimed by an import has a recorded end, and is
//! damaged when it ends before that.
//!
//! A log that was not claimed ends, too, at a write whose data, in a block of its own, has no good copy: ZFS writes the
//! data first, so nobody was told that such a write is safe.
//!
//! Where no copy could be judged, the log may go on. If the devices are missing that is said elsewhere; if they returned
//! errors it is damage, since ZFS cannot import the pool like that either.
//!
//! # When copies differ
//!
//! ZFS tells nobody that a write is safe before each device of the log has it. So in the last block of a log that was not
//! claimed, and in the data that its records point to, a copy with a wrong checksum beside a good one is most likely a
//! write that a crash interrupted. That is a note: ZFS replays the good copy and frees the block, and nothing is left to
//! be healed. In every other block it is a bad copy. (Blocks can be in flight together, so that an interrupted one may
//! stand before the last; its copy is bad all the same, and the data is whole.) A copy that the device does not give, or
//! that lies outside of it, is no interrupted write anywhere.
//!
//! Source: OpenZFS module/zfs/zil.c, `zil_parse`, `zil_claim`, `zil_claim_write`, `zil_check_log_chain`, `zil_replay`.

mod waiting;

use self::waiting::Waiting;
use super::Bookmark;
use super::judge::{Look, place};
use super::queue::Queued;
use super::walk::{Feed, Walk};
use crate::finding::{Finding, Kind};
use crate::passes::missing_logs::missing_top;
use std::collections::BTreeSet;
use zfs_format::Txg;
use zfs_format::block::{CopyRead, CopyState, MacState, ReadError, Work};
use zfs_format::ondisk::blkptr::{Blkptr, Dva};
use zfs_format::ondisk::zil::{ZilBlock, ZilHeader, ZilRecord};

/// More blocks than any log has; ends a chain that does not end by itself.
const BLOCKS_MAX: usize = 1 << 22;

/// Addresses told apart: more than logs have, and some 60 MB.
const SEEN_MAX: usize = 1 << 20;

/// Visits the log of the head `objset`. `txg` is that of the uberblock in use.
pub(super) fn visit<F: Feed>(walk: &mut Walk<'_, F>, objset: u64, header: &ZilHeader, txg: Txg) {
    let mut visit = Visit {
        walk,
        objset,
        header,
        txg,
        seen: BTreeSet::new(),
        is_counting: true,
        last_block: 0,
        last_record: 0,
        held: Vec::new(),
        waiting: Waiting::new(objset, header, txg),
    };
    let end = visit.follow();
    visit.end(end);
    if let Some(log) = visit.waiting.into_facts() {
        walk.logs.push(log);
    }
}

/// Where a log ends.
enum End {
    /// Where a log may end.
    Normal,
    /// Only a claimed log has an end that it must reach; this is the pointer at which it stopped.
    Early { bp: Blkptr, bookmark: Bookmark, look: Option<Look> },
    /// The devices gave errors where it goes on.
    Unreadable { bp: Blkptr, bookmark: Bookmark, look: Look },
    /// It may go on where nobody could look, or what is wrong with it was reported.
    Open,
}

/// A copy of this block is bad; the next block of the log tells what that means.
struct Held {
    bp: Blkptr,
    bookmark: Bookmark,
    /// Number of the log's block: this one, or the one that points to it.
    seq: u64,
    look: Look,
}

struct Visit<'v, 'a, F> {
    walk: &'v mut Walk<'a, F>,
    objset: u64,
    header: &'v ZilHeader,
    txg: Txg,
    /// Addresses that were counted.
    seen: BTreeSet<Option<Dva>>,
    /// Blocks are allocated, so far.
    is_counting: bool,
    /// Sequence numbers of the last block and the last record.
    last_block: u64,
    last_record: u64,
    /// What has a bad copy in the last block of a log that was not claimed.
    held: Vec<Held>,
    waiting: Waiting,
}

impl<F: Feed> Visit<'_, '_, F> {
    fn is_claimed(&self) -> bool {
        self.header.claim_txg != Txg(0)
    }

    /// Follows the chain from block to block.
    fn follow(&mut self) -> End {
        let (mut work, mut data) = (Work::default(), Work::default());
        let mut bp = self.header.log;
        for _ in 0..BLOCKS_MAX {
            if self.walk.shared.progress.is_cancelled() {
                return End::Open;
            }
            let seq = sequence(&bp);
            if bp.is_hole() || (self.is_claimed() && seq > self.header.claim_blk_seq) {
                return self.end_at(bp);
            }
            self.count(&bp);
            self.last_block = seq;
            if self.is_claimed() && seq == self.header.claim_blk_seq && self.last_record == self.header.claim_lr_seq {
                return End::Normal;
            }
            let mut look = self.walk.shared.look_at_log(&bp, self.objset, &mut work);
            if look.verification.plain.is_err() {
                return self.unreadable(bp, Bookmark::intent_log(self.objset, seq), look);
            }
            // A block that follows shows that the one before was written everywhere.
            self.settle_held();
            let mac = std::mem::replace(&mut look.verification.mac, MacState::Unchecked);
            self.keep(bp, Bookmark::intent_log(self.objset, seq), seq, look);
            if mac == MacState::Wrong {
                self.report_mac(&bp);
            }
            let Ok(block) = ZilBlock::parse(work.plain(), bp.checksum_kind()) else { return self.end_at(bp) };
            self.waiting.add_block();
            let is_readable = !bp.is_protected() || mac == MacState::Right;
            for record in block.records() {
                let Ok(record) = record else { return self.end_at(bp) };
                if let Some(end) = self.record(&record, is_readable, seq, &mut data) {
                    return end;
                }
            }
            let next = block.chain.next;
            if !next.is_hole() && !follows(&bp, &next) {
                return self.end_at(next);
            }
            bp = next;
        }
        End::Open
    }

    /// Counts a block while blocks are allocated: those of a log that was not claimed are up to the newest txg.
    fn count(&mut self, bp: &Blkptr) {
        self.is_counting &= self.is_claimed() || bp.logical_birth_txg() <= self.txg;
        if self.is_counting && self.is_new(bp) {
            self.walk.count(bp);
        }
    }

    /// Whether the block was not met in this log before. In a log with more blocks than any has, all are new.
    fn is_new(&mut self, bp: &Blkptr) -> bool {
        self.seen.len() >= SEEN_MAX || self.seen.insert(bp.dva(0))
    }

    /// Looks at a record, and at the block with its data when it has one. Answers with the end of the log when it is here.
    fn record(&mut self, record: &ZilRecord<'_>, is_readable: bool, seq: u64, work: &mut Work) -> Option<End> {
        if self.header.claimed_record_seq().is_some_and(|last| self.is_claimed() && record.seq > last) {
            return Some(End::Normal);
        }
        if let Ok(Some(write)) = record.write()
            && !write.bp.is_hole()
        {
            let bp = write.bp;
            let bookmark = match write.object.0 {
                // Without its key an encrypted record does not say which file it is for.
                0 => Bookmark::intent_log(self.objset, seq),
                object => Bookmark::logged_data(self.objset, object, write.offset_bytes / bp.lsize_bytes().max(1)),
            };
            if !self.is_claimed() {
                if bp.birth_txg() > self.txg
                    && let Some(end) = self.new_data(bp, bookmark, seq, work)
                {
                    return Some(end);
                }
            } else if bp.birth_txg() >= self.header.claim_txg && self.walk.is_in_reach(&bp) && self.is_new(&bp) {
                self.walk.count(&bp);
                self.walk.enqueue(&Queued { bp, bookmark });
            }
        }
        self.last_record = record.seq;
        self.waiting.add(record, is_readable);
        None
    }

    /// Data that a log which was not claimed points to; older data belongs to the file already.
    fn new_data(&mut self, bp: Blkptr, bookmark: Bookmark, seq: u64, work: &mut Work) -> Option<End> {
        if !self.is_new(&bp) {
            return None;
        }
        let look = self.walk.shared.look(&bp, bookmark, work);
        if let Err(ReadError::Pointer(_)) = look.verification.plain {
            self.walk.shared.settle(&bp, bookmark, &look);
            return Some(End::Open);
        }
        if look.verification.is_lost {
            return Some(self.unreadable(bp, bookmark, look));
        }
        self.keep(bp, bookmark, seq, look);
        None
    }

    /// Counts and reports a block of the log, now or when the next one is known.
    fn keep(&mut self, bp: Blkptr, bookmark: Bookmark, seq: u64, look: Look) {
        let is_good = look.verification.copies.iter().all(|copy| copy.state.is_good() || copy.state.is_unknown());
        if is_good || self.is_claimed() {
            self.walk.shared.settle(&bp, bookmark, &look);
        } else {
            self.held.push(Held { bp, bookmark, seq, look });
        }
    }

    fn settle_held(&mut self) {
        for Held { bp, bookmark, look, .. } in self.held.drain(..) {
            self.walk.shared.settle(&bp, bookmark, &look);
        }
    }

    /// The end of a log at a block that leads nowhere: whether a claimed log may end here is known.
    fn end_at(&self, bp: Blkptr) -> End {
        if self.has_reached_its_end() {
            return End::Normal;
        }
        let seq = if bp.is_hole() { self.last_block } else { sequence(&bp) };
        End::Early { bp, bookmark: Bookmark::intent_log(self.objset, seq), look: None }
    }

    /// Logs of old releases do not say which record is the last; what they say of the last block includes one that was
    /// never written.
    fn has_reached_its_end(&self) -> bool {
        let is_last_block = self.last_block == self.header.claim_blk_seq;
        let is_last_record = self.header.claimed_record_seq().is_none_or(|last| self.last_record == last);
        !self.is_claimed() || (is_last_block && is_last_record)
    }

    /// The end of a log at a block without a good copy.
    fn unreadable(&self, bp: Blkptr, bookmark: Bookmark, look: Look) -> End {
        let copies = &look.verification.copies;
        if self.has_reached_its_end() && self.is_claimed() {
            return End::Normal;
        }
        if missing_top(self.walk.shared.reader.tree(), &bp).is_some() {
            self.walk.shared.count_parts(&bp, &look.verification);
            return End::Open;
        }
        if self.is_claimed() {
            return End::Early { bp, bookmark, look: Some(look) };
        }
        if copies.iter().any(|copy| matches!(copy.state, CopyState::BadChecksum | CopyState::Stale)) {
            // One device that has something else there is enough: ZFS waits for all of them.
            return End::Normal;
        }
        let is_error = |state: &CopyState| matches!(state, CopyState::Failed(_) | CopyState::OutOfRange);
        if !copies.is_empty() && copies.iter().all(|copy| is_error(&copy.state)) {
            return End::Unreadable { bp, bookmark, look };
        }
        // Devices are missing, or of a kind that this version cannot read: what could not be looked at is counted.
        self.walk.shared.count_parts(&bp, &look.verification);
        End::Open
    }

    fn end(&mut self, end: End) {
        match end {
            End::Open | End::Normal => self.end_held(),
            End::Early { bp, bookmark, look } => {
                let what = "the claimed intent log ends before its recorded end; what follows cannot be replayed";
                self.report_damage(&bp, bookmark, look.as_ref(), what);
            }
            End::Unreadable { bp, bookmark, look } => {
                self.end_held();
                let what = "where the intent log goes on its devices gave errors: whether more waits for replay cannot \
                            be told, and ZFS does not import the pool with it";
                self.report_damage(&bp, bookmark, Some(&look), what);
            }
        }
    }

    /// What is bad in the last block of a log that was not claimed is an interrupted write, if its checksum is all that
    /// is wrong.
    fn end_held(&mut self) {
        let shared = self.walk.shared;
        for Held { bp, bookmark, seq, look } in std::mem::take(&mut self.held) {
            let is_torn =
                |state: &CopyState| state.is_good() || state.is_unknown() || matches!(state, CopyState::BadChecksum);
            if !look.verification.copies.iter().all(|copy| is_torn(&copy.state)) {
                shared.settle(&bp, bookmark, &look);
                continue;
            }
            shared.count_parts(&bp, &look.verification);
            let bad = look.verification.copies.iter().filter(|copy| matches!(copy.state, CopyState::BadChecksum));
            let name = |copy: &CopyRead| shared.reader.tree().leaf(copy.leaf?).map(|leaf| leaf.name.clone());
            let names: Vec<String> = bad.filter_map(name).collect();
            let message = format!(
                "the last write to the intent log, block {}, was interrupted: {} whole, but not on {}",
                seq,
                if bookmark.object == 0 { "it is" } else { "its data is" },
                names.join(", ")
            );
            shared.sink.push(Finding {
                copies: shared.evidence_of(&look),
                pointer: Some(bp),
                ..Finding::new(Kind::IntentLogTorn, place(&bp, bookmark), message)
            });
        }
    }

    fn report_damage(&self, bp: &Blkptr, bookmark: Bookmark, look: Option<&Look>, message: &str) {
        let shared = self.walk.shared;
        let mut finding =
            Finding { pointer: Some(*bp), ..Finding::new(Kind::IntentLogDamaged, place(bp, bookmark), message) };
        if let Some(look) = look {
            shared.count_parts(bp, &look.verification);
            shared.count_lost(look);
            finding.copies = shared.evidence_of(look);
        }
        self.walk.lost(finding);
    }

    fn report_mac(&self, bp: &Blkptr) {
        let bookmark = Bookmark::intent_log(self.objset, sequence(bp));
        let message = "the MAC of the log's block does not match it; its records cannot be replayed";
        self.walk.lost(Finding { pointer: Some(*bp), ..Finding::new(Kind::MacWrong, place(bp, bookmark), message) });
    }
}

fn sequence(bp: &Blkptr) -> u64 {
    let [_, _, _, seq] = bp.checksum();
    seq
}

/// The next block of a log carries the same guids and object set, and the next number.
fn follows(bp: &Blkptr, next: &Blkptr) -> bool {
    let ([a, b, c, seq], [next_a, next_b, next_c, next_seq]) = (bp.checksum(), next.checksum());
    (a, b, c, seq.wrapping_add(1)) == (next_a, next_b, next_c, next_seq)
}
