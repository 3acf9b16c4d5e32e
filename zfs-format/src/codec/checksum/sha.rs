//! The SHA-2 checksums, over the `sha2` crate (it detects SHA-NI and its like at run time).

use super::sha_lanes::{self, MESSAGES_MAX};
use super::{Checksum, sha_plain};
use crate::Endian;
use sha2::{Digest, Sha256, Sha512_256};
use std::sync::OnceLock;

/// Whether the crate, with the instructions it found, agrees with the plain form on fixed bytes of several lengths.
///
/// Virtual machines have been seen to compute wrong vector sums, and a scrub must not blame the pool for that.
fn is_right() -> bool {
    static RIGHT: OnceLock<bool> = OnceLock::new();
    *RIGHT.get_or_init(|| {
        let bytes: Vec<u8> = (0..1031_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        [1031, 1024, 512, 119, 64, 0].into_iter().filter_map(|length| bytes.get(..length)).all(|part| {
            <[u8; 32]>::from(Sha256::digest(part)) == sha_plain::sha256(&[part])
                && <[u8; 32]>::from(Sha512_256::digest(part)) == sha_plain::sha512_256(part)
        })
    })
}

/// SHA-256 of the concatenated pieces; the words of the digest are big endian on hosts of either order.
///
/// Source: OpenZFS module/zfs/sha2_zfs.c, `abd_checksum_sha256`.
pub(super) fn sha256(pieces: &[&[u8]]) -> Checksum {
    if !is_right() {
        return sha256_plain(pieces);
    }
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece);
    }
    words(Endian::Big, &hasher.finalize().into())
}

/// [`sha256`] of several blocks side by side; of more than [`MESSAGES_MAX`] the rest is left out.
pub(super) fn sha256_of_several(blocks: &[&[u8]]) -> [Checksum; MESSAGES_MAX] {
    if !is_right() {
        let mut sums = [[0; 4]; MESSAGES_MAX];
        for (sum, block) in sums.iter_mut().zip(blocks) {
            *sum = sha256_plain(&[block]);
        }
        return sums;
    }
    sha_lanes::digests(sha_lanes::kernels(), blocks).map(|digest| words(Endian::Big, &digest))
}

/// SHA-512/256 of FIPS 180-4; the words of the digest are in the writer's order.
///
/// Source: OpenZFS module/zfs/sha2_zfs.c, `abd_checksum_sha512_native`, `abd_checksum_sha512_byteswap`.
pub(super) fn sha512_256(endian: Endian, bytes: &[u8]) -> Checksum {
    if is_right() { words(endian, &Sha512_256::digest(bytes).into()) } else { sha512_256_plain(endian, bytes) }
}

/// The plain form of [`sha256`].
pub(super) fn sha256_plain(pieces: &[&[u8]]) -> Checksum {
    words(Endian::Big, &sha_plain::sha256(pieces))
}

/// The plain form of [`sha512_256`].
pub(super) fn sha512_256_plain(endian: Endian, bytes: &[u8]) -> Checksum {
    words(endian, &sha_plain::sha512_256(bytes))
}

/// Reads the 32 bytes of a digest as four words.
pub(super) fn words(endian: Endian, digest: &[u8; 32]) -> Checksum {
    let mut checksum = [0; 4];
    for (word, &bytes) in checksum.iter_mut().zip(digest.as_chunks::<8>().0) {
        *word = endian.u64(bytes);
    }
    checksum
}
