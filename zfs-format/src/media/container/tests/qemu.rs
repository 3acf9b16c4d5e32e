//! `qemu-img` and `qemu-io` as makers of images, and as a second opinion about them.

use crate::media::{Content, Extent, Opener, ReadAt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// A folder to make images in.
pub(super) struct Bench {
    dir: tempfile::TempDir,
}

/// One line of `qemu-img map`.
#[derive(Debug)]
struct Mapped {
    start: u64,
    length: u64,
    depth: u64,
    is_zero: bool,
    is_data: bool,
    is_packed: bool,
    offset: Option<u64>,
}

impl Bench {
    /// `None`, and a line that says so, where QEMU's programs are not installed.
    pub(super) fn new() -> Option<Self> {
        let is_here = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !is_here("qemu-img") || !is_here("qemu-io") {
            eprintln!("SKIPPED: qemu-img and qemu-io are not installed");
            return None;
        }
        Some(Self { dir: tempfile::tempdir().unwrap() })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, program: &str, args: &[&str]) -> Vec<u8> {
        let output = Command::new(program).args(args).current_dir(self.dir.path()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {error}");
        output.stdout
    }

    /// Runs `qemu-img` with these words.
    pub(super) fn img(&self, words: &str) -> Vec<u8> {
        self.run("qemu-img", &words.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs commands of `qemu-io` on an image.
    pub(super) fn io(&self, format: &str, image: &str, commands: &[&str]) {
        let mut args = vec!["-f", format];
        args.extend(commands.iter().flat_map(|command| ["-c", command]));
        args.push(image);
        self.run("qemu-io", &args);
    }

    /// The disk as QEMU sees it.
    pub(super) fn raw_of(&self, options: &str, image: &str) -> Vec<u8> {
        self.img(&format!("convert -O raw {options} {image} raw-of-image"));
        std::fs::read(self.path("raw-of-image")).unwrap()
    }

    /// Opens an image, as a user would.
    pub(super) fn open(&self, image: &str) -> Arc<dyn ReadAt> {
        Opener::default().open(&self.path(image)).unwrap().remove(0).bytes
    }

    /// Fails unless all of the image reads here as it does there, in pieces of any size, with the same places.
    pub(super) fn check(&self, format: &str, image: &str) {
        let expected = self.raw_of(&format!("-f {format}"), image);
        let disk = self.open(image);
        check_bytes(&*disk, &expected, image);
        self.check_map(format, image, &*disk);
        assert!(disk.notes().is_empty(), "{image}: {:?}", disk.notes());
    }

    fn check_map(&self, format: &str, image: &str, disk: &dyn ReadAt) {
        let json: serde_json::Value =
            serde_json::from_slice(&self.img(&format!("map --output=json -f {format} {image}"))).unwrap();
        let number = |line: &serde_json::Value, key: &str| line[key].as_u64();
        let is = |line: &serde_json::Value, key: &str| line[key].as_bool().unwrap_or(false);
        for line in json.as_array().unwrap() {
            let mapped = Mapped {
                start: number(line, "start").unwrap(),
                length: number(line, "length").unwrap(),
                depth: number(line, "depth").unwrap(),
                is_zero: is(line, "zero"),
                is_data: is(line, "data"),
                is_packed: is(line, "compressed"),
                offset: number(line, "offset"),
            };
            let mut at = mapped.start;
            while at < mapped.start + mapped.length {
                let extent = disk.extent_at(at);
                assert!(extent.length_bytes > 0, "{image}: nothing at {at}");
                assert!(agree(&mapped, at, &extent), "{image}: {at}: {mapped:?} {extent:?}");
                at += extent.length_bytes;
            }
        }
    }
}

fn agree(mapped: &Mapped, at: u64, extent: &Extent) -> bool {
    let is_at = |place: u64| mapped.offset == Some(place - (at - mapped.start));
    let is_content = match extent.content {
        Content::Data => mapped.is_data && !mapped.is_packed && extent.file_offset_bytes.is_some_and(is_at),
        Content::Packed => mapped.is_data && mapped.is_packed,
        Content::Zero => mapped.is_zero,
        // A hole in the file that a table leads to: only some versions look there.
        Content::Hole if extent.file_offset_bytes.is_some() => extent.file_offset_bytes.is_some_and(is_at),
        Content::Hole => mapped.is_zero && !mapped.is_data,
        Content::Unreadable { .. } => false,
    };
    is_content && u64::from(extent.layer) == mapped.depth
}

/// Fails unless `disk` holds `expected`, read as a whole and in pieces.
pub(super) fn check_bytes(disk: &dyn ReadAt, expected: &[u8], what: &str) {
    assert_eq!(disk.size_bytes(), expected.len() as u64, "{what}");
    let mut whole = vec![0xee; expected.len()];
    disk.read_at(&mut whole, 0).unwrap();
    let differs = whole.iter().zip(expected).position(|(one, other)| one != other);
    assert_eq!(differs, None, "{what}: first byte that differs");
    let mut random = Random(expected.len() as u64);
    for _ in 0..200 {
        let start = random.below(expected.len());
        let length = random.below(200_000).min(expected.len() - start);
        let mut piece = vec![0xee; length];
        disk.read_at(&mut piece, start as u64).unwrap();
        assert!(piece == expected[start..start + length], "{what}: {length} bytes at {start}");
    }
}

/// Numbers that look random and are always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Knuth's constants (MMIX).
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A disk with all sorts of content: noise, text, zeros, both mixed at several grains. Its size is no multiple of any cluster.
pub(super) fn content() -> Vec<u8> {
    let mut random = Random(6);
    let mut bytes = Vec::new();
    for piece in 0..96_u64 {
        let mut part = match piece % 4 {
            0 => (0..65_536).map(|_| random.next() as u8).collect(),
            1 => format!("line {piece} of some text that packs well\n").into_bytes().repeat(2000),
            2 => vec![0; 65_536],
            _ => (0..128_u64).flat_map(|block| vec![(block % (piece / 4 + 2)) as u8; 512]).collect(),
        };
        part.resize(65_536, 0);
        bytes.extend(part);
    }
    bytes[2 << 20..3 << 20].fill(0);
    bytes.extend([0x77; 1536]);
    bytes
}

/// Writes [`content`] to a file of this name.
pub(super) fn write_content(bench: &Bench, name: &str) {
    std::fs::write(bench.path(name), content()).unwrap();
}
