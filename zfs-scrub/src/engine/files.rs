//! What became of each file, gathered from the findings about its blocks.

use crate::finding::{Finding, Place, Severity};
use crate::outcome::FileDamage;
use std::collections::BTreeMap;
use zfs_format::ondisk::dmu::ObjectType;

/// Files that are hurt, with the ranges that are.
pub(super) fn files(findings: &[Finding]) -> Vec<FileDamage> {
    let mut files: BTreeMap<String, FileDamage> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Note) {
        for place in std::iter::once(&finding.place).chain(&finding.references) {
            let is_file =
                place.path.is_some() || matches!(place.object_type, Some(ObjectType::PLAIN_FILE | ObjectType::ZVOL));
            if is_file {
                add(files.entry(place.name()).or_insert_with(|| new_file(place)), place, finding.severity);
            }
        }
        let place = &finding.place;
        for path in &finding.hidden_paths {
            let hidden = Place { path: Some(path.clone()), also_in: Vec::new(), ..place.clone() };
            let file = files.entry(hidden.name()).or_insert_with(|| new_file(&hidden));
            (file.severity, file.is_whole) = (Severity::Damaged, true);
            file.ranges.clear();
        }
    }
    for file in files.values_mut() {
        file.ranges = joined(std::mem::take(&mut file.ranges));
        file.lost_bytes = match file.severity {
            Severity::Damaged => file.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.1)),
            _ => 0,
        };
    }
    files.into_values().collect()
}

fn new_file(place: &Place) -> FileDamage {
    FileDamage {
        path: place.name(),
        no_path_because: place.no_path_because.clone(),
        severity: Severity::Note,
        is_whole: false,
        ranges: Vec::new(),
        lost_bytes: 0,
        also_in: Vec::new(),
    }
}

/// Adds a place in it to a file. In a damaged file only what is lost counts, not what merely has a bad copy.
fn add(file: &mut FileDamage, place: &Place, severity: Severity) {
    if severity > file.severity {
        file.severity = severity;
        file.ranges.clear();
    }
    if let (true, Some(offset), Some(length)) =
        (severity == file.severity && !file.is_whole, place.file_offset, place.file_length)
    {
        file.ranges.push((offset, length));
    }
    for also in &place.also_in {
        if !file.also_in.contains(also) {
            file.also_in.push(also.clone());
        }
    }
}

/// Sorts ranges and joins those that touch.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in ranges {
        let end = offset.saturating_add(length);
        match joined.last_mut() {
            Some((start, known)) if start.saturating_add(*known) >= offset => {
                *known = (*known).max(end.saturating_sub(*start));
            }
            _ => joined.push((offset, length)),
        }
    }
    joined
}
