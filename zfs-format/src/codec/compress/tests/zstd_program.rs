//! The zstd decoder beside the `zstd` program (C): whole frames, and frames with damage. Skipped where it is not
//! installed.
//!
//! What must never be: other bytes than the program's, or wrong ones where it refuses. Each of the two takes some damaged
//! frames that the other refuses; how many is printed, and told in docs/decisions/0001-codecs.md.

use super::{CompressKind, Decompressor};
use std::io::Write;
use std::process::{Command, Stdio};

/// How many damaged frames are tried; the variable asks for more.
const FRAMES: usize = 300;
const FRAMES_VARIABLE: &str = "ZCHECK_ZSTD_FRAMES";

/// Repeatable numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Words, numbers, runs and noise, so that all kinds of blocks and sequences occur.
fn content(numbers: &mut Numbers, bytes: usize) -> Vec<u8> {
    let words = ["vdev", "objset", " the ", "block", "\n    let ", " = ", "();", "u64", "dnode", "&self", "label"];
    let mut plain = Vec::new();
    while plain.len() < bytes {
        match numbers.below(20) {
            0 => plain.extend(vec![b'x'; numbers.below(300)]),
            1 => plain.extend(numbers.next().to_le_bytes()),
            2 => plain.extend(numbers.next().to_string().into_bytes()),
            _ => plain.extend(words[numbers.below(words.len())].bytes()),
        }
    }
    plain.truncate(bytes);
    plain
}

/// Runs the program; `None` when it refuses the input.
fn zstd(options: &[String], input: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    let mut child = Command::new("zstd")
        .args(options)
        .args(["-q", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A program that refuses its input may not read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output()
    })?;
    Ok(output.status.success().then_some(output.stdout))
}

fn ours(decompressor: &mut Decompressor, frame: &[u8], lsize: usize) -> Option<Vec<u8>> {
    let stream = &frame[4..];
    let mut src = u32::try_from(stream.len()).unwrap().to_be_bytes().to_vec();
    src.extend([3, 0x00, 0x28, 0xa5]);
    src.extend(stream);
    let mut dst = vec![0xaa; lsize];
    decompressor.decompress(CompressKind::ZSTD, &src, &mut dst).is_ok().then_some(dst)
}

fn damage(numbers: &mut Numbers, frame: &mut Vec<u8>) {
    if numbers.below(8) == 0 {
        frame.truncate(5 + numbers.below(frame.len() - 5));
    }
    for _ in 0..=numbers.below(3) {
        // Often the head, where tables and sizes are.
        let reach = if numbers.below(2) == 0 { frame.len().min(64) } else { frame.len() };
        let at = 4 + numbers.below(reach - 4);
        frame[at] ^= 1 << numbers.below(8);
    }
}

#[test]
fn frames_decode_as_the_zstd_program_decodes_them() {
    if zstd(&["--version".to_owned()], &[]).is_err() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: the zstd program is not installed");
        return;
    }
    let frames = std::env::var(FRAMES_VARIABLE).map_or(FRAMES, |text| text.parse().unwrap());
    let mut numbers = Numbers(7);
    let mut decompressor = Decompressor::new();
    let levels = ["-1", "-3", "-9", "-19", "--fast=1", "--fast=20"];
    let (mut both, mut neither, mut stricter, mut laxer) = (0, 0, 0, 0);
    for case in 0..frames.div_ceil(10) {
        let size = [500, 4096, 20_000, 131_072][case % 4] + numbers.below(64);
        let plain = content(&mut numbers, size);
        // With the size in the head, which makes a single segment, and without.
        let mut options = vec![levels[case % levels.len()].to_owned(), "--no-check".to_owned()];
        if case % 2 == 0 {
            options.push(format!("--stream-size={}", plain.len()));
        }
        let frame = zstd(&options, &plain).unwrap().unwrap();
        assert!(ours(&mut decompressor, &frame, plain.len()).unwrap() == plain, "case {case}: {options:?}");
        for _ in 0..10 {
            let mut damaged = frame.clone();
            damage(&mut numbers, &mut damaged);
            let theirs = zstd(&["-d".to_owned(), "--long=31".to_owned()], &damaged).unwrap();
            match (ours(&mut decompressor, &damaged, plain.len()), theirs) {
                (Some(ours), Some(theirs)) if ours == theirs => both += 1,
                (None, None) => neither += 1,
                (None, Some(theirs)) if theirs.len() != plain.len() => neither += 1,
                (None, Some(_)) => stricter += 1,
                (Some(ours), None) if ours == plain => laxer += 1,
                (Some(_), None) => panic!("case {case}: wrong bytes pass for good: {damaged:02x?}"),
                (Some(_), Some(_)) => panic!("case {case}: other bytes than of the program: {damaged:02x?}"),
            }
        }
    }
    println!(
        "{both} frames are good to both, {neither} to neither, {stricter} are refused here alone, {laxer} there alone"
    );
    assert!(both > 0 && neither > 0);
}
