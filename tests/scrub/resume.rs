//! Runs that were interrupted and go on: the report is that of a run in one go, and what was read is not read again.

use crate::support::{damaged_media, image, options, shared_case};
use fixtures::{Case, images_dir};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::pool::{Assembly, Selector};
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::exit;
use zfs_scrub::resume::{Resuming, SavedRun};
use zfs_scrub::{Options, Outcome, ScrubError};

/// Reads of all devices together, and the one at which the run is cancelled.
#[derive(Debug, Default)]
struct Count {
    reads: AtomicUsize,
    bytes: AtomicUsize,
    cancel_at: AtomicUsize,
    progress: Progress,
}

/// A device that counts.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn ReadAt>,
    count: Arc<Count>,
}

impl ReadAt for Counted {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        if self.count.reads.fetch_add(1, Relaxed) + 1 == self.count.cancel_at.load(Relaxed) {
            self.count.progress.cancel();
        }
        self.count.bytes.fetch_add(buffer.len(), Relaxed);
        self.inner.read_at(buffer, offset)
    }
}

/// Small batches, so that there are many.
fn small() -> Options {
    Options { memory_bytes: 64 << 10, ..options() }
}

/// One run, cancelled at a read, or never: its outcome, what it saved last, how often it read, and how much.
fn run(
    media: &[Medium],
    pool: &str,
    cancel_at: usize,
    from: Option<SavedRun>,
) -> (Result<Outcome, ScrubError>, Option<SavedRun>, usize, usize) {
    let count = Arc::new(Count { cancel_at: cancel_at.into(), ..Count::default() });
    let counted = |medium: &Medium| {
        let bytes = Arc::new(Counted { inner: Arc::clone(&medium.bytes), count: Arc::clone(&count) });
        Medium::new(medium.path.clone(), bytes)
    };
    let media: Vec<Medium> = media.iter().map(counted).collect();
    let mut assembly = Assembly::new(&media, Some(&Selector::Name(pool.to_owned()))).unwrap();
    let saved = Mutex::new(None);
    // As a file keeps it.
    let save = |run: &SavedRun| {
        let kept = SavedRun::from_json(&run.to_json().unwrap()).unwrap();
        *saved.lock().unwrap() = Some(kept);
    };
    let resuming = Resuming { from, interval: Duration::from_millis(3), save: &save };
    let outcome = zfs_scrub::scrub_resumable(&mut assembly, &small(), &count.progress, &resuming);
    (outcome, saved.into_inner().unwrap(), count.reads.load(Relaxed), count.bytes.load(Relaxed))
}

/// What must be equal however often a run was interrupted.
fn essence(outcome: &Outcome) -> impl PartialEq + std::fmt::Debug + use<> {
    let Outcome { totals, findings, not_checked, files, vdevs, summary, patterns, .. } = outcome.clone();
    let numbers = (summary.verdict, summary.exit_status, summary.degraded_blocks, summary.lost_blocks);
    (totals, findings, not_checked, files, vdevs, numbers, patterns)
}

fn assert_resumes(media: &[Medium], pool: &str) {
    let (whole, _, reads, _) = run(media, pool, usize::MAX, None);
    let whole = whole.unwrap();
    for cancel_at in (reads / 8..reads).step_by((reads / 12).max(1)) {
        let (first, saved, ..) = run(media, pool, cancel_at, None);
        let first = first.unwrap();
        if first.summary.exit_status & exit::CANCELLED == 0 {
            continue;
        }
        assert!(saved.is_some(), "{pool}, cancelled at read {cancel_at}");
        let (second, _, reads_again, _) = run(media, pool, usize::MAX, saved);
        assert_eq!(essence(&second.unwrap()), essence(&whole), "{pool}, cancelled at read {cancel_at} of {reads}");
        assert!(reads_again <= reads, "{pool}: {reads_again} reads after {cancel_at} of {reads}");
    }
    // Interrupted again and again, it gets to the end.
    let (mut saved, mut rounds) = (None, 0);
    loop {
        let (outcome, next, ..) = run(media, pool, reads / 2 + rounds * reads / 10, saved);
        let outcome = outcome.unwrap();
        if outcome.summary.exit_status & exit::CANCELLED == 0 {
            assert_eq!(essence(&outcome), essence(&whole));
            break;
        }
        (saved, rounds) = (next, rounds + 1);
        assert!(rounds <= 6, "{pool}: it does not end");
    }
}

fn of_case(name: &str) {
    let case = Case::read(&images_dir().join("cases").join(format!("{name}.json")));
    assert_resumes(&damaged_media(&case), &image(&case.pool).expected.pool);
}

#[test]
fn a_run_goes_on_where_it_was_interrupted() {
    for name in ["single-two-files", "mirror-sides-differ", "copies-scattered", "raidz1-3disk-scattered"] {
        of_case(name);
    }
}

#[test]
fn a_run_goes_on_with_what_is_shared() {
    for name in ["dedup-fast-scattered", "draid1-2d-6c-1s-scattered", "gang-blocks-scattered"] {
        if let Some((case, pool)) = shared_case(name) {
            assert_resumes(&damaged_media(&case), &pool);
        }
    }
}

#[test]
fn what_was_read_is_not_read_again() {
    let case = Case::read(&images_dir().join("cases/single-two-files.json"));
    let media = damaged_media(&case);
    let (_, _, reads, bytes) = run(&media, "single", usize::MAX, None);
    // Near the end of the walk: the last four are the rings of uberblocks, looked at again.
    let (_, saved, ..) = run(&media, "single", reads - 6, None);
    let (_, _, _, again) = run(&media, "single", usize::MAX, saved);
    // Labels, metadata and names are read each time, and the blocks that have a finding for theirs.
    let rings = 4 * (128 << 10);
    assert!(again - rings < (bytes - rings) / 2, "{again} of {bytes}");
}

#[test]
fn another_pool_or_another_question_is_refused() {
    let case = Case::read(&images_dir().join("cases/single-two-files.json"));
    let (_, saved, ..) = run(&damaged_media(&case), "single", 60, None);
    let saved = saved.unwrap();
    let other = Case::read(&images_dir().join("cases/mirror-sides-differ.json"));
    let (outcome, ..) = run(&damaged_media(&other), "mir2", usize::MAX, Some(saved.clone()));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("another run: pool single"), "{error}");
    // Of the same pool, at another txg.
    let text = saved.to_json().unwrap();
    let txg = text.split("\"txg\":").nth(1).unwrap().split(',').next().unwrap();
    let later = SavedRun::from_json(&text.replace(&format!("\"txg\":{txg},"), "\"txg\":7,")).unwrap();
    let (outcome, ..) = run(&damaged_media(&case), "single", usize::MAX, Some(later));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains(&format!("at txg 7 then, and is at {txg} now")), "{error}");
    assert!(SavedRun::from_json("{}").is_err());
}
