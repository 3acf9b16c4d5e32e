//! Intent logs that were claimed: written by hand into a made pool, in both layouts and byte orders, then damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use fixtures::{Content, DatasetSpec, Device, Endian, FileSpec, PoolSpec, TopSpec, make};
use fuzz::Forge;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::codec::checksum::{compute, embedded_fletcher_words};
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::ondisk::dmu::ChecksumKind;
use zfs_format::pool::Assembly;
use zfs_scrub::finding::{CopyResult, Finding, LEVEL_ZIL};
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::exit;
use zfs_scrub::{Kind, Options, Outcome, Severity};

/// Where a vdev's space begins on a device.
const FRONT: u64 = 4 << 20;
/// Where the log's blocks lie, far from what the maker wrote; one after the other.
const LOG: u64 = 40 << 20;
/// Where data of their own lies.
const DATA: u64 = 44 << 20;
const BLOCK: usize = 4096;
const CHAIN: usize = 184;
/// The verifier but for the sequence number: guids, object set.
const VERIFIER: [u64; 3] = [0x1234, 0x5678, 54];

#[derive(Debug)]
struct Made(Device);

impl ReadAt for Made {
    fn size_bytes(&self) -> u64 {
        self.0.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let (length, size) = (buffer.len(), self.0.bytes);
        if offset.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(MediaError::OutOfRange { offset, length, size });
        }
        self.0.read_at(offset, buffer);
        Ok(())
    }
}

/// A pool with a log of three blocks with two records each: a creation and a write. The fourth was never written.
struct Log {
    endian: Endian,
    kind: ChecksumKind,
    /// What the header says.
    claim: Claim,
    /// The second block leads nowhere.
    is_cut: bool,
    /// The last write has a block of its own.
    is_indirect: bool,
}

#[derive(Clone, Copy)]
struct Claim {
    is_claimed: bool,
    replayed_seq: u64,
    last_block: u64,
    flags: u64,
    last_record: u64,
}

const CLAIMED: Claim = Claim { is_claimed: true, replayed_seq: 0, last_block: 4, flags: 3, last_record: 6 };
const NOT_CLAIMED: Claim = Claim { is_claimed: false, replayed_seq: 0, last_block: 0, flags: 0, last_record: 0 };

/// All layouts and byte orders of the log with this header.
fn logs(claim: Claim) -> Vec<Log> {
    let mut logs = Vec::new();
    for endian in [Endian::Little, Endian::Big] {
        for kind in [ChecksumKind::ZILOG, ChecksumKind::ZILOG2] {
            logs.push(Log { endian, kind, claim, is_cut: false, is_indirect: false });
        }
    }
    logs
}

impl Log {
    fn words(&self, words: &[u64]) -> Vec<u8> {
        let bytes = |word: &u64| if self.endian == Endian::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        words.iter().flat_map(bytes).collect()
    }

    fn pointer(
        &self,
        offset: u64,
        size: u64,
        kind: ChecksumKind,
        object_type: u64,
        txg: u64,
        sum: [u64; 4],
    ) -> Vec<u64> {
        let mut words = vec![0; 16];
        (words[0], words[1]) = (size / 512, offset / 512);
        let sectors = size / 512 - 1;
        let order = u64::from(self.endian == Endian::Little) << 63;
        words[6] = order | object_type << 48 | u64::from(kind.0) << 40 | 2 << 32 | sectors << 16 | sectors;
        words[10] = txg;
        words[12..].copy_from_slice(&sum);
        words
    }

    /// The pointer to block `seq`.
    fn to_block(&self, seq: u64, txg: u64) -> Vec<u64> {
        let [a, b, c] = VERIFIER;
        self.pointer(LOG + seq * BLOCK as u64, BLOCK as u64, self.kind, 9, txg, [a, b, c, seq])
    }

    fn data(&self) -> Vec<u8> {
        (0..8192_u32).flat_map(|n| [(n % 251) as u8]).collect()
    }

    /// A creation and a write of 1000 bytes.
    fn records(&self, seq: u64, txg: u64) -> Vec<u8> {
        let (first, object) = (2 * seq - 1, 100 + seq);
        let mut create = self.words(&[1, 112, txg, first, 34, object, 0o100_644, 0, 0, txg, 0, 0, 0]);
        create.extend_from_slice(format!("log-{seq}\0\0").as_bytes());
        create.resize(112, 0);
        let is_indirect = self.is_indirect && seq == 3;
        let length = if is_indirect { 192 } else { 1192 };
        let mut words = vec![9, length, txg, first + 1, object, 0, 1000, 0];
        if is_indirect {
            let endian =
                if self.endian == Endian::Little { zfs_format::Endian::Little } else { zfs_format::Endian::Big };
            let sum = compute(ChecksumKind::FLETCHER4, endian, &self.data(), None).unwrap();
            words.extend(self.pointer(DATA, 8192, ChecksumKind::FLETCHER4, 19, txg, sum));
        } else {
            words.extend([0; 16]);
        }
        create.extend(self.words(&words));
        if !is_indirect {
            create.extend([0x5a; 1000]);
        }
        create
    }

