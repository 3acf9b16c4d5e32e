//! Space maps: logs of what was allocated and freed in a metaslab, a vdev or (log space maps) the pool.
//!
//! Entries have one or two words; which, only the first word tells. Applied in order they give the allocated space.

use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use crate::units::{ObjectId, Txg};
use byteorder::{BigEndian, LittleEndian, ReadBytesExt};
use zerocopy::{ByteOrder, FromBytes, I64, Immutable, KnownLayout, U64, Unaligned};

const WHAT: &str = "space map";

/// The fields that all versions of the header have, as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSpaceMapHeader<O: ByteOrder> {
    object: U64<O>,
    length: U64<O>,
    alloc: I64<O>,
}
const _: () = assert!(size_of::<RawSpaceMapHeader<zerocopy::LittleEndian>>() == 24);

/// `space_map_phys_t`, in the bonus of type 7.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 24 | object, length, allocated |
/// | 64 | 256 | histogram, absent in a bonus of 24 |
///
/// Source: OpenZFS include/sys/space_map.h, `space_map_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceMapHeader {
    /// The object itself; old pools only.
    pub object: ObjectId,
    /// How many bytes of the content are entries.
    pub length_bytes: u64,
    /// Allocated space by this map; negative in maps that are differences.
    pub alloc_bytes: i64,
}

impl OnDisk for SpaceMapHeader {
    const NAME: &'static str = WHAT;
    type Raw<O: ByteOrder> = RawSpaceMapHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawSpaceMapHeader<O>) -> Result<Self, FormatError> {
        Ok(Self { object: ObjectId(raw.object.get()), length_bytes: raw.length.get(), alloc_bytes: raw.alloc.get() })
    }
}

impl SpaceMapHeader {
    /// The free segments by size: bucket `i` counts those of `2^i` to `2^(i+1)` units. `None` in old headers.
    #[must_use]
    pub fn histogram(bonus: &[u8], endian: Endian) -> Option<[u64; 32]> {
        let words = bonus.get(64..320)?;
        let mut histogram = [0; 32];
        for (bucket, word) in histogram.iter_mut().zip(words.chunks_exact(8)) {
            *bucket = endian.u64_at(word, 0)?;
        }
        Some(histogram)
    }
}

/// Whether a range was taken or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceMapAction {
    /// The range became allocated.
    Alloc,
    /// The range became free.
    Free,
}

impl SpaceMapAction {
    fn from_bit(bit: u64) -> Self {
        if bit == 0 { Self::Alloc } else { Self::Free }
    }
}

/// A range, in units of `1 << shift` bytes.
///
/// The shift is the ashift of the vdev for a metaslab's map and for `pool_checkpoint_sm`, 9 for log space maps, 0 for
/// DTLs and obsolete maps. Offsets are relative to the metaslab in a metaslab's map, to the vdev elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceMapRange {
    /// Taken or given back.
    pub action: SpaceMapAction,
    /// First unit.
    pub offset_units: u64,
    /// How many units, at least 1.
    pub run_units: u64,
    /// The top-level vdev: only two-word entries have one, and only in log space maps it means something.
    pub vdev: Option<u32>,
}

impl SpaceMapRange {
    /// Offset and length in bytes.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when the end of the range does not fit 64 bits.
    pub fn to_bytes(&self, shift: u32) -> Result<(u64, u64), FormatError> {
        let bad = FormatError::bad_field(WHAT, "offset", self.offset_units, "an end below 2^64");
        let unit = 1_u64.checked_shl(shift).ok_or(bad.clone())?;
        let offset_bytes = self.offset_units.checked_mul(unit).ok_or(bad.clone())?;
        let run_bytes = self.run_units.checked_mul(unit).ok_or(bad.clone())?;
        offset_bytes.checked_add(run_bytes).ok_or(bad)?;
        Ok((offset_bytes, run_bytes))
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceMapEntry {
    /// Space taken or given back.
    Range(SpaceMapRange),
    /// Says when the entries after it were written. Changes nothing.
    Debug {
        /// The kind of the entries after it.
        action: SpaceMapAction,
        /// The sync pass.
        sync_pass: u16,
        /// The txg, 0 in entries that only fill a block.
        txg: Txg,
    },
}

/// The entries in one block of a space map, up to `length_bytes` of the header.
///
/// ```text
/// one word    0 | offset 47 | type 1 | run - 1, 15
/// debug       2 (two bits) | action 2 | sync pass 10 | txg 50
/// two words   3 (two bits) | 2 | run - 1, 36 | vdev 24    and    type 1 | offset 63
/// ```
///
/// An entry of two words never crosses a block; one that does is [`FormatError::Truncated`], and the last item.
///
/// Source: OpenZFS include/sys/space_map.h, `SM_*`, `SM2_*`; module/zfs/space_map.c, `space_map_iterate`.
pub fn entries(content: &[u8], endian: Endian) -> impl Iterator<Item = Result<SpaceMapEntry, FormatError>> + '_ {
    let mut rest = content;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = entry(&mut rest, endian);
        if entry.is_err() {
            rest = &[];
        }
        Some(entry)
    })
}

