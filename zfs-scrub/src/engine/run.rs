//! One scrub from beginning to end.

use super::conclude::{Conclusion, conclude, gather_not_checked};
use super::counters::{Counters, count_pointer};
use super::intent_log;
use super::judge::Shared;
use super::margin::{self, AtRisk};
use super::names::name_findings;
use super::queue::{Ledger, Queue, Queued};
use super::verify::{SharedBatch, Turns, worker};
use super::walk::{Feed, FoundDataset, Walk};
use crate::finding::{Finding, Kind, Place, Severity, Sink, SinkContents};
use crate::options::{Options, Progress};
use crate::outcome::{NotChecked, NotCheckedReason, Outcome, Totals};
use crate::passes::{exchange, labels, missing_logs};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;
use zfs_format::Txg;
use zfs_format::block::{BlockReader, Redundancy, Work};
use zfs_format::dataset::DatasetMap;
use zfs_format::object::ObjectError;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::features;
use zfs_format::pool::{Assembly, AssemblyError, Mos, MosError, UnknownMapping, load_removed};
use zfs_format::units::SECTOR_BYTES;
use zfs_format::vdev::LeafId;

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
    let walked = walk_pool(&assembly.chosen.uberblock.rootbp, assembly.chosen.uberblock.txg, shared);
    let mut contents = sink.close();
    if let Some(error) = &prepared.mos_error {
        report_root(&mut contents, error, assembly);
    }
    let mut not_checked = walked.not_checked;
    if !progress.is_cancelled() {
        contents.findings.extend(exchange::check(assembly, &contents.findings));
    }
    name(&mut contents.findings, assembly);
    let at_risk = at_risk.map(|at_risk| {
        let (mut findings, blocks, is_cut) = at_risk.into_findings();
        name(&mut findings, assembly);
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

/// What the walk brings home.
struct Walked {
    totals: Totals,
    not_checked: Vec<NotChecked>,
}

/// Hands full batches to all workers.
struct ToWorkers<'a> {
    shared: Shared<'a>,
    workers: Vec<SyncSender<Arc<SharedBatch>>>,
}

impl Feed for ToWorkers<'_> {
    fn flush(&mut self, queue: &mut Queue) {
        let batch = queue.seal(self.shared.reader.tree(), &mut ToCounters(self.shared));
        let batch = Arc::new(SharedBatch::new(batch));
        for worker in &self.workers {
            // A worker ends only when this side hangs up, so this cannot fail.
            let _ = worker.send(Arc::clone(&batch));
        }
    }
}

/// Counts what extents are assumed to hold.
struct ToCounters<'a>(Shared<'a>);

impl Ledger for ToCounters<'_> {
    fn block(&mut self, block: &Queued, assumed: &Redundancy) {
        self.0.counters.add_redundancy(assumed);
        self.0.note_margin(&block.bp, block.bookmark, assumed);
    }

    fn missing(&mut self, leaf: LeafId, bytes: u64) {
        self.0.counters.add_missing(leaf, 1, bytes);
    }
}

/// The walk on this thread, the workers on theirs.
fn walk_pool(root: &Blkptr, txg: Txg, shared: Shared<'_>) -> Walked {
    let turns = Turns::new(shared.options.memory_bytes);
    let turns = &turns;
    std::thread::scope(|scope| {
        let workers = (0..shared.options.threads.max(1))
            .map(|_| {
                let (sender, receiver) = sync_channel(0);
                scope.spawn(move || worker(shared, turns, &receiver));
                sender
            })
            .collect();
        // Three batches may live at once: one being filled, one waiting for a slow worker, one being verified. What
        // is left of the budget is for the workers' buffers.
        let queue = Queue::new(shared.options.memory_bytes / 6);
        let mut walk = Walk::new(shared, queue, ToWorkers { shared, workers });
        walk_roots(&mut walk, root, txg)
    })
}

