//! The partition table of the IBM PC: four entries in the first sector; an extended partition holds a chain of more.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 446 | 4 x 16 | entries: flag 0x80 or 0, type at 4, first sector at 8, number of sectors at 12 |
//! | 510 | 2 | 0x55 0xaa |
//!
//! File systems of DOS and Windows end their first sector in the same way, with code where the entries would be.
//!
//! Source: Linux block/partitions/msdos.c (how partitions are numbered).

use super::{PARTITIONS_MAX, Partition, Partitions, Table, array, bytes_at, disklabel, le32, vtoc};
use crate::media::ReadAt;
use std::collections::BTreeSet;

const SECTOR_BYTES: u64 = 512;
/// The whole disk belongs to a GPT.
const PROTECTIVE: u8 = 0xee;
/// Number of the first partition that is not in the first sector.
const FIRST_LOGICAL: u32 = 5;

/// The table in the first sector.
#[derive(Debug)]
pub(super) struct Mbr {
    pub(super) found: Partitions,
    /// Sectors of the disk, as far as the entry that protects a GPT tells.
    pub(super) protected_sectors: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    flag: u8,
    kind: u8,
    first: u32,
    sectors: u32,
}

impl Entry {
    fn is_used(&self) -> bool {
        self.kind != 0 && self.sectors != 0
    }

    fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }

    fn partition(&self, number: u32, base: u64) -> Partition {
        let bytes = |sectors: u32| u64::from(sectors).saturating_mul(SECTOR_BYTES);
        Partition {
            number,
            kind: kind_name(self.kind),
            name: String::new(),
            start_bytes: base.saturating_add(bytes(self.first)),
            size_bytes: bytes(self.sectors),
            table: Table::Mbr,
        }
    }
}

/// The four entries of a sector that is a table.
fn entries(disk: &dyn ReadAt, at: u64) -> Option<[Entry; 4]> {
    let bytes = bytes_at(disk, at, SECTOR_BYTES as usize)?;
    if bytes.get(510..512) != Some(b"\x55\xaa") {
        return None;
    }
    let entry = |index: usize| {
        let at = 446 + 16 * index;
        let [flag, _, _, _, kind] = array(&bytes, at);
        Entry { flag, kind, first: le32(&bytes, at + 8), sectors: le32(&bytes, at + 12) }
    };
    Some([entry(0), entry(1), entry(2), entry(3)])
}

/// Reads the table, with all that lies in its partitions.
pub(super) fn read(disk: &dyn ReadAt) -> Option<Mbr> {
    let table = entries(disk, 0)?;
    // Code, and no entries.
    if table.iter().any(|entry| entry.flag & 0x7f != 0) || !table.iter().any(Entry::is_used) {
        return None;
    }
    let protected_sectors = table.iter().find(|entry| entry.kind == PROTECTIVE).map(|entry| entry.sectors);
    let mut found = Partitions::default();
    let mut next = FIRST_LOGICAL;
    for (number, entry) in (1..).zip(&table) {
        // An entry from sector 0 on is no part of the disk, but all of it.
        if !entry.is_used() || entry.kind == PROTECTIVE || entry.first == 0 {
            continue;
        }
        if entry.is_extended() {
            read_chain(disk, u64::from(entry.first).saturating_mul(SECTOR_BYTES), &mut next, &mut found);
        } else {
            found.list.push(entry.partition(number, 0));
        }
    }
    found.list.sort_by_key(|partition| partition.number);
    for (number, entry) in (1..).zip(&table) {
        let Some(outer) = found.list.iter().find(|outer| outer.number == number).cloned() else { continue };
        let inside = match entry.kind {
            0x82 | 0xbf => vtoc::read(disk, &outer, next, &mut found.notes),
            0xa5 | 0xa6 | 0xa9 => disklabel::read(disk, &outer, next, &mut found.notes),
            _ => None,
        };
        let inside = inside.unwrap_or_default();
        next = inside.last().map_or(next, |last| last.number.saturating_add(1));
        found.list.extend(inside);
    }
    Some(Mbr { found, protected_sectors })
}

/// Follows the chain of tables in an extended partition: each has one partition, and the place of the next table.
fn read_chain(disk: &dyn ReadAt, extended: u64, next: &mut u32, found: &mut Partitions) {
    let mut seen = BTreeSet::new();
    let mut at = extended;
    while found.list.len() < PARTITIONS_MAX {
        if !seen.insert(at) {
            found.notes.push(format!("the chain of extended partitions comes back to byte {at}"));
            return;
        }
        let Some(table) = entries(disk, at) else {
            found.notes.push(format!("the chain of extended partitions breaks off: there is no table at byte {at}"));
            return;
        };
        let mut link = None;
        for entry in table.iter().take(2).filter(|entry| entry.is_used()) {
            if entry.is_extended() {
                link = Some(extended.saturating_add(u64::from(entry.first).saturating_mul(SECTOR_BYTES)));
            } else {
                found.list.push(entry.partition(*next, at));
                *next = next.saturating_add(1);
            }
        }
        let Some(link) = link else { return };
        at = link;
    }
    found.notes.push(format!("there are more than {PARTITIONS_MAX} partitions; the rest was not looked at"));
}

/// What a type is for.
fn kind_name(kind: u8) -> String {
    let known = match kind {
        0x01 | 0x04 | 0x06 | 0x0e | 0x0b | 0x0c => "FAT",
        0x07 => "NTFS or exFAT",
        0x82 => "Linux swap or Solaris",
        0x83 => "Linux",
        0x8e => "Linux LVM",
        0xa5 => "FreeBSD",
        0xa6 => "OpenBSD",
        0xa9 => "NetBSD",
        0xaf => "Apple HFS+",
        0xbe => "Solaris boot",
        0xbf => "Solaris",
        0xef => "EFI system",
        0xfb => "VMware VMFS",
        0xfd => "Linux RAID",
        _ => return format!("type {kind:#04x}"),
    };
    known.to_owned()
}
