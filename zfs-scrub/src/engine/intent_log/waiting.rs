//! What of a log waits for replay.
//!
//! A record is replayed when it is newer than what was replayed before and what the file system holds already: its txg is
//! past the newest one when the log was not claimed, and at least that of the claim when it was. A claimed log of which
//! the header does not say that replay is needed is dropped as a whole.
//!
//! Source: OpenZFS module/zfs/zil.c, `zil_replay`, `zil_replay_log_record`.

use crate::outcome::IntentLogFacts;
use std::collections::BTreeSet;
use zfs_format::Txg;
use zfs_format::ondisk::zil::{ZilHeader, ZilRecord};

/// Files told apart; in larger logs "at least" so many.
const FILES_MAX: usize = 1 << 20;
/// Names kept.
const NAMES_MAX: usize = 100;

/// Gathers the records of one log.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Whether anything is replayed at all.
    is_replayed: bool,
    replayed_seq: u64,
    /// The first txg whose records are replayed.
    first_txg: Txg,
    files: BTreeSet<u64>,
    facts: IntentLogFacts,
}

impl Waiting {
    /// Nothing yet; `txg` is that of the uberblock in use.
    pub(super) fn new(objset: u64, header: &ZilHeader, txg: Txg) -> Self {
        let is_claimed = header.claim_txg != Txg(0);
        Self {
            is_replayed: !is_claimed || header.flags & ZilHeader::REPLAY_NEEDED != 0,
            replayed_seq: header.replay_seq,
            first_txg: if is_claimed { header.claim_txg } else { Txg(txg.0.saturating_add(1)) },
            files: BTreeSet::new(),
            facts: IntentLogFacts { objset, is_claimed, ..IntentLogFacts::default() },
        }
    }

    /// The log has one more block.
    pub(super) fn add_block(&mut self) {
        self.facts.blocks += 1;
    }

    /// Adds a record. Without its key what an encrypted record holds `is_readable` no more than zeros.
    pub(super) fn add(&mut self, record: &ZilRecord<'_>, is_readable: bool) {
        let Some(operation) = record.tx_type.operation().filter(|_| self.is_replayed) else { return };
        if record.seq <= self.replayed_seq || record.txg < self.first_txg {
            return;
        }
        let facts = &mut self.facts;
        facts.oldest_txg = if facts.records == 0 { record.txg.0 } else { facts.oldest_txg.min(record.txg.0) };
        facts.newest_txg = facts.newest_txg.max(record.txg.0);
        facts.records += 1;
        *facts.operations.entry(operation).or_default() += 1;
        if !is_readable {
            facts.unreadable_records += 1;
            return;
        }
        facts.written_bytes = facts.written_bytes.saturating_add(record.written_bytes());
        facts.cloned_bytes = facts.cloned_bytes.saturating_add(record.cloned_bytes());
        if let Some(object) = record.target() {
            facts.files_are_cut |= self.files.len() >= FILES_MAX && !self.files.contains(&object.0);
            if self.files.len() < FILES_MAX {
                self.files.insert(object.0);
            }
        }
        if let Some(name) = record.created_name() {
            if facts.created.len() < NAMES_MAX {
                facts.created.push(String::from_utf8_lossy(name).into_owned());
            } else {
                facts.created_are_cut = true;
            }
        }
    }

    /// What waits, if anything does.
    pub(super) fn into_facts(self) -> Option<IntentLogFacts> {
        let facts = IntentLogFacts { files: self.files.len() as u64, ..self.facts };
        (facts.records > 0).then_some(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::Endian;
    use zfs_format::ondisk::blkptr::Blkptr;
    use zfs_format::ondisk::zil::Operation;

    fn header(claim_txg: u64, replay_seq: u64, flags: u64) -> ZilHeader {
        let log = Blkptr::from_words([0; 16]);
        ZilHeader { claim_txg: Txg(claim_txg), replay_seq, log, claim_blk_seq: 9, flags, claim_lr_seq: 9 }
    }

    /// Writes of 100 bytes to objects 1, 2, 3 in txgs 10, 11, 12.
    fn waiting(header: &ZilHeader, is_readable: bool) -> Option<IntentLogFacts> {
        let mut waiting = Waiting::new(54, header, Txg(10));
        for number in 1..=3_u64 {
            let words = [9, 192, 9 + number, number, number, 0, 100, 0];
            let mut bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            bytes.resize(192, 0);
            waiting.add(&ZilRecord::parse(&bytes, Endian::Little).unwrap(), is_readable);
        }
        waiting.into_facts()
    }

    #[test]
    fn what_is_in_the_file_system_already_does_not_wait() {
        let records = |header: &ZilHeader| waiting(header, true).map_or(0, |log| log.records);
        // Not claimed: newer than the newest txg.
        assert_eq!((records(&header(0, 0, 0)), records(&header(0, 2, 0))), (2, 1));
        // Claimed: from the txg of the claim on, after what was replayed, and only if replay is needed.
        let needed = ZilHeader::REPLAY_NEEDED;
        assert_eq!((records(&header(10, 0, needed)), records(&header(12, 0, needed))), (3, 1));
        assert_eq!((records(&header(10, 3, needed)), records(&header(10, 0, 0))), (0, 0));
    }

    #[test]
    fn encrypted_records_without_a_key_are_counted_and_no_more() {
        let log = waiting(&header(0, 0, 0), false).unwrap();
        assert_eq!((log.records, log.unreadable_records, log.operations[&Operation::Write]), (2, 2, 2));
        assert_eq!((log.files, log.written_bytes, (log.oldest_txg, log.newest_txg)), (0, 0, (11, 12)));
        let log = waiting(&header(0, 0, 0), true).unwrap();
        assert_eq!((log.files, log.written_bytes, log.unreadable_records), (2, 200, 0));
    }
}
