//! dRAID and removed top-levels: the same properties as those of raidz.

use crate::healthy::assert_whole;
use crate::injury::{Blow, blow, blow_to_columns, strike};
use crate::memory::scrub;
use crate::model::{Injuries, Model, is_striped};
use crate::striped::pool;
use fixtures::{Class, Damage, Draid, Pool, PoolSpec, SpareInUse, TopSpec, make};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assume, proptest};
use proptest::sample::{Index, select};
use std::collections::BTreeSet;
use zfs_scrub::Severity;
use zfs_scrub::finding::CopyResult;

/// A dRAID of 1 to 3 parity columns.
fn draid() -> impl Strategy<Value = TopSpec> {
    (1..=3usize, 1..=4usize, 0..=2usize, 0..=3usize).prop_map(|(parity, data, spares, more)| {
        TopSpec::Draid(Draid { parity, data, spares, children: parity + data + spares + more })
    })
}

/// A pool on one dRAID, with room for the rows that no block may use.
fn draid_pool() -> impl Strategy<Value = PoolSpec> {
    pool(draid().prop_map(|top| vec![top])).prop_map(|spec| spec.with_device_bytes(512 << 20))
}

/// A pool of disks and mirrors, one or two of which are removed. What is left was there all the time.
fn removed_pool() -> impl Strategy<Value = PoolSpec> {
    let top = select(vec![TopSpec::Disk, TopSpec::Mirror(2), TopSpec::Mirror(3)]);
    let removed = select(vec![vec![0], vec![1], vec![0, 1], vec![1, 0], vec![2, 0], vec![2, 1]]);
    (pool(vec(top, 3..5)), removed).prop_map(|(spec, removed)| spec.without_tops(&removed))
}

/// Whether the bad devices of some block in two groups are more than parity together, though in neither group. OpenZFS gives
/// such a block up, and a reader that does not is no worse.
fn is_open_question(pool: &Pool, injuries: &Injuries) -> bool {
    let is_open = |index: usize, dva: usize| {
        let copy = &pool.blocks[index].copies[dva];
        let device = |leaf: usize| copy.leaves[leaf].device;
        let is_bad = |leaf: usize| injuries.contains_key(&(index, dva, leaf)) || pool.devices[device(leaf)].is_missing;
        let bad: BTreeSet<usize> = (0..copy.leaves.len()).filter(|leaf| is_bad(*leaf)).map(device).collect();
        is_striped(copy) && copy.survives(is_bad) && bad.len() > copy.parts[0].parity
    };
    injuries.keys().any(|(index, dva, _)| is_open(*index, *dva))
}

fn check_healthy(spec: &PoolSpec) {
    let pool = make(spec);
    assert_whole(&pool, &scrub(&pool, &[]));
}

/// Damages a pool and compares what is said of it; false when the damage is not such that one answer alone is right.
fn check_damaged(spec: &PoolSpec, blows: &[Blow]) -> bool {
    let mut pool = make(spec);
    let injuries = strike(&mut pool, blows);
    let outcome = scrub(&pool, &[]);
    // Without the configuration and the mappings, which lie in the MOS, it is not known where blocks went.
    let is_findable = spec.removed.is_empty() || Model::new(&pool).has_mos(&injuries);
    let is_clear = is_findable && !is_open_question(&pool, &injuries);
    if is_clear {
        Model::new(&pool).check(&injuries, &outcome);
    }
    is_clear
}

proptest! {
    #![proptest_config(crate::cases(40))]

    #[test]
    fn a_healthy_draid_is_clean_and_counted_in_full(spec in draid_pool()) {
        check_healthy(&spec);
    }

    #[test]
    fn damage_to_columns_of_draid_names_the_culprits(spec in draid_pool(), blows in vec(blow_to_columns(), 1..30)) {
        prop_assume!(check_damaged(&spec, &blows));
    }

    #[test]
    fn members_of_draid_may_be_missing_while_others_lie(
        spec in draid_pool(),
        missing in vec(any::<Index>(), 1..4),
        blows in vec(blow_to_columns(), 0..20),
    ) {
        let TopSpec::Draid(draid) = spec.top_levels[0] else { panic!("only dRAID is made") };
        let missing: BTreeSet<usize> = missing.iter().map(|choice| choice.index(draid.children)).collect();
        let missing = missing.into_iter().take(draid.parity).collect();
        prop_assume!(check_damaged(&PoolSpec { missing, ..spec }, &blows));
    }

    #[test]
    fn a_healthy_pool_with_removed_top_levels_is_clean(spec in removed_pool()) {
        check_healthy(&spec);
    }

    #[test]
    fn damage_to_moved_blocks_names_the_device_where_they_are_now(
        spec in removed_pool(),
        blows in vec(blow(), 1..30),
    ) {
        prop_assume!(check_damaged(&spec, &blows));
    }
}

