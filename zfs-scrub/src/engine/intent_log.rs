//! Intent logs: the blocks of a head's log that are allocated, counted as `zdb` counts them.
//!
//! The end of a log that was not claimed cannot be told from damage: its last pointer leads to a block that was never
//! written. A claimed log that ends before its claimed end is damaged.
//!
//! Source: OpenZFS module/zfs/zil.c, `zil_parse`, `zil_claim`.

use super::Bookmark;
use super::judge::place;
use super::queue::Queued;
use super::walk::{Feed, Walk};
use crate::finding::{Finding, Kind};
use crate::passes::missing_logs::missing_top;
use std::collections::BTreeSet;
use zfs_format::Txg;
use zfs_format::block::{MacState, Work};
use zfs_format::ondisk::blkptr::{Blkptr, Dva};
use zfs_format::ondisk::zil::{ZilBlock, ZilHeader};

/// More blocks than any log has; ends a chain that does not end by itself.
const BLOCKS_MAX: usize = 1 << 22;

/// Visits the log of the head `objset`. `txg` is that of the uberblock in use.
pub(super) fn visit<F: Feed>(walk: &mut Walk<'_, F>, objset: u64, header: &ZilHeader, txg: Txg) {
    let mut seen: BTreeSet<Option<Dva>> = BTreeSet::new();
    let mut work = Work::default();
    let mut bp = header.log;
    let is_claimed = header.claim_txg != Txg(0);
    let mut last_record = 0;
    for _ in 0..BLOCKS_MAX {
        let seq = sequence(&bp);
        let is_beyond = if is_claimed { seq > header.claim_blk_seq } else { bp.logical_birth_txg() > txg };
        if bp.is_hole() || is_beyond || walk.shared.progress.is_cancelled() {
            return;
        }
        if seen.insert(bp.dva(0)) {
            walk.count(&bp);
        }
        if is_claimed && seq == header.claim_blk_seq && last_record == header.claim_lr_seq {
            return;
        }
        let Some(mac) = walk.shared.reader.of_objset(objset).read_log(&bp, &mut work) else {
            if is_claimed && missing_top(walk.shared.reader.tree(), &bp).is_none() {
                report_end(walk, objset, &bp);
            }
            return;
        };
        if mac == MacState::Wrong {
            let bookmark = Bookmark::intent_log(objset, seq);
            let message = "the MAC of the log's block does not match it; its records cannot be replayed";
            walk.lost(Finding { pointer: Some(bp), ..Finding::new(Kind::MacWrong, place(&bp, bookmark), message) });
        }
        let Ok(block) = ZilBlock::parse(work.plain(), bp.checksum_kind()) else { return };
        for record in block.records().map_while(Result::ok) {
            last_record = record.seq;
            let Ok(Some(write)) = record.write() else { continue };
            let is_within = header.claimed_record_seq().is_none_or(|last| record.seq <= last);
            let is_logs = !write.bp.is_hole() && write.bp.birth_txg() >= header.claim_txg;
            if is_claimed && is_within && is_logs && walk.is_in_reach(&write.bp) && seen.insert(write.bp.dva(0)) {
                walk.count(&write.bp);
                walk.queue.push(&Queued { bp: write.bp, bookmark: Bookmark::intent_log(objset, seq) });
            }
        }
        let next = block.chain.next;
        if !follows(&bp, &next) {
            return;
        }
        bp = next;
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

fn report_end<F: Feed>(walk: &Walk<'_, F>, objset: u64, bp: &Blkptr) {
    let bookmark = Bookmark::intent_log(objset, sequence(bp));
    let message = "the claimed intent log ends before its recorded end; what follows cannot be replayed";
    walk.lost(Finding { pointer: Some(*bp), ..Finding::new(Kind::IntentLogDamaged, place(bp, bookmark), message) });
}
