//! The log of changes to the tables, a ring of sectors of 4 KiB.
//!
//! | offset | size | content of an entry's first sector |
//! | --- | --- | --- |
//! | 0 | 4 | `loge` |
//! | 4 | 4 | checksum of the whole entry |
//! | 8, 12 | 4 each | length of the entry; where in the log the oldest entry begins that still counts |
//! | 16 | 8 | sequence number |
//! | 24 | 4 | number of descriptors |
//! | 32 | 16 | GUID of the log |
//! | 48, 56 | 8 each | how long the file was when the entry was written, and is once it is replayed |
//! | 64 | 32 each | descriptors, up to whole sectors |
//!
//! A descriptor is `zero`, length (8 bytes at 8), place (16), sequence number (24); or `desc`, the last 4 bytes of a sector
//! (4), its first 8 (8), place (16), sequence number (24), with the rest of the sector in one behind the descriptors. That
//! begins with `data` and the high half of the sequence number, and ends with the low half.
//!
//! What counts is the sequence of entries with the highest numbers of those in which the last entry's tail is one of the
//! entries: from that on. Source: \[MS-VHDX\] 2.3 "Log".

use super::header::Header;
use super::overlay::Changes;
use super::{CRC, Guid, add_first, le_u32, le_u64};
use crate::media::{MediaError, ReadAt};

pub(super) const SECTOR_BYTES: u64 = 4096;
/// Bytes of the log that are read at once.
const PIECE_BYTES: u64 = 64 << 10;
const DESCRIPTOR_BYTES: usize = 32;
/// Slots of a descriptor's size that the header of an entry takes.
const HEADER_SLOTS: u64 = 2;
/// Changes that are kept: those of 4 GiB of logged sectors.
const CHANGES_MAX: usize = 1 << 20;
/// No file is longer.
const FILE_BYTES_MAX: u64 = 1 << 62;

/// What a range of the file becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Zero,
    /// A sector which is in the log, at byte `at` of the file, except for its first and last bytes.
    Sector {
        at: u64,
        first: [u8; 8],
        last: [u8; 4],
    },
}

/// What replaying the log does.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) changes: Changes,
    pub(super) entries: usize,
    /// How long the file was when the log was written.
    pub(super) flushed_bytes: u64,
    /// How long it is with the changes.
    pub(super) last_bytes: u64,
}

/// Finds the entries of the log of `file` that count, and what they change. The error says why that is not possible.
pub(super) fn replay(file: &dyn ReadAt, header: &Header) -> Result<Replay, String> {
    if let Some(fault) = header.log_fault(file) {
        return Err(fault.to_owned());
    }
    // A ring is walked twice at most, each entry read thrice; the rest is for entries that lie about their length.
    let budget = header.log_bytes.saturating_mul(8).saturating_add(64 << 20);
    let (start, length, guid) = (header.log_start, header.log_bytes, header.log_guid);
    let mut log = Log { file, start, length, guid, budget };
    let entries = log.active().map_err(|error| error.to_string())?;
    let Some(last) = entries.last() else { return Err("no part of it is whole".to_owned()) };
    let mut changes = Changes::default();
    for entry in &entries {
        log.visit(entry, |start, end, change| {
            changes.add(start, end, change);
            changes.len() <= CHANGES_MAX
        })
        .map_err(|error| error.to_string())?
        .ok_or("it is too large")?;
    }
    Ok(Replay { changes, entries: entries.len(), flushed_bytes: last.flushed_bytes, last_bytes: last.last_bytes })
}

/// The ring.
struct Log<'a> {
    file: &'a dyn ReadAt,
    start: u64,
    length: u64,
    guid: Guid,
    /// Bytes that may still be read.
    budget: u64,
}

/// A whole entry of the log.
#[derive(Clone, Debug)]
struct Entry {
    at: u64,
    length: u64,
    tail: u64,
    sequence: u64,
    descriptors: u64,
    flushed_bytes: u64,
    last_bytes: u64,
}

impl Entry {
    fn parse(at: u64, bytes: &[u8]) -> Self {
        Self {
            at,
            length: le_u32(bytes, 8).into(),
            tail: le_u32(bytes, 12).into(),
            sequence: le_u64(bytes, 16),
            descriptors: le_u32(bytes, 24).into(),
            flushed_bytes: le_u64(bytes, 48),
            last_bytes: le_u64(bytes, 56),
        }
    }

