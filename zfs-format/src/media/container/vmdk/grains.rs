//! Grains of an extent, found through its directory and its grain tables.
//!
//! A directory has an entry for each grain table, a table one for each grain. Hosted extents may have both twice: the copies
//! are compared as they are read, and the one that can be right is used.

use super::super::image::{ImagePart, Place, Run};
use super::super::unpack::Codec;
use super::super::{Table, bad_table, table};
use super::markers;
use crate::media::{MediaError, NoteKind, Notes};

const SECTOR_BYTES: u64 = 512;
/// A run looks ahead over so many bytes of the disk, or one grain: enough for long reads, little for short ones.
const LOOK_AHEAD_BYTES: u64 = 1 << 20;
/// Slack of what a file may have besides grains, when wild numbers are told from a file that was cut.
const METADATA_BYTES_MAX: u64 = 1 << 30;

/// How entries are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entries {
    /// 32 bits: the number of a sector, 0 for nothing.
    Sectors {
        /// The number 1 means zeros.
        one_is_zero: bool,
        /// Grains are compressed; with a marker before each or without.
        packing: Option<bool>,
    },
    /// 64 bits, of which the first four say what follows.
    SeSparse {
        /// Where the grain tables begin.
        tables: u64,
        /// How many bytes they have.
        tables_bytes: u64,
        /// Where the grains begin.
        grains: u64,
    },
}

/// The grains of one extent.
#[derive(Debug)]
pub(super) struct Grains {
    /// Index of the file.
    pub(super) file: usize,
    /// Bytes of the disk.
    pub(super) disk_bytes: u64,
    /// Bytes of a grain.
    pub(super) grain_bytes: u64,
    /// Entries of a grain table.
    pub(super) per_table: u64,
    /// Entries of the directory.
    pub(super) directories: u64,
    /// Where the directory begins.
    pub(super) directory: u64,
    /// Where its copy begins, which has grain tables of its own.
    pub(super) second: Option<u64>,
    /// How entries are written.
    pub(super) entries: Entries,
    /// What was read of all that.
    pub(super) table: Table,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Nothing,
    Zero,
    /// The byte at which the table or grain begins.
    At(u64),
    Bad,
}

/// What the entry of the directory leads to.
enum Tables {
    Nothing,
    Found { first: u64, second: Option<u64> },
    Bad(Run),
}

/// Entries that follow each other.
enum Row {
    Short(table::Entries),
    Long(table::Entries),
}

impl Row {
    fn word(&self, index: usize) -> Option<u64> {
        match self {
            Self::Short(entries) => entries.get(index).map(|word| u32::from_le_bytes(word).into()),
            Self::Long(entries) => entries.get(index).map(u64::from_le_bytes),
        }
    }
}

impl Grains {
    /// The run at byte `within` of the extent.
    ///
    /// # Errors
    /// As those of a layout.
    pub(super) fn run_at(&self, within: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let Some(file) = files.get(self.file) else { return Ok(Run::bad(1, "no file")) };
        let grain = within / self.grain_bytes;
        let (number, index) = (grain / self.per_table, grain % self.per_table);
        let left_of_table = self.per_table.saturating_sub(index).saturating_mul(self.grain_bytes);
        let left = left_of_table.saturating_sub(within % self.grain_bytes);
        match self.tables(number, file, notes, left)? {
            Tables::Nothing => Ok(Run { length: left, place: Place::Parent }),
            Tables::Bad(run) => Ok(run),
            Tables::Found { first, second } => self.grain_run(within, first, second, file, notes),
        }
    }

    fn width(&self) -> u64 {
        match self.entries {
            Entries::Sectors { .. } => 4,
            Entries::SeSparse { .. } => 8,
        }
    }

