//! From a byte of the disk to a byte of the image, by the L1 table and an L2 table.

use super::super::image::{ImagePart, Layout, Place, Run};
use super::super::unpack::Codec;
use super::super::{Table, bad_table};
use super::entry::{Entry, OFFSET, Rules, SUBCLUSTERS, Sub, subclusters};
use super::{Header, MediaError, NoteKind, Notes, Snapshot, be_u64};
use std::ops::Range;
use std::sync::Arc;

/// Entries of an L2 table that are looked at for one answer.
const AHEAD_MAX: u64 = 128;

/// The tables of one state of the disk.
#[derive(Debug)]
pub(super) struct Clusters {
    rules: Rules,
    codec: Codec,
    l1_start: u64,
    l1_entries: u64,
    /// What no cluster of the disk can be in, and its name.
    taken: Vec<(Range<u64>, &'static str)>,
    l1: Table,
    l2: Table,
}

impl Clusters {
    pub(super) fn new(header: &Header, snapshot: &Snapshot) -> Self {
        let rules = Rules {
            version: header.version,
            cluster_bits: header.cluster_bits,
            is_extended: header.has_extended_l2(),
            has_data_file: header.has_data_file(),
        };
        let cluster_bytes = 1_u64 << rules.cluster_bits;
        // Tables have their clusters to themselves.
        let area = |start: u64, length: u64| {
            let clusters = length.div_ceil(cluster_bytes);
            start..start.saturating_add(clusters.saturating_mul(cluster_bytes))
        };
        let taken = vec![
            (area(0, cluster_bytes), "the header"),
            (area(header.l1_start, header.l1_entries.saturating_mul(8)), "the L1 table"),
            (area(snapshot.l1_start, snapshot.l1_entries.saturating_mul(8)), "the L1 table"),
            (
                area(header.refcounts_start, header.refcounts_clusters.saturating_mul(cluster_bytes)),
                "the table of reference counts",
            ),
        ];
        let (l1_start, l1_entries) = (snapshot.l1_start, snapshot.l1_entries);
        Self { rules, codec: header.codec, l1_start, l1_entries, taken, l1: Table::default(), l2: Table::default() }
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.rules.cluster_bits
    }

    fn entry_bytes(&self) -> u64 {
        if self.rules.is_extended { 16 } else { 8 }
    }

    /// The name of what lies at byte `at` of the image, when that is a table that every image has.
    fn taken_by(&self, at: u64) -> Option<&'static str> {
        self.taken.iter().find(|(range, _)| range.contains(&at)).map(|&(_, name)| name)
    }

