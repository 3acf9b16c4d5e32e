use super::*;
use crate::media::{Content, Opener};
use std::path::PathBuf;
use std::process::Command;

const BLOCK: usize = 64 << 10;
const BITMAP: usize = 512;
const SECTOR: usize = 512;

/// Names of a parent by platform.
type Names<'a> = &'a [(&'a [u8; 4], &'a str)];

/// What a made image is like; written from the specification, without the reader's code.
struct Made<'a> {
    kind: u32,
    uuid: u8,
    parent: u8,
    names: Names<'a>,
    unicode: &'a str,
    /// For each block nothing, or the sectors that are in the image, with the byte in them.
    blocks: &'a [Option<&'a [(usize, u8)]>],
}

fn seal(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let sum: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
    bytes[at..at + 4].copy_from_slice(&(!sum).to_be_bytes());
}

fn footer(kind: u32, uuid: u8, disk: u64) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..8].copy_from_slice(b"conectix");
    bytes[8..16].copy_from_slice(&[0, 0, 0, 2, 0, 1, 0, 0]);
    bytes[16..24].copy_from_slice(&if kind == 2 { u64::MAX } else { 512 }.to_be_bytes());
    bytes[28..32].copy_from_slice(b"win ");
    bytes[40..48].copy_from_slice(&disk.to_be_bytes());
    bytes[48..56].copy_from_slice(&disk.to_be_bytes());
    bytes[60..64].copy_from_slice(&kind.to_be_bytes());
    bytes[68..84].fill(uuid);
    seal(&mut bytes, 64);
    bytes
}

impl Made<'_> {
    fn bytes(&self) -> Vec<u8> {
        let footer = footer(self.kind, self.uuid, (self.blocks.len() * BLOCK) as u64);
        let mut header = vec![0; 1024];
        header[..8].copy_from_slice(b"cxsparse");
        header[8..16].fill(0xff);
        header[16..24].copy_from_slice(&1536_u64.to_be_bytes());
        header[24..28].copy_from_slice(&[0, 1, 0, 0]);
        header[28..32].copy_from_slice(&(self.blocks.len() as u32).to_be_bytes());
        header[32..36].copy_from_slice(&(BLOCK as u32).to_be_bytes());
        header[40..56].fill(self.parent);
        for (at, unit) in self.unicode.encode_utf16().enumerate() {
            header[64 + 2 * at..66 + 2 * at].copy_from_slice(&unit.to_be_bytes());
        }
        let mut texts = Vec::new();
        for (number, (platform, name)) in self.names.iter().enumerate() {
            let text: Vec<u8> = match *platform {
                b"MacX" => name.bytes().collect(),
                _ => name.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            };
            let at = 576 + 24 * number;
            header[at..at + 4].copy_from_slice(*platform);
            header[at + 4..at + 8].copy_from_slice(&512_u32.to_be_bytes());
            header[at + 8..at + 12].copy_from_slice(&(text.len() as u32).to_be_bytes());
            header[at + 16..at + 24].copy_from_slice(&(2048 + texts.len() as u64).to_be_bytes());
            texts.extend(text);
            texts.resize(texts.len().next_multiple_of(512), 0);
        }
        seal(&mut header, 36);
        let mut data_start = 2048 + texts.len();
        let mut table = vec![0xff; 512];
        let mut data = Vec::new();
        for (number, sectors) in self.blocks.iter().enumerate() {
            let Some(sectors) = sectors else { continue };
            table[4 * number..4 * number + 4].copy_from_slice(&((data_start / 512) as u32).to_be_bytes());
            let mut block = vec![0; BITMAP + BLOCK];
            for &(sector, value) in *sectors {
                block[sector / 8] |= 0x80 >> (sector % 8);
                block[BITMAP + sector * SECTOR..][..SECTOR].fill(value);
            }
            data_start += block.len();
            data.extend(block);
        }
        [footer.clone(), header, table, texts, data, footer].concat()
    }
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

