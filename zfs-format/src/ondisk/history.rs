//! The history of a pool: a ring of records in one MOS object, each a length and a packed nvlist.

use super::nvlist::{NvList, NvValue};
use crate::FormatError;
use crate::endian::OnDisk;
use std::ops::Range;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Bytes of the length before a record: little endian on every machine.
pub const RECORD_LENGTH_BYTES: usize = 8;
/// More than any record has. The longest hold what an ioctl was given; OpenZFS allots at most 128 KiB for a command.
pub const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Bytes of the smallest packed nvlist: outer header, version, flags, end mark.
const NVLIST_BYTES_MIN: u64 = 16;

/// `spa_history_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawHistoryHeader<O: ByteOrder> {
    pool_create_len: U64<O>,
    phys_max_off: U64<O>,
    bof: U64<O>,
    eof: U64<O>,
    records_lost: U64<O>,
}
const _: () = assert!(size_of::<RawHistoryHeader<zerocopy::LittleEndian>>() == 40);

/// `spa_history_phys_t`, in the bonus of the MOS object `history`.
///
/// Offsets of the ring are logical: they grow for ever, and [`HistoryHeader::physical`] says where they lie. What stands
/// before `create_bytes`, the creation of the pool, is never overwritten.
///
/// Source: OpenZFS include/sys/spa_impl.h, `spa_history_phys_t`; module/zfs/spa_history.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryHeader {
    /// Bytes at the front that are kept for ever.
    pub create_bytes: u64,
    /// Where the object ends and the ring goes round.
    pub end_bytes: u64,
    /// The oldest byte of the ring that is still there, logical.
    pub first: u64,
    /// One past the newest byte, logical.
    pub last: u64,
    /// Records that were overwritten.
    pub records_lost: u64,
}

impl OnDisk for HistoryHeader {
    const NAME: &'static str = "history";
    type Raw<O: ByteOrder> = RawHistoryHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawHistoryHeader<O>) -> Result<Self, FormatError> {
        let header = Self {
            create_bytes: raw.pool_create_len.get(),
            end_bytes: raw.phys_max_off.get(),
            first: raw.bof.get(),
            last: raw.eof.get(),
            records_lost: raw.records_lost.get(),
        };
        let bad = |field, found, expected| Err(FormatError::bad_field(Self::NAME, field, found, expected));
        if header.create_bytes > header.end_bytes {
            return bad("pool_create_len", header.create_bytes, "at most phys_max_off");
        }
        if header.first < header.create_bytes {
            return bad("bof", header.first, "at least pool_create_len");
        }
        match header.last.checked_sub(header.first) {
            Some(length) if length <= header.ring_bytes() => Ok(header),
            _ => bad("eof", header.last, "after bof, by no more than the ring holds"),
        }
    }
}

impl HistoryHeader {
    /// Size of the ring.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.end_bytes.saturating_sub(self.create_bytes)
    }

    /// Bytes that newer records have overwritten.
    #[must_use]
    pub fn overwritten_bytes(&self) -> u64 {
        self.first.saturating_sub(self.create_bytes)
    }

    /// The parts of the object that hold records, in the order of time. Each is read from its start to its end; a record
    /// may reach from the second into the third, which is where the ring goes round.
    #[must_use]
    pub fn parts(&self) -> [Range<u64>; 3] {
        let length = self.last.saturating_sub(self.first);
        let start = self.physical(self.first);
        let until_end = length.min(self.end_bytes.saturating_sub(start));
        let rest = length.saturating_sub(until_end);
        [
            0..self.create_bytes,
            start..start.saturating_add(until_end),
            self.create_bytes..self.create_bytes.saturating_add(rest),
        ]
    }

    /// Where a logical offset of the ring lies in the object.
    #[must_use]
    pub fn physical(&self, logical: u64) -> u64 {
        let past = logical.saturating_sub(self.create_bytes);
        past.checked_rem(self.ring_bytes()).unwrap_or(0).saturating_add(self.create_bytes)
    }
}

/// What a record tells of.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HistoryEvent {
    /// A command that somebody gave, with its arguments.
    Command(String),
    /// Something that the pool did.
    Internal {
        /// What: `create`, `set`, `scan setup`. Pools of versions up to 28 store a number for it.
        name: String,
        /// More of it.
        text: String,
    },
    /// A request to the kernel.
    Ioctl {
        /// Its name.
        name: String,
        /// What it was given.
        input: Option<NvList>,
        /// What it answered.
        output: Option<NvList>,
        /// The number of its error.
        errno: Option<i64>,
    },
    /// None of these: names and values as they are.
    Unknown(NvList),
}

