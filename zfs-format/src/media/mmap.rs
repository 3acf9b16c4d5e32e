//! A memory map of a file that only this process can reach.
//!
//! A map of a file that someone else can shorten ends in SIGBUS. So only unlinked temporary files are mapped: those
//! that hold unpacked images.
#![allow(unsafe_code, reason = "memmap2's constructor is unsafe; see the proof below")]

use super::{MediaError, ReadAt, check_range};
use std::fs::File;
use std::io;

/// The bytes of a private, unlinked file.
#[derive(Debug)]
pub(super) struct PrivateMap {
    map: Option<memmap2::Mmap>,
}

impl PrivateMap {
    /// Maps `file`, whose only name must already be gone.
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // A map of length 0 is an error on most systems.
        if file.metadata()?.len() == 0 {
            return Ok(Self { map: None });
        }
        // SAFETY: the memory must not change while it is mapped. The file was made by `tempfile::tempfile_in`, which
        // unlinks it before returning it, its handle never leaves `spool.rs`, and that module writes to it only before
        // this call. So no other process and no other part of this one can write to it or shorten it.
        let map = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self { map: Some(map) })
    }

    fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

impl ReadAt for PrivateMap {
    fn size_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size_bytes())?;
        let from = usize::try_from(offset).ok();
        let source = from.and_then(|from| self.bytes().get(from..from.checked_add(buffer.len())?));
        if let Some(source) = source {
            buffer.copy_from_slice(source);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_map_reads_what_the_file_holds() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        file.write_all(&content).unwrap();
        let map = PrivateMap::new(&file).unwrap();
        assert_eq!(map.size_bytes(), 40_000);
        let mut part = vec![0; 12_345];
        map.read_at(&mut part, 777).unwrap();
        assert_eq!(part, content[777..777 + 12_345]);
        assert!(map.read_at(&mut part, 40_000).is_err());
    }

    #[test]
    fn an_empty_file_is_an_empty_medium() {
        let map = PrivateMap::new(&tempfile::tempfile().unwrap()).unwrap();
        assert_eq!(map.size_bytes(), 0);
        map.read_at(&mut [], 0).unwrap();
        assert!(map.read_at(&mut [0], 0).is_err());
    }
}
