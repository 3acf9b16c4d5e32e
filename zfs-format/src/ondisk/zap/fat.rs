//! The header block of a fat ZAP and its pointer table, which leads from hashes to leaves.

use super::FAT_BLOCK_TYPE;
use super::hash::{KeyKind, ZapFlags};
use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Second word of a fat header.
pub const FAT_MAGIC: u64 = 0x2_F52A_B2AB;

/// The start of `zap_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawFatHeader<O: ByteOrder> {
    block_type: U64<O>,
    magic: U64<O>,
    table_start: U64<O>,
    table_blocks: U64<O>,
    table_shift: U64<O>,
    table_next: U64<O>,
    table_copied: U64<O>,
    free_block: U64<O>,
    leaf_count: U64<O>,
    entry_count: U64<O>,
    salt: U64<O>,
    normflags: U64<O>,
    flags: U64<O>,
}
const _: () = assert!(size_of::<RawFatHeader<zerocopy::LittleEndian>>() == 104);

/// `zap_phys_t`: block 0 of a fat ZAP.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 104 | type, magic and the fields here |
/// | half of the block | half of the block | pointer table, when `table_block_count` is 0 |
///
/// Counts are what the writer believed; nothing may rely on them.
///
/// Source: OpenZFS include/sys/zap_impl.h, `zap_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatHeader {
    /// Size of a block of this ZAP.
    pub block_bytes: usize,
    /// First block of the external pointer table; 0 when the table is embedded.
    pub table_start_block: u64,
    /// Number of blocks of the external pointer table; 0 when the table is embedded.
    pub table_block_count: u64,
    /// log2 of the number of entries of the pointer table.
    pub table_shift: u32,
    /// First block of the table that will replace this one, while the ZAP grows.
    pub table_next_block: u64,
    /// Blocks copied to that table so far.
    pub table_copied_blocks: u64,
    /// The first block number not in use.
    pub free_block: u64,
    /// Number of leaves.
    pub leaf_count: u64,
    /// Number of entries.
    pub entry_count: u64,
    /// Salt of the hash.
    pub salt: u64,
    /// How names are normalized before they are hashed, 0 for not at all.
    pub normflags: u64,
    /// Kind of names and hashes.
    pub flags: ZapFlags,
}

impl OnDisk for FatHeader {
    const NAME: &'static str = "fat zap";
    type Raw<O: ByteOrder> = RawFatHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawFatHeader<O>) -> Result<Self, FormatError> {
        let bad = |field, found: U64<O>, expected| FormatError::bad_field(Self::NAME, field, found.get(), expected);
        if raw.block_type.get() != FAT_BLOCK_TYPE {
            return Err(bad("block type", raw.block_type, "2^63 + 1"));
        }
        if raw.magic.get() != FAT_MAGIC {
            return Err(bad("magic", raw.magic, "0x2f52ab2ab"));
        }
        let shift_max = 48;
        let table_shift = u32::try_from(raw.table_shift.get()).ok().filter(|&shift| shift <= shift_max);
        Ok(Self {
            block_bytes: 0,
            table_start_block: raw.table_start.get(),
            table_block_count: raw.table_blocks.get(),
            table_shift: table_shift.ok_or(bad("pointer table shift", raw.table_shift, "at most 48"))?,
            table_next_block: raw.table_next.get(),
            table_copied_blocks: raw.table_copied.get(),
            free_block: raw.free_block.get(),
            leaf_count: raw.leaf_count.get(),
            entry_count: raw.entry_count.get(),
            salt: raw.salt.get(),
            normflags: raw.normflags.get(),
            flags: ZapFlags(raw.flags.get()),
        })
    }
}

/// Where an entry of an external pointer table lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePosition {
    /// Block of the ZAP.
    pub blkid: u64,
    /// Offset of the u64 in that block.
    pub offset_bytes: usize,
}

impl FatHeader {
    /// Reads the header from the whole block 0.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when type or magic is wrong, when the block size is no power of two, and when the
    /// pointer table is larger than the place it is in.
    pub fn parse_block(block: &[u8], endian: Endian) -> Result<Self, FormatError> {
        let mut header = Self::parse(block, endian)?;
        if !block.len().is_power_of_two() {
            let found = u64::try_from(block.len()).unwrap_or(u64::MAX);
            return Err(FormatError::bad_field(Self::NAME, "block size", found, "a power of two"));
        }
        header.block_bytes = block.len();
        let half = u64::try_from(block.len() / 16).unwrap_or(0);
        let room = if header.is_table_embedded() {
            half
        } else {
            header.table_block_count.saturating_mul(half).saturating_mul(2)
        };
        if header.table_len() > room {
            let found = header.table_shift.into();
            return Err(FormatError::bad_field(Self::NAME, "pointer table shift", found, "a table that has room"));
        }
        Ok(header)
    }

    /// True when the pointer table is in the second half of block 0.
    #[must_use]
    pub fn is_table_embedded(&self) -> bool {
        self.table_block_count == 0
    }

    /// Entries of the pointer table.
    #[must_use]
    pub fn table_len(&self) -> u64 {
        1_u64.checked_shl(self.table_shift).unwrap_or(u64::MAX)
    }

