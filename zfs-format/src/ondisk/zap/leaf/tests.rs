use super::*;
use crate::ondisk::testing::stored;
use proptest::prelude::*;

/// Builds a leaf of 512 bytes: 16 buckets, 18 chunks.
struct Builder {
    block: Vec<u8>,
    endian: Endian,
}

impl Builder {
    const CHUNKS: usize = 48 + 32;

    fn new(endian: Endian) -> Self {
        let mut block = stored(&[LEAF_BLOCK_TYPE, 0, 0b101], endian);
        block.resize(512, 0xee);
        let mut leaf = Self { block, endian };
        leaf.put(24, &LEAF_MAGIC.to_be_bytes());
        for (index, field) in [1_u16, 2, 3, 4].into_iter().enumerate() {
            leaf.put(28 + 2 * index, &field.to_be_bytes());
        }
        leaf.block[36] = 1;
        leaf.block[48..80].fill(0xff);
        leaf
    }

    /// Stores an integer given big endian in the order of the leaf.
    fn put(&mut self, at: usize, big_endian: &[u8]) {
        let target = &mut self.block[at..at + big_endian.len()];
        target.copy_from_slice(big_endian);
        if self.endian == Endian::Little {
            target.reverse();
        }
    }

    fn bucket(&mut self, bucket: usize, chunk: u16) -> &mut Self {
        self.put(48 + 2 * bucket, &chunk.to_be_bytes());
        self
    }

    fn entry(&mut self, at: usize, size: u8, fields: [u16; 5], cd: u32, hash: u64) -> &mut Self {
        let start = Self::CHUNKS + 24 * at;
        self.block[start] = 252;
        self.block[start + 1] = size;
        for (index, field) in fields.into_iter().enumerate() {
            self.put(start + 2 + 2 * index, &field.to_be_bytes());
        }
        self.put(start + 12, &cd.to_be_bytes());
        self.put(start + 16, &hash.to_be_bytes());
        self
    }

    fn array(&mut self, at: usize, data: &[u8], next: u16) -> &mut Self {
        let start = Self::CHUNKS + 24 * at;
        self.block[start] = 251;
        self.block[start + 1..start + 1 + data.len()].copy_from_slice(data);
        self.put(start + 22, &next.to_be_bytes());
        self
    }

    fn all(&self, keys: KeyKind) -> Vec<Result<LeafEntry, FormatError>> {
        parse_leaf(&self.block, self.endian).unwrap().entries(keys).collect()
    }

    /// The fields named by the errors, in order.
    fn bad_fields(&self) -> Vec<&'static str> {
        let name = |error| match error {
            FormatError::BadField { field, .. } => field,
            other => panic!("{other:?}"),
        };
        self.all(KeyKind::Text).into_iter().filter_map(Result::err).map(name).collect()
    }
}

const END: u16 = 0xffff;

/// Two entries in bucket 3 (the second with a long name), one in bucket 9.
fn sample(endian: Endian) -> Builder {
    let mut leaf = Builder::new(endian);
    leaf.bucket(3, 0).bucket(9, 7);
    leaf.entry(0, 8, [3, 1, 4, 2, 2], 0, 0xa300 << 48).array(1, b"dir\0", END);
    leaf.array(2, &[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1, 0], END);
    leaf.entry(3, 2, [END, 4, 30, 6, 1], 5, 0xa380 << 48);
    leaf.array(4, &[b'x'; 21], 5).array(5, b"yyyyyyyy\0", END).array(6, &[1, 2], END);
    leaf.entry(7, 1, [END, 8, 2, END, 0], 0, 1).array(8, b"e\0", END);
    leaf
}

#[test]
fn chains_names_and_values_are_followed_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let leaf = sample(endian);
        let found: Vec<LeafEntry> = leaf.all(KeyKind::Text).into_iter().map(Result::unwrap).collect();
        let names: Vec<&[u8]> = found.iter().map(|entry| entry.name.as_slice()).collect();
        assert_eq!(names, [b"dir".as_slice(), b"xxxxxxxxxxxxxxxxxxxxxyyyyyyyy", b"e"]);
        assert_eq!(found[0].u64s().collect::<Vec<_>>(), [7, 256]);
        assert_eq!((found[0].u64(), found[1].u64(), found[2].u64()), (None, Some(0x0102), None));
        assert_eq!((found[1].integer_bytes, found[1].cd, found[1].hash), (2, 5, 0xa380 << 48));
        let header = parse_leaf(&leaf.block, endian).unwrap().header;
        assert_eq!((header.prefix, header.prefix_len, header.flags), (5, 3, 1));
        assert_eq!((header.free_chunks, header.entry_count, header.free_list), (1, 2, 4));
    }
}

