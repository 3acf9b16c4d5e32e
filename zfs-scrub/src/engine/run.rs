//! One scrub from beginning to end.

use super::checkpoint;
use super::conclude::{Conclusion, conclude, gather_left_out, gather_not_checked, gather_unnamed};
use super::counters::Counters;
use super::journal::Journal;
use super::judge::Shared;
use super::margin::{self, AtRisk};
use super::patience::Patience;
use super::selection::Selection;
use super::state::State;
use crate::error::ScrubError;
use crate::facts;
use crate::finding::{Finding, Kind, Place, Severity, Sink, SinkContents};
use crate::options::{Options, Progress, Stop};
use crate::outcome::{Outcome, Totals};
use crate::passes::{
    activity, devices, drives, exchange, features, images, keys, labels, missing_logs, notices, states,
};
use crate::resume::{Identity, Resuming};
use crate::survey;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use zfs_format::block::{BlockReader, Work};
use zfs_format::object::ObjectError;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::pool::{Assembly, AssemblyError, Mos, MosError, UnknownMapping, load_removed};

/// Walks the whole pool once, verifies every copy of every block, and answers with what it found.
///
/// # Errors
/// [`ScrubError`] when the pool uses a feature without which it cannot be read, or when what was asked for is not
/// there. Damage is never an error.
pub fn scrub(assembly: &mut Assembly, options: &Options, progress: &Progress) -> Result<Outcome, ScrubError> {
    run(assembly, options, progress, None)
}

/// The same, saving from time to time how far it is, or going on where an earlier run stopped.
///
/// What was asked for, the memory included, must be the same as then. Files at risk are not remembered, so
/// [`Options::at_risk`] lists only those that this run sees.
///
/// # Errors
/// As [`scrub`]; [`ScrubError::Resume`] when the saved state does not fit.
pub fn scrub_resumable(
    assembly: &mut Assembly,
    options: &Options,
    progress: &Progress,
    resuming: &Resuming<'_>,
) -> Result<Outcome, ScrubError> {
    run(assembly, options, progress, Some(resuming))
}