fn entry(rest: &mut &[u8], endian: Endian) -> Result<SpaceMapEntry, FormatError> {
    let first = word(rest, endian)?;
    Ok(match (bits::<63, 1>(first), bits::<62, 1>(first)) {
        (0, _) => SpaceMapEntry::Range(SpaceMapRange {
            action: SpaceMapAction::from_bit(bits::<15, 1>(first)),
            offset_units: bits::<16, 47>(first),
            run_units: bits::<0, 15>(first).saturating_add(1),
            vdev: None,
        }),
        (_, 0) => SpaceMapEntry::Debug {
            action: SpaceMapAction::from_bit(bits::<60, 2>(first)),
            sync_pass: u16::try_from(bits::<50, 10>(first)).unwrap_or(0),
            txg: Txg(bits::<0, 50>(first)),
        },
        _ => {
            let second = word(rest, endian)?;
            SpaceMapEntry::Range(SpaceMapRange {
                action: SpaceMapAction::from_bit(bits::<63, 1>(second)),
                offset_units: bits::<0, 63>(second),
                run_units: bits::<24, 36>(first).saturating_add(1),
                vdev: u32::try_from(bits::<0, 24>(first)).ok(),
            })
        }
    })
}

fn word(rest: &mut &[u8], endian: Endian) -> Result<u64, FormatError> {
    let have = rest.len();
    let word = match endian {
        Endian::Little => rest.read_u64::<LittleEndian>(),
        Endian::Big => rest.read_u64::<BigEndian>(),
    };
    word.map_err(|_| FormatError::Truncated { what: WHAT, need: 8, have })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_the_header_come_from_their_offsets() {
        let mut words = numbered(40);
        words[2] = u64::MAX;
        let bonus = stored(&words, Endian::Big);
        let header = SpaceMapHeader::parse(&bonus, Endian::Big).unwrap();
        assert_eq!((header.object, header.length_bytes, header.alloc_bytes), (ObjectId(0), 1, -1));
        let histogram = SpaceMapHeader::histogram(&bonus, Endian::Big).unwrap();
        assert_eq!((histogram[0], histogram[31]), (8, 39));
        assert_eq!(SpaceMapHeader::histogram(&bonus[..24], Endian::Big), None);
    }

    #[test]
    fn all_kinds_of_entries_are_read() {
        let words = [
            (5 << 16) | (1 << 15) | 7,
            (2 << 62) | (1 << 60) | (3 << 50) | 99,
            (3 << 62) | ((1 << 35) << 24) | 12,
            (1 << 63) | (1 << 50),
            2 << 62,
            9 << 16,
        ];
        for endian in [Endian::Little, Endian::Big] {
            let content = stored(&words, endian);
            let found: Vec<_> = entries(&content, endian).map(Result::unwrap).collect();
            let range = |action, offset_units, run_units, vdev| {
                SpaceMapEntry::Range(SpaceMapRange { action, offset_units, run_units, vdev })
            };
            let expected = [
                range(SpaceMapAction::Free, 5, 8, None),
                SpaceMapEntry::Debug { action: SpaceMapAction::Free, sync_pass: 3, txg: Txg(99) },
                range(SpaceMapAction::Free, 1 << 50, (1 << 35) + 1, Some(12)),
                SpaceMapEntry::Debug { action: SpaceMapAction::Alloc, sync_pass: 0, txg: Txg(0) },
                range(SpaceMapAction::Alloc, 9, 1, None),
            ];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_entry_cut_by_the_end_is_the_last_item() {
        let two_words = stored(&[3 << 62], Endian::Little);
        let found: Vec<_> = entries(&two_words, Endian::Little).collect();
        assert_eq!(found, [Err(FormatError::Truncated { what: "space map", need: 8, have: 0 })]);
        assert_eq!(entries(&[0; 12], Endian::Big).filter(Result::is_err).count(), 1);
    }

    #[test]
    fn a_range_whose_end_does_not_fit_is_a_bad_field() {
        let range = SpaceMapRange { action: SpaceMapAction::Alloc, offset_units: 3, run_units: 2, vdev: None };
        assert_eq!(range.to_bytes(9), Ok((1536, 1024)));
        assert!(range.to_bytes(63).is_err() && range.to_bytes(64).is_err());
        let last = SpaceMapRange { offset_units: u64::MAX, ..range };
        assert!(matches!(last.to_bytes(0), Err(FormatError::BadField { field: "offset", .. })));
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 0..20)) {
            let (little, big) = (stored(&words, Endian::Little), stored(&words, Endian::Big));
            let found: Vec<_> = entries(&little, Endian::Little).collect();
            prop_assert_eq!(found, entries(&big, Endian::Big).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), shift: u32) {
            for entry in entries(&bytes, Endian::Big).flatten() {
                if let SpaceMapEntry::Range(range) = entry {
                    let _ = range.to_bytes(shift);
                }
            }
        }
    }
}
