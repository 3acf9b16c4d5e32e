//! Where the copies of a block lie: the vdev tree, and addresses turned into places on devices.
//!
//! This floor does not ask whether bytes are right; it offers places, and [`crate::block`] chooses.

mod class;
pub mod draid;
mod draid_maps;
mod indirect;
pub mod stripe;
mod striped;
mod tree;

pub use class::AllocationClass;
pub use indirect::{Indirect, Mapping, Moved};
pub use striped::{CellSource, Geometry, Source, SpareId, Striped};
pub use tree::{BuildError, DistributedSpare, Layout, Leaf, LeafId, Node, TopVdev, TxgRanges, VdevTree};

use crate::Txg;
use crate::ondisk::blkptr::Dva;
use crate::ondisk::label::VDEV_LABEL_START_BYTES;
use stripe::Stripe;

/// Where bytes lie, or why they lie nowhere.
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

/// A part of a block that moved as one when its vdev was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where in the block it belongs.
    pub block_offset: usize,
    /// Its length.
    pub length_bytes: usize,
    /// The txg that wrote it where it is now.
    pub birth: Txg,
    /// Where it lies: one place for each side of a mirror.
    pub places: Vec<Place>,
}

/// One way to the bytes of a copy. A copy has several where it is mirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side<'a> {
    /// They lie together.
    Whole {
        /// The place.
        place: Place,
        /// The txg that wrote them there.
        birth: Txg,
    },
    /// They lie in stripes with parity.
    Striped {
        /// The vdev.
        vdev: &'a Striped,
        /// The stripes.
        stripes: Vec<Stripe>,
    },
    /// They lie in several parts: a removed vdev's block that was split.
    Split(Vec<Segment>),
}

/// A part of a range, on a top-level vdev that is there.
struct Part {
    vdev: u32,
    offset_bytes: u64,
    length_bytes: u64,
    birth: Txg,
}

