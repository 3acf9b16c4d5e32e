//! fletcher2: two running sums over pairs of 64-bit words. Old pools and the legacy intent log.
//!
//! The plain loop keeps up with memory, so there is no other form.

use super::Checksum;
use crate::Endian;

/// The sums over all whole 16-byte pairs of `bytes`, words in the order `endian`.
///
/// Source: OpenZFS module/zcommon/zfs_fletcher.c, `fletcher_2_native`, `fletcher_2_byteswap`.
pub(super) fn plain(endian: Endian, bytes: &[u8]) -> Checksum {
    append(endian, [0; 4], bytes)
}

/// Continues from `sums`, the result over the bytes that come before.
pub(super) fn append(endian: Endian, sums: Checksum, bytes: &[u8]) -> Checksum {
    match endian {
        Endian::Little => add(sums, bytes, u64::from_le_bytes),
        Endian::Big => add(sums, bytes, u64::from_be_bytes),
    }
}

#[inline(always)]
fn add(sums: Checksum, bytes: &[u8], load: impl Fn([u8; 8]) -> u64) -> Checksum {
    let [mut a0, mut a1, mut b0, mut b1] = sums;
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    for &[x, y] in pairs {
        a0 = a0.wrapping_add(load(x));
        a1 = a1.wrapping_add(load(y));
        b0 = b0.wrapping_add(a0);
        b1 = b1.wrapping_add(a1);
    }
    [a0, a1, b0, b1]
}
