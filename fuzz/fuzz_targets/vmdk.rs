//! See `fuzz::vmdk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::vmdk(data));
