//! Older states of a pool: which there are, and going back to one.

use crate::{assert_refused, status, stderr, stdout, zcheck};
use fixtures::{RealPool, images_dir, unpack};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const RING: usize = 128 << 10;
const SLOT: usize = 1 << 10;
const MAGIC: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();
/// Where the data of a device begins, behind two labels and the boot area.
const DATA: u64 = 4 << 20;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The places of the three copies of the root block of each txg, by the first label's ring. The layout is that of
/// `uberblock_t`: magic, version, txg, guid sum, timestamp, then the block pointer.
fn roots(image: &[u8]) -> BTreeMap<u64, Vec<u64>> {
    let slots = image[RING..RING + RING].chunks(SLOT).filter(|slot| slot[..8] == MAGIC);
    let places = |slot: &[u8]| (0..3).map(|copy| (u64_at(slot, 48 + 16 * copy) << 1 >> 1) * 512 + DATA).collect();
    slots.map(|slot| (u64_at(slot, 16), places(slot))).filter(|(txg, _)| *txg > 0).collect()
}

/// The image of a sound pool with the roots of some txgs zeroed, and its txgs, the newest first.
fn image(dir: &Path, lost: usize) -> (PathBuf, Vec<u64>) {
    let pool = RealPool::read(images_dir().join("single"));
    let (name, packed) = pool.devices().remove(0);
    let mut bytes = unpack(&packed, pool.expected.devices[&name]);
    let roots = roots(&bytes);
    for place in roots.values().rev().take(lost).flatten() {
        bytes[usize::try_from(*place).unwrap()..][..512].fill(0);
    }
    let path = dir.join("single.img");
    std::fs::write(&path, bytes).unwrap();
    (path, roots.into_keys().rev().collect())
}

fn json(args: &[&str], image: &Path) -> Value {
    serde_json::from_slice(&zcheck(args, &[image]).stdout).unwrap()
}

#[test]
fn all_states_are_listed_and_the_newest_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (image, txgs) = image(dir.path(), 0);
    let report = json(&["txgs", "--json"], &image);
    let states = report["states"].as_array().unwrap();
    let listed: Vec<u64> = states.iter().map(|state| state["txg"].as_u64().unwrap()).collect();
    assert_eq!(listed, txgs);
    assert_eq!((&states[0]["whole"], &states[0]["looked_at"]), (&Value::Bool(true), &"metadata".into()));
    assert!(states.iter().all(|state| state["slots"] == 4 && state["devices"] == 1 && state["twin"] == false));
    let output = zcheck(&["txgs", "--depth", "data"], &[&image]);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""));
    assert!(stdout(&output).contains("whole: everything verified, nothing lost"), "{}", stdout(&output));
}

#[test]
fn a_lost_root_is_named_and_older_states_are_ranked_but_not_checked_silently() {
    let dir = tempfile::tempdir().unwrap();
    let (image, txgs) = image(dir.path(), 2);
    let output = zcheck(&["scrub"], &[&image]);
    let text = stdout(&output);
    assert_eq!(status(&output), 12, "{text}");
    assert!(text.contains(&format!("nothing was checked at txg {}", txgs[0])), "{text}");
    let report = json(&["scrub", "--json"], &image);
    let schema: Value = serde_json::from_str(include_str!("../../docs/report.schema.json")).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&report));
    let states = report["states"].as_array().unwrap();
    for lost in &states[..2] {
        assert_eq!((&lost["whole"], &lost["looked_at"]), (&Value::Bool(false), &"root".into()));
        assert!(lost["why"].as_str().unwrap().starts_with("the root of the pool"), "{lost}");
    }
    // What is called whole is what a scrub of it finds, and the hint names it.
    let whole = states.iter().find(|state| state["whole"] == true).expect("no older state is whole");
    let txg = whole["txg"].to_string();
    assert!(text.contains(&format!("`zcheck scrub --txg {txg} ...`")), "{text}");
    let older = json(&["scrub", "--json", "--txg", &txg], &image);
    assert_eq!(older["pool"]["txg"], whole["txg"]);
    let codes: Vec<&str> =
        older["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"ZC0202"), "{codes:?}");
    let metadata = json(&["scrub", "--json", "--metadata-only", "--txg", &txg], &image);
    assert_eq!(metadata["summary"]["lost_blocks"], 0);
}

#[test]
fn a_txg_that_is_gone_is_refused_with_those_that_are_left() {
    let dir = tempfile::tempdir().unwrap();
    let (image, txgs) = image(dir.path(), 0);
    for command in ["scrub", "info"] {
        let line = assert_refused(&zcheck(&[command, "--txg", "4711"], &[&image]), command);
        assert!(line.contains(&format!("there are {}, {}", txgs[0], txgs[1])), "{line}");
    }
}
