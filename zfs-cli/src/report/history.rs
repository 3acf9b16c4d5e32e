//! The history of a pool: who did what to it, and when.

use super::page::{Page, name};
use super::units::{count, thousands, timestamp};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use zfs_format::ondisk::history::{HistoryEvent, HistoryHeader, HistoryRecord};
use zfs_format::ondisk::nvlist::{NvList, NvValue};
use zfs_format::pool::HistoryPiece;

/// Bytes of records that are kept. The oldest are left out of a history that is larger.
const KEPT_BYTES_MAX: u64 = 128 << 20;

/// The history, the oldest entry first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    entries: VecDeque<Entry>,
    kept_bytes: u64,
    /// Entries that were read and are too many to be shown.
    left_out: u64,
    /// Entries that the pool itself has overwritten with newer ones, and their bytes.
    records_lost: u64,
    overwritten_bytes: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Record(Box<HistoryRecord>, u64),
    Gap { bytes: u64, because: String },
}

impl Entry {
    fn bytes(&self) -> u64 {
        match self {
            Self::Record(_, bytes) => *bytes,
            Self::Gap { because, .. } => because.len() as u64,
        }
    }
}

impl History {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, piece: HistoryPiece) {
        let entry = match piece {
            HistoryPiece::Record(record, bytes) => Entry::Record(record, bytes),
            HistoryPiece::Gap { bytes, because } => Entry::Gap { bytes, because },
            _ => return,
        };
        self.kept_bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some(oldest) = self.entries.pop_front()
        {
            self.kept_bytes -= oldest.bytes();
            self.left_out += 1;
        }
    }

    /// All pieces are there.
    pub(crate) fn closed(self, header: &HistoryHeader) -> Self {
        Self { records_lost: header.records_lost, overwritten_bytes: header.overwritten_bytes(), ..self }
    }
}

/// One line for each entry; no line is broken, so that it can be searched.
pub(super) fn write(page: &mut Page, history: &History) {
    let records = history.entries.iter().filter(|entry| matches!(entry, Entry::Record(..))).count() as u64;
    page.blank();
    page.line(0, &format!("history: {} of what was done to the pool, times in UTC", count_entries(records)));
    if history.overwritten_bytes > 0 {
        let (lost, bytes) = (count_entries(history.records_lost), count(history.overwritten_bytes, "byte"));
        let text = format!(
            "The pool keeps only so much: {lost} ({bytes}), older than all but its creation, were overwritten."
        );
        page.wrapped(0, 0, &text);
    }
    if history.left_out > 0 {
        page.wrapped(0, 0, &format!("{} are not shown: the history is too long.", count_entries(history.left_out)));
    }
    page.blank();
    for entry in &history.entries {
        match entry {
            Entry::Record(record, _) => page.line(8, &line(record)),
            Entry::Gap { bytes, because } => {
                page.line(8, &format!("({} cannot be read: {because})", count(*bytes, "byte")));
            }
        }
    }
}

fn count_entries(entries: u64) -> String {
    let noun = if entries == 1 { "entry" } else { "entries" };
    format!("{} {noun}", thousands(entries))
}

/// `2026-11-30 14:27:27  lab  zpool create tank /dev/sda`
fn line(record: &HistoryRecord) -> String {
    let time = record.time_s.map_or_else(|| "(no time)".to_owned(), timestamp);
    let mut line = time.trim_end_matches(" UTC").to_owned();
    if let Some(txg) = record.txg {
        line.push_str(&format!("  txg {txg}"));
    }
    if let Some(host) = &record.host {
        line.push_str(&format!("  {}", name(host)));
    }
    let is_usual = |zone: &&String| matches!(zone.as_str(), "linux" | "global");
    if let Some(zone) = record.zone.as_ref().filter(|zone| !is_usual(zone)) {
        line.push_str(&format!("  zone {}", name(zone)));
    }
    if let Some(user) = record.user.filter(|&user| user != 0) {
        line.push_str(&format!("  user {user}"));
    }
    line.push_str("  ");
    line.push_str(&what(record));
    line
}

fn what(record: &HistoryRecord) -> String {
    let dataset = match (&record.dataset, record.dataset_object) {
        (Some(dataset), Some(object)) => format!(" {} ({object})", name(dataset)),
        (Some(dataset), None) => format!(" {}", name(dataset)),
        _ => String::new(),
    };
    match &record.event {
        HistoryEvent::Command(command) => command.clone(),
        HistoryEvent::Internal { name, text } => format!("[{name}]{dataset} {text}").trim_end().to_owned(),
        HistoryEvent::Ioctl { name, input, output, errno } => {
            let mut text = format!("[ioctl {name}]{dataset}");
            for (label, list) in [("", input), (" -> ", output)] {
                if let Some(list) = list {
                    text.push_str(&format!(" {label}{}", short(list)));
                }
            }
            if let Some(errno) = errno.filter(|&errno| errno != 0) {
                text.push_str(&format!(" failed with error {errno}"));
            }
            text
        }
        HistoryEvent::Unknown(list) => format!("[unknown]{dataset} {}", short(list)),
        _ => "[unknown]".to_owned(),
    }
}

/// A list on one line: `{"snaps":{"tank@a":true}}`.
fn short(list: &NvList) -> String {
    list_value(list).to_string()
}

fn list_value(list: &NvList) -> Value {
    // The parser bounds how deep lists nest.
    Value::Object(list.iter().map(|(key, value)| (key.to_owned(), nv_value(value))).collect::<Map<_, _>>())
}

