//! Compressed images, unpacked into a temporary file that has no name.

use super::FileMedium;
use super::{MediaError, ReadAt};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use structured_zstd::decoding::StreamingDecoder;

/// Pieces of zeros of this size stay holes in the temporary file, so that a sparse image costs what it holds.
const PIECE_BYTES: usize = 64 << 10;

/// How a file as a whole is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// One or several gzip members.
    Gzip,
    /// One or several zstd frames.
    Zstd,
}

impl Packing {
    /// How `medium` is compressed, if it is.
    pub(super) fn of(medium: &dyn ReadAt) -> Option<Self> {
        let mut magic = [0; 4];
        medium.read_at(&mut magic, 0).ok()?;
        match magic {
            [0x1f, 0x8b, 8, _] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Unpacks `path` into an unlinked temporary file in `folder`.
pub(super) fn unpack(path: &Path, packing: Packing, folder: Option<&Path>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let Some(folder) = folder else {
        let why = format!(
            "it is compressed with {}: give --spool DIR, a folder with room for the whole disk, or unpack it",
            packing.name()
        );
        return Err(MediaError::Container { path: path.to_path_buf(), why });
    };
    let fail = |source: io::Error| MediaError::Unpack { path: path.to_path_buf(), source: Arc::new(source) };
    let source = io::BufReader::with_capacity(1 << 20, File::open(path).map_err(fail)?);
    let file = match packing {
        Packing::Gzip => spool(MultiGzDecoder::new(source), folder),
        Packing::Zstd => spool(StreamingDecoder::new(source), folder),
    };
    let medium = file.and_then(FileMedium::from_file).map_err(fail)?;
    Ok(Arc::new(medium))
}

/// Copies `source` into an unlinked temporary file.
fn spool(source: impl Read, folder: &Path) -> io::Result<File> {
    let mut file = tempfile::tempfile_in(folder)
        .map_err(|error| explain(&error, &format!("no temporary file can be made in {}", folder.display())))?;
    let size = copy(source, &mut file, folder)?;
    file.set_len(size)?;
    Ok(file)
}

/// Copies `source`, leaving holes for zeros; returns its size.
fn copy(mut source: impl Read, file: &mut (impl Write + Seek), folder: &Path) -> io::Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut size = 0_u64;
    loop {
        let filled = fill(&mut source, &mut piece)?;
        let bytes = piece.get(..filled).unwrap_or_default();
        if bytes.iter().any(|&byte| byte != 0) {
            let written = file.seek(SeekFrom::Start(size)).and_then(|_| file.write_all(bytes));
            written.map_err(|error| {
                explain(&error, &format!("the folder {} takes no more after {size} bytes", folder.display()))
            })?;
        }
        size = size.saturating_add(filled as u64);
        if filled < PIECE_BYTES {
            return Ok(size);
        }
    }
}

fn explain(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Reads until `buffer` is full or the source ends; returns how much was read.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn content() -> Vec<u8> {
        let mut content = vec![0; 3 * PIECE_BYTES + 10];
        content[2 * PIECE_BYTES + 5] = 9;
        content
    }

    #[test]
    fn spooling_keeps_zeros_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let content = content();
        let medium = FileMedium::from_file(spool(content.as_slice(), dir.path()).unwrap()).unwrap();
        let mut read = vec![1; content.len()];
        medium.read_at(&mut read, 0).unwrap();
        assert_eq!(medium.size_bytes(), content.len() as u64);
        assert_eq!(read, content);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn gzip_dumps_of_several_members_are_unpacked_where_there_is_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump.gz");
        let content = content();
        let mut packed = Vec::new();
        for half in content.chunks(content.len() / 2 + 1) {
            let mut encoder = GzEncoder::new(&mut packed, Compression::fast());
            encoder.write_all(half).unwrap();
            encoder.finish().unwrap();
        }
        std::fs::write(&path, &packed).unwrap();
        let disk = unpack(&path, Packing::Gzip, Some(dir.path())).unwrap();
        let mut read = vec![1; content.len()];
        disk.read_at(&mut read, 0).unwrap();
        assert_eq!((disk.size_bytes(), read), (content.len() as u64, content));
        let error = unpack(&path, Packing::Gzip, None).unwrap_err().to_string();
        assert!(error.contains("dump.gz: it is compressed with gzip: give --spool DIR"), "{error}");
        let error = unpack(&path, Packing::Gzip, Some(&dir.path().join("absent"))).unwrap_err().to_string();
        assert!(error.contains("no temporary file can be made in"), "{error}");
        for damaged in [&packed[..packed.len() - 9], &[&packed[..40], &[0x55; 100]].concat()] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(unpack(&path, Packing::Gzip, Some(dir.path())), Err(MediaError::Unpack { .. })));
        }
    }

    /// A file on a disk that has room for `self.1` bytes.
    struct Small(io::Cursor<Vec<u8>>, u64);

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.position() + bytes.len() as u64 > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Small {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_full_folder_is_told_with_the_size_that_fitted() {
        let mut small = Small(io::Cursor::default(), 100_000);
        let error = copy([7; 200_000].as_slice(), &mut small, Path::new("scratch")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("the folder scratch takes no more after 65536 bytes"), "{error}");
    }
}
