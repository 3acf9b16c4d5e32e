mod matrix;

use super::super::stored;
use super::*;
use crate::media::{Content, Note, Opener};
use std::path::{Path, PathBuf};

/// Bytes of a cluster of the images that are bent here.
const CLUSTER: usize = 512;

/// A stored image, bent, in a folder of its own.
struct Bent {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Bent {
    fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = stored::folder("qcow2");
        for beside in ["base.raw", "data.bin"] {
            std::fs::copy(folder.join(beside), dir.path().join(beside)).unwrap();
        }
        Self { dir, bytes: std::fs::read(folder.join(name)).unwrap() }
    }

    fn u64_at(&self, at: usize) -> usize {
        be_u64(&self.bytes, at) as usize
    }

    fn put(mut self, at: usize, bytes: &[u8]) -> Self {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn l1(&self) -> usize {
        self.u64_at(40)
    }

    /// Where the first L2 table is.
    fn l2(&self) -> usize {
        self.u64_at(self.l1()) & OFFSET_MASK
    }

    fn path(&self) -> PathBuf {
        let path = self.dir.path().join("bent.qcow2");
        std::fs::write(&path, &self.bytes).unwrap();
        path
    }

    fn open(&self) -> Arc<dyn ReadAt> {
        Opener::default().open(&self.path()).unwrap().remove(0).bytes
    }

    fn refusal(&self) -> String {
        Opener::default().open(&self.path()).unwrap_err().to_string()
    }
}

const OFFSET_MASK: usize = 0x00ff_ffff_ffff_fe00;

/// The range of the error that reading `length` bytes at `offset` gives; `None` when they can be read.
fn lost(disk: &dyn ReadAt, offset: usize, length: usize) -> Option<(u64, u64)> {
    match disk.read_at(&mut vec![0; length], offset as u64) {
        Ok(()) => None,
        Err(MediaError::Damaged { offset, length, .. }) => Some((offset, length)),
        Err(other) => panic!("{other}"),
    }
}

fn notes(disk: &dyn ReadAt) -> Vec<(NoteKind, String)> {
    disk.notes().into_iter().map(|Note { kind, message, .. }| (kind, message)).collect()
}

/// The notes are one, of this kind, with these words.
fn assert_note(disk: &dyn ReadAt, kind: NoteKind, words: &str) {
    let notes = notes(disk);
    assert!(notes.len() == 1 && notes[0].0 == kind && notes[0].1.contains(words), "{words}: {notes:?}");
}

/// Clusters of the disk that can be read.
fn readable(disk: &dyn ReadAt) -> Vec<usize> {
    let clusters = disk.size_bytes() as usize / CLUSTER;
    (0..clusters).filter(|cluster| lost(disk, cluster * CLUSTER, CLUSTER).is_none()).collect()
}

#[test]
fn stored_images_hold_what_qemu_img_says() {
    stored::check("qcow2");
}

#[test]
fn an_impossible_entry_of_the_l2_table_costs_its_cluster() {
    let l2 = Bent::of("v2.qcow2").l2();
    let l1 = Bent::of("v2.qcow2").l1() as u64;
    for (entry, words) in [
        (0x8000_0000_0000_1002_u64, "reserved bits"),
        (0x9000_0000_0000_1000, "reserved bits"),
        (0x8000_0000_0000_0001, "zeros, in an image of version 2"),
        (0x8000_0000_0000_0000 | l1, "it points into the L1 table"),
        (0xc000_0000_0000_0000, "it points into the header"),
    ] {
        let disk = Bent::of("v2.qcow2").put(l2 + 8, &entry.to_be_bytes()).open();
        assert_eq!(lost(&*disk, 0, 3 * CLUSTER), Some((512, 512)), "{entry:#x}");
        assert_note(&*disk, NoteKind::ImageDamaged, words);
        let extent = disk.extent_at(700);
        assert!(matches!(extent.content, Content::Unreadable { .. }), "{entry:#x}: {extent:?}");
        assert_eq!(extent.length_bytes, 324);
        assert_eq!(readable(&*disk), [0].into_iter().chain(2..21).collect::<Vec<_>>());
    }
    let beyond = Bent::of("v2.qcow2").put(l2 + 8, &0x8000_0000_00ff_0000_u64.to_be_bytes()).open();
    assert_eq!(lost(&*beyond, 0, 3 * CLUSTER), Some((512, 512)));
    assert_note(&*beyond, NoteKind::ImageTruncated, "before the clusters");
}

#[test]
fn entries_of_larger_clusters_and_subclusters_are_checked_too() {
    let rules = entry::Rules { version: 3, cluster_bits: 16, is_extended: false, has_data_file: false };
    let read = |word, bitmap, rules| entry::Entry::read(word, bitmap, 0x2_0000, rules);
    assert_eq!(read(0x8000_0000_0003_0200, 0, rules), entry::Entry::Bad("it points inside of a cluster"));
    let extended = entry::Rules { is_extended: true, ..rules };
    for (word, bitmap) in [(0x8000_0000_0003_0000, 1 << 32 | 1), (0, 1), (0x8000_0000_0003_0001, 1)] {
        assert!(matches!(read(word, bitmap, extended), entry::Entry::Bad(_)), "{word:#x} {bitmap:#x}");
    }
    let beside = entry::Rules { has_data_file: true, ..rules };
    assert_eq!(read(0x8000_0000_0002_0000, 0, beside), entry::Entry::Stored(0x2_0000));
    for word in [0x8000_0000_0003_0000, 0x4000_0000_0003_0000] {
        assert!(matches!(read(word, 0, beside), entry::Entry::Bad(_)), "{word:#x}");
    }
}

#[test]
fn an_impossible_entry_of_the_l1_table_costs_what_it_covers() {
    let l1 = Bent::of("v2.qcow2").l1();
    for (entry, words) in [
        (0x8000_0000_0000_0000 | l1 as u64, "entry 0 of the L1 table points into the L1 table"),
        (0x8000_0000_00ff_0000, "points beyond the end of the file"),
    ] {
        let disk = Bent::of("v2.qcow2").put(l1, &entry.to_be_bytes()).open();
        // 64 entries of clusters of 512 bytes are more than the disk has.
        assert_eq!((lost(&*disk, 600, 10), disk.extent_at(600).length_bytes), (Some((600, 10)), 10752 - 600));
        assert_note(&*disk, NoteKind::ImageDamaged, words);
    }
    let short = Bent::of("v2.qcow2").put(36, &[0; 4]).open();
    assert!(readable(&*short).is_empty());
    assert_note(&*short, NoteKind::ImageDamaged, "too few for the disk");
    let empty = Bent::of("v2.qcow2").put(l1, &[0; 8]).open();
    assert_eq!((empty.extent_at(0).content, empty.extent_at(0).length_bytes), (Content::Hole, 10752));
}

#[test]
fn an_image_cut_short_keeps_what_is_left() {
    let whole = Bent::of("v2.qcow2");
    let mut bent = Bent::of("v2.qcow2");
    let second = whole.u64_at(whole.l2() + 8) & OFFSET_MASK;
    bent.bytes.truncate(second + 100);
    let disk = bent.open();
    assert_eq!(lost(&*disk, 0, 512), None);
    assert_eq!(lost(&*disk, 512, 512), Some((612, 412)));
    assert!(notes(&*disk).iter().all(|(kind, _)| *kind == NoteKind::ImageTruncated));
    for end in (0..whole.bytes.len()).step_by(100) {
        bent.bytes = whole.bytes[..end].to_vec();
        if let Ok(media) = Opener::default().open(&bent.path()) {
            let disk = &media[0].bytes;
            let lost = readable(&**disk).len() < 21;
            assert!(!lost || end < 72 || !disk.notes().is_empty(), "{end}: what is lost is said");
        }
    }
}

#[test]
fn compressed_clusters_that_do_not_unpack_are_lost_alone() {
    for name in ["deflate.qcow2", "zstd.qcow2"] {
        let image = Bent::of(name);
        let word = be_u64(&image.bytes, image.l2());
        assert_eq!(word >> 62, 1, "{name}: the first cluster is compressed");
        let start = word as usize & 0xff_ffff;
        let disk = image.put(start, &[0xff; 12]).open();
        let cluster = if name == "zstd.qcow2" { 2048 } else { 1024 };
        assert_eq!(lost(&*disk, 10, 20), Some((0, cluster)), "{name}");
        assert_eq!(lost(&*disk, cluster as usize, 4096), None, "{name}");
        assert_note(&*disk, NoteKind::ImageDamaged, "does not unpack");
    }
}

#[test]
fn marks_of_the_header_are_told_and_the_disk_is_read() {
    for (bits, kind, words) in [
        (1_u64, NoteKind::ImageUnclean, "marked dirty"),
        (2, NoteKind::ImageDamaged, "marked corrupt"),
        (8, NoteKind::ImageDamaged, "contradicts itself about the type of compression"),
    ] {
        let disk = Bent::of("snapshots.qcow2").put(72, &bits.to_be_bytes()).open();
        assert_note(&*disk, kind, words);
        assert_eq!(readable(&*disk).len(), 21);
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let long = 1_u64 << 63;
    for (at, bytes, words) in [
        (4, &[0, 0, 0, 1][..], "qemu-img convert -f qcow -O qcow2"),
        (4, &[0, 0, 0, 4], "version 4"),
        (20, &[0, 0, 0, 8], "clusters of 2^8 bytes"),
        (20, &[0, 0, 0, 22], "clusters of 2^22 bytes"),
        (24, &long.to_be_bytes(), "more than 2^63 bytes"),
        (32, &[0, 0, 0, 1], "encrypted (AES)"),
        (32, &[0, 0, 0, 2], "encrypted (LUKS)"),
        (40, &[0, 0, 0, 0, 0, 0, 0, 8], "inside of a cluster"),
        // The name comes from the image's own table of features.
        (72, &[0, 0, 0, 0, 0, 0, 0, 0x20], "bit 5"),
        (72, &[0, 0, 0, 0, 0, 0, 0, 0x10], "clusters of less than 16 KiB"),
        (72, &[0, 0, 0, 0, 0, 0, 0, 4], "does not say in which"),
        (100, &[0, 0, 0, 1], "it says that it has 1 bytes"),
        (104, &[9], "type of compression is 9"),
    ] {
        let refusal = Bent::of("snapshots.qcow2").put(at, bytes).refusal();
        assert!(refusal.contains(words), "{refusal}");
    }
    let mut short = Bent::of("v2.qcow2");
    short.bytes.truncate(71);
    assert!(short.refusal().contains("it is too short"));
}

#[test]
fn unknown_features_are_named_by_the_table_in_the_image() {
    let mut table = vec![0; 48];
    table[1] = 5;
    table[2..13].copy_from_slice(b"wide points");
    let mut bytes = [0x6803_f857_u32.to_be_bytes(), 48_u32.to_be_bytes()].concat();
    bytes.extend(table);
    let bent = Bent::of("snapshots.qcow2").put(112, &bytes).put(72, &0x60_u64.to_be_bytes());
    let refusal = bent.refusal();
    assert!(refusal.contains("wide points (bit 5), bit 6"), "{refusal}");
}

#[test]
fn only_files_are_followed() {
    let name_at = Bent::of("overlay.qcow2").u64_at(8);
    for (name, words) in [
        ("json:{\"driver\":\"qcow2\"}", Some("is described in JSON")),
        ("nbd:host:10809", Some("only files are read, not nbd")),
        ("nbd+unix:///x?socket=s", Some("only files are read, not nbd+unix")),
        ("/elsewhere/none.raw", Some("--allow-external-paths")),
        ("absent.raw", Some("which is not there")),
        ("file:base.raw", None),
        ("./base.raw", None),
        ("/elsewhere/base.raw", None),
    ] {
        let length = (name.len() as u32).to_be_bytes();
        let bent = Bent::of("overlay.qcow2").put(16, &length).put(name_at, name.as_bytes());
        match words {
            Some(words) => assert!(bent.refusal().contains(words), "{}", bent.refusal()),
            None => assert_eq!(readable(&*bent.open()).len(), 24, "{name}"),
        }
    }
    let itself = Bent::of("overlay.qcow2").put(16, &10_u32.to_be_bytes()).put(name_at, b"bent.qcow2");
    assert!(itself.refusal().contains("comes back to"), "{}", itself.refusal());
    assert!(Bent::of("overlay.qcow2").put(16, &[0xff; 4]).refusal().contains("cannot be read"));
}

#[test]
fn a_table_of_snapshots_that_lies_is_refused() {
    let table = Bent::of("snapshots.qcow2").u64_at(64);
    let refusal = |bent: Bent| {
        let path = bent.path().display().to_string();
        Opener::default().open(Path::new(&format!("{path}#snapshot=before"))).unwrap_err().to_string()
    };
    for (at, bytes) in [(60, [0xff; 4]), (table + 36, [0xff; 4]), (64, [0xff; 4])] {
        let refusal = refusal(Bent::of("snapshots.qcow2").put(at, &bytes));
        assert!(refusal.contains("its table of snapshots cannot be read"), "{refusal}");
    }
    let none = refusal(Bent::of("v2.qcow2"));
    assert!(none.contains("no snapshot before in it; it has none"), "{none}");
}
