//! See `fuzz::gang`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::gang(data));
