//! Reads what the pool was busy with when it was last written: a scan, a removal, frees, receives.

use super::Mos;
use super::mos::DIRECTORY_OBJECT;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::ObjectError;
use crate::ondisk::bpobj::BpobjHeader;
use crate::ondisk::bptree::BptreeHeader;
use crate::ondisk::dmu::ObjectType;
use crate::ondisk::scan::{Scan, ScanState};

/// A top-level vdev that is being emptied (`spa_removing_phys_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its number.
    pub vdev: u64,
    /// Bytes to copy.
    pub to_copy_bytes: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
}

/// What is freed in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freeing {
    /// Trees of destroyed datasets.
    pub trees: u64,
    /// Space of them.
    pub tree_bytes: u64,
    /// Destroyed clones with a livelist.
    pub clones: u64,
    /// Space of blocks on the list of those to be freed.
    pub listed_bytes: u64,
}

impl Freeing {
    /// True when nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How far a receive came that can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialReceive {
    /// Guid of the snapshot that is received.
    pub to_guid: u64,
    /// The object that came last.
    pub object: u64,
    /// The offset in it.
    pub offset_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

/// The state of a removal that runs (`DSS_SCANNING`, as of a scan).
const STATE_RUNNING: u64 = 1;

impl Mos<'_> {
    /// The scrub or resilver that is running or paused.
    ///
    /// # Errors
    /// [`ObjectError`] when the object directory cannot be read.
    pub fn scan(&mut self, work: &mut Work) -> Result<Option<Scan>, ObjectError> {
        let words = self.directory_words("scan", work)?;
        Ok(Scan::from_words(&words).ok().filter(|scan| scan.state == ScanState::SCANNING))
    }

    /// The removal that is running.
    ///
    /// # Errors
    /// [`ObjectError`] when the object directory cannot be read.
    ///
    /// Source: OpenZFS include/sys/vdev_removal.h, `spa_removing_phys_t`.
    pub fn removal(&mut self, work: &mut Work) -> Result<Option<Removal>, ObjectError> {
        let words = self.directory_words("com.delphix:removing", work)?;
        Ok(removal(&words))
    }

    /// What waits to be freed.
    ///
    /// # Errors
    /// [`ObjectError`] when one of the lists cannot be read.
    ///
    /// Source: OpenZFS module/zfs/dsl_scan.c, `dsl_process_async_destroys`.
    pub fn freeing(&mut self, work: &mut Work) -> Result<Freeing, ObjectError> {
        let mut freeing = Freeing { clones: self.deleted_clones(work)?.len() as u64, ..Freeing::default() };
        if let Some(&object) = self.directory.get("bptree_obj").filter(|&&object| object != 0)
            && let Some(dnode) = self.objset.dnode(object, work)?
        {
            let header = BptreeHeader::parse(&dnode.bonus, dnode.endian);
            let header = header.map_err(|source| ObjectError::Format { object, source })?;
            freeing.trees = header.end.saturating_sub(header.begin);
            freeing.tree_bytes = header.bytes;
        }
        if let Some(&object) = self.directory.get("free_bpobj").filter(|&&object| object != 0)
            && let Some(dnode) = self.objset.dnode(object, work)?
        {
            let header = BpobjHeader::parse(&dnode.bonus, dnode.endian);
            freeing.listed_bytes = header.map_err(|source| ObjectError::Format { object, source })?.bytes;
        }
        Ok(freeing)
    }

    /// How far the receive into a dataset came, `None` when none broke off. `object` is the dataset's.
    ///
    /// # Errors
    /// [`ObjectError`] when the dataset's entries cannot be read.
    ///
    /// Source: OpenZFS include/sys/dsl_dataset.h, `DS_FIELD_RESUME_TOGUID` and those after it.
    pub fn partial_receive(&mut self, object: u64, work: &mut Work) -> Result<Option<PartialReceive>, ObjectError> {
        // A dataset that never needed entries of its own is no ZAP.
        let dnode = self.objset.dnode(object, work)?;
        if dnode.is_none_or(|dnode| dnode.dnode.object_type == ObjectType::DSL_DATASET) {
            return Ok(None);
        }
        let entries = self.zap_u64(object, work)?;
        let entry = |name: &str| entries.get(&format!("com.delphix:resume_{name}")).copied();
        Ok(entry("toguid").map(|to_guid| PartialReceive {
            to_guid,
            object: entry("object").unwrap_or(0),
            offset_bytes: entry("offset").unwrap_or(0),
            received_bytes: entry("bytes").unwrap_or(0),
        }))
    }

    /// The words of an entry of the object directory; none when there is no such entry.
    fn directory_words(&mut self, key: &str, work: &mut Work) -> Result<Vec<u64>, ObjectError> {
        if !self.directory.contains_key(key) {
            return Ok(Vec::new());
        }
        let bytes = self.zap_bytes(DIRECTORY_OBJECT, key.as_bytes(), work)?.unwrap_or_default();
        // Integers of a ZAP are handed over big endian.
        Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect())
    }
}

fn removal(words: &[u64]) -> Option<Removal> {
    let &[state, vdev, _, _, _, to_copy_bytes, copied_bytes, ..] = words else { return None };
    (state == STATE_RUNNING).then_some(Removal { vdev, to_copy_bytes, copied_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_removal_is_none() {
        let words = [1, 7, u64::MAX, 20, 0, 400, 300];
        assert_eq!(removal(&words), Some(Removal { vdev: 7, to_copy_bytes: 400, copied_bytes: 300 }));
        assert_eq!(removal(&[2, 7, 0, 20, 30, 400, 400]), None);
        assert_eq!(removal(&words[..6]), None);
        assert_eq!(removal(&[]), None);
    }
}
