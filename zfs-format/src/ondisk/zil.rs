//! The intent log: its header in an object set, the blocks of its chain, and the records in them.
//!
//! Checksums and the linkage of one block to the next are judged elsewhere; here is only where things lie.

mod body;

pub use body::Operation;

use super::blkptr::{Blkptr, RawBlkptr};
use super::dmu::ChecksumKind;
use super::dnode::indirect_blkptrs;
use super::label::{ECK_MAGIC, endian_by_magic};
use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use crate::units::{ObjectId, Txg};
use std::fmt;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of the header in an object set.
pub const ZIL_HEADER_BYTES: usize = 192;

/// `zil_header_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawZilHeader<O: ByteOrder> {
    claim_txg: U64<O>,
    replay_seq: U64<O>,
    log: RawBlkptr<O>,
    claim_blk_seq: U64<O>,
    flags: U64<O>,
    claim_lr_seq: U64<O>,
    pad: [U64<O>; 3],
}
const _: () = assert!(size_of::<RawZilHeader<zerocopy::LittleEndian>>() == ZIL_HEADER_BYTES);

/// `zil_header_t`: where the intent log of an object set starts, and how far it was claimed.
///
/// The header of a snapshot is a copy of the head's and means nothing; that of the MOS is empty.
///
/// Source: OpenZFS include/sys/zil.h, `zil_header_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZilHeader {
    /// The txg in which the log was claimed; 0 when it was not.
    pub claim_txg: Txg,
    /// The last record that was replayed.
    pub replay_seq: u64,
    /// The first block of the chain; a hole when there is no log.
    pub log: Blkptr,
    /// The sequence number of the last claimed block.
    pub claim_blk_seq: u64,
    /// Flag bits: [`ZilHeader::REPLAY_NEEDED`], [`ZilHeader::CLAIM_LR_SEQ_VALID`].
    pub flags: u64,
    /// The sequence number of the last claimed record.
    pub claim_lr_seq: u64,
}

impl ZilHeader {
    /// The claimed log has records that were not replayed.
    pub const REPLAY_NEEDED: u64 = 1;
    /// `claim_lr_seq` means something.
    pub const CLAIM_LR_SEQ_VALID: u64 = 2;

    /// The last claimed record, when the header says so.
    #[must_use]
    pub fn claimed_record_seq(&self) -> Option<u64> {
        (self.flags & Self::CLAIM_LR_SEQ_VALID != 0).then_some(self.claim_lr_seq)
    }
}

impl OnDisk for ZilHeader {
    const NAME: &'static str = "zil header";
    type Raw<O: ByteOrder> = RawZilHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawZilHeader<O>) -> Result<Self, FormatError> {
        Ok(Self {
            claim_txg: Txg(raw.claim_txg.get()),
            replay_seq: raw.replay_seq.get(),
            log: Blkptr::from_raw(&raw.log)?,
            claim_blk_seq: raw.claim_blk_seq.get(),
            flags: raw.flags.get(),
            claim_lr_seq: raw.claim_lr_seq.get(),
        })
    }
}

/// Size of the chain structure in each block of the log.
pub const ZIL_CHAIN_BYTES: usize = 184;
/// Where its embedded checksum starts.
const ZIL_CHAIN_ECK_OFFSET: usize = 144;

/// `zil_chain_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawZilChain<O: ByteOrder> {
    pad: U64<O>,
    next: RawBlkptr<O>,
    used: U64<O>,
    magic: U64<O>,
    checksum: [U64<O>; 4],
}
const _: () = assert!(size_of::<RawZilChain<zerocopy::LittleEndian>>() == ZIL_CHAIN_BYTES);

/// `zil_chain_t`: how a block of the log is linked to the next.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 8 | 128 | pointer to the next block |
/// | 136 | 8 | bytes used |
/// | 144 | 40 | embedded checksum |
///
/// Source: OpenZFS include/sys/zil.h, `zil_chain_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZilChain {
    /// The next block; it may never have been written.
    pub next: Blkptr,
    /// Bytes used, the chain structure included when it is at the start.
    pub used_bytes: u64,
    /// The stored checksum.
    pub checksum: [u64; 4],
}

