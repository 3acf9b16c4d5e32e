//! What is wrong: files, metadata, devices, notes, and what was not checked. Floods are cut unless all was asked for.

use super::Detail;
use super::page::{Page, Paint, WIDTH, columns, name, padded};
use super::text::View;
use super::units::{count, size, thousands};
use std::collections::{BTreeMap, BTreeSet};
use zfs_scrub::finding::{
    BLOCK_SPILL, CopyEvidence, CopyResult, Finding, Kind, LEVEL_OBJSET, LEVEL_ZIL, Observed, Place, Severity,
    StoredState, file_name,
};
use zfs_scrub::outcome::{FileDamage, NotChecked, NotCheckedReason, Verdict};

/// Lines of one kind shown without `-v`.
const LINES_MAX: usize = 20;
/// Ranges, copies and other names shown of one file without `-v`.
const DETAILS_MAX: usize = 4;
/// Columns before the lists.
const INDENT: usize = 8;

/// The findings sorted by where the report shows them.
struct Sorted<'a> {
    /// About a named file: under the file.
    files: BTreeMap<String, Vec<&'a Finding>>,
    /// About other blocks, by object, in the order of the pool.
    metadata: Vec<(String, Vec<&'a Finding>)>,
    /// About devices, labels and configuration.
    devices: Vec<&'a Finding>,
    /// Harmless.
    notes: Vec<&'a Finding>,
}

impl<'a> Sorted<'a> {
    fn new(view: &View<'a>) -> Self {
        let paths: BTreeSet<&str> = view.outcome.files.iter().map(|file| file.path.as_str()).collect();
        let mut sorted = Self { files: BTreeMap::new(), metadata: Vec::new(), devices: Vec::new(), notes: Vec::new() };
        for finding in &view.outcome.findings {
            let place = finding.place.name();
            // Files that share the block by dedup or cloning.
            let others: BTreeSet<String> = finding.references.iter().map(Place::name).collect();
            for other in others.into_iter().filter(|other| *other != place && paths.contains(other.as_str())) {
                sorted.files.entry(other).or_default().push(finding);
            }
            if finding.severity == Severity::Note {
                sorted.notes.push(finding);
            } else if finding.kind == Kind::RootLost {
                // The head of the report has it.
                if view.detail == Detail::Quiet {
                    sorted.devices.push(finding);
                }
            } else if finding.kind == Kind::MemberMissing && view.detail == Detail::Normal && !view.missing.is_empty() {
                // The table of devices has it.
            } else if finding.place.device.is_some() || finding.place.objset.is_none() {
                sorted.devices.push(finding);
            } else if paths.contains(place.as_str()) {
                sorted.files.entry(place).or_default().push(finding);
            } else if finding.severity == Severity::Damaged || view.detail == Detail::Full {
                match sorted.metadata.last_mut().filter(|(name, _)| *name == place) {
                    Some((_, findings)) => findings.push(finding),
                    None => sorted.metadata.push((place, vec![finding])),
                }
            }
        }
        sorted
    }
}

/// Writes all lists.
pub(super) fn write(page: &mut Page, view: &View<'_>) {
    let sorted = Sorted::new(view);
    errors(page, view, &sorted);
    if view.detail == Detail::Full {
        let degraded: Vec<_> = view.outcome.files.iter().filter(|file| file.severity == Severity::Degraded).collect();
        if !degraded.is_empty() {
            let total = view.outcome.summary.degraded_files.max(degraded.len() as u64);
            page.blank();
            page.line(0, &format!("files with a bad copy, readable from another: {}", thousands(total)));
            files(page, view, &degraded, total, &sorted);
        }
    }
    metadata(page, view, &sorted);
    devices(page, view, &sorted);
    not_checked(page, view);
    notes(page, view, &sorted);
    if view.outcome.findings_dropped > 0 {
        page.blank();
        let dropped = count(view.outcome.findings_dropped, "finding");
        page.wrapped(0, 2, &format!("{dropped} more than a report keeps: counted above, not listed"));
    }
}

/// How many of `total` lines are shown.
fn shown(view: &View<'_>, total: usize) -> usize {
    if view.detail == Detail::Full { total } else { total.min(LINES_MAX) }
}

/// The line that ends a list which was cut.
fn more(page: &mut Page, view: &View<'_>, total: usize, what: &str) {
    let hidden = total - shown(view, total);
    if hidden > 0 {
        page.line(INDENT, &format!("... and {}, -v shows all", count(hidden as u64, &format!("more {what}"))));
    }
}

