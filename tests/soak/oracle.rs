//! What must be said of a damaged pool, by the list of its blocks and the bytes that differ; and whether it was.

use crate::blows::{Damage, Dice, label_places};
use crate::overlay::Overlay;
use crate::subject::{Block, Subject};
use fixtures::{Copy, LeafSpan};
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};
use zfs_scrub::finding::{CopyEvidence, CopyResult};
use zfs_scrub::outcome::exit;
use zfs_scrub::survey::{Depth, Survey};
use zfs_scrub::{Options, Outcome, Severity};

/// A damaged pool of a few hundred blocks that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run on a damaged pool.
pub(crate) struct Run {
    outcome: Result<Outcome, String>,
    took: Duration,
    /// The same with other threads, when that was tried.
    again: Option<Result<Outcome, String>>,
}

/// Scrubs a damaged pool, now and then with one thread and with eight.
pub(crate) fn run(pool: &Subject, damage: &Damage, dice: &mut Dice) -> Run {
    let is_twice = dice.below(16) == 0;
    let survey = (dice.below(8) == 0).then_some(Survey { depth: Depth::Metadata, deep_max: 2 });
    let options =
        Options { threads: if is_twice { 1 } else { 2 }, findings_max: usize::MAX, survey, ..Options::default() };
    let started = Instant::now();
    let outcome = pool.scrub(&damage.devices, &options);
    let took = started.elapsed();
    let again = is_twice.then(|| pool.scrub(&damage.devices, &Options { threads: 8, ..options }));
    Run { outcome, took, again }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match &self.outcome {
            Ok(outcome) => outcome,
            Err(error) => return write!(f, "{error}"),
        };
        for finding in &outcome.findings {
            writeln!(f, "{} {}: {}", finding.kind.entry().code, finding.place.name(), finding.message)?;
        }
        for left in &outcome.not_checked {
            writeln!(f, "{left:?}")?;
        }
        write!(f, "status {}", outcome.summary.exit_status)
    }
}

/// A bad range of a device, or, where that cannot be known, a bad copy on a vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bad {
    /// Device, offset.
    Leaf(usize, u64),
    /// Vdev, offset.
    Copy(usize, u64),
}

/// What was seen in all rounds.
#[derive(Default)]
pub(crate) struct Counts {
    /// Rounds in which all bad copies had to be named, and no other.
    exact: u64,
    /// Rounds in which metadata was lost, or the pool's list of blocks is not known: nothing unchanged may be named.
    partial: u64,
    /// Rounds in which no pool could be put together.
    refused: u64,
    bad_copies: u64,
    lost_blocks: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} with everything known, {} in part, {} refused; {} bad copies, {} lost blocks",
            self.exact, self.partial, self.refused, self.bad_copies, self.lost_blocks
        )
    }
}

/// What is true of a damaged pool.
pub(crate) struct Truth<'a> {
    pool: &'a Subject,
    devices: &'a [Overlay],
    /// Bad copies that a checksum guards.
    bad: BTreeSet<Bad>,
    /// Those that may be found by decoding alone.
    perhaps: BTreeSet<Bad>,
    lost: u64,
    /// A block that others hang on has no good copy.
    is_metadata_lost: bool,
    /// Labels differ, or are cut off.
    is_label_hit: bool,
    is_cut: bool,
}

fn is_bad(devices: &[Overlay], span: &LeafSpan) -> bool {
    let [at, length] = [span.offset_bytes, span.len_bytes].map(|number| usize::try_from(number).unwrap());
    devices[span.device].is_changed(at, length)
}

/// Whether its leaves cannot be judged one by one, since the checksum is over all of them: columns, and parts of a block that a
/// removal split.
fn is_judged_whole(copy: &Copy) -> bool {
    copy.parts.len() > 1 || copy.parts.iter().any(|part| part.parity > 0)
}

impl<'a> Truth<'a> {
    pub(crate) fn new(pool: &'a Subject, damage: &'a Damage) -> Self {
        let devices = &damage.devices[..];
        let sizes = pool.devices.iter().map(|(_, base)| base.size());
        let is_hit = |(device, size): (&Overlay, usize)| {
            label_places(size).into_iter().any(|(at, length)| device.is_changed(at, length))
        };
        let mut truth = Truth {
            pool,
            devices,
            bad: BTreeSet::new(),
            perhaps: BTreeSet::new(),
            lost: 0,
            is_metadata_lost: false,
            is_label_hit: devices.iter().zip(sizes.clone()).any(is_hit),
            is_cut: devices.iter().zip(sizes).any(|(device, size)| device.size() < size),
        };
        for block in pool.blocks.iter().flatten() {
            truth.judge(block);
        }
        truth
    }

