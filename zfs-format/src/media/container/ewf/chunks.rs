//! Where each chunk of an E01 image is.
//!
//! An entry of a table has 4 bytes: the first bit says whether the chunk is compressed, the rest is where it begins. It ends
//! where the next one begins. What is not compressed has an Adler-32 behind it. The table of entries has one, too.

use super::super::image::{ImagePart, Layout, Place, Run};
use super::super::le_u32;
use super::super::unpack::Codec;
use super::adler32;
use super::segments::{ChunkTable, holding};
use super::unread::merged;
use super::volume::Volume;
use crate::media::{MediaError, NoteKind, Notes};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

const PACKED: u32 = 1 << 31;
const CHECKSUM_BYTES: u64 = 4;
/// Entries of tables that are kept, in bytes.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// The tables of all segments.
#[derive(Debug)]
pub(super) struct Chunks {
    volume: Volume,
    /// In the order of the disk.
    tables: Vec<ChunkTable>,
    /// Bytes of the disk that could not be read when the image was made, in order.
    unread: Vec<Range<u64>>,
    /// Entries read lately.
    kept: Mutex<VecDeque<Entries>>,
}

/// The entries of a table.
#[derive(Clone, Debug)]
struct Entries {
    /// The chunk its table begins with.
    first: u64,
    bytes: Arc<[u8]>,
    /// Whether their checksum is right.
    is_whole: bool,
}

impl Chunks {
    /// The chunks of `tables`, less the sectors `unread`.
    pub(super) fn new(volume: Volume, tables: Vec<ChunkTable>, unread: Vec<Range<u64>>) -> Self {
        let bytes_of = |sector: u64| sector.saturating_mul(volume.sector_bytes);
        let unread = merged(unread).iter().map(|range| bytes_of(range.start)..bytes_of(range.end)).collect();
        Self { volume, tables, unread, kept: Mutex::default() }
    }

    /// The entries of `table`: of the first of its copies that is whole, or else of the first that can be read.
    fn entries(&self, table: &ChunkTable, file: &ImagePart, notes: &Notes) -> Result<Entries, MediaError> {
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entries) = kept.iter().find(|entries| entries.first == table.first) {
                return Ok(entries.clone());
            }
        }
        let length = usize::try_from(u64::from(table.count) * 4).unwrap_or(0);
        let mut best: Option<Entries> = None;
        let mut failed = None;
        for &at in &table.entries_at {
            let available = file.bytes.size_bytes().saturating_sub(at);
            let wanted = length.saturating_add(4);
            if (wanted as u64) > available {
                failed = Some(MediaError::OutOfRange { offset: at, length: wanted, size: file.bytes.size_bytes() });
                continue;
            }
            let mut bytes = vec![0; wanted];
            if let Err(error) = file.bytes.read_at(&mut bytes, at) {
                let message = format!("the table of chunks at byte {at} cannot be read: {error}");
                notes.add(NoteKind::ImageDamaged, &file.path, message);
                failed = Some(error);
                continue;
            }
            let stored = le_u32(&bytes, length);
            bytes.truncate(length);
            let is_whole = adler32(&bytes) == stored;
            if !is_whole {
                let message = format!("the table of chunks at byte {at} is damaged");
                notes.add(NoteKind::ImageDamaged, &file.path, message);
            }
            if is_whole || best.is_none() {
                best = Some(Entries { first: table.first, bytes: bytes.into(), is_whole });
            }
            if is_whole {
                break;
            }
        }
        let entries = match (best, failed) {
            (Some(entries), _) => entries,
            (None, Some(error)) => return Err(error),
            (None, None) => Entries { first: table.first, bytes: Vec::new().into(), is_whole: false },
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(entries.clone());
        let mut total: usize = kept.iter().map(|entries| entries.bytes.len()).sum();
        while total > KEPT_BYTES_MAX && kept.len() > 1 {
            total -= kept.pop_front().map_or(0, |entries| entries.bytes.len());
        }
        Ok(entries)
    }

    /// Where `chunk` is, which is number `index` of `table` and has `bytes` bytes on the disk.
    fn place(&self, table: &ChunkTable, entries: &Entries, chunk: u64, bytes: u64) -> Option<Place> {
        let index = usize::try_from(chunk.checked_sub(table.first)?).ok()?;
        let entry_at = |index: usize| {
            let inside = index.checked_mul(4).filter(|&at| at < entries.bytes.len());
            inside.map(|at| le_u32(&entries.bytes, at))
        };
        let offset_of = |entry: u32| table.base.checked_add(u64::from(entry & !PACKED));
        let entry = entry_at(index)?;
        let offset = offset_of(entry)?;
        let end = entry_at(index.checked_add(1)?).and_then(offset_of).unwrap_or(table.data_end);
        let stored = end.checked_sub(offset).filter(|&stored| stored > 0 && end <= table.data_end)?;
        if entry & PACKED != 0 {
            // Deflate makes nothing longer by more than a few bytes.
            let length = stored.min(bytes.saturating_mul(2).saturating_add(1024));
            let cluster_start = chunk.checked_mul(self.volume.chunk_bytes)?;
            let codec = Codec::Zlib;
            return Some(Place::Packed {
                file: table.file,
                offset,
                length,
                cluster_start,
                cluster_bytes: bytes,
                codec,
            });
        }
        // The word of a damaged table counts where it is about as many bytes as there must be.
        let is_exact = stored == bytes.saturating_add(CHECKSUM_BYTES);
        (is_exact || (entries.is_whole && stored >= bytes)).then_some(Place::Stored { file: table.file, offset })
    }
}

