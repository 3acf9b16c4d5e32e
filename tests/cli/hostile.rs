//! The program on inputs that are no pools, or that lie.

use crate::real::unpacked;
use crate::{assert_refused, status, stderr, stdout, zcheck};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Where the nvlist of a label lies in it, and how long the area is with its checksum.
const CONFIG_OFFSET: usize = 16 << 10;
const CONFIG_BYTES: usize = 112 << 10;
const LABEL_BYTES: usize = 256 << 10;
/// Closes an area with a checksum inside (`ZEC_MAGIC`).
const CHECKSUM_MAGIC: u64 = 0x0210_da7a_b10c_7a11;

const COMMANDS: &[&str] = &["scrub", "info", "label"];

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Bytes of no pattern.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Asserts that every command refuses the input, and returns the line of `scrub`.
fn refused(input: &Path) -> String {
    let line = |command: &&str| assert_refused(&zcheck(&[command], &[input]), &format!("{command} {input:?}"));
    COMMANDS.iter().map(line).collect::<Vec<_>>().remove(0)
}

#[test]
fn an_empty_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    refused(&write(dir.path(), "empty", &[]));
}

#[test]
fn random_bytes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for length in [1, 511, 4096, 300 << 10, 3 << 20] {
        refused(&write(dir.path(), "noise", &noise(length)));
    }
}

#[test]
fn directories_without_members_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path());
    write(dir.path(), "readme.txt", b"no pool here");
    refused(dir.path());
}

#[test]
fn a_path_that_is_not_there_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let line = refused(&dir.path().join("nothing-here.img"));
    assert!(line.contains("nothing-here.img"), "{line}");
}

#[test]
fn another_file_system_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 2 << 20];
    // The magic number of the superblock, at 1024.
    bytes[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
    let line = refused(&write(dir.path(), "ext4.img", &bytes));
    assert!(line.contains("ext4"), "{line}");
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let line = refused(&pipe);
    assert!(line.contains("a pipe"), "{line}");
}

#[test]
fn a_compressed_image_needs_a_folder_to_unpack_it_in() {
    let image = fixtures::images_dir().join("single/disk0.zst");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_zcheck")).arg("info").arg(image).output().unwrap();
    let line = assert_refused(&output, "no --spool");
    assert!(line.contains("compressed with zstd: give --spool DIR"), "{line}");
}

#[test]
fn a_broken_compressed_image_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(fixtures::images_dir().join("single/disk0.zst")).unwrap();
    refused(&write(dir.path(), "cut.zst", &whole[..whole.len() / 2]));
    let mut bent = whole;
    bent.truncate(64);
    bent.extend(noise(4096));
    refused(&write(dir.path(), "bent.zst", &bent));
}

#[test]
fn an_image_cut_short_ends_with_a_report_or_one_line_wherever_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpacked("single", dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    for length in [100 << 10, LABEL_BYTES, 512 << 10, 3 << 20, 4 << 20, (5 << 20) + 512, 20 << 20, (63 << 20) + 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let output = zcheck(&["scrub"], &[&path]);
        if status(&output) == 8 && stdout(&output).is_empty() {
            assert_refused(&output, &format!("cut at {length}"));
        } else {
            assert!([1, 4, 12].contains(&status(&output)), "{length}: {}", status(&output));
            assert!(stdout(&output).contains("bytes are missing"), "{length}: {}", stdout(&output));
            assert!(!stderr(&output).contains("panicked"), "{length}: {}", stderr(&output));
        }
    }
}

/// Writes the checksum of a label's nvlist anew, as one who wants it believed would.
fn seal(image: &mut [u8], label_start: usize) {
    let start = label_start + CONFIG_OFFSET;
    let area = &mut image[start..start + CONFIG_BYTES];
    let (body, end) = area.split_at_mut(CONFIG_BYTES - 40);
    end[..8].copy_from_slice(&CHECKSUM_MAGIC.to_le_bytes());
    // The place of the area stands where the checksum will be while it is computed.
    end[8..].fill(0);
    end[8..16].copy_from_slice(&(start as u64).to_le_bytes());
    let digest = Sha256::new().chain_update(&*body).chain_update(&*end).finalize();
    for (target, word) in end[8..].chunks_exact_mut(8).zip(digest.chunks_exact(8)) {
        let word: [u8; 8] = word.try_into().unwrap();
        target.copy_from_slice(&u64::from_be_bytes(word).to_le_bytes());
    }
}

/// Applies a lie to the nvlist of the two labels at the front and seals them.
fn lie(whole: &[u8], tell: &dyn Fn(&mut [u8])) -> Vec<u8> {
    let mut image = whole.to_vec();
    for start in [0, LABEL_BYTES] {
        tell(&mut image[start + CONFIG_OFFSET..start + CONFIG_OFFSET + CONFIG_BYTES - 40]);
        seal(&mut image, start);
    }
    image
}

/// A change to the nvlist of a label, and its name.
type Lie = (String, Box<dyn Fn(&mut [u8])>);

/// The position of a name's bytes in an nvlist. Its length stands 4 bytes before, that of the whole pair 12 bytes.
fn find(config: &[u8], name: &str) -> usize {
    config.windows(name.len()).position(|window| window == name.as_bytes()).unwrap()
}

fn poke(config: &mut [u8], at: usize, word: u32) {
    config[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

#[test]
fn resealing_an_untouched_label_keeps_it_valid() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpacked("single", dir.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, lie(&whole, &|_| {})).unwrap();
    assert_eq!(status(&zcheck(&["scrub"], &[&path])), 0);
}

#[test]
fn labels_whose_lengths_lie_under_a_good_checksum_are_survived() {
    let dir = tempfile::tempdir().unwrap();
    let path = unpacked("single", dir.path()).remove(0);
    // Two labels and the newest metadata lie at the front: the rest would only cost time.
    let mut whole = std::fs::read(&path).unwrap();
    whole.truncate(8 << 20);
    let mut lies: Vec<Lie> = Vec::new();
    for word in [0, 7, 0x7fff_ffff, u32::MAX] {
        for name in ["version", "name", "pool_guid", "vdev_tree", "vdev_children", "type", "ashift"] {
            for (what, back) in [("name length", 4), ("pair length", 12), ("unpacked length", 8)] {
                let tell = move |config: &mut [u8]| poke(config, find(config, name) - back, word);
                lies.push((format!("{what} of {name} = {word:#x}"), Box::new(tell)));
            }
            // After the padded name: type, number of elements, value.
            let after = name.len().next_multiple_of(4);
            for (what, forth) in [("type", 0), ("count", 4), ("value", 8), ("low value", 12)] {
                let tell = move |config: &mut [u8]| poke(config, find(config, name) + after + forth, word);
                lies.push((format!("{what} of {name} = {word:#x}"), Box::new(tell)));
            }
        }
    }
    lies.push(("all ones".into(), Box::new(|config| config[12..].fill(0xff))));
    lies.push(("noise".into(), Box::new(|config| config[12..].copy_from_slice(&noise(CONFIG_BYTES - 52)))));
    for (what, tell) in &lies {
        std::fs::write(&path, lie(&whole, tell)).unwrap();
        let output = zcheck(&["info"], &[&path]);
        assert!(!stderr(&output).contains("panicked"), "{what}: {}", stderr(&output));
        match output.status.code() {
            Some(8) if stdout(&output).is_empty() => drop(assert_refused(&output, what)),
            Some(0 | 1 | 4 | 8 | 12) => assert!(!stdout(&output).is_empty(), "{what}"),
            code => panic!("{what}: ended with {code:?}: {}", stderr(&output)),
        }
    }
}