impl OnDisk for ZilChain {
    const NAME: &'static str = "zil chain";
    type Raw<O: ByteOrder> = RawZilChain<O>;

    fn from_raw<O: ByteOrder>(raw: &RawZilChain<O>) -> Result<Self, FormatError> {
        if raw.magic.get() != ECK_MAGIC {
            return Err(FormatError::bad_field(Self::NAME, "magic", raw.magic.get(), "0x0210da7ab10c7a11"));
        }
        Ok(Self {
            next: Blkptr::from_raw(&raw.next)?,
            used_bytes: raw.used.get(),
            checksum: raw.checksum.map(U64::get),
        })
    }
}

/// A block of the log, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct ZilBlock<'a> {
    /// The byte order of the whole block, told by the magic.
    pub endian: Endian,
    /// The link to the next block.
    pub chain: ZilChain,
    records: &'a [u8],
}

impl<'a> ZilBlock<'a> {
    /// Finds chain and records in a block whose pointer has the checksum `kind`.
    ///
    /// With [`ChecksumKind::ZILOG2`] the chain is at the start and records follow it; with [`ChecksumKind::ZILOG`] (old
    /// pools) it is at the end and records start at 0.
    ///
    /// # Errors
    /// [`FormatError::Truncated`]; [`FormatError::BadField`] when the magic is wrong in both byte orders, the used bytes
    /// do not fit the block, or `kind` is neither of the two.
    pub fn parse(block: &'a [u8], kind: ChecksumKind) -> Result<Self, FormatError> {
        const WHAT: &str = ZilChain::NAME;
        let truncated = FormatError::Truncated { what: WHAT, need: ZIL_CHAIN_BYTES, have: block.len() };
        let chain_at = block.len().checked_sub(ZIL_CHAIN_BYTES).ok_or(truncated)?;
        let (chain_at, first, last) = match kind {
            ChecksumKind::ZILOG2 => (0, ZIL_CHAIN_BYTES, block.len()),
            ChecksumKind::ZILOG => (chain_at, 0, chain_at),
            _ => return Err(FormatError::bad_field(WHAT, "checksum kind", kind.0.into(), "5 or 9")),
        };
        let bytes = block.get(chain_at..).unwrap_or_default();
        let expected = "0x0210da7ab10c7a11";
        let endian = endian_by_magic(WHAT, bytes, ZIL_CHAIN_ECK_OFFSET, ZIL_CHAIN_BYTES, ECK_MAGIC, expected)?;
        let chain = ZilChain::parse(bytes, endian)?;
        let end = usize::try_from(chain.used_bytes).ok().filter(|end| (first..=last).contains(end));
        let end = end.ok_or(FormatError::bad_field(WHAT, "used", chain.used_bytes, "a place in the block"))?;
        Ok(Self { endian, chain, records: block.get(first..end).unwrap_or_default() })
    }

    /// The records in order. After one whose length is not possible the rest cannot be read: the error is the last item.
    pub fn records(&self) -> impl Iterator<Item = Result<ZilRecord<'a>, FormatError>> + use<'a> {
        let endian = self.endian;
        let mut rest = self.records;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let record = ZilRecord::parse(rest, endian);
            let step = record.as_ref().map_or(rest.len(), |record| record.bytes.len());
            rest = rest.get(step..).unwrap_or_default();
            Some(record)
        })
    }
}

/// `TX_*`: what a record asks to be done.
///
/// Source: OpenZFS include/sys/zil.h.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxType(pub u64);

const TX_NAMES: [&str; 25] = [
    "COMMIT",
    "CREATE",
    "MKDIR",
    "MKXATTR",
    "SYMLINK",
    "REMOVE",
    "RMDIR",
    "LINK",
    "RENAME",
    "WRITE",
    "TRUNCATE",
    "SETATTR",
    "ACL_V0",
    "ACL",
    "CREATE_ACL",
    "CREATE_ATTR",
    "CREATE_ACL_ATTR",
    "MKDIR_ACL",
    "MKDIR_ATTR",
    "MKDIR_ACL_ATTR",
    "WRITE2",
    "SETSAXATTR",
    "RENAME_EXCHANGE",
    "RENAME_WHITEOUT",
    "CLONE_RANGE",
];

