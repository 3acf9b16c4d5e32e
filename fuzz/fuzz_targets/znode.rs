//! See `fuzz::znode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::znode(data));
