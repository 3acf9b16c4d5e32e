//! What a file system knows of a file, wherever it is kept: in a legacy znode (bonus type 17) or in system attributes
//! (bonus type 44). Also the values of directory entries.

use super::sa::SaAttributes;
use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use crate::units::ObjectId;
use std::fmt;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of a legacy znode; a short symlink target follows it in the bonus.
pub const ZNODE_BYTES: usize = 264;

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds, may be negative.
    pub seconds: i64,
    /// Nanoseconds as stored; at most 999,999,999 in sound files.
    pub nanoseconds: u64,
}

/// The type of a file: the top four bits of its mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileType(pub u8);

impl FileType {
    /// Not known: every entry of a ZPL version 1 directory says so.
    pub const UNKNOWN: Self = Self(0);
    /// Named pipe.
    pub const FIFO: Self = Self(1);
    /// Character device.
    pub const CHARACTER: Self = Self(2);
    /// Directory.
    pub const DIRECTORY: Self = Self(4);
    /// Block device.
    pub const BLOCK: Self = Self(6);
    /// Plain file.
    pub const FILE: Self = Self(8);
    /// Symbolic link.
    pub const LINK: Self = Self(10);
    /// Socket.
    pub const SOCKET: Self = Self(12);

    /// The name, `None` when the value is not known.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self.0 {
            0 => Some("unknown"),
            1 => Some("fifo"),
            2 => Some("character device"),
            4 => Some("directory"),
            6 => Some("block device"),
            8 => Some("file"),
            10 => Some("symbolic link"),
            12 => Some("socket"),
            _ => None,
        }
    }

    /// The type in a mode.
    #[must_use]
    pub fn of_mode(mode: u64) -> Self {
        Self(u8::try_from(bits::<12, 4>(mode)).unwrap_or(0))
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "file type {}", self.0),
        }
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The value of a directory entry: bits 0-47 object, bits 60-63 type.
///
/// Source: OpenZFS include/sys/zfs_znode.h, `ZFS_DIRENT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The file.
    pub object: ObjectId,
    /// Its type; [`FileType::UNKNOWN`] in ZPL version 1.
    pub file_type: FileType,
}

impl DirEntry {
    /// Takes the value apart.
    #[must_use]
    pub fn from_value(value: u64) -> Self {
        let file_type = FileType(u8::try_from(bits::<60, 4>(value)).unwrap_or(0));
        Self { object: ObjectId(bits::<0, 48>(value)), file_type }
    }
}

/// `znode_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawZnode<O: ByteOrder> {
    atime: [U64<O>; 2],
    mtime: [U64<O>; 2],
    ctime: [U64<O>; 2],
    crtime: [U64<O>; 2],
    generation: U64<O>,
    mode: U64<O>,
    size: U64<O>,
    parent: U64<O>,
    links: U64<O>,
    xattr: U64<O>,
    rdev: U64<O>,
    flags: U64<O>,
    uid: U64<O>,
    gid: U64<O>,
    zap: U64<O>,
    pad: [U64<O>; 3],
    acl_object: U64<O>,
    acl: [u8; 80],
}
const _: () = assert!(size_of::<RawZnode<zerocopy::LittleEndian>>() == ZNODE_BYTES);

