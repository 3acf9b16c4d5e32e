//! A file as it is once its log is replayed; the file itself stays as it was.

use super::log::{Change, Replay, SECTOR_BYTES};
use crate::media::{Content, Extent, MediaError, Note, ReadAt, check_range};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Changes to a file, by the byte at which they begin, with the byte at which they end. None overlap.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<u64, (u64, Change)>);

impl Changes {
    /// Adds a change, over earlier ones.
    pub(super) fn add(&mut self, start: u64, end: u64, change: Change) {
        if start >= end {
            return;
        }
        let before = self.0.range(..start).next_back().map(|(&at, &(until, old))| (at, until, old));
        if let Some((at, until, old)) = before.filter(|(_, until, _)| *until > start) {
            self.0.insert(at, (start, old));
            if until > end {
                self.0.insert(end, (until, old));
            }
        }
        while let Some((&at, &(until, old))) = self.0.range(start..end).next() {
            self.0.remove(&at);
            if until > end {
                self.0.insert(end, (until, old));
            }
        }
        self.0.insert(start, (end, change));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is at `offset`: a change with the byte at which it begins, or nothing; and the byte at which that ends.
    fn at(&self, offset: u64) -> (Option<(u64, Change)>, u64) {
        match self.0.range(..=offset).next_back() {
            Some((&start, &(end, change))) if end > offset => (Some((start, change)), end),
            _ => (None, self.0.range(offset..).next().map_or(u64::MAX, |(&start, _)| start)),
        }
    }

    fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(_, (end, _))| *end)
    }
}

/// A file under the changes of its log.
#[derive(Debug)]
pub(super) struct Overlay {
    file: Arc<dyn ReadAt>,
    file_bytes: u64,
    size: u64,
    changes: Changes,
}

impl Overlay {
    pub(super) fn new(file: Arc<dyn ReadAt>, replay: Replay) -> Self {
        let file_bytes = file.size_bytes();
        // The log may make the file longer; but where the file lost its end, that is not zeros.
        let grown = if file_bytes < replay.flushed_bytes { 0 } else { replay.last_bytes.max(replay.changes.end()) };
        Self { file, file_bytes, size: file_bytes.max(grown), changes: replay.changes }
    }

    fn read_piece(&self, buffer: &mut [u8], offset: u64, change: Option<(u64, Change)>) -> Result<(), MediaError> {
        match change {
            Some((_, Change::Zero)) => buffer.fill(0),
            Some((start, Change::Sector { at, first, last })) => {
                let mut sector = [0; SECTOR_BYTES as usize];
                self.file.read_at(&mut sector, at).map_err(|error| error.shifted(at, start))?;
                if let Some(bytes) = sector.first_chunk_mut() {
                    *bytes = first;
                }
                if let Some(bytes) = sector.last_chunk_mut() {
                    *bytes = last;
                }
                let from = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
                let bytes = sector.iter().skip(from);
                for (byte, new) in buffer.iter_mut().zip(bytes) {
                    *byte = *new;
                }
            }
            None => {
                let inside = self.file_bytes.saturating_sub(offset).min(buffer.len() as u64);
                let (held, rest) = buffer.split_at_mut(usize::try_from(inside).unwrap_or(0).min(buffer.len()));
                rest.fill(0);
                if !held.is_empty() {
                    self.file.read_at(held, offset)?;
                }
            }
        }
        Ok(())
    }
}

impl ReadAt for Overlay {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size)?;
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let (change, end) = self.changes.at(at);
            let length = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(rest.len());
            let Some(piece) = rest.split_off_mut(..length) else { break };
            self.read_piece(piece, at, change)?;
            at = end;
        }
        Ok(())
    }

    fn sector_bytes(&self) -> u64 {
        self.file.sector_bytes()
    }

    fn size_now_bytes(&self) -> u64 {
        let now = self.file.size_now_bytes();
        if now < self.file_bytes { now } else { self.size }
    }

    fn extent_at(&self, offset: u64) -> Extent {
        let (change, end) = self.changes.at(offset);
        let length = end.min(self.size).saturating_sub(offset);
        match change {
            Some((start, Change::Sector { at, .. })) => {
                self.file.extent_at(at.saturating_add(offset.saturating_sub(start))).at_most(length)
            }
            None if offset < self.file_bytes => self.file.extent_at(offset).at_most(length),
            _ => Extent { content: Content::Zero, ..Extent::data(length) },
        }
    }

    fn notes(&self) -> Vec<Note> {
        self.file.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_changes_cover_earlier_ones() {
        let sector = |at| Change::Sector { at, first: [0; 8], last: [0; 4] };
        let mut changes = Changes::default();
        changes.add(100, 200, Change::Zero);
        changes.add(140, 150, sector(1));
        changes.add(300, 310, sector(2));
        changes.add(305, 400, Change::Zero);
        changes.add(0, 10, sector(3));
        changes.add(0, 10, sector(4));
        changes.add(190, 302, sector(5));
        changes.add(7, 7, sector(6));
        let list: Vec<(u64, u64, Change)> = changes.0.iter().map(|(&at, &(end, change))| (at, end, change)).collect();
        let zero = Change::Zero;
        assert_eq!(
            list,
            [
                (0, 10, sector(4)),
                (100, 140, zero),
                (140, 150, sector(1)),
                (150, 190, zero),
                (190, 302, sector(5)),
                (302, 305, sector(2)),
                (305, 400, zero),
            ]
        );
        assert_eq!(changes.at(145), (Some((140, sector(1))), 150));
        assert_eq!(changes.at(20), (None, 100));
        assert_eq!(changes.at(400), (None, u64::MAX));
    }
}
