//! Pools that this version cannot read: `info` and `label` still show the labels, and the reason is named.

use crate::{assert_refused, status, stderr, stdout, zcheck};
use fixtures::{RealPool, edit_config, images_dir, shared_dir, unpack};
use std::io::Write;
use std::path::Path;

/// `scrub` refuses it, `info` shows the labels first, `label` does not mind.
fn assert_labels_are_shown(device: &Path, wanted: &str, pool: &str) {
    let refusal = assert_refused(&zcheck(&["scrub"], &[device]), "scrub");
    assert!(refusal.contains(wanted), "{refusal}");
    let label = zcheck(&["label"], &[device]);
    assert_eq!((status(&label), stderr(&label).as_str()), (0, ""));
    assert!(stdout(&label).contains(pool), "{}", stdout(&label));
    let info = zcheck(&["info"], &[device]);
    assert_eq!((status(&info), stdout(&info), stderr(&info)), (8, stdout(&label), refusal.clone()));
    // Another document would not be what the reader of JSON expects.
    assert_eq!(assert_refused(&zcheck(&["info", "--json"], &[device]), "json"), refusal);
}

#[test]
fn a_feature_in_the_labels_that_is_needed_and_not_known_is_named() {
    const KNOWN: &[u8] = b"com.delphix:hole_birth";
    const UNKNOWN: &[u8] = b"com.nexenta:hole_birth";
    let pool = RealPool::read(images_dir().join("single"));
    let (name, path) = pool.devices().remove(0);
    let mut bytes = unpack(&path, pool.expected.devices[&name]);
    for label in 0..4 {
        edit_config(&mut bytes, label, |config| {
            let at = config.windows(KNOWN.len()).position(|window| window == KNOWN).unwrap();
            config[at..at + KNOWN.len()].copy_from_slice(UNKNOWN);
        });
    }
    let dir = tempfile::tempdir().unwrap();
    let device = dir.path().join("disk0");
    std::fs::write(&device, bytes).unwrap();
    let wanted = "pool single: it uses features this version cannot read: com.nexenta:hole_birth (of Nexenta";
    assert_labels_are_shown(&device, wanted, "pool single (");
}

#[test]
fn a_version_that_is_not_known_is_named() {
    let Some(folder) = shared_dir().map(|dir| dir.join("public/v999")).filter(|path| path.is_dir()) else {
        // Nothing can be done about a closed stderr.
        let _ = writeln!(std::io::stderr(), "SKIPPED: ../shared/pools/public/v999 is not there (set ZCHECK_SHARED)");
        return;
    };
    let (_, device) = RealPool::read(folder).devices().remove(0);
    assert_labels_are_shown(&device, "on-disk version 999 is not supported", "pool v999-pool (");
}
