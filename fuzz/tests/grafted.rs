//! Pools made by OpenZFS whose blocks were changed under right checksums: what only MACs can tell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use fixtures::{RealPool, images_dir, unpack};
use fuzz::{Graft, GraftBlock};
use std::io::Write;
use std::process::Command;
use zfs_format::Endian;
use zfs_format::block::Work;
use zfs_format::codec::cipher::digest;
use zfs_format::dataset::{DatasetMap, GivenKey, unlock};
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::ondisk::protect;
use zfs_format::pool::{Assembly, Mos, Secret};
use zfs_scrub::finding::Place;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::Verdict;
use zfs_scrub::{Options, Outcome, Severity};

fn pool(folder: &str) -> RealPool {
    RealPool::read(images_dir().join(folder))
}

fn graft(pool: &RealPool) -> Graft {
    let (name, path) = pool.devices().remove(0);
    Graft::new(unpack(&path, pool.expected.devices[&name]))
}

/// A scrub with these keys.
fn scrub(graft: &Graft, pool: &RealPool, keys: &[&str]) -> Outcome {
    let mut assembly = Assembly::new(&[graft.medium()], None).unwrap();
    let given = |file: &&str| {
        let secret = Secret::new(std::fs::read(pool.path.join(file)).unwrap());
        GivenKey { dataset: None, secret }
    };
    unlock(&mut assembly, &keys.iter().map(given).collect::<Vec<_>>(), &mut Work::default()).unwrap();
    let options = Options { threads: 2, ..Options::default() };
    zfs_scrub::scrub(&mut assembly, &options, &Progress::default()).unwrap()
}

/// Code, object set, object and level of all findings but notes, and what they say.
fn found(outcome: &Outcome) -> Vec<(&'static str, u64, u64, i8, &str)> {
    let is_damage = |finding: &&zfs_scrub::Finding| finding.severity > Severity::Note;
    let told = outcome.findings.iter().filter(is_damage).map(|finding| {
        let Place { objset, object, level, .. } = &finding.place;
        (finding.kind.entry().code, objset.unwrap(), object.unwrap(), level.unwrap(), finding.message.as_str())
    });
    told.collect()
}

/// The object of a dataset in the MOS.
fn dataset(graft: &Graft, name: &str) -> u64 {
    let assembly = Assembly::new(&[graft.medium()], None).unwrap();
    let mut work = Work::default();
    let mut mos = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut work).unwrap();
    let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
    map.datasets.values().find(|found| found.full_name() == name).unwrap().object
}

fn find(graft: &Graft, is_it: impl Fn(&GraftBlock) -> bool) -> usize {
    graft.blocks.iter().position(is_it).expect("the pool has such a block")
}

/// Changes the MAC of a block, wherever a pointer to it stands.
fn change_mac(graft: &mut Graft, index: usize) {
    set_mac(graft, index, |mac| mac[5] ^= 0x20);
}

fn set_mac(graft: &mut Graft, index: usize, set: impl Fn(&mut [u8])) {
    const MAC_OFFSET: usize = 112;
    for (block, offset) in graft.blocks[index].places.clone() {
        set(&mut graft.plain(block)[offset + MAC_OFFSET..offset + 128]);
    }
}

const NOT_THESE_POINTERS: &str = "the MAC of the indirect block does not match the pointers in it";

/// OpenZFS's own opinion: zdb has no key, checks the same MACs, and complains of one block.
fn ask_zdb(graft: &Graft, block: &str) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("disk0"), graft.image()).unwrap();
    match Command::new("zdb").arg("-e").arg("-p").arg(dir.path()).args(["-bcc", "crypt2"]).output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let complaints: Vec<&str> = text.lines().filter(|line| line.contains("zdb_blkptr_cb: Got error")).collect();
            assert!(complaints.len() == 1 && complaints[0].contains(block), "{complaints:?}");
        }
        Err(error) => {
            // Nothing can be done about a closed stderr.
            let _ = writeln!(std::io::stderr(), "SKIPPED: zdb does not run here ({error})");
        }
    }
}

