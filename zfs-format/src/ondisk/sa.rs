//! System attributes: the bonus (and spill block) of files since ZPL version 5.
//!
//! A bonus names a layout; the layout lists attribute numbers; the registry says what each number is and how long.
//! Both tables are ZAPs of the file system and differ between file systems. The magic tells the byte order, which is that
//! of the writer of the attributes and may differ from that of the dnode's block.

use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use std::collections::BTreeMap;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U16, U32, Unaligned};

/// First 32 bits of a bonus or spill block of attributes.
pub const SA_MAGIC: u32 = 0x2F_505A;
/// The layout number of an empty bonus.
pub const SA_LAYOUT_EMPTY: u16 = 1;

const WHAT: &str = "system attributes";
/// Bytes of the header before the lengths of variable attributes.
const FIXED_HEADER_BYTES: usize = 6;

/// One kind of attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaAttribute {
    /// Such as `ZPL_MODE`.
    pub name: String,
    /// Its number in layouts.
    pub number: u16,
    /// Its length, 0 when each file has its own.
    pub length_bytes: u16,
    /// How its content is swapped: 0 u64, 1 u32, 2 u16, 3 bytes, 4 ACL.
    pub swap_class: u8,
}

/// The attributes of a file system, by number.
///
/// Source: OpenZFS include/sys/sa_impl.h, `ATTR_*` macros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaRegistry {
    attributes: BTreeMap<u16, SaAttribute>,
}

impl SaRegistry {
    /// Adds an entry of the ZAP `REGISTRY`: bits 0-15 number, 16-23 swap class, 24-39 length.
    pub fn insert(&mut self, name: &[u8], value: u64) {
        let low = |word: u64| u16::try_from(word & 0xffff).unwrap_or(0);
        let number = low(value);
        let attribute = SaAttribute {
            name: String::from_utf8_lossy(name).into_owned(),
            number,
            length_bytes: low(value >> 24),
            swap_class: u8::try_from(bits::<16, 8>(value)).unwrap_or(0),
        };
        self.attributes.insert(number, attribute);
    }

    /// The attribute with this number.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&SaAttribute> {
        self.attributes.get(&number)
    }
}

/// The layouts of a file system: which attributes follow each other, by layout number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaLayouts {
    layouts: BTreeMap<u16, Vec<u16>>,
}

impl SaLayouts {
    /// Adds an entry of the ZAP `LAYOUTS`: the name is the number in decimal, the value an array of attribute numbers.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when the name is no number below 1024 or a value is no attribute number.
    pub fn insert(&mut self, name: &[u8], attributes: impl IntoIterator<Item = u64>) -> Result<(), FormatError> {
        let text = std::str::from_utf8(name).unwrap_or_default();
        let number = text.parse::<u16>().ok().filter(|&number| number < 1024);
        let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
        let number = number.ok_or(FormatError::bad_field(WHAT, "layout name", length, "a number below 1024"))?;
        let bad = |found| FormatError::bad_field(WHAT, "attribute number", found, "16 bits");
        let attributes = attributes.into_iter().map(|found| u16::try_from(found).map_err(|_| bad(found)));
        self.layouts.insert(number, attributes.collect::<Result<_, _>>()?);
        Ok(())
    }

    /// The attribute numbers of a layout, in order. The empty layout is known without a table.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&[u16]> {
        match self.layouts.get(&number) {
            Some(attributes) => Some(attributes),
            None if number == SA_LAYOUT_EMPTY => Some(&[]),
            None => None,
        }
    }
}

/// The fixed part of `sa_hdr_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSaHeader<O: ByteOrder> {
    magic: U32<O>,
    layout_info: U16<O>,
}
const _: () = assert!(size_of::<RawSaHeader<zerocopy::LittleEndian>>() == FIXED_HEADER_BYTES);

/// `sa_hdr_phys_t`.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 4 | magic |
/// | 4 | 2 | bits 0-9 layout, bits 10-15 size of the header / 8 |
/// | 6 | 2 each | lengths of the variable attributes, in the order of the layout |
///
/// Source: OpenZFS include/sys/sa_impl.h, `sa_hdr_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaHeader {
    /// Layout number.
    pub layout: u16,
    /// Size of the header: a multiple of 8, where the first attribute starts.
    pub header_bytes: usize,
}

