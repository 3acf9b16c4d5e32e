//! The vdev tree, built from configuration nvlists.

use crate::Guid;
use crate::Txg;
use crate::media::Device;
use crate::ondisk::nvlist::NvList;
use crate::ondisk::uberblock::{ScratchState, Uberblock};
use crate::vdev::AllocationClass;
use crate::vdev::draid::{Draid, DraidConfig};
use crate::vdev::indirect::Indirect;
use crate::vdev::stripe::{Expansion, RaidzGeometry};
use crate::vdev::striped::{Geometry, Source, SpareId, Striped};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Index of a leaf in [`VdevTree::leaves`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub usize);

/// A device of the pool, given or not.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its guid.
    pub guid: Guid,
    /// Short name for reports: the last part of the label's path.
    pub name: String,
    /// Its node in [`VdevTree::nodes`].
    pub node: usize,
    /// The id of its top-level vdev.
    pub top: usize,
    /// The path it was opened by.
    pub opened_as: Option<String>,
    /// Its bytes; `None` when it was not given.
    pub medium: Option<Arc<Device>>,
    /// Txgs of which it is known not to hold everything (its DTL): it was away, or is being filled.
    pub missing_txgs: TxgRanges,
}

/// Ranges of txgs, as a dirty time log lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxgRanges {
    /// First txg, and the one after the last; in any order.
    ranges: Vec<(u64, u64)>,
}

impl TxgRanges {
    /// Adds `count` txgs from `first` on.
    pub fn add(&mut self, first: u64, count: u64) {
        self.ranges.push((first, first.saturating_add(count)));
    }

    /// Takes `count` txgs from `first` on out.
    pub fn remove(&mut self, first: u64, count: u64) {
        let end = first.saturating_add(count);
        let kept = |&(from, to): &(u64, u64)| [(from, to.min(first)), (from.max(end), to)];
        self.ranges = self.ranges.iter().flat_map(kept).filter(|(from, to)| from < to).collect();
    }

    /// Whether a txg is in one of the ranges.
    #[must_use]
    pub fn contains(&self, txg: Txg) -> bool {
        self.ranges.iter().any(|&(from, to)| (from..to).contains(&txg.0))
    }

    /// Whether there is no range at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Spare space that is spread over all children of a dRAID, standing in for one of them.
#[derive(Clone, Debug)]
pub struct DistributedSpare {
    /// Its guid.
    pub guid: Guid,
    /// Its node in [`VdevTree::nodes`].
    pub node: usize,
    /// Which of the spares of its dRAID (`spareid`).
    pub number: u64,
    /// Txgs of which it does not hold everything.
    pub missing_txgs: TxgRanges,
}

/// How a top-level vdev lays out a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each leaf holds the whole block at the same offset: a disk, or mirrors of any nesting.
    Copies(Vec<LeafId>),
    /// Stripes with parity over the children.
    Striped(Striped),
    /// Each of these holds the whole block: a mirror of something else than disks.
    Mirror(Vec<Layout>),
    /// A removed vdev: its blocks are elsewhere.
    Indirect(Indirect),
    /// A removed log device: nothing can lie there.
    Hole,
    /// A kind this version cannot read.
    Unsupported(String),
}

/// A child of the root: the unit that addresses name.
#[derive(Clone, Debug)]
pub struct TopVdev {
    /// Its node in [`VdevTree::nodes`].
    pub node: usize,
    /// Sector size as a power of two.
    pub ashift: u8,
    /// Allocatable bytes; 0 when not recorded.
    pub asize_bytes: u64,
    /// What it is for. Labels tell logs only; the others are known once the MOS is open.
    pub class: AllocationClass,
    /// Object number of its ZAP, in the MOS; 0 when there is none.
    pub zap_object: u64,
    /// Object number of the array of space maps, in the MOS; 0 when there is none.
    pub metaslab_array: u64,
    /// Copies of each block that should be good: the sides of a mirror, without those that replace or spare others.
    pub copies: usize,
    /// How blocks lie on it.
    pub layout: Layout,
}

