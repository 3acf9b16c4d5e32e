//! The states that the uberblock rings hold.
//!
//! Checks: whether an older state than the newest was chosen, whether two different states have the same txg, and whether
//! the chosen uberblock's txg fits all else that the devices hold. It reads nothing.

use crate::finding::{Finding, Kind, Place, Sink};
use zfs_format::Txg;
use zfs_format::pool::Assembly;

/// Txgs pass without a new root when a pool is idle and its configuration is written again; not so many.
const AHEAD_MIN: u64 = 100;

/// Findings about the rings of all devices.
pub(crate) fn check(assembly: &Assembly, sink: &Sink) {
    let states = assembly.states();
    let chosen = &assembly.chosen.uberblock;
    let push = |kind, message: String| sink.push(Finding::new(kind, Place::default(), message));
    if let Some(newest) = states.first().filter(|newest| newest.chosen.uberblock.txg > chosen.txg) {
        let newest = newest.chosen.uberblock.txg;
        push(
            Kind::StateOlder,
            format!("this is the state of txg {}; the newest one is that of txg {newest}", chosen.txg),
        );
    }
    let twins = states.iter().filter(|state| state.has_twin && state.chosen.uberblock.txg == chosen.txg);
    let twins: Vec<String> = twins
        .map(|state| format!("one in {} slots, written at second {}", state.slots, state.chosen.uberblock.timestamp_s))
        .collect();
    if twins.len() > 1 {
        let message = format!("txg {} has {} different roots: {}", chosen.txg, twins.len(), twins.join("; "));
        push(Kind::StateTwins, message);
    }
    if let Some(message) = ahead(assembly, chosen.txg, states.iter().map(|state| state.chosen.uberblock.txg)) {
        push(Kind::UberblockAhead, message);
    }
}

/// Says when the chosen txg lies far ahead of its own root, of all labels, and of all other uberblocks.
fn ahead(assembly: &Assembly, txg: Txg, all: impl Iterator<Item = Txg>) -> Option<String> {
    let root = assembly.chosen.uberblock.rootbp.birth_txg();
    let labels = assembly.members.iter().flat_map(|member| &member.labels.labels);
    let label = labels.filter_map(|label| label.config_txg()).max()?;
    let other = all.filter(|&other| other < txg).max()?;
    let is_ahead = |of: Txg| txg.0.saturating_sub(of.0) >= AHEAD_MIN;
    (is_ahead(root) && is_ahead(label) && is_ahead(other)).then(|| {
        let by = txg.0.saturating_sub(root.0);
        format!(
            "its txg {txg} is {by} ahead of its own root block (txg {root}); the newest label is of txg {label}, the next \
             uberblock of txg {other}"
        )
    })
}
