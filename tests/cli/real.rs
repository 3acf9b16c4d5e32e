//! The program on pools made by OpenZFS.

use crate::{assert_refused, status, stderr, stdout, zcheck};
use fixtures::{RealPool, images_dir, unpack};
use serde_json::Value;
use std::path::Path;

const SCHEMA_TEXT: &str = include_str!("../../docs/report.schema.json");

/// The JSON report of a folder of `fixtures/images`, checked against the schema.
fn report(folder: &str, wanted_status: i32) -> Value {
    let output = zcheck(&["scrub", "--json"], &[&images_dir().join(folder)]);
    assert_eq!((status(&output), stderr(&output).as_str()), (wanted_status, ""), "{folder}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema: Value = serde_json::from_str(SCHEMA_TEXT).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> =
        validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{folder}: {errors:#?}");
    document
}

/// Copies the unpacked devices of a kept pool into a directory.
pub(crate) fn unpacked(folder: &str, dir: &Path) -> Vec<std::path::PathBuf> {
    let pool = RealPool::read(images_dir().join(folder));
    let write = |(name, image): &(String, std::path::PathBuf)| {
        let path = dir.join(format!("{folder}-{name}"));
        std::fs::write(&path, unpack(image, pool.expected.devices[name])).unwrap();
        path
    };
    pool.devices().iter().map(write).collect()
}

#[test]
fn a_whole_pool_is_clean_with_status_0() {
    let output = zcheck(&["scrub"], &[&images_dir().join("single")]);
    let text = stdout(&output);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""), "{text}");
    assert!(text.contains("single") && text.contains("clean"), "{text}");
}

#[test]
fn a_damaged_pool_names_its_files_with_status_4() {
    let output = zcheck(&["scrub"], &[&images_dir().join("single-vmotion-stripes")]);
    let text = stdout(&output);
    assert_eq!((status(&output), stderr(&output).as_str()), (4, ""), "{text}");
    for file in ["single:/text.log", "single:/sparse.img"] {
        assert!(text.contains(file), "{text}");
    }
}

#[test]
fn quiet_and_verbose_say_less_and_more_with_the_same_status() {
    let pool = images_dir().join("single-vmotion-stripes");
    let length = |flags: &[&str]| {
        let output = zcheck(&[&["scrub"], flags].concat(), &[&pool]);
        assert_eq!(status(&output), 4);
        stdout(&output).lines().count()
    };
    let (quiet, normal, verbose) = (length(&["-q"]), length(&[]), length(&["-v"]));
    assert!(quiet < normal && normal < verbose, "{quiet} {normal} {verbose} lines");
}

#[test]
fn the_json_of_a_whole_pool_holds_the_numbers_of_zdb() {
    let document = report("single", 0);
    let expected = RealPool::read(images_dir().join("single")).expected.zdb.unwrap();
    let totals = &document["totals"];
    assert_eq!(totals["blocks"], expected.blocks);
    assert_eq!(totals["allocated_bytes"], expected.allocated_bytes);
    assert_eq!(document["pool"]["name"], "single");
    assert_eq!(document["summary"]["verdict"], "clean");
    assert_eq!((document["findings"].as_array().unwrap().len(), &document["summary"]["exit_status"]), (0, &0.into()));
}

#[test]
fn the_json_of_a_damaged_pool_says_what_is_lost_and_where() {
    let document = report("single-vmotion-stripes", 4);
    let summary = &document["summary"];
    assert_eq!((&summary["verdict"], &summary["lost_blocks"]), (&"damaged".into(), &2.into()));
    assert_eq!(summary["damaged_files"], 2);
    // What zdb names as lost: blocks 7 of object 8 and 50 of object 9, both of the object set 148.
    let findings = document["findings"].as_array().unwrap();
    let lost: Vec<_> = findings.iter().filter(|finding| finding["severity"] == "damaged").collect();
    let places: Vec<_> = lost.iter().map(|finding| &finding["place"]).collect();
    let numbers: Vec<_> = places.iter().map(|place| [&place["objset"], &place["object"], &place["block"]]).collect();
    assert_eq!(numbers, [[148, 8, 7], [148, 9, 50]]);
    let paths: Vec<_> = places.iter().map(|place| &place["path"]).collect();
    assert_eq!(paths, ["/text.log", "/sparse.img"]);
    // Records of 128 KiB: where in the file the bytes are missing.
    let offsets: Vec<_> = places.iter().map(|place| &place["file_offset"]).collect();
    assert_eq!(offsets, [7 * (128 << 10), 50 * (128 << 10)]);
    let files = document["files"].as_array().unwrap();
    let damaged: Vec<_> = files.iter().filter(|file| file["state"] == "damaged").map(|file| &file["path"]).collect();
    assert_eq!(damaged, ["single:/sparse.img", "single:/text.log"]);
}

#[test]
fn two_pools_in_one_directory_need_a_choice() {
    let dir = tempfile::tempdir().unwrap();
    unpacked("single", dir.path());
    unpacked("single-ashift12", dir.path());
    let line = assert_refused(&zcheck(&["scrub"], &[dir.path()]), "two pools");
    let name = RealPool::read(images_dir().join("single-ashift12")).expected.pool;
    assert!(line.contains("single (guid ") && line.contains(&format!("{name} (guid ")) && line.contains("--pool"));
    let output = zcheck(&["scrub", "--json", "--pool", &name], &[dir.path()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["pool"]["name"], name);
    let guid = document["pool"]["guid"].as_str().unwrap().to_owned();
    let output = zcheck(&["scrub", "--json", "--pool", &guid], &[dir.path()]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((status(&output), &document["pool"]["name"]), (0, &name.into()));
    assert_refused(&zcheck(&["scrub", "--pool", "nothing"], &[dir.path()]), "a pool that is not there");
}

#[test]
fn a_missing_side_of_a_mirror_gives_9() {
    let dir = tempfile::tempdir().unwrap();
    let sides = unpacked("mirror2", dir.path());
    let output = zcheck(&["scrub"], &[&sides[0]]);
    assert_eq!(status(&output), 9, "{}", stdout(&output));
    assert!(stdout(&output).contains("UNAVAIL"), "{}", stdout(&output));
}

#[test]
fn files_at_risk_are_listed_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let sides = unpacked("mirror2", dir.path());
    let text = stdout(&zcheck(&["scrub"], &[&sides[0]]));
    assert!(text.contains("redundancy:") && !text.contains("at risk:"), "{text}");
    let text = stdout(&zcheck(&["scrub", "--at-risk", "-v"], &[&sides[0]]));
    assert!(text.contains("at risk: ") && text.contains("mir2:/text.log  "), "{text}");
    let paths: Vec<&Path> = sides.iter().map(std::path::PathBuf::as_path).collect();
    let text = stdout(&zcheck(&["scrub", "--at-risk"], &paths));
    assert!(text.contains("at risk: nothing is closer to loss than its vdevs promise"), "{text}");
}
