//! Damage to blocks that dedup or block cloning share, and to what only the checkpoint holds.
//!
//! The pools are those beside the repository; without them the tests say that they were skipped.

use crate::support::{Bytes, ensure, for_all, options, scrub, skipped};
use fixtures::{Case, LostBlock, RealPool, shared_dir, unpack};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::media::Medium;
use zfs_scrub::finding::Place;
use zfs_scrub::outcome::exit;
use zfs_scrub::{Options, Outcome, Severity};

/// Cases in which shared blocks are hurt, or could be.
const CASES: &[&str] =
    &["block-cloning-scattered", "classes-special-dedup-log-cache-spare-scattered", "encryption-scattered"];

/// Where data begins on a device, after the front labels.
const DATA_START: usize = 4 << 20;

fn shared_pool(folder: &str) -> Option<RealPool> {
    let dir = shared_dir().map(|dir| dir.join(folder)).filter(|dir| dir.is_dir());
    if dir.is_none() {
        skipped(&format!("the pool {folder} is not there (set ZCHECK_SHARED to the folder that holds pools/)"));
    }
    dir.map(RealPool::read)
}

/// The devices of a pool after `damage`, in memory.
fn media(pool: &RealPool, damage: impl Fn(&str, &mut Vec<u8>)) -> Vec<Medium> {
    let medium = |(name, path): (String, PathBuf)| {
        let mut bytes = unpack(&path, pool.expected.devices[&name]);
        damage(&name, &mut bytes);
        Medium::new(PathBuf::from(name), Arc::new(Bytes(bytes)))
    };
    pool.devices().into_iter().map(medium).collect()
}

/// All places of the damaged blocks: the one that was read, and the others that lead to the same block.
fn places(outcome: &Outcome) -> Vec<&Place> {
    let damaged = outcome.findings.iter().filter(|finding| finding.severity == Severity::Damaged);
    damaged.flat_map(|finding| std::iter::once(&finding.place).chain(&finding.references)).collect()
}

fn lost(place: &Place) -> Option<LostBlock> {
    Some(LostBlock { objset: place.objset?, object: place.object?, level: place.level?, block: place.block? })
}

/// The damaged pool of a case, with so many threads and so much memory.
fn run(case: &Case, pool: &RealPool, options: &Options) -> Outcome {
    let media = media(pool, |name, bytes| assert!(case.damage(name, bytes), "no device goes missing"));
    let mut outcome = scrub(&media, &pool.expected.pool, options).unwrap();
    outcome.summary.duration = std::time::Duration::ZERO;
    outcome.summary.bytes_per_second = 0;
    outcome
}

fn check(case: &Case, pool: &RealPool) -> Result<(), String> {
    let outcome = run(case, pool, &options());
    let found: Vec<LostBlock> = places(&outcome).into_iter().filter_map(lost).collect();
    let ours: BTreeSet<LostBlock> = found.iter().copied().collect();
    let theirs: BTreeSet<LostBlock> = case.openzfs.zdb.iter().flat_map(|zdb| &zdb.lost_blocks).copied().collect();
    ensure(ours == theirs, || format!("{}: lost here {ours:?}, in zdb {theirs:?}", case.name))?;
    ensure(found.len() == ours.len(), || format!("{}: a place is named twice: {found:?}", case.name))?;
    // A file for each object that zdb names a block of.
    let objects: BTreeSet<(u64, u64)> = theirs.iter().map(|block| (block.objset, block.object)).collect();
    let files = outcome.files.iter().filter(|file| file.severity == Severity::Damaged);
    let names: BTreeSet<&str> = files.map(|file| file.path.as_str()).collect();
    ensure(names.len() == objects.len(), || format!("{}: {names:?} for {objects:?}", case.name))?;
    for file in case.openzfs.damaged_files.iter().flatten() {
        ensure(names.contains(file.as_str()), || format!("{}: {file} is not in {names:?}", case.name))?;
    }
    let single = Options { threads: 1, ..options() };
    let wanted = run(case, pool, &single);
    for (threads, memory_bytes) in [(8, single.memory_bytes), (8, Options::MEMORY_BYTES_MIN)] {
        let found = run(case, pool, &Options { threads, memory_bytes, ..single.clone() });
        ensure(found == wanted, || format!("{}: another answer with {threads} threads", case.name))?;
    }
    Ok(())
}

#[test]
fn damage_to_a_shared_block_names_each_place_that_zdb_names() {
    let found = CASES.iter().filter_map(|name| {
        let dir = shared_dir()?;
        let case = Case::read(&dir.join("cases").join(format!("{name}.json")));
        Some((shared_pool(&case.pool)?, case))
    });
    let found: Vec<(RealPool, Case)> = found.collect();
    for_all(&found, |(pool, case)| check(case, pool));
}

