//! A made pool as media in memory, and the scrub of it.

use fixtures::Pool;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::pool::Assembly;
use zfs_scrub::options::Progress;
use zfs_scrub::{Options, Outcome};

/// Bytes of a device that cannot be read.
pub(crate) type BadRange = (usize, Range<u64>);

/// One device of a made pool.
#[derive(Debug)]
struct MadeDevice {
    device: fixtures::Device,
    bad: Vec<Range<u64>>,
}

impl ReadAt for MadeDevice {
    fn size_bytes(&self) -> u64 {
        self.device.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let (length, size) = (buffer.len(), self.device.bytes);
        let end = offset.checked_add(length as u64).filter(|end| *end <= size);
        let end = end.ok_or(MediaError::OutOfRange { offset, length, size })?;
        if self.bad.iter().any(|bad| bad.start < end && offset < bad.end) {
            let source = Arc::new(io::Error::other("a bad sector"));
            return Err(MediaError::Read { offset, length, source });
        }
        self.device.read_at(offset, buffer);
        Ok(())
    }
}

/// The devices of a pool that are there, named as the maker names them.
pub(crate) fn media(pool: &Pool, bad: &[BadRange]) -> Vec<Medium> {
    let medium = |(index, device): (usize, &fixtures::Device)| {
        Medium::new(
            PathBuf::from(&device.name),
            Arc::new(MadeDevice {
                device: device.clone(),
                bad: bad.iter().filter(|(device, _)| *device == index).map(|(_, range)| range.clone()).collect(),
            }),
        )
    };
    pool.devices.iter().enumerate().filter(|(_, device)| !device.is_missing).map(medium).collect()
}

/// Scrubs a pool some of whose bytes cannot be read. The timings are set to zero, so that outcomes can be compared.
pub(crate) fn scrub_with(pool: &Pool, bad: &[BadRange], options: &Options) -> Outcome {
    let mut assembly = Assembly::new(&media(pool, bad), None).unwrap();
    let mut outcome = zfs_scrub::scrub(&mut assembly, options, &Progress::default()).unwrap();
    outcome.summary.duration = Duration::ZERO;
    outcome.summary.bytes_per_second = 0;
    outcome
}

/// Scrubs a pool with two threads and little memory.
pub(crate) fn scrub(pool: &Pool, bad: &[BadRange]) -> Outcome {
    scrub_with(pool, bad, &options(2))
}

/// So many threads, the smallest memory.
pub(crate) fn options(threads: usize) -> Options {
    Options { threads, memory_bytes: Options::MEMORY_BYTES_MIN, ..Options::default() }
}
