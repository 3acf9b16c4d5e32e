//! See `fuzz::partitions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::partitions(data));
