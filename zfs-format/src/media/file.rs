//! Files and block devices, read by position.

#[cfg(unix)]
use super::direct::{self, Direct};
use super::{Content, Extent, MediaError, ReadAt, SECTOR_BYTES, check_range};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// A regular file or a disk, opened for reading only.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    size: u64,
    sector: u64,
    path: Option<Arc<Path>>,
    /// Regular files may have holes.
    is_regular: bool,
    /// How to ask a disk that is read past the page cache.
    #[cfg(unix)]
    direct: Option<Direct>,
}

impl FileMedium {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// [`MediaError::Open`] when that fails, [`MediaError::NotAMedium`] for directories, pipes and character devices.
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        let fail = |source: io::Error| MediaError::Open { path: path.to_path_buf(), source: Arc::new(source) };
        // Opening a pipe for reading would wait for its writer: look before opening.
        if let Some(kind) = kind_that_cannot_be_read(&std::fs::metadata(path).map_err(fail)?) {
            return Err(MediaError::NotAMedium { path: path.to_path_buf(), kind });
        }
        #[cfg(target_os = "linux")]
        if is_block_device(path)
            && let Some((file, direct)) = direct::open(path)
        {
            let medium = Self::from_file(file).map_err(fail)?;
            return Ok(Self { direct: Some(direct), path: Some(path.into()), ..medium });
        }
        #[cfg(all(unix, not(target_os = "linux")))]
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            let (file, direct, size) = direct::open_disk(path).map_err(fail)?;
            let (sector, path) = (direct.sector_bytes(), Some(path.into()));
            return Ok(Self { file, size, sector, path, is_regular: false, direct: Some(direct) });
        }
        let medium = Self::from_file(File::open(path).map_err(fail)?).map_err(fail)?;
        Ok(Self { path: Some(path.into()), ..medium })
    }

    /// Whether it is read past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        #[cfg(unix)]
        return self.direct.is_some();
        #[cfg(not(unix))]
        false
    }

    /// Takes an open file.
    ///
    /// # Errors
    /// What seeking to its end reports.
    pub fn from_file(mut file: File) -> io::Result<Self> {
        // The length in the metadata of a block device is 0; the end found by seeking is right for both.
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self {
            sector: physical_sector_bytes(&file),
            is_regular: file.metadata().is_ok_and(|metadata| metadata.is_file()),
            file,
            size,
            path: None,
            #[cfg(unix)]
            direct: None,
        })
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(direct) = &self.direct {
            return direct.read_exact_at(&self.file, buffer, offset);
        }
        read_exact_at(&self.file, buffer, offset)
    }
}

#[cfg(target_os = "linux")]
fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// The physical sector of a block device (which may be larger than the one it is addressed by); 512 for files.
fn physical_sector_bytes(file: &File) -> u64 {
    #[cfg(target_os = "linux")]
    {
        let logical = rustix::fs::ioctl_blksszget(file).unwrap_or(0);
        let physical = rustix::fs::ioctl_blkpbszget(file).unwrap_or(0);
        u64::from(logical.max(physical)).max(SECTOR_BYTES)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        SECTOR_BYTES
    }
}

/// Which file or block device a path leads to: equal for hard links, symbolic links, and nodes of one device.
///
/// A part of it is told by where it begins; on Linux the device of a partition is that part of its disk.
#[derive(Clone, Copy, Debug)]
pub struct FileId {
    /// The device that holds the file; 0 for block devices, which no file system has.
    holder: u64,
    number: u64,
    start_bytes: u64,
    /// The number of the block device that was opened, the partition's own for a partition; 0 for files.
    pub(super) node: u64,
}

impl PartialEq for FileId {
    /// A partition is the same by its own node and by that of its disk.
    fn eq(&self, other: &Self) -> bool {
        (self.holder, self.number, self.start_bytes) == (other.holder, other.number, other.start_bytes)
    }
}

impl Eq for FileId {}

impl FileId {
    /// Looks where a path leads; `None` where that cannot be told.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::{FileTypeExt, MetadataExt};
            let metadata = std::fs::metadata(path).ok()?;
            if !metadata.file_type().is_block_device() {
                return Some(Self { holder: metadata.dev(), number: metadata.ino(), start_bytes: 0, node: 0 });
            }
            #[cfg(target_os = "linux")]
            if let Some((disk, start_bytes)) = disk_of_partition(Path::new("/sys/dev/block"), metadata.rdev()) {
                return Some(Self { holder: 0, number: disk, start_bytes, node: metadata.rdev() });
            }
            Some(Self { holder: 0, number: metadata.rdev(), start_bytes: 0, node: metadata.rdev() })
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }

    /// The block device with these numbers.
    #[must_use]
    pub fn of_device(major: u32, minor: u32) -> Self {
        // The encoding of Linux, whatever system this is: only equality matters elsewhere.
        let (major, minor) = (u64::from(major), u64::from(minor));
        let number = (major & !0xfff) << 32 | (major & 0xfff) << 8 | (minor & !0xff) << 12 | minor & 0xff;
        Self { holder: 0, number, start_bytes: 0, node: number }
    }

    /// Major and minor number, when it is a block device.
    #[must_use]
    pub fn device_number(self) -> Option<(u64, u64)> {
        let Self { holder: 0, node: number, .. } = self else { return None };
        Some((number >> 32 & !0xfff | number >> 8 & 0xfff, number >> 12 & 0xffff_ff00 | number & 0xff))
    }
}

impl FileId {
    /// The part of it that begins at this byte.
    #[must_use]
    pub fn part(self, start_bytes: u64) -> Self {
        Self { start_bytes: self.start_bytes.saturating_add(start_bytes), ..self }
    }
}