impl TxType {
    /// Data of a file; see [`ZilRecord::write`].
    pub const WRITE: Self = Self(9);
    /// Marks a write whose data is already in the file.
    pub const WRITE2: Self = Self(20);
    /// Blocks of another file; see [`ZilRecord::clone_range`].
    pub const CLONE_RANGE: Self = Self(24);

    /// The name without its `TX_`, `None` when the value is not known.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        TX_NAMES.get(usize::try_from(self.0).ok()?).copied()
    }
}

impl fmt::Display for TxType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "record type {}", self.0),
        }
    }
}

impl fmt::Debug for TxType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `lr_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawRecordHeader<O: ByteOrder> {
    tx_type: U64<O>,
    reclen: U64<O>,
    txg: U64<O>,
    seq: U64<O>,
}
const _: () = assert!(size_of::<RawRecordHeader<zerocopy::LittleEndian>>() == RECORD_HEADER_BYTES);

const RECORD_HEADER_BYTES: usize = 32;

struct RecordHeader {
    tx_type: u64,
    reclen: u64,
    txg: Txg,
    seq: u64,
}

impl OnDisk for RecordHeader {
    const NAME: &'static str = "zil record";
    type Raw<O: ByteOrder> = RawRecordHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawRecordHeader<O>) -> Result<Self, FormatError> {
        Ok(Self { tx_type: raw.tx_type.get(), reclen: raw.reclen.get(), txg: Txg(raw.txg.get()), seq: raw.seq.get() })
    }
}

/// `lr_t` and what follows it: one record, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZilRecord<'a> {
    /// What is to be done.
    pub tx_type: TxType,
    /// Names in the record compare without regard to case.
    pub is_case_insensitive: bool,
    /// The txg in which it was done.
    pub txg: Txg,
    /// Sequence number in the log.
    pub seq: u64,
    /// The whole record, its header of 32 bytes included.
    pub bytes: &'a [u8],
    /// The byte order of the block.
    pub endian: Endian,
}

impl<'a> ZilRecord<'a> {
    const NAME: &'static str = RecordHeader::NAME;

    /// Reads the record at the start of `rest`, which holds the rest of the block.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when the record is longer than `rest`, [`FormatError::BadField`] when its length is
    /// less than its header or no multiple of 8.
    pub fn parse(rest: &'a [u8], endian: Endian) -> Result<Self, FormatError> {
        let header = RecordHeader::parse(rest, endian)?;
        let length = usize::try_from(header.reclen).unwrap_or(usize::MAX);
        if length < RECORD_HEADER_BYTES || length % 8 != 0 {
            return Err(FormatError::bad_field(Self::NAME, "reclen", header.reclen, "a multiple of 8, at least 32"));
        }
        let truncated = FormatError::Truncated { what: Self::NAME, need: length, have: rest.len() };
        Ok(Self {
            tx_type: TxType(bits::<0, 63>(header.tx_type)),
            is_case_insensitive: bits::<63, 1>(header.tx_type) == 1,
            txg: header.txg,
            seq: header.seq,
            bytes: rest.get(..length).ok_or(truncated)?,
            endian,
        })
    }

    /// The object the record names first: the file of a write, the directory of a creation or removal.
    #[must_use]
    pub fn object(&self) -> Option<ObjectId> {
        self.endian.u64_at(self.bytes, RECORD_HEADER_BYTES).map(ObjectId)
    }

    /// The record as a write, `None` when it is something else.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when the record is shorter than a write.
    pub fn write(&self) -> Result<Option<TxWrite<'a>>, FormatError> {
        if self.tx_type != TxType::WRITE {
            return Ok(None);
        }
        let mut write = WriteFields::parse(self.bytes, self.endian)?.0;
        write.inline_data = self.bytes.get(WRITE_BYTES..).unwrap_or_default();
        Ok(Some(write))
    }

    /// The record as a clone of blocks, `None` when it is something else.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when the record is shorter than its pointers.
    pub fn clone_range(&self) -> Result<Option<TxCloneRange>, FormatError> {
        if self.tx_type != TxType::CLONE_RANGE {
            return Ok(None);
        }
        let mut range = CloneFields::parse(self.bytes, self.endian)?;
        let need = usize::try_from(range.count).unwrap_or(usize::MAX).saturating_mul(super::blkptr::BLKPTR_BYTES);
        let have = self.bytes.get(CLONE_RANGE_BYTES..).unwrap_or_default();
        let pointers = have.get(..need).ok_or(FormatError::Truncated { what: Self::NAME, need, have: have.len() })?;
        range.found.blkptrs = indirect_blkptrs(pointers, self.endian).collect();
        Ok(Some(range.found))
    }
}

/// Bytes of a write before its data.
const WRITE_BYTES: usize = 192;

/// `lr_write_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawTxWrite<O: ByteOrder> {
    header: RawRecordHeader<O>,
    object: U64<O>,
    offset: U64<O>,
    length: U64<O>,
    block_offset: U64<O>,
    bp: RawBlkptr<O>,
}
const _: () = assert!(size_of::<RawTxWrite<zerocopy::LittleEndian>>() == WRITE_BYTES);