/// `errors: No known data errors`, or the damaged files.
fn errors(page: &mut Page, view: &View<'_>, sorted: &Sorted<'_>) {
    let damaged: Vec<_> = view.outcome.files.iter().filter(|file| file.severity == Severity::Damaged).collect();
    let lost_blocks = view.outcome.summary.lost_blocks;
    if damaged.is_empty() {
        if view.detail == Detail::Quiet {
            return;
        }
        page.blank();
        let (paint, text) = match () {
            () if view.root_lost.is_some() => (Paint::Warn, "unknown: no file could be looked at".to_owned()),
            () if lost_blocks > 0 => {
                let verb = if lost_blocks == 1 { "is" } else { "are" };
                let blocks = count(lost_blocks, "block");
                (Paint::Bad, format!("no file is known to be damaged, but {blocks} of metadata {verb} lost"))
            }
            () if view.outcome.summary.verdict == Verdict::Damaged => {
                (Paint::Bad, "no file is known to be damaged, but metadata is, see below".to_owned())
            }
            () if view.is_incomplete() => (Paint::Plain, "No known data errors in what was checked".to_owned()),
            () => (Paint::Plain, "No known data errors".to_owned()),
        };
        let painted = if paint == Paint::Plain { "" } else { text.split([' ', ':']).next().unwrap_or_default() };
        page.labelled("errors: ", 8, (paint, painted), text.strip_prefix(painted).unwrap_or_default());
        return;
    }
    page.blank();
    let lost: u64 = damaged.iter().fold(0, |sum, file| sum.saturating_add(file.lost_bytes));
    let whole = damaged.iter().filter(|file| file.is_whole).count() as u64;
    let lost = match (lost, whole) {
        (_, 0) => size(lost),
        (0, _) => count(whole, "whole file"),
        _ => format!("{} and {}", size(lost), count(whole, "whole file")),
    };
    let total = view.outcome.summary.damaged_files.max(damaged.len() as u64);
    let verb = if total == 1 { "is" } else { "are" };
    let files_text = count(total, "file");
    page.labelled("errors: ", 8, (Paint::Bad, &files_text), &format!(" {verb} damaged, {lost} lost:"));
    files(page, view, &damaged, total, sorted);
}

/// One line a file, or a few: path, ranges, where the first bad copy lies; then the other names of the same bytes.
/// `total` counts files that are not in the list, too.
fn files(page: &mut Page, view: &View<'_>, list: &[&FileDamage], total: u64, sorted: &Sorted<'_>) {
    page.blank();
    let list_shown = &list[..shown(view, list.len())];
    let no_findings = Vec::new();
    let rows: Vec<_> = list_shown
        .iter()
        .map(|file| {
            let findings = sorted.files.get(&file.path).unwrap_or(&no_findings);
            (*file, findings, name(&file.path), ranges(file, view.detail), first_bad_copy(findings, file.severity))
        })
        .collect();
    let paths = rows.iter().map(|row| columns(&row.2)).max().unwrap_or(0);
    let spans = rows.iter().map(|row| columns(&row.3)).max().unwrap_or(0);
    let places = rows.iter().map(|row| columns(&row.4)).max().unwrap_or(0);
    let on_one_line = INDENT + paths + 2 + spans + 2 + places <= WIDTH;
    for (file, findings, path, range, place) in rows {
        if on_one_line {
            page.line(INDENT, &format!("{}  {}  {place}", padded(&path, paths), padded(&range, spans)));
        } else {
            page.line(INDENT, &path);
            if INDENT + 2 + columns(&range) + 2 + columns(&place) <= WIDTH {
                page.wrapped(INDENT + 2, INDENT + 4, &format!("{range}  {place}"));
            } else {
                page.wrapped(INDENT + 2, INDENT + 4, &range);
                page.wrapped(INDENT + 2, INDENT + 4, &place);
            }
        }
        if let Some(why) = &file.no_path_because {
            page.wrapped(INDENT + 2, INDENT + 4, &format!("no path: {why}"));
        }
        also_in(page, file, view.detail);
        if view.detail == Detail::Full {
            findings.iter().for_each(|finding| full(page, finding));
        }
    }
    more(page, view, list.len(), "file");
    let not_kept = total.saturating_sub(list.len() as u64);
    if not_kept > 0 {
        page.line(INDENT, &format!("... and {}, which were only counted", count(not_kept, "more file")));
    }
}

