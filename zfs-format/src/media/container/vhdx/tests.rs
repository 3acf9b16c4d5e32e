use super::*;
use crate::media::{Content, Opener};
use std::path::PathBuf;
use std::process::Command;

const MB: usize = 1 << 20;
/// Where the parts of a made image are.
const LOG: usize = MB;
const TABLE: usize = 2 * MB;
const METADATA: usize = 3 * MB;
const DATA: usize = 4 * MB;
const BLOCKS: usize = 4;
/// Entry of the table that tells where the bitmap of the first chunk is: blocks of 1 MiB, sectors of 512 bytes.
const BITMAP_ENTRY: usize = 4096;
const LOG_GUID: u8 = 0x4c;
const LOCATOR: [u8; 16] =
    [0xb7, 0xef, 0x4a, 0xb0, 0x9e, 0xd1, 0x81, 0x4a, 0xb7, 0x89, 0x25, 0xb8, 0xe9, 0x44, 0x59, 0x13];
const TABLE_GUID: [u8; 16] = [0x66, 0x77, 0xc2, 0x2d, 0x23, 0xf6, 0, 0x42, 0x9d, 0x64, 0x11, 0x5e, 0x9b, 0xfd, 0x4a, 8];
const METADATA_GUID: [u8; 16] =
    [6, 0xa2, 0x7c, 0x8b, 0x90, 0x47, 0x9a, 0x4b, 0xb8, 0xfe, 0x57, 0x5f, 5, 0xf, 0x88, 0x6e];
const ITEMS: [[u8; 16]; 6] = [
    [0x37, 0x67, 0xa1, 0xca, 0x36, 0xfa, 0x43, 0x4d, 0xb3, 0xb6, 0x33, 0xf0, 0xaa, 0x44, 0xe7, 0x6b],
    [0x24, 0x42, 0xa5, 0x2f, 0x1b, 0xcd, 0x76, 0x48, 0xb2, 0x11, 0x5d, 0xbe, 0xd8, 0x3b, 0xf4, 0xb8],
    [0xab, 0x12, 0xca, 0xbe, 0xe6, 0xb2, 0x23, 0x45, 0x93, 0xef, 0xc3, 0x09, 0xe0, 0x00, 0xc7, 0x46],
    [0x1d, 0xbf, 0x41, 0x81, 0x6f, 0xa9, 0x09, 0x47, 0xba, 0x47, 0xf2, 0x33, 0xa8, 0xfa, 0xab, 0x5f],
    [0xc7, 0x48, 0xa3, 0xcd, 0x5d, 0x44, 0x71, 0x44, 0x9c, 0xc9, 0xe9, 0x88, 0x52, 0x51, 0xc5, 0x56],
    [0x2d, 0x5f, 0xd3, 0xa8, 0x0b, 0xb3, 0x4d, 0x45, 0xab, 0xf7, 0xd3, 0xd8, 0x48, 0x34, 0xab, 0x0c],
];

/// CRC-32C, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn put(bytes: &mut [u8], at: usize, part: impl AsRef<[u8]>) {
    bytes[at..at + part.as_ref().len()].copy_from_slice(part.as_ref());
}

fn seal(bytes: &mut [u8]) {
    bytes[4..8].fill(0);
    let sum = crc(bytes);
    put(bytes, 4, sum.to_le_bytes());
}

fn head(sequence: u64, data: u8, log: u8) -> Vec<u8> {
    let mut head = vec![0; 4096];
    put(&mut head, 0, b"head");
    put(&mut head, 8, sequence.to_le_bytes());
    put(&mut head, 16, [1; 16]);
    put(&mut head, 32, [data; 16]);
    put(&mut head, 48, [log; 16]);
    put(&mut head, 66, 1_u16.to_le_bytes());
    put(&mut head, 68, (MB as u32).to_le_bytes());
    put(&mut head, 72, (LOG as u64).to_le_bytes());
    seal(&mut head);
    head
}

