//! What the bad copies of a device have in common: one line each, for the first look.

use crate::finding::{CopyEvidence, CopyResult, Finding, Observed, Severity, StoredPart, file_name};
use std::collections::{BTreeMap, BTreeSet};

/// Bad copies of one kind on one device.
#[derive(Debug, Default)]
struct Group {
    /// (offset, length) on the device.
    places: Vec<(u64, u64)>,
    /// Offsets of those that are stored nowhere.
    unallocated: BTreeSet<u64>,
    /// Offsets of those of which a part is stored nowhere.
    partly: BTreeSet<u64>,
    /// Offsets of those that are stored as a whole, in a file that is not simply the device.
    inside: BTreeSet<u64>,
    /// The files with the bytes, or with the tables that say that there are none.
    files: BTreeSet<String>,
}

impl Group {
    fn add(&mut self, offset: u64, copy: &CopyEvidence) {
        self.places.push((offset, copy.length_bytes));
        let nowhere = copy.stored.iter().filter(|part| !part.state.is_allocated()).count();
        if nowhere > 0 {
            let set = if nowhere == copy.stored.len() { &mut self.unallocated } else { &mut self.partly };
            set.insert(offset);
        } else if copy.stored.iter().any(StoredPart::is_elsewhere) {
            self.inside.insert(offset);
        } else {
            return;
        }
        self.files.extend(copy.stored.iter().map(|part| part.file.clone()));
    }

    /// Whether the images hold anything where the copies lie; nothing where the device is no image.
    fn allocation(&self, count: usize) -> String {
        let file = match self.files.first() {
            Some(file) if self.files.len() == 1 => file_name(file),
            _ => "the image",
        };
        let told = |number: usize, what: &str| match number {
            0 => String::new(),
            all if all == count => format!(", {what} in {file}"),
            some => format!(", {some} of them {what} in {file}"),
        };
        let nowhere = told(self.unallocated.len(), "where nothing is allocated");
        let partly = told(self.partly.len(), "where only a part is allocated");
        if nowhere.is_empty() && partly.is_empty() { told(self.inside.len(), "allocated") } else { nowhere + &partly }
    }
}

/// Describes, for each device, what its bad copies hold and where they lie.
pub(super) fn describe(findings: &[Finding]) -> Vec<String> {
    let mut groups: BTreeMap<(&str, CopyResult, Option<Observed>), Group> = BTreeMap::new();
    let is_bad = |finding: &&Finding| finding.severity > Severity::Note;
    for copy in findings.iter().filter(is_bad).flat_map(|finding| &finding.copies) {
        let is_bad = matches!(copy.result, CopyResult::Checksum | CopyResult::ReadError | CopyResult::OutOfRange);
        if let (true, Some(device), Some(offset)) = (is_bad, &copy.device, copy.device_offset_bytes) {
            groups.entry((device, copy.result, copy.observed)).or_default().add(offset, copy);
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
    format!("{device}: {copies}, {range}{step}, {what}{}", group.allocation(count))
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
    use crate::finding::StoredState;

    #[test]
    fn a_regular_step_is_told() {
        let places: Vec<(u64, u64)> = (0..5).map(|n| ((5 << 20) + (n << 20), 65_536)).collect();
        assert_eq!(step(&places), Some(1 << 20));
        assert_eq!(step(&places[..3]), None);
    }

    #[test]
    fn whether_the_image_holds_anything_is_told() {
        let part = |state, at, file_at| StoredPart {
            device_offset_bytes: at,
            length_bytes: 4096,
            state,
            file: "/vm/a.vmdk".to_owned(),
            file_offset_bytes: file_at,
            layer: 0,
        };
        let told = |states: &[(StoredState, u64)]| {
            let mut group = Group::default();
            for (number, (state, moved)) in states.iter().enumerate() {
                let at = number as u64 * 8192;
                let file_at = state.is_allocated().then_some(at + moved);
                let copy = CopyEvidence {
                    copy: 0,
                    vdev: 0,
                    offset_bytes: at,
                    size_bytes: 4096,
                    device: Some("disk0".to_owned()),
                    device_offset_bytes: Some(at),
                    length_bytes: 4096,
                    result: CopyResult::Checksum,
                    observed: None,
                    stored: vec![part(*state, at, file_at)],
                };
                group.add(at, &copy);
            }
            group.allocation(states.len())
        };
        assert_eq!(told(&[(StoredState::Data, 0)]), "");
        assert_eq!(told(&[(StoredState::Data, 65_536)]), ", allocated in a.vmdk");
        assert_eq!(told(&[(StoredState::Hole, 0); 3]), ", where nothing is allocated in a.vmdk");
        let mixed = [(StoredState::Hole, 0), (StoredState::Data, 512), (StoredState::Zero, 0)];
        assert_eq!(told(&mixed), ", 2 of them where nothing is allocated in a.vmdk");
    }

    #[test]
    fn numbers_are_set_in_thousands() {
        assert_eq!(digits(5_439_488), "5,439,488");
        assert_eq!(digits(12), "12");
    }
}
