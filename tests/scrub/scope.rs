//! Scrubs of a part of a pool: what was asked for is checked, the rest is listed, and parts make up the whole.

use crate::support::{damaged_media, devices_of, image, in_memory, options, scrub};
use fixtures::{Case, images_dir};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_scrub::outcome::{NotCheckedReason, Verdict, exit};
use zfs_scrub::scope::{Scope, Share};
use zfs_scrub::{Options, Outcome};

fn healthy(scope: Scope) -> Outcome {
    let pool = image("single");
    scrub(&in_memory(devices_of(&pool)), "single", &Options { scope, ..options() }).unwrap()
}

/// Block 1 of `random.bin`, which is `docs/hard.bin` too, and block 2 of `text.log` are lost in all snapshots.
fn damaged(scope: Scope) -> Outcome {
    let case = Case::read(&images_dir().join("cases/single-two-files.json"));
    scrub(&damaged_media(&case), "single", &Options { scope, ..options() }).unwrap()
}

/// Object and block of each finding.
fn found(outcome: &Outcome) -> BTreeSet<(u64, u64)> {
    outcome.findings.iter().map(|finding| (finding.place.object.unwrap(), finding.place.block.unwrap())).collect()
}

const BOTH: [(u64, u64); 2] = [(7, 1), (8, 2)];

fn slice(index: u32, count: u32) -> Scope {
    Scope { share: Some(Share::Slice { index, count }), ..Scope::default() }
}

#[track_caller]
fn assert_partial(outcome: &Outcome, verdict: Verdict, status: u8) {
    assert_eq!((outcome.summary.verdict, outcome.summary.exit_status), (verdict, status));
    assert!(
        outcome.not_checked.iter().any(|left| left.reason == NotCheckedReason::Option),
        "{:?}",
        outcome.not_checked
    );
}

#[test]
fn slices_make_up_the_whole() {
    let whole = healthy(Scope::default()).totals.copies_verified;
    let mut metadata = BTreeSet::new();
    for count in [2, 3, 7] {
        let slices: Vec<Outcome> = (1..=count).map(|index| healthy(slice(index, count))).collect();
        slices.iter().for_each(|outcome| assert_partial(outcome, Verdict::Incomplete, exit::INCOMPLETE));
        let sum: u64 = slices.iter().map(|outcome| outcome.totals.copies_verified).sum();
        // Each slice checks what leads to blocks, and that only once is part of the whole.
        assert_eq!((sum - whole) % u64::from(count - 1), 0);
        metadata.insert((sum - whole) / u64::from(count - 1));
    }
    assert_eq!(metadata.len(), 1, "{metadata:?}");
}

#[test]
fn each_damaged_block_is_found_by_one_slice() {
    let slices: Vec<BTreeSet<(u64, u64)>> = (1..=5).map(|index| found(&damaged(slice(index, 5)))).collect();
    assert_eq!(slices.iter().map(BTreeSet::len).sum::<usize>(), 2);
    assert_eq!(slices.iter().flatten().copied().collect::<BTreeSet<_>>(), BTreeSet::from(BOTH));
}

#[test]
fn a_sample_of_everything_is_everything() {
    let outcome = damaged(Scope { share: Some(Share::Sample { per_million: 1_000_000 }), ..Scope::default() });
    assert_eq!(found(&outcome), BTreeSet::from(BOTH));
    assert_partial(&outcome, Verdict::Damaged, exit::DAMAGED | exit::INCOMPLETE);
    let text = &outcome.not_checked[0].what;
    assert!(text.contains("2 bad among") && text.contains("95 % confidence"), "{text}");
}

#[test]
fn metadata_only_leaves_data_out_and_counts_it() {
    let outcome = damaged(Scope { metadata_only: true, ..Scope::default() });
    assert_partial(&outcome, Verdict::Incomplete, exit::INCOMPLETE);
    let left = &outcome.not_checked[0];
    let whole = damaged(Scope::default()).totals;
    assert!(left.blocks.unwrap() > 0 && outcome.totals.blocks == whole.blocks);
    // All data of this pool has one copy.
    assert_eq!(outcome.totals.copies_verified + left.blocks.unwrap(), whole.copies_verified);
}

#[test]
fn a_dataset_is_checked_whoever_wrote_its_blocks() {
    for name in ["single", "single@one", "single/clone"] {
        let outcome = damaged(Scope { datasets: vec![name.to_owned()], ..Scope::default() });
        assert_eq!(found(&outcome), BTreeSet::from(BOTH), "{name}");
        assert_partial(&outcome, Verdict::Damaged, exit::DAMAGED | exit::INCOMPLETE);
    }
    // Several of a chain: each block once.
    let names = ["single@two", "single/clone", "single@one", "single"].map(str::to_owned);
    let all = healthy(Scope { datasets: names.to_vec(), ..Scope::default() });
    assert_eq!(all.totals.decoded_blocks, healthy(Scope::default()).totals.decoded_blocks);
}

