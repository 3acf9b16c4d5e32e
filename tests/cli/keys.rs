//! Keys on the command line.

use crate::{spool, status, stderr, stdout, zcheck};
use fixtures::{RealPool, shared_dir};
use std::io::Write;
use std::process::{Command, Stdio};

fn pool() -> Option<RealPool> {
    let path = shared_dir().map(|dir| dir.join("encryption")).filter(|path| path.is_dir());
    if path.is_none() {
        // Nothing can be done about a closed stderr.
        let _ = writeln!(std::io::stderr(), "SKIPPED: ../shared/pools/encryption is not there (set ZCHECK_SHARED)");
    }
    path.map(RealPool::read)
}

const NO_KEY: &str = "content of encrypted blocks";

#[test]
fn keys_open_what_they_fit() {
    let Some(pool) = pool() else { return };
    let device = pool.path.join("disk0.zst");
    let file = |name: &str| pool.path.join(name).display().to_string();
    let hex = format!("crypt/hex/dd={}", file("key-hex"));
    let some = zcheck(&["scrub", "--key-file", &file("key-raw"), "--key-file", &hex], &[&device]);
    assert_eq!((status(&some), stderr(&some).as_str()), (0, ""), "{}", stdout(&some));
    assert!(stdout(&some).contains(NO_KEY), "{}", stdout(&some));
    let keys = ["--key-file", &hex, "--key-file", &file("key-raw"), "--passphrase-file", &file("key-pw")];
    let all = zcheck(&[&["scrub"], keys.as_slice()].concat(), &[&device]);
    assert_eq!((status(&all), stderr(&all).as_str()), (0, ""), "{}", stdout(&all));
    assert!(!stdout(&all).contains(NO_KEY), "{}", stdout(&all));
}

#[test]
fn a_key_may_come_through_a_pipe() {
    let Some(pool) = pool() else { return };
    let mut child = Command::new(env!("CARGO_BIN_EXE_zcheck"))
        .args(["scrub", "--key-file", "crypt/pass=-"])
        .args(spool(&[&pool.path]))
        .arg(pool.path.join("disk0.zst"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let passphrase = std::fs::read(pool.path.join("key-pw")).unwrap();
    child.stdin.take().unwrap().write_all(&passphrase).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{}", stdout(&output));
}

#[test]
fn a_wrong_key_ends_the_run_before_it_begins_and_is_not_shown() {
    let Some(pool) = pool() else { return };
    let device = pool.path.join("disk0.zst");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    std::fs::write(&file, "correct horse battery").unwrap();
    let given = format!("crypt/pass/child={}", file.display());
    let output = zcheck(&["scrub", "--json", "--key-file", &given], &[&device]);
    assert_eq!((status(&output), stdout(&output).as_str()), (8, ""));
    let error = stderr(&output);
    assert!(error.contains("crypt/pass/child: wrong key") && error.lines().count() == 1, "{error}");
    assert!(!error.contains("horse"), "{error}");
    let output = zcheck(&["scrub", "--key-file", "-", "--key-file", "crypt/pass=-"], &[&device]);
    assert_eq!(status(&output), 16, "{}", stderr(&output));
    std::fs::write(&file, vec![b'x'; 5000]).unwrap();
    let output = zcheck(&["scrub", "--key-file", &file.display().to_string()], &[&device]);
    assert!(status(&output) == 8 && stderr(&output).contains("too long to be a key"), "{}", stderr(&output));
}

#[test]
fn info_says_what_key_a_dataset_needs_and_whether_it_was_given() {
    let folder = fixtures::images_dir().join("encrypted");
    let (device, raw) = (folder.join("disk0.zst"), format!("crypt2/raw={}", folder.join("key-raw").display()));
    let output = zcheck(&["info", "--key-file", &raw], &[&device]);
    let text = stdout(&output);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{text}");
    for (dataset, wanted) in [
        ("crypt2/raw ", "encrypted (aes-256-gcm, raw, key available)"),
        ("crypt2/raw/small ", "encrypted (aes-256-gcm, raw, key of crypt2/raw available)"),
        ("crypt2/pass ", "encrypted (aes-128-ccm, passphrase, 100,000 iterations, key not given)"),
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(dataset)).unwrap_or_default();
        assert!(line.ends_with(wanted), "{line}");
    }
    let wrong = format!("crypt2/pass/child={}", folder.join("key-raw").display());
    let output = zcheck(&["info", "--json", "--key-file", &wrong], &[&device]);
    assert!(status(&output) == 0 && stderr(&output).contains("a given key is of no use: crypt2/pass/child"));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let datasets = document["datasets"].as_array().unwrap();
    let child = datasets.iter().find(|dataset| dataset["name"] == "crypt2/pass/child").unwrap();
    let encryption = &child["encryption"];
    assert_eq!((&encryption["key"], &encryption["root"]), (&"wrong".into(), &"crypt2/pass".into()));
    assert_eq!((&encryption["suite"], &encryption["iterations"]), (&"aes-128-ccm".into(), &100_000.into()));
}
