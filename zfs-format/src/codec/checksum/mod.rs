//! Checksums of blocks: which algorithm, which words, and how they are compared.
//!
//! The input is always the psize bytes as stored: compressed, encrypted, padded. Fletcher sums are exact and cheap, so
//! they exist twice: a fast form chosen for this CPU and checked once against the plain one, and the plain one itself,
//! which gives a second opinion before a mismatch is reported.

mod embedded;
mod fletcher2;
mod fletcher4;
#[cfg(target_arch = "x86_64")]
mod fletcher4_x86;
mod sha;

#[cfg(test)]
mod tests;

pub use embedded::{Embedded, embedded_fletcher_words, embedded_sha256_words, verify_embedded_sha256};
pub use fletcher4::kernel_name as fletcher4_kernel_name;

use crate::ondisk::dmu::ChecksumKind;
use crate::{Endian, FormatError};

/// The four words of a checksum, as values (`zio_cksum_t`). Words 12 to 15 of a block pointer.
pub type Checksum = [u64; 4];

/// Computes the checksum of `bytes` (the psize bytes as stored), written by a host of order `endian`.
///
/// `off` and `noparity` give four zero words, as their pointers hold. Fletcher sums take whole words only: of a length
/// that is no multiple of 4 (fletcher4) or 16 (fletcher2) the last bytes do not count. Real sizes are multiples of 512.
///
/// # Errors
/// [`FormatError::Unsupported`] for algorithms this build does not have; [`FormatError::BadField`] for values that
/// never stand in a pointer to a block: `inherit`, `on`, and those whose checksum is inside the block itself.
///
/// Source: OpenZFS module/zfs/zio_checksum.c, `zio_checksum_table`, `zio_checksum_compute`.
pub fn compute(kind: ChecksumKind, endian: Endian, bytes: &[u8]) -> Result<Checksum, FormatError> {
    dispatch(kind, endian, bytes, fletcher4::fast)
}

/// The same as [`compute`] with the plain form of fletcher4, which depends on no CPU feature.
///
/// The other algorithms have one form only, so for them this is a second run and not a second opinion.
///
/// # Errors
/// As [`compute`].
pub fn compute_plain(kind: ChecksumKind, endian: Endian, bytes: &[u8]) -> Result<Checksum, FormatError> {
    dispatch(kind, endian, bytes, fletcher4::plain)
}

fn dispatch(
    kind: ChecksumKind,
    endian: Endian,
    bytes: &[u8],
    fletcher4: fn(Endian, &[u8]) -> Checksum,
) -> Result<Checksum, FormatError> {
    match kind {
        ChecksumKind::OFF | ChecksumKind::NOPARITY => Ok([0; 4]),
        ChecksumKind::FLETCHER2 => Ok(fletcher2::plain(endian, bytes)),
        ChecksumKind::FLETCHER4 => Ok(fletcher4(endian, bytes)),
        ChecksumKind::SHA256 => Ok(sha::sha256(&[bytes])),
        ChecksumKind::SHA512 => Ok(sha::sha512_256(endian, bytes)),
        ChecksumKind::LABEL | ChecksumKind::GANG_HEADER | ChecksumKind::ZILOG | ChecksumKind::ZILOG2 => {
            Err(FormatError::bad_field("checksum", "kind", kind.0.into(), "one whose words are in the pointer"))
        }
        ChecksumKind(0 | 1) => Err(FormatError::bad_field("checksum", "kind", kind.0.into(), "2 to 14")),
        _ => Err(FormatError::Unsupported { what: "checksum", feature: kind.to_string() }),
    }
}

/// True when [`compute`] can compute `kind`. `off` and `noparity` count as computable: there is nothing to do.
#[must_use]
pub fn is_supported(kind: ChecksumKind) -> bool {
    compute(kind, Endian::NATIVE, &[]).is_ok()
}

/// Compares what was computed with what is stored.
///
/// `protected` says that words 2 and 3 of `stored` are a MAC (X bit set and the block is no objset). Then only words 0
/// and 1 are compared; for algorithms that are not dedup-strong words 2 and 3 are first folded into them.
///
/// Source: OpenZFS module/zfs/zio_checksum.c, `zio_checksum_error_impl`, `zio_checksum_handle_crypt`.
#[must_use]
pub fn matches(kind: ChecksumKind, computed: Checksum, stored: Checksum, protected: bool) -> bool {
    if !protected {
        return computed == stored;
    }
    let [c0, c1, c2, c3] = computed;
    let [s0, s1, ..] = stored;
    if kind.is_dedup_strong() { [c0, c1] == [s0, s1] } else { [c0 ^ c2, c1 ^ c3] == [s0, s1] }
}
