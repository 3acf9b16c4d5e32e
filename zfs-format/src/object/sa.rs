//! Attributes of files, whichever of the two ways they are stored.

use super::{ObjectError, ObjsetReader, ZapReader};
use crate::FormatError;
use crate::block::{BlockReader, Work};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::dmu::ObjectType;
use crate::ondisk::dnode::DnodeBuf;
use crate::ondisk::sa::{SaAttributes, SaLayouts, SaRegistry};
use crate::ondisk::znode::FileAttributes;
use std::ops::ControlFlow;

/// The tables of one file system that say how attributes are laid out.
#[derive(Clone, Debug, Default)]
pub struct AttributeReader {
    registry: SaRegistry,
    layouts: SaLayouts,
}

impl AttributeReader {
    /// Reads the tables; `master` is the object the master node names `SA_ATTRS`. Without it, files have legacy znodes.
    ///
    /// # Errors
    /// [`ObjectError`] when the tables cannot be read.
    pub fn open(objset: &mut ObjsetReader<'_>, master: Option<u64>, work: &mut Work) -> Result<Self, ObjectError> {
        let mut reader = Self::default();
        let Some(master) = master else { return Ok(reader) };
        let (mut registry, mut layouts) = (None, None);
        ZapReader::new(objset.object(master, work)?).for_each(work, &mut |entry| {
            match entry.name.as_slice() {
                b"REGISTRY" => registry = entry.first_u64(),
                b"LAYOUTS" => layouts = entry.first_u64(),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        if let Some(registry) = registry {
            ZapReader::new(objset.object(registry, work)?).for_each(work, &mut |entry| {
                reader.registry.insert(&entry.name, entry.first_u64().unwrap_or(0));
                ControlFlow::Continue(())
            })?;
        }
        if let Some(object) = layouts {
            let mut bad = None;
            ZapReader::new(objset.object(object, work)?).for_each(work, &mut |entry| {
                if let Err(error) = reader.layouts.insert(&entry.name, entry.u64s()) {
                    bad = Some(error);
                }
                ControlFlow::Continue(())
            })?;
            if let Some(source) = bad {
                return Err(ObjectError::Format { object, source });
            }
        }
        Ok(reader)
    }

    /// The attributes of one object.
    ///
    /// # Errors
    /// [`ObjectError`] when it has none, or they cannot be read.
    pub fn read(
        &self,
        blocks: BlockReader<'_>,
        object: u64,
        dnode: &DnodeBuf,
        work: &mut Work,
    ) -> Result<FileAttributes, ObjectError> {
        let format = |source| ObjectError::Format { object, source };
        match dnode.dnode.bonus_type {
            ObjectType::ZNODE => FileAttributes::from_znode(&dnode.bonus, dnode.endian).map_err(format),
            ObjectType::SA => {
                let parsed = SaAttributes::parse(&dnode.bonus, &self.registry, &self.layouts).map_err(format)?;
                let mut attributes = FileAttributes::from_sa(&parsed);
                if let Some(spill) = dnode.dnode.spill.filter(|bp| !bp.is_hole() && !blocks.lacks_key(bp)) {
                    self.add_spill(blocks, object, &spill, &mut attributes, work)?;
                }
                Ok(attributes)
            }
            other => Err(format(FormatError::bad_field("dnode", "bonus type", other.0.into(), "17 or 44"))),
        }
    }

    fn add_spill(
        &self,
        blocks: BlockReader<'_>,
        object: u64,
        spill: &Blkptr,
        attributes: &mut FileAttributes,
        work: &mut Work,
    ) -> Result<(), ObjectError> {
        let block = |source| ObjectError::Block { object, level: 0, block: u64::MAX - 1, source };
        blocks.read(spill, work).map_err(block)?;
        let parsed = SaAttributes::parse(work.plain(), &self.registry, &self.layouts);
        attributes.add_sa(&parsed.map_err(|source| ObjectError::Format { object, source })?);
        Ok(())
    }
}
