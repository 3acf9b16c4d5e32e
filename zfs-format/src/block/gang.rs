//! Gang blocks: a block whose copies are headers that point to its pieces.

use super::{BlockReader, CopyState};
use crate::codec::checksum;
use crate::endian::OnDisk;
use crate::ondisk::blkptr::{BLKPTR_BYTES, Blkptr};
use crate::ondisk::dmu::{ChecksumKind, ObjectType};
use crate::vdev::{LeafId, Place};

/// Size of a classic gang header (`SPA_OLD_GANGBLOCKSIZE`).
const HEADER_BYTES: usize = 512;
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
            CopyState::Good => {}
            other => return other,
        }
        if !header_matches(bp, &header) {
            return CopyState::BadGang("the gang header does not match its checksum".into());
        }
        let mut pending = Vec::new();
        push_pieces(bp, &header, 1, &mut pending);
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
        self.any_place(bp, |reader, leaf, offset| {
            reader.read_leaf(leaf, offset, &mut header).is_good() && header_matches(bp, &header)
        })
        .then_some(header)
    }

    /// The first good copy of a piece.
    fn read_piece(&self, bp: &Blkptr, target: &mut [u8]) -> bool {
        self.any_place(bp, |reader, leaf, offset| {
            reader.read_leaf(leaf, offset, target).is_good() && super::judge(bp, target).is_good()
        })
    }

    fn any_place(&self, bp: &Blkptr, mut attempt: impl FnMut(&Self, LeafId, u64) -> bool) -> bool {
        bp.check().is_ok()
            && bp.dvas().flat_map(|(_, dva)| self.tree.places(&dva)).any(|place| match place {
                Place::Leaf { leaf, device_offset_bytes } => attempt(self, leaf, device_offset_bytes),
                _ => false,
            })
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
