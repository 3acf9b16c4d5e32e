//! From opened media to one pool: which devices belong together, which uberblock is the newest.

use super::labels::{ConfigState, DeviceLabels, Label};
use crate::codec::checksum::Salt;
use crate::media::{Medium, ReadAt, probe};
use crate::ondisk::features;
use crate::ondisk::nvlist::NvList;
use crate::ondisk::uberblock::Uberblock;
use crate::vdev::{BuildError, Layout, VdevTree};
use crate::{Guid, Txg};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// `state` of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolState(pub u64);

impl PoolState {
    /// In use, or never exported.
    pub const ACTIVE: Self = Self(0);
    /// Exported.
    pub const EXPORTED: Self = Self(1);
    /// Destroyed, yet complete.
    pub const DESTROYED: Self = Self(2);
    /// A hot spare.
    pub const SPARE: Self = Self(3);
    /// A cache device.
    pub const L2CACHE: Self = Self(4);
}

impl fmt::Display for PoolState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ACTIVE => f.write_str("active"),
            Self::EXPORTED => f.write_str("exported"),
            Self::DESTROYED => f.write_str("destroyed"),
            Self::SPARE => f.write_str("spare"),
            Self::L2CACHE => f.write_str("cache"),
            Self(other) => write!(f, "state {other}"),
        }
    }
}

/// A device that belongs to the pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The path it was opened by.
    pub path: String,
    /// Its bytes.
    pub medium: Arc<dyn ReadAt>,
    /// Its labels.
    pub labels: DeviceLabels,
    /// Its own guid.
    pub guid: Guid,
}

/// Something that was given but is no member of the pool.
#[derive(Clone, Debug)]
pub struct Ignored {
    /// The path it was opened by.
    pub path: String,
    /// Why it is no member, in a few words.
    pub because: String,
}

/// A second device with the guid of a member.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The path that is not used.
    pub path: String,
    /// The path that is.
    pub used: String,
    /// Newest txg on the one not used.
    pub txg: Txg,
    /// Newest txg on the one used.
    pub used_txg: Txg,
}

/// A device that holds no pool data: a spare or a cache.
#[derive(Clone, Debug)]
pub struct Auxiliary {
    /// The path it was opened by.
    pub path: String,
    /// Spare or cache.
    pub state: PoolState,
}

/// An uberblock and where it was found.
#[derive(Clone, Debug)]
pub struct ChosenUberblock {
    /// The uberblock.
    pub uberblock: Uberblock,
    /// Index in [`Assembly::members`].
    pub member: usize,
    /// Label 0 to 3.
    pub label: usize,
    /// Slot in the ring.
    pub slot: usize,
}

/// A pool among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolChoice {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: Guid,
    /// The paths of its members.
    pub paths: Vec<String>,
}

/// Which pool is meant, when the inputs hold several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By name.
    Name(String),
    /// By guid.
    Guid(Guid),
}

impl Selector {
    /// A number is taken for a guid, anything else for a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), |guid| Self::Guid(Guid(guid)))
    }

    fn matches(&self, choice: &PoolChoice) -> bool {
        match self {
            Self::Name(name) => *name == choice.name,
            // A pool may well be named by a number.
            Self::Guid(guid) => *guid == choice.guid || choice.name == guid.to_string(),
        }
    }
}

/// Why no pool could be put together.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum AssemblyError {
    /// Nothing given is a ZFS device.
    #[error("{}", no_pool(inputs))]
    NoPool { inputs: Vec<Ignored> },
    /// Only spares and caches were given.
    #[error("{path} is a {state} device: it holds no pool data, and its label does not name a pool")]
    OnlyAuxiliary { path: String, state: PoolState },
    /// The inputs hold several pools.
    #[error("several pools: {}; choose one with --pool NAME|GUID", list(pools))]
    SeveralPools { pools: Vec<PoolChoice> },
    /// The pool asked for is not among the inputs.
    #[error("no pool {wanted} here; found: {}", list(pools))]
    NoSuchPool { wanted: String, pools: Vec<PoolChoice> },
    /// Configurations are there, uberblocks are not.
    #[error(
        "pool {name}: the configuration is readable on {devices} device(s), but no uberblock ring holds a valid uberblock"
    )]
    NoUberblock { name: String, devices: usize },
    /// A version this library does not know.
    #[error("pool {name}: on-disk version {version} is not supported (1 to 28 and 5000 are)")]
    UnsupportedVersion { name: String, version: u64 },
    /// Features without which the pool cannot be read.
    #[error("pool {name}: it uses features this version cannot read: {}", features.join(", "))]
    UnsupportedFeatures { name: String, features: Vec<String> },
    /// Nothing can be read, since the devices are of kinds this library cannot read.
    #[error("pool {name}: its devices are arranged in a way this version cannot read: {}", kinds.join(", "))]
    UnsupportedVdevs { name: String, kinds: Vec<String> },
    /// The label's description of the devices is impossible.
    #[error("pool {name}: {source}")]
    Config { name: String, source: BuildError },
}