impl VdevTree {
    /// Where the copy at `dva` of a block of `psize` bytes lies that was written in `birth` (its physical birth). Never
    /// empty.
    #[must_use]
    pub fn sides(&self, dva: &Dva, psize: u64, birth: Txg) -> Vec<Side<'_>> {
        let nowhere = |place| vec![Side::Whole { place, birth }];
        let top = match self.top(dva.vdev) {
            Ok(top) => top,
            Err(place) => return nowhere(place),
        };
        // A gang's asize counts its children, which lie elsewhere.
        let end = if dva.is_gang { Some(dva.offset_bytes) } else { dva.offset_bytes.checked_add(dva.asize_bytes) };
        if top.asize_bytes != 0 && end.is_none_or(|end| end > top.asize_bytes) {
            return nowhere(Place::OutOfRange);
        }
        if !matches!(top.layout, Layout::Indirect(_)) {
            return self.layout_sides(&top.layout, dva.offset_bytes, psize, birth);
        }
        match self.remapped(dva.vdev, dva.offset_bytes, psize, birth) {
            Ok(parts) => self.moved_sides(&parts, birth),
            Err(place) => nowhere(place),
        }
    }

    /// The devices that each hold the whole copy at `dva` at its offset, when it lies so and inside its vdev.
    #[must_use]
    pub fn copies_at(&self, dva: &Dva) -> Option<&[LeafId]> {
        let top = self.top(dva.vdev).ok()?;
        let end = dva.offset_bytes.checked_add(dva.asize_bytes)?;
        match &top.layout {
            Layout::Copies(leaves) if top.asize_bytes == 0 || end <= top.asize_bytes => Some(leaves),
            _ => None,
        }
    }

    fn top(&self, vdev: u32) -> Result<&TopVdev, Place> {
        let slot = self.tops.get(vdev as usize).ok_or(Place::OutOfRange)?;
        slot.as_ref().ok_or(Place::MissingVdev)
    }

    /// Where a range of a layout that holds data lies.
    fn layout_sides<'a>(&self, layout: &'a Layout, offset: u64, psize: u64, birth: Txg) -> Vec<Side<'a>> {
        let mut sides = Vec::new();
        // Only mirrors of something else have children to come back to.
        let (mut first, mut pending) = (Some(layout), Vec::new());
        while let Some(layout) = first.take().or_else(|| pending.pop()) {
            match layout {
                Layout::Copies(leaves) => {
                    sides.extend(leaves.iter().map(|&leaf| Side::Whole { place: leaf_place(leaf, offset), birth }));
                }
                Layout::Striped(vdev) => sides.push(match vdev.stripes(birth, offset, psize) {
                    Some(stripes) => Side::Striped { vdev, stripes },
                    None => Side::Whole { place: Place::OutOfRange, birth },
                }),
                Layout::Mirror(children) => pending.extend(children.iter().rev()),
                Layout::Hole => sides.push(Side::Whole { place: Place::OutOfRange, birth }),
                Layout::Indirect(_) => {
                    let place = Place::Unsupported("a removed vdev below another".into());
                    sides.push(Side::Whole { place, birth });
                }
                Layout::Unsupported(what) => {
                    sides.push(Side::Whole { place: Place::Unsupported(what.clone()), birth });
                }
            }
        }
        if sides.is_empty() {
            sides.push(Side::Whole { place: Place::MissingVdev, birth });
        }
        sides
    }

    /// Follows a range of a removed vdev to where it is now, over several removals if need be.
    fn remapped(&self, vdev: u32, offset: u64, length: u64, birth: Txg) -> Result<Vec<Part>, Place> {
        let mut parts: Vec<Part> = Vec::with_capacity(1);
        let mut pending = vec![(Part { vdev, offset_bytes: offset, length_bytes: length, birth }, 0)];
        while let Some((part, depth)) = pending.pop() {
            let top = self.top(part.vdev)?;
            let Layout::Indirect(indirect) = &top.layout else {
                // Neighbours that stayed neighbours are one part.
                match parts.last_mut() {
                    Some(last)
                        if (last.vdev, last.birth) == (part.vdev, part.birth)
                            && last.offset_bytes.checked_add(last.length_bytes) == Some(part.offset_bytes) =>
                    {
                        last.length_bytes += part.length_bytes;
                    }
                    _ => parts.push(part),
                }
                continue;
            };
            // Each removal leads to vdevs that were removed later, or not at all.
            if depth > self.tops.len() {
                return Err(Place::OutOfRange);
            }
            let mapping = indirect.mapping.as_deref().ok_or_else(|| {
                Place::Unsupported(format!("the removed vdev {}, whose mapping cannot be read", part.vdev))
            })?;
            let moved = mapping.moved(part.offset_bytes, part.length_bytes).ok_or(Place::OutOfRange)?;
            pending.extend(moved.into_iter().rev().map(|moved| {
                let Moved { vdev, offset_bytes, length_bytes, birth, .. } = moved;
                (Part { vdev, offset_bytes, length_bytes, birth }, depth + 1)
            }));
        }
        Ok(parts)
    }

    /// Where the parts of a block of a removed vdev lie.
    fn moved_sides(&self, parts: &[Part], birth: Txg) -> Vec<Side<'_>> {
        if let [part] = parts
            && let Ok(top) = self.top(part.vdev)
        {
            return self.layout_sides(&top.layout, part.offset_bytes, part.length_bytes, part.birth);
        }
        let mut segments = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in parts {
            let Ok(length_bytes) = usize::try_from(part.length_bytes) else {
                return vec![Side::Whole { place: Place::OutOfRange, birth }];
            };
            let places = match self.top(part.vdev) {
                Ok(TopVdev { layout: Layout::Copies(leaves), .. }) => {
                    leaves.iter().map(|&leaf| leaf_place(leaf, part.offset_bytes)).collect()
                }
                Ok(_) => vec![Place::Unsupported("a part of a block moved to a vdev that is no disk or mirror".into())],
                Err(place) => vec![place],
            };
            segments.push(Segment { block_offset: at, length_bytes, birth: part.birth, places });
            at += length_bytes;
        }
        vec![Side::Split(segments)]
    }
}

fn leaf_place(leaf: LeafId, offset_bytes: u64) -> Place {
    match offset_bytes.checked_add(VDEV_LABEL_START_BYTES) {
        Some(device_offset_bytes) => Place::Leaf { leaf, device_offset_bytes },
        None => Place::OutOfRange,
    }
}