fn locator(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0; 20 + 12 * pairs.len()];
    put(&mut bytes, 0, LOCATOR);
    put(&mut bytes, 18, (pairs.len() as u16).to_le_bytes());
    for (number, (key, value)) in pairs.iter().enumerate() {
        for (text, place, length) in [(key, 0, 8), (value, 4, 10)] {
            let start = bytes.len() as u32;
            let text: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            put(&mut bytes, 20 + 12 * number + place, start.to_le_bytes());
            put(&mut bytes, 20 + 12 * number + length, (text.len() as u16).to_le_bytes());
            bytes.extend(text);
        }
    }
    bytes
}

/// An image of four blocks of 1 MiB, each with a state, and filled with its byte where it is stored.
fn image(data_guid: u8, blocks: [(u64, u8); BLOCKS], parent: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0; DATA + BLOCKS * MB];
    put(&mut bytes, 0, b"vhdxfile");
    put(&mut bytes, 64 << 10, head(7, data_guid, 0));
    put(&mut bytes, 128 << 10, head(8, data_guid, 0));
    let mut regions = vec![0; 64 << 10];
    put(&mut regions, 0, b"regi");
    put(&mut regions, 8, 2_u32.to_le_bytes());
    for (at, guid, start) in [(16, TABLE_GUID, TABLE), (48, METADATA_GUID, METADATA)] {
        put(&mut regions, at, guid);
        put(&mut regions, at + 16, (start as u64).to_le_bytes());
        put(&mut regions, at + 24, (MB as u32).to_le_bytes());
        put(&mut regions, at + 28, 1_u32.to_le_bytes());
    }
    seal(&mut regions);
    put(&mut bytes, 192 << 10, &regions);
    put(&mut bytes, 256 << 10, &regions);
    let has_parent = !parent.is_empty();
    let parameters = [(MB as u32).to_le_bytes(), (u32::from(has_parent) << 1).to_le_bytes()].concat();
    let values: [Vec<u8>; 6] = [
        parameters,
        ((BLOCKS * MB) as u64).to_le_bytes().to_vec(),
        vec![9; 16],
        512_u32.to_le_bytes().to_vec(),
        512_u32.to_le_bytes().to_vec(),
        locator(parent),
    ];
    put(&mut bytes, METADATA, b"metadata");
    let count = if has_parent { 6 } else { 5 };
    put(&mut bytes, METADATA + 10, (count as u16).to_le_bytes());
    let flags = [4_u32, 6, 6, 6, 6, 4];
    for number in 0..count {
        let (at, place) = (METADATA + 32 + 32 * number, (64 << 10) + 4096 * number);
        put(&mut bytes, at, ITEMS[number]);
        put(&mut bytes, at + 16, (place as u32).to_le_bytes());
        put(&mut bytes, at + 20, (values[number].len() as u32).to_le_bytes());
        put(&mut bytes, at + 24, flags[number].to_le_bytes());
        put(&mut bytes, METADATA + place, &values[number]);
    }
    for (number, (state, value)) in blocks.into_iter().enumerate() {
        let start = DATA + number * MB;
        let place = if state >= 6 { start as u64 } else { 0 };
        put(&mut bytes, TABLE + 8 * number, (place | state).to_le_bytes());
        bytes[start..start + MB].fill(value);
    }
    bytes
}

/// A descriptor: place in the file, and the sector that is to be there, or how many bytes become zero.
enum Change {
    Sector(u64, Box<[u8; 4096]>),
    Zero(u64, u64),
}

