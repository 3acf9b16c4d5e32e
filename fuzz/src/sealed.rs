//! Disk images whose parts carry checksums: the input is what the parts say, and the checksums are made right.

use crate::containers::disk;
use crate::input::Input;
use crate::medium::Pieces;
use std::collections::BTreeMap;
use std::hint::black_box;

const MB: u64 = 1 << 20;
/// Where the parts of an image are; the input may say otherwise.
const LOG: u64 = MB;
const TABLE: u64 = 2 * MB;
const METADATA: u64 = 3 * MB;
const DATA: u64 = 4 * MB;
const SIZE: u64 = 6 * MB;

/// Bytes of the input for each part.
const HEAD_BYTES: usize = 80;
const REGIONS_BYTES: usize = 80;
const ITEMS_BYTES: usize = 32 + 6 * 32;
const VALUE_BYTES: usize = 32;
const TABLE_BYTES: usize = 64;
const ENTRY_BYTES: usize = 64 + 3 * 32;

/// A VHDX image: header, table of regions, metadata with six values, table of blocks, entries of the log.
pub fn vhdx(data: &[u8]) {
    black_box(vhdx_image(data));
}

fn vhdx_image(data: &[u8]) -> bool {
    let mut input = Input(data);
    let mut part = |length: usize, size: usize| {
        let mut bytes = input.bytes(length).to_vec();
        bytes.resize(size, 0);
        bytes
    };
    let (mut head, mut regions) = (part(HEAD_BYTES, 4096), part(REGIONS_BYTES, 64 << 10));
    seal_crc(&mut head);
    seal_crc(&mut regions);
    let mut pieces = BTreeMap::from([(0, b"vhdxfile".to_vec()), (64 << 10, head), (192 << 10, regions)]);
    pieces.insert(METADATA, part(ITEMS_BYTES, ITEMS_BYTES));
    for number in 0..6 {
        pieces.insert(METADATA + (64 << 10) + 4096 * number, part(VALUE_BYTES, VALUE_BYTES));
    }
    pieces.insert(TABLE, part(TABLE_BYTES, TABLE_BYTES));
    for number in 0..3 {
        let mut entry = part(ENTRY_BYTES, 4096);
        seal_crc(&mut entry);
        pieces.insert(LOG + 4096 * number, entry);
    }
    pieces.insert(DATA, vec![7; 4096]);
    disk(Pieces { size_bytes: SIZE, pieces }, "nowhere/image.vhdx")
}

/// A VHD image: footer, header, table of blocks, and what lies behind them. It has its footer at both ends.
pub fn vhd(data: &[u8]) {
    black_box(vhd_image(data));
}

fn vhd_image(data: &[u8]) -> bool {
    let mut input = Input(data);
    let mut footer = input.bytes(96).to_vec();
    footer.resize(512, 0);
    seal_sum(&mut footer, 64);
    let mut header = input.bytes(600).to_vec();
    header.resize(1024, 0);
    seal_sum(&mut header, 36);
    let rest = input.0.to_vec();
    let end = 1536 + rest.len() as u64;
    let pieces = BTreeMap::from([(0, footer.clone()), (512, header), (1536, rest), (end, footer)]);
    disk(Pieces { size_bytes: end + 512, pieces }, "nowhere/image.vhd")
}

/// An archive of disks: each header of a member gets its checksum.
pub fn ova(data: &[u8]) {
    black_box(ova_image(data));
}

fn ova_image(data: &[u8]) -> bool {
    let mut bytes = data.to_vec();
    for header in bytes.as_chunks_mut::<512>().0.iter_mut().filter(|header| header[257..262] == *b"ustar") {
        seal_tar(header);
    }
    disk(Pieces { size_bytes: bytes.len() as u64, pieces: BTreeMap::from([(0, bytes)]) }, "nowhere/vm.ova")
}

