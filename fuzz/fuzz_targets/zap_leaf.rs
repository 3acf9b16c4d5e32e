//! See `fuzz::zap_leaf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::zap_leaf(data));