#[test]
fn a_pool_whose_blocks_are_all_written_anew_is_clean() {
    for folder in ["encrypted", "single", "single-ashift16", "compression", "salted"] {
        let pool = pool(folder);
        let mut graft = graft(&pool);
        let before = scrub(&graft, &pool, &[]);
        for index in 0..graft.blocks.len() {
            graft.plain(index);
        }
        graft.seal();
        let after = scrub(&graft, &pool, &[]);
        assert_eq!((found(&after), after.summary.verdict), (Vec::new(), Verdict::Clean), "{folder}");
        assert_eq!(
            (after.totals.blocks, after.totals.logical_bytes),
            (before.totals.blocks, before.totals.logical_bytes)
        );
        assert!(graft.blocks.len() > 50, "{folder}: {} blocks", graft.blocks.len());
    }
}

#[test]
fn what_is_changed_is_what_is_read() {
    let pool = pool("single");
    let mut graft = graft(&pool);
    // A leaf of a ZAP in the MOS: its directory of objects. Nothing but the name is lost.
    let is_directory = |block: &GraftBlock| (block.objset, block.object, block.bp.level()) == (0, 1, 0);
    let directory = find(&graft, |block| is_directory(block) && block.block > 0);
    let at = graft.plain(directory).windows(7).position(|window| window == b"history").unwrap();
    graft.plain(directory)[at..at + 7].copy_from_slice(b"HISTORY");
    graft.seal();
    let assembly = Assembly::new(&[graft.medium()], None).unwrap();
    let mos = Mos::open(assembly.blocks(), &assembly.chosen.uberblock.rootbp, &mut Work::default()).unwrap();
    assert!(mos.directory.contains_key("HISTORY") && !mos.directory.contains_key("history"));
}

/// The pointers stand in blocks of dnodes, whose MACs cover them; but those can only be checked with the key.
#[test]
fn a_wrong_mac_of_an_indirect_block_is_found_without_any_key() {
    let pool = pool("encrypted");
    let mut graft = graft(&pool);
    let [snapshot, head] = ["crypt2/raw/small@s", "crypt2/raw/small"].map(|name| dataset(&graft, name));
    // The first indirect block of a file, in head and snapshot.
    let index = find(&graft, |block| block.objset == snapshot && block.object == 3 && block.bp.level() == 1);
    assert_eq!(graft.blocks[index].places.len(), 2);
    change_mac(&mut graft, index);
    graft.seal();
    ask_zdb(&graft, &format!("<{snapshot}, 3, 1, 0>"));
    let locked = scrub(&graft, &pool, &[]);
    let indirect = ("ZC0501", snapshot, 3, 1, NOT_THESE_POINTERS);
    assert_eq!(found(&locked), [indirect]);
    assert_eq!((locked.summary.verdict, locked.summary.exit_status), (Verdict::Damaged, 4));
    let opened = scrub(&graft, &pool, &["key-raw", "key-pw"]);
    let dnodes = |objset| ("ZC0501", objset, 0, 0, "the MAC does not match the content");
    let mut expected = vec![indirect, dnodes(snapshot), dnodes(head)];
    let mut told = found(&opened);
    expected.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, expected);
}

/// The other way to make it wrong: the MAC is as it was, what it covers is not.
#[test]
fn pointers_that_their_mac_does_not_cover_are_found_without_any_key() {
    let pool = pool("encrypted");
    let mut graft = graft(&pool);
    let snapshot = dataset(&graft, "crypt2/raw/small@s");
    let index = find(&graft, |block| block.objset == snapshot && block.object == 3 && block.bp.level() == 1);
    // Two blocks of the file change places, with all that belongs to them. Each still has its own checksum and MAC.
    let plain = graft.plain(index);
    let (first, second) = plain.split_at_mut(128);
    first.swap_with_slice(&mut second[..128]);
    graft.seal();
    let outcome = scrub(&graft, &pool, &[]);
    assert_eq!(found(&outcome), [("ZC0501", snapshot, 3, 1, NOT_THESE_POINTERS)]);
    assert_eq!(outcome.summary.exit_status, 4);
}

