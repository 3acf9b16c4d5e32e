//! What is still allocated though no dataset holds it: blocks to be freed, destroyed datasets, destroyed clones.

use super::walk::{Feed, Root, Walk};
use crate::finding::{Finding, Kind, OBJSET_DESTROYED, Place};
use zfs_format::block::Work;
use zfs_format::object::ObjectError;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::pool::Mos;

/// Visits all of it, in the order of `zdb`. `on_freed` hears of the blocks that are not read, since their pointers were
/// kept without checksum; `sectors` is more than the pool has blocks.
///
/// Source: OpenZFS cmd/zdb/zdb.c, `dump_block_stats`.
pub(super) fn visit<F: Feed>(
    walk: &mut Walk<'_, F>,
    mos: &mut Mos<'_>,
    sectors: u64,
    work: &mut Work,
    on_freed: &mut dyn FnMut(&Blkptr),
) {
    count_frees(walk, mos, sectors, work, on_freed);
    visit_destroyed(walk, mos, work);
    count_destroyed_clones(walk, mos, sectors, work, on_freed);
}

/// What cannot be read is found by the walk of the MOS; what makes no sense is not.
pub(super) fn report_nonsense<F: Feed>(walk: &Walk<'_, F>, what: &str, error: &ObjectError) {
    if let ObjectError::Format { object, .. } = error {
        let place = Place { objset: Some(0), object: Some(*object), ..Place::default() };
        walk.lost(Finding::new(Kind::MosObjectInvalid, place, format!("{what}: {error}")));
    }
}

/// Blocks that were freed but are still allocated. They count, and that is all.
fn count_frees<F: Feed>(
    walk: &mut Walk<'_, F>,
    mos: &mut Mos<'_>,
    sectors: u64,
    work: &mut Work,
    on_freed: &mut dyn FnMut(&Blkptr),
) {
    for key in ["sync_bplist", "free_bpobj"] {
        let Some(&object) = mos.directory.get(key) else { continue };
        let counted = mos.bpobj(object, sectors, work, &mut |bp| {
            if !bp.is_hole() {
                walk.count(bp);
                on_freed(bp);
            }
        });
        if let Err(error) = counted {
            report_nonsense(walk, key, &error);
        }
    }
}

/// The trees of destroyed datasets, as far as they are not freed: their blocks are verified like all others.
fn visit_destroyed<F: Feed>(walk: &mut Walk<'_, F>, mos: &mut Mos<'_>, work: &mut Work) {
    let Some(&object) = mos.directory.get("bptree_obj").filter(|&&object| object != 0) else { return };
    match mos.bptree(object, work) {
        Ok(trees) => {
            for tree in trees {
                walk.remains(Root { objset: OBJSET_DESTROYED, bp: tree.bp, min: tree.birth_txg }, tree.resume);
            }
        }
        Err(error) => report_nonsense(walk, "datasets waiting to be destroyed", &error),
    }
}

/// Blocks of destroyed clones, from their livelists.
fn count_destroyed_clones<F: Feed>(
    walk: &mut Walk<'_, F>,
    mos: &mut Mos<'_>,
    sectors: u64,
    work: &mut Work,
    on_freed: &mut dyn FnMut(&Blkptr),
) {
    let what = "clones waiting to be destroyed";
    let lists = match mos.deleted_clones(work) {
        Ok(lists) => lists,
        Err(error) => return report_nonsense(walk, what, &error),
    };
    let mut left = sectors;
    for list in lists {
        let counted = mos.livelist(list, &mut left, work, &mut |bp| {
            walk.count(bp);
            on_freed(bp);
        });
        if let Err(error) = counted {
            report_nonsense(walk, what, &error);
        }
    }
}