fn walk_roots<F: Feed>(walk: &mut Walk<'_, F>, root: &Blkptr, txg: Txg) -> Walked {
    let mut work = Work::default();
    let mut not_checked = Vec::new();
    if let Ok(mut mos) = Mos::open(walk.shared.reader, root, &mut work) {
        count_pending_frees(walk, &mut mos, &mut work, &mut not_checked);
    }
    walk.tree(0, root, Txg(0));
    let mut datasets = std::mem::take(&mut walk.datasets);
    datasets.sort_by_key(|dataset| dataset.object);
    for FoundDataset { object, bp, prev_snap_txg, is_snapshot } in datasets {
        if walk.shared.progress.is_cancelled() {
            break;
        }
        // A head that did not change since its last snapshot shares the snapshot's root, yet its log is its own.
        let header = walk.tree(object, &bp, prev_snap_txg).or_else(|| walk.header(&bp));
        if let Some(header) = header.filter(|_| !is_snapshot) {
            intent_log::visit(walk, object, &header.zil_header, txg);
        }
    }
    if !walk.queue.is_empty() {
        walk.feed.flush(&mut walk.queue);
    }
    Walked { totals: walk.totals, not_checked }
}

/// Blocks that were freed but are still allocated. Their pointers carry no checksum: they count, and that is all.
fn count_pending_frees<F: Feed>(
    walk: &mut Walk<'_, F>,
    mos: &mut Mos<'_>,
    work: &mut Work,
    not_checked: &mut Vec<NotChecked>,
) {
    // No pool has more blocks than sectors; a device of unknown size counts as none.
    let tops = walk.shared.reader.tree().tops.iter().flatten();
    let sectors = tops.map(|top| top.asize_bytes / SECTOR_BYTES).fold(0, u64::saturating_add);
    for key in ["sync_bplist", "free_bpobj"] {
        let Some(&object) = mos.directory.get(key) else { continue };
        let totals = &mut walk.totals;
        let counted = mos.bpobj(object, sectors, work, &mut |bp| {
            if !bp.is_hole() {
                count_pointer(totals, bp);
            }
        });
        // What cannot be read is found by the walk of the MOS; what makes no sense is not.
        if let Err(error @ ObjectError::Format { .. }) = counted {
            let place = Place { objset: Some(0), object: Some(object), ..Place::default() };
            walk.lost(Finding::new(Kind::MosObjectInvalid, place, format!("{key}: {error}")));
        }
    }
    for (key, what) in [
        ("bptree_obj", "datasets waiting to be destroyed"),
        ("com.delphix:deleted_clones", "clones waiting to be destroyed"),
    ] {
        let Some(&object) = mos.directory.get(key) else { continue };
        let entries = mos.pending_entries(object, work);
        if entries > 0 {
            not_checked.push(NotChecked {
                reason: NotCheckedReason::Unsupported,
                what: format!("{what} ({entries})"),
                blocks: None,
                bytes: None,
            });
        }
    }
    if mos.directory.contains_key("com.delphix:zpool_checkpoint") {
        not_checked.push(NotChecked {
            reason: NotCheckedReason::Unsupported,
            what: "blocks held only by the pool's checkpoint".into(),
            blocks: None,
            bytes: None,
        });
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

/// Names for what was found in datasets.
fn name(findings: &mut [Finding], assembly: &Assembly) {
    if !findings.iter().any(|finding| finding.place.objset.is_some_and(|objset| objset != 0)) {
        return;
    }
    let mut work = Work::default();
    let blocks = assembly.blocks();
    if let Ok(mut mos) = Mos::open(blocks, &assembly.chosen.uberblock.rootbp, &mut work) {
        let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
        name_findings(findings, blocks, &map, &mut work);
    }
    for finding in findings {
        let place = &mut finding.place;
        if place.objset.is_some_and(|objset| objset != 0) && place.dataset.is_none() {
            place.no_path_because = Some("its dataset has no name that can be read".into());
        }
    }
}
