//! The report of `zcheck label`: the four labels and the uberblock ring of each device.

use super::json::{self, IdentityView, Text, ToolView};
use super::page::{Page, Paint, name, padded};
use super::units::{count, size, thousands, timestamp};
use serde::Serialize;
use std::collections::BTreeMap;
use zfs_format::media::Drive;

/// What `zcheck label` knows about one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceFacts {
    /// As opened.
    pub(crate) device: String,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// By which drive the newest label knows it.
    pub(crate) devid: Option<String>,
    /// Where the newest label says that it sits.
    pub(crate) phys_path: Option<String>,
    /// The drive that was opened, where the machine says which one it is.
    pub(crate) drive: Option<Drive>,
    /// The four labels, in order.
    pub(crate) labels: Vec<LabelFacts>,
    /// The slots of all labels that are not empty.
    pub(crate) uberblocks: Vec<UberblockSlot>,
    /// What the labels say differently, one sentence each.
    pub(crate) differences: Vec<String>,
}

/// Whether something on a label is as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// The checksum holds.
    Ok,
    /// The checksum does not hold.
    Checksum,
    /// The checksum holds, the content cannot be parsed.
    Invalid,
    /// Nothing is there.
    Missing,
    /// The device did not give the bytes.
    ReadError,
}

impl State {
    /// The word of both forms.
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Checksum => "checksum",
            Self::Invalid => "invalid",
            Self::Missing => "missing",
            Self::ReadError => "read_error",
        }
    }

    fn paint(self) -> Paint {
        if self == Self::Ok { Paint::Good } else { Paint::Bad }
    }
}

/// One label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelFacts {
    /// 0 to 3.
    pub(crate) label: usize,
    /// Where it begins on the device.
    pub(crate) offset_bytes: u64,
    /// What became of its configuration.
    pub(crate) state: State,
    /// What the configuration says, where it can be read.
    pub(crate) config: Option<LabelConfig>,
}

/// What a label's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelConfig {
    /// Pool name.
    pub(crate) pool: String,
    /// Pool guid.
    pub(crate) pool_guid: u64,
    /// Guid of this member.
    pub(crate) guid: u64,
    /// The txg that wrote it.
    pub(crate) txg: u64,
    /// `exported`, `active`, ...
    pub(crate) state: String,
}

/// One slot of an uberblock ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UberblockSlot {
    /// Label 0 to 3.
    pub(crate) label: usize,
    /// Slot in its ring.
    pub(crate) slot: usize,
    /// What became of it.
    pub(crate) state: State,
    /// Its txg; 0 if it cannot be read.
    pub(crate) txg: u64,
    /// When it was written, seconds since 1970.
    pub(crate) timestamp: u64,
}

/// The text form.
pub(crate) fn render_text(devices: &[DeviceFacts], color: bool) -> String {
    let mut page = Page::new(color);
    for device in devices {
        page.blank();
        let bytes = thousands(device.size_bytes);
        page.wrapped(0, 8, &format!("device: {}  ({}, {bytes} bytes)", name(&device.device), size(device.size_bytes)));
        drive(&mut page, device);
        page.blank();
        labels(&mut page, &device.labels);
        for difference in &device.differences {
            page.wrapped(8, 10, &format!("differs: {difference}"));
        }
        page.blank();
        uberblocks(&mut page, &device.uberblocks);
    }
    page.into_text()
}

/// Which drive it is, and which one the label means.
fn drive(page: &mut Page, device: &DeviceFacts) {
    if let Some(drive) = &device.drive {
        let mut parts = vec![drive.kernel_name.clone()];
        parts.extend(drive.parent.as_ref().map(|parent| format!("a partition of {parent}")));
        parts.push(drive.summary());
        parts.extend(drive.wwn.as_ref().map(|wwn| format!("WWN {wwn}")));
        if !drive.holders.is_empty() {
            parts.push(format!("used by {}", drive.holders.join(" and ")));
        }
        parts.retain(|part| !part.is_empty());
        page.wrapped(8, 10, &format!("drive: {}", name(&parts.join(", "))));
        if let Some(first) = drive.by_id.first() {
            page.wrapped(8, 10, &format!("by-id: {}", name(first)));
        }
    }
    let recorded: Vec<String> = device.devid.iter().chain(&device.phys_path).map(|text| name(text)).collect();
    if !recorded.is_empty() {
        page.wrapped(8, 10, &format!("label names: {}", recorded.join(" at ")));
    }
}

fn labels(page: &mut Page, labels: &[LabelFacts]) {
    let cells = |label: &str, offset: &str, state: (Paint, &str), rest: &str| {
        [
            (Paint::Plain, format!("{label:<5}  {offset:>21}  ")),
            (state.0, padded(state.1, 10)),
            (Paint::Plain, rest.to_owned()),
        ]
    };
    page.cells(8, &cells("LABEL", "AT", (Paint::Plain, "STATE"), "  CONFIGURATION"));
    for label in labels {
        let offset = thousands(label.offset_bytes);
        page.cells(8, &cells(&label.label.to_string(), &offset, (label.state.paint(), label.state.word()), ""));
        if let Some(config) = &label.config {
            let LabelConfig { pool, pool_guid, guid, txg, state } = config;
            let text = match pool_guid {
                // Spares and caches.
                0 => format!("no pool, device {guid}, {}", name(state)),
                _ => format!("pool {} ({pool_guid}), member {guid}, {}, txg {txg}", name(pool), name(state)),
            };
            page.wrapped(15, 17, &text);
        }
    }
}

