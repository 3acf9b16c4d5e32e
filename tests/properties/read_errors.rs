//! Sectors that cannot be read: each copy that touches one is said to, its neighbours are not, and the run goes on.

use crate::injury::{add_read_errors, bad_ranges, blow, strike};
use crate::memory::scrub;
use crate::model::Model;
use fixtures::{PoolSpec, make};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};

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
