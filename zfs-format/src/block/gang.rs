//! Gang blocks: a block whose copies are headers that point to its pieces.

use super::raidz::RaidzRead;
use super::{BlockReader, CopyState};
use crate::codec::checksum;
use crate::endian::OnDisk;
use crate::ondisk::blkptr::{BLKPTR_BYTES, Blkptr};
use crate::ondisk::dmu::{ChecksumKind, ObjectType};
use crate::vdev::LeafId;
use crate::vdev::stripe::Stripe;

/// Size of a classic gang header (`SPA_OLD_GANGBLOCKSIZE`).
pub(super) const HEADER_BYTES: usize = 512;
/// Pointers in a classic header.
const HEADER_POINTERS: usize = 3;
/// Gangs inside gangs: real pools need one or two levels; the bound ends loops.
const DEPTH_MAX: usize = 8;

/// Where a piece of a gang goes.
struct Pending {
    bp: Blkptr,
    depth: usize,
}

impl BlockReader<'_> {
    /// Reads the gang header at one place of `bp`, then its pieces from any good copy, into `payload`.
    ///
    /// `Good` means that the header and every piece are good; the checksum over the whole is for the caller.
    ///
    /// Source: OpenZFS module/zfs/zio.c, `zio_gang_tree_assemble`; include/sys/zio.h, `zio_gbh_phys_t`.
    pub(super) fn read_gang(&self, bp: &Blkptr, leaf: LeafId, device_offset: u64, payload: &mut [u8]) -> CopyState {
        let mut header = [0; HEADER_BYTES];
        match self.read_leaf(leaf, device_offset, &mut header) {
            CopyState::Good if header_matches(bp, &header) => self.read_pieces(bp, &header, payload),
            CopyState::Good => CopyState::BadGang("the gang header does not match its checksum".into()),
            other => other,
        }
    }

    /// The same for a header that lies in stripes: what is judged there is the header.
    pub(super) fn read_gang_stripes(
        &self,
        bp: &Blkptr,
        children: &[Vec<LeafId>],
        stripes: &[Stripe],
        payload: &mut [u8],
    ) -> RaidzRead {
        let mut header = [0; HEADER_BYTES];
        let mut matches = |bytes: &[u8]| bytes.first_chunk().is_some_and(|header| header_matches(bp, header));
        let mut read = self.read_stripes(children, stripes, &mut header, &mut matches);
        if read.is_good {
            read.is_good = self.read_pieces(bp, &header, payload).is_good() && super::judge(bp, payload).is_good();
        }
        read
    }

    /// Reads a gang from any good header and good pieces, without a checksum over the whole.
    pub(super) fn read_gang_payload(&self, bp: &Blkptr, payload: &mut [u8]) -> bool {
        self.read_header(bp).is_some_and(|header| self.read_pieces(bp, &header, payload).is_good())
    }

    /// Reads the pieces that a header names.
    fn read_pieces(&self, bp: &Blkptr, header: &[u8; HEADER_BYTES], payload: &mut [u8]) -> CopyState {
        let mut pending = Vec::new();
        push_pieces(bp, header, 1, &mut pending);
        let mut filled = 0_usize;
        while let Some(Pending { bp: piece, depth }) = pending.pop() {
            if piece.is_gang() {
                if depth >= DEPTH_MAX {
                    return CopyState::BadGang("gangs nested too deeply".into());
                }
                match self.read_header(&piece) {
                    Some(header) => push_pieces(&piece, &header, depth + 1, &mut pending),
                    None => return CopyState::BadGang(format!("no good copy of the gang header {piece}")),
                }
                continue;
            }
            let size = usize::try_from(piece.psize_bytes()).unwrap_or(usize::MAX);
            let target = filled.checked_add(size).and_then(|end| payload.get_mut(filled..end));
            let Some(target) = target else {
                return CopyState::BadGang("the pieces are larger than the block".into());
            };
            if !self.read_piece(&piece, target) {
                return CopyState::BadGang(format!("no good copy of the piece {piece}"));
            }
            filled += size;
        }
        if filled == payload.len() {
            CopyState::Good
        } else {
            CopyState::BadGang(format!("the pieces hold {filled} of {} bytes", payload.len()))
        }
    }

    /// The first good copy of an inner header.
    fn read_header(&self, bp: &Blkptr) -> Option<[u8; HEADER_BYTES]> {
        let mut header = [0; HEADER_BYTES];
        let mut matches = |bytes: &[u8]| bytes.first_chunk().is_some_and(|header| header_matches(bp, header));
        let found = bp.check().is_ok() && bp.dvas().any(|(_, dva)| self.fetch(bp, &dva, &mut header, &mut matches));
        found.then_some(header)
    }

    /// The first good copy of a piece.
    fn read_piece(&self, bp: &Blkptr, target: &mut [u8]) -> bool {
        let mut matches = |bytes: &[u8]| super::judge(bp, bytes).is_good();
        bp.check().is_ok() && bp.dvas().any(|(_, dva)| self.fetch(bp, &dva, target, &mut matches))
    }
}

/// Pushes the pieces of a header so that the first is popped first.
fn push_pieces(bp: &Blkptr, header: &[u8; HEADER_BYTES], depth: usize, pending: &mut Vec<Pending>) {
    for index in (0..HEADER_POINTERS).rev() {
        let bytes = header.get(index * BLKPTR_BYTES..).unwrap_or_default();
        if let Ok(piece) = Blkptr::parse(bytes, bp.endian())
            && !piece.is_hole()
        {
            pending.push(Pending { bp: piece, depth });
        }
    }
}

/// The header's own checksum: sha256 seeded with address and physical birth of the pointer. Where the gang holds
/// encrypted data the stored words are folded as those of any block with a MAC.
fn header_matches(bp: &Blkptr, header: &[u8; HEADER_BYTES]) -> bool {
    let Some(dva) = bp.dva(0) else { return false };
    let verifier = [u64::from(dva.vdev), dva.offset_bytes, bp.physical_birth_txg().0, 0];
    let protected = bp.is_protected() && bp.object_type() != ObjectType::OBJSET;
    checksum::embedded_sha256_words(header, verifier)
        .is_some_and(|(_, computed, stored)| checksum::matches(ChecksumKind::GANG_HEADER, computed, stored, protected))
}
