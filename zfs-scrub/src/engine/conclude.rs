//! The end of a run: what was not checked, the verdict, the exit status.

use super::counters::Counters;
use super::files::files;
use super::patterns;
use super::walk::LeftOut;
use crate::facts;
use crate::finding::{Finding, Kind, Place, Severity, SinkContents};
use crate::options::{Options, Progress, Stop};
use crate::outcome::{
    FileAtRisk, IntentLogFacts, NotChecked, NotCheckedReason, Outcome, RedundancyFacts, Summary, Totals, Verdict, exit,
};
use crate::passes::activity::Change;
use crate::remembered::remembered;
use crate::scope::{Share, bad_at_most};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use zfs_format::media::{MediaError, ReadAt, RescueMap};
use zfs_format::pool::{Assembly, ConfigState};
use zfs_format::vdev::VdevTree;

/// What the counters know of blocks that were not checked.
pub(super) fn gather_not_checked(
    counters: &Counters,
    assembly: &Assembly,
    options: &Options,
    progress: &Progress,
    not_checked: &mut Vec<NotChecked>,
) {
    use NotCheckedReason::{BadParent, Cancelled, MissingMember, NoKey, Unread, Unsupported};
    let mut add = |reason, what: String, blocks, bytes| not_checked.push(NotChecked { reason, what, blocks, bytes });
    for (leaf, counted) in assembly.tree.leaves.iter().zip(&counters.leaves) {
        let (copies, bytes) = (counted.missing_copies.load(Relaxed), counted.missing_bytes.load(Relaxed));
        if copies > 0 {
            let is_gone = leaf.medium.as_ref().is_some_and(|device| device.gone().is_some());
            let why = if is_gone { ", which disappeared during the run" } else { "" };
            add(MissingMember, format!("copies on {}{why}", leaf.name), Some(copies), Some(bytes));
        }
        let (copies, bytes) = (counted.unread_copies.load(Relaxed), counted.unread_bytes.load(Relaxed));
        if copies > 0 {
            let map = leaf.medium.as_ref().and_then(|device| device.map()).map_or("its map", RescueMap::name);
            let what = format!("copies in ranges of {} that were never read ({map})", leaf.name);
            add(Unread, what, Some(copies), Some(bytes));
        }
    }
    for (leaf, counted) in assembly.tree.leaves.iter().zip(&counters.leaves) {
        let blocks = counted.unlocks.load(Relaxed);
        if blocks > 0 {
            add(MissingMember, format!("blocks that {} alone may bring back", leaf.name), Some(blocks), None);
        }
    }
    for (vdev, counted) in counters.tops.iter().enumerate() {
        let blocks = counted.unlocks.load(Relaxed);
        if blocks > 0 {
            let what = format!("blocks on top-level vdev {vdev}, of which nothing is known");
            add(MissingMember, what, Some(blocks), None);
        }
    }
    let hidden = counters.hidden_blocks.load(Relaxed);
    if hidden > 0 {
        add(BadParent, "blocks below lost indirect blocks".into(), Some(hidden), None);
    }
    let objects = counters.hidden_objects.load(Relaxed);
    if objects > 0 {
        add(BadParent, format!("{objects} objects, with all their blocks, whose descriptions are lost"), None, None);
    }
    let (blocks, bytes) = (counters.unsupported_copies.load(Relaxed), counters.unsupported_bytes.load(Relaxed));
    if blocks > 0 {
        let what = "copies on vdevs, or with checksums, that this version cannot read";
        add(Unsupported, what.into(), Some(blocks), Some(bytes));
    }
    let (blocks, bytes) = (counters.unsalted_copies.load(Relaxed), counters.unsalted_bytes.load(Relaxed));
    if blocks > 0 {
        let what = "copies whose checksum needs the pool's checksum salt, which cannot be read";
        add(Unsupported, what.into(), Some(blocks), Some(bytes));
    }
    let encrypted = counters.encrypted_blocks.load(Relaxed);
    if encrypted > 0 {
        let what = "content of encrypted blocks (their checksums were verified)";
        add(NoKey, what.into(), Some(encrypted), None);
    }
    for member in &assembly.members {
        for label in &member.labels.labels {
            if let ConfigState::Unreadable(MediaError::Unread { map, .. }) = &label.config {
                let device = facts::leaf_name(&assembly.tree, member);
                add(Unread, format!("label {} of {device}, which was never read ({map})", label.index), None, None);
            }
        }
    }
    for rival in assembly.duplicates.iter().filter(|duplicate| duplicate.is_rival()) {
        let what = format!("{}, which claims to be the same member as {}", rival.path, rival.used);
        add(Unsupported, what, None, None);
    }
    if !options.decode {
        add(NotCheckedReason::Option, "whether blocks decode (--no-decode)".into(), None, None);
    }
    if let Some(stop) = progress.stopped() {
        let reading = progress.read();
        let left = reading.known_bytes - reading.done_bytes;
        let when = match stop {
            Stop::Cancelled => "the run was cancelled",
            Stop::TimeOver => "its time was over (--max-time)",
            Stop::FirstDamage => "the first damage was found (--fail-fast)",
        };
        add(Cancelled, format!("what was left when {when}"), None, Some(left));
    }
}

