//! Uberblocks: the roots of the pool, one per txg, in the ring at the end of each label.
//!
//! Reads the 216 bytes at the start of a slot. The checksum at the end of the slot is verified elsewhere, before this.

use super::blkptr::{Blkptr, RawBlkptr};
use super::label::endian_by_magic;
use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use crate::units::{SECTOR_BYTES, Txg};
use std::cmp::Ordering;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// First word of an uberblock.
pub const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
/// Size of the structure at the start of a slot.
pub const UBERBLOCK_BYTES: usize = 216;
/// The `mmp_magic` that says the multihost fields mean something.
pub const MMP_MAGIC: u64 = 0xa11c_ea11;

/// `uberblock_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawUberblock<O: ByteOrder> {
    magic: U64<O>,
    version: U64<O>,
    txg: U64<O>,
    guid_sum: U64<O>,
    timestamp: U64<O>,
    rootbp: RawBlkptr<O>,
    software_version: U64<O>,
    mmp_magic: U64<O>,
    mmp_delay: U64<O>,
    mmp_config: U64<O>,
    checkpoint_txg: U64<O>,
    raidz_reflow_info: U64<O>,
}
const _: () = assert!(size_of::<RawUberblock<zerocopy::LittleEndian>>() == UBERBLOCK_BYTES);

/// Multihost state of an uberblock (`ub_mmp_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmp {
    /// Nanoseconds since the last heartbeat; 0 means that multihost is off.
    pub delay_ns: u64,
    /// Milliseconds between heartbeats.
    pub interval_ms: Option<u32>,
    /// Counts the heartbeats within one txg and second.
    pub seq: Option<u16>,
    /// After how many missed intervals the pool suspends.
    pub fail_intervals: Option<u16>,
}

/// State of the scratch area of a raidz expansion.
///
/// Source: OpenZFS include/sys/uberblock_impl.h, `raidz_reflow_scratch_state_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchState(pub u16);

impl ScratchState {
    /// No expansion uses the scratch area.
    pub const NOT_IN_USE: Self = Self(0);
    /// The start of the vdev lives in the scratch area: reads of it must go there.
    pub const VALID: Self = Self(1);
}

/// `uberblock_t`.
///
/// | offset | content |
/// | --- | --- |
/// | 0 | magic, version, txg, guid sum, timestamp |
/// | 40 | block pointer to the MOS, 128 bytes |
/// | 168 | software version, multihost (3 words), checkpoint txg, raidz reflow |
///
/// # Errors
/// [`FormatError::BadField`] when the magic is wrong. Version and txg are for the pool to judge.
///
/// Source: OpenZFS include/sys/uberblock_impl.h, `struct uberblock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uberblock {
    /// The byte order in which it was stored.
    pub endian: Endian,
    /// SPA version: 1 to 28, or 5000 for pools with features.
    pub version: u64,
    /// The txg whose state this is.
    pub txg: Txg,
    /// Sum of the guids of all vdevs, modulo 2^64.
    pub guid_sum: u64,
    /// When it was written, seconds since 1970.
    pub timestamp_s: u64,
    /// The MOS.
    pub rootbp: Blkptr,
    /// The highest SPA version the writer knew.
    pub software_version: u64,
    /// Multihost fields, when the writer knew them.
    pub mmp: Option<Mmp>,
    /// The txg this uberblock had when it was checkpointed; 0 in all others.
    pub checkpoint_txg: Txg,
    /// Progress of a raidz expansion, undecoded; two uberblocks are compared by it before a rewind.
    pub raidz_reflow_info: u64,
}

impl OnDisk for Uberblock {
    const NAME: &'static str = "uberblock";
    type Raw<O: ByteOrder> = RawUberblock<O>;

