//! Damage by chance yields exactly the findings that it must.

use crate::injury::{blow, strike};
use crate::memory::scrub;
use crate::model::{Injuries, Model};
use fixtures::{Damage, Pool, PoolSpec, make};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use zfs_scrub::finding::{CopyResult, Kind, Observed};

proptest! {
    #![proptest_config(crate::cases(80))]

    #[test]
    fn each_damaged_block_that_can_be_reached_is_one_finding(seed in any::<u64>(), blows in vec(blow(), 1..30)) {
        let mut pool = make(&PoolSpec::random(seed));
        let injuries = strike(&mut pool, &blows);
        Model::new(&pool).check(&injuries, &scrub(&pool, &[]));
    }

    #[test]
    fn many_damaged_blocks_are_as_many_findings(seed in any::<u64>(), blows in vec(blow(), 300..301)) {
        let mut pool = make(&PoolSpec::random(seed));
        let injuries = strike(&mut pool, &blows);
        Model::new(&pool).check(&injuries, &scrub(&pool, &[]));
    }
}

/// Damages all copies of the blocks chosen.
fn lose(pool: &mut Pool, is_chosen: impl Fn(&fixtures::MadeBlock) -> bool) -> Injuries {
    let mut injuries = Injuries::new();
    for index in 0..pool.blocks.len() {
        let block = pool.blocks[index].clone();
        for copy in block.copies.iter().filter(|_| is_chosen(&block)) {
            for leaf in 0..copy.leaves.len() {
                assert!(pool.damage_copy(index, copy.dva_index, Some(leaf), Damage::Random(7)));
                injuries.insert((index, copy.dva_index, leaf), CopyResult::Checksum);
            }
        }
    }
    injuries
}

#[test]
fn each_block_of_the_mos_can_be_lost_alone() {
    let made = make(&PoolSpec::random(3));
    let mut kinds = std::collections::BTreeSet::new();
    for index in (0..made.blocks.len()).filter(|index| made.blocks[*index].owner.objset == 0) {
        let victim = made.blocks[index].clone();
        let mut pool = made.clone();
        let injuries = lose(&mut pool, |block| *block == victim);
        let outcome = scrub(&pool, &[]);
        Model::new(&pool).check(&injuries, &outcome);
        kinds.extend(outcome.findings.iter().map(|finding| finding.kind));
    }
    let wanted = [Kind::ConfigIncomplete, Kind::RootLost, Kind::BlockChecksum];
    assert!(wanted.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn everything_below_the_root_may_be_lost() {
    let mut pool = make(&PoolSpec::random(4));
    let injuries = lose(&mut pool, |block| block.level >= 0);
    Model::new(&pool).check(&injuries, &scrub(&pool, &[]));
}

#[test]
fn all_level_0_blocks_of_all_objects_may_be_lost() {
    let mut pool = make(&PoolSpec::random(5));
    let injuries = lose(&mut pool, |block| block.level == 0 && block.object != 0 && block.owner.objset != 0);
    let outcome = scrub(&pool, &[]);
    assert!(outcome.findings.len() > 100, "{}", outcome.findings.len());
    Model::new(&pool).check(&injuries, &outcome);
}

#[test]
fn a_flipped_bit_is_told_from_other_damage() {
    for seed in 0..8 {
        let made = make(&PoolSpec::random(seed));
        let is_fletcher4 =
            |index: &usize| made.blocks[*index].checksum_id == 7 && made.blocks[*index].owner.objset != 0;
        for (number, index) in (0..made.blocks.len()).filter(is_fletcher4).enumerate().step_by(29) {
            let mut pool = made.clone();
            let (damage, observed) = match number % 4 {
                0 => (Damage::FlipBit((number / 4) as u8), Observed::BitFlip),
                1 => (Damage::Zero, Observed::Zeros),
                2 => (Damage::Ones, Observed::Ones),
                _ => (Damage::Random(1), Observed::Other),
            };
            assert!(pool.damage_copy(index, 0, Some(0), damage));
            let outcome = scrub(&pool, &[]);
            assert_eq!(outcome.findings[0].copies[0].observed, Some(observed), "{:#?}", outcome.findings[0]);
        }
    }
}