/// The attributes of a file. Those that the bonus does not hold are `None`; attributes may be in the spill block.
///
/// Source: OpenZFS include/sys/zfs_znode.h, `znode_phys_t`; include/sys/zfs_sa.h, `zpl_attr_t`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// Type and permissions, as `st_mode`.
    pub mode: Option<u64>,
    /// Size of a file, number of entries of a directory, length of a link's target.
    pub size: Option<u64>,
    /// The txg in which the file was made.
    pub generation: Option<u64>,
    /// The directory that holds the file (one of them); of an extended attribute, its file.
    pub parent: Option<ObjectId>,
    /// Number of names.
    pub links: Option<u64>,
    /// Flag bits: see [`FileAttributes::FLAG_XATTR`].
    pub flags: Option<u64>,
    /// The directory of extended attributes. May name a freed object in pools damaged by old versions.
    pub xattr: Option<ObjectId>,
    /// Device number.
    pub rdev: Option<u64>,
    /// Owner; the upper half is an index of the FUID table.
    pub uid: Option<u64>,
    /// Group; the upper half is an index of the FUID table.
    pub gid: Option<u64>,
    /// Project.
    pub project: Option<u64>,
    /// Last access.
    pub atime: Option<Timestamp>,
    /// Last change of the content.
    pub mtime: Option<Timestamp>,
    /// Last change of the attributes.
    pub ctime: Option<Timestamp>,
    /// Creation.
    pub crtime: Option<Timestamp>,
    /// An ACL kept in an object of its own (legacy).
    pub acl_object: Option<ObjectId>,
    /// The target of a link, when it is here and not in the file's data.
    pub symlink: Option<Vec<u8>>,
    /// Extended attributes kept here: an XDR nvlist of byte arrays.
    pub dxattr: Option<Vec<u8>>,
}

/// Object numbers on disk use 0 for "none".
fn object(word: u64) -> Option<ObjectId> {
    (word != 0).then_some(ObjectId(word))
}

fn timestamp(seconds: u64, nanoseconds: u64) -> Timestamp {
    Timestamp { seconds: seconds.cast_signed(), nanoseconds }
}

impl OnDisk for FileAttributes {
    const NAME: &'static str = "znode";
    type Raw<O: ByteOrder> = RawZnode<O>;

    fn from_raw<O: ByteOrder>(raw: &RawZnode<O>) -> Result<Self, FormatError> {
        let time = |[seconds, nanoseconds]: [U64<O>; 2]| Some(timestamp(seconds.get(), nanoseconds.get()));
        Ok(Self {
            mode: Some(raw.mode.get()),
            size: Some(raw.size.get()),
            generation: Some(raw.generation.get()),
            parent: object(raw.parent.get()),
            links: Some(raw.links.get()),
            flags: Some(raw.flags.get()),
            xattr: object(raw.xattr.get()),
            rdev: Some(raw.rdev.get()),
            uid: Some(raw.uid.get()),
            gid: Some(raw.gid.get()),
            project: None,
            atime: time(raw.atime),
            mtime: time(raw.mtime),
            ctime: time(raw.ctime),
            crtime: time(raw.crtime),
            acl_object: object(raw.acl_object.get()),
            symlink: None,
            dxattr: None,
        })
    }
}

impl FileAttributes {
    /// The object is an extended attribute, or a directory of them.
    pub const FLAG_XATTR: u64 = 1;

    /// Reads a legacy znode from a bonus of type 17.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] for less than 264 bytes.
    pub fn from_znode(bonus: &[u8], endian: Endian) -> Result<Self, FormatError> {
        let mut found = Self::parse(bonus, endian)?;
        if found.file_type() == FileType::LINK {
            let length = found.size.and_then(|size| usize::try_from(size).ok());
            let end = length.and_then(|length| ZNODE_BYTES.checked_add(length));
            found.symlink = end.and_then(|end| bonus.get(ZNODE_BYTES..end)).map(<[u8]>::to_vec);
        }
        Ok(found)
    }

    /// Takes over the attributes that a bonus or a spill block holds; the others stay.
    pub fn add_sa(&mut self, attributes: &SaAttributes<'_>) {
        let endian = attributes.endian;
        for (attribute, content) in attributes.iter() {
            let word = endian.u64_at(content, 0);
            let time = || Some(timestamp(word?, endian.u64_at(content, 8)?));
            match attribute.name.as_str() {
                "ZPL_MODE" => self.mode = word,
                "ZPL_SIZE" => self.size = word,
                "ZPL_GEN" => self.generation = word,
                "ZPL_PARENT" => self.parent = word.and_then(object),
                "ZPL_LINKS" => self.links = word,
                "ZPL_FLAGS" => self.flags = word,
                "ZPL_XATTR" => self.xattr = word.and_then(object),
                "ZPL_RDEV" => self.rdev = word,
                "ZPL_UID" => self.uid = word,
                "ZPL_GID" => self.gid = word,
                "ZPL_PROJID" => self.project = word,
                "ZPL_ATIME" => self.atime = time(),
                "ZPL_MTIME" => self.mtime = time(),
                "ZPL_CTIME" => self.ctime = time(),
                "ZPL_CRTIME" => self.crtime = time(),
                "ZPL_ZNODE_ACL" => self.acl_object = word.and_then(object),
                "ZPL_SYMLINK" => self.symlink = Some(content.to_vec()),
                "ZPL_DXATTR" => self.dxattr = Some(content.to_vec()),
                _ => {}
            }
        }
    }

