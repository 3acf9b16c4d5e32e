//! Reads what the pool was busy with when it was last written: a scan, a removal, frees, receives.

use super::Mos;
use super::mos::DIRECTORY_OBJECT;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::ObjectError;
use crate::ondisk::bpobj::BpobjHeader;
use crate::ondisk::bptree::BptreeHeader;
use crate::ondisk::dmu::ObjectType;

/// A scrub or a resilver of ZFS itself that is not finished (`dsl_scan_phys_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// It fills devices that are out of date; otherwise it is a scrub.
    pub is_resilver: bool,
    /// Somebody paused it.
    pub is_paused: bool,
    /// When it started, seconds since 1970.
    pub start_time_s: u64,
    /// Bytes to look at.
    pub to_examine_bytes: u64,
    /// Bytes looked at.
    pub examined_bytes: u64,
    /// Errors found.
    pub errors: u64,
}

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

/// `DSS_SCANNING`.
const STATE_RUNNING: u64 = 1;

impl Mos<'_> {
    /// The scrub or resilver that is running or paused.
    ///
    /// # Errors
    /// [`ObjectError`] when the object directory cannot be read.
    ///
    /// Source: OpenZFS include/sys/dsl_scan.h, `dsl_scan_phys_t`.
    pub fn scan(&mut self, work: &mut Work) -> Result<Option<Scan>, ObjectError> {
        let words = self.directory_words("scan", work)?;
        Ok(scan(&words))
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

fn scan(words: &[u64]) -> Option<Scan> {
    const FUNC_RESILVER: u64 = 2;
    const FLAG_PAUSED: u64 = 2;
    let &[func, state, _, _, _, _, _, start_time_s, _, to_examine_bytes, examined_bytes, _, _, errors, ..] = words
    else {
        return None;
    };
    (state == STATE_RUNNING).then(|| Scan {
        is_resilver: func == FUNC_RESILVER,
        is_paused: words.get(23).is_some_and(|flags| flags & FLAG_PAUSED != 0),
        start_time_s,
        to_examine_bytes,
        examined_bytes,
        errors,
    })
}

fn removal(words: &[u64]) -> Option<Removal> {
    let &[state, vdev, _, _, _, to_copy_bytes, copied_bytes, ..] = words else { return None };
    (state == STATE_RUNNING).then_some(Removal { vdev, to_copy_bytes, copied_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_scan_come_from_their_places() {
        let mut words: Vec<u64> = (100..124).collect();
        assert_eq!(scan(&words), None);
        (words[0], words[1], words[23]) = (2, 1, 2);
        let found = scan(&words).unwrap();
        assert_eq!((found.is_resilver, found.is_paused, found.start_time_s), (true, true, 107));
        assert_eq!((found.to_examine_bytes, found.examined_bytes, found.errors), (109, 110, 113));
        assert_eq!(scan(&words[..13]), None);
        words[1] = 2;
        assert_eq!(scan(&words), None);
    }

    #[test]
    fn a_finished_removal_is_none() {
        let words = [1, 7, u64::MAX, 20, 0, 400, 300];
        assert_eq!(removal(&words), Some(Removal { vdev: 7, to_copy_bytes: 400, copied_bytes: 300 }));
        assert_eq!(removal(&[2, 7, 0, 20, 30, 400, 400]), None);
        assert_eq!(removal(&words[..6]), None);
        assert_eq!(removal(&[]), None);
    }
}
