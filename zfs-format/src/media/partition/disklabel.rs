//! Partitions of BSD: a table in the second sector of an MBR partition, or of a whole disk.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0, 132 | 4 each | magic 0x82564557, twice |
//! | 40 | 4 | bytes of a sector |
//! | 136 | 2 | exclusive or of all words up to the end of the partitions, this one included, is 0 |
//! | 138 | 2 | number of partitions |
//! | 148 | 16 each | partitions: sectors, first sector, size of a fragment, type at 12 |
//!
//! First sectors count from the disk or from the MBR partition; partition `c`, which is all of it, tells which.
//!
//! Source: FreeBSD sys/sys/disk/bsd.h, sys/geom/part/g_part_bsd.c; OpenBSD sys/sys/disklabel.h.

use super::{Partition, Table, array, bytes_at, le16, le32};
use crate::media::ReadAt;

const SECTOR_BYTES: u64 = 512;
const MAGIC: u32 = 0x8256_4557;
const PARTITIONS_MAX: usize = 20;
/// The partition that is the whole.
const RAW: usize = 2;

/// Reads the partitions inside of `outer`, numbered from `first` on. `None` when there is no such table.
pub(super) fn read(
    disk: &dyn ReadAt,
    outer: &Partition,
    first: u32,
    notes: &mut Vec<String>,
) -> Option<Vec<Partition>> {
    let at = outer.start_bytes.checked_add(SECTOR_BYTES)?;
    let bytes = bytes_at(disk, at, SECTOR_BYTES as usize)?;
    if le32(&bytes, 0) != MAGIC || le32(&bytes, 132) != MAGIC {
        return None;
    }
    let count = usize::from(le16(&bytes, 138));
    let summed = bytes.get(..148_usize.saturating_add(count.saturating_mul(16)));
    if summed.is_none_or(|summed| summed.chunks_exact(2).fold(0, |sum, word| sum ^ le16(word, 0)) != 0) {
        notes.push(format!("the BSD disklabel (at byte {at}): its checksum does not hold; it is used as it is"));
    }
    let unit = match u64::from(le32(&bytes, 40)) {
        bytes @ (1024 | 2048 | 4096 | 8192) => bytes,
        _ => SECTOR_BYTES,
    };
    let place = |index: usize| {
        let at = 148 + 16 * index;
        let bytes = |at| u64::from(le32(&bytes, at)).saturating_mul(unit);
        (bytes(at + 4), bytes(at))
    };
    let base = if count > RAW && place(RAW).1 > 0 { place(RAW).0 } else { 0 };
    let mut found = Vec::new();
    let mut number = first;
    for index in (0..count.min(PARTITIONS_MAX)).filter(|&index| index != RAW) {
        let (start, size_bytes) = place(index);
        let [kind] = array(&bytes, 148 + 16 * index + 12);
        if size_bytes == 0 || kind == 0 && index > RAW {
            continue;
        }
        let letter = u8::try_from(index).ok().and_then(|index| b'a'.checked_add(index)).map_or('?', char::from);
        found.push(Partition {
            number,
            kind: kind_name(kind),
            name: letter.to_string(),
            start_bytes: outer.start_bytes.saturating_add(start.saturating_sub(base)),
            size_bytes,
            table: Table::Disklabel,
        });
        number = number.saturating_add(1);
    }
    Some(found)
}

fn kind_name(kind: u8) -> String {
    let known = match kind {
        0 => "unused",
        1 => "BSD swap",
        7 => "BSD UFS",
        27 => "BSD ZFS",
        _ => return format!("BSD type {kind}"),
    };
    known.to_owned()
}