    fn from_raw<O: ByteOrder>(raw: &RawUberblock<O>) -> Result<Self, FormatError> {
        if raw.magic.get() != UBERBLOCK_MAGIC {
            return Err(FormatError::bad_field(Self::NAME, "magic", raw.magic.get(), "0x00bab10c"));
        }
        let is_little = U64::<O>::new(1).to_bytes() == 1_u64.to_le_bytes();
        Ok(Self {
            endian: if is_little { Endian::Little } else { Endian::Big },
            version: raw.version.get(),
            txg: Txg(raw.txg.get()),
            guid_sum: raw.guid_sum.get(),
            timestamp_s: raw.timestamp.get(),
            rootbp: Blkptr::from_raw(&raw.rootbp)?,
            software_version: raw.software_version.get(),
            mmp: (raw.mmp_magic.get() == MMP_MAGIC).then(|| mmp(raw.mmp_delay.get(), raw.mmp_config.get())),
            checkpoint_txg: Txg(raw.checkpoint_txg.get()),
            raidz_reflow_info: raw.raidz_reflow_info.get(),
        })
    }
}

fn mmp(delay_ns: u64, config: u64) -> Mmp {
    Mmp {
        delay_ns,
        interval_ms: u32::try_from(bits::<8, 24>(config)).ok().filter(|_| config & 1 == 1),
        seq: u16::try_from(bits::<32, 16>(config)).ok().filter(|_| config & 2 == 2),
        fail_intervals: u16::try_from(bits::<48, 16>(config)).ok().filter(|_| config & 4 == 4),
    }
}

impl Uberblock {
    /// Reads the uberblock at the start of a ring slot, in the byte order its magic tells.
    ///
    /// The copy in the MOS that a checkpoint keeps is an array of words in a ZAP: use [`OnDisk::parse`] with
    /// [`Endian::Big`] for it.
    ///
    /// # Errors
    /// [`FormatError::Truncated`], and [`FormatError::BadField`] when the magic is wrong in both byte orders.
    pub fn parse_slot(slot: &[u8]) -> Result<Self, FormatError> {
        let endian = endian_by_magic(Self::NAME, slot, 0, UBERBLOCK_BYTES, UBERBLOCK_MAGIC, "0x00bab10c")?;
        Self::parse(slot, endian)
    }

    /// What uberblocks are ordered by: txg, then timestamp, then multihost sequence (0 when absent).
    ///
    /// Source: OpenZFS module/zfs/vdev_label.c, `vdev_uberblock_compare`.
    #[must_use]
    pub fn order_key(&self) -> (Txg, u64, u16) {
        (self.txg, self.timestamp_s, self.mmp.and_then(|mmp| mmp.seq).unwrap_or(0))
    }

    /// Which of two valid uberblocks is the newer state of the pool ([`Ordering::Greater`]: `self`).
    #[must_use]
    pub fn cmp_best(&self, other: &Self) -> Ordering {
        self.order_key().cmp(&other.order_key())
    }

    /// How far a raidz expansion has come: offset in the raidz vdev.
    #[must_use]
    pub fn reflow_offset_bytes(&self) -> u64 {
        bits::<0, 55>(self.raidz_reflow_info).saturating_mul(SECTOR_BYTES)
    }

