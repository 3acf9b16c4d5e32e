//! `zcheck label`: reads the labels of each device, says what became of them.

use crate::args::LabelArgs;
use crate::error::Failure;
use crate::report::label::{DeviceFacts, LabelConfig, LabelFacts, State, UberblockSlot, render_json, render_text};
use crate::{open, output, search};
use zfs_format::media::Host;
use zfs_format::ondisk::nvlist::NvList;
use zfs_format::pool::{Candidate, ConfigState, DeviceLabels, Label, PoolState, SlotState};

/// Shows labels and uberblocks.
pub(super) fn run(args: &LabelArgs, color: bool) -> Result<u8, Failure> {
    let candidates = search::add_members(open::candidates(&args.input, None)?, &args.input, None, None)?;
    if let Some(first) = candidates.first().filter(|_| candidates.iter().all(Candidate::is_blank)) {
        return Err(Failure::operational(format!("{}: {}", first.path, first.why_not())));
    }
    let devices: Vec<DeviceFacts> = candidates.iter().map(device).collect();
    let text = if args.json { render_json(&devices) } else { Ok(render_text(&devices, color)) };
    output::report(&text.map_err(|error| Failure::json(&error))?)?;
    Ok(0)
}

/// What the labels of all devices say.
pub(super) fn text(candidates: &[Candidate], color: bool) -> String {
    render_text(&candidates.iter().map(device).collect::<Vec<_>>(), color)
}

fn device(candidate: &Candidate) -> DeviceFacts {
    let DeviceLabels { size_bytes, labels, .. } = &candidate.labels;
    let own = own_vdev(&candidate.labels);
    let text = |key| own.as_ref().and_then(|vdev| vdev.str(key)).map(str::to_owned);
    let drive = candidate.file.and_then(|file| Host::default().drive(file));
    let mut differences = differences(&candidate.labels);
    let devid = text("devid");
    differences.extend(drive.as_ref().zip(devid.as_deref()).and_then(|(drive, devid)| drive.contradicts(devid)));
    DeviceFacts {
        device: candidate.path.clone(),
        size_bytes: *size_bytes,
        devid,
        phys_path: text("phys_path"),
        drive,
        labels: labels.iter().map(label_facts).collect(),
        uberblocks: labels.iter().flat_map(slots).collect(),
        differences,
    }
}

/// What the newest label says of the device itself: a node of its tree of vdevs, or the label of a spare.
fn own_vdev(labels: &DeviceLabels) -> Option<NvList> {
    let config = labels.best()?.valid_config()?;
    let guid = config.u64("guid")?;
    let Some(top) = config.list("vdev_tree") else { return Some(config.clone()) };
    let mut rest = vec![top];
    while let Some(vdev) = rest.pop() {
        if vdev.u64("guid") == Some(guid) && vdev.lists("children").is_none_or(<[NvList]>::is_empty) {
            return Some(vdev.clone());
        }
        rest.extend(vdev.lists("children").unwrap_or_default());
    }
    None
}

fn label_facts(label: &Label) -> LabelFacts {
    LabelFacts {
        label: label.index,
        offset_bytes: label.offset_bytes.unwrap_or(0),
        state: match &label.config {
            ConfigState::Valid(_) => State::Ok,
            ConfigState::BadChecksum => State::Checksum,
            ConfigState::Invalid(_) => State::Invalid,
            ConfigState::Absent | ConfigState::Outside => State::Missing,
            ConfigState::Unreadable(_) => State::ReadError,
        },
        config: label.valid_config().map(config),
    }
}

fn config(config: &NvList) -> LabelConfig {
    let number = |key| config.u64(key).unwrap_or(0);
    LabelConfig {
        pool: config.str("name").unwrap_or_default().to_owned(),
        pool_guid: number("pool_guid"),
        guid: number("guid"),
        txg: number("txg"),
        state: PoolState(number("state")).to_string(),
    }
}

fn slots(label: &Label) -> impl Iterator<Item = UberblockSlot> + '_ {
    label.slots.iter().map(|slot| {
        let (state, txg, timestamp) = match &slot.state {
            SlotState::Valid(uberblock) => (State::Ok, uberblock.txg.0, uberblock.timestamp_s),
            SlotState::BadChecksum => (State::Checksum, 0, 0),
            SlotState::Invalid(_) => (State::Invalid, 0, 0),
        };
        UberblockSlot { label: label.index, slot: slot.index, state, txg, timestamp }
    })
}

/// What the labels of one device say differently.
fn differences(found: &DeviceLabels) -> Vec<String> {
    let mut differences = Vec::new();
    let best = found.best();
    for label in &found.labels {
        let (Some(best), Some(own)) = (best, label.valid_config()) else { continue };
        let Some(config) = best.valid_config() else { continue };
        for key in ["pool_guid", "guid", "txg", "state"] {
            if own.u64(key) != config.u64(key) {
                let (own, other) = (own.u64(key).unwrap_or(0), config.u64(key).unwrap_or(0));
                differences.push(format!("label {} has {key} {own}, label {} has {other}", label.index, best.index));
            }
        }
    }
    if let Some(missing) = found.missing_bytes() {
        differences.push(format!("the device is {missing} bytes shorter than its label says"));
    }
    if found.at_old_end {
        differences.push("the device has grown: its last two labels lie where it used to end".into());
    }
    differences
}
