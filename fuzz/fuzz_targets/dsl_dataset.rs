//! See `fuzz::dsl_dataset`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::dsl_dataset(data));
