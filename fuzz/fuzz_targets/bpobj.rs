//! See `fuzz::bpobj`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::bpobj(data));