fn no_pool(inputs: &[Ignored]) -> String {
    match inputs {
        [] => "no pool: nothing was given to look at".into(),
        [one] => format!("{}: {}", one.path, one.because),
        [first, ..] => format!("no pool in {} inputs; the first, {}: {}", inputs.len(), first.path, first.because),
    }
}

fn list(pools: &[PoolChoice]) -> String {
    let names: Vec<String> = pools.iter().map(|pool| format!("{} (guid {})", pool.name, pool.guid)).collect();
    names.join(", ")
}

/// A pool as its labels describe it.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// Pool name.
    pub name: String,
    /// Pool guid.
    pub guid: Guid,
    /// State in the newest label.
    pub state: PoolState,
    /// Host that wrote the newest label.
    pub hostname: Option<String>,
    /// Its host id.
    pub hostid: Option<u64>,
    /// Members, in the order given.
    pub members: Vec<Member>,
    /// Second devices with a member's guid.
    pub duplicates: Vec<Duplicate>,
    /// Spares and caches among the inputs.
    pub auxiliaries: Vec<Auxiliary>,
    /// Inputs that are no members.
    pub ignored: Vec<Ignored>,
    /// The uberblock in use.
    pub chosen: ChosenUberblock,
    /// Vdevs as far as labels, or later the MOS, describe them.
    pub tree: VdevTree,
    /// The checksum salt, once it was loaded.
    pub salt: Option<Salt>,
}

/// A device with its labels read, before it is known to which pool it belongs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path it was opened by.
    pub path: String,
    /// Its bytes.
    pub medium: Arc<dyn ReadAt>,
    /// Its labels.
    pub labels: DeviceLabels,
}

impl Candidate {
    /// Reads the labels of an opened medium.
    #[must_use]
    pub fn read(medium: &Medium) -> Self {
        Self {
            path: medium.path.display().to_string(),
            medium: Arc::clone(&medium.bytes),
            labels: DeviceLabels::read(&*medium.bytes),
        }
    }

    /// The label that says what this device is. A pool's labels lie at both ends; where two pools left labels, the
    /// front ones are the younger in practice (a smaller pool made over an older, larger one).
    fn identity(&self) -> Option<&Label> {
        let front = self.labels.labels.iter().find(|label| label.index < 2 && label.valid_config().is_some());
        let pool = front.or(self.labels.best())?.pool_guid();
        self.labels
            .labels
            .iter()
            .rev()
            .filter(|label| label.valid_config().is_some() && label.pool_guid() == pool)
            .max_by_key(|label| label.config_txg())
    }

    /// Labels that name the same pool, and those that name none.
    fn labels_of(&self, pool: Guid) -> impl Iterator<Item = &Label> {
        self.labels.labels.iter().filter(move |label| label.pool_guid().is_none_or(|guid| guid == pool))
    }

    fn newest_txg(&self, pool: Guid) -> Txg {
        self.labels_of(pool)
            .flat_map(|label| label.uberblocks().map(|(_, uberblock)| uberblock.txg))
            .max()
            .unwrap_or_default()
    }

