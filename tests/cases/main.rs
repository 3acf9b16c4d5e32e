//! Reports of other people's broken pools, made again and answered: one test for each case of `docs/cases.md` that no other
//! test binary has. `expected/CASE.txt` is what a person sees; `ZCHECK_BLESS=1` rewrites it.
//!
//! What is right is asserted here: status, codes, places, words. A case whose answer needs a later pass says which, and until
//! then must neither crash, nor flood, nor be called damaged data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod support;
mod zaps;
