mod matrix;

use super::*;
use crate::media::{Content, Opener};
use std::path::Path;
use std::path::PathBuf;

const BLOCK: usize = 4096;

/// A VDI image with blocks of 4 KiB: each block of the disk is free, discarded, or holds one byte value.
fn image(kind: u32, uuid: u8, parent: u8, blocks: &[Option<u8>], discarded: &[usize]) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    for (at, value) in
        [(64, MAGIC), (68, 0x1_0001), (72, 400), (76, kind), (340, 1024), (344, 4096), (376, BLOCK as u32)]
    {
        put(at, value);
    }
    put(368, (BLOCK * blocks.len()) as u32);
    put(384, blocks.len() as u32);
    let mut stored = 0;
    for (number, block) in blocks.iter().enumerate() {
        let entry = match block {
            Some(_) => stored,
            None if discarded.contains(&number) => DISCARDED,
            None => FREE,
        };
        stored += u32::from(block.is_some());
        put(1024 + 4 * number, entry);
    }
    bytes[392..408].fill(uuid);
    bytes[424..440].fill(parent);
    for value in blocks.iter().flatten() {
        bytes.extend([*value; BLOCK]);
    }
    bytes
}

fn write(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn disk(path: &Path) -> Arc<dyn ReadAt> {
    Opener::default().open(path).unwrap().remove(0).bytes
}

#[test]
fn a_chain_of_differencing_images_is_found_by_uuid() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "base.vdi", &image(1, 1, 0, &[Some(1), Some(2), Some(3), None], &[]));
    let child = write(&dir, "child.vdi", &image(4, 2, 1, &[None, Some(9), None, None], &[2]));
    let disk = disk(&child);
    let mut read = vec![7; 4 * BLOCK];
    disk.read_at(&mut read, 0).unwrap();
    let firsts: Vec<u8> = read.chunks(BLOCK).map(|block| block[0]).collect();
    assert_eq!(firsts, [1, 9, 0, 0]);
    let extents: Vec<(Content, u32)> = (0..4)
        .map(|block| disk.extent_at(block * BLOCK as u64 + 5))
        .map(|extent| (extent.content, extent.layer))
        .collect();
    assert_eq!(extents, [(Content::Data, 1), (Content::Data, 0), (Content::Zero, 0), (Content::Hole, 1)]);
    let place = disk.extent_at(5);
    assert_eq!((place.file.as_deref(), place.file_offset_bytes), (Some(&*dir.path().join("base.vdi")), Some(4096 + 5)));
    assert_eq!(place.length_bytes, BLOCK as u64 - 5);
}

#[test]
fn what_the_table_cannot_say_is_a_range_and_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = image(1, 1, 0, &[Some(1), Some(2), Some(3)], &[]);
    bytes[1024..1028].copy_from_slice(&77_u32.to_le_bytes());
    bytes.truncate(4096 + 2 * BLOCK + 100);
    let disk = disk(&write(&dir, "a.vdi", &bytes));
    let mut read = vec![0; BLOCK];
    disk.read_at(&mut read, BLOCK as u64).unwrap();
    assert_eq!(read[0], 2);
    let damaged = |offset: u64| match disk.read_at(&mut vec![0; BLOCK], offset) {
        Err(MediaError::Damaged { offset, length, .. }) => Some((offset, length)),
        _ => None,
    };
    assert_eq!(damaged(0), Some((0, BLOCK as u64)));
    assert_eq!(damaged(2 * BLOCK as u64), Some((2 * BLOCK as u64 + 100, BLOCK as u64 - 100)));
    let kinds: Vec<NoteKind> = disk.notes().into_iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::ImageDamaged, NoteKind::ImageTruncated]);
    assert!(matches!(disk.extent_at(0).content, Content::Unreadable { .. }));
}

#[test]
fn impossible_headers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (at, value) in [(76, 3_u32), (376, 1000), (384, 1), (68, 0x2_0000)] {
        let mut bytes = image(1, 1, 0, &[Some(1), Some(2)], &[]);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let path = write(&dir, "a.vdi", &bytes);
        assert!(matches!(Opener::default().open(&path), Err(MediaError::Container { .. })), "{at}");
    }
    let orphan = write(&dir, "b.vdi", &image(4, 2, 1, &[None], &[]));
    assert!(Opener::default().open(&orphan).unwrap_err().to_string().contains("no image beside it is its parent"));
}
