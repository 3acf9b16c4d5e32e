//! Labels, members and the state of the pool.
//!
//! Checks: each label's configuration against its checksum, the size of each device against what its label says,
//! labels of one device against each other, members given twice, members that are no members, members not given.

use crate::facts::leaf_name;
use crate::finding::{Finding, Kind, Place, Severity, Sink};
use zfs_format::pool::{Assembly, ConfigState, Label, Member, PoolState};

/// Findings about labels, members and the state of the pool.
pub(crate) fn check(assembly: &Assembly, sink: &Sink) {
    for member in &assembly.members {
        if assembly.strangers().any(|stranger| stranger.guid == member.guid) {
            continue;
        }
        let place = || Place { device: Some(leaf_name(&assembly.tree, member)), ..Place::default() };
        for label in &member.labels.labels {
            if let Some((kind, message)) = judge_label(member, label) {
                sink.push(Finding::new(kind, place(), message));
            }
        }
        if let Some(missing) = member.labels.missing_bytes() {
            let message = format!(
                "{} bytes are missing: the device has {}, its label says {}",
                missing,
                member.labels.size_bytes,
                member.labels.size_bytes.saturating_add(missing)
            );
            // What is lost by it shows in the blocks; by itself it is no proof of loss.
            let severity = Severity::Degraded;
            let finding =
                Finding { severity, recoverable: true, ..Finding::new(Kind::DeviceTooShort, place(), message) };
            sink.push(finding);
        }
        if let Some(message) = disagreement(assembly, member) {
            sink.push(Finding::new(Kind::LabelsDisagree, place(), message));
        }
    }
    for duplicate in &assembly.duplicates {
        let place = Place { device: Some(duplicate.path.clone()), ..Place::default() };
        let message = if duplicate.txg == duplicate.used_txg {
            format!("the same member as {}, which is used", duplicate.used)
        } else {
            format!(
                "an older copy (txg {}) of the member {} (txg {}), which is used",
                duplicate.txg, duplicate.used, duplicate.used_txg
            )
        };
        sink.push(Finding::new(Kind::MemberTwice, place, message));
    }
    for stranger in assembly.strangers() {
        let place = Place { device: Some(stranger.path.clone()), ..Place::default() };
        let message = format!("guid {} is not in the pool's configuration", stranger.guid);
        sink.push(Finding::new(Kind::NotAMember, place, message));
    }
    for (id, _) in assembly.tree.tops.iter().enumerate().filter(|(_, top)| top.is_none()) {
        let place = Place { device: Some(format!("missing-{id}")), ..Place::default() };
        let message = format!("top-level vdev {id}: none of its devices was given");
        sink.push(Finding::new(Kind::MemberMissing, place, message));
    }
    for leaf in assembly.tree.leaves.iter().filter(|leaf| leaf.medium.is_none()) {
        let path = assembly.tree.nodes.get(leaf.node).and_then(|node| node.path.clone());
        let last = path.map(|path| format!("; it was last seen as {path}")).unwrap_or_default();
        let place = Place { device: Some(leaf.name.clone()), ..Place::default() };
        sink.push(Finding::new(Kind::MemberMissing, place, format!("guid {} was not given{last}", leaf.guid)));
    }
    if assembly.state == PoolState::ACTIVE {
        let host = assembly.hostname.as_deref().unwrap_or("an unknown host");
        let message = format!("it was last in use by {host}");
        let place = Place { device: Some(assembly.name.clone()), ..Place::default() };
        sink.push(Finding::new(Kind::NotExported, place, message));
    }
}

fn judge_label(member: &Member, label: &Label) -> Option<(Kind, String)> {
    let number = label.index;
    let at = label.offset_bytes.unwrap_or(0);
    match &label.config {
        ConfigState::Valid(_) => None,
        ConfigState::BadChecksum => {
            Some((Kind::LabelDamaged, format!("label {number} at {at}: its checksum does not hold")))
        }
        ConfigState::Invalid(error) => Some((Kind::LabelDamaged, format!("label {number} at {at}: {error}"))),
        ConfigState::Unreadable(error) => Some((Kind::LabelDamaged, format!("label {number} at {at}: {error}"))),
        ConfigState::Absent => Some((Kind::LabelMissing, format!("label {number} at {at}: there is none"))),
        ConfigState::Outside => {
            let size = member.labels.size_bytes;
            Some((Kind::LabelMissing, format!("label {number}: the device of {size} bytes has no room for it")))
        }
    }
}

fn disagreement(assembly: &Assembly, member: &Member) -> Option<String> {
    let names = member.labels.labels.iter().filter_map(|label| {
        let config = label.valid_config()?;
        let differs = label.pool_guid() != Some(assembly.guid) || config.u64("guid") != Some(member.guid.0);
        let name = config.str("name").unwrap_or("an unnamed pool");
        differs.then(|| format!("label {} names {name}, member guid {}", label.index, config.u64("guid").unwrap_or(0)))
    });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join("; "))
}
