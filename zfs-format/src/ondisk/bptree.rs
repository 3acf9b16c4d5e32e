//! The queue of trees that are being destroyed in the background: what is left of them is still allocated.

use super::blkptr::{Blkptr, RawBlkptr};
use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use crate::units::{ObjectId, Txg};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of an entry in the content of the queue.
pub const BPTREE_ENTRY_BYTES: usize = 168;

/// `bptree_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBptreeHeader<O: ByteOrder> {
    begin: U64<O>,
    end: U64<O>,
    bytes: U64<O>,
    compressed: U64<O>,
    uncompressed: U64<O>,
}
const _: () = assert!(size_of::<RawBptreeHeader<zerocopy::LittleEndian>>() == 40);

/// `bptree_phys_t`, in the bonus of the MOS object `bptree_obj`.
///
/// Source: OpenZFS include/sys/bptree.h, `bptree_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BptreeHeader {
    /// The first entry not done.
    pub begin: u64,
    /// One past the last entry.
    pub end: u64,
    /// Space still to be freed.
    pub bytes: u64,
    /// Compressed size of it.
    pub compressed_bytes: u64,
    /// Uncompressed size of it.
    pub uncompressed_bytes: u64,
}

impl OnDisk for BptreeHeader {
    const NAME: &'static str = "bptree";
    type Raw<O: ByteOrder> = RawBptreeHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawBptreeHeader<O>) -> Result<Self, FormatError> {
        let (begin, end) = (raw.begin.get(), raw.end.get());
        if begin > end {
            return Err(FormatError::bad_field(Self::NAME, "begin", begin, "at most end"));
        }
        Ok(Self {
            begin,
            end,
            bytes: raw.bytes.get(),
            compressed_bytes: raw.compressed.get(),
            uncompressed_bytes: raw.uncompressed.get(),
        })
    }
}

/// `bptree_entry_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBptreeEntry<O: ByteOrder> {
    bp: RawBlkptr<O>,
    birth_txg: U64<O>,
    bookmark: [U64<O>; 4],
}
const _: () = assert!(size_of::<RawBptreeEntry<zerocopy::LittleEndian>>() == BPTREE_ENTRY_BYTES);

/// Where the destruction of a tree has come to; everything before is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The object.
    pub object: ObjectId,
    /// The level in it.
    pub level: i64,
    /// The block on that level.
    pub blkid: u64,
}

/// `bptree_entry_phys_t`: one tree.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 128 | pointer to the object set |
/// | 128 | 8 | birth txg |
/// | 136 | 32 | bookmark: object set, object, level, block |
///
/// Source: OpenZFS include/sys/bptree.h, `bptree_entry_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BptreeEntry {
    /// The root.
    pub bp: Blkptr,
    /// Only blocks born after this txg are freed.
    pub birth_txg: Txg,
    /// Where to go on; `None` when it was not begun.
    pub resume: Option<ResumePoint>,
}

impl OnDisk for BptreeEntry {
    const NAME: &'static str = "bptree entry";
    type Raw<O: ByteOrder> = RawBptreeEntry<O>;

    fn from_raw<O: ByteOrder>(raw: &RawBptreeEntry<O>) -> Result<Self, FormatError> {
        let bookmark = raw.bookmark.map(U64::get);
        let [_, object, level, blkid] = bookmark;
        let resume = ResumePoint { object: ObjectId(object), level: level.cast_signed(), blkid };
        Ok(Self {
            bp: Blkptr::from_raw(&raw.bp)?,
            birth_txg: Txg(raw.birth_txg.get()),
            resume: (bookmark != [0; 4]).then_some(resume),
        })
    }
}

/// Reads entry `index` from the content of the queue. Entries do not mind the borders of blocks: join the blocks first.
///
/// # Errors
/// [`FormatError::Truncated`] when the content has no such entry.
pub fn entry(content: &[u8], endian: Endian, index: usize) -> Result<BptreeEntry, FormatError> {
    let start = index.saturating_mul(BPTREE_ENTRY_BYTES);
    BptreeEntry::parse(content.get(start..).unwrap_or_default(), endian)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    #[test]
    fn fields_come_from_their_offsets() {
        let words = stored(&numbered(42), Endian::Big);
        let header = BptreeHeader::parse(&words, Endian::Big).unwrap();
        assert_eq!((header.begin, header.end, header.bytes), (0, 1, 2));
        assert_eq!((header.compressed_bytes, header.uncompressed_bytes), (3, 4));
        let second = entry(&words, Endian::Big, 1).unwrap();
        assert_eq!((second.bp.words()[0], second.birth_txg), (21, Txg(37)));
        assert_eq!(second.resume, Some(ResumePoint { object: ObjectId(39), level: 40, blkid: 41 }));
        assert!(entry(&words, Endian::Big, 2).is_err());
        assert_eq!(entry(&[0; BPTREE_ENTRY_BYTES], Endian::Big, 0).unwrap().resume, None);
    }

    #[test]
    fn a_begin_after_the_end_is_a_bad_field() {
        let words = stored(&[2, 1, 0, 0, 0], Endian::Little);
        let expected = Err(FormatError::bad_field("bptree", "begin", 2, "at most end"));
        assert_eq!(BptreeHeader::parse(&words, Endian::Little), expected);
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 21)) {
            let (little, big) = (stored(&words, Endian::Little), stored(&words, Endian::Big));
            prop_assert_eq!(entry(&little, Endian::Little, 0), entry(&big, Endian::Big, 0));
            prop_assert_eq!(
                BptreeHeader::parse(&little, Endian::Little),
                BptreeHeader::parse(&big, Endian::Big)
            );
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..340), index: usize) {
            let _ = BptreeHeader::parse(&bytes, Endian::Big);
            let _ = entry(&bytes, Endian::Big, index);
        }
    }
}