    /// Sectors that hold its descriptors.
    fn descriptor_sectors(&self) -> u64 {
        let slots = self.descriptors.saturating_add(HEADER_SLOTS);
        slots.div_ceil(SECTOR_BYTES / DESCRIPTOR_BYTES as u64)
    }

    /// Whether its numbers can be those of an entry in a log of `length` bytes.
    fn is_possible(&self, length: u64) -> bool {
        let is_whole = |number: u64| number.is_multiple_of(SECTOR_BYTES);
        let is_file = |number: u64| number <= FILE_BYTES_MAX;
        is_whole(self.length)
            && (SECTOR_BYTES..=length).contains(&self.length)
            && is_whole(self.tail)
            && self.tail < length
            && self.sequence > 0
            && self.descriptor_sectors().saturating_mul(SECTOR_BYTES) <= self.length
            && is_file(self.flushed_bytes)
            && is_file(self.last_bytes)
    }

    /// Whether `sector` is one with data of this entry.
    fn is_data(&self, sector: &[u8]) -> bool {
        let number = u64::from(le_u32(sector, 4)) << 32 | u64::from(le_u32(sector, SECTOR_BYTES as usize - 4));
        sector.starts_with(b"data") && number == self.sequence
    }
}

/// A descriptor.
#[derive(Clone, Copy, Debug)]
enum Descriptor {
    Zero { start: u64, end: u64 },
    Data { start: u64, first: [u8; 8], last: [u8; 4] },
}

impl Descriptor {
    fn parse(bytes: &[u8], sequence: u64) -> Option<Self> {
        let (start, length) = (le_u64(bytes, 16), le_u64(bytes, 8));
        let end = match bytes.get(..4)? {
            b"zero" => start.checked_add(length)?,
            b"desc" => start.checked_add(SECTOR_BYTES)?,
            _ => return None,
        };
        let is_possible = start.is_multiple_of(SECTOR_BYTES)
            && end.is_multiple_of(SECTOR_BYTES)
            && end <= FILE_BYTES_MAX
            && le_u64(bytes, 24) == sequence;
        let found = if bytes.starts_with(b"zero") {
            Self::Zero { start, end }
        } else {
            let (first, last) = (bytes.get(8..)?.first_chunk()?, bytes.get(4..)?.first_chunk()?);
            Self::Data { start, first: *first, last: *last }
        };
        is_possible.then_some(found)
    }
}

/// Why the log is given up.
enum Fault {
    Media(MediaError),
    /// Its entries claim to be longer than the log, again and again.
    Tangled,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Media(error) => error.fmt(f),
            Self::Tangled => f.write_str("its entries lie over each other"),
        }
    }
}

impl From<MediaError> for Fault {
    fn from(error: MediaError) -> Self {
        Self::Media(error)
    }
}

