//! See `fuzz::checksum`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::checksum(data));