    fn block(&self, seq: u64, txg: u64) -> Vec<u8> {
        let records = self.records(seq, txg);
        let next = if self.is_cut && seq == 2 { vec![0; 16] } else { self.to_block(seq + 1, txg) };
        let is_new = self.kind == ChecksumKind::ZILOG2;
        let used = records.len() + if is_new { CHAIN } else { 0 };
        let mut chain = self.words(&[vec![0], next, vec![used as u64, 0x0210_da7a_b10c_7a11, 0, 0, 0, 0]].concat());
        let mut block = vec![0; BLOCK];
        let at = if is_new { 0 } else { BLOCK - CHAIN };
        let start = if is_new { CHAIN } else { 0 };
        block[start..start + records.len()].copy_from_slice(&records);
        block[at..at + CHAIN].copy_from_slice(&chain);
        let [a, b, c] = VERIFIER;
        let (_, sum, _) = embedded_fletcher_words(self.kind, &block, at + 144, [a, b, c, seq]).unwrap();
        chain = self.words(&sum);
        block[at + 152..at + CHAIN].copy_from_slice(&chain);
        block
    }

    /// Makes the pool on a mirror of two, damages it, scrubs it.
    fn scrub(&self, damage: impl Fn(&mut [Device])) -> (Outcome, fixtures::Totals) {
        let root = DatasetSpec::new("").with_file(FileSpec::new("a", Content::text(1, 600)));
        let spec = PoolSpec::new("tank").with_tops(&[TopSpec::Mirror(2)]).with_endian(self.endian);
        let mut forge = Forge::new(make(&spec.with_dataset(root)));
        let totals = forge.pool.totals;
        let txg = if self.claim.is_claimed { forge.pool.txg } else { forge.pool.txg + 1 };
        let Claim { is_claimed, replayed_seq, last_block, flags, last_record } = self.claim;
        let mut header = vec![if is_claimed { txg } else { 0 }, replayed_seq];
        header.extend(self.to_block(1, txg));
        header.extend([last_block, flags, last_record, 0, 0, 0]);
        let is_root = |block: &fixtures::MadeBlock| block.owner.dataset == "tank" && block.level == -1;
        let objset = forge.pool.blocks.iter().position(is_root).unwrap();
        let header = self.words(&header);
        forge.plain(objset).unwrap()[512..512 + header.len()].copy_from_slice(&header);
        forge.seal();
        for device in &mut forge.pool.devices {
            for seq in 1..=3 {
                device.write_at(FRONT + LOG + seq * BLOCK as u64, &self.block(seq, txg));
            }
            device.write_at(FRONT + DATA, &self.data());
        }
        damage(&mut forge.pool.devices);
        let open = |device: &Device| Medium::new(PathBuf::from(&device.name), Arc::new(Made(device.clone())));
        let media: Vec<Medium> = forge.pool.devices.iter().map(open).collect();
        let mut assembly = Assembly::new(&media, None).unwrap();
        let options = Options { threads: 1, ..Options::default() };
        (zfs_scrub::scrub(&mut assembly, &options, &Progress::default()).unwrap(), totals)
    }
}

/// Overwrites the start of a block of the log on some sides.
fn zero(devices: &mut [Device], sides: Range<usize>, offset: u64) {
    for device in &mut devices[sides] {
        device.write_at(FRONT + offset, &[0; 512]);
    }
}

fn block_at(seq: u64) -> u64 {
    // In both layouts this reaches into what is used: records at the start, or the chain.
    LOG + seq * BLOCK as u64
}

fn findings(outcome: &Outcome) -> Vec<&Finding> {
    outcome.findings.iter().filter(|finding| finding.kind != Kind::IntentLogWaits).collect()
}

fn records(outcome: &Outcome) -> u64 {
    outcome.intent_logs.iter().map(|log| log.records).sum()
}

#[test]
fn a_claimed_log_is_whole_and_its_blocks_are_counted() {
    for log in logs(CLAIMED) {
        let (outcome, made) = log.scrub(|_| {});
        assert_eq!((findings(&outcome).len(), outcome.summary.exit_status), (0, 0), "{:#?}", outcome.findings);
        let waits = &outcome.intent_logs[0];
        assert_eq!((waits.is_claimed, waits.records, waits.files, waits.written_bytes), (true, 6, 3, 3000));
        assert_eq!((waits.blocks, &waits.created), (3, &vec!["log-1".to_owned(), "log-2".into(), "log-3".into()]));
        // The block that was never written is claimed too. The forge writes changed blocks without compression.
        assert_eq!(outcome.totals.blocks, made.blocks + 4);
    }
}

#[test]
fn a_claimed_log_that_ends_early_is_damaged() {
    for log in logs(CLAIMED) {
        let (outcome, _) = log.scrub(|devices| zero(devices, 0..2, block_at(2)));
        let [finding] = findings(&outcome)[..] else { panic!("{:#?}", outcome.findings) };
        assert_eq!((finding.kind, finding.severity), (Kind::IntentLogDamaged, Severity::Damaged));
        assert_eq!((finding.place.level, finding.place.block), (Some(LEVEL_ZIL), Some(2)));
        let results: Vec<_> = finding.copies.iter().map(|copy| copy.result).collect();
        assert_eq!(results, [CopyResult::Checksum; 2]);
        assert_eq!((outcome.summary.exit_status, records(&outcome)), (exit::DAMAGED, 2));
        let mirror = &outcome.vdevs[0];
        let errors: Vec<u64> = mirror.children.iter().map(|side| side.checksum_errors).collect();
        assert_eq!((errors, mirror.checksum_errors), (vec![1, 1], 1));
    }
}

