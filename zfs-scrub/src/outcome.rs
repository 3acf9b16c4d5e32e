//! What a run answers: pool, devices, totals, findings, what was not checked, and the verdict.

use crate::finding::{Finding, Severity};
use crate::remembered::RememberedFacts;
use crate::survey::StateFacts;
use std::collections::BTreeMap;
use std::time::Duration;
use zfs_format::media::Drive;
use zfs_format::ondisk::zil::Operation;

/// Which uberblock was used, and where it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UberblockFacts {
    /// The device as named in the config table.
    pub device: String,
    /// Label 0 to 3.
    pub label: usize,
    /// Slot in the label's ring.
    pub slot: usize,
}

/// One feature of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureFacts {
    /// For example `com.delphix:hole_birth`.
    pub guid: String,
    /// A reader may ignore it.
    pub read_only_compatible: bool,
    /// This version knows it.
    pub supported: bool,
    /// Reference count; 0 means enabled but not in use.
    pub refcount: u64,
}

/// What pool this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// Pool name.
    pub name: String,
    /// Pool guid.
    pub guid: u64,
    /// SPA version: 1 to 28, or 5000.
    pub version: u64,
    /// `exported`, `active`, `destroyed`, or the number of an unknown state.
    pub state: String,
    /// The txg that was checked.
    pub txg: u64,
    /// When that txg was written, seconds since 1970.
    pub timestamp: u64,
    /// The host that wrote the configuration.
    pub hostname: Option<String>,
    /// Its host id.
    pub hostid: Option<u64>,
    /// `little` or `big`.
    pub endian: &'static str,
    /// Pool guid, txg and checksum of the root block: equal fingerprints that scrub clean hold equal data.
    pub fingerprint: String,
    /// The uberblock in use.
    pub uberblock: UberblockFacts,
    /// Features, by guid.
    pub features: Vec<FeatureFacts>,
}

/// One node of the vdev tree, with what was counted on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevFacts {
    /// `disk`, `file`, `mirror`, `raidz`, ...
    pub vdev_type: String,
    /// Index among its siblings.
    pub id: u64,
    /// Name in the config table: `mirror-0`, or the last part of a leaf's path.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// `normal`, `log`, `special`, `dedup` for top-level vdevs; `spare`, `l2cache` for devices without pool data.
    pub class: Option<String>,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `OFFLINE`, `UNAVAIL`, `REMOVED`; of spares also `AVAIL`, `INUSE`.
    pub state: String,
    /// Parity columns of a raidz or dRAID.
    pub parity: Option<u64>,
    /// Sector size as a power of two; only for top-level vdevs.
    pub ashift: Option<u64>,
    /// Path in the label.
    pub path: Option<String>,
    /// Device id in the label.
    pub devid: Option<String>,
    /// Physical path in the label.
    pub phys_path: Option<String>,
    /// Slot of the enclosure in the label, as a path below `/sys`.
    pub enclosure_path: Option<String>,
    /// The drive that was opened, where the machine says which one it is.
    pub drive: Option<Drive>,
    /// The path it was opened by; `None` when it was not given.
    pub device: Option<String>,
    /// Reads that failed.
    pub read_errors: u64,
    /// Copies that did not match their checksum; on inner vdevs: blocks without a good copy.
    pub checksum_errors: u64,
    /// Copies that were known to be out of date.
    pub stale_copies: u64,
    /// Bytes read and checked.
    pub bytes_read: u64,
    /// Blocks that are out of reach, and that this missing device alone may bring back.
    pub unlocks_blocks: u64,
    /// What redundancy its blocks have; only for top-level vdevs that were looked at.
    pub redundancy: Option<RedundancyFacts>,
    /// Children.
    pub children: Vec<VdevFacts>,
}

/// The redundancy of the blocks of one top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedundancyFacts {
    /// Failures of devices that a block should survive here: 0 for a disk alone.
    pub failures_survived: u64,
    /// Blocks that lie on it, with at least one of their addresses.
    pub blocks: u64,
    /// Blocks of which every copy and column it should hold is good.
    pub full: u64,
    /// Blocks that the failure of one more device loses.
    pub one_failure_from_loss: u64,
    /// Blocks that are lost or out of reach.
    pub lost: u64,
}

