//! OVA, an exported machine: a tar archive with disks, read in place.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 100 | name |
//! | 124 | 12 | size, octal or (first bit set) binary, big endian |
//! | 148 | 8 | sum of the header's bytes, octal |
//! | 156 | 1 | kind: `0` file, `L` long name of the next, `x` and `g` pax records |
//! | 257 | 5 | `ustar` |
//! | 345 | 155 | what the name begins with |
//!
//! A member that is a disk is one medium, opened through a window; disks split over several members are joined. The crate `tar`
//! reads from a stream and needs a reader with a position; this needs a list of names and places only.
//!
//! Source: POSIX.1-2017, pax ("ustar Interchange Format", "pax Extended Header"); GNU tar; DMTF DSP0243 (OVF), section 6.

mod manifest;

use super::{Chain, ImageFile, Rules, unusable};
use crate::media::{Content, Extent, MediaError, Medium, Note, Notes, ReadAt, Window, check_range};
use manifest::Check;
use std::path::Path;
use std::sync::Arc;

const BLOCK_BYTES: u64 = 512;
/// An exported machine has a few members, and a chunk for each 2 GiB where disks are split.
const MEMBERS_MAX: usize = 10_000;
/// Long names and pax records.
const RECORDS_BYTES_MAX: u64 = 64 << 10;
/// Members that are disks, by what their names end in.
const DISKS: [&str; 8] = [".vmdk", ".vhd", ".vhdx", ".qcow2", ".vdi", ".img", ".raw", ".hdd"];
const PACKED: [&str; 4] = [".gz", ".bz2", ".xz", ".zst"];

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    start: u64,
    bytes: u64,
}

/// Whether `file` is a tar archive that may hold disks: by its first header, and the name of the file or of its first member.
pub(in crate::media) fn is(file: &ImageFile) -> bool {
    let mut block = [0; BLOCK_BYTES as usize];
    if file.bytes.read_at(&mut block, 0).is_err() || !is_header(&block) {
        return false;
    }
    // A raw disk does not begin with a header whose sum is right.
    block.get(257..262) == Some(b"ustar") || file.path.extension().is_some_and(|extension| extension == "ova")
}

/// Opens all disks of the archive.
///
/// # Errors
/// [`MediaError::Container`] when there is none, or one cannot be used.
pub(in crate::media) fn open(file: &ImageFile, rules: &Rules) -> Result<Vec<Medium>, MediaError> {
    let notes = Arc::new(Notes::default());
    let members = list(file, &notes)?;
    let check = manifest::check(file, &members)?;
    let mut media = Vec::new();
    for disk in disks(&members) {
        let bytes = joined(file, &disk.chunks);
        // Names in a member lead to nothing: the archive is no folder.
        let path: Arc<Path> = file.path.join(&disk.name).into();
        let chain = Chain::new(rules, &path);
        let inner = ImageFile { path, bytes };
        let bytes = super::open_or_raw(&inner, &chain)?;
        let bytes = Arc::new(Archived { inner: bytes, check: Arc::clone(&check), notes: Arc::clone(&notes) });
        media.push(Medium { path: file.path.to_path_buf(), part: Some(disk.name), bytes });
    }
    if !media.is_empty() {
        return Ok(media);
    }
    let is_packed = |member: &&Member| {
        let name = member.name.to_ascii_lowercase();
        PACKED.iter().filter_map(|end| name.strip_suffix(end)).any(|name| disk_name(name).is_some())
    };
    Err(unusable(
        &file.path,
        match members.iter().find(is_packed) {
            Some(member) => {
                format!("its disk {} is compressed: unpack the archive (tar x), unpack that, and give it", member.name)
            }
            None => format!(
                "it is a tar archive of {} files, and none is a disk: unpack it, and give what is in it",
                members.len()
            ),
        },
    ))
}

/// A disk of the archive: the members that hold it.
struct Disk {
    name: String,
    chunks: Vec<Member>,
}

