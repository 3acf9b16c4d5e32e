//! See `fuzz::dsl_dir`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::dsl_dir(data));