fn run(
    assembly: &mut Assembly,
    options: &Options,
    progress: &Progress,
    resuming: Option<&Resuming<'_>>,
) -> Result<Outcome, ScrubError> {
    let started = Instant::now();
    let sink = Sink::new(options.findings_max);
    let prepared = prepare(assembly, &sink)?;
    progress.raise_known(prepared.allocated_bytes);
    labels::check(assembly, &sink);
    states::check(assembly, &sink);
    features::check(assembly, &prepared.features, &sink);
    keys::check(assembly, &prepared.features, &sink);
    let counters = Counters::new(&assembly.tree);
    let reader = assembly.blocks();
    let at_risk = options.at_risk.then(|| AtRisk::new(options.findings_max));
    let newest = State { root: assembly.chosen.uberblock.rootbp, txg: assembly.chosen.uberblock.txg };
    let selection = Selection::find(&options.scope, reader, &newest.root, &assembly.name)?;
    let journal = resuming.map(|resuming| Journal::new(resuming, identity(assembly, options))).transpose()?;
    let leaf_counters = Counters::new(&assembly.tree);
    if let Some(journal) = &journal {
        leaf_counters.add(journal.counted());
    }
    let patience = Patience::new(&options.scope, started);
    let shared = Shared {
        reader,
        options,
        journal: journal.as_ref(),
        progress,
        counters: &counters,
        leaf_counters: &leaf_counters,
        sink: &sink,
        selection: &selection,
        deadline: options.scope.time_max.and_then(|time| started.checked_add(time)),
        patience,
        at_risk: at_risk.as_ref(),
    };
    let mut walked = newest.walk(shared, None);
    let mut contents = sink.close();
    let mut unnamed = newest.name(&mut contents.findings, shared, &walked.sharing, None, &assembly.name);
    // The memory of the newest state's tables is given back before those of the checkpoint are read.
    drop(walked.sharing);
    if let Some((uberblock, spared)) = walked.checkpoint.take().filter(|_| !progress.is_cancelled()) {
        unnamed += checkpoint::scrub(&uberblock, &spared, shared, &assembly.name, &mut contents);
    }
    if let Some(error) = &prepared.mos_error {
        report_root(&mut contents, error, assembly);
    }
    counters.add(&leaf_counters.values());
    let mut not_checked = walked.not_checked;
    // Before anything is read where this pool has no blocks.
    contents.findings.extend(devices::check(&assembly.tree));
    // An archive is held against its manifest meanwhile, which takes as long as reading all of it: who cancels does not wait.
    if progress.stopped() != Some(Stop::Cancelled) {
        contents.findings.extend(images::check(&assembly.tree));
    }
    if !progress.is_cancelled() {
        contents.findings.extend(exchange::check(assembly, &contents.findings));
    }
    let at_risk = at_risk.map(|at_risk| {
        let (mut findings, blocks, is_cut) = at_risk.into_findings();
        unnamed += newest.name_places(&mut findings, reader, &assembly.name, patience);
        (margin::files(&findings, &blocks), is_cut)
    });
    contents.findings.extend(missing_logs::check(assembly));
    contents.findings.extend(notices::check(assembly, &mut walked.logs));
    contents.findings.extend(drives::check(assembly, &options.host));
    // The last to read anything.
    let (in_use, changed) = activity::check(assembly, &options.host);
    contents.findings.extend(in_use);
    gather_not_checked(&counters, assembly, options, progress, &mut not_checked);
    gather_left_out(&walked.left_out, &counters, options, progress, &mut not_checked);
    gather_unnamed(unnamed, &mut not_checked);
    let totals = Totals {
        copies_verified: counters.copies_verified.load(Relaxed),
        parity_verified: counters.parity_verified.load(Relaxed),
        decoded_blocks: counters.decoded_blocks.load(Relaxed),
        bytes_read: counters.bytes_read.load(Relaxed),
        reading: counters.reading(),
        ..walked.totals
    };
    let survey = options.survey.filter(|_| prepared.mos_error.is_some());
    let states = survey.map(|wanted| survey::survey(assembly, wanted, options, progress)).unwrap_or_default();
    let outcome = conclude(Conclusion {
        assembly,
        options,
        counters: &counters,
        contents,
        not_checked,
        totals,
        features: prepared.features,
        intent_logs: walked.logs,
        at_risk,
        changed,
        cancelled: progress.stopped() == Some(Stop::Cancelled),
        duration: started.elapsed(),
    });
    Ok(Outcome { states, ..outcome })
}

/// What makes another run the same as this one.
fn identity(assembly: &Assembly, options: &Options) -> Identity {
    let leaves = assembly.tree.leaves.iter().filter(|leaf| leaf.medium.is_some());
    let mut members: Vec<u64> = leaves.map(|leaf| leaf.guid.0).collect();
    members.sort_unstable();
    Identity::new(&facts::pool(assembly, &[]), members, options)
}

/// What is known before the walk.
struct Prepared {
    features: Vec<(String, bool, u64)>,
    allocated_bytes: u64,
    mos_error: Option<MosError>,
}

