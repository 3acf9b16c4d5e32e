//! Devices that fail as they are told to.
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of which have one")]

use super::*;
use crate::media::{Mapped, RescueMap, Window};
use proptest::prelude::*;

/// A medium that fails as it is told to.
#[derive(Debug)]
struct Faulty {
    bytes: Vec<u8>,
    sector: u64,
    /// Bytes of which reading always fails.
    bad: Vec<Range<u64>>,
    /// Bytes of which reading fails so many times more.
    shaky: Mutex<Vec<(Range<u64>, usize)>>,
    /// After so many requests there is no device any more.
    requests_left: Mutex<usize>,
    size_now: AtomicU64,
    asked: Mutex<Vec<Range<u64>>>,
}

const SIZE: u64 = 1 << 20;

fn faulty(bad: &[Range<u64>]) -> Faulty {
    Faulty {
        bytes: (0..SIZE).map(|at| (at / 7 % 251) as u8).collect(),
        sector: 512,
        bad: bad.to_vec(),
        shaky: Mutex::default(),
        requests_left: Mutex::new(usize::MAX),
        size_now: AtomicU64::new(SIZE),
        asked: Mutex::default(),
    }
}

impl Faulty {
    fn asked(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl ReadAt for Arc<Faulty> {
    fn size_bytes(&self) -> u64 {
        SIZE
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let range = range_of(buffer, offset);
        super::super::check_range(offset, buffer.len(), SIZE)?;
        self.asked.lock().unwrap().push(range.clone());
        let fail = |error| Err(failed(&range, Arc::new(error)));
        let mut left = self.requests_left.lock().unwrap();
        if *left == 0 {
            return fail(rustix::io::Errno::NODEV.into());
        }
        *left -= 1;
        if range.end > self.size_now.load(Relaxed) {
            return fail(io::ErrorKind::UnexpectedEof.into());
        }
        let touches = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
        if self.bad.iter().any(touches) {
            return fail(rustix::io::Errno::IO.into());
        }
        let mut shaky = self.shaky.lock().unwrap();
        if let Some((_, times)) = shaky.iter_mut().find(|(shaky, times)| touches(shaky) && *times > 0) {
            *times -= 1;
            return fail(rustix::io::Errno::IO.into());
        }
        buffer.copy_from_slice(&self.bytes[offset as usize..range.end as usize]);
        Ok(())
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn size_now_bytes(&self) -> u64 {
        self.size_now.load(Relaxed)
    }
}

fn device(medium: Faulty) -> (Arc<Faulty>, Device) {
    let medium = Arc::new(medium);
    (Arc::clone(&medium), Device::new(Arc::new(medium)))
}

#[test]
fn an_error_shrinks_to_the_sector_is_tried_once_more_and_not_again_later() {
    let (medium, device) = device(faulty(&[10_000..10_001]));
    let mut buffer = vec![0; 4096];
    let error = device.read_at(&mut buffer, 8192).unwrap_err();
    assert!(matches!(error, MediaError::Read { offset: 9728, length: 512, .. }), "{error}");
    assert!(error.to_string().starts_with("cannot read 512 bytes at 9728: "), "{error}");
    // The whole, eight sectors, and the bad one once more.
    let asked = medium.asked();
    assert_eq!((asked.len(), asked[0].clone()), (10, 8192..12_288));
    assert_eq!(asked.iter().filter(|range| **range == (9728..10_240)).count(), 2);
    assert_eq!(device.report().bad_ranges, [9728..10_240]);
    // What is known is not asked for again, its neighbours are.
    for length in [512, 2048] {
        let again = device.read_at(&mut buffer[..length], 9728).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
    }
    assert!(device.read_extent(&mut buffer, 8192).is_err());
    assert_eq!(medium.asked(), []);
    device.read_at(&mut buffer[..512], 10_240).unwrap();
    assert_eq!(buffer[..512], medium.bytes[10_240..10_752]);
    let report = device.report();
    assert_eq!((report.requests, report.failed_requests, report.requested_bytes), (11, 3, 4096 + 9 * 512 + 512));
}

#[test]
fn a_sector_alone_is_tried_twice() {
    let (medium, device) = device(faulty(&[0..1]));
    assert!(device.read_at(&mut [0; 512], 0).is_err());
    assert_eq!(medium.asked().len(), 2);
}

#[test]
fn an_extent_is_one_request() {
    let (medium, device) = device(faulty(&[70_000..70_001]));
    let mut buffer = vec![0; 65_536];
    device.read_extent(&mut buffer, 0).unwrap();
    assert_eq!(buffer, medium.bytes[..65_536]);
    assert!(device.read_extent(&mut buffer, 65_536).is_err());
    assert_eq!(medium.asked(), [0..65_536, 65_536..131_072]);
    // It is not known which of its bytes are bad.
    assert_eq!(device.report().bad_ranges, []);
}

#[test]
fn what_succeeds_when_it_is_tried_again_is_read() {
    for times in [1, 2] {
        let medium = Faulty { shaky: Mutex::new(vec![(600..601, times)]), ..faulty(&[]) };
        let (medium, device) = device(medium);
        let mut buffer = vec![0; 2048];
        device.read_at(&mut buffer, 0).unwrap();
        assert_eq!(buffer, medium.bytes[..2048]);
        let report = device.report();
        assert_eq!((report.bad_ranges.len(), report.recovered_reads, report.failed_requests), (0, 1, times as u64));
    }
    let (_, device) = device(Faulty { shaky: Mutex::new(vec![(600..601, 3)]), ..faulty(&[]) });
    assert!(device.read_at(&mut [0; 2048], 0).is_err());
    assert_eq!(device.report().bad_ranges, [512..1024]);
}

#[test]
fn physical_sectors_are_bad_as_a_whole_as_far_as_they_were_asked_for() {
    let (_, device) = device(Faulty { sector: 4096, ..faulty(&[9000..9001]) });
    assert!(device.read_at(&mut vec![0; 16_384], 512).is_err());
    assert_eq!(device.report().bad_ranges, [8192..12_288]);
    assert!(device.read_at(&mut vec![0; 512], 8192).is_err());
}

#[test]
fn a_long_run_of_bad_sectors_is_given_up() {
    let (medium, device) = device(faulty(&[0..SIZE]));
    let error = device.read_at(&mut vec![0; 1 << 19], 0).unwrap_err();
    assert!(matches!(error, MediaError::Read { offset: 0, length: 512, .. }), "{error}");
    assert_eq!(medium.asked().len(), 1 + 2 * SECTORS_IN_A_ROW_MAX);
    assert_eq!(device.report().bad_ranges, [0..1 << 19]);
}

#[test]
fn a_device_that_disappears_is_not_asked_again() {
    let (medium, device) = device(Faulty { requests_left: Mutex::new(2), ..faulty(&[]) });
    let mut buffer = [0; 512];
    device.read_at(&mut buffer, 0).unwrap();
    device.read_extent(&mut buffer, 512).unwrap();
    let error = device.read_at(&mut buffer, 4096).unwrap_err();
    assert_eq!(error.to_string(), "cannot read 512 bytes at 4096: the device is gone from byte 0 on");
    assert_eq!(medium.asked().len(), 3);
    assert!(matches!(device.read_extent(&mut buffer, 0), Err(MediaError::Gone { .. })));
    assert!(matches!(device.read_at(&mut buffer, SIZE), Err(MediaError::OutOfRange { .. })));
    assert_eq!(medium.asked(), []);
    let report = device.report();
    assert_eq!((report.gone, report.bad_ranges.len()), (Some(Gone { at: 4096, from: 0 }), 0));
}

#[test]
fn a_device_that_became_shorter_is_read_up_to_its_new_end() {
    let (medium, device) = device(faulty(&[]));
    let mut buffer = vec![0; 8192];
    device.read_at(&mut buffer, SIZE - 8192).unwrap();
    medium.size_now.store(100_000, Relaxed);
    let error = device.read_at(&mut buffer, 98_304).unwrap_err();
    assert!(matches!(error, MediaError::Gone { offset: 98_304, length: 8192, from: 100_000 }), "{error}");
    device.read_at(&mut buffer[..512], 99_000).unwrap();
    assert_eq!(device.gone(), Some(Gone { at: 98_304, from: 100_000 }));
    // And once more.
    medium.size_now.store(50_000, Relaxed);
    assert!(matches!(device.read_at(&mut buffer, 60_000), Err(MediaError::Gone { from: 50_000, .. })));
    assert_eq!(device.gone(), Some(Gone { at: 98_304, from: 50_000 }));
}

#[test]
fn what_was_never_rescued_is_no_error_of_the_device() {
    let map = RescueMap::parse("disk.map", "0 +\n0 4096 +\n4096 4096 -\n8192 0x100000 +\n").unwrap();
    let medium = Arc::new(faulty(&[]));
    let device = Device::new(Arc::new(Mapped::new(Arc::new(Arc::clone(&medium)), map)));
    let mut buffer = vec![0; 1024];
    device.read_at(&mut buffer, 3072).unwrap();
    let error = device.read_at(&mut buffer, 3584).unwrap_err();
    assert_eq!(error.to_string(), "1024 bytes at 3584 were not all rescued (disk.map)");
    device.read_at(&mut buffer, 8192).unwrap();
    let report = device.report();
    assert_eq!((report.failed_requests, report.map.as_deref()), (0, Some("disk.map")));
    assert_eq!(medium.asked(), [3072..4096, 8192..9216]);
}

#[test]
fn a_window_keeps_the_sectors_of_what_it_shows() {
    let medium = Arc::new(Faulty { sector: 4096, ..faulty(&[]) });
    let window = |start| Window::new(Arc::new(Arc::clone(&medium)), start, u64::MAX);
    assert_eq!([4096, 1 << 19, 512, 1024, 63].map(|start| window(start).sector_bytes()), [4096, 4096, 512, 1024, 512]);
    medium.size_now.store(9000, Relaxed);
    assert_eq!((window(4096).size_now_bytes(), window(16_384).size_now_bytes()), (4904, 0));
}

proptest! {
    /// Each read gives the right bytes, or fails where one of its sectors is bad; what is recorded is what was met.
    #[test]
    fn exactly_the_bad_sectors_are_recorded(
        bad in prop::collection::vec((0..200_u64, 1..3_u64), 0..8),
        reads in prop::collection::vec((0..200_u64, 1..24_u64), 1..20),
    ) {
        let bad: Vec<Range<u64>> = bad.iter().map(|(at, count)| at * 512 + 100..(at + count) * 512 - 100).collect();
        let is_bad = |sector: u64| bad.iter().any(|bad| bad.start < (sector + 1) * 512 && sector * 512 < bad.end);
        let (medium, device) = device(faulty(&bad));
        let mut met = vec![false; 300];
        for (first, count) in reads {
            let mut buffer = vec![0; count as usize * 512];
            let result = device.read_at(&mut buffer, first * 512);
            let sectors = || first..first + count;
            // A read over what is known to be bad is not looked through again.
            let is_known = sectors().any(|sector| met[sector as usize]);
            match (sectors().find(|&sector| is_bad(sector)), result) {
                (None, Ok(())) => prop_assert!(buffer == medium.bytes[first as usize * 512..][..buffer.len()]),
                (Some(sector), Err(MediaError::Read { offset, .. })) => {
                    prop_assert!(is_known || offset == sector * 512);
                    for sector in sectors().filter(|&sector| !is_known && is_bad(sector)) {
                        met[sector as usize] = true;
                    }
                }
                (wanted, result) => prop_assert!(false, "{wanted:?} {result:?}"),
            }
        }
        let mut recorded = vec![false; 300];
        for range in device.report().bad_ranges {
            recorded[(range.start / 512) as usize..(range.end / 512) as usize].fill(true);
        }
        prop_assert_eq!(recorded, met);
    }
}
