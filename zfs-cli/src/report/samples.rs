//! Hand-made outcomes for the tests of the reports.

use std::time::Duration;
use zfs_format::media::Drive;
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::ondisk::scan::{ErrorScrub, ScanState};
use zfs_format::ondisk::zil::Operation;
use zfs_scrub::finding::{CopyEvidence, CopyResult, Finding, Kind, LEVEL_ZIL, Observed, Place, Severity};
use zfs_scrub::outcome::{
    FeatureFacts, FileDamage, IntentLogFacts, NotChecked, NotCheckedReason, PoolFacts, Reading, Summary, Totals,
    UberblockFacts, VdevFacts, Verdict, exit,
};
use zfs_scrub::remembered::RememberedFacts;
use zfs_scrub::{Options, Outcome};

/// All of them, with names.
pub(super) fn all() -> Vec<(&'static str, Outcome)> {
    vec![
        ("clean", clean()),
        ("degraded", degraded()),
        ("damaged", damaged()),
        ("root_lost", root_lost()),
        ("missing", missing()),
        ("metadata", metadata()),
        ("cancelled", cancelled()),
        ("no_decode", no_decode()),
        ("flood", flood()),
        ("hostile", hostile()),
        ("notices", notices()),
        ("changed", changed()),
    ]
}

pub(super) fn leaf(id: u64, name: &str, device: Option<&str>) -> VdevFacts {
    VdevFacts {
        vdev_type: "file".to_owned(),
        id,
        name: name.to_owned(),
        guid: 1000 + id,
        state: if device.is_some() { "ONLINE" } else { "UNAVAIL" }.to_owned(),
        path: Some(format!("/dev/disk/by-id/{name}")),
        device: device.map(str::to_owned),
        bytes_read: 1 << 20,
        ..VdevFacts::default()
    }
}

pub(super) fn top(mut vdev: VdevFacts, children: Vec<VdevFacts>) -> VdevFacts {
    vdev.class = Some("normal".to_owned());
    vdev.ashift = Some(12);
    vdev.children = children;
    vdev
}

fn mirror(state: &str, children: Vec<VdevFacts>) -> VdevFacts {
    let vdev = VdevFacts {
        vdev_type: "mirror".to_owned(),
        name: "mirror-0".to_owned(),
        guid: 77,
        state: state.to_owned(),
        ..VdevFacts::default()
    };
    top(vdev, children)
}

pub(super) fn clean() -> Outcome {
    Outcome {
        at_risk: None,
        remembered: RememberedFacts::default(),
        at_risk_is_cut: false,
        pool: PoolFacts {
            name: "tank".to_owned(),
            guid: 13_004_285_341_876_207_161,
            version: 5000,
            state: "exported".to_owned(),
            txg: 4711,
            timestamp: 1_796_048_855,
            hostname: Some("lab".to_owned()),
            hostid: Some(12),
            endian: "little",
            fingerprint: "13004285341876207161-4711-0f:1e:2d:3c".to_owned(),
            uberblock: UberblockFacts { device: "disk0".to_owned(), label: 0, slot: 7 },
            features: vec![FeatureFacts {
                guid: "com.delphix:hole_birth".to_owned(),
                read_only_compatible: false,
                supported: true,
                refcount: 1,
            }],
        },
        vdevs: vec![top(leaf(0, "disk0", Some("vm-disk.vmdk, partition 1")), Vec::new())],
        spares: Vec::new(),
        caches: Vec::new(),
        totals: Totals {
            blocks: 40_046,
            logical_bytes: 3 << 30,
            physical_bytes: 2 << 30,
            allocated_bytes: 2_587_718_451,
            copies_verified: 40_100,
            parity_verified: 0,
            decoded_blocks: 40_046,
            bytes_read: 2_587_718_451,
            reading: Reading { requests: 2_700, bytes: 2_600_000_000, skipped_bytes: 12_281_549 },
            ..Totals::default()
        },
        findings: Vec::new(),
        findings_dropped: 0,
        patterns: Vec::new(),
        not_checked: Vec::new(),
        intent_logs: Vec::new(),
        states: Vec::new(),
        files: Vec::new(),
        decoded: Options::default().decode,
        is_partial: false,
        summary: Summary {
            verdict: Verdict::Clean,
            exit_status: 0,
            degraded_blocks: 0,
            lost_blocks: 0,
            degraded_files: 0,
            damaged_files: 0,
            duration: Duration::from_millis(400),
            bytes_per_second: 6_442_450_944,
        },
    }
}

