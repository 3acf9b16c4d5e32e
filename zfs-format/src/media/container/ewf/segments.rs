//! The segments of an image, and which chunks of the disk their tables are about.
//!
//! A table does not say at which chunk it begins. Where tables are missing (a segment is not there or was cut), those before
//! the gap are counted from the start of the disk and those behind it from its end, so a gap costs its own chunks.

use super::super::image::ImagePart;
use super::super::{Chain, ImageFile, le_u32, le_u64};
use super::section::{self, FileHeader, Section};
use super::volume::Volume;
use super::{SIGNATURE, adler32, unread};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use std::ops::Range;
use std::path::Path;

/// As many as have names (`.E01` to `.ZZZ`), rounded up.
const SEGMENTS_MAX: u16 = 15_000;
/// Missing segments in a row, after which no other is looked for.
const MISSING_MAX: u16 = 100;
/// Programs write 16375 to 65534.
const ENTRIES_MAX: u32 = 4 << 20;
/// Bytes of a table before its entries.
const TABLE_HEADER_BYTES: u64 = 24;

/// A table and its copy.
#[derive(Clone, Debug)]
pub(super) struct ChunkTable {
    /// The chunk of the disk that its first entry is about.
    pub(super) first: u64,
    /// How many chunks it is about.
    pub(super) count: u32,
    /// Index of the segment among the files of the image.
    pub(super) file: usize,
    /// What entries count from.
    pub(super) base: u64,
    /// Where the chunks end.
    pub(super) data_end: u64,
    /// Where the entries begin, in the table and its copy.
    pub(super) entries_at: Vec<u64>,
}

/// What the segments hold.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: Vec<ImagePart>,
    pub(super) volume: Option<Volume>,
    /// Tables in order; `None` where some are missing, nobody knows how many.
    pub(super) tables: Vec<Option<ChunkTable>>,
    /// Sectors that could not be read when the image was made.
    pub(super) unread: Vec<Range<u64>>,
    /// The first segment that is not there or cannot be used, if one was looked for.
    missing: Option<u16>,
}

/// Opens all segments and lists their tables.
pub(super) fn find(first: &ImageFile, chain: &Chain<'_>, notes: &Notes) -> Result<Found, MediaError> {
    let mut found = Found::default();
    let mut missing = 0;
    for number in 1..=SEGMENTS_MAX {
        let segment = if number == 1 { Some(first.clone()) } else { open(first, number, chain) };
        let Some(segment) = segment else {
            if missing == 0 {
                found.missing.get_or_insert(number);
                found.tables.push(None);
            }
            missing = u16::saturating_add(missing, 1);
            if missing > MISSING_MAX || name(&first.path, number).is_none() {
                break;
            }
            continue;
        };
        missing = 0;
        if found.read(&segment, notes) {
            break;
        }
    }
    Ok(found)
}

/// Opens the segment of this number, beside the first one.
fn open(first: &ImageFile, number: u16, chain: &Chain<'_>) -> Option<ImageFile> {
    let segment = chain.open_part(&first.path, &name(&first.path, number)?).ok()?;
    let header = FileHeader::read(&*segment.bytes).ok()?;
    (header.signature == *SIGNATURE && header.number == number).then_some(segment)
}

/// The name of the segment of this number, when the first one is at `first`.
pub(super) fn name(first: &Path, number: u16) -> Option<String> {
    let (stem, extension) = (first.file_stem()?.to_str()?, first.extension()?.to_str()?);
    let letter = extension.strip_suffix("01").filter(|rest| rest.len() == 1)?.bytes().next()?;
    if !letter.is_ascii_alphabetic() {
        return None;
    }
    let Some(above) = number.checked_sub(100) else {
        return Some(format!("{stem}.{}{number:02}", char::from(letter)));
    };
    let (start, last) = if letter.is_ascii_lowercase() { (b'a', b'z') } else { (b'A', b'Z') };
    let letter_at = |from: u8, index: u16| from.checked_add(u8::try_from(index).ok()?).filter(|&byte| byte <= last);
    let letters = [letter_at(letter, above / 676)?, letter_at(start, above / 26 % 26)?, letter_at(start, above % 26)?];
    Some(format!("{stem}.{}", String::from_utf8_lossy(&letters)))
}

