//! Lists of block pointers: their headers, kept in the bonus of the list. Deadlists and livelists are tables of them.
//!
//! The content of a list is read by [`super::dnode::indirect_blkptrs`]. In its entries the fill is cleared (bit 0 marks a
//! free in livelists), mostly the checksum too, and embedded pointers have lost their payload.

use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use crate::units::ObjectId;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// `bpobj_phys_t`, in the bonus of type 6.
///
/// | offset | size | content | absent in a bonus of |
/// | --- | --- | --- | --- |
/// | 0 | 16 | pointers, bytes | |
/// | 16 | 16 | compressed and uncompressed bytes | 16 |
/// | 32 | 16 | object with sublists, their number | 16, 32 |
/// | 48 | 8 | freed pointers (livelists) | 16, 32, 48 |
///
/// Source: OpenZFS include/sys/bpobj.h, `bpobj_phys_t`, `BPOBJ_SIZE_V0` and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpobjHeader {
    /// Pointers in the list itself, 128 bytes each.
    pub blkptr_count: u64,
    /// Space of all pointers, those of sublists included.
    pub bytes: u64,
    /// Compressed size of them.
    pub compressed_bytes: Option<u64>,
    /// Uncompressed size of them.
    pub uncompressed_bytes: Option<u64>,
    /// The object with the numbers of the sublists (type 53).
    pub subobjs: Option<ObjectId>,
    /// How many sublists.
    pub subobj_count: u64,
    /// How many pointers of the list are frees.
    pub freed_count: u64,
}

impl BpobjHeader {
    /// Reads the header from a whole bonus, whose length tells the version.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when the bonus has none of the lengths 16, 32, 48, 56.
    pub fn parse(bonus: &[u8], endian: Endian) -> Result<Self, FormatError> {
        if !matches!(bonus.len(), 16 | 32 | 48 | 56) {
            let found = u64::try_from(bonus.len()).unwrap_or(u64::MAX);
            return Err(FormatError::bad_field("bpobj", "bonus length", found, "16, 32, 48 or 56"));
        }
        let word = |index: usize| endian.u64_at(bonus, index.saturating_mul(8));
        Ok(Self {
            blkptr_count: word(0).unwrap_or(0),
            bytes: word(1).unwrap_or(0),
            compressed_bytes: word(2),
            uncompressed_bytes: word(3),
            subobjs: word(4).filter(|&object| object != 0).map(ObjectId),
            subobj_count: word(5).unwrap_or(0),
            freed_count: word(6).unwrap_or(0),
        })
    }
}

/// `dsl_deadlist_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDeadlistHeader<O: ByteOrder> {
    used: U64<O>,
    compressed: U64<O>,
    uncompressed: U64<O>,
    pad: [U64<O>; 37],
}
const _: () = assert!(size_of::<RawDeadlistHeader<zerocopy::LittleEndian>>() == 320);

/// `dsl_deadlist_phys_t`: header of a deadlist or livelist, in the bonus of type 51; the lists are in its ZAP.
///
/// Source: OpenZFS include/sys/dsl_deadlist.h, `dsl_deadlist_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlistHeader {
    /// Space of all blocks.
    pub used_bytes: u64,
    /// Compressed size of them.
    pub compressed_bytes: u64,
    /// Uncompressed size of them.
    pub uncompressed_bytes: u64,
}

impl OnDisk for DeadlistHeader {
    const NAME: &'static str = "deadlist";
    type Raw<O: ByteOrder> = RawDeadlistHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDeadlistHeader<O>) -> Result<Self, FormatError> {
        Ok(Self {
            used_bytes: raw.used.get(),
            compressed_bytes: raw.compressed.get(),
            uncompressed_bytes: raw.uncompressed.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    #[test]
    fn fields_come_from_their_offsets_as_far_as_the_bonus_goes() {
        for endian in [Endian::Little, Endian::Big] {
            let bonus = stored(&numbered(7), endian);
            let parse = |length: usize| BpobjHeader::parse(&bonus[..length], endian).unwrap();
            let full = BpobjHeader {
                blkptr_count: 0,
                bytes: 1,
                compressed_bytes: Some(2),
                uncompressed_bytes: Some(3),
                subobjs: Some(ObjectId(4)),
                subobj_count: 5,
                freed_count: 6,
            };
            assert_eq!(parse(56), full);
            let v2 = BpobjHeader { freed_count: 0, ..full };
            assert_eq!(parse(48), v2);
            let v1 = BpobjHeader { subobjs: None, subobj_count: 0, ..v2 };
            assert_eq!(parse(32), v1);
            assert_eq!(parse(16), BpobjHeader { compressed_bytes: None, uncompressed_bytes: None, ..v1 });
        }
    }

    #[test]
    fn another_bonus_length_is_a_bad_field() {
        let expected = Err(FormatError::bad_field("bpobj", "bonus length", 40, "16, 32, 48 or 56"));
        assert_eq!(BpobjHeader::parse(&[0; 40], Endian::Little), expected);
    }

    #[test]
    fn the_fields_of_a_deadlist_come_from_their_offsets() {
        let found = DeadlistHeader::parse(&stored(&numbered(40), Endian::Big), Endian::Big);
        let expected = DeadlistHeader { used_bytes: 0, compressed_bytes: 1, uncompressed_bytes: 2 };
        assert_eq!(found, Ok(expected));
        assert!(DeadlistHeader::parse(&[0; 319], Endian::Big).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = BpobjHeader::parse(&bytes, Endian::Big);
        }
    }
}