    /// True when there is nothing of ZFS on the device: no label, valid or damaged, and no uberblock.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.labels
            .labels
            .iter()
            .all(|label| label.slots.is_empty() && matches!(label.config, ConfigState::Absent | ConfigState::Outside))
    }

    /// Why the device is no member of any pool, in a few words.
    #[must_use]
    pub fn why_not(&self) -> String {
        if let Some(signature) = probe::recognise(&*self.medium) {
            let advice = signature.advice.map(|advice| format!("; {advice}")).unwrap_or_default();
            return format!("this is {}, not a ZFS device{advice}", signature.what);
        }
        let damaged = self.labels.labels.iter().any(|label| label.config_damaged());
        let rings: usize = self.labels.labels.iter().map(|label| label.uberblocks().count()).sum();
        match (self.labels.size_bytes, damaged, rings) {
            (0, ..) => "the file is empty".into(),
            (_, true, _) => "no valid ZFS label: there are remains of one, but no checksum holds".into(),
            (_, false, 1..) => format!("no valid ZFS label: {rings} uberblocks are left, but no configuration"),
            (..) => "no ZFS label found".into(),
        }
    }
}

impl Label {
    fn config_damaged(&self) -> bool {
        matches!(self.config, ConfigState::BadChecksum | ConfigState::Invalid(_))
    }
}

impl Assembly {
    /// Puts one pool together from opened media.
    ///
    /// # Errors
    /// [`AssemblyError`] when the inputs hold no pool, several pools without a choice, or one that cannot be read.
    pub fn new(media: &[Medium], wanted: Option<&Selector>) -> Result<Self, AssemblyError> {
        Self::from_candidates(media.iter().map(Candidate::read).collect(), wanted)
    }

    /// The same from labels that were already read.
    ///
    /// # Errors
    /// As [`Assembly::new`].
    pub fn from_candidates(candidates: Vec<Candidate>, wanted: Option<&Selector>) -> Result<Self, AssemblyError> {
        let sorted = Sorted::new(candidates);
        let guid = sorted.choose(wanted)?;
        let Sorted { mut pools, auxiliaries, mut ignored } = sorted;
        let mut chosen_members = Vec::new();
        for (other, members) in std::mem::take(&mut pools) {
            if other == guid {
                chosen_members = members;
            } else {
                ignored.extend(members.into_iter().map(|(candidate, _)| Ignored {
                    path: candidate.path,
                    because: format!("it belongs to another pool (guid {other})"),
                }));
            }
        }
        let (members, duplicates) = unique(chosen_members, guid);
        Self::from_members(guid, members, duplicates, auxiliaries, ignored)
    }

    fn from_members(
        guid: Guid,
        members: Vec<Member>,
        duplicates: Vec<Duplicate>,
        auxiliaries: Vec<Auxiliary>,
        ignored: Vec<Ignored>,
    ) -> Result<Self, AssemblyError> {
        let newest = members.iter().filter_map(|member| newest_config(member, guid, Txg(u64::MAX)));
        let newest = newest.max_by_key(|config| config.u64("txg"));
        let text = |key| newest.and_then(|config| config.str(key)).map(str::to_owned);
        let name = text("name").unwrap_or_else(|| guid.to_string());
        let hostname = text("hostname");
        let hostid = newest.and_then(|config| config.u64("hostid"));
        let state = PoolState(newest.and_then(|config| config.u64("state")).unwrap_or(0));
        let version = newest.and_then(|config| config.u64("version")).unwrap_or(0);
        check_version(&name, version)?;
        check_features(&name, newest)?;
        let Some(chosen) = choose_uberblock(&members, guid) else {
            return Err(AssemblyError::NoUberblock { name, devices: members.len() });
        };
        check_version(&name, chosen.uberblock.version)?;
        let mut tree = tree_from_labels(&members, guid, chosen.uberblock.txg)
            .map_err(|source| AssemblyError::Config { name: name.clone(), source })?;
        tree.set_reflow(&chosen.uberblock);
        Ok(Self {
            name,
            guid,
            state,
            hostname,
            hostid,
            members,
            duplicates,
            auxiliaries,
            ignored,
            chosen,
            tree,
            salt: None,
        })
    }

