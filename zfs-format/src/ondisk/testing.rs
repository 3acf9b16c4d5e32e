//! Bytes for the tests of this folder.

use crate::Endian;

/// The words as a writer of the given byte order stores them.
pub(super) fn stored(words: &[u64], endian: Endian) -> Vec<u8> {
    let put = |word: &u64| match endian {
        Endian::Little => word.to_le_bytes(),
        Endian::Big => word.to_be_bytes(),
    };
    words.iter().flat_map(put).collect()
}

/// `count` words, each holding its own index: every field shows where it was read.
pub(super) fn numbered(count: usize) -> Vec<u64> {
    (0..count).map(|index| index as u64).collect()
}
