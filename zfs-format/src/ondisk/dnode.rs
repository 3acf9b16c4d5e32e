//! Dnodes: what describes an object. They lie in slots of 512 bytes in 16 KiB blocks of the meta-dnode.
//!
//! A walk parses millions of dnodes and needs the bonus of few, so [`Dnode`] only says where its bonus lies and
//! [`Dnode::bonus`] takes it out of the same bytes without a copy. [`DnodeBuf`] keeps both when the block goes away.

use super::blkptr::{BLKPTR_BYTES, Blkptr};
use super::dmu::{ChecksumKind, CompressKind, ObjectType};
use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use crate::units::sectors_to_bytes;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U16, U64, Unaligned};

/// Size of a dnode slot; a dnode takes 1 to 32 of them.
pub const DNODE_SLOT_BYTES: usize = 512;
/// Size of a block of dnodes (level 0 of the meta-dnode).
pub const DNODE_BLOCK_BYTES: usize = 16384;
/// Slots in a block of dnodes.
pub const DNODE_SLOTS_PER_BLOCK: usize = DNODE_BLOCK_BYTES / DNODE_SLOT_BYTES;
/// Bytes of a dnode before its first block pointer.
const CORE_BYTES: usize = 64;
/// log2 of the size of a block pointer.
const BLKPTR_SHIFT: u8 = 7;
/// Largest data block, in sectors: 16 MiB.
const DATA_SECTORS_MAX: u16 = 32768;

const WHAT: &str = "dnode";

/// The fixed part of `dnode_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDnodeCore<O: ByteOrder> {
    object_type: u8,
    indblkshift: u8,
    nlevels: u8,
    nblkptr: u8,
    bonus_type: u8,
    checksum: u8,
    compress: u8,
    flags: u8,
    datablkszsec: U16<O>,
    bonus_len: U16<O>,
    extra_slots: u8,
    pad: [u8; 3],
    max_blkid: U64<O>,
    used: U64<O>,
    pad2: [u8; 32],
}
const _: () = assert!(size_of::<RawDnodeCore<zerocopy::LittleEndian>>() == CORE_BYTES);

/// `dn_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnodeFlags(pub u8);

impl DnodeFlags {
    /// The space used is counted in bytes; without it, in sectors.
    pub const USED_BYTES: Self = Self(1);
    /// The object is counted in its user's and group's space.
    pub const USERUSED_ACCOUNTED: Self = Self(2);
    /// The last 128 bytes are a pointer to a spill block.
    pub const SPILL_BLKPTR: Self = Self(4);
    /// The object is counted in its user's and group's number of objects.
    pub const USEROBJUSED_ACCOUNTED: Self = Self(8);

    /// True when all bits of `flag` are set.
    #[must_use]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }
}

/// `dnode_phys_t` without its bonus bytes.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 64 | the fields up to `used_bytes` |
/// | 64 | 128 each | 1 to 3 block pointers |
/// | then | `bonus_len` | bonus |
/// | end - 128 | 128 | spill pointer, when [`DnodeFlags::SPILL_BLKPTR`] is set |
///
/// The end is `512 * (1 + extra_slots)`.
///
/// Source: OpenZFS include/sys/dnode.h, `dnode_phys_t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnode {
    /// What the object is; never [`ObjectType::NONE`].
    pub object_type: ObjectType,
    /// log2 of the size of an indirect block: 17 today, 14 in old pools, 9 to 20 accepted.
    pub indblkshift: u8,
    /// Levels of the tree; with 1 the pointers here lead to data. 1 to 32, as the level of a pointer has five bits.
    pub nlevels: u8,
    /// Block pointers here: 1 to 3.
    pub nblkptr: u8,
    /// What the bonus is.
    pub bonus_type: ObjectType,
    /// Checksum property, 0 to inherit.
    pub checksum: ChecksumKind,
    /// Compression property, 0 to inherit.
    pub compress: CompressKind,
    /// Flag bits.
    pub flags: DnodeFlags,
    /// Size of a data block: a multiple of 512, at most 16 MiB, never 0.
    pub data_block_bytes: u32,
    /// Length of the bonus.
    pub bonus_len: u16,
    /// Slots this dnode takes beyond the first: 0 to 31.
    pub extra_slots: u8,
    /// Number of the last data block; 0 for an empty object too.
    pub max_blkid: u64,
    /// Space allocated for the object, in bytes whatever the unit flag says.
    pub used_bytes: u64,
    /// Pointer to the spill block.
    pub spill: Option<Blkptr>,
    blkptr: [Blkptr; 3],
}

/// The checked core, before the pointers are read.
struct Core {
    dnode: Dnode,
    bonus_start: usize,
    total_bytes: usize,
}

