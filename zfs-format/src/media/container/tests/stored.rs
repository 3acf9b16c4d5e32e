//! The small images in `fixtures/containers`, each with the sum of the disk inside.

use crate::media::open;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder of the images of one format.
pub(super) fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/containers").join(format)
}

/// Fails unless each image of the folder holds what its list of sums says, and has nothing to say of itself.
pub(super) fn check(format: &str) {
    let folder = folder(format);
    let list = std::fs::read_to_string(folder.join("sha256")).unwrap();
    for line in list.lines() {
        let (expected, name) = line.split_once("  ").unwrap();
        let disk = open(&folder.join(name)).unwrap().bytes;
        let mut bytes = vec![0xee; disk.size_bytes() as usize];
        disk.read_at(&mut bytes, 0).unwrap();
        let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{name}");
        assert!(disk.notes().is_empty(), "{name}: {:?}", disk.notes());
    }
}
