//! Raidz: every width and parity, damage up to parity and beyond it.

use crate::healthy::assert_whole;
use crate::injury::{add_read_errors, bad_ranges, blow_to_columns, strike};
use crate::memory::scrub;
use crate::model::{Injuries, Model};
use fixtures::{Checksum, Compression, Content, Damage, DatasetSpec, Endian, FileSpec, PoolSpec, Stale, TopSpec, make};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::sample::{Index, select};
use std::collections::BTreeSet;
use zfs_scrub::finding::{CopyResult, Kind, Severity};
use zfs_scrub::outcome::exit;

/// A raidz of 1 to 3 parity columns and up to 8 devices.
fn raidz() -> impl Strategy<Value = TopSpec> {
    (1..=3usize)
        .prop_flat_map(|parity| (Just(parity), parity + 1..=8))
        .prop_map(|(parity, width)| TopSpec::Raidz { parity, width })
}

/// One raidz, or two, or one beside a mirror.
fn tops() -> impl Strategy<Value = Vec<TopSpec>> {
    prop_oneof![
        4 => raidz().prop_map(|top| vec![top]),
        1 => vec(raidz(), 2),
        1 => raidz().prop_map(|top| vec![TopSpec::Mirror(2), top]),
    ]
}

/// A file system with blocks of one size. With fletcher2 some damage to two columns goes unseen, by ZFS too.
fn dataset(name: &'static str) -> impl Strategy<Value = DatasetSpec> {
    let checksum = select(vec![Checksum::Fletcher4, Checksum::Sha256]);
    let compression = select(vec![Compression::Off, Compression::Lz4, Compression::Zle]);
    (0..12u32, 1..=3u8, checksum, compression, 1..700_000u64, any::<u64>()).prop_map(
        move |(record, copies, checksum, compression, len, seed)| {
            let len = len.min(300 * (512 << record));
            let mut dataset = DatasetSpec::new(name);
            (dataset.copies, dataset.checksum, dataset.compression) = (copies, checksum, compression);
            dataset.record_bytes = 512 << record;
            let text = FileSpec::new("words", Content::text(seed, len / 2 + 1));
            dataset.with_file(FileSpec::new("noise", Content::random(seed, len))).with_file(text).then_snapshot("last")
        },
    )
}

/// A small pool on these top-levels.
pub(crate) fn pool(tops: impl Strategy<Value = Vec<TopSpec>>) -> impl Strategy<Value = PoolSpec> {
    let endian = select(vec![Endian::Little, Endian::Big]);
    (tops, 9..=13u8, endian, dataset(""), dataset("child"), any::<u64>()).prop_map(
        |(tops, ashift, endian, root, child, guid)| {
            let spec = PoolSpec::new("tank").with_tops(&tops).with_ashift(ashift).with_endian(endian);
            let spec = PoolSpec { guid: guid | 1, device_bytes: 256 << 20, ..spec };
            spec.with_dataset(root).with_dataset(child)
        },
    )
}

/// As many members as the choices say, at most so many.
fn some_members(choices: &[Index], width: usize, at_most: usize) -> Vec<usize> {
    let chosen: BTreeSet<usize> = choices.iter().map(|choice| choice.index(width)).collect();
    chosen.into_iter().take(at_most).collect()
}

proptest! {
    #![proptest_config(crate::cases(40))]

    #[test]
    fn a_healthy_raidz_is_clean_and_counted_in_full(spec in pool(tops())) {
        let pool = make(&spec);
        assert_whole(&pool, &scrub(&pool, &[]));
    }

    #[test]
    fn damage_to_columns_names_the_culprits_up_to_parity_and_nobody_beyond(
        spec in pool(tops()),
        blows in vec(blow_to_columns(), 1..30),
    ) {
        let mut pool = make(&spec);
        let injuries = strike(&mut pool, &blows);
        Model::new(&pool).check(&injuries, &scrub(&pool, &[]));
    }

    #[test]
    fn bad_sectors_and_lying_columns_do_not_hide_each_other(
        spec in pool(tops()),
        blows in vec(blow_to_columns(), 0..20),
        unread in vec((blow_to_columns(), 0..20_000u64, 1..20_000u64), 1..6),
    ) {
        let mut pool = make(&spec);
        let mut injuries = strike(&mut pool, &blows);
        let bad = bad_ranges(&pool, &unread);
        add_read_errors(&pool, &bad, &mut injuries);
        Model::new(&pool).check(&injuries, &scrub(&pool, &bad));
    }

    #[test]
    fn members_may_be_missing_while_others_lie(
        spec in pool(raidz().prop_map(|top| vec![top])),
        missing in vec(any::<Index>(), 1..4),
        blows in vec(blow_to_columns(), 0..20),
    ) {
        let TopSpec::Raidz { parity, width } = spec.top_levels[0] else { panic!("only raidz is made") };
        let mut pool = make(&PoolSpec { missing: some_members(&missing, width, parity), ..spec });
        let injuries = strike(&mut pool, &blows);
        Model::new(&pool).check(&injuries, &scrub(&pool, &[]));
    }
}