/// `bytes 131072-262143, 393216-524287 and 3 more ranges`
fn ranges(file: &FileDamage, detail: Detail) -> String {
    if file.is_whole {
        return "the whole file: what described it is lost".to_owned();
    }
    if file.ranges.is_empty() {
        return "range unknown".to_owned();
    }
    let max = if detail == Detail::Full { usize::MAX } else { DETAILS_MAX };
    let last = |offset: u64, length: u64| offset.saturating_add(length.saturating_sub(1));
    let texts: Vec<_> = file.ranges.iter().take(max).map(|(o, l)| format!("{o}-{}", last(*o, *l))).collect();
    let mut text = format!("bytes {}", texts.join(", "));
    let hidden = file.ranges.len().saturating_sub(max);
    if hidden > 0 {
        text.push_str(&format!(" and {}", count(hidden as u64, "more range")));
    }
    text
}

/// Where the first bad copy lies: `disk0 at 5,439,488  zeros`.
fn first_bad_copy(findings: &[&Finding], severity: Severity) -> String {
    let bad = |copy: &&CopyEvidence| !matches!(copy.result, CopyResult::Ok);
    let Some(finding) = findings.iter().find(|finding| finding.severity == severity && !finding.copies.is_empty())
    else {
        return String::new();
    };
    match finding.copies.iter().find(bad) {
        Some(copy) => format!("{}{}  {}", copy_place(copy), stored(copy), copy_result(copy)),
        None if finding.kind == Kind::MacWrong => "wrong MAC".to_owned(),
        None => String::new(),
    }
}

fn copy_place(copy: &CopyEvidence) -> String {
    match (&copy.device, copy.device_offset_bytes) {
        (Some(device), Some(offset)) => format!("{} at {}", name(device), thousands(offset)),
        (Some(device), None) => name(device),
        (None, _) => format!("vdev {} at {}", copy.vdev, thousands(copy.offset_bytes)),
    }
}

/// Where a bad copy is stored, if that is not simply the same place of the same file:
/// ` (vm-flat.vmdk at 6,488,064)`, ` (not allocated in vm.vmdk)`.
fn stored(copy: &CopyEvidence) -> String {
    // What is stored nowhere says more than where the rest is.
    let nowhere = copy.stored.iter().find(|part| !part.state.is_allocated());
    let Some(part) = nowhere.or(copy.stored.iter().find(|part| part.is_elsewhere())) else { return String::new() };
    let file = name(file_name(&part.file));
    let partly = if copy.stored.iter().all(|other| other.state == part.state) { "" } else { "partly " };
    match (part.state, part.file_offset_bytes) {
        (StoredState::Data, Some(at)) => format!(" ({file} at {})", thousands(at)),
        (StoredState::Compressed, Some(at)) => format!(" ({file} at {}, compressed)", thousands(at)),
        (StoredState::Unreadable, _) => format!(" (not to be had from {file})"),
        (StoredState::Zero, _) => format!(" ({partly}zero by a mark in {file})"),
        _ => format!(" ({partly}not allocated in {file})"),
    }
}

/// What a copy gave, in words.
fn copy_result(copy: &CopyEvidence) -> &'static str {
    match (copy.result, copy.observed) {
        (CopyResult::Checksum, Some(Observed::Zeros)) => "zeros",
        (CopyResult::Checksum, Some(Observed::Ones)) => "all bits set",
        (CopyResult::Checksum, Some(Observed::BitFlip)) => "one bit flipped",
        (CopyResult::Checksum, _) => "wrong checksum",
        (CopyResult::Ok, _) => "good",
        (CopyResult::ReadError, _) => "read error",
        (CopyResult::Missing, _) => "not there",
        (CopyResult::Unread, _) => "never read",
        (CopyResult::Stale, _) => "out of date",
        (CopyResult::OutOfRange, _) => "beyond the end of the device",
        (CopyResult::Undecodable, _) => "does not decode",
        (CopyResult::Unsupported, _) => "this version cannot read it",
    }
}

/// The copies of one block on one wrapped line: `disk0 at 6,422,528 zeros; at 23,199,744 zeros`.
pub(super) fn copies(page: &mut Page, indent: usize, finding: &Finding, detail: Detail) {
    let mut device = None;
    let mut texts = Vec::new();
    let max = if detail == Detail::Full { usize::MAX } else { DETAILS_MAX };
    for copy in finding.copies.iter().take(max) {
        let place = match (device == Some(&copy.device), copy.device_offset_bytes) {
            (true, Some(offset)) => format!("at {}", thousands(offset)),
            _ => copy_place(copy),
        };
        device = copy.device.is_some().then_some(&copy.device);
        texts.push(format!("{place}{} {}", stored(copy), copy_result(copy)));
    }
    let hidden = finding.copies.len().saturating_sub(max);
    if hidden > 0 {
        texts.push(format!("and {hidden} more"));
    }
    if !texts.is_empty() {
        page.wrapped(indent, indent + 2, &texts.join("; "));
    }
}

