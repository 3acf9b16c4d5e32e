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

proptest! {
    #[test]
    fn both_byte_orders_agree_on_the_header(words in proptest::collection::vec(any::<u64>(), 24)) {
        let little = ZilHeader::parse(&stored(&words, Endian::Little), Endian::Little);
        prop_assert_eq!(little, ZilHeader::parse(&stored(&words, Endian::Big), Endian::Big));
    }
}
