//! Partition tables: which ranges of a disk they name. GPT, MBR with extended partitions, Solaris VTOC, BSD disklabel.
//!
//! Disks that are given to a recovery tool have been cut, grown, copied to other sectors, or written over. So every copy
//! of a table is tried, one whose checksum does not hold is used when there is none better, and what is odd becomes a
//! note. What a table says is a claim: whether a pool lies there is told by the ZFS labels.

mod disklabel;
mod gpt;
mod mbr;
mod vtoc;

use super::ReadAt;
use std::fmt;

/// Partitions of one disk that are looked at. Linux has numbers for 255.
const PARTITIONS_MAX: usize = 512;
/// Sector sizes of disks, the usual one first.
const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// The kind of table that names a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// GUID partition table.
    Gpt,
    /// The table of the IBM PC, with extended partitions.
    Mbr,
    /// Slices of Solaris, inside of an MBR partition or on the whole disk.
    Vtoc,
    /// Partitions of BSD, inside of an MBR partition or on the whole disk.
    Disklabel,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
            Self::Vtoc => "Solaris VTOC",
            Self::Disklabel => "BSD disklabel",
        })
    }
}

/// A range of a disk that a table names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts.
    pub number: u32,
    /// What the table says it is for.
    pub kind: String,
    /// Its own name: of a GPT partition, or the letter or number of a slice.
    pub name: String,
    /// Where it begins on the disk.
    pub start_bytes: u64,
    /// How long it should be; it may end beyond the disk.
    pub size_bytes: u64,
    /// The kind of table that names it.
    pub table: Table,
}

impl Partition {
    /// First byte behind it.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.start_bytes.saturating_add(self.size_bytes)
    }
}

/// All that the tables of a disk say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    /// The partitions, by number.
    pub list: Vec<Partition>,
    /// Partitions of a second table that systems would not use.
    pub unused: Vec<Partition>,
    /// What is wrong with the tables, one sentence each.
    pub notes: Vec<String>,
}

impl Partitions {
    /// Reads the tables of a disk. A disk without any, or with nothing but damage, has no partitions.
    #[must_use]
    pub fn read(disk: &dyn ReadAt) -> Self {
        let mbr = mbr::read(disk);
        let gpt = gpt::read(disk, mbr.as_ref().and_then(|mbr| mbr.protected_sectors));
        let mut found = match (gpt, mbr) {
            (Some(gpt), Some(mbr)) if mbr.protected_sectors.is_none() && !mbr.found.list.is_empty() => {
                let mut found = mbr.found;
                found.notes.push(format!(
                    "there is a GPT with {} partitions, too; the MBR does not point to it, so that it is an older or a foreign one",
                    gpt.list.len()
                ));
                found.unused = gpt.list;
                found
            }
            (Some(gpt), _) => gpt,
            (None, Some(mbr)) => {
                let mut found = mbr.found;
                if mbr.protected_sectors.is_some() {
                    found.notes.push("the MBR says that there is a GPT, and none was found".to_owned());
                }
                found
            }
            (None, None) => Self::default(),
        };
        if found.list.is_empty() {
            found.list = vtoc::read_sun(disk, &mut found.notes).unwrap_or_default();
        }
        if found.list.is_empty() {
            found.list = disklabel::read(disk, &whole(disk), 1, &mut found.notes).unwrap_or_default();
        }
        found.judge_ends(disk.size_bytes());
        found
    }

    /// The partition of this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Partition> {
        self.list.iter().find(|partition| partition.number == number)
    }

    /// Kinds of the tables, such as `MBR, Solaris VTOC`.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut names: Vec<String> = Vec::new();
        for partition in &self.list {
            let name = partition.table.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    }

    /// Says which partitions do not lie on the disk as a whole.
    fn judge_ends(&mut self, disk_bytes: u64) {
        for partition in &self.list {
            let Partition { number, start_bytes, .. } = *partition;
            if start_bytes >= disk_bytes {
                self.notes.push(format!(
                    "partition {number} begins at byte {start_bytes}, beyond the end of the disk ({disk_bytes} bytes)"
                ));
            } else if let Some(missing @ 1..) = partition.end_bytes().checked_sub(disk_bytes) {
                self.notes.push(format!("partition {number} ends {missing} bytes beyond the end of the disk"));
            }
        }
    }
}

/// The disk as the range that a table inside of it counts from.
fn whole(disk: &dyn ReadAt) -> Partition {
    Partition {
        number: 0,
        kind: String::new(),
        name: String::new(),
        start_bytes: 0,
        size_bytes: disk.size_bytes(),
        table: Table::Mbr,
    }
}

/// `length` bytes at `offset`; `None` where they cannot be had.
fn bytes_at(disk: &dyn ReadAt, offset: u64, length: usize) -> Option<Vec<u8>> {
    let end = offset.checked_add(length as u64)?;
    if end > disk.size_bytes() {
        return None;
    }
    let mut bytes = vec![0; length];
    disk.read_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// The `N` bytes at `at`; zeros beyond the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

#[cfg(test)]
mod tests;