#[test]
fn a_claimed_log_whose_chain_is_cut_is_damaged() {
    for log in logs(CLAIMED) {
        let (outcome, _) = Log { is_cut: true, ..log }.scrub(|_| {});
        let [finding] = findings(&outcome)[..] else { panic!("{:#?}", outcome.findings) };
        assert_eq!((finding.kind, outcome.summary.exit_status), (Kind::IntentLogDamaged, exit::DAMAGED));
        assert_eq!((finding.place.level, finding.place.block), (Some(LEVEL_ZIL), Some(2)));
        assert_eq!(records(&outcome), 4);
    }
}

#[test]
fn a_bad_side_of_a_claimed_log_is_degraded_even_at_its_end() {
    for log in logs(CLAIMED) {
        for seq in 1..=3 {
            let (outcome, _) = log.scrub(|devices| zero(devices, 1..2, block_at(seq)));
            let [finding] = findings(&outcome)[..] else { panic!("{:#?}", outcome.findings) };
            assert_eq!((finding.kind, finding.severity), (Kind::BlockChecksum, Severity::Degraded));
            assert_eq!((finding.place.level, finding.place.block), (Some(LEVEL_ZIL), Some(seq)));
            assert_eq!((outcome.summary.exit_status, records(&outcome)), (exit::DEGRADED, 6));
            let errors: Vec<u64> = outcome.vdevs[0].children.iter().map(|side| side.checksum_errors).collect();
            assert_eq!(errors, [0, 1]);
        }
    }
}

#[test]
fn data_that_a_claimed_log_points_to_is_read() {
    for log in logs(CLAIMED) {
        let log = Log { is_indirect: true, ..log };
        let (outcome, made) = log.scrub(|_| {});
        assert_eq!((findings(&outcome).len(), outcome.totals.blocks), (0, made.blocks + 5), "{:#?}", outcome.findings);
        for (sides, severity, status) in
            [(0..1, Severity::Degraded, exit::DEGRADED), (0..2, Severity::Damaged, exit::DAMAGED)]
        {
            let (outcome, _) = log.scrub(|devices| zero(devices, sides.clone(), DATA));
            let [finding] = findings(&outcome)[..] else { panic!("{:#?}", outcome.findings) };
            assert_eq!((finding.kind, finding.severity), (Kind::BlockChecksum, severity));
            assert_eq!((finding.place.level, outcome.summary.exit_status), (Some(LEVEL_ZIL), status));
            // zdb's numbers: the file, the block in it. The file is none yet, and hides nothing.
            assert_eq!((finding.place.object, finding.place.block, finding.hidden_blocks), (Some(103), Some(0), 0));
        }
    }
}

#[test]
fn what_was_replayed_waits_no_more() {
    for (claim, wanted) in [
        (Claim { replayed_seq: 4, ..CLAIMED }, 2),
        (Claim { flags: 2, ..CLAIMED }, 0),
        (Claim { last_block: 3, ..CLAIMED }, 6),
        // Claimed up to the first record of the last block: its data could not be read then.
        (Claim { last_block: 3, last_record: 5, ..CLAIMED }, 5),
        // Old releases did not say which record was the last.
        (Claim { flags: 1, last_record: 0, ..CLAIMED }, 6),
    ] {
        for log in logs(claim) {
            let (outcome, _) = log.scrub(|_| {});
            assert_eq!((findings(&outcome).len(), outcome.summary.exit_status), (0, 0), "{:#?}", outcome.findings);
            assert_eq!(records(&outcome), wanted);
        }
    }
}

#[test]
fn an_interrupted_write_is_a_note_only_at_the_end_of_a_log_that_was_not_claimed() {
    for log in logs(NOT_CLAIMED) {
        let log = Log { is_indirect: true, ..log };
        let (outcome, made) = log.scrub(|_| {});
        // None of its blocks is allocated.
        assert_eq!((findings(&outcome).len(), outcome.totals.blocks), (0, made.blocks), "{:#?}", outcome.findings);
        assert_eq!((records(&outcome), outcome.intent_logs[0].is_claimed), (6, false));
        for (offset, kind, status) in [
            (block_at(3), Kind::IntentLogTorn, 0),
            (DATA, Kind::IntentLogTorn, 0),
            (block_at(2), Kind::BlockChecksum, exit::DEGRADED),
        ] {
            let (outcome, _) = log.scrub(|devices| zero(devices, 0..1, offset));
            let [finding] = findings(&outcome)[..] else { panic!("{:#?}", outcome.findings) };
            assert_eq!((finding.kind, outcome.summary.exit_status, records(&outcome)), (kind, status, 6));
        }
    }
}
