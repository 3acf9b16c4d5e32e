//! See `fuzz::ewf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::ewf(data));
