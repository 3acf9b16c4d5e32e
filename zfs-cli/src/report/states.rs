//! The states of a pool that can be gone back to: for `zcheck txgs`, and for a scrub whose newest state is lost.

use super::json::{self, Text, ToolView};
use super::page::{Page, name, padded, printable};
use super::units::{count, thousands, timestamp};
use serde::Serialize;
use zfs_scrub::survey::{Depth, Reach, StateFacts};

/// Lines shown without `-v`.
const LINES_MAX: usize = 24;

/// What `zcheck txgs` knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct States {
    /// Name of the pool.
    pub(crate) pool: String,
    /// Its guid.
    pub(crate) guid: u64,
    /// The newest first.
    pub(crate) states: Vec<StateFacts>,
    /// Show each state on a line of its own.
    pub(crate) verbose: bool,
}

/// The text form of `zcheck txgs`.
pub(crate) fn render_text(found: &States, color: bool) -> String {
    let mut page = Page::new(color);
    page.field("pool", &format!("{}  (guid {})", name(&found.pool), found.guid));
    page.blank();
    table(&mut page, &found.states, found.verbose);
    page.blank();
    match found
        .states
        .iter()
        .position(|state| state.reach.is_whole())
        .and_then(|index| Some((index, found.states.get(index)?)))
    {
        Some((0, _)) => page.wrapped(0, 6, "next: `zcheck scrub ...` checks the newest state"),
        Some((_, whole)) => {
            page.wrapped(
                0,
                6,
                &format!("next: `zcheck scrub --txg {} ...` checks the newest state that is whole", whole.txg),
            );
        }
        None => page.wrapped(0, 6, "next: `zcheck scrub --txg N ...` checks one of them"),
    }
    page.into_text()
}

/// The states, neighbours of which the same is to be said on one line.
pub(super) fn table(page: &mut Page, states: &[StateFacts], verbose: bool) {
    let newest = states.first().map_or(0, |state| state.timestamp);
    let rows = rows(states, verbose);
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or_default().max(3);
    let written = "YYYY-MM-DD hh:mm:ss UTC".len();
    page.line(8, &format!("{}  {}  SLOTS  WHAT CAN BE READ", padded("TXG", width), padded("WRITTEN", written)));
    let shown = if verbose { rows.len() } else { LINES_MAX };
    let hang = 8 + width + 2 + written + 2 + 5 + 2;
    for (txgs, first, slots, text) in rows.iter().take(shown) {
        let older = match newest.saturating_sub(first.timestamp) {
            0 => String::new(),
            seconds => format!(", {} older", age(seconds)),
        };
        let date = if first.timestamp == 0 { "never".to_owned() } else { timestamp(first.timestamp) };
        let line = format!("{}  {}  {slots:>5}  {text}{older}", padded(txgs, width), padded(&date, written));
        page.wrapped(8, hang, &line);
    }
    let hidden = rows.len().saturating_sub(shown);
    if hidden > 0 {
        page.line(8, &format!("... and {} (-v shows all)", count(hidden as u64, "more line")));
    }
}

/// Txgs, the newest state of the line, slots, what can be read.
fn rows(states: &[StateFacts], verbose: bool) -> Vec<(String, &StateFacts, usize, String)> {
    let mut rows: Vec<(String, &StateFacts, usize, String)> = Vec::new();
    for state in states {
        let text = reach(state);
        match rows.last_mut().filter(|last| !verbose && last.3 == text && !state.has_twin && !last.1.has_twin) {
            Some(last) => {
                last.0 = format!("{}-{}", state.txg, last.1.txg);
                last.2 += state.slots;
            }
            None => rows.push((state.txg.to_string(), state, state.slots, text)),
        }
    }
    rows
}

/// What of a state can be read, in words.
fn reach(state: &StateFacts) -> String {
    let text = match &state.reach {
        Reach::Unknown => "not looked at".to_owned(),
        Reach::Lost { why } => format!("not readable: {}", printable(why)),
        Reach::Roots { readable, total, problems } if readable == total && problems.is_empty() => {
            format!("MOS and {} can be opened; not looked into further", count(*total, "dataset"))
        }
        Reach::Roots { readable, total, problems } => {
            let lost = total.saturating_sub(*readable);
            let mut text = format!("MOS can be opened; {} of {total} datasets cannot", thousands(lost));
            if let Some(first) = problems.first() {
                text.push_str(&format!("; {}", printable(first)));
            }
            text
        }
        Reach::Scrubbed { depth, lost_metadata, lost_data, degraded, is_cut } => {
            scrubbed(*depth, *lost_metadata, *lost_data, *degraded, *is_cut)
        }
    };
    if state.has_twin { format!("{text}; one of several states of this txg") } else { text }
}

