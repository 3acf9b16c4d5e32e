//! The text report, in the words and the shape of `zpool status -v`.

use super::config::Config;
use super::page::{GLUE, Page, Paint, name};
use super::units::{count, duration, size, thousands, timestamp};
use super::{Detail, Report, config, errors, redundancy, remembered, states};
use zfs_scrub::finding::{Finding, Kind, Severity};
use zfs_scrub::outcome::{NotCheckedReason, VdevFacts, Verdict, exit};
use zfs_scrub::{Outcome, outcome::PoolFacts};

/// The text report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Text {
    /// How much it says.
    pub(crate) detail: Detail,
    /// Paint states and the verdict.
    pub(crate) color: bool,
}

impl Report for Text {
    fn render(&self, outcome: &Outcome) -> Result<String, serde_json::Error> {
        let view = View::new(outcome, self.detail);
        let mut page = Page::new(self.color);
        if self.detail != Detail::Quiet {
            header(&mut page, &view);
            let Outcome { vdevs, spares, caches, .. } = outcome;
            let (pool, lost_blocks) = (&outcome.pool.name, Some(outcome.summary.lost_blocks));
            let ghosts = self.detail == Detail::Full;
            config::write(&mut page, &Config { pool, vdevs, spares, caches, lost_blocks, ghosts });
            patterns(&mut page, outcome);
            redundancy::write(&mut page, outcome, self.detail);
        }
        errors::write(&mut page, &view);
        if self.detail == Detail::Full {
            totals(&mut page, outcome);
        }
        if self.detail != Detail::Quiet && !outcome.remembered.is_empty() {
            remembered::write(&mut page, &outcome.remembered, self.detail);
        }
        page.blank();
        verdict(&mut page, &view);
        if self.detail != Detail::Quiet {
            next(&mut page, &view);
        }
        Ok(page.into_text())
    }
}

/// An outcome and what all parts of the report ask about it.
pub(super) struct View<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) detail: Detail,
    /// Set when nothing below the root could be checked.
    pub(super) root_lost: Option<&'a Finding>,
    /// Set when two devices carry each other's labels: what else is wrong follows from that.
    pub(super) exchanged: Option<&'a Finding>,
    /// Leaves that were not given.
    pub(super) missing: Vec<&'a VdevFacts>,
}

impl<'a> View<'a> {
    fn new(outcome: &'a Outcome, detail: Detail) -> Self {
        let first = |kind| outcome.findings.iter().find(|finding| finding.kind == kind);
        let (root_lost, exchanged) = (first(Kind::RootLost), first(Kind::ContentsExchanged));
        let mut missing = Vec::new();
        let mut rest: Vec<_> = outcome.vdevs.iter().rev().collect();
        while let Some(vdev) = rest.pop() {
            if config::is_missing(vdev) {
                missing.push(vdev);
            }
            rest.extend(vdev.children.iter().rev());
        }
        Self { outcome, detail, root_lost, exchanged, missing }
    }

    pub(super) fn has(&self, bit: u8) -> bool {
        self.outcome.summary.exit_status & bit != 0
    }

    /// Something that was asked for was not checked.
    pub(super) fn is_incomplete(&self) -> bool {
        let left_out = |reason| reason != NotCheckedReason::Option;
        self.has(exit::INCOMPLETE | exit::CANCELLED) || self.outcome.not_checked.iter().any(|n| left_out(n.reason))
    }

    /// The state of the pool as a word.
    pub(super) fn state(&self) -> (Paint, &'static str) {
        match self.outcome.summary.verdict {
            Verdict::Damaged => (Paint::Bad, "DAMAGED"),
            Verdict::Degraded => (Paint::Warn, "DEGRADED"),
            Verdict::Clean | Verdict::Incomplete => match config::root_state(&self.outcome.vdevs) {
                "ONLINE" => (Paint::Good, "ONLINE"),
                _ => (Paint::Warn, "DEGRADED"),
            },
        }
    }
}

fn header(page: &mut Page, view: &View<'_>) {
    let outcome = view.outcome;
    page.field("pool", &pool(&outcome.pool));
    match view.root_lost {
        Some(_) => page.painted_field("state", Paint::Bad, "the newest state cannot be read", ""),
        None => {
            let (paint, word) = view.state();
            page.painted_field("state", paint, word, "");
        }
    }
    let status = status(view);
    if !status.is_empty() {
        page.field("status", &status.join(" "));
    }
    if let Some(finding) = view.root_lost {
        errors::copies(page, 10, finding, Detail::Normal);
        if !view.outcome.states.is_empty() {
            page.blank();
            page.line(0, "txgs:");
            page.blank();
            states::table(page, &view.outcome.states, view.detail == Detail::Full);
        }
    } else {
        page.field("scan", &scan(view));
    }
}

