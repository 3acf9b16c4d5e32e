//! Disks with partitions, as a user meets them.

use crate::real::unpacked;
use crate::{assert_refused, status, stderr, stdout, zcheck};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;

/// A sparse disk in a file with these devices at these places, and an MBR that names them.
fn disk(path: &Path, size: u64, parts: &[(u64, &Path)]) {
    let mut disk = File::create(path).unwrap();
    disk.set_len(size).unwrap();
    let mut table = [0; 512];
    for (index, (start, part)) in parts.iter().enumerate() {
        let mut part = File::open(part).unwrap();
        let length = part.metadata().unwrap().len();
        let entry = &mut table[446 + 16 * index..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&u32::try_from(start / SECTOR).unwrap().to_le_bytes());
        entry[12..16].copy_from_slice(&u32::try_from(length / SECTOR).unwrap().to_le_bytes());
        let mut piece = vec![0; 64 << 10];
        for at in (0..length).step_by(piece.len()) {
            let read = part.read(&mut piece).unwrap();
            if piece[..read].iter().any(|&byte| byte != 0) {
                disk.seek(SeekFrom::Start(start + at)).unwrap();
                disk.write_all(&piece[..read]).unwrap();
            }
        }
    }
    table[510..].copy_from_slice(b"\x55\xaa");
    disk.rewind().unwrap();
    disk.write_all(&table).unwrap();
}

/// A disk with the pool `single` in its second partition.
fn vm_disk(dir: &Path) -> PathBuf {
    let pool = unpacked("single", dir).remove(0);
    let small = dir.join("boot");
    std::fs::write(&small, vec![0; MIB as usize]).unwrap();
    let path = dir.join("vm.img");
    disk(&path, std::fs::metadata(&pool).unwrap().len() + 8 * MIB, &[(MIB, &small), (4 * MIB, &pool)]);
    std::fs::remove_file(pool).unwrap();
    std::fs::remove_file(small).unwrap();
    path
}

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_partition_of_a_member_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let disk = vm_disk(dir.path());
    let name = format!("{}, partition 2", disk.display());
    let output = zcheck(&["scrub", "--json"], &[&disk]);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{}", stdout(&output));
    assert_eq!(json(&output)["vdevs"][0]["device"], name.as_str());
    for command in ["scrub", "info", "label"] {
        let output = zcheck(&[command], &[&disk]);
        assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{}", stdout(&output));
        assert!(stdout(&output).contains(", partition 2"), "{}", stdout(&output));
    }
    // A directory of disks.
    let output = zcheck(&["info", "--json"], &[dir.path()]);
    assert_eq!(json(&output)["vdevs"][0]["device"], name.as_str());
}

#[test]
fn a_partition_or_a_place_can_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let disk = vm_disk(dir.path());
    for (args, name) in [
        (&["--partition", "2"][..], "partition 2"),
        (&["--offset", "4M"], "from byte 4194304"),
        (&["--find-labels"], "partition 2"),
    ] {
        let output = zcheck(&[&["scrub", "--json"], args].concat(), &[&disk]);
        assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{args:?}");
        assert_eq!(json(&output)["vdevs"][0]["device"], format!("{}, {name}", disk.display()).as_str());
    }
    let line = assert_refused(&zcheck(&["scrub", "--partition", "1"], &[&disk]), "an empty partition");
    assert!(line.contains("partition 1: no ZFS label found"), "{line}");
    let line = assert_refused(&zcheck(&["label", "--partition", "7"], &[&disk]), "no partition");
    assert!(line.contains("there is no partition 7 to read; its partitions (MBR) are 1 of 1 MiB: "), "{line}");
    assert!(line.contains(": a member of the pool "), "{line}");
    assert_refused(&zcheck(&["info", "--offset", "1G"], &[&disk]), "beyond the end");
    for args in [["--partition", "2", "--offset=1"], ["--partition", "2", "--find-labels"]] {
        assert_eq!(status(&zcheck(&[&["scrub"], &args[..]].concat(), &[&disk])), 16);
    }
}

#[test]
fn one_partition_given_twice_counts_once_and_two_of_one_disk_are_two() {
    let dir = tempfile::tempdir().unwrap();
    let sides = unpacked("mirror2", dir.path());
    let path = dir.path().join("disk");
    let second = 2 * MIB + std::fs::metadata(&sides[0]).unwrap().len();
    disk(&path, 2 * second, &[(MIB, &sides[0]), (second, &sides[1])]);
    let output = zcheck(&["scrub", "--json"], &[&path]);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{}", stdout(&output));
    assert_eq!(json(&output)["findings"].as_array().unwrap().len(), 0);
    let output = zcheck(&["scrub", "--json"], &[&path, &path]);
    assert_eq!(status(&output), 0);
    let findings = json(&output)["findings"].clone();
    let findings = findings.as_array().unwrap();
    assert!(findings.len() == 2 && findings.iter().all(|finding| finding["code"] == "ZC0105"), "{findings:?}");
    assert!(findings[0]["message"].as_str().unwrap().starts_with("the same file as "));
}

#[test]
fn what_a_search_finds_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let pool = unpacked("single", dir.path()).remove(0);
    let path = dir.path().join("lost.img");
    let start = 200 * MIB + 3 * SECTOR;
    disk(&path, start + std::fs::metadata(&pool).unwrap().len() + 20 * MIB, &[(start, &pool)]);
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(&[0; 512]).unwrap();
    let line = assert_refused(&zcheck(&["scrub"], &[&path]), "a lost table");
    assert!(line.contains("--find-labels"), "{line}");
    for command in ["label", "info", "scrub"] {
        let output = zcheck(&[command, "--find-labels"], &[&path]);
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        let shown = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(&format!("lost.img, from byte {start}")), "{shown}");
    }
}