fn scrubbed(depth: Depth, lost_metadata: u64, lost_data: u64, degraded: u64, is_cut: bool) -> String {
    let what = if depth == Depth::Data { "everything" } else { "all metadata" };
    let mut text = match (lost_metadata, lost_data) {
        (0, 0) if is_cut => format!("{what} was to be verified, cancelled before the end; nothing lost so far"),
        (0, 0) => format!("whole: {what} verified, nothing lost"),
        (0, data) => format!("metadata whole, {} of data lost", count(data, "block")),
        (metadata, 0) => format!("{} lost", metadata_blocks(metadata)),
        (metadata, data) => format!("{} and {} of data lost", metadata_blocks(metadata), count(data, "block")),
    };
    if degraded > 0 {
        text.push_str(&format!(", {} with a bad copy", thousands(degraded)));
    }
    text
}

fn metadata_blocks(number: u64) -> String {
    format!("{} of metadata", count(number, "block"))
}

/// `3 s`, `5 min`, `2 h`, `4 days`.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The JSON form of `zcheck txgs`, `zcheck.txgs/1`.
pub(crate) fn render_json(found: &States) -> Result<String, serde_json::Error> {
    json::print(&Document {
        schema: "zcheck.txgs/1",
        tool: ToolView::default(),
        pool: &found.pool,
        guid: Text(found.guid),
        states: found.states.iter().map(StateView::from).collect(),
    })
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool: ToolView,
    pool: &'a str,
    guid: Text,
    states: Vec<StateView<'a>>,
}

/// One state in JSON, also in the report of a scrub.
#[derive(Serialize)]
pub(super) struct StateView<'a> {
    txg: u64,
    timestamp: u64,
    slots: usize,
    devices: usize,
    twin: bool,
    looked_at: &'static str,
    whole: Option<bool>,
    why: Option<&'a str>,
    datasets: Option<u64>,
    datasets_readable: Option<u64>,
    problems: &'a [String],
    lost_metadata_blocks: Option<u64>,
    lost_data_blocks: Option<u64>,
    degraded_blocks: Option<u64>,
}

impl<'a> From<&'a StateFacts> for StateView<'a> {
    fn from(state: &'a StateFacts) -> Self {
        let view = Self {
            txg: state.txg,
            timestamp: state.timestamp,
            slots: state.slots,
            devices: state.devices,
            twin: state.has_twin,
            looked_at: "root",
            whole: None,
            why: None,
            datasets: None,
            datasets_readable: None,
            problems: &[],
            lost_metadata_blocks: None,
            lost_data_blocks: None,
            degraded_blocks: None,
        };
        match &state.reach {
            Reach::Unknown => Self { looked_at: "nothing", ..view },
            Reach::Lost { why } => Self { whole: Some(false), why: Some(why), ..view },
            Reach::Roots { readable, total, problems } => Self {
                looked_at: "roots",
                datasets: Some(*total),
                datasets_readable: Some(*readable),
                whole: (readable != total || !problems.is_empty()).then_some(false),
                problems,
                ..view
            },
            Reach::Scrubbed { depth, lost_metadata, lost_data, degraded, is_cut } => Self {
                looked_at: if *depth == Depth::Data { "data" } else { "metadata" },
                whole: (!is_cut || *lost_metadata + *lost_data > 0).then_some(state.reach.is_whole()),
                lost_metadata_blocks: Some(*lost_metadata),
                lost_data_blocks: Some(*lost_data),
                degraded_blocks: Some(*degraded),
                ..view
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(txg: u64, reach: Reach) -> StateFacts {
        StateFacts { txg, timestamp: 1_700_000_000 + txg, slots: 4, devices: 1, has_twin: false, reach }
    }

    #[test]
    fn neighbours_of_which_the_same_is_to_be_said_share_a_line() {
        let opened = || Reach::Roots { readable: 3, total: 3, problems: Vec::new() };
        let scrubbed =
            Reach::Scrubbed { depth: Depth::Metadata, lost_metadata: 0, lost_data: 0, degraded: 1, is_cut: false };
        let lost = Reach::Lost { why: "the root of the pool: no good copy".to_owned() };
        let states =
            vec![state(9, lost), state(8, scrubbed), state(7, opened()), state(6, opened()), state(5, opened())];
        let found = States { pool: "tank".to_owned(), guid: 7, states, verbose: false };
        let text = render_text(&found, false);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(lines.iter().any(|line| line.starts_with("9 ") && line.contains("not readable: the root of the pool")));
        let whole = "whole: all metadata verified, nothing lost, 1 with a bad copy, 1 s older";
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(whole), "{text}");
        assert!(lines.iter().any(|line| line.starts_with("5-7 ")), "{text}");
        assert!(text.contains("zcheck scrub --txg 8 ..."), "{text}");
        let json: serde_json::Value = serde_json::from_str(&render_json(&found).unwrap()).unwrap();
        assert_eq!(json["states"][0]["whole"], false);
        assert_eq!(json["states"][1]["whole"], true);
        assert_eq!(json["states"][2]["whole"], serde_json::Value::Null);
    }
}
