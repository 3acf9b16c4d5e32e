use super::*;
use crate::Endian;
use crate::ondisk::testing::{numbered, stored};
use proptest::prelude::*;

#[test]
fn the_fields_of_the_header_come_from_their_offsets() {
    let header = ZilHeader::parse(&stored(&numbered(24), Endian::Big), Endian::Big).unwrap();
    assert_eq!((header.claim_txg, header.replay_seq), (Txg(0), 1));
    assert_eq!(header.log.words()[0], 2);
    assert_eq!((header.claim_blk_seq, header.flags, header.claim_lr_seq), (18, 19, 20));
    assert_eq!(header.claimed_record_seq(), Some(20));
    assert_eq!(ZilHeader { flags: 1, ..header }.claimed_record_seq(), None);
}

/// A record of `words` after its header.
fn record(tx_type: u64, seq: u64, words: &[u64]) -> Vec<u64> {
    let mut all = vec![tx_type, 32 + 8 * words.len() as u64, 77, seq];
    all.extend_from_slice(words);
    all
}

/// A write of 8 inline bytes, a clone of one pointer, a removal.
fn records() -> Vec<u64> {
    let mut write = vec![34, 4096, 8, 0];
    write.extend([0; 16]);
    write.push(0x1122_3344_5566_7788);
    let mut clone = vec![35, 0, 512, 512, 1];
    clone.extend(100..116);
    [record(9, 1, &write), record(24, 2, &clone), record(5 | (1 << 63), 3, &[4, 0x6162_6300])].concat()
}

fn chain(used: u64) -> Vec<u64> {
    let mut words = vec![0];
    words.extend(200..216);
    words.push(used);
    words.extend([ECK_MAGIC, 1, 2, 3, 4]);
    words
}

fn zilog2(endian: Endian) -> Vec<u8> {
    let records = records();
    let mut block = stored(&[chain(184 + 8 * records.len() as u64), records].concat(), endian);
    block.resize(4096, 0xee);
    block
}

fn zilog(endian: Endian) -> Vec<u8> {
    let mut block = stored(&records(), endian);
    let used = block.len() as u64;
    block.resize(4096 - 184, 0xee);
    block.extend(stored(&chain(used), endian));
    block
}

#[test]
fn records_are_found_in_both_layouts_and_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        for (block, kind) in [(zilog2(endian), ChecksumKind::ZILOG2), (zilog(endian), ChecksumKind::ZILOG)] {
            let found = ZilBlock::parse(&block, kind).unwrap();
            assert_eq!((found.endian, found.chain.checksum), (endian, [1, 2, 3, 4]));
            assert_eq!(found.chain.next.words()[0], 200);
            let records: Vec<_> = found.records().map(Result::unwrap).collect();
            let types: Vec<_> = records.iter().map(|record| record.tx_type.to_string()).collect();
            assert_eq!(types, ["WRITE", "CLONE_RANGE", "REMOVE"]);
            assert_eq!((records[2].seq, records[2].txg, records[2].is_case_insensitive), (3, Txg(77), true));
            assert_eq!(records[2].object(), Some(ObjectId(4)));
            let write = records[0].write().unwrap().unwrap();
            assert_eq!((write.object, write.offset_bytes, write.length_bytes), (ObjectId(34), 4096, 8));
            assert!(write.bp.is_hole());
            assert_eq!(write.inline_data, stored(&[0x1122_3344_5566_7788], endian));
            let clone = records[1].clone_range().unwrap().unwrap();
            assert_eq!((clone.object, clone.length_bytes, clone.block_bytes), (ObjectId(35), 512, 512));
            assert_eq!((clone.blkptrs.len(), clone.blkptrs[0].words()[0]), (1, 100));
            assert_eq!((records[2].write(), records[2].clone_range()), (Ok(None), Ok(None)));
        }
    }
}

#[test]
fn each_bad_field_is_named() {
    let field = |at: usize, byte: u8, kind: u8| {
        let mut block = zilog2(Endian::Little);
        block[at] = byte;
        match ZilBlock::parse(&block, ChecksumKind(kind)) {
            Err(FormatError::BadField { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field(144, 0, 9), "magic");
    assert_eq!(field(136 + 2, 1, 9), "used");
    assert_eq!(field(137, 0, 9), "used");
    assert_eq!(field(0, 0, 7), "checksum kind");
    assert!(matches!(ZilBlock::parse(&[0; 183], ChecksumKind::ZILOG), Err(FormatError::Truncated { .. })));
}

#[test]
fn an_impossible_record_length_ends_the_block() {
    let items = |low: u8, high: u8| {
        let mut block = zilog2(Endian::Little);
        (block[184 + 8], block[184 + 10]) = (low, high);
        let found: Vec<_> = ZilBlock::parse(&block, ChecksumKind::ZILOG2).unwrap().records().collect();
        assert_eq!(found.len(), 1);
        found[0].clone().map(|_| ())
    };
    assert!(matches!(items(24, 0), Err(FormatError::BadField { field: "reclen", .. })));
    assert!(matches!(items(36, 0), Err(FormatError::BadField { field: "reclen", .. })));
    assert!(matches!(items(200, 1), Err(FormatError::Truncated { what: "zil record", .. })));
}

#[test]
fn a_clone_with_more_pointers_than_bytes_is_truncated() {
    let bytes = stored(&record(24, 2, &[35, 0, 512, 512, u64::MAX]), Endian::Big);
    let found = ZilRecord::parse(&bytes, Endian::Big).unwrap();
    assert!(matches!(found.clone_range(), Err(FormatError::Truncated { .. })));
    let short = stored(&record(9, 2, &[35]), Endian::Big);
    assert!(matches!(ZilRecord::parse(&short, Endian::Big).unwrap().write(), Err(FormatError::Truncated { .. })));
}

proptest! {
    #[test]
    fn both_byte_orders_agree_on_the_header(words in proptest::collection::vec(any::<u64>(), 24)) {
        let little = ZilHeader::parse(&stored(&words, Endian::Little), Endian::Little);
        prop_assert_eq!(little, ZilHeader::parse(&stored(&words, Endian::Big), Endian::Big));
    }

    #[test]
    fn any_bytes_do_not_panic(
        tail in proptest::collection::vec(prop_oneof![Just(0_u8), 0..64_u8, any::<u8>()], 0..600),
        used in 0..700_u64,
    ) {
        let block = [stored(&chain(used), Endian::Little), tail].concat();
        if let Ok(found) = ZilBlock::parse(&block, ChecksumKind::ZILOG2) {
            for record in found.records().flatten() {
                let _ = (record.write(), record.clone_range(), record.object());
            }
        }
        let _ = ZilBlock::parse(&block, ChecksumKind::ZILOG);
    }
}
