//! See `fuzz::dnode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::dnode(data));
