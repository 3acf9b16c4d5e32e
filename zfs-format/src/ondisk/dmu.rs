//! The closed sets of the DMU: object types, checksum and compression algorithms.
//!
//! They are newtypes with constants, so that a value this library does not know survives and prints.

use std::fmt;

/// How the content of a block, or of a bonus buffer, is laid out in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapClass {
    /// Bytes.
    U8,
    /// 16-bit words.
    U16,
    /// 32-bit words.
    U32,
    /// 64-bit words.
    U64,
    /// A ZAP block.
    Zap,
    /// A block of dnodes.
    Dnode,
    /// An object set.
    Objset,
    /// A legacy znode.
    Znode,
    /// A version 0 ACL.
    OldAcl,
    /// An ACL.
    Acl,
}

/// `dmu_object_type_t`: what an object, a block or a bonus buffer holds.
///
/// Values below 54 are listed in a table; values with bit 7 set carry their properties themselves
/// (0x40 metadata, 0x20 encrypted kind, low 5 bits swap class).
///
/// Source: OpenZFS include/sys/dmu.h, `dmu_object_type_t`; module/zfs/dmu.c, `dmu_ot`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectType(pub u8);

/// (name, swap class, metadata, encrypted kind) of the listed types.
const OBJECT_TYPES: [(&str, SwapClass, bool, bool); 54] = {
    use SwapClass::{Acl, Dnode, Objset, OldAcl, U8, U64, Zap, Znode};
    [
        ("unallocated", U8, true, false),
        ("object directory", Zap, true, false),
        ("object array", U64, true, false),
        ("packed nvlist", U8, true, false),
        ("packed nvlist size", U64, true, false),
        ("bpobj", U64, true, false),
        ("bpobj header", U64, true, false),
        ("SPA space map header", U64, true, false),
        ("SPA space map", U64, true, false),
        ("ZIL intent log", U64, true, true),
        ("DMU dnode", Dnode, true, true),
        ("DMU objset", Objset, true, false),
        ("DSL directory", U64, true, false),
        ("DSL directory child map", Zap, true, false),
        ("DSL dataset snap map", Zap, true, false),
        ("DSL props", Zap, true, false),
        ("DSL dataset", U64, true, false),
        ("ZFS znode", Znode, true, false),
        ("ZFS V0 ACL", OldAcl, true, true),
        ("ZFS plain file", U8, false, true),
        ("ZFS directory", Zap, true, true),
        ("ZFS master node", Zap, true, false),
        ("ZFS delete queue", Zap, true, true),
        ("zvol object", U8, false, true),
        ("zvol prop", Zap, true, false),
        ("other uint8[]", U8, false, true),
        ("other uint64[]", U64, false, true),
        ("other ZAP", Zap, true, false),
        ("persistent error log", Zap, true, false),
        ("SPA history", U8, true, false),
        ("SPA history offsets", U64, true, false),
        ("Pool properties", Zap, true, false),
        ("DSL permissions", Zap, true, false),
        ("ZFS ACL", Acl, true, true),
        ("ZFS SYSACL", U8, true, true),
        ("FUID table", U8, true, true),
        ("FUID table size", U64, true, false),
        ("DSL dataset next clones", Zap, true, false),
        ("scan work queue", Zap, true, false),
        ("ZFS user/group/project used", Zap, true, true),
        ("ZFS user/group/project quota", Zap, true, true),
        ("snapshot refcount tags", Zap, true, false),
        ("DDT ZAP algorithm", Zap, true, false),
        ("DDT statistics", Zap, true, false),
        ("System attributes", U8, true, true),
        ("SA master node", Zap, true, true),
        ("SA attr registration", Zap, true, true),
        ("SA attr layouts", Zap, true, true),
        ("scan translations", Zap, true, false),
        ("deduplicated block", U8, false, true),
        ("DSL deadlist map", Zap, true, false),
        ("DSL deadlist map hdr", U64, true, false),
        ("DSL dir clones", Zap, true, false),
        ("bpobj subobj", U64, true, false),
    ]
};

