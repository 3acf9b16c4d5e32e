//! Devices that fail, disappear, become shorter, or were never read as a whole.

use crate::support::{Bytes, devices_of, image, in_memory, name_of, options, scrub, skipped};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use zfs_format::media::{self, FileMedium, Mapped, MediaError, Medium, ReadAt, RescueMap};
use zfs_format::pool::{Assembly, Selector};
use zfs_scrub::finding::{CopyEvidence, CopyResult};
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::{NotCheckedReason, Totals, VdevFacts, exit};
use zfs_scrub::{Finding, Kind, Options, Outcome, Severity};

const EIO: i32 = 5;
const ENODEV: i32 = 19;

/// How a medium fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Not at all.
    None,
    /// Every second request.
    EverySecond,
    /// All requests after so many, since there is no device any more.
    GoneAfter(usize),
    /// It takes its time.
    Slow(Duration),
}

/// A device in memory that fails.
#[derive(Debug)]
struct Faulty {
    bytes: Bytes,
    fault: Fault,
    requests: Arc<AtomicUsize>,
}

impl ReadAt for Faulty {
    fn size_bytes(&self) -> u64 {
        self.bytes.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let number = self.requests.fetch_add(1, Relaxed);
        let code = match self.fault {
            Fault::EverySecond if number % 2 == 1 => EIO,
            Fault::GoneAfter(count) if number >= count => ENODEV,
            Fault::Slow(time) => {
                std::thread::sleep(time);
                return self.bytes.read_at(buffer, offset);
            }
            _ => return self.bytes.read_at(buffer, offset),
        };
        let source = Arc::new(io::Error::from_raw_os_error(code));
        Err(MediaError::Read { offset, length: buffer.len(), source })
    }
}

/// The pool of a folder with a fault of its first device, and how many requests that one got.
fn scrub_with(folder: &str, fault: Fault, options: &Options) -> (Outcome, usize) {
    let pool = image(folder);
    let requests = Arc::new(AtomicUsize::new(0));
    let medium = |(index, (name, bytes)): (usize, (String, Vec<u8>))| {
        let requests = if index == 0 { Arc::clone(&requests) } else { Arc::default() };
        let fault = if index == 0 { fault } else { Fault::None };
        Medium::new(PathBuf::from(name), Arc::new(Faulty { bytes: Bytes(bytes), fault, requests }))
    };
    let media: Vec<Medium> = devices_of(&pool).into_iter().enumerate().map(medium).collect();
    let outcome = scrub(&media, name_of(&pool), options).unwrap();
    (outcome, requests.load(Relaxed))
}

fn one_thread() -> Options {
    Options { threads: 1, ..options() }
}

fn status(outcome: &Outcome) -> u8 {
    outcome.summary.exit_status
}

fn of_kind(outcome: &Outcome, kind: Kind) -> Vec<&Finding> {
    outcome.findings.iter().filter(|finding| finding.kind == kind).collect()
}

fn copies(outcome: &Outcome) -> impl Iterator<Item = &CopyEvidence> {
    outcome.findings.iter().flat_map(|finding| &finding.copies)
}

fn leaves(outcome: &Outcome) -> Vec<&VdevFacts> {
    let (mut leaves, mut rest) = (Vec::new(), outcome.vdevs.iter().collect::<Vec<_>>());
    while let Some(vdev) = rest.pop() {
        rest.extend(&vdev.children);
        if vdev.children.is_empty() {
            leaves.push(vdev);
        }
    }
    leaves
}

fn not_checked(outcome: &Outcome, reason: NotCheckedReason) -> Vec<(&str, u64)> {
    let of_reason = outcome.not_checked.iter().filter(|left| left.reason == reason);
    of_reason.map(|left| (left.what.as_str(), left.blocks.unwrap_or(0))).collect()
}

#[test]
fn errors_that_pass_are_a_note() {
    for folder in ["single", "mirror2", "raidz1-3disk"] {
        let (healthy, _) = scrub_with(folder, Fault::None, &one_thread());
        let (outcome, _) = scrub_with(folder, Fault::EverySecond, &one_thread());
        // Which requests it took is another matter.
        let totals = Totals { reading: healthy.totals.reading, ..outcome.totals };
        assert_eq!((status(&outcome), totals), (0, healthy.totals), "{folder}");
        let kinds: Vec<Kind> = outcome.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == Kind::MemberUnsteady).count(), 1, "{folder}: {kinds:?}");
        assert!(outcome.findings.iter().all(|finding| finding.severity == Severity::Note), "{folder}");
    }
}