/// Two members are gone from a draid1, and their distributed spares hold what they held.
#[test]
fn distributed_spares_make_a_draid_whole() {
    let draid = Draid { parity: 1, data: 2, spares: 2, children: 8 };
    let dataset = fixtures::DatasetSpec::new("")
        .with_file(fixtures::FileSpec::new("noise", fixtures::Content::random(1, 3_000_000)));
    let spec = PoolSpec::new("tank").with_tops(&[TopSpec::Draid(draid)]).with_dataset(dataset);
    let mut spec = spec.with_device_bytes(512 << 20);
    spec.spares_in_use = vec![SpareInUse { device: 2, spare: 0 }, SpareInUse { device: 5, spare: 1 }];
    spec.missing = vec![2, 5];
    let pool = make(&spec);
    let outcome = scrub(&pool, &[]);
    assert_eq!((outcome.summary.lost_blocks, outcome.summary.degraded_blocks), (0, 0));
    assert_eq!(outcome.totals.decoded_blocks, pool.totals.blocks);
}

/// A pool with some files, on these top-level vdevs.
fn with_files(tops: &[TopSpec]) -> PoolSpec {
    let dataset = fixtures::DatasetSpec::new("home")
        .with_file(fixtures::FileSpec::new("noise", fixtures::Content::random(1, 3_000_000)))
        .with_file(fixtures::FileSpec::new("words", fixtures::Content::text(2, 400)));
    PoolSpec::new("tank").with_tops(tops).with_dataset(dataset)
}

#[test]
fn case_e4_a_removed_device_is_read_where_its_blocks_are_now() {
    let pool = make(&with_files(&[TopSpec::Disk, TopSpec::Disk, TopSpec::Disk]).without_tops(&[1]));
    let outcome = scrub(&pool, &[]);
    assert_whole(&pool, &outcome);
    assert!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    assert_eq!(outcome.vdevs[1].vdev_type, "indirect");
}

#[test]
fn case_e6_a_removed_disk_that_mirrors_the_survivor_is_clean() {
    let pool = make(&with_files(&[TopSpec::Disk, TopSpec::Mirror(2)]).without_tops(&[0]));
    let outcome = scrub(&pool, &[]);
    assert_whole(&pool, &outcome);
    let sides = &outcome.vdevs[1].children;
    assert!(sides.iter().all(|side| side.checksum_errors == 0 && side.bytes_read > 0), "{sides:?}");
}

#[test]
fn case_e8_padding_of_draid_that_is_not_zero_is_told_and_the_data_is_fine() {
    let draid = Draid { parity: 1, data: 2, spares: 0, children: 4 };
    let mut pool = make(&with_files(&[TopSpec::Draid(draid)]).with_device_bytes(512 << 20));
    // A block of one sector: parity, data, and a sector of padding.
    let is_small = |block: &fixtures::MadeBlock| block.level == 0 && !block.embedded && block.psize <= 512;
    let index = pool.blocks.iter().position(is_small).unwrap();
    let padding = pool.blocks[index].copies[0].leaves[2];
    assert!(pool.damage_copy(index, 0, Some(2), Damage::Random(5)));
    let outcome = scrub(&pool, &[]);
    let [finding] = outcome.findings.as_slice() else { panic!("one finding: {:#?}", outcome.findings) };
    let bad: Vec<_> = finding.copies.iter().filter(|copy| copy.result != CopyResult::Ok).collect();
    let place = bad[0].device.clone().zip(bad[0].device_offset_bytes);
    let wanted = (pool.devices[padding.device].name.clone(), padding.offset_bytes);
    assert_eq!((bad.len(), place), (1, Some(wanted)));
    assert!(finding.recoverable && finding.severity == Severity::Degraded);
}

#[test]
fn classes_are_called_by_their_names() {
    let classes = vec![(1, Class::Special), (2, Class::Dedup), (3, Class::Log)];
    let pool = make(&PoolSpec { classes, ..PoolSpec::new("tank").with_tops(&[TopSpec::Disk; 4]) });
    let outcome = scrub(&pool, &[]);
    let found: Vec<Option<&str>> = outcome.vdevs.iter().map(|top| top.class.as_deref()).collect();
    assert_eq!(found, [Some("normal"), Some("special"), Some("dedup"), Some("log")]);
}
