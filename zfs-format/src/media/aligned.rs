//! Buffers that a device can fill without a copy in between.

use super::ReadAt;
use std::fmt;

/// What every device is content with: memory pages.
pub const ALIGN_BYTES: usize = 4096;

/// A buffer that begins at a multiple of 4096 bytes in memory, as reads past the page cache (`O_DIRECT`) need.
#[derive(Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` zeros.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length.saturating_add(ALIGN_BYTES)];
        let start = past_boundary(&bytes).map_or(0, |past| ALIGN_BYTES - past);
        Self { bytes, start, length }
    }

    /// Bytes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Makes it hold at least `length` bytes. What it held is lost when it grows.
    pub fn reserve(&mut self, length: usize) {
        if self.length < length {
            *self = Self::new(length);
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.length).unwrap_or_default()
    }

    /// Its bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.length).unwrap_or_default()
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

/// `length` rounded up so that a read at `start` ends with a sector, unless the medium ends before: a request that needs
/// no buffer in between.
#[must_use]
pub fn whole_sectors(medium: &dyn ReadAt, start: u64, length: usize) -> usize {
    let sector = usize::try_from(medium.sector_bytes()).unwrap_or(1).clamp(1, ALIGN_BYTES);
    let rounded = length.checked_next_multiple_of(sector).unwrap_or(length);
    let is_inside = start.checked_add(rounded as u64).is_some_and(|end| end <= medium.size_bytes());
    if is_inside { rounded } else { length }
}

/// By how many bytes the start of `bytes` lies past a boundary; `None` when it lies on one.
fn past_boundary(bytes: &[u8]) -> Option<usize> {
    Some(bytes.as_ptr().addr() % ALIGN_BYTES).filter(|&past| past != 0)
}

/// Whether `bytes` begins at a boundary.
#[cfg(unix)]
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    past_boundary(bytes).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_at_a_boundary_and_hold_what_was_asked() {
        for length in [0, 1, 511, 4096, 100_000, 1 << 20] {
            let mut buffer = AlignedBuffer::new(length);
            assert_eq!((buffer.len(), buffer.bytes().len(), buffer.bytes_mut().len()), (length, length, length));
            assert_eq!((past_boundary(buffer.bytes()), buffer.is_empty()), (None, length == 0));
            buffer.reserve(length + 10);
            assert_eq!((buffer.len(), past_boundary(buffer.bytes())), (length + 10, None));
        }
    }
}