/// What was not asked for.
pub(super) fn gather_left_out(
    left_out: &LeftOut,
    counters: &Counters,
    options: &Options,
    progress: &Progress,
    not_checked: &mut Vec<NotChecked>,
) {
    let scope = &options.scope;
    let mut add = |what: String, counted: Option<(u64, u64)>| {
        let (blocks, bytes) = counted.unzip();
        not_checked.push(NotChecked { reason: NotCheckedReason::Option, what, blocks, bytes });
    };
    if !scope.datasets.is_empty() || !scope.paths.is_empty() {
        let names: Vec<&str> = scope.datasets.iter().chain(&scope.paths).map(String::as_str).collect();
        add(format!("datasets and files other than {} (--dataset, --path)", names.join(", ")), None);
    }
    if !scope.paths.is_empty() {
        // They were read, from their first good copy.
        add("copies of the metadata that leads to what --path names".into(), None);
    }
    if let Some(txg) = scope.since_txg {
        add(format!("what was written in txg {txg} or before (--since-txg)"), None);
    }
    if scope.metadata_only {
        add("data of files and volumes (--metadata-only)".into(), Some(left_out.data));
    }
    let Some(share) = scope.share else { return };
    let mut what = format!("leaf blocks outside of the {share}");
    let (left, looked_at) = (left_out.share.0, counters.leaf_blocks.load(Relaxed));
    if matches!(share, Share::Sample { .. }) && progress.stopped().is_none() {
        let bad = counters.bad_leaf_blocks.load(Relaxed);
        let total = left.saturating_add(looked_at);
        let most = bad_at_most(total, looked_at, bad);
        let found = if bad == 0 { "none bad".to_owned() } else { format!("{bad} bad") };
        what.push_str(&format!(
            "; with {found} among {looked_at} looked at, at most {most} of all {total} are bad, with 95 % confidence"
        ));
    }
    add(what, Some(left_out.share));
}

/// Names that the time was over for; the blocks themselves were checked.
pub(super) fn gather_unnamed(findings: u64, not_checked: &mut Vec<NotChecked>) {
    if findings > 0 {
        let places = if findings == 1 { "1 finding".to_owned() } else { format!("{findings} findings") };
        let what = format!("all names of what {places} are about, when the time was over (--max-time)");
        not_checked.push(NotChecked { reason: NotCheckedReason::Option, what, blocks: None, bytes: None });
    }
}

/// A note for each device that is out of date, as the pool knows.
fn tell_stale(counters: &Counters, tree: &VdevTree, contents: &mut SinkContents) {
    for (leaf, counted) in tree.leaves.iter().zip(&counters.leaves) {
        let stale = counted.stale_copies.load(Relaxed);
        if stale > 0 {
            let place = Place { device: Some(leaf.name.clone()), ..Place::default() };
            let message = format!("{stale} copies are out of date, all within the txgs its DTL lists");
            contents.findings.push(Finding::new(Kind::MemberStale, place, message));
        }
    }
}

/// Fewer bad copies than these are told one by one only.
const BAD_COPIES_MIN: u64 = 10;
/// One bad copy in so many makes a device bad as a whole.
const BAD_SHARE: u64 = 10;

