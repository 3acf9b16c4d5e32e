//! The margin that remains: how many blocks have all their copies and parity, and how many are one failure from loss.

use super::Detail;
use super::page::{Page, columns, name, padded};
use super::units::{count, thousands};
use zfs_scrub::Outcome;
use zfs_scrub::outcome::RedundancyFacts;

/// Columns before the table.
const INDENT: usize = 8;
/// Files listed when not all are asked for.
const FILES_MAX: usize = 20;

/// Writes the table where something is less than full, or in detail; and the files at risk where they were asked for.
pub(super) fn write(page: &mut Page, outcome: &Outcome, detail: Detail) {
    let vdevs: Vec<(String, RedundancyFacts)> =
        outcome.vdevs.iter().filter_map(|vdev| Some((name(&vdev.name), vdev.redundancy?))).collect();
    // Where no vdev promises anything there is nothing to lose.
    let is_reduced = vdevs.iter().any(|(_, redundancy)| redundancy.full < redundancy.blocks)
        && vdevs.iter().any(|(_, redundancy)| redundancy.failures_survived > 0);
    if !vdevs.is_empty() && (is_reduced || detail == Detail::Full || outcome.at_risk.is_some()) {
        table(page, &vdevs);
    }
    if let Some(files) = &outcome.at_risk {
        page.blank();
        let more = if outcome.at_risk_is_cut { "more than " } else { "" };
        if files.is_empty() {
            page.line(0, "at risk: nothing is closer to loss than its vdevs promise");
            return;
        }
        let who = match files.len() as u64 {
            1 => "1 file or metadata object has".to_owned(),
            number => format!("{} files and metadata objects have", thousands(number)),
        };
        page.line(0, &format!("at risk: {more}{who} blocks that one more failure loses"));
        page.blank();
        let shown = if detail == Detail::Full { files.len() } else { files.len().min(FILES_MAX) };
        for file in files.iter().take(shown) {
            page.wrapped(INDENT, INDENT + 2, &format!("{}  {}", name(&file.path), count(file.blocks, "block")));
        }
        if shown < files.len() {
            page.line(INDENT, &format!("and {} more; -v lists all", thousands((files.len() - shown) as u64)));
        }
    }
}

fn table(page: &mut Page, vdevs: &[(String, RedundancyFacts)]) {
    page.blank();
    page.line(0, "redundancy:");
    page.blank();
    let names = vdevs.iter().map(|(name, _)| columns(name)).max().unwrap_or(0).max(10);
    page.line(
        INDENT,
        &format!("{}  {:>11} {:>11} {:>13} {:>9}", padded("NAME", names), "BLOCKS", "FULL", "ONE FROM LOSS", "LOST"),
    );
    for (vdev, redundancy) in vdevs {
        let RedundancyFacts { failures_survived, blocks, full, one_failure_from_loss, lost } = *redundancy;
        let promise = match failures_survived {
            0 => "  none promised".to_owned(),
            n => format!("  survives any {}", count(n, "failure")),
        };
        let [blocks, full, one, lost] = [blocks, full, one_failure_from_loss, lost].map(thousands);
        page.line(INDENT, &format!("{}  {blocks:>11} {full:>11} {one:>13} {lost:>9}{promise}", padded(vdev, names)));
    }
}
