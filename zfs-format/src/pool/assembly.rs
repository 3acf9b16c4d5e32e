//! From opened media to one pool: which devices belong together, which uberblock is the newest.

use super::auxiliary::Auxiliary;
use super::candidate::{Candidate, because_other, identity_config, settle_claims};
use super::duplicate::{Duplicate, pool_labels, unique};
use super::labels::{DeviceLabels, Label};
use super::places::{Look, members};
use crate::block::KeyRing;
use crate::codec::checksum::Salt;
use crate::media::{Device, FileId, Medium};
use crate::ondisk::features;
use crate::ondisk::label::uberblock_slots;
use crate::ondisk::nvlist::NvList;
use crate::ondisk::uberblock::Uberblock;
use crate::vdev::{AllocationClass, BuildError, Layout, TopVdev, VdevTree};
use crate::{Guid, Txg};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
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
    pub medium: Arc<Device>,
    /// Its labels.
    pub labels: DeviceLabels,
    /// Its own guid.
    pub guid: Guid,
    /// Which file or block device it is, where that is known.
    pub file: Option<FileId>,
}

/// Something that was given but is no member of the pool.
#[derive(Clone, Debug)]
pub struct Ignored {
    /// The path it was opened by, and which part of that it is.
    pub path: String,
    /// The path alone.
    pub file_path: PathBuf,
    /// Why it is no member, in a few words.
    pub because: String,
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
    #[error("{}", only_auxiliary(given))]
    OnlyAuxiliary { given: Vec<Auxiliary> },
    /// The inputs hold several pools.
    #[error("several pools: {}; choose one with --pool {}", list(pools), if same_name(pools) { "GUID, as names are equal" } else { "NAME|GUID" })]
    SeveralPools { pools: Vec<PoolChoice> },
    /// The pool asked for is not among the inputs.
    #[error("no pool {wanted} here; found: {}", list(pools))]
    NoSuchPool { wanted: String, pools: Vec<PoolChoice> },
    /// Configurations are there, uberblocks are not.
    #[error(
        "pool {name}: the configuration is readable in {labels} labels of {devices} device(s), but no uberblock ring holds a valid uberblock (0 of {slots} slots)"
    )]
    NoUberblock { name: String, devices: usize, labels: usize, slots: u64 },
    /// Only devices that were taken out of the pool.
    #[error("{}", retired(path, name, *guid, *last))]
    Retired { path: String, name: String, guid: Guid, last: Option<Txg> },
    /// Only log devices.
    #[error(
        "{path} is a log device of pool {name} (guid {guid}): top-level vdev {missing} is missing, and a log alone cannot be checked; give the pool's other devices, too"
    )]
    OnlyLogs { path: String, name: String, guid: Guid, missing: usize },
    /// A version this library does not know.
    #[error("pool {name}: on-disk version {version} is not supported (1 to 28 and 5000 are)")]
    UnsupportedVersion { name: String, version: u64 },
    /// Features without which the pool cannot be read.
    #[error(
        "pool {name}: it uses features this version cannot read: {} (`zcheck label` shows what the labels say)",
        features.join(", ")
    )]
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

fn retired(path: &str, name: &str, guid: Guid, last: Option<Txg>) -> String {
    let left = match last {
        Some(txg) => format!("its newest uberblock is of txg {txg}"),
        None => "no uberblock is left on it".into(),
    };
    format!(
        "{path} belonged to pool {name} (guid {guid}) and was detached or removed, or never fully added (its label has txg 0); {left}; give the pool's present devices"
    )
}

/// `ca.img is a cache device (L2ARC) of the pool with guid 7: it holds no pool data, there is nothing to check`
fn only_auxiliary(given: &[Auxiliary]) -> String {
    let one = |device: &Auxiliary| {
        let of = match (device.state, device.pool) {
            (_, Some(pool)) => format!(" of the pool with guid {pool}"),
            (PoolState::SPARE, None) => " (it does not record of which pool)".into(),
            (_, None) => " (its header, which names the pool, cannot be read)".into(),
        };
        format!("{} is {}{of}", device.opened_as.as_deref().unwrap_or_default(), device.what())
    };
    let names: Vec<String> = given.iter().map(one).collect();
    let end = if given.len() == 1 { "it holds no pool data" } else { "they hold no pool data" };
    format!("{}: {end}, there is nothing to check; give the pool's own devices", names.join(", "))
}

