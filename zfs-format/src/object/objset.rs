//! Object sets: from an object's number to its dnode.

use super::{ObjectError, ObjectReader};
use crate::block::{BlockReader, ReadError, Work};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::dnode::{DNODE_SLOT_BYTES, DnodeBuf};
use crate::ondisk::objset::Objset;
use crate::{Endian, FormatError};

/// A reader of one object set.
#[derive(Debug)]
pub struct ObjsetReader<'a> {
    blocks: BlockReader<'a>,
    meta: ObjectReader<'a>,
    /// The header.
    pub objset: Objset,
    /// The byte order of the header.
    pub endian: Endian,
    /// The block of dnodes last read.
    cached: Option<(u64, Endian, Vec<u8>)>,
}

/// Why an object set cannot be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjsetError {
    /// Its block has no plain bytes.
    #[error("the object set cannot be read: {0}")]
    Block(#[source] ReadError),
    /// Its block is no object set.
    #[error("the object set makes no sense: {0}")]
    Format(#[source] FormatError),
}

impl<'a> ObjsetReader<'a> {
    /// Reads the object set that `bp` leads to.
    ///
    /// # Errors
    /// [`ObjsetError`] when its block cannot be read or is no object set.
    pub fn open(blocks: BlockReader<'a>, bp: &Blkptr, work: &mut Work) -> Result<Self, ObjsetError> {
        blocks.read(bp, work).map_err(ObjsetError::Block)?;
        let endian = bp.endian();
        let objset = Objset::parse(work.plain(), endian).map_err(ObjsetError::Format)?;
        let meta_dnode = DnodeBuf { dnode: objset.meta_dnode.clone(), bonus: Vec::new(), endian };
        Ok(Self { blocks, meta: ObjectReader::new(blocks, 0, meta_dnode), objset, endian, cached: None })
    }

    /// The blocks it reads from.
    #[must_use]
    pub fn blocks(&self) -> BlockReader<'a> {
        self.blocks
    }

    /// The largest object number that can exist, plus 1.
    #[must_use]
    pub fn objects_end(&self) -> u64 {
        let per_block = self.meta.block_bytes() / DNODE_SLOT_BYTES as u64;
        self.objset.meta_dnode.max_blkid.saturating_add(1).saturating_mul(per_block)
    }

    /// The dnode of `object`, `None` when there is no such object.
    ///
    /// # Errors
    /// [`ObjectError`] when its block cannot be read or the dnode is invalid.
    pub fn dnode(&mut self, object: u64, work: &mut Work) -> Result<Option<DnodeBuf>, ObjectError> {
        let per_block = (self.meta.block_bytes() / DNODE_SLOT_BYTES as u64).max(1);
        let (blkid, slot) = (object / per_block, object % per_block);
        if self.cached.as_ref().is_none_or(|(known, ..)| *known != blkid) {
            self.cached = None;
            let Some(endian) = self.meta.read_block(blkid, work)? else { return Ok(None) };
            self.cached = Some((blkid, endian, work.plain().to_vec()));
        }
        let Some((_, endian, block)) = &self.cached else { return Ok(None) };
        let start = usize::try_from(slot).unwrap_or(usize::MAX).saturating_mul(DNODE_SLOT_BYTES);
        let slots = block.get(start..).unwrap_or_default();
        if slots.is_empty() {
            return Ok(None);
        }
        DnodeBuf::parse(slots, *endian).map_err(|source| ObjectError::Format { object, source })
    }

    /// The pointer to block `blkid` of `level` in the array of dnodes, `None` when it lies in a hole.
    ///
    /// # Errors
    /// [`ObjectError`] when an indirect block above it cannot be read.
    pub fn meta_blkptr(&mut self, level: u8, blkid: u64, work: &mut Work) -> Result<Option<Blkptr>, ObjectError> {
        self.meta.blkptr(level, blkid, work)
    }

    /// A reader of `object`.
    ///
    /// # Errors
    /// As [`ObjsetReader::dnode`], and [`ObjectError::NoObject`].
    pub fn object(&mut self, object: u64, work: &mut Work) -> Result<ObjectReader<'a>, ObjectError> {
        let dnode = self.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        Ok(ObjectReader::new(self.blocks, object, dnode))
    }
}