/// Any vdev, for showing the tree as the user knows it.
#[derive(Clone, Debug)]
pub struct Node {
    /// `disk`, `file`, `mirror`, `raidz`, ...
    pub vdev_type: String,
    /// Index among its siblings.
    pub id: u64,
    /// Its guid.
    pub guid: Guid,
    /// Parent node; `None` for top-level vdevs.
    pub parent: Option<usize>,
    /// Child nodes, in order.
    pub children: Vec<usize>,
    /// The leaf, when it is one.
    pub leaf: Option<LeafId>,
    /// The distributed spare, when it is one.
    pub spare: Option<SpareId>,
    /// `path` of the label.
    pub path: Option<String>,
    /// `devid` of the label.
    pub devid: Option<String>,
    /// `phys_path` of the label.
    pub phys_path: Option<String>,
    /// `vdev_enc_sysfs_path` of the label: the slot of the enclosure, as a path below `/sys`.
    pub enclosure_path: Option<String>,
    /// Parity columns.
    pub parity: Option<u64>,
    /// Data columns, children and distributed spares of a dRAID.
    pub draid: Option<[u64; 3]>,
    /// Object in the MOS that lists the txgs it is missing.
    pub dtl_object: Option<u64>,
    /// The configuration says it was taken offline.
    pub is_offline: bool,
    /// The configuration says it is faulted.
    pub is_faulted: bool,
    /// The configuration says it was removed.
    pub is_removed: bool,
}

impl Node {
    /// The name in `zpool status`: `mirror-0` for inner vdevs, the last part of the path for leaves.
    #[must_use]
    pub fn name(&self) -> String {
        if let (Some(path), Some(_)) = (&self.path, self.spare) {
            return path.clone();
        }
        match (&self.path, self.leaf) {
            (Some(path), Some(_)) => path.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(path).into(),
            (None, Some(_)) => self.guid.to_string(),
            _ => match self.parity {
                Some(parity) if let Some([data, children, spares]) = self.draid => {
                    format!("draid{parity}:{data}d:{children}c:{spares}s-{}", self.id)
                }
                Some(parity) => format!("{}{parity}-{}", self.vdev_type, self.id),
                None => format!("{}-{}", self.vdev_type, self.id),
            },
        }
    }
}

/// Why a configuration is not a vdev tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum BuildError {
    /// A key every vdev has is not there.
    #[error("vdev configuration: no {key}")]
    MissingKey { key: &'static str },
    /// More vdevs than any real pool has.
    #[error("vdev configuration: more than {max} vdevs")]
    TooMany { max: usize },
    /// An id that is out of range.
    #[error("vdev configuration: top-level vdev id {id} of {count}")]
    BadId { id: u64, count: u64 },
}

/// All vdevs of a pool.
#[derive(Clone, Debug, Default)]
pub struct VdevTree {
    /// Top-level vdevs by id; `None` where nothing is known of one.
    pub tops: Vec<Option<TopVdev>>,
    /// All vdevs but the root.
    pub nodes: Vec<Node>,
    /// All devices.
    pub leaves: Vec<Leaf>,
    /// Distributed spares in use.
    pub spares: Vec<DistributedSpare>,
}

/// More vdevs than any real pool has; bounds memory against a lying configuration.
const VDEVS_MAX: usize = 65_536;

impl VdevTree {
    /// A tree with room for `count` top-level vdevs, none of them known yet.
    ///
    /// # Errors
    /// [`BuildError::TooMany`] when `count` is beyond any real pool.
    pub fn with_tops(count: u64) -> Result<Self, BuildError> {
        let count = usize::try_from(count).ok().filter(|&count| count <= VDEVS_MAX);
        let count = count.ok_or(BuildError::TooMany { max: VDEVS_MAX })?;
        Ok(Self { tops: vec![None; count], ..Self::default() })
    }

    /// Adds a top-level vdev from its configuration (`vdev_tree` of a label, a child of the root in the MOS).
    ///
    /// # Errors
    /// [`BuildError`] when the configuration lacks a key or names an id out of range.
    pub fn add_top(&mut self, config: &NvList) -> Result<(), BuildError> {
        let id = config.u64("id").ok_or(BuildError::MissingKey { key: "id" })?;
        let count = self.tops.len() as u64;
        let slot = usize::try_from(id).ok().filter(|&slot| slot < self.tops.len());
        let slot = slot.ok_or(BuildError::BadId { id, count })?;
        let first = self.nodes.len();
        let configs = self.add_nodes(config, slot)?;
        let ashift = config.u64("ashift").and_then(|ashift| u8::try_from(ashift).ok()).unwrap_or(9);
        let layout = self.layout(first, &configs, ashift);
        self.tops[slot] = Some(TopVdev {
            node: first,
            ashift,
            asize_bytes: config.u64("asize").unwrap_or(0),
            class: match config.u64("is_log") {
                Some(1) => AllocationClass::Log,
                _ => AllocationClass::Normal,
            },
            zap_object: config.u64("com.delphix:vdev_zap_top").unwrap_or(0),
            metaslab_array: config.u64("metaslab_array").unwrap_or(0),
            copies: match self.nodes.get(first) {
                Some(node) if node.vdev_type == "mirror" => node.children.len(),
                _ => 1,
            },
            layout,
        });
        Ok(())
    }

