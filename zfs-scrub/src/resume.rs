//! What an interrupted run remembers, so that a later one goes on where it was.
//!
//! A run cuts the leaf blocks of a pool into batches, the same batches each time as long as pool, options and program are
//! the same. So it is enough to remember how many batches are done, how far the tasks of each lane of the next ones are,
//! and what was counted and found in them. Metadata is read again: it tells what the batches are.

use crate::finding::{CopyEvidence, Finding, Kind, Place, Severity, SinkContents};
use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ObjectType;

/// The form of the saved state; another one is refused.
const FORMAT: &str = "zcheck.state/1";
/// Larger than any count of blocks or bytes in a pool: sums of such counts do not overflow.
const COUNT_MAX: u64 = 1 << 56;

/// What must be equal for a run to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) format: String,
    /// Another version may cut batches in another way.
    pub(crate) version: String,
    pub(crate) pool: String,
    pub(crate) guid: u64,
    pub(crate) txg: u64,
    pub(crate) fingerprint: String,
    /// Guids of the members that are given.
    pub(crate) members: Vec<u64>,
    /// The options that decide what batches are.
    pub(crate) options: String,
}

/// Where a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRun {
    pub(crate) identity: Identity,
    /// Batches that are done.
    pub(crate) batches_done: u64,
    /// Those after them that were begun: number, and for each lane the tasks that are done.
    pub(crate) begun: Vec<(u64, Vec<usize>)>,
    /// What was counted in all of these.
    pub(crate) counted: Vec<u64>,
    /// What was found in them: in the newest state, then in the checkpoint.
    pub(crate) found: Vec<SavedSink>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedSink {
    findings: Vec<SavedFinding>,
    dropped_degraded: u64,
    dropped_damaged: u64,
}

/// A finding about a block, as it is before it has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedFinding {
    code: String,
    severity: Severity,
    objset: Option<u64>,
    object: Option<u64>,
    object_type: Option<u8>,
    level: Option<i8>,
    block: Option<u64>,
    copies: Vec<CopyEvidence>,
    recoverable: bool,
    hidden_blocks: u64,
    message: String,
    pointer: Option<[u64; 16]>,
}

/// Why a saved state is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// It cannot be read.
    #[error("it is no saved state of zcheck: {0}")]
    Invalid(String),
    /// It is of another run.
    #[error("it belongs to another run: {0}; begin anew with another file, or without this one")]
    OtherRun(String),
}

/// How a run is saved and resumed.
pub struct Resuming<'a> {
    /// Where an earlier run stopped, to go on from there.
    pub from: Option<SavedRun>,
    /// How often to save.
    pub interval: Duration,
    /// Takes what is to be saved: at each interval, and when the run ends early.
    pub save: &'a (dyn Fn(&SavedRun) + Sync),
}

impl fmt::Debug for Resuming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resuming").field("from", &self.from).field("interval", &self.interval).finish_non_exhaustive()
    }
}

impl SavedRun {
    /// The text to save.
    ///
    /// # Errors
    /// What the serializer reports.
    pub fn to_json(&self) -> Result<String, ResumeError> {
        serde_json::to_string(self).map_err(|error| ResumeError::Invalid(error.to_string()))
    }

    /// Reads a saved text.
    ///
    /// # Errors
    /// [`ResumeError::Invalid`] when it is something else.
    pub fn from_json(text: &str) -> Result<Self, ResumeError> {
        serde_json::from_str(text).map_err(|error| ResumeError::Invalid(error.to_string()))
    }

