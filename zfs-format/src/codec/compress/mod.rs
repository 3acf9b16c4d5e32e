//! Decompression of block payloads. There is no compression here: the library never writes.
//!
//! Input is the psize bytes of a block (or the payload of an embedded pointer), padded with zeros at its end, so every
//! decoder takes trailing bytes. Output is exactly lsize bytes or an error. No decoder allocates by a number read from
//! the input.

mod gzip;
mod lz4;
mod lzjb;
mod zle;
mod zstd;

#[cfg(test)]
mod tests;

pub use zstd::ZstdHeader;

use crate::FormatError;
use crate::ondisk::dmu::CompressKind;

/// Decompresses blocks. Holds the state that decoders would otherwise allocate for each block: keep one per thread.
///
/// A failed block leaves no trace: the next one starts afresh.
#[derive(Default)]
pub struct Decompressor {
    gzip: gzip::Inflater,
    zstd: zstd::ZstdDecoder,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    /// A decompressor that holds no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `src` (psize bytes) into the whole of `dst` (lsize bytes).
    ///
    /// After an error the content of `dst` is not defined: it may hold the part that was decoded.
    ///
    /// # Errors
    /// - [`FormatError::Truncated`] when `src` ends before the stream does;
    /// - [`FormatError::BadField`] when the stream is damaged, decodes to another length than `dst` has, or when the
    ///   kind never stands for stored data (`inherit`, `on`, `empty`);
    /// - [`FormatError::Unsupported`] for a kind this library does not know.
    ///
    /// Source: OpenZFS module/zfs/zio_compress.c, `zio_compress_table`, `zio_decompress_data`.
    pub fn decompress(&mut self, kind: CompressKind, src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
        match kind {
            CompressKind::OFF => copy(src, dst),
            CompressKind::LZJB => lzjb::decompress(src, dst),
            CompressKind(5..=13) => self.gzip.decompress(src, dst),
            CompressKind::ZLE => zle::decompress(src, dst),
            CompressKind::LZ4 => lz4::decompress(src, dst),
            CompressKind::ZSTD => self.zstd.decompress(src, dst),
            CompressKind(0 | 1) | CompressKind::EMPTY => {
                Err(FormatError::bad_field("block", "compression", kind.0.into(), "one that stores data"))
            }
            _ => Err(FormatError::Unsupported { what: "block", feature: kind.to_string() }),
        }
    }
}

fn copy(src: &[u8], dst: &mut [u8]) -> Result<(), FormatError> {
    let stored = src.get(..dst.len()).ok_or(FormatError::Truncated {
        what: "uncompressed block",
        need: dst.len(),
        have: src.len(),
    })?;
    dst.copy_from_slice(stored);
    Ok(())
}

/// Fails unless a decoder produced as much as it was asked for.
fn check_length(what: &'static str, produced: usize, dst: &[u8]) -> Result<(), FormatError> {
    if produced == dst.len() {
        return Ok(());
    }
    let found = u64::try_from(produced).unwrap_or(u64::MAX);
    Err(FormatError::bad_field(what, "decoded length", found, "the logical size of the block"))
}

/// Splits off the big-endian length that lz4 and zstd payloads start with, and the stream of that length which
/// starts at `header_bytes`.
fn framed<'a>(what: &'static str, src: &'a [u8], header_bytes: usize) -> Result<&'a [u8], FormatError> {
    let too_short = FormatError::Truncated { what, need: header_bytes, have: src.len() };
    let (Some(length), Some(rest)) = (src.first_chunk::<4>(), src.get(header_bytes..)) else {
        return Err(too_short);
    };
    let length = u32::from_be_bytes(*length);
    usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or(FormatError::bad_field(
        what,
        "stream length",
        length.into(),
        "at most what the physical size leaves",
    ))
}