    /// Whether a copy can be read if a cell is good of which only the padding differs.
    fn survives_but_for_padding(&self, copy: &Copy) -> bool {
        let mut filled: Vec<u64> = copy.leaves.iter().map(|span| span.len_bytes).collect();
        for part in &copy.parts {
            for (index, cell) in part.cells.iter().enumerate() {
                let own = part.own_bytes(index);
                cell.clone().for_each(|leaf| filled[leaf] = own);
            }
        }
        copy.survives(|leaf| is_bad(self.devices, &LeafSpan { len_bytes: filled[leaf], ..copy.leaves[leaf] }))
    }

    fn judge(&mut self, block: &Block) {
        let mut survivors = 0;
        let mut found = BTreeSet::new();
        for copy in &block.copies {
            let bad: Vec<bool> = copy.leaves.iter().map(|span| is_bad(self.devices, span)).collect();
            let survives = copy.survives(|leaf| bad[leaf]);
            survivors += u64::from(survives);
            if survives || !is_judged_whole(copy) {
                let leaves = copy.leaves.iter().zip(&bad).filter(|(_, is_bad)| **is_bad);
                found.extend(leaves.map(|(span, _)| Bad::Leaf(span.device, span.offset_bytes)));
            } else if self.survives_but_for_padding(copy) {
                // What is to be read is there, so each of its devices can be judged after all.
                survivors += 1;
                let leaves = copy.leaves.iter().zip(&bad).filter(|(_, is_bad)| **is_bad);
                self.perhaps.extend(leaves.map(|(span, _)| Bad::Leaf(span.device, span.offset_bytes)));
                self.perhaps.insert(Bad::Copy(copy.top, copy.offset_bytes));
            } else {
                // Where it cannot be put together, nothing proves which leaves lie; those beyond the end cannot be had, though.
                found.insert(Bad::Copy(copy.top, copy.offset_bytes));
                let beyond =
                    |span: &&LeafSpan| span.offset_bytes + span.len_bytes > self.devices[span.device].size() as u64;
                let beyond = copy.leaves.iter().filter(beyond);
                self.perhaps.extend(beyond.map(|span| Bad::Leaf(span.device, span.offset_bytes)));
            }
        }
        if !block.is_checked {
            self.perhaps.extend(found);
            return;
        }
        self.bad.extend(found);
        if survivors == 0 {
            self.lost += 1;
            self.is_metadata_lost |= block.is_metadata;
        }
    }

    /// The place of a copy that is called bad.
    fn place(&self, copy: &CopyEvidence) -> Option<Bad> {
        if !matches!(copy.result, CopyResult::Checksum | CopyResult::ReadError | CopyResult::OutOfRange) {
            return None;
        }
        let device = copy.device.as_ref().map(|name| self.device(name));
        Some(match (device, copy.device_offset_bytes) {
            (Some(device), Some(offset)) => Bad::Leaf(device, offset),
            _ => Bad::Copy(usize::try_from(copy.vdev).unwrap(), copy.offset_bytes),
        })
    }

    /// Which of the devices a leaf of the report is.
    fn device(&self, leaf: &str) -> usize {
        let [same, only] = [self.pool.devices.iter().position(|(name, _)| name == leaf), Some(0)];
        let of_path = || {
            let tops = self.pool.whole.iter().flat_map(|whole| &whole.vdevs);
            let mut pending: Vec<_> = tops.collect();
            while let Some(vdev) = pending.pop() {
                pending.extend(&vdev.children);
                if vdev.name == leaf && vdev.children.is_empty() {
                    return self.pool.devices.iter().position(|(name, _)| vdev.path.as_deref() == Some(name));
                }
            }
            None
        };
        same.or_else(of_path)
            .or(only.filter(|_| self.pool.devices.len() == 1))
            .unwrap_or_else(|| panic!("no device {leaf}"))
    }

