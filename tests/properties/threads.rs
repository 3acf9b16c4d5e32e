//! The report does not depend on how the work was shared out.

use crate::injury::{bad_ranges, blow, strike};
use crate::memory::{options, scrub_with};
use fixtures::{PoolSpec, make};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use zfs_scrub::Options;
use zfs_scrub::outcome::Reading;

proptest! {
    #![proptest_config(crate::cases(30))]

    #[test]
    fn threads_and_memory_do_not_change_the_report(
        seed in any::<u64>(),
        blows in vec(blow(), 0..40),
        unread in vec((blow(), 0..100_000u64, 1..40_000u64), 0..4),
        findings_max in 1..60usize,
    ) {
        let mut pool = make(&PoolSpec::random(seed));
        strike(&mut pool, &blows);
        let bad = bad_ranges(&pool, &unread);
        let mut alone = scrub_with(&pool, &bad, &Options { findings_max, ..Options { threads: 1, ..Options::default() } });
        let run = |threads, memory_bytes| {
            scrub_with(&pool, &bad, &Options { findings_max, memory_bytes, ..options(threads) })
        };
        // No memory at all makes the smallest batches: 64 blocks.
        assert_eq!(run(1, 0), run(3, 0));
        alone.totals.reading = Reading::default();
        for (threads, memory_bytes) in [(8, Options::MEMORY_BYTES_MIN), (3, 0)] {
            let mut other = run(threads, memory_bytes);
            // With more memory there are fewer requests.
            other.totals.reading = Reading::default();
            assert_eq!(alone, other, "{threads} threads, {memory_bytes} bytes");
        }
    }
}
