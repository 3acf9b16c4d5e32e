//! The inner loops, in plain and in vector form, and the choice of the fastest for this CPU.
//!
//! The vector form keeps N bytes of all parity rows in registers while it goes through the columns, so the data is read
//! once and the parity written once. Multiplication by a constant is Horner's rule over the constant's bits: doublings
//! and masks, no table, which any instruction set can do on a register of bytes.

use super::PARITY_MAX;
use super::field::{power_of_two, product};
use std::sync::OnceLock;

/// Parity rows by number; a row that is not wanted is empty.
pub(super) type Rows<'a> = [&'a mut [u8]; PARITY_MAX];

/// Something to multiply by a factor.
pub(super) type Term<'a> = (u8, &'a [u8]);

/// One way to compute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    pub(super) name: &'static str,
    /// Computes the parity rows that are not empty over all columns. Columns are cut, or extended by zeros.
    pub(super) generate: fn(&[&[u8]], &mut Rows<'_>),
    /// Writes the sum of up to three sources, each times its factor. Sources are cut, or extended by zeros.
    pub(super) combine: fn(&[Term<'_>], &mut [u8]),
}

/// Byte by byte with the tables of the field: the reference for the others.
pub(super) const PLAIN: Kernels = Kernels { name: "plain", generate: plain_generate, combine: plain_combine };

/// Vector code with the instructions every CPU of this architecture has.
pub(super) const BASELINE: Kernels = Kernels { name: "baseline", generate: generate::<32>, combine: combine::<32> };

/// The fastest form this CPU has, checked once against [`PLAIN`].
pub(super) fn chosen() -> Kernels {
    static CHOSEN: OnceLock<Kernels> = OnceLock::new();
    *CHOSEN.get_or_init(|| candidates().into_iter().find(agrees).unwrap_or(PLAIN))
}

/// The forms this CPU can run, fastest first. [`PLAIN`] is not among them.
pub(super) fn candidates() -> Vec<Kernels> {
    #[cfg(target_arch = "x86_64")]
    let mut candidates = super::kernels_x86::kernels();
    #[cfg(not(target_arch = "x86_64"))]
    let mut candidates = Vec::new();
    candidates.push(BASELINE);
    candidates
}

/// Compares a form with the plain one on fixed bytes of a ragged length.
fn agrees(kernels: &Kernels) -> bool {
    let bytes: Vec<u8> = (0..3 * 331_u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    let columns: Vec<&[u8]> = bytes.chunks(331).collect();
    let all_rows = |kernels: &Kernels| {
        let mut rows = [[0; 331]; PARITY_MAX];
        (kernels.generate)(&columns, &mut rows.each_mut().map(|row| row.as_mut_slice()));
        let sources: Vec<Term<'_>> = [0x8e, 1, 0x57].into_iter().zip(columns.iter().copied()).collect();
        let mut sum = [0; 331];
        (kernels.combine)(&sources, &mut sum);
        (rows, sum)
    };
    all_rows(kernels) == all_rows(&PLAIN)
}

fn plain_generate(columns: &[&[u8]], rows: &mut Rows<'_>) {
    for (row, parity) in rows.iter_mut().enumerate() {
        let weight = power_of_two(row);
        for (at, byte) in parity.iter_mut().enumerate() {
            let data = columns.iter().map(|column| column.get(at).copied().unwrap_or(0));
            *byte = data.fold(0, |sum, data| product(weight, sum) ^ data);
        }
    }
}

fn plain_combine(sources: &[Term<'_>], target: &mut [u8]) {
    for (at, byte) in target.iter_mut().enumerate() {
        let terms = sources.iter().map(|(factor, source)| product(*factor, source.get(at).copied().unwrap_or(0)));
        *byte = terms.fold(0, |sum, term| sum ^ term);
    }
}

/// [`Kernels::generate`] on N bytes at a time, in whatever instruction set the caller enables.
#[inline(always)]
pub(super) fn generate<const N: usize>(columns: &[&[u8]], rows: &mut Rows<'_>) {
    let wanted = [0, 1, 2].map(|row| !rows[row].is_empty());
    match wanted {
        [true, true, true] => generate_rows::<N, true, true, true>(columns, rows),
        [true, true, false] => generate_rows::<N, true, true, false>(columns, rows),
        [true, false, true] => generate_rows::<N, true, false, true>(columns, rows),
        [true, false, false] => generate_rows::<N, true, false, false>(columns, rows),
        [false, true, true] => generate_rows::<N, false, true, true>(columns, rows),
        [false, true, false] => generate_rows::<N, false, true, false>(columns, rows),
        [false, false, true] => generate_rows::<N, false, false, true>(columns, rows),
        [false, false, false] => {}
    }
}

#[inline(always)]
fn generate_rows<const N: usize, const P: bool, const Q: bool, const R: bool>(columns: &[&[u8]], rows: &mut Rows<'_>) {
    let length = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    for at in (0..length).step_by(N) {
        let [mut p, mut q, mut r] = [[0_u8; N]; PARITY_MAX];
        for column in columns {
            let mut padded = [0; N];
            let data = load(column, at, &mut padded);
            for j in 0..N {
                if P {
                    p[j] ^= data[j];
                }
                if Q {
                    q[j] = doubled(q[j]) ^ data[j];
                }
                if R {
                    r[j] = doubled(doubled(r[j])) ^ data[j];
                }
            }
        }
        for (row, bytes) in rows.iter_mut().zip([p, q, r]) {
            store(&bytes, row, at);
        }
    }
}

/// [`Kernels::combine`] on N bytes at a time.
#[inline(always)]
pub(super) fn combine<const N: usize>(sources: &[Term<'_>], target: &mut [u8]) {
    match *sources {
        // One column lost, and restored by P: nothing to multiply.
        [(1, source)] => {
            let length = target.len().min(source.len());
            let (copied, rest) = target.split_at_mut(length);
            copied.copy_from_slice(source.get(..length).unwrap_or_default());
            rest.fill(0);
        }
        [a] => combine_some::<N, 1>([a], target),
        [a, b] => combine_some::<N, 2>([a, b], target),
        [a, b, c] => combine_some::<N, 3>([a, b, c], target),
        _ => target.fill(0),
    }
}

#[inline(always)]
fn combine_some<const N: usize, const K: usize>(sources: [Term<'_>; K], target: &mut [u8]) {
    // Whether a factor has a bit, from the highest bit to the lowest, as all ones or none.
    let masks: [[u8; 8]; K] =
        sources.map(|(factor, _)| [7, 6, 5, 4, 3, 2, 1, 0].map(|bit| if factor >> bit & 1 == 1 { 0xff } else { 0 }));
    for at in (0..target.len()).step_by(N) {
        let mut sum = [0_u8; N];
        for k in 0..K {
            let mut padded = [0; N];
            let term = load(sources[k].1, at, &mut padded);
            // Each loop over the N bytes by itself, by index: that is what the compiler reliably turns into vector
            // instructions.
            let mut product = [0_u8; N];
            for mask in masks[k] {
                for j in 0..N {
                    product[j] = doubled(product[j]) ^ (term[j] & mask);
                }
            }
            for j in 0..N {
                sum[j] ^= product[j];
            }
        }
        store(&sum, target, at);
    }
}

/// Adds `source` to `target` (exclusive or).
pub(super) fn add(source: &[u8], target: &mut [u8]) {
    for (target, &source) in target.iter_mut().zip(source) {
        *target ^= source;
    }
}

/// N bytes from `at`; zeros follow the end.
#[inline(always)]
fn load<'a, const N: usize>(source: &'a [u8], at: usize, padded: &'a mut [u8; N]) -> &'a [u8; N] {
    let rest = source.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(chunk) => chunk,
        None => {
            for (target, &byte) in padded.iter_mut().zip(rest) {
                *target = byte;
            }
            padded
        }
    }
}

/// Writes N bytes from `at`, or what there is room for.
#[inline(always)]
fn store<const N: usize>(bytes: &[u8; N], target: &mut [u8], at: usize) {
    let rest = target.get_mut(at..).unwrap_or_default();
    match rest.first_chunk_mut() {
        Some(chunk) => *chunk = *bytes,
        None => {
            for (target, &byte) in rest.iter_mut().zip(bytes) {
                *target = byte;
            }
        }
    }
}

/// Multiplies by 2 without a branch: the sign bit, spread over the byte, selects the polynomial.
#[inline(always)]
fn doubled(value: u8) -> u8 {
    let spread = (value.cast_signed() >> 7).cast_unsigned();
    (value << 1) ^ (spread & 0x1d)
}
