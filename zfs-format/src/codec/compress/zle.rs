//! ZLE: runs of zeros. A byte n stands for n + 1: up to 64 that many literal bytes follow, above 64 it is that many
//! zeros less 64.
//!
//! Source: OpenZFS module/zfs/zle.c, `zfs_zle_decompress_buf`.

use crate::FormatError;

/// The level all pools use (`zio_compress_table`): the longest run of literals.
const LITERALS_MAX: usize = 64;

/// Decodes until `dst` is full; a run that reaches further is an error.
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
    let mut input = src;
    let mut output = dst;
    while !output.is_empty() {
        let truncated = FormatError::Truncated { what: "zle", need: src.len().saturating_add(1), have: src.len() };
        let Some((&count, rest)) = input.split_first() else { return Err(truncated) };
        input = rest;
        let length = usize::from(count) + 1;
        let zeros = length.checked_sub(LITERALS_MAX).filter(|zeros| *zeros > 0);
        let (run, tail) = output.split_at_mut_checked(zeros.unwrap_or(length)).ok_or(FormatError::bad_field(
            "zle",
            "run",
            count.into(),
            "a run that ends inside the block",
        ))?;
        if zeros.is_some() {
            run.fill(0);
        } else {
            let (literals, rest) = input.split_at_checked(length).ok_or(truncated)?;
            run.copy_from_slice(literals);
            input = rest;
        }
        output = tail;
    }
    Ok(())
}