    /// Where the grain tables are that the entry `number` of the directory leads to. It concerns `left` bytes.
    fn tables(&self, number: u64, file: &ImagePart, notes: &Notes, left: u64) -> Result<Tables, MediaError> {
        if number >= self.directories {
            notes.add(NoteKind::ImageDamaged, &file.path, "its directory is too short for its disk");
            return Ok(Tables::Bad(Run::bad(left, "beyond the end of the grain directory")));
        }
        let at = |directory: u64| directory.saturating_add(number.saturating_mul(self.width()));
        let read = |directory: u64| self.word(file, at(directory)).map(|word| self.table_of(word, file));
        let first = read(self.directory);
        let second = match self.second.map(read) {
            Some(Ok(entry)) => Some(entry),
            Some(Err(error)) if is_passing(&error) => return Err(error),
            _ => None,
        };
        let copy_used = |why: &str| {
            let message = format!("entry {number} of its grain directory {why}; the redundant directory was used");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
        };
        match (first, second) {
            (Ok(Entry::At(first)), second) => {
                let second = match second {
                    Some(Entry::At(second)) => Some(second).filter(|second| *second != first),
                    _ => None,
                };
                Ok(Tables::Found { first, second })
            }
            (Ok(Entry::Nothing), Some(Entry::At(copy))) => {
                copy_used("is empty");
                Ok(Tables::Found { first: copy, second: None })
            }
            (Ok(Entry::Nothing), _) => Ok(Tables::Nothing),
            (Err(error), _) if is_passing(&error) => Err(error),
            (_, Some(Entry::At(copy))) => {
                copy_used("is damaged");
                Ok(Tables::Found { first: copy, second: None })
            }
            (_, Some(Entry::Nothing)) => {
                copy_used("is damaged");
                Ok(Tables::Nothing)
            }
            (Ok(_), _) => {
                let message = format!("entry {number} of its grain directory leads to no grain table of the file");
                notes.add(NoteKind::ImageDamaged, &file.path, message);
                Ok(Tables::Bad(Run::bad(left, "an impossible entry of the grain directory")))
            }
            (Err(error), _) => {
                bad_table(error, file, notes, left, "grain directory", at(self.directory)).map(Tables::Bad)
            }
        }
    }

    /// What an entry of the directory says.
    fn table_of(&self, word: u64, file: &ImagePart) -> Entry {
        let bytes = self.per_table.saturating_mul(self.width());
        let found = match self.entries {
            _ if word == 0 => return Entry::Nothing,
            Entries::Sectors { .. } => word.saturating_mul(SECTOR_BYTES),
            Entries::SeSparse { tables, tables_bytes, .. } => {
                let start = (word & 0x0fff_ffff_ffff_ffff).saturating_mul(bytes);
                if word >> 60 != 1 || start.saturating_add(bytes) > tables_bytes {
                    return Entry::Bad;
                }
                tables.saturating_add(start)
            }
        };
        if found.saturating_add(bytes) > file.bytes.size_bytes() { Entry::Bad } else { Entry::At(found) }
    }

    /// What an entry of a grain table says.
    fn grain_of(&self, word: u64, size: u64) -> Entry {
        let found = match self.entries {
            Entries::Sectors { one_is_zero, .. } => match word {
                0 => return Entry::Nothing,
                1 if one_is_zero => return Entry::Zero,
                1 => return Entry::Bad,
                _ => word.saturating_mul(SECTOR_BYTES),
            },
            Entries::SeSparse { grains, .. } => match word >> 60 {
                0 if word == 0 => return Entry::Nothing,
                // Given back by the guest (SCSI UNMAP), or written as zeros.
                1 | 2 => return Entry::Zero,
                3 => {
                    let number = (word >> 48 & 0xfff) | (word & 0xffff_ffff_ffff) << 12;
                    grains.saturating_add(number.saturating_mul(self.grain_bytes))
                }
                _ => return Entry::Bad,
            },
        };
        if found >= size { Entry::Bad } else { Entry::At(found) }
    }

    fn word(&self, file: &ImagePart, at: u64) -> Result<u64, MediaError> {
        if self.width() == 4 {
            return self.table.entry::<4>(&*file.bytes, at).map(|word| u32::from_le_bytes(word).into());
        }
        self.table.entry::<8>(&*file.bytes, at).map(u64::from_le_bytes)
    }

