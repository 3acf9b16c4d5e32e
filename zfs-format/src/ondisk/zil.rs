//! The intent log: its header in an object set, the blocks of its chain, and the records in them.
//!
//! Checksums and the linkage of one block to the next are judged elsewhere; here is only where things lie.

use super::blkptr::{Blkptr, RawBlkptr};
use crate::FormatError;
use crate::endian::OnDisk;
use crate::units::Txg;
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

#[cfg(test)]
mod tests;