    /// What the scratch area of a raidz expansion holds.
    #[must_use]
    pub fn reflow_scratch_state(&self) -> ScratchState {
        ScratchState(u16::try_from(bits::<55, 9>(self.raidz_reflow_info)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::dmu::ObjectType;
    use crate::ondisk::testing::{self, stored};
    use proptest::prelude::*;

    /// Magic, then each word holds its own index, except those that are decoded further.
    fn numbered() -> Vec<u64> {
        let mut words = testing::numbered(27);
        words[0] = UBERBLOCK_MAGIC;
        words[22] = MMP_MAGIC;
        words[24] = 0x0007_0005_0003_e807;
        words[26] = (1 << 55) | 3;
        words
    }

    #[test]
    fn fields_come_from_their_offsets() {
        let found = Uberblock::parse_slot(&stored(&numbered(), Endian::Big)).unwrap();
        assert_eq!(found.endian, Endian::Big);
        assert_eq!((found.version, found.txg, found.guid_sum, found.timestamp_s), (1, Txg(2), 3, 4));
        assert_eq!(*found.rootbp.words(), std::array::from_fn(|index| index as u64 + 5));
        assert_eq!((found.software_version, found.checkpoint_txg), (21, Txg(25)));
        let mmp = Mmp { delay_ns: 23, interval_ms: Some(1000), seq: Some(5), fail_intervals: Some(7) };
        assert_eq!(found.mmp, Some(mmp));
        assert_eq!(found.reflow_offset_bytes(), 1536);
        assert_eq!(found.reflow_scratch_state(), ScratchState::VALID);
    }

    #[test]
    fn a_real_uberblock_leads_to_a_mos() {
        let found = Uberblock::parse_slot(include_bytes!("uberblock/single.bin")).unwrap();
        assert_eq!((found.endian, found.version, found.txg), (Endian::Little, 5000, Txg(42)));
        assert_eq!(found.guid_sum, 0xc68d_6bea_7dba_a319);
        assert_eq!(found.rootbp.check(), Ok(()));
        assert_eq!((found.rootbp.object_type(), found.rootbp.fill_count()), (ObjectType::OBJSET, 64));
        assert_eq!(found.rootbp.birth_txg(), found.txg);
        assert_eq!(found.mmp, Some(Mmp { delay_ns: 0, interval_ms: None, seq: None, fail_intervals: None }));
    }

    #[test]
    fn multihost_fields_without_their_magic_or_bits_are_absent() {
        let mut words = numbered();
        words[24] &= !7;
        let mmp = Uberblock::parse_slot(&stored(&words, Endian::Little)).unwrap().mmp.unwrap();
        assert_eq!((mmp.interval_ms, mmp.seq, mmp.fail_intervals), (None, None, None));
        words[22] = 0;
        assert_eq!(Uberblock::parse_slot(&stored(&words, Endian::Little)).unwrap().mmp, None);
    }

    #[test]
    fn the_newer_txg_wins_then_the_time_then_the_heartbeat() {
        let base = Uberblock::parse_slot(&stored(&numbered(), Endian::Little)).unwrap();
        let older = Uberblock { txg: Txg(1), timestamp_s: 99, ..base };
        let later = Uberblock { timestamp_s: 5, mmp: None, ..base };
        let quiet = Uberblock { mmp: None, ..base };
        assert_eq!(base.cmp_best(&older), Ordering::Greater);
        assert_eq!(base.cmp_best(&later), Ordering::Less);
        assert_eq!(base.cmp_best(&quiet), Ordering::Greater);
        assert_eq!(base.cmp_best(&base), Ordering::Equal);
    }

    #[test]
    fn a_wrong_magic_is_a_bad_field() {
        let bad = Err(FormatError::bad_field("uberblock", "magic", 0, "0x00bab10c"));
        assert_eq!(Uberblock::parse_slot(&[0; UBERBLOCK_BYTES]), bad);
        assert_eq!(Uberblock::parse(&[0; UBERBLOCK_BYTES], Endian::Big), bad);
        assert!(matches!(Uberblock::parse_slot(&[0; 215]), Err(FormatError::Truncated { need: 216, .. })));
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(tail in proptest::collection::vec(any::<u64>(), 26)) {
            let words: Vec<u64> = std::iter::once(UBERBLOCK_MAGIC).chain(tail).collect();
            let little = Uberblock::parse_slot(&stored(&words, Endian::Little)).unwrap();
            let big = Uberblock::parse_slot(&stored(&words, Endian::Big)).unwrap();
            prop_assert_eq!(little, Uberblock { endian: Endian::Little, ..big });
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Uberblock::parse_slot(&bytes);
            if let Ok(found) = Uberblock::parse(&bytes, Endian::Big) {
                let _ = found.reflow_offset_bytes();
            }
        }
    }
}