fn same_name(pools: &[PoolChoice]) -> bool {
    pools.iter().enumerate().any(|(at, pool)| pools.iter().take(at).any(|other| other.name == pool.name))
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
    /// Spares and caches: those among the inputs, and once [`Assembly::read_roles`] ran those that the pool lists.
    pub auxiliaries: Vec<Auxiliary>,
    /// Inputs that are no members.
    pub ignored: Vec<Ignored>,
    /// The uberblock in use.
    pub chosen: ChosenUberblock,
    /// Vdevs as far as labels, or later the MOS, describe them.
    pub tree: VdevTree,
    /// The checksum salt, once it was loaded.
    pub salt: Option<Salt>,
    /// Keys of encrypted datasets, as far as they were given.
    pub keys: KeyRing,
}

impl Assembly {
    /// Puts one pool together from opened media.
    ///
    /// # Errors
    /// [`AssemblyError`] when the inputs hold no pool, several pools without a choice, or one that cannot be read.
    pub fn new(media: &[Medium], wanted: Option<&Selector>) -> Result<Self, AssemblyError> {
        // Where to look by default cannot be wrong.
        let members = media.iter().flat_map(|medium| members(medium, Look::Tables).unwrap_or_default());
        Self::from_candidates(members.collect(), wanted)
    }

    /// The same from labels that were already read.
    ///
    /// # Errors
    /// As [`Assembly::new`].
    pub fn from_candidates(candidates: Vec<Candidate>, wanted: Option<&Selector>) -> Result<Self, AssemblyError> {
        let sorted = Sorted::of_newer(candidates, wanted);
        let guid = sorted.choose(wanted)?;
        let Sorted { mut pools, auxiliaries, mut ignored } = sorted;
        let mut chosen_members = Vec::new();
        let own = pools.get(&guid).and_then(|members| identity_config(members)).cloned();
        for (other, members) in std::mem::take(&mut pools) {
            if other == guid {
                chosen_members = members;
                continue;
            }
            let because = because_other(guid, own.as_ref(), other, identity_config(&members));
            let left = |(candidate, _): (Candidate, Guid)| Ignored {
                path: candidate.path,
                file_path: candidate.file_path,
                because: because.clone(),
            };
            ignored.extend(members.into_iter().map(left));
        }
        settle_claims(&mut chosen_members, guid);
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
        let chosen = choose_uberblock(&members, guid);
        if let (Some(first), Some(Txg(0))) = (members.first(), newest.and_then(|config| config.u64("txg")).map(Txg)) {
            let last = chosen.map(|chosen| chosen.uberblock.txg);
            return Err(AssemblyError::Retired { path: first.path.clone(), name, guid, last });
        }
        let Some(chosen) = chosen else {
            return Err(no_uberblock(name, guid, &members));
        };
        check_version(&name, chosen.uberblock.version)?;
        let mut tree = tree_from_labels(&members, guid, chosen.uberblock.txg)
            .map_err(|source| AssemblyError::Config { name: name.clone(), source })?;
        tree.set_reflow(&chosen.uberblock);
        if let Some((path, missing)) = only_logs(&tree) {
            return Err(AssemblyError::OnlyLogs { path, name, guid, missing });
        }
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
            keys: KeyRing::default(),
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

    /// The same without those that a newer member overlaps, unless it is their pool that is wanted.
    fn of_newer(candidates: Vec<Candidate>, wanted: Option<&Selector>) -> Self {
        let (older, newer): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| candidate.older.is_some());
        let mut sorted = Self::new(newer);
        let is_among = |sorted: &Self, wanted: &Selector| sorted.choices().iter().any(|pool| wanted.matches(pool));
        let are_wanted =
            wanted.is_some_and(|wanted| !is_among(&sorted, wanted) && is_among(&Self::new(older.clone()), wanted));
        for candidate in older {
            match &candidate.older {
                Some(because) if !are_wanted => {
                    let because = because.clone();
                    sorted.ignored.push(Ignored { path: candidate.path, file_path: candidate.file_path, because });
                }
                _ => sorted.place(candidate),
            }
        }
        sorted
    }

