//! LZ4: a big-endian u32 length, then a raw LZ4 block of that length.
//!
//! Source: OpenZFS module/zfs/lz4_zfs.c, `zfs_lz4_decompress_buf`.

use super::{check_length, framed};
use crate::FormatError;

/// Decodes one raw block; it must fill `dst`.
pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
    let stream = framed("lz4", src, 4)?;
    let produced = lz4_flex::block::decompress_into(stream, dst).map_err(|_| {
        FormatError::bad_field("lz4", "stream", stream.len() as u64, "a valid LZ4 block of the logical size")
    })?;
    check_length("lz4", produced, dst)
}
