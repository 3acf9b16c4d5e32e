//! Reads the entries of a ZAP object, micro or fat.

use super::{ObjectError, ObjectReader};
use crate::Endian;
use crate::FormatError;
use crate::block::Work;
use crate::ondisk::zap::fat::FatHeader;
use crate::ondisk::zap::leaf::parse_leaf;
use crate::ondisk::zap::micro::parse_micro;
use crate::ondisk::zap::{ZapBlockKind, block_kind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZapEntry {
    /// Its name without the NUL, or the raw key of ZAPs keyed by numbers.
    pub name: Vec<u8>,
    /// Size of an integer of the value: 1, 2, 4 or 8.
    pub integer_bytes: u8,
    /// The value's integers, big endian, one after the other.
    pub value: Vec<u8>,
}

impl ZapEntry {
    /// The first integer of the value, widened. `None` for an empty value.
    #[must_use]
    pub fn first_u64(&self) -> Option<u64> {
        let first = self.value.get(..usize::from(self.integer_bytes)).filter(|first| !first.is_empty())?;
        Some(widened(first))
    }

    /// All integers of the value, widened.
    pub fn u64s(&self) -> impl Iterator<Item = u64> + '_ {
        self.value.chunks_exact(usize::from(self.integer_bytes).max(1)).map(widened)
    }
}

/// A big-endian integer of up to eight bytes.
fn widened(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| (value << 8) | u64::from(byte))
}

/// Blocks of a pointer table: 4 GiB of pointers in blocks of 4 KiB, more than any directory needs. Bounds the work
/// where all blocks of the table are one and the same.
const TABLE_BLOCKS_MAX: u64 = 1 << 20;

/// A reader of one ZAP.
#[derive(Debug)]
pub struct ZapReader<'a> {
    object: ObjectReader<'a>,
}

impl<'a> ZapReader<'a> {
    /// Takes an object that should be a ZAP.
    #[must_use]
    pub fn new(object: ObjectReader<'a>) -> Self {
        Self { object }
    }

    /// Hands each entry to `each` until that breaks. The order is that of the blocks, not of names.
    ///
    /// # Errors
    /// [`ObjectError`] when a block cannot be read or is no ZAP block; entries handed over before stand.
    pub fn for_each(
        &mut self,
        work: &mut Work,
        each: &mut dyn FnMut(ZapEntry) -> ControlFlow<()>,
    ) -> Result<(), ObjectError> {
        let object = self.object.object;
        let format = |source| ObjectError::Format { object, source };
        let Some(endian) = self.object.read_block(0, work)? else {
            return Err(format(FormatError::bad_field("zap", "block 0", 0, "a block")));
        };
        match block_kind(work.plain(), endian).map_err(format)? {
            ZapBlockKind::Micro => {
                for entry in parse_micro(work.plain(), endian).map_err(format)?.entries() {
                    let value = entry.value.to_be_bytes().to_vec();
                    if each(ZapEntry { name: entry.name.to_vec(), integer_bytes: 8, value }).is_break() {
                        break;
                    }
                }
                Ok(())
            }
            ZapBlockKind::FatHeader => {
                let header = FatHeader::parse_block(work.plain(), endian).map_err(format)?;
                let leaves = self.leaf_numbers(&header, endian, work)?;
                self.leaves(&header, leaves, work, each)
            }
            ZapBlockKind::Leaf => Err(format(FormatError::bad_field("zap", "block type", 1 << 63, "a header"))),
        }
    }

    /// Visits each leaf that the pointer table names, once.
    fn leaves(
        &mut self,
        header: &FatHeader,
        leaves: BTreeSet<u64>,
        work: &mut Work,
        each: &mut dyn FnMut(ZapEntry) -> ControlFlow<()>,
    ) -> Result<(), ObjectError> {
        let object = self.object.object;
        let format = |source| ObjectError::Format { object, source };
        for blkid in leaves {
            let Some(endian) = self.object.read_block(blkid, work)? else {
                return Err(format(FormatError::bad_field("zap", "leaf", blkid, "a block that exists")));
            };
            let leaf = parse_leaf(work.plain(), endian).map_err(format)?;
            for entry in leaf.entries(header.key_kind()) {
                let entry = entry.map_err(format)?;
                let entry = ZapEntry { name: entry.name, integer_bytes: entry.integer_bytes, value: entry.value };
                if each(entry).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The numbers of all leaf blocks.
    fn leaf_numbers(
        &mut self,
        header: &FatHeader,
        endian: Endian,
        work: &mut Work,
    ) -> Result<BTreeSet<u64>, ObjectError> {
        let mut numbers: BTreeSet<u64> = BTreeSet::new();
        if header.is_table_embedded() {
            numbers.extend(header.embedded_table(work.plain(), endian).filter(|&number| number != 0));
            return Ok(numbers);
        }
        // The table is full of numbers, so none of its blocks is a hole: the first one ends a count that is a lie.
        let needed = header.table_len().div_ceil((self.object.block_bytes() / 8).max(1));
        if needed > TABLE_BLOCKS_MAX {
            let expected = "a table that some directory may need";
            let source = FormatError::bad_field("zap", "pointer table shift", header.table_shift.into(), expected);
            return Err(ObjectError::Format { object: self.object.object, source });
        }
        let start = header.table_start_block;
        for blkid in start..start.saturating_add(needed.min(header.table_block_count)) {
            let Some(endian) = self.object.read_block(blkid, work)? else {
                let source = FormatError::bad_field("zap", "pointer table", blkid, "a block that exists");
                return Err(ObjectError::Format { object: self.object.object, source });
            };
            let words = work.plain().as_chunks::<8>().0.iter();
            numbers.extend(words.map(|word| endian.u64(*word)).filter(|&number| number != 0));
        }
        Ok(numbers)
    }
}
