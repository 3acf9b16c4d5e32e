//! Removed vdevs: their blocks were copied to others, and pointers still name the old address.

use crate::Txg;
use crate::ondisk::indirect::{MappingBirth, MappingEntry};
use crate::units::SECTOR_BYTES;
use std::sync::Arc;

/// A removed vdev.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indirect {
    /// Object of the MOS with the mapping (`com.delphix:indirect_object`).
    pub mapping_object: u64,
    /// Object of the MOS with the births (`com.delphix:indirect_births`).
    pub births_object: u64,
    /// The vdev that was removed before this one (`com.delphix:prev_indirect_vdev`).
    pub previous: Option<u64>,
    /// Where its bytes went; `None` until it is loaded, or when it cannot be.
    pub mapping: Option<Arc<Mapping>>,
}

/// A run of bytes that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    source_bytes: u64,
    target_bytes: u64,
    target_vdev: u32,
    sectors: u32,
}

impl Run {
    fn length_bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    fn end_bytes(&self) -> u64 {
        self.source_bytes.saturating_add(self.length_bytes())
    }
}

/// Where the bytes of a removed vdev went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Ascending, not overlapping.
    runs: Vec<Run>,
    /// Ascending ends.
    births: Vec<(u64, Txg)>,
}

/// A part of a range of a removed vdev, in one run on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Offset on the removed vdev.
    pub source_bytes: u64,
    /// The top-level vdev it is on now, which may itself have been removed since.
    pub vdev: u32,
    /// Offset there.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
    /// The txg that wrote the copy.
    pub birth: Txg,
}

impl Mapping {
    /// Adds the next entry. False when it does not follow the one before it: then the mapping is damaged.
    #[must_use]
    pub fn push(&mut self, entry: &MappingEntry) -> bool {
        let follows = self.runs.last().is_none_or(|last| last.end_bytes() <= entry.source_offset_bytes);
        let sectors = u32::try_from(entry.target.asize_bytes / SECTOR_BYTES).unwrap_or(0);
        if !follows || sectors == 0 || entry.target.is_gang {
            return false;
        }
        self.runs.push(Run {
            source_bytes: entry.source_offset_bytes,
            target_bytes: entry.target.offset_bytes,
            target_vdev: entry.target.vdev,
            sectors,
        });
        true
    }

    /// Adds the next birth. False when it does not follow the one before it.
    #[must_use]
    pub fn push_birth(&mut self, birth: &MappingBirth) -> bool {
        let follows = self.births.last().is_none_or(|&(end, _)| end < birth.end_offset_bytes);
        if follows {
            self.births.push((birth.end_offset_bytes, birth.txg));
        }
        follows
    }

    /// When the byte at `offset` was copied.
    fn birth(&self, offset: u64) -> Txg {
        let index = self.births.partition_point(|&(end, _)| end <= offset);
        self.births.get(index).map(|&(_, txg)| txg).unwrap_or_default()
    }

    /// Where the range went, in order. `None` when a part of it went nowhere.
    ///
    /// Source: OpenZFS module/zfs/vdev_indirect.c, `vdev_indirect_remap`.
    #[must_use]
    pub fn moved(&self, offset: u64, length: u64) -> Option<Vec<Moved>> {
        let end = offset.checked_add(length)?;
        let first = self.runs.partition_point(|run| run.end_bytes() <= offset);
        let mut at = offset;
        let mut parts = Vec::with_capacity(1);
        for run in self.runs.get(first..)? {
            if at >= end {
                break;
            }
            let skipped = at.checked_sub(run.source_bytes)?;
            let length_bytes = (run.length_bytes() - skipped).min(end - at);
            let offset_bytes = run.target_bytes.checked_add(skipped)?;
            let birth = self.birth(at);
            parts.push(Moved { source_bytes: at, vdev: run.target_vdev, offset_bytes, length_bytes, birth });
            at += length_bytes;
        }
        (at == end).then_some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::blkptr::Dva;

    fn entry(source: u64, vdev: u32, target: u64, length: u64) -> MappingEntry {
        let target = Dva { vdev, offset_bytes: target, asize_bytes: length, is_gang: false };
        MappingEntry { source_offset_bytes: source, target }
    }

    fn mapping() -> Mapping {
        let mut mapping = Mapping::default();
        for entry in [entry(0, 0, 0x10000, 4096), entry(4096, 2, 0x2000, 8192), entry(16384, 0, 0, 512)] {
            assert!(mapping.push(&entry));
        }
        for (end_offset_bytes, txg) in [(4096, Txg(7)), (20480, Txg(9))] {
            assert!(mapping.push_birth(&MappingBirth { end_offset_bytes, txg }));
        }
        mapping
    }

    #[test]
    fn a_range_is_cut_where_its_parts_went_apart() {
        let part = |source_bytes, vdev, offset_bytes, length_bytes, txg| Moved {
            source_bytes,
            vdev,
            offset_bytes,
            length_bytes,
            birth: Txg(txg),
        };
        let expected = vec![part(1024, 0, 0x10400, 3072, 7), part(4096, 2, 0x2000, 2048, 9)];
        assert_eq!(mapping().moved(1024, 5120), Some(expected));
        assert_eq!(mapping().moved(16384, 512), Some(vec![part(16384, 0, 0, 512, 9)]));
        assert_eq!(mapping().moved(0, 0), Some(vec![]));
    }

    #[test]
    fn a_range_that_went_nowhere_has_no_place() {
        for (offset, length) in [(12287, 2), (12288, 1), (16384, 1024), (1 << 40, 1), (u64::MAX, 2)] {
            assert_eq!(mapping().moved(offset, length), None, "{offset}");
        }
    }

    #[test]
    fn entries_out_of_order_are_refused() {
        let mut mapping = mapping();
        assert!(!mapping.push(&entry(16384, 0, 0, 512)));
        assert!(!mapping.push(&entry(32768, 0, 0, 0)));
        let gang = Dva { is_gang: true, ..entry(0, 0, 0, 512).target };
        assert!(!mapping.push(&MappingEntry { source_offset_bytes: 32768, target: gang }));
        assert!(!mapping.push_birth(&MappingBirth { end_offset_bytes: 20480, txg: Txg(9) }));
    }
}
