//! The vdev tree, built from configuration nvlists.

use crate::Guid;
use crate::Txg;
use crate::media::ReadAt;
use crate::ondisk::nvlist::NvList;
use crate::ondisk::uberblock::{ScratchState, Uberblock};
use crate::vdev::stripe::{Expansion, RaidzGeometry};
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
    /// The path it was opened by.
    pub opened_as: Option<String>,
    /// Its bytes; `None` when it was not given.
    pub medium: Option<Arc<dyn ReadAt>>,
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

/// How a top-level vdev lays out a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each leaf holds the whole block at the same offset: a disk, or mirrors of any nesting.
    Copies(Vec<LeafId>),
    /// Stripes with parity over the children.
    Raidz {
        /// Width, parity, sector size.
        geometry: RaidzGeometry,
        /// Expansions, past and present.
        expansion: Expansion,
        /// Devices of each child, several where one is being replaced or spared.
        children: Vec<Vec<LeafId>>,
    },
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
    /// It holds intent logs.
    pub is_log: bool,
    /// Object number of the array of space maps, in the MOS; 0 when there is none.
    pub metaslab_array: u64,
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
    /// `path` of the label.
    pub path: Option<String>,
    /// `devid` of the label.
    pub devid: Option<String>,
    /// `phys_path` of the label.
    pub phys_path: Option<String>,
    /// Parity columns.
    pub parity: Option<u64>,
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
        match (&self.path, self.leaf) {
            (Some(path), Some(_)) => path.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(path).into(),
            (None, Some(_)) => self.guid.to_string(),
            _ => match self.parity {
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
        self.add_nodes(config)?;
        let ashift = config.u64("ashift").and_then(|ashift| u8::try_from(ashift).ok()).unwrap_or(9);
        let layout = self.layout(first, config, ashift);
        self.tops[slot] = Some(TopVdev {
            node: first,
            ashift,
            asize_bytes: config.u64("asize").unwrap_or(0),
            is_log: config.u64("is_log") == Some(1),
            metaslab_array: config.u64("metaslab_array").unwrap_or(0),
            layout,
        });
        Ok(())
    }

    /// Adds the nodes of one top-level vdev, parents before children.
    fn add_nodes(&mut self, config: &NvList) -> Result<(), BuildError> {
        let mut pending: Vec<(&NvList, Option<usize>)> = vec![(config, None)];
        while let Some((config, parent)) = pending.pop() {
            if self.nodes.len() >= VDEVS_MAX {
                return Err(BuildError::TooMany { max: VDEVS_MAX });
            }
            let index = self.nodes.len();
            let node = Self::node(config, parent)?;
            let children = config.lists("children").unwrap_or_default();
            let has_storage = children.is_empty() && matches!(node.vdev_type.as_str(), "disk" | "file");
            self.nodes.push(node);
            if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
                parent.children.push(index);
            }
            if has_storage {
                self.add_leaf(index);
            }
            pending.extend(children.iter().rev().map(|child| (child, Some(index))));
        }
        Ok(())
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
            vdev_type,
            id: config.u64("id").unwrap_or(0),
            guid: Guid(config.u64("guid").ok_or(BuildError::MissingKey { key: "guid" })?),
            parent,
            children: Vec::new(),
            leaf: None,
            path: text("path"),
            devid: text("devid"),
            phys_path: text("phys_path"),
            parity,
            dtl_object: config.u64("DTL").filter(|&object| object != 0),
            is_offline: flag("offline"),
            is_faulted: flag("faulted"),
            is_removed: flag("removed"),
        })
    }

    fn add_leaf(&mut self, node: usize) {
        let id = LeafId(self.leaves.len());
        if let Some(described) = self.nodes.get_mut(node) {
            described.leaf = Some(id);
            let (guid, name) = (described.guid, described.name());
            self.leaves.push(Leaf {
                guid,
                name,
                node,
                opened_as: None,
                medium: None,
                missing_txgs: TxgRanges::default(),
            });
        }
    }

    /// How the vdev at `top` lays out blocks.
    fn layout(&self, top: usize, config: &NvList, ashift: u8) -> Layout {
        let Some(node) = self.nodes.get(top) else { return Layout::Hole };
        if node.vdev_type != "raidz" {
            return self.copies(top).map_or_else(|layout| layout, Layout::Copies);
        }
        let expansion = Expansion {
            completed_txgs: config.u64s("raidz_expand_txgs").unwrap_or_default().iter().copied().map(Txg).collect(),
            // How far it has come is known only from the uberblock.
            reflow_offset_bytes: config.has("raidz_expanding").then_some(0),
            in_scratch: false,
        };
        let children: Result<Vec<Vec<LeafId>>, Layout> =
            node.children.iter().map(|&child| self.copies(child)).collect();
        match (children, node.parity) {
            (Ok(children), Some(parity @ 1..=3)) if children.len() as u64 > parity => {
                let geometry = RaidzGeometry { width: children.len() as u64, parity, ashift };
                Layout::Raidz { geometry, expansion, children }
            }
            (Ok(_), _) => Layout::Unsupported("raidz of impossible width or parity".into()),
            (Err(layout), _) => layout,
        }
    }

    /// The leaves below a vdev that each hold the same bytes at the same offset: itself, or the sides of mirrors of any
    /// nesting. Otherwise the layout that stands in the way.
    fn copies(&self, vdev: usize) -> Result<Vec<LeafId>, Layout> {
        let mut leaves = Vec::new();
        let mut pending = vec![vdev];
        while let Some(node) = pending.pop().and_then(|index| self.nodes.get(index)) {
            match (node.vdev_type.as_str(), node.leaf) {
                (_, Some(leaf)) => leaves.push(leaf),
                ("mirror" | "replacing" | "spare", None) => pending.extend(node.children.iter().rev()),
                ("hole", None) => return Err(Layout::Hole),
                (other, None) => return Err(Layout::Unsupported(format!("vdev type {other}"))),
            }
        }
        Ok(leaves)
    }

    /// Takes from the uberblock in use how far the expansion of a raidz vdev has come.
    pub fn set_reflow(&mut self, uberblock: &Uberblock) {
        for top in self.tops.iter_mut().flatten() {
            if let Layout::Raidz { expansion, .. } = &mut top.layout
                && let Some(offset) = &mut expansion.reflow_offset_bytes
            {
                *offset = uberblock.reflow_offset_bytes();
                expansion.in_scratch = uberblock.reflow_scratch_state() == ScratchState::VALID;
            }
        }
    }

    /// The leaf's data.
    #[must_use]
    pub fn leaf(&self, id: LeafId) -> Option<&Leaf> {
        self.leaves.get(id.0)
    }

    /// Whether a leaf is known not to hold what was written in `birth`.
    #[must_use]
    pub fn is_stale(&self, id: LeafId, birth: Txg) -> bool {
        self.leaf(id).is_some_and(|leaf| leaf.missing_txgs.contains(birth))
    }

    /// Gives a medium to the leaf with this guid. False when the tree has no such leaf.
    pub fn attach(&mut self, guid: Guid, opened_as: &str, medium: &Arc<dyn ReadAt>) -> bool {
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