impl Found {
    /// Adds what is in `segment`; whether it is the last one.
    fn read(&mut self, segment: &ImageFile, notes: &Notes) -> bool {
        let file = self.files.len();
        self.files.push(ImagePart::from(segment));
        let (sections, stop) = section::list(&*segment.bytes);
        // Whether there are chunks that no table tells of as yet, and where they end.
        let (mut is_open, mut data_end, mut has_table) = (false, None, false);
        for section in &sections {
            match section.kind.as_str() {
                "volume" | "disk" | "data" if self.volume.is_none() => {
                    self.volume = Volume::read(&*segment.bytes, section);
                    if self.volume.is_none() {
                        let message = format!("the section {} at byte {} is damaged", section.kind, section.start);
                        notes.add(NoteKind::ImageDamaged, &segment.path, message);
                    }
                }
                "sectors" => {
                    if is_open {
                        self.tables.push(None);
                    }
                    (is_open, data_end, has_table) = (true, Some(section.end), false);
                }
                "table" | "table2" => {
                    let is_copy = section.kind == "table2" && has_table;
                    let table = ChunkTable::read(&*segment.bytes, section, file, data_end);
                    let last = self.tables.last_mut().and_then(Option::as_mut);
                    match (table, last) {
                        (Some(table), Some(last)) if is_copy => {
                            if (table.count, table.base) == (last.count, last.base) {
                                last.entries_at.extend(table.entries_at);
                            }
                        }
                        (Some(table), _) => {
                            self.tables.push(Some(table));
                            (is_open, has_table) = (false, true);
                        }
                        (None, _) => {
                            let message = format!("the head of the table at byte {} is damaged", section.start);
                            notes.add(NoteKind::ImageDamaged, &segment.path, message);
                            // Unless there are chunks apart, they are in the table (SMART).
                            is_open |= !has_table;
                        }
                    }
                }
                "error2" => match unread::sectors(&*segment.bytes, section) {
                    Some(sectors) => self.unread.extend(sectors),
                    None => {
                        let message = "the list of sectors that could not be read when it was made is damaged";
                        notes.add(NoteKind::ImageDamaged, &segment.path, message);
                    }
                },
                _ => {}
            }
        }
        if is_open || stop.is_some() {
            self.tables.push(None);
        }
        if let Some((kind, why)) = stop {
            notes.add(kind, &segment.path, why);
        }
        sections.last().is_some_and(|section| section.kind == "done")
    }
}

impl ChunkTable {
    /// Reads the head of the table in `section`; `None` when that is damaged.
    ///
    /// | offset | size | content |
    /// | --- | --- | --- |
    /// | 0 | 4 | number of entries |
    /// | 8 | 8 | what the entries count from |
    /// | 20 | 4 | Adler-32 of what is before |
    fn read(file: &dyn ReadAt, section: &Section, index: usize, data_end: Option<u64>) -> Option<Self> {
        let mut header = [0; TABLE_HEADER_BYTES as usize];
        file.read_at(&mut header, section.start).ok()?;
        let (covered, _) = header.split_at(20);
        let count = le_u32(&header, 0);
        if adler32(covered) != le_u32(&header, 20) || count > ENTRIES_MAX {
            return None;
        }
        Some(Self {
            first: 0,
            count,
            file: index,
            base: le_u64(&header, 8),
            data_end: data_end.unwrap_or(section.end),
            entries_at: vec![section.start.saturating_add(TABLE_HEADER_BYTES)],
        })
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.count.into())
    }
}

/// Gives each table its place on a disk of `chunks` chunks. Tables between two gaps have none, and are dropped.
pub(super) fn place(found: &Found, chunks: u64, image: &ImageFile, notes: &Notes) -> Vec<ChunkTable> {
    let tables = &found.tables;
    let first_gap = tables.iter().position(Option::is_none).unwrap_or(tables.len());
    let last_gap = tables.iter().rposition(Option::is_none).unwrap_or(tables.len());
    let mut placed: Vec<ChunkTable> = Vec::new();
    let mut at = 0_u64;
    for table in tables.iter().take(first_gap).flatten() {
        placed.push(ChunkTable { first: at, ..table.clone() });
        at = at.saturating_add(table.count.into());
    }
    let mut behind: Vec<ChunkTable> = Vec::new();
    let mut end = chunks;
    for table in tables.iter().skip(last_gap).flatten().rev() {
        let Some(first) = end.checked_sub(table.count.into()).filter(|&first| first >= at) else {
            let message = "the tables behind a gap name more chunks than are left; they are not used";
            notes.add(NoteKind::ImageDamaged, &image.path, message);
            behind.clear();
            break;
        };
        behind.push(ChunkTable { first, ..table.clone() });
        end = first;
    }
    placed.extend(behind.into_iter().rev());
    if tables.iter().flatten().count() > placed.len() {
        let message = "some segments are whole, but those before and behind them are not, so their place is unknown";
        notes.add(NoteKind::ImageDamaged, &image.path, message);
    }
    let told: u64 = placed.iter().map(|table| u64::from(table.count)).sum();
    if told < chunks {
        let missing =
            found.missing.map_or(String::new(), |number| format!("; segment {number} is missing or unusable"));
        let message = format!("{} of {chunks} chunks are in no table that can be used{missing}", chunks - told);
        notes.add(NoteKind::ImageTruncated, &image.path, message);
    }
    placed
}

/// The table that tells of the chunk, or the chunk at which the next table begins.
pub(super) fn holding(tables: &[ChunkTable], chunk: u64) -> Result<&ChunkTable, Option<u64>> {
    let after = tables.partition_point(|table| table.first <= chunk);
    let before = after.checked_sub(1).and_then(|index| tables.get(index));
    // A table without entries may begin at the same chunk as the next one, which comes later.
    match before.filter(|table| chunk < table.end()) {
        Some(table) => Ok(table),
        None => Err(tables.get(after).map(|table| table.first)),
    }
}