    /// Entries from byte `at` on.
    fn row(&self, file: &ImagePart, at: u64) -> Result<Row, MediaError> {
        if self.width() == 4 {
            return self.table.entries::<4>(&*file.bytes, at).map(Row::Short);
        }
        self.table.entries::<8>(&*file.bytes, at).map(Row::Long)
    }

    /// The run at byte `within`, whose grain table is at `first`, with a copy at `second`.
    fn grain_run(
        &self,
        within: u64,
        first: u64,
        second: Option<u64>,
        file: &ImagePart,
        notes: &Notes,
    ) -> Result<Run, MediaError> {
        let (grain, inside) = (within / self.grain_bytes, within % self.grain_bytes);
        let index = grain % self.per_table;
        let ahead = (LOOK_AHEAD_BYTES / self.grain_bytes).clamp(1, self.per_table.saturating_sub(index));
        let place = index.saturating_mul(self.width());
        let read = |table: u64| self.row(file, table.saturating_add(place));
        let (row, copy) = match (read(first), second.map(read)) {
            (Err(error), _) | (_, Some(Err(error))) if is_passing(&error) => return Err(error),
            (Ok(row), copy) => (row, copy.and_then(Result::ok)),
            (Err(_), Some(Ok(copy))) => {
                let message = "a grain table cannot be read; the redundant one was used";
                notes.add(NoteKind::ImageDamaged, &file.path, message);
                (copy, None)
            }
            (Err(error), _) => {
                // What the sector of the table covers.
                let at = first.saturating_add(place);
                let entries = (SECTOR_BYTES - at % SECTOR_BYTES) / self.width();
                let entries = entries.clamp(1, self.per_table.saturating_sub(index));
                let length = entries.saturating_mul(self.grain_bytes).saturating_sub(inside);
                return bad_table(error, file, notes, length, "grain table", at);
            }
        };
        let size = file.bytes.size_bytes();
        let word = row.word(0).unwrap_or(0);
        if let Some(copy) = copy.as_ref().and_then(|copy| copy.word(0)).filter(|copy| *copy != word) {
            return self.differing((word, copy), within, file, notes);
        }
        let entry = self.grain_of(word, size);
        match (entry, self.entries) {
            (Entry::Bad, _) => return Ok(self.bad_grain(word, within, file, notes)),
            (Entry::At(at), Entries::Sectors { packing: Some(has_marker), .. }) => {
                return self.packed(at, has_marker, within, file, notes);
            }
            _ => {}
        }
        let mut grains = 1_u64;
        for number in 1..usize::try_from(ahead).unwrap_or(1) {
            let Some(word) = row.word(number) else { break };
            let is_agreed = copy.as_ref().is_none_or(|copy| copy.word(number) == Some(word));
            let expected = match entry {
                Entry::At(at) => Entry::At(at.saturating_add(grains.saturating_mul(self.grain_bytes))),
                other => other,
            };
            if !is_agreed || self.grain_of(word, size) != expected {
                break;
            }
            grains = grains.saturating_add(1);
        }
        let length = grains.saturating_mul(self.grain_bytes).saturating_sub(inside);
        Ok(Run { length, place: self.place(entry, inside) })
    }

    fn place(&self, entry: Entry, inside: u64) -> Place {
        match entry {
            Entry::At(at) => Place::Stored { file: self.file, offset: at.saturating_add(inside) },
            Entry::Zero => Place::Zero,
            Entry::Nothing => Place::Parent,
            Entry::Bad => Place::Bad { why: "an impossible entry of the grain table".into() },
        }
    }

