//! GUID partition table: a header and a list of partitions at the start of the disk, and copies of both at its end.
//!
//! | offset in the header | size | content |
//! | --- | --- | --- |
//! | 0 | 8 | `EFI PART` |
//! | 12, 16 | 4 each | size of the header, its CRC-32 with this field zero |
//! | 24, 32 | 8 each | sector of this header, sector of the other one |
//! | 56 | 16 | GUID of the disk |
//! | 72, 80, 84, 88 | 8, 4, 4, 4 | sector of the list, number and size of its entries, CRC-32 of the list |
//!
//! Source: UEFI specification 2.10, 5.3.

use super::{PARTITIONS_MAX, Partition, Partitions, SECTOR_SIZES, Table, array, bytes_at, le16, le32, le64};
use crate::media::ReadAt;
use flate2::Crc;

const MAGIC: &[u8] = b"EFI PART";
const HEADER_BYTES: usize = 92;
/// The list of a disk takes 16 KiB; this is for any that is larger.
const LIST_BYTES_MAX: u64 = 1 << 20;
/// How much of the end of a disk is searched for a header that is where none should be.
const SEARCHED_BYTES: u64 = 1 << 20;

/// One of the two tables.
#[derive(Debug)]
struct Header {
    at: u64,
    sector: u64,
    /// Where the other one should be.
    other_at: Option<u64>,
    disk: [u8; 16],
    list_at: Option<u64>,
    count: u32,
    entry_bytes: u32,
    list_crc: u32,
    /// Its own checksum holds.
    is_whole: bool,
    /// The list with whether its checksum holds.
    list: Option<(Vec<u8>, bool)>,
}

impl Header {
    /// Reads the header at a byte of the disk, and the list that belongs to it.
    fn read(disk: &dyn ReadAt, at: u64, sector: u64) -> Option<Self> {
        let bytes = bytes_at(disk, at, 512)?;
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let length = le32(&bytes, 12) as usize;
        let mut summed = bytes.get(..length.max(HEADER_BYTES)).map(<[u8]>::to_vec).unwrap_or_default();
        summed.get_mut(16..20)?.fill(0);
        let mut header = Self {
            at,
            sector,
            other_at: le64(&bytes, 32).checked_mul(sector),
            disk: array(&bytes, 56),
            list_at: le64(&bytes, 72).checked_mul(sector),
            count: le32(&bytes, 80),
            entry_bytes: le32(&bytes, 84),
            list_crc: le32(&bytes, 88),
            is_whole: crc32(&summed) == le32(&bytes, 16),
            list: None,
        };
        header.list = header.read_list(disk);
        Some(header)
    }

    fn read_list(&self, disk: &dyn ReadAt) -> Option<(Vec<u8>, bool)> {
        if self.entry_bytes < 128 || !self.entry_bytes.is_multiple_of(8) {
            return None;
        }
        let length = u64::from(self.count).checked_mul(self.entry_bytes.into()).filter(|&n| n <= LIST_BYTES_MAX)?;
        let bytes = bytes_at(disk, self.list_at?, usize::try_from(length).ok()?)?;
        let is_whole = crc32(&bytes) == self.list_crc;
        Some((bytes, is_whole))
    }

    fn has_whole_list(&self) -> bool {
        self.list.as_ref().is_some_and(|(_, is_whole)| *is_whole)
    }

    /// How far it can be trusted.
    fn rank(&self) -> (bool, bool, bool) {
        (self.is_whole && self.has_whole_list(), self.list.is_some(), self.is_whole)
    }

