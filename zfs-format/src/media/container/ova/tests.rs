use super::*;
use crate::media::{NoteKind, Opener};
use sha2::Digest;
use std::path::PathBuf;
use std::process::Command;

/// One member of a made archive.
fn member(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    block[156] = b'0';
    block[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    block.extend(bytes);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u64 = block[..512].iter().map(|&byte| u64::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes: Vec<u8> = members.iter().flat_map(|(name, bytes)| member(name, bytes)).collect();
    bytes.extend([0; 1024]);
    bytes
}

fn try_open(dir: &tempfile::TempDir, bytes: &[u8]) -> Result<Vec<Medium>, String> {
    let path = dir.path().join("vm.ova");
    std::fs::write(&path, bytes).unwrap();
    Opener::default().open(&path).map_err(|error| error.to_string())
}

fn read(medium: &Medium) -> Vec<u8> {
    let mut bytes = vec![0; medium.bytes.size_bytes() as usize];
    medium.bytes.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn kinds(medium: &Medium) -> Vec<NoteKind> {
    medium.bytes.notes().into_iter().map(|note| note.kind).collect()
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn each_disk_is_a_medium_and_the_manifest_is_compared() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (vec![1; 3000], vec![2; 5000]);
    let manifest = format!(
        "SHA256(vm.ovf)= {}\nSHA1(one.img)= {}\nSHA512(two.raw)= {}\n",
        hex(sha2::Sha256::digest(b"<ovf/>")),
        hex(sha1::Sha1::digest(&one)),
        hex(sha2::Sha512::digest(&two)),
    );
    let members: [(&str, &[u8]); 4] =
        [("vm.ovf", b"<ovf/>"), ("vm.mf", manifest.as_bytes()), ("one.img", &one), ("two.raw", &two)];
    let bytes = archive(&members);
    let media = try_open(&dir, &bytes).unwrap();
    let parts: Vec<_> = media.iter().map(|medium| medium.part.as_deref().unwrap()).collect();
    assert_eq!(parts, ["one.img", "two.raw"]);
    assert_eq!((read(&media[0]), read(&media[1])), (one, two));
    assert_eq!(kinds(&media[0]), []);
    let place = media[1].bytes.extent_at(7);
    assert_eq!(
        (place.file.as_deref(), place.file_offset_bytes),
        (Some(&*dir.path().join("vm.ova")), Some(6 * 512 + 3072 + 7))
    );
    let mut damaged = bytes.clone();
    let last = damaged.len() - 2000;
    damaged[last] ^= 1;
    let media = try_open(&dir, &damaged).unwrap();
    let notes = media[0].bytes.notes();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].message.starts_with("two.raw is not what it was"), "{}", notes[0].message);
    // Cut short: what is there can be read.
    let media = try_open(&dir, &bytes[..bytes.len() - 4096]).unwrap();
    assert_eq!(kinds(&media[0]), [NoteKind::ImageTruncated, NoteKind::ManifestMismatch]);
}

#[test]
fn split_disks_are_joined_and_packed_ones_refused() {
    let dir = tempfile::tempdir().unwrap();
    let chunks: [(&str, &[u8]); 3] =
        [("d.img.000000001", &[2; 700]), ("d.img.000000000", &[1; 1000]), ("d.img.000000002", &[3; 10])];
    let media = try_open(&dir, &archive(&chunks)).unwrap();
    assert_eq!(media.len(), 1);
    let expected = [vec![1; 1000], vec![2; 700], vec![3; 10]].concat();
    assert_eq!(read(&media[0]), expected);
    let mut across = [0; 4];
    media[0].bytes.read_at(&mut across, 998).unwrap();
    assert_eq!(across, [1, 1, 2, 2]);
    let error = try_open(&dir, &archive(&[("d.vmdk.gz", b"x")])).unwrap_err();
    assert!(error.contains("d.vmdk.gz is compressed"), "{error}");
    let error = try_open(&dir, &archive(&[("letter.txt", b"x")])).unwrap_err();
    assert!(error.contains("none is a disk"), "{error}");
}

#[test]
fn long_names_and_sizes_of_both_dialects() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{}/disk.img", "folder".repeat(30));
    let mut name = member("././@LongLink", format!("{long}\0").as_bytes());
    name[156] = b'L';
    seal(&mut name);
    let body = vec![5; 600];
    let mut bytes = [name, member("short.img", &body)].concat();
    // The size in binary.
    let at = bytes.len() - 1536;
    bytes[at + 124..at + 136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 88]);
    seal(&mut bytes[at..]);
    let record = |text: &str| {
        let length = text.len() + 4;
        format!("{length} {text}\n").into_bytes()
    };
    let mut pax = member("pax", &[record("path=other.img"), record("size=00000600")].concat());
    pax[156] = b'x';
    seal(&mut pax);
    let mut file = member("x.img", &body);
    file[124..135].copy_from_slice(b"00000000000");
    seal(&mut file);
    bytes.extend([pax, file, vec![0; 1024]].concat());
    let media = try_open(&dir, &bytes).unwrap();
    let parts: Vec<_> = media.iter().map(|medium| medium.part.clone().unwrap()).collect();
    assert_eq!(parts, [long.as_str(), "other.img"]);
    assert!(media.iter().all(|medium| read(medium) == body));
}

#[test]
fn an_archive_of_tar_with_a_disk_of_qemu() {
    let dir = tempfile::tempdir().unwrap();
    let is_here = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_here("qemu-img") || !is_here("tar") {
        eprintln!("SKIPPED: qemu-img or tar is not installed");
        return;
    }
    let raw: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 3000) as u8).collect();
    std::fs::write(dir.path().join("raw"), &raw).unwrap();
    let run = |program: &str, words: &str| {
        let status = Command::new(program).args(words.split(' ')).current_dir(dir.path()).status().unwrap();
        assert!(status.success(), "{program} {words}");
    };
    run("qemu-img", "convert -O vmdk -o subformat=streamOptimized raw disk.vmdk");
    for format in ["ustar", "gnu", "pax", "v7"] {
        run("tar", &format!("--format={format} -cf vm.ova disk.vmdk"));
        let path: PathBuf = dir.path().join("vm.ova");
        let media = Opener::default().open(&path).unwrap();
        assert_eq!(media.len(), 1, "{format}");
        assert!(read(&media[0]) == raw, "{format}");
        assert_eq!(kinds(&media[0]), [], "{format}");
        assert_eq!(media[0].bytes.extent_at(0).content, Content::Packed);
    }
}