/// A finding for each device of which much is bad, though the pool does not record that it missed anything there.
fn tell_bad(counters: &Counters, tree: &VdevTree, contents: &mut SinkContents) {
    for (leaf, counted) in tree.leaves.iter().zip(&counters.leaves) {
        let bad = counted.checksum_errors.load(Relaxed).saturating_add(counted.read_errors.load(Relaxed));
        let total = counted.parts.load(Relaxed).saturating_add(counted.read_errors.load(Relaxed));
        let judged = total.saturating_sub(counted.stale_copies.load(Relaxed));
        if bad < BAD_COPIES_MIN || bad.saturating_mul(BAD_SHARE) < judged {
            continue;
        }
        let percent = bad.saturating_mul(100) / judged.max(1);
        let recorded = if leaf.missing_txgs.is_empty() {
            format!("it records no missing range, yet {percent} % of its copies are bad")
        } else {
            format!("{percent} % of its copies are bad outside the txgs it records as missing")
        };
        let place = Place { device: Some(leaf.name.clone()), ..Place::default() };
        contents.findings.push(Finding::new(Kind::MemberBad, place, format!("{recorded} ({bad} of {judged})")));
    }
}

/// All that the outcome is made of.
pub(super) struct Conclusion<'a> {
    pub(super) assembly: &'a Assembly,
    pub(super) options: &'a Options,
    pub(super) counters: &'a Counters,
    pub(super) contents: SinkContents,
    pub(super) not_checked: Vec<NotChecked>,
    pub(super) totals: Totals,
    pub(super) features: Vec<(String, bool, u64)>,
    /// Intent logs that wait for replay.
    pub(super) intent_logs: Vec<IntentLogFacts>,
    /// Files at risk, and whether there are more, when that was asked for.
    pub(super) at_risk: Option<(Vec<FileAtRisk>, bool)>,
    /// The pool was written meanwhile.
    pub(super) changed: Option<Change>,
    pub(super) cancelled: bool,
    pub(super) duration: Duration,
}

pub(super) fn conclude(conclusion: Conclusion<'_>) -> Outcome {
    let Conclusion {
        assembly,
        options,
        counters,
        mut contents,
        mut not_checked,
        totals,
        features,
        intent_logs,
        at_risk,
        changed,
        cancelled,
        duration,
    } = conclusion;
    tell_stale(counters, &assembly.tree, &mut contents);
    tell_bad(counters, &assembly.tree, &mut contents);
    let mut degraded = counters.degraded_blocks.load(Relaxed);
    let mut damaged = counters.lost_blocks.load(Relaxed);
    if let Some(change) = changed {
        not_checked.extend(doubt(change, &mut contents, degraded.saturating_add(damaged)));
        (degraded, damaged) = (0, 0);
    }
    let is_certain = changed.is_none();
    contents.sort();
    not_checked.sort_by(|a, b| (a.reason, &a.what).cmp(&(b.reason, &b.what)));
    let files = files(&contents.findings);
    let is_damaged = damaged > 0
        || (is_certain && contents.dropped_damaged > 0)
        || contents.findings.iter().any(|finding| finding.severity == Severity::Damaged);
    let is_degraded = degraded > 0 || contents.findings.iter().any(|finding| finding.severity == Severity::Degraded);
    let is_missing = facts::has_missing_members(&assembly.tree);
    let root_lost = contents.findings.iter().any(|finding| finding.kind == Kind::RootLost);
    // What a lost parent hides is part of that loss, and what needs a key was verified by its checksum.
    let is_incomplete = root_lost
        || options.scope.is_partial()
        || is_missing
        || not_checked.iter().any(|left| {
            !matches!(left.reason, NotCheckedReason::BadParent | NotCheckedReason::NoKey | NotCheckedReason::Option)
        });
    let mut exit_status = 0;
    let mut set = |bit, when: bool| exit_status |= if when { bit } else { 0 };
    set(exit::DAMAGED, is_certain && is_damaged);
    set(exit::DEGRADED, is_certain && !is_damaged && (is_degraded || is_missing));
    set(exit::INCOMPLETE, is_incomplete);
    set(exit::CANCELLED, cancelled);
    let verdict = match (is_damaged, is_incomplete, is_degraded || is_missing) {
        _ if !is_certain => Verdict::Incomplete,
        (true, ..) => Verdict::Damaged,
        (false, _, true) => Verdict::Degraded,
        (false, true, false) => Verdict::Incomplete,
        (false, false, false) if cancelled => Verdict::Incomplete,
        (false, false, false) => Verdict::Clean,
    };
    let count = |severity| files.iter().filter(|file| file.severity == severity).count() as u64;
    let summary = Summary {
        verdict,
        exit_status,
        degraded_blocks: degraded,
        lost_blocks: damaged,
        degraded_files: count(Severity::Degraded),
        damaged_files: count(Severity::Damaged),
        duration,
        bytes_per_second: per_second(totals.bytes_read, duration),
    };
    let counted = if is_certain { counters_of(counters) } else { undoubted(counters_of(counters)) };
    let mut vdevs = facts::vdevs(assembly, &counted);
    let (mut spares, mut caches) = (facts::spares(assembly), facts::caches(assembly));
    for devices in [&mut vdevs, &mut spares, &mut caches] {
        facts::identify(devices, assembly, &options.host);
    }
    Outcome {
        states: Vec::new(),
        pool: facts::pool(assembly, &features),
        vdevs,
        spares,
        caches,
        totals,
        patterns: patterns::describe(&contents.findings),
        findings_dropped: contents.dropped_damaged + contents.dropped_degraded,
        findings: contents.findings,
        not_checked,
        intent_logs,
        files,
        at_risk_is_cut: at_risk.as_ref().is_some_and(|(_, is_cut)| *is_cut),
        at_risk: at_risk.map(|(files, _)| files),
        remembered: remembered(assembly),
        decoded: options.decode,
        is_partial: options.scope.is_partial(),
        summary,
    }
}

