//! What is left of a removed vdev: where its bytes went, and when.

use crate::endian::OnDisk;
use crate::ondisk::blkptr::{Dva, RawDva};
use crate::units::SECTOR_BYTES;
use crate::{Endian, FormatError, Txg};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Bytes of one [`MappingEntry`].
pub const MAPPING_ENTRY_BYTES: usize = 24;
/// Bytes of one [`MappingBirth`].
pub const MAPPING_BIRTH_BYTES: usize = 16;

/// Header of a mapping, in the bonus of its object.
///
/// | offset | size | content | absent in a bonus of |
/// | --- | --- | --- | --- |
/// | 0 | 24 | end of the mapped space, bytes mapped, number of entries | |
/// | 24 | 8 | object with the bytes of each entry that are obsolete | 24 |
///
/// Source: OpenZFS include/sys/vdev_indirect_mapping.h, `vdev_indirect_mapping_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingHeader {
    /// No mapped byte lies at or behind this offset.
    pub max_offset_bytes: u64,
    /// Bytes that all entries map together.
    pub mapped_bytes: u64,
    /// Entries in the object.
    pub entry_count: u64,
}

impl MappingHeader {
    /// Reads the header from a bonus.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when the bonus is too short.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self, FormatError> {
        let found = u64::try_from(bonus.len()).unwrap_or(u64::MAX);
        let short = FormatError::bad_field("indirect mapping", "bonus length", found, "at least 24");
        match (endian.u64_at(bonus, 0), endian.u64_at(bonus, 8), endian.u64_at(bonus, 16)) {
            (Some(max_offset_bytes), Some(mapped_bytes), Some(entry_count)) => {
                Ok(Self { max_offset_bytes, mapped_bytes, entry_count })
            }
            _ => Err(short),
        }
    }
}

/// `vdev_indirect_mapping_entry_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawMappingEntry<O: ByteOrder> {
    source: U64<O>,
    target: RawDva<O>,
}
const _: () = assert!(size_of::<RawMappingEntry<zerocopy::LittleEndian>>() == MAPPING_ENTRY_BYTES);

/// One run of bytes that was moved: from an offset of the removed vdev to an address on another.
///
/// Source: OpenZFS include/sys/vdev_indirect_mapping.h, `vdev_indirect_mapping_entry_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingEntry {
    /// Offset on the removed vdev.
    pub source_offset_bytes: u64,
    /// Where it went. Its asize is the length of the run.
    pub target: Dva,
}

impl OnDisk for MappingEntry {
    const NAME: &'static str = "indirect mapping entry";
    type Raw<O: ByteOrder> = RawMappingEntry<O>;

    fn from_raw<O: ByteOrder>(raw: &RawMappingEntry<O>) -> Result<Self, FormatError> {
        // Bit 63 is a marker of the kernel's, always clear on disk.
        let sectors = raw.source.get() & (u64::MAX >> 1);
        let source_offset_bytes = sectors.checked_mul(SECTOR_BYTES).ok_or(FormatError::bad_field(
            Self::NAME,
            "source offset",
            sectors,
            "less than 2^55 sectors",
        ))?;
        Ok(Self { source_offset_bytes, target: Dva::from_raw(&raw.target)? })
    }
}

/// `vdev_indirect_birth_entry_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawMappingBirth<O: ByteOrder> {
    end: U64<O>,
    txg: U64<O>,
}
const _: () = assert!(size_of::<RawMappingBirth<zerocopy::LittleEndian>>() == MAPPING_BIRTH_BYTES);

/// When a part of a removed vdev was copied: what lies below `end_offset_bytes` and not below the entry before it.
///
/// Source: OpenZFS include/sys/vdev_indirect_births.h, `vdev_indirect_birth_entry_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingBirth {
    /// End of the part.
    pub end_offset_bytes: u64,
    /// The txg that wrote the copies.
    pub txg: Txg,
}

impl OnDisk for MappingBirth {
    const NAME: &'static str = "indirect birth entry";
    type Raw<O: ByteOrder> = RawMappingBirth<O>;

    fn from_raw<O: ByteOrder>(raw: &RawMappingBirth<O>) -> Result<Self, FormatError> {
        Ok(Self { end_offset_bytes: raw.end.get(), txg: Txg(raw.txg.get()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_source_offset_and_an_address() {
        let mut bytes = Vec::new();
        // Source sector 8 with the marker set; vdev 2, 16 sectors, at sector 0x100.
        for word in [8_u64 | 1 << 63, 2 << 32 | 16, 0x100] {
            bytes.extend(word.to_be_bytes());
        }
        let target = Dva { vdev: 2, offset_bytes: 0x20000, asize_bytes: 8192, is_gang: false };
        let entry = MappingEntry { source_offset_bytes: 4096, target };
        assert_eq!(MappingEntry::parse(&bytes, Endian::Big), Ok(entry));
        assert!(MappingEntry::parse(&[0; 23], Endian::Big).is_err());
        let wide: Vec<u8> = [1_u64 << 60, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(MappingEntry::parse(&wide, Endian::Little).is_err());
    }

    #[test]
    fn a_header_needs_three_words() {
        let bonus: Vec<u8> = [1_u64 << 30, 5 << 20, 7, 99].iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = MappingHeader { max_offset_bytes: 1 << 30, mapped_bytes: 5 << 20, entry_count: 7 };
        assert_eq!(MappingHeader::parse(&bonus, Endian::Little), Ok(header));
        assert_eq!(MappingHeader::parse(&bonus[..24], Endian::Little), Ok(header));
        assert!(MappingHeader::parse(&bonus[..23], Endian::Little).is_err());
    }
}