fn log_entry(sequence: u64, tail: usize, size: u64, changes: &[Change]) -> Vec<u8> {
    let mut entry = vec![0; 4096];
    put(&mut entry, 0, b"loge");
    put(&mut entry, 12, (tail as u32).to_le_bytes());
    put(&mut entry, 16, sequence.to_le_bytes());
    put(&mut entry, 24, (changes.len() as u32).to_le_bytes());
    put(&mut entry, 32, [LOG_GUID; 16]);
    put(&mut entry, 48, size.to_le_bytes());
    put(&mut entry, 56, size.to_le_bytes());
    for (number, change) in changes.iter().enumerate() {
        let at = 64 + 32 * number;
        put(&mut entry, at + 24, sequence.to_le_bytes());
        match change {
            Change::Zero(place, length) => {
                put(&mut entry, at, b"zero");
                put(&mut entry, at + 8, length.to_le_bytes());
                put(&mut entry, at + 16, place.to_le_bytes());
            }
            Change::Sector(place, sector) => {
                put(&mut entry, at, b"desc");
                put(&mut entry, at + 4, &sector[4092..]);
                put(&mut entry, at + 8, &sector[..8]);
                put(&mut entry, at + 16, place.to_le_bytes());
                let mut data = **sector;
                put(&mut data, 0, b"data");
                put(&mut data, 4, ((sequence >> 32) as u32).to_le_bytes());
                put(&mut data, 4092, (sequence as u32).to_le_bytes());
                entry.extend(data);
            }
        }
    }
    let length = entry.len() as u32;
    put(&mut entry, 8, length.to_le_bytes());
    seal(&mut entry);
    entry
}

/// An image whose log, which begins at `at` of its ring, holds its table of blocks; and the disk that is in it.
fn unclean(at: usize) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = image(3, [(6, 1), (6, 2), (0, 0), (6, 4)], &[]);
    let size = bytes.len() as u64;
    let table: [u8; 4096] = bytes[TABLE..TABLE + 4096].try_into().unwrap();
    let mut ends = [5; 4096];
    put(&mut ends, 0, b"12345678");
    put(&mut ends, 4092, b"tail");
    let entries = [
        log_entry(
            0x1_0000_0005,
            at,
            size,
            &[Change::Sector((DATA + 8192) as u64, Box::new(ends)), Change::Zero(DATA as u64, 4096)],
        ),
        log_entry(
            0x1_0000_0006,
            at,
            size,
            &[
                Change::Sector(TABLE as u64, Box::new(table)),
                Change::Zero((DATA + MB) as u64, 12288),
                Change::Sector((DATA + MB + 4096) as u64, Box::new(ends)),
            ],
        ),
    ];
    let mut place = at;
    for sector in entries.concat().chunks(4096) {
        put(&mut bytes, LOG + place, sector);
        place = (place + 4096) % MB;
    }
    // An older entry of the same log, behind the others.
    put(
        &mut bytes,
        LOG + (at + 0x40000) % MB,
        log_entry(3, (at + 0x40000) % MB, size, &[Change::Zero(TABLE as u64, 4096)]),
    );
    bytes[TABLE..TABLE + 4096].fill(0);
    put(&mut bytes, 64 << 10, head(9, 3, LOG_GUID));
    let mut disk = vec![0; BLOCKS * MB];
    for (block, value) in [(0, 1), (1, 2), (3, 4)] {
        disk[block * MB..(block + 1) * MB].fill(value);
    }
    disk[..4096].fill(0);
    put(&mut disk, 8192, ends);
    disk[MB..MB + 12288].fill(0);
    put(&mut disk, MB + 4096, ends);
    (bytes, disk)
}

