//! Reads the history of a pool: what is readable of it, and what is not.

use super::Mos;
use crate::FormatError;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::{ObjectError, ObjectReader};
use crate::ondisk::history::{HistoryHeader, HistoryRecord, RECORD_BYTES_MAX, RECORD_LENGTH_BYTES, may_be_record};
use std::ops::Range;

/// More bytes than the largest history: OpenZFS allots a thousandth of the pool, at most 1 GiB.
///
/// Source: OpenZFS module/zfs/spa_history.c, `spa_history_create_obj`.
const HISTORY_BYTES_MAX: u64 = 1 << 30;
/// Larger than any block; bounds what a search keeps back.
const KEPT_BYTES: usize = 64;

/// One piece of the history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HistoryPiece {
    /// A record, with the bytes it takes.
    Record(Box<HistoryRecord>, u64),
    /// Bytes that are lost, or make no sense.
    Gap {
        /// How many.
        bytes: u64,
        /// Why.
        because: String,
    },
}

/// Takes one piece.
pub type OnHistory<'a> = &'a mut dyn FnMut(HistoryPiece);

/// Cuts a stream of bytes into records.
struct Splitter<'a> {
    each: OnHistory<'a>,
    bytes: Vec<u8>,
    /// Bytes passed over, and why, while the next record is looked for.
    gap: Option<(u64, String)>,
}

impl Splitter<'_> {
    /// A record begins here, or a search for one, with the bytes up to it lost.
    fn lose(&mut self, bytes: u64, because: &str) {
        let gap = self.gap.get_or_insert_with(|| (0, because.to_owned()));
        gap.0 = gap.0.saturating_add(bytes);
    }

    /// Bytes that cannot be read follow. What was begun before is no record.
    fn unreadable(&mut self, bytes: u64, because: &str) {
        let rest = self.bytes.len() as u64;
        self.bytes.clear();
        self.lose(bytes.saturating_add(rest), because);
    }

    fn tell_gap(&mut self) {
        if let Some((bytes, because)) = self.gap.take().filter(|gap| gap.0 > 0) {
            (self.each)(HistoryPiece::Gap { bytes, because });
        }
    }

    /// Hands over all records that are complete; `is_end` when nothing follows.
    fn split(&mut self, is_end: bool) {
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if self.gap.is_some() && !may_be_record(rest) {
                if rest.len() < KEPT_BYTES && !is_end {
                    break;
                }
                at += 1;
                self.lose(1, "");
                continue;
            }
            let Some(length) = rest.first_chunk::<RECORD_LENGTH_BYTES>().map(|bytes| u64::from_le_bytes(*bytes)) else {
                if !is_end {
                    break;
                }
                self.lose(rest.len() as u64, "the last record is cut off");
                at = self.bytes.len();
                break;
            };
            let record = usize::try_from(length).ok().and_then(|length| rest.get(RECORD_LENGTH_BYTES..)?.get(..length));
            match record {
                None if length <= RECORD_BYTES_MAX && !is_end => break,
                Some(record) if length <= RECORD_BYTES_MAX => match HistoryRecord::parse(record) {
                    Ok(parsed) => {
                        let size = RECORD_LENGTH_BYTES as u64 + length;
                        at += RECORD_LENGTH_BYTES + record.len();
                        self.tell_gap();
                        (self.each)(HistoryPiece::Record(Box::new(parsed), size));
                    }
                    Err(error) => {
                        at += 1;
                        self.lose(1, &format!("a record makes no sense: {error}"));
                    }
                },
                _ => {
                    at += 1;
                    self.lose(1, &format!("a record claims to have {length} bytes, which are not there"));
                }
            }
        }
        self.bytes.drain(..at);
        if is_end {
            self.tell_gap();
        }
    }
}

impl Mos<'_> {
    /// Hands each record of the pool's history to `each`, the oldest first, and what is lost between them. `None` when
    /// the pool has no history: it is older than version 4.
    ///
    /// # Errors
    /// [`ObjectError`] when the object or its header cannot be read. Damage inside is a [`HistoryPiece::Gap`].
    ///
    /// Source: OpenZFS module/zfs/spa_history.c, `spa_history_get`.
    pub fn history(&mut self, work: &mut Work, each: OnHistory<'_>) -> Result<Option<HistoryHeader>, ObjectError> {
        let Some(&object) = self.directory.get("history") else { return Ok(None) };
        let format = |source| ObjectError::Format { object, source };
        let mut reader = self.objset.object(object, work)?;
        let header = HistoryHeader::parse(&reader.dnode.bonus, reader.dnode.endian).map_err(format)?;
        if header.end_bytes > HISTORY_BYTES_MAX {
            let expected = "no more than a history has room for";
            return Err(format(FormatError::bad_field("history", "phys_max_off", header.end_bytes, expected)));
        }
        let mut splitter = Splitter { each, bytes: Vec::new(), gap: None };
        let [create, oldest, newest] = header.parts();
        read_part(&mut reader, create, &mut splitter, work);
        splitter.split(true);
        read_part(&mut reader, oldest, &mut splitter, work);
        read_part(&mut reader, newest, &mut splitter, work);
        splitter.split(true);
        Ok(Some(header))
    }
}

