//! Where bytes come from: files, block devices, compressed images. Read-only by type: nothing here can write.
//!
//! [`open`] turns a path into a [`Medium`]; a [`Device`] is what the upper floors read. [`probe`] says what an input is
//! when it is not a ZFS device.

mod aligned;
mod bad_ranges;
mod container;
mod device;
#[cfg(unix)]
mod direct;
mod drive;
#[cfg(any(test, all(unix, not(target_os = "linux"))))]
mod end;
mod extent;
mod file;
mod host;
mod note;
pub mod partition;
pub mod probe;
mod rescue_map;
mod spool;
mod throttle;

pub use aligned::{ALIGN_BYTES, AlignedBuffer, whole_sectors};
pub use device::{Device, DeviceReport, Gone};
pub use drive::Drive;
pub use extent::{Content, Extent};
pub use file::{FileId, FileMedium};
pub use host::Host;
pub use note::{Note, NoteKind, Notes};
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
    /// A disk image cannot be used at all.
    #[error("{}: {why}", path.display())]
    Container { path: PathBuf, why: String },
    /// A disk image cannot say what a part of the range holds: a table is damaged, or leads nowhere.
    #[error("{length} bytes at {offset} cannot be had from the disk image: {why}")]
    Damaged { offset: u64, length: u64, why: Arc<str> },
}

impl MediaError {
    /// The same error for a reader that calls the byte `from` of the medium `to`.
    #[must_use]
    pub(crate) fn shifted(self, from: u64, to: u64) -> Self {
        let shift = |offset: u64| offset.saturating_sub(from).saturating_add(to);
        match self {
            Self::Read { offset, length, source } => Self::Read { offset: shift(offset), length, source },
            Self::Unread { offset, length, map } => Self::Unread { offset: shift(offset), length, map },
            Self::Damaged { offset, length, why } => {
                // What lies before the reader's first byte is not its own.
                let hidden = from.saturating_sub(offset);
                Self::Damaged { offset: shift(offset), length: length.saturating_sub(hidden).max(1), why }
            }
            other => other,
        }
    }
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

    /// What the bytes from `offset` on are, and where they are stored. `offset` lies inside of the medium.
    ///
    /// It may read tables; what fails then is [`Content::Unreadable`].
    fn extent_at(&self, offset: u64) -> Extent {
        Extent::data(self.size_bytes().saturating_sub(offset))
    }

    /// What is to be said of the medium itself, as far as it was seen by now.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// Where on a disk it lies, when it is a part of one.
    fn place(&self) -> Option<PartitionPlace> {
        None
    }
}

/// Where on its disk a part of it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionPlace {
    /// Its number in the partition table; `None` where none names it.
    pub number: Option<u32>,
    /// The byte of the disk at which it begins.
    pub start_bytes: u64,
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
    /// Which disk of several in the same file it is, such as the name of one in an archive.
    pub part: Option<String>,
    /// Its bytes.
    pub bytes: Arc<dyn ReadAt>,
}

impl Medium {
    /// The only disk of the input at `path`.
    #[must_use]
    pub fn new(path: PathBuf, bytes: Arc<dyn ReadAt>) -> Self {
        Self { path, part: None, bytes }
    }

    /// Its name in reports: the path, the disk in it, and which part of the disk, such as `vm.ova, disk1.vmdk,
    /// partition 3`.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = self.path.display().to_string();
        if let Some(part) = &self.part {
            name.push_str(", ");
            name.push_str(part);
        }
        match self.bytes.place() {
            Some(PartitionPlace { number: Some(number), .. }) => name.push_str(&format!(", partition {number}")),
            Some(PartitionPlace { number: None, start_bytes }) => name.push_str(&format!(", from byte {start_bytes}")),
            None => {}
        }
        name
    }
}

/// A part of another medium: a partition, or what lies behind `--offset`.
#[derive(Debug)]
pub struct Window {
    inner: Arc<dyn ReadAt>,
    start: u64,
    size: u64,
    number: Option<u32>,
}

impl Window {
    /// The bytes of `inner` from `start` on, at most `size` of them.
    #[must_use]
    pub fn new(inner: Arc<dyn ReadAt>, start: u64, size: u64) -> Self {
        let size = size.min(inner.size_bytes().saturating_sub(start));
        Self { inner, start, size, number: None }
    }

    /// The same as the partition of this number.
    #[must_use]
    pub fn of_partition(self, number: u32) -> Self {
        Self { number: Some(number), ..self }
    }
}

