//! The pool's checkpoint: an older state whose blocks are kept, with a MOS and datasets of its own.
//!
//! Only what the newest state does not hold is visited. `zdb -b` does not count these blocks, so they are in no total but
//! those of reading.

use super::judge::Shared;
use super::spared::SparedSpace;
use super::state::State;
use crate::finding::{Place, Sink, SinkContents};
use zfs_format::ondisk::uberblock::Uberblock;

/// Walks the checkpoint, and adds its findings to `contents`. Answers with the number of those whose names are not complete.
pub(super) fn scrub(
    uberblock: &Uberblock,
    spared: &SparedSpace,
    shared: Shared<'_>,
    pool: &str,
    contents: &mut SinkContents,
) -> u64 {
    let state = State { root: uberblock.rootbp, txg: uberblock.txg };
    let sink = Sink::new(shared.options.findings_max);
    let shared = Shared { sink: &sink, ..shared };
    let walked = state.walk(shared, Some(spared));
    let mut found = sink.close();
    let cut = state.name(&mut found.findings, shared, &walked.sharing, Some(spared), pool);
    let txg = uberblock.txg.0;
    for mut finding in found.findings {
        std::iter::once(&mut finding.place).chain(&mut finding.references).for_each(|place| mark(place, txg));
        contents.findings.push(finding);
    }
    contents.dropped_damaged += found.dropped_damaged;
    contents.dropped_degraded += found.dropped_degraded;
    cut
}

fn mark(place: &mut Place, txg: u64) {
    place.checkpoint_txg = Some(txg);
    for other in &mut place.also_in {
        *other = format!("checkpoint of txg {txg}, {other}");
    }
}
