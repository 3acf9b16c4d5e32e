//! See `fuzz::labels`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::labels(data));
