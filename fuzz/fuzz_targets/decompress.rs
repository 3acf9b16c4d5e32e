//! See `fuzz::decompress`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::decompress(data));
