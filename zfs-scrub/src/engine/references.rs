//! Finds the other pointers to bad blocks that several share: each is a file, or a place in one, that is hurt too.
//!
//! The walk looks at a shared block once, through the first pointer, and does not yet know then that it is bad. So this
//! goes over all metadata again, and only when a shared block was found bad.

use super::counters::Counters;
use super::judge::{Shared, place};
use super::patience::Patience;
use super::queue::Queue;
use super::sharing::Sharing;
use super::spared::SparedSpace;
use super::walk::{Feed, Walk};
use crate::finding::{Finding, Kind, Place, Sink};
use crate::options::Progress;
use std::collections::BTreeMap;
use std::fmt::Write;
use zfs_format::Txg;
use zfs_format::ondisk::blkptr::{Blkptr, Dva};

/// References kept of one block.
const REFERENCES_MAX: usize = 1000;
/// References kept in all.
const REFERENCES_IN_ALL_MAX: usize = 50_000;

/// What makes two pointers lead to one block.
type Identity = (Option<Dva>, Txg, [u64; 4]);

fn identity(bp: &Blkptr) -> Identity {
    (bp.dva(0).map(|dva| Dva { asize_bytes: 0, ..dva }), bp.physical_birth_txg(), bp.checksum())
}

/// The pointers that are looked for, and those found: a finding each, about the same block at another place.
#[derive(Debug)]
pub(super) struct Search<'p> {
    wanted: BTreeMap<Identity, Found>,
    left: usize,
    /// The progress of the search's own walk, which nobody watches.
    own: &'p Progress,
    run: &'p Progress,
    patience: Patience,
}

#[derive(Debug, Default)]
struct Found {
    findings: Vec<Finding>,
    dropped: u64,
}

impl Feed for Search<'_> {
    fn flush(&mut self, queue: &mut Queue, _is_last: bool) {
        for queued in queue.take().iter() {
            let Some(found) = self.wanted.get_mut(&identity(&queued.bp)) else { continue };
            if found.findings.len() < REFERENCES_MAX && self.left > 0 {
                self.left -= 1;
                let place = place(&queued.bp, queued.bookmark);
                let finding = Finding::new(Kind::BlockChecksum, place, "");
                found.findings.push(Finding { pointer: Some(queued.bp), ..finding });
            } else {
                found.dropped += 1;
            }
        }
        if self.run.is_cancelled() || self.patience.is_over() {
            self.own.cancel();
        }
    }
}

/// Looks for all other pointers to the shared blocks that findings are about, and tells the findings how many there are.
/// The answer has, by the index of the finding, one finding each with nothing but its place and pointer. `datasets`
/// walks all that may hold one.
pub(super) fn find<'a>(
    findings: &mut [Finding],
    sharing: &Sharing,
    shared: Shared<'a>,
    spared: Option<&'a SparedSpace>,
    datasets: impl FnOnce(&mut Walk<'_, Search<'_>>),
) -> BTreeMap<usize, Vec<Finding>> {
    let is_shared = |bp: &Blkptr| sharing.is_shared(bp);
    let pointers = findings.iter().filter_map(|finding| finding.pointer).filter(is_shared);
    let wanted: BTreeMap<Identity, Found> = pointers.map(|bp| (identity(&bp), Found::default())).collect();
    if wanted.is_empty() || shared.progress.is_cancelled() {
        return BTreeMap::new();
    }
    // This walk verifies what was verified before: what it counts and finds is known.
    let (sink, progress) = (Sink::new(1), Progress::default());
    let counters = Counters::new(shared.reader.tree());
    let own = Shared { sink: &sink, progress: &progress, counters: &counters, ..shared };
    let search =
        Search { wanted, left: REFERENCES_IN_ALL_MAX, own: &progress, run: shared.progress, patience: shared.patience };
    let queue = Queue::new(shared.options.memory_bytes / 16);
    let mut walk = Walk::new(own, queue, search, Sharing::default(), spared);
    datasets(&mut walk);
    walk.feed.flush(&mut walk.queue, true);
    tell(findings, &walk.feed.wanted)
}

fn tell(findings: &mut [Finding], wanted: &BTreeMap<Identity, Found>) -> BTreeMap<usize, Vec<Finding>> {
    let mut references = BTreeMap::new();
    for (index, finding) in findings.iter_mut().enumerate() {
        let Some(found) = finding.pointer.and_then(|bp| wanted.get(&identity(&bp))) else { continue };
        let key = |place: &Place| (place.objset, place.object, place.level, place.block);
        let own = key(&finding.place);
        let others: Vec<Finding> = found.findings.iter().filter(|other| key(&other.place) != own).cloned().collect();
        let count = others.len() as u64 + found.dropped;
        if count > 0 {
            let pointers =
                if count == 1 { "1 more pointer leads".to_owned() } else { format!("{count} more pointers lead") };
            let _ = write!(finding.message, "; {pointers} to the same block (dedup or block cloning)");
        }
        if found.dropped > 0 {
            finding.message.push_str(", not all of them are listed");
        }
        references.insert(index, others);
    }
    references
}
