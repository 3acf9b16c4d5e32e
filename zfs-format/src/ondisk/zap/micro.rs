//! Micro ZAPs: one block of fixed entries, each a short name and one 64-bit value.

use super::MICRO_BLOCK_TYPE;
use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U32, U64, Unaligned};

/// Size of the header and of each entry.
pub const MICRO_ENTRY_BYTES: usize = 64;
/// Longest name, without its NUL.
pub const MICRO_NAME_BYTES_MAX: usize = 49;

/// The header of `mzap_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawMicroHeader<O: ByteOrder> {
    block_type: U64<O>,
    salt: U64<O>,
    normflags: U64<O>,
    pad: [U64<O>; 5],
}
const _: () = assert!(size_of::<RawMicroHeader<zerocopy::LittleEndian>>() == MICRO_ENTRY_BYTES);

/// `mzap_ent_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawMicroEntry<O: ByteOrder> {
    value: U64<O>,
    cd: U32<O>,
    pad: [u8; 2],
    name: [u8; 50],
}
const _: () = assert!(size_of::<RawMicroEntry<zerocopy::LittleEndian>>() == MICRO_ENTRY_BYTES);

/// `mzap_phys_t`: a header of 64 bytes, then entries of 64 bytes up to the end of the block.
///
/// Source: OpenZFS include/sys/zap_impl.h, `mzap_phys_t`, `mzap_ent_phys_t`.
#[derive(Clone, Copy, Debug)]
pub struct MicroZap<'a> {
    /// Salt of the hash that a fat ZAP made from this one will use.
    pub salt: u64,
    /// How names are normalized before they are compared, 0 for not at all.
    pub normflags: u64,
    endian: Endian,
    entries: &'a [u8],
}

/// One name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroEntry<'a> {
    /// The name without its NUL. 50 bytes long when the NUL is missing, which is not valid.
    pub name: &'a [u8],
    /// The value.
    pub value: u64,
    /// Tells apart names of equal hash.
    pub cd: u32,
}

struct Header {
    salt: u64,
    normflags: u64,
}

impl OnDisk for Header {
    const NAME: &'static str = "microzap";
    type Raw<O: ByteOrder> = RawMicroHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawMicroHeader<O>) -> Result<Self, FormatError> {
        if raw.block_type.get() != MICRO_BLOCK_TYPE {
            return Err(FormatError::bad_field(Self::NAME, "block type", raw.block_type.get(), "2^63 + 3"));
        }
        Ok(Self { salt: raw.salt.get(), normflags: raw.normflags.get() })
    }
}

/// Value and collision differentiator of an entry; the name is borrowed apart.
struct Cell {
    value: u64,
    cd: u32,
}

impl OnDisk for Cell {
    const NAME: &'static str = "microzap entry";
    type Raw<O: ByteOrder> = RawMicroEntry<O>;

    fn from_raw<O: ByteOrder>(raw: &RawMicroEntry<O>) -> Result<Self, FormatError> {
        Ok(Self { value: raw.value.get(), cd: raw.cd.get() })
    }
}

/// Reads the header of a micro block; the entries are read by [`MicroZap::entries`].
///
/// # Errors
/// [`FormatError::Truncated`] for less than 64 bytes, [`FormatError::BadField`] for another kind of block.
pub fn parse_micro(block: &[u8], endian: Endian) -> Result<MicroZap<'_>, FormatError> {
    let Header { salt, normflags } = Header::parse(block, endian)?;
    Ok(MicroZap { salt, normflags, endian, entries: block.get(MICRO_ENTRY_BYTES..).unwrap_or_default() })
}

impl<'a> MicroZap<'a> {
    /// The entries in stored order; slots without a name are empty and left out.
    pub fn entries(&self) -> impl Iterator<Item = MicroEntry<'a>> + use<'a> {
        let endian = self.endian;
        self.entries.chunks_exact(MICRO_ENTRY_BYTES).filter_map(move |slot| {
            let name = slot.get(14..)?.split(|&byte| byte == 0).next().filter(|name| !name.is_empty())?;
            let Cell { value, cd } = Cell::parse(slot, endian).ok()?;
            Some(MicroEntry { name, value, cd })
        })
    }

    /// The value under `name`, compared byte by byte.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<u64> {
        self.entries().find(|entry| entry.name == name).map(|entry| entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::stored;
    use proptest::prelude::*;

    fn entry(name: &[u8], value: u64, cd: u32, endian: Endian) -> Vec<u8> {
        let mut bytes = stored(&[value], endian);
        bytes.extend_from_slice(&if endian == Endian::Little { cd.to_le_bytes() } else { cd.to_be_bytes() });
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(name);
        bytes.resize(64, 0);
        bytes
    }

    fn block(entries: &[(&[u8], u64, u32)], endian: Endian) -> Vec<u8> {
        let mut block = stored(&[MICRO_BLOCK_TYPE, 5, 6, 0, 0, 0, 0, 0], endian);
        entries.iter().for_each(|&(name, value, cd)| block.extend(entry(name, value, cd, endian)));
        block
    }

    #[test]
    fn entries_are_read_and_empty_slots_left_out() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = block(&[(b"ROOT", 34, 0), (b"", 9, 9), (b"VERSION", 5, 1)], endian);
            let zap = parse_micro(&bytes, endian).unwrap();
            assert_eq!((zap.salt, zap.normflags), (5, 6));
            let found: Vec<_> = zap.entries().map(|entry| (entry.name, entry.value, entry.cd)).collect();
            assert_eq!(found, [(b"ROOT".as_slice(), 34, 0), (b"VERSION".as_slice(), 5, 1)]);
            assert_eq!((zap.get(b"VERSION"), zap.get(b"version")), (Some(5), None));
        }
    }

    #[test]
    fn a_name_without_nul_has_fifty_bytes() {
        let bytes = block(&[(&[b'x'; 50], 1, 0)], Endian::Little);
        assert_eq!(parse_micro(&bytes, Endian::Little).unwrap().entries().next().unwrap().name, [b'x'; 50]);
    }

    #[test]
    fn another_block_type_is_a_bad_field() {
        let found = parse_micro(&[0; 64], Endian::Little).map(|_| ());
        assert_eq!(found, Err(FormatError::bad_field("microzap", "block type", 0, "2^63 + 3")));
        assert!(matches!(parse_micro(&[0; 63], Endian::Big), Err(FormatError::Truncated { need: 64, .. })));
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(name in "[a-z]{1,49}", value: u64, cd: u32) {
            let (little, big) = (Endian::Little, Endian::Big);
            let blocks = [block(&[(name.as_bytes(), value, cd)], little), block(&[(name.as_bytes(), value, cd)], big)];
            let found = parse_micro(&blocks[0], little).unwrap().entries().next();
            prop_assert_eq!(found, parse_micro(&blocks[1], big).unwrap().entries().next());
            prop_assert_eq!(found, Some(MicroEntry { name: name.as_bytes(), value, cd }));
        }

        #[test]
        fn any_bytes_do_not_panic(tail in proptest::collection::vec(any::<u8>(), 0..400)) {
            let bytes = [MICRO_BLOCK_TYPE.to_le_bytes().to_vec(), tail].concat();
            if let Ok(zap) = parse_micro(&bytes, Endian::Little) {
                let _ = zap.entries().count();
            }
        }
    }
}
