//! The headers of the three kinds of extents that have tables.

use super::super::{le_u32, le_u64};
use super::grains::{Entries, Grains};
use crate::media::{MediaError, ReadAt};

const SECTOR_BYTES: u64 = 512;
/// Larger grains than any product writes, as for compressed clusters.
const GRAIN_BYTES_MAX: u64 = 16 << 20;
/// Entries of a grain table: 512 in hosted extents, 4096 in the two of ESXi.
const TABLE_ENTRIES_MAX: u64 = 1 << 16;
/// The directory lies behind the grains: a footer says where.
const AT_END: u64 = u64::MAX;
/// The footer lies between two marker sectors at the end; what pads a file may follow.
const FOOTER_SEARCH_BYTES: u64 = 64 << 10;

const HOSTED: &[u8] = b"KDMV";
const COWD: &[u8] = b"COWD";
const SE_SPARSE: &[u8] = &0xcafe_babe_u64.to_le_bytes();
const SE_SPARSE_VOLATILE: u64 = 0xcafe_cafe;
const SE_SPARSE_VERSION: u64 = 0x2_0000_0001;

/// The kinds of extents that have tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Of Workstation, Fusion, VirtualBox, QEMU, and of all exports.
    Hosted,
    /// Of ESXi, VMFS 5 and before: `-delta.vmdk`.
    Cowd,
    /// Of ESXi, VMFS 6: `-sesparse.vmdk`.
    SeSparse,
}

impl Format {
    /// Tells it by the first bytes.
    pub(super) fn of(file: &dyn ReadAt) -> Option<Self> {
        let mut start = [0; 8];
        file.read_at(&mut start, 0).ok()?;
        match start {
            _ if start.starts_with(HOSTED) => Some(Self::Hosted),
            _ if start.starts_with(COWD) => Some(Self::Cowd),
            _ if start == SE_SPARSE => Some(Self::SeSparse),
            _ => None,
        }
    }
}

/// What the header of an extent says.
#[derive(Debug)]
pub(super) struct Header {
    /// Bytes of the disk. A hosted extent that is only a descriptor has none.
    pub(super) disk_bytes: u64,
    /// Where the descriptor lies in the file, and its length.
    pub(super) descriptor: Option<(u64, u64)>,
    /// It was not closed.
    pub(super) unclean: Option<&'static str>,
    /// What is wrong without being in the way.
    pub(super) oddities: Vec<String>,
    /// Its tables; `None` where the directory lies behind grains and its place is lost.
    pub(super) tables: Option<Tables>,
    /// Bytes of a grain.
    pub(super) grain_bytes: u64,
}

/// Where the tables of an extent are.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    per_table: u64,
    directories: u64,
    directory: u64,
    second: Option<u64>,
    entries: Entries,
}

impl Header {
    /// Reads the header of the extent in `file`.
    ///
    /// # Errors
    /// What is wrong, in a few words.
    pub(super) fn read(format: Format, file: &dyn ReadAt) -> Result<Self, String> {
        match format {
            Format::Hosted => Self::read_hosted(file),
            Format::Cowd => Self::read_cowd(file),
            Format::SeSparse => Self::read_se_sparse(file),
        }
    }

    /// The grains of the extent, whose file has the index `file`.
    pub(super) fn grains(&self, file: usize) -> Option<Grains> {
        let tables = self.tables.clone()?;
        Some(Grains {
            file,
            disk_bytes: self.disk_bytes,
            grain_bytes: self.grain_bytes,
            per_table: tables.per_table,
            directories: tables.directories,
            directory: tables.directory,
            second: tables.second,
            entries: tables.entries,
            table: super::super::Table::default(),
        })
    }

    /// `SparseExtentHeader`: at its start, and where the directory lies at the end, in a footer, too.
    ///
    /// | offset | size | content |
    /// | --- | --- | --- |
    /// | 4, 8 | 4 each | version 1 to 3, flags |
    /// | 12, 20 | 8 each | sectors of the disk, of a grain |
    /// | 28, 36 | 8 each | start and length of the descriptor |
    /// | 44 | 4 | entries of a grain table |
    /// | 48, 56 | 8 each | redundant directory, directory |
    /// | 72 | 1 | not closed |
    /// | 73 | 4 | bytes that a transfer as text would change |
    /// | 77 | 2 | 1: grains are compressed |
    ///
    /// Source: VMware, Virtual Disk Format 5.0 ("Hosted Sparse Extents").
    fn read_hosted(file: &dyn ReadAt) -> Result<Self, String> {
        let bytes = read(file, 0)?;
        let first = Self::parse_hosted(&bytes);
        if matches!(&first, Ok((_, at)) if *at != AT_END) {
            return first.map(|(header, _)| header);
        }
        let footer = find_footer(file);
        match (first, footer) {
            (first, Some(mut footer)) => {
                match first {
                    Ok((first, _)) => {
                        footer.descriptor = first.descriptor.or(footer.descriptor);
                        footer.oddities = first.oddities;
                    }
                    Err(why) => footer.oddities.push(format!("its header is damaged ({why}); its footer was used")),
                }
                Ok(footer)
            }
            (first, None) => first.map(|(header, _)| header),
        }
    }