/// `tank  (guid 123, exported by host lab, txg 4711 of 2026-11-30 14:27:35 UTC)`
pub(super) fn pool(pool: &PoolFacts) -> String {
    let host = pool.hostname.as_deref().map(name);
    let state = match (pool.state.as_str(), host) {
        ("exported", Some(host)) => format!("exported by host {host}"),
        ("active", Some(host)) => format!("not exported, last used by host {host}"),
        ("active", None) => "not exported".to_owned(),
        (state, Some(host)) => format!("{state}, host {host}"),
        (state, None) => state.to_owned(),
    };
    let date = if pool.timestamp == 0 { String::new() } else { format!(" of {}", timestamp(pool.timestamp)) };
    let txg = format!("txg {}{date}", pool.txg).replace(' ', &GLUE.to_string());
    format!("{}  (guid{GLUE}{}, {state}, {txg})", name(&pool.name), pool.guid)
}

/// What is wrong, in sentences.
fn status(view: &View<'_>) -> Vec<String> {
    let summary = &view.outcome.summary;
    let mut sentences = Vec::new();
    if let Some(finding) = view.exchanged {
        let (first, rest) = finding.message.split_at(finding.message.chars().next().map_or(0, char::len_utf8));
        sentences.push(format!("{}{rest}.", first.to_uppercase()));
    }
    if let Some(finding) = view.root_lost {
        let message = if finding.message.is_empty() { finding.kind.entry().title } else { finding.message.as_str() };
        sentences.push(message.trim_end_matches('.').to_owned() + ".");
    }
    if summary.lost_blocks > 0 && view.root_lost.is_none() {
        let verb = if summary.lost_blocks == 1 { "has" } else { "have" };
        let of = if summary.damaged_files > 0 {
            format!(" of {}", count(summary.damaged_files, "file"))
        } else {
            " of metadata".to_owned()
        };
        sentences.push(format!("{}{of} {verb} no good copy.", count(summary.lost_blocks, "block")));
    }
    if summary.degraded_blocks > 0 {
        let noun = if summary.lost_blocks > 0 { "more block" } else { "block" };
        let blocks = count(summary.degraded_blocks, noun);
        let (verb, them) = if summary.degraded_blocks == 1 { ("has", "it") } else { ("have", "them") };
        let repair =
            if view.exchanged.is_some() { String::new() } else { format!("; `zpool scrub` would repair {them}") };
        sentences.push(format!("{blocks} {verb} a bad copy, but can be read from a good one or rebuilt{repair}."));
    }
    if let Some(sentence) = missing_members(view) {
        sentences.push(sentence);
    }
    for finding in view.outcome.findings.iter().filter(|finding| finding.kind == Kind::MemberGone) {
        let device = finding.place.device.as_deref().map(name).unwrap_or_default();
        sentences.push(format!("Member {device}, or its end, disappeared while it was read."));
    }
    if let Some(finding) = changed(view) {
        let (first, rest) = finding.message.split_at(finding.message.chars().next().map_or(0, char::len_utf8));
        sentences.push(format!("{}{rest}: what was found bad may have been written anew.", first.to_uppercase()));
    }
    if view.has(exit::CANCELLED) {
        sentences.push("The check was cancelled before its end.".to_owned());
    }
    sentences
}

/// The finding that the pool was written during the check.
fn changed<'a>(view: &View<'a>) -> Option<&'a Finding> {
    view.outcome.findings.iter().find(|finding| finding.kind == Kind::PoolChanged)
}

fn missing_members(view: &View<'_>) -> Option<String> {
    let first = view.missing.first()?;
    let members = match view.missing.len() {
        1 => format!("Member {} was not given.", name(&first.name)),
        n => format!("{} were not given.", count(n as u64, "member")),
    };
    let without = if view.missing.len() == 1 { "it" } else { "them" };
    Some(if view.root_lost.is_some() || view.has(exit::CANCELLED) {
        members
    } else if view.has(exit::DAMAGED) {
        format!("{members} What needs {without} could not be checked.")
    } else if view.has(exit::DEGRADED) {
        format!("{members} Every block could be read without {without}.")
    } else {
        members
    })
}

