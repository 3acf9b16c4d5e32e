//! What of a pool's older states can still be read.
//!
//! When the newest state is lost, the question is which older one is whole. All states that a ring holds get a quick look:
//! the root, the MOS, the roots of the datasets. A scrub costs as much as the pool is large, so only the newest of those
//! that pass it are scrubbed, one after the other, until one is found whole.

use crate::error::ScrubError;
use crate::finding::{Finding, Severity};
use crate::options::{Options, Progress};
use crate::outcome::Outcome;
use crate::scope::Scope;
use std::time::Instant;
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::DatasetMap;
use zfs_format::object::ObjsetReader;
use zfs_format::pool::{Assembly, Mos, RecordedState, load_removed};

/// Datasets of a state whose first block is read. There may be 256 states, and tens of thousands of snapshots in each.
const DATASETS_MAX: usize = 1000;

/// How far a state is looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// The root, the MOS, the roots of the datasets.
    Roots,
    /// All metadata.
    #[default]
    Metadata,
    /// Everything.
    Data,
}

/// What is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// How far.
    pub depth: Depth,
    /// States that are looked into further than their roots, at most.
    pub deep_max: usize,
}

/// What was found of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The run ended, or its time was over, before this state was looked at.
    Unknown,
    /// Nothing of it can be read.
    Lost {
        /// The block that failed, and why.
        why: String,
    },
    /// The MOS can be read; so many of the datasets begin with a block that can be read. Nothing else was looked at.
    Roots {
        /// Datasets and snapshots whose first block can be read.
        readable: u64,
        /// All that were tried: a thousand at most.
        total: u64,
        /// What of the MOS could not be read, at most a few.
        problems: Vec<String>,
    },
    /// It was scrubbed.
    Scrubbed {
        /// Up to where.
        depth: Depth,
        /// Lost blocks that lead to others, or belong to the pool.
        lost_metadata: u64,
        /// Lost blocks of files and volumes.
        lost_data: u64,
        /// Blocks with a bad copy that have a good one.
        degraded: u64,
        /// It was not finished.
        is_cut: bool,
    },
}

impl Reach {
    /// Everything that was looked at is there; the first such state is the one to go back to.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Scrubbed { lost_metadata: 0, lost_data: 0, is_cut: false, .. })
    }

    /// Whether a scrub may find it whole.
    fn is_promising(&self) -> bool {
        matches!(self, Self::Roots { readable, total, problems } if readable == total && problems.is_empty())
    }
}

/// A state of the pool, and what of it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFacts {
    /// Its txg.
    pub txg: u64,
    /// When it was written, seconds since 1970.
    pub timestamp: u64,
    /// Slots of all rings that hold its uberblock.
    pub slots: usize,
    /// Devices that hold it.
    pub devices: usize,
    /// Another state has the same txg: two systems wrote the pool.
    pub has_twin: bool,
    /// What was found.
    pub reach: Reach,
}

/// Looks at all states that the rings hold, the newest first.
#[must_use]
pub fn survey(assembly: &Assembly, survey: Survey, options: &Options, progress: &Progress) -> Vec<StateFacts> {
    let states = assembly.states();
    let deadline = options.scope.time_max.and_then(|time| Instant::now().checked_add(time));
    let is_over = || progress.is_cancelled() || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut found: Vec<StateFacts> = Vec::with_capacity(states.len());
    for state in &states {
        let reach = if is_over() { Reach::Unknown } else { quick_look(assembly, state) };
        let uberblock = &state.chosen.uberblock;
        found.push(StateFacts {
            txg: uberblock.txg.0,
            timestamp: uberblock.timestamp_s,
            slots: state.slots,
            devices: state.devices,
            has_twin: state.has_twin,
            reach,
        });
    }
    if survey.depth > Depth::Roots {
        let mut left = survey.deep_max;
        for (state, facts) in states.iter().zip(&mut found) {
            if left == 0 || is_over() {
                break;
            }
            if facts.reach.is_promising() {
                left -= 1;
                facts.reach = deep_look(assembly, state, survey.depth, &until(options, deadline), progress);
                if facts.reach.is_whole() {
                    break;
                }
            }
        }
    }
    found
}

