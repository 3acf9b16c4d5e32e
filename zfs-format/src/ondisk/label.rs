//! Vdev labels: where the four copies lie on a leaf, what is where inside one, and the checksum that closes a region.
//!
//! Only places and sizes; [`super::nvlist`] and [`super::uberblock`] read what lies there. Whether an embedded checksum
//! is right is not judged here.

use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of one label.
pub const LABEL_BYTES: u64 = 256 << 10;
/// Labels on each leaf: two at the front, two at the end.
pub const LABEL_COUNT: usize = 4;

/// Offset in the label of the first pad. 8 KiB that ZFS never uses (a VTOC or a disk label may be there).
pub const PAD1_OFFSET_BYTES: u64 = 0;
/// Offset in the label of the boot environment block, closed by an [`EmbeddedChecksum`].
pub const BOOT_ENV_OFFSET_BYTES: u64 = 0x2000;
/// Size of the boot environment block.
pub const BOOT_ENV_BYTES: u64 = 8 << 10;
/// Offset in the label of the XDR nvlist, closed by an [`EmbeddedChecksum`].
pub const VDEV_PHYS_OFFSET_BYTES: u64 = 0x4000;
/// Size of the nvlist region, checksum included.
pub const VDEV_PHYS_BYTES: u64 = 112 << 10;
/// Offset in the label of the uberblock ring.
pub const UBERBLOCK_RING_OFFSET_BYTES: u64 = 0x2_0000;
/// Size of the uberblock ring.
pub const UBERBLOCK_RING_BYTES: u64 = 128 << 10;

/// Where allocatable space starts on a leaf: two labels and the boot region of 3.5 MiB. Offset 0 of a DVA is here.
pub const VDEV_LABEL_START_BYTES: u64 = 4 << 20;
/// What the two labels at the end of a leaf take.
pub const VDEV_LABEL_END_BYTES: u64 = 2 * LABEL_BYTES;
/// Where the boot region starts; a raidz expansion uses it as scratch space.
pub const BOOT_REGION_OFFSET_BYTES: u64 = 2 * LABEL_BYTES;
/// Size of the boot region.
pub const BOOT_REGION_BYTES: u64 = VDEV_LABEL_START_BYTES - BOOT_REGION_OFFSET_BYTES;

/// Magic of an [`EmbeddedChecksum`] (`ZEC_MAGIC`).
pub const ECK_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// Size of an [`EmbeddedChecksum`].
pub const ECK_BYTES: usize = 40;

/// The part of a device that a vdev uses: its size rounded down to a multiple of [`LABEL_BYTES`].
///
/// Source: OpenZFS module/zfs/vdev.c, `vdev_open`.
#[must_use]
pub const fn usable_bytes(device_bytes: u64) -> u64 {
    device_bytes & !(LABEL_BYTES - 1)
}

/// Offset on the leaf of label `index` (0 to 3) when the leaf uses `psize_bytes` (see [`usable_bytes`]).
///
/// `None` when there is no such label, or when it does not fit: the first two need no more than themselves, so that a device that
/// was cut short still tells what it was; the last two do not reach into the boot region.
///
/// Source: OpenZFS module/zfs/vdev_label.c, `vdev_label_offset`.
#[must_use]
pub fn label_offset(index: usize, psize_bytes: u64) -> Option<u64> {
    let end_bytes = psize_bytes.checked_sub(VDEV_LABEL_END_BYTES)?;
    match index {
        0 => Some(0),
        1 => Some(LABEL_BYTES),
        2 | 3 if end_bytes < VDEV_LABEL_START_BYTES => None,
        2 => Some(end_bytes),
        3 => end_bytes.checked_add(LABEL_BYTES),
        _ => None,
    }
}

/// Size of one slot of the uberblock ring: `1 << ashift`, at least 1 KiB and at most 8 KiB.
///
/// `ashift` is that of the top-level vdev; any value is accepted.
///
/// Source: OpenZFS include/sys/vdev_impl.h, `VDEV_UBERBLOCK_SHIFT`.
#[must_use]
pub const fn uberblock_slot_bytes(ashift: u64) -> u64 {
    match ashift {
        0..=10 => 1 << 10,
        11 => 1 << 11,
        12 => 1 << 12,
        _ => 1 << 13,
    }
}

