//! See `fuzz::scrub_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::scrub_image(data));
