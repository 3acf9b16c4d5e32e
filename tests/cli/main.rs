//! The program as a whole: streams and exit statuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod history;
mod hostile;
mod identity;
mod images;
mod keys;
mod partitions;
mod parts;
mod readme;
mod real;
mod remembered;
mod rescue;
mod txgs;
mod unsupported;

use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

/// What an input was before a run: name, length, time of change, sha256 of its content.
type State = (PathBuf, u64, Option<SystemTime>, Option<Vec<u8>>);

/// The state of a file, or of a directory and all files in it. Pipes are not read.
fn states(path: &Path) -> Vec<State> {
    let Ok(metadata) = std::fs::metadata(path) else { return vec![(path.to_path_buf(), 0, None, None)] };
    let sum = metadata.is_file().then(|| Sha256::digest(std::fs::read(path).unwrap()).to_vec());
    let mut found = vec![(path.to_path_buf(), metadata.len(), metadata.modified().ok(), sum)];
    if metadata.is_dir() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        found.extend(entries.iter().flat_map(|entry| states(entry)));
    }
    found
}

/// The options that let compressed images among the inputs be read.
fn spool(inputs: &[&Path]) -> Vec<OsString> {
    let is_packed = |path: &Path| path.extension().is_some_and(|extension| extension == "zst" || extension == "gz");
    let holds_packed = |path: &Path| {
        std::fs::read_dir(path).is_ok_and(|mut entries| entries.any(|entry| is_packed(&entry.unwrap().path())))
    };
    let is_needed = inputs.iter().any(|path| is_packed(path) || holds_packed(path));
    if is_needed { vec!["--spool".into(), std::env::temp_dir().into()] } else { Vec::new() }
}

/// Runs the program and asserts that no input changed.
fn zcheck(args: &[&str], inputs: &[&Path]) -> Output {
    let state = || inputs.iter().flat_map(|path| states(path)).collect::<Vec<_>>();
    let before = state();
    let mut command = Command::new(env!("CARGO_BIN_EXE_zcheck"));
    let output = command.args(args).args(spool(inputs)).args(inputs).output().unwrap();
    assert_eq!(before, state(), "an input changed");
    output
}

/// One error line, status 8, nothing on stdout. Returns the line.
fn assert_refused(output: &Output, what: &str) -> String {
    let text = stderr(output);
    assert_eq!((output.status.code(), stdout(output).as_str()), (Some(8), ""), "{what}: {text}");
    assert!(text.starts_with("zcheck: error: ") && text.lines().count() == 1, "{what}: {text}");
    text
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A file that is no pool.
fn garbage(dir: &Path) -> PathBuf {
    let path = dir.join("garbage.img");
    std::fs::write(&path, vec![0x5a; 1 << 20]).unwrap();
    path
}

#[test]
fn help_and_version_go_to_stdout_with_status_0() {
    for args in [&["--help"][..], &["-h"], &["--version"], &["help", "scrub"], &["scrub", "--help"]] {
        let output = zcheck(args, &[]);
        assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{args:?}");
        assert!(stdout(&output).contains("zcheck"), "{args:?}");
    }
}

#[test]
fn help_fits_100_columns() {
    for command in ["scrub", "info", "label", "explain", "completions", "man"] {
        let output = zcheck(&[command, "--help"], &[]);
        let text = stdout(&output);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn wrong_usage_gives_16_and_nothing_on_stdout() {
    let wrong = [
        &[][..],
        &["scrub"],
        &["frobnicate"],
        &["scrub", "--frobnicate", "x"],
        &["scrub", "--memory", "1M", "x"],
        &["scrub", "--threads", "0", "x"],
        &["scrub", "-q", "-v", "x"],
        &["scrub", "--color", "sometimes", "x"],
        &["explain", "ZC9999"],
        &["completions", "no-shell"],
    ];
    for args in wrong {
        let output = zcheck(args, &[]);
        assert_eq!((status(&output), stdout(&output).as_str()), (16, ""), "{args:?}: {}", stderr(&output));
        assert!(args.is_empty() || stderr(&output).starts_with("zcheck: error: "), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn what_is_no_pool_gives_8_and_one_error_line() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["scrub", "info", "label"] {
        for input in [garbage(dir.path()), dir.path().join("not-there")] {
            let output = zcheck(&[command], &[&input]);
            assert_eq!((status(&output), stdout(&output).as_str()), (8, ""), "{command}");
            let text = stderr(&output);
            assert!(text.starts_with("zcheck: error: ") && text.lines().count() == 1, "{command}: {text}");
        }
    }
}

#[test]
fn explain_knows_codes_in_any_case_and_lists_all() {
    let one = stdout(&zcheck(&["explain", "zc0301"], &[]));
    assert!(one.starts_with("ZC0301  block checksum mismatch"), "{one}");
    let list = stdout(&zcheck(&["explain"], &[]));
    assert!(list.lines().count() > 10 && list.contains("ZC0301"));
    assert_eq!(list, stdout(&zcheck(&["explain", "--list"], &[])));
    assert!(stdout(&zcheck(&["--color", "always", "explain"], &[])).contains("\x1b["));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zcheck"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_report_gives_8() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let command = Command::new(env!("CARGO_BIN_EXE_zcheck")).args(["completions", "bash"]).stdout(full).output();
    let output = command.unwrap();
    assert_eq!(status(&output), 8);
    assert!(stderr(&output).starts_with("zcheck: error: cannot write to standard output: "), "{}", stderr(&output));
}

#[test]
fn completions_and_man_pages_cover_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = zcheck(&["completions", shell], &[]);
        assert!(status(&output) == 0 && stdout(&output).contains("no-decode"), "{shell}");
    }
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man");
    let output = zcheck(&["man", pages.to_str().unwrap()], &[]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let page = std::fs::read_to_string(pages.join("zcheck-scrub.1")).unwrap();
    assert!(pages.join("zcheck.1").exists() && page.contains("Exit status"));
    assert_eq!(status(&zcheck(&["man"], &[&garbage(dir.path())])), 8);
}
