//! See `fuzz::ddt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::ddt(data));