/// Opens the MOS for what the run needs of it: the list of devices, the features, how much is allocated.
fn prepare(assembly: &mut Assembly, sink: &Sink) -> Result<Prepared, AssemblyError> {
    let mut work = Work::default();
    let root = assembly.chosen.uberblock.rootbp;
    let mut prepared = Prepared { features: Vec::new(), allocated_bytes: 0, mos_error: None };
    let config = match Mos::open(BlockReader::new(&assembly.tree), &root, &mut work) {
        Ok(mut mos) => mos.config(&mut work).map_err(|error| error.to_string()),
        Err(error) => {
            // What lies where this version cannot look is not damaged.
            let kinds = assembly.unsupported_vdevs();
            if !kinds.is_empty() {
                return Err(AssemblyError::UnsupportedVdevs { name: assembly.name.clone(), kinds });
            }
            prepared.mos_error = Some(error);
            assembly.load_salt(&mut work);
            return Ok(prepared);
        }
    };
    let adopted = config.and_then(|config| assembly.adopt_config(&config).map_err(|error| error.to_string()));
    if let Err(error) = adopted {
        let place = Place { objset: Some(0), ..Place::default() };
        sink.push(Finding::new(Kind::ConfigIncomplete, place, format!("the pool's configuration: {error}")));
    }
    for UnknownMapping { vdev, error } in load_removed(&mut assembly.tree, &root, &mut work) {
        let place = Place { objset: Some(0), ..Place::default() };
        let message = format!("where the blocks of the removed vdev {vdev} went cannot be read: {error}");
        sink.push(Finding::new(Kind::MosObjectInvalid, place, message));
    }
    load_dtls(assembly, &root, sink, &mut work);
    assembly.load_salt(&mut work);
    for unread in assembly.read_roles(&mut work) {
        // Blocks that cannot be read are found by the walk.
        if matches!(unread.error, ObjectError::Block { .. }) {
            continue;
        }
        let place = Place { device: Some(unread.what), ..Place::default() };
        let message =
            format!("what it is for (its class, or the list of such devices) cannot be read: {}", unread.error);
        sink.push(Finding::new(Kind::ConfigIncomplete, place, message));
    }
    if let Ok(mut mos) = Mos::open(BlockReader::new(&assembly.tree), &root, &mut work) {
        // Damage to these ZAPs is found by the walk.
        prepared.features = mos.features(&mut work).unwrap_or_default();
        prepared.allocated_bytes = mos.allocated_bytes(&assembly.tree, &mut work);
    }
    let unknown = features::unreadable(assembly, &prepared.features);
    if unknown.is_empty() {
        Ok(prepared)
    } else {
        Err(AssemblyError::UnsupportedFeatures { name: assembly.name.clone(), features: unknown })
    }
}

/// Reads which txgs each device is missing. Without a DTL that can be read a device is held to everything.
fn load_dtls(assembly: &mut Assembly, root: &Blkptr, sink: &Sink, work: &mut Work) {
    let Ok(mut mos) = Mos::open(BlockReader::new(&assembly.tree), root, work) else { return };
    let tree = &assembly.tree;
    let mut ranges = |node: usize| {
        let node = tree.nodes.get(node)?;
        match mos.txg_ranges(node.dtl_object?, work) {
            Ok(ranges) => Some(ranges),
            Err(error) => {
                let place = Place { device: Some(node.name()), ..Place::default() };
                let message = format!("what it is missing cannot be read: {error}; it is held to everything");
                sink.push(Finding::new(Kind::ConfigIncomplete, place, message));
                None
            }
        }
    };
    let leaves: Vec<_> = tree.leaves.iter().map(|leaf| ranges(leaf.node)).collect();
    let spares: Vec<_> = tree.spares.iter().map(|spare| ranges(spare.node)).collect();
    for (leaf, ranges) in assembly.tree.leaves.iter_mut().zip(leaves) {
        leaf.missing_txgs = ranges.unwrap_or_default();
    }
    for (spare, ranges) in assembly.tree.spares.iter_mut().zip(spares) {
        spare.missing_txgs = ranges.unwrap_or_default();
    }
}

/// The newest state is out of reach: one finding instead of what follows from it.
fn report_root(contents: &mut SinkContents, error: &MosError, assembly: &Assembly) {
    let is_root = |finding: &Finding| {
        finding.place.objset == Some(0) && finding.place.level == Some(crate::finding::LEVEL_OBJSET)
    };
    let message = format!("txg {}: {error}", assembly.chosen.uberblock.txg);
    match contents.findings.iter_mut().find(|finding| is_root(finding) && finding.severity == Severity::Damaged) {
        Some(finding) => {
            finding.kind = Kind::RootLost;
            finding.message = format!("{message}; {}", finding.message);
        }
        None => {
            let place = Place { objset: Some(0), object: Some(1), ..Place::default() };
            contents.findings.push(Finding::new(Kind::RootLost, place, message));
        }
    }
}
