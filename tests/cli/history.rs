//! `zcheck info --history`, beside what zdb prints of the same pools.

use crate::{status, stderr, stdout, zcheck};
use fixtures::{images_dir, shared_dir};
use serde_json::Value;
use std::io::Write;
use std::path::Path;

fn history(path: &Path) -> Value {
    let output = zcheck(&["info", "--history", "--json"], &[path]);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{}", path.display());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["history"].clone()
}

/// An entry as `zdb -h` prints it, without the input of ioctls; times in UTC.
fn as_zdb(entry: &Value) -> String {
    let time = jiff::Timestamp::from_second(entry["time"].as_i64().unwrap()).unwrap();
    let time = time.strftime("%Y-%m-%d.%H:%M:%S");
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    match text("kind") {
        "command" => format!("{time} {}", text("text")),
        "ioctl" => format!("{time} ioctl {}", text("name")),
        "internal" => {
            let dataset = match entry["dataset"].as_str() {
                Some(dataset) => format!(" {dataset} ({})", entry["objset"]),
                None => String::new(),
            };
            format!("{time} [txg:{}] {}{dataset} {}", entry["txg"], text("name"), text("text"))
        }
        kind => panic!("{kind}"),
    }
}

fn compare(history: &Value, zdb: &str) {
    let ours: Vec<String> =
        history["entries"].as_array().unwrap().iter().map(|entry| as_zdb(entry).trim_end().to_owned()).collect();
    let theirs: Vec<&str> = zdb.lines().map(str::trim_end).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_history_is_what_zdb_prints() {
    let folder = images_dir().join("single");
    // `zdb -e -p . -h single`, without the indented lines of inputs.
    let zdb = std::fs::read_to_string(folder.join("zdb-history.txt")).unwrap();
    let history = history(&folder.join("disk0.zst"));
    compare(&history, &zdb);
    assert_eq!((&history["records_lost"], &history["overwritten_bytes"]), (&0.into(), &0.into()));
    let snapshot = history["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == "snapshot").unwrap();
    assert_eq!((&snapshot["host"], &snapshot["txg"]), (&"lab".into(), &23.into()));
}

#[test]
fn a_history_of_solaris_is_what_zdb_prints() {
    let Some(pool) = shared_dir().map(|dir| dir.join("public/history-sparc")).filter(|path| path.is_dir()) else {
        // Nothing can be done about a closed stderr.
        let _ = writeln!(std::io::stderr(), "SKIPPED: ../shared/pools/public is not there (set ZCHECK_SHARED)");
        return;
    };
    // XDR records of a big-endian machine.
    let zdb = "2006-10-27.09:13:47 zpool create history_pool /var/tmp/sparc.migratedpool.DAT
2006-10-27.09:13:48 zfs create history_pool/fs
2006-10-27.09:13:48 zfs set compression=on history_pool/fs
2006-10-27.09:13:48 zfs set checksum=on history_pool
2006-10-27.09:13:48 zfs snapshot history_pool/fs@snap
2006-10-27.09:13:48 zfs clone history_pool/fs@snap history_pool/clone
2006-10-27.09:13:49 zfs promote history_pool/clone
2006-10-27.09:13:49 zfs promote history_pool/fs
2006-10-27.09:13:49 zfs destroy -r -R history_pool/fs
2006-10-27.09:13:49 zpool export history_pool
2007-04-05.06:41:55 zpool upgrade history_pool
2007-04-05.06:42:14 zpool export history_pool";
    compare(&history(&pool), zdb);
}

#[test]
fn the_text_has_a_line_for_each_entry() {
    let device = images_dir().join("single/disk0.zst");
    let plain = stdout(&zcheck(&["info"], &[&device]));
    assert!(!plain.contains("history:"), "{plain}");
    let text = stdout(&zcheck(&["info", "--history"], &[&device]));
    let expected = "2026-11-30 14:27:27  lab  zpool create -f -o ashift=9 -O compression=lz4 single /dev/shm/v/disk0";
    assert!(text.starts_with(&plain) && text.lines().any(|line| line.trim() == expected), "{text}");
    let ioctl = "2026-11-30 14:27:33  lab  [ioctl snapshot] {\"props\":{},\"snaps\":{\"single@one\":true}}";
    assert!(text.lines().any(|line| line.trim() == ioctl), "{text}");
}