impl Layout for Chunks {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let next = self.unread.get(self.unread.partition_point(|range| range.end <= offset));
        if let Some(range) = next.filter(|range| range.start <= offset) {
            let lost = range.end.saturating_sub(offset);
            return Ok(Run::bad(lost, "it could not be read when the image was made"));
        }
        let mut run = self.stored_at(offset, files, notes)?;
        run.length = next.map_or(run.length, |range| run.length.min(range.start.saturating_sub(offset)));
        Ok(run)
    }
}

impl Chunks {
    /// The run at `offset`, as the tables tell.
    fn stored_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let chunk_bytes = self.volume.chunk_bytes;
        let (chunk, within) = (offset / chunk_bytes, offset % chunk_bytes);
        let bytes = chunk_bytes.min(self.volume.disk_bytes.saturating_sub(chunk.saturating_mul(chunk_bytes)));
        let length = bytes.saturating_sub(within).max(1);
        let table = match holding(&self.tables, chunk) {
            Ok(table) => table,
            Err(next) => {
                let end = next.map_or(self.volume.disk_bytes, |next| next.saturating_mul(chunk_bytes));
                let lost = end.saturating_sub(offset).max(1);
                return Ok(Run::bad(lost, "it lies in a segment of the image that is missing or damaged"));
            }
        };
        let Some(file) = files.get(table.file) else { return Ok(Run::bad(length, "no file")) };
        let entries = match self.entries(table, file, notes) {
            Ok(entries) => entries,
            Err(error) => {
                let at = table.entries_at.first().copied().unwrap_or(0);
                return super::super::bad_table(error, file, notes, length, "table of chunks", at);
            }
        };
        match self.place(table, &entries, chunk, bytes) {
            Some(place) => {
                let place = match place {
                    Place::Stored { file, offset } => Place::Stored { file, offset: offset.saturating_add(within) },
                    other => other,
                };
                Ok(Run { length, place })
            }
            None => {
                let message = format!("the table of chunks has an impossible place for chunk {chunk}");
                notes.add(NoteKind::ImageDamaged, &file.path, message);
                Ok(Run::bad(length, "an impossible entry of the table of chunks"))
            }
        }
    }
}
