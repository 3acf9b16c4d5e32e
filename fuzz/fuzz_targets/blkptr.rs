//! See `fuzz::blkptr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::blkptr(data));