impl ReadAt for Window {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size)?;
        let start = self.start.saturating_add(offset);
        self.inner.read_at(buffer, start).map_err(|error| error.shifted(start, offset))
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

    fn extent_at(&self, offset: u64) -> Extent {
        self.inner.extent_at(self.start.saturating_add(offset)).at_most(self.size.saturating_sub(offset))
    }

    fn notes(&self) -> Vec<Note> {
        self.inner.notes()
    }

    fn place(&self) -> Option<PartitionPlace> {
        // All of a disk is no part of it.
        let is_part = self.number.is_some() || self.start > 0;
        let inner = self.inner.place();
        let start_bytes = inner.map_or(0, |place| place.start_bytes).saturating_add(self.start);
        if is_part { Some(PartitionPlace { number: self.number, start_bytes }) } else { inner }
    }
}

/// How inputs are opened.
#[derive(Clone, Debug, Default)]
pub struct Opener {
    /// Follow names inside of disk images that lead out of the image's folder.
    pub allow_external_paths: bool,
    /// Folder for what has to be unpacked before it can be read; without one, compressed dumps are refused.
    pub spool: Option<PathBuf>,
}

impl Opener {
    /// Opens a raw image, a block device (past the page cache, on Linux), a disk image of a known format with all that
    /// belongs to it, or one of these compressed with gzip or zstd. Archives may hold several disks; other inputs give one.
    ///
    /// `IMAGE#snapshot=NAME` is the disk as it was at a snapshot inside of a qcow2 image, by name or id.
    ///
    /// # Errors
    /// [`MediaError::Open`], [`MediaError::NotAMedium`] for directories and pipes, [`MediaError::Unpack`],
    /// [`MediaError::Container`] for images that cannot be used.
    pub fn open(&self, path: &Path) -> Result<Vec<Medium>, MediaError> {
        if let Some((image, snapshot)) = snapshot_of(path) {
            return self.open_snapshot(path, &image, &snapshot);
        }
        let file = FileMedium::open(path)?;
        let bytes: Arc<dyn ReadAt> = match spool::Packing::of(&file) {
            Some(packing) => spool::unpack(path, packing, self.spool.as_deref())?,
            None => Arc::new(file),
        };
        let rules = container::Rules { allow_external: self.allow_external_paths };
        let chain = container::Chain::new(&rules, path);
        let file = container::ImageFile { path: path.into(), bytes };
        if container::ova::is(&file) {
            return container::ova::open(&file, &rules);
        }
        let bytes = container::open(&file, &chain)?.unwrap_or(file.bytes);
        Ok(vec![Medium::new(path.to_path_buf(), bytes)])
    }

    /// Opens the disk in `image` as it was at one of the snapshots inside; `path` names both.
    fn open_snapshot(&self, path: &Path, image: &Path, snapshot: &str) -> Result<Vec<Medium>, MediaError> {
        let rules = container::Rules { allow_external: self.allow_external_paths };
        let chain = container::Chain::new(&rules, image);
        let file = container::ImageFile { path: image.into(), bytes: Arc::new(FileMedium::open(image)?) };
        Ok(vec![Medium::new(path.to_path_buf(), container::open_snapshot(&file, snapshot, &chain)?)])
    }
}

/// Splits `IMAGE#snapshot=NAME`, unless there is a file of that whole name.
fn snapshot_of(path: &Path) -> Option<(PathBuf, String)> {
    let (image, name) = path.to_str()?.rsplit_once("#snapshot=")?;
    (!path.exists()).then(|| (PathBuf::from(image), name.to_owned()))
}

/// The disk in `bytes`, which are a disk image of a known format, an archive of them (the first one counts), or the disk
/// itself. Other files that it names are looked for beside `path`.
///
/// # Errors
/// [`MediaError::Container`] for images that cannot be used; what opening other files gives.
pub fn open_image(path: &Path, bytes: Arc<dyn ReadAt>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let rules = container::Rules::default();
    let chain = container::Chain::new(&rules, path);
    let file = container::ImageFile { path: path.into(), bytes };
    if container::ova::is(&file) {
        let first = container::ova::open(&file, &rules)?.into_iter().next();
        return Ok(first.map_or(file.bytes, |medium| medium.bytes));
    }
    Ok(container::open(&file, &chain)?.unwrap_or(file.bytes))
}

/// Opens an input that holds one disk, as [`Opener::open`] does by default; compressed dumps are unpacked into the
/// folder for temporary files.
///
/// # Errors
/// As [`Opener::open`].
pub fn open(path: &Path) -> Result<Medium, MediaError> {
    let opener = Opener { spool: Some(std::env::temp_dir()), ..Opener::default() };
    let no_disk = || MediaError::Container { path: path.to_path_buf(), why: "no disk is in it".to_owned() };
    opener.open(path)?.into_iter().next().ok_or_else(no_disk)
}
