//! What the machine says of its devices and of itself, in files below `/sys`, `/proc`, `/dev`, `/run` and `/etc`.
//!
//! Only Linux has these; elsewhere nothing is found there. The root may be another folder: that of a copy, or of a test.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Read of one file at most. Those of `/sys` have a page; the list of mounts is the longest.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 20_000;

/// Where to look for what a machine says of itself.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Host {
    /// The machine whose file systems are mounted below `root`; `/` is the one that this runs on.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path below the root.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// The text of a small file, without white space at its ends; `None` when it is not there, or empty.
    #[must_use]
    pub fn read(&self, relative: &str) -> Option<String> {
        read(&self.path(relative))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.read("proc/sys/kernel/hostname")
    }

    /// Whether a file or folder is there.
    #[must_use]
    pub fn has(&self, relative: &str) -> bool {
        self.path(relative).exists()
    }
}

/// As [`Host::read`], anywhere. What is no text is taken for one.
pub(super) fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    // Some files of `/sys` give an error when they are read; then there is nothing to say.
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The names in a folder, in order.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().ok();
    let mut names: Vec<String> = entries.flatten().take(ENTRIES_MAX).filter_map(name).collect();
    names.sort();
    names
}
