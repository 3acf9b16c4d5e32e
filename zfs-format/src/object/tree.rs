//! Reads the data blocks of one object through its tree of indirect blocks.

use super::ObjectError;
use crate::block::{BlockReader, Work};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::dnode::{Dnode, DnodeBuf, indirect_blkptr};
use crate::{Endian, FormatError};

/// A reader of one object. It remembers the indirect blocks on the way to the last block read.
#[derive(Debug)]
pub struct ObjectReader<'a> {
    blocks: BlockReader<'a>,
    /// The object's number, for errors.
    pub object: u64,
    /// The object.
    pub dnode: DnodeBuf,
    /// For level l at index l - 1: number and content of the indirect block last used.
    path: Vec<Option<(u64, Endian, Vec<u8>)>>,
}

impl<'a> ObjectReader<'a> {
    /// A reader of `dnode`.
    #[must_use]
    pub fn new(blocks: BlockReader<'a>, object: u64, dnode: DnodeBuf) -> Self {
        let levels = usize::from(dnode.dnode.nlevels.saturating_sub(1));
        Self { blocks, object, dnode, path: vec![None; levels] }
    }

    /// Size of a data block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.dnode.dnode.data_block_bytes.into()
    }

    /// The pointer to block `blkid` of `level`, `None` when it lies in a hole.
    ///
    /// # Errors
    /// [`ObjectError`] when an indirect block above it cannot be read.
    pub fn blkptr(&mut self, level: u8, blkid: u64, work: &mut Work) -> Result<Option<Blkptr>, ObjectError> {
        let dnode: &Dnode = &self.dnode.dnode;
        let top_level = dnode.nlevels.saturating_sub(1);
        let shift = u32::from(dnode.pointers_per_indirect_shift());
        if level > top_level {
            return Ok(None);
        }
        // The number of a block one level up is that of its child without the low bits.
        let ancestor = |above: u8| {
            let levels = u32::from(above.saturating_sub(level));
            blkid.checked_shr(shift.saturating_mul(levels)).unwrap_or(0)
        };
        let top_index = usize::try_from(ancestor(top_level)).unwrap_or(usize::MAX);
        let Some(mut bp) = dnode.blkptr_at(top_index).copied() else { return Ok(None) };
        let index_mask = dnode.level_span(1).saturating_sub(1);
        let mut at = top_level;
        while at > level {
            if bp.is_hole() {
                return Ok(None);
            }
            let index = ancestor(at - 1) & index_mask;
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            bp = self.child(at, ancestor(at), index, &bp, work)?;
            at -= 1;
        }
        Ok((!bp.is_hole()).then_some(bp))
    }

    /// Pointer `index` of the indirect block `blkid` of `level`, which `bp` leads to.
    fn child(
        &mut self,
        level: u8,
        blkid: u64,
        index: usize,
        bp: &Blkptr,
        work: &mut Work,
    ) -> Result<Blkptr, ObjectError> {
        let object = self.object;
        let format = |source| ObjectError::Format { object, source };
        let found = u64::from(bp.level());
        if bp.level() != level {
            return Err(format(FormatError::bad_field("blkptr", "level", found, "one less than its parent's")));
        }
        let slot = self.path.get_mut(usize::from(level - 1));
        let Some(slot) = slot else { return Err(ObjectError::NoObject { object }) };
        if slot.as_ref().is_none_or(|(known, ..)| *known != blkid) {
            let read = self.blocks.read(bp, work);
            read.map_err(|source| ObjectError::Block { object, level, block: blkid, source })?;
            *slot = Some((blkid, bp.endian(), work.plain().to_vec()));
        }
        match slot {
            Some((_, endian, block)) => indirect_blkptr(block, *endian, index).map_err(format),
            None => Err(ObjectError::NoObject { object }),
        }
    }

    /// Reads data block `blkid` into [`Work::plain`]. `None` for a hole; otherwise the byte order it was written in.
    ///
    /// # Errors
    /// [`ObjectError`] when the block or one above it cannot be read.
    pub fn read_block(&mut self, blkid: u64, work: &mut Work) -> Result<Option<Endian>, ObjectError> {
        let Some(bp) = self.blkptr(0, blkid, work)? else { return Ok(None) };
        let object = self.object;
        self.blocks.read(&bp, work).map_err(|source| ObjectError::Block { object, level: 0, block: blkid, source })?;
        Ok(Some(bp.endian()))
    }

    /// Appends `length` bytes from the start of the object to `out`; holes read as zeros.
    ///
    /// # Errors
    /// [`ObjectError`] as [`ObjectReader::read_block`]; [`FormatError::BadField`] when `length` is beyond `max`.
    pub fn read_prefix(
        &mut self,
        length: u64,
        max: u64,
        out: &mut Vec<u8>,
        work: &mut Work,
    ) -> Result<(), ObjectError> {
        if length > max {
            let source = FormatError::bad_field("object", "length", length, "less");
            return Err(ObjectError::Format { object: self.object, source });
        }
        let block_bytes = self.block_bytes();
        let mut blkid = 0;
        let mut rest = length;
        while rest > 0 {
            let part = usize::try_from(rest.min(block_bytes)).unwrap_or(0);
            match self.read_block(blkid, work)? {
                Some(_) => {
                    let bytes = work.plain().get(..part).unwrap_or(work.plain());
                    out.extend_from_slice(bytes);
                    out.resize(out.len() + (part - bytes.len()), 0);
                }
                None => out.resize(out.len() + part, 0),
            }
            rest -= part as u64;
            blkid += 1;
        }
        Ok(())
    }
}
