//! Reads the pool's checkpoint: the old uberblock, and the space that only it still holds.

use super::Mos;
use super::mos::DIRECTORY_OBJECT;
use crate::Endian;
use crate::FormatError;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::{ObjectError, ZapReader};
use crate::ondisk::nvlist::NvList;
use crate::ondisk::space_map::{SpaceMapEntry, SpaceMapHeader, entries};
use crate::ondisk::uberblock::Uberblock;
use std::ops::ControlFlow;

/// The key of the old uberblock in the object directory.
const KEY: &str = "com.delphix:zpool_checkpoint";
/// The key of the space map in the ZAP of a top-level vdev.
const SPACE_MAP_KEY: &str = "com.delphix:pool_checkpoint_sm";
/// Larger than the space map of any vdev: it has two words for each range that was freed.
const SPACE_MAP_BYTES_MAX: u64 = 4 << 30;

impl Mos<'_> {
    /// The uberblock of the checkpoint, `None` when the pool has none.
    ///
    /// # Errors
    /// [`ObjectError`] when the entry cannot be read or is no uberblock.
    ///
    /// Source: OpenZFS module/zfs/spa_checkpoint.c, `spa_checkpoint_sync`.
    pub fn checkpoint(&mut self, work: &mut Work) -> Result<Option<Uberblock>, ObjectError> {
        if !self.directory.contains_key(KEY) {
            return Ok(None);
        }
        let mut found = None;
        let mut zap = ZapReader::new(self.objset.object(DIRECTORY_OBJECT, work)?);
        zap.for_each(work, &mut |entry| {
            if entry.name == KEY.as_bytes() {
                // The value is an array of words.
                found = Some(Uberblock::parse(&entry.value, Endian::Big));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let format = |source| ObjectError::Format { object: DIRECTORY_OBJECT, source };
        found.transpose().map_err(format)
    }

    /// Hands each range (vdev, offset, length in bytes) that was freed since the checkpoint and is kept for it to `each`,
    /// until that breaks.
    ///
    /// # Errors
    /// [`ObjectError`] when a part cannot be read or makes no sense; what was read before was handed over.
    ///
    /// Source: OpenZFS module/zfs/vdev.c, `vdev_checkpoint_sm_object`; module/zfs/metaslab.c, `metaslab_sync`.
    pub fn checkpointed_ranges(
        &mut self,
        work: &mut Work,
        each: &mut dyn FnMut(u32, u64, u64) -> ControlFlow<()>,
    ) -> Result<(), ObjectError> {
        let config = self.config(work)?;
        let tops: Vec<NvList> =
            config.list("vdev_tree").and_then(|tree| tree.lists("children")).unwrap_or_default().to_vec();
        for top in tops {
            let (Some(id), Some(ashift)) = (top.u64("id"), top.u64("ashift")) else { continue };
            let Some(zap) = top.u64("com.delphix:vdev_zap_top") else { continue };
            let Some(&map) = self.zap_u64(zap, work)?.get(SPACE_MAP_KEY) else { continue };
            let (id, shift) = (u32::try_from(id).unwrap_or(u32::MAX), u32::try_from(ashift).unwrap_or(u32::MAX));
            if self.ranges_of(map, shift, work, &mut |start, length| each(id, start, length))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The ranges of a space map that lists space in one direction only.
    fn ranges_of(
        &mut self,
        object: u64,
        shift: u32,
        work: &mut Work,
        each: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ObjectError> {
        let format = |source| ObjectError::Format { object, source };
        let mut reader = self.objset.object(object, work)?;
        let header = SpaceMapHeader::parse(&reader.dnode.bonus, reader.dnode.endian).map_err(format)?;
        let mut left = header.length_bytes;
        if left > SPACE_MAP_BYTES_MAX {
            return Err(format(FormatError::bad_field("space map", "length", left, "at most 4 GiB")));
        }
        for blkid in 0.. {
            let length = usize::try_from(left.min(reader.block_bytes())).unwrap_or(0);
            let Some(endian) = (if left == 0 { None } else { reader.read_block(blkid, work)? }) else { break };
            left -= length as u64;
            for entry in entries(work.plain().get(..length).unwrap_or_default(), endian) {
                let SpaceMapEntry::Range(range) = entry.map_err(format)? else { continue };
                let (start, length) = range.to_bytes(shift).map_err(format)?;
                if each(start, length).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
