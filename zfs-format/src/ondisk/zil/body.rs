//! What a record asks for: the kind of change, the object it touches, the name it gives, the bytes it carries.
//!
//! Source: OpenZFS include/sys/zil.h, `lr_create_t`, `lr_link_t`, `lr_write_t`, `lr_clone_range_t` and what they share.

use super::{TxType, ZilRecord};
use crate::endian::bits;
use crate::units::ObjectId;

/// What a record does; types that differ only in what they carry are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Makes a file, a directory, a symbolic link or a directory of extended attributes.
    Create,
    /// Removes a name.
    Remove,
    /// Gives a file one more name.
    Link,
    /// Moves a name.
    Rename,
    /// Writes data.
    Write,
    /// Frees a range of a file.
    Truncate,
    /// Changes attributes: mode, owner, times, size.
    Setattr,
    /// Changes an access control list.
    Acl,
    /// Changes an extended attribute that lies among the system attributes.
    Setxattr,
    /// Lets a file share blocks of another.
    CloneRange,
    /// Something this version does not know.
    Unknown,
}

impl Operation {
    /// One word, in the plural: `writes`.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Create => "creates",
            Self::Remove => "removes",
            Self::Link => "links",
            Self::Rename => "renames",
            Self::Write => "writes",
            Self::Truncate => "truncates",
            Self::Setattr => "setattrs",
            Self::Acl => "acls",
            Self::Setxattr => "setxattrs",
            Self::CloneRange => "clone_ranges",
            Self::Unknown => "unknown",
        }
    }
}

impl TxType {
    /// What a record of this type does; `None` for a commit, which is never on disk and asks for nothing.
    #[must_use]
    pub fn operation(self) -> Option<Operation> {
        Some(match self.0 {
            0 => return None,
            1..=4 | 14..=19 => Operation::Create,
            5 | 6 => Operation::Remove,
            7 => Operation::Link,
            8 | 22 | 23 => Operation::Rename,
            9 | 20 => Operation::Write,
            10 => Operation::Truncate,
            11 => Operation::Setattr,
            12 | 13 => Operation::Acl,
            21 => Operation::Setxattr,
            24 => Operation::CloneRange,
            _ => Operation::Unknown,
        })
    }
}

/// The second number of a record: the new object of a creation, the file of a link.
const SECOND_OFFSET: usize = 40;
/// How much a write or a clone covers.
const LENGTH_OFFSET: usize = 48;
/// Where the name starts in a creation that carries neither attributes nor an ACL.
const NAME_OFFSET: usize = 104;

impl<'a> ZilRecord<'a> {
    /// The object that is made or changed. `None` for removals and renames, which go by names alone.
    #[must_use]
    pub fn target(&self) -> Option<ObjectId> {
        let second = self.endian.u64_at(self.bytes, SECOND_OFFSET);
        match self.tx_type.operation()? {
            // The upper bits say how many slots the new dnode has.
            Operation::Create => second.map(|word| ObjectId(bits::<0, 48>(word))),
            Operation::Link => second.map(ObjectId),
            Operation::Remove | Operation::Rename | Operation::Unknown => None,
            _ => self.object(),
        }
    }

