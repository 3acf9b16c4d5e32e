//! The inner loops, written so that the compiler turns them into vector code.

/// One step of Horner's rule: `parity` = 2^`row` * `parity` + `column`, the column extended by zeros.
pub(super) fn horner(row: usize, column: &[u8], parity: &mut [u8]) {
    let (head, tail) = parity.split_at_mut(column.len().min(parity.len()));
    match row {
        0 => add(column, head),
        1 => {
            for (parity, &data) in head.iter_mut().zip(column) {
                *parity = doubled(*parity) ^ data;
            }
            tail.iter_mut().for_each(|parity| *parity = doubled(*parity));
        }
        _ => {
            for (parity, &data) in head.iter_mut().zip(column) {
                *parity = doubled(doubled(*parity)) ^ data;
            }
            tail.iter_mut().for_each(|parity| *parity = doubled(doubled(*parity)));
        }
    }
}

/// Adds `source` to `target` (exclusive or).
pub(super) fn add(source: &[u8], target: &mut [u8]) {
    for (target, &source) in target.iter_mut().zip(source) {
        *target ^= source;
    }
}

/// Multiplies by 2 without a branch: the sign bit, spread over the byte, selects the polynomial.
#[inline(always)]
fn doubled(value: u8) -> u8 {
    let spread = (value.cast_signed() >> 7).cast_unsigned();
    (value << 1) ^ (spread & 0x1d)
}
