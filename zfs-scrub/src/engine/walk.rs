//! The walk: from a root pointer to every block below it, without recursion.
//!
//! Blocks that lead to others (object sets, blocks of dnodes, indirect blocks) are verified here and now, every copy;
//! leaf blocks go to the queue. A pointer born no later than `min` belongs to an older snapshot and is passed over
//! with everything below it.

use super::judge::{Shared, place};
use super::queue::{Queue, Queued};
use super::remains::{Remains, Shape};
use super::sharing::Sharing;
use super::spared::SparedSpace;
use super::{Bookmark, level_matches};
use crate::finding::{BLOCK_SPILL, Finding, Kind};
use crate::outcome::Totals;
use zfs_format::block::Work;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::bptree::ResumePoint;
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::ondisk::dnode::{DNODE_SLOT_BYTES, Dnode, dnodes, indirect_blkptrs};
use zfs_format::ondisk::dsl::DslDataset;
use zfs_format::ondisk::objset::Objset;
use zfs_format::vdev::{TopVdev, VdevTree};
use zfs_format::{Endian, FormatError, Txg};

/// A dataset found while walking the MOS.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundDataset {
    /// Its object in the MOS: the number of its object set.
    pub(super) object: u64,
    /// Its root.
    pub(super) bp: Blkptr,
    pub(super) prev_snap_txg: Txg,
    pub(super) is_snapshot: bool,
}

/// A pointer waiting to be visited.
#[derive(Clone, Copy, Debug)]
struct Pending {
    bp: Blkptr,
    bookmark: Bookmark,
    /// log2 of the pointers in an indirect block of this object.
    shift: u32,
}

/// Where full batches go.
pub(super) trait Feed {
    /// Takes what the queue holds. Called when the queue is full.
    fn flush(&mut self, queue: &mut Queue);
}

/// A walk in progress.
pub(super) struct Walk<'a, F> {
    pub(super) shared: Shared<'a>,
    pub(super) queue: Queue,
    pub(super) feed: F,
    pub(super) totals: Totals,
    /// Blocks that several pointers lead to.
    pub(super) sharing: Sharing,
    /// Only what lies in this space, and what is below it, is visited; everything when there is none.
    spared: Option<&'a SparedSpace>,
    /// Datasets, in the order of their objects; only the walk of the MOS fills it.
    pub(super) datasets: Vec<FoundDataset>,
    work: Work,
    stack: Vec<Pending>,
    /// Blocks that lead to others may still take so much space; `None` once they took more than there is.
    parents_left_bytes: Option<u64>,
}

impl<'a, F: Feed> Walk<'a, F> {
    pub(super) fn new(
        shared: Shared<'a>,
        queue: Queue,
        feed: F,
        sharing: Sharing,
        spared: Option<&'a SparedSpace>,
    ) -> Self {
        Self {
            shared,
            queue,
            feed,
            totals: Totals::default(),
            sharing,
            spared,
            datasets: Vec::new(),
            work: Work::default(),
            stack: Vec::new(),
            parents_left_bytes: Some(capacity(shared.reader.tree())),
        }
    }

    /// Whether this is the walk of the newest state, and not of the checkpoint.
    pub(super) fn is_newest(&self) -> bool {
        self.spared.is_none()
    }

    /// Whether the log of a head is to be visited: a rewind to a checkpoint drops logs that were not claimed.
    pub(super) fn is_log_of(&self, header: &Objset) -> bool {
        self.is_newest() || header.zil_header.claim_txg != Txg(0)
    }

    /// Visits the tree below an object set's root pointer, the root included.
    ///
    /// Returns the header, when it could be read.
    pub(super) fn tree(&mut self, objset: u64, root: &Blkptr, min: Txg) -> Option<Objset> {
        self.remains(objset, root, min, None)
    }

    /// Visits what is left of a tree that is being destroyed: all of it, or what comes after the point that was reached.
    pub(super) fn remains(
        &mut self,
        objset: u64,
        root: &Blkptr,
        min: Txg,
        reached: Option<ResumePoint>,
    ) -> Option<Objset> {
        let bookmark = Bookmark::objset(objset);
        if !self.is_visited(root, bookmark, min) {
            return None;
        }
        self.count(root);
        if root.object_type() != ObjectType::OBJSET || root.level() != 0 {
            self.invalid(root, bookmark, &FormatError::bad_field("blkptr", "type", root.object_type().0.into(), "11"));
            return None;
        }
        if !self.is_room_for(root, bookmark) || !self.shared.check_block(root, bookmark, &mut self.work) {
            return None;
        }
        let header = match Objset::parse(self.work.plain(), root.endian()) {
            Ok(header) => header,
            Err(error) => {
                let message = format!("{error}; everything in it is out of reach");
                let finding = Finding {
                    hidden_blocks: root.fill_count(),
                    pointer: Some(*root),
                    ..Finding::new(Kind::ObjsetInvalid, place(root, bookmark), message)
                };
                self.lost(finding);
                return None;
            }
        };
        let accounting = [(-1_i64, &header.userused), (-2, &header.groupused), (-3, &header.projectused)];
        for (object, dnode) in accounting.into_iter().rev() {
            if let Some(dnode) = dnode {
                self.push_dnode(objset, object.cast_unsigned(), dnode);
            }
        }
        self.push_dnode(objset, 0, &header.meta_dnode);
        let remains = reached.map(|reached| Remains::new(reached, &header.meta_dnode));
        self.drain(min, remains.as_ref());
        Some(header)
    }