const BASE: Made<'static> = Made {
    kind: 3,
    uuid: 1,
    parent: 0,
    names: &[],
    unicode: "",
    blocks: &[Some(&[(0, 1), (1, 2), (9, 3)]), None, Some(&[(127, 4)])],
};

#[test]
fn sectors_that_are_not_in_a_differencing_image_are_in_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "base disk.vhd", &BASE.bytes());
    let mut expected = vec![0; 3 * BLOCK];
    let mut put = |sector: usize, value: u8| expected[sector * SECTOR..][..SECTOR].fill(value);
    for (sector, value) in [(0, 1), (1, 8), (9, 3), (128 + 5, 9), (383, 4)] {
        put(sector, value);
    }
    let named: [(Names<'_>, &str); 5] = [
        (&[(b"W2ru", ".\\base disk.vhd")], ""),
        (&[(b"W2ku", "C:\\VMs\\base disk.vhd")], ""),
        (&[(b"MacX", "file://localhost/vms/base%20disk.vhd")], ""),
        (&[], "base disk.vhd"),
        (&[(b"W2ru", ".\\was renamed.vhd")], "lost.vhd"),
    ];
    for (names, unicode) in named {
        let blocks: &[Option<&[(usize, u8)]>] = &[Some(&[(1, 8)]), Some(&[(5, 9)]), None];
        let child = Made { kind: 4, uuid: 2, parent: 1, names, unicode, blocks }.bytes();
        let disk = disk(&write(&dir, "child.vhd", &child));
        assert!(whole(&*disk) == expected, "{names:?} {unicode}");
        assert_eq!(kinds(&*disk), []);
        let place = disk.extent_at(BLOCK as u64 - 1);
        assert_eq!((place.content, place.layer), (Content::Hole, 1));
        assert_eq!(disk.extent_at(512).layer, 0);
        assert_eq!(disk.extent_at(0).file.as_deref(), Some(&*dir.path().join("base disk.vhd")));
    }
}

#[test]
fn a_parent_with_another_uuid_is_used_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "base.vhd", &BASE.bytes());
    let child = Made { kind: 4, uuid: 2, parent: 77, unicode: "base.vhd", blocks: &[None, None, None], ..BASE };
    let path = write(&dir, "child.vhd", &child.bytes());
    assert_eq!(kinds(&*disk(&path)), [NoteKind::ChainMismatch]);
    let orphan = Made { unicode: "nothing.vhd", ..child };
    let error = Opener::default().open(&write(&dir, "orphan.vhd", &orphan.bytes())).unwrap_err();
    assert!(error.to_string().contains("nothing.vhd"), "{error}");
}

#[test]
fn either_footer_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let good = BASE.bytes();
    let expected = whole(&*disk(&write(&dir, "good.vhd", &good)));
    for damage in 0..5 {
        let mut bytes = good.clone();
        let end = bytes.len();
        match damage {
            0 => bytes[20] ^= 1,
            1 => bytes[..512].fill(0),
            2 => bytes[end - 400] ^= 1,
            3 => bytes.truncate(end - 512),
            _ => bytes[600] ^= 1,
        }
        let disk = disk(&write(&dir, "damaged.vhd", &bytes));
        assert!(whole(&*disk) == expected, "{damage}");
        assert_eq!(kinds(&*disk), [NoteKind::ImageDamaged], "{damage}");
    }
    // Programs before 2004 wrote a footer of 511 bytes.
    let old = disk(&write(&dir, "old.vhd", &good[..good.len() - 1]));
    assert!(whole(&*old) == expected && kinds(&*old).is_empty());
    let mut both = good;
    let end = both.len();
    both[20] ^= 1;
    both[end - 400] ^= 1;
    assert!(matches!(Opener::default().open(&write(&dir, "both.vhd", &both)), Err(MediaError::Container { .. })));
}