/// The blake3, skein and edonr parts of the pool are for other tests: here two files of `dedup/sha256` lose the two blocks
/// they share, among other damage.
#[test]
fn files_that_fast_dedup_made_share_a_block_are_all_named() {
    let Some(pool) = shared_pool("dedup-fast") else { return };
    let case = Case::read(&shared_dir().unwrap().join("cases/dedup-fast-scattered.json"));
    let outcome = run(&case, &pool, &options());
    let wanted = |path: &str| {
        let file = outcome.files.iter().find(|file| file.path == path);
        file.map(|file| (file.severity, file.ranges.clone()))
    };
    for path in ["dedup/sha256:/copy1", "dedup/sha256:/copy3"] {
        assert_eq!(wanted(path), Some((Severity::Damaged, vec![(131_072, 262_144)])), "{path}");
    }
    let zdb: BTreeSet<LostBlock> = case.openzfs.zdb.unwrap().lost_blocks.into_iter().collect();
    let places = places(&outcome);
    let found: Vec<LostBlock> = places.into_iter().filter_map(lost).collect();
    assert!(found.len() >= 4 && found.iter().all(|block| zdb.contains(block)), "{found:?} of {zdb:?}");
}

/// Every block that a shared pool has is verified once: the copies counted are those that `zdb` counts, less the
/// references that save space.
#[test]
fn references_beyond_the_first_are_not_read() {
    for (folder, copies) in [("dedup-legacy", 148), ("block-cloning", 148)] {
        let Some(pool) = shared_pool(folder) else { return };
        let outcome = scrub(&media(&pool, |_, _| {}), &pool.expected.pool, &options()).unwrap();
        let zdb = pool.expected.zdb.unwrap();
        assert_eq!(outcome.totals.copies_verified, copies, "{folder}");
        // On one disk without raidz what is read is what is allocated, but for the rounding to sectors: there is none.
        let allocated = zdb.allocated_bytes - zdb.dedup_saved_bytes - zdb.cloned_bytes;
        assert_eq!(outcome.totals.bytes_read, allocated, "{folder}");
    }
}

/// `/text.log` was deleted after the checkpoint; `zdb -k -dddddd checkp` shows its first block at 0:c6200:8c00.
#[test]
fn damage_that_only_the_checkpoint_holds_is_found_and_named() {
    let Some(pool) = shared_pool("checkpoint") else { return };
    let damage = |at: usize| {
        let media = media(&pool, |_, bytes| bytes[DATA_START + at..][..512].fill(0x55));
        scrub(&media, &pool.expected.pool, &options()).unwrap()
    };
    let outcome = damage(0xc_6200);
    assert_eq!(outcome.summary.exit_status, exit::DAMAGED);
    let files: Vec<_> = outcome.files.iter().map(|file| (file.path.as_str(), file.ranges.clone())).collect();
    assert_eq!(files, [("checkpoint of txg 23, checkp:/text.log", vec![(0, 131_072)])]);
    assert!(places(&outcome).iter().all(|place| place.checkpoint_txg == Some(23)));
    // The first copy of the checkpoint's root: two others are left.
    let outcome = damage(0x14_2400);
    assert_eq!(outcome.summary.exit_status, exit::DEGRADED);
    assert_eq!(outcome.findings[0].place.name(), "checkpoint of txg 23, <metadata>:<0x0>");
}

/// The destroyed dataset of `async-destroy-in-progress` has some of its blocks left; hurt all data of the device and
/// they are lost too.
#[test]
fn what_is_left_of_a_destroyed_dataset_is_verified() {
    let Some(pool) = shared_pool("async-destroy-in-progress") else { return };
    let clean = scrub(&media(&pool, |_, _| {}), &pool.expected.pool, &options()).unwrap();
    assert_eq!(clean.summary.exit_status, 0);
    let lost = |from: usize, length: usize| {
        let media = media(&pool, |_, bytes| bytes[DATA_START + from..][..length].fill(0x55));
        let outcome = scrub(&media, &pool.expected.pool, &options()).unwrap();
        places(&outcome).into_iter().filter(|place| place.objset == Some(u64::MAX)).map(Place::name).collect::<Vec<_>>()
    };
    let found: Vec<String> = (0..16).flat_map(|part| lost(part * (256 << 10), 64 << 10)).collect();
    assert!(!found.is_empty() && found.iter().all(|name| name.starts_with("<destroyed>:<")), "{found:?}");
}
