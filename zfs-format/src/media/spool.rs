//! Compressed images, unpacked into a temporary file that has no name.

use super::mmap::PrivateMap;
use super::{MediaError, ReadAt};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

/// Pieces of zeros of this size stay holes in the temporary file, so that a sparse image costs what it holds.
const PIECE_BYTES: usize = 64 << 10;

/// Unpacks a zstd frame (or several) into an unlinked temporary file and maps it.
pub(super) fn unpack_zstd(path: &Path) -> Result<Arc<dyn ReadAt>, MediaError> {
    let fail = |source: io::Error| MediaError::Unpack { path: path.to_path_buf(), source: Arc::new(source) };
    let source = io::BufReader::with_capacity(1 << 20, File::open(path).map_err(fail)?);
    let decoder = structured_zstd::decoding::StreamingDecoder::new(source);
    let map = spool(decoder).and_then(|file| PrivateMap::new(&file)).map_err(fail)?;
    Ok(Arc::new(map))
}

/// Copies `source` into an unlinked temporary file, leaving holes for zeros.
fn spool(mut source: impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut size = 0_u64;
    loop {
        let filled = fill(&mut source, &mut piece)?;
        let bytes = piece.get(..filled).unwrap_or_default();
        if bytes.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start(size))?;
            file.write_all(bytes)?;
        }
        size = size.saturating_add(filled as u64);
        if filled < PIECE_BYTES {
            file.set_len(size)?;
            return Ok(file);
        }
    }
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

    #[test]
    fn spooling_keeps_zeros_as_zeros() {
        let mut content = vec![0; 3 * PIECE_BYTES + 10];
        content[2 * PIECE_BYTES + 5] = 9;
        let map = PrivateMap::new(&spool(content.as_slice()).unwrap()).unwrap();
        let mut read = vec![1; content.len()];
        map.read_at(&mut read, 0).unwrap();
        assert_eq!(map.size_bytes(), content.len() as u64);
        assert_eq!(read, content);
    }
}
