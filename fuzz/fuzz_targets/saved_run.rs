//! See `fuzz::saved_run`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::saved_run(data));