impl OnDisk for Option<Core> {
    const NAME: &'static str = WHAT;
    type Raw<O: ByteOrder> = RawDnodeCore<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDnodeCore<O>) -> Result<Self, FormatError> {
        if raw.object_type == 0 {
            return Ok(None);
        }
        let check = |field, found: u8, valid: bool, expected| {
            if valid { Ok(()) } else { Err(FormatError::bad_field(WHAT, field, found.into(), expected)) }
        };
        check("indblkshift", raw.indblkshift, (9..=20).contains(&raw.indblkshift), "9 to 20")?;
        check("nlevels", raw.nlevels, (1..=32).contains(&raw.nlevels), "1 to 32")?;
        check("nblkptr", raw.nblkptr, (1..=3).contains(&raw.nblkptr), "1 to 3")?;
        check("extra_slots", raw.extra_slots, usize::from(raw.extra_slots) < DNODE_SLOTS_PER_BLOCK, "0 to 31")?;
        let sectors = raw.datablkszsec.get();
        if sectors == 0 || sectors > DATA_SECTORS_MAX {
            return Err(FormatError::bad_field(WHAT, "datablkszsec", sectors.into(), "1 to 32768"));
        }
        let flags = DnodeFlags(raw.flags);
        let used_bytes = match (flags.has(DnodeFlags::USED_BYTES), raw.used.get()) {
            (true, bytes) => bytes,
            (false, sectors) => sectors_to_bytes(WHAT, "used", sectors)?,
        };
        let total_bytes = usize::from(raw.extra_slots).saturating_add(1).saturating_mul(DNODE_SLOT_BYTES);
        let bonus_start = usize::from(raw.nblkptr).saturating_mul(BLKPTR_BYTES).saturating_add(CORE_BYTES);
        let spill_bytes = if flags.has(DnodeFlags::SPILL_BLKPTR) { BLKPTR_BYTES } else { 0 };
        let bonus_max = total_bytes.saturating_sub(bonus_start).saturating_sub(spill_bytes);
        if usize::from(raw.bonus_len.get()) > bonus_max {
            let expected = "at most the room between pointers and end";
            return Err(FormatError::bad_field(WHAT, "bonus_len", raw.bonus_len.get().into(), expected));
        }
        let dnode = Dnode {
            object_type: ObjectType(raw.object_type),
            indblkshift: raw.indblkshift,
            nlevels: raw.nlevels,
            nblkptr: raw.nblkptr,
            bonus_type: ObjectType(raw.bonus_type),
            checksum: ChecksumKind(raw.checksum),
            compress: CompressKind(raw.compress),
            flags,
            data_block_bytes: u32::from(sectors).saturating_mul(512),
            bonus_len: raw.bonus_len.get(),
            extra_slots: raw.extra_slots,
            max_blkid: raw.max_blkid.get(),
            used_bytes,
            spill: None,
            blkptr: [Blkptr::default(); 3],
        };
        Ok(Some(Core { dnode, bonus_start, total_bytes }))
    }
}

impl Dnode {
    /// Reads the dnode at the start of `slots`, or `None` when the slot is free (type 0; the rest may be garbage).
    ///
    /// `slots` holds the rest of the block, since the dnode may take more than one slot.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when the block ends before the dnode does, [`FormatError::BadField`] when a field is
    /// outside of the range it documents or when the bonus does not fit.
    pub fn parse(slots: &[u8], endian: Endian) -> Result<Option<Self>, FormatError> {
        let Some(Core { mut dnode, bonus_start, total_bytes }) = Option::<Core>::parse(slots, endian)? else {
            return Ok(None);
        };
        let whole = slots.get(..total_bytes).ok_or(FormatError::Truncated {
            what: WHAT,
            need: total_bytes,
            have: slots.len(),
        })?;
        let pointers = whole.get(CORE_BYTES..bonus_start).unwrap_or_default();
        for (pointer, bytes) in dnode.blkptr.iter_mut().zip(pointers.chunks_exact(BLKPTR_BYTES)) {
            *pointer = Blkptr::parse(bytes, endian)?;
        }
        if dnode.flags.has(DnodeFlags::SPILL_BLKPTR) {
            let start = total_bytes.saturating_sub(BLKPTR_BYTES);
            dnode.spill = Some(Blkptr::parse(whole.get(start..).unwrap_or_default(), endian)?);
        }
        Ok(Some(dnode))
    }

    /// The block pointers in use by this layout: 1 to 3, trailing ones may be holes.
    #[must_use]
    pub fn blkptrs(&self) -> &[Blkptr] {
        self.blkptr.get(..usize::from(self.nblkptr)).unwrap_or_default()
    }

    /// The block pointer `index`, `None` beyond `nblkptr`.
    #[must_use]
    pub fn blkptr_at(&self, index: usize) -> Option<&Blkptr> {
        self.blkptrs().get(index)
    }