/// A file of which a block would be lost by one more failure, though its vdev promises more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAtRisk {
    /// `dataset:/path`, `dataset@snapshot:/path`, or `<objset>:<object>`.
    pub path: String,
    /// How many of its blocks.
    pub blocks: u64,
    /// Other names of the same bytes.
    pub also_in: Vec<String>,
}

/// The intent log of a dataset, and what in it waits for replay at the next import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntentLogFacts {
    /// Name of the dataset, when it can be read.
    pub dataset: Option<String>,
    /// Number of its object set.
    pub objset: u64,
    /// An import claimed the log, and did not replay it, or not to its end.
    pub is_claimed: bool,
    /// Blocks of the log that were read.
    pub blocks: u64,
    /// Records that wait.
    pub records: u64,
    /// How many of them do what.
    pub operations: BTreeMap<Operation, u64>,
    /// Those of which only type, txg and number are known, since they are encrypted and there is no key.
    pub unreadable_records: u64,
    /// Files and directories that they make or change. Removals and renames go by names, and add none.
    pub files: u64,
    /// There are more.
    pub files_are_cut: bool,
    /// Bytes that are written.
    pub written_bytes: u64,
    /// Bytes that are cloned from other files.
    pub cloned_bytes: u64,
    /// The txgs of the oldest and the newest record.
    pub oldest_txg: u64,
    /// The latter.
    pub newest_txg: u64,
    /// Names that are made, without their directories, in order; a hundred at most.
    pub created: Vec<String>,
    /// There are more.
    pub created_are_cut: bool,
}

/// What was counted. The first seven equal the numbers of `zdb -bcc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Block pointers.
    pub blocks: u64,
    /// Addresses that are gangs.
    pub gang_blocks: u64,
    /// Pointers with their payload inside.
    pub embedded_blocks: u64,
    /// Logical bytes.
    pub logical_bytes: u64,
    /// Bytes after compression.
    pub physical_bytes: u64,
    /// Bytes allocated, all copies and parity.
    pub allocated_bytes: u64,
    /// Bytes that dedup saves.
    pub dedup_saved_bytes: u64,
    /// Bytes that block cloning saves.
    pub cloned_bytes: u64,
    /// Copies read and verified against their checksum.
    pub copies_verified: u64,
    /// Parity columns recomputed and compared.
    pub parity_verified: u64,
    /// Blocks of which one good copy was decoded.
    pub decoded_blocks: u64,
    /// Bytes read from devices.
    pub bytes_read: u64,
    /// How they were read.
    pub reading: Reading,
}

/// The requests in which blocks were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// How many there were.
    pub requests: u64,
    /// Bytes they asked for.
    pub bytes: u64,
    /// Bytes among them that no block needed: gaps that were read through.
    pub skipped_bytes: u64,
}

impl Reading {
    /// Mean size of a request.
    #[must_use]
    pub fn mean_bytes(&self) -> u64 {
        self.bytes.checked_div(self.requests).unwrap_or(0)
    }
}

/// Why something was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotCheckedReason {
    /// It lies on a device that was not given, or that disappeared.
    MissingMember,
    /// It lies where nothing was rescued, as a map says.
    Unread,
    /// The block that points to it is lost.
    BadParent,
    /// It needs a key.
    NoKey,
    /// This version cannot read it.
    Unsupported,
    /// The pool was written while it was checked.
    Changed,
    /// The run was cancelled.
    Cancelled,
    /// An option left it out.
    Option,
}

impl NotCheckedReason {
    /// The word of the JSON report.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::MissingMember => "missing_member",
            Self::Unread => "unread",
            Self::BadParent => "bad_parent",
            Self::NoKey => "no_key",
            Self::Unsupported => "unsupported",
            Self::Changed => "changed",
            Self::Cancelled => "cancelled",
            Self::Option => "option",
        }
    }
}