    /// The header in `bytes`, and the sector of its directory.
    fn parse_hosted(bytes: &[u8]) -> Result<(Self, u64), String> {
        let (u32_at, u64_at) = (|offset| le_u32(bytes, offset), |offset| le_u64(bytes, offset));
        let (version, flags) = (u32_at(4), u32_at(8));
        let mut oddities = Vec::new();
        let is_mangled = flags & 1 != 0 && bytes.get(73..77) != Some(b"\n \r\n");
        if is_mangled {
            let what = "its line ends were changed, as by a transfer in text mode: copy it again, in binary mode";
            oddities.push(what.to_owned());
        }
        let hint = if is_mangled { "; a transfer in text mode changed it, copy it again" } else { "" };
        if !bytes.starts_with(HOSTED) || !(1..=3).contains(&version) {
            return Err(format!("its version is {version}, not 1 to 3{hint}"));
        }
        let descriptor = Some((u64_at(28), u64_at(36))).filter(|(start, length)| *start > 0 && *length > 0);
        let descriptor = descriptor.map(|(start, length)| (in_bytes(start), in_bytes(length)));
        let compression = u32_at(77) & 0xffff;
        let packing = match (flags >> 16 & 1, compression) {
            (0, 0) => None,
            // Grains are compressed when either place says so, as in QEMU.
            (_, 1) => Some(flags >> 17 & 1 != 0),
            _ => return Err(format!("its compression is {compression}, not 1{hint}")),
        };
        let disk_bytes = in_bytes(u64_at(12));
        let grain_bytes = in_bytes(u64_at(20));
        let unclean = (bytes.get(72) == Some(&1)).then_some("it was not closed: its tables may be behind its data");
        if disk_bytes == 0 && descriptor.is_some() {
            return Ok((Self { disk_bytes, descriptor, unclean, oddities, tables: None, grain_bytes }, 0));
        }
        let (per_table, at) = (u64::from(u32_at(44)), u64_at(56));
        check_geometry(disk_bytes, grain_bytes, per_table).map_err(|why| format!("{why}{hint}"))?;
        let second = u64_at(48);
        let tables = Tables {
            per_table,
            directories: disk_bytes.div_ceil(grain_bytes).div_ceil(per_table),
            directory: in_bytes(at),
            second: (flags & 2 != 0 && !matches!(second, 0 | AT_END) && second != at).then(|| in_bytes(second)),
            entries: Entries::Sectors { one_is_zero: flags & 4 != 0, packing },
        };
        let tables = (at != AT_END).then_some(tables);
        Ok((Self { disk_bytes, descriptor, unclean, oddities, tables, grain_bytes }, at))
    }

    /// `COWDisk_Header`: four sectors.
    ///
    /// | offset | size | content |
    /// | --- | --- | --- |
    /// | 4 | 4 | version 1 |
    /// | 12, 16 | 4 each | sectors of the disk, of a grain |
    /// | 20, 24 | 4 each | start of the directory, its entries |
    /// | 1648 | 4 | not closed |
    ///
    /// Grain tables have 4096 entries. Source: VMware, Virtual Disk Format 1.1 ("ESX Server Sparse Extents").
    fn read_cowd(file: &dyn ReadAt) -> Result<Self, String> {
        let mut bytes = read(file, 0)?.to_vec();
        for sector in 1..4 {
            bytes.extend(read(file, sector * SECTOR_BYTES)?);
        }
        let u32_at = |offset| u64::from(le_u32(&bytes, offset));
        if u32_at(4) != 1 {
            return Err(format!("its version is {}, not 1", u32_at(4)));
        }
        let (disk_bytes, grain_bytes) = (in_bytes(u32_at(12)), in_bytes(u32_at(16)));
        check_geometry(disk_bytes, grain_bytes, 4096)?;
        let tables = Tables {
            per_table: 4096,
            directories: u32_at(24),
            directory: in_bytes(u32_at(20)),
            second: None,
            entries: Entries::Sectors { one_is_zero: false, packing: None },
        };
        let unclean = (u32_at(1648) != 0).then_some("it was not closed: its tables may be behind its data");
        let (descriptor, oddities) = (None, Vec::new());
        Ok(Self { disk_bytes, descriptor, unclean, oddities, tables: Some(tables), grain_bytes })
    }

