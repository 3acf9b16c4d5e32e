//! Dedup tables: which block stands for a content, and how many pointers lead to it.
//!
//! An entry is a key (the checksum and the sizes) and what lies on disk for it. It is stored in a ZAP, or, in the newer
//! kind of table, also in logs that override the ZAP.

use super::blkptr::{Blkptr, Dva, RawDva};
use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use crate::units::Txg;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of a key.
pub const DDT_KEY_BYTES: usize = 40;
/// Size of the payload of an entry of a legacy table, decompressed.
pub const DDT_LEGACY_BYTES: usize = 256;
/// Size of the payload of an entry of a flat table.
pub const DDT_FLAT_BYTES: usize = 72;
/// Size of the header of a log, in the bonus.
pub const DDT_LOG_HEADER_BYTES: usize = 64;

/// `ddt_key_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDdtKey<O: ByteOrder> {
    checksum: [U64<O>; 4],
    prop: U64<O>,
}
const _: () = assert!(size_of::<RawDdtKey<zerocopy::LittleEndian>>() == DDT_KEY_BYTES);

/// `ddt_key_t`: what makes two blocks one.
///
/// | word | content |
/// | --- | --- |
/// | 0-3 | checksum |
/// | 4 | sizes and compression as in word 6 of a pointer (39 bits), bit 39: encrypted |
///
/// In a ZAP the words are big endian, in a log in the byte order of the block.
///
/// Source: OpenZFS include/sys/ddt.h, `ddt_key_t`; module/zfs/ddt.c, `ddt_key_fill`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DdtKey {
    /// The checksum of the block.
    pub checksum: [u64; 4],
    /// Sizes, compression and whether it is encrypted.
    pub prop: u64,
}

impl DdtKey {
    /// The key under which the block of a pointer would be found.
    #[must_use]
    pub fn of(bp: &Blkptr) -> Self {
        let [_, _, _, _, _, _, prop, ..] = *bp.words();
        let crypt = if bp.is_protected() { 1 << 39 } else { 0 };
        Self { checksum: bp.checksum(), prop: bits::<0, 39>(prop) | crypt }
    }

    /// The block is encrypted: its third address is none.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        bits::<39, 1>(self.prop) == 1
    }
}

impl OnDisk for DdtKey {
    const NAME: &'static str = "ddt key";
    type Raw<O: ByteOrder> = RawDdtKey<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDdtKey<O>) -> Result<Self, FormatError> {
        Ok(Self { checksum: raw.checksum.map(U64::get), prop: raw.prop.get() })
    }
}

/// `ddt_phys_t` as stored, without the last word of the flat form.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDdtVariant<O: ByteOrder> {
    dva: [RawDva<O>; 3],
    refcount: U64<O>,
    birth: U64<O>,
}
const _: () = assert!(size_of::<RawDdtVariant<zerocopy::LittleEndian>>() == DDT_LEGACY_BYTES / 4);

/// One block that holds the content of a key.
///
/// Source: OpenZFS include/sys/ddt.h, `ddt_univ_phys_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DdtVariant {
    /// Its addresses. The third is none when the block is encrypted.
    pub dvas: [Dva; 3],
    /// How many pointers lead to it.
    pub refcount: u64,
    /// When it was written.
    pub birth_txg: Txg,
}

impl OnDisk for DdtVariant {
    const NAME: &'static str = "ddt entry";
    type Raw<O: ByteOrder> = RawDdtVariant<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDdtVariant<O>) -> Result<Self, FormatError> {
        let [first, second, third] = &raw.dva;
        Ok(Self {
            // Where an encrypted block has no third address, salt and IV may stand there.
            dvas: [Dva::from_raw(first)?, Dva::from_raw(second)?, Dva::from_raw(third).unwrap_or_default()],
            refcount: raw.refcount.get(),
            birth_txg: Txg(raw.birth.get()),
        })
    }
}

/// The variants of an entry: up to four in a legacy table (extra copies, then one for each number of copies), one in a
/// flat table. The size of the payload tells which.
///
/// # Errors
/// [`FormatError::BadField`] when the payload has neither size.
pub fn parse_variants(payload: &[u8], endian: Endian) -> Result<Vec<DdtVariant>, FormatError> {
    match payload.len() {
        DDT_FLAT_BYTES => Ok(vec![DdtVariant::parse(payload, endian)?]),
        DDT_LEGACY_BYTES => {
            payload.chunks_exact(DDT_LEGACY_BYTES / 4).map(|part| DdtVariant::parse(part, endian)).collect()
        }
        size => {
            let found = u64::try_from(size).unwrap_or(u64::MAX);
            Err(FormatError::bad_field("ddt entry", "payload size", found, "72 (flat) or 256"))
        }
    }
}

