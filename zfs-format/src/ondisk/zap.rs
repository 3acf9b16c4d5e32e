//! ZAPs: name-to-value tables. Small ones are one micro block; larger ones have a fat header, a pointer table and leaves.
//!
//! ```text
//! name > hash > pointer table (top bits of the hash) > leaf > bucket > chain of entries > name and value chunks
//! ```
//!
//! One file per kind of block. Reading the blocks, and the order in which to visit them, is for the object floor.

pub mod fat;
pub mod hash;
pub mod leaf;
pub mod micro;

use crate::FormatError;
use crate::endian::Endian;

/// First word of a micro block.
pub const MICRO_BLOCK_TYPE: u64 = (1 << 63) + 3;
/// First word of a fat header.
pub const FAT_BLOCK_TYPE: u64 = (1 << 63) + 1;
/// First word of a leaf.
pub const LEAF_BLOCK_TYPE: u64 = 1 << 63;

/// What a block of a ZAP is. Blocks of an external pointer table have no type word and are none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZapBlockKind {
    /// All entries in one block: see [`micro::parse_micro`].
    Micro,
    /// The header of a fat ZAP: see [`fat::FatHeader`].
    FatHeader,
    /// A leaf of a fat ZAP: see [`leaf::parse_leaf`].
    Leaf,
}

/// Tells what a block is by its first word.
///
/// # Errors
/// [`FormatError::Truncated`] for less than 8 bytes, [`FormatError::BadField`] when the word is no block type.
///
/// Source: OpenZFS include/sys/zap_impl.h, `ZBT_*`.
pub fn block_kind(block: &[u8], endian: Endian) -> Result<ZapBlockKind, FormatError> {
    let truncated = FormatError::Truncated { what: "zap", need: 8, have: block.len() };
    match endian.u64_at(block, 0).ok_or(truncated)? {
        MICRO_BLOCK_TYPE => Ok(ZapBlockKind::Micro),
        FAT_BLOCK_TYPE => Ok(ZapBlockKind::FatHeader),
        LEAF_BLOCK_TYPE => Ok(ZapBlockKind::Leaf),
        found => Err(FormatError::bad_field("zap", "block type", found, "2^63, 2^63 + 1 or 2^63 + 3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_tells_the_kind_in_its_byte_order() {
        let micro = MICRO_BLOCK_TYPE.to_be_bytes();
        assert_eq!(block_kind(&micro, Endian::Big), Ok(ZapBlockKind::Micro));
        assert_eq!(block_kind(&FAT_BLOCK_TYPE.to_le_bytes(), Endian::Little), Ok(ZapBlockKind::FatHeader));
        assert_eq!(block_kind(&LEAF_BLOCK_TYPE.to_le_bytes(), Endian::Little), Ok(ZapBlockKind::Leaf));
        assert!(matches!(block_kind(&micro, Endian::Little), Err(FormatError::BadField { field: "block type", .. })));
        assert!(matches!(block_kind(&micro[..7], Endian::Big), Err(FormatError::Truncated { .. })));
    }
}