#[test]
fn what_the_table_cannot_say_is_a_range_and_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = |disk: &dyn ReadAt, offset: usize| match disk.read_at(&mut vec![0; BLOCK], offset as u64) {
        Err(MediaError::Damaged { offset, length, .. }) => Some((offset as usize, length as usize)),
        _ => None,
    };
    let mut bytes = BASE.bytes();
    bytes[1536..1540].copy_from_slice(&1_u32.to_be_bytes());
    bytes[1540..1544].copy_from_slice(&0x7fff_0000_u32.to_be_bytes());
    let table = disk(&write(&dir, "table.vhd", &bytes));
    assert_eq!(damaged(&*table, 0), Some((0, BLOCK)));
    assert_eq!(damaged(&*table, BLOCK), Some((BLOCK, BLOCK)));
    assert_eq!(damaged(&*table, 2 * BLOCK), None);
    assert_eq!(kinds(&*table), [NoteKind::ImageDamaged, NoteKind::ImageTruncated]);
    let mut bytes = BASE.bytes();
    bytes.truncate(bytes.len() - 512 - 100);
    let short = disk(&write(&dir, "short.vhd", &bytes));
    assert_eq!(damaged(&*short, 2 * BLOCK), Some((3 * BLOCK - 100, 100)));
    assert_eq!(kinds(&*short), [NoteKind::ImageDamaged, NoteKind::ImageTruncated]);
}

#[test]
fn a_fixed_image_ends_before_its_footer() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..8192_u32).map(|at| (at / 7) as u8).collect();
    let fixed = disk(&write(&dir, "fixed.vhd", &[data.clone(), footer(2, 1, 8192)].concat()));
    assert!(whole(&*fixed) == data && kinds(&*fixed).is_empty());
    let cut = disk(&write(&dir, "cut.vhd", &[data[..6000].to_vec(), vec![0; 144], footer(2, 1, 8192)].concat()));
    assert!(matches!(cut.read_at(&mut [0; 512], 6144), Err(MediaError::Damaged { offset: 6144, length: 512, .. })));
    assert_eq!(kinds(&*cut), [NoteKind::ImageTruncated]);
    // A raw disk that merely ends with such bytes is a raw disk.
    let mut wrong = footer(2, 1, 8192);
    wrong[64] ^= 1;
    for bytes in [[data.clone(), wrong].concat(), [vec![0; 4 << 20], footer(2, 1, 8192)].concat()] {
        assert_eq!(disk(&write(&dir, "raw", &bytes)).size_bytes(), bytes.len() as u64);
    }
}

#[test]
fn the_images_of_qemu_hold_what_was_put_in() {
    if Command::new("qemu-img").arg("--version").output().is_err() {
        eprintln!("skipped: there is no qemu-img");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut raw = vec![0; 9 << 20];
    for (at, byte) in raw[(1 << 20) + 777..(3 << 20) + 99].iter_mut().enumerate() {
        *byte = (at * 31 / 7) as u8;
    }
    raw[(9 << 20) - 512..].fill(0xee);
    let source = write(&dir, "raw", &raw);
    for options in
        ["subformat=dynamic", "subformat=fixed", "subformat=dynamic,force_size", "subformat=fixed,force_size"]
    {
        let path = dir.path().join("image.vhd");
        let status = Command::new("qemu-img")
            .args(["convert", "-f", "raw", "-O", "vpc", "-o", options])
            .args([&source, &path])
            .status()
            .unwrap();
        assert!(status.success(), "{options}");
        let before = std::fs::read(&path).unwrap();
        let disk = disk(&path);
        let read = whole(&*disk);
        assert!(read.len() >= raw.len() && read[..raw.len()] == raw, "{options}");
        assert!(read[raw.len()..].iter().all(|&byte| byte == 0), "{options}");
        if options.ends_with("force_size") {
            assert_eq!(read.len(), raw.len(), "{options}");
        }
        assert_eq!(kinds(&*disk), [], "{options}");
        assert!(std::fs::read(&path).unwrap() == before, "{options}");
    }
    // And it reads what the maker of these tests writes.
    let (made, back) = (write(&dir, "made.vhd", &BASE.bytes()), dir.path().join("back"));
    let output =
        Command::new("qemu-img").args(["convert", "-f", "vpc", "-O", "raw"]).args([&made, &back]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(&back).unwrap() == whole(&*disk(&made)));
}
