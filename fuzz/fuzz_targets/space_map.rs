//! See `fuzz::space_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::space_map(data));
