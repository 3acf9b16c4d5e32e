//! See `fuzz::sa`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::sa(data));
