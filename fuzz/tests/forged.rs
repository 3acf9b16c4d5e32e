//! Pools that lie under right checksums: what no checksum can catch is still found, or at least does no harm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use fixtures::{Content, DatasetSpec, FileSpec, MadeBlock, Pool, PoolSpec, make};
use fuzz::Forge;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::pool::Assembly;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::Verdict;
use zfs_scrub::{Kind, Options, Outcome};

/// No forged pool keeps a scrub longer; it takes milliseconds.
const LONGEST: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Device(fixtures::Device);

impl ReadAt for Device {
    fn size_bytes(&self) -> u64 {
        self.0.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let (length, size) = (buffer.len(), self.0.bytes);
        if offset.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(MediaError::OutOfRange { offset, length, size });
        }
        self.0.read_at(offset, buffer);
        Ok(())
    }
}

fn sample() -> Pool {
    let mut root = DatasetSpec::new("");
    root.zap_shift = 12;
    for number in 0..60 {
        root = root.with_file(FileSpec::new(&format!("a name of some length {number}"), Content::text(1, 600)));
    }
    make(&PoolSpec::new("tank").with_dataset(root.then_snapshot("s")))
}

fn find(pool: &Pool, is_it: impl Fn(&MadeBlock) -> bool) -> usize {
    pool.blocks.iter().position(is_it).expect("the pool has such a block")
}

/// Scrubs the forged pool. A scrub that does not return ends the test by the clock.
fn scrub(forge: &mut Forge) -> Outcome {
    forge.seal();
    let open = |device: &fixtures::Device| Medium::new(PathBuf::from(&device.name), Arc::new(Device(device.clone())));
    let media: Vec<Medium> = forge.pool.devices.iter().map(open).collect();
    let (sender, receiver) = std::sync::mpsc::channel();
    let started = Instant::now();
    std::thread::spawn(move || {
        let mut assembly = Assembly::new(&media, None).unwrap();
        let options = Options { threads: 1, memory_bytes: 0, ..Options::default() };
        let outcome = zfs_scrub::scrub(&mut assembly, &options, &Progress::default()).unwrap();
        sender.send(outcome).unwrap();
    });
    let outcome = receiver.recv_timeout(LONGEST);
    outcome.unwrap_or_else(|error| panic!("{error} after {:?}", started.elapsed()))
}

#[test]
fn a_pool_written_anew_without_a_change_is_clean() {
    let pool = sample();
    let blocks = pool.totals.blocks;
    let mut forge = Forge::new(pool);
    for index in 0..forge.pool.blocks.len() {
        forge.plain(index);
    }
    let outcome = scrub(&mut forge);
    assert_eq!((outcome.findings.len(), outcome.summary.verdict), (0, Verdict::Clean), "{:#?}", outcome.findings);
    assert_eq!(outcome.totals.blocks, blocks);
}

#[test]
fn an_impossible_dnode_is_a_finding_at_its_object() {
    let mut forge = Forge::new(sample());
    let is_dnodes = |block: &MadeBlock| block.owner.dataset == "tank@s" && block.object == 0 && block.level == 0;
    let index = find(&forge.pool, is_dnodes);
    // The number of levels of object 2, a file.
    forge.plain(index).unwrap()[2 * 512 + 2] = 99;
    let outcome = scrub(&mut forge);
    let found: Vec<_> = outcome.findings.iter().map(|finding| (finding.kind, finding.place.object)).collect();
    assert_eq!(found, [(Kind::DnodeInvalid, Some(2))]);
}

#[test]
fn the_size_of_a_pointer_table_in_a_header_is_not_believed() {
    let mut forge = Forge::new(sample());
    let directory = find(&forge.pool, |block| block.owner.objset == 0 && block.object == 1 && block.block == 0);
    let header = forge.plain(directory).unwrap();
    // An external table of 2^60 blocks, from the end of the object on.
    header[16..24].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    header[24..32].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let is_dnodes =
        |block: &MadeBlock| block.owner.objset == 0 && block.object == 0 && block.level == 0 && block.block == 0;
    let dnodes = find(&forge.pool, is_dnodes);
    // `max_blkid` of object 1: the last block of an object as large as can be.
    forge.plain(dnodes).unwrap()[512 + 16..512 + 24].fill(0xff);
    let outcome = scrub(&mut forge);
    assert!(outcome.findings.iter().any(|finding| finding.kind == Kind::RootLost), "{:#?}", outcome.findings);
}

