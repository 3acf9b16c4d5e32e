//! Where bytes come from: files, block devices, compressed images. Read-only by type: nothing here can write.
//!
//! [`open`] turns a path into a [`Medium`]; a [`Device`] is what the upper floors read. [`probe`] says what an input is
//! when it is not a ZFS device.

mod aligned;
mod bad_ranges;
mod device;
#[cfg(target_os = "linux")]
mod direct;
mod file;
mod mmap;
pub mod probe;
mod rescue_map;
mod spool;
mod throttle;

pub use aligned::{ALIGN_BYTES, AlignedBuffer, whole_sectors};
pub use device::{Device, DeviceReport, Gone};
pub use file::{FileId, FileMedium};
pub use rescue_map::{Mapped, RescueMap, RescueMapError};
pub use throttle::{RateLimit, Throttled};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What can go wrong between a path and its bytes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum MediaError {
    /// The path cannot be opened for reading.
    #[error("cannot open {}: {source}", path.display())]
    Open { path: PathBuf, source: Arc<io::Error> },
    /// The input is neither a file nor a block device.
    #[error("{} is {kind}, not an image or a block device", path.display())]
    NotAMedium { path: PathBuf, kind: &'static str },
    /// A compressed image cannot be unpacked.
    #[error("cannot unpack {}: {source}", path.display())]
    Unpack { path: PathBuf, source: Arc<io::Error> },
    /// The device or file system returned an error.
    #[error("cannot read {length} bytes at {offset}: {source}")]
    Read { offset: u64, length: usize, source: Arc<io::Error> },
    /// The range ends beyond the medium.
    #[error("{length} bytes at {offset} end beyond the medium of {size} bytes")]
    OutOfRange { offset: u64, length: usize, size: u64 },
    /// The device, or this part of it, disappeared while it was read.
    #[error("cannot read {length} bytes at {offset}: the device is gone from byte {from} on")]
    Gone { offset: u64, length: usize, from: u64 },
    /// The map of a rescued image says that a part of the range was never read.
    #[error("{length} bytes at {offset} were not all rescued ({map})")]
    Unread { offset: u64, length: usize, map: Arc<str> },
}

/// What errors of a medium concern at least, unless it says otherwise.
const SECTOR_BYTES: u64 = 512;

/// A read-only sequence of bytes that many threads may read at once.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// Size in bytes. It does not change while the medium is open.
    fn size_bytes(&self) -> u64;

    /// Fills `buffer` with the bytes at `offset`, or fails as a whole.
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`] when the range ends beyond the medium, [`MediaError::Read`] when the medium fails,
    /// [`MediaError::Gone`], [`MediaError::Unread`].
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError>;

    /// Size of its physical sectors: what cannot be read is a whole one.
    fn sector_bytes(&self) -> u64 {
        SECTOR_BYTES
    }

    /// How large it is right now: less than [`ReadAt::size_bytes`] when it was cut short or disappeared.
    fn size_now_bytes(&self) -> u64 {
        self.size_bytes()
    }

    /// The map of what was rescued, when only a part of it holds what the disk held.
    fn map(&self) -> Option<&RescueMap> {
        None
    }
}

/// Fails unless `length` bytes at `offset` lie inside a medium of `size` bytes.
fn check_range(offset: u64, length: usize, size: u64) -> Result<(), MediaError> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(MediaError::OutOfRange { offset, length, size }),
    }
}

/// An opened input: its bytes and the path it was opened by.
#[derive(Clone, Debug)]
pub struct Medium {
    /// The path as given.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Arc<dyn ReadAt>,
}

/// A part of another medium: a partition, or what lies behind `--offset`.
#[derive(Debug)]
pub struct Window {
    inner: Arc<dyn ReadAt>,
    start: u64,
    size: u64,
}

impl Window {
    /// The bytes of `inner` from `start` on, at most `size` of them.
    #[must_use]
    pub fn new(inner: Arc<dyn ReadAt>, start: u64, size: u64) -> Self {
        let size = size.min(inner.size_bytes().saturating_sub(start));
        Self { inner, start, size }
    }
}

impl ReadAt for Window {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size)?;
        self.inner.read_at(buffer, self.start.saturating_add(offset))
    }

    fn sector_bytes(&self) -> u64 {
        // As much of the sectors' grid as is left where the window begins inside one.
        let shared = self.start.trailing_zeros().min(self.inner.sector_bytes().trailing_zeros());
        1_u64.checked_shl(shared).unwrap_or(SECTOR_BYTES).max(SECTOR_BYTES)
    }

    fn size_now_bytes(&self) -> u64 {
        self.inner.size_now_bytes().saturating_sub(self.start).min(self.size)
    }

    fn map(&self) -> Option<&RescueMap> {
        self.inner.map()
    }
}

/// Opens an image, a block device (past the page cache, on Linux), or a zstd-compressed image (`.zst`, unpacked into an unlinked temporary file).
///
/// # Errors
/// [`MediaError::Open`], [`MediaError::NotAMedium`] for directories and pipes, [`MediaError::Unpack`].
pub fn open(path: &Path) -> Result<Medium, MediaError> {
    let file = FileMedium::open(path)?;
    let bytes: Arc<dyn ReadAt> = if probe::is_zstd(&file) { spool::unpack_zstd(path)? } else { Arc::new(file) };
    Ok(Medium { path: path.to_path_buf(), bytes })
}
