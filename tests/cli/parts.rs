//! Checks of a part of a pool, and checks that stop and go on. `ZCHECK_BLESS=1` rewrites the expected reports.

use crate::readme::without_timings;
use crate::{assert_refused, status, stderr, stdout, zcheck};
use fixtures::images_dir;
use std::path::{Path, PathBuf};
use std::process::Command;

fn image(folder: &str) -> PathBuf {
    images_dir().join(folder).join("disk0.zst")
}

/// Compares with `golden/NAME.txt`.
fn assert_golden(name: &str, report: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/cli/golden/{name}.txt"));
    let report = without_timings(report);
    if std::env::var_os("ZCHECK_BLESS").is_some() {
        std::fs::write(&path, &report).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(report, expected, "{}: ZCHECK_BLESS=1 rewrites it", path.display());
}

#[test]
fn parts_say_what_was_left_out() {
    for (name, args) in [
        ("part-slice", ["--slice", "2/4"]),
        ("part-sample", ["--sample", "10"]),
        ("part-dataset", ["--dataset", "single/clone"]),
        ("part-path", ["--path", "single:/text.log"]),
        ("part-since", ["--since-txg", "20"]),
    ] {
        // By a path that is the same everywhere: lines are broken where they are long.
        let mut command = Command::new(env!("CARGO_BIN_EXE_zcheck"));
        command
            .args(["scrub", args[0], args[1], "single-vmotion-stripes/disk0.zst"])
            .args(["--spool", "."])
            .current_dir(images_dir());
        let output = command.output().unwrap();
        let text = format!("{}exit status {}\n", stdout(&output), status(&output));
        assert_eq!(stderr(&output), "", "{name}");
        assert_golden(name, &text);
    }
}

#[test]
fn what_is_not_there_is_said() {
    for (args, wanted) in [
        (["--dataset", "single/nobody"], "single/nobody"),
        (["--path", "single:/nothing"], "there is no such file or directory"),
        (["--path", "text.log"], "text.log"),
    ] {
        let text = assert_refused(&zcheck(&["scrub", args[0], args[1]], &[&image("single")]), args[1]);
        assert!(text.contains(wanted), "{text}");
    }
}

/// The image is read so slowly that the time is over before its end.
#[test]
fn a_check_that_ran_out_of_time_goes_on_from_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let with_state = ["scrub", "--state", state.to_str().unwrap()];
    let device = image("single-vmotion-stripes");
    let slow = ["--memory", "64M", "--rate-limit", "400K", "--max-time", "1s"];
    let first = zcheck(&[&with_state[..], &slow].concat(), &[&device]);
    assert_eq!(status(&first) & 8, 8, "{}", stdout(&first));
    assert!(state.is_file(), "{}{}", stdout(&first), stderr(&first));
    // Another question is not answered from there.
    let other = zcheck(&[&with_state[..], &["--memory", "64M", "--metadata-only"]].concat(), &[&device]);
    let text = assert_refused(&other, "other options");
    assert!(text.contains("it belongs to another run"), "{text}");
    let second = zcheck(&[&with_state[..], &["--memory", "64M"]].concat(), &[&device]);
    assert_eq!((status(&second), stderr(&second).as_str()), (4, ""));
    assert!(!state.exists());
    let whole = zcheck(&["scrub", "--memory", "64M"], &[&device]);
    assert_eq!(without_timings(&stdout(&second)), without_timings(&stdout(&whole)));
}

#[test]
fn a_state_that_is_none_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("notes.txt");
    std::fs::write(&state, "buy milk\n").unwrap();
    let output = zcheck(&["scrub", "--state", state.to_str().unwrap()], &[&image("single")]);
    let text = assert_refused(&output, "no state");
    assert!(text.contains("notes.txt: it is no saved state of zcheck"), "{text}");
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "buy milk\n");
}

/// Ctrl-C: what was found is reported, and the next run goes on from there.
#[cfg(unix)]
#[test]
fn a_check_that_was_interrupted_goes_on_from_its_state() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Read;
    use std::process::Stdio;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let device = image("single-vmotion-stripes");
    let with_state = ["scrub", "--memory", "64M", "--state", state.to_str().unwrap()];
    let mut child = Command::new(env!("CARGO_BIN_EXE_zcheck"))
        .args(with_state)
        .args(["--rate-limit", "400K", "--progress", "json", "--spool"])
        .arg(dir.path())
        .arg(&device)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The signal is caught before there is progress to show.
    let mut stderr_of_child = child.stderr.take().unwrap();
    let mut byte = [0];
    stderr_of_child.read_exact(&mut byte).unwrap();
    let rest = std::thread::spawn(move || std::io::copy(&mut stderr_of_child, &mut std::io::sink()));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let first = child.wait_with_output().unwrap();
    rest.join().unwrap().unwrap();
    assert_eq!(status(&first) & (32 | 8), 32 | 8, "{}", stdout(&first));
    assert!(stdout(&first).contains("the run was cancelled"), "{}", stdout(&first));
    assert!(state.is_file());
    let second = zcheck(&with_state, &[&device]);
    assert_eq!((status(&second), stderr(&second).as_str()), (4, ""));
    assert!(!state.exists());
    let whole = zcheck(&["scrub", "--memory", "64M"], &[&device]);
    assert_eq!(without_timings(&stdout(&second)), without_timings(&stdout(&whole)));
}
