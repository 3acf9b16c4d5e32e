//! Views of what the lower floors know: the pool and its vdev tree.

use crate::outcome::{FeatureFacts, PoolFacts, RedundancyFacts, UberblockFacts, VdevFacts};
use std::collections::BTreeMap;
use std::path::Path;
use zfs_format::Endian;
use zfs_format::media::{FileId, Host};
use zfs_format::ondisk::features;
use zfs_format::pool::{Assembly, Auxiliary, Member, PoolState};
use zfs_format::vdev::{Layout, Leaf, LeafId, VdevTree};

/// What was counted on one device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafCounted {
    pub(crate) read_errors: u64,
    pub(crate) checksum_errors: u64,
    pub(crate) bytes_read: u64,
    pub(crate) stale_copies: u64,
    pub(crate) unlocks: u64,
}

/// What was counted on devices and top-level vdevs (read errors, checksum errors).
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) leaves: Vec<LeafCounted>,
    pub(crate) tops: Vec<(u64, u64)>,
    pub(crate) redundancy: Vec<RedundancyFacts>,
    /// Blocks that top-level vdevs of which nothing is known may bring back.
    pub(crate) unlocks: Vec<u64>,
}

/// What pool an assembly is. `features` are those of the MOS: guid, read-only compatible, reference count.
#[must_use]
pub fn pool(assembly: &Assembly, features: &[(String, bool, u64)]) -> PoolFacts {
    let uberblock = &assembly.chosen.uberblock;
    let member = assembly.members.get(assembly.chosen.member);
    let device = member.map(|member| leaf_name(&assembly.tree, member)).unwrap_or_default();
    let [a, b, c, d] = uberblock.rootbp.checksum();
    PoolFacts {
        name: assembly.name.clone(),
        guid: assembly.guid.0,
        version: uberblock.version,
        state: assembly.state.to_string(),
        txg: uberblock.txg.0,
        timestamp: uberblock.timestamp_s,
        hostname: assembly.hostname.clone(),
        hostid: assembly.hostid,
        endian: match uberblock.endian {
            Endian::Little => "little",
            Endian::Big => "big",
        },
        fingerprint: format!("{}-{}-{a:016x}{b:016x}{c:016x}{d:016x}", assembly.guid, uberblock.txg),
        uberblock: UberblockFacts { device, label: assembly.chosen.label, slot: assembly.chosen.slot },
        features: features
            .iter()
            .map(|(guid, read_only_compatible, refcount)| FeatureFacts {
                guid: guid.clone(),
                read_only_compatible: *read_only_compatible,
                supported: features::lookup(guid).is_some(),
                refcount: *refcount,
            })
            .collect(),
    }
}

/// The name of a member in the config table.
pub(crate) fn leaf_name(tree: &VdevTree, member: &Member) -> String {
    let leaf = tree.leaves.iter().find(|leaf| leaf.guid == member.guid);
    leaf.map_or_else(|| member.path.clone(), |leaf| leaf.name.clone())
}

/// The vdev tree without counts, for commands that read no blocks.
#[must_use]
pub fn vdevs_uncounted(assembly: &Assembly) -> Vec<VdevFacts> {
    vdevs(assembly, &Counted::default())
}

/// The vdev tree with states and counts. A top-level vdev of which nothing is known is `missing-N`.
pub(crate) fn vdevs(assembly: &Assembly, counted: &Counted) -> Vec<VdevFacts> {
    let tree = &assembly.tree;
    let mut shown = Vec::new();
    for (id, top) in tree.tops.iter().enumerate() {
        let Some(top) = top else {
            shown.push(VdevFacts {
                vdev_type: "missing".into(),
                id: id as u64,
                name: format!("missing-{id}"),
                state: "UNAVAIL".into(),
                unlocks_blocks: counted.unlocks.get(id).copied().unwrap_or(0),
                ..VdevFacts::default()
            });
            continue;
        };
        let (read_errors, checksum_errors) = counted.tops.get(id).copied().unwrap_or_default();
        let mut facts = node_facts(tree, top.node, counted);
        facts.class = Some(top.class.word().into());
        facts.ashift = Some(top.ashift.into());
        let redundancy = counted.redundancy.get(id).copied().filter(|redundancy| redundancy.blocks > 0);
        facts.redundancy =
            redundancy.map(|redundancy| RedundancyFacts { failures_survived: top.failures_survived(), ..redundancy });
        if facts.children.is_empty() && matches!(top.layout, Layout::Copies(_)) {
            // A disk alone shows its own counts.
        } else {
            facts.read_errors = read_errors;
            facts.checksum_errors = checksum_errors;
        }
        shown.push(facts);
    }
    shown
}

/// Hot spares (`AVAIL`, or `INUSE` where they stand in for a device), given or listed by the pool.
#[must_use]
pub fn spares(assembly: &Assembly) -> Vec<VdevFacts> {
    auxiliaries(assembly, PoolState::SPARE, "spare", "AVAIL")
}

/// Cache devices, given or listed by the pool.
#[must_use]
pub fn caches(assembly: &Assembly) -> Vec<VdevFacts> {
    auxiliaries(assembly, PoolState::L2CACHE, "l2cache", "ONLINE")
}

