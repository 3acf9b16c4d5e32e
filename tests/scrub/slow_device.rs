//! A device that answers slowly does not stop the others.
//!
//! No clock decides: the slow device answers no request for many blocks before the other one was asked for its own. A run that
//! lets the fast device wait for the slow one would never end; a limit of time turns that into a failure.

use fixtures::{Content, DatasetSpec, FileSpec, Pool, PoolSpec, TopSpec, make};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::pool::Assembly;
use zfs_scrub::Options;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::Verdict;

/// A request for so many blocks is one of a batch; metadata here are few and small.
const BLOCKS_OF_BATCH: usize = 3;
/// After this the run hangs.
const LONGEST: Duration = Duration::from_secs(30);
const SLOW: usize = 1;

/// What two devices wait for.
#[derive(Debug)]
struct Race {
    /// Blocks of files on the fast device that were not asked for.
    left: Mutex<BTreeSet<u64>>,
    asked: Condvar,
    /// So few are left before the slow device answers.
    left_max: usize,
    has_waited: AtomicBool,
    is_late: AtomicBool,
}

#[derive(Debug)]
struct Racer {
    device: fixtures::Device,
    is_slow: bool,
    /// Where blocks of files begin.
    blocks: BTreeSet<u64>,
    race: Arc<Race>,
}

impl ReadAt for Racer {
    fn size_bytes(&self) -> u64 {
        self.device.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let end = offset + buffer.len() as u64;
        let wanted = self.blocks.range(offset..end);
        if self.is_slow && wanted.clone().count() >= BLOCKS_OF_BATCH {
            let race = &self.race;
            let is_early = |left: &mut BTreeSet<u64>| left.len() > race.left_max;
            let waited = race.asked.wait_timeout_while(race.left.lock().unwrap(), LONGEST, is_early).unwrap();
            race.has_waited.store(true, SeqCst);
            race.is_late.fetch_or(waited.1.timed_out(), SeqCst);
        } else if !self.is_slow {
            let mut left = self.race.left.lock().unwrap();
            for block in wanted {
                left.remove(block);
            }
            self.race.asked.notify_all();
        }
        self.device.read_at(offset, buffer);
        Ok(())
    }
}

fn pool(tops: &[TopSpec], record_bytes: u32) -> Pool {
    let mut root = DatasetSpec::new("");
    root.record_bytes = record_bytes;
    let file = FileSpec::new("file", Content::random(1, 200 * u64::from(record_bytes)));
    make(&PoolSpec::new("tank").with_tops(tops).with_dataset(root.with_file(file)))
}

/// Where blocks of files begin on a device.
fn file_blocks(pool: &Pool, device: usize) -> BTreeSet<u64> {
    const PLAIN_FILE: u8 = 19;
    let leaves = pool.blocks.iter().filter(|block| block.object_type == PLAIN_FILE && block.level == 0);
    let leaves = leaves.flat_map(|block| &block.copies).flat_map(|copy| &copy.leaves);
    leaves.filter(|leaf| leaf.device == device).map(|leaf| leaf.offset_bytes).collect()
}

/// Scrubs a pool whose slow device waits until at most `left_max` blocks of the fast one were not asked for.
fn assert_others_go_on(pool: &Pool, options: &Options, left_max: impl Fn(usize) -> usize) {
    let fast = file_blocks(pool, 1 - SLOW);
    assert!(fast.len() >= 90, "{} blocks", fast.len());
    let race = Arc::new(Race {
        left_max: left_max(fast.len()),
        left: Mutex::new(fast),
        asked: Condvar::new(),
        has_waited: AtomicBool::new(false),
        is_late: AtomicBool::new(false),
    });
    let open = |(number, device): (usize, &fixtures::Device)| {
        Medium::new(
            PathBuf::from(&device.name),
            Arc::new(Racer {
                device: device.clone(),
                is_slow: number == SLOW,
                blocks: file_blocks(pool, number),
                race: Arc::clone(&race),
            }),
        )
    };
    let media: Vec<Medium> = pool.devices.iter().enumerate().map(open).collect();
    let mut assembly = Assembly::new(&media, None).unwrap();
    let outcome = zfs_scrub::scrub(&mut assembly, options, &Progress::default()).unwrap();
    assert_eq!(outcome.summary.verdict, Verdict::Clean);
    let left = race.left.lock().unwrap().len();
    assert!(race.has_waited.load(SeqCst) && left == 0, "{left} blocks were not asked for");
    assert!(!race.is_late.load(SeqCst), "the fast device waited for the slow one");
}

#[test]
fn all_of_a_batch_is_read_from_other_devices_while_one_does_not_answer() {
    for tops in [&[TopSpec::Disk, TopSpec::Disk][..], &[TopSpec::Mirror(2)]] {
        for threads in [1, 2, 5] {
            assert_others_go_on(&pool(tops, 16 << 10), &Options { threads, ..Options::default() }, |_| 0);
        }
    }
}

/// A batch has some 30 blocks of each disk here, which are tasks for more than one thread: none of the threads that
/// are left goes to the disk that does not answer while there are blocks of the other one, in this batch or the next.
#[test]
fn other_devices_go_on_with_the_next_batch() {
    let pool = pool(&[TopSpec::Disk, TopSpec::Disk], 128 << 10);
    for threads in [2, 3] {
        assert_others_go_on(&pool, &Options { threads, memory_bytes: 64 << 10, ..Options::default() }, |blocks| {
            blocks - 40
        });
    }
}

/// A device on which reading file data is a bug in the program.
#[derive(Debug)]
struct Buggy {
    device: fixtures::Device,
    blocks: BTreeSet<u64>,
}

impl ReadAt for Buggy {
    fn size_bytes(&self) -> u64 {
        self.device.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let end = offset + buffer.len() as u64;
        assert!(self.blocks.range(offset..end).count() == 0, "this is part of a test");
        self.device.read_at(offset, buffer);
        Ok(())
    }
}

/// A bug must be seen, and not leave the walk waiting for threads that are gone. There are more batches than may wait.
#[test]
fn threads_that_panic_end_the_run() {
    for (tops, threads) in [(TopSpec::Disk, 1), (TopSpec::Disk, 3), (TopSpec::Raidz { parity: 1, width: 3 }, 2)] {
        let pool = pool(&[tops], 16 << 10);
        let open = |(number, device): (usize, &fixtures::Device)| {
            Medium::new(
                PathBuf::from(&device.name),
                Arc::new(Buggy { device: device.clone(), blocks: file_blocks(&pool, number) }),
            )
        };
        let media: Vec<Medium> = pool.devices.iter().enumerate().map(open).collect();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let run = std::thread::spawn(move || {
            let _ended = sender;
            let mut assembly = Assembly::new(&media, None).unwrap();
            let options = Options { threads, memory_bytes: 64 << 10, ..Options::default() };
            zfs_scrub::scrub(&mut assembly, &options, &Progress::default()).map(drop)
        });
        // The channel closes when the run ends, whichever way.
        assert!(receiver.recv_timeout(LONGEST) == Err(RecvTimeoutError::Disconnected), "the run does not end");
        assert!(run.join().is_err(), "nobody read file data");
    }
}