pub(super) fn copy(device: &str, offset: u64, result: CopyResult, observed: Option<Observed>) -> CopyEvidence {
    CopyEvidence {
        copy: 0,
        vdev: 0,
        offset_bytes: offset.saturating_sub(4 << 20),
        size_bytes: 131_072,
        device: Some(device.to_owned()),
        device_offset_bytes: Some(offset),
        length_bytes: 131_072,
        result,
        observed,
        stored: Vec::new(),
    }
}

/// A bad block of `dataset:path`.
pub(super) fn bad_block(
    dataset: &str,
    path: &str,
    block: u64,
    severity: Severity,
    copies: Vec<CopyEvidence>,
) -> Finding {
    let place = Place {
        dataset: Some(dataset.to_owned()),
        objset: Some(54),
        object: Some(7),
        object_type: Some(ObjectType::PLAIN_FILE),
        level: Some(0),
        block: Some(block),
        path: Some(path.to_owned()),
        file_offset: Some(block * 131_072),
        file_length: Some(131_072),
        ..Place::default()
    };
    let mut finding = Finding::new(Kind::BlockChecksum, place, "no copy matches the checksum");
    finding.severity = severity;
    finding.recoverable = severity != Severity::Damaged;
    finding.copies = copies;
    finding
}

pub(super) fn file(path: &str, severity: Severity, ranges: Vec<(u64, u64)>, also_in: &[&str]) -> FileDamage {
    let lost_bytes = if severity == Severity::Damaged { ranges.iter().map(|range| range.1).sum() } else { 0 };
    FileDamage {
        path: path.to_owned(),
        no_path_because: None,
        severity,
        is_whole: false,
        ranges,
        lost_bytes,
        also_in: also_in.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// A pool that was written while it was checked.
pub(super) fn changed() -> Outcome {
    let mut outcome = clean();
    let copies = vec![copy("disk0", 4_325_376, CopyResult::Checksum, Some(Observed::Other))];
    let mut seen = bad_block("tank/home", "/docs/a.txt", 3, Severity::Note, copies);
    seen.message = "seen while the pool was being written: block checksum mismatch".to_owned();
    let place = Place { device: Some("tank".to_owned()), ..Place::default() };
    let change = "the pool changed during the check (txg 4711 to 4715)";
    outcome.findings = vec![seen, Finding::new(Kind::PoolChanged, place, change)];
    outcome.not_checked = vec![NotChecked {
        reason: NotCheckedReason::Changed,
        what: "whether blocks that seemed bad are, or were freed and written anew".to_owned(),
        blocks: Some(1),
        bytes: None,
    }];
    (outcome.summary.verdict, outcome.summary.exit_status) = (Verdict::Incomplete, exit::INCOMPLETE);
    outcome
}

pub(super) fn degraded() -> Outcome {
    let mut outcome = clean();
    let mut bad = leaf(0, "m.0", Some("/dev/sdb1"));
    (bad.state, bad.checksum_errors) = ("DEGRADED".to_owned(), 43);
    bad.drive = Some(Drive {
        kernel_name: "sdb1".to_owned(),
        parent: Some("sdb".to_owned()),
        partition: Some(1),
        model: Some("WDC WD40EFRX".to_owned()),
        serial: Some("WD-WCC4E0000000".to_owned()),
        slot: Some("3".to_owned()),
        by_id: vec!["ata-WDC_WD40EFRX_WD-WCC4E0000000-part1".to_owned()],
        ..Drive::default()
    });
    outcome.vdevs = vec![mirror("DEGRADED", vec![bad, leaf(1, "m.1", Some("/dev/sdc1"))])];
    outcome.patterns =
        vec!["m.0 reads zeros from 4 MiB to 8 MiB (one range, proven: all 43 bad copies lie in it)".to_owned()];
    let copies = vec![
        copy("m.0", 4_325_376, CopyResult::Checksum, Some(Observed::Zeros)),
        copy("m.1", 4_325_376, CopyResult::Ok, None),
    ];
    outcome.findings = vec![bad_block("tank/home", "/docs/a.txt", 3, Severity::Degraded, copies)];
    outcome.files = vec![file("tank/home:/docs/a.txt", Severity::Degraded, vec![(393_216, 131_072)], &[])];
    outcome.totals.parity_verified = 12;
    outcome.remembered = super::remembered::tests::facts();
    outcome.remembered.error_scrub = Some(ErrorScrub {
        state: ScanState::FINISHED,
        start_s: 1_700_000_000,
        end_s: 1_700_000_001,
        to_examine: 3,
        examined: 3,
        errors: 1,
        is_paused: false,
    });
    let summary = &mut outcome.summary;
    (summary.verdict, summary.exit_status) = (Verdict::Degraded, exit::DEGRADED);
    (summary.degraded_blocks, summary.degraded_files) = (43, 1);
    outcome
}

pub(super) fn damaged() -> Outcome {
    let mut outcome = clean();
    outcome.pool.name = "single".to_owned();
    outcome.vdevs[0].state = "DEGRADED".to_owned();
    outcome.vdevs[0].checksum_errors = 3;
    outcome.patterns = vec![
        "disk0: 64 KiB of zeros in each MiB, at +192 KiB, from 5.19 MiB to 24.2 MiB (20 pieces, 3 over data); \
         such a regular pattern is the mark of the storage path (controller, array, copy), not of a dying disk"
            .to_owned(),
    ];
    let lost = |path: &str, block, offset| {
        let zeros = vec![copy("disk0", offset, CopyResult::Checksum, Some(Observed::Zeros))];
        bad_block("single", path, block, Severity::Damaged, zeros)
    };
    outcome.findings = vec![lost("/text.log", 1, 5_439_488), lost("/sparse.img", 50, 6_488_064)];
    let others =
        |path: &str| [format!("single@one:{path}"), format!("single@two:{path}"), format!("single/clone:{path}")];
    for (path, start) in [("/sparse.img", 6_553_600), ("/text.log", 131_072)] {
        let others = others(path);
        let others: Vec<_> = others.iter().map(String::as_str).collect();
        outcome.files.push(file(&format!("single:{path}"), Severity::Damaged, vec![(start, 131_072)], &others));
    }
    let summary = &mut outcome.summary;
    (summary.verdict, summary.exit_status) = (Verdict::Damaged, exit::DAMAGED);
    (summary.lost_blocks, summary.degraded_blocks, summary.damaged_files) = (2, 1, 2);
    outcome
}

pub(super) fn root_lost() -> Outcome {
    let mut outcome = clean();
    let place = Place { objset: Some(0), object: Some(0), level: Some(-1), block: Some(0), ..Place::default() };
    let mut finding =
        Finding::new(Kind::RootLost, place, "the root block of the object directory is bad in all 3 copies");
    finding.copies = [6_422_528, 23_199_744, 39_976_960]
        .map(|offset| copy("disk0", offset, CopyResult::Checksum, Some(Observed::Zeros)))
        .to_vec();
    outcome.findings = vec![finding];
    outcome.totals = Totals::default();
    outcome.not_checked = vec![not_checked(NotCheckedReason::BadParent, "the whole pool at txg 4711", None, None)];
    let summary = &mut outcome.summary;
    (summary.verdict, summary.exit_status) = (Verdict::Damaged, exit::DAMAGED | exit::INCOMPLETE);
    (summary.lost_blocks, summary.bytes_per_second) = (1, 0);
    outcome
}

pub(super) fn not_checked(reason: NotCheckedReason, what: &str, blocks: Option<u64>, bytes: Option<u64>) -> NotChecked {
    NotChecked { reason, what: what.to_owned(), blocks, bytes }
}

pub(super) fn missing() -> Outcome {
    let mut outcome = clean();
    outcome.vdevs = vec![mirror("DEGRADED", vec![leaf(0, "m.0", None), leaf(1, "m.1", Some("/dev/sdc1"))])];
    let device = Place { device: Some("m.0".to_owned()), ..Place::default() };
    outcome.findings = vec![Finding::new(Kind::MemberMissing, device, "was not given (guid 1000)")];
    outcome.not_checked =
        vec![not_checked(NotCheckedReason::MissingMember, "the copies on m.0", Some(40_046), Some(2 << 30))];
    (outcome.summary.verdict, outcome.summary.exit_status) = (Verdict::Degraded, exit::DEGRADED | exit::INCOMPLETE);
    outcome
}

/// Damaged metadata and labels, no file.
pub(super) fn metadata() -> Outcome {
    let mut outcome = clean();
    let place = Place {
        objset: Some(0),
        object: Some(61),
        object_type: Some(ObjectType(8)),
        level: Some(1),
        block: Some(0),
        ..Place::default()
    };
    let mut finding = Finding::new(Kind::BlockChecksum, place, "no copy matches the checksum");
    finding.hidden_blocks = 1204;
    finding.copies = vec![
        copy("disk0", 6_422_528, CopyResult::Checksum, Some(Observed::Other)),
        copy("disk0", 23_199_744, CopyResult::ReadError, None),
    ];
    let device = Place { device: Some("disk0".to_owned()), ..Place::default() };
    let label = Finding::new(Kind::LabelDamaged, device.clone(), "label 2 does not match its checksum");
    let note = Finding::new(Kind::NotExported, device, "last used by host lab at txg 4711");
    outcome.findings = vec![finding, label, note];
    outcome.pool.state = "active".to_owned();
    outcome.not_checked = vec![not_checked(NotCheckedReason::BadParent, "space map of metaslab 3", Some(1204), None)];
    outcome.vdevs[0].stale_copies = 5;
    let summary = &mut outcome.summary;
    (summary.verdict, summary.exit_status, summary.lost_blocks) = (Verdict::Damaged, 12, 1);
    outcome
}

/// What waits, or is kept, on a pool that is whole.
pub(super) fn notices() -> Outcome {
    let mut outcome = clean();
    let log = Place { dataset: Some("tank/db".to_owned()), objset: Some(54), ..Place::default() };
    let waits = "76 records (creates 32, renames 1, writes 43) will be replayed at the next import: 32 files, 523990 \
                 bytes of data; of txgs 4712 to 4745; new are a, b, c, d, e and 27 others";
    let torn = Place { object: Some(0), level: Some(LEVEL_ZIL), block: Some(35), ..log.clone() };
    let half = "the last write to the intent log, block 35, was interrupted: it is whole, but not on l.1";
    let mut torn = Finding::new(Kind::IntentLogTorn, torn, half);
    torn.copies = vec![
        copy("l.0", 8_388_608, CopyResult::Ok, None),
        copy("l.1", 8_388_608, CopyResult::Checksum, Some(Observed::Zeros)),
    ];
    let pool = Place { device: Some("tank".to_owned()), ..Place::default() };
    let kept =
        "a checkpoint keeps the state of txg 23, written 2026-11-30 14:37:47 UTC; 383488 bytes are used by it alone";
    let freed = "still to be freed: 1 tree of a destroyed dataset, 1929728 bytes";
    outcome.findings = vec![
        torn,
        Finding::new(Kind::IntentLogWaits, log, waits),
        Finding::new(Kind::CheckpointKept, pool.clone(), kept),
        Finding::new(Kind::FreeingRunning, pool, freed),
    ];
    outcome.intent_logs = vec![IntentLogFacts {
        dataset: Some("tank/db".to_owned()),
        objset: 54,
        blocks: 34,
        records: 76,
        operations: [(Operation::Create, 32), (Operation::Rename, 1), (Operation::Write, 43)].into(),
        files: 32,
        written_bytes: 523_990,
        oldest_txg: 4712,
        newest_txg: 4745,
        created: vec!["a".to_owned(), "b".to_owned()],
        created_are_cut: true,
        ..IntentLogFacts::default()
    }];
    outcome
}

pub(super) fn cancelled() -> Outcome {
    let mut outcome = clean();
    outcome.not_checked = vec![not_checked(NotCheckedReason::Cancelled, "the rest of the pool", None, Some(1 << 40))];
    let status = exit::CANCELLED | exit::INCOMPLETE;
    (outcome.summary.verdict, outcome.summary.exit_status) = (Verdict::Incomplete, status);
    outcome
}

pub(super) fn no_decode() -> Outcome {
    let mut outcome = clean();
    outcome.decoded = false;
    outcome.not_checked = vec![not_checked(NotCheckedReason::Option, "decoding of blocks", Some(40_046), None)];
    outcome
}

/// Many files with many ranges, copies and other names.
pub(super) fn flood() -> Outcome {
    let mut outcome = damaged();
    (outcome.findings, outcome.files) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let path = format!("/a-rather-long-directory-name/with/another/one/file-{number:05}.dat");
        let copies = (0..9).map(|n| copy("disk0", n << 30, CopyResult::Checksum, None)).collect();
        outcome.findings.push(bad_block("single/data", &path, 0, Severity::Damaged, copies));
        let also_in: Vec<_> = (0..50).map(|n| format!("single/data@auto-2026-11-{n:02}:{path}")).collect();
        let also_in: Vec<_> = also_in.iter().map(String::as_str).collect();
        let ranges = (0..30).map(|n| (n * 1_000_000_000, 131_072)).collect();
        outcome.files.push(file(&format!("single/data:{path}"), Severity::Damaged, ranges, &also_in));
        let device = Place { device: Some(format!("disk{number}")), ..Place::default() };
        outcome.findings.push(Finding::new(Kind::LabelDamaged, device.clone(), "label 0 does not match its checksum"));
        outcome.findings.push(Finding::new(Kind::LabelsDisagree, device, ""));
        let place = Place { objset: Some(0), object: Some(number), block: Some(0), ..Place::default() };
        outcome.findings.push(Finding::new(Kind::MosObjectInvalid, place, "the space map ends early"));
        outcome.not_checked.push(not_checked(NotCheckedReason::NoKey, &format!("single/secret{number}"), None, None));
    }
    outcome.findings_dropped = 123_456;
    (outcome.summary.exit_status, outcome.summary.damaged_files) = (12, 5000);
    outcome
}

/// Names that try to drive the terminal.
pub(super) fn hostile() -> Outcome {
    let evil = "\x1b[2J\x1b]0;owned\x07\r\n\u{9b}31m\u{202e}\x08";
    let mut outcome = damaged();
    let pool = &mut outcome.pool;
    pool.name.push_str(evil);
    pool.state = format!("7{evil}");
    pool.hostname = Some(evil.to_owned());
    pool.uberblock.device.push_str(evil);
    pool.fingerprint.push_str(evil);
    for vdev in &mut outcome.vdevs {
        vdev.name.push_str(evil);
        vdev.device = Some(evil.to_owned());
        vdev.class = Some(evil.to_owned());
    }
    let path = format!("/{evil}");
    outcome.findings =
        vec![bad_block("single", &path, 0, Severity::Damaged, vec![copy(evil, 0, CopyResult::Stale, None)])];
    outcome.findings[0].message = evil.to_owned();
    let device = Place { device: Some(evil.to_owned()), ..Place::default() };
    outcome.findings.push(Finding::new(Kind::LabelDamaged, device.clone(), evil));
    outcome.findings.push(Finding::new(Kind::LabelsDisagree, device, evil));
    let other = format!("single@{evil}:{path}");
    outcome.files = vec![file(&format!("single:{path}"), Severity::Damaged, vec![(0, 1)], &[&other])];
    outcome.files[0].no_path_because = Some(evil.to_owned());
    outcome.patterns = vec![evil.to_owned()];
    outcome.not_checked = vec![not_checked(NotCheckedReason::Unsupported, evil, None, None)];
    outcome
}
