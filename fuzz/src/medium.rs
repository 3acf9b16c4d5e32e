//! Bytes in memory as a medium.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::media::{MediaError, Medium, ReadAt};

/// A medium of which only a few pieces are not zero.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) size_bytes: u64,
    pub(crate) pieces: BTreeMap<u64, Vec<u8>>,
}

fn check(offset: u64, length: usize, size: u64) -> Result<(), MediaError> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(MediaError::OutOfRange { offset, length, size }),
    }
}

impl ReadAt for Pieces {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check(offset, buffer.len(), self.size_bytes)?;
        buffer.fill(0);
        let end = offset + buffer.len() as u64;
        for (start, piece) in &self.pieces {
            let (from, to) = (offset.max(*start), end.min(start + piece.len() as u64));
            if from < to {
                let source = &piece[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
            }
        }
        Ok(())
    }
}

/// A made device, perhaps cut short.
#[derive(Debug)]
struct Made {
    device: fixtures::Device,
    size_bytes: u64,
}

impl ReadAt for Made {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check(offset, buffer.len(), self.size_bytes)?;
        self.device.read_at(offset, buffer);
        Ok(())
    }
}

/// An opened input that holds these bytes.
pub(crate) fn medium(name: &str, bytes: impl ReadAt + 'static) -> Medium {
    Medium::new(PathBuf::from(name), Arc::new(bytes))
}

/// A made device of this size.
pub(crate) fn made(device: &fixtures::Device, size_bytes: u64) -> Medium {
    let size_bytes = size_bytes.min(device.bytes);
    medium(&device.name, Made { device: device.clone(), size_bytes })
}
