//! LZJB: a control byte announces eight items, least significant bit first; 0 is a literal byte, 1 a match.
//!
//! | match bits, big endian | meaning |
//! | --- | --- |
//! | 6 | length - 3 |
//! | 10 | distance back from the current position, never 0 |
//!
//! Source: OpenZFS module/zfs/lzjb.c, `zfs_lzjb_decompress_buf`.

use crate::FormatError;

/// Decodes until `dst` is full; a last match that reaches further is cut, as its encoder may pad so.
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
    let truncated = FormatError::Truncated { what: "lzjb", need: src.len().saturating_add(1), have: src.len() };
    let mut input = src.iter().copied();
    let mut at = 0;
    while at < dst.len() {
        let control = input.next().ok_or(truncated.clone())?;
        for bit in 0..8 {
            let Some(slot) = dst.get_mut(at) else { break };
            let first = input.next().ok_or(truncated.clone())?;
            if control >> bit & 1 == 0 {
                *slot = first;
                at += 1;
            } else {
                let second = input.next().ok_or(truncated.clone())?;
                let distance = usize::from(u16::from_be_bytes([first, second]) & 0x3ff);
                at = copy_match(dst, at, usize::from(first >> 2) + 3, distance)?;
            }
        }
    }
    Ok(())
}

/// Copies byte by byte, since a match may overlap itself, and returns the new position.
fn copy_match(dst: &mut [u8], at: usize, length: usize, distance: usize) -> Result<usize, FormatError> {
    let from = at.checked_sub(distance).filter(|_| distance != 0).ok_or(FormatError::bad_field(
        "lzjb",
        "distance",
        u64::try_from(distance).unwrap_or(u64::MAX),
        "1 to the bytes decoded so far",
    ))?;
    let end = at.saturating_add(length).min(dst.len());
    if let Some(window) = dst.get_mut(from..end) {
        for index in distance..window.len() {
            window[index] = window[index - distance];
        }
    }
    Ok(end)
}