    /// Adds the nodes of the top-level vdev `top`, parents before children. Answers with the configuration of each.
    fn add_nodes<'a>(&mut self, config: &'a NvList, top: usize) -> Result<Vec<&'a NvList>, BuildError> {
        let mut pending: Vec<(&NvList, Option<usize>)> = vec![(config, None)];
        let mut configs = Vec::new();
        while let Some((config, parent)) = pending.pop() {
            if self.nodes.len() >= VDEVS_MAX {
                return Err(BuildError::TooMany { max: VDEVS_MAX });
            }
            let index = self.nodes.len();
            let node = Self::node(config, parent)?;
            let children = config.lists("children").unwrap_or_default();
            let kind = node.vdev_type.clone();
            self.nodes.push(node);
            configs.push(config);
            if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
                parent.children.push(index);
            }
            match kind.as_str() {
                "disk" | "file" if children.is_empty() => self.add_leaf(index, top),
                "dspare" => self.add_spare(index, config.u64("spareid").unwrap_or(0)),
                _ => {}
            }
            pending.extend(children.iter().rev().map(|child| (child, Some(index))));
        }
        Ok(configs)
    }

    fn node(config: &NvList, parent: Option<usize>) -> Result<Node, BuildError> {
        let text = |key| config.str(key).map(str::to_owned);
        let flag = |key| config.u64(key) == Some(1);
        let vdev_type = text("type").ok_or(BuildError::MissingKey { key: "type" })?;
        // SPA versions 1 and 2 knew only one parity column and did not record it.
        let parity = match vdev_type.as_str() {
            "raidz" | "draid" => Some(config.u64("nparity").unwrap_or(1)),
            _ => None,
        };
        Ok(Node {
            id: config.u64("id").unwrap_or(0),
            guid: Guid(config.u64("guid").ok_or(BuildError::MissingKey { key: "guid" })?),
            parent,
            children: Vec::new(),
            leaf: None,
            spare: None,
            path: text("path"),
            devid: text("devid"),
            phys_path: text("phys_path"),
            enclosure_path: text("vdev_enc_sysfs_path"),
            parity,
            draid: (vdev_type == "draid").then(|| {
                let number = |key| config.u64(key).unwrap_or(0);
                let children = config.lists("children").map_or(0, <[_]>::len);
                [number("draid_ndata"), children as u64, number("draid_nspares")]
            }),
            vdev_type,
            dtl_object: config.u64("DTL").filter(|&object| object != 0),
            is_offline: flag("offline"),
            is_faulted: flag("faulted"),
            is_removed: flag("removed"),
        })
    }

    fn add_leaf(&mut self, node: usize, top: usize) {
        let id = LeafId(self.leaves.len());
        if let Some(described) = self.nodes.get_mut(node) {
            described.leaf = Some(id);
            let (guid, name) = (described.guid, described.name());
            self.leaves.push(Leaf {
                guid,
                name,
                node,
                top,
                opened_as: None,
                medium: None,
                missing_txgs: TxgRanges::default(),
            });
        }
    }

    fn add_spare(&mut self, node: usize, number: u64) {
        let id = SpareId(self.spares.len());
        if let Some(described) = self.nodes.get_mut(node) {
            described.spare = Some(id);
            let missing_txgs = TxgRanges::default();
            self.spares.push(DistributedSpare { guid: described.guid, node, number, missing_txgs });
        }
    }

    /// How the top-level vdev lays out blocks whose nodes begin at `first`. `configs` are those of its nodes, in order.
    fn layout(&self, first: usize, configs: &[&NvList], ashift: u8) -> Layout {
        // Children come after their parents, so that from the end on all children are known.
        let mut built: BTreeMap<usize, Built> = BTreeMap::new();
        for (index, config) in configs.iter().enumerate().rev() {
            let Some(node) = self.nodes.get(first + index) else { continue };
            let children = node.children.iter().filter_map(|child| built.remove(child)).collect();
            built.insert(first + index, build(node, config, children, ashift));
        }
        built.remove(&first).map_or(Layout::Hole, Built::into_layout)
    }

    /// Takes from the uberblock in use how far the expansion of a raidz vdev has come.
    pub fn set_reflow(&mut self, uberblock: &Uberblock) {
        let mut pending: Vec<&mut Layout> = self.tops.iter_mut().flatten().map(|top| &mut top.layout).collect();
        while let Some(layout) = pending.pop() {
            match layout {
                Layout::Mirror(children) => pending.extend(children),
                Layout::Striped(Striped { geometry: Geometry::Raidz { expansion, .. }, .. }) => {
                    if let Some(offset) = &mut expansion.reflow_offset_bytes {
                        *offset = uberblock.reflow_offset_bytes();
                        expansion.in_scratch = uberblock.reflow_scratch_state() == ScratchState::VALID;
                    }
                }
                _ => {}
            }
        }
    }

    /// Parity columns of a top-level vdev; 0 for one that has none.
    #[must_use]
    pub fn parity(&self, vdev: u32) -> u64 {
        match self.tops.get(vdev as usize).and_then(Option::as_ref).map(|top| &top.layout) {
            Some(Layout::Striped(striped)) => striped.parity(),
            _ => 0,
        }
    }

    /// The leaf's data.
    #[must_use]
    pub fn leaf(&self, id: LeafId) -> Option<&Leaf> {
        self.leaves.get(id.0)
    }

    /// Whether a leaf was given.
    #[must_use]
    pub fn is_given(&self, id: LeafId) -> bool {
        self.leaf(id).is_some_and(|leaf| leaf.medium.is_some())
    }

    /// Whether a leaf is known not to hold what was written in `birth`.
    #[must_use]
    pub fn is_stale(&self, id: LeafId, birth: Txg) -> bool {
        self.leaf(id).is_some_and(|leaf| leaf.missing_txgs.contains(birth))
    }

    /// Whether the space of a distributed spare is known not to hold what was written in `birth`.
    #[must_use]
    pub fn is_spare_stale(&self, id: SpareId, birth: Txg) -> bool {
        self.spares.get(id.0).is_some_and(|spare| spare.missing_txgs.contains(birth))
    }

    /// Whether nothing of a top-level vdev was given, although blocks may lie on it.
    #[must_use]
    pub fn is_absent(&self, top: usize) -> bool {
        match self.tops.get(top) {
            None | Some(Some(TopVdev { layout: Layout::Hole, .. })) => false,
            Some(None) => true,
            Some(Some(top)) => {
                let mut pending = vec![top.node];
                let mut has_leaves = false;
                while let Some(node) = pending.pop().and_then(|index| self.nodes.get(index)) {
                    if let Some(leaf) = node.leaf.and_then(|leaf| self.leaf(leaf)) {
                        has_leaves = true;
                        if leaf.medium.is_some() {
                            return false;
                        }
                    }
                    pending.extend(&node.children);
                }
                has_leaves
            }
        }
    }

    /// Gives a medium to the leaf with this guid. False when the tree has no such leaf.
    pub fn attach(&mut self, guid: Guid, opened_as: &str, medium: &Arc<Device>) -> bool {
        let mut found = false;
        for leaf in self.leaves.iter_mut().filter(|leaf| leaf.guid == guid && leaf.medium.is_none()) {
            leaf.opened_as = Some(opened_as.to_owned());
            leaf.medium = Some(Arc::clone(medium));
            found = true;
        }
        found
    }

    /// Sum of all guids, modulo 2^64, the root's included: what an uberblock records as `guid_sum`.
    #[must_use]
    pub fn guid_sum(&self, pool_guid: Guid) -> u64 {
        self.nodes.iter().fold(pool_guid.0, |sum, node| sum.wrapping_add(node.guid.0))
    }
}