    /// The header of an object set that was visited from elsewhere, when it can be read.
    pub(super) fn header(&mut self, root: &Blkptr) -> Option<Objset> {
        if root.is_hole() || self.shared.reader.read(root, &mut self.work).is_err() {
            return None;
        }
        Objset::parse(self.work.plain(), root.endian()).ok()
    }

    /// Visits what is pending, depth first.
    fn drain(&mut self, min: Txg, remains: Option<&Remains>) {
        while let Some(pending) = self.stack.pop() {
            if self.shared.progress.is_cancelled() {
                self.stack.clear();
                return;
            }
            let Pending { bookmark, shift, .. } = pending;
            let shape = Shape { object: bookmark.object, level: bookmark.level.into(), blkid: bookmark.block, shift };
            if remains.is_none_or(|remains| !remains.is_done(shape)) {
                self.visit(pending, min);
            }
            if self.queue.is_full() {
                self.feed.flush(&mut self.queue);
            }
        }
    }

    fn visit(&mut self, Pending { bp, bookmark, shift }: Pending, min: Txg) {
        if !self.is_visited(&bp, bookmark, min) {
            return;
        }
        self.count(&bp);
        if !level_matches(bookmark, &bp) {
            let level = bp.level().into();
            let error = FormatError::bad_field("blkptr", "level", level, "one less than its parent's");
            self.invalid(&bp, bookmark, &error);
        } else if bp.is_embedded() {
            self.shared.check_block(&bp, bookmark, &mut self.work);
        } else if (bookmark.level > 0 || bookmark.object == 0) && !self.is_room_for(&bp, bookmark) {
            // Reported when the room ended.
        } else if bookmark.level > 0 {
            if self.shared.check_block(&bp, bookmark, &mut self.work) {
                push_children(&mut self.stack, self.work.plain(), &bp, bookmark, shift);
            }
        } else if bookmark.object == 0 {
            if self.shared.check_block(&bp, bookmark, &mut self.work) {
                self.dnode_block(&bp, bookmark);
            }
        } else if self.sharing.is_verified(&bp) {
            // Through another pointer.
        } else {
            self.queue.push(Queued { bp, bookmark });
        }
    }

    /// Adds a pointer to the totals.
    pub(super) fn count(&mut self, bp: &Blkptr) {
        self.sharing.count(&mut self.totals, bp);
    }

    /// Whether this walk is to visit the block, and what is below it.
    pub(super) fn is_in_reach(&self, bp: &Blkptr) -> bool {
        bp.is_embedded() || self.spared.is_none_or(|spared| spared.holds(bp))
    }

    /// Counts the space of a block that leads to others. Each of them is visited once, so together they fit the devices;
    /// in a pool where the same blocks stand in ever more places they do not, and the walk would not end.
    fn is_room_for(&mut self, bp: &Blkptr, bookmark: Bookmark) -> bool {
        let Some(left) = self.parents_left_bytes else { return false };
        self.parents_left_bytes = left.checked_sub(bp.asize_bytes());
        if self.parents_left_bytes.is_none() {
            let message = "metadata visited so far is larger than the pool: the same blocks stand in many places; \
                           the walk goes down no further";
            let finding = Finding {
                hidden_blocks: bp.fill_count(),
                pointer: Some(*bp),
                ..Finding::new(Kind::PointerInvalid, place(bp, bookmark), message)
            };
            self.lost(finding);
        }
        self.parents_left_bytes.is_some()
    }

    /// Whether a pointer is to be counted and followed; an impossible one is reported and is not.
    fn is_visited(&mut self, bp: &Blkptr, bookmark: Bookmark, min: Txg) -> bool {
        let is_older = bp.logical_birth_txg().0 != 0 && bp.birth_txg() <= min;
        if bp.is_hole() || bp.is_redacted() || is_older || !self.is_in_reach(bp) {
            return false;
        }
        if let Err(error) = bp.check() {
            self.invalid(bp, bookmark, &error);
            return false;
        }
        true
    }