/// What was looked at, and how.
fn scan(view: &View<'_>) -> String {
    let (totals, summary) = (&view.outcome.totals, &view.outcome.summary);
    let mut text = format!(
        "checked {} in {} in {}",
        size(totals.bytes_read),
        count(totals.blocks, "block"),
        duration(summary.duration)
    );
    if summary.bytes_per_second > 0 {
        text.push_str(&format!(" ({}/s)", size(summary.bytes_per_second)));
    }
    if view.is_incomplete() {
        text.push_str("; not everything, see below");
        return text;
    }
    text.push_str("; every copy");
    if totals.parity_verified > 0 {
        text.push_str(", every parity column");
    }
    text.push_str(if view.outcome.decoded { ", every block decoded" } else { ", nothing decoded (--no-decode)" });
    text
}

fn patterns(page: &mut Page, outcome: &Outcome) {
    if outcome.patterns.is_empty() {
        return;
    }
    page.blank();
    for pattern in &outcome.patterns {
        page.labelled("pattern: ", 9, (Paint::Plain, ""), pattern);
    }
}

/// All counts, for `-v`.
fn totals(page: &mut Page, outcome: &Outcome) {
    let (pool, totals) = (&outcome.pool, &outcome.totals);
    page.blank();
    page.line(0, "totals:");
    page.blank();
    let rows = [
        ("block pointers", thousands(totals.blocks)),
        ("gang blocks", thousands(totals.gang_blocks)),
        ("embedded blocks", thousands(totals.embedded_blocks)),
        ("logical bytes", thousands(totals.logical_bytes)),
        ("physical bytes", thousands(totals.physical_bytes)),
        ("allocated bytes", thousands(totals.allocated_bytes)),
        ("saved by dedup", thousands(totals.dedup_saved_bytes)),
        ("saved by cloning", thousands(totals.cloned_bytes)),
        ("copies verified", thousands(totals.copies_verified)),
        ("parity verified", thousands(totals.parity_verified)),
        ("blocks decoded", thousands(totals.decoded_blocks)),
        ("bytes read", thousands(totals.bytes_read)),
        ("read requests", thousands(totals.reading.requests)),
        ("bytes a request", thousands(totals.reading.mean_bytes())),
        ("bytes skipped over", thousands(totals.reading.skipped_bytes)),
    ];
    let width = rows.iter().map(|(_, number)| number.len()).max().unwrap_or_default();
    for (label, number) in rows {
        page.line(8, &format!("{label:<20}{number:>width$}"));
    }
    let uberblock = &pool.uberblock;
    page.blank();
    let at = format!("{}, label {}, slot {}", name(&uberblock.device), uberblock.label, uberblock.slot);
    page.wrapped(8, 26, &format!("{:<18}{at}", "uberblock"));
    page.wrapped(8, 26, &format!("{:<18}{}", "fingerprint", pool.fingerprint));
}

/// The last line but the hints: `damaged: 2 blocks lost, 1 more has a bad copy; everything was checked (exit status 4)`.
fn verdict(page: &mut Page, view: &View<'_>) {
    let summary = &view.outcome.summary;
    let paint = match summary.verdict {
        Verdict::Clean => Paint::Good,
        Verdict::Degraded | Verdict::Incomplete => Paint::Warn,
        Verdict::Damaged => Paint::Bad,
    };
    let mut sentence = match summary.verdict {
        _ if view.root_lost.is_some() => format!("nothing was checked at txg {}", view.outcome.pool.txg),
        Verdict::Clean => clean(view),
        Verdict::Degraded if is_about_images(view) => "all data is readable, but a disk image is damaged".to_owned(),
        Verdict::Degraded => "all data is readable, redundancy is not complete".to_owned(),
        Verdict::Damaged => damaged(view),
        Verdict::Incomplete if changed(view).is_some() => {
            "the pool was written while it was checked, so that nothing is certain".to_owned()
        }
        Verdict::Incomplete if view.has(exit::CANCELLED) => "no damage found so far".to_owned(),
        Verdict::Incomplete if view.outcome.is_partial => "no damage found in the part that was asked for".to_owned(),
        Verdict::Incomplete => "no damage found, but not everything was checked".to_owned(),
    };
    if view.has(exit::CANCELLED) {
        sentence.push_str("; cancelled before the end");
    } else if summary.verdict == Verdict::Degraded && view.is_incomplete() && view.missing.is_empty() {
        sentence.push_str("; not everything was checked");
    }
    if summary.exit_status != 0 {
        sentence.push_str(&format!(" (exit{GLUE}status{GLUE}{})", summary.exit_status));
    }
    page.labelled("", 2, (paint, summary.verdict.word()), &format!(": {sentence}"));
}

/// Nothing is wrong but with the disk images in which the members lie.
fn is_about_images(view: &View<'_>) -> bool {
    let is_image = |kind: Kind| kind.entry().code.starts_with("ZC07");
    let findings = &view.outcome.findings;
    view.outcome.summary.degraded_blocks == 0
        && view.missing.is_empty()
        && findings.iter().filter(|finding| finding.severity > Severity::Note).all(|finding| is_image(finding.kind))
}

