//! Checksums of blocks: which algorithm, which words, and how they are compared.
//!
//! The input is always the psize bytes as stored: compressed, encrypted, padded. What uses vector instructions exists
//! twice: a fast form for this CPU, which is held against the plain one when it is first used, and that plain one, which
//! gives a second opinion before a mismatch is reported. Three algorithms need the pool's [`Salt`].

mod blake3;
mod edonr;
mod embedded;
mod fletcher2;
mod fletcher4;
#[cfg(target_arch = "x86_64")]
mod fletcher4_x86;
mod salt;
mod sha;
#[cfg(target_arch = "x86_64")]
mod sha256_x86;
mod sha_lanes;
mod sha_plain;
mod skein;

#[cfg(test)]
mod tests;

pub use embedded::{Embedded, embedded_fletcher_words, embedded_sha256_words, verify_embedded_sha256};
pub use fletcher4::kernel_name as fletcher4_kernel_name;
pub use salt::{SALT_BYTES, Salt};

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
/// [`FormatError::Unsupported`] for algorithms this build does not have, and for salted ones without a salt;
/// [`FormatError::BadField`] for values that never stand in a pointer to a block: `inherit`, `on`, and those whose
/// checksum is inside the block itself.
///
/// Source: OpenZFS module/zfs/zio_checksum.c, `zio_checksum_table`, `zio_checksum_compute`.
pub fn compute(kind: ChecksumKind, endian: Endian, bytes: &[u8], salt: Option<&Salt>) -> Result<Checksum, FormatError> {
    dispatch(kind, endian, bytes, salt, &FAST)
}

/// Blocks whose checksums [`compute_several`] takes at a time.
pub const SEVERAL_MAX: usize = sha_lanes::MESSAGES_MAX;

/// Whether [`compute_several`] computes checksums of this kind: sha256 of one block is a chain of operations that wait for
/// each other, and of several blocks it is computed side by side.
#[must_use]
pub fn is_faster_together(kind: ChecksumKind) -> bool {
    kind == ChecksumKind::SHA256
}

/// Checksums of several blocks with one algorithm: those of `blocks`, in their order, at most [`SEVERAL_MAX`]. `None`
/// for algorithms where nothing is gained over [`compute`].
#[must_use]
pub fn compute_several(kind: ChecksumKind, blocks: &[&[u8]]) -> Option<[Checksum; SEVERAL_MAX]> {
    is_faster_together(kind).then(|| sha::sha256_of_several(blocks))
}

/// The same as [`compute`] with the plain forms, where nothing is computed side by side or by special instructions.
///
/// fletcher2, skein and edonr have one form only, the plain one.
///
/// # Errors
/// As [`compute`].
pub fn compute_plain(
    kind: ChecksumKind,
    endian: Endian,
    bytes: &[u8],
    salt: Option<&Salt>,
) -> Result<Checksum, FormatError> {
    dispatch(kind, endian, bytes, salt, &PLAIN)
}

/// The algorithms that have two forms.
struct Forms {
    fletcher4: fn(Endian, &[u8]) -> Checksum,
    sha256: fn(&[&[u8]]) -> Checksum,
    sha512_256: fn(Endian, &[u8]) -> Checksum,
    blake3: fn(&[u8; SALT_BYTES], &[u8]) -> [u8; 32],
}

const FAST: Forms =
    Forms { fletcher4: fletcher4::fast, sha256: sha::sha256, sha512_256: sha::sha512_256, blake3: blake3::fast };
const PLAIN: Forms = Forms {
    fletcher4: fletcher4::plain,
    sha256: sha::sha256_plain,
    sha512_256: sha::sha512_256_plain,
    blake3: blake3::plain,
};

fn dispatch(
    kind: ChecksumKind,
    endian: Endian,
    bytes: &[u8],
    salt: Option<&Salt>,
    forms: &Forms,
) -> Result<Checksum, FormatError> {
    match kind {
        ChecksumKind::OFF | ChecksumKind::NOPARITY => Ok([0; 4]),
        ChecksumKind::FLETCHER2 => Ok(fletcher2::plain(endian, bytes)),
        ChecksumKind::FLETCHER4 => Ok((forms.fletcher4)(endian, bytes)),
        ChecksumKind::SHA256 => Ok((forms.sha256)(&[bytes])),
        ChecksumKind::SHA512 => Ok((forms.sha512_256)(endian, bytes)),
        ChecksumKind::SKEIN => Ok(cut_words(endian, &salted(kind, salt)?.skein.digest(bytes))),
        ChecksumKind::EDONR => Ok(cut_words(endian, &salted(kind, salt)?.edonr.digest(bytes))),
        ChecksumKind::BLAKE3 => Ok(sha::words(endian, &(forms.blake3)(&salted(kind, salt)?.blake3, bytes))),
        ChecksumKind::LABEL | ChecksumKind::GANG_HEADER | ChecksumKind::ZILOG | ChecksumKind::ZILOG2 => {
            Err(FormatError::bad_field("checksum", "kind", kind.0.into(), "one whose words are in the pointer"))
        }
        ChecksumKind(0 | 1) => Err(FormatError::bad_field("checksum", "kind", kind.0.into(), "2 to 14")),
        _ => Err(FormatError::Unsupported { what: "checksum", feature: kind.to_string() }),
    }
}

fn salted(kind: ChecksumKind, salt: Option<&Salt>) -> Result<&Salt, FormatError> {
    salt.ok_or_else(|| {
        let feature = format!("{kind} without the pool's checksum salt, which cannot be read");
        FormatError::Unsupported { what: "checksum", feature }
    })
}

/// The first half of a digest of 64 bytes, as words.
fn cut_words(endian: Endian, digest: &[u8; 64]) -> Checksum {
    let [first, _] = digest.as_chunks::<32>().0 else { return [0; 4] };
    sha::words(endian, first)
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
