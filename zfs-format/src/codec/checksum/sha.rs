//! The SHA-2 checksums, over the `sha2` crate (it detects SHA-NI and its like at run time).

use super::Checksum;
use crate::Endian;
use sha2::{Digest, Sha256, Sha512_256};

/// SHA-256 of the concatenated pieces; the words of the digest are big endian on hosts of either order.
///
/// Source: OpenZFS module/zfs/sha2_zfs.c, `abd_checksum_sha256`.
pub(super) fn sha256(pieces: &[&[u8]]) -> Checksum {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece);
    }
    words(Endian::Big, &hasher.finalize().into())
}

/// SHA-512/256 of FIPS 180-4; the words of the digest are in the writer's order.
///
/// Source: OpenZFS module/zfs/sha2_zfs.c, `abd_checksum_sha512_native`, `abd_checksum_sha512_byteswap`.
pub(super) fn sha512_256(endian: Endian, bytes: &[u8]) -> Checksum {
    words(endian, &Sha512_256::digest(bytes).into())
}

/// Reads the 32 bytes of a digest as four words.
pub(super) fn words(endian: Endian, digest: &[u8; 32]) -> Checksum {
    let mut checksum = [0; 4];
    for (word, &bytes) in checksum.iter_mut().zip(digest.as_chunks::<8>().0) {
        *word = endian.u64(bytes);
    }
    checksum
}
