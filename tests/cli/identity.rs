//! Which device is what, as a user meets it: names of files, directories, and the table of devices.

use crate::real::unpacked;
use crate::{assert_refused, status, stderr, stdout, zcheck};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A pool of the collection beside the repository, as it lies there.
fn shared(folder: &str) -> Option<PathBuf> {
    let path = fixtures::shared_dir().map(|dir| dir.join(folder)).filter(|path| path.is_dir());
    if path.is_none() {
        // On the real stderr, past the capture of the test harness; nothing can be done about a closed one.
        let _ = writeln!(std::io::stderr(), "SKIPPED: ../shared/pools/{folder} is not there");
    }
    path
}

#[cfg(unix)]
#[test]
fn case_a8_one_device_under_several_names_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let sides = unpacked("mirror2", dir.path());
    let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
    std::fs::hard_link(&sides[0], &hard).unwrap();
    std::os::unix::fs::symlink(&sides[0], &soft).unwrap();
    let inputs: [&[&Path]; 4] = [
        &[&sides[0], &sides[0], &sides[1]],
        &[&sides[0], &hard, &sides[1]],
        &[&sides[0], &sides[1], &soft],
        &[dir.path()],
    ];
    for paths in inputs {
        let output = zcheck(&["scrub", "--json"], paths);
        assert_eq!((status(&output), stderr(&output).as_str()), (0, ""));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = document["findings"].as_array().unwrap();
        assert!(!findings.is_empty() && findings.iter().all(|finding| finding["code"] == "ZC0105"), "{findings:?}");
        let message = findings[0]["message"].as_str().unwrap();
        assert!(message.starts_with("the same file as ") && message.ends_with("it counts once"), "{message}");
        assert_eq!(document["vdevs"][0]["vdevs"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn the_table_has_the_sections_of_zpool_status() {
    let Some(pool) = shared("classes-special-dedup-log-cache-spare") else { return };
    let expected = std::fs::read_to_string(pool.join("zpool-status.txt")).unwrap();
    // First words of the table: OpenZFS shows whole paths there.
    let names = |text: &str| -> Vec<String> {
        let table = text.lines().skip_while(|line| !line.contains("NAME")).take_while(|line| !line.trim().is_empty());
        let first = table.filter_map(|line| line.split_whitespace().next());
        let short = first.map(|word| word.strip_prefix("/dev/shm/v/").unwrap_or(word).to_owned());
        short.filter(|word| !word.starts_with('/')).collect()
    };
    for command in ["scrub", "info"] {
        let output = zcheck(&[command], &[&pool]);
        assert_eq!((status(&output), stderr(&output).as_str()), (0, ""));
        assert_eq!(names(&stdout(&output)), names(&expected), "{command}");
    }
}

#[test]
fn a_cache_and_a_spare_alone_are_one_error_line() {
    let Some(pool) = shared("classes-special-dedup-log-cache-spare") else { return };
    for (device, what) in [("ca.zst", "a cache device (L2ARC)"), ("sp.are.zst", "a hot spare")] {
        for command in ["scrub", "info"] {
            let line = assert_refused(&zcheck(&[command], &[&pool.join(device)]), device);
            assert!(line.contains(what) && line.contains("it holds no pool data"), "{line}");
        }
        let output = zcheck(&["label"], &[&pool.join(device)]);
        assert!(status(&output) == 0 && stdout(&output).contains("no pool, device "), "{}", stdout(&output));
    }
}

#[test]
fn the_other_half_of_a_split_mirror_is_explained() {
    let Some(pool) = shared("split-mirror") else { return };
    let halves = [pool.join("m.0.zst"), pool.join("m.1.zst")];
    let output = zcheck(&["scrub", "--pool", "splt"], &[&halves[0], &halves[1]]);
    assert_eq!(status(&output), 0, "{}", stdout(&output));
    assert!(stderr(&output).contains("is not used: it was split off from this pool"), "{}", stderr(&output));
}

#[test]
fn exchanged_labels_are_said_first_and_nothing_is_advised_that_goes_by_them() {
    let dir = tempfile::tempdir().unwrap();
    let paths = unpacked("raidz1-3disk", dir.path());
    let mut devices: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let (front, back) = devices.split_at_mut(2);
    fixtures::exchange_labels(&mut front[0], &mut back[0], &[0, 1, 2, 3]);
    for (path, device) in paths.iter().zip(&devices) {
        std::fs::write(path, device).unwrap();
    }
    let output = zcheck(&["scrub"], &[dir.path()]);
    let text = stdout(&output);
    assert!(text.contains("status: The contents of z.0 and z.2 are exchanged"), "{text}");
    assert!(text.contains("next: do not import the pool") && !text.contains("zpool "), "{text}");
}

#[cfg(unix)]
#[test]
fn missing_members_are_found_by_search_and_nothing_else_is_taken() {
    let (given, searched) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sides = unpacked("mirror2", given.path());
    let other = searched.path().join("m1");
    std::fs::rename(&sides[1], &other).unwrap();
    // A second name of it, the side that is given, another pool, and what is no pool at all.
    std::os::unix::fs::symlink(&other, searched.path().join("a-link")).unwrap();
    std::os::unix::fs::symlink(&sides[0], searched.path().join("given")).unwrap();
    unpacked("single", searched.path());
    std::fs::write(searched.path().join("text"), "no pool").unwrap();
    std::fs::create_dir(searched.path().join("below")).unwrap();
    let search = format!("--search={}", searched.path().display());
    let alone = zcheck(&["scrub", "--json"], &[&sides[0]]);
    assert_eq!(status(&alone), 9);
    let found = zcheck(&["scrub", "--json", &search, &search], &[&sides[0]]);
    assert_eq!((status(&found), stderr(&found).as_str()), (0, ""));
    let document: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(document["findings"].as_array().unwrap().len(), 0, "{}", document["findings"]);
    let device = |side: usize| document["vdevs"][0]["vdevs"][side]["device"].as_str().unwrap().to_owned();
    assert_eq!(device(0), sides[0].display().to_string());
    assert_eq!(device(1), searched.path().join("a-link").display().to_string());
    assert_eq!(document["vdevs"][0]["vdevs"][0]["identity"], Value::Null);
    let labels = zcheck(&["label", "--json", &search], &[&sides[0]]);
    let document: Value = serde_json::from_slice(&labels.stdout).unwrap();
    assert_eq!((status(&labels), document["devices"].as_array().unwrap().len()), (0, 2));
    let refused = assert_refused(&zcheck(&["scrub", "--search=not-there"], &[&sides[0]]), "no such directory");
    assert!(refused.contains("cannot list the directory not-there"), "{refused}");
}
