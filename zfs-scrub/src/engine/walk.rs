//! The walk: from root pointers to every block below them, without recursion.
//!
//! Blocks that lead to others (object sets, blocks of dnodes, indirect blocks) are verified in waves, every copy of them;
//! leaf blocks go to the queue. A pointer born no later than `min` belongs to an older snapshot and is passed over with
//! everything below it.

use super::judge::{Shared, place};
use super::queue::{Queue, Queued};
use super::remains::{Remains, Shape};
use super::sharing::Sharing;
use super::spared::SparedSpace;
use super::verify::Buffers;
use super::wave::{self, Wave};
use super::{Bookmark, level_matches};
use crate::finding::{BLOCK_SPILL, Finding, Kind, LEVEL_OBJSET, Severity};
use crate::outcome::{IntentLogFacts, Totals};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zfs_format::block::Work;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::bptree::ResumePoint;
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::ondisk::dnode::{DNODE_SLOT_BYTES, Dnode, dnodes, indirect_blkptrs};
use zfs_format::ondisk::dsl::DslDataset;
use zfs_format::ondisk::objset::Objset;
use zfs_format::ondisk::zil::ZilHeader;
use zfs_format::vdev::{TopVdev, VdevTree};
use zfs_format::{Endian, FormatError, ObjectId, Txg};

/// A dataset found while walking the MOS.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundDataset {
    /// Its object in the MOS: the number of its object set.
    pub(super) object: u64,
    /// Its root.
    pub(super) bp: Blkptr,
    pub(super) prev_snap: Option<ObjectId>,
    pub(super) prev_snap_txg: Txg,
    pub(super) creation_txg: Txg,
    pub(super) is_snapshot: bool,
}

/// A pointer waiting to be visited, in the order of the tree.
#[derive(Debug)]
struct Pending {
    block: Located,
    content: Content,
}

/// What is known of the content of a block that leads to others. Leaf blocks go to the queue without it.
#[derive(Debug)]
enum Content {
    Unread,
    Read(Vec<u8>),
    Lost,
}

/// A pointer, and where in the pool it stands.
#[derive(Clone, Copy, Debug)]
struct Located {
    bp: Blkptr,
    bookmark: Bookmark,
    /// log2 of the pointers in an indirect block of this object.
    shift: u32,
    min: Txg,
}

/// Leaf blocks that were not asked for, and the space they take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    /// Data, when only metadata is wanted.
    pub(super) data: (u64, u64),
    /// Blocks outside of a slice or a sample.
    pub(super) share: (u64, u64),
}

/// A tree to walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub(super) objset: u64,
    pub(super) bp: Blkptr,
    pub(super) min: Txg,
}

/// Where blocks go.
pub(super) trait Feed {
    /// Takes leaf blocks off the queue, which is full; all of them when it `is_last`.
    fn flush(&mut self, queue: &mut Queue, is_last: bool);

    /// Verifies blocks that lead to others.
    fn verify(&mut self, shared: Shared<'_>, wave: &Arc<Wave>, buffers: &mut Buffers) {
        while wave.work(shared, buffers) {}
    }
}

/// Blocks that were read ahead take at most a 32nd of the memory, unless one alone is larger.
const WAVE_SHARE: u64 = 32;
/// With more pointers pending than this, nothing is read ahead, so that their number hardly grows.
const PENDING_MAX: usize = 1 << 16;
/// Memory of a decoded block that is used again: that of the largest indirect blocks there are.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// How far ahead blocks are looked for that lead to others.
const AHEAD_MAX: usize = 1 << 12;

impl Located {
    /// Whether nothing lies below the block.
    fn is_leaf(&self) -> bool {
        let Bookmark { object, level, .. } = self.bookmark;
        level == 0 && object != 0
    }
}

