//! What the pool remembers, beside `zpool status -v` of the same pools.

use crate::{status, stderr, stdout, zcheck};
use fixtures::images_dir;
use serde_json::Value;
use std::collections::BTreeSet;

fn remembered(command: &str, folder: &str, wanted: i32) -> Value {
    let output = zcheck(&[command, "--json"], &[&images_dir().join(folder).join("disk0.zst")]);
    assert_eq!((status(&output), stderr(&output).as_str()), (wanted, ""), "{folder}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["remembered"].clone()
}

/// `dataset:/path` of each error; `pool:<0x80>` where there is no path.
fn files(remembered: &Value) -> BTreeSet<String> {
    let file = |error: &Value| match error["path"].as_str() {
        Some(path) => format!("{}:{path}", error["dataset"].as_str().unwrap()),
        None => format!("{}:<{:#x}>", error["dataset"].as_str().unwrap(), error["object"].as_u64().unwrap()),
    };
    remembered["errors"].as_array().unwrap().iter().map(file).collect()
}

/// What `zpool status -v` lists; mounted file systems are given as paths.
fn listed(folder: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(images_dir().join(folder).join("zpool-status.txt")).unwrap();
    let (_, list) = text.split_once("following files:").unwrap();
    list.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn an_error_log_of_the_older_form_is_what_zpool_status_lists() {
    let remembered = remembered("info", "errlog-old", 0);
    assert_eq!(files(&remembered), listed("errlog-old"));
    assert_eq!((&remembered["errors_total"], &remembered["scan"]["errors"]), (&4.into(), &4.into()));
    // zdb: blocks 1 and 3 of object 3 of the snapshot 139, block 0 of its object 128.
    let errors = remembered["errors"].as_array().unwrap();
    let places = errors.iter().filter(|error| error["objset"] == 139);
    let places: Vec<_> = places.map(|error| (error["object"].as_u64(), error["block"].as_u64())).collect();
    assert_eq!(places, [(Some(3), Some(1)), (Some(3), Some(3)), (Some(128), Some(0))]);
    assert!(errors.iter().all(|error| error["birth_txg"].is_null()));
}

#[test]
fn an_error_log_of_heads_names_the_live_files() {
    let remembered = remembered("info", "errlog-head", 0);
    // zpool status goes from heads to snapshots, too; heads are mounted below the root.
    let live = listed("errlog-head").into_iter().filter(|file| file.starts_with('/'));
    let live: BTreeSet<String> = live.map(|file| file.replacen("/errnew/fs/", "errnew/fs:/", 1)).collect();
    assert_eq!(files(&remembered), live);
    assert!(remembered["errors"].as_array().unwrap().iter().all(|error| error["birth_txg"] == 11));
}

#[test]
fn the_last_scan_is_that_of_zpool_status() {
    // "scrub repaired 0B in 00:00:01 with 4 errors on Mon Nov 30 22:27:44 2026"
    let scan = &remembered("info", "errlog-head", 0)["scan"];
    assert_eq!((&scan["function"], &scan["state"]), (&"scrub".into(), &"finished".into()));
    assert_eq!((&scan["end"], &scan["processed_bytes"]), (&1_796_077_664.into(), &0.into()));
    let never = remembered("info", "single", 0);
    assert_eq!((&never["errors_total"], &never["errors"]), (&0.into(), &Value::Array(Vec::new())));
}

#[test]
fn what_is_remembered_is_no_finding() {
    let device = images_dir().join("errlog-old/disk0.zst");
    let output = zcheck(&["scrub"], &[&device]);
    let text = stdout(&output);
    assert_eq!((status(&output), stderr(&output).as_str()), (4, ""), "{text}");
    let (found, section) = text.split_once("what the pool remembers:").unwrap();
    assert!(section.contains("last scrub: finished 2026-11-30 22:28:07 UTC, 4 errors"), "{text}");
    assert!(section.contains("errold/fs@s:/a.bin  (2 blocks)"), "{text}");
    // The file that was removed is remembered, and not found.
    assert!(section.contains("errold:<0x80>  (1 block)") && !found.contains("0x80"), "{text}");
    let json = remembered("scrub", "errlog-old", 4);
    assert_eq!(json["errors_total"], 4);
}