impl OnDisk for SaHeader {
    const NAME: &'static str = WHAT;
    type Raw<O: ByteOrder> = RawSaHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawSaHeader<O>) -> Result<Self, FormatError> {
        if raw.magic.get() != SA_MAGIC {
            return Err(FormatError::bad_field(WHAT, "magic", raw.magic.get().into(), "0x2f505a"));
        }
        let info = raw.layout_info.get();
        let header_bytes = usize::from(info >> 10).saturating_mul(8);
        if header_bytes == 0 {
            return Err(FormatError::bad_field(WHAT, "header size", 0, "at least 8"));
        }
        Ok(Self { layout: info & 0x3ff, header_bytes })
    }
}

/// The attributes in one bonus or spill block, borrowed.
#[derive(Clone, Debug)]
pub struct SaAttributes<'a> {
    /// The byte order of the header and of all attributes.
    pub endian: Endian,
    /// The header.
    pub header: SaHeader,
    attributes: Vec<(&'a SaAttribute, &'a [u8])>,
}

impl<'a> SaAttributes<'a> {
    /// Finds the attributes in `bytes`, a bonus of type 44 or a spill block.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when an attribute ends after `bytes` does; [`FormatError::BadField`] when the magic is
    /// wrong in both byte orders, the layout or an attribute of it is not known, or the header has no length for a
    /// variable attribute.
    ///
    /// Source: OpenZFS module/zfs/sa.c, `sa_attr_iter`.
    pub fn parse(bytes: &'a [u8], registry: &'a SaRegistry, layouts: &'a SaLayouts) -> Result<Self, FormatError> {
        let endian = sa_endian(bytes)?;
        let header = SaHeader::parse(bytes, endian)?;
        let numbers = layouts.get(header.layout).ok_or(FormatError::bad_field(
            WHAT,
            "layout",
            header.layout.into(),
            "a layout of this file system",
        ))?;
        let mut found = Self { endian, header, attributes: Vec::with_capacity(numbers.len()) };
        let mut start = header.header_bytes;
        let mut length_at = FIXED_HEADER_BYTES;
        for &number in numbers {
            let attribute = registry.get(number).ok_or(FormatError::bad_field(
                WHAT,
                "attribute number",
                number.into(),
                "an attribute of this file system",
            ))?;
            let length = if attribute.length_bytes == 0 {
                let at = length_at;
                length_at = length_at.saturating_add(2);
                if length_at > header.header_bytes {
                    let found = u64::try_from(header.header_bytes).unwrap_or(u64::MAX);
                    return Err(FormatError::bad_field(WHAT, "header size", found, "room for all lengths"));
                }
                endian.u16_at(bytes, at).ok_or_else(|| truncated(length_at, bytes))?
            } else {
                attribute.length_bytes
            };
            let end = start.saturating_add(length.into());
            let content = bytes.get(start..end).ok_or_else(|| truncated(end, bytes))?;
            found.attributes.push((attribute, content));
            start = end.checked_next_multiple_of(8).unwrap_or(usize::MAX);
        }
        Ok(found)
    }

    /// The content of the attribute with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.attributes.iter().find(|(attribute, _)| attribute.name == name).map(|&(_, content)| content)
    }

    /// The first 64-bit word of the attribute with this name.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        self.endian.u64_at(self.get(name)?, 0)
    }

    /// Attributes and their contents in stored order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a SaAttribute, &'a [u8])> {
        self.attributes.iter().copied()
    }
}

fn truncated(need: usize, bytes: &[u8]) -> FormatError {
    FormatError::Truncated { what: WHAT, need, have: bytes.len() }
}

