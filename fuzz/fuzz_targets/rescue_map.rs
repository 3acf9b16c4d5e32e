//! See `fuzz::rescue_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::rescue_map(data));