fn auxiliaries(assembly: &Assembly, role: PoolState, class: &str, present: &str) -> Vec<VdevFacts> {
    // What the pool does not list is a spare or a cache of another one.
    let own = assembly.auxiliaries.iter().filter(|device| device.state == role && device.is_listed != Some(false));
    let facts = |(id, device): (usize, &Auxiliary)| VdevFacts {
        vdev_type: device.vdev_type.clone().unwrap_or_else(|| "disk".into()),
        id: id as u64,
        name: device.name(),
        guid: device.guid.0,
        class: Some(class.into()),
        state: match (device.is_in_use, &device.opened_as) {
            (true, _) => "INUSE",
            (false, Some(_)) => present,
            (false, None) => "UNAVAIL",
        }
        .into(),
        path: device.path.clone(),
        device: device.opened_as.clone(),
        ..VdevFacts::default()
    };
    own.enumerate().map(facts).collect()
}

/// Members that lie on another drive than the pool's configuration says: name, and what contradicts.
#[must_use]
pub fn elsewhere(assembly: &Assembly, host: &Host) -> Vec<(String, String)> {
    let tree = &assembly.tree;
    let judge = |leaf: &Leaf| {
        let devid = tree.nodes.get(leaf.node)?.devid.as_deref()?;
        let member = assembly.members.iter().find(|member| member.guid == leaf.guid)?;
        Some((leaf.name.clone(), host.drive(member.file?)?.contradicts(devid)?))
    };
    tree.leaves.iter().filter(|leaf| leaf.medium.is_some()).filter_map(judge).collect()
}

/// Says of each device which drive it is, as far as the machine knows.
pub fn identify(vdevs: &mut [VdevFacts], assembly: &Assembly, host: &Host) {
    let mut rest: Vec<&mut VdevFacts> = vdevs.iter_mut().collect();
    while let Some(vdev) = rest.pop() {
        if let Some(device) = &vdev.device {
            let member = assembly.members.iter().find(|member| member.guid.0 == vdev.guid);
            let file = member.map_or_else(|| FileId::of(Path::new(device)), |member| member.file);
            vdev.drive = file.and_then(|file| host.drive(file));
        }
        rest.extend(vdev.children.iter_mut());
    }
}

/// One node with its children. Nesting was bounded when the tree was built from a bounded nvlist.
fn node_facts(tree: &VdevTree, index: usize, counted: &Counted) -> VdevFacts {
    // Children come after their parents, so building from the end needs no recursion.
    let mut built: BTreeMap<usize, VdevFacts> = BTreeMap::new();
    let mut order = vec![index];
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        order.extend(tree.nodes.get(at).map(|node| node.children.as_slice()).unwrap_or_default());
        next += 1;
    }
    for &at in order.iter().rev() {
        let Some(node) = tree.nodes.get(at) else { continue };
        let children: Vec<VdevFacts> = node.children.iter().filter_map(|child| built.remove(child)).collect();
        let numbers = node.leaf.and_then(|LeafId(leaf)| counted.leaves.get(leaf)).copied().unwrap_or_default();
        let leaf = node.leaf.and_then(|leaf| tree.leaf(leaf));
        let is_given = leaf.is_some_and(|leaf| leaf.medium.is_some());
        let gone = leaf.and_then(|leaf| leaf.medium.as_ref()).and_then(|device| device.gone());
        let state = match (leaf.is_some(), is_given) {
            (true, false) => "UNAVAIL",
            (true, true) if gone.is_some_and(|gone| gone.from == 0) => "UNAVAIL",
            (true, true) if gone.is_some() => "FAULTED",
            (true, true) if node.is_offline => "OFFLINE",
            (true, true) if node.is_faulted => "FAULTED",
            (true, true) if numbers.read_errors > 0 || numbers.checksum_errors > 0 => "DEGRADED",
            (false, _) if children.iter().all(|child| child.state == "UNAVAIL") && !children.is_empty() => "UNAVAIL",
            (false, _) if children.iter().any(|child| child.state != "ONLINE") => "DEGRADED",
            _ => "ONLINE",
        };
        built.insert(
            at,
            VdevFacts {
                vdev_type: node.vdev_type.clone(),
                id: node.id,
                name: node.name(),
                guid: node.guid.0,
                class: None,
                state: state.into(),
                parity: node.parity,
                ashift: None,
                path: node.path.clone(),
                devid: node.devid.clone(),
                phys_path: node.phys_path.clone(),
                enclosure_path: node.enclosure_path.clone(),
                drive: None,
                device: leaf.and_then(|leaf| leaf.opened_as.clone()),
                read_errors: numbers.read_errors,
                checksum_errors: numbers.checksum_errors,
                stale_copies: numbers.stale_copies,
                bytes_read: children.iter().map(|child| child.bytes_read).fold(numbers.bytes_read, u64::saturating_add),
                unlocks_blocks: numbers.unlocks,
                redundancy: None,
                children,
            },
        );
    }
    built.remove(&index).unwrap_or_default()
}

/// True when a device of the pool was not given, or disappeared.
#[must_use]
pub fn has_missing_members(tree: &VdevTree) -> bool {
    let is_missing = |leaf: &Leaf| leaf.medium.as_ref().is_none_or(|device| device.gone().is_some());
    tree.tops.iter().any(Option::is_none) || tree.leaves.iter().any(is_missing)
}