    fn fault(&self) -> Option<&'static str> {
        match (self.is_whole, &self.list) {
            (true, Some((_, true))) => None,
            (false, _) => Some("the checksum of its header does not hold"),
            (true, Some((_, false))) => Some("the checksum of its list of partitions does not hold"),
            (true, None) => Some("its list of partitions cannot be had"),
        }
    }

    fn partitions(&self) -> Vec<Partition> {
        let Some((list, _)) = &self.list else { return Vec::new() };
        let mut found = Vec::new();
        for (index, entry) in list.chunks_exact(self.entry_bytes.max(1) as usize).enumerate() {
            let kind: [u8; 16] = array(entry, 0);
            let (first, last) = (le64(entry, 32), le64(entry, 40));
            let sectors = last.checked_sub(first).and_then(|sectors| sectors.checked_add(1));
            let size = sectors.and_then(|sectors| sectors.checked_mul(self.sector));
            let (Some(start_bytes), Some(size_bytes), true) =
                (first.checked_mul(self.sector), size, kind != [0; 16] && first > 0)
            else {
                continue;
            };
            let number = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
            let (kind, name) = (kind_name(&kind), name_of(entry));
            found.push(Partition { number, kind, name, start_bytes, size_bytes, table: Table::Gpt });
            if found.len() == PARTITIONS_MAX {
                break;
            }
        }
        found
    }
}

/// Reads the better of the two tables. `protected` is how many sectors the MBR says that the GPT is for.
pub(super) fn read(disk: &dyn ReadAt, protected: Option<u32>) -> Option<Partitions> {
    let size = disk.size_bytes();
    let front = SECTOR_SIZES.iter().find_map(|&sector| Header::read(disk, sector, sector));
    let back = find_back(disk, front.as_ref(), protected);
    let mut notes = Vec::new();
    match (&front, &back) {
        (Some(front), Some(back)) => {
            for (header, which) in [(front, "primary"), (back, "backup")] {
                if let Some(fault) = header.fault() {
                    notes.push(format!("the {which} GPT (at byte {}): {fault}", header.at));
                }
            }
            let both_whole = front.fault().is_none() && back.fault().is_none();
            if both_whole && (front.disk, front.list_crc) != (back.disk, back.list_crc) {
                let of_other = if front.disk == back.disk { "" } else { ", and is that of another disk" };
                notes.push(format!("the backup GPT (at byte {}) differs from the primary one{of_other}", back.at));
            }
            let end = size.saturating_sub(back.sector);
            if back.at < end {
                notes.push(format!(
                    "the backup GPT is at byte {}, not at the end of the disk ({size} bytes): the disk has grown since",
                    back.at
                ));
            }
        }
        (Some(front), None) => {
            if let Some(fault) = front.fault() {
                notes.push(format!("the primary GPT (at byte {}): {fault}; it is used as it is", front.at));
            }
            let at = front.other_at.unwrap_or(u64::MAX);
            let beyond =
                if at >= size { ", beyond the end of the disk: it was cut short, or copied in part" } else { "" };
            notes.push(format!("there is no backup GPT where it should be (at byte {at}){beyond}"));
        }
        (None, Some(back)) => {
            notes.push(format!("the primary GPT is lost; its backup (at byte {}) is used", back.at));
            if let Some(fault) = back.fault() {
                notes.push(format!("the backup GPT (at byte {}): {fault}; it is used as it is", back.at));
            }
        }
        (None, None) => return None,
    }
    let used = match (&front, &back) {
        (Some(front), Some(back)) if back.rank() > front.rank() => back,
        (Some(front), _) => front,
        (None, back) => back.as_ref()?,
    };
    Some(Partitions { list: used.partitions(), unused: Vec::new(), notes })
}

/// The header at the end of the disk: where the front one says, at the last sector, where the MBR says that the disk
/// ended when it was partitioned, or anywhere near the end.
fn find_back(disk: &dyn ReadAt, front: Option<&Header>, protected: Option<u32>) -> Option<Header> {
    let size = disk.size_bytes();
    let sizes = front.map_or_else(|| SECTOR_SIZES.to_vec(), |front| vec![front.sector]);
    let mut found: Vec<Header> = Vec::new();
    for &sector in &sizes {
        let named = front.and_then(|front| front.other_at);
        let last = (size / sector).checked_sub(1).and_then(|last| last.checked_mul(sector));
        let protected_end = protected.and_then(|sectors| u64::from(sectors).checked_mul(sector));
        let mut places: Vec<u64> = [named, last, protected_end].into_iter().flatten().collect();
        places.dedup();
        // Sector 1 is where the primary one is.
        let headers = places.iter().filter(|&&at| at > sector).filter_map(|&at| Header::read(disk, at, sector));
        found.extend(headers);
    }
    // Most inputs have no table at all.
    if found.is_empty() && (front.is_some() || protected.is_some()) {
        found.extend(search_end(disk, &sizes));
    }
    found.into_iter().reduce(|best, next| if next.rank() > best.rank() { next } else { best })
}

