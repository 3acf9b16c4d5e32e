//! Gang blocks: a block whose addresses lead to headers that point to its pieces.

use super::copies::Search;
use super::{
    BlockReader, CopyRead, CopyState, MacState, OnBad, ReadError, Redundancy, Role, Verification, Work, bounded,
};
use crate::codec::checksum;
use crate::endian::OnDisk;
use crate::ondisk::blkptr::{BLKPTR_BYTES, Blkptr, Dva};
use crate::ondisk::dmu::{ChecksumKind, ObjectType};
use crate::ondisk::label::ECK_BYTES;

/// Size of a classic header (`SPA_OLD_GANGBLOCKSIZE`), and the smallest of a dynamic one.
const CLASSIC_BYTES: usize = 512;
/// Gangs inside gangs: real pools need one or two levels; the bound ends loops.
const DEPTH_MAX: usize = 8;
/// Pieces of one block: each holds at least a sector of it.
const PIECES_MAX: usize = 32_768;

/// What the headers of one gang gave.
struct Headers {
    copies: Vec<CopyRead>,
    redundancy: Redundancy,
    /// The pointers of the first good header.
    pieces: Option<Vec<Blkptr>>,
}

impl BlockReader<'_> {
    /// Looks at a gang: each copy of each header, each copy of each piece, and the block they make together.
    ///
    /// [`Work`]'s payload then holds that block, unless it is lost.
    ///
    /// Source: OpenZFS module/zfs/zio.c, `zio_gang_tree_assemble`; include/sys/zio.h, `zio_gbh_phys_t`.
    pub(super) fn examine_gang(&self, bp: &Blkptr, work: &mut Work, all: bool, on_bad: OnBad<'_>) -> Verification {
        let psize = bounded(bp.psize_bytes()).unwrap_or(0);
        let mut copies = Vec::new();
        let mut payload = Vec::new();
        let mut is_whole = true;
        let mut pending = vec![(*bp, 0_usize)];
        let mut pieces = 0;
        let mut redundancy: Option<Redundancy> = None;
        // Each header and each piece is needed.
        let mut join = |part: &Redundancy| match &mut redundancy {
            Some(whole) => whole.join(part),
            None => redundancy = Some(*part),
        };
        while let Some((at, depth)) = pending.pop() {
            pieces += 1;
            // Pieces that hold more than the block does would fill the memory.
            let is_too_long = !at.is_gang() && at.psize_bytes() > (psize - payload.len()) as u64;
            if depth > DEPTH_MAX || pieces > PIECES_MAX || is_too_long {
                let why = "gangs nested too deeply, or pieces larger than the block";
                copies.push(whole(bp, CopyState::Broken(why.into())));
                is_whole = false;
                break;
            }
            if at.is_gang() {
                let headers = self.headers(&at, all, on_bad);
                copies.extend(headers.copies);
                join(&headers.redundancy);
                match headers.pieces {
                    Some(found) => pending.extend(found.into_iter().rev().map(|piece| (piece, depth + 1))),
                    None => is_whole = false,
                }
                continue;
            }
            let mut piece = Work::default();
            let verification = self.examine_copies(&at, &mut piece, all, on_bad);
            is_whole &= !verification.is_lost && !verification.copies.is_empty();
            copies.extend(verification.copies);
            join(&verification.redundancy);
            payload.extend_from_slice(piece.payload.get(..psize - payload.len()).unwrap_or(&piece.payload));
        }
        let verdict = match is_whole {
            true if payload.len() == psize => self.judge(bp, &payload),
            _ => CopyState::BadChecksum,
        };
        if is_whole && !verdict.is_good() {
            let why = || format!("the pieces, {} bytes, do not make the block of {psize}", payload.len());
            let is_unknown = verdict.is_unknown();
            copies.push(whole(bp, if is_unknown { verdict } else { CopyState::Broken(why()) }));
            is_whole = false;
        }
        work.payload = payload;
        let plain = if is_whole { Ok(()) } else { Err(ReadError::NoGoodCopy { copies: copies.clone() }) };
        let redundancy = redundancy.unwrap_or_default();
        Verification { copies, is_lost: !is_whole, redundancy, mac: MacState::Unchecked, plain }
    }

    /// Looks at the copies of one header.
    fn headers(&self, bp: &Blkptr, all: bool, on_bad: OnBad<'_>) -> Headers {
        let size = self.header_bytes(bp);
        let mut pieces = None;
        let mut work = Work::default();
        let mut search = work.search(size, all);
        if bp.check().is_ok() {
            let judge = &mut |header: &[u8]| match pointers(bp, header) {
                Some(found) => {
                    pieces.get_or_insert(found);
                    CopyState::Good
                }
                None => CopyState::BadChecksum,
            };
            self.search(bp, &mut search, judge, on_bad);
        }
        let Search { copies, strengths, .. } = search;
        Headers { copies, redundancy: Redundancy::new(&strengths), pieces }
    }

    /// Size of the area a header may fill: the smallest allocation on the vdevs it lies on.
    ///
    /// Source: OpenZFS module/zfs/zio.c, `vdev_gang_header_psize`.
    fn header_bytes(&self, bp: &Blkptr) -> usize {
        let ashift = |dva: Dva| self.tree.tops.get(dva.vdev as usize)?.as_ref().map(|top| top.ashift);
        let smallest = bp.dvas().filter_map(|(_, dva)| ashift(dva)).min().unwrap_or(9);
        1 << smallest.clamp(9, 16)
    }
}

/// An entry that stands for the block as a whole.
fn whole(bp: &Blkptr, state: CopyState) -> CopyRead {
    let dva = bp.dva(0).unwrap_or_default();
    CopyRead { role: Role::Copy, length_bytes: bp.psize_bytes(), state, ..CopyRead::missing(0, dva) }
}

/// The pointers of a header whose checksum holds. A pool that has dynamic headers may hold classic ones from before.
fn pointers(bp: &Blkptr, area: &[u8]) -> Option<Vec<Blkptr>> {
    let header = [area, area.get(..CLASSIC_BYTES)?].into_iter().find(|header| header_matches(bp, header))?;
    let pointers = header.get(..header.len().checked_sub(ECK_BYTES)?)?.chunks_exact(BLKPTR_BYTES);
    let pieces = pointers.filter_map(|bytes| Blkptr::parse(bytes, bp.endian()).ok());
    Some(pieces.filter(|piece| !piece.is_hole()).collect())
}

/// The header's own checksum: sha256 seeded with address and physical birth of the pointer. Where the gang holds
/// encrypted data the stored words are folded as those of any block with a MAC.
fn header_matches(bp: &Blkptr, header: &[u8]) -> bool {
    let Some(dva) = bp.dva(0) else { return false };
    let verifier = [u64::from(dva.vdev), dva.offset_bytes, bp.physical_birth_txg().0, 0];
    let protected = bp.is_protected() && bp.object_type() != ObjectType::OBJSET;
    checksum::embedded_sha256_words(header, verifier)
        .is_some_and(|(_, computed, stored)| checksum::matches(ChecksumKind::GANG_HEADER, computed, stored, protected))
}