/// Everything about one finding, for `-v`.
fn full(page: &mut Page, finding: &Finding) {
    let entry = finding.kind.entry();
    let message = if finding.message.is_empty() { entry.title } else { finding.message.as_str() };
    page.wrapped(
        INDENT + 2,
        INDENT + 4,
        &format!("{} {}, {}: {message}", entry.code, finding.severity, block(finding)),
    );
    copies(page, INDENT + 4, finding, Detail::Full);
}

/// Which block of its object.
fn block(finding: &Finding) -> String {
    let place = &finding.place;
    let object = match (place.objset, place.object) {
        (Some(objset), Some(object)) => format!("object {objset}/{object}, "),
        (Some(objset), None) => format!("object set {objset}, "),
        _ => String::new(),
    };
    let block = match (place.level, place.block) {
        (Some(LEVEL_OBJSET), _) => "root block".to_owned(),
        (Some(LEVEL_ZIL), _) => "intent log block".to_owned(),
        (_, Some(BLOCK_SPILL)) => "spill block".to_owned(),
        (Some(0) | None, Some(block)) => format!("block {block}"),
        (Some(level), Some(block)) => format!("level {level} block {block}"),
        (_, None) => "all of it".to_owned(),
    };
    object + &block
}

/// `also in @one, @two, tank/clone`: snapshots of the same dataset by their name alone, the same path left out.
fn also_in(page: &mut Page, file: &FileDamage, detail: Detail) {
    if file.also_in.is_empty() {
        return;
    }
    let max = if detail == Detail::Full { usize::MAX } else { DETAILS_MAX * 2 };
    let mut names: Vec<_> = file.also_in.iter().take(max).map(|other| short_name(other, &file.path)).collect();
    let hidden = file.also_in.len().saturating_sub(max);
    if hidden > 0 {
        names.push(format!("{hidden} more"));
    }
    page.wrapped(INDENT + 2, INDENT + 4, &format!("also in {}", names.join(", ")));
}

/// The other name as far as it differs from the first.
fn short_name(other: &str, first: &str) -> String {
    let (Some((first_set, first_path)), Some((other_set, other_path))) =
        (first.split_once(":/"), other.split_once(":/"))
    else {
        return name(other);
    };
    if first_path != other_path {
        return name(other);
    }
    let dataset = first_set.split('@').next().unwrap_or_default();
    match other_set.strip_prefix(dataset) {
        Some(snapshot) if snapshot.starts_with('@') => name(snapshot),
        _ => name(other_set),
    }
}

/// Lost blocks that belong to no named file, one line an object.
fn metadata(page: &mut Page, view: &View<'_>, sorted: &Sorted<'_>) {
    if sorted.metadata.is_empty() {
        return;
    }
    page.blank();
    page.line(0, "metadata:");
    page.blank();
    for (place, findings) in sorted.metadata.iter().take(shown(view, sorted.metadata.len())) {
        let worst = findings.iter().max_by_key(|finding| finding.severity);
        let Some(worst) = worst else { continue };
        let what = worst.place.object_type.map_or(String::new(), |object_type| format!(" ({object_type})"));
        let damaged = findings.iter().filter(|finding| finding.severity == Severity::Damaged).count() as u64;
        let mut state = match damaged {
            0 => format!("{} with a bad copy", count(findings.len() as u64, "block")),
            _ if worst.copies.is_empty() && worst.message.is_empty() => worst.kind.entry().title.to_owned(),
            _ if worst.copies.is_empty() => worst.message.clone(),
            _ => format!("{} lost", count(damaged, "block")),
        };
        let hidden = findings.iter().fold(0_u64, |sum, finding| sum.saturating_add(finding.hidden_blocks));
        if hidden > 0 {
            state.push_str(&format!(", hides {} more", thousands(hidden)));
        }
        let code = worst.kind.entry().code;
        page.wrapped(INDENT, INDENT + 2, &format!("{}{what}: {state} ({code})", name(place)));
        if view.detail == Detail::Full {
            findings.iter().for_each(|finding| full(page, finding));
        } else {
            copies(page, INDENT + 2, worst, view.detail);
        }
    }
    more(page, view, sorted.metadata.len(), "object");
}

