//! Zstandard: eight header bytes, then a frame without the magic number.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 4 | length of the frame, big endian |
//! | 4 | 4 | library version (24 bits) and level (8 bits); informative |
//! | 8 | length | frame in the magicless format |
//!
//! Memory: `decode_all` writes straight into the output slice, and a frame that declares more than the slice holds is
//! refused before it is decoded, so no window is ever allocated. The ceiling set below covers the one path that would
//! (a frame that declares zero bytes).
//!
//! Source: OpenZFS module/zstd/zfs_zstd.c, `zfs_zstd_decompress_buf`; include/sys/zstd/zstd.h, `zfs_zstdhdr_t`.

use super::{check_length, framed};
use crate::FormatError;
use crate::units::MAX_BLOCK_BYTES;
use std::panic::{AssertUnwindSafe, catch_unwind};
use structured_zstd::decoding::{ContentChecksum, FrameDecoder};

const HEADER_BYTES: usize = 8;

/// Library versions are major × 10000 + minor × 100 + patch: far below this, so the order of the word shows.
const VERSION_LIMIT: u32 = 1 << 17;

/// The header of a zstd payload. Nothing in it but the length is needed to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdHeader {
    /// Length of the frame after the header.
    pub frame_bytes: u32,
    /// Version of the library that compressed, e.g. 10405 for 1.4.5.
    pub version: u32,
    /// Level code (`enum zio_zstd_levels`): 1 to 19 as they are, 102 and above are the fast levels.
    pub level: u8,
}

impl ZstdHeader {
    /// Reads the header; the order of the second word is told by which one gives a plausible version.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when `src` has less than 8 bytes.
    pub fn parse(src: &[u8]) -> Result<Self, FormatError> {
        let truncated = FormatError::Truncated { what: "zstd", need: HEADER_BYTES, have: src.len() };
        let Some(&[length, [first, b, c, last]]) = src.as_chunks::<4>().0.first_chunk::<2>() else {
            return Err(truncated);
        };
        let modern = u32::from_be_bytes([0, b, c, last]);
        let swapped = u32::from_be_bytes([0, first, b, c]);
        let (version, level) =
            if modern >= VERSION_LIMIT && swapped < VERSION_LIMIT { (swapped, last) } else { (modern, first) };
        Ok(Self { frame_bytes: u32::from_be_bytes(length), version, level })
    }
}

/// The decoder state, made when the first zstd block comes.
#[derive(Default)]
pub(super) struct ZstdDecoder(Option<FrameDecoder>);

impl ZstdDecoder {
    /// Decodes the frame; it must fill `dst`. A content checksum, which ZFS does not write, is verified if present.
    pub(super) fn decompress(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
        let frame = framed("zstd", src, HEADER_BYTES)?;
        let bad = |expected| FormatError::bad_field("zstd", "frame", frame.len() as u64, expected);
        let decoder = self.0.get_or_insert_with(new_decoder);
        // The crate has not been seen to panic, but it is young and large and one block must not end a scrub.
        match catch_unwind(AssertUnwindSafe(|| decoder.decode_all(frame, dst))) {
            Ok(Ok(produced)) => check_length("zstd", produced, dst),
            Ok(Err(_)) => Err(bad("a valid frame of the logical size")),
            Err(_) => {
                self.0 = None;
                Err(bad("a frame that the decoder survives"))
            }
        }
    }

    /// Bytes the decoder holds between blocks.
    #[cfg(test)]
    pub(super) fn workspace_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, FrameDecoder::workspace_size)
    }
}

fn new_decoder() -> FrameDecoder {
    let mut decoder = FrameDecoder::new();
    decoder.set_magicless(true);
    decoder.set_content_checksum(ContentChecksum::Verify);
    // 16 MiB lies within the limits of the crate (1 KiB to 2 GiB), so this does not fail.
    let _ = decoder.set_max_window_size(MAX_BLOCK_BYTES);
    decoder
}