impl Log<'_> {
    /// Where in the file byte `at` of the ring is.
    fn place(&self, at: u64) -> u64 {
        self.start.saturating_add(at % self.length)
    }

    /// The entries that count, in their order; none where no sequence is whole.
    fn active(&mut self) -> Result<Vec<Entry>, Fault> {
        let mut best: Vec<Entry> = Vec::new();
        let mut at = 0;
        while at < self.length {
            let sequence = self.sequence_at(at)?;
            let Some(last) = sequence.last() else {
                at = at.saturating_add(SECTOR_BYTES);
                continue;
            };
            // Parts of this sequence end in the same entry, so the next one begins behind it.
            let next = last.at.saturating_add(last.length);
            let is_newer = best.last().is_none_or(|found| found.sequence < last.sequence);
            let tail = sequence.iter().position(|entry| entry.at == last.tail);
            if let (true, Some(tail)) = (is_newer, tail) {
                best = sequence.get(tail..).unwrap_or_default().to_vec();
            }
            if next % self.length <= at {
                break;
            }
            at = next;
        }
        Ok(best)
    }

    /// The entries in a row that begin at `at`.
    fn sequence_at(&mut self, at: u64) -> Result<Vec<Entry>, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut head, mut used) = (at, 0_u64);
        while let Some(entry) = self.entry_at(head)? {
            used = used.saturating_add(entry.length);
            let follows = entries.last().is_none_or(|last| last.sequence.checked_add(1) == Some(entry.sequence));
            if !follows || used > self.length {
                break;
            }
            head = entry.at.saturating_add(entry.length) % self.length;
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The entry that begins at `at`, if there is one and it is whole.
    fn entry_at(&mut self, at: u64) -> Result<Option<Entry>, Fault> {
        let mut header = [0; 64];
        self.read(&mut header, at)?;
        let entry = Entry::parse(at, &header);
        let is_mine = header.starts_with(b"loge") && Guid::at(&header, 32) == self.guid;
        if !is_mine || !entry.is_possible(self.length) {
            return Ok(None);
        }
        let mut digest = CRC.digest();
        let mut is_first = true;
        let is_read = self.sectors(&entry, 0..entry.length / SECTOR_BYTES, |_, sector| {
            if is_first {
                add_first(&mut digest, sector);
            } else {
                digest.update(sector);
            }
            is_first = false;
            true
        })?;
        if !is_read || digest.finalize() != le_u32(&header, 4) {
            return Ok(None);
        }
        let (is_whole, mut data) = (self.visit(&entry, |_, _, _| true)?.is_some(), 0_u64);
        let data_sectors = entry.descriptor_sectors()..entry.length / SECTOR_BYTES;
        let has_data = self.sectors(&entry, data_sectors, |_, sector| {
            data = data.saturating_add(1);
            entry.is_data(sector)
        })?;
        Ok((is_whole && has_data).then_some(entry))
    }

    /// Calls `found` with each change of `entry` until it returns `false`. `None` when it did, or a descriptor is damaged.
    fn visit(&mut self, entry: &Entry, mut found: impl FnMut(u64, u64, Change) -> bool) -> Result<Option<()>, Fault> {
        let mut left = entry.descriptors;
        let mut data = entry.descriptor_sectors();
        let (sectors, start, length) = (entry.length / SECTOR_BYTES, self.start, self.length);
        let is_whole = self.sectors(entry, 0..entry.descriptor_sectors(), |number, sector| {
            let skipped = if number == 0 { HEADER_SLOTS as usize } else { 0 };
            for bytes in sector.chunks_exact(DESCRIPTOR_BYTES).skip(skipped) {
                if left == 0 {
                    break;
                }
                left = left.saturating_sub(1);
                let is_good = match Descriptor::parse(bytes, entry.sequence) {
                    Some(Descriptor::Zero { start, end }) => found(start, end, Change::Zero),
                    Some(Descriptor::Data { start: to, first, last }) if data < sectors => {
                        let ring = entry.at.saturating_add(data.saturating_mul(SECTOR_BYTES)) % length;
                        data = data.saturating_add(1);
                        let at = start.saturating_add(ring);
                        found(to, to.saturating_add(SECTOR_BYTES), Change::Sector { at, first, last })
                    }
                    _ => false,
                };
                if !is_good {
                    return false;
                }
            }
            true
        })?;
        Ok((is_whole && data == sectors).then_some(()))
    }

    /// Calls `found` with sectors of `entry` until it returns `false`; returns whether it never did.
    fn sectors(
        &mut self,
        entry: &Entry,
        numbers: std::ops::Range<u64>,
        mut found: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<bool, Fault> {
        let mut number = numbers.start;
        let mut piece = Vec::new();
        while number < numbers.end {
            let at = entry.at.saturating_add(number.saturating_mul(SECTOR_BYTES)) % self.length;
            let wanted = (numbers.end - number).saturating_mul(SECTOR_BYTES);
            let length = wanted.min(PIECE_BYTES).min(self.length - at);
            piece.resize(usize::try_from(length).unwrap_or(0), 0);
            self.read(&mut piece, at)?;
            for sector in piece.chunks_exact(SECTOR_BYTES as usize) {
                if !found(number, sector) {
                    return Ok(false);
                }
                number = number.saturating_add(1);
            }
        }
        Ok(true)
    }

    fn read(&mut self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.budget = self.budget.checked_sub(buffer.len() as u64).ok_or(Fault::Tangled)?;
        Ok(self.file.read_at(buffer, self.place(at))?)
    }
}
