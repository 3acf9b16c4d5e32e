//! The JSON report against its schema.

use super::super::samples;
use super::*;
use serde_json::{Value, json};

const SCHEMA_TEXT: &str = include_str!("../../../../docs/report.schema.json");

fn document(outcome: &Outcome) -> Value {
    serde_json::from_str(&Json.render(outcome).unwrap()).unwrap()
}

/// The schema as published, and one that allows no key it does not name.
fn schemas() -> [Value; 2] {
    let open: Value = serde_json::from_str(SCHEMA_TEXT).unwrap();
    let mut strict = open.clone();
    close(&mut strict);
    [open, strict]
}

fn close(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.contains_key("properties") && map.get("type") == Some(&json!("object")) {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

#[test]
fn all_samples_fit_the_schema_and_the_schema_names_all_keys() {
    for schema in schemas() {
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (name, outcome) in samples::all() {
            let document = document(&outcome);
            let errors: Vec<_> =
                validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
        }
    }
}

#[test]
fn a_missing_key_does_not_fit_the_schema() {
    let validator = jsonschema::validator_for(&schemas()[0]).unwrap();
    let mut document = document(&samples::damaged());
    assert!(validator.is_valid(&document));
    document["findings"][0]["copies"][0].as_object_mut().unwrap().remove("observed");
    assert!(!validator.is_valid(&document));
}

#[test]
fn identities_are_strings_where_a_reader_would_round_them() {
    let mut outcome = samples::damaged();
    let place = &mut outcome.findings[0].place;
    (place.objset, place.object, place.block) = (Some(54), Some(1 << 53), Some(zfs_scrub::finding::BLOCK_SPILL));
    let document = document(&outcome);
    let place = &document["findings"][0]["place"];
    assert_eq!(place["objset"], json!(54));
    assert_eq!(place["object"], json!(1_u64 << 53));
    assert_eq!(place["block"], json!("18446744073709551614"));
    assert_eq!(document["pool"]["guid"], json!("13004285341876207161"));
}

#[test]
fn only_two_keys_are_timings() {
    let fast = samples::damaged();
    let mut slow = fast.clone();
    slow.summary.duration = std::time::Duration::from_secs(5);
    slow.summary.bytes_per_second = 1;
    let (mut fast, mut slow) = (document(&fast), document(&slow));
    assert_ne!(fast, slow);
    for key in ["duration_s", "bytes_per_second"] {
        fast["summary"][key] = json!(null);
        slow["summary"][key] = json!(null);
    }
    assert_eq!(fast, slow);
}

#[test]
fn control_characters_are_escaped_by_json_itself() {
    let text = Json.render(&samples::hostile()).unwrap();
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()));
    assert!(text.ends_with("}\n"));
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["pool"]["name"], json!(samples::hostile().pool.name));
}
