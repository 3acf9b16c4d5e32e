//! The answer does not depend on threads or memory, and nothing is written.

use crate::support::{damaged_devices, damaged_media, image, media_of, options, scrub};
use fixtures::{Case, images_dir};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zfs_format::media::{self, Medium};
use zfs_scrub::{Options, Outcome};

fn case(name: &str) -> Case {
    Case::read(&images_dir().join("cases").join(format!("{name}.json")))
}

/// The outcome without what differs from run to run.
fn timeless(media: &[Medium], pool: &str, options: &Options) -> Outcome {
    let mut outcome = scrub(media, pool, options).unwrap();
    outcome.summary.duration = Duration::ZERO;
    outcome.summary.bytes_per_second = 0;
    outcome
}

/// Runs the pool with 2 and 8 threads and with little memory, against one thread.
fn assert_same_answers(media: &[Medium], pool: &str, what: &str) {
    let single = Options { threads: 1, ..Options::default() };
    let wanted = timeless(media, pool, &single);
    for threads in [2, 8] {
        let found = timeless(media, pool, &Options { threads, ..single.clone() });
        assert_eq!(found, wanted, "{what} with {threads} threads");
    }
    for threads in [1, 8] {
        let memory_bytes = Options::MEMORY_BYTES_MIN;
        let found = timeless(media, pool, &Options { threads, memory_bytes, ..single.clone() });
        assert_eq!(found, wanted, "{what} with {threads} threads and the least memory");
    }
}

#[test]
fn damaged_pools_give_the_same_answer_with_any_number_of_threads() {
    for name in [
        "single-vmotion-stripes",
        "single-shifted",
        "single-indirect-both-copies",
        "copies-scattered",
        "compression-scattered",
        "mirror-one-side-zeroed",
        "mirror-both-sides-one-block",
        "mirror-one-side-missing",
    ] {
        let case = case(name);
        let pool = image(&case.pool).expected.pool;
        assert_same_answers(&damaged_media(&case), &pool, name);
    }
}

#[test]
fn whole_pools_give_the_same_answer_with_any_number_of_threads() {
    for folder in ["raid10", "recordsizes-dnodesize", "directories"] {
        let pool = image(folder);
        assert_same_answers(&media_of(&pool), &pool.expected.pool, folder);
    }
}

/// Sha256 and metadata of files: content, length, time of change.
fn states(paths: &[PathBuf]) -> Vec<(Vec<u8>, std::time::SystemTime)> {
    let state = |path: &PathBuf| {
        let sum = Sha256::digest(std::fs::read(path).unwrap());
        (sum.to_vec(), std::fs::metadata(path).unwrap().modified().unwrap())
    };
    paths.iter().map(state).collect()
}

fn written(devices: &[(String, Vec<u8>)], dir: &Path) -> Vec<PathBuf> {
    let write = |(name, bytes): &(String, Vec<u8>)| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    devices.iter().map(write).collect()
}

#[test]
fn a_scrub_changes_none_of_its_inputs() {
    for name in ["single-vmotion-stripes", "mirror-one-side-zeroed", "single-mos-root-all-copies"] {
        let case = case(name);
        let dir = tempfile::tempdir().unwrap();
        let paths = written(&damaged_devices(&case), dir.path());
        let before = states(&paths);
        let media: Vec<Medium> = paths.iter().map(|path| media::open(path).unwrap()).collect();
        scrub(&media, &image(&case.pool).expected.pool, &options()).unwrap();
        assert_eq!(states(&paths), before, "{name}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), paths.len(), "{name}: a new file");
    }
    let pool = image("mirror2");
    let paths: Vec<PathBuf> = pool.devices().into_iter().map(|(_, path)| path).collect();
    let before = states(&paths);
    scrub(&media_of(&pool), &pool.expected.pool, &options()).unwrap();
    assert_eq!(states(&paths), before, "compressed images");
}