/// Findings about devices, labels and configuration, one line each.
fn devices(page: &mut Page, view: &View<'_>, sorted: &Sorted<'_>) {
    if sorted.devices.is_empty() {
        return;
    }
    page.blank();
    page.line(0, "devices:");
    page.blank();
    for finding in sorted.devices.iter().take(shown(view, sorted.devices.len())) {
        page.wrapped(INDENT, INDENT + 2, &sentence(finding));
        if finding.kind == Kind::RootLost || view.detail == Detail::Full {
            copies(page, INDENT + 2, finding, view.detail);
        }
    }
    more(page, view, sorted.devices.len(), "finding");
}

/// `disk0: the message (ZC0101)`
fn sentence(finding: &Finding) -> String {
    let entry = finding.kind.entry();
    let device = finding.place.device.as_deref().map_or(String::new(), |device| format!("{}: ", name(device)));
    let message = if finding.message.is_empty() { entry.title } else { finding.message.as_str() };
    format!("{device}{message} ({})", entry.code)
}

/// What was not checked, and why.
fn not_checked(page: &mut Page, view: &View<'_>) {
    let list = &view.outcome.not_checked;
    if list.is_empty() {
        return;
    }
    page.blank();
    page.labelled("", 0, (Paint::Warn, "not checked"), ":");
    page.blank();
    for item in list.iter().take(shown(view, list.len())) {
        page.wrapped(INDENT, INDENT + 2, &not_checked_item(item));
    }
    more(page, view, list.len(), "item");
}

/// `the blocks of mirror-0: 1,204 blocks, 151 MiB (a member is missing)`
fn not_checked_item(item: &NotChecked) -> String {
    let blocks = item.blocks.map(|blocks| count(blocks, "block"));
    let bytes = item.bytes.map(size);
    let numbers: Vec<_> = [blocks, bytes].into_iter().flatten().collect();
    let numbers = if numbers.is_empty() { String::new() } else { format!(": {}", numbers.join(", ")) };
    let why = match item.reason {
        NotCheckedReason::MissingMember => "a member is missing",
        NotCheckedReason::Unread => "not rescued",
        NotCheckedReason::BadParent => "the block that leads there is lost",
        NotCheckedReason::NoKey => "no key",
        NotCheckedReason::Unsupported => "this version cannot read it",
        NotCheckedReason::Changed => "the pool was being written",
        NotCheckedReason::Cancelled => "cancelled",
        NotCheckedReason::Option => "left out by an option",
    };
    format!("{}{numbers} ({why})", item.what)
}

/// Harmless findings.
fn notes(page: &mut Page, view: &View<'_>, sorted: &Sorted<'_>) {
    if sorted.notes.is_empty() {
        return;
    }
    page.blank();
    for finding in sorted.notes.iter().take(shown(view, sorted.notes.len())) {
        let text = if finding.place.objset.is_some() && finding.place.device.is_none() {
            format!("{}: {}", name(&finding.place.name()), sentence(finding))
        } else {
            sentence(finding)
        };
        page.labelled("note: ", 6, (Paint::Plain, ""), &text);
    }
    more(page, view, sorted.notes.len(), "note");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::copy;
    use zfs_scrub::finding::StoredPart;

    #[test]
    fn the_place_in_an_image_is_told_where_it_is_another_one() {
        let told = |parts: &[(StoredState, Option<u64>)]| {
            let mut copy = copy("disk0", 4 << 20, CopyResult::Checksum, None);
            let part = |(state, at): &(StoredState, Option<u64>)| StoredPart {
                device_offset_bytes: 4 << 20,
                length_bytes: 65_536,
                state: *state,
                file: "/vm/vm-flat.vmdk".to_owned(),
                file_offset_bytes: *at,
                layer: 0,
            };
            copy.stored = parts.iter().map(part).collect();
            stored(&copy)
        };
        let (data, hole) = ((StoredState::Data, Some(4 << 20)), (StoredState::Hole, None));
        assert_eq!(told(&[]), "");
        assert_eq!(told(&[data]), "");
        assert_eq!(told(&[(StoredState::Data, Some(5 << 20))]), " (vm-flat.vmdk at 5,242,880)");
        assert_eq!(told(&[(StoredState::Compressed, Some(4))]), " (vm-flat.vmdk at 4, compressed)");
        assert_eq!(told(&[hole, hole]), " (not allocated in vm-flat.vmdk)");
        assert_eq!(told(&[data, hole]), " (partly not allocated in vm-flat.vmdk)");
        assert_eq!(told(&[(StoredState::Unreadable, None)]), " (not to be had from vm-flat.vmdk)");
    }
}