/// One record.
///
/// Source: OpenZFS include/sys/fs/zfs.h, `ZPOOL_HIST_*`; module/zfs/spa_history.c, `spa_history_log_nvl`,
/// `log_internal`.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRecord {
    /// When, in seconds since 1970.
    pub time_s: Option<u64>,
    /// In which txg.
    pub txg: Option<u64>,
    /// On which host.
    pub host: Option<String>,
    /// By which user.
    pub user: Option<u64>,
    /// In which zone or jail; `linux` on Linux.
    pub zone: Option<String>,
    /// The dataset it is about, by the name it had.
    pub dataset: Option<String>,
    /// Its object number.
    pub dataset_object: Option<u64>,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: Option<i64>,
    /// What it was.
    pub event: HistoryEvent,
}

impl HistoryRecord {
    /// Reads a record without the length before it.
    ///
    /// # Errors
    /// Those of [`NvList::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        NvList::parse(bytes).map(|list| Self::from_list(&list))
    }

    fn from_list(list: &NvList) -> Self {
        let text = |key| list.str(key).map(str::to_owned);
        let signed = |key| match list.get(key) {
            Some(NvValue::Int64(value)) => Some(*value),
            Some(NvValue::Int32(value)) => Some(i64::from(*value)),
            _ => None,
        };
        let event = if let Some(command) = text("history command") {
            HistoryEvent::Command(command)
        } else if let Some(number) = list.u64("history internal event") {
            let name = event_name(number).map_or_else(|| format!("event {number}"), str::to_owned);
            HistoryEvent::Internal { name, text: text("history internal str").unwrap_or_default() }
        } else if let Some(name) = text("internal_name") {
            HistoryEvent::Internal { name, text: text("history internal str").unwrap_or_default() }
        } else if let Some(name) = text("ioctl") {
            let (input, output) = (list.list("in_nvl").cloned(), list.list("out_nvl").cloned());
            HistoryEvent::Ioctl { name, input, output, errno: signed("errno") }
        } else {
            HistoryEvent::Unknown(list.clone())
        };
        Self {
            time_s: list.u64("history time"),
            txg: list.u64("history txg"),
            host: text("history hostname"),
            user: list.u64("history who"),
            zone: text("history zone"),
            dataset: text("dsname"),
            dataset_object: list.u64("dsid"),
            elapsed_ns: signed("elapsed_ns"),
            event,
        }
    }
}

/// True where the bytes may be the start of a record, its length included: for finding the next one behind damage.
#[must_use]
pub fn may_be_record(bytes: &[u8]) -> bool {
    // Length, encoding, byte order, two zeros, list version.
    let Some((length, rest)) = bytes.split_first_chunk::<RECORD_LENGTH_BYTES>() else { return false };
    let is_length = (NVLIST_BYTES_MIN..=RECORD_BYTES_MAX).contains(&u64::from_le_bytes(*length));
    is_length && matches!(rest, [0 | 1, 0 | 1, 0, 0, 0, 0, 0, 0, ..])
}