impl ObjectType {
    /// A free slot; also the type of gang children.
    pub const NONE: Self = Self(0);
    /// The MOS object directory (MOS object 1).
    pub const OBJECT_DIRECTORY: Self = Self(1);
    /// An array of object numbers.
    pub const OBJECT_ARRAY: Self = Self(2);
    /// A packed nvlist.
    pub const PACKED_NVLIST: Self = Self(3);
    /// Bonus of a packed nvlist: its length.
    pub const PACKED_NVLIST_SIZE: Self = Self(4);
    /// A list of block pointers.
    pub const BPOBJ: Self = Self(5);
    /// Bonus of a bpobj.
    pub const BPOBJ_HDR: Self = Self(6);
    /// Bonus of a space map.
    pub const SPACE_MAP_HEADER: Self = Self(7);
    /// A space map.
    pub const SPACE_MAP: Self = Self(8);
    /// An intent log block.
    pub const INTENT_LOG: Self = Self(9);
    /// A block of dnodes.
    pub const DNODE: Self = Self(10);
    /// An object set.
    pub const OBJSET: Self = Self(11);
    /// Bonus of a DSL directory.
    pub const DSL_DIR: Self = Self(12);
    /// Bonus of a DSL dataset.
    pub const DSL_DATASET: Self = Self(16);
    /// Bonus of a file in file systems without system attributes.
    pub const ZNODE: Self = Self(17);
    /// A file.
    pub const PLAIN_FILE: Self = Self(19);
    /// A directory.
    pub const DIRECTORY: Self = Self(20);
    /// The ZPL master node (object 1).
    pub const MASTER_NODE: Self = Self(21);
    /// The data of a zvol (object 1).
    pub const ZVOL: Self = Self(23);
    /// The properties of a zvol (object 2).
    pub const ZVOL_PROP: Self = Self(24);
    /// System attributes, in a bonus or a spill block.
    pub const SA: Self = Self(44);

    /// True for values the format defines: a listed type, or bit 7 with a known swap class.
    #[must_use]
    pub fn is_valid(self) -> bool {
        if self.0 & 0x80 != 0 { self.0 & 0x1f <= 9 } else { usize::from(self.0) < OBJECT_TYPES.len() }
    }

    fn row(self) -> Option<&'static (&'static str, SwapClass, bool, bool)> {
        if self.0 & 0x80 != 0 { None } else { OBJECT_TYPES.get(usize::from(self.0)) }
    }

    /// The name `zdb` prints; unknown values get a number from [`fmt::Display`].
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self.0 {
            0xC3 => Some("bp metadata uint64"),
            0xC4 => Some("zap metadata"),
            _ => self.row().map(|row| row.0),
        }
    }

    /// How a level-0 block or a bonus of this type is laid out; `None` for undefined values.
    #[must_use]
    pub fn swap_class(self) -> Option<SwapClass> {
        if self.0 & 0x80 == 0 {
            return self.row().map(|row| row.1);
        }
        Some(match self.0 & 0x1f {
            0 => SwapClass::U8,
            1 => SwapClass::U16,
            2 => SwapClass::U32,
            3 => SwapClass::U64,
            4 => SwapClass::Zap,
            5 => SwapClass::Dnode,
            6 => SwapClass::Objset,
            7 => SwapClass::Znode,
            8 => SwapClass::OldAcl,
            9 => SwapClass::Acl,
            _ => return None,
        })
    }

    /// Counts as metadata (`DMU_OT_IS_METADATA`).
    #[must_use]
    pub fn is_metadata(self) -> bool {
        if self.0 & 0x80 != 0 { self.0 & 0x40 != 0 } else { self.row().is_none_or(|row| row.2) }
    }

    /// Encrypted at level 0 in an encrypted dataset (`DMU_OT_IS_ENCRYPTED`).
    #[must_use]
    pub fn is_encrypted_kind(self) -> bool {
        if self.0 & 0x80 != 0 { self.0 & 0x20 != 0 } else { self.row().is_some_and(|row| row.3) }
    }
}

impl fmt::Display for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "object type {:#x}", self.0),
        }
    }
}

impl fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.0)
    }
}

/// `enum zio_checksum`: the algorithm that covers a block.
///
/// Source: OpenZFS include/sys/zio.h, `enum zio_checksum`; module/zfs/zio_checksum.c, `zio_checksum_table`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChecksumKind(pub u8);

const CHECKSUM_NAMES: [&str; 15] = [
    "inherit",
    "on",
    "off",
    "label",
    "gang_header",
    "zilog",
    "fletcher2",
    "fletcher4",
    "sha256",
    "zilog2",
    "noparity",
    "sha512",
    "skein",
    "edonr",
    "blake3",
];

