//! What the bad copies of a device have in common: one line each, for the first look.

use crate::finding::{CopyResult, Finding, Observed, Severity};
use std::collections::BTreeMap;

/// Bad copies of one kind on one device.
#[derive(Debug, Default)]
struct Group {
    /// (offset, length) on the device.
    places: Vec<(u64, u64)>,
}

/// Describes, for each device, what its bad copies hold and where they lie.
pub(super) fn describe(findings: &[Finding]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, CopyResult, Option<Observed>), Group> = BTreeMap::new();
    let is_bad = |finding: &&Finding| finding.severity > Severity::Note;
    for copy in findings.iter().filter(is_bad).flat_map(|finding| &finding.copies) {
        let is_bad = matches!(copy.result, CopyResult::Checksum | CopyResult::ReadError | CopyResult::OutOfRange);
        if let (true, Some(device), Some(offset)) = (is_bad, &copy.device, copy.device_offset_bytes) {
            let group = groups.entry((device, copy.result, copy.observed)).or_default();
            group.places.push((offset, copy.length_bytes));
        }
    }
    groups.into_iter().map(|((device, result, observed), group)| line(device, result, observed, group)).collect()
}

fn line(device: &str, result: CopyResult, observed: Option<Observed>, mut group: Group) -> String {
    group.places.sort_unstable();
    group.places.dedup();
    let count = group.places.len();
    let first = group.places.first().map_or(0, |place| place.0);
    let end = group.places.iter().map(|place| place.0 + place.1).max().unwrap_or(0);
    let copies = if count == 1 { "1 bad copy".to_owned() } else { format!("{count} bad copies") };
    let what = match (result, observed) {
        (CopyResult::ReadError, _) => "cannot be read",
        (CopyResult::OutOfRange, _) => "lie beyond the end of the device",
        (_, Some(Observed::Zeros)) => "read as zeros",
        (_, Some(Observed::Ones)) => "read as ones (0xff)",
        (_, Some(Observed::BitFlip)) => "differ in a single bit (proven)",
        _ => "hold other data",
    };
    let what = if count == 1 { singular(what) } else { what.to_owned() };
    let range =
        if count == 1 { format!("at {}", digits(first)) } else { format!("{} to {}", digits(first), digits(end)) };
    let step = step(&group.places).map(|step| format!(", one each {}", size(step))).unwrap_or_default();
    format!("{device}: {copies}, {range}{step}, {what}")
}

fn singular(what: &str) -> String {
    let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
    let verb = match verb {
        "read" => "reads",
        "lie" => "lies",
        "differ" => "differs",
        "hold" => "holds",
        other => other,
    };
    format!("{verb} {rest}")
}

/// The distance between neighbours, when at least four lie the same distance, 64 KiB or more, from each other.
fn step(places: &[(u64, u64)]) -> Option<u64> {
    let mut steps = places.windows(2).filter_map(|pair| Some(pair.get(1)?.0 - pair.first()?.0));
    let first = steps.next().filter(|&step| places.len() >= 4 && step >= 64 << 10)?;
    steps.all(|step| step == first).then_some(first)
}

fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// A number with its thousands set apart.
fn digits(number: u64) -> String {
    let plain = number.to_string();
    let mut text = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_step_is_told() {
        let places: Vec<(u64, u64)> = (0..5).map(|n| ((5 << 20) + (n << 20), 65_536)).collect();
        assert_eq!(step(&places), Some(1 << 20));
        assert_eq!(step(&places[..3]), None);
    }

    #[test]
    fn numbers_are_set_in_thousands() {
        assert_eq!(digits(5_439_488), "5,439,488");
        assert_eq!(digits(12), "12");
    }
}
