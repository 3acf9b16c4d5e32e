//! See `fuzz::micro_zap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::micro_zap(data));
