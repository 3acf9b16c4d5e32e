//! The walk of one state of the pool, the newest or that of its checkpoint: everything reachable from one uberblock.

use super::intent_log;
use super::judge::Shared;
use super::names::name_findings;
use super::pending;
use super::queue::{Ledger, Queue, Queued};
use super::references;
use super::sharing::Sharing;
use super::spared::SparedSpace;
use super::verify::{SharedBatch, Turns, worker};
use super::walk::{Feed, FoundDataset, Walk};
use crate::finding::{Finding, OBJSET_DESTROYED};
use crate::outcome::{NotChecked, NotCheckedReason, Totals};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use zfs_format::Txg;
use zfs_format::block::{BlockReader, Redundancy, Work};
use zfs_format::dataset::DatasetMap;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::uberblock::Uberblock;
use zfs_format::pool::Mos;
use zfs_format::units::SECTOR_BYTES;
use zfs_format::vdev::{LeafId, VdevTree};

/// A state, by what its uberblock says.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) root: Blkptr,
    pub(super) txg: Txg,
}

/// What a walk brings home.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) totals: Totals,
    pub(super) not_checked: Vec<NotChecked>,
    pub(super) sharing: Sharing,
    /// The pool's checkpoint, and the space that only it holds.
    pub(super) checkpoint: Option<(Uberblock, SparedSpace)>,
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

impl State {
    /// Walks on this thread, with the workers on theirs. With `spared` only what lies in that space is visited, and an
    /// older checkpoint is none of its own.
    pub(super) fn walk(&self, shared: Shared<'_>, spared: Option<&SparedSpace>) -> Walked {
        let memory_bytes = shared.options.memory_bytes;
        let mut work = Work::default();
        let mut mos = Mos::open(shared.reader, &self.root, &mut work).ok();
        let sectors = sectors(shared.reader.tree());
        let sharing = mos.as_mut().map(|mos| Sharing::load(mos, memory_bytes / 4, sectors, &mut work));
        let mut sharing = sharing.unwrap_or_default();
        let problems = std::mem::take(&mut sharing.problems);
        let turns = &Turns::new(memory_bytes);
        std::thread::scope(|scope| {
            let workers = (0..shared.options.threads.max(1))
                .map(|_| {
                    let (sender, receiver) = sync_channel(0);
                    scope.spawn(move || worker(shared, turns, &receiver));
                    sender
                })
                .collect();
            // Three batches may live at once: one being filled, one waiting for a slow worker, one being verified. They
            // and the tables of shared blocks get half of the budget, the other half is for the workers' buffers.
            let queue = Queue::new((memory_bytes / 2).saturating_sub(sharing.held_bytes()) / 3);
            let mut walk = Walk::new(shared, queue, ToWorkers { shared, workers }, sharing, spared);
            for problem in &problems {
                pending::report_nonsense(&walk, "tables of shared blocks", problem);
            }
            let mut walked = Walked::default();
            if let Some(mos) = &mut mos {
                walked.checkpoint = self.pending(&mut walk, mos, sectors, &mut work);
            }
            self.visit(&mut walk);
            if !walk.queue.is_empty() {
                walk.feed.flush(&mut walk.queue);
            }
            walk.sharing.count_rest(&mut walk.totals);
            walked.not_checked.extend(not_counted(&walk.sharing));
            Walked { totals: walk.totals, sharing: walk.sharing, ..walked }
        })
    }

