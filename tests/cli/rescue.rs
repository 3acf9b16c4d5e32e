//! Rescue maps, and giving way to others.

use crate::{assert_refused, status, stderr, stdout, zcheck};
use fixtures::{RealPool, images_dir, unpack};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The devices of a pool as files.
fn devices(folder: &str, dir: &Path) -> Vec<PathBuf> {
    let pool = RealPool::read(images_dir().join(folder));
    let write = |(name, path): (String, PathBuf)| {
        let file = dir.join(&name);
        std::fs::write(&file, unpack(&path, pool.expected.devices[&name])).unwrap();
        file
    };
    pool.devices().into_iter().map(write).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn what_a_map_does_not_list_as_rescued_is_told_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let media = devices("mirror2", dir.path());
    let maps = tempfile::tempdir().unwrap();
    let map = maps.path().join("disk.map");
    std::fs::write(&map, "# of a test\n0x500000 ? 1\n0 0x500000 +\n0x500000 0x200000 *\n0x700000 0x40000000 +\n")
        .unwrap();
    let inputs: Vec<&Path> = media.iter().map(PathBuf::as_path).collect();
    let assigned = format!("{}={}", text(&media[1]), text(&map));
    for inputs in [inputs.as_slice(), &[dir.path()]] {
        let output = zcheck(&["scrub", "--map", &assigned], inputs);
        assert_eq!((status(&output), stderr(&output).as_str()), (8, ""), "{}", stdout(&output));
        let report = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(&format!("that were never read ({})", text(&map))), "{report}");
        assert!(report.contains("(not rescued)"), "{report}");
    }
    // Without PATH= there is no telling whose it is.
    let output = zcheck(&["scrub", "--map", &text(&map)], &inputs);
    assert_eq!((status(&output), stdout(&output).as_str()), (16, ""));
    assert!(stderr(&output).contains("say which of the 2 inputs it is for"), "{}", stderr(&output));
    let twice = zcheck(&["scrub", "--map", &assigned, "--map", &assigned], &inputs);
    assert_eq!(status(&twice), 16, "{}", stderr(&twice));
    std::fs::write(&map, "0 ?\n0 nothing +\n").unwrap();
    let line = assert_refused(&zcheck(&["scrub", "--map", &assigned], &inputs), "a bad map");
    assert!(line.ends_with("line 2: the size is no number\n"), "{line}");
    let absent = format!("{}=/not/there", text(&media[1]));
    assert_refused(&zcheck(&["label", "--map", &absent], &inputs), "no map");
}

#[test]
fn a_rate_limit_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let media = devices("single", dir.path());
    let started = Instant::now();
    let limited = zcheck(&["scrub", "-j", "--rate-limit", "512K", "--threads", "4"], &[&media[0]]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&limited)).unwrap();
    let bytes = json["totals"]["bytes_read"].as_u64().unwrap();
    assert_eq!(status(&limited), 0);
    // All but the last requests are waited for, those of labels, too, which are not in this number.
    let wanted = bytes.saturating_sub(512 << 10) as f64 / f64::from(512 << 10);
    let taken = started.elapsed().as_secs_f64();
    assert!(taken >= wanted && wanted > 1.0, "{taken} s for {bytes} bytes");
}

#[test]
fn giving_way_changes_nothing_in_the_report() {
    let single = images_dir().join("single");
    let output = zcheck(&["scrub", "--nice", "-q"], &[&single]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stdout(&output), stdout(&zcheck(&["scrub", "-q"], &[&single])));
}
