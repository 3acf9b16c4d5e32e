//! Object sets: the root of the MOS, of each file system, snapshot and volume.

use super::dnode::{DNODE_SLOT_BYTES, Dnode};
use super::zil::ZilHeader;
use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use std::fmt;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// `os_type`: what an object set is.
///
/// Source: OpenZFS include/sys/fs/zfs.h, `dmu_objset_type_t`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsType(pub u64);

impl OsType {
    /// Not set.
    pub const NONE: Self = Self(0);
    /// The MOS.
    pub const META: Self = Self(1);
    /// A file system.
    pub const ZFS: Self = Self(2);
    /// A volume.
    pub const ZVOL: Self = Self(3);
    /// Used by tests of OpenZFS only.
    pub const OTHER: Self = Self(4);

    /// The name, `None` when the value is not known.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            0 => Some("NONE"),
            1 => Some("META"),
            2 => Some("ZPL"),
            3 => Some("ZVOL"),
            4 => Some("OTHER"),
            _ => None,
        }
    }
}

impl fmt::Display for OsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "objset type {:#x}", self.0),
        }
    }
}

impl fmt::Debug for OsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The part of `objset_phys_t` between its first dnode and its accounting dnodes, as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawObjsetTail<O: ByteOrder> {
    os_type: U64<O>,
    flags: U64<O>,
    portable_mac: [u8; 32],
    local_mac: [u8; 32],
}
const _: () = assert!(size_of::<RawObjsetTail<zerocopy::LittleEndian>>() == 80);

/// `objset_phys_t`.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 512 | meta-dnode |
/// | 512 | 192 | ZIL header |
/// | 704 | 16 | type, flags |
/// | 720 | 32 + 32 | portable and local MAC (bytes, never swapped) |
/// | 1024 | 512 + 512 | user and group accounting dnodes, when the block has 2048 bytes or more |
/// | 2048 | 512 | project accounting dnode, when the block has 4096 bytes |
///
/// Source: OpenZFS include/sys/dmu_objset.h, `objset_phys_t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objset {
    /// The object whose data is the array of all dnodes.
    pub meta_dnode: Dnode,
    /// The intent log.
    pub zil_header: ZilHeader,
    /// What the object set is.
    pub os_type: OsType,
    /// Flag bits, `Objset::FLAG_*`.
    pub flags: u64,
    /// MAC over what stays the same when the dataset is sent raw.
    pub portable_mac: [u8; 32],
    /// MAC over the accounting objects.
    pub local_mac: [u8; 32],
    /// Space per user; `None` when absent or free.
    pub userused: Option<Dnode>,
    /// Space per group; `None` when absent or free.
    pub groupused: Option<Dnode>,
    /// Space per project; `None` when absent or free.
    pub projectused: Option<Dnode>,
}

struct Tail {
    os_type: OsType,
    flags: u64,
    portable_mac: [u8; 32],
    local_mac: [u8; 32],
}

impl OnDisk for Tail {
    const NAME: &'static str = "objset";
    type Raw<O: ByteOrder> = RawObjsetTail<O>;

    fn from_raw<O: ByteOrder>(raw: &RawObjsetTail<O>) -> Result<Self, FormatError> {
        Ok(Self {
            os_type: OsType(raw.os_type.get()),
            flags: raw.flags.get(),
            portable_mac: raw.portable_mac,
            local_mac: raw.local_mac,
        })
    }
}

impl Objset {
    /// User accounting is complete.
    pub const FLAG_USERACCOUNTING_COMPLETE: u64 = 1;
    /// Accounting of object counts is complete.
    pub const FLAG_USEROBJACCOUNTING_COMPLETE: u64 = 2;
    /// Project accounting is complete.
    pub const FLAG_PROJECTQUOTA_COMPLETE: u64 = 4;