/// Slots in the uberblock ring: 128, 64, 32 or 16.
#[must_use]
pub const fn uberblock_slots(ashift: u64) -> u64 {
    match ashift {
        0..=10 => 128,
        11 => 64,
        12 => 32,
        _ => 16,
    }
}

/// Offset in the label of slot `slot` of the uberblock ring, `None` past its end.
#[must_use]
pub fn uberblock_slot_offset(ashift: u64, slot: u64) -> Option<u64> {
    if slot >= uberblock_slots(ashift) {
        return None;
    }
    slot.checked_mul(uberblock_slot_bytes(ashift))?.checked_add(UBERBLOCK_RING_OFFSET_BYTES)
}

/// `zio_eck_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawEmbeddedChecksum<O: ByteOrder> {
    magic: U64<O>,
    checksum: [U64<O>; 4],
}
const _: () = assert!(size_of::<RawEmbeddedChecksum<zerocopy::LittleEndian>>() == ECK_BYTES);

/// `zio_eck_t`: the checksum that a region carries inside itself, in its last 40 bytes.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 8 | [`ECK_MAGIC`], in the order of the writer |
/// | 8 | 32 | checksum, four words |
///
/// Source: OpenZFS include/sys/zio.h, `zio_eck_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedChecksum {
    /// The byte order of the writer, told by the magic.
    pub endian: Endian,
    /// The stored words in native order.
    pub checksum: [u64; 4],
}

impl EmbeddedChecksum {
    const NAME: &'static str = "embedded checksum";

    /// Reads the 40 bytes at the start of `bytes`, in the order the magic tells.
    ///
    /// # Errors
    /// [`FormatError::Truncated`], and [`FormatError::BadField`] when the magic is wrong in both byte orders.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let endian = endian_by_magic(Self::NAME, bytes, 0, ECK_BYTES, ECK_MAGIC, "0x0210da7ab10c7a11")?;
        let StoredWords { checksum } = StoredWords::parse(bytes, endian)?;
        Ok(Self { endian, checksum })
    }

    /// Reads the last 40 bytes of `region`.
    ///
    /// # Errors
    /// As [`EmbeddedChecksum::parse`].
    pub fn parse_end(region: &[u8]) -> Result<Self, FormatError> {
        let truncated = FormatError::Truncated { what: Self::NAME, need: ECK_BYTES, have: region.len() };
        let start = region.len().checked_sub(ECK_BYTES).ok_or(truncated)?;
        Self::parse(region.get(start..).unwrap_or_default())
    }
}

struct StoredWords {
    checksum: [u64; 4],
}

impl OnDisk for StoredWords {
    const NAME: &'static str = EmbeddedChecksum::NAME;
    type Raw<O: ByteOrder> = RawEmbeddedChecksum<O>;

    fn from_raw<O: ByteOrder>(raw: &RawEmbeddedChecksum<O>) -> Result<Self, FormatError> {
        if raw.magic.get() != ECK_MAGIC {
            return Err(FormatError::bad_field(Self::NAME, "magic", raw.magic.get(), "0x0210da7ab10c7a11"));
        }
        Ok(Self { checksum: raw.checksum.map(U64::get) })
    }
}

