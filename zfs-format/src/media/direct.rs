//! Reading block devices past the page cache (`O_DIRECT` of Linux), and disks that are character devices (FreeBSD,
//! macOS), which are never read through one.
//!
//! A scrub reads everything once; through the page cache it would push out what the machine has use for. Such reads
//! need a buffer, an offset and a length that are multiples of what the device wants: what is not goes through a buffer
//! that is.

use super::aligned::{ALIGN_BYTES, AlignedBuffer, is_aligned};
#[cfg(not(target_os = "linux"))]
use super::end;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What is not aligned is read in pieces of this size.
const BOUNCE_BYTES: usize = 1 << 20;
/// Buffers kept for later reads.
const BUFFERS_MAX: usize = 8;

/// How a device has to be asked.
#[derive(Debug)]
pub(super) struct Direct {
    /// Offsets and lengths are multiples of this.
    sector: usize,
    buffers: Mutex<Vec<AlignedBuffer>>,
}

/// Opens a block device for direct reads; `None` when it, or what it lies on, does not have them.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path) -> Option<(File, Direct)> {
    use rustix::fs::OFlags;
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let sector = rustix::fs::ioctl_blksszget(&file).ok()?;
    let sector = usize::try_from(sector).ok().filter(|sector| sector.is_power_of_two() && *sector <= ALIGN_BYTES)?;
    let direct = Direct { sector, buffers: Mutex::default() };
    // Some devices take the flag and refuse the reads. Any other error is that of a sector.
    let mut first = AlignedBuffer::new(sector);
    match file.read_at(first.bytes_mut(), 0) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
        _ => Some((file, direct)),
    }
}

/// Opens a disk whose size only reading tells.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_disk(path: &Path) -> io::Result<(File, Direct, u64)> {
    let file = File::open(path)?;
    let read = |buffer: &mut [u8], offset: u64| file.read_at(buffer, offset);
    let fail = |why: &str| io::Error::other(format!("{why}; copy it to an image (ddrescue, dd) and give that"));
    // The error of the system says more, if it has one.
    let sector = match end::sector_bytes(&read) {
        Some(sector) => sector,
        None => {
            return Err(read(AlignedBuffer::new(ALIGN_BYTES).bytes_mut(), 0)
                .err()
                .unwrap_or_else(|| fail("its start cannot be read")));
        }
    };
    let size = end::find(&read, sector).ok_or_else(|| fail("where it ends cannot be found out"))?;
    Ok((file, Direct { sector, buffers: Mutex::default() }, size))
}

impl Direct {
    /// The unit in which it is read.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn sector_bytes(&self) -> u64 {
        self.sector as u64
    }

    /// Fills `buffer` from `offset` on, whatever their alignment.
    pub(super) fn read_exact_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let sector = self.sector as u64;
        let is_fit = offset.is_multiple_of(sector) && buffer.len().is_multiple_of(self.sector) && is_aligned(buffer);
        if is_fit {
            return file.read_exact_at(buffer, offset);
        }
        let mut bounce = self.buffers().pop().unwrap_or_else(|| AlignedBuffer::new(BOUNCE_BYTES));
        let result = self.read_through(&mut bounce, file, buffer, offset);
        let mut buffers = self.buffers();
        if buffers.len() < BUFFERS_MAX {
            buffers.push(bounce);
        }
        result
    }

    fn buffers(&self) -> std::sync::MutexGuard<'_, Vec<AlignedBuffer>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_through(
        &self,
        bounce: &mut AlignedBuffer,
        file: &File,
        mut rest: &mut [u8],
        mut offset: u64,
    ) -> io::Result<()> {
        let sector = self.sector as u64;
        while !rest.is_empty() {
            let before = usize::try_from(offset % sector).unwrap_or(0);
            let length = (BOUNCE_BYTES - before).min(rest.len());
            // The end of a device lies at the end of a sector, so that this does not go beyond.
            let whole = (before + length).next_multiple_of(self.sector);
            let source = bounce.bytes_mut().get_mut(..whole).unwrap_or_default();
            file.read_exact_at(source, offset - before as u64)?;
            let (target, behind) = rest.split_at_mut(length);
            target.copy_from_slice(source.get(before..before + length).unwrap_or_default());
            rest = behind;
            offset = offset.saturating_add(length as u64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        // Buffered reads of a file take any alignment: what is tested is how requests are cut and put together.
        #[test]
        fn any_range_is_put_together_from_sectors(
            offset in 0..3_000_000_usize,
            length in 0..2_500_000_usize,
            sector in prop::sample::select(vec![512_usize, 4096]),
        ) {
            let content: Vec<u8> = (0..1_048_576_u32).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &content).unwrap();
            let direct = Direct { sector, buffers: Mutex::default() };
            let length = length.min(content.len() - offset);
            let mut read = vec![1; length];
            direct.read_exact_at(file.as_file(), &mut read, offset as u64).unwrap();
            prop_assert!(read == content[offset..offset + length]);
            prop_assert!(direct.buffers().len() <= 1);
        }
    }
}