/// The options of a scrub that ends at the deadline, and not at the first damage.
fn until(options: &Options, deadline: Option<Instant>) -> Options {
    let time_max = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    Options { scope: Scope { time_max, fail_fast: false, ..options.scope.clone() }, ..options.clone() }
}

/// The root, the MOS, the first block of each dataset.
fn quick_look(assembly: &Assembly, state: &RecordedState) -> Reach {
    let mut work = Work::default();
    let mut assembly = assembly.clone();
    let lost = |why: String| Reach::Lost { why };
    if let Err(error) = assembly.select(state) {
        return lost(error.to_string());
    }
    let root = state.chosen.uberblock.rootbp;
    let config = match Mos::open(BlockReader::new(&assembly.tree), &root, &mut work) {
        Ok(mut mos) => mos.config(&mut work).map_err(|error| error.to_string()),
        Err(error) => return lost(error.to_string()),
    };
    let mut problems = Vec::new();
    if let Err(why) = config.and_then(|config| assembly.adopt_config(&config).map_err(|error| error.to_string())) {
        problems.push(format!("the pool's configuration: {why}"));
    }
    problems.extend(load_removed(&mut assembly.tree, &root, &mut work).iter().map(|one| one.error.to_string()));
    assembly.load_salt(&mut work);
    let blocks = assembly.blocks();
    let mut mos = match Mos::open(blocks, &root, &mut work) {
        Ok(mos) => mos,
        Err(error) => return lost(error.to_string()),
    };
    let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
    problems.extend(map.problems.iter().map(ToString::to_string));
    let (mut readable, mut total) = (0, 0);
    for dataset in map.datasets.values().filter(|dataset| !dataset.dsl.bp.is_hole()).take(DATASETS_MAX) {
        total += 1;
        readable += u64::from(ObjsetReader::open(blocks, &dataset.dsl.bp, &mut work).is_ok());
    }
    Reach::Roots { readable, total, problems }
}

/// A scrub of the state.
fn deep_look(
    assembly: &Assembly,
    state: &RecordedState,
    depth: Depth,
    options: &Options,
    progress: &Progress,
) -> Reach {
    let mut assembly = assembly.clone();
    let scope = Scope { metadata_only: depth == Depth::Metadata, ..options.scope.clone() };
    let options = Options { scope, survey: None, ..options.clone() };
    let outcome = assembly
        .select(state)
        .map_err(ScrubError::from)
        .and_then(|()| crate::engine::scrub(&mut assembly, &options, progress));
    match outcome {
        Ok(outcome) => scrubbed(&outcome, depth, progress.is_cancelled()),
        Err(error) => Reach::Lost { why: error.to_string() },
    }
}

fn scrubbed(outcome: &Outcome, depth: Depth, is_cut: bool) -> Reach {
    let is_data = |finding: &&Finding| {
        let place = &finding.place;
        finding.severity == Severity::Damaged
            && place.level == Some(0)
            && place.objset.is_some_and(|objset| objset != 0)
            && place.object.is_some_and(|object| object != 0)
    };
    let lost = outcome.summary.lost_blocks;
    // Of floods only a part is listed; what is not listed counts as data, since metadata comes first in a report.
    let listed = outcome.findings.iter().filter(|finding| finding.severity == Severity::Damaged && is_block(finding));
    let lost_metadata = listed.filter(|finding| !is_data(finding)).count() as u64;
    let lost_metadata = lost_metadata.min(lost);
    Reach::Scrubbed {
        depth,
        lost_metadata,
        lost_data: lost - lost_metadata,
        degraded: outcome.summary.degraded_blocks,
        is_cut,
    }
}

fn is_block(finding: &Finding) -> bool {
    finding.pointer.is_some() || !finding.copies.is_empty()
}
