//! Workers: read extents, check every copy in them, decode one.

use super::batch::{Batch, Extent, GAP_BYTES_MAX, GROUP_BYTES_MAX, Target, Task};
use super::crew::Permits;
use super::judge::{Shared, Suspect};
use super::queue::Queued;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, PoisonError};
use zfs_format::block::{BlockReader, Loaded, MacState, Windows, Work};
use zfs_format::codec::checksum::{SEVERAL_MAX, is_faster_together};
use zfs_format::media::{AlignedBuffer, ReadAt, whole_sectors};
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::CompressKind;
use zfs_format::ondisk::label::VDEV_LABEL_START_BYTES;

/// Buffers of one worker, reused from task to task.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    extent: AlignedBuffer,
    pub(super) windows: Windows,
    pub(super) work: Work,
}

/// Tasks above this size take turns, and their buffers are given back: with blocks of 16 MiB on many threads the
/// buffers would otherwise outgrow the budget.
pub(super) const SMALL_BYTES_MAX: u64 = 2 << 20;

/// How many large tasks may run at once.
#[derive(Debug)]
pub(super) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Turns {
    /// Turns for half of the memory, each for the buffers of one block of 16 MiB: as read, twice as payload, decoded.
    pub(super) fn new(memory_bytes: u64) -> Self {
        let turns = usize::try_from(memory_bytes / 2 / (64 << 20)).unwrap_or(usize::MAX).max(1);
        Self { free: Mutex::new(turns), freed: Condvar::new() }
    }

    /// Runs `task` when it is its turn.
    fn take(&self, task: impl FnOnce()) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let _turn = Turn(self);
        task();
    }
}

/// A turn that is given back when it ends, whichever way.
struct Turn<'t>(&'t Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Runs one task, when it is its turn.
pub(super) fn run(
    shared: &Shared<'_>,
    batch: &Batch,
    task: &Task,
    buffers: &mut Buffers,
    permits: &Permits,
    turns: &Turns,
) {
    let verify = |buffers: &mut Buffers| match *task {
        Task::Extent(extent) => verify_extent(shared, batch, extent, buffers, permits),
        Task::Group { first, end } => verify_group(shared, batch.singles_of(first, end), buffers, permits),
    };
    if batch.size_of(task) <= SMALL_BYTES_MAX {
        verify(buffers);
    } else {
        turns.take(|| verify(&mut Buffers::default()));
    }
}

/// Verifies blocks one by one, after what they need was read in long requests.
fn verify_group(
    shared: &Shared<'_>,
    blocks: impl Iterator<Item = Queued> + Clone,
    buffers: &mut Buffers,
    permits: &Permits,
) {
    let Buffers { windows, work, .. } = buffers;
    let bytes_max = usize::try_from(GROUP_BYTES_MAX).unwrap_or(usize::MAX);
    let pointers = blocks.clone().map(|block| block.bp);
    let loaded = windows.load(shared.reader.tree(), pointers, GAP_BYTES_MAX, bytes_max);
    shared.counters.add_loaded(&loaded);
    // What failed is read again block by block, and who waits for a device must not keep others from checking.
    let _permit = (loaded.failed == 0).then(|| permits.take());
    let shared = Shared { reader: shared.reader.with_windows(windows), ..*shared };
    for Queued { bp, bookmark } in blocks {
        if shared.is_given_up() {
            return;
        }
        shared.check_block(&bp, bookmark, work);
    }
}

