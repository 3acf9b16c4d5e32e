//! The header of a cache device (L2ARC): which device of which pool it is.

use super::label::endian_by_magic;
use crate::FormatError;
use crate::endian::OnDisk;
use crate::units::Guid;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// `L2ARC_DEV_HDR_MAGIC`: "ZFSCACHE" as a number.
pub const L2ARC_MAGIC: u64 = 0x5a46_5343_4143_4845;
/// What of the header is read here.
pub const L2ARC_HEADER_BYTES: usize = 32;

/// The start of `l2arc_dev_hdr_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawL2arcHeader<O: ByteOrder> {
    magic: U64<O>,
    version: U64<O>,
    pool_guid: U64<O>,
    guid: U64<O>,
}
const _: () = assert!(size_of::<RawL2arcHeader<zerocopy::LittleEndian>>() == L2ARC_HEADER_BYTES);

/// `l2arc_dev_hdr_phys_t`, as far as it tells whose device this is. It lies where data begins on other devices.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 8 | [`L2ARC_MAGIC`] |
/// | 8 | 8 | version |
/// | 16 | 8 | guid of the pool |
/// | 24 | 8 | guid of the device |
///
/// Source: OpenZFS include/sys/arc_impl.h, `l2arc_dev_hdr_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2arcHeader {
    /// The pool that used the device last.
    pub pool_guid: Guid,
    /// The device itself; equal to the guid in its label.
    pub guid: Guid,
}

impl L2arcHeader {
    /// Reads the header in the order that its magic tells.
    ///
    /// # Errors
    /// [`FormatError::Truncated`], and [`FormatError::BadField`] when the magic is wrong in both byte orders.
    pub fn parse_either(bytes: &[u8]) -> Result<Self, FormatError> {
        let expected = "0x5a46534341434845";
        let endian = endian_by_magic(Self::NAME, bytes, 0, L2ARC_HEADER_BYTES, L2ARC_MAGIC, expected)?;
        Self::parse(bytes, endian)
    }
}

impl OnDisk for L2arcHeader {
    const NAME: &'static str = "cache device header";
    type Raw<O: ByteOrder> = RawL2arcHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawL2arcHeader<O>) -> Result<Self, FormatError> {
        Ok(Self { pool_guid: Guid(raw.pool_guid.get()), guid: Guid(raw.guid.get()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;
    use crate::ondisk::testing::stored;
    use proptest::prelude::*;

    #[test]
    fn the_header_of_a_real_cache_device_names_its_pool() {
        // The first bytes at 4 MiB of a cache device that OpenZFS 2.4.4 wrote.
        let bytes = b"EHCACSFZ\x01\0\0\0\0\0\0\0\x5b\x36\x93\xfb\x10\xf5\xed\xad\xdd\x41\x3d\xb4\xf5\x31\x7a\xd0";
        let header = L2arcHeader::parse_either(bytes).unwrap();
        assert_eq!(header.pool_guid, Guid(12_532_942_791_330_969_179));
        assert_eq!(header.guid, Guid(15_022_374_438_408_372_701));
    }

    #[test]
    fn another_magic_and_a_short_buffer_are_errors() {
        let wrong = L2arcHeader::parse_either(&stored(&[L2ARC_MAGIC + 1, 1, 2, 3], Endian::Little));
        assert!(matches!(wrong, Err(FormatError::BadField { field: "magic", .. })), "{wrong:?}");
        let short = L2arcHeader::parse_either(&stored(&[L2ARC_MAGIC, 1, 2, 3], Endian::Little)[..31]);
        assert!(matches!(short, Err(FormatError::Truncated { .. })), "{short:?}");
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(pool: u64, guid: u64) {
            for endian in [Endian::Little, Endian::Big] {
                let found = L2arcHeader::parse_either(&stored(&[L2ARC_MAGIC, 1, pool, guid], endian));
                prop_assert_eq!(found, Ok(L2arcHeader { pool_guid: Guid(pool), guid: Guid(guid) }));
            }
        }

        #[test]
        fn any_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = L2arcHeader::parse_either(&bytes);
        }
    }
}