    /// The name that a plain creation (`CREATE`, `MKDIR`, `SYMLINK`) gives in its directory.
    #[must_use]
    pub fn created_name(&self) -> Option<&'a [u8]> {
        let names = self.bytes.get(NAME_OFFSET..).filter(|_| matches!(self.tx_type.0, 1 | 2 | 4))?;
        names.split(|&byte| byte == 0).next().filter(|name| !name.is_empty())
    }

    /// Bytes of data that a write carries, in the record or in a block of its own.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.length_if(self.tx_type == TxType::WRITE)
    }

    /// Bytes that a clone covers.
    #[must_use]
    pub fn cloned_bytes(&self) -> u64 {
        self.length_if(self.tx_type == TxType::CLONE_RANGE)
    }

    fn length_if(&self, is_one: bool) -> u64 {
        self.endian.u64_at(self.bytes, LENGTH_OFFSET).filter(|_| is_one).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;
    use crate::ondisk::testing::stored;

    /// A record of `words` after its header, and then `tail`.
    fn record(endian: Endian, tx_type: u64, words: &[u64], tail: &[u8]) -> Vec<u8> {
        let length = 32 + 8 * words.len() as u64 + tail.len() as u64;
        let mut bytes = stored(&[&[tx_type, length, 77, 1], words].concat(), endian);
        bytes.extend_from_slice(tail);
        bytes
    }

    /// Type, words, tail; operation, target, name, bytes written and cloned.
    type Row = (u64, &'static [u64], &'static [u8], Operation, Option<u64>, Option<&'static [u8]>, (u64, u64));

    /// Directory, object with its slots, and the other words of a creation.
    const CREATE: &[u64] = &[4, (1 << 56) | 99, 0o100_644, 0, 0, 77, 0, 0, 0];

    #[test]
    fn what_a_record_changes_comes_from_its_place() {
        let rows: [Row; 8] = [
            (1, CREATE, b"name\0\0\0\0", Operation::Create, Some(99), Some(b"name"), (0, 0)),
            (1 << 63 | 2, CREATE, b"Dir\0\0\0\0\0", Operation::Create, Some(99), Some(b"Dir"), (0, 0)),
            (4, CREATE, b"link\0to\0", Operation::Create, Some(99), Some(b"link"), (0, 0)),
            // What carries an ACL has its name elsewhere, a directory of attributes has none.
            (14, CREATE, b"????????", Operation::Create, Some(99), None, (0, 0)),
            (3, CREATE, b"????????", Operation::Create, Some(99), None, (0, 0)),
            (7, &[4, 50], b"a\0\0\0\0\0\0\0", Operation::Link, Some(50), None, (0, 0)),
            (5, &[4], b"a\0\0\0\0\0\0\0", Operation::Remove, None, None, (0, 0)),
            (9, &[34, 4096, 512], b"", Operation::Write, Some(34), None, (512, 0)),
        ];
        for endian in [Endian::Little, Endian::Big] {
            for (tx_type, words, tail, operation, target, name, bytes) in rows {
                let bytes_of = record(endian, tx_type, words, tail);
                let found = ZilRecord::parse(&bytes_of, endian).unwrap();
                assert_eq!(found.tx_type.operation(), Some(operation), "{tx_type}");
                assert_eq!((found.target(), found.created_name()), (target.map(ObjectId), name), "{tx_type}");
                assert_eq!((found.written_bytes(), found.cloned_bytes()), bytes, "{tx_type}");
            }
            // The data of WRITE2 is in the file already; a clone writes none.
            let of = |tx_type| record(endian, tx_type, &[34, 4096, 512], b"");
            let (second, clone) = (of(20), of(24));
            let (second, clone) =
                (ZilRecord::parse(&second, endian).unwrap(), ZilRecord::parse(&clone, endian).unwrap());
            assert_eq!((second.tx_type.operation(), second.written_bytes()), (Some(Operation::Write), 0));
            assert_eq!((clone.written_bytes(), clone.cloned_bytes()), (0, 512));
        }
    }

    #[test]
    fn every_type_with_a_name_is_known_and_a_commit_asks_for_nothing() {
        for tx_type in 0..30 {
            let operation = TxType(tx_type).operation();
            assert_eq!(operation.is_none(), tx_type == 0);
            assert_eq!(operation == Some(Operation::Unknown), TxType(tx_type).name().is_none(), "{tx_type}");
        }
    }

    #[test]
    fn a_record_that_ends_early_says_nothing() {
        for tx_type in 0..30 {
            let bytes = record(Endian::Little, tx_type, &[], b"");
            let found = ZilRecord::parse(&bytes, Endian::Little).unwrap();
            assert_eq!((found.target(), found.created_name()), (None, None));
            assert_eq!((found.written_bytes(), found.cloned_bytes()), (0, 0));
        }
    }
}