    fn place(&mut self, candidate: Candidate) {
        let Some(config) = candidate.identity().and_then(Label::valid_config) else {
            let because = candidate.why_not();
            self.ignored.push(Ignored { path: candidate.path, file_path: candidate.file_path, because });
            return;
        };
        let state = PoolState(config.u64("state").unwrap_or(0));
        if matches!(state, PoolState::SPARE | PoolState::L2CACHE) {
            self.auxiliaries.push(Auxiliary::given(&candidate, state, config));
            return;
        }
        match (config.u64("pool_guid"), config.u64("guid")) {
            (Some(pool), Some(guid)) => {
                self.pools.entry(Guid(pool)).or_default().push((candidate, Guid(guid)));
            }
            _ => {
                let because = "its ZFS label names no pool".into();
                self.ignored.push(Ignored { path: candidate.path, file_path: candidate.file_path, because });
            }
        }
    }

    fn choices(&self) -> Vec<PoolChoice> {
        self.pools
            .iter()
            .map(|(&guid, members)| {
                let name = identity_config(members).and_then(|config| config.str("name")).map(str::to_owned);
                let paths = members.iter().map(|(candidate, _)| candidate.path.clone()).collect();
                PoolChoice { name: name.unwrap_or_else(|| guid.to_string()), guid, paths }
            })
            .collect()
    }

    fn choose(&self, wanted: Option<&Selector>) -> Result<Guid, AssemblyError> {
        let pools = self.choices();
        if pools.is_empty() {
            return Err(if self.auxiliaries.is_empty() {
                AssemblyError::NoPool { inputs: self.ignored.clone() }
            } else {
                AssemblyError::OnlyAuxiliary { given: self.auxiliaries.clone() }
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

/// The newest configuration of the pool on a member, not newer than `limit`.
fn newest_config(member: &Member, pool: Guid, limit: Txg) -> Option<&NvList> {
    let labels = member.labels.labels.iter().rev().filter(|label| label.pool_guid() == Some(pool));
    let newest = labels.filter(|label| label.config_txg() <= Some(limit)).max_by_key(|label| label.config_txg());
    newest.and_then(Label::valid_config)
}

fn no_uberblock(name: String, pool: Guid, members: &[Member]) -> AssemblyError {
    let labels = || members.iter().flat_map(|member| &member.labels.labels);
    let valid = labels().filter(|label| label.pool_guid() == Some(pool));
    let slots = labels().filter(|label| label.offset_bytes.is_some()).map(|label| {
        let top = label.valid_config().and_then(|config| config.list("vdev_tree"));
        uberblock_slots(top.and_then(|top| top.u64("ashift")).unwrap_or(0))
    });
    AssemblyError::NoUberblock { name, devices: members.len(), labels: valid.count(), slots: slots.sum() }
}

/// The first given device, and the first missing top-level vdev, when nothing but log devices was given.
fn only_logs(tree: &VdevTree) -> Option<(String, usize)> {
    let is_log = |top: &TopVdev| top.class == AllocationClass::Log;
    let missing = tree.tops.iter().position(Option::is_none)?;
    let first = tree.leaves.iter().find_map(|leaf| leaf.opened_as.clone())?;
    tree.tops.iter().flatten().all(is_log).then_some((first, missing))
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
        .map(|guid| features::origin(&guid).map_or_else(|| guid.clone(), |origin| format!("{guid} (of {origin})")))
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
pub(super) fn tree_from_labels(members: &[Member], pool: Guid, limit: Txg) -> Result<VdevTree, BuildError> {
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