    /// Which entry of the pointer table leads to the leaf of `hash`: its top bits.
    #[must_use]
    pub fn table_index(&self, hash: u64) -> u64 {
        hash.checked_shr(64_u32.saturating_sub(self.table_shift)).unwrap_or(0)
    }

    /// The leaf blocks of the embedded table in order. Several entries may name the same leaf, one after the other.
    ///
    /// `block` is the block the header was read from. Nothing when the table is external.
    pub fn embedded_table<'a>(&self, block: &'a [u8], endian: Endian) -> impl Iterator<Item = u64> + use<'a> {
        let half = block.len() / 2;
        let len = if self.is_table_embedded() { usize::try_from(self.table_len()).unwrap_or(0) } else { 0 };
        block.get(half..).unwrap_or_default().chunks_exact(8).take(len).filter_map(move |word| endian.u64_at(word, 0))
    }

    /// The leaf block that entry `index` of the embedded table names.
    #[must_use]
    pub fn embedded_entry(&self, block: &[u8], endian: Endian, index: u64) -> Option<u64> {
        self.embedded_table(block, endian).nth(usize::try_from(index).ok()?)
    }

    /// Where entry `index` of the external table lies, `None` when it has no such entry or the table is embedded.
    #[must_use]
    pub fn external_entry(&self, index: u64) -> Option<TablePosition> {
        if self.is_table_embedded() || index >= self.table_len() {
            return None;
        }
        let per_block = u64::try_from(self.block_bytes / 8).ok()?;
        let blkid = self.table_start_block.checked_add(index.checked_div(per_block)?)?;
        let offset_bytes = usize::try_from(index.checked_rem(per_block)?).ok()?.checked_mul(8)?;
        Some(TablePosition { blkid, offset_bytes })
    }

    /// What the names in the leaves are.
    #[must_use]
    pub fn key_kind(&self) -> KeyKind {
        self.flags.key_kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::stored;
    use proptest::prelude::*;

    /// A block of 512 bytes: 32 entries in its second half, each 100 + its index.
    fn block(start: u64, blocks: u64, shift: u64, endian: Endian) -> Vec<u8> {
        let head = [FAT_BLOCK_TYPE, FAT_MAGIC, start, blocks, shift, 5, 6, 7, 8, 9, 10, 11, 3];
        let mut words = head.to_vec();
        words.resize(32, 0);
        words.extend(100..132);
        stored(&words, endian)
    }

    #[test]
    fn fields_come_from_their_offsets_in_both_byte_orders() {
        let little = block(0, 0, 5, Endian::Little);
        let header = FatHeader::parse_block(&little, Endian::Little).unwrap();
        assert_eq!(Ok(header), FatHeader::parse_block(&block(0, 0, 5, Endian::Big), Endian::Big));
        assert_eq!((header.table_next_block, header.table_copied_blocks, header.free_block), (5, 6, 7));
        assert_eq!((header.leaf_count, header.entry_count, header.salt, header.normflags), (8, 9, 10, 11));
        assert_eq!((header.flags, header.key_kind()), (ZapFlags(3), KeyKind::Words));
        assert!(header.is_table_embedded());
        assert_eq!(header.table_index(0xf800_0000_0000_0000), 31);
        assert_eq!(header.embedded_entry(&little, Endian::Little, 31), Some(131));
        assert_eq!(header.embedded_entry(&little, Endian::Little, 32), None);
        assert_eq!(header.embedded_table(&little, Endian::Little).count(), 32);
        assert_eq!(header.external_entry(0), None);
    }

    #[test]
    fn an_external_table_is_addressed_by_block_and_offset() {
        let bytes = block(40, 2, 7, Endian::Little);
        let header = FatHeader::parse_block(&bytes, Endian::Little).unwrap();
        assert_eq!(header.external_entry(127), Some(TablePosition { blkid: 41, offset_bytes: 504 }));
        assert_eq!(header.external_entry(128), None);
        assert_eq!(header.embedded_table(&bytes, Endian::Little).count(), 0);
    }

    #[test]
    fn each_bad_field_is_named() {
        let field = |bytes: &[u8]| match FatHeader::parse_block(bytes, Endian::Little) {
            Err(FormatError::BadField { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(&block(0, 0, 6, Endian::Little)), "pointer table shift");
        assert_eq!(field(&block(40, 1, 7, Endian::Little)), "pointer table shift");
        assert_eq!(field(&block(40, u64::MAX, 49, Endian::Little)), "pointer table shift");
        assert_eq!(field(&block(0, 0, 5, Endian::Little)[..504]), "block size");
        assert_eq!(field(&block(0, 0, 5, Endian::Big)), "block type");
        let mut bytes = block(0, 0, 5, Endian::Little);
        bytes[8] = 0;
        assert_eq!(field(&bytes), "magic");
    }

    proptest! {
        #[test]
        fn any_fields_do_not_panic(
            words in proptest::collection::vec(prop_oneof![0..64_u64, any::<u64>()], 62),
            index: u64,
        ) {
            let words: Vec<u64> = [FAT_BLOCK_TYPE, FAT_MAGIC].into_iter().chain(words).collect();
            let bytes = stored(&words, Endian::Big);
            if let Ok(header) = FatHeader::parse_block(&bytes, Endian::Big) {
                let _ = (header.table_index(index), header.external_entry(index));
                let _ = header.embedded_entry(&bytes, Endian::Big, index);
            }
        }
    }
}