/// A bomb: each pointer of each indirect block leads to one and the same block below it, six levels deep.
#[test]
fn blocks_that_stand_in_many_places_do_not_multiply_the_work_for_ever() {
    let mut root = DatasetSpec::new("");
    (root.indirect_shift, root.record_bytes, root.meta_levels) = (17, 4096, 6);
    let pool = make(&PoolSpec::new("tank").with_dataset(root.with_file(FileSpec::new("a", Content::text(1, 90)))));
    let mut forge = Forge::new(pool);
    for level in 1..6 {
        let is_it = |block: &MadeBlock| block.owner.dataset == "tank" && block.object == 0 && block.level == level;
        let index = find(&forge.pool, is_it);
        let plain = forge.plain(index).unwrap();
        let first = plain[..128].to_vec();
        plain.chunks_exact_mut(128).for_each(|pointer| pointer.copy_from_slice(&first));
    }
    let outcome = scrub(&mut forge);
    let found: Vec<_> = outcome.findings.iter().map(|finding| (finding.kind, finding.place.object)).collect();
    assert_eq!(found, [(Kind::PointerInvalid, Some(0))]);
    assert_eq!(outcome.summary.verdict, Verdict::Damaged);
}

/// Renames a feature in all blocks of the MOS that name it. The new name is as long, so only its hash does not fit: who lists
/// the entries does not mind.
fn rename_feature(forge: &mut Forge, old: &str, new: &str) {
    // A leaf of a ZAP keeps names in pieces of 21 bytes.
    assert!(old.len() == new.len() && old[20..] == new[20..]);
    let (old, new) = (&old.as_bytes()[..20], &new.as_bytes()[..20]);
    for index in 0..forge.pool.blocks.len() {
        let block = &forge.pool.blocks[index];
        if block.owner.objset != 0 || block.level != 0 || block.object < 2 {
            continue;
        }
        let plain = forge.plain(index).cloned().unwrap_or_default();
        let Some(at) = plain.windows(old.len()).position(|window| window == old) else { continue };
        forge.plain(index).unwrap()[at..at + new.len()].copy_from_slice(new);
    }
}

#[test]
fn an_unknown_feature_that_may_be_ignored_is_a_note() {
    let mut forge = Forge::new(sample());
    rename_feature(&mut forge, "com.delphix:spacemap_histogram", "com.nexenta:spacemap_histogram");
    let outcome = scrub(&mut forge);
    let found: Vec<_> = outcome.findings.iter().map(|finding| (finding.kind, finding.message.as_str())).collect();
    let expected = "the pool uses com.nexenta:spacemap_histogram (of Nexenta, for illumos (NexentaStor): \"Space maps know the \
                    sizes of free segments\"), which this version does not know; it may be ignored when reading";
    assert_eq!(found, [(Kind::FeatureUnknown, expected)]);
    assert_eq!((outcome.summary.verdict, outcome.summary.exit_status), (Verdict::Clean, 0));
}

#[test]
fn an_unknown_feature_that_is_needed_ends_the_run_and_is_named() {
    let mut forge = Forge::new(sample());
    rename_feature(&mut forge, "org.illumos:lz4_compress", "org.example:lz4_compress");
    forge.seal();
    let open = |device: &fixtures::Device| Medium::new(PathBuf::from(&device.name), Arc::new(Device(device.clone())));
    let media: Vec<Medium> = forge.pool.devices.iter().map(open).collect();
    let mut assembly = Assembly::new(&media, None).unwrap();
    let error = zfs_scrub::scrub(&mut assembly, &Options::default(), &Progress::default()).unwrap_err().to_string();
    assert!(
        error.contains("org.example:lz4_compress (\"lz4 compression\")") && error.contains("zcheck label"),
        "{error}"
    );
}
