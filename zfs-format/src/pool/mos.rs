//! The meta object set: the pool's directory, configuration, features and space.

use crate::block::{BlockReader, Work};
use crate::endian::OnDisk;
use crate::object::{ObjectError, ObjectReader, ObjsetError, ObjsetReader, ZapReader};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::bpobj::BpobjHeader;
use crate::ondisk::dnode::indirect_blkptrs;
use crate::ondisk::nvlist::NvList;
use crate::ondisk::space_map::{SpaceMapAction, SpaceMapEntry, SpaceMapHeader, entries};
use crate::vdev::{TxgRanges, VdevTree};
use crate::{Endian, FormatError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The object directory (`DMU_POOL_DIRECTORY_OBJECT`).
pub(super) const DIRECTORY_OBJECT: u64 = 1;
/// Larger packed nvlists than any real pool has.
const NVLIST_BYTES_MAX: u64 = 64 << 20;
/// Space maps in all; OpenZFS aims at 200 for a top-level vdev and stops at 131,072.
const METASLABS_MAX: u64 = 1 << 20;
/// More than any dirty time log has: they are condensed to a few ranges.
const DTL_BYTES_MAX: u64 = 16 << 20;
/// Lists below one bpobj.
const SUBOBJS_MAX: usize = 1 << 20;

/// Why the MOS cannot be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MosError {
    /// Its object set cannot be read.
    #[error("the root of the pool: {0}")]
    Root(#[source] ObjsetError),
    /// Its object directory cannot be read.
    #[error("the object directory: {0}")]
    Directory(#[source] ObjectError),
}

/// Takes one record and its byte order, or refuses it.
pub(super) type OnRecord<'a> = &'a mut dyn FnMut(&[u8], Endian) -> Result<(), ObjectError>;

/// An open MOS.
#[derive(Debug)]
pub struct Mos<'a> {
    /// The object set.
    pub objset: ObjsetReader<'a>,
    /// The object directory: name to value (the first integer of the entry).
    pub directory: BTreeMap<String, u64>,
}

impl<'a> Mos<'a> {
    /// Opens the MOS at the root block pointer of an uberblock.
    ///
    /// # Errors
    /// [`MosError`] when the object set or its directory cannot be read.
    pub fn open(blocks: BlockReader<'a>, root: &Blkptr, work: &mut Work) -> Result<Self, MosError> {
        let objset = ObjsetReader::open(blocks, root, work).map_err(MosError::Root)?;
        let mut mos = Self { objset, directory: BTreeMap::new() };
        mos.directory = mos.zap_u64(DIRECTORY_OBJECT, work).map_err(MosError::Directory)?;
        Ok(mos)
    }

    /// All entries of a ZAP with integer values: name to first integer.
    ///
    /// # Errors
    /// [`ObjectError`] when the object cannot be read.
    pub fn zap_u64(&mut self, object: u64, work: &mut Work) -> Result<BTreeMap<String, u64>, ObjectError> {
        let mut entries = BTreeMap::new();
        let mut zap = ZapReader::new(self.objset.object(object, work)?);
        zap.for_each(work, &mut |entry| {
            if let Some(value) = entry.first_u64() {
                entries.insert(String::from_utf8_lossy(&entry.name).into_owned(), value);
            }
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// The bytes of one entry of a ZAP, which hold a string for example; `None` when there is no such entry.
    ///
    /// # Errors
    /// [`ObjectError`] when the object cannot be read.
    pub fn zap_bytes(&mut self, object: u64, name: &[u8], work: &mut Work) -> Result<Option<Vec<u8>>, ObjectError> {
        let mut found = None;
        ZapReader::new(self.objset.object(object, work)?).for_each(work, &mut |entry| {
            if entry.name != name {
                return ControlFlow::Continue(());
            }
            found = Some(entry.value);
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Reads a packed nvlist; its length is in the bonus.
    ///
    /// # Errors
    /// [`ObjectError`] when the object cannot be read or holds no nvlist.
    pub fn packed_nvlist(&mut self, object: u64, work: &mut Work) -> Result<NvList, ObjectError> {
        let mut reader = self.objset.object(object, work)?;
        let length = reader.dnode.endian.u64_at(&reader.dnode.bonus, 0);
        let length = length.unwrap_or_else(|| reader.block_bytes());
        let mut bytes = Vec::new();
        reader.read_prefix(length, NVLIST_BYTES_MAX, &mut bytes, work)?;
        NvList::parse(&bytes).map_err(|source| ObjectError::Format { object, source })
    }

    /// The pool's configuration.
    ///
    /// # Errors
    /// [`ObjectError`] when it cannot be read.
    pub fn config(&mut self, work: &mut Work) -> Result<NvList, ObjectError> {
        let object = self.directory.get("config").copied();
        self.packed_nvlist(object.ok_or(ObjectError::NoObject { object: 0 })?, work)
    }

    /// Features with their reference counts: those needed to read, then those that are not.
    ///
    /// # Errors
    /// [`ObjectError`] when the ZAPs cannot be read. Pools older than feature flags have none.
    pub fn features(&mut self, work: &mut Work) -> Result<Vec<(String, bool, u64)>, ObjectError> {
        let mut features = Vec::new();
        for (key, read_only_compatible) in [("features_for_read", false), ("features_for_write", true)] {
            let Some(&object) = self.directory.get(key) else { continue };
            let found = self.zap_u64(object, work)?;
            features.extend(found.into_iter().map(|(guid, count)| (guid, read_only_compatible, count)));
        }
        features.sort();
        Ok(features)
    }

    /// What the pool says of a feature, in the words of who made it; `None` when it does not say.
    pub fn feature_description(&mut self, guid: &str, work: &mut Work) -> Option<String> {
        let object = self.directory.get("feature_descriptions").copied()?;
        let bytes = self.zap_bytes(object, guid.as_bytes(), work).ok()??;
        let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\0', '.']).to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Bytes allocated on all vdevs, as the headers of the space maps say. Maps that cannot be read are left out, so
    /// this is for progress, not for proof.
    pub fn allocated_bytes(&mut self, tree: &VdevTree, work: &mut Work) -> u64 {
        let mut sum = 0_u64;
        // All vdevs may name one array: the limit is on the sum.
        let mut left = METASLABS_MAX;
        for top in tree.tops.iter().flatten().filter(|top| top.metaslab_array != 0) {
            let maps = self.object_numbers(top.metaslab_array, left, work).unwrap_or_default();
            left = left.saturating_sub(maps.len() as u64);
            for map in maps {
                let dnode = self.objset.dnode(map, work).ok().flatten();
                let header = dnode.and_then(|dnode| SpaceMapHeader::parse(&dnode.bonus, dnode.endian).ok());
                let allocated = header.map_or(0, |header| u64::try_from(header.alloc_bytes).unwrap_or(0));
                sum = sum.saturating_add(allocated);
            }
        }
        sum
    }

    /// The txgs that a dirty time log lists: a space map whose offsets are txgs.
    ///
    /// # Errors
    /// [`ObjectError`] when the object cannot be read or is no space map.
    ///
    /// Source: OpenZFS module/zfs/vdev.c, `vdev_dtl_load`.
    pub fn txg_ranges(&mut self, object: u64, work: &mut Work) -> Result<TxgRanges, ObjectError> {
        let format = |source| ObjectError::Format { object, source };
        let mut reader = self.objset.object(object, work)?;
        let header = SpaceMapHeader::parse(&reader.dnode.bonus, reader.dnode.endian).map_err(format)?;
        let mut ranges = TxgRanges::default();
        let mut left = header.length_bytes.min(DTL_BYTES_MAX);
        for blkid in 0.. {
            let length = usize::try_from(left.min(reader.block_bytes())).unwrap_or(0);
            let Some(endian) = (if left == 0 { None } else { reader.read_block(blkid, work)? }) else { break };
            left -= length as u64;
            for entry in entries(work.plain().get(..length).unwrap_or_default(), endian) {
                let SpaceMapEntry::Range(range) = entry.map_err(format)? else { continue };
                match range.action {
                    SpaceMapAction::Alloc => ranges.add(range.offset_units, range.run_units),
                    SpaceMapAction::Free => ranges.remove(range.offset_units, range.run_units),
                }
            }
        }
        Ok(ranges)
    }

    /// Hands the first `count` records of `record_bytes` bytes of an object to `each`. They may reach from one block into
    /// the next.
    ///
    /// # Errors
    /// [`ObjectError`] when a part cannot be read or lies in a hole, there are more than `max`, or `each` refuses.
    pub(super) fn records(
        &mut self,
        object: u64,
        count: u64,
        max: u64,
        record_bytes: usize,
        work: &mut Work,
        each: OnRecord<'_>,
    ) -> Result<(), ObjectError> {
        let bad = |expected| {
            let source = FormatError::bad_field("object", "record count", count, expected);
            ObjectError::Format { object, source }
        };
        if count > max {
            return Err(bad("no more than a pool can have"));
        }
        let mut reader = self.objset.object(object, work)?;
        let (mut left, mut blkid) = (count, 0);
        let mut rest: Vec<u8> = Vec::new();
        while left > 0 {
            let endian = reader.read_block(blkid, work)?.ok_or_else(|| bad("as many as the object holds"))?;
            blkid += 1;
            rest.extend_from_slice(work.plain());
            let take = usize::try_from(left).unwrap_or(usize::MAX);
            let whole = rest.len() / record_bytes.max(1);
            for record in rest.chunks_exact(record_bytes.max(1)).take(take) {
                each(record, endian)?;
                left -= 1;
            }
            rest.drain(..whole * record_bytes);
        }
        Ok(())
    }

    /// The non-zero numbers in an array of object numbers.
    fn object_numbers(&mut self, object: u64, max: u64, work: &mut Work) -> Result<Vec<u64>, ObjectError> {
        if object == 0 {
            return Ok(Vec::new());
        }
        let mut reader = self.objset.object(object, work)?;
        let blocks = reader.dnode.dnode.max_blkid.saturating_add(1);
        let per_block = reader.block_bytes() / 8;
        let mut numbers = Vec::new();
        for blkid in 0..blocks.min(max / per_block.max(1) + 1) {
            let Some(endian) = reader.read_block(blkid, work)? else { continue };
            numbers.extend(words(work.plain(), endian).filter(|&number| number != 0));
        }
        Ok(numbers)
    }

    /// Hands every pointer of a bpobj and of the lists below it to `each`, at most `pointers_max` of them.
    ///
    /// # Errors
    /// [`ObjectError`] when a part cannot be read, or there are more; what was read before was handed over.
    pub fn bpobj(
        &mut self,
        object: u64,
        pointers_max: u64,
        work: &mut Work,
        each: &mut dyn FnMut(&Blkptr),
    ) -> Result<(), ObjectError> {
        let mut left = pointers_max;
        let mut pending = vec![object];
        let mut seen = BTreeSet::new();
        while let Some(object) = pending.pop() {
            // The shared empty list may stand in several places; a list that stands in a loop ends it.
            if object == 0 || !seen.insert(object) || seen.len() > SUBOBJS_MAX {
                continue;
            }
            let mut reader = self.objset.object(object, work)?;
            let header = BpobjHeader::parse(&reader.dnode.bonus, reader.dnode.endian)
                .map_err(|source| ObjectError::Format { object, source })?;
            left = left.checked_sub(header.blkptr_count).ok_or_else(|| {
                let expected = "no more than the pool has room for";
                let source = FormatError::bad_field("bpobj", "blkptr count", header.blkptr_count, expected);
                ObjectError::Format { object, source }
            })?;
            read_pointers(&mut reader, header.blkptr_count, work, each)?;
            if let Some(subobjs) = header.subobjs
                && header.subobj_count > 0
            {
                pending.extend(self.object_numbers(subobjs.0, SUBOBJS_MAX as u64, work)?);
            }
        }
        Ok(())
    }
}

/// Hands the first `count` pointers of a list to `each`.
fn read_pointers(
    reader: &mut ObjectReader<'_>,
    count: u64,
    work: &mut Work,
    each: &mut dyn FnMut(&Blkptr),
) -> Result<(), ObjectError> {
    let object = reader.object;
    let mut left = count;
    let mut blkid = 0;
    while left > 0 {
        let Some(endian) = reader.read_block(blkid, work)? else {
            let source = FormatError::bad_field("bpobj", "blkptr count", count, "as many as the object holds");
            return Err(ObjectError::Format { object, source });
        };
        for bp in indirect_blkptrs(work.plain(), endian).take(usize::try_from(left).unwrap_or(usize::MAX)) {
            each(&bp);
            left -= 1;
        }
        blkid += 1;
    }
    Ok(())
}

/// The 64-bit words of a block.
fn words(block: &[u8], endian: Endian) -> impl Iterator<Item = u64> {
    block.as_chunks::<8>().0.iter().map(move |word| endian.u64(*word))
}
