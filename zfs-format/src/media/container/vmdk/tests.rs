mod made;
mod matrix;
mod stored;

use self::made::{Grain, cowd, descriptor, se_sparse};
use super::*;
use crate::media::{Content, Medium, Opener};
use std::path::PathBuf;

const GRAIN: usize = 64 << 10;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn try_open(&self, name: &str) -> Result<Vec<Medium>, String> {
        Opener::default().open(&self.0.path().join(name)).map_err(|error| error.to_string())
    }

    fn open(&self, name: &str) -> Arc<dyn ReadAt> {
        self.try_open(name).unwrap().remove(0).bytes
    }

    fn refusal(&self, name: &str) -> String {
        self.try_open(name).unwrap_err()
    }
}

/// A hosted sparse extent of `values.len()` grains of 64 KiB (0: not stored), with both directories. The layout is that of
/// qemu-img: descriptor at sector 1, copies at 21 and 22, the others at 26 and 27, grains from 128 on.
fn hosted(values: &[u8], text: &str) -> Vec<u8> {
    let mut bytes = vec![0; 128 * 512];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"KDMV\x01\0\0\0\x03\0\0\0");
    for (at, value) in [(12, 128 * values.len() as u64), (20, 128), (28, 1), (36, 20), (48, 21), (56, 26), (64, 128)] {
        put(at, &value.to_le_bytes());
    }
    put(44, &512_u32.to_le_bytes());
    put(73, b"\n \r\n");
    put(512, text.as_bytes());
    put(21 * 512, &22_u32.to_le_bytes());
    put(26 * 512, &27_u32.to_le_bytes());
    let mut next = 128_u32;
    for (index, _) in values.iter().enumerate().filter(|(_, value)| **value != 0) {
        for table in [22, 27] {
            put(table * 512 + 4 * index, &next.to_le_bytes());
        }
        next += 128;
    }
    for value in values.iter().filter(|value| **value != 0) {
        bytes.extend(vec![*value; GRAIN]);
    }
    bytes
}

fn own_text() -> String {
    descriptor("monolithicSparse", 1, None, &["RW 1 SPARSE \"renamed.vmdk\"".to_owned()])
}

/// The first byte of each grain, where it can be read.
fn firsts(disk: &dyn ReadAt) -> Vec<Option<u8>> {
    (0..disk.size_bytes()).step_by(GRAIN).map(|at| first(disk, at)).collect()
}

