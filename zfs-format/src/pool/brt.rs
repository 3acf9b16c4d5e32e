//! Reads the tables of cloned blocks.

use super::Mos;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::{ObjectError, ZapReader};
use crate::ondisk::brt::{BrtEntry, BrtHeader};
use std::ops::ControlFlow;

/// The key in the object directory, before the number of the vdev.
const KEY: &str = "com.fudosecurity:brt:vdev:";

impl Mos<'_> {
    /// The tables of cloned blocks: number of the top-level vdev, object.
    #[must_use]
    pub fn brt_tables(&self) -> Vec<(u32, u64)> {
        let number = |(name, &object): (&String, &u64)| Some((name.strip_prefix(KEY)?.parse().ok()?, object));
        let mut tables: Vec<(u32, u64)> = self.directory.iter().filter_map(number).collect();
        tables.sort_unstable();
        tables
    }

    /// Hands the entries of a table to `each` until that breaks, and answers with its header.
    ///
    /// # Errors
    /// [`ObjectError`] when a part cannot be read or makes no sense; what was read before was handed over.
    ///
    /// Source: OpenZFS module/zfs/brt.c, `brt_vdev_load`, `brt_entry_lookup`.
    pub fn brt(
        &mut self,
        object: u64,
        work: &mut Work,
        each: &mut dyn FnMut(BrtEntry) -> ControlFlow<()>,
    ) -> Result<BrtHeader, ObjectError> {
        let dnode = self.objset.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        let format = |source| ObjectError::Format { object, source };
        let header = BrtHeader::parse(&dnode.bonus, dnode.endian).map_err(format)?;
        if header.entries.0 == 0 {
            return Ok(header);
        }
        let mut broken = None;
        let mut zap = ZapReader::new(self.objset.object(header.entries.0, work)?);
        // Machines of both orders may have written the pool; the table was by the one that wrote its header.
        let writer = dnode.endian;
        zap.for_each(
            work,
            &mut |entry| match BrtEntry::parse(&entry.name, entry.integer_bytes, &entry.value, writer) {
                Ok(entry) => each(entry),
                Err(source) => {
                    broken = Some(ObjectError::Format { object: header.entries.0, source });
                    ControlFlow::Break(())
                }
            },
        )?;
        broken.map_or(Ok(header), Err)
    }
}
