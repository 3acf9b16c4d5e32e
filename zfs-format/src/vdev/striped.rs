//! Vdevs whose blocks lie in stripes with parity: raidz and dRAID.

use super::draid::Draid;
use super::stripe::{Cell, Expansion, RaidzGeometry, Stripe};
use super::{LeafId, VdevTree};
use crate::Txg;

/// Index of a distributed spare in [`VdevTree::spares`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpareId(pub usize);

/// Where a child of a striped vdev has its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// On a device.
    Leaf(LeafId),
    /// In the spare space of all children of its dRAID.
    Spare(SpareId),
}

/// How stripes lie on the children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Row by row over all children.
    Raidz {
        /// Width, parity, sector size.
        geometry: RaidzGeometry,
        /// Expansions, past and present.
        expansion: Expansion,
    },
    /// Over permutations of the children.
    Draid(Draid),
}

/// A vdev with parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Striped {
    /// How stripes lie on the children.
    pub geometry: Geometry,
    /// Sources of each child, several where one is being replaced or spared.
    pub children: Vec<Vec<Source>>,
}

/// A device that should hold a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellSource {
    /// The device.
    pub leaf: LeafId,
    /// The distributed spare, when the cell lies in its space.
    pub spare: Option<SpareId>,
}

/// Sources looked at for one cell; a spare may be spared itself, but not for ever.
const SOURCES_MAX: usize = 64;

impl Striped {
    /// Parity cells of a stripe.
    #[must_use]
    pub fn parity(&self) -> u64 {
        match &self.geometry {
            Geometry::Raidz { geometry, .. } => geometry.parity,
            Geometry::Draid(draid) => draid.parity(),
        }
    }

    /// The stripes of a block of `psize` bytes at `offset` of the vdev that was written in `birth`. `None` when that is
    /// impossible.
    #[must_use]
    pub fn stripes(&self, birth: Txg, offset: u64, psize: u64) -> Option<Vec<Stripe>> {
        match &self.geometry {
            Geometry::Raidz { geometry, expansion } => geometry.stripes(expansion, birth, offset, psize),
            Geometry::Draid(draid) => draid.stripes(offset, psize),
        }
    }

    /// The device of a cell, when its child is one device and no spare is involved: the usual case, without a list.
    #[must_use]
    pub fn only_leaf(&self, cell: &Cell) -> Option<LeafId> {
        match self.children.get(cell.child)?.as_slice() {
            [Source::Leaf(leaf)] => Some(*leaf),
            _ => None,
        }
    }

    /// The devices that should hold a cell, in the order of the configuration.
    #[must_use]
    pub fn sources(&self, tree: &VdevTree, cell: &Cell) -> Vec<CellSource> {
        let of_child = |child: usize, via: Option<SpareId>| {
            let sources = self.children.get(child).map(Vec::as_slice).unwrap_or_default();
            sources.iter().rev().map(move |&source| (source, via))
        };
        let mut found = Vec::with_capacity(1);
        let mut pending: Vec<(Source, Option<SpareId>)> = of_child(cell.child, None).collect();
        while let Some((source, spare)) = pending.pop() {
            if found.len() + pending.len() > SOURCES_MAX {
                break;
            }
            match (source, &self.geometry) {
                (Source::Leaf(leaf), _) => found.push(CellSource { leaf, spare }),
                (Source::Spare(id), Geometry::Draid(draid)) => {
                    let number = tree.spares.get(id.0).map(|spare| spare.number);
                    let child = number.and_then(|number| draid.spare_child(number, cell.device_offset_bytes));
                    pending.extend(child.into_iter().flat_map(|child| of_child(child, Some(id))));
                }
                (Source::Spare(_), Geometry::Raidz { .. }) => {}
            }
        }
        found
    }
}