/// Something that was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotChecked {
    /// Why.
    pub reason: NotCheckedReason,
    /// What, in a few words.
    pub what: String,
    /// How many blocks, where that is known.
    pub blocks: Option<u64>,
    /// How many bytes, where that is known.
    pub bytes: Option<u64>,
}

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDamage {
    /// `dataset:/path`, `dataset@snapshot:/path`, or `<objset>:<object>`.
    pub path: String,
    /// Why the path is only numbers, where it is.
    pub no_path_because: Option<String>,
    /// Degraded or damaged.
    pub severity: Severity,
    /// The whole file is lost: the block that described it is.
    pub is_whole: bool,
    /// Ranges (offset, length) that are lost or, in a degraded file, have a bad copy.
    pub ranges: Vec<(u64, u64)>,
    /// Bytes without a good copy.
    pub lost_bytes: u64,
    /// Other names of the same bytes.
    pub also_in: Vec<String>,
}

/// The last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything was checked, nothing is damaged.
    Clean,
    /// Everything readable, redundancy is not complete.
    Degraded,
    /// Something is lost.
    Damaged,
    /// Nothing bad was found, but not everything was checked.
    Incomplete,
}

impl Verdict {
    /// The word of the JSON report.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Degraded => "degraded",
            Self::Damaged => "damaged",
            Self::Incomplete => "incomplete",
        }
    }
}

/// Exit status bits, in the manner of fsck(8).
pub mod exit {
    /// Damage, but every damaged block has a good copy.
    pub const DEGRADED: u8 = 1;
    /// Something is lost.
    pub const DAMAGED: u8 = 4;
    /// Something, or everything, could not be checked.
    pub const INCOMPLETE: u8 = 8;
    /// Wrong usage.
    pub const USAGE: u8 = 16;
    /// Cancelled.
    pub const CANCELLED: u8 = 32;
}

/// Numbers and verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The last word.
    pub verdict: Verdict,
    /// Sum of [`exit`] bits.
    pub exit_status: u8,
    /// Blocks with a bad copy and a good one.
    pub degraded_blocks: u64,
    /// Blocks without a good copy.
    pub lost_blocks: u64,
    /// Files with a degraded block and no lost one.
    pub degraded_files: u64,
    /// Files with a lost block.
    pub damaged_files: u64,
    /// How long it took.
    pub duration: Duration,
    /// Bytes read per second.
    pub bytes_per_second: u64,
}

/// Everything a run answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What pool this is.
    pub pool: PoolFacts,
    /// Top-level vdevs.
    pub vdevs: Vec<VdevFacts>,
    /// Hot spares: given, or listed by the pool. They hold no pool data.
    pub spares: Vec<VdevFacts>,
    /// Cache devices (L2ARC): given, or listed by the pool. They hold no pool data.
    pub caches: Vec<VdevFacts>,
    /// What was counted.
    pub totals: Totals,
    /// Findings in report order.
    pub findings: Vec<Finding>,
    /// Findings that were counted but not kept.
    pub findings_dropped: u64,
    /// What the bad copies have in common, one line each.
    pub patterns: Vec<String>,
    /// What was not checked.
    pub not_checked: Vec<NotChecked>,
    /// Intent logs with records that wait for replay, by name of their datasets.
    pub intent_logs: Vec<IntentLogFacts>,
    /// Files that are hurt, by path.
    pub files: Vec<FileDamage>,
    /// Files that are one failure from loss, by path, when that was asked for.
    pub at_risk: Option<Vec<FileAtRisk>>,
    /// There are more of them than were kept.
    pub at_risk_is_cut: bool,
    /// What of the pool's states can be read, the newest first, when that was looked at.
    pub states: Vec<StateFacts>,
    /// What the pool itself remembers: not found by this run, and no part of the verdict.
    pub remembered: RememberedFacts,
    /// Blocks were decoded, not only checksummed.
    pub decoded: bool,
    /// Only a part of the pool was asked for.
    pub is_partial: bool,
    /// Numbers and verdict.
    pub summary: Summary,
}