#[test]
fn a_hash_leads_to_one_chain() {
    let built = sample(Endian::Little);
    let leaf = parse_leaf(&built.block, Endian::Little).unwrap();
    // Three bits of prefix, then four of bucket: 101 0011.
    assert_eq!(leaf.bucket_of(0b1010_0110 << 56), 3);
    assert_eq!(leaf.chain(0b1010_0110 << 56, KeyKind::Text).count(), 2);
    assert_eq!(leaf.chain(0b1010_0100 << 56, KeyKind::Text).count(), 0);
    assert_eq!(leaf.chunk_count(), 18);
}

#[test]
fn names_of_words_count_in_words() {
    let mut leaf = Builder::new(Endian::Little);
    leaf.bucket(0, 0).entry(0, 8, [END, 1, 2, 2, 1], 0, 0);
    leaf.array(1, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2], END).array(2, &[0; 8], END);
    let found = leaf.all(KeyKind::Words).remove(0).unwrap();
    assert_eq!(found.name, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
}

#[test]
fn a_broken_chain_does_not_hide_the_others() {
    let mut leaf = sample(Endian::Big);
    leaf.bucket(3, 999);
    let found = leaf.all(KeyKind::Text);
    assert_eq!(found[0], Err(FormatError::bad_field("zap leaf", "chunk", 999, "a chunk of this leaf")));
    assert_eq!(found[1].as_ref().unwrap().name, b"e");
    assert_eq!(found.len(), 2);
}

#[test]
fn chains_that_run_in_circles_end() {
    let mut leaf = sample(Endian::Little);
    leaf.entry(3, 1, [0, 8, 2, END, 0], 0, 0);
    assert_eq!(leaf.bad_fields(), ["chain"]);
    let mut leaf = sample(Endian::Little);
    leaf.array(5, b"y", 4).entry(3, 1, [END, 4, 300, END, 0], 0, 0);
    assert_eq!(leaf.bad_fields(), ["chain"]);
}

#[test]
fn each_bad_field_is_named() {
    let with = |change: &dyn Fn(&mut Builder)| {
        let mut leaf = sample(Endian::Little);
        change(&mut leaf);
        leaf.bad_fields()
    };
    assert_eq!(with(&|leaf| _ = leaf.bucket(3, 1)), ["chunk type"]);
    assert_eq!(with(&|leaf| _ = leaf.entry(7, 1, [END, 0, 2, END, 0], 0, 1)), ["chunk type"]);
    assert_eq!(with(&|leaf| _ = leaf.entry(7, 3, [END, 8, 2, END, 0], 0, 1)), ["integer size"]);
    assert_eq!(with(&|leaf| _ = leaf.entry(7, 1, [END, 8, 0, END, 0], 0, 1)), ["name length"]);
    assert_eq!(with(&|leaf| _ = leaf.entry(7, 1, [END, 8, 2, END, 999], 0, 1)), ["array length"]);
    assert_eq!(with(&|leaf| _ = leaf.entry(7, 1, [END, 8, 2, END, 1], 0, 1)), ["chunk"]);
    let field = |change: &dyn Fn(&mut Builder)| {
        let mut leaf = sample(Endian::Little);
        change(&mut leaf);
        match parse_leaf(&leaf.block, Endian::Little) {
            Err(FormatError::BadField { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field(&|leaf| leaf.block[7] = 0), "block type");
    assert_eq!(field(&|leaf| leaf.block[24] = 0), "magic");
    assert_eq!(field(&|leaf| leaf.block[32] = 61), "prefix length");
    assert_eq!(field(&|leaf| leaf.block.truncate(511)), "block size");
    assert_eq!(field(&|leaf| leaf.block.truncate(256)), "block size");
}

proptest! {
    #[test]
    fn any_chunks_do_not_panic_and_end(
        bytes in proptest::collection::vec(prop_oneof![Just(251_u8), Just(252_u8), 0..20_u8, any::<u8>()], 488),
        keys in prop_oneof![Just(KeyKind::Text), Just(KeyKind::Words)],
    ) {
        let mut leaf = Builder::new(Endian::Big);
        leaf.block[32..].copy_from_slice(&bytes[..480]);
        if let Ok(leaf) = parse_leaf(&leaf.block, Endian::Big) {
            prop_assert!(leaf.entries(keys).count() <= 18 + 16 + 1);
            let _ = leaf.chain(u64::MAX, keys).count();
        }
    }
}
