//! Disk images that are more than the bytes of the disk: tables say where each cluster lies, in which file.
//!
//! All formats come down to one reader, [`Image`]: a [`Layout`] says what a byte of the disk is, and the reader fetches
//! it, from files, compressed clusters and parents. Nothing is written, not even a log that waits for replay.

mod bitmap;
mod ewf;
mod image;
mod neighbours;
pub(super) mod ova;
mod qcow2;
#[cfg(test)]
#[path = "tests/qemu.rs"]
mod qemu;
#[cfg(test)]
#[path = "tests/stored.rs"]
mod stored;
mod table;
mod unpack;
mod vdi;
mod vhd;
mod vhdx;
mod vmdk;

pub(super) use neighbours::{Chain, ImageFile};
use table::Table;

use super::{MediaError, NoteKind, Notes, ReadAt};
use image::{ImagePart, Run};
use std::path::Path;
use std::sync::Arc;

/// What [`super::Opener`] was told about following names.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// Names that lead out of the image's folder are followed.
    pub(super) allow_external: bool,
}

/// The disk inside of `file`, when it is an image of a known format; `None` for raw ones.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Option<Arc<dyn ReadAt>>, MediaError> {
    if qcow2::is(&*file.bytes) {
        return qcow2::open(file, chain).map(Some);
    }
    if vdi::is(&*file.bytes) {
        return vdi::open(file, chain).map(Some);
    }
    if vhdx::is(&*file.bytes) {
        return vhdx::open(file, chain).map(Some);
    }
    if vhd::is(&*file.bytes) {
        return vhd::open(file, chain).map(Some);
    }
    if ewf::is(&*file.bytes) {
        return ewf::open(file, chain).map(Some);
    }
    if let Some(disk) = vmdk::open(file, chain)? {
        return Ok(Some(disk));
    }
    Ok(None)
}

/// The disk inside of `file` as it was when the snapshot `name`, which the image keeps, was made.
pub(super) fn open_snapshot(file: &ImageFile, name: &str, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    if qcow2::is(&*file.bytes) {
        return qcow2::open_snapshot(file, name, chain);
    }
    Err(unusable(&file.path, format!("there is no snapshot {name} in it: only qcow2 images have snapshots inside")))
}

/// The disk inside of `file`, whatever its format; a file of no known format is the disk.
fn open_or_raw(file: &ImageFile, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    Ok(open(file, chain)?.unwrap_or_else(|| Arc::clone(&file.bytes)))
}

/// An error about the image at `path` as a whole: nothing of it can be read.
fn unusable(path: &Path, why: impl Into<String>) -> MediaError {
    MediaError::Container { path: path.to_path_buf(), why: why.into() }
}

/// What follows when the entry of a table at byte `at` of `file` cannot be read: `length` bytes of the disk that cannot
/// be had, and a note.
fn bad_table(
    error: MediaError,
    file: &ImagePart,
    notes: &Notes,
    length: u64,
    what: &str,
    at: u64,
) -> Result<Run, MediaError> {
    match error {
        MediaError::OutOfRange { size, .. } => {
            let message = format!("it ends at byte {size}, before the end of the {what} (byte {at})");
            notes.add(NoteKind::ImageTruncated, &file.path, message);
            Ok(Run::bad(length, format!("the {what} lies beyond the end of the file")))
        }
        MediaError::Read { source, .. } => {
            notes.add(NoteKind::ImageDamaged, &file.path, format!("the {what} cannot be read: {source}"));
            Ok(Run::bad(length, format!("the {what} cannot be read: {source}")))
        }
        other => Err(other),
    }
}

/// The little-endian number at `offset` of `bytes`; 0 beyond their end.
fn le_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

/// As [`le_u32`].
fn le_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}
