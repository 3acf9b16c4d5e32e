//! Labels, members and the state of the pool.
//!
//! Checks: each label's configuration against its checksum, the size of each device against what its label says,
//! labels of one device against each other, members given twice, members that are no members, members not given,
//! members behind their siblings, expansions that are not finished.

use crate::facts::leaf_name;
use crate::finding::{Finding, Kind, Place, Severity, Sink};
use zfs_format::Txg;
use zfs_format::media::{MediaError, probe};
use zfs_format::pool::{Assembly, ConfigState, Duplicate, Label, Member, PoolState, Relation};
use zfs_format::vdev::{Geometry, Layout, Leaf, Striped};

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
        let kind = if duplicate.is_rival() { Kind::MemberRivals } else { Kind::MemberTwice };
        sink.push(Finding::new(kind, place, twice(duplicate)));
    }
    for stranger in assembly.strangers() {
        let place = Place { device: Some(stranger.path.clone()), ..Place::default() };
        sink.push(Finding::new(Kind::NotAMember, place, why_stranger(assembly, stranger)));
    }
    check_behind(assembly, sink);
    check_expansion(assembly, sink);
    for device in assembly.auxiliaries.iter().filter(|device| device.is_listed == Some(false)) {
        let place = Place { device: device.opened_as.clone(), ..Place::default() };
        let of = device.pool.filter(|&pool| pool != assembly.guid);
        let of = of
            .map_or_else(|| ", and this pool does not list it".into(), |pool| format!(" of the pool with guid {pool}"));
        sink.push(Finding::new(Kind::NotAMember, place, format!("{}{of}; it holds no pool data", device.what())));
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
        let multihost = assembly.chosen.uberblock.mmp.filter(|mmp| mmp.delay_ns > 0).map(|mmp| {
            let every = mmp.interval_ms.map(|ms| format!(", a heartbeat every {ms} ms")).unwrap_or_default();
            format!("; multihost protection is on{every}")
        });
        let message = format!("it was last in use by {host}{}", multihost.unwrap_or_default());
        let place = Place { device: Some(assembly.name.clone()), ..Place::default() };
        sink.push(Finding::new(Kind::NotExported, place, message));
    }
}

/// What a second device with the guid of a member is.
fn twice(duplicate: &Duplicate) -> String {
    let Duplicate { used, txg, used_txg, .. } = duplicate;
    match duplicate.relation {
        Relation::SameFile => format!("the same file as {used}; it counts once"),
        Relation::SameState => {
            format!("a copy of {used}, which is used, in the same txg {txg}; the copy's data was not read")
        }
        Relation::Older => format!("an older copy (txg {txg}) of {used} (txg {used_txg}), which is used"),
        Relation::PerhapsOlder => {
            format!("the same member as {used} (txg {used_txg}), which is used; this one is older (txg {txg})")
        }
        Relation::Diverged(_) if duplicate.is_rival() => format!(
            "claims to be the same member as {used}, in the same txg {txg} with other content: {used} is used, this one was not checked"
        ),
        Relation::Diverged(since) => format!(
            "the same member as {used} (txg {used_txg}), which is used; this one (txg {txg}) went another way: their states of txg {since} differ"
        ),
    }
}

/// Why a device that names the pool is none of its devices.
fn why_stranger(assembly: &Assembly, stranger: &Member) -> String {
    let labels = || stranger.labels.labels.iter();
    let config_txg = labels().filter_map(Label::config_txg).max().unwrap_or_default();
    let newest = labels().flat_map(Label::uberblocks).map(|(_, uberblock)| uberblock.txg).max();
    let why = match (config_txg, newest) {
        (Txg(0), _) => "it was detached or removed, or never fully added (its label has txg 0)".to_owned(),
        (_, Some(txg)) if txg < assembly.chosen.uberblock.txg => {
            format!("it was in use until txg {txg}; the pool is in txg {}", assembly.chosen.uberblock.txg)
        }
        _ => "nothing on it says why".to_owned(),
    };
    format!("guid {} is not in the pool's configuration: {why}", stranger.guid)
}

/// Devices whose newest uberblock is older than their siblings', without a record that they were away. All devices of
/// a top-level vdev get the same uberblocks, while top-level vdevs take turns.
fn check_behind(assembly: &Assembly, sink: &Sink) {
    let tree = &assembly.tree;
    let newest = |member: &Member| {
        member.labels.labels.iter().flat_map(Label::uberblocks).map(|(_, uberblock)| uberblock.txg).max()
    };
    let mut found: Vec<(usize, &Member, &Leaf, Txg)> = Vec::new();
    for member in &assembly.members {
        let Some(leaf) = tree.leaves.iter().find(|leaf| leaf.guid == member.guid) else { continue };
        let mut top = leaf.node;
        while let Some(parent) = tree.nodes.get(top).and_then(|node| node.parent) {
            top = parent;
        }
        found.extend(newest(member).map(|txg| (top, member, leaf, txg)));
    }
    for &(top, _, leaf, txg) in &found {
        let ahead = found.iter().filter(|other| other.0 == top).map(|other| other.3).max().unwrap_or(txg);
        let is_away =
            tree.nodes.get(leaf.node).is_some_and(|node| node.is_offline || node.is_faulted || node.is_removed);
        if txg < ahead && !is_away && leaf.missing_txgs.is_empty() {
            let place = Place { device: Some(leaf.name.clone()), ..Place::default() };
            let message = format!("its newest uberblock is of txg {txg}, its siblings' of txg {ahead}");
            sink.push(Finding::new(Kind::MemberBehind, place, message));
        }
    }
}

/// Says which raidz vdevs are being expanded, and how far that has come.
fn check_expansion(assembly: &Assembly, sink: &Sink) {
    for top in assembly.tree.tops.iter().flatten() {
        let Layout::Striped(Striped { geometry: Geometry::Raidz { expansion, .. }, .. }) = &top.layout else {
            continue;
        };
        let (Some(moved), Some(node)) = (expansion.reflow_offset_bytes, assembly.tree.nodes.get(top.node)) else {
            continue;
        };
        let place = Place { device: Some(node.name()), ..Place::default() };
        let message = format!("an expansion is in progress: {moved} bytes were moved, of {} at most", top.asize_bytes);
        sink.push(Finding::new(Kind::ExpansionRunning, place, message));
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
        // What was not checked is told elsewhere.
        ConfigState::Unreadable(MediaError::Unread { .. }) => None,
        ConfigState::Unreadable(error) => Some((Kind::LabelDamaged, format!("label {number} at {at}: {error}"))),
        ConfigState::Absent => {
            let instead = probe::recognise(&*member.medium).filter(|_| number == 0);
            let instead = instead.map(|found| format!("; the device starts like {}", found.what)).unwrap_or_default();
            Some((Kind::LabelMissing, format!("label {number} at {at}: there is none{instead}")))
        }
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