/// Indirect blocks of dnodes stand in each other, so that each MAC covers the next; the last stands in the object set, whose own
/// MAC only the key can check.
#[test]
fn somebody_without_the_key_can_forge_macs_up_to_the_object_set() {
    let pool = pool("encrypted");
    let mut graft = graft(&pool);
    let objset = dataset(&graft, "crypt2/pass/child");
    let at = |graft: &Graft, level| {
        find(graft, |block| {
            (block.objset, block.object, block.bp.level()) == (objset, 0, level) && !block.places.is_empty()
        })
    };
    let levels: Vec<usize> = (1..=5).map(|level| at(&graft, level)).collect();
    change_mac(&mut graft, levels[1]);
    graft.seal();
    // The block itself, and the one above it that holds the MAC.
    let outcome = scrub(&graft, &pool, &[]);
    let wrong = |level| ("ZC0501", objset, 0, level, NOT_THESE_POINTERS);
    assert_eq!(found(&outcome), [wrong(3), wrong(2)]);
    for &index in &levels[1..] {
        let mac = digest(&protect::indirect(graft.plain(index), Endian::Little, 1));
        set_mac(&mut graft, index, |to| to.copy_from_slice(&mac));
    }
    // Pointers as they were: then all MACs are as they were, too.
    graft.seal();
    let keys = ["key-raw", "key-pw"];
    assert!(found(&scrub(&graft, &pool, &keys)).is_empty());
    // Another MAC in the lowest, and new ones above.
    let leaf = graft.blocks.iter().position(|block| block.places.iter().any(|place| place.0 == levels[0])).unwrap();
    change_mac(&mut graft, leaf);
    for &index in &levels {
        let mac = digest(&protect::indirect(graft.plain(index), Endian::Little, 1));
        set_mac(&mut graft, index, |to| to.copy_from_slice(&mac));
    }
    graft.seal();
    assert!(found(&scrub(&graft, &pool, &[])).is_empty());
    let opened = scrub(&graft, &pool, &keys);
    let mut told: Vec<_> = found(&opened).into_iter().map(|(code, .., level, _)| (code, level)).collect();
    told.sort_unstable();
    assert_eq!(told, [("ZC0501", -1), ("ZC0501", 0)]);
}

/// A dataset whose previous snapshot is said to be of the future would have no blocks of its own, and nothing in it would be
/// looked at.
#[test]
fn a_snapshot_of_the_future_hides_nothing() {
    let pool = pool("single");
    let mut graft = graft(&pool);
    let head = dataset(&graft, "single");
    let whole = scrub(&graft, &pool, &[]);
    let dnodes = find(&graft, |block| {
        let is_of_dnodes = (block.objset, block.object) == (0, 0) && block.bp.object_type() == ObjectType::DNODE;
        is_of_dnodes && block.bp.level() == 0 && block.block == head / 32
    });
    // The bonus of a dnode with one pointer, and in it ds_prev_snap_txg.
    let at = usize::try_from(head % 32).unwrap() * 512 + 192 + 16;
    graft.plain(dnodes)[at..at + 8].fill(0xff);
    graft.seal();
    let outcome = scrub(&graft, &pool, &[]);
    let [(code, 0, object, ..)] = found_without_level(&outcome)[..] else { panic!("{:?}", outcome.findings) };
    assert_eq!((code, object), ("ZC0403", head));
    assert!(outcome.totals.blocks > whole.totals.blocks, "the blocks of the head were visited");
}

fn found_without_level(outcome: &Outcome) -> Vec<(&'static str, u64, u64)> {
    let is_damage = |finding: &&zfs_scrub::Finding| finding.severity > Severity::Note;
    let told = outcome.findings.iter().filter(is_damage);
    told.map(|finding| (finding.kind.entry().code, finding.place.objset.unwrap(), finding.place.object.unwrap()))
        .collect()
}