/// Feeds a part of the object, block by block.
fn read_part(reader: &mut ObjectReader<'_>, part: Range<u64>, splitter: &mut Splitter<'_>, work: &mut Work) {
    let block_bytes = reader.block_bytes().max(1);
    let mut at = part.start;
    while at < part.end {
        let blkid = at / block_bytes;
        let end = blkid.saturating_add(1).saturating_mul(block_bytes).min(part.end);
        let within = |offset: u64| usize::try_from(offset - blkid * block_bytes).unwrap_or(usize::MAX);
        match reader.read_block(blkid, work) {
            Ok(Some(_)) => match work.plain().get(within(at)..within(end)) {
                Some(bytes) => splitter.bytes.extend_from_slice(bytes),
                None => splitter.unreadable(end - at, "a block is shorter than it should be"),
            },
            Ok(None) => splitter.unreadable(end - at, "nothing was ever written there"),
            Err(error) => splitter.unreadable(end - at, &error.to_string()),
        }
        splitter.split(false);
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An empty list in the native encoding: 16 bytes.
    const EMPTY: [u8; 16] = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];

    fn record() -> Vec<u8> {
        [&16_u64.to_le_bytes()[..], &EMPTY].concat()
    }

    /// Pieces as text: `R` for a record, the number of bytes for a gap. `None` is a part of ten bytes that cannot be read.
    fn split(parts: &[Option<&[u8]>]) -> String {
        let mut found = Vec::new();
        let mut each = |piece: HistoryPiece| {
            found.push(match piece {
                HistoryPiece::Record(_, 24) => "R".to_owned(),
                HistoryPiece::Record(..) => "?".to_owned(),
                HistoryPiece::Gap { bytes, because } => format!("{bytes} {because}"),
            });
        };
        let mut splitter = Splitter { each: &mut each, bytes: Vec::new(), gap: None };
        for part in parts {
            match part {
                Some(bytes) => splitter.bytes.extend_from_slice(bytes),
                None => splitter.unreadable(10, "lost"),
            }
            splitter.split(false);
        }
        splitter.split(true);
        found.join(", ")
    }

    #[test]
    fn records_do_not_mind_where_the_stream_is_cut() {
        let bytes = record().repeat(3);
        for cut in 0..bytes.len() {
            assert_eq!(split(&[Some(&bytes[..cut]), Some(&bytes[cut..])]), "R, R, R");
        }
    }

    #[test]
    fn behind_a_gap_the_next_record_is_found() {
        let bytes = record().repeat(3);
        assert_eq!(split(&[Some(&bytes[..30]), None, Some(&bytes[40..])]), "R, 24 lost, R");
        assert_eq!(split(&[None, Some(&bytes)]), "10 lost, R, R, R");
        assert_eq!(split(&[Some(&bytes), None]), "R, R, R, 10 lost");
    }

    #[test]
    fn a_record_that_makes_no_sense_costs_no_other() {
        let mut bytes = record().repeat(3);
        bytes[32] = 9;
        let expected = "R, 24 a record makes no sense: nvlist: encoding is 0x9, expected 0 or 1, R";
        assert_eq!(split(&[Some(&bytes)]), expected);
        let mut bytes = record().repeat(3);
        bytes[31] = 1;
        assert!(split(&[Some(&bytes)]).starts_with("R, 24 a record claims to have 72057"));
        assert_eq!(split(&[Some(&bytes[..20])]), "20 a record claims to have 16 bytes, which are not there");
        assert_eq!(split(&[Some(&record()), Some(&[1, 2])]), "R, 2 the last record is cut off");
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_piece(bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..300)) {
            let mut sum = 0;
            let mut each = |piece: HistoryPiece| match piece {
                HistoryPiece::Record(_, bytes) | HistoryPiece::Gap { bytes, .. } => sum += bytes,
            };
            let mut splitter = Splitter { each: &mut each, bytes: bytes.clone(), gap: None };
            splitter.split(false);
            splitter.split(true);
            prop_assert_eq!(sum, bytes.len() as u64);
        }
    }
}
