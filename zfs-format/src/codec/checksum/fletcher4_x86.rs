//! fletcher4 compiled for AVX2 and AVX-512. The code is [`lanes`], safe and the same for both; only the calls into
//! functions with a target feature need `unsafe`, and they are all in this file.
#![allow(unsafe_code, reason = "calls of functions compiled for a CPU feature that was detected")]

use super::Checksum;
use super::fletcher4::{Kernel, lanes};
use crate::Endian;
use std::arch::is_x86_feature_detected;

#[target_feature(enable = "avx2")]
fn lanes_avx2(endian: Endian, bytes: &[u8]) -> Checksum {
    lanes::<8>(endian, bytes)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn lanes_avx512(endian: Endian, bytes: &[u8]) -> Checksum {
    lanes::<16>(endian, bytes)
}

fn avx2(endian: Endian, bytes: &[u8]) -> Checksum {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX2.
    unsafe { lanes_avx2(endian, bytes) }
}

fn avx512(endian: Endian, bytes: &[u8]) -> Checksum {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX-512 F and BW.
    unsafe { lanes_avx512(endian, bytes) }
}

/// The forms this CPU can run, fastest first.
pub(super) fn kernels() -> Vec<(&'static str, Kernel)> {
    let mut kernels: Vec<(&'static str, Kernel)> = Vec::new();
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        kernels.push(("avx512", avx512));
    }
    if is_x86_feature_detected!("avx2") {
        kernels.push(("avx2", avx2));
    }
    kernels
}