fn disks(members: &[Member]) -> Vec<Disk> {
    let mut disks: Vec<Disk> = Vec::new();
    for member in members {
        let Some((name, chunk)) = disk_name(&member.name) else { continue };
        match disks.iter_mut().find(|disk| disk.name == name && chunk.is_some()) {
            Some(disk) => disk.chunks.push(member.clone()),
            None => disks.push(Disk { name: name.to_owned(), chunks: vec![member.clone()] }),
        }
    }
    for disk in &mut disks {
        disk.chunks.sort_by(|one, other| one.name.cmp(&other.name));
    }
    disks
}

/// The name of the disk that a member of this name holds, and which chunk of it (`disk.vmdk.000000001`).
fn disk_name(name: &str) -> Option<(&str, Option<&str>)> {
    let is_disk = |name: &str| {
        let name = name.to_ascii_lowercase();
        DISKS.iter().any(|end| name.ends_with(end))
    };
    if is_disk(name) {
        return Some((name, None));
    }
    let (disk, number) = name.rsplit_once('.')?;
    let is_number = number.len() == 9 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && is_disk(disk)).then_some((disk, Some(number)))
}

fn joined(file: &ImageFile, chunks: &[Member]) -> Arc<dyn ReadAt> {
    let window = |member: &Member| Window::new(Arc::clone(&file.bytes), member.start, member.bytes);
    match chunks {
        [one] => Arc::new(window(one)),
        several => Arc::new(Joined { parts: several.iter().map(window).collect() }),
    }
}

/// Lists the members. An archive that was cut short has those whose headers are there.
fn list(file: &ImageFile, notes: &Notes) -> Result<Vec<Member>, MediaError> {
    let size = file.bytes.size_bytes();
    let mut members = Vec::new();
    let (mut at, mut long_name, mut long_bytes) = (0_u64, None, None);
    let mut block = [0; BLOCK_BYTES as usize];
    let mut headers = 0_usize;
    while at.saturating_add(BLOCK_BYTES) <= size {
        file.bytes.read_at(&mut block, at)?;
        if block.iter().all(|&byte| byte == 0) {
            return Ok(members);
        }
        headers = headers.saturating_add(1);
        if headers > MEMBERS_MAX {
            return Err(unusable(&file.path, format!("it has more than {MEMBERS_MAX} members")));
        }
        if !is_header(&block) {
            let message = format!("the header of a member at byte {at} is damaged; what follows it was left out");
            notes.add(crate::media::NoteKind::ImageDamaged, &file.path, message);
            return Ok(members);
        }
        let start = at.saturating_add(BLOCK_BYTES);
        let stated = number_in(block.get(124..136).unwrap_or_default());
        let kind = block.get(156).copied().unwrap_or(0);
        let is_file = matches!(kind, 0 | b'0' | b'7');
        let bytes = if is_file { long_bytes.take().unwrap_or(stated) } else { stated };
        match kind {
            b'L' => long_name = Some(text(&records(file, start, bytes)?)),
            b'x' => {
                let records = records(file, start, bytes)?;
                long_name = pax(&records, "path").or(long_name);
                long_bytes = pax(&records, "size").and_then(|value| value.parse().ok());
            }
            _ if is_file => {
                let name = long_name.take().unwrap_or_else(|| name_in(&block));
                members.push(Member { name, start, bytes });
            }
            _ => long_name = None,
        }
        at = start.saturating_add(bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES));
    }
    let message = format!("the archive ends at byte {size}, before its end mark: it was cut short");
    notes.add(crate::media::NoteKind::ImageTruncated, &file.path, message);
    Ok(members)
}

/// Whether the sum in the block is that of its bytes, taken with blanks in its place.
fn is_header(block: &[u8; 512]) -> bool {
    let stated = number_in(block.get(148..156).unwrap_or_default());
    let bytes = block.iter().enumerate();
    let sum: u64 = bytes.map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u64::from(byte) }).sum();
    stated == sum && block.first().is_some_and(|&byte| byte != 0)
}