    /// Devices that name this pool in their labels, yet are none of its devices: detached, replaced or removed ones.
    pub fn strangers(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !self.tree.leaves.iter().any(|leaf| leaf.guid == member.guid))
    }

    /// What kinds of vdevs this library cannot read are in the pool.
    #[must_use]
    pub fn unsupported_vdevs(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self
            .tree
            .tops
            .iter()
            .flatten()
            .filter_map(|top| match &top.layout {
                Layout::Unsupported(kind) => Some(kind.clone()),
                _ => None,
            })
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// Replaces the tree by the pool's own list of devices (`vdev_tree` of the MOS configuration).
    ///
    /// # Errors
    /// [`BuildError`] when the configuration is impossible; the tree from the labels then stays.
    pub fn adopt_config(&mut self, config: &NvList) -> Result<(), BuildError> {
        let root = config.list("vdev_tree").ok_or(BuildError::MissingKey { key: "vdev_tree" })?;
        let children = root.lists("children").ok_or(BuildError::MissingKey { key: "children" })?;
        let ids = children.iter().map(|child| child.u64("id").unwrap_or(0).saturating_add(1)).max().unwrap_or(0);
        let mut tree = VdevTree::with_tops(ids.max(children.len() as u64))?;
        for child in children {
            tree.add_top(child)?;
        }
        attach_members(&mut tree, &self.members);
        tree.set_reflow(&self.chosen.uberblock);
        self.tree = tree;
        Ok(())
    }
}

/// Candidates by what they are.
struct Sorted {
    /// Members by pool guid, each with its own guid.
    pools: BTreeMap<Guid, Vec<(Candidate, Guid)>>,
    auxiliaries: Vec<Auxiliary>,
    ignored: Vec<Ignored>,
}

impl Sorted {
    fn new(candidates: Vec<Candidate>) -> Self {
        let mut sorted = Self { pools: BTreeMap::new(), auxiliaries: Vec::new(), ignored: Vec::new() };
        for candidate in candidates {
            sorted.place(candidate);
        }
        sorted
    }

    fn place(&mut self, candidate: Candidate) {
        let Some(config) = candidate.identity().and_then(Label::valid_config) else {
            let because = candidate.why_not();
            self.ignored.push(Ignored { path: candidate.path, because });
            return;
        };
        let state = PoolState(config.u64("state").unwrap_or(0));
        if matches!(state, PoolState::SPARE | PoolState::L2CACHE) {
            self.auxiliaries.push(Auxiliary { path: candidate.path, state });
            return;
        }
        match (config.u64("pool_guid"), config.u64("guid")) {
            (Some(pool), Some(guid)) => {
                self.pools.entry(Guid(pool)).or_default().push((candidate, Guid(guid)));
            }
            _ => {
                let because = "its ZFS label names no pool".into();
                self.ignored.push(Ignored { path: candidate.path, because });
            }
        }
    }

    fn choices(&self) -> Vec<PoolChoice> {
        self.pools
            .iter()
            .map(|(&guid, members)| {
                let config = members.iter().find_map(|(candidate, _)| candidate.identity()?.valid_config());
                let name = config.and_then(|config| config.str("name")).map(str::to_owned);
                let paths = members.iter().map(|(candidate, _)| candidate.path.clone()).collect();
                PoolChoice { name: name.unwrap_or_else(|| guid.to_string()), guid, paths }
            })
            .collect()
    }

    fn choose(&self, wanted: Option<&Selector>) -> Result<Guid, AssemblyError> {
        let pools = self.choices();
        if pools.is_empty() {
            return Err(match self.auxiliaries.first() {
                Some(first) => AssemblyError::OnlyAuxiliary { path: first.path.clone(), state: first.state },
                None => AssemblyError::NoPool { inputs: self.ignored.clone() },
            });
        }
        let matching: Vec<PoolChoice> =
            pools.iter().filter(|pool| wanted.is_none_or(|wanted| wanted.matches(pool))).cloned().collect();
        match (matching.as_slice(), wanted) {
            ([one], _) => Ok(one.guid),
            ([], Some(Selector::Name(name))) => Err(AssemblyError::NoSuchPool { wanted: name.clone(), pools }),
            ([], Some(Selector::Guid(guid))) => Err(AssemblyError::NoSuchPool { wanted: guid.to_string(), pools }),
            _ => Err(AssemblyError::SeveralPools { pools: matching }),
        }
    }
}

