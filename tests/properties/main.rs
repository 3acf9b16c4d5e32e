//! What must hold of every pool and every damage: the maker in `fixtures`, which shares no code with the reader, says what to expect.
//!
//! `PROPTEST_CASES=1000 cargo test -p zfs-scrub --test properties` looks longer.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod damaged;
mod elsewhere;
mod healthy;
mod injury;
mod memory;
mod model;
mod names;
mod read_errors;
mod shared;
mod striped;
mod threads;

use proptest::prelude::ProptestConfig;

/// So many cases, unless `PROPTEST_CASES` says otherwise. Nothing is written beside the sources: a failure prints its seed.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() }
}