/// One line for each txg, the newest first, then the slots that cannot be read.
fn uberblocks(page: &mut Page, slots: &[UberblockSlot]) {
    let mut good: BTreeMap<(u64, u64), Vec<String>> = BTreeMap::new();
    let mut bad: BTreeMap<State, Vec<String>> = BTreeMap::new();
    for slot in slots {
        let place = format!("{}/{}", slot.label, slot.slot);
        match slot.state {
            State::Ok => good.entry((slot.txg, slot.timestamp)).or_default().push(place),
            state => bad.entry(state).or_default().push(place),
        }
    }
    page.line(0, &format!("uberblocks: {} (label/slot)", count(good.len() as u64, "state")));
    page.blank();
    for ((txg, time), places) in good.iter().rev() {
        page.wrapped(8, 10, &format!("txg {txg} of {}: {}", timestamp(*time), places.join(" ")));
    }
    for (state, places) in &bad {
        page.labelled("        ", 10, (state.paint(), state.word()), &format!(": {}", places.join(" ")));
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tool: ToolView,
    devices: Vec<DeviceView<'a>>,
}

#[derive(Serialize)]
struct DeviceView<'a> {
    device: &'a str,
    size: u64,
    devid: Option<&'a str>,
    phys_path: Option<&'a str>,
    identity: Option<IdentityView<'a>>,
    labels: Vec<LabelView<'a>>,
    uberblocks: Vec<SlotView>,
    differences: &'a [String],
}

#[derive(Serialize)]
struct LabelView<'a> {
    label: usize,
    offset: u64,
    state: &'static str,
    config: Option<ConfigView<'a>>,
}

#[derive(Serialize)]
struct ConfigView<'a> {
    pool: &'a str,
    pool_guid: Text,
    guid: Text,
    txg: u64,
    state: &'a str,
}

#[derive(Serialize)]
struct SlotView {
    label: usize,
    slot: usize,
    state: &'static str,
    txg: u64,
    timestamp: u64,
}

impl<'a> From<&'a LabelFacts> for LabelView<'a> {
    fn from(facts: &'a LabelFacts) -> Self {
        let config = facts.config.as_ref().map(|config| ConfigView {
            pool: &config.pool,
            pool_guid: Text(config.pool_guid),
            guid: Text(config.guid),
            txg: config.txg,
            state: &config.state,
        });
        Self { label: facts.label, offset: facts.offset_bytes, state: facts.state.word(), config }
    }
}

impl From<&UberblockSlot> for SlotView {
    fn from(facts: &UberblockSlot) -> Self {
        let UberblockSlot { label, slot, state, txg, timestamp } = *facts;
        Self { label, slot, state: state.word(), txg, timestamp }
    }
}

/// The JSON form, `zcheck.label/1`.
pub(crate) fn render_json(devices: &[DeviceFacts]) -> Result<String, serde_json::Error> {
    let devices = devices.iter().map(|facts| DeviceView {
        device: &facts.device,
        size: facts.size_bytes,
        devid: facts.devid.as_deref(),
        phys_path: facts.phys_path.as_deref(),
        identity: facts.drive.as_ref().map(Into::into),
        labels: facts.labels.iter().map(Into::into).collect(),
        uberblocks: facts.uberblocks.iter().map(Into::into).collect(),
        differences: &facts.differences,
    });
    json::print(&Document { schema: "zcheck.label/1", tool: ToolView::default(), devices: devices.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceFacts {
        let config = LabelConfig {
            pool: "tank".to_owned(),
            pool_guid: u64::MAX,
            guid: u64::MAX - 1,
            txg: 4711,
            state: "exported".to_owned(),
        };
        let label = |label, offset_bytes, state| LabelFacts {
            label,
            offset_bytes,
            state,
            config: (state == State::Ok).then(|| config.clone()),
        };
        let slot = |label, slot, state, txg| UberblockSlot { label, slot, state, txg, timestamp: 1_796_048_855 };
        DeviceFacts {
            device: "disk.img".to_owned(),
            size_bytes: 64 << 20,
            devid: None,
            phys_path: None,
            drive: None,
            labels: vec![label(0, 0, State::Ok), label(1, 262_144, State::Checksum)],
            uberblocks: vec![
                slot(0, 6, State::Ok, 4710),
                slot(0, 7, State::Ok, 4711),
                slot(1, 6, State::Checksum, 0),
                slot(1, 7, State::Ok, 4711),
            ],
            differences: vec!["label 1 cannot be read".to_owned()],
        }
    }

    #[test]
    fn the_text_shows_labels_and_ranks_uberblocks() {
        let expected = "device: disk.img  (64 MiB, 67,108,864 bytes)

        LABEL                     AT  STATE       CONFIGURATION
        0                          0  ok
               pool tank (18446744073709551615), member 18446744073709551614, exported, txg 4711
        1                    262,144  checksum
        differs: label 1 cannot be read

uberblocks: 2 states (label/slot)

        txg 4711 of 2026-11-30 14:27:35 UTC: 0/7 1/7
        txg 4710 of 2026-11-30 14:27:35 UTC: 0/6
        checksum: 1/6
";
        let text = render_text(&[device()], false);
        assert!(text == expected, "{text}");
    }

    #[test]
    fn the_json_form_has_guids_as_strings() {
        let value: serde_json::Value = serde_json::from_str(&render_json(&[device()]).unwrap()).unwrap();
        assert_eq!(value["schema"], "zcheck.label/1");
        assert_eq!(value["devices"][0]["labels"][0]["config"]["guid"], (u64::MAX - 1).to_string());
        assert_eq!(value["devices"][0]["labels"][1]["state"], "checksum");
        assert_eq!(value["devices"][0]["uberblocks"][1]["txg"], 4711);
    }
}
