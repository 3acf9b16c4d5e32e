//! Where a device ends that does not tell: seeking to the end of a disk gives 0 on FreeBSD and macOS, and the calls
//! that know its size have no safe wrapper. So it is found by reading: some sixty sectors, once for each device.

use super::aligned::{ALIGN_BYTES, AlignedBuffer};
use std::io;

/// Larger than any device: 2^53 sectors.
const SECTORS_MAX: u64 = 1 << 53;
/// Bad sectors that may be taken for the end, one after the other, before the search is given up.
const MISTAKES_MAX: usize = 64;

/// The unit in which a device can be read: the smallest that it answers to at its start. `None` when it does not.
///
/// `read` fills as much of a buffer as it can, like `pread`.
pub(super) fn sector_bytes(read: &dyn Fn(&mut [u8], u64) -> io::Result<usize>) -> Option<usize> {
    let mut buffer = AlignedBuffer::new(ALIGN_BYTES);
    let mut sizes = [512, 1024, 2048, ALIGN_BYTES].into_iter();
    sizes.find(|&size| {
        buffer.bytes_mut().get_mut(..size).is_some_and(|part| matches!(read(part, 0), Ok(n) if n == size))
    })
}

/// Where a device with sectors of this size ends, in bytes.
///
/// A sector counts as inside when it can be read. So that a bad one is not taken for the end, sectors further and
/// further behind a supposed end are tried, unless the device says that nothing follows. `None` when there is no telling.
pub(super) fn find(read: &dyn Fn(&mut [u8], u64) -> io::Result<usize>, sector: usize) -> Option<u64> {
    let mut buffer = AlignedBuffer::new(sector);
    let mut read_sector = |index: u64| {
        let offset = index.checked_mul(sector as u64).ok_or(io::ErrorKind::InvalidInput)?;
        read(buffer.bytes_mut(), offset)
    };
    let mut has = |index: u64| index < SECTORS_MAX && matches!(read_sector(index), Ok(length) if length == sector);
    if !has(0) {
        return None;
    }
    // A sector that can be read.
    let mut inside = 0;
    for _ in 0..MISTAKES_MAX {
        let mut step = 1;
        while has(inside + step) {
            inside += step;
            step *= 2;
        }
        // Between `inside`, which can be read, and `outside`, which cannot.
        let mut outside = inside + step;
        while outside - inside > 1 {
            let middle = inside + (outside - inside) / 2;
            if has(middle) { inside = middle } else { outside = middle }
        }
        let beyond = (0..53).map(|power| outside + (1_u64 << power)).find(|&index| has(index));
        match beyond {
            None => return outside.checked_mul(sector as u64),
            Some(index) => inside = index,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// A disk of so many sectors of 512 bytes, some of them bad.
    fn disk(sectors: u64, bad: &[u64], beyond: &io::Result<usize>) -> (Option<u64>, usize) {
        let requests = Cell::new(0);
        let code = beyond.as_ref().err().and_then(io::Error::raw_os_error);
        let read = |buffer: &mut [u8], offset: u64| {
            requests.set(requests.get() + 1);
            assert!(offset.is_multiple_of(512) && buffer.len().is_multiple_of(512));
            match offset / 512 {
                index if index >= sectors => code.map_or(Ok(0), |code| Err(io::Error::from_raw_os_error(code))),
                index if bad.contains(&index) => Err(io::Error::from_raw_os_error(5)),
                _ => Ok(buffer.len()),
            }
        };
        (find(&read, 512), requests.get())
    }

    #[test]
    fn the_end_is_found_whatever_the_system_says_beyond_it() {
        let beyond = || [Ok(0), Err(io::Error::from_raw_os_error(5)), Err(io::Error::from_raw_os_error(22))];
        for sectors in [1, 2, 3, 7, 8, 1000, 131_072, 7_814_037_168, 1 << 44] {
            for beyond in beyond() {
                let (end, requests) = disk(sectors, &[], &beyond);
                assert_eq!(end, Some(sectors * 512));
                assert!(requests < 200, "{requests} requests for {sectors} sectors");
            }
        }
        assert_eq!(disk(0, &[], &Ok(0)).0, None);
        assert_eq!(disk(10, &[0], &Ok(0)).0, None);
    }

    proptest! {
        #[test]
        fn bad_sectors_are_not_taken_for_the_end(
            sectors in 2_000_u64..1 << 33,
            bad in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            powers in prop::collection::vec(1_u32..32, 0..6),
        ) {
            // The last one is good: nobody could tell otherwise. Where the search looks first is among the bad ones.
            let mut bad: Vec<u64> = bad.iter().map(|index| 1 + index.index(sectors as usize - 2) as u64).collect();
            bad.extend(powers.iter().map(|power| (1_u64 << power) - 1).filter(|&at| at > 0 && at + 1 < sectors));
            prop_assert_eq!(disk(sectors, &bad, &Err(io::Error::from_raw_os_error(5))).0, Some(sectors * 512));
        }
    }

    #[test]
    fn the_unit_of_reading_is_the_smallest_that_is_answered() {
        for unit in [512, 2048, 4096] {
            let read = |buffer: &mut [u8], _: u64| {
                if buffer.len().is_multiple_of(unit) { Ok(buffer.len()) } else { Err(io::Error::from_raw_os_error(22)) }
            };
            assert_eq!(sector_bytes(&read), Some(unit));
        }
        assert_eq!(sector_bytes(&|_: &mut [u8], _: u64| Err(io::ErrorKind::NotConnected.into())), None);
    }
}