/// Looks through the last bytes of the disk: an image may have something behind its last sector.
fn search_end(disk: &dyn ReadAt, sizes: &[u64]) -> Option<Header> {
    let size = disk.size_bytes();
    let start = size.saturating_sub(SEARCHED_BYTES).next_multiple_of(512).max(8192);
    let bytes = bytes_at(disk, start, usize::try_from(size.checked_sub(start)?).ok()?)?;
    let at = bytes.chunks(512).rposition(|sector| sector.starts_with(MAGIC))?;
    let at = start.checked_add((at as u64).checked_mul(512)?)?;
    let headers = sizes.iter().filter_map(|&sector| Header::read(disk, at, sector));
    headers.reduce(|best, next| if next.rank() > best.rank() { next } else { best })
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The name: UTF-16, up to the first zero.
fn name_of(entry: &[u8]) -> String {
    let units: Vec<u16> = (0..36_usize).map(|unit| le16(entry, 56 + 2 * unit)).take_while(|&unit| unit != 0).collect();
    String::from_utf16_lossy(&units)
}

/// Types by their GUID as it is written.
///
/// Source: `sfdisk --list-types`; OpenZFS lib/libefi/rdwr_efi.c.
const KINDS: &[(&str, &str)] = &[
    ("6a898cc3-1dd2-11b2-99a6-080020736631", "ZFS (Solaris /usr)"),
    ("6a945a3b-1dd2-11b2-99a6-080020736631", "Solaris reserved"),
    ("6a85cf4d-1dd2-11b2-99a6-080020736631", "Solaris root"),
    ("516e7cba-6ecf-11d6-8ff8-00022d09712b", "FreeBSD ZFS"),
    ("516e7cb4-6ecf-11d6-8ff8-00022d09712b", "FreeBSD"),
    ("516e7cb5-6ecf-11d6-8ff8-00022d09712b", "FreeBSD swap"),
    ("516e7cb6-6ecf-11d6-8ff8-00022d09712b", "FreeBSD UFS"),
    ("83bd6b9d-7f41-11dc-be0b-001560b84f0f", "FreeBSD boot"),
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI system"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("0fc63daf-8483-4772-8e79-3d69d8477de4", "Linux filesystem"),
    ("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "Linux swap"),
    ("e6d6d379-f507-44c2-a23c-238f2a3df928", "Linux LVM"),
    ("a19d880f-05fc-4d3b-a006-743f0f84911e", "Linux RAID"),
    ("ca7d7ccb-63ed-4c53-861c-1742536059cc", "LUKS"),
    ("4f68bce3-e8cd-4db1-96e7-fbcaf984b709", "Linux root (x86-64)"),
    ("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "Microsoft basic data"),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Microsoft reserved"),
    ("de94bba4-06d1-4d40-a16a-bfd50179d6ac", "Windows recovery"),
    ("48465300-0000-11aa-aa11-00306543ecac", "Apple HFS+"),
    ("7c3457ef-0000-11aa-aa11-00306543ecac", "Apple APFS"),
    ("aa31e02a-400f-11db-9590-000c2911d1b8", "VMware VMFS"),
    ("9d275380-40ad-11db-bf97-000c2911d1b8", "VMware diagnostic"),
];

fn kind_name(guid: &[u8; 16]) -> String {
    let head = (le32(guid, 0), le16(guid, 4), le16(guid, 6));
    let tail: String = guid.iter().skip(10).map(|byte| format!("{byte:02x}")).collect();
    let [high, low] = array::<2>(guid, 8);
    let text = format!("{:08x}-{:04x}-{:04x}-{high:02x}{low:02x}-{tail}", head.0, head.1, head.2);
    KINDS.iter().find(|(guid, _)| *guid == text).map_or(text, |(_, name)| (*name).to_owned())
}
