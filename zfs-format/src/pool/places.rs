//! Which ranges of an input hold a member: all of it, partitions, or what a search for labels finds.
//!
//! A table is a claim, a label is proof. So the disk as a whole and each partition are looked at for labels. Where
//! labels of two members overlap, those that were written last are used, and the others are told.

use super::candidate::Candidate;
use super::labels::{DeviceLabels, Label};
use super::search::{self, Found};
use crate::media::partition::{Partition, Partitions};
use crate::media::{Medium, Window, probe};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Partitions that an error line lists.
const LISTED_MAX: usize = 8;

/// Where on an input to look for members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// On all of it and in its partitions; where that finds nothing, at the usual places.
    #[default]
    Tables,
    /// In the partition of this number.
    Partition(u32),
    /// At this byte.
    Offset(u64),
    /// Everywhere: all labels that are on it.
    Search,
}

/// Why there is nothing to look at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum LookError {
    /// No table names such a partition.
    #[error("{}: there is no partition {number} to read; {listed}", path.display())]
    NoPartition { path: PathBuf, number: u32, listed: String },
    /// The byte is none of the input.
    #[error("{}: --offset {offset} lies beyond its end ({size} bytes)", path.display())]
    Beyond { path: PathBuf, offset: u64, size: u64 },
}

/// Finds the members on an input. Where there are none, the one candidate is the input as a whole, and says why not.
///
/// # Errors
/// [`LookError`] when there is no such partition or no such byte.
pub fn members(medium: &Medium, look: Look) -> Result<Vec<Candidate>, LookError> {
    let size = medium.bytes.size_bytes();
    match look {
        Look::Tables => Ok(by_tables(medium)),
        Look::Search => {
            let tables = Partitions::read(&*medium.bytes);
            let found: Vec<Candidate> =
                search::everywhere(&*medium.bytes).iter().map(|found| at(medium, found, &tables)).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            let mut none = by_tables(medium);
            for candidate in none.iter_mut().filter(|candidate| candidate.identity().is_none()) {
                let more = candidate.contents.take().map(|contents| format!("; {contents}")).unwrap_or_default();
                candidate.contents = Some(format!("all of it was searched{more}"));
            }
            Ok(none)
        }
        Look::Offset(offset) if offset >= size => Err(LookError::Beyond { path: medium.path.clone(), offset, size }),
        Look::Offset(offset) => {
            let bytes = Arc::new(Window::new(Arc::clone(&medium.bytes), offset, u64::MAX));
            Ok(vec![Candidate::read(&Medium { bytes, ..medium.clone() })])
        }
        Look::Partition(number) => {
            let tables = Partitions::read(&*medium.bytes);
            match tables.get(number).filter(|partition| partition.start_bytes < size) {
                Some(partition) => Ok(vec![in_partition(medium, partition, &tables)]),
                None => {
                    let listed = match tables.list.as_slice() {
                        [] => "it has no partition table".to_owned(),
                        _ => describe(medium, &tables),
                    };
                    Err(LookError::NoPartition { path: medium.path.clone(), number, listed })
                }
            }
        }
    }
}

fn by_tables(medium: &Medium) -> Vec<Candidate> {
    let tables = Partitions::read(&*medium.bytes);
    let whole = Candidate::read(medium);
    let mut found: Vec<Candidate> = Vec::new();
    for partition in tables.list.iter().filter(|partition| partition.start_bytes < medium.bytes.size_bytes()) {
        let candidate = in_partition(medium, partition, &tables);
        if candidate.identity().is_none() || whole.identity().is_some() && candidate.start_bytes() == 0 {
            continue;
        }
        // Slices of different length may begin at the same byte: the one that has the labels at its end is meant.
        match found.iter_mut().find(|other| other.start_bytes() == candidate.start_bytes()) {
            Some(other) if candidate.valid_labels() > other.valid_labels() => *other = candidate,
            Some(_) => {}
            None => found.push(candidate),
        }
    }
    if whole.identity().is_some() {
        if !tables.list.is_empty() && found.is_empty() {
            whole.tell(format!(
                "there is a partition table ({}, {}), and the pool is on the disk as a whole: the table was written over it, or is older",
                tables.tables(),
                count(tables.list.len())
            ));
        }
        found.insert(0, whole);
    } else if found.is_empty() {
        let scaled = tables.list.iter().filter_map(|partition| partition.start_bytes.checked_mul(8));
        let starts: Vec<u64> =
            scaled.chain(tables.unused.iter().map(|partition| partition.start_bytes)).take(1024).collect();
        found.extend(search::likely(&*medium.bytes, &starts).iter().map(|found| at(medium, found, &tables)));
        if found.is_empty() {
            let contents = (!tables.list.is_empty()).then(|| describe(medium, &tables));
            return vec![Candidate { contents, ..whole }];
        }
    }
    settle_overlaps(&mut found);
    found
}