/// The first byte of an entry's value in a ZAP: how the payload after it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdtEncoding {
    /// The byte order of the payload.
    pub endian: Endian,
    /// Number of the compression: 14 (zle) or 2 (off).
    pub compress: u8,
}

impl DdtEncoding {
    /// Reads the byte.
    ///
    /// Source: OpenZFS module/zfs/ddt_zap.c, `ddt_zap_decompress`.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        let endian = if byte & 0x80 == 0 { Endian::Big } else { Endian::Little };
        Self { endian, compress: byte & 0x7f }
    }
}

/// `ddt_log_header_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDdtLogHeader<O: ByteOrder> {
    info: U64<O>,
    length: U64<O>,
    first_txg: U64<O>,
    checkpoint: RawDdtKey<O>,
}
const _: () = assert!(size_of::<RawDdtLogHeader<zerocopy::LittleEndian>>() == DDT_LOG_HEADER_BYTES);

/// `ddt_log_header_t`, in the bonus of a log.
///
/// Source: OpenZFS include/sys/ddt_impl.h, `ddt_log_header_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdtLogHeader {
    /// Entries are being moved to the ZAP; without it the log takes new ones.
    pub is_flushing: bool,
    /// How many bytes of the content are records.
    pub length_bytes: u64,
    /// When its first record was written.
    pub first_txg: Txg,
    /// Entries up to this key are in the ZAP already.
    pub flushed_to: Option<DdtKey>,
}

impl OnDisk for DdtLogHeader {
    const NAME: &'static str = "ddt log";
    type Raw<O: ByteOrder> = RawDdtLogHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDdtLogHeader<O>) -> Result<Self, FormatError> {
        let info = raw.info.get();
        if bits::<0, 8>(info) != 1 {
            return Err(FormatError::bad_field(Self::NAME, "version", bits::<0, 8>(info), "1"));
        }
        let has_checkpoint = bits::<9, 1>(info) == 1;
        Ok(Self {
            is_flushing: bits::<8, 1>(info) == 1,
            length_bytes: raw.length.get(),
            first_txg: Txg(raw.first_txg.get()),
            flushed_to: has_checkpoint.then(|| DdtKey::from_raw(&raw.checkpoint)).transpose()?,
        })
    }
}

/// A record of a log: an entry as it is from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdtLogRecord {
    /// The key.
    pub key: DdtKey,
    /// What it has now.
    pub variants: Vec<DdtVariant>,
}

const RECORD_END: u64 = 0;
const RECORD_ENTRY: u64 = 1;
const RECORD_HEAD_BYTES: usize = 8;

