//! See `fuzz::history`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::history(data));