/// What is known of a vdev on the way up.
enum Built {
    /// Each of these holds the same bytes at the same offset.
    Sources(Vec<Source>),
    /// Something that cannot stand below parity.
    Layout(Layout),
}

impl Built {
    fn into_layout(self) -> Layout {
        match self {
            Self::Layout(layout) => layout,
            Self::Sources(sources) => {
                let leaves: Option<Vec<LeafId>> = sources
                    .into_iter()
                    .map(|source| match source {
                        Source::Leaf(leaf) => Some(leaf),
                        Source::Spare(_) => None,
                    })
                    .collect();
                let outside = || Layout::Unsupported("a distributed spare outside a dRAID".into());
                leaves.map_or_else(outside, Layout::Copies)
            }
        }
    }
}

/// Puts a vdev together from its children.
fn build(node: &Node, config: &NvList, children: Vec<Built>, ashift: u8) -> Built {
    if let Some(leaf) = node.leaf {
        return Built::Sources(vec![Source::Leaf(leaf)]);
    }
    if let Some(spare) = node.spare {
        return Built::Sources(vec![Source::Spare(spare)]);
    }
    match node.vdev_type.as_str() {
        "mirror" | "replacing" | "spare" => mirrored(children),
        "raidz" | "draid" => Built::Layout(striped(node, config, children, ashift)),
        "indirect" => Built::Layout(Layout::Indirect(Indirect {
            mapping_object: config.u64("com.delphix:indirect_object").unwrap_or(0),
            births_object: config.u64("com.delphix:indirect_births").unwrap_or(0),
            previous: config.u64("com.delphix:prev_indirect_vdev").filter(|&vdev| vdev != u64::MAX),
            mapping: None,
        })),
        "hole" => Built::Layout(Layout::Hole),
        // A child of which only that is known: nothing can be read from it.
        "missing" => Built::Sources(Vec::new()),
        other => Built::Layout(Layout::Unsupported(format!("vdev type {other}"))),
    }
}