#[test]
fn a_path_is_checked_and_nothing_beside_it() {
    let at = |path: &str| damaged(Scope { paths: vec![path.to_owned()], ..Scope::default() });
    assert_eq!(found(&at("single:/text.log")), BTreeSet::from([(8, 2)]));
    assert_eq!(found(&at("single@one:/docs")), BTreeSet::from([(7, 1)]), "by its other name");
    assert_eq!(found(&at("single/clone:/")), BTreeSet::from(BOTH));
    let whole = at("single:/sparse.img");
    assert!(found(&whole).is_empty());
    assert_partial(&whole, Verdict::Incomplete, exit::INCOMPLETE);
}

#[test]
fn only_what_is_newer_is_checked() {
    let since = |txg| damaged(Scope { since_txg: Some(txg), ..Scope::default() });
    assert_eq!(found(&since(0)), BTreeSet::from(BOTH));
    let none = since(u64::MAX);
    assert!(found(&none).is_empty());
    assert_partial(&none, Verdict::Incomplete, exit::INCOMPLETE);
}

#[test]
fn what_is_not_there_is_an_error_and_no_finding() {
    let pool = in_memory(devices_of(&image("single")));
    let error = |scope| scrub(&pool, "single", &Options { scope, ..options() }).unwrap_err().to_string();
    let dataset = error(Scope { datasets: vec!["single/nowhere".into()], ..Scope::default() });
    assert!(dataset.contains("no dataset single/nowhere"), "{dataset}");
    let path = error(Scope { paths: vec!["single:/nowhere".into()], ..Scope::default() });
    assert!(path.contains("single:/nowhere") && path.contains("no such file"), "{path}");
    let form = error(Scope { paths: vec!["/text.log".into()], ..Scope::default() });
    assert!(form.contains("DATASET:/PATH"), "{form}");
}

#[test]
fn the_first_damage_may_end_the_run() {
    let outcome = damaged(Scope { fail_fast: true, ..Scope::default() });
    assert!((1..=2).contains(&found(&outcome).len()));
    assert_eq!(outcome.summary.exit_status, exit::DAMAGED | exit::INCOMPLETE);
    assert!(outcome.not_checked.iter().any(|left| left.what.contains("--fail-fast")));
    // What is only degraded does not.
    let case = Case::read(&images_dir().join("cases/mirror-one-side-zeroed.json"));
    let scope = Scope { fail_fast: true, ..Scope::default() };
    let outcome = scrub(&damaged_media(&case), "mir2", &Options { scope, ..options() }).unwrap();
    assert_eq!(outcome.summary.exit_status, exit::DEGRADED);
}

#[test]
fn the_end_of_the_time_is_said() {
    let outcome = healthy(Scope { time_max: Some(Duration::ZERO), ..Scope::default() });
    assert_eq!(outcome.summary.exit_status, exit::INCOMPLETE, "not that of Ctrl-C");
    assert!(outcome.not_checked.iter().any(|left| left.what.contains("--max-time")), "{:?}", outcome.not_checked);
}

/// A device that lets one read wait.
#[derive(Debug)]
struct Late {
    inner: Arc<dyn ReadAt>,
    reads: Arc<AtomicUsize>,
    late: usize,
}

impl ReadAt for Late {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        if self.reads.fetch_add(1, Relaxed) == self.late {
            std::thread::sleep(Duration::from_millis(3200));
        }
        self.inner.read_at(buffer, offset)
    }
}

#[test]
fn names_end_with_the_time_too_and_the_report_says_so() {
    let case = Case::read(&images_dir().join("cases/single-two-files.json"));
    let reads = Arc::new(AtomicUsize::new(0));
    let run = |late: usize| {
        let media = damaged_media(&case).into_iter().map(|medium| {
            let bytes = Arc::new(Late { inner: medium.bytes, reads: Arc::clone(&reads), late });
            Medium::new(medium.path, bytes)
        });
        reads.store(0, Relaxed);
        let scope = Scope { time_max: Some(Duration::from_secs(2)), ..Scope::default() };
        let options = Options { scope, threads: 1, ..options() };
        (scrub(&media.collect::<Vec<_>>(), "single", &options).unwrap(), reads.load(Relaxed))
    };
    let is_cut = |outcome: &Outcome| outcome.not_checked.iter().any(|left| left.what.contains("all names"));
    let (whole, count) = run(usize::MAX);
    assert!(!is_cut(&whole) && whole.findings.iter().all(|finding| finding.place.path.is_some()));
    // Of the last reads, those that look for names: what follows them are notes.
    let (cut, _) = run(count - 60);
    assert!(is_cut(&cut), "{:?}", cut.not_checked);
    let paths = |outcome: &Outcome| {
        let places = outcome.findings.iter().map(|finding| &finding.place);
        let also = |name: &&String| name.contains(":/");
        places.map(|place| usize::from(place.path.is_some()) + place.also_in.iter().filter(also).count()).sum::<usize>()
    };
    assert!(paths(&cut) < paths(&whole), "{:?}", cut.findings);
    // Every block was checked, and what is bad is as bad without a name.
    let numbers = |outcome: &Outcome| (outcome.totals, outcome.summary.exit_status, outcome.findings.len());
    assert_eq!(numbers(&cut), numbers(&whole));
}