fn clean(view: &View<'_>) -> String {
    if !view.outcome.decoded {
        "every checksum holds, nothing is damaged; nothing was decoded (--no-decode)".to_owned()
    } else if view.outcome.not_checked.is_empty() {
        "everything was checked, nothing is damaged".to_owned()
    } else {
        "nothing is damaged in what was asked for; see what was not checked".to_owned()
    }
}

fn damaged(view: &View<'_>) -> String {
    let summary = &view.outcome.summary;
    let lost = match summary.lost_blocks {
        0 => "structures are damaged or contradict each other".to_owned(),
        n => format!("{} lost", count(n, "block")),
    };
    let degraded = match summary.degraded_blocks {
        0 => String::new(),
        1 => ", 1 more has a bad copy".to_owned(),
        n => format!(", {} more have a bad copy", thousands(n)),
    };
    let complete = match (view.has(exit::CANCELLED), view.is_incomplete()) {
        (true, _) => "",
        (false, true) => "; not everything was checked",
        (false, false) => "; everything was checked",
    };
    format!("{lost}{degraded}{complete}")
}

/// What to do now.
fn next(page: &mut Page, view: &View<'_>) {
    let outcome = view.outcome;
    let mut hints = Vec::new();
    if view.exchanged.is_some() {
        // Import, scrub and rewind would all go by the labels.
        hints.push("do not import the pool; on copies of the devices, give each its own labels back".to_owned());
        hints.push(format!("`zcheck explain {}` says more", Kind::ContentsExchanged.entry().code));
        return write_hints(page, &hints);
    }
    if changed(view).is_some() {
        hints.push("export the pool, or take a snapshot of its devices, and check again".to_owned());
        hints.push(format!("`zcheck explain {}` says more", Kind::PoolChanged.entry().code));
        return write_hints(page, &hints);
    }
    let is_gone = outcome.findings.iter().any(|finding| finding.kind == Kind::MemberGone);
    // What lies on members that were not given is not known to be lost.
    if !view.missing.is_empty() {
        let first = view.missing.iter().filter(|vdev| vdev.unlocks_blocks > 0).max_by_key(|vdev| vdev.unlocks_blocks);
        let first = first.map(|vdev| {
            let blocks = count(vdev.unlocks_blocks, "block");
            format!("; {} alone may bring back {blocks}", name(&vdev.name))
        });
        let first = first.unwrap_or_default();
        hints.push(format!("give the missing members, too, or the directory they lie in{first}"));
    } else if view.root_lost.is_some() && !is_gone {
        hints.push("copy the devices before you try anything".to_owned());
        hints.push(match outcome.states.iter().find(|state| state.reach.is_whole()) {
            Some(state) => format!("`zcheck scrub --txg {} ...` checks the newest state that is whole", state.txg),
            None => "an older state may be whole: `zcheck txgs` shows what can be read of each".to_owned(),
        });
    }
    if is_gone {
        hints.push("bring back what disappeared, and check again".to_owned());
    }
    if outcome.not_checked.iter().any(|left| left.reason == NotCheckedReason::Unread) {
        hints.push(
            "let ddrescue go on with the same map, and check again: what was not rescued may be whole".to_owned(),
        );
    }
    let pool = name(&outcome.pool.name);
    if outcome.summary.damaged_files > 0 {
        let when = if view.missing.is_empty() { "" } else { "what stays damaged with all members: " };
        hints.push(format!("{when}restore the damaged files from a backup"));
    } else if outcome.summary.degraded_blocks > 0 && view.missing.is_empty() && !view.has(exit::DAMAGED) {
        hints.push(format!("find out what made the copies bad, then import the pool and run `zpool scrub {pool}`"));
    }
    let worst = outcome.findings.iter().filter(|f| f.severity > Severity::Note).max_by_key(|f| {
        let rank = if f.kind == Kind::RootLost { 1 } else { 0 };
        (rank, f.severity, std::cmp::Reverse(f.kind))
    });
    if let Some(finding) = worst {
        hints.push(format!("`zcheck explain {}` says more", finding.kind.entry().code));
    }
    write_hints(page, &hints);
}

fn write_hints(page: &mut Page, hints: &[String]) {
    for (index, hint) in hints.iter().enumerate() {
        page.labelled(if index == 0 { "next: " } else { "      " }, 6, (Paint::Plain, ""), hint);
    }
}

#[cfg(test)]
mod tests;