fn write(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn disk(path: &Path) -> Arc<dyn ReadAt> {
    Opener::default().open(path).unwrap().remove(0).bytes
}

fn whole(disk: &dyn ReadAt) -> Vec<u8> {
    let mut bytes = vec![7; disk.size_bytes() as usize];
    disk.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn kinds(disk: &dyn ReadAt) -> Vec<NoteKind> {
    disk.notes().into_iter().map(|note| note.kind).collect()
}

fn has_qemu() -> bool {
    let found = Command::new("qemu-img").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no qemu-img");
    }
    found
}

fn qemu(arguments: &[&str], paths: &[&Path]) {
    let output = Command::new("qemu-img").args(arguments).args(paths).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_checksum_is_that_of_the_published_vector() {
    assert_eq!(CRC.checksum(b"123456789"), 0xe306_9283);
    assert_eq!(crc(b"123456789"), 0xe306_9283);
}

#[test]
fn the_log_is_replayed_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    // The others go round the end of the ring: between entries, and inside of one.
    for at in [0, MB - 8192, MB - 12288] {
        let (bytes, expected) = unclean(at);
        let path = write(&dir, "unclean.vhdx", &bytes);
        let disk = disk(&path);
        assert!(whole(&*disk) == expected, "{at}");
        let notes = disk.notes();
        assert_eq!(notes[0].kind, NoteKind::ImageUnclean);
        assert_eq!(notes[0].message, "it was not closed; its log (2 entries) was replayed in memory");
        assert_eq!(notes.len(), 1);
        assert!(std::fs::read(&path).unwrap() == bytes, "the image was changed");
        // Seen with qemu-img 10.0.2: of a sequence that begins anew at 0 it replayed the second part alone, so
        // that one is not compared.
        if at != MB - 8192 && has_qemu() {
            let (copy, raw) = (write(&dir, "copy.vhdx", &bytes), dir.path().join("raw"));
            let _ = Command::new("qemu-img").args(["check", "-r", "all"]).arg(&copy).output().unwrap();
            assert!(std::fs::read(&copy).unwrap() != bytes, "qemu-img replayed nothing");
            qemu(&["convert", "-f", "vhdx", "-O", "raw"], &[&copy, &raw]);
            assert!(std::fs::read(&raw).unwrap() == expected, "{at}");
        }
    }
}

#[test]
fn a_damaged_log_is_left_out_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let (mut bytes, expected) = unclean(0);
    // Without the older entry: the second one is cut, then all.
    bytes[LOG + 0x40000] ^= 1;
    bytes[LOG + 3 * 4096 + 100] ^= 1;
    let first = disk(&write(&dir, "first.vhdx", &bytes));
    assert!(whole(&*first) != expected);
    assert_eq!(kinds(&*first), [NoteKind::ImageUnclean]);
    bytes[LOG + 100] ^= 1;
    let none = disk(&write(&dir, "none.vhdx", &bytes));
    assert_eq!(kinds(&*none), [NoteKind::ImageDamaged]);
    assert_eq!(whole(&*none), vec![0; BLOCKS * MB]);
}

#[test]
fn a_differencing_image_and_its_parent_are_one_disk() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "base.vhdx", &image(3, [(6, 1), (6, 2), (6, 3), (6, 4)], &[]));
    let linkage = "{03030303-0303-0303-0303-030303030303}";
    let mut expected = vec![0; BLOCKS * MB];
    for (start, end, value) in
        [(0, MB, 8), (MB, 2 * MB, 2), (MB + 512, MB + 5 * 512, 9), (2 * MB, 3 * MB, 0), (3 * MB, 4 * MB, 4)]
    {
        expected[start..end].fill(value);
    }
    for (key, name) in [
        ("relative_path", ".\\base.vhdx"),
        ("absolute_win32_path", "C:\\VMs\\base.vhdx"),
        ("volume_path", "\\\\?\\Volume{1}\\base.vhdx"),
        ("relative_path", "renamed.vhdx"),
    ] {
        let mut bytes = image(5, [(6, 8), (7, 9), (3, 0), (0, 0)], &[("parent_linkage", linkage), (key, name)]);
        let bitmap = bytes.len();
        bytes.resize(bitmap + MB, 0);
        put(&mut bytes, TABLE + 8 * BITMAP_ENTRY, (bitmap as u64 | 6).to_le_bytes());
        bytes[bitmap + 256] = 0b0001_1110;
        let path = write(&dir, "child.avhdx", &bytes);
        let child = disk(&path);
        assert!(whole(&*child) == expected, "{name}");
        assert_eq!(kinds(&*child), []);
        assert_eq!(child.extent_at((3 * MB) as u64).layer, 1);
        assert_eq!(child.extent_at((2 * MB) as u64).content, Content::Zero);
        assert_eq!((child.extent_at(MB as u64).layer, child.extent_at(MB as u64).length_bytes), (1, 512));
        put(&mut bytes, TABLE + 8 * BITMAP_ENTRY, [0; 8]);
        let lost = disk(&write(&dir, "lost.avhdx", &bytes));
        assert!(lost.read_at(&mut [0; 512], MB as u64).is_err());
        assert_eq!(kinds(&*lost), [NoteKind::ImageDamaged]);
    }
    let other = [("parent_linkage", "{13030303-0303-0303-0303-030303030303}"), ("relative_path", "base.vhdx")];
    let mismatched = disk(&write(&dir, "other.avhdx", &image(5, [(0, 0); 4], &other)));
    assert_eq!(kinds(&*mismatched), [NoteKind::ChainMismatch]);
}