/// The records of one block of a log. None crosses the end of a block; an error is the last item.
///
/// | bits of the head | content |
/// | --- | --- |
/// | 0-7 | 0: end of the block, 1: an entry |
/// | 8-23 | length of the record |
/// | 48-63 | where the entry is in the ZAPs |
///
/// Source: OpenZFS include/sys/ddt_impl.h, `ddt_log_record_t`; module/zfs/ddt_log.c, `ddt_log_load_one`.
pub fn log_records(block: &[u8], endian: Endian) -> impl Iterator<Item = Result<DdtLogRecord, FormatError>> {
    let mut rest = Some(block);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        match record_bytes(bytes, endian) {
            Ok(0) => None,
            Ok(length) => {
                let (record, after) = bytes.split_at_checked(length)?;
                rest = Some(after);
                Some(parse_record(record, endian))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

/// The length of the first record, which is all there; 0 at the end of the records.
fn record_bytes(bytes: &[u8], endian: Endian) -> Result<usize, FormatError> {
    let Some(head) = endian.u64_at(bytes, 0) else { return Ok(0) };
    match bits::<0, 8>(head) {
        RECORD_END => return Ok(0),
        RECORD_ENTRY => {}
        kind => return Err(FormatError::bad_field("ddt log", "record type", kind, "0 or 1")),
    }
    let length = bits::<8, 16>(head);
    let fits = usize::try_from(length).ok().filter(|&length| length > RECORD_HEAD_BYTES && length <= bytes.len());
    fits.ok_or(FormatError::bad_field("ddt log", "record length", length, "one that fits the block"))
}

fn parse_record(record: &[u8], endian: Endian) -> Result<DdtLogRecord, FormatError> {
    let body = record.get(RECORD_HEAD_BYTES..).unwrap_or_default();
    let key = DdtKey::parse(body, endian)?;
    let variants = parse_variants(body.get(DDT_KEY_BYTES..).unwrap_or_default(), endian)?;
    Ok(DdtLogRecord { key, variants })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    /// A variant: one address, references, birth.
    fn variant_words(sector: u64, refcount: u64) -> Vec<u64> {
        vec![3 << 32 | 8, sector, 0, 0, 0, 0, refcount, 77]
    }

    fn record_words(sector: u64, refcount: u64) -> Vec<u64> {
        let mut words = vec![120 << 8 | 1, 1, 2, 3, 4, 5];
        words.extend(variant_words(sector, refcount));
        words.push(99);
        words
    }

    #[test]
    fn a_legacy_entry_has_four_variants() {
        let mut words = Vec::new();
        for slot in 0..4 {
            words.extend(variant_words(slot + 1, slot));
        }
        for endian in [Endian::Little, Endian::Big] {
            let variants = parse_variants(&stored(&words, endian), endian).unwrap();
            assert_eq!(variants.len(), 4);
            assert_eq!((variants[2].refcount, variants[2].birth_txg), (2, Txg(77)));
            let dva = variants[2].dvas[0];
            assert_eq!((dva.vdev, dva.offset_bytes, dva.asize_bytes, dva.is_gang), (3, 3 * 512, 8 * 512, false));
        }
    }

    #[test]
    fn a_flat_entry_has_one_variant_and_other_sizes_are_refused() {
        let mut words = variant_words(9, 5);
        words.push(1);
        let bytes = stored(&words, Endian::Little);
        let variants = parse_variants(&bytes, Endian::Little).unwrap();
        assert_eq!(variants.iter().map(|variant| variant.refcount).collect::<Vec<_>>(), [5]);
        assert!(parse_variants(&bytes[..71], Endian::Little).is_err());
    }

    #[test]
    fn the_byte_before_a_payload_tells_its_order_and_compression() {
        assert_eq!(DdtEncoding::from_byte(0x8e), DdtEncoding { endian: Endian::Little, compress: 14 });
        assert_eq!(DdtEncoding::from_byte(0x02), DdtEncoding { endian: Endian::Big, compress: 2 });
    }

    #[test]
    fn the_key_of_a_pointer_holds_checksum_sizes_and_compression() {
        let mut words = [0; 16];
        words[6] = 1 << 62 | 0x0113_080f_0007_0003;
        words[12..].copy_from_slice(&[1, 2, 3, 4]);
        let key = DdtKey::of(&Blkptr::from_words(words));
        assert_eq!(key, DdtKey { checksum: [1, 2, 3, 4], prop: 0x0f_0007_0003 });
        words[6] |= 1 << 61;
        assert!(DdtKey::of(&Blkptr::from_words(words)).is_encrypted());
    }

    #[test]
    fn a_log_header_says_what_is_flushed() {
        let mut words = numbered(8);
        words[0] = 0x301;
        let header = DdtLogHeader::parse(&stored(&words, Endian::Big), Endian::Big).unwrap();
        assert!(header.is_flushing);
        assert_eq!((header.length_bytes, header.first_txg), (1, Txg(2)));
        assert_eq!(header.flushed_to, Some(DdtKey { checksum: [3, 4, 5, 6], prop: 7 }));
        words[0] = 1;
        assert_eq!(DdtLogHeader::parse(&stored(&words, Endian::Big), Endian::Big).unwrap().flushed_to, None);
        words[0] = 2;
        assert!(DdtLogHeader::parse(&stored(&words, Endian::Big), Endian::Big).is_err());
    }

    #[test]
    fn records_end_at_the_end_mark_or_with_an_error() {
        let mut words = record_words(9, 5);
        words.extend(record_words(10, 6));
        words.push(0);
        let block = stored(&words, Endian::Little);
        let records: Vec<_> = log_records(&block, Endian::Little).map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[1].key, DdtKey { checksum: [1, 2, 3, 4], prop: 5 });
        assert_eq!(records[1].variants[0].refcount, 6);
        for head in [2, 8 << 8 | 1, 0xffff << 8 | 1] {
            words[15] = head;
            let block = stored(&words, Endian::Little);
            let found: Vec<_> = log_records(&block, Endian::Little).collect();
            assert!(found.len() == 2 && found[0].is_ok() && found[1].is_err(), "{head:x}");
        }
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 32)) {
            let (little, big) = (stored(&words, Endian::Little), stored(&words, Endian::Big));
            prop_assert_eq!(DdtKey::parse(&little, Endian::Little), DdtKey::parse(&big, Endian::Big));
            prop_assert_eq!(parse_variants(&little, Endian::Little), parse_variants(&big, Endian::Big));
            prop_assert_eq!(DdtLogHeader::parse(&little, Endian::Little), DdtLogHeader::parse(&big, Endian::Big));
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
            prop_assert!(log_records(&bytes, Endian::Little).count() <= bytes.len() / 9 + 1);
        }
    }
}