/// The names of the events that pools of versions up to 28 store as numbers.
///
/// Source: OpenZFS module/zcommon/zfs_comutil.c, `zfs_history_event_names`.
fn event_name(number: u64) -> Option<&'static str> {
    const NAMES: [&str; 41] = [
        "invalid event",
        "pool create",
        "vdev add",
        "pool remove",
        "pool destroy",
        "pool export",
        "pool import",
        "vdev attach",
        "vdev replace",
        "vdev detach",
        "vdev online",
        "vdev offline",
        "vdev upgrade",
        "pool clear",
        "pool scrub",
        "pool property set",
        "create",
        "clone",
        "destroy",
        "destroy_begin_sync",
        "inherit",
        "property set",
        "quota set",
        "permission update",
        "permission remove",
        "permission who remove",
        "promote",
        "receive",
        "rename",
        "reservation set",
        "replay_inc_sync",
        "replay_full_sync",
        "rollback",
        "snapshot",
        "filesystem version upgrade",
        "refquota set",
        "refreservation set",
        "pool scrub done",
        "user hold",
        "user release",
        "pool split",
    ];
    NAMES.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;
    use crate::ondisk::testing::stored;
    use proptest::prelude::*;

    fn header(words: [u64; 5]) -> Result<HistoryHeader, FormatError> {
        HistoryHeader::parse(&stored(&words, Endian::Little), Endian::Little)
    }

    #[test]
    fn a_ring_that_has_not_gone_round_is_one_part() {
        let header = header([100, 1000, 100, 400, 0]).unwrap();
        assert_eq!(header.parts(), [0..100, 100..400, 100..100]);
        assert_eq!((header.overwritten_bytes(), header.ring_bytes()), (0, 900));
    }

    #[test]
    fn a_ring_that_has_gone_round_is_two_parts() {
        // 900 bytes of ring: logical 1900 is physical 100 again, for the second time.
        let header = header([100, 1000, 1300, 2100, 7]).unwrap();
        assert_eq!(header.parts(), [0..100, 400..1000, 100..300]);
        assert_eq!((header.overwritten_bytes(), header.records_lost), (1200, 7));
        assert_eq!((header.physical(1900), header.physical(999), header.physical(1000)), (100, 999, 100));
    }

    #[test]
    fn offsets_that_contradict_each_other_are_bad_fields() {
        let bad =
            |words, field| assert!(matches!(header(words), Err(FormatError::BadField { field: f, .. }) if f == field));
        bad([1001, 1000, 1001, 1001, 0], "pool_create_len");
        bad([100, 1000, 99, 400, 0], "bof");
        bad([100, 1000, 400, 399, 0], "eof");
        bad([100, 1000, 100, 1001, 0], "eof");
        assert!(header([0; 5]).is_ok(), "a history nothing was written to");
    }

    /// A native little-endian list of one string and one number, as Linux writes it.
    fn record(name: &str, value: &str, number: (&str, u64)) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        let mut pair = |name: &str, kind: i32, value: &[u8]| {
            let start = (16 + name.len() + 1).next_multiple_of(8);
            let size = (start + value.len()).next_multiple_of(8);
            let mut pair = vec![0; size];
            pair[..4].copy_from_slice(&(size as i32).to_le_bytes());
            pair[4..6].copy_from_slice(&(name.len() as i16 + 1).to_le_bytes());
            pair[8..12].copy_from_slice(&1_i32.to_le_bytes());
            pair[12..16].copy_from_slice(&kind.to_le_bytes());
            pair[16..16 + name.len()].copy_from_slice(name.as_bytes());
            pair[start..start + value.len()].copy_from_slice(value);
            bytes.extend_from_slice(&pair);
        };
        pair(name, 9, format!("{value}\0").as_bytes());
        pair(number.0, 8, &number.1.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes
    }

    #[test]
    fn commands_and_events_are_told_apart() {
        let command =
            HistoryRecord::parse(&record("history command", "zpool create a b", ("history time", 9))).unwrap();
        assert_eq!(command.event, HistoryEvent::Command("zpool create a b".into()));
        assert_eq!((command.time_s, command.txg, &command.host), (Some(9), None, &None));
        let event = HistoryRecord::parse(&record("internal_name", "set", ("history txg", 4))).unwrap();
        assert_eq!(event.event, HistoryEvent::Internal { name: "set".into(), text: String::new() });
        assert_eq!(event.txg, Some(4));
        let old = HistoryRecord::parse(&record("history internal str", "x", ("history internal event", 40))).unwrap();
        assert_eq!(old.event, HistoryEvent::Internal { name: "pool split".into(), text: "x".into() });
        let newer = HistoryRecord::parse(&record("history internal str", "x", ("history internal event", 41))).unwrap();
        assert_eq!(newer.event, HistoryEvent::Internal { name: "event 41".into(), text: "x".into() });
        let unknown = HistoryRecord::parse(&record("a", "b", ("history time", 1))).unwrap();
        assert!(matches!(unknown.event, HistoryEvent::Unknown(list) if list.len() == 2));
    }

    #[test]
    fn the_start_of_a_record_is_recognised() {
        let list = record("history command", "x", ("history time", 1));
        let mut bytes = (list.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&list);
        assert!(may_be_record(&bytes));
        assert!(!may_be_record(&bytes[1..]) && !may_be_record(&bytes[8..]) && !may_be_record(&bytes[..12]));
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(0_u64..50, 5)) {
            let (little, big) = (stored(&words, Endian::Little), stored(&words, Endian::Big));
            prop_assert_eq!(HistoryHeader::parse(&little, Endian::Little), HistoryHeader::parse(&big, Endian::Big));
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(header) = HistoryHeader::parse(&bytes, Endian::Big) {
                let length: u64 = header.parts().iter().map(|part| part.end - part.start).sum();
                prop_assert!(length <= header.end_bytes);
            }
            let _ = (HistoryRecord::parse(&bytes), may_be_record(&bytes));
        }
    }
}
