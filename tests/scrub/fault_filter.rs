//! A file system of our own (FUSE) that answers with errors: what the kernel makes of them is what a sick disk gives.

use crate::support::{devices_of, image, name_of, options, skipped};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, UNIX_EPOCH};
use zfs_format::media::{self, DeviceReport};
use zfs_format::pool::{Assembly, Selector};
use zfs_scrub::finding::CopyResult;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::exit;
use zfs_scrub::{Kind, Outcome};

/// One file, `disk`, with bytes that cannot be read.
struct Sick {
    bytes: Vec<u8>,
    bad: Range<u64>,
    is_gone: Arc<AtomicBool>,
}

impl Sick {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_root = inode == INodeNo::ROOT;
        FileAttr {
            ino: inode,
            size: if is_root { 0 } else { self.bytes.len() as u64 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: if is_root { 0o755 } else { 0o444 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 512,
        }
    }
}

impl Filesystem for Sick {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&Duration::from_secs(60), &self.attributes(INodeNo(2)), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::from_secs(60), &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Requests come as they were made, not by pages.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let end = (offset + u64::from(size)).min(self.bytes.len() as u64);
        if self.is_gone.load(Relaxed) {
            reply.error(Errno::ENODEV);
        } else if self.bad.start < end && offset < self.bad.end {
            reply.error(Errno::EIO);
        } else {
            reply.data(&self.bytes[offset as usize..end as usize]);
        }
    }
}

/// Scrubs the pool `single` on the file system; its disk disappears, when asked for, once the pool is open. `None`, said
/// on stderr, where nothing can be mounted.
fn scrub_sick(bad: Range<u64>, disappears: bool) -> Option<(DeviceReport, Outcome)> {
    let pool = image("single");
    let (_, bytes) = devices_of(&pool).remove(0);
    let is_gone = Arc::new(AtomicBool::new(false));
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.mount_options.push(MountOption::RO);
    let sick = Sick { bytes, bad, is_gone: Arc::clone(&is_gone) };
    let Ok(session) = fuser::spawn_mount(sick, dir.path(), &config) else {
        skipped("no FUSE file system can be mounted here");
        return None;
    };
    // The file is closed before the file system goes.
    let answer = scrub(&dir.path().join("disk"), name_of(&pool), || is_gone.store(disappears, Relaxed));
    drop(session);
    Some(answer)
}

fn scrub(path: &Path, pool: &str, once_open: impl FnOnce()) -> (DeviceReport, Outcome) {
    let mut assembly = Assembly::new(&[media::open(path).unwrap()], Some(&Selector::Name(pool.to_owned()))).unwrap();
    once_open();
    let outcome = zfs_scrub::scrub(&mut assembly, &options(), &Progress::default()).unwrap();
    (assembly.tree.leaves[0].medium.as_ref().unwrap().report(), outcome)
}

#[test]
fn the_sector_that_the_kernel_cannot_read_is_told() {
    // In a block of a file that has no other copy.
    let Some((report, outcome)) = scrub_sick(5_439_600..5_439_700, false) else { return };
    let bad: Vec<(u64, u64)> = report.bad_ranges.iter().map(|range| (range.start, range.end)).collect();
    assert_eq!((bad, report.gone), (vec![(5_439_488, 5_440_000)], None));
    assert_eq!((outcome.summary.exit_status, outcome.summary.lost_blocks), (exit::DAMAGED, 1));
    let kinds: Vec<Kind> = outcome.findings.iter().map(|finding| finding.kind).collect();
    assert!(kinds.len() == 2 && kinds.contains(&Kind::BlockReadError) && kinds.contains(&Kind::MemberUnreadable));
    let told = outcome.findings.iter().find(|finding| finding.kind == Kind::MemberUnreadable).unwrap();
    assert_eq!(told.message, "512 bytes in 1 range cannot be read: bytes 5439488-5439999");
    let lost = outcome.findings.iter().find(|finding| finding.kind == Kind::BlockReadError).unwrap();
    assert!(lost.message.contains("cannot read 512 bytes at 5439488: "), "{}", lost.message);
    assert!(lost.copies.iter().all(|copy| copy.result == CopyResult::ReadError));
}

#[test]
fn a_device_that_the_kernel_has_lost_is_gone() {
    let Some((report, outcome)) = scrub_sick(0..0, true) else { return };
    assert!(report.gone.is_some_and(|gone| gone.from == 0) && report.bad_ranges.is_empty(), "{report:?}");
    assert_eq!(outcome.summary.exit_status, exit::DAMAGED | exit::INCOMPLETE);
    assert!(outcome.findings.iter().any(|finding| finding.kind == Kind::MemberGone));
    let copies = outcome.findings.iter().flat_map(|finding| &finding.copies);
    assert!(copies.clone().count() > 0 && copies.clone().all(|copy| copy.result == CopyResult::Missing));
}
