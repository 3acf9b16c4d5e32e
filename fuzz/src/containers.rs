//! Disk images.

use crate::medium::Pieces;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use zfs_format::media::open_image;

/// Extents that are asked for.
const EXTENTS_MAX: usize = 200;

/// Any bytes as a disk image of VMware. No file lies beside it.
pub fn vmdk(data: &[u8]) {
    black_box(image(data, "nowhere/image.vmdk"));
}

/// Any bytes as a disk image of QEMU. No file lies beside it.
pub fn qcow2(data: &[u8]) {
    black_box(image(data, "nowhere/image.qcow2"));
}

/// Any bytes as a disk image of VirtualBox. No file lies beside it.
pub fn vdi(data: &[u8]) {
    black_box(image(data, "nowhere/image.vdi"));
}

/// Any bytes as the only segment of an image of EnCase.
pub fn ewf(data: &[u8]) {
    black_box(image(data, "nowhere/image.E01"));
}

fn image(data: &[u8], path: &str) -> bool {
    disk(Pieces { size_bytes: data.len() as u64, pieces: BTreeMap::from([(0, data.to_vec())]) }, path)
}

/// Opens an image, reads its start, middle and end, and walks over its extents. Whether it is one.
pub(crate) fn disk(bytes: Pieces, path: &str) -> bool {
    let raw_bytes = bytes.size_bytes;
    let Ok(disk) = open_image(Path::new(path), Arc::new(bytes)) else { return false };
    let size = disk.size_bytes();
    let mut buffer = vec![0; 100_000];
    for start in [0, 512, size / 3, size / 2, size.saturating_sub(100_000)] {
        let length = size.saturating_sub(start).min(100_000) as usize;
        black_box(disk.read_at(&mut buffer[..length], start).is_ok());
    }
    let mut at = 0;
    for _ in 0..EXTENTS_MAX {
        if at >= size {
            break;
        }
        let extent = disk.extent_at(at);
        assert!(
            extent.length_bytes > 0 && at.checked_add(extent.length_bytes).is_some_and(|end| end <= size),
            "{extent:?}"
        );
        at += extent.length_bytes;
    }
    black_box(disk.notes());
    size != raw_bytes
}

/// Tiny images: grains of one sector.
pub(crate) fn vmdk_seeds() -> [(&'static str, Vec<u8>); 4] {
    [("hosted", hosted(0)), ("packed", hosted(0x3_0000)), ("cowd", cowd()), ("sesparse", se_sparse())]
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn hosted(flags: u32) -> Vec<u8> {
    let mut bytes = vec![0; 10 * 512];
    put(&mut bytes, 0, b"KDMV\x03\0\0\0");
    put(&mut bytes, 8, &(flags | 7).to_le_bytes());
    for (at, sectors) in [(12, 8_u64), (20, 1), (28, 1), (36, 1), (48, 2), (56, 3), (64, 6)] {
        put(&mut bytes, at, &sectors.to_le_bytes());
    }
    put(&mut bytes, 44, &4_u32.to_le_bytes());
    put(&mut bytes, 73, b"\n \r\n");
    bytes[77] = u8::from(flags != 0);
    put(&mut bytes, 512, b"# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\nRW 8 SPARSE \"image.vmdk\"\n");
    for (directory, table) in [(2, 4), (3, 5)] {
        put(&mut bytes, 512 * directory, &[table, 0, 0, 0, table, 0, 0, 0]);
        put(&mut bytes, 512 * usize::from(table), &[6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    }
    // The marker of the first grain, and a sector of zeros behind it, as zlib stores them.
    put(&mut bytes, 512 * 6 + 8, &[14, 0, 0, 0, 0x78, 0x9c, 0x63, 0x60, 0x18, 0x05, 0xa3, 0, 0, 0x02, 0, 0, 0x01]);
    bytes
}

fn cowd() -> Vec<u8> {
    let mut bytes = vec![0; 512 * 38];
    for (index, word) in [0x4457_4f43_u32, 1, 3, 16, 1, 4, 1, 0].iter().enumerate() {
        put(&mut bytes, 4 * index, &word.to_le_bytes());
    }
    put(&mut bytes, 2048, &[5]);
    put(&mut bytes, 5 * 512, &[37, 0, 0, 0, 0, 0, 0, 0, 37]);
    bytes
}

fn se_sparse() -> Vec<u8> {
    let mut bytes = vec![0; 512 * 6];
    let head = [(0, 0xcafe_babe_u64), (8, 0x2_0000_0001), (16, 16), (24, 1), (32, 1)];
    let places = [(80, 1), (88, 1), (128, 2), (136, 1), (144, 3), (152, 1), (192, 4), (200, 2)];
    for (at, word) in head.into_iter().chain(places) {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    put(&mut bytes, 512, &0xcafe_cafe_u64.to_le_bytes());
    put(&mut bytes, 1024, &(1_u64 << 60).to_le_bytes());
    for (index, entry) in [3_u64 << 60, 2 << 60, 1 << 60, 0, 3 << 60 | 1 << 48].iter().enumerate() {
        put(&mut bytes, 1536 + 8 * index, &entry.to_le_bytes());
    }
    bytes
}

/// A disk of four blocks of 4 KiB: stored, free, discarded, stored.
pub(crate) fn vdi_seed() -> Vec<u8> {
    let mut bytes = vec![0; 2048 + 2 * 4096];
    let head = [(64, 0xbeda_107f_u32), (68, 0x1_0001), (72, 400), (76, 1), (340, 1024), (344, 2048)];
    let sizes = [(368, 16_384), (376, 4096), (384, 4), (1028, u32::MAX), (1032, u32::MAX - 1), (1036, 1)];
    for (at, word) in head.into_iter().chain(sizes) {
        put(&mut bytes, at, &word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::{Seed, seeds};

    #[test]
    fn the_seeds_are_images() {
        for Seed { target, name, bytes } in seeds() {
            let is_image = match target {
                "vmdk" | "qcow2" | "vdi" => image(&bytes, &format!("nowhere/image.{target}")),
                "ewf" => image(&bytes, "nowhere/image.E01"),
                _ => continue,
            };
            assert!(is_image, "{target}/{name}");
        }
    }
}