/// A raidz3 of seven: one member is not there, another lies in every even block, a third in every odd one.
#[test]
fn a_raidz3_reads_whole_with_one_member_missing_and_two_that_lie_by_turns() {
    let dataset = DatasetSpec::new("").with_file(FileSpec::new("noise", Content::random(1, 4_000_000)));
    let mut spec = PoolSpec::new("tank").with_tops(&[TopSpec::Raidz { parity: 3, width: 7 }]).with_dataset(dataset);
    spec.missing = vec![2];
    let mut pool = make(&spec);
    let mut injuries = Injuries::new();
    let mut hit = BTreeSet::new();
    for index in 0..pool.blocks.len() {
        let liar = if pool.blocks[index].block.is_multiple_of(2) { 4 } else { 5 };
        for copy in pool.blocks[index].copies.clone() {
            let Some(leaf) = copy.leaves.iter().position(|span| span.device == liar) else { continue };
            if pool.damage_copy(index, copy.dva_index, Some(leaf), Damage::Random(3)) {
                injuries.insert((index, copy.dva_index, leaf), CopyResult::Checksum);
                hit.insert(index);
            }
        }
    }
    let outcome = scrub(&pool, &[]);
    let model = Model::new(&pool);
    model.check(&injuries, &outcome);
    assert_eq!(outcome.summary.exit_status, exit::DEGRADED | exit::INCOMPLETE);
    assert_eq!((outcome.summary.lost_blocks, outcome.summary.degraded_blocks), (0, hit.len() as u64));
    assert_eq!(outcome.totals.decoded_blocks, pool.totals.blocks);
    assert!(hit.len() > 40, "{} blocks", hit.len());
    for finding in outcome.findings.iter().filter(|finding| finding.is_about_block()) {
        let liar = if finding.place.block.unwrap().is_multiple_of(2) { "disk4" } else { "disk5" };
        let bad = finding.copies.iter().filter(|copy| copy.result == CopyResult::Checksum);
        let named: BTreeSet<_> = bad.map(|copy| copy.device.as_deref().unwrap()).collect();
        assert_eq!(named, BTreeSet::from([liar]));
        assert_eq!(finding.severity, Severity::Degraded);
    }
}

/// Every set of columns of a block: up to parity all are named and the block is whole, with one more it is lost.
#[test]
fn each_set_of_columns_of_a_block_is_named_as_long_as_parity_makes_up_for_it() {
    for parity in 1..=3 {
        let mut dataset = DatasetSpec::new("").with_file(FileSpec::new("noise", Content::random(1, 20_000)));
        (dataset.record_bytes, dataset.compression) = (4096, Compression::Off);
        let spec = PoolSpec::new("tank").with_tops(&[TopSpec::Raidz { parity, width: 6 }]).with_dataset(dataset);
        let made = make(&spec);
        let is_wide = |block: &fixtures::MadeBlock| {
            block.file_offset_bytes.is_some() && block.copies.len() == 1 && block.copies[0].leaves.len() == 6
        };
        let index = made.blocks.iter().position(is_wide).unwrap();
        for set in 1..1u32 << 6 {
            let mut pool = made.clone();
            let mut injuries = Injuries::new();
            for leaf in (0..6).filter(|leaf| set >> leaf & 1 == 1) {
                assert!(pool.damage_copy(index, 0, Some(leaf), Damage::Random(u64::from(set))));
                injuries.insert((index, 0, leaf), CopyResult::Checksum);
            }
            let model = Model::new(&pool);
            assert_eq!(model.is_lost(index, &injuries), set.count_ones() as usize > parity);
            model.check(&injuries, &scrub(&pool, &[]));
        }
    }
}

/// What a member missed, as its DTL says, is a note; a column that lies beside it is still found.
#[test]
fn what_a_stale_member_missed_is_no_damage() {
    let dataset = DatasetSpec::new("").with_file(FileSpec::new("noise", Content::random(1, 600_000)));
    let child = DatasetSpec::new("child").with_file(FileSpec::new("words", Content::text(2, 600_000)));
    let spec = PoolSpec::new("tank").with_tops(&[TopSpec::Raidz { parity: 2, width: 5 }]).with_dataset(dataset);
    let mut spec = spec.with_dataset(child);
    spec.stale = vec![Stale { device: 1, txgs: 6..7 }];
    let mut pool = make(&spec);
    let is_missed = |block: &fixtures::MadeBlock| block.birth_txg == 6 && block.file_offset_bytes.is_some();
    let index = pool.blocks.iter().position(is_missed).unwrap();
    let cells = || pool.blocks.iter().filter(|block| block.birth_txg == 6).flat_map(|block| &block.copies);
    let missed = cells().flat_map(|copy| &copy.leaves).filter(|span| span.device == 1).count();
    assert!(missed > 10, "{missed} cells");

    let outcome = scrub(&pool, &[]);
    let [note] = outcome.findings.as_slice() else { panic!("{:#?}", outcome.findings) };
    assert_eq!((note.kind, note.place.device.as_deref()), (Kind::MemberStale, Some("disk1")));
    assert!(note.message.starts_with(&format!("{missed} copies")), "{}: {missed}", note.message);
    assert_eq!((outcome.summary.degraded_blocks, outcome.summary.lost_blocks), (0, 0));

    let leaf = pool.blocks[index].copies[0].leaves.iter().position(|span| span.device == 3).unwrap();
    assert!(pool.damage_copy(index, 0, Some(leaf), Damage::Random(1)));
    let outcome = scrub(&pool, &[]);
    let bad = outcome.findings.iter().flat_map(|finding| &finding.copies);
    let bad: Vec<_> = bad.filter(|copy| copy.result == CopyResult::Checksum).map(|copy| copy.device.clone()).collect();
    assert_eq!(bad, [Some("disk3".to_owned())]);
    assert_eq!((outcome.summary.degraded_blocks, outcome.summary.lost_blocks), (1, 0));
}