#[test]
fn either_copy_of_headers_and_regions_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let good = image(3, [(6, 1), (2, 0), (0, 0), (6, 4)], &[]);
    let expected = whole(&*disk(&write(&dir, "good.vhdx", &good)));
    assert_eq!((expected[0], expected[MB], expected[3 * MB]), (1, 0, 4));
    for pair in [[64, 128], [192, 256]] {
        let mut both = good.clone();
        for at in pair {
            let mut bytes = good.clone();
            bytes[(at << 10) + 40] ^= 1;
            both[(at << 10) + 40] ^= 1;
            let one = disk(&write(&dir, "one.vhdx", &bytes));
            assert!(whole(&*one) == expected, "{at}");
            assert_eq!(kinds(&*one), [NoteKind::ImageDamaged], "{at}");
        }
        assert!(matches!(Opener::default().open(&write(&dir, "both.vhdx", &both)), Err(MediaError::Container { .. })));
    }
    for at in [METADATA, METADATA + 32, METADATA + (64 << 10) + 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let opened = Opener::default().open(&write(&dir, "metadata.vhdx", &bytes));
        assert!(matches!(opened, Err(MediaError::Container { .. })), "{at}");
    }
}

#[test]
fn what_the_table_cannot_say_is_a_range_and_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = image(3, [(6, 1), (4, 2), (7, 3), (6, 4)], &[]);
    put(&mut bytes, TABLE, (TABLE as u64 | 6).to_le_bytes());
    bytes.truncate(DATA + 4 * MB - 1000);
    let disk = disk(&write(&dir, "table.vhdx", &bytes));
    let lost: Vec<(u64, u64)> = (0..BLOCKS)
        .map(|block| match disk.read_at(&mut vec![0; MB], (block * MB) as u64) {
            Err(MediaError::Damaged { offset, length, .. }) => (offset, length),
            other => panic!("{block}: {other:?}"),
        })
        .collect();
    let mb = MB as u64;
    assert_eq!(lost, [(0, mb), (mb, mb), (2 * mb, mb), (4 * mb - 1000, 1000)]);
    assert_eq!(
        kinds(&*disk),
        [NoteKind::ImageDamaged, NoteKind::ImageDamaged, NoteKind::ImageDamaged, NoteKind::ImageTruncated]
    );
}

#[test]
fn the_images_of_qemu_hold_what_was_put_in() {
    if !has_qemu() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut raw = vec![0; 9 * MB];
    for (at, byte) in raw[MB + 777..3 * MB + 99].iter_mut().enumerate() {
        *byte = (at * 31 / 7) as u8;
    }
    raw[9 * MB - 512..].fill(0xee);
    let source = write(&dir, "raw", &raw);
    for options in [
        "subformat=dynamic",
        "subformat=fixed",
        "subformat=dynamic,block_size=1M",
        "subformat=dynamic,block_size=256M",
        "subformat=dynamic,block_size=2M,log_size=3M",
        "subformat=dynamic,block_state_zero=off",
    ] {
        let path = dir.path().join("image.vhdx");
        qemu(&["convert", "-f", "raw", "-O", "vhdx", "-o", options], &[&source, &path]);
        let disk = disk(&path);
        assert!(whole(&*disk) == raw, "{options}");
        assert_eq!(kinds(&*disk), [], "{options}");
    }
    let (made, back) =
        (write(&dir, "made.vhdx", &image(3, [(6, 1), (2, 0), (0, 0), (6, 4)], &[])), dir.path().join("back"));
    qemu(&["convert", "-f", "vhdx", "-O", "raw"], &[&made, &back]);
    assert!(std::fs::read(&back).unwrap() == whole(&*disk(&made)));
}
