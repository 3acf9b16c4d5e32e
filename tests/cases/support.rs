//! Devices on disk for one case, and what zcheck answers to them.

use fixtures::{RealPool, images_dir, shared_dir, unpack};
use fuzz::Graft;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A pool of a few blocks that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines of a text report that is no flood.
const LINES_MAX: usize = 200;

/// A pool by the name of its folder: of `fixtures/images`, or of `../shared/pools` where that folder is there.
pub(crate) fn pool(folder: &str) -> Option<RealPool> {
    let kept = images_dir().join(folder);
    let shared = shared_dir().map(|dir| dir.join(folder));
    let path = [Some(kept), shared].into_iter().flatten().find(|path| path.join("expected.json").exists());
    if path.is_none() {
        skipped(&format!("../shared/pools/{folder} is not there (set ZCHECK_SHARED to the folder that holds pools/)"));
    }
    path.map(RealPool::read)
}

/// Name and bytes of each device of a pool.
pub(crate) fn devices(pool: &RealPool) -> Vec<(String, Vec<u8>)> {
    let unpacked = |(name, path): (String, PathBuf)| {
        let bytes = unpack(&path, pool.expected.devices[&name]);
        (name, bytes)
    };
    pool.devices().into_iter().map(unpacked).collect()
}

/// The only disk of a pool, to be changed under right checksums.
pub(crate) fn graft(folder: &str) -> Option<Graft> {
    let mut devices = devices(&pool(folder)?);
    assert_eq!(devices.len(), 1, "{folder} has one disk");
    Some(Graft::new(devices.remove(0).1))
}

/// Says on the real stderr, past the capture of the test harness, that something was not tested.
pub(crate) fn skipped(why: &str) {
    // Nothing can be done about a closed stderr.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Devices written to files.
pub(crate) struct Disks {
    dir: TempDir,
    names: Vec<String>,
}

impl Disks {
    /// Writes these devices, zeros as holes.
    pub(crate) fn new(devices: &[(String, Vec<u8>)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in devices {
            write_sparse(&dir.path().join(name), bytes);
        }
        Disks { dir, names: devices.iter().map(|(name, _)| name.clone()).collect() }
    }

    /// One disk, named `disk0`.
    pub(crate) fn one(bytes: &[u8]) -> Self {
        Self::new(&[("disk0".to_owned(), bytes.to_vec())])
    }

    /// What a command answers, as text and as JSON. The inputs stay as they are, and it ends in time.
    pub(crate) fn run(&self, command: &str, args: &[&str]) -> Answer {
        let before = self.sums();
        let started = Instant::now();
        let text = self.zcheck(&[&[command], args].concat());
        let json = self.zcheck(&[&[command, "--json"], args].concat());
        assert!(started.elapsed() < PATIENCE, "{command} took {:?}", started.elapsed());
        assert!(self.sums() == before, "an input changed");
        let told = String::from_utf8(text.stdout.clone()).unwrap();
        assert!(
            text.status.code().is_some() && !String::from_utf8_lossy(&text.stderr).contains("panicked"),
            "{text:?}"
        );
        assert_eq!(text.status, json.status, "text and JSON end alike");
        assert!(told.lines().count() < LINES_MAX, "a flood of {} lines", told.lines().count());
        Answer {
            status: text.status.code().unwrap(),
            text: told,
            error: String::from_utf8(text.stderr).unwrap(),
            json: serde_json::from_slice(&json.stdout).unwrap_or(Value::Null),
        }
    }

    /// A scrub of all devices.
    pub(crate) fn scrub(&self) -> Answer {
        self.run("scrub", &[])
    }

    fn zcheck(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zcheck"));
        // By a path that is the same everywhere: lines are broken where they are long.
        command.args(args).args(&self.names).current_dir(self.dir.path()).output().unwrap()
    }

    fn sums(&self) -> Vec<Vec<u8>> {
        let sum = |name: &String| Sha256::digest(std::fs::read(self.dir.path().join(name)).unwrap()).to_vec();
        self.names.iter().map(sum).collect()
    }
}

/// What a run said.
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) text: String,
    pub(crate) error: String,
    /// The JSON report; null when there is none.
    pub(crate) json: Value,
}

impl Answer {
    /// Code and severity of all findings, in the order of the report.
    pub(crate) fn codes(&self) -> Vec<(&str, &str)> {
        let findings = self.json["findings"].as_array().map_or(&[][..], Vec::as_slice);
        findings
            .iter()
            .map(|finding| (finding["code"].as_str().unwrap(), finding["severity"].as_str().unwrap()))
            .collect()
    }

    /// The findings with this code.
    pub(crate) fn findings(&self, code: &str) -> Vec<&Value> {
        let findings = self.json["findings"].as_array().map_or(&[][..], Vec::as_slice);
        findings.iter().filter(|finding| finding["code"] == code).collect()
    }

    /// The verdict in one word.
    pub(crate) fn verdict(&self) -> &str {
        self.json["summary"]["verdict"].as_str().unwrap_or_default()
    }

    /// Asserts that the text says this, however its lines are broken.
    pub(crate) fn says(&self, wanted: &str) -> &Self {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&self.text).contains(wanted), "no {wanted:?} in:\n{}", self.text);
        self
    }

    /// Compares the text with `expected/NAME.txt`.
    pub(crate) fn is_expected(&self, name: &str) -> &Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/cases/expected/{name}.txt"));
        let report = format!("{}{}exit status {}\n", without_timings(&self.text), self.error, self.status);
        if std::env::var_os("ZCHECK_BLESS").is_some() {
            std::fs::write(&path, &report).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(report, expected, "{}: ZCHECK_BLESS=1 rewrites it", path.display());
        self
    }

    /// Asserts that nothing is damaged, as far as a scrub can tell: right checksums everywhere.
    pub(crate) fn is_clean(&self) -> &Self {
        assert_eq!((self.status, self.verdict()), (0, "clean"), "{}{}", self.text, self.error);
        self
    }
}

/// A report without what differs from run to run.
fn without_timings(report: &str) -> String {
    let line = |line: &str| match line.split_once(" blocks in ") {
        Some((before, after)) if line.starts_with("  scan: ") => {
            let (timing, after) = after.split_once("; ").expect("what was checked follows the time");
            assert!(timing.ends_with("/s)"), "not a time and a speed: {timing}");
            format!("{before} blocks in TIME; {after}\n")
        }
        _ => format!("{line}\n"),
    };
    report.lines().map(line).collect()
}

/// Writes a file whose zeros are holes, as far as whole pieces are zero.
fn write_sparse(path: &Path, bytes: &[u8]) {
    const PIECE_BYTES: usize = 64 << 10;
    let mut file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
        if piece.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start((number * PIECE_BYTES) as u64)).unwrap();
            file.write_all(piece).unwrap();
        }
    }
}
