//! See `fuzz::zil`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::zil(data));
