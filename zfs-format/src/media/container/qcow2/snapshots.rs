//! The snapshots inside of an image: each has an L1 table of its own.

use super::{Header, ImageFile, MediaError, be_u32, be_u64, unusable};

/// The limit of QEMU.
const SNAPSHOTS_MAX: u64 = 65_536;
/// Names in an error message.
const NAMES_MAX: usize = 20;
/// The part of an entry that all have.
const ENTRY_BYTES: usize = 40;
/// More is passed over.
const EXTRA_BYTES_MAX: usize = 1024;

/// Where the tables of a state of the disk are, and how large the disk was.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0, 8 | 8, 4 | where the L1 table is, its entries |
/// | 12, 14 | 2 each | length of the id, of the name |
/// | 36 | 4 | length of what follows before the id |
/// | 48 | 8 | size of the disk; not in old entries |
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) l1_start: u64,
    pub(super) l1_entries: u64,
    pub(super) disk_bytes: u64,
    id: String,
    name: String,
}

impl Snapshot {
    /// The disk as it is now.
    pub(super) fn active(header: &Header) -> Self {
        let &Header { l1_start, l1_entries, disk_bytes, .. } = header;
        Self { l1_start, l1_entries, disk_bytes, id: String::new(), name: String::new() }
    }
}

/// The snapshot with this id, or else with this name, as QEMU looks for one.
pub(super) fn find(file: &ImageFile, header: &Header, wanted: &str) -> Result<Snapshot, MediaError> {
    let mut snapshots = list(file, header)?;
    let index = snapshots
        .iter()
        .position(|snapshot| snapshot.id == wanted)
        .or_else(|| snapshots.iter().position(|snapshot| snapshot.name == wanted));
    if let Some(index) = index {
        return Ok(snapshots.swap_remove(index));
    }
    let mut names: Vec<String> = snapshots
        .iter()
        .take(NAMES_MAX)
        .map(|snapshot| format!("{} (id {})", snapshot.name, snapshot.id).replace(char::is_control, "?"))
        .collect();
    if snapshots.len() > NAMES_MAX {
        names.push(format!("and {} more", snapshots.len() - NAMES_MAX));
    }
    let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(unusable(&file.path, format!("there is no snapshot {wanted} in it; it has {has}")))
}

fn list(file: &ImageFile, header: &Header) -> Result<Vec<Snapshot>, MediaError> {
    let bad = |why: String| unusable(&file.path, format!("its table of snapshots cannot be read: {why}"));
    if header.snapshots > SNAPSHOTS_MAX {
        return Err(bad(format!("{} snapshots", header.snapshots)));
    }
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.bytes.read_at(&mut bytes, at).map(|()| bytes).map_err(|error| bad(error.to_string()))
    };
    let mut snapshots = Vec::new();
    let mut at = header.snapshots_start;
    for _ in 0..header.snapshots {
        let entry = read(at, ENTRY_BYTES)?;
        at = at.saturating_add(ENTRY_BYTES as u64);
        let lengths = be_u32(&entry, 12);
        let extra_bytes = be_u32(&entry, 36);
        let extra = read(at, usize::try_from(extra_bytes).unwrap_or(usize::MAX).min(EXTRA_BYTES_MAX))?;
        at = at.saturating_add(extra_bytes.into());
        let (id_bytes, name_bytes) = (lengths >> 16, lengths & 0xffff);
        let text = |at: u64, length: u32| {
            let bytes = read(at, usize::try_from(length).unwrap_or(0))?;
            Ok::<_, MediaError>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let id = text(at, id_bytes)?;
        let name = text(at.saturating_add(id_bytes.into()), name_bytes)?;
        at = at.saturating_add(id_bytes.into()).saturating_add(name_bytes.into()).next_multiple_of(8);
        let disk_bytes = if extra.len() >= 16 { be_u64(&extra, 8) } else { header.disk_bytes };
        if i64::try_from(disk_bytes).is_err() || at > file.bytes.size_bytes().saturating_add(8) {
            return Err(bad("an entry is impossible".to_owned()));
        }
        snapshots.push(Snapshot {
            l1_start: be_u64(&entry, 0),
            l1_entries: be_u32(&entry, 8).into(),
            disk_bytes,
            id,
            name,
        });
    }
    Ok(snapshots)
}