fn verify_extent(shared: &Shared<'_>, batch: &Batch, extent: Extent, buffers: &mut Buffers, permits: &Permits) {
    let medium = shared.reader.tree().leaf(extent.leaf).and_then(|leaf| leaf.medium.as_ref());
    let Some(medium) = medium else { return };
    let start = extent.start_bytes.saturating_add(VDEV_LABEL_START_BYTES);
    let length = whole_sectors(medium.as_ref(), start, usize::try_from(extent.length_bytes).unwrap_or(0));
    let Buffers { extent: buffer, work, .. } = buffers;
    buffer.reserve(length);
    let bytes = buffer.bytes_mut().get_mut(..length).unwrap_or_default();
    let is_read = medium.read_extent(bytes, start).is_ok();
    let bytes: &[u8] = if is_read { bytes } else { &[] };
    let mut permit = is_read.then(|| permits.take());
    let (mut copies, mut copies_bytes) = (0, 0);
    let mut needed_end = extent.start_bytes;
    let mut skipped = 0;
    for targets in batch.targets_of(&extent).chunks(SEVERAL_MAX) {
        let known = several_match(&shared.reader, batch, &extent, targets, bytes);
        for (index, target) in targets.iter().enumerate() {
            let Some(Queued { bp, bookmark }) = batch.blocks.get(target.block as usize) else { continue };
            skipped += target.offset_bytes.saturating_sub(needed_end);
            needed_end = needed_end.max(target.offset_bytes.saturating_add(target.size_bytes.into()));
            let mut payload = bytes.get(range_in(&extent, target));
            // One bad sector must not hide its neighbours: without the extent each block is read by itself.
            let mut alone = Vec::new();
            if !is_read {
                alone.resize(target.size_bytes as usize, 0);
                let at = start.saturating_add(target.offset_bytes - extent.start_bytes);
                payload = medium.read_at(&mut alone, at).is_ok().then_some(&alone);
            }
            let is_right = payload.is_some_and(|payload| match known {
                Some(known) => known.get(index) == Some(&true),
                None => bp.check().is_ok() && matches!(shared.reader.payload_matches(&bp, payload), Ok(true)),
            });
            let decodes_here = extent.is_first_leaf && target.is_first;
            let decodes = |payload| !decodes_here || decode(shared, &bp, bookmark.objset, payload, work);
            let is_good = is_right && payload.is_some_and(decodes);
            if payload.is_some() {
                copies += 1;
                copies_bytes += u64::from(target.size_bytes);
            }
            if !is_good {
                // The close look reads; who waits for a device must not keep others from checking.
                drop(permit.take());
                let suspect = Suspect { copy: target.copy.into(), leaf: extent.leaf, decodes_here };
                shared.check_suspect(&bp, bookmark, suspect, work);
                permit = is_read.then(|| permits.take());
            }
            if extent.is_first_leaf {
                shared.progress.add_done(allocated(&bp, target));
            }
        }
    }
    drop(permit);
    let skipped_bytes = if is_read { skipped } else { 0 };
    let bytes = if is_read { extent.length_bytes } else { copies_bytes };
    shared.counters.add_loaded(&Loaded { requests: 1, failed: u64::from(!is_read), bytes, skipped_bytes });
    shared.counters.add_copies(extent.leaf, copies, copies_bytes);
}

fn allocated(bp: &Blkptr, target: &Target) -> u64 {
    bp.dva(target.copy.into()).map_or(0, |dva| dva.asize_bytes)
}

/// Where the bytes of a block lie in its extent.
fn range_in(extent: &Extent, target: &Target) -> Range<usize> {
    let at = usize::try_from(target.offset_bytes - extent.start_bytes).unwrap_or(usize::MAX);
    at..at.saturating_add(target.size_bytes as usize)
}

/// Whether the checksums of neighbours hold for sure, where they are computed together; `bytes` are those of the extent.
/// `None` where nothing is gained by that.
fn several_match(
    reader: &BlockReader<'_>,
    batch: &Batch,
    extent: &Extent,
    targets: &[Target],
    bytes: &[u8],
) -> Option<[bool; SEVERAL_MAX]> {
    let block = |target: &Target| batch.blocks.get(target.block as usize).map(|block| block.bp);
    let first = targets.first().and_then(block)?;
    if bytes.is_empty() || targets.len() < 2 || !is_faster_together(first.checksum_kind()) {
        return None;
    }
    let mut pointers = [Blkptr::default(); SEVERAL_MAX];
    let mut several = [None; SEVERAL_MAX];
    for ((target, pointer), place) in targets.iter().zip(&mut pointers).zip(&mut several) {
        *pointer = block(target)?;
        let payload = bytes.get(range_in(extent, target)).filter(|_| pointer.check().is_ok());
        *place = payload.map(|payload| (&*pointer, payload));
    }
    Some(reader.payloads_match(&several))
}

/// Decodes a block whose checksum holds, and counts it. False when a close look is needed.
fn decode(shared: &Shared<'_>, bp: &Blkptr, objset: u64, payload: &[u8], work: &mut Work) -> bool {
    let reader = shared.reader.of_objset(objset);
    if bp.checksum_kind().is_none() {
        shared.counters.unprotected_blocks.fetch_add(1, Relaxed);
    }
    if reader.lacks_key(bp) {
        shared.counters.encrypted_blocks.fetch_add(1, Relaxed);
        return true;
    }
    if !shared.options.decode {
        return true;
    }
    let is_decoded = if bp.is_protected() {
        matches!(reader.decode(bp, payload, work), Ok(MacState::Unchecked | MacState::Right))
    } else if bp.compress_kind() == CompressKind::OFF {
        bp.psize_bytes() >= bp.lsize_bytes()
    } else {
        work.decode(bp, payload).is_ok()
    };
    if is_decoded {
        shared.counters.decoded_blocks.fetch_add(1, Relaxed);
    } else {
        // The close look counts again; it does not succeed where this failed.
        shared.counters.unprotected_blocks.fetch_sub(u64::from(bp.checksum_kind().is_none()), Relaxed);
    }
    is_decoded
}
