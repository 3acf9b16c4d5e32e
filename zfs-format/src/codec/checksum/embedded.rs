//! Checksums kept inside the block they cover: labels, uberblocks, gang headers, intent log blocks.
//!
//! | `zio_eck` offset | size | content |
//! | --- | --- | --- |
//! | 0 | 8 | magic 0x0210da7ab10c7a11, tells the byte order |
//! | 8 | 32 | four checksum words; while the sum is taken, the verifier stands here |
//!
//! Source: OpenZFS include/sys/zio_checksum.h, `zio_eck_t`; module/zfs/zio_checksum.c, `zio_checksum_error_impl`.

use super::sha::{sha256, words};
use super::{Checksum, fletcher2, fletcher4};
use crate::Endian;
use crate::ondisk::dmu::ChecksumKind;

const ECK_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
const ECK_BYTES: usize = 40;

/// What the embedded checksum of an area says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedded {
    /// The checksum holds; written in this byte order.
    Valid(Endian),
    /// The magic is there in this byte order, the checksum does not hold.
    Bad(Endian),
    /// The magic is there in neither order, or the area is too short for it: nothing was written here.
    Absent,
}

/// Continues a sum over more bytes.
type Append = fn(Endian, Checksum, &[u8]) -> Checksum;

/// The parts of an area around its `zio_eck`.
struct Parts<'a> {
    endian: Endian,
    before: &'a [u8],
    stored: Checksum,
    after: &'a [u8],
}

fn split(area: &[u8], eck_offset: usize) -> Option<Parts<'_>> {
    let (before, rest) = area.split_at_checked(eck_offset.checked_add(8)?)?;
    let (stored, after) = rest.split_first_chunk::<32>()?;
    let magic = before.last_chunk::<8>()?;
    let endian = [Endian::Little, Endian::Big].into_iter().find(|endian| endian.u64(*magic) == ECK_MAGIC)?;
    Some(Parts { endian, before, stored: words(endian, stored), after })
}

fn verifier_bytes(endian: Endian, verifier: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(verifier) {
        *chunk = match endian {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        };
    }
    bytes
}

/// Byte order, computed words and stored words of an area whose last 40 bytes are a `zio_eck` with SHA-256.
///
/// `None` when the magic is absent. The words are for callers that compare in their own way: a gang header of
/// encrypted data is judged by [`matches`](super::matches) with [`ChecksumKind::GANG_HEADER`] (which folds, unlike
/// SHA256) and `protected` set.
#[must_use]
pub fn embedded_sha256_words(area: &[u8], verifier: [u64; 4]) -> Option<(Endian, Checksum, Checksum)> {
    let Parts { endian, before, stored, after } = split(area, area.len().checked_sub(ECK_BYTES)?)?;
    Some((endian, sha256(&[before, &verifier_bytes(endian, verifier), after]), stored))
}

/// Checks a label area, an uberblock slot or a gang header: its last 40 bytes are a `zio_eck` with SHA-256.
///
/// The verifier of label areas and uberblocks is (byte offset of the area on the device, 0, 0, 0); of gang headers
/// (vdev, offset, birth txg, 0) of the address and pointer that led here.
///
/// Source: OpenZFS module/zfs/zio_checksum.c, `zio_checksum_label_verifier`, `zio_checksum_gang_verifier`.
#[must_use]
pub fn verify_embedded_sha256(area: &[u8], verifier: [u64; 4]) -> Embedded {
    match embedded_sha256_words(area, verifier) {
        Some((endian, computed, stored)) if computed == stored => Embedded::Valid(endian),
        Some((endian, ..)) => Embedded::Bad(endian),
        None => Embedded::Absent,
    }
}

/// Byte order, computed words and stored words of an intent log block.
///
/// `area` is what the sum covers: for `zilog2` the bytes in use rounded up to 4096, for `zilog` the whole block.
/// `eck_offset` is where the `zio_eck` starts in it; `verifier` are the checksum words of the pointer to the block.
///
/// `None` when the magic is absent, when `kind` is neither `zilog` (fletcher2) nor `zilog2` (fletcher4), and when the
/// checksum words do not lie on a boundary of the words that are summed (16 and 4 bytes), which no real block does.
///
/// Source: OpenZFS module/zfs/zio_checksum.c, `zio_checksum_error_impl`; include/sys/zil.h, `zil_chain_t`.
#[must_use]
pub fn embedded_fletcher_words(
    kind: ChecksumKind,
    area: &[u8],
    eck_offset: usize,
    verifier: [u64; 4],
) -> Option<(Endian, Checksum, Checksum)> {
    let Parts { endian, before, stored, after } = split(area, eck_offset)?;
    let (append, unit_bytes): (Append, usize) = match kind {
        ChecksumKind::ZILOG => (fletcher2::append, 16),
        ChecksumKind::ZILOG2 => (fletcher4::append, 4),
        _ => return None,
    };
    if !before.len().is_multiple_of(unit_bytes) {
        return None;
    }
    let sums = append(endian, [0; 4], before);
    let sums = append(endian, sums, &verifier_bytes(endian, verifier));
    Some((endian, append(endian, sums, after), stored))
}