/// When the pool was written meanwhile, what was found of its content is told and not claimed. Answers with what
/// therefore was not checked.
fn doubt(change: Change, contents: &mut SinkContents, bad_blocks: u64) -> Vec<NotChecked> {
    for finding in &mut contents.findings {
        // Devices that are not there, or not whole, are so whoever writes to them.
        let is_certain = matches!(
            finding.kind,
            Kind::MemberMissing | Kind::MemberGone | Kind::MemberUnreadable | Kind::DeviceTooShort
        );
        if finding.severity > Severity::Note && !is_certain {
            let message = if finding.message.is_empty() { finding.kind.entry().title } else { &finding.message };
            finding.message = format!("seen while the pool was being written: {message}");
            finding.severity = Severity::Note;
        }
    }
    let Change { from, to } = change;
    let add = |what, blocks| NotChecked { reason: NotCheckedReason::Changed, what, blocks, bytes: None };
    let mut left = vec![add(format!("the state of txg {to}: that of txg {from} was, while the pool went on"), None)];
    if bad_blocks > 0 {
        left.push(add("whether blocks that seemed bad are, or were freed and written anew".into(), Some(bad_blocks)));
    }
    left
}

/// Counts without bad copies.
fn undoubted(counted: facts::Counted) -> facts::Counted {
    let leaf = |leaf: facts::LeafCounted| facts::LeafCounted { checksum_errors: 0, ..leaf };
    facts::Counted {
        leaves: counted.leaves.into_iter().map(leaf).collect(),
        tops: counted.tops.into_iter().map(|(read, _)| (read, 0)).collect(),
        redundancy: Vec::new(),
        unlocks: counted.unlocks,
    }
}

fn per_second(bytes: u64, duration: Duration) -> u64 {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1);
    bytes.saturating_mul(1000) / millis
}

/// Plain numbers for the report.
fn counters_of(counters: &Counters) -> facts::Counted {
    facts::Counted {
        leaves: counters
            .leaves
            .iter()
            .map(|leaf| facts::LeafCounted {
                read_errors: leaf.read_errors.load(Relaxed),
                checksum_errors: leaf.checksum_errors.load(Relaxed),
                bytes_read: leaf.bytes_read.load(Relaxed),
                stale_copies: leaf.stale_copies.load(Relaxed),
                unlocks: leaf.unlocks.load(Relaxed),
            })
            .collect(),
        tops: counters
            .tops
            .iter()
            .map(|top| (top.read_errors.load(Relaxed), top.checksum_errors.load(Relaxed)))
            .collect(),
        unlocks: counters.tops.iter().map(|top| top.unlocks.load(Relaxed)).collect(),
        redundancy: counters
            .tops
            .iter()
            .map(|top| RedundancyFacts {
                failures_survived: 0,
                blocks: top.blocks.load(Relaxed),
                full: top.full.load(Relaxed),
                one_failure_from_loss: top.one_failure.load(Relaxed),
                lost: top.lost.load(Relaxed),
            })
            .collect(),
    }
}
