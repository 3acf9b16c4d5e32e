//! Reads what waits to be freed: trees of destroyed datasets, livelists of destroyed clones.

use super::Mos;
use crate::FormatError;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::{ObjectError, ObjectReader};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::bpobj::BpobjHeader;
use crate::ondisk::bptree::{BPTREE_ENTRY_BYTES, BptreeEntry, BptreeHeader};
use crate::ondisk::dnode::indirect_blkptrs;
use std::collections::BTreeMap;

/// More datasets than were ever destroyed at once.
const TREES_MAX: u64 = 1 << 17;
/// More frees than one list of a livelist has: OpenZFS starts a new one at 500,000 entries (`zfs_livelist_max_entries`).
const FREES_MAX: usize = 1 << 20;

impl Mos<'_> {
    /// The trees of destroyed datasets that are not freed yet, or not wholly.
    ///
    /// # Errors
    /// [`ObjectError`] when the queue cannot be read or makes no sense.
    ///
    /// Source: OpenZFS module/zfs/bptree.c, `bptree_iterate`.
    pub fn bptree(&mut self, object: u64, work: &mut Work) -> Result<Vec<BptreeEntry>, ObjectError> {
        let format = |source| ObjectError::Format { object, source };
        let mut reader = self.objset.object(object, work)?;
        let header = BptreeHeader::parse(&reader.dnode.bonus, reader.dnode.endian).map_err(format)?;
        if header.end.saturating_sub(header.begin) > TREES_MAX {
            return Err(format(FormatError::bad_field("bptree", "end", header.end, "a number of datasets")));
        }
        let mut entries = Vec::new();
        let mut bytes = Vec::with_capacity(BPTREE_ENTRY_BYTES);
        for index in header.begin..header.end {
            let start = index.checked_mul(BPTREE_ENTRY_BYTES as u64);
            let start = start.ok_or_else(|| format(FormatError::bad_field("bptree", "begin", index, "less")))?;
            let endian = read_range(&mut reader, start, BPTREE_ENTRY_BYTES, &mut bytes, work)?;
            entries.push(BptreeEntry::parse(&bytes, endian).map_err(format)?);
        }
        Ok(entries)
    }

    /// The lists of blocks of destroyed clones: the livelist objects.
    ///
    /// # Errors
    /// [`ObjectError`] when the ZAP that names them cannot be read.
    ///
    /// Source: OpenZFS module/zfs/dsl_destroy.c, `dsl_async_clone_destroy`.
    pub fn deleted_clones(&mut self, work: &mut Work) -> Result<Vec<u64>, ObjectError> {
        match self.directory.get("com.delphix:deleted_clones").copied() {
            Some(object) if object != 0 => Ok(self.zap_u64(object, work)?.into_values().collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Hands each pointer of a livelist that is still allocated to `each`: a block that was freed stands in the list
    /// twice, as an allocation and, later, as a free.
    ///
    /// `pointers_left` is lowered by the number of pointers read.
    ///
    /// # Errors
    /// [`ObjectError`] when a part cannot be read, or there are more pointers; what was read before was handed over.
    ///
    /// Source: OpenZFS module/zfs/dsl_deadlist.c, `dsl_process_sub_livelist`.
    pub fn livelist(
        &mut self,
        object: u64,
        pointers_left: &mut u64,
        work: &mut Work,
        each: &mut dyn FnMut(&Blkptr),
    ) -> Result<(), ObjectError> {
        for (_, sublist) in self.zap_u64(object, work)? {
            let mut reader = self.objset.object(sublist, work)?;
            let format = |source| ObjectError::Format { object: sublist, source };
            let header = BpobjHeader::parse(&reader.dnode.bonus, reader.dnode.endian).map_err(format)?;
            let expected = "no more than the pool has room for";
            let too_many = FormatError::bad_field("livelist", "blkptr count", header.blkptr_count, expected);
            *pointers_left = pointers_left.checked_sub(header.blkptr_count).ok_or_else(|| format(too_many))?;
            read_sublist(&mut reader, header.blkptr_count, work, each)?;
        }
        Ok(())
    }
}

/// Reads one list from its end, where frees come before their allocations.
fn read_sublist(
    reader: &mut ObjectReader<'_>,
    count: u64,
    work: &mut Work,
    each: &mut dyn FnMut(&Blkptr),
) -> Result<(), ObjectError> {
    let mut freed: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let per_block = (reader.block_bytes() / crate::ondisk::blkptr::BLKPTR_BYTES as u64).max(1);
    for blkid in (0..count.div_ceil(per_block)).rev() {
        let in_block = usize::try_from(count.saturating_sub(blkid * per_block).min(per_block)).unwrap_or(0);
        let Some(endian) = reader.read_block(blkid, work)? else {
            let source = FormatError::bad_field("livelist", "blkptr count", count, "as many as the object holds");
            return Err(ObjectError::Format { object: reader.object, source });
        };
        let pointers: Vec<Blkptr> = indirect_blkptrs(work.plain(), endian).take(in_block).collect();
        for bp in pointers.iter().rev() {
            let Some(dva) = bp.dva(0) else { continue };
            let address = (dva.vdev, dva.offset_bytes);
            // Bit 0 of the fill says that an entry is a free.
            if bp.fill_count() & 1 == 1 {
                if freed.len() >= FREES_MAX {
                    let source = FormatError::bad_field("livelist", "frees", FREES_MAX as u64, "fewer");
                    return Err(ObjectError::Format { object: reader.object, source });
                }
                *freed.entry(address).or_default() += 1;
            } else if let Some(left) = freed.get_mut(&address) {
                *left -= 1;
                if *left == 0 {
                    freed.remove(&address);
                }
            } else {
                each(bp);
            }
        }
    }
    Ok(())
}

/// Reads `length` bytes at `start`, which may lie in two blocks.
fn read_range(
    reader: &mut ObjectReader<'_>,
    start: u64,
    length: usize,
    out: &mut Vec<u8>,
    work: &mut Work,
) -> Result<crate::Endian, ObjectError> {
    out.clear();
    let block_bytes = reader.block_bytes();
    loop {
        let at = start.saturating_add(out.len() as u64);
        let (blkid, skip) = (at / block_bytes, usize::try_from(at % block_bytes).unwrap_or(usize::MAX));
        let Some(endian) = reader.read_block(blkid, work)? else {
            let source = FormatError::bad_field("bptree", "end", blkid, "an entry that exists");
            return Err(ObjectError::Format { object: reader.object, source });
        };
        let found = work.plain().get(skip..).unwrap_or_default();
        out.extend_from_slice(found.get(..length - out.len()).unwrap_or(found));
        if out.len() == length {
            return Ok(endian);
        }
        if found.is_empty() {
            let source = FormatError::Truncated { what: "bptree", need: length, have: out.len() };
            return Err(ObjectError::Format { object: reader.object, source });
        }
    }
}
