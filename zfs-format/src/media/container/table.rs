//! Tables of an image, read in pieces when they are needed: those of a large disk have hundreds of megabytes.

use crate::media::{MediaError, ReadAt};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a table that are read at once.
const PIECE_BYTES: u64 = 64 << 10;
/// Pieces that are kept of one table.
const PIECES_MAX: usize = 64;

/// Access to the tables of one file.
#[derive(Debug, Default)]
pub(super) struct Table {
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    by_start: HashMap<u64, (Piece, u64)>,
    clock: u64,
}

/// A part of a table.
#[derive(Clone, Debug)]
struct Piece {
    bytes: Arc<[u8]>,
    /// What of it could not be read; usually nothing.
    bad: Arc<[Range<usize>]>,
}

/// Entries of a table, from one on to the end of the piece that was read.
#[derive(Debug)]
pub(super) struct Entries {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl Entries {
    /// The entry of `N` bytes that comes `index` entries after the first one, if it is in the same piece.
    pub(super) fn get<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        let at = self.range.start.checked_add(index.checked_mul(N)?)?;
        self.bytes.get(at..self.range.end)?.first_chunk::<N>().copied()
    }
}

impl Table {
    /// The `N` bytes at `offset` of `file`, which must not cross a multiple of 64 KiB: aligned entries do not.
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`] where the file is too short, and what reading it gives.
    pub(super) fn entry<const N: usize>(&self, file: &dyn ReadAt, offset: u64) -> Result<[u8; N], MediaError> {
        let entries = self.entries::<N>(file, offset)?;
        entries.get(0).ok_or(MediaError::OutOfRange { offset, length: N, size: file.size_bytes() })
    }

    /// As [`Table::entry`], with the entries that follow it, as many as were read with it.
    ///
    /// # Errors
    /// As [`Table::entry`], about the first of them.
    pub(super) fn entries<const N: usize>(&self, file: &dyn ReadAt, offset: u64) -> Result<Entries, MediaError> {
        let start = offset / PIECE_BYTES * PIECE_BYTES;
        let within = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let piece = self.piece(file, start)?;
        let wanted = within..within.saturating_add(N);
        if piece.bad.iter().any(|bad| bad.start < wanted.end && wanted.start < bad.end) {
            // It may be had by now, and if not, the error is about this entry.
            let mut entry = [0; N];
            file.read_at(&mut entry, offset)?;
            return Ok(Entries { bytes: entry.as_slice().into(), range: 0..N });
        }
        if piece.bytes.len() < wanted.end {
            return Err(MediaError::OutOfRange { offset, length: N, size: file.size_bytes() });
        }
        let next_bad = piece.bad.iter().map(|bad| bad.start).filter(|&start| start >= wanted.end).min();
        let end = next_bad.unwrap_or(piece.bytes.len());
        Ok(Entries { bytes: piece.bytes, range: within..end })
    }

    fn piece(&self, file: &dyn ReadAt, start: u64) -> Result<Piece, MediaError> {
        {
            let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            pieces.clock = pieces.clock.wrapping_add(1);
            let now = pieces.clock;
            if let Some((piece, used)) = pieces.by_start.get_mut(&start) {
                *used = now;
                return Ok(piece.clone());
            }
        }
        // Read without the lock: others may use what is there. Two threads may read the same piece, which is harmless.
        let length = file.size_bytes().saturating_sub(start).min(PIECE_BYTES);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let bad = match file.read_at(&mut bytes, start) {
            Ok(()) => Vec::new(),
            Err(MediaError::Read { .. } | MediaError::Unread { .. } | MediaError::Damaged { .. }) => {
                read_sectors(file, &mut bytes, start)
            }
            Err(error) => return Err(error),
        };
        let piece = Piece { bytes: bytes.into(), bad: bad.into() };
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.by_start.len() >= PIECES_MAX
            && let Some(oldest) = pieces.by_start.iter().min_by_key(|(_, (_, used))| *used).map(|(&start, _)| start)
        {
            pieces.by_start.remove(&oldest);
        }
        let now = pieces.clock;
        pieces.by_start.insert(start, (piece.clone(), now));
        Ok(piece)
    }
}

/// Fills `bytes` with what of them can be read, sector by sector: a bad one must not cost the whole piece. Returns the
/// ranges that cannot.
fn read_sectors(file: &dyn ReadAt, bytes: &mut [u8], start: u64) -> Vec<Range<usize>> {
    let sector = usize::try_from(file.sector_bytes()).unwrap_or(512).max(512);
    let mut bad = Vec::new();
    let mut at = 0_usize;
    for part in bytes.chunks_mut(sector) {
        let end = at.saturating_add(part.len());
        if file.read_at(part, start.saturating_add(at as u64)).is_err() {
            bad.push(at..end);
        }
        at = end;
    }
    bad
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// 80,000 bytes, each the number of its sector, of which two sectors cannot be read.
    #[derive(Debug)]
    struct Worn;

    impl ReadAt for Worn {
        fn size_bytes(&self) -> u64 {
            80_000
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
            crate::media::check_range(offset, buffer.len(), self.size_bytes())?;
            for (at, byte) in (offset..).zip(buffer.iter_mut()) {
                if matches!(at / 512, 3 | 7) {
                    let source = Arc::new(io::Error::other("worn"));
                    return Err(MediaError::Read { offset, length: 1, source });
                }
                *byte = (at / 512) as u8;
            }
            Ok(())
        }
    }

    #[test]
    fn a_bad_sector_costs_the_entries_in_it_and_no_others() {
        let table = Table::default();
        for _ in 0..2 {
            assert_eq!(table.entry::<8>(&Worn, 2 * 512 + 504).unwrap(), [2; 8]);
            assert_eq!(table.entry::<8>(&Worn, 4 * 512).unwrap(), [4; 8]);
            for bad in [3 * 512, 3 * 512 + 504, 7 * 512 + 8] {
                assert!(matches!(table.entry::<8>(&Worn, bad), Err(MediaError::Read { .. })), "{bad}");
            }
        }
        assert!(matches!(table.entry::<8>(&Worn, 79_996), Err(MediaError::OutOfRange { .. })));
    }

    #[test]
    fn entries_go_on_to_the_next_bad_sector_or_the_end_of_the_piece() {
        let table = Table::default();
        let entries = table.entries::<8>(&Worn, 5 * 512 + 256).unwrap();
        assert_eq!(
            (entries.get::<8>(0), entries.get::<8>(95), entries.get::<8>(96)),
            (Some([5; 8]), Some([6; 8]), None)
        );
        let last = table.entries::<8>(&Worn, 65_520).unwrap();
        assert_eq!((last.get::<8>(1), last.get::<8>(2)), (Some([127; 8]), None));
    }
}