/// Keeps one device for each guid: the one with the newest uberblock.
fn unique(candidates: Vec<(Candidate, Guid)>, pool: Guid) -> (Vec<Member>, Vec<Duplicate>) {
    let mut members: Vec<Member> = Vec::new();
    let mut duplicates = Vec::new();
    for (candidate, guid) in candidates {
        let txg = candidate.newest_txg(pool);
        let member = Member { path: candidate.path, medium: candidate.medium, labels: candidate.labels, guid };
        let Some(used) = members.iter_mut().find(|member| member.guid == guid) else {
            members.push(member);
            continue;
        };
        let used_txg = newest_txg(used, pool);
        let (kept, kept_txg, left, left_txg) =
            if txg > used_txg { (member, txg, used.clone(), used_txg) } else { (used.clone(), used_txg, member, txg) };
        duplicates.push(Duplicate { path: left.path, used: kept.path.clone(), txg: left_txg, used_txg: kept_txg });
        *used = kept;
    }
    (members, duplicates)
}

fn newest_txg(member: &Member, pool: Guid) -> Txg {
    pool_labels(member, pool).flat_map(|label| label.uberblocks().map(|(_, u)| u.txg)).max().unwrap_or_default()
}

/// Labels of a member that name the pool, and those whose configuration is lost.
fn pool_labels(member: &Member, pool: Guid) -> impl Iterator<Item = &Label> {
    member.labels.labels.iter().filter(move |label| label.pool_guid().is_none_or(|guid| guid == pool))
}

/// The newest configuration of the pool on a member, not newer than `limit`.
fn newest_config(member: &Member, pool: Guid, limit: Txg) -> Option<&NvList> {
    let labels = member.labels.labels.iter().rev().filter(|label| label.pool_guid() == Some(pool));
    let newest = labels.filter(|label| label.config_txg() <= Some(limit)).max_by_key(|label| label.config_txg());
    newest.and_then(Label::valid_config)
}

fn check_version(name: &str, version: u64) -> Result<(), AssemblyError> {
    match version {
        1..=28 | 5000 => Ok(()),
        _ => Err(AssemblyError::UnsupportedVersion { name: name.to_owned(), version }),
    }
}

fn check_features(name: &str, config: Option<&NvList>) -> Result<(), AssemblyError> {
    let listed = config.and_then(|config| config.list("features_for_read"));
    let unknown: Vec<String> = listed
        .into_iter()
        .flat_map(NvList::iter)
        .map(|(guid, _)| guid.to_owned())
        .filter(|guid| features::lookup(guid).is_none())
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(AssemblyError::UnsupportedFeatures { name: name.to_owned(), features: unknown })
    }
}

/// The best uberblock of all labels of all members; on a tie the first place.
fn choose_uberblock(members: &[Member], pool: Guid) -> Option<ChosenUberblock> {
    let mut best: Option<ChosenUberblock> = None;
    for (index, member) in members.iter().enumerate() {
        for label in pool_labels(member, pool) {
            for (slot, uberblock) in label.uberblocks() {
                if best.as_ref().is_none_or(|best| uberblock.cmp_best(&best.uberblock).is_gt()) {
                    let uberblock = *uberblock;
                    best = Some(ChosenUberblock { uberblock, member: index, label: label.index, slot });
                }
            }
        }
    }
    best
}

/// The tree as the labels know it: each label describes only its own top-level vdev.
fn tree_from_labels(members: &[Member], pool: Guid, limit: Txg) -> Result<VdevTree, BuildError> {
    let configs = |limit| members.iter().filter_map(move |member| newest_config(member, pool, limit));
    let all: Vec<&NvList> = match configs(limit).count() {
        0 => configs(Txg(u64::MAX)).collect(),
        _ => configs(limit).collect(),
    };
    let mut newest: BTreeMap<u64, &NvList> = BTreeMap::new();
    for config in &all {
        let Some(id) = config.list("vdev_tree").and_then(|top| top.u64("id")) else { continue };
        let known = newest.entry(id).or_insert(config);
        if config.u64("txg") > known.u64("txg") {
            *known = config;
        }
    }
    // Old labels do not say how many top-level vdevs there are.
    let recorded = all.iter().filter_map(|config| config.u64("vdev_children")).max().unwrap_or(0);
    let seen = newest.keys().max().map_or(0, |&id| id.saturating_add(1));
    let mut tree = VdevTree::with_tops(recorded.max(seen))?;
    for top in newest.values().filter_map(|config| config.list("vdev_tree")) {
        tree.add_top(top)?;
    }
    attach_members(&mut tree, members);
    Ok(tree)
}

fn attach_members(tree: &mut VdevTree, members: &[Member]) {
    for member in members {
        tree.attach(member.guid, &member.path, &member.medium);
    }
}
