//! Parity of raidz and dRAID: up to three parity columns over GF(2^8), and the way back.
//!
//! The field has the polynomial 0x11d and the generator 2. Over the data columns `d[0] .. d[n - 1]`, bytewise and with
//! short columns extended by zeros:
//!
//! | row | parity |
//! | --- | --- |
//! | 0 | P = Σ d\[i\] |
//! | 1 | Q = Σ 2^(n-1-i) d\[i\] |
//! | 2 | R = Σ 4^(n-1-i) d\[i\] |
//!
//! Source: OpenZFS module/zfs/vdev_raidz.c, `vdev_raidz_generate_parity_pqr`, `vdev_raidz_reconstruct_general`.

mod field;
mod kernels;
#[cfg(target_arch = "x86_64")]
mod kernels_x86;

use field::{inverted, power_of_two};
use kernels::{Kernels, Rows, Term};

/// The most parity columns a vdev can have.
pub const PARITY_MAX: usize = 3;
/// The most data columns a stripe can have.
pub const DATA_COLUMNS_MAX: usize = 255;

/// Name of the form in use: `avx512`, `avx2`, `baseline` or `plain`.
#[must_use]
pub fn kernel_name() -> &'static str {
    kernels::chosen().name
}

/// Computes parity row `row` (0 P, 1 Q, 2 R) over `data` into `parity`, whose length is that of the longest column.
///
/// Longer columns are cut, shorter ones extended by zeros. A row that does not exist leaves `parity` alone.
pub fn generate(row: usize, data: &[&[u8]], parity: &mut [u8]) {
    let mut rows = Rows::default();
    if let Some(wanted) = rows.get_mut(row) {
        *wanted = parity;
        (kernels::chosen().generate)(data, &mut rows);
    }
}

/// Computes the first rows (P, or P and Q, or P, Q and R) together, reading `data` once; otherwise as [`generate`].
pub fn generate_rows(data: &[&[u8]], parity: &mut [&mut [u8]]) {
    let mut rows = Rows::default();
    for (row, parity) in rows.iter_mut().zip(parity) {
        *row = parity;
    }
    (kernels::chosen().generate)(data, &mut rows);
}

/// Restores lost data columns in place.
///
/// `data` holds all data columns of the stripe; those whose indices are in `lost` (ascending) are overwritten. `parity`
/// are the rows that can be trusted, with their numbers; the first `lost.len()` of them are used. False when there are
/// too few of them, or an index is out of range: then nothing is changed.
///
/// Source: OpenZFS module/zfs/vdev_raidz.c, `vdev_raidz_matrix_reconstruct`.
pub fn reconstruct(data: &mut [&mut [u8]], lost: &[usize], parity: &[(usize, &[u8])]) -> bool {
    reconstruct_with(&kernels::chosen(), data, lost, parity)
}

fn reconstruct_with(kernels: &Kernels, data: &mut [&mut [u8]], lost: &[usize], parity: &[(usize, &[u8])]) -> bool {
    let count = lost.len();
    let columns = data.len();
    let is_possible = count <= parity.len()
        && count <= PARITY_MAX
        && columns <= DATA_COLUMNS_MAX
        && lost.is_sorted_by(|a, b| a < b)
        && lost.iter().all(|&index| index < columns)
        && parity.iter().all(|&(row, _)| row < PARITY_MAX);
    let rows = parity.get(..count).unwrap_or_default();
    let Some(matrix) = is_possible.then(|| inverted(&coefficients(columns, lost, rows), count)).flatten() else {
        return false;
    };
    let syndromes = syndromes(kernels, data, lost, rows);
    for (solution, &index) in matrix.iter().zip(lost) {
        let Some(column) = data.get_mut(index) else { continue };
        let terms = rows.iter().zip(solution).filter_map(|(&(row, _), &factor)| Some((factor, syndromes.get(row)?)));
        let terms: Vec<Term<'_>> =
            terms.filter(|(factor, _)| *factor != 0).map(|(factor, syndrome)| (factor, syndrome.as_slice())).collect();
        (kernels.combine)(&terms, column);
    }
    true
}

/// What the parity rows say beyond the columns that are there, by the number of the row.
fn syndromes(kernels: &Kernels, data: &[&mut [u8]], lost: &[usize], rows: &[(usize, &[u8])]) -> [Vec<u8>; PARITY_MAX] {
    let known: Vec<&[u8]> =
        data.iter().enumerate().map(|(index, column)| if lost.contains(&index) { &[] } else { &**column }).collect();
    let mut syndromes: [Vec<u8>; PARITY_MAX] = Default::default();
    for &(row, stored) in rows {
        if let Some(syndrome) = syndromes.get_mut(row) {
            syndrome.resize(stored.len(), 0);
        }
    }
    (kernels.generate)(&known, &mut syndromes.each_mut().map(Vec::as_mut_slice));
    for &(row, stored) in rows {
        if let Some(syndrome) = syndromes.get_mut(row) {
            kernels::add(stored, syndrome);
        }
    }
    syndromes
}

/// What each lost column counts for in each parity row.
fn coefficients(columns: usize, lost: &[usize], rows: &[(usize, &[u8])]) -> [[u8; PARITY_MAX]; PARITY_MAX] {
    let mut matrix = [[0; PARITY_MAX]; PARITY_MAX];
    for (line, &(row, _)) in matrix.iter_mut().zip(rows) {
        for (cell, &index) in line.iter_mut().zip(lost) {
            // Row r has the powers of 2^r: P of 1, Q of 2, R of 4.
            *cell = power_of_two(row.saturating_mul(columns.saturating_sub(1).saturating_sub(index)));
        }
    }
    matrix
}

#[cfg(test)]
mod tests;