/// The sum of a tar header with spaces in its place.
fn seal_tar(header: &mut [u8; 512]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Castagnoli's CRC over the whole, with zeros in its place at byte 4.
fn seal_crc(bytes: &mut [u8]) {
    bytes[4..8].fill(0);
    let mut crc = u32::MAX;
    for &byte in &*bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    bytes[4..8].copy_from_slice(&(!crc).to_le_bytes());
}

/// The complement of the sum of all bytes, with zeros in its place.
fn seal_sum(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
    bytes[at..at + 4].copy_from_slice(&(!sum).to_be_bytes());
}

const REGIONS: [[u8; 16]; 2] = [
    [0x66, 0x77, 0xc2, 0x2d, 0x23, 0xf6, 0, 0x42, 0x9d, 0x64, 0x11, 0x5e, 0x9b, 0xfd, 0x4a, 8],
    [6, 0xa2, 0x7c, 0x8b, 0x90, 0x47, 0x9a, 0x4b, 0xb8, 0xfe, 0x57, 0x5f, 5, 0xf, 0x88, 0x6e],
];
/// File parameters, size of the disk, its identity, logical and physical sectors, parent.
const ITEMS: [[u8; 16]; 6] = [
    [0x37, 0x67, 0xa1, 0xca, 0x36, 0xfa, 0x43, 0x4d, 0xb3, 0xb6, 0x33, 0xf0, 0xaa, 0x44, 0xe7, 0x6b],
    [0x24, 0x42, 0xa5, 0x2f, 0x1b, 0xcd, 0x76, 0x48, 0xb2, 0x11, 0x5d, 0xbe, 0xd8, 0x3b, 0xf4, 0xb8],
    [0xab, 0x12, 0xca, 0xbe, 0xe6, 0xb2, 0x23, 0x45, 0x93, 0xef, 0xc3, 0x09, 0xe0, 0x00, 0xc7, 0x46],
    [0x1d, 0xbf, 0x41, 0x81, 0x6f, 0xa9, 0x09, 0x47, 0xba, 0x47, 0xf2, 0x33, 0xa8, 0xfa, 0xab, 0x5f],
    [0xc7, 0x48, 0xa3, 0xcd, 0x5d, 0x44, 0x71, 0x44, 0x9c, 0xc9, 0xe9, 0x88, 0x52, 0x51, 0xc5, 0x56],
    [0x2d, 0x5f, 0xd3, 0xa8, 0x0b, 0xb3, 0x4d, 0x45, 0xab, 0xf7, 0xd3, 0xd8, 0x48, 0x34, 0xab, 0x0c],
];

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A closed image of four blocks, and one with two entries in its log.
pub(crate) fn vhdx_seeds() -> [(&'static str, Vec<u8>); 2] {
    [("closed", vhdx_seed(0)), ("log", vhdx_seed(0x4c))]
}

fn vhdx_seed(log: u8) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES];
    put(&mut head, 0, b"head");
    put(&mut head, 8, &[7]);
    put(&mut head, 16, &[1; 32]);
    put(&mut head, 48, &[log; 16]);
    put(&mut head, 66, &[1]);
    put(&mut head, 68, &(MB as u32).to_le_bytes());
    put(&mut head, 72, &LOG.to_le_bytes());
    let mut regions = vec![0; REGIONS_BYTES];
    put(&mut regions, 0, b"regi");
    put(&mut regions, 8, &[2]);
    for (at, guid, start) in [(16, REGIONS[0], TABLE), (48, REGIONS[1], METADATA)] {
        put(&mut regions, at, &guid);
        put(&mut regions, at + 16, &start.to_le_bytes());
        put(&mut regions, at + 24, &(MB as u32).to_le_bytes());
        put(&mut regions, at + 28, &[1]);
    }
    let mut items = vec![0; ITEMS_BYTES];
    put(&mut items, 0, b"metadata");
    put(&mut items, 10, &[5]);
    for (number, (length, flags)) in [(8, 4), (8, 6), (16, 6), (4, 6), (4, 6)].into_iter().enumerate() {
        let at = 32 + 32 * number;
        put(&mut items, at, &ITEMS[number]);
        put(&mut items, at + 16, &(65_536 + 4096 * number as u32).to_le_bytes());
        put(&mut items, at + 20, &[length]);
        put(&mut items, at + 24, &[flags]);
    }
    let mut values = vec![0; 6 * VALUE_BYTES];
    put(&mut values, 2, &[16]);
    put(&mut values, VALUE_BYTES + 2, &[64]);
    put(&mut values, 2 * VALUE_BYTES, &[9; 16]);
    put(&mut values, 3 * VALUE_BYTES, &512_u32.to_le_bytes());
    put(&mut values, 4 * VALUE_BYTES, &512_u32.to_le_bytes());
    let mut table = vec![0; TABLE_BYTES];
    put(&mut table, 0, &(DATA | 6).to_le_bytes());
    put(&mut table, 8, &2_u64.to_le_bytes());
    put(&mut table, 24, &((DATA + MB) | 6).to_le_bytes());
    let entries: Vec<u8> = (0..2_u64).flat_map(|number| entry(5 + number, log)).collect();
    [head, regions, items, values, table, entries].concat()
}