/// A number as tar writes it: octal digits, or binary where the first bit is set.
fn number_in(field: &[u8]) -> u64 {
    match field.split_first() {
        Some((first, rest)) if first & 0x80 != 0 => {
            let value = rest.iter().fold(u128::from(first & 0x7f), |value, &byte| value << 8 | u128::from(byte));
            u64::try_from(value).unwrap_or(u64::MAX)
        }
        _ => {
            let digits = field.iter().skip_while(|&&byte| byte == b' ').take_while(|byte| (b'0'..=b'7').contains(byte));
            digits.fold(0, |value: u64, &digit| value.saturating_mul(8).saturating_add(u64::from(digit - b'0')))
        }
    }
}

fn name_in(block: &[u8; 512]) -> String {
    let name = text(block.get(..100).unwrap_or_default());
    let is_ustar = block.get(257..263) == Some(b"ustar\0");
    match text(block.get(345..500).unwrap_or_default()) {
        prefix if is_ustar && !prefix.is_empty() => format!("{prefix}/{name}"),
        _ => name,
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn records(file: &ImageFile, start: u64, bytes: u64) -> Result<Vec<u8>, MediaError> {
    let inside = file.bytes.size_bytes().saturating_sub(start);
    let mut records = vec![0; usize::try_from(bytes.min(RECORDS_BYTES_MAX).min(inside)).unwrap_or(0)];
    file.bytes.read_at(&mut records, start)?;
    Ok(records)
}

/// The value of a pax record: `LENGTH KEY=VALUE` and a line end, where the length counts all of it.
fn pax(records: &[u8], wanted: &str) -> Option<String> {
    let mut rest = records;
    while let Some(blank) = rest.iter().position(|&byte| byte == b' ') {
        let length: usize = std::str::from_utf8(rest.get(..blank)?).ok()?.parse().ok()?;
        let record = rest.get(blank.checked_add(1)?..length.checked_sub(1)?)?;
        let (key, value) = std::str::from_utf8(record).ok()?.split_once('=')?;
        if key == wanted {
            return Some(value.to_owned());
        }
        rest = rest.get(length..)?;
    }
    None
}

/// Chunks of a disk, one after the other.
#[derive(Debug)]
struct Joined {
    parts: Vec<Window>,
}

impl Joined {
    /// The part that holds the byte at `offset`, and the byte of it.
    fn part_at(&self, offset: u64) -> Option<(&Window, u64)> {
        let mut start = 0_u64;
        for part in &self.parts {
            let end = start.saturating_add(part.size_bytes());
            if offset < end {
                return Some((part, offset.saturating_sub(start)));
            }
            start = end;
        }
        None
    }
}

impl ReadAt for Joined {
    fn size_bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.size_bytes()))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size_bytes())?;
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let Some((part, within)) = self.part_at(at) else { return Ok(()) };
            let held = usize::try_from(part.size_bytes().saturating_sub(within)).unwrap_or(usize::MAX);
            let held = held.min(rest.len());
            let Some(piece) = rest.split_off_mut(..held) else { return Ok(()) };
            part.read_at(piece, within).map_err(|error| error.shifted(within, at))?;
            at = at.saturating_add(held as u64);
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Extent {
        match self.part_at(offset) {
            Some((part, within)) => part.extent_at(within),
            None => Extent { content: Content::Unreadable { why: "beyond its end".into() }, ..Extent::data(1) },
        }
    }
}

/// A disk of an archive, with what is to be said of the archive.
#[derive(Debug)]
struct Archived {
    inner: Arc<dyn ReadAt>,
    check: Arc<Check>,
    notes: Arc<Notes>,
}

impl ReadAt for Archived {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        self.inner.read_at(buffer, offset)
    }

    fn sector_bytes(&self) -> u64 {
        self.inner.sector_bytes()
    }

    fn size_now_bytes(&self) -> u64 {
        self.inner.size_now_bytes()
    }

    fn extent_at(&self, offset: u64) -> Extent {
        self.inner.extent_at(offset)
    }

    /// Waits for the comparison with the manifest, so that the answer does not depend on which of the two is faster.
    fn notes(&self) -> Vec<Note> {
        let mut notes = self.inner.notes();
        notes.extend(self.notes.list());
        notes.extend(self.check.notes());
        notes
    }
}

#[cfg(test)]
mod tests;
