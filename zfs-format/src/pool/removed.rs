//! Where the blocks of removed vdevs went: mappings and births, read from the MOS into the vdev tree.

use super::Mos;
use crate::FormatError;
use crate::block::{BlockReader, Work};
use crate::endian::OnDisk;
use crate::object::{ObjectError, ZapReader};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::indirect::{MAPPING_BIRTH_BYTES, MAPPING_ENTRY_BYTES, MappingBirth, MappingEntry, MappingHeader};
use crate::pool::mos::DIRECTORY_OBJECT;
use crate::vdev::{Layout, Mapping, VdevTree};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Entries of one mapping, 24 bytes each in memory.
const ENTRIES_MAX: u64 = 1 << 26;

/// A removed vdev whose mapping cannot be read.
#[derive(Debug)]
pub struct UnknownMapping {
    /// Its id.
    pub vdev: usize,
    /// Why.
    pub error: ObjectError,
}

/// Loads the mappings of all removed vdevs. Blocks of an older mapping may lie on a vdev that was removed later, so
/// the last removed vdev comes first.
///
/// Source: OpenZFS module/zfs/vdev_removal.c, `spa_remove_init`; module/zfs/spa.c,
/// `spa_ld_open_indirect_vdev_metadata`.
pub fn load_removed(tree: &mut VdevTree, root: &Blkptr, work: &mut Work) -> Vec<UnknownMapping> {
    let mut left: BTreeSet<usize> = (0..tree.tops.len()).filter(|&vdev| indirect(tree, vdev).is_some()).collect();
    let mut unknown = Vec::new();
    if left.is_empty() {
        return unknown;
    }
    let mut next = last_removed(tree, root, work);
    // Should the chain not name them all, the others follow from the highest number on.
    while let Some(vdev) = next.filter(|vdev| left.contains(vdev)).or_else(|| left.last().copied()) {
        left.remove(&vdev);
        next = None;
        let Some((mapping_object, births_object, previous)) = indirect(tree, vdev) else { continue };
        match load(tree, root, mapping_object, births_object, work) {
            Ok(mapping) => {
                if let Some(Layout::Indirect(indirect)) =
                    tree.tops.get_mut(vdev).and_then(Option::as_mut).map(|top| &mut top.layout)
                {
                    indirect.mapping = Some(Arc::new(mapping));
                }
            }
            Err(error) => unknown.push(UnknownMapping { vdev, error }),
        }
        next = previous.and_then(|previous| usize::try_from(previous).ok());
    }
    unknown
}

fn indirect(tree: &VdevTree, vdev: usize) -> Option<(u64, u64, Option<u64>)> {
    match &tree.tops.get(vdev)?.as_ref()?.layout {
        Layout::Indirect(indirect) => Some((indirect.mapping_object, indirect.births_object, indirect.previous)),
        _ => None,
    }
}

/// The vdev that was removed last: the third word of the MOS's `com.delphix:removing`.
fn last_removed(tree: &VdevTree, root: &Blkptr, work: &mut Work) -> Option<usize> {
    let mut mos = Mos::open(BlockReader::new(tree), root, work).ok()?;
    let mut directory = ZapReader::new(mos.objset.object(DIRECTORY_OBJECT, work).ok()?);
    let mut last = None;
    let read = directory.for_each(work, &mut |entry| {
        if entry.name == b"com.delphix:removing" {
            last = entry.u64s().nth(2);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    read.ok().and(last).and_then(|vdev| usize::try_from(vdev).ok())
}

fn load(tree: &VdevTree, root: &Blkptr, object: u64, births: u64, work: &mut Work) -> Result<Mapping, ObjectError> {
    let mut mos = Mos::open(BlockReader::new(tree), root, work).map_err(|_| ObjectError::NoObject { object })?;
    let mut mapping = Mapping::default();
    let format = |object, source| ObjectError::Format { object, source };
    let dnode = mos.objset.object(object, work)?.dnode;
    let header = MappingHeader::parse(&dnode.bonus, dnode.endian).map_err(|source| format(object, source))?;
    let disorder = |object| {
        let source = FormatError::bad_field("indirect mapping", "entry", 0, "behind the one before it");
        ObjectError::Format { object, source }
    };
    mos.records(object, header.entry_count, ENTRIES_MAX, MAPPING_ENTRY_BYTES, work, &mut |bytes, endian| {
        let entry = MappingEntry::parse(bytes, endian).map_err(|source| format(object, source))?;
        if mapping.push(&entry) { Ok(()) } else { Err(disorder(object)) }
    })?;
    let dnode = mos.objset.object(births, work)?.dnode;
    let count = dnode.endian.u64_at(&dnode.bonus, 0).unwrap_or(0);
    mos.records(births, count, ENTRIES_MAX, MAPPING_BIRTH_BYTES, work, &mut |bytes, endian| {
        let birth = MappingBirth::parse(bytes, endian).map_err(|source| format(births, source))?;
        if mapping.push_birth(&birth) { Ok(()) } else { Err(disorder(births)) }
    })?;
    Ok(mapping)
}