fn first(disk: &dyn ReadAt, at: u64) -> Option<u8> {
    let mut byte = [0xee];
    match disk.read_at(&mut byte, at) {
        Ok(()) => Some(byte[0]),
        Err(MediaError::Damaged { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn kinds(disk: &dyn ReadAt) -> Vec<NoteKind> {
    let mut kinds: Vec<NoteKind> = disk.notes().into_iter().map(|note| note.kind).collect();
    kinds.dedup();
    kinds
}

const VALUES: [u8; 6] = [1, 2, 0, 4, 5, 6];
const GOOD: [Option<u8>; 6] = [Some(1), Some(2), Some(0), Some(4), Some(5), Some(6)];

#[test]
fn a_destroyed_directory_or_table_is_replaced_by_its_copy() {
    let folder = Folder::new();
    let tables: [(usize, usize); 2] = [(26 * 512, 4), (27 * 512, 24)];
    for (at, length) in tables {
        for value in [0xff, 0] {
            let mut bytes = hosted(&VALUES, &own_text());
            bytes[at..at + length].fill(value);
            folder.write("a.vmdk", bytes);
            let disk = folder.open("a.vmdk");
            assert_eq!(firsts(&*disk), GOOD, "{at} {value}");
            assert_eq!(kinds(&*disk), [NoteKind::ImageDamaged], "{at} {value}");
        }
    }
    // A damaged copy is said, and not used.
    let mut bytes = hosted(&VALUES, &own_text());
    bytes[22 * 512..22 * 512 + 24].fill(0x11);
    folder.write("a.vmdk", bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (GOOD.to_vec(), vec![NoteKind::ImageDamaged]));
}

#[test]
fn entries_without_a_copy_cost_what_they_cover() {
    let folder = Folder::new();
    let mut bytes = hosted(&VALUES, &own_text());
    for table in [22, 27] {
        bytes[table * 512 + 4..table * 512 + 8].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
        bytes[table * 512 + 16..table * 512 + 20].copy_from_slice(&1_u32.to_le_bytes());
    }
    folder.write("a.vmdk", &bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!(firsts(&*disk), [Some(1), None, Some(0), Some(4), None, Some(6)]);
    assert!(matches!(disk.extent_at(GRAIN as u64 + 5).content, Content::Unreadable { .. }));
    assert_eq!(disk.extent_at(GRAIN as u64 + 5).length_bytes, GRAIN as u64 - 5);
    // The same entry 1 means zeros when a flag says so.
    bytes[8] |= 4;
    folder.write("a.vmdk", &bytes);
    assert_eq!(firsts(&*folder.open("a.vmdk"))[4], Some(0));
    let mut bytes = hosted(&VALUES, &own_text());
    for directory in [21, 26] {
        bytes[directory * 512..directory * 512 + 4].fill(0xff);
    }
    folder.write("a.vmdk", &bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (vec![None; 6], vec![NoteKind::ImageDamaged]));
}

#[test]
fn a_file_that_was_cut_keeps_what_it_has() {
    let folder = Folder::new();
    let mut bytes = hosted(&VALUES, &own_text());
    bytes.truncate(128 * 512 + 2 * GRAIN + 1000);
    folder.write("a.vmdk", bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!(firsts(&*disk), [Some(1), Some(2), Some(0), Some(4), None, None]);
    assert_eq!(first(&*disk, 3 * GRAIN as u64 + 999), Some(4));
    assert_eq!(first(&*disk, 3 * GRAIN as u64 + 1000), None);
    assert_eq!(kinds(&*disk), [NoteKind::ImageTruncated]);
}

#[test]
fn what_the_header_says_of_its_history_is_noted() {
    let folder = Folder::new();
    let mut bytes = hosted(&VALUES, &own_text());
    bytes[72] = 1;
    bytes[75] = b'\n';
    folder.write("a.vmdk", &bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (GOOD.to_vec(), vec![NoteKind::ImageDamaged, NoteKind::ImageUnclean]));
    let mut grains = cowd(1, &[Grain::Full(3)]);
    grains[1648] = 1;
    folder.write("lone-delta.vmdk", &grains);
    assert_eq!(kinds(&*folder.open("lone-delta.vmdk")), [NoteKind::ChainMismatch, NoteKind::ImageUnclean]);
    let mut grains = se_sparse(&[Grain::Full(3)]);
    grains[512 + 24] = 1;
    folder.write("lone-sesparse.vmdk", &grains);
    assert_eq!(kinds(&*folder.open("lone-sesparse.vmdk")), [NoteKind::ChainMismatch, NoteKind::ImageUnclean]);
}

#[test]
fn impossible_headers_are_refused() {
    let folder = Folder::new();
    for (at, value) in [(4, 9_u32), (12, 0), (20, 100), (20, 1 << 30), (44, 0), (44, 1 << 20), (77, 7)] {
        let mut bytes = hosted(&VALUES, &own_text());
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        folder.write("a.vmdk", &bytes);
        // Without a size of its own it is only a descriptor, and that names a file that is not there.
        let expected = if at == 12 { "renamed.vmdk, which is not there" } else { "no usable VMDK header" };
        assert!(folder.refusal("a.vmdk").contains(expected), "{at}: {}", folder.refusal("a.vmdk"));
    }
    let mut bytes = hosted(&VALUES, &own_text());
    bytes[..512].fill(0);
    folder.write("a.vmdk", &bytes);
    assert!(folder.refusal("a.vmdk").contains("first sector is destroyed"));
}

#[test]
fn an_extent_that_is_missing_costs_its_range() {
    let folder = Folder::new();
    let lines: Vec<String> =
        ["RW 128 FLAT \"a-f1.vmdk\" 1", "RW 128 FLAT \"a-f2.vmdk\" 0", "RW 128 ZERO", "RW 256 SPARSE \"a-s4.vmdk\""]
            .map(str::to_owned)
            .to_vec();
    folder.write("a.vmdk", descriptor("custom", 1, None, &lines));
    folder.write("a-f1.vmdk", [vec![9; 512], vec![1; GRAIN]].concat());
    folder.write("a-s4.vmdk", hosted(&[4], ""));
    let disk = folder.open("a.vmdk");
    assert_eq!(firsts(&*disk), [Some(1), None, Some(0), Some(4), None]);
    let all: Vec<String> = disk.notes().into_iter().map(|note| note.message).collect();
    assert!(all.iter().any(|note| note.contains("a-f2.vmdk, which is not there")), "{all:?}");
    assert!(
        all.iter().any(|note| note.contains("it holds 65536 bytes of the disk, but the descriptor says 131072")),
        "{all:?}"
    );
    let place = disk.extent_at(5);
    assert_eq!(
        (place.file.as_deref(), place.file_offset_bytes),
        (Some(&*folder.0.path().join("a-f1.vmdk")), Some(517))
    );
    folder.write("b.vmdk", descriptor("vmfs", 1, None, &["RW 128 VMFS \"b-flat.vmdk\"".to_owned()]));
    assert!(folder.refusal("b.vmdk").contains("it needs the file b-flat.vmdk, which is not there"));
    folder.write("c.vmdk", descriptor("fullDevice", 1, None, &["RW 128 FLAT \"/dev/zero\" 0".to_owned()]));
    assert!(folder.refusal("c.vmdk").contains("--allow-external-paths"));
}

#[test]
fn a_snapshot_needs_its_parent_and_knows_it() {
    let folder = Folder::new();
    folder.write("base-flat.vmdk", vec![7; 2 * GRAIN]);
    let base = |cid| descriptor("vmfs", cid, None, &["RW 256 VMFS \"base-flat.vmdk\"".to_owned()]);
    let child = |cid| {
        descriptor(
            "seSparse",
            3,
            Some((cid, "/vmfs/volumes/x/base.vmdk")),
            &["RW 256 SESPARSE \"c-000001-sesparse.vmdk\"".to_owned()],
        )
    };
    let mut grains = vec![Grain::Nothing; 32];
    grains[0] = Grain::Full(1);
    folder.write("c-000001-sesparse.vmdk", se_sparse(&grains));
    folder.write("c-000001.vmdk", child(0xaa));
    let refusal = folder.refusal("c-000001.vmdk");
    assert!(
        refusal.contains("holds only what was written since a snapshot") && refusal.contains("copy its parent"),
        "{refusal}"
    );
    folder.write("base.vmdk", base(0xaa));
    let disk = folder.open("c-000001.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (vec![Some(1), Some(7)], Vec::new()));
    assert_eq!(first(&*disk, 4096), Some(7));
    folder.write("base.vmdk", base(0xab));
    let disk = folder.open("c-000001.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (vec![Some(1), Some(7)], vec![NoteKind::ChainMismatch]));
    // The extent alone is not the disk.
    assert!(folder.refusal("c-000001-sesparse.vmdk").contains("give c-000001.vmdk, its descriptor"));
    std::fs::remove_file(folder.0.path().join("c-000001.vmdk")).unwrap();
    let disk = folder.open("c-000001-sesparse.vmdk");
    assert_eq!((first(&*disk, 0), first(&*disk, 4096)), (Some(1), None));
}

#[test]
fn newer_images_beside_an_old_one_are_pointed_out() {
    let folder = Folder::new();
    folder.write("vm-flat.vmdk", vec![7; GRAIN]);
    let newer = |name: &str| {
        let notes = folder.open(name).notes();
        notes.into_iter().find(|note| note.kind == NoteKind::NewerImage).map(|note| note.message)
    };
    assert_eq!(newer("vm-flat.vmdk"), None);
    folder.write("vm-000001-delta.vmdk", cowd(1, &[Grain::Nothing; 128]));
    assert!(newer("vm-flat.vmdk").unwrap().starts_with("vm-000001-delta.vmdk lies beside it"));
    folder.write("vm.vmdk", descriptor("vmfs", 1, None, &["RW 128 VMFS \"vm-flat.vmdk\"".to_owned()]));
    let delta = "RW 128 VMFSSPARSE \"vm-000001-delta.vmdk\"".to_owned();
    folder.write("vm-000001.vmdk", descriptor("vmfsSparse", 2, Some((1, "vm.vmdk")), std::slice::from_ref(&delta)));
    folder.write("vm-000002.vmdk", descriptor("vmfsSparse", 3, Some((2, "vm-000001.vmdk")), &[delta]));
    for name in ["vm-flat.vmdk", "vm.vmdk", "vm-000001.vmdk"] {
        assert!(newer(name).unwrap().contains("vm-000002.vmdk beside it holds what was written later"), "{name}");
    }
    // The newest one is the current state, and the parents it leads to are no longer old.
    assert_eq!(newer("vm-000002.vmdk"), None);
}

/// A stream as VMware exports it: markers, tables and directory behind the grains, a footer.
fn stream(values: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let sector_of = |bytes: &Vec<u8>| (bytes.len() / 512) as u32;
    let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(512), 0);
    let mut header = hosted(&[0; 1], "")[..512].to_vec();
    header[4..12].copy_from_slice(&[3, 0, 0, 0, 1, 0, 3, 0]);
    header[12..20].copy_from_slice(&(128 * values.len() as u64).to_le_bytes());
    header[48..56].fill(0);
    header[56..64].fill(0xff);
    header[77] = 1;
    let mut bytes = header.clone();
    bytes.extend(own_text().bytes());
    bytes.resize(128 * 512, 0);
    let mut table = vec![0; 2048];
    for (index, value) in values.iter().enumerate().filter(|(_, value)| **value != 0) {
        table[4 * index..4 * index + 4].copy_from_slice(&sector_of(&bytes).to_le_bytes());
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(&[*value; GRAIN]).unwrap();
        let packed = packed.finish().unwrap();
        bytes.extend((128 * index as u64).to_le_bytes());
        bytes.extend((packed.len() as u32).to_le_bytes());
        bytes.extend(packed);
        pad(&mut bytes);
    }
    let marker =
        |sectors: u64, kind: u32| [&sectors.to_le_bytes()[..], &[0; 4], &kind.to_le_bytes(), &[0; 496]].concat();
    bytes.extend(marker(4, 1));
    let table_sector = sector_of(&bytes);
    bytes.extend(table);
    bytes.extend(marker(1, 2));
    let directory = sector_of(&bytes);
    bytes.extend(table_sector.to_le_bytes());
    pad(&mut bytes);
    bytes.extend(marker(1, 3));
    header[56..64].copy_from_slice(&u64::from(directory).to_le_bytes());
    bytes.extend(header);
    bytes.extend([0; 512]);
    bytes
}

#[test]
fn a_stream_is_read_by_its_footer_or_grain_by_grain() {
    let folder = Folder::new();
    let bytes = stream(&VALUES);
    folder.write("a.vmdk", &bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (GOOD.to_vec(), Vec::new()));
    assert_eq!(disk.extent_at(10).content, Content::Packed);
    // What pads the file at its end is no matter.
    folder.write("a.vmdk", [&bytes[..], &[0; 5000]].concat());
    assert_eq!(firsts(&*folder.open("a.vmdk")), GOOD);
    // Without the footer: all that arrived, and nothing is said of what is behind it.
    folder.write("a.vmdk", &bytes[..bytes.len() - 1024]);
    let disk = folder.open("a.vmdk");
    assert_eq!((firsts(&*disk), kinds(&*disk)), (GOOD.to_vec(), vec![NoteKind::ImageTruncated]));
    folder.write("a.vmdk", &bytes[..131 * 512 + 10]);
    assert_eq!(firsts(&*folder.open("a.vmdk")), [Some(1), Some(2), Some(0), Some(4), None, None]);
    // A marker that is destroyed costs the grains around it that nobody can tell.
    let mut lost = bytes[..bytes.len() - 1024].to_vec();
    lost[129 * 512..130 * 512].fill(0xff);
    folder.write("a.vmdk", &lost);
    assert_eq!(firsts(&*folder.open("a.vmdk")), [Some(1), None, None, Some(4), Some(5), Some(6)]);
    folder.write("a.vmdk", &bytes[..128 * 512]);
    assert!(folder.refusal("a.vmdk").contains("no grain was found"));
}

#[test]
fn a_compressed_grain_that_is_damaged_costs_itself() {
    let folder = Folder::new();
    let mut bytes = stream(&VALUES);
    bytes[129 * 512 + 40..129 * 512 + 60].fill(0x5a);
    bytes[130 * 512] ^= 1;
    folder.write("a.vmdk", &bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!(firsts(&*disk), [Some(1), None, Some(0), None, Some(5), Some(6)]);
    assert_eq!(kinds(&*disk), [NoteKind::ImageDamaged]);
    bytes[..12].fill(0);
    bytes[..4].copy_from_slice(b"KDMV");
    folder.write("a.vmdk", &bytes);
    let disk = folder.open("a.vmdk");
    assert_eq!(first(&*disk, 0), Some(1));
    assert!(disk.notes().iter().any(|note| note.message.contains("its footer was used")));
}
