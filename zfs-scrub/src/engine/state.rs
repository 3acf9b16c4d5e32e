//! The walk of one state of the pool, the newest or that of its checkpoint: everything reachable from one uberblock.

use super::batch::{Batch, Ledger};
use super::crew::Crew;
use super::intent_log;
use super::judge::Shared;
use super::names::name_findings;
use super::patience::Patience;
use super::pending;
use super::queue::{Queue, Queued};
use super::references;
use super::sharing::Sharing;
use super::spared::SparedSpace;
use super::verify::Buffers;
use super::walk::{Feed, FoundDataset, LeftOut, Root, Walk};
use super::wave::{self, Wave};
use crate::finding::{Finding, OBJSET_DESTROYED, Sink};
use crate::outcome::{IntentLogFacts, NotChecked, NotCheckedReason, Totals};
use std::sync::Arc;
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
    pub(super) left_out: LeftOut,
    /// Intent logs that wait for replay, still without names.
    pub(super) logs: Vec<IntentLogFacts>,
    pub(super) sharing: Sharing,
    /// The pool's checkpoint, and the space that only it holds.
    pub(super) checkpoint: Option<(Uberblock, SparedSpace)>,
}

/// Hands all work to the crew.
struct ToCrew<'c, 'a>(&'c Crew<'a>);

impl Feed for ToCrew<'_, '_> {
    fn flush(&mut self, queue: &mut Queue, is_last: bool) {
        let Self(crew) = self;
        crew.wait_for_room();
        // What a walk that was interrupted collects is no batch that another run would make.
        if crew.walk.progress.is_cancelled() {
            return;
        }
        let blocks = if is_last { queue.take_rest() } else { queue.take_pass() };
        crew.submit(Batch::seal(blocks, crew.walk.reader.tree(), &mut ToCounters(crew.walk)));
    }

    fn verify(&mut self, _: Shared<'_>, wave: &Arc<Wave>, buffers: &mut Buffers) {
        self.0.verify(wave, buffers);
    }
}

/// Closes the crew when the walk ends, whichever way.
struct Closing<'c, 'a>(&'c Crew<'a>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
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
        // What is found in leaf blocks is kept apart until the end: it is what a later run does not look for again.
        let sink = Sink::new(shared.options.findings_max);
        if let Some(journal) = shared.journal {
            journal.restore(&sink);
        }
        let leaf = Shared { sink: &sink, counters: shared.leaf_counters, ..shared };
        let crew = &Crew::new(shared, leaf);
        let walked = std::thread::scope(|scope| {
            for _ in 0..crew.threads() {
                scope.spawn(|| crew.run());
            }
            scope.spawn(|| crew.watch());
            let _closing = Closing(crew);
            // The queue, its batches and the tables of shared blocks get half of the budget, the other half is for
            // buffers.
            let queue = Queue::new((memory_bytes / 2).saturating_sub(sharing.held_bytes()));
            let mut walk = Walk::new(shared, queue, ToCrew(crew), sharing, spared);
            walk.txg = self.txg;
            for problem in &problems {
                pending::report_nonsense(&walk, "tables of shared blocks", problem);
            }
            let mut walked = Walked::default();
            // What no dataset holds belongs to the whole.
            if let Some(mos) = mos.as_mut().filter(|_| !shared.selection.is_partial()) {
                walked.checkpoint = self.pending(&mut walk, mos, sectors, &mut work);
            }
            self.visit(&mut walk);
            walked.not_checked.extend(shared.selection.visit(&mut walk));
            if !walk.queue.is_empty() {
                walk.feed.flush(&mut walk.queue, true);
            }
            walk.sharing.count_rest(&mut walk.totals);
            walked.not_checked.extend(not_counted(&walk.sharing));
            walked.left_out = walk.left_out;
            Walked { totals: walk.totals, logs: walk.logs, sharing: walk.sharing, ..walked }
        });
        // Also when all is done: who is interrupted while names are looked for has nothing left to verify.
        crew.save();
        let contents = sink.close();
        if let Some(journal) = shared.journal {
            journal.end_state(&contents);
        }
        shared.sink.absorb(contents);
        walked
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
        walk.trees([Root { objset: 0, bp: self.root, min: Txg(0) }]);
        let mut datasets = std::mem::take(&mut walk.datasets);
        datasets.sort_by_key(|dataset| dataset.object);
        // Several at a time, so that reading their roots takes one sweep.
        for together in walk.shared.selection.choose(&datasets).chunks(wave::BLOCKS_MAX) {
            let root = |&(FoundDataset { object, bp, .. }, min): &(FoundDataset, Txg)| Root { objset: object, bp, min };
            walk.trees(together.iter().map(root));
            for chosen in together {
                let (dataset, _) = chosen;
                if walk.shared.progress.is_cancelled() {
                    return;
                }
                if dataset.is_snapshot {
                    continue;
                }
                // A head that did not change since its last snapshot shares the snapshot's root, yet its log is its own.
                let header = walk.log_of(&root(chosen));
                if let Some(header) = header.filter(|header| walk.is_log_of(header)) {
                    intent_log::visit(walk, dataset.object, &header, self.txg);
                }
            }
        }
    }

    /// Names for what was found in datasets, those that share a bad block by dedup or cloning included. Answers with the
    /// number of findings whose names are not complete, since the time was over.
    pub(super) fn name(
        &self,
        findings: &mut [Finding],
        shared: Shared<'_>,
        sharing: &Sharing,
        spared: Option<&SparedSpace>,
        pool: &str,
    ) -> u64 {
        let references = references::find(findings, sharing, shared, spared, |walk| self.visit(walk));
        let mut cut = self.name_places(findings, shared.reader, pool, shared.patience);
        let owners: Vec<usize> =
            references.iter().flat_map(|(&owner, others)| others.iter().map(move |_| owner)).collect();
        let mut others: Vec<Finding> = references.into_values().flatten().collect();
        cut = cut.saturating_add(self.name_places(&mut others, shared.reader, pool, shared.patience));
        for (owner, other) in owners.into_iter().zip(others) {
            if let Some(finding) = findings.get_mut(owner) {
                finding.references.push(other.place);
            }
        }
        cut
    }

    /// Names for what was found in datasets. The answer is as that of [`State::name`].
    pub(super) fn name_places(
        &self,
        findings: &mut [Finding],
        blocks: BlockReader<'_>,
        pool: &str,
        patience: Patience,
    ) -> u64 {
        if !findings.iter().any(|finding| finding.place.objset.is_some_and(|objset| objset != 0)) {
            return 0;
        }
        let mut cut = 0;
        let mut work = Work::default();
        if let Ok(mut mos) = Mos::open(blocks, &self.root, &mut work) {
            let map = DatasetMap::load(&mut mos, pool, &mut work);
            cut = name_findings(findings, blocks, &map, patience, &mut work);
        }
        for finding in findings {
            let place = &mut finding.place;
            if place.objset == Some(OBJSET_DESTROYED) {
                place.no_path_because = Some("its dataset is being destroyed".into());
            } else if place.objset.is_some_and(|objset| objset != 0) && place.dataset.is_none() {
                place.no_path_because.get_or_insert_with(|| "its dataset has no name that can be read".into());
            }
        }
        cut
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