    /// Whether a run like `identity` may go on from here.
    pub(crate) fn check(&self, identity: &Identity) -> Result<(), ResumeError> {
        let Identity { format, version, pool, guid, txg, fingerprint, members, options } = &self.identity;
        let other = |what: String| Err(ResumeError::OtherRun(what));
        if (format, version) != (&identity.format, &identity.version) {
            return other(format!("zcheck {version} saved it, this is {}", identity.version));
        }
        if *guid != identity.guid {
            return other(format!("pool {pool} (guid {guid}), not {} (guid {})", identity.pool, identity.guid));
        }
        if (txg, fingerprint) != (&identity.txg, &identity.fingerprint) {
            return other(format!("the pool was at txg {txg} then, and is at {} now", identity.txg));
        }
        if *members != identity.members {
            return other("other members of the pool were given then".into());
        }
        if *options != identity.options {
            return other(format!("it was asked for {options}, and now for {}", identity.options));
        }
        // What a batch counts may be taken back by the next run, so a count may be less than nothing.
        let counted = self.counted.iter().copied().filter(|count| count.cast_signed().unsigned_abs() > COUNT_MAX);
        let in_sinks = self.found.iter().flat_map(SavedSink::counts).filter(|&count| count > COUNT_MAX);
        match counted.chain(in_sinks).next() {
            Some(count) => Err(ResumeError::Invalid(format!("it counts {count}, which no pool can have"))),
            None => Ok(()),
        }
    }
}

impl Identity {
    pub(crate) fn new(pool: &crate::outcome::PoolFacts, members: Vec<u64>, options: &Options) -> Self {
        let Options { memory_bytes, decode, findings_max, scope, threads: _, at_risk: _, survey: _, host: _ } = options;
        let mut asked = scope.clone();
        // These end a run early, and change nothing about its batches.
        (asked.time_max, asked.fail_fast) = (None, false);
        Self {
            format: FORMAT.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pool: pool.name.clone(),
            guid: pool.guid,
            txg: pool.txg,
            fingerprint: pool.fingerprint.clone(),
            members,
            options: format!("{memory_bytes} bytes of memory, decode {decode}, {findings_max} findings, {asked:?}"),
        }
    }
}

impl SavedSink {
    pub(crate) fn of(contents: &SinkContents) -> Self {
        let saved = |finding: &Finding| SavedFinding {
            code: finding.kind.entry().code.into(),
            severity: finding.severity,
            objset: finding.place.objset,
            object: finding.place.object,
            object_type: finding.place.object_type.map(|object_type| object_type.0),
            level: finding.place.level,
            block: finding.place.block,
            copies: finding.copies.clone(),
            recoverable: finding.recoverable,
            hidden_blocks: finding.hidden_blocks,
            message: finding.message.clone(),
            pointer: finding.pointer.map(|bp| *bp.words()),
        };
        Self {
            findings: contents.findings.iter().map(saved).collect(),
            dropped_degraded: contents.dropped_degraded,
            dropped_damaged: contents.dropped_damaged,
        }
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        let hidden = self.findings.iter().map(|finding| finding.hidden_blocks);
        hidden.chain([self.dropped_degraded, self.dropped_damaged])
    }

    pub(crate) fn contents(&self) -> Result<SinkContents, ResumeError> {
        let finding = |saved: &SavedFinding| {
            let kind = Kind::ALL.iter().copied().find(|kind| kind.entry().code == saved.code);
            let kind = kind.ok_or_else(|| ResumeError::Invalid(format!("it has a finding {}", saved.code)))?;
            let place = Place {
                objset: saved.objset,
                object: saved.object,
                object_type: saved.object_type.map(ObjectType),
                level: saved.level,
                block: saved.block,
                ..Place::default()
            };
            Ok(Finding {
                severity: saved.severity,
                copies: saved.copies.clone(),
                recoverable: saved.recoverable,
                hidden_blocks: saved.hidden_blocks,
                pointer: saved.pointer.map(Blkptr::from_words),
                ..Finding::new(kind, place, saved.message.clone())
            })
        };
        Ok(SinkContents {
            findings: self.findings.iter().map(finding).collect::<Result<_, _>>()?,
            dropped_degraded: self.dropped_degraded,
            dropped_damaged: self.dropped_damaged,
        })
    }
}
