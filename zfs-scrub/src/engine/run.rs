//! One scrub from beginning to end.

use super::checkpoint;
use super::conclude::{Conclusion, conclude, gather_not_checked};
use super::counters::Counters;
use super::judge::Shared;
use super::margin::{self, AtRisk};
use super::state::State;
use crate::finding::{Finding, Kind, Place, Severity, Sink, SinkContents};
use crate::options::{Options, Progress};
use crate::outcome::{Outcome, Totals};
use crate::passes::{exchange, labels, missing_logs};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use zfs_format::block::{BlockReader, Work};
use zfs_format::object::ObjectError;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::features;
use zfs_format::pool::{Assembly, AssemblyError, Mos, MosError, UnknownMapping, load_removed};

/// Walks the whole pool once, verifies every copy of every block, and answers with what it found.
///
/// # Errors
/// [`AssemblyError::UnsupportedFeatures`] when the pool uses a feature without which it cannot be read. Damage is
/// never an error.
pub fn scrub(assembly: &mut Assembly, options: &Options, progress: &Progress) -> Result<Outcome, AssemblyError> {
    let started = Instant::now();
    let sink = Sink::new(options.findings_max);
    let prepared = prepare(assembly, &sink)?;
    progress.raise_known(prepared.allocated_bytes);
    labels::check(assembly, &sink);
    let counters = Counters::new(&assembly.tree);
    let reader = assembly.blocks();
    let at_risk = options.at_risk.then(|| AtRisk::new(options.findings_max));
    let shared = Shared { reader, options, progress, counters: &counters, sink: &sink, at_risk: at_risk.as_ref() };
    let newest = State { root: assembly.chosen.uberblock.rootbp, txg: assembly.chosen.uberblock.txg };
    let mut walked = newest.walk(shared, None);
    let mut contents = sink.close();
    newest.name(&mut contents.findings, shared, &walked.sharing, None, &assembly.name);
    // The memory of the newest state's tables is given back before those of the checkpoint are read.
    drop(walked.sharing);
    if let Some((uberblock, spared)) = walked.checkpoint.take() {
        checkpoint::scrub(&uberblock, &spared, shared, &assembly.name, &mut contents);
    }
    if let Some(error) = &prepared.mos_error {
        report_root(&mut contents, error, assembly);
    }
    let mut not_checked = walked.not_checked;
    if !progress.is_cancelled() {
        contents.findings.extend(exchange::check(assembly, &contents.findings));
    }
    let at_risk = at_risk.map(|at_risk| {
        let (mut findings, blocks, is_cut) = at_risk.into_findings();
        newest.name_places(&mut findings, reader, &assembly.name);
        (margin::files(&findings, &blocks), is_cut)
    });
    contents.findings.extend(missing_logs::check(assembly));
    gather_not_checked(&counters, assembly, options, progress, &mut not_checked);
    let totals = Totals {
        copies_verified: counters.copies_verified.load(Relaxed),
        parity_verified: counters.parity_verified.load(Relaxed),
        decoded_blocks: counters.decoded_blocks.load(Relaxed),
        bytes_read: counters.bytes_read.load(Relaxed),
        ..walked.totals
    };
    Ok(conclude(Conclusion {
        assembly,
        options,
        counters: &counters,
        contents,
        not_checked,
        totals,
        features: prepared.features,
        at_risk,
        cancelled: progress.is_cancelled(),
        duration: started.elapsed(),
    }))
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
    let is_unknown =
        |(guid, read_only, count): &&(String, bool, u64)| !*read_only && *count > 0 && features::lookup(guid).is_none();
    let unknown: Vec<String> = prepared.features.iter().filter(is_unknown).map(|feature| feature.0.clone()).collect();
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