    /// What no dataset holds. Answers with the checkpoint of the newest state.
    fn pending<F: Feed>(
        &self,
        walk: &mut Walk<'_, F>,
        mos: &mut Mos<'_>,
        sectors: u64,
        work: &mut Work,
    ) -> Option<(Uberblock, SparedSpace)> {
        let checkpoint = if walk.is_newest() { mos.checkpoint(work) } else { Ok(None) };
        let uberblock = checkpoint.unwrap_or_else(|error| {
            pending::report_nonsense(walk, "checkpoint", &error);
            None
        });
        let budget_bytes = walk.shared.options.memory_bytes / 8;
        let mut checkpoint = uberblock.map(|uberblock| (uberblock, SparedSpace::load(mos, budget_bytes, work)));
        pending::visit(walk, mos, sectors, work, &mut |bp| {
            if let Some((uberblock, spared)) = &mut checkpoint
                && bp.birth_txg() <= uberblock.txg
            {
                spared.add_block(bp);
            }
        });
        if let Some((_, spared)) = &mut checkpoint {
            spared.seal();
        }
        checkpoint
    }

    /// The MOS and all datasets.
    fn visit<F: Feed>(&self, walk: &mut Walk<'_, F>) {
        walk.tree(0, &self.root, Txg(0));
        let mut datasets = std::mem::take(&mut walk.datasets);
        datasets.sort_by_key(|dataset| dataset.object);
        for FoundDataset { object, bp, prev_snap_txg, is_snapshot } in datasets {
            if walk.shared.progress.is_cancelled() {
                break;
            }
            // A head that did not change since its last snapshot shares the snapshot's root, yet its log is its own.
            let header = walk.tree(object, &bp, prev_snap_txg).or_else(|| walk.header(&bp));
            if let Some(header) = header.filter(|header| !is_snapshot && walk.is_log_of(header)) {
                intent_log::visit(walk, object, &header.zil_header, self.txg);
            }
        }
    }

    /// Names for what was found in datasets, those that share a bad block by dedup or cloning included.
    pub(super) fn name(
        &self,
        findings: &mut [Finding],
        shared: Shared<'_>,
        sharing: &Sharing,
        spared: Option<&SparedSpace>,
        pool: &str,
    ) {
        let references = references::find(findings, sharing, shared, spared, |walk| self.visit(walk));
        self.name_places(findings, shared.reader, pool);
        let owners: Vec<usize> =
            references.iter().flat_map(|(&owner, others)| others.iter().map(move |_| owner)).collect();
        let mut others: Vec<Finding> = references.into_values().flatten().collect();
        self.name_places(&mut others, shared.reader, pool);
        for (owner, other) in owners.into_iter().zip(others) {
            if let Some(finding) = findings.get_mut(owner) {
                finding.references.push(other.place);
            }
        }
    }

    /// Names for what was found in datasets.
    pub(super) fn name_places(&self, findings: &mut [Finding], blocks: BlockReader<'_>, pool: &str) {
        if !findings.iter().any(|finding| finding.place.objset.is_some_and(|objset| objset != 0)) {
            return;
        }
        let mut work = Work::default();
        if let Ok(mut mos) = Mos::open(blocks, &self.root, &mut work) {
            let map = DatasetMap::load(&mut mos, pool, &mut work);
            name_findings(findings, blocks, &map, &mut work);
        }
        for finding in findings {
            let place = &mut finding.place;
            if place.objset == Some(OBJSET_DESTROYED) {
                place.no_path_because = Some("its dataset is being destroyed".into());
            } else if place.objset.is_some_and(|objset| objset != 0) && place.dataset.is_none() {
                place.no_path_because = Some("its dataset has no name that can be read".into());
            }
        }
    }
}

/// No pool has more blocks than sectors; a device of unknown size counts as none.
fn sectors(tree: &VdevTree) -> u64 {
    tree.tops.iter().flatten().map(|top| top.asize_bytes / SECTOR_BYTES).fold(0, u64::saturating_add)
}

/// A dedup log that is larger than the memory for it.
fn not_counted(sharing: &Sharing) -> Option<NotChecked> {
    let entries = sharing.logged_dropped;
    (entries > 0).then(|| NotChecked {
        reason: NotCheckedReason::Option,
        what: format!("what {entries} entries of dedup logs save (more --memory counts it; all blocks were verified)"),
        blocks: None,
        bytes: None,
    })
}