#[test]
fn a_slow_device_changes_nothing() {
    let (healthy, _) = scrub_with("mirror2", Fault::None, &options());
    let (outcome, _) = scrub_with("mirror2", Fault::Slow(Duration::from_millis(2)), &options());
    assert_eq!((outcome.totals, outcome.findings), (healthy.totals, healthy.findings));
}

#[test]
fn a_device_that_disappears_is_missing_from_then_on() {
    for (folder, threads) in [("mirror2", 1), ("mirror2", 2), ("raidz1-3disk", 1), ("raidz1-3disk", 2)] {
        let options = Options { threads, ..options() };
        let (healthy, requests) = scrub_with(folder, Fault::None, &options);
        for part in [1, 2, 3] {
            let what = format!("{folder}, {threads} threads, after {part}/4");
            let (outcome, _) = scrub_with(folder, Fault::GoneAfter(requests * part / 4), &options);
            assert_eq!(status(&outcome), exit::DEGRADED | exit::INCOMPLETE, "{what}: {:?}", outcome.findings);
            assert_eq!(outcome.totals.blocks, healthy.totals.blocks, "{what}");
            assert_eq!(outcome.totals.decoded_blocks, healthy.totals.decoded_blocks, "{what}");
            assert_eq!(outcome.summary.degraded_blocks + outcome.summary.lost_blocks, 0, "{what}");
            let gone = of_kind(&outcome, Kind::MemberGone);
            assert!(gone.len() == 1 && gone[0].message.starts_with("it disappeared at a read of byte "), "{what}");
            let left = not_checked(&outcome, NotCheckedReason::MissingMember);
            assert_eq!(left.len(), 1, "{what}: {left:?}");
            assert!(left[0].0.ends_with(", which disappeared during the run") && left[0].1 > 0, "{what}: {left:?}");
            let states: Vec<&str> = leaves(&outcome).iter().map(|leaf| leaf.state.as_str()).collect();
            assert_eq!(states.iter().filter(|state| **state == "UNAVAIL").count(), 1, "{what}: {states:?}");
            assert!(leaves(&outcome).iter().all(|leaf| leaf.read_errors + leaf.checksum_errors == 0), "{what}");
        }
    }
}

#[test]
fn what_lay_on_the_only_device_is_missing_and_not_corrupt() {
    let (_, requests) = scrub_with("single", Fault::None, &one_thread());
    let mut lost = 0;
    // Metadata has copies further behind, so that the last requests are not missed.
    for left in [requests / 5, requests / 4, requests / 3, requests / 2] {
        let (outcome, _) = scrub_with("single", Fault::GoneAfter(requests - left), &one_thread());
        assert!(copies(&outcome).all(|copy| matches!(copy.result, CopyResult::Missing | CopyResult::Ok)));
        assert_eq!(of_kind(&outcome, Kind::MemberGone).len(), 1);
        assert!(!not_checked(&outcome, NotCheckedReason::MissingMember).is_empty());
        let missing = of_kind(&outcome, Kind::BlockMissing).len();
        let bit = if missing > 0 { exit::DAMAGED } else { exit::DEGRADED };
        assert_eq!(status(&outcome), bit | exit::INCOMPLETE, "{left}: {:?}", outcome.findings);
        assert_eq!(outcome.findings.len(), 1 + missing, "{left}: {:?}", outcome.findings);
        lost += missing;
    }
    assert!(lost > 0);
}

/// Where images are cut.
const END_BYTES: u64 = (5 << 20) + (64 << 10);