impl ChecksumKind {
    /// Nothing is verified.
    pub const OFF: Self = Self(2);
    /// Label areas and uberblocks: sha256 with the offset as verifier.
    pub const LABEL: Self = Self(3);
    /// Gang headers: sha256 with address and birth as verifier.
    pub const GANG_HEADER: Self = Self(4);
    /// Legacy intent log blocks: fletcher2, embedded.
    pub const ZILOG: Self = Self(5);
    /// Sums of 64-bit words.
    pub const FLETCHER2: Self = Self(6);
    /// Sums of 32-bit words; the default.
    pub const FLETCHER4: Self = Self(7);
    /// SHA-256.
    pub const SHA256: Self = Self(8);
    /// Intent log blocks: fletcher4, embedded.
    pub const ZILOG2: Self = Self(9);
    /// Nothing is verified, raidz parity neither.
    pub const NOPARITY: Self = Self(10);
    /// SHA-512/256.
    pub const SHA512: Self = Self(11);
    /// Skein-512-256 keyed with the pool's salt.
    pub const SKEIN: Self = Self(12);
    /// Edon-R-512 with the pool's salt.
    pub const EDONR: Self = Self(13);
    /// BLAKE3 keyed with the pool's salt.
    pub const BLAKE3: Self = Self(14);

    /// True when the value is one the format defines.
    #[must_use]
    pub fn is_valid(self) -> bool {
        usize::from(self.0) < CHECKSUM_NAMES.len()
    }

    /// True when the block carries no checksum at all.
    #[must_use]
    pub fn is_none(self) -> bool {
        matches!(self, Self::OFF | Self::NOPARITY)
    }

    /// Strong enough to trust for dedup without comparing; decides how a MAC shares the checksum words.
    #[must_use]
    pub fn is_dedup_strong(self) -> bool {
        matches!(self, Self::SHA256 | Self::SHA512 | Self::SKEIN | Self::BLAKE3)
    }

    /// Computed with the pool's salt: without it nothing can be said of a block.
    #[must_use]
    pub fn is_salted(self) -> bool {
        matches!(self, Self::SKEIN | Self::EDONR | Self::BLAKE3)
    }
}

impl fmt::Display for ChecksumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CHECKSUM_NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "checksum {}", self.0),
        }
    }
}

impl fmt::Debug for ChecksumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `enum zio_compress`: how a block's payload is stored.
///
/// Source: OpenZFS include/sys/zio_compress.h, `enum zio_compress`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompressKind(pub u8);

const COMPRESS_NAMES: [&str; 17] = [
    "inherit", "on", "off", "lzjb", "empty", "gzip-1", "gzip-2", "gzip-3", "gzip-4", "gzip-5", "gzip-6", "gzip-7",
    "gzip-8", "gzip-9", "zle", "lz4", "zstd",
];

impl CompressKind {
    /// Stored as it is.
    pub const OFF: Self = Self(2);
    /// LZJB.
    pub const LZJB: Self = Self(3);
    /// No stored data at all.
    pub const EMPTY: Self = Self(4);
    /// The first of nine gzip levels.
    pub const GZIP_1: Self = Self(5);
    /// The last of nine gzip levels.
    pub const GZIP_9: Self = Self(13);
    /// Runs of zeros.
    pub const ZLE: Self = Self(14);
    /// LZ4.
    pub const LZ4: Self = Self(15);
    /// Zstandard.
    pub const ZSTD: Self = Self(16);

    /// True when the value is one the format defines.
    #[must_use]
    pub fn is_valid(self) -> bool {
        usize::from(self.0) < COMPRESS_NAMES.len()
    }
}

impl fmt::Display for CompressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match COMPRESS_NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "compression {}", self.0),
        }
    }
}

impl fmt::Debug for CompressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_style_types_carry_their_properties() {
        let zap = ObjectType(0xC4);
        assert!(zap.is_valid() && zap.is_metadata() && !zap.is_encrypted_kind());
        assert_eq!(zap.swap_class(), Some(SwapClass::Zap));
        let data = ObjectType(0xA0);
        assert!(!data.is_metadata() && data.is_encrypted_kind());
        assert!(!ObjectType(0x8a).is_valid());
        assert!(!ObjectType(54).is_valid());
    }

    #[test]
    fn unknown_values_print_their_number() {
        assert_eq!(ChecksumKind(77).to_string(), "checksum 77");
        assert_eq!(CompressKind(99).to_string(), "compression 99");
        assert_eq!(ObjectType(0x7f).to_string(), "object type 0x7f");
        assert_eq!(ObjectType::PLAIN_FILE.to_string(), "ZFS plain file");
    }
}