/// An entry of the log that zeroes the start of the data.
fn entry(sequence: u64, log: u8) -> Vec<u8> {
    let mut entry = vec![0; ENTRY_BYTES];
    put(&mut entry, 0, b"loge");
    put(&mut entry, 8, &4096_u32.to_le_bytes());
    put(&mut entry, 16, &sequence.to_le_bytes());
    put(&mut entry, 24, &[1]);
    put(&mut entry, 32, &[log; 16]);
    put(&mut entry, 48, &SIZE.to_le_bytes());
    put(&mut entry, 56, &SIZE.to_le_bytes());
    put(&mut entry, 64, b"zero");
    put(&mut entry, 72, &4096_u64.to_le_bytes());
    put(&mut entry, 80, &DATA.to_le_bytes());
    put(&mut entry, 88, &sequence.to_le_bytes());
    entry
}

/// A description, a manifest and a disk.
pub(crate) fn ova_seed() -> Vec<u8> {
    let members: [(&str, &[u8]); 3] = [
        ("vm.ovf", b"<Envelope/>"),
        ("vm.mf", b"SHA1(vm.img)= da39a3ee5e6b4b0d3255bfef95601890afd80709\n"),
        ("vm.img", &[5; 700]),
    ];
    let mut bytes = Vec::new();
    for (name, content) in members {
        let mut header = [0; 512];
        put(&mut header, 0, name.as_bytes());
        put(&mut header, 124, format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        put(&mut header, 257, b"ustar\x0000");
        bytes.extend(header);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// A dynamic image of two blocks, one of which is stored, and a differencing one.
pub(crate) fn vhd_seeds() -> [(&'static str, Vec<u8>); 2] {
    [("dynamic", vhd_seed(3)), ("differencing", vhd_seed(4))]
}

fn vhd_seed(kind: u8) -> Vec<u8> {
    let mut footer = vec![0; 96];
    put(&mut footer, 0, b"conectix");
    put(&mut footer, 8, &[0, 0, 0, 2, 0, 1, 0, 0]);
    put(&mut footer, 16, &512_u64.to_be_bytes());
    put(&mut footer, 40, &8192_u64.to_be_bytes());
    put(&mut footer, 48, &8192_u64.to_be_bytes());
    footer[63] = kind;
    put(&mut footer, 68, &[1; 16]);
    let mut header = vec![0; 600];
    put(&mut header, 0, b"cxsparse");
    put(&mut header, 8, &[0xff; 8]);
    put(&mut header, 16, &1536_u64.to_be_bytes());
    put(&mut header, 24, &[0, 1, 0, 0]);
    header[31] = 2;
    put(&mut header, 32, &4096_u32.to_be_bytes());
    if kind == 4 {
        put(&mut header, 40, &[2; 16]);
        put(&mut header, 64, &[0, b'p', 0, b'a', 0, b'.', 0, b'v', 0, b'h', 0, b'd']);
        put(&mut header, 576, b"W2ru");
    }
    let mut rest = vec![0xff; 512];
    put(&mut rest, 0, &4_u32.to_be_bytes());
    let mut bitmap = vec![0; 512];
    bitmap[0] = 0b1010_1100;
    [footer, header, rest, bitmap, vec![3; 4096]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_images() {
        for (name, bytes) in vhdx_seeds() {
            assert!(vhdx_image(&bytes), "{name}");
        }
        assert!(ova_image(&ova_seed()));
        // A differencing image needs its parent.
        assert!(vhd_image(&vhd_seed(3)));
        assert!(!vhd_image(&vhd_seed(4)));
    }
}