/// The image as a file that is cut short once the pool is open.
fn cut_short(folder: &str, to_bytes: impl Fn(u64) -> u64) -> (Outcome, u64) {
    let pool = image(folder);
    let dir = tempfile::tempdir().unwrap();
    let mut media = Vec::new();
    for (name, bytes) in devices_of(&pool) {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        media.push(media::open(&path).unwrap());
    }
    let mut assembly = Assembly::new(&media, Some(&Selector::Name(name_of(&pool).to_owned()))).unwrap();
    let end = to_bytes(media[0].bytes.size_bytes());
    std::fs::OpenOptions::new().write(true).open(&media[0].path).unwrap().set_len(end).unwrap();
    (zfs_scrub::scrub(&mut assembly, &options(), &Progress::default()).unwrap(), end)
}

#[test]
fn an_image_that_is_cut_short_during_the_run_ends_with_a_finding() {
    // In front of a block of a file that has no other copy, and behind one copy of most of the metadata.
    let behind_some = |_| END_BYTES;
    let (mirror, end) = cut_short("mirror2", behind_some);
    assert_eq!(status(&mirror), exit::DEGRADED | exit::INCOMPLETE, "{:?}", mirror.findings);
    let gone = of_kind(&mirror, Kind::MemberGone);
    assert!(gone.len() == 1 && gone[0].message.contains(&format!("ends at byte {end} ")), "{gone:?}");
    assert!(leaves(&mirror).iter().any(|leaf| leaf.state == "FAULTED"));
    let (single, end) = cut_short("single", behind_some);
    assert_eq!(status(&single), exit::DAMAGED | exit::INCOMPLETE);
    let missing: Vec<_> = copies(&single).filter(|copy| copy.result == CopyResult::Missing).collect();
    assert!(!missing.is_empty());
    for copy in copies(&single) {
        let is_behind = copy.device_offset_bytes.unwrap() + copy.length_bytes > end;
        assert_eq!(copy.result, if is_behind { CopyResult::Missing } else { CopyResult::Ok }, "{copy:?}");
    }
    let (nothing, _) = cut_short("single", |_| 0);
    assert_eq!(status(&nothing), exit::DAMAGED | exit::INCOMPLETE);
}

/// The devices of a pool, the first of them with a hole that was never rescued and holds anything.
fn with_hole(folder: &str, hole: &Range<usize>) -> Vec<Medium> {
    let mut devices = devices_of(&image(folder));
    let size = devices[0].1.len();
    devices[0].1[hole.clone()].fill(0xa5);
    let mut media = in_memory(devices);
    let text = format!(
        "# made by a test\n0 ?\n0 {:#x} +\n{1} {2} *\n{3} {4} +\n",
        hole.start,
        hole.start,
        hole.len(),
        hole.end,
        size - hole.end
    );
    let map = RescueMap::parse("disk.map", &text).unwrap();
    let bytes = Arc::clone(&media[0].bytes);
    media[0].bytes = Arc::new(Mapped::new(bytes, map));
    media
}

#[test]
fn what_was_never_rescued_is_unread_and_not_corrupt() {
    for (folder, start) in [("mirror2", 5 << 20), ("raidz1-3disk", 4 << 20), ("single", 5 << 20)] {
        let hole = start + 512..(7 << 20) + 1024;
        let outcome = scrub(&with_hole(folder, &hole), name_of(&image(folder)), &options()).unwrap();
        let expected = if folder == "single" { exit::DAMAGED | exit::INCOMPLETE } else { exit::INCOMPLETE };
        assert_eq!(status(&outcome), expected, "{folder}: {:?}", outcome.findings);
        let left = not_checked(&outcome, NotCheckedReason::Unread);
        assert!(left.len() == 1 && left[0].1 > 0, "{folder}: {left:?}");
        assert!(
            left[0].0.starts_with("copies in ranges of ") && left[0].0.ends_with(" that were never read (disk.map)")
        );
        assert!(leaves(&outcome).iter().all(|leaf| leaf.read_errors + leaf.checksum_errors == 0), "{folder}");
        assert!(outcome.findings.iter().all(|finding| finding.kind == Kind::BlockUnread), "{:?}", outcome.findings);
        assert_eq!(outcome.findings.is_empty(), folder != "single");
        for copy in copies(&outcome) {
            let start = copy.device_offset_bytes.unwrap();
            let is_inside = start < hole.end as u64 && (hole.start as u64) < start + copy.length_bytes;
            assert_eq!(copy.result, if is_inside { CopyResult::Unread } else { CopyResult::Ok }, "{copy:?}");
        }
    }
}