    /// Whether a run says what is true.
    pub(crate) fn check(&self, run: &Run, counts: &mut Counts) -> Result<(), String> {
        ensure(run.took < PATIENCE, || format!("it took {:?}", run.took))?;
        if let Some(again) = &run.again {
            self.compare(&run.outcome, again)?;
        }
        let outcome = match &run.outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                counts.refused += 1;
                let is_excused = self.is_label_hit || self.pool.whole.is_none();
                return ensure(is_excused && !error.is_empty(), || format!("the labels are whole, but: {error}"));
            }
        };
        self.names_only_what_changed(outcome)?;
        let told: BTreeSet<Bad> =
            outcome.findings.iter().flat_map(|finding| &finding.copies).filter_map(|copy| self.place(copy)).collect();
        let whole = self.pool.whole.as_ref().ok_or("it could not be opened without damage")?;
        if self.pool.blocks.is_none() {
            counts.partial += 1;
            return Ok(());
        }
        if outcome.pool.txg != whole.pool.txg {
            counts.partial += 1;
            return ensure(self.is_label_hit, || format!("txg {} instead of {}", outcome.pool.txg, whole.pool.txg));
        }
        let wrong: Vec<&Bad> =
            told.iter().filter(|bad| !self.bad.contains(bad) && !self.perhaps.contains(bad)).collect();
        ensure(wrong.is_empty(), || format!("these copies are good: {wrong:x?}"))?;
        counts.bad_copies += told.len() as u64;
        counts.lost_blocks += outcome.summary.lost_blocks;
        let status = outcome.summary.exit_status;
        if self.is_metadata_lost {
            counts.partial += 1;
            return ensure(status & exit::DAMAGED != 0, || format!("metadata is lost, and the status is {status}"));
        }
        counts.exact += 1;
        let missed: Vec<&Bad> = self.bad.difference(&told).collect();
        ensure(missed.is_empty(), || format!("these bad copies were not found: {missed:x?}"))?;
        ensure(
            outcome.summary.lost_blocks >= self.lost
                && (self.lost > 0 || self.is_cut || status & exit::DAMAGED == 0 || !self.perhaps.is_empty()),
            || format!("{} blocks are lost; it says {}, and status {status}", self.lost, outcome.summary.lost_blocks),
        )?;
        let is_hurt = !self.bad.is_empty();
        ensure(!is_hurt || status & (exit::DEGRADED | exit::DAMAGED) != 0, || format!("damage, and status {status}"))?;
        let is_quiet = !is_hurt && self.perhaps.is_empty() && !self.is_label_hit && !self.is_cut;
        ensure(!is_quiet || status == whole.summary.exit_status && outcome.findings == whole.findings, || {
            format!("nothing that matters was changed, and yet: status {status}, {:?}", outcome.findings)
        })
    }

    /// Every byte range that is called bad differs from what it was, or lies beyond the end.
    fn names_only_what_changed(&self, outcome: &Outcome) -> Result<(), String> {
        let known: BTreeSet<Bad> = self
            .pool
            .whole
            .iter()
            .flat_map(|whole| &whole.findings)
            .flat_map(|finding| &finding.copies)
            .filter_map(|copy| self.place(copy))
            .collect();
        for finding in outcome.findings.iter().filter(|finding| finding.severity > Severity::Note) {
            for copy in &finding.copies {
                let Some(place @ Bad::Leaf(device, offset)) = self.place(copy) else { continue };
                let [at, length] = [offset, copy.length_bytes].map(|number| usize::try_from(number).unwrap());
                let size = self.devices[device].size();
                let is_right =
                    at + length > size || self.devices[device].is_changed(at, length) || known.contains(&place);
                ensure(is_right, || {
                    format!("{length} bytes at device {device} +{at:#x} are called bad and are as they were")
                })?;
            }
        }
        Ok(())
    }

    /// The report does not depend on the number of threads.
    fn compare(&self, one: &Result<Outcome, String>, eight: &Result<Outcome, String>) -> Result<(), String> {
        match (one, eight) {
            (Ok(one), Ok(eight)) => {
                let is_same = one.findings == eight.findings
                    && one.patterns == eight.patterns
                    && one.not_checked == eight.not_checked
                    && one.files == eight.files
                    && one.totals == eight.totals;
                ensure(is_same, || "one thread and eight say different things".to_owned())
            }
            _ => ensure(one == eight, || "one thread and eight end differently".to_owned()),
        }
    }
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