/// The byte order in which the word at `offset_bytes` of a structure of `need` bytes is `magic`.
pub(super) fn endian_by_magic(
    what: &'static str,
    bytes: &[u8],
    offset_bytes: usize,
    need: usize,
    magic: u64,
    expected: &'static str,
) -> Result<Endian, FormatError> {
    let truncated = FormatError::Truncated { what, need, have: bytes.len() };
    if bytes.len() < need {
        return Err(truncated);
    }
    let found = Endian::Little.u64_at(bytes, offset_bytes).ok_or(truncated)?;
    if found == magic {
        Ok(Endian::Little)
    } else if found.swap_bytes() == magic {
        Ok(Endian::Big)
    } else {
        Err(FormatError::bad_field(what, "magic", found, expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::stored;
    use proptest::prelude::*;

    #[test]
    fn labels_lie_at_both_ends_of_the_rounded_size() {
        let psize = usable_bytes((64 << 20) + 77_777);
        assert_eq!(psize, 64 << 20);
        let offsets: Vec<_> = (0..5).map(|index| label_offset(index, psize)).collect();
        assert_eq!(offsets, [Some(0), Some(0x4_0000), Some((64 << 20) - 0x8_0000), Some((64 << 20) - 0x4_0000), None]);
    }

    #[test]
    fn a_leaf_too_small_for_its_labels_has_none() {
        assert_eq!(label_offset(0, 0), None);
        assert_eq!(label_offset(1, VDEV_LABEL_END_BYTES - 1), None);
        assert_eq!(label_offset(1, VDEV_LABEL_END_BYTES), Some(LABEL_BYTES));
        assert_eq!(label_offset(2, VDEV_LABEL_START_BYTES + VDEV_LABEL_END_BYTES - 1), None);
        assert_eq!(label_offset(2, VDEV_LABEL_START_BYTES + VDEV_LABEL_END_BYTES), Some(VDEV_LABEL_START_BYTES));
    }

    #[test]
    fn the_regions_of_a_label_follow_each_other() {
        assert_eq!(BOOT_ENV_OFFSET_BYTES + BOOT_ENV_BYTES, VDEV_PHYS_OFFSET_BYTES);
        assert_eq!(VDEV_PHYS_OFFSET_BYTES + VDEV_PHYS_BYTES, UBERBLOCK_RING_OFFSET_BYTES);
        assert_eq!(UBERBLOCK_RING_OFFSET_BYTES + UBERBLOCK_RING_BYTES, LABEL_BYTES);
    }

    #[test]
    fn slots_fill_the_ring_for_every_ashift() {
        for ashift in 0..70 {
            assert_eq!(uberblock_slot_bytes(ashift) * uberblock_slots(ashift), UBERBLOCK_RING_BYTES);
            assert_eq!(uberblock_slot_bytes(ashift), 1 << ashift.clamp(10, 13));
        }
        assert_eq!(uberblock_slot_offset(12, 31), Some(LABEL_BYTES - 4096));
        assert_eq!(uberblock_slot_offset(12, 32), None);
    }

    fn eck(endian: Endian, checksum: [u64; 4]) -> Vec<u8> {
        let [a, b, c, d] = checksum;
        stored(&[ECK_MAGIC, a, b, c, d], endian)
    }

    #[test]
    fn an_embedded_checksum_is_read_from_its_bytes() {
        let mut bytes = vec![0x11, 0x7a, 0x0c, 0xb1, 0x7a, 0xda, 0x10, 0x02];
        for word in 1_u64..=4 {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let found = EmbeddedChecksum::parse(&bytes);
        assert_eq!(found, Ok(EmbeddedChecksum { endian: Endian::Little, checksum: [1, 2, 3, 4] }));
    }

    #[test]
    fn a_wrong_magic_is_a_bad_field() {
        assert!(matches!(EmbeddedChecksum::parse(&[0; 40]), Err(FormatError::BadField { field: "magic", .. })));
        assert!(matches!(EmbeddedChecksum::parse_end(&[0; 39]), Err(FormatError::Truncated { need: 40, .. })));
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(checksum: [u64; 4]) {
            let little = EmbeddedChecksum::parse(&eck(Endian::Little, checksum)).unwrap();
            let big = EmbeddedChecksum::parse(&eck(Endian::Big, checksum)).unwrap();
            prop_assert_eq!(little.checksum, big.checksum);
            prop_assert_eq!(little.endian, big.endian.swapped());
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), index: usize, size: u64) {
            let _ = EmbeddedChecksum::parse(&bytes);
            let _ = EmbeddedChecksum::parse_end(&bytes);
            let _ = label_offset(index, size);
            let _ = uberblock_slot_offset(size, size);
        }
    }
}