#[test]
fn labels_that_were_never_rescued_are_not_checked_and_not_damaged() {
    let outcome = scrub(&with_hole("mirror2", &(0..512 << 10)), name_of(&image("mirror2")), &options()).unwrap();
    assert_eq!((status(&outcome), outcome.findings.len()), (exit::INCOMPLETE, 0), "{:?}", outcome.findings);
    let left = not_checked(&outcome, NotCheckedReason::Unread);
    let labels: BTreeSet<&str> = left.iter().map(|(what, _)| &what[..7]).collect();
    assert_eq!(labels, BTreeSet::from(["label 0", "label 1"]), "{left:?}");
}

/// A loop device over a file; taken apart when dropped.
struct Loop(PathBuf);

impl Loop {
    /// `None`, said on stderr, where that is not allowed.
    fn over(file: &Path, sector: u32) -> Option<Self> {
        let sector = sector.to_string();
        let made = Command::new("losetup")
            .args(["--find", "--show", "--read-only", "--sector-size", &sector])
            .arg(file)
            .output();
        match made {
            Ok(output) if output.status.success() => {
                Some(Self(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())))
            }
            _ => {
                skipped("no block device was read: `losetup` is not there, or not allowed");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn block_devices_are_read_past_the_page_cache() {
    let pool = image("single");
    let (_, bytes) = devices_of(&pool).remove(0);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let as_file = scrub(&[media::open(file.path()).unwrap()], name_of(&pool), &options()).unwrap();
    for sector in [512, 4096] {
        let Some(device) = Loop::over(file.path(), sector) else { return };
        let medium = FileMedium::open(&device.0).unwrap();
        assert_eq!((medium.size_bytes(), medium.is_direct()), (bytes.len() as u64, true));
        assert!(medium.sector_bytes() >= u64::from(sector));
        for (offset, length) in [(0, 4096), (1, 1), (511, 514), (4097, 3_000_000), (8192, 1 << 20)] {
            let mut read = vec![0; length];
            medium.read_at(&mut read, offset as u64).unwrap();
            assert!(read == bytes[offset..offset + length], "{length} at {offset}, sectors of {sector}");
        }
        let outcome = scrub(&[media::open(&device.0).unwrap()], name_of(&pool), &options()).unwrap();
        assert_eq!((status(&outcome), outcome.totals), (0, as_file.totals), "{:?}", outcome.findings);
        assert_eq!(outcome.findings, as_file.findings);
    }
}

/// What lies behind the end of its file a loop device answers with EIO.
#[test]
fn errors_of_a_block_device_are_recorded_to_the_byte() {
    let pool = image("single");
    let (_, bytes) = devices_of(&pool).remove(0);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &bytes).unwrap();
    let Some(device) = Loop::over(file.path(), 512) else { return };
    let mut assembly = Assembly::new(&[media::open(&device.0).unwrap()], None).unwrap();
    let end = END_BYTES;
    file.as_file().set_len(end).unwrap();
    let outcome = zfs_scrub::scrub(&mut assembly, &options(), &Progress::default()).unwrap();
    let report = assembly.tree.leaves[0].medium.as_ref().unwrap().report();
    assert_eq!((status(&outcome) & exit::DAMAGED, report.gone), (exit::DAMAGED, None));
    assert!(!report.bad_ranges.is_empty() && report.bad_ranges.iter().all(|bad| bad.start >= end));
    let mut wanted: Vec<Range<u64>> = Vec::new();
    for copy in copies(&outcome) {
        let start = copy.device_offset_bytes.unwrap();
        let is_behind = start + copy.length_bytes > end;
        assert_eq!(copy.result, if is_behind { CopyResult::ReadError } else { CopyResult::Ok }, "{copy:?}");
        if is_behind {
            wanted.push(start.max(end)..start + copy.length_bytes);
        }
    }
    let is_in = |bytes: &Range<u64>, ranges: &[Range<u64>]| {
        ranges.iter().any(|range| range.start <= bytes.start && bytes.end <= range.end)
    };
    assert!(wanted.iter().all(|wanted| is_in(wanted, &report.bad_ranges)), "{wanted:?} {report:?}");
    assert_eq!(of_kind(&outcome, Kind::MemberUnreadable).len(), 1);
}
