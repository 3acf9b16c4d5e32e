//! Every target over its corpus, over mutated seeds and over any bytes, on stable Rust.
//!
//! `ZCHECK_BLESS=1 cargo test -p fuzz` writes the seeds anew. A crash that was found is a file in the corpus and a test below.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use fuzz::mutate::{Dice, mutate};
use fuzz::seeds::{Seed, seeds};
use fuzz::{TARGETS, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No input may take longer. Inputs take microseconds, images milliseconds; a busy machine is slow at times.
const LONGEST: Duration = Duration::from_secs(20);

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Runs a target; what it fails on is printed as a Rust array.
fn run(name: &str, target: Target, input: &[u8]) {
    let started = Instant::now();
    let result = std::panic::catch_unwind(|| target(input));
    assert!(result.is_ok(), "{name} fails on {input:?}");
    assert!(started.elapsed() < LONGEST, "{name} takes {:?} for {input:?}", started.elapsed());
}

/// Inputs of a target in the corpus, by file name.
fn inputs(target: &str) -> BTreeMap<String, Vec<u8>> {
    let Ok(dir) = std::fs::read_dir(corpus().join(target)) else { return BTreeMap::new() };
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
    };
    dir.map(read).collect()
}

#[test]
fn the_corpus_holds_the_seeds() {
    if std::env::var_os("ZCHECK_BLESS").is_some() {
        for Seed { target, name, bytes } in seeds() {
            std::fs::create_dir_all(corpus().join(target)).unwrap();
            std::fs::write(corpus().join(target).join(name), bytes).unwrap();
        }
    }
    for Seed { target, name, bytes } in seeds() {
        let found = inputs(target).remove(&name);
        assert!(found == Some(bytes), "corpus/{target}/{name} is not what the maker makes: run with ZCHECK_BLESS=1");
    }
}

#[test]
fn every_target_has_a_wrapper_a_folder_and_seeds() {
    let stems = |dir: &str| -> BTreeSet<String> {
        let dir = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap();
        dir.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
}

#[test]
fn the_corpus_is_replayed() {
    for (name, target) in TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty(), "corpus/{name} is empty");
        for input in inputs.values() {
            run(name, *target, input);
        }
    }
}

/// Whether a target scrubs a whole pool.
fn is_slow(name: &str) -> bool {
    matches!(name, "scrub_image" | "saved_run")
}

#[test]
fn mutated_seeds_do_no_harm() {
    for (name, target) in TARGETS {
        let seeds: Vec<Vec<u8>> = inputs(name).into_values().collect();
        let rounds = if is_slow(name) { 150 } else { 3000 };
        let mut dice = Dice(name.len() as u64);
        for _ in 0..rounds {
            let mut input = seeds[dice.below(seeds.len())].clone();
            mutate(&mut input, &mut dice);
            run(name, *target, &input);
        }
    }
}

/// Sums of what was counted overflowed.
#[test]
fn forged_counts_do_not_overflow() {
    run("saved_run", fuzz::saved_run, &[64, 7, 0, 6]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        failure_persistence: None, ..proptest::prelude::ProptestConfig::with_cases(1000)
    })]

    #[test]
    fn any_bytes_do_no_harm(input in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..700)) {
        for (name, target) in TARGETS.iter().filter(|(name, _)| !is_slow(name)) {
            run(name, *target, &input);
        }
    }
}
