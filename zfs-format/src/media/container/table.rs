//! Tables of an image, read in pieces when they are needed: those of a large disk have hundreds of megabytes.

use crate::media::{MediaError, ReadAt};
use std::collections::HashMap;
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
    by_start: HashMap<u64, (Arc<[u8]>, u64)>,
    clock: u64,
}

impl Table {
    /// The `N` bytes at `offset` of `file`, which must not cross a multiple of 64 KiB: aligned entries do not.
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`] where the file is too short, and what reading it gives.
    pub(super) fn entry<const N: usize>(&self, file: &dyn ReadAt, offset: u64) -> Result<[u8; N], MediaError> {
        let start = offset / PIECE_BYTES * PIECE_BYTES;
        let within = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let piece = self.piece(file, start)?;
        let found = piece.get(within..).and_then(|rest| rest.first_chunk::<N>());
        found.copied().ok_or(MediaError::OutOfRange { offset, length: N, size: file.size_bytes() })
    }

    fn piece(&self, file: &dyn ReadAt, start: u64) -> Result<Arc<[u8]>, MediaError> {
        {
            let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            pieces.clock = pieces.clock.wrapping_add(1);
            let now = pieces.clock;
            if let Some((piece, used)) = pieces.by_start.get_mut(&start) {
                *used = now;
                return Ok(Arc::clone(piece));
            }
        }
        // Read without the lock: others may use what is there. Two threads may read the same piece, which is harmless.
        let length = file.size_bytes().saturating_sub(start).min(PIECE_BYTES);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_at(&mut bytes, start)?;
        let piece: Arc<[u8]> = bytes.into();
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.by_start.len() >= PIECES_MAX
            && let Some(oldest) = pieces.by_start.iter().min_by_key(|(_, (_, used))| *used).map(|(&start, _)| start)
        {
            pieces.by_start.remove(&oldest);
        }
        let now = pieces.clock;
        pieces.by_start.insert(start, (Arc::clone(&piece), now));
        Ok(piece)
    }
}
