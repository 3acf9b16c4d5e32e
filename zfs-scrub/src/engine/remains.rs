//! What is left of a tree that is being destroyed in the background.
//!
//! Destruction goes depth first, children before their parents, and remembers the block at which it stopped. So a
//! subtree is done when its last block comes before that one, and the parents of blocks that are left are left too.
//!
//! Source: OpenZFS module/zfs/dmu_traverse.c, `resume_skip_check`; module/zfs/zio.c, `zbookmark_subtree_completed`.

use zfs_format::ondisk::bptree::ResumePoint;
use zfs_format::ondisk::dnode::{DNODE_SLOT_BYTES, Dnode};

/// A block of a tree, and how many pointers an indirect block of its object has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) object: u64,
    pub(super) level: i64,
    pub(super) blkid: u64,
    /// log2 of the pointers in an indirect block.
    pub(super) shift: u32,
}

impl Shape {
    /// The last block of level 0 below it.
    fn last_block(&self) -> u64 {
        let levels = u32::try_from(self.level.max(0)).unwrap_or(u32::MAX);
        match self.blkid.checked_add(1).and_then(|next| shifted(next, self.shift.saturating_mul(levels))) {
            Some(next) => next.saturating_sub(1),
            None => u64::MAX,
        }
    }
}

/// `value << shift` unless bits are lost.
fn shifted(value: u64, shift: u32) -> Option<u64> {
    value.checked_shl(shift).filter(|shifted| shifted.checked_shr(shift) == Some(value))
}

/// The point that destruction has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remains {
    reached: ResumePoint,
    /// Of the array of dnodes: log2 of the pointers in an indirect block, and dnode slots in a block.
    meta_shift: u32,
    slots_per_block: u64,
}

impl Remains {
    pub(super) fn new(reached: ResumePoint, meta: &Dnode) -> Self {
        Self {
            reached,
            meta_shift: meta.pointers_per_indirect_shift().into(),
            slots_per_block: u64::from(meta.data_block_bytes) / DNODE_SLOT_BYTES as u64,
        }
    }

    /// Whether the block and everything below it is freed.
    pub(super) fn is_done(&self, shape: Shape) -> bool {
        let ResumePoint { object, level, blkid } = self.reached;
        // The root itself comes last.
        level < 0 || self.order(shape) < self.order(Shape { object: object.0, level, blkid, shift: shape.shift })
    }

    /// Sorts blocks in the order of destruction: by object, in it by last block, children before parents. A block of
    /// dnodes comes after the objects in it.
    fn order(&self, shape: Shape) -> (u64, bool, u64, i64) {
        if shape.object == 0 {
            let last = Shape { shift: self.meta_shift, ..shape }.last_block();
            let last_object = last.saturating_add(1).saturating_mul(self.slots_per_block).saturating_sub(1);
            (last_object, true, 0, shape.level)
        } else {
            (shape.object, false, shape.last_block(), shape.level)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::ObjectId;

    fn remains(object: u64, level: i64, blkid: u64) -> Remains {
        let reached = ResumePoint { object: ObjectId(object), level, blkid };
        Remains { reached, meta_shift: 7, slots_per_block: 32 }
    }

    fn is_done(remains: Remains, object: u64, level: i64, blkid: u64) -> bool {
        remains.is_done(Shape { object, level, blkid, shift: 10 })
    }

    #[test]
    fn in_the_object_reached_what_comes_before_is_done_and_parents_are_left() {
        let reached = remains(5, 0, 1030);
        assert!(is_done(reached, 5, 0, 1029) && is_done(reached, 5, 1, 0));
        assert!(!is_done(reached, 5, 0, 1030) && !is_done(reached, 5, 1, 1) && !is_done(reached, 5, 2, 0));
    }

    #[test]
    fn below_an_indirect_block_that_was_reached_all_is_done() {
        let reached = remains(5, 1, 1);
        assert!(is_done(reached, 5, 0, 2047) && is_done(reached, 5, 1, 0));
        assert!(!is_done(reached, 5, 1, 1) && !is_done(reached, 5, 0, 2048));
    }

    #[test]
    fn objects_are_done_in_order_and_blocks_of_dnodes_after_their_objects() {
        let reached = remains(40, 0, 0);
        assert!(is_done(reached, 39, 0, u64::MAX - 1) && is_done(reached, 0, 0, 0));
        assert!(!is_done(reached, 41, 0, 0) && !is_done(reached, 0, 0, 1) && !is_done(reached, 0, 1, 0));
        // Numbers of the accounting objects are the highest there are.
        assert!(!is_done(reached, u64::MAX, 0, 0));
        let at_dnodes = remains(0, 0, 1);
        assert!(is_done(at_dnodes, 63, 0, 0) && !is_done(at_dnodes, 64, 0, 0) && !is_done(at_dnodes, 0, 0, 1));
    }

    #[test]
    fn numbers_that_make_no_sense_are_the_end() {
        let reached = remains(5, i64::MAX, u64::MAX);
        assert!(is_done(reached, 5, 0, 7) && is_done(remains(0, -1, 0), 9, 0, 0));
    }
}