/// A walk in progress.
pub(super) struct Walk<'a, F> {
    pub(super) shared: Shared<'a>,
    pub(super) queue: Queue,
    pub(super) feed: F,
    pub(super) totals: Totals,
    pub(super) left_out: LeftOut,
    /// The txg of the state: nothing in it is newer.
    pub(super) txg: Txg,
    /// Blocks that several pointers lead to.
    pub(super) sharing: Sharing,
    /// Only what lies in this space, and what is below it, is visited; everything when there is none.
    spared: Option<&'a SparedSpace>,
    /// Datasets, in the order of their objects; only the walk of the MOS fills it.
    pub(super) datasets: Vec<FoundDataset>,
    /// The intent logs' headers of the object sets that were visited last, by number.
    headers: BTreeMap<u64, ZilHeader>,
    /// Intent logs that wait for replay.
    pub(super) logs: Vec<IntentLogFacts>,
    work: Work,
    buffers: Buffers,
    /// Memory of decoded blocks, used again.
    memory: Vec<Vec<u8>>,
    /// What is to be visited, the next one last.
    stack: Vec<Pending>,
    /// What was just found, the next one first.
    found: Vec<Pending>,
    /// Bytes of blocks that were read ahead.
    held_bytes: u64,
    /// Where the destruction of the tree being visited has come to, before and after its object set was read.
    reached: Option<ResumePoint>,
    remains: Option<Remains>,
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
            left_out: LeftOut::default(),
            txg: Txg(u64::MAX),
            sharing,
            spared,
            datasets: Vec::new(),
            headers: BTreeMap::new(),
            logs: Vec::new(),
            work: Work::default(),
            buffers: Buffers::default(),
            memory: Vec::new(),
            stack: Vec::new(),
            found: Vec::new(),
            held_bytes: 0,
            reached: None,
            remains: None,
            parents_left_bytes: Some(capacity(shared.reader.tree())),
        }
    }

    /// Whether this is the walk of the newest state, and not of the checkpoint.
    pub(super) fn is_newest(&self) -> bool {
        self.spared.is_none()
    }

    /// Whether the log of a head is to be visited: a rewind to a checkpoint drops logs that were not claimed.
    pub(super) fn is_log_of(&self, header: &ZilHeader) -> bool {
        self.is_newest() || header.claim_txg != Txg(0)
    }

    /// Visits the trees below root pointers, the roots included.
    pub(super) fn trees(&mut self, roots: impl IntoIterator<Item = Root>) {
        self.headers.clear();
        for Root { objset, bp, min } in roots {
            let min = self.believed(objset, min);
            let min = if objset == 0 { min } else { min.max(self.since()) };
            self.pointer(Located { bp, bookmark: Bookmark::objset(objset), shift: 0, min });
        }
        self.drain();
    }

    /// A txg after that of the pool's state would hide a whole dataset, and is none that a snapshot can have.
    fn believed(&self, objset: u64, min: Txg) -> Txg {
        if min <= self.txg {
            return min;
        }
        let place = crate::finding::Place {
            objset: Some(0),
            object: Some(objset),
            object_type: Some(ObjectType::DSL_DATASET),
            ..Default::default()
        };
        let message = format!(
            "dataset {objset}: its previous snapshot is of txg {min}, after that of the pool ({}); all its blocks were \
             visited, those of earlier snapshots again",
            self.txg
        );
        self.lost(Finding::new(Kind::MosObjectInvalid, place, message));
        Txg(0)
    }

    /// Visits what is left of a tree that is being destroyed: all of it, or what comes after the point that was reached.
    pub(super) fn remains(&mut self, root: Root, reached: Option<ResumePoint>) {
        self.reached = reached;
        self.trees([root]);
        (self.reached, self.remains) = (None, None);
    }

    /// The header of the intent log of an object set that was just visited, or was visited from elsewhere before.
    pub(super) fn log_of(&mut self, root: &Root) -> Option<ZilHeader> {
        self.headers.remove(&root.objset).or_else(|| self.header(&root.bp).map(|header| header.zil_header))
    }

    /// The header of an object set that was visited from elsewhere, when it can be read.
    fn header(&mut self, root: &Blkptr) -> Option<Objset> {
        if root.is_hole() || self.shared.reader.read(root, &mut self.work).is_err() {
            return None;
        }
        Objset::parse(self.work.plain(), root.endian()).ok()
    }

    /// Visits what is pending, in the order of the tree. Blocks that lead to others are read ahead.
    fn drain(&mut self) {
        self.stack.extend(self.found.drain(..).rev());
        while let Some(Pending { block, content }) = self.stack.pop() {
            if self.shared.progress.is_cancelled() {
                self.stack.clear();
                self.held_bytes = 0;
                return;
            }
            match content {
                Content::Unread if block.is_leaf() => self.leaf(&block),
                Content::Unread => {
                    self.stack.push(Pending { block, content });
                    self.read_ahead();
                }
                Content::Read(plain) => {
                    self.held_bytes = self.held_bytes.saturating_sub(plain.len() as u64);
                    self.children(&block, &plain);
                    // A few huge blocks must not leave memory behind that nobody needs.
                    if plain.capacity() <= KEPT_BYTES_MAX {
                        self.memory.push(plain);
                    }
                    self.stack.extend(self.found.drain(..).rev());
                }
                Content::Lost => {}
            }
        }
    }

    /// Verifies the next block that leads to others, and those after it, as many as memory allows.
    fn read_ahead(&mut self) {
        let blocks_max = if self.stack.len() > PENDING_MAX { 1 } else { wave::BLOCKS_MAX };
        let bytes_max = self.shared.options.memory_bytes / WAVE_SHARE;
        let mut chosen: Vec<usize> = Vec::with_capacity(blocks_max);
        let mut bytes = self.held_bytes;
        for index in (0..self.stack.len()).rev().take(AHEAD_MAX) {
            let Some(Pending { block, content: Content::Unread }) = self.stack.get(index) else { continue };
            let block = *block;
            if block.is_leaf() {
                continue;
            }
            bytes = bytes.saturating_add(wave::held(&block.bp));
            if !chosen.is_empty() && (chosen.len() >= blocks_max || bytes > bytes_max) {
                break;
            }
            // That there is no room was reported when it ended.
            if self.is_room_for(&block.bp, block.bookmark) {
                chosen.push(index);
            } else if let Some(pending) = self.stack.get_mut(index) {
                pending.content = Content::Lost;
            }
        }
        let queued = |&index: &usize| {
            let Located { bp, bookmark, .. } = self.stack.get(index)?.block;
            Some(Queued { bp, bookmark })
        };
        let blocks = chosen.iter().filter_map(queued).collect();
        let wave = Arc::new(Wave::new(blocks, &mut self.memory, self.shared.reader.tree()));
        self.feed.verify(self.shared, &wave, &mut self.buffers);
        for (index, plain) in chosen.into_iter().zip(wave.take_results()) {
            let Some(pending) = self.stack.get_mut(index) else { continue };
            self.held_bytes += plain.as_ref().map_or(0, Vec::len) as u64;
            pending.content = plain.map_or(Content::Lost, Content::Read);
        }
    }

    /// Visits the pointers in a block that was just verified.
    fn children(&mut self, parent: &Located, plain: &[u8]) {
        let &Located { bp, bookmark, shift, min } = parent;
        if bookmark.level == LEVEL_OBJSET {
            self.objset(parent, plain);
        } else if bookmark.level > 0 {
            for (index, child) in indirect_blkptrs(plain, bp.endian()).enumerate() {
                self.pointer(Located { bp: child, bookmark: bookmark.child(index as u64, shift), shift, min });
            }
        } else {
            self.dnode_block(parent, plain);
        }
    }

    fn objset(&mut self, parent: &Located, plain: &[u8]) {
        let &Located { bp, bookmark, min, .. } = parent;
        let header = match Objset::parse(plain, bp.endian()) {
            Ok(header) => header,
            Err(error) => {
                let message = format!("{error}; everything in it is out of reach");
                let finding = Finding {
                    hidden_blocks: bp.fill_count(),
                    pointer: Some(bp),
                    ..Finding::new(Kind::ObjsetInvalid, place(&bp, bookmark), message)
                };
                return self.lost(finding);
            }
        };
        self.remains = self.reached.take().map(|reached| Remains::new(reached, &header.meta_dnode));
        self.dnode(bookmark.objset, 0, &header.meta_dnode, min);
        let accounting = [(-1_i64, &header.userused), (-2, &header.groupused), (-3, &header.projectused)];
        for (object, dnode) in accounting {
            if let Some(dnode) = dnode {
                self.dnode(bookmark.objset, object.cast_unsigned(), dnode, min);
            }
        }
        self.headers.insert(bookmark.objset, header.zil_header);
    }

    /// Looks at a pointer: reports an impossible one, and keeps one that is to be visited for its turn.
    fn pointer(&mut self, located: Located) {
        let Located { bp, bookmark, shift, min } = located;
        let Bookmark { object, level, block, .. } = bookmark;
        let shape = || Shape { object, level: level.into(), blkid: block, shift };
        if bp.is_hole() || self.remains.as_ref().is_some_and(|remains| remains.is_done(shape())) {
            return;
        }
        if !self.is_visited(&bp, bookmark, min) {
            return;
        }
        if level == LEVEL_OBJSET && (bp.object_type() != ObjectType::OBJSET || bp.level() != 0) {
            self.count(&bp);
            self.invalid(&bp, bookmark, &FormatError::bad_field("blkptr", "type", bp.object_type().0.into(), "11"));
        } else if !level_matches(bookmark, &bp) {
            self.count(&bp);
            let level = bp.level().into();
            let error = FormatError::bad_field("blkptr", "level", level, "one less than its parent's");
            self.invalid(&bp, bookmark, &error);
        } else if bp.is_embedded() {
            self.count(&bp);
            self.shared.check_block(&bp, bookmark, &mut self.work);
        } else if located.is_leaf() && self.found.is_empty() {
            self.leaf(&located);
        } else {
            if !located.is_leaf() {
                self.count(&bp);
            }
            // What comes after a block that leads to others waits until all below that was visited.
            self.found.push(Pending { block: located, content: Content::Unread });
        }
    }

    /// Visits a leaf block.
    fn leaf(&mut self, &Located { bp, bookmark, .. }: &Located) {
        self.count(&bp);
        // Unless it was not asked for, or was verified through another pointer.
        if self.is_left_out(&bp) || self.sharing.is_verified(&bp) {
            return;
        }
        self.enqueue(&Queued { bp, bookmark });
    }

    /// Puts a leaf block into the queue, and gives blocks away when that is full.
    pub(super) fn enqueue(&mut self, block: &Queued) {
        self.shared.counters.leaf_blocks.fetch_add(1, Relaxed);
        self.queue.push(block);
        if self.queue.is_full() {
            self.feed.flush(&mut self.queue, false);
        }
    }

    /// Visits one object of an object set, but not the block that describes it.
    pub(super) fn object(&mut self, objset: u64, object: u64, dnode: &Dnode) {
        self.dnode(objset, object, dnode, self.since());
        self.drain();
    }

    /// The txg up to which nothing was asked for.
    fn since(&self) -> Txg {
        Txg(self.shared.options.scope.since_txg.unwrap_or(0))
    }

    /// Whether a leaf block is outside of what was asked for; those that are get counted.
    fn is_left_out(&mut self, bp: &Blkptr) -> bool {
        let scope = &self.shared.options.scope;
        let counted = if scope.metadata_only && !bp.object_type().is_metadata() {
            &mut self.left_out.data
        } else if scope.share.is_some_and(|share| !share.holds(bp)) {
            &mut self.left_out.share
        } else {
            return false;
        };
        counted.0 += 1;
        counted.1 = counted.1.saturating_add(bp.asize_bytes());
        self.shared.progress.add_done(bp.asize_bytes());
        true
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
        self.shared.counters.lost_blocks.fetch_add(1, Relaxed);
        self.shared.counters.hidden_objects.fetch_add(finding.hidden_blocks, Relaxed);
        self.shared.progress.add_bad_block();
        if finding.severity == Severity::Damaged {
            self.shared.stop_at_damage();
        }
        self.shared.sink.push(finding);
    }

    /// Looks at the dnodes of a block that was just verified.
    fn dnode_block(&mut self, parent: &Located, plain: &[u8]) {
        let &Located { bp, bookmark, min, .. } = parent;
        let endian = bp.endian();
        let per_block = (plain.len() / DNODE_SLOT_BYTES) as u64;
        let first = bookmark.block.saturating_mul(per_block);
        for found in dnodes(plain, endian) {
            let object = first.saturating_add(found.slot as u64);
            match found.dnode {
                Ok(dnode) => {
                    self.dnode(bookmark.objset, object, &dnode, min);
                    if bookmark.objset == 0 && dnode.bonus_type == ObjectType::DSL_DATASET {
                        self.dataset(object, dnode.bonus(found.slots), endian);
                    }
                }
                Err(error) => self.invalid_dnode(&bp, bookmark, object, &error),
            }
        }
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
                prev_snap: dataset.prev_snap,
                prev_snap_txg: dataset.prev_snap_txg,
                creation_txg: dataset.creation_txg,
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

    /// Visits the pointers of a dnode.
    fn dnode(&mut self, objset: u64, object: u64, dnode: &Dnode, min: Txg) {
        let shift = u32::from(dnode.pointers_per_indirect_shift());
        let level = i8::try_from(dnode.nlevels.saturating_sub(1)).unwrap_or(i8::MAX);
        for (index, &bp) in dnode.blkptrs().iter().enumerate() {
            let bookmark = Bookmark { objset, object, level, block: index as u64 };
            self.pointer(Located { bp, bookmark, shift, min });
        }
        if let Some(bp) = dnode.spill {
            let bookmark = Bookmark { objset, object, level: 0, block: BLOCK_SPILL };
            self.pointer(Located { bp, bookmark, shift, min });
        }
    }
}

/// Bytes that all vdevs together can allocate; no limit where one does not say.
fn capacity(tree: &VdevTree) -> u64 {
    let of_top = |top: &Option<TopVdev>| top.as_ref().map_or(0, |top| top.asize_bytes);
    let sizes: Vec<u64> = tree.tops.iter().map(of_top).collect();
    if sizes.contains(&0) { u64::MAX } else { sizes.into_iter().fold(0, u64::saturating_add) }
}
