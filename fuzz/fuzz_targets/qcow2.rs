//! See `fuzz::qcow2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::qcow2(data));
