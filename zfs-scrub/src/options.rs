//! What a run is asked to do.

use crate::scope::Scope;
use crate::survey::Survey;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use zfs_format::media::Host;

/// What a scrub is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads; at least 1.
    pub threads: usize,
    /// Memory for queues and buffers, in bytes.
    pub memory_bytes: u64,
    /// Decode one good copy of every block.
    pub decode: bool,
    /// Findings kept in full; further ones are only counted.
    pub findings_max: usize,
    /// List the files that one more failure would hurt, at most `findings_max` of them.
    pub at_risk: bool,
    /// Which part of the pool to check.
    pub scope: Scope,
    /// What to look at among the older states when the newest one cannot be read.
    pub survey: Option<Survey>,
    /// The machine that says which drives the devices are, and whether it has the pool imported.
    pub host: Host,
}

impl Options {
    /// The smallest memory budget a run accepts: 64 MiB.
    pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: 256 << 20,
            decode: true,
            findings_max: 10_000,
            at_risk: false,
            scope: Scope::default(),
            survey: None,
            host: Host::default(),
        }
    }
}

/// Counters that a caller may read while a scrub runs, and the switch that stops it.
#[derive(Debug, Default)]
pub struct Progress {
    done_bytes: AtomicU64,
    known_bytes: AtomicU64,
    bad_blocks: AtomicU64,
    /// A [`Stop`], or 0.
    stop: AtomicU8,
}

/// Why a run ends before everything was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// [`Progress::cancel`] was called.
    Cancelled,
    /// It took as long as it may.
    TimeOver,
    /// Damage was found, and that was enough.
    FirstDamage,
}

/// A snapshot of [`Progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressReading {
    /// Allocated bytes already judged.
    pub done_bytes: u64,
    /// Allocated bytes known to exist; never below `done_bytes`.
    pub known_bytes: u64,
    /// Blocks with at least one bad copy so far.
    pub bad_blocks: u64,
}

impl Progress {
    /// Asks the run to stop; it ends soon with a partial outcome.
    pub fn cancel(&self) {
        self.stop(Stop::Cancelled);
    }

    /// Ends the run; the first reason stays.
    pub(crate) fn stop(&self, why: Stop) {
        let number = match why {
            Stop::Cancelled => 1,
            Stop::TimeOver => 2,
            Stop::FirstDamage => 3,
        };
        let _ = self.stop.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Why the run is to end, when it is.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        match self.stop.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Stop::Cancelled),
            2 => Some(Stop::TimeOver),
            _ => Some(Stop::FirstDamage),
        }
    }

    /// Whether the run is to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.stopped().is_some()
    }

    /// Reads the counters.
    #[must_use]
    pub fn read(&self) -> ProgressReading {
        let done_bytes = self.done_bytes.load(Ordering::Relaxed);
        let known_bytes = self.known_bytes.load(Ordering::Relaxed).max(done_bytes);
        ProgressReading { done_bytes, known_bytes, bad_blocks: self.bad_blocks.load(Ordering::Relaxed) }
    }

    /// Adds bytes that were judged.
    pub fn add_done(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Raises the number of bytes known to exist to at least `bytes`.
    pub fn raise_known(&self, bytes: u64) {
        self.known_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Counts one more block with a bad copy.
    pub fn add_bad_block(&self) {
        self.bad_blocks.fetch_add(1, Ordering::Relaxed);
    }
}