/// The number of the disk that a partition belongs to, and the byte at which it begins. `None` for whole disks. `devices`
/// is the folder in which Linux lists block devices by number.
#[cfg(target_os = "linux")]
fn disk_of_partition(devices: &Path, device: u64) -> Option<(u64, u64)> {
    let folder = devices.join(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)));
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    text("partition")?;
    let start: u64 = text("start")?.trim().parse().ok()?;
    // The folder is a link into that of the disk.
    let disk = std::fs::read_to_string(folder.canonicalize().ok()?.parent()?.join("dev")).ok()?;
    let (major, minor) = disk.trim().split_once(':')?;
    let disk = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    Some((disk, start.saturating_mul(SECTOR_BYTES)))
}

/// Names the kind of a directory entry that is neither a regular file nor a block device.
fn kind_that_cannot_be_read(metadata: &std::fs::Metadata) -> Option<&'static str> {
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Some("a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file_type.is_fifo() {
            return Some("a pipe");
        }
        if file_type.is_socket() {
            return Some("a socket");
        }
        // Disks are character devices on FreeBSD and macOS, never on Linux.
        if file_type.is_char_device() && cfg!(target_os = "linux") {
            return Some("a character device");
        }
    }
    None
}

impl ReadAt for FileMedium {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size)?;
        let length = buffer.len();
        self.read_exact_at(buffer, offset).map_err(|source| MediaError::Read {
            offset,
            length,
            source: Arc::new(source),
        })
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn size_now_bytes(&self) -> u64 {
        // Seeking tells nothing: what has its first sector, or its last one, is there.
        #[cfg(all(unix, not(target_os = "linux")))]
        if self.is_direct() {
            let has = |offset| self.read_exact_at(&mut [0; 512], offset).is_ok();
            let is_there = has(0) || has(self.size.saturating_sub(512));
            return if is_there { self.size } else { 0 };
        }
        // Reads are by position, so that no one minds where the file's own position is.
        (&self.file).seek(SeekFrom::End(0)).map_or(0, |size| size.min(self.size))
    }

    fn extent_at(&self, offset: u64) -> Extent {
        let rest = self.size.saturating_sub(offset);
        let (content, length_bytes) = match self.is_regular.then(|| hole_at(&self.file, offset)).flatten() {
            Some((true, end)) => (Content::Hole, end.saturating_sub(offset).min(rest)),
            Some((false, end)) => (Content::Data, end.saturating_sub(offset).min(rest)),
            None => (Content::Data, rest),
        };
        Extent { length_bytes, content, file: self.path.clone(), file_offset_bytes: Some(offset), layer: 0 }
    }
}

/// Whether `offset` of a regular file lies in a hole, and where that, or the data, ends. `None` where the file system
/// cannot tell.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "macos"))]
fn hole_at(file: &File, offset: u64) -> Option<(bool, u64)> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;
    // Reads are by position, so that no one minds where the file's own position is.
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(data) if data > offset => Some((true, data)),
        Ok(_) => Some((false, rustix::fs::seek(file, SeekFrom::Hole(offset)).ok()?)),
        // No data up to the end.
        Err(Errno::NXIO) => Some((true, u64::MAX)),
        Err(_) => None,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", target_os = "macos")))]
fn hole_at(_file: &File, _offset: u64) -> Option<(bool, u64)> {
    None
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !buffer.is_empty() {
        match file.seek_read(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = buffer.get_mut(read..).unwrap_or_default();
                offset = offset.saturating_add(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_beyond_the_end_is_an_error_and_not_a_short_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 100]).unwrap();
        let medium = FileMedium::open(file.path()).unwrap();
        let mut buffer = [0; 60];
        medium.read_at(&mut buffer, 40).unwrap();
        assert_eq!(buffer, [7; 60]);
        assert!(matches!(medium.read_at(&mut buffer, 41), Err(MediaError::OutOfRange { size: 100, .. })));
        assert!(matches!(medium.read_at(&mut buffer, u64::MAX), Err(MediaError::OutOfRange { .. })));
    }

    #[test]
    fn a_file_cut_short_while_open_is_a_read_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 100]).unwrap();
        let medium = FileMedium::open(file.path()).unwrap();
        file.as_file().set_len(10).unwrap();
        assert!(matches!(medium.read_at(&mut [0; 60], 0), Err(MediaError::Read { .. })));
        assert_eq!((medium.size_bytes(), medium.size_now_bytes()), (100, 10));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_device_of_a_partition_is_a_part_of_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        let partition = dir.path().join("devices/sda/sda1");
        std::fs::create_dir_all(&partition).unwrap();
        std::fs::write(partition.join("partition"), "1\n").unwrap();
        std::fs::write(partition.join("start"), "2048\n").unwrap();
        std::fs::write(partition.join("../dev"), "8:0\n").unwrap();
        std::os::unix::fs::symlink(&partition, dir.path().join("8:1")).unwrap();
        std::os::unix::fs::symlink(partition.join(".."), dir.path().join("8:0")).unwrap();
        let number = |minor| rustix::fs::makedev(8, minor);
        assert_eq!(disk_of_partition(dir.path(), number(1)), Some((number(0), 1 << 20)));
        assert_eq!(disk_of_partition(dir.path(), number(0)), None);
        assert_eq!(disk_of_partition(dir.path(), number(2)), None);
        let disk = FileId { holder: 0, number: number(0), start_bytes: 0, node: 0 };
        assert_eq!(disk.part(1 << 20), FileId { start_bytes: 1 << 20, ..disk });
    }

    #[test]
    fn directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(FileMedium::open(dir.path()), Err(MediaError::NotAMedium { kind: "a directory", .. })));
    }
}