    /// The bonus, out of the bytes the dnode was parsed from (empty when other, shorter bytes are given).
    #[must_use]
    pub fn bonus<'a>(&self, slots: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.nblkptr).saturating_mul(BLKPTR_BYTES).saturating_add(CORE_BYTES);
        let end = start.saturating_add(self.bonus_len.into());
        slots.get(start..end).unwrap_or_default()
    }

    /// Slots the dnode takes: 1 to 32.
    #[must_use]
    pub fn slots(&self) -> usize {
        usize::from(self.extra_slots).saturating_add(1)
    }

    /// log2 of the number of pointers in an indirect block (`epbs`).
    #[must_use]
    pub fn pointers_per_indirect_shift(&self) -> u8 {
        self.indblkshift.saturating_sub(BLKPTR_SHIFT)
    }

    /// How many data blocks lie below one pointer at `level` (1 at level 0), `u64::MAX` when 64 bits do not hold it.
    ///
    /// A pointer at level L is one that leads to a block of level L.
    #[must_use]
    pub fn level_span(&self, level: u8) -> u64 {
        let shift = u32::from(self.pointers_per_indirect_shift()).saturating_mul(level.into());
        1_u64.checked_shl(shift).unwrap_or(u64::MAX)
    }

    /// Which pointer of the dnode leads to data block `blkid`. May be beyond `nblkptr`: then the block does not exist.
    #[must_use]
    pub fn top_index(&self, blkid: u64) -> u64 {
        self.shifted(blkid, self.nlevels.saturating_sub(1))
    }

    /// Which pointer of an indirect block of level `level` (1 or more) leads to data block `blkid`.
    #[must_use]
    pub fn child_index(&self, blkid: u64, level: u8) -> u64 {
        let mask = self.level_span(1).saturating_sub(1);
        self.shifted(blkid, level.saturating_sub(1)) & mask
    }

    fn shifted(&self, blkid: u64, levels: u8) -> u64 {
        let shift = u32::from(self.pointers_per_indirect_shift()).saturating_mul(levels.into());
        blkid.checked_shr(shift).unwrap_or(0)
    }
}

/// A dnode together with its bonus, for use after its block is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnodeBuf {
    /// The dnode.
    pub dnode: Dnode,
    /// Its bonus: `bonus_len` bytes, in the byte order of `endian`.
    pub bonus: Vec<u8>,
    /// The byte order of the block it came from.
    pub endian: Endian,
}

impl DnodeBuf {
    /// As [`Dnode::parse`], keeping the bonus.
    ///
    /// # Errors
    /// As [`Dnode::parse`].
    pub fn parse(slots: &[u8], endian: Endian) -> Result<Option<Self>, FormatError> {
        let found = Dnode::parse(slots, endian)?;
        Ok(found.map(|dnode| Self { bonus: dnode.bonus(slots).to_vec(), dnode, endian }))
    }
}

/// One dnode of a block, with the bytes from its start to the end of the block.
#[derive(Clone, Debug)]
pub struct DnodeInBlock<'a> {
    /// Number of its first slot in the block.
    pub slot: usize,
    /// The dnode, or what is wrong with it.
    pub dnode: Result<Dnode, FormatError>,
    /// What to give to [`Dnode::bonus`].
    pub slots: &'a [u8],
}

/// The dnodes of a block. Free slots are left out; so are the slots a large dnode takes after its first.
///
/// After a broken dnode the next slot is tried. A last slot that is cut short is reported as truncated.
///
/// Source: OpenZFS module/zfs/dnode.c, `dnode_buf_byteswap`.
pub fn dnodes(block: &[u8], endian: Endian) -> impl Iterator<Item = DnodeInBlock<'_>> {
    let mut rest = block;
    let mut next_slot = 0_usize;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (slot, slots) = (next_slot, rest);
            let parsed = Dnode::parse(slots, endian);
            let step = parsed.as_ref().ok().and_then(Option::as_ref).map_or(1, Dnode::slots);
            rest = rest.get(step.saturating_mul(DNODE_SLOT_BYTES)..).unwrap_or_default();
            next_slot = next_slot.saturating_add(step);
            if let Some(dnode) = parsed.transpose() {
                return Some(DnodeInBlock { slot, dnode, slots });
            }
        }
        None
    })
}

/// The pointer `index` of an indirect block.
///
/// # Errors
/// [`FormatError::Truncated`] when the block has no such pointer.
pub fn indirect_blkptr(block: &[u8], endian: Endian, index: usize) -> Result<Blkptr, FormatError> {
    let start = index.saturating_mul(BLKPTR_BYTES);
    Blkptr::parse(block.get(start..).unwrap_or_default(), endian)
}

/// The pointers of an indirect block (also of a bpobj) in order; a rest shorter than a pointer is left out.
pub fn indirect_blkptrs(block: &[u8], endian: Endian) -> impl ExactSizeIterator<Item = Blkptr> {
    // OK to default: each chunk has the size of a pointer, and any words make one.
    block.chunks_exact(BLKPTR_BYTES).map(move |bytes| Blkptr::parse(bytes, endian).unwrap_or_default())
}

#[cfg(test)]
mod tests;
