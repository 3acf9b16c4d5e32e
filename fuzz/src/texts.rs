//! Texts that a user hands over: ddrescue's map, the file of `--state`.

use crate::image::pool;
use crate::input::Input;
use crate::medium::made;
use fixtures::Endian;
use serde_json::Value;
use std::hint::black_box;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use zfs_format::media::{Medium, RescueMap};
use zfs_format::pool::Assembly;
use zfs_scrub::Options;
use zfs_scrub::options::Progress;
use zfs_scrub::resume::{Resuming, SavedRun};

/// A map as ddrescue writes it. What was read is asked about in places where ranges may meet or overflow.
pub fn rescue_map(data: &[u8]) {
    let Ok(map) = RescueMap::parse("map", &String::from_utf8_lossy(data)) else { return };
    for start in [0, 1, 4096, 1 << 20, u64::MAX - 1] {
        for length in [0, 1, 512, u64::MAX] {
            black_box(map.has_read(&(start..start.saturating_add(length))));
        }
    }
}

/// Any text as a saved state; then one that belongs to a made pool, with numbers changed as the input tells: pairs of which and
/// what. A run goes on from it, and must end.
pub fn saved_run(data: &[u8]) {
    if let Ok(run) = SavedRun::from_json(&String::from_utf8_lossy(data)) {
        black_box(run.to_json().is_ok());
        black_box(resume(Some(run)));
    }
    let mut value: Value = serde_json::from_str(saved()).expect("what was saved is JSON");
    let mut input = Input(data);
    while !input.is_empty() {
        let (which, what) = (usize::from(input.u8()), input.u8());
        let Some(fields) = value.as_object_mut() else { return };
        let mut numbers = Vec::new();
        for (_, field) in fields.iter_mut().filter(|(name, _)| *name != "identity") {
            gather(field, &mut numbers);
        }
        let count = numbers.len();
        let Some(place) = numbers.into_iter().nth(which % count.max(1)) else { return };
        change(place, what);
    }
    if let Ok(run) = SavedRun::from_json(&value.to_string()) {
        black_box(resume(Some(run)));
    }
}

/// All numbers and lists in a value, the value first. Values that were saved are a few levels deep.
fn gather<'v>(value: &'v mut Value, found: &mut Vec<&'v mut Value>) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        if value.is_number() || value.as_array().is_some_and(Vec::is_empty) {
            found.push(value);
            continue;
        }
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(fields) => rest.extend(fields.values_mut()),
            _ => {}
        }
    }
}

fn change(place: &mut Value, what: u8) {
    const NUMBERS: [u64; 8] = [0, 1, 2, 3, 64, 1 << 32, u64::MAX - 1, u64::MAX];
    let number = NUMBERS[usize::from(what % 8)];
    *place = match (what >> 3) % 4 {
        // A batch that was begun, with more lanes than there are, or fewer.
        0 if place.is_array() => serde_json::json!([[number, [number, 1, number]], [number, []]]),
        1 if place.is_array() => serde_json::json!([number, number]),
        _ => number.into(),
    };
}

/// What a run that was stopped at its first block saved.
fn saved() -> &'static str {
    static SAVED: OnceLock<String> = OnceLock::new();
    SAVED.get_or_init(|| {
        let saved = resume(None).expect("a run that is cancelled saves where it is");
        saved.to_json().expect("it was made to be saved")
    })
}

/// Scrubs the made pool from there on, or cancels one that begins. What it saved last.
fn resume(from: Option<SavedRun>) -> Option<SavedRun> {
    let pool = pool(Endian::Little);
    let media: Vec<Medium> = pool.devices.iter().map(|device| made(device, device.bytes)).collect();
    let mut assembly = Assembly::new(&media, None).expect("the pool was made");
    let options = Options { threads: 2, memory_bytes: 0, findings_max: 200, ..Options::default() };
    let last = Mutex::new(None);
    let save = |run: &SavedRun| {
        last.lock().expect("nobody panicked").replace(run.clone());
    };
    let progress = Progress::default();
    if from.is_none() {
        progress.cancel();
    }
    let resuming = Resuming { from, interval: Duration::from_secs(60), save: &save };
    let outcome = zfs_scrub::scrub_resumable(&mut assembly, &options, &progress, &resuming);
    black_box(format!("{outcome:?}"));
    last.into_inner().expect("nobody panicked")
}
