//! Sectors that cannot be read: each copy that touches one is said to, its neighbours are not, and the run goes on.

use crate::injury::{add_read_errors, bad_ranges, blow, strike};
use crate::memory::{BadRange, media, options, scrub};
use crate::model::Model;
use fixtures::{Pool, PoolSpec, make};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use std::collections::BTreeSet;
use zfs_format::pool::Assembly;
use zfs_scrub::finding::CopyResult;
use zfs_scrub::options::Progress;

/// Sectors of a medium in memory.
const SECTOR_BYTES: u64 = 512;
/// A run of bad sectors after which the rest of a copy counts as bad.
const SECTORS_IN_A_ROW_MAX: usize = 32;

/// The sectors of a part of a block that count as bad.
fn bad_sectors(bad: &[BadRange], device: usize, start: u64, length: u64) -> BTreeSet<u64> {
    let (mut found, mut in_a_row) = (BTreeSet::new(), 0);
    for sector in start / SECTOR_BYTES..(start + length).div_ceil(SECTOR_BYTES) {
        let from = (sector * SECTOR_BYTES).max(start);
        let to = ((sector + 1) * SECTOR_BYTES).min(start + length);
        let is_bad = bad.iter().any(|(of, range)| *of == device && range.start < to && from < range.end);
        in_a_row = if is_bad || in_a_row >= SECTORS_IN_A_ROW_MAX { in_a_row + 1 } else { 0 };
        if in_a_row > 0 {
            found.insert(sector);
        }
    }
    found
}

/// What the devices recorded lies in bad sectors of blocks, and has all of those that findings name.
fn assert_recorded(pool: &Pool, bad: &[BadRange]) {
    let mut assembly = Assembly::new(&media(pool, bad), None).unwrap();
    let outcome = zfs_scrub::scrub(&mut assembly, &options(2), &Progress::default()).unwrap();
    for leaf in &assembly.tree.leaves {
        let Some(medium) = &leaf.medium else { continue };
        let device = pool.devices.iter().position(|device| Some(&device.name) == leaf.opened_as.as_ref()).unwrap();
        let ranges = medium.report().bad_ranges;
        let recorded: BTreeSet<u64> =
            ranges.iter().flat_map(|range| range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES)).collect();
        // Whether devices carry each other's labels is looked up at the places of blocks on other devices, too.
        let spans = pool.blocks.iter().flat_map(|block| &block.copies).flat_map(|copy| &copy.leaves);
        let possible: BTreeSet<u64> =
            spans.flat_map(|span| bad_sectors(bad, device, span.offset_bytes, span.len_bytes)).collect();
        assert!(recorded.is_subset(&possible), "{}: {ranges:?}", leaf.name);
        let copies = outcome.findings.iter().flat_map(|finding| &finding.copies);
        let failed = copies.filter(|copy| copy.result == CopyResult::ReadError);
        for copy in failed.filter(|copy| copy.device.as_ref() == Some(&leaf.name)) {
            let met = bad_sectors(bad, device, copy.device_offset_bytes.unwrap(), copy.length_bytes);
            assert!(!met.is_empty() && met.is_subset(&recorded), "{}: {copy:?} {ranges:?}", leaf.name);
        }
    }
}

proptest! {
    #![proptest_config(crate::cases(60))]

    #[test]
    fn exactly_the_copies_on_bad_sectors_are_read_errors(
        seed in any::<u64>(),
        unread in vec((blow(), 0..200_000u64, 1..200_000u64), 1..12),
    ) {
        let pool = make(&PoolSpec::random(seed));
        let bad = bad_ranges(&pool, &unread);
        let mut injuries = crate::model::Injuries::new();
        add_read_errors(&pool, &bad, &mut injuries);
        Model::new(&pool).check(&injuries, &scrub(&pool, &bad));
    }

    #[test]
    fn the_devices_record_exactly_the_bad_sectors(
        seed in any::<u64>(),
        unread in vec((blow(), 0..5_000u64, 1..5_000u64), 1..12),
    ) {
        let pool = make(&PoolSpec::random(seed));
        assert_recorded(&pool, &bad_ranges(&pool, &unread));
    }

    #[test]
    fn bad_sectors_and_damage_do_not_hide_each_other(
        seed in any::<u64>(),
        blows in vec(blow(), 1..40),
        unread in vec((blow(), 0..5_000u64, 1..5_000u64), 1..40),
    ) {
        let mut pool = make(&PoolSpec::random(seed));
        let mut injuries = strike(&mut pool, &blows);
        let bad = bad_ranges(&pool, &unread);
        add_read_errors(&pool, &bad, &mut injuries);
        Model::new(&pool).check(&injuries, &scrub(&pool, &bad));
    }
}