/// What is on the partition of a table.
fn in_partition(medium: &Medium, partition: &Partition, tables: &Partitions) -> Candidate {
    let window = Window::new(Arc::clone(&medium.bytes), partition.start_bytes, partition.size_bytes);
    let bytes = Arc::new(window.of_partition(partition.number));
    let candidate = Candidate::read(&Medium { bytes, ..medium.clone() });
    tables.notes.iter().for_each(|note| candidate.tell(note));
    candidate
}

/// What is where a label was found. Where a partition begins there, it is that one.
fn at(medium: &Medium, found: &Found, tables: &Partitions) -> Candidate {
    if let Some(partition) = tables.list.iter().find(|partition| partition.start_bytes == found.start_bytes)
        && partition.size_bytes >= found.size_bytes
    {
        return in_partition(medium, partition, tables);
    }
    let Found { start_bytes, size_bytes } = *found;
    if start_bytes == 0 {
        return Candidate::read(medium);
    }
    let bytes = Arc::new(Window::new(Arc::clone(&medium.bytes), start_bytes, size_bytes));
    let candidate = Candidate::read(&Medium { bytes, ..medium.clone() });
    tables.notes.iter().for_each(|note| candidate.tell(note));
    candidate.tell(format!(
        "no partition table says that there is a pool at byte {start_bytes}; its labels were found by a search"
    ));
    candidate
}

/// Marks those members that overlap one which was written later: only one of them can be whole.
fn settle_overlaps(found: &mut [Candidate]) {
    let mut older: Vec<(usize, String)> = Vec::new();
    for (first, one) in found.iter().enumerate() {
        for (second, other) in found.iter().enumerate().skip(first + 1) {
            if one.end_bytes() <= other.start_bytes() || other.end_bytes() <= one.start_bytes() {
                continue;
            }
            let rank = |candidate: &Candidate| (candidate.last_written(), candidate.valid_labels());
            let is_first_newer = rank(one) >= rank(other);
            let (newer, old, at_old) = if is_first_newer { (one, other, second) } else { (other, one, first) };
            let apart = newer.last_written().saturating_sub(old.last_written());
            newer.tell(format!(
                "it overlaps labels of {} {}; those were last written {apart} s earlier, and are not used",
                Claim(old),
                Range(old)
            ));
            let because = format!(
                "it overlaps {} {}, which was written {apart} s later: what is here may have been overwritten",
                Claim(newer),
                Range(newer)
            );
            old.tell(because.clone());
            older.push((at_old, because));
        }
    }
    for (index, because) in older {
        if let Some(candidate) = found.get_mut(index) {
            candidate.older = Some(because);
        }
    }
}

/// `pool tank (guid 7)`
struct Claim<'a>(&'a Candidate);

impl fmt::Display for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0.identity().and_then(Label::valid_config);
        match config.and_then(|config| Some((config.str("name")?, config.u64("pool_guid")?))) {
            Some((name, guid)) => write!(f, "pool {name} (guid {guid})"),
            None => f.write_str("a spare or cache device"),
        }
    }
}

/// `in partition 3`
struct Range<'a>(&'a Candidate);

impl fmt::Display for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.medium.partition() {
            Some(place) => match place.number {
                Some(number) => write!(f, "in partition {number}"),
                None => write!(f, "from byte {} on", place.start_bytes),
            },
            None => f.write_str("on the whole disk"),
        }
    }
}

/// The partitions of a disk with what lies in each, in one line, and what to do about the first that can be opened.
fn describe(medium: &Medium, tables: &Partitions) -> String {
    let mut parts = Vec::new();
    let mut advice = None;
    for partition in tables.list.iter().take(LISTED_MAX) {
        let window = Window::new(Arc::clone(&medium.bytes), partition.start_bytes, partition.size_bytes);
        let found = probe::recognise(&window);
        advice = advice.or(found.and_then(|found| found.advice));
        let labels = DeviceLabels::read(&window);
        let pool = labels.best().and_then(Label::valid_config).and_then(|config| config.str("name"));
        let what = match (pool, found) {
            (Some(pool), _) => format!("a member of the pool {pool}"),
            (None, Some(found)) => found.what.to_owned(),
            (None, None) => format!("type {}, nothing known in it", partition.kind),
        };
        let name = if partition.name.is_empty() { String::new() } else { format!(" \"{}\"", partition.name) };
        parts.push(format!("{}{name} of {}: {what}", partition.number, Size(partition.size_bytes)));
    }
    let more = match tables.list.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
    format!("its partitions ({}) are {}{more}{advice}", tables.tables(), parts.join("; "))
}

fn count(partitions: usize) -> String {
    let plural = if partitions == 1 { "" } else { "s" };
    format!("{partitions} partition{plural}")
}

/// A size in binary units, roughly.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let power = (self.0.max(1).ilog2() / 10).min(5);
        let unit = units.get(power as usize).copied().unwrap_or_default();
        match (power, self.0 >> (10 * power)) {
            (0, whole) => write!(f, "{whole} {unit}"),
            (_, whole) => {
                let tenths = ((self.0 >> (10 * (power - 1))).saturating_sub(whole << 10) * 10) >> 10;
                if tenths == 0 { write!(f, "{whole} {unit}") } else { write!(f, "{whole}.{tenths} {unit}") }
            }
        }
    }
}
