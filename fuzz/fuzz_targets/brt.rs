//! See `fuzz::brt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::brt(data));