    /// Where the L2 table of entry `index` of the L1 table begins; a run of `rest` bytes where there is none.
    fn l2_start(&self, index: u64, rest: u64, file: &ImagePart, notes: &Notes) -> Result<Result<u64, Run>, MediaError> {
        let damaged = |message: String, why: &'static str| {
            notes.add(NoteKind::ImageDamaged, &file.path, message);
            Ok(Err(Run::bad(rest, why)))
        };
        if index >= self.l1_entries {
            let message = format!("its L1 table has {} entries, too few for the disk", self.l1_entries);
            return damaged(message, "the L1 table is too short");
        }
        let at = self.l1_start.saturating_add(index.saturating_mul(8));
        let word = match self.l1.entry::<8>(&*file.bytes, at) {
            Ok(word) => u64::from_be_bytes(word),
            Err(error) => return bad_table(error, file, notes, rest, "L1 table", at).map(Err),
        };
        let start = word & OFFSET;
        if start == 0 && word == 0 {
            return Ok(Err(Run { length: rest, place: Place::Parent }));
        }
        let bad = if !start.is_multiple_of(self.cluster_bytes()) {
            Some("points inside of a cluster".to_owned())
        } else if start.saturating_add(8) > file.bytes.size_bytes() {
            Some("points beyond the end of the file".to_owned())
        } else {
            self.taken_by(start).map(|name| format!("points into {name}"))
        };
        if let Some(bad) = bad {
            return damaged(format!("entry {index} of the L1 table {bad}"), "an impossible entry of the L1 table");
        }
        Ok(Ok(start))
    }

    /// The run from `within` the cluster at `guest` to where that cluster changes.
    fn run_in_cluster(&self, entry: Entry, guest: u64, within: u64, files: &[ImagePart], notes: &Notes) -> Run {
        let cluster_bytes = self.cluster_bytes();
        let length = cluster_bytes.saturating_sub(within);
        let place = match entry {
            Entry::Unallocated => Place::Parent,
            Entry::Zero => Place::Zero,
            Entry::Stored(start) => return self.stored(start, guest, within, length, files, notes),
            Entry::Packed(start, packed_bytes) => {
                if let Some(bad) = self.impossible(start, packed_bytes.min(8), 0, guest, files, notes) {
                    return Run { length, place: bad };
                }
                Place::Packed {
                    file: 0,
                    offset: start,
                    length: packed_bytes,
                    cluster_start: guest,
                    cluster_bytes,
                    codec: self.codec,
                }
            }
            Entry::Mixed { start, bitmap } => {
                let sub_bytes = cluster_bytes / SUBCLUSTERS;
                let index = within / sub_bytes;
                let (kind, count) = subclusters(bitmap, index);
                let end = index.saturating_add(count).saturating_mul(sub_bytes);
                let length = end.saturating_sub(within);
                let place = match kind {
                    Sub::Unallocated => Place::Parent,
                    Sub::Zero => Place::Zero,
                    Sub::Stored => return self.stored(start, guest, within, length, files, notes),
                };
                return Run { length, place };
            }
            Entry::Bad(why) => self.bad_entry(guest, why, files, notes),
        };
        Run { length, place }
    }

    fn stored(&self, start: u64, guest: u64, within: u64, length: u64, files: &[ImagePart], notes: &Notes) -> Run {
        let file = usize::from(self.rules.has_data_file);
        let offset = start.saturating_add(within);
        let place = self.impossible(offset, 1, file, guest, files, notes).unwrap_or(Place::Stored { file, offset });
        Run { length, place }
    }

    /// What is wrong with `length` bytes at `at` of a file as content of the cluster at `guest`.
    fn impossible(
        &self,
        at: u64,
        length: u64,
        file: usize,
        guest: u64,
        files: &[ImagePart],
        notes: &Notes,
    ) -> Option<Place> {
        let part = files.get(file)?;
        let size = part.bytes.size_bytes();
        if at.saturating_add(length) > size {
            let message = format!("it ends at byte {size}, before the clusters that its tables name");
            notes.add(NoteKind::ImageTruncated, &part.path, message);
            return Some(Place::Bad { why: format!("beyond the end of {}", part.path.display()).into() });
        }
        if file != 0 {
            return None;
        }
        let name = self.taken_by(at)?;
        Some(self.bad_entry(guest, &format!("it points into {name}"), files, notes))
    }

    fn bad_entry(&self, guest: u64, why: &str, files: &[ImagePart], notes: &Notes) -> Place {
        if let Some(part) = files.first() {
            let message = format!("the entry of the L2 table for byte {guest} of the disk is impossible: {why}");
            notes.add(NoteKind::ImageDamaged, &part.path, message);
        }
        let why: Arc<str> = format!("an impossible entry of the L2 table: {why}").into();
        Place::Bad { why }
    }
}

impl Layout for Clusters {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let cluster_bytes = self.cluster_bytes();
        let entries_of_table = cluster_bytes / self.entry_bytes();
        let span = entries_of_table.saturating_mul(cluster_bytes);
        let (l1_index, in_span) = (offset / span, offset % span);
        let (l2_index, within) = (in_span / cluster_bytes, in_span % cluster_bytes);
        let Some(file) = files.first() else { return Ok(Run::bad(span - in_span, "no file")) };
        let start = match self.l2_start(l1_index, span - in_span, file, notes)? {
            Ok(start) => start,
            Err(run) => return Ok(run),
        };
        let at = start.saturating_add(l2_index.saturating_mul(self.entry_bytes()));
        let entries = if self.rules.is_extended {
            self.l2.entries::<16>(&*file.bytes, at)
        } else {
            self.l2.entries::<8>(&*file.bytes, at)
        };
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return bad_table(error, file, notes, cluster_bytes - within, "L2 table", at),
        };
        let first_guest = offset - within;
        let ahead = AHEAD_MAX.min(entries_of_table - l2_index);
        let mut run: Option<Run> = None;
        for index in 0..usize::try_from(ahead).unwrap_or(1) {
            let found = if self.rules.is_extended {
                entries.get::<16>(index).map(|entry| (be_u64(&entry, 0), be_u64(&entry, 8)))
            } else {
                entries.get::<8>(index).map(|entry| (u64::from_be_bytes(entry), 0))
            };
            let Some((word, bitmap)) = found else { break };
            let guest = first_guest.saturating_add((index as u64).saturating_mul(cluster_bytes));
            let entry = Entry::read(word, bitmap, guest, self.rules);
            let within = if index == 0 { within } else { 0 };
            let next = self.run_in_cluster(entry, guest, within, files, notes);
            let ends_here = next.length < cluster_bytes - within;
            run = match run {
                None => Some(next),
                Some(run) if run.goes_on_in(&next) => {
                    Some(Run { length: run.length.saturating_add(next.length), ..run })
                }
                done => return Ok(done.unwrap_or(next)),
            };
            if ends_here {
                break;
            }
        }
        Ok(run.unwrap_or_else(|| Run::bad(cluster_bytes - within, "no entry")))
    }
}
