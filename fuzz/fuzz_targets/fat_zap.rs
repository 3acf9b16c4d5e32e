//! See `fuzz::fat_zap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fat_zap(data));