    fn invalid(&mut self, bp: &Blkptr, bookmark: Bookmark, error: &FormatError) {
        let finding = Finding {
            pointer: Some(*bp),
            ..Finding::new(Kind::PointerInvalid, place(bp, bookmark), error.to_string())
        };
        self.lost(finding);
    }

    /// Reports something that hides objects, if it hides anything.
    pub(super) fn lost(&self, finding: Finding) {
        use std::sync::atomic::Ordering::Relaxed;
        self.shared.counters.lost_blocks.fetch_add(1, Relaxed);
        self.shared.counters.hidden_objects.fetch_add(finding.hidden_blocks, Relaxed);
        self.shared.progress.add_bad_block();
        self.shared.sink.push(finding);
    }

    /// Looks at the dnodes of a block that was just verified.
    fn dnode_block(&mut self, bp: &Blkptr, bookmark: Bookmark) {
        let plain = std::mem::take(&mut self.work);
        let endian = bp.endian();
        let per_block = (plain.plain().len() / DNODE_SLOT_BYTES) as u64;
        let first = bookmark.block.saturating_mul(per_block);
        // Pushed in reverse so that the first object is visited first.
        let before = self.stack.len();
        for found in dnodes(plain.plain(), endian) {
            let object = first.saturating_add(found.slot as u64);
            match found.dnode {
                Ok(dnode) => {
                    self.push_dnode(bookmark.objset, object, &dnode);
                    if bookmark.objset == 0 && dnode.bonus_type == ObjectType::DSL_DATASET {
                        self.dataset(object, dnode.bonus(found.slots), endian);
                    }
                }
                Err(error) => self.invalid_dnode(bp, bookmark, object, &error),
            }
        }
        if let Some(pushed) = self.stack.get_mut(before..) {
            pushed.reverse();
        }
        self.work = plain;
    }

    fn invalid_dnode(&mut self, bp: &Blkptr, bookmark: Bookmark, object: u64, error: &FormatError) {
        let mut place = place(bp, bookmark);
        place.object = Some(object);
        place.block = None;
        place.level = None;
        place.object_type = None;
        self.lost(Finding::new(Kind::DnodeInvalid, place, format!("object {object}: {error}")));
    }

    fn dataset(&mut self, object: u64, bonus: &[u8], endian: Endian) {
        use zfs_format::endian::OnDisk;
        match DslDataset::parse(bonus, endian) {
            Ok(dataset) => self.datasets.push(FoundDataset {
                object,
                bp: dataset.bp,
                prev_snap_txg: dataset.prev_snap_txg,
                is_snapshot: dataset.is_snapshot(),
            }),
            Err(error) => {
                let place = crate::finding::Place {
                    objset: Some(0),
                    object: Some(object),
                    object_type: Some(ObjectType::DSL_DATASET),
                    ..Default::default()
                };
                let message = format!("dataset {object}: {error}; it was not checked");
                self.lost(Finding::new(Kind::MosObjectInvalid, place, message));
            }
        }
    }

    /// Pushes the pointers of a dnode. The order does not matter here: the caller reverses.
    fn push_dnode(&mut self, objset: u64, object: u64, dnode: &Dnode) {
        let shift = u32::from(dnode.pointers_per_indirect_shift());
        let level = i8::try_from(dnode.nlevels.saturating_sub(1)).unwrap_or(i8::MAX);
        for (index, bp) in dnode.blkptrs().iter().enumerate() {
            if !bp.is_hole() {
                let bookmark = Bookmark { objset, object, level, block: index as u64 };
                self.stack.push(Pending { bp: *bp, bookmark, shift });
            }
        }
        if let Some(bp) = dnode.spill.filter(|bp| !bp.is_hole()) {
            let bookmark = Bookmark { objset, object, level: 0, block: BLOCK_SPILL };
            self.stack.push(Pending { bp, bookmark, shift });
        }
    }
}

/// Bytes that all vdevs together can allocate; no limit where one does not say.
fn capacity(tree: &VdevTree) -> u64 {
    let of_top = |top: &Option<TopVdev>| top.as_ref().map_or(0, |top| top.asize_bytes);
    let sizes: Vec<u64> = tree.tops.iter().map(of_top).collect();
    if sizes.contains(&0) { u64::MAX } else { sizes.into_iter().fold(0, u64::saturating_add) }
}

/// Pushes the pointers of an indirect block so that the first is visited first.
fn push_children(stack: &mut Vec<Pending>, plain: &[u8], bp: &Blkptr, bookmark: Bookmark, shift: u32) {
    let pointers = indirect_blkptrs(plain, bp.endian());
    for (index, child) in pointers.enumerate().collect::<Vec<_>>().into_iter().rev() {
        if !child.is_hole() {
            stack.push(Pending { bp: child, bookmark: bookmark.child(index as u64, shift), shift });
        }
    }
}