    /// A grain whose two tables may say different things: the one that can be right is used, the first if both can.
    fn differing(
        &self,
        (word, copy): (u64, u64),
        within: u64,
        file: &ImagePart,
        notes: &Notes,
    ) -> Result<Run, MediaError> {
        let size = file.bytes.size_bytes();
        let (first, second) = (self.grain_of(word, size), self.grain_of(copy, size));
        let chosen = match (first, second) {
            (first, second) if first == second => first,
            // A table of zeros is what a lost write leaves. Data that was written is worth a look.
            (Entry::Nothing | Entry::Bad, Entry::At(_)) | (Entry::Bad, Entry::Nothing | Entry::Zero) => second,
            _ => first,
        };
        if word != copy {
            let which = if chosen == first { "the first was used" } else { "the second was used" };
            let grain = within / self.grain_bytes;
            let message = format!("its two grain tables say {word} and {copy} of grain {grain}; {which}");
            notes.add(NoteKind::ImageDamaged, &file.path, message);
        }
        let inside = within % self.grain_bytes;
        match (chosen, self.entries) {
            (Entry::Bad, _) => Ok(self.bad_grain(word, within, file, notes)),
            (Entry::At(at), Entries::Sectors { packing: Some(has_marker), .. }) => {
                self.packed(at, has_marker, within, file, notes)
            }
            _ => Ok(Run { length: self.grain_bytes.saturating_sub(inside), place: self.place(chosen, inside) }),
        }
    }

    /// A grain whose entry cannot be right, or leads to a part of the file that was cut off.
    fn bad_grain(&self, word: u64, within: u64, file: &ImagePart, notes: &Notes) -> Run {
        let grain = within / self.grain_bytes;
        let length = self.grain_bytes.saturating_sub(within % self.grain_bytes);
        let size = file.bytes.size_bytes();
        let place = match self.grain_of(word, u64::MAX) {
            Entry::At(at) => Some(at),
            _ => None,
        };
        // A file holds its grains once, and tables besides.
        let likely = self.disk_bytes.saturating_mul(2).saturating_add(METADATA_BYTES_MAX);
        if place.is_some_and(|place| place < likely) {
            let message = format!("it ends at byte {size}, before grains that its tables name");
            notes.add(NoteKind::ImageTruncated, &file.path, message);
            return Run::bad(length, format!("beyond the end of {}", file.path.display()));
        }
        let message = format!("the grain table has the impossible entry {word:#x} for grain {grain}");
        notes.add(NoteKind::ImageDamaged, &file.path, message);
        Run::bad(length, "an impossible entry of the grain table")
    }

    /// The compressed grain at byte `at` of the file.
    fn packed(
        &self,
        at: u64,
        has_marker: bool,
        within: u64,
        file: &ImagePart,
        notes: &Notes,
    ) -> Result<Run, MediaError> {
        let inside = within % self.grain_bytes;
        let start = within.saturating_sub(inside);
        // The last grain holds what is left of the disk.
        let bytes = self.grain_bytes.min(self.disk_bytes.saturating_sub(start));
        let length = bytes.saturating_sub(inside).max(1);
        let (offset, packed_bytes) = if has_marker {
            let found = match markers::grain_at(&*file.bytes, at) {
                Ok(found) => found,
                Err(error) => return bad_table(error, file, notes, length, "marker of a grain", at),
            };
            let is_this = found.is_some_and(|marker| marker.sector == start / SECTOR_BYTES);
            let Some(marker) = found.filter(|_| is_this) else {
                let message = format!("the marker at byte {at} is not that of the grain at byte {start} of the extent");
                notes.add(NoteKind::ImageDamaged, &file.path, message);
                return Ok(Run::bad(length, "a compressed grain with a wrong marker"));
            };
            (marker.data, marker.bytes)
        } else {
            (at, self.grain_bytes.saturating_mul(2))
        };
        let place = Place::Packed {
            file: self.file,
            offset,
            length: packed_bytes,
            cluster_start: start,
            cluster_bytes: bytes,
            codec: Codec::Zlib,
        };
        Ok(Run { length, place })
    }
}

/// Whether a later try could succeed: not where the file is too short or the medium failed for good.
fn is_passing(error: &MediaError) -> bool {
    !matches!(error, MediaError::OutOfRange { .. } | MediaError::Read { .. })
}

/// The place of a compressed grain on the whole disk, where its extent begins at `start`.
pub(super) fn moved(run: Run, start: u64) -> Run {
    match run.place {
        Place::Packed { file, offset, length, cluster_start, cluster_bytes, codec } => {
            let cluster_start = cluster_start.saturating_add(start);
            Run { place: Place::Packed { file, offset, length, cluster_start, cluster_bytes, codec }, ..run }
        }
        _ => run,
    }
}
