//! Where the copies of a block lie: the vdev tree, and addresses turned into places on devices.
//!
//! This floor does not ask whether bytes are right; it offers places, and [`crate::block`] chooses.

pub mod stripe;
mod tree;

pub use tree::{BuildError, Layout, Leaf, LeafId, Node, TopVdev, VdevTree};

use crate::ondisk::blkptr::Dva;
use crate::ondisk::label::VDEV_LABEL_START_BYTES;

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

impl VdevTree {
    /// All places that should hold the same copy of the block at `dva`: one for each side of a mirror.
    #[must_use]
    pub fn places(&self, dva: &Dva) -> Vec<Place> {
        let Some(slot) = self.tops.get(dva.vdev as usize) else { return vec![Place::OutOfRange] };
        let Some(top) = slot else { return vec![Place::MissingVdev] };
        // A gang's asize counts its children, which lie elsewhere.
        let end = if dva.is_gang { Some(dva.offset_bytes) } else { dva.offset_bytes.checked_add(dva.asize_bytes) };
        if top.asize_bytes != 0 && end.is_none_or(|end| end > top.asize_bytes) {
            return vec![Place::OutOfRange];
        }
        match &top.layout {
            Layout::Copies(leaves) => leaves
                .iter()
                .map(|&leaf| match dva.offset_bytes.checked_add(VDEV_LABEL_START_BYTES) {
                    Some(device_offset_bytes) => Place::Leaf { leaf, device_offset_bytes },
                    None => Place::OutOfRange,
                })
                .collect(),
            Layout::Hole => vec![Place::OutOfRange],
            Layout::Unsupported(what) => vec![Place::Unsupported(what.clone())],
        }
    }
}
