//! Slices of Solaris: in the second sector of an MBR partition on x86, in the first sector of the disk on SPARC.
//!
//! | offset, x86 | offset, SPARC | size | content |
//! | --- | --- | --- | --- |
//! | 12 | 188 | 4 | sanity 0x600ddeee |
//! | 30 | 140 | 2 | number of slices |
//! | 72 | 142, 444 | 12; 4 and 8 | slices: tag, flag, first sector, sectors; on SPARC tag and flag, then first cylinder, sectors |
//! | | 436, 438 | 2 each | tracks of a cylinder, sectors of a track |
//! | 508, 510 | 508, 510 | 2 each | 0xdabe; exclusive or of the whole sector is 0 |
//!
//! Source: illumos usr/src/uts/common/sys/vtoc.h, dklabel.h; Linux block/partitions/msdos.c, sun.c.

use super::{Partition, Table, array, bytes_at, le16, le32};
use crate::media::ReadAt;

const SECTOR_BYTES: u64 = 512;
const MAGIC: u16 = 0xdabe;
const SANITY: u32 = 0x600d_deee;
const SLICES_MAX: usize = 16;
const SPARC_SLICES: usize = 8;

/// Reads the slices in an MBR partition, numbered from `first` on. `None` when there is no such table.
pub(super) fn read(
    disk: &dyn ReadAt,
    outer: &Partition,
    first: u32,
    notes: &mut Vec<String>,
) -> Option<Vec<Partition>> {
    let at = outer.start_bytes.checked_add(SECTOR_BYTES)?;
    let bytes = bytes_at(disk, at, SECTOR_BYTES as usize)?;
    if le32(&bytes, 12) != SANITY {
        return None;
    }
    if le16(&bytes, 508) != MAGIC || sum(&bytes) != 0 {
        notes.push(format!("the Solaris VTOC (at byte {at}): its checksum does not hold; it is used as it is"));
    }
    let unit = u64::from(le16(&bytes, 28)).max(SECTOR_BYTES);
    let mut found = Vec::new();
    let mut number = first;
    for slice in 0..usize::from(le16(&bytes, 30)).min(SLICES_MAX) {
        let at = 72 + 12 * slice;
        let (start, sectors) = (u64::from(le32(&bytes, at + 4)), u64::from(le32(&bytes, at + 8)));
        if sectors == 0 {
            continue;
        }
        found.push(Partition {
            number,
            kind: tag_name(le16(&bytes, at)),
            name: format!("s{slice}"),
            start_bytes: outer.start_bytes.saturating_add(start.saturating_mul(unit)),
            size_bytes: sectors.saturating_mul(unit),
            table: Table::Vtoc,
        });
        number = number.saturating_add(1);
    }
    Some(found)
}

/// Reads the slices of a whole disk, as SPARC has them. `None` when there is no such table.
pub(super) fn read_sun(disk: &dyn ReadAt, notes: &mut Vec<String>) -> Option<Vec<Partition>> {
    let bytes = bytes_at(disk, 0, SECTOR_BYTES as usize)?;
    let be16 = |at| u16::from_be_bytes(array(&bytes, at));
    let be32 = |at| u32::from_be_bytes(array(&bytes, at));
    if be16(508) != MAGIC {
        return None;
    }
    if sum(&bytes) != 0 {
        notes.push("the Solaris VTOC (at byte 0): its checksum does not hold; it is used as it is".to_owned());
    }
    let has_tags = be32(188) == SANITY;
    let cylinder = u64::from(be16(436)).saturating_mul(be16(438).into()).saturating_mul(SECTOR_BYTES);
    let mut found = Vec::new();
    for (number, slice) in (1..).zip(0..SPARC_SLICES) {
        let sectors = be32(444 + 8 * slice + 4);
        if sectors == 0 {
            continue;
        }
        found.push(Partition {
            number,
            kind: if has_tags { tag_name(be16(142 + 4 * slice)) } else { "Solaris".to_owned() },
            name: format!("s{slice}"),
            start_bytes: cylinder.saturating_mul(be32(444 + 8 * slice).into()),
            size_bytes: u64::from(sectors).saturating_mul(SECTOR_BYTES),
            table: Table::Vtoc,
        });
    }
    Some(found)
}

/// Exclusive or of all words; the byte order does not matter for whether it is 0.
fn sum(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |sum, word| sum ^ le16(word, 0))
}

fn tag_name(tag: u16) -> String {
    let known = match tag {
        1 => "Solaris boot",
        2 => "Solaris root",
        3 => "Solaris swap",
        4 => "Solaris usr",
        5 => "Solaris whole disk",
        7 => "Solaris var",
        8 => "Solaris home",
        9 => "Solaris alternates",
        11 => "Solaris reserved",
        _ => return format!("Solaris tag {tag}"),
    };
    known.to_owned()
}
