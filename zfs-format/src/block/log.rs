//! Blocks of an intent log. Their checksum lies inside them, seeded with the checksum words of the pointer.

use super::{BlockReader, CopyState, Work, bounded, is_mac_split};
use crate::codec::checksum::{embedded_fletcher_words, matches};
use crate::endian::OnDisk;
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::dmu::ChecksumKind;
use crate::ondisk::zil::{ZIL_CHAIN_BYTES, ZilChain};

/// Where the `zio_eck` lies in the chain structure.
const ECK_OFFSET: usize = 144;
/// What the newer form covers is rounded up to this.
const COVER_BYTES: u64 = 4096;

impl BlockReader<'_> {
    /// Reads the first good copy of a block of an intent log; [`Work::plain`] then holds it. False when none is good,
    /// which is how a log normally ends: the last pointer leads to a block that was never written.
    ///
    /// Source: OpenZFS module/zfs/zil.c, `zil_read_log_block`; module/zfs/zio_checksum.c, `zio_checksum_error_impl`.
    pub fn read_log(&self, bp: &Blkptr, work: &mut Work) -> bool {
        work.plain.clear();
        let Some(psize) = bounded(bp.psize_bytes()).ok().filter(|_| bp.check().is_ok()) else { return false };
        if !bp.is_gang() {
            let mut search = work.search(psize, false);
            let judge = &mut |block: &[u8]| match log_matches(bp, block) {
                true => CopyState::Good,
                false => CopyState::BadChecksum,
            };
            self.search(bp, &mut search, judge, &mut |_, _, _| {});
            let is_found = search.is_found;
            if is_found {
                work.plain.extend_from_slice(&work.payload);
            }
            return is_found;
        }
        // A log block that had to be a gang: its pieces are judged by sums of their own, the whole by that of the log.
        self.read_gang_log(bp, work)
    }

    fn read_gang_log(&self, bp: &Blkptr, work: &mut Work) -> bool {
        let _ = self.examine_gang(bp, work, false, &mut |_, _, _| {});
        if log_matches(bp, &work.payload) {
            work.plain.extend_from_slice(&work.payload);
            return true;
        }
        false
    }
}

/// True when the embedded checksum holds.
fn log_matches(bp: &Blkptr, block: &[u8]) -> bool {
    let kind = bp.checksum_kind();
    let (covered, eck_offset) = match kind {
        ChecksumKind::ZILOG => (block.len(), block.len().saturating_sub(ZIL_CHAIN_BYTES) + ECK_OFFSET),
        ChecksumKind::ZILOG2 => {
            let Ok(chain) =
                ZilChain::parse(block, bp.endian()).or_else(|_| ZilChain::parse(block, bp.endian().swapped()))
            else {
                return false;
            };
            let covered = chain.used_bytes.checked_next_multiple_of(COVER_BYTES).unwrap_or(u64::MAX);
            (usize::try_from(covered).unwrap_or(usize::MAX), ECK_OFFSET)
        }
        _ => return false,
    };
    block
        .get(..covered)
        .and_then(|area| embedded_fletcher_words(kind, area, eck_offset, bp.checksum()))
        .is_some_and(|(_, computed, stored)| matches(kind, computed, stored, is_mac_split(bp)))
}
