//! See `fuzz::label`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::label(data));
