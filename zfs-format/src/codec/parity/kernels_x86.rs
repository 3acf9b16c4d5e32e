//! The parity loops compiled for AVX2 and AVX-512. The code is that of `kernels.rs`, safe and the same for all; only
//! the calls into functions with a target feature need `unsafe`, and they are all in this file.
#![allow(unsafe_code, reason = "calls of functions compiled for a CPU feature that was detected")]

use super::kernels::{self, Kernels, Rows, Term};
use std::arch::is_x86_feature_detected;

#[target_feature(enable = "avx2")]
fn generate_with_avx2(columns: &[&[u8]], rows: &mut Rows<'_>) {
    kernels::generate::<64>(columns, rows);
}

#[target_feature(enable = "avx512f,avx512bw")]
fn generate_with_avx512(columns: &[&[u8]], rows: &mut Rows<'_>) {
    kernels::generate::<128>(columns, rows);
}

#[target_feature(enable = "avx2")]
fn combine_with_avx2(sources: &[Term<'_>], target: &mut [u8]) {
    kernels::combine::<64>(sources, target);
}

#[target_feature(enable = "avx512f,avx512bw")]
fn combine_with_avx512(sources: &[Term<'_>], target: &mut [u8]) {
    kernels::combine::<128>(sources, target);
}

fn generate_avx2(columns: &[&[u8]], rows: &mut Rows<'_>) {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX2.
    unsafe { generate_with_avx2(columns, rows) }
}

fn generate_avx512(columns: &[&[u8]], rows: &mut Rows<'_>) {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX-512 F and BW.
    unsafe { generate_with_avx512(columns, rows) }
}

fn combine_avx2(sources: &[Term<'_>], target: &mut [u8]) {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX2.
    unsafe { combine_with_avx2(sources, target) }
}

fn combine_avx512(sources: &[Term<'_>], target: &mut [u8]) {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX-512 F and BW.
    unsafe { combine_with_avx512(sources, target) }
}

/// The forms this CPU can run, fastest first.
pub(super) fn kernels() -> Vec<Kernels> {
    let mut kernels = Vec::new();
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        kernels.push(Kernels { name: "avx512", generate: generate_avx512, combine: combine_avx512 });
    }
    if is_x86_feature_detected!("avx2") {
        kernels.push(Kernels { name: "avx2", generate: generate_avx2, combine: combine_avx2 });
    }
    kernels
}