    /// Reads an object set from its whole block.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when the block is not 1024, 2048 or 4096 bytes long, when the meta-dnode is free, and
    /// when one of the dnodes is broken.
    pub fn parse(block: &[u8], endian: Endian) -> Result<Self, FormatError> {
        if !matches!(block.len(), 1024 | 2048 | 4096) {
            let found = u64::try_from(block.len()).unwrap_or(u64::MAX);
            return Err(FormatError::bad_field("objset", "size", found, "1024, 2048 or 4096"));
        }
        // Each dnode here has one slot: a larger one would reach into the next field.
        let dnode_at = |offset: usize| {
            let end = offset.saturating_add(DNODE_SLOT_BYTES);
            block.get(offset..end).map_or(Ok(None), |slot| Dnode::parse(slot, endian))
        };
        let meta_dnode =
            dnode_at(0)?.ok_or(FormatError::bad_field("objset", "meta-dnode type", 0, "10 (DMU dnode)"))?;
        let Tail { os_type, flags, portable_mac, local_mac } =
            Tail::parse(block.get(704..).unwrap_or_default(), endian)?;
        Ok(Self {
            meta_dnode,
            zil_header: ZilHeader::parse(block.get(512..).unwrap_or_default(), endian)?,
            os_type,
            flags,
            portable_mac,
            local_mac,
            userused: dnode_at(1024)?,
            groupused: dnode_at(1536)?,
            projectused: dnode_at(2048)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::dmu::ObjectType;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    fn dnode(object_type: u8, endian: Endian) -> Vec<u8> {
        let mut bytes = vec![object_type, 17, 1, 3, 0, 0, 0, 1];
        bytes.extend_from_slice(if endian == Endian::Big { &[0, 32] } else { &[32, 0] });
        bytes.resize(512, 0);
        bytes
    }

    fn objset(size: usize, endian: Endian) -> Vec<u8> {
        let mut block = dnode(10, endian);
        block.extend_from_slice(&stored(&numbered(24), endian));
        block.extend_from_slice(&stored(&[2, 7], endian));
        block.extend_from_slice(&[0x11; 32]);
        block.extend_from_slice(&[0x22; 32]);
        block.resize(1024, 0);
        block.extend_from_slice(&dnode(39, endian));
        block.resize(2048, 0);
        block.extend_from_slice(&dnode(39, endian));
        block.resize(4096, 0);
        block.truncate(size);
        block
    }

    #[test]
    fn fields_come_from_their_offsets_for_every_size_and_byte_order() {
        for endian in [Endian::Little, Endian::Big] {
            let parse = |size| Objset::parse(&objset(size, endian), endian).unwrap();
            let found = parse(4096);
            assert_eq!(found.meta_dnode.object_type, ObjectType::DNODE);
            assert_eq!(found.meta_dnode.data_block_bytes, 16384);
            assert_eq!(found.zil_header.claim_lr_seq, 20);
            assert_eq!((found.os_type, found.flags), (OsType::ZFS, 7));
            assert_eq!((found.portable_mac, found.local_mac), ([0x11; 32], [0x22; 32]));
            assert!(found.userused.is_some() && found.groupused.is_none() && found.projectused.is_some());
            assert!(parse(2048).userused.is_some() && parse(2048).projectused.is_none());
            assert!(parse(1024).userused.is_none());
        }
    }

    #[test]
    fn each_bad_field_is_named() {
        let field = |block: &[u8]| match Objset::parse(block, Endian::Little) {
            Err(FormatError::BadField { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(&[0; 1023]), "size");
        assert_eq!(field(&[0; 8192]), "size");
        assert_eq!(field(&[0; 1024]), "meta-dnode type");
        let mut broken = objset(4096, Endian::Little);
        broken[1024 + 2] = 0;
        assert_eq!(field(&broken), "nlevels");
    }

    #[test]
    fn unknown_types_print_their_number() {
        assert_eq!(OsType(9).to_string(), "objset type 0x9");
        assert_eq!(OsType::ZVOL.to_string(), "ZVOL");
    }

    proptest! {
        #[test]
        fn any_bytes_do_not_panic(mut block in proptest::collection::vec(any::<u8>(), 4096), head in 0..4_u8) {
            block[0..4].fill(head);
            for size in [1024, 2048, 4096] {
                let _ = Objset::parse(&block[..size], Endian::Little);
            }
        }
    }
}
