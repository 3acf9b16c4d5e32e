//! Where the copies of a block lie: the vdev tree, and addresses turned into places on devices.
//!
//! This floor does not ask whether bytes are right; it offers places, and [`crate::block`] chooses.

pub mod stripe;
mod tree;

pub use tree::{BuildError, Layout, Leaf, LeafId, Node, TopVdev, TxgRanges, VdevTree};

use crate::Txg;
use crate::ondisk::blkptr::Dva;
use crate::ondisk::label::VDEV_LABEL_START_BYTES;
use stripe::Stripe;

/// Where one physical copy of a block lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a leaf, at this byte offset of the device.
    Leaf {
        /// The leaf.
        leaf: LeafId,
        /// Byte offset on the device, labels included.
        device_offset_bytes: u64,
    },
    /// The top-level vdev is not known: none of its members was given.
    MissingVdev,
    /// The address names no vdev of the pool, or ends beyond it.
    OutOfRange,
    /// The vdev is of a kind this version cannot read.
    Unsupported(String),
}

/// How one copy of a block is spread over devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement<'a> {
    /// The whole copy lies at each of these places: one for each side of a mirror.
    Sides(Vec<Place>),
    /// The copy lies in stripes with parity.
    Stripes {
        /// Devices of each child, several where one is being replaced or spared.
        children: &'a [Vec<LeafId>],
        /// The stripes.
        stripes: Vec<Stripe>,
    },
}

impl VdevTree {
    /// Where the copy at `dva` of a block of `psize` bytes lies that was written in `birth` (its physical birth).
    #[must_use]
    pub fn placement(&self, dva: &Dva, psize: u64, birth: Txg) -> Placement<'_> {
        let Some(slot) = self.tops.get(dva.vdev as usize) else { return Placement::Sides(vec![Place::OutOfRange]) };
        let Some(top) = slot else { return Placement::Sides(vec![Place::MissingVdev]) };
        // A gang's asize counts its children, which lie elsewhere.
        let end = if dva.is_gang { Some(dva.offset_bytes) } else { dva.offset_bytes.checked_add(dva.asize_bytes) };
        if top.asize_bytes != 0 && end.is_none_or(|end| end > top.asize_bytes) {
            return Placement::Sides(vec![Place::OutOfRange]);
        }
        match &top.layout {
            Layout::Copies(leaves) => {
                Placement::Sides(leaves.iter().map(|&leaf| side(leaf, dva.offset_bytes)).collect())
            }
            Layout::Raidz { geometry, expansion, children } => {
                match geometry.stripes(expansion, birth, dva.offset_bytes, psize) {
                    Some(stripes) => Placement::Stripes { children, stripes },
                    None => Placement::Sides(vec![Place::OutOfRange]),
                }
            }
            Layout::Hole => Placement::Sides(vec![Place::OutOfRange]),
            Layout::Unsupported(what) => Placement::Sides(vec![Place::Unsupported(what.clone())]),
        }
    }
}

fn side(leaf: LeafId, offset_bytes: u64) -> Place {
    match offset_bytes.checked_add(VDEV_LABEL_START_BYTES) {
        Some(device_offset_bytes) => Place::Leaf { leaf, device_offset_bytes },
        None => Place::OutOfRange,
    }
}
