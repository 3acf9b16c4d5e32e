//! A whole pool: everything is visited, everything is counted, nothing is said.

use crate::memory::{options, scrub};
use crate::model::{is_split, is_striped, parity_leaves};
use fixtures::{
    Attributes, Checksum, Class, Compression, Content, DatasetSpec, Endian, FileSpec, Pool, PoolSpec, TopSpec, make,
};
use proptest::prelude::{any, prop_assert_eq, proptest};
use zfs_scrub::Outcome;
use zfs_scrub::outcome::{Totals, Verdict};

/// Copies of all blocks: those on disks and mirrors by device, those in stripes as one; parity columns; bytes of both.
fn copies(pool: &Pool) -> (u64, u64, u64) {
    let copies = || pool.blocks.iter().flat_map(|block| &block.copies);
    let count = |copy: &fixtures::Copy| if is_striped(copy) { 1 } else { copy.leaves.len() as u64 };
    let bytes = copies().flat_map(|copy| &copy.leaves).map(|span| span.len_bytes).sum();
    (copies().map(count).sum(), copies().flat_map(parity_leaves).count() as u64, bytes)
}

pub(crate) fn assert_whole(pool: &Pool, outcome: &Outcome) {
    let (copies_verified, parity_verified, bytes_read) = copies(pool);
    let made = &pool.totals;
    // A copy in parts may count as one, or each part as one.
    let has_split = pool.blocks.iter().flat_map(|block| &block.copies).any(is_split);
    let copies_verified = if has_split { outcome.totals.copies_verified } else { copies_verified };
    let expected = Totals {
        blocks: made.blocks,
        gang_blocks: 0,
        embedded_blocks: made.embedded_blocks,
        logical_bytes: made.logical_bytes,
        physical_bytes: made.physical_bytes,
        allocated_bytes: made.allocated_bytes,
        dedup_saved_bytes: made.dedup_saved_bytes,
        cloned_bytes: made.cloned_bytes,
        copies_verified,
        parity_verified,
        decoded_blocks: pool.blocks.len() as u64,
        bytes_read,
        reading: outcome.totals.reading,
    };
    assert_eq!(outcome.totals, expected);
    let reading = outcome.totals.reading;
    assert_eq!(reading.bytes - reading.skipped_bytes, bytes_read, "what no block needed is gaps");
    assert_eq!(outcome.findings, []);
    assert_eq!(outcome.not_checked, []);
    assert_eq!(outcome.files, []);
    assert_eq!((outcome.summary.verdict, outcome.summary.exit_status), (Verdict::Clean, 0));
    assert_eq!(outcome.summary.degraded_blocks + outcome.summary.lost_blocks, 0);
    assert_eq!((outcome.pool.name.as_str(), outcome.pool.guid, outcome.pool.txg), (&*pool.name, pool.guid, pool.txg));
    let endian = if pool.endian == Endian::Little { "little" } else { "big" };
    assert_eq!(outcome.pool.endian, endian);
}

proptest! {
    #![proptest_config(crate::cases(60))]

    #[test]
    fn a_healthy_pool_is_clean_and_counted_in_full(seed in any::<u64>()) {
        let pool = make(&PoolSpec::random(seed));
        assert_whole(&pool, &scrub(&pool, &[]));
    }

    #[test]
    fn the_order_in_which_devices_are_given_does_not_matter(seed in any::<u64>()) {
        let pool = make(&PoolSpec::random(seed));
        let mut media = crate::memory::media(&pool, &[]);
        media.reverse();
        let mut assembly = zfs_format::pool::Assembly::new(&media, None).unwrap();
        let progress = zfs_scrub::options::Progress::default();
        let outcome = zfs_scrub::scrub(&mut assembly, &options(1), &progress).unwrap();
        assert_whole(&pool, &outcome);
        prop_assert_eq!(progress.read().done_bytes, pool.totals.allocated_bytes);
    }
}

/// Every setting of a dataset that the maker knows, on one sector size and byte order.
fn all_settings(ashift: u8, endian: Endian) -> PoolSpec {
    let compressions = [Compression::Off, Compression::Lzjb, Compression::Gzip(6), Compression::Zle, Compression::Lz4];
    let checksums = [Checksum::Fletcher2, Checksum::Fletcher4, Checksum::Sha256];
    let mut spec = PoolSpec::new("all").with_tops(&[TopSpec::Mirror(2), TopSpec::Disk]);
    spec = spec.with_ashift(ashift).with_endian(endian);
    spec.device_bytes = 512 << 20;
    for (index, compression) in compressions.into_iter().enumerate() {
        let mut dataset = DatasetSpec::new(&format!("d{index}"));
        dataset.compression = compression;
        dataset.checksum = checksums[index % 3];
        dataset.copies = 1 + (index % 3) as u8;
        dataset.record_bytes = 4096 << (2 * (index % 3));
        dataset.indirect_shift = 12 + index as u8;
        dataset.attributes = if index % 2 == 0 { Attributes::Sa } else { Attributes::Legacy };
        dataset = dataset.with_file(FileSpec::new("dir/text", Content::text(1, 150_000)).with_link("link"));
        dataset = dataset.with_file(FileSpec::new("tiny", Content::text(2, 90))).then_snapshot("s");
        spec = spec.with_dataset(dataset.with_file(FileSpec::new("noise", Content::random(3, 70_001))));
    }
    spec
}

#[test]
fn every_sector_size_in_both_byte_orders_is_clean_and_counted_in_full() {
    for ashift in 9..=16 {
        for endian in [Endian::Little, Endian::Big] {
            let pool = make(&all_settings(ashift, endian));
            assert_whole(&pool, &scrub(&pool, &[]));
        }
    }
}

#[test]
fn vdevs_of_all_classes_are_clean_and_counted_in_full() {
    let tops = [TopSpec::Raidz { parity: 1, width: 3 }, TopSpec::Mirror(2), TopSpec::Disk, TopSpec::Mirror(2)];
    let classes = [(1, Class::Special), (2, Class::Dedup), (3, Class::Log)];
    let spec = PoolSpec { top_levels: tops.to_vec(), classes: classes.to_vec(), ..all_settings(12, Endian::Little) };
    let pool = make(&spec);
    let outcome = scrub(&pool, &[]);
    assert_whole(&pool, &outcome);
    let found: Vec<Option<&str>> = outcome.vdevs.iter().map(|top| top.class.as_deref()).collect();
    assert_eq!((found.len(), found[3]), (4, Some("log")));
}