/// The byte order in which the first four bytes are the magic.
fn sa_endian(bytes: &[u8]) -> Result<Endian, FormatError> {
    let found = Endian::Little.u32_at(bytes, 0).ok_or_else(|| truncated(FIXED_HEADER_BYTES, bytes))?;
    if found == SA_MAGIC {
        Ok(Endian::Little)
    } else if found.swap_bytes() == SA_MAGIC {
        Ok(Endian::Big)
    } else {
        Err(FormatError::bad_field(WHAT, "magic", found.into(), "0x2f505a"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn registry_value(number: u64, swap: u64, length: u64) -> u64 {
        number | (swap << 16) | (length << 24)
    }

    /// MODE and SIZE of 8 bytes, MTIME of 16, DACL_ACES and SYMLINK of any length; layout 2 has them all.
    pub(in crate::ondisk) fn tables() -> (SaRegistry, SaLayouts) {
        let mut registry = SaRegistry::default();
        registry.insert(b"ZPL_MODE", registry_value(5, 0, 8));
        registry.insert(b"ZPL_SIZE", registry_value(6, 0, 8));
        registry.insert(b"ZPL_MTIME", registry_value(1, 0, 16));
        registry.insert(b"ZPL_DACL_ACES", registry_value(18, 4, 0));
        registry.insert(b"ZPL_SYMLINK", registry_value(17, 3, 0));
        let mut layouts = SaLayouts::default();
        layouts.insert(b"2", [5, 18, 6, 17, 1]).unwrap();
        layouts.insert(b"3", [5, 99]).unwrap();
        (registry, layouts)
    }

    /// A bonus of layout 2 with an ACL of 12 bytes and a link of 3.
    pub(in crate::ondisk) fn bonus(endian: Endian) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |big_endian: &[u8]| {
            let mut field = big_endian.to_vec();
            if endian == Endian::Little {
                field.reverse();
            }
            bytes.extend(field);
        };
        put(&SA_MAGIC.to_be_bytes());
        put(&((2_u16 << 10) | 2).to_be_bytes());
        put(&12_u16.to_be_bytes());
        put(&3_u16.to_be_bytes());
        put(&[0; 6]);
        put(&0o120_777_u64.to_be_bytes());
        put(&[0xac; 16]);
        put(&3_u64.to_be_bytes());
        let mut tail = b"abc\0\0\0\0\0".to_vec();
        if endian == Endian::Little {
            tail.reverse();
        }
        put(&tail);
        put(&100_u64.to_be_bytes());
        put(&200_u64.to_be_bytes());
        bytes
    }

    #[test]
    fn attributes_follow_the_layout_each_aligned_to_eight() {
        let (registry, layouts) = tables();
        for endian in [Endian::Little, Endian::Big] {
            let bytes = bonus(endian);
            let found = SaAttributes::parse(&bytes, &registry, &layouts).unwrap();
            assert_eq!((found.endian, found.header.layout, found.header.header_bytes), (endian, 2, 16));
            assert_eq!((found.u64("ZPL_MODE"), found.u64("ZPL_SIZE")), (Some(0o120_777), Some(3)));
            assert_eq!(found.get("ZPL_DACL_ACES"), Some([0xac; 12].as_slice()));
            assert_eq!(found.get("ZPL_SYMLINK"), Some(b"abc".as_slice()));
            assert_eq!(found.get("ZPL_MTIME").map(<[u8]>::len), Some(16));
            assert_eq!((found.u64("ZPL_MTIME"), found.get("ZPL_GEN")), (Some(100), None));
            let names: Vec<_> = found.iter().map(|(attribute, _)| attribute.number).collect();
            assert_eq!(names, [5, 18, 6, 17, 1]);
        }
    }

    #[test]
    fn registry_values_are_unpacked() {
        let (registry, _) = tables();
        let acl = registry.get(18).unwrap();
        assert_eq!((acl.name.as_str(), acl.number, acl.length_bytes, acl.swap_class), ("ZPL_DACL_ACES", 18, 0, 4));
        assert_eq!(registry.get(1).unwrap().length_bytes, 16);
    }

    #[test]
    fn the_empty_layout_needs_no_table() {
        let bytes = [0x5a, 0x50, 0x2f, 0x00, 0x01, 0x04, 0, 0];
        let (registry, layouts) = (SaRegistry::default(), SaLayouts::default());
        assert_eq!(SaAttributes::parse(&bytes, &registry, &layouts).unwrap().iter().count(), 0);
    }

    #[test]
    fn each_bad_field_is_named() {
        let (registry, mut layouts) = tables();
        let field = |at: usize, byte: u8| {
            let mut bytes = bonus(Endian::Big);
            bytes[at] = byte;
            match SaAttributes::parse(&bytes, &registry, &layouts) {
                Err(FormatError::BadField { field, .. }) => field,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(field(0, 1), "magic");
        assert_eq!(field(4, 0), "header size");
        assert_eq!(field(4, 1 << 2), "header size");
        assert_eq!(field(5, 7), "layout");
        assert_eq!(field(5, 3), "attribute number");
        assert!(matches!(layouts.insert(b"x", []), Err(FormatError::BadField { field: "layout name", .. })));
        assert!(matches!(layouts.insert(b"1024", []), Err(FormatError::BadField { field: "layout name", .. })));
        assert!(matches!(layouts.insert(b"4", [65536]), Err(FormatError::BadField { field: "attribute number", .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_do_not_panic(tail in proptest::collection::vec(any::<u8>(), 0..90), layout in 0..4_u8) {
            let (registry, layouts) = tables();
            let bytes = [vec![0x5a, 0x50, 0x2f, 0x00, layout], tail].concat();
            let _ = SaAttributes::parse(&bytes, &registry, &layouts);
            let _ = SaAttributes::parse(&bytes[4..], &registry, &layouts);
        }
    }
}
