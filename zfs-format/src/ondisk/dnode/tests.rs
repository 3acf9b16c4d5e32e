use super::*;
use crate::ondisk::testing::stored;
use crate::units::Txg;
use proptest::prelude::*;

/// A dnode of one slot with three pointers, little endian: type 19, bonus type 44 of 40 bytes.
fn plain_file() -> Vec<u8> {
    let mut bytes = vec![19, 17, 2, 3, 44, 0, 0, 3];
    bytes.extend_from_slice(&[0x00, 0x01, 40, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&5_u64.to_le_bytes());
    bytes.extend_from_slice(&0x1_2345_u64.to_le_bytes());
    bytes.resize(64 + 80, 0);
    bytes.extend_from_slice(&77_u64.to_le_bytes());
    bytes.resize(64 + 3 * 128, 0);
    bytes.extend_from_slice(&[0xbb; 40]);
    bytes.resize(512, 0);
    bytes
}

fn with(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = plain_file();
    change(&mut bytes);
    bytes
}

fn parse(bytes: &[u8]) -> Result<Option<Dnode>, FormatError> {
    Dnode::parse(bytes, Endian::Little)
}

#[test]
fn fields_come_from_their_offsets() {
    let bytes = plain_file();
    let dnode = parse(&bytes).unwrap().unwrap();
    assert_eq!((dnode.object_type, dnode.bonus_type), (ObjectType(19), ObjectType(44)));
    assert_eq!((dnode.indblkshift, dnode.nlevels, dnode.nblkptr), (17, 2, 3));
    assert_eq!((dnode.data_block_bytes, dnode.bonus_len, dnode.extra_slots), (131_072, 40, 0));
    assert_eq!((dnode.max_blkid, dnode.used_bytes), (5, 0x1_2345));
    assert_eq!(dnode.blkptrs().len(), 3);
    assert_eq!(dnode.blkptr_at(0).unwrap().logical_birth_txg(), Txg(77));
    assert_eq!(dnode.blkptr_at(3), None);
    assert_eq!(dnode.spill, None);
    assert_eq!(dnode.bonus(&bytes), [0xbb; 40]);
    let buf = DnodeBuf::parse(&bytes, Endian::Little).unwrap().unwrap();
    assert_eq!((buf.dnode, buf.bonus.len()), (dnode, 40));
}

#[test]
fn used_space_without_its_flag_is_in_sectors() {
    let bytes = with(|bytes| bytes[7] = 2);
    assert_eq!(parse(&bytes).unwrap().unwrap().used_bytes, 0x1_2345 * 512);
}

#[test]
fn a_spill_pointer_is_the_last_of_the_dnode_and_shortens_the_bonus() {
    let spilled = |bonus_len: u16| {
        with(|bytes| {
            bytes[3] = 1;
            bytes[7] = 5;
            bytes[10..12].copy_from_slice(&bonus_len.to_le_bytes());
            bytes[12] = 1;
            bytes.resize(1024, 0);
            bytes[1024 - 48..1024 - 40].copy_from_slice(&99_u64.to_le_bytes());
        })
    };
    let dnode = parse(&spilled(1024 - 192 - 128)).unwrap().unwrap();
    assert_eq!(dnode.spill.unwrap().logical_birth_txg(), Txg(99));
    assert_eq!(dnode.slots(), 2);
    assert!(matches!(parse(&spilled(1024 - 192 - 127)), Err(FormatError::BadField { field: "bonus_len", .. })));
}

#[test]
fn each_bad_field_is_named() {
    let broken = |at: usize, byte: u8| match parse(&with(|bytes| bytes[at] = byte)) {
        Err(FormatError::BadField { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(broken(1, 8), "indblkshift");
    assert_eq!(broken(1, 21), "indblkshift");
    assert_eq!(broken(2, 0), "nlevels");
    assert_eq!(broken(2, 33), "nlevels");
    assert_eq!(broken(3, 0), "nblkptr");
    assert_eq!(broken(3, 4), "nblkptr");
    assert_eq!(broken(9, 0), "datablkszsec");
    assert_eq!(broken(9, 0x81), "datablkszsec");
    assert_eq!(broken(10, 65), "bonus_len");
    assert_eq!(broken(12, 32), "extra_slots");
    let huge = with(|bytes| {
        bytes[7] = 0;
        bytes[31] = 0xff;
    });
    assert!(matches!(parse(&huge), Err(FormatError::BadField { field: "used", .. })));
}

#[test]
fn a_free_slot_may_hold_garbage() {
    let mut bytes = vec![0xff; 512];
    bytes[0] = 0;
    assert_eq!(parse(&bytes), Ok(None));
}

#[test]
fn a_dnode_longer_than_its_block_is_truncated() {
    let bytes = with(|bytes| bytes[12] = 1);
    assert_eq!(parse(&bytes), Err(FormatError::Truncated { what: "dnode", need: 1024, have: 512 }));
    assert!(matches!(parse(&bytes[..63]), Err(FormatError::Truncated { need: 64, .. })));
}

#[test]
fn a_block_yields_dnodes_and_skips_what_they_cover() {
    let mut block = vec![0; DNODE_BLOCK_BYTES];
    block[512..1024].copy_from_slice(&plain_file());
    block[2048..2560].copy_from_slice(&with(|bytes| bytes[12] = 2));
    block[2560..3584].fill(0xff);
    block[3584..4096].copy_from_slice(&with(|bytes| bytes[2] = 0));
    block[4096..4608].copy_from_slice(&plain_file());
    block[DNODE_BLOCK_BYTES - 512..].copy_from_slice(&with(|bytes| bytes[12] = 1));
    let found: Vec<_> = dnodes(&block, Endian::Little).map(|found| (found.slot, found.dnode.is_ok())).collect();
    assert_eq!(found, [(1, true), (4, true), (7, false), (8, true), (31, false)]);
    let first = dnodes(&block, Endian::Little).next().unwrap();
    assert_eq!(first.dnode.unwrap().bonus(first.slots), [0xbb; 40]);
}

#[test]
fn the_path_to_a_block_follows_the_shifts() {
    let dnode = Dnode { nlevels: 3, ..parse(&plain_file()).unwrap().unwrap() };
    assert_eq!(dnode.pointers_per_indirect_shift(), 10);
    assert_eq!((dnode.level_span(0), dnode.level_span(2), dnode.level_span(7)), (1, 1 << 20, u64::MAX));
    let blkid = (2 << 20) | (3 << 10) | 4;
    assert_eq!((dnode.top_index(blkid), dnode.child_index(blkid, 2), dnode.child_index(blkid, 1)), (2, 3, 4));
    let deep = Dnode { nlevels: 32, ..dnode };
    assert_eq!((deep.top_index(u64::MAX), deep.child_index(u64::MAX, 31)), (0, 0));
}

#[test]
fn an_indirect_block_is_an_array_of_pointers() {
    let words: Vec<u64> = (0..40).collect();
    let block = stored(&words, Endian::Big);
    let pointers: Vec<_> = indirect_blkptrs(&block, Endian::Big).collect();
    assert_eq!(pointers.len(), 2);
    assert_eq!(pointers[1].words()[0], 16);
    assert_eq!(indirect_blkptr(&block, Endian::Big, 1), Ok(pointers[1]));
    assert!(indirect_blkptr(&block, Endian::Big, 2).is_err());
    assert!(indirect_blkptr(&block, Endian::Big, usize::MAX).is_err());
}

/// Swaps every integer of a dnode of one slot, as a writer of the other order would have stored it.
fn swapped(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out[8..10].reverse();
    out[10..12].reverse();
    for word in out[16..448].chunks_exact_mut(8) {
        word.reverse();
    }
    out
}

proptest! {
    #[test]
    fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 50)) {
        let mut bytes = plain_file();
        bytes[64..64 + 384].copy_from_slice(&stored(&words[..48], Endian::Little));
        bytes[16..32].copy_from_slice(&stored(&words[48..], Endian::Little));
        prop_assert_eq!(Dnode::parse(&bytes, Endian::Little), Dnode::parse(&swapped(&bytes), Endian::Big));
    }

    #[test]
    fn any_bytes_do_not_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        core in proptest::collection::vec(0..4_u8, 16),
    ) {
        for (byte, value) in bytes.iter_mut().skip(2).zip(core) {
            *byte = value;
        }
        for found in dnodes(&bytes, Endian::Big) {
            if let Ok(dnode) = found.dnode {
                let _ = (dnode.bonus(found.slots), dnode.blkptrs(), dnode.top_index(9), dnode.level_span(255));
            }
        }
        let _ = DnodeBuf::parse(&bytes, Endian::Little);
    }
}