fn mirrored(children: Vec<Built>) -> Built {
    if children.iter().all(|child| matches!(child, Built::Sources(_))) {
        let sources = children.into_iter().map(|child| match child {
            Built::Sources(sources) => sources,
            Built::Layout(_) => Vec::new(),
        });
        return Built::Sources(sources.flatten().collect());
    }
    Built::Layout(Layout::Mirror(children.into_iter().map(Built::into_layout).collect()))
}

fn striped(node: &Node, config: &NvList, children: Vec<Built>, ashift: u8) -> Layout {
    let kind = &node.vdev_type;
    let impossible = || Layout::Unsupported(format!("{kind} of impossible width or parity"));
    let sources: Option<Vec<Vec<Source>>> = children
        .into_iter()
        .map(|child| match child {
            Built::Sources(sources) => Some(sources),
            Built::Layout(_) => None,
        })
        .collect();
    let Some(children) = sources else {
        return Layout::Unsupported(format!("{kind} of something else than disks"));
    };
    let width = children.len() as u64;
    let Some(parity @ 1..=3) = node.parity.filter(|&parity| parity < width) else { return impossible() };
    if kind == "raidz" {
        let expansion = Expansion {
            completed_txgs: config.u64s("raidz_expand_txgs").unwrap_or_default().iter().copied().map(Txg).collect(),
            // How far it has come is known only from the uberblock.
            reflow_offset_bytes: config.has("raidz_expanding").then_some(0),
            in_scratch: false,
        };
        let geometry = Geometry::Raidz { geometry: RaidzGeometry { width, parity, ashift }, expansion };
        return Layout::Striped(Striped { geometry, children });
    }
    let number = |key| config.u64(key).unwrap_or(0);
    let draid = Draid::new(DraidConfig {
        children: width,
        parity,
        data: number("draid_ndata"),
        spares: number("draid_nspares"),
        groups: number("draid_ngroups"),
        group_children: config.u64("draid_nchildren").filter(|&children| children != 0).unwrap_or(width),
        ashift,
    });
    match draid {
        Some(draid) => Layout::Striped(Striped { geometry: Geometry::Draid(draid), children }),
        None => impossible(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn txgs_that_were_taken_out_are_no_longer_missing() {
        let mut missing = TxgRanges::default();
        assert!(missing.is_empty());
        missing.add(10, 10);
        missing.add(30, 1);
        missing.remove(12, 3);
        let held: Vec<u64> = (8..32).filter(|&txg| !missing.contains(Txg(txg))).collect();
        let expected: Vec<u64> = (8..10).chain(12..15).chain(20..30).chain(31..32).collect();
        assert_eq!(held, expected);
        missing.remove(0, u64::MAX);
        assert!(missing.is_empty());
    }
}