fn nv_value(value: &NvValue) -> Value {
    fn array<T: Copy + Into<Value>>(values: &[T]) -> Value {
        values.iter().map(|&value| value.into()).collect()
    }
    match value {
        NvValue::Boolean => true.into(),
        NvValue::BooleanValue(value) => (*value).into(),
        NvValue::Byte(value) | NvValue::Uint8(value) => (*value).into(),
        NvValue::Int8(value) => (*value).into(),
        NvValue::Int16(value) => (*value).into(),
        NvValue::Uint16(value) => (*value).into(),
        NvValue::Int32(value) => (*value).into(),
        NvValue::Uint32(value) => (*value).into(),
        NvValue::Int64(value) | NvValue::Hrtime(value) => (*value).into(),
        NvValue::Uint64(value) => (*value).into(),
        NvValue::Double(value) => (*value).into(),
        NvValue::String(value) => value.as_str().into(),
        NvValue::List(list) => list_value(list),
        NvValue::ListArray(lists) => lists.iter().map(list_value).collect(),
        NvValue::StringArray(values) => values.iter().map(String::as_str).collect(),
        NvValue::BooleanArray(values) => array(values),
        NvValue::Int8Array(values) => array(values),
        NvValue::Int16Array(values) => array(values),
        NvValue::Uint16Array(values) => array(values),
        NvValue::Int32Array(values) => array(values),
        NvValue::Uint32Array(values) => array(values),
        NvValue::Int64Array(values) => array(values),
        NvValue::Uint64Array(values) => array(values),
        NvValue::ByteArray(bytes) | NvValue::Uint8Array(bytes) | NvValue::Unknown { bytes, .. } => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
        _ => Value::Null,
    }
}

/// The history in the JSON form.
#[derive(Serialize)]
pub(super) struct HistoryView<'a> {
    /// Entries that the pool has overwritten, and their bytes.
    records_lost: u64,
    overwritten_bytes: u64,
    /// Entries that are too many to be shown.
    left_out: u64,
    entries: Vec<EntryView<'a>>,
}

/// One entry; what it does not have is not there.
#[derive(Default, Serialize)]
struct EntryView<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txg: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ns: Option<i64>,
    /// The command, or the name of the event or ioctl.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i64>,
    /// Bytes that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl<'a> From<&'a History> for HistoryView<'a> {
    fn from(history: &'a History) -> Self {
        Self {
            records_lost: history.records_lost,
            overwritten_bytes: history.overwritten_bytes,
            left_out: history.left_out,
            entries: history.entries.iter().map(Into::into).collect(),
        }
    }
}

impl<'a> From<&'a Entry> for EntryView<'a> {
    fn from(entry: &'a Entry) -> Self {
        let record = match entry {
            Entry::Record(record, _) => record,
            Entry::Gap { bytes, because } => {
                return Self { kind: "unreadable", bytes: Some(*bytes), text: Some(because), ..Self::default() };
            }
        };
        let common = Self {
            time: record.time_s,
            txg: record.txg,
            host: record.host.as_deref(),
            user: record.user,
            zone: record.zone.as_deref(),
            dataset: record.dataset.as_deref(),
            objset: record.dataset_object,
            elapsed_ns: record.elapsed_ns,
            ..Self::default()
        };
        match &record.event {
            HistoryEvent::Command(command) => Self { kind: "command", text: Some(command), ..common },
            HistoryEvent::Internal { name, text } => {
                Self { kind: "internal", name: Some(name), text: Some(text), ..common }
            }
            HistoryEvent::Ioctl { name, input, output, errno } => Self {
                kind: "ioctl",
                name: Some(name),
                input: input.as_ref().map(list_value),
                output: output.as_ref().map(list_value),
                errno: *errno,
                ..common
            },
            HistoryEvent::Unknown(list) => Self { kind: "unknown", input: Some(list_value(list)), ..common },
            _ => Self { kind: "unknown", ..common },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: HistoryEvent) -> HistoryRecord {
        HistoryRecord {
            time_s: Some(1_700_000_000),
            txg: None,
            host: Some("lab".into()),
            user: Some(0),
            zone: Some("linux".into()),
            dataset: None,
            dataset_object: None,
            elapsed_ns: None,
            event,
        }
    }

    #[test]
    fn a_line_tells_when_where_who_and_what() {
        let command = record(HistoryEvent::Command("zpool add tank log sda sdb".into()));
        assert_eq!(line(&command), "2023-11-14 22:13:20  lab  zpool add tank log sda sdb");
        let internal = HistoryRecord {
            txg: Some(7),
            user: Some(1000),
            zone: Some("web".into()),
            dataset: Some("tank/\x1b".into()),
            dataset_object: Some(54),
            ..record(HistoryEvent::Internal { name: "set".into(), text: "compression=15".into() })
        };
        let expected = "2023-11-14 22:13:20  txg 7  lab  zone web  user 1000  [set] tank/\\x1b (54) compression=15";
        assert_eq!(line(&internal), expected);
    }

    #[test]
    fn what_is_lost_is_told() {
        let mut history = History::default();
        history.push(HistoryPiece::Record(record(HistoryEvent::Command("zpool create tank sda".into())).into(), 100));
        let header = HistoryHeader { create_bytes: 100, end_bytes: 900, first: 1000, last: 1200, records_lost: 12 };
        let mut page = Page::new(false);
        write(&mut page, &history.closed(&header));
        let text = page.into_text();
        assert!(text.contains("12 entries (900 bytes), older than all but its creation, were\noverwritten."), "{text}");
    }

    #[test]
    fn a_history_without_end_keeps_the_newest() {
        let mut history = History::default();
        for index in 0..6 {
            let event = HistoryEvent::Command(index.to_string());
            history.push(HistoryPiece::Record(record(event).into(), KEPT_BYTES_MAX / 4));
        }
        assert_eq!((history.left_out, history.entries.len()), (2, 4));
        assert!(matches!(&history.entries[0], Entry::Record(first, _) if what(first) == "2"));
    }
}
