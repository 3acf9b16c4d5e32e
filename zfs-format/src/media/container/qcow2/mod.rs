//! qcow2, the disk image of QEMU, Proxmox and libvirt: two levels of tables, both of clusters, and a backing file below.
//!
//! Versions 2 and 3, clusters of 512 bytes to 2 MiB, compressed or not, with or without subclusters, with the data in the
//! image or in a file beside it, and each snapshot inside. All numbers are big endian.
//!
//! Source: QEMU docs/interop/qcow2.rst (the specification); block/qcow2.c for what QEMU accepts.

mod backing;
mod clusters;
mod entry;
mod extensions;
mod header;
mod snapshots;

use super::image::{Image, ImagePart};
use super::{Chain, ImageFile, unusable};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use clusters::Clusters;
use header::Header;
use snapshots::Snapshot;
use std::sync::Arc;

const MAGIC: [u8; 4] = *b"QFI\xfb";

/// Whether `file` begins like a qcow or qcow2 image.
pub(super) fn is(file: &dyn ReadAt) -> bool {
    let mut magic = [0; 4];
    file.read_at(&mut magic, 0).is_ok() && magic == MAGIC
}

/// Opens the disk of a qcow2 image as it is now.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let header = Header::read(file)?;
    let active = Snapshot::active(&header);
    disk(file, &header, &active, chain)
}

/// Opens the disk of a qcow2 image as it was when the snapshot with this id or name was made.
pub(super) fn open_snapshot(file: &ImageFile, name: &str, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let header = Header::read(file)?;
    let snapshot = snapshots::find(file, &header, name)?;
    disk(file, &header, &snapshot, chain)
}

fn disk(
    file: &ImageFile,
    header: &Header,
    snapshot: &Snapshot,
    chain: &Chain<'_>,
) -> Result<Arc<dyn ReadAt>, MediaError> {
    let notes = Notes::default();
    header.note_state(file, &notes);
    let mut files = vec![ImagePart::from(file)];
    if header.has_data_file() {
        let Some(name) = &header.extensions.data_file else {
            return Err(unusable(&file.path, "its data is in another file, and the header does not say in which"));
        };
        files.push(ImagePart::from(&chain.open_part(&file.path, backing::local(file, name, "data file")?)?));
    }
    let parent = match &header.backing_file {
        Some(name) => Some(backing::open(file, name, header, chain, &notes)?),
        None => None,
    };
    let layout = Clusters::new(header, snapshot);
    let mut image = Image::new(snapshot.disk_bytes, Box::new(layout), files, parent);
    image.notes = notes;
    Ok(Arc::new(image))
}

/// The big-endian number at `offset` of `bytes`; 0 beyond their end.
fn be_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

/// As [`be_u32`].
fn be_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
