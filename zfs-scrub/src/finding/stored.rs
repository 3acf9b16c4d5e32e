//! Where the bytes of a bad copy are stored: below the device there may be a partition, an image, a chain of images.

use serde::{Deserialize, Serialize};
use zfs_format::media::{Content, ReadAt};

/// Parts that are told of one copy. A copy of 128 KiB has two in clusters of 64 KiB; one in clusters of 512 bytes has 256.
const PARTS_MAX: usize = 16;

/// What an image holds for a part of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StoredState {
    /// Bytes as they are.
    Data,
    /// Bytes in compressed form.
    Compressed,
    /// Nothing but a mark that says zeros.
    Zero,
    /// Nothing: it was never written, or given back.
    Hole,
    /// The image cannot say.
    Unreadable,
}

impl StoredState {
    /// The word of the JSON report.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Compressed => "compressed",
            Self::Zero => "zero",
            Self::Hole => "hole",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether a file holds something for it.
    #[must_use]
    pub fn is_allocated(self) -> bool {
        matches!(self, Self::Data | Self::Compressed)
    }
}

impl From<&Content> for StoredState {
    fn from(content: &Content) -> Self {
        match content {
            Content::Data => Self::Data,
            Content::Packed => Self::Compressed,
            Content::Zero => Self::Zero,
            Content::Hole => Self::Hole,
            Content::Unreadable { .. } => Self::Unreadable,
        }
    }
}

/// Where a part of a copy is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPart {
    /// Byte of the device at which it begins.
    pub device_offset_bytes: u64,
    /// Its bytes on the device.
    pub length_bytes: u64,
    /// What holds it.
    pub state: StoredState,
    /// The file or device with the bytes, or with the table that says that there are none.
    pub file: String,
    /// Where they begin in the file; the start of the compressed piece when they are compressed.
    pub file_offset_bytes: Option<u64>,
    /// Images up the chain of parents; 0 is the one that was given.
    pub layer: u32,
}

impl StoredPart {
    /// Whether it lies elsewhere than at the same byte of the file that was opened.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.layer > 0
            || self.state == StoredState::Compressed
            || self.file_offset_bytes.is_some_and(|at| at != self.device_offset_bytes)
    }
}

/// The name of a file for people: without its folder, unless it is a device.
#[must_use]
pub fn file_name(file: &str) -> &str {
    if file.starts_with("/dev/") { file } else { file.rsplit(['/', '\\']).next().unwrap_or(file) }
}

/// The parts of `length` bytes at `offset` of a device, 16 at most. Empty where nobody knows of files.
pub(crate) fn parts(device: &dyn ReadAt, offset: u64, length: u64) -> Vec<StoredPart> {
    let end = offset.saturating_add(length).min(device.size_bytes());
    let (mut parts, mut at): (Vec<StoredPart>, u64) = (Vec::new(), offset);
    while at < end && parts.len() < PARTS_MAX {
        let extent = device.extent_at(at).at_most(end - at);
        let Some(file) = &extent.file else { break };
        parts.push(StoredPart {
            device_offset_bytes: at,
            length_bytes: extent.length_bytes.max(1),
            state: StoredState::from(&extent.content),
            file: file.display().to_string(),
            file_offset_bytes: extent.file_offset_bytes,
            layer: extent.layer,
        });
        at = at.saturating_add(extent.length_bytes.max(1));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::sync::Arc;
    use zfs_format::media::{FileMedium, Window};

    #[test]
    fn a_hole_in_a_sparse_file_is_told_behind_a_partition() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        let mut writer = file.as_file();
        writer.seek(SeekFrom::Start(2 << 20)).unwrap();
        writer.write_all(&[1; 1 << 20]).unwrap();
        let disk: Arc<dyn ReadAt> = Arc::new(FileMedium::open(file.path()).unwrap());
        let partition = Window::new(disk, 1 << 20, u64::MAX);
        let found = parts(&partition, 0x1_0000, 1 << 20);
        let states: Vec<(StoredState, Option<u64>)> =
            found.iter().map(|part| (part.state, part.file_offset_bytes)).collect();
        // A file system without holes tells nothing but data.
        if states != [(StoredState::Data, Some(0x11_0000))] {
            assert_eq!(states, [(StoredState::Hole, Some(0x11_0000)), (StoredState::Data, Some(2 << 20))]);
        }
        assert_eq!(found.iter().map(|part| part.length_bytes).sum::<u64>(), 1 << 20);
        assert!(found.iter().all(|part| part.file == file.path().display().to_string() && part.layer == 0));
    }
}
