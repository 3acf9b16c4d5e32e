//! Arithmetic in GF(2^8) with the polynomial 0x11d.

use super::PARITY_MAX;

/// Multiplies by 2.
const fn doubled(value: u8) -> u8 {
    (value << 1) ^ (if value & 0x80 != 0 { 0x1d } else { 0 })
}

/// Powers of 2, and their logarithms.
const TABLES: ([u8; 255], [u8; 256]) = {
    let (mut powers, mut logarithms) = ([0; 255], [0; 256]);
    let (mut exponent, mut value) = (0, 1_u8);
    while exponent < 255 {
        powers[exponent] = value;
        logarithms[value as usize] = exponent as u8;
        value = doubled(value);
        exponent += 1;
    }
    (powers, logarithms)
};

/// 2 to the power of `exponent`.
pub(super) fn power_of_two(exponent: usize) -> u8 {
    TABLES.0.get(exponent % 255).copied().unwrap_or(0)
}

fn logarithm(value: u8) -> usize {
    TABLES.1.get(usize::from(value)).copied().unwrap_or(0).into()
}

/// The product of two elements.
pub(super) fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { power_of_two(logarithm(a) + logarithm(b)) }
}

/// The element whose product with `value` is 1; 0 has none.
fn reciprocal(value: u8) -> Option<u8> {
    (value != 0).then(|| power_of_two(255 - logarithm(value)))
}

/// Inverts the upper left `size` x `size` part of a matrix by elimination; `None` when it has no inverse.
pub(super) fn inverted(matrix: &[[u8; PARITY_MAX]; PARITY_MAX], size: usize) -> Option<[[u8; PARITY_MAX]; PARITY_MAX]> {
    let mut left = *matrix;
    let mut right = [[0; PARITY_MAX]; PARITY_MAX];
    for (index, line) in right.iter_mut().enumerate() {
        *line.get_mut(index)? = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|&line| left[line][column] != 0)?;
        left.swap(column, pivot);
        right.swap(column, pivot);
        let factor = reciprocal(left[column][column])?;
        for cell in left[column].iter_mut().chain(right[column].iter_mut()) {
            *cell = product(*cell, factor);
        }
        for line in (0..size).filter(|&line| line != column) {
            let factor = left[line][column];
            for cell in 0..PARITY_MAX {
                left[line][cell] ^= product(factor, left[column][cell]);
                right[line][cell] ^= product(factor, right[column][cell]);
            }
        }
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication by shifting and adding, straight from the polynomial.
    fn slow_product(a: u8, b: u8) -> u8 {
        (0..8).fold(0, |sum, bit| {
            let shifted = (0..bit).fold(a, |value, _| doubled(value));
            if b >> bit & 1 == 1 { sum ^ shifted } else { sum }
        })
    }

    #[test]
    fn products_agree_with_shifting_and_adding() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(product(a, b), slow_product(a, b), "{a} * {b}");
            }
            assert_eq!(reciprocal(a).map_or(1, |inverse| product(a, inverse)), 1);
        }
    }

    #[test]
    fn a_matrix_times_its_inverse_is_one() {
        let matrix = [[1, 1, 1], [8, 4, 1], [64, 16, 1]];
        let inverse = inverted(&matrix, 3).unwrap();
        for (line, cells) in matrix.iter().enumerate() {
            let sums = [0, 1, 2].map(|column| {
                cells.iter().zip(&inverse).fold(0, |sum, (&cell, inverse)| sum ^ product(cell, inverse[column]))
            });
            assert_eq!(sums, [0, 1, 2].map(|column| u8::from(line == column)));
        }
        assert_eq!(inverted(&[[1, 1, 0], [1, 1, 0], [0, 0, 0]], 2), None);
    }
}
