//! Block reference tables: which blocks were cloned, and how often.

use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use crate::units::ObjectId;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of the header in the bonus.
pub const BRT_HEADER_BYTES: usize = 56;

/// `brt_vdev_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBrtHeader<O: ByteOrder> {
    entries: U64<O>,
    size: U64<O>,
    byteorder: U64<O>,
    total_count: U64<O>,
    range_size: U64<O>,
    used_space: U64<O>,
    saved_space: U64<O>,
}
const _: () = assert!(size_of::<RawBrtHeader<zerocopy::LittleEndian>>() == BRT_HEADER_BYTES);

/// `brt_vdev_phys_t`: the table of one top-level vdev, in the bonus of the MOS object
/// `com.fudosecurity:brt:vdev:<id>`.
///
/// Its content counts the entries of each range of the vdev; a reader does not need it.
///
/// Source: OpenZFS include/sys/brt_impl.h, `brt_vdev_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrtHeader {
    /// The ZAP from offsets to counts.
    pub entries: ObjectId,
    /// How many entries it has.
    pub entry_count: u64,
    /// Space of the blocks that have entries.
    pub used_bytes: u64,
    /// Space that further references would take without cloning.
    pub saved_bytes: u64,
}

impl OnDisk for BrtHeader {
    const NAME: &'static str = "brt";
    type Raw<O: ByteOrder> = RawBrtHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawBrtHeader<O>) -> Result<Self, FormatError> {
        Ok(Self {
            entries: ObjectId(raw.entries.get()),
            entry_count: raw.total_count.get(),
            used_bytes: raw.used_space.get(),
            saved_bytes: raw.saved_space.get(),
        })
    }
}

/// An entry: a block with references beyond the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrtEntry {
    /// Offset of the block's first address on the vdev.
    pub offset_bytes: u64,
    /// How many references it has beyond the first.
    pub count: u64,
}

impl BrtEntry {
    /// Reads an entry of the ZAP: the name as its big-endian bytes; the value as one integer of eight bytes, or, in older
    /// pools, as eight bytes in the order of the machine that wrote them, which `writer` tells.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when name or value have other sizes.
    ///
    /// Source: OpenZFS module/zfs/brt.c, `brt_entry_lookup`, `brt_sync_entry`.
    pub fn parse(name: &[u8], integer_bytes: u8, value: &[u8], writer: Endian) -> Result<Self, FormatError> {
        let bad = |field, bytes: &[u8]| {
            let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            FormatError::bad_field("brt entry", field, found, "8 bytes")
        };
        let key: [u8; 8] = name.try_into().map_err(|_| bad("offset", name))?;
        let count: [u8; 8] = value.try_into().map_err(|_| bad("count", value))?;
        let order = if integer_bytes == 8 { Endian::Big } else { writer };
        Ok(Self { offset_bytes: u64::from_be_bytes(key), count: order.u64(count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_a_header_come_from_their_offsets() {
        for endian in [Endian::Little, Endian::Big] {
            let header = BrtHeader::parse(&stored(&numbered(7), endian), endian).unwrap();
            assert_eq!((header.entries, header.entry_count), (ObjectId(0), 3));
            assert_eq!((header.used_bytes, header.saved_bytes), (5, 6));
            assert!(BrtHeader::parse(&[0; 55], endian).is_err());
        }
    }

    #[test]
    fn counts_are_one_integer_or_eight_bytes_of_the_writer() {
        let name = 0x10200_u64.to_be_bytes();
        let wanted = BrtEntry { offset_bytes: 0x10200, count: 3 };
        assert_eq!(BrtEntry::parse(&name, 8, &3_u64.to_be_bytes(), Endian::Little), Ok(wanted));
        assert_eq!(BrtEntry::parse(&name, 1, &3_u64.to_le_bytes(), Endian::Little), Ok(wanted));
        assert_eq!(BrtEntry::parse(&name, 1, &3_u64.to_be_bytes(), Endian::Big), Ok(wanted));
        assert!(BrtEntry::parse(&name[..7], 8, &name, Endian::Little).is_err());
        assert!(BrtEntry::parse(&name, 8, &[], Endian::Little).is_err());
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 7)) {
            let (little, big) = (stored(&words, Endian::Little), stored(&words, Endian::Big));
            prop_assert_eq!(BrtHeader::parse(&little, Endian::Little), BrtHeader::parse(&big, Endian::Big));
        }

        #[test]
        fn any_bytes_do_not_panic(name in proptest::collection::vec(any::<u8>(), 0..12), size: u8,
                                  value in proptest::collection::vec(any::<u8>(), 0..12)) {
            let parsed = BrtEntry::parse(&name, size, &value, Endian::Big);
            prop_assert_eq!(parsed.is_ok(), name.len() == 8 && value.len() == 8);
        }
    }
}