    /// The constant header of a space-efficient sparse extent, and what its volatile header says of the journal.
    ///
    /// | offset | size | content |
    /// | --- | --- | --- |
    /// | 8 | 8 | version 0x2_0000_0001 |
    /// | 16, 24, 32 | 8 each | sectors of the disk, of a grain, of a grain table |
    /// | 80 | 16 | start and length of the volatile header |
    /// | 128, 144, 192 | 16 each | start and length of the directory, the grain tables, the grains |
    ///
    /// All lengths are sectors. VMware published nothing of it. Source: QEMU block/vmdk.c, `VMDKSESparseConstHeader`.
    fn read_se_sparse(file: &dyn ReadAt) -> Result<Self, String> {
        let bytes = read(file, 0)?;
        let u64_at = |offset| le_u64(&bytes, offset);
        if u64_at(8) != SE_SPARSE_VERSION {
            return Err(format!("its version is {:#x}, not {SE_SPARSE_VERSION:#x}", u64_at(8)));
        }
        if u64_at(40) != 0 {
            return Err(format!("it has the unknown flags {:#x}", u64_at(40)));
        }
        let (disk_bytes, grain_bytes) = (in_bytes(u64_at(16)), in_bytes(u64_at(24)));
        let per_table = in_bytes(u64_at(32)) / 8;
        check_geometry(disk_bytes, grain_bytes, per_table)?;
        let volatile = read(file, in_bytes(u64_at(80)));
        let mut oddities = Vec::new();
        let mut unclean = None;
        match volatile {
            Ok(bytes) if le_u64(&bytes, 0) == SE_SPARSE_VOLATILE => {
                let is_dirty = le_u64(&bytes, 24) != 0;
                unclean = is_dirty.then_some("it was not closed: its journal waits for replay and was left out");
            }
            _ => oddities.push("its volatile header is damaged: whether it was closed is unknown".to_owned()),
        }
        let tables = Tables {
            per_table,
            directories: in_bytes(u64_at(136)) / 8,
            directory: in_bytes(u64_at(128)),
            second: None,
            entries: Entries::SeSparse {
                tables: in_bytes(u64_at(144)),
                tables_bytes: in_bytes(u64_at(152)),
                grains: in_bytes(u64_at(192)),
            },
        };
        Ok(Self { disk_bytes, descriptor: None, unclean, oddities, tables: Some(tables), grain_bytes })
    }
}

/// The footer: a copy of the header that knows where the directory is.
fn find_footer(file: &dyn ReadAt) -> Option<Header> {
    let end = file.size_bytes() / SECTOR_BYTES * SECTOR_BYTES;
    let mut at = end.checked_sub(SECTOR_BYTES)?;
    let lowest = end.saturating_sub(FOOTER_SEARCH_BYTES).max(SECTOR_BYTES);
    while at >= lowest {
        let bytes = read(file, at).ok()?;
        if bytes.starts_with(HOSTED)
            && let Ok((header, place)) = Header::parse_hosted(&bytes)
            && place != AT_END
        {
            return Some(header);
        }
        at = at.checked_sub(SECTOR_BYTES)?;
    }
    None
}

fn read(file: &dyn ReadAt, offset: u64) -> Result<[u8; 512], String> {
    let mut bytes = [0; 512];
    file.read_at(&mut bytes, offset).map_err(|error| error.to_string()).map(|()| bytes)
}

/// The length of `sectors`; what is beyond any number of bytes ends beyond any file, too.
fn in_bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(SECTOR_BYTES)
}

fn check_geometry(disk_bytes: u64, grain_bytes: u64, per_table: u64) -> Result<(), String> {
    if disk_bytes == 0 || disk_bytes >= 1 << 62 {
        return Err(format!("its disk has {disk_bytes} bytes"));
    }
    if !grain_bytes.is_power_of_two() || grain_bytes > GRAIN_BYTES_MAX {
        return Err(format!("its grains have {grain_bytes} bytes"));
    }
    if per_table == 0 || per_table > TABLE_ENTRIES_MAX {
        return Err(format!("its grain tables have {per_table} entries"));
    }
    Ok(())
}

/// The descriptor inside of the file at the place that the header names.
pub(super) fn descriptor_bytes(file: &dyn ReadAt, place: (u64, u64)) -> Result<Vec<u8>, MediaError> {
    let length = place.1.min(super::descriptor::TEXT_BYTES_MAX).min(file.size_bytes().saturating_sub(place.0));
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_at(&mut bytes, place.0)?;
    Ok(bytes)
}