/// `lr_write_t`: data of a file, in a block of its own or in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxWrite<'a> {
    /// The file.
    pub object: ObjectId,
    /// Where in the file.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// Not used by current writers.
    pub block_offset_bytes: u64,
    /// The block with the data (a whole block of the file even if `length_bytes` is less); a hole when it is inline.
    pub bp: Blkptr,
    /// What follows the pointer: the data when `bp` is a hole, padded to 8.
    pub inline_data: &'a [u8],
}

struct WriteFields(TxWrite<'static>);

impl OnDisk for WriteFields {
    const NAME: &'static str = RecordHeader::NAME;
    type Raw<O: ByteOrder> = RawTxWrite<O>;

    fn from_raw<O: ByteOrder>(raw: &RawTxWrite<O>) -> Result<Self, FormatError> {
        Ok(Self(TxWrite {
            object: ObjectId(raw.object.get()),
            offset_bytes: raw.offset.get(),
            length_bytes: raw.length.get(),
            block_offset_bytes: raw.block_offset.get(),
            bp: Blkptr::from_raw(&raw.bp)?,
            inline_data: &[],
        }))
    }
}

/// Bytes of a clone before its pointers.
const CLONE_RANGE_BYTES: usize = 72;

/// `lr_clone_range_t` as stored, without its pointers.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawTxCloneRange<O: ByteOrder> {
    header: RawRecordHeader<O>,
    object: U64<O>,
    offset: U64<O>,
    length: U64<O>,
    block_size: U64<O>,
    count: U64<O>,
}
const _: () = assert!(size_of::<RawTxCloneRange<zerocopy::LittleEndian>>() == CLONE_RANGE_BYTES);

/// `lr_clone_range_t`: blocks that a file shares with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxCloneRange {
    /// The file.
    pub object: ObjectId,
    /// Where in the file.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// Block size of the file.
    pub block_bytes: u64,
    /// The shared blocks.
    pub blkptrs: Vec<Blkptr>,
}

struct CloneFields {
    found: TxCloneRange,
    count: u64,
}

impl OnDisk for CloneFields {
    const NAME: &'static str = RecordHeader::NAME;
    type Raw<O: ByteOrder> = RawTxCloneRange<O>;

    fn from_raw<O: ByteOrder>(raw: &RawTxCloneRange<O>) -> Result<Self, FormatError> {
        let found = TxCloneRange {
            object: ObjectId(raw.object.get()),
            offset_bytes: raw.offset.get(),
            length_bytes: raw.length.get(),
            block_bytes: raw.block_size.get(),
            blkptrs: Vec::new(),
        };
        Ok(Self { found, count: raw.count.get() })
    }
}

#[cfg(test)]
mod tests;