    /// The attributes of a bonus of type 44; [`FileAttributes::add_sa`] adds those of the spill block.
    #[must_use]
    pub fn from_sa(attributes: &SaAttributes<'_>) -> Self {
        let mut found = Self::default();
        found.add_sa(attributes);
        found
    }

    /// The type in the mode.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.mode.map_or(FileType::UNKNOWN, FileType::of_mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::sa;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_a_znode_come_from_their_offsets() {
        let file = FileAttributes::from_znode(&stored(&numbered(33), Endian::Big), Endian::Big).unwrap();
        let time = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        assert_eq!((file.atime, file.mtime, file.ctime, file.crtime), (time(0, 1), time(2, 3), time(4, 5), time(6, 7)));
        assert_eq!((file.generation, file.mode, file.size), (Some(8), Some(9), Some(10)));
        assert_eq!((file.parent, file.links, file.xattr), (Some(ObjectId(11)), Some(12), Some(ObjectId(13))));
        assert_eq!((file.rdev, file.flags, file.uid, file.gid), (Some(14), Some(15), Some(16), Some(17)));
        assert_eq!((file.acl_object, file.project, file.symlink), (Some(ObjectId(22)), None, None));
    }

    #[test]
    fn a_short_link_target_follows_the_znode() {
        let mut words = numbered(33);
        (words[9], words[10]) = (0o120_777, 5);
        let bonus = [stored(&words, Endian::Little), b"a/b/c".to_vec()].concat();
        let link = FileAttributes::from_znode(&bonus, Endian::Little).unwrap();
        assert_eq!((link.file_type(), link.symlink), (FileType::LINK, Some(b"a/b/c".to_vec())));
        let elsewhere = FileAttributes::from_znode(&bonus[..ZNODE_BYTES], Endian::Little).unwrap();
        assert_eq!(elsewhere.symlink, None);
    }

    #[test]
    fn system_attributes_fill_what_they_name() {
        let (registry, layouts) = sa::tests::tables();
        for endian in [Endian::Little, Endian::Big] {
            let bytes = sa::tests::bonus(endian);
            let file = FileAttributes::from_sa(&SaAttributes::parse(&bytes, &registry, &layouts).unwrap());
            assert_eq!((file.mode, file.size, file.uid), (Some(0o120_777), Some(3), None));
            assert_eq!(file.mtime, Some(Timestamp { seconds: 100, nanoseconds: 200 }));
            assert_eq!((file.file_type(), file.symlink), (FileType::LINK, Some(b"abc".to_vec())));
        }
    }

    #[test]
    fn a_directory_entry_is_an_object_and_a_type() {
        let entry = DirEntry::from_value((4 << 60) | (0xfff << 48) | 34);
        assert_eq!(entry, DirEntry { object: ObjectId(34), file_type: FileType::DIRECTORY });
        assert_eq!((FileType(3).to_string(), entry.file_type.to_string()), ("file type 3".into(), "directory".into()));
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 33)) {
            let mut words = words;
            words[9] &= 0o7777;
            let little = FileAttributes::from_znode(&stored(&words, Endian::Little), Endian::Little);
            prop_assert_eq!(little, FileAttributes::from_znode(&stored(&words, Endian::Big), Endian::Big));
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = FileAttributes::from_znode(&bytes, Endian::Big);
        }
    }
}
