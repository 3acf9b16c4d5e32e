//! Bytes to bytes: checksums, decompression, gangs.

use crate::input::{Input, endian_first};
use crate::medium::{Pieces, medium};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use zfs_format::block::{BlockReader, Work};
use zfs_format::codec::checksum::{SALT_BYTES, Salt, compute, compute_plain, embedded_sha256_words};
use zfs_format::codec::compress::{Decompressor, ZstdHeader};
use zfs_format::endian::OnDisk;
use zfs_format::media::Device;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::{ChecksumKind, CompressKind};
use zfs_format::vdev::{AllocationClass, Layout, Leaf, LeafId, TopVdev, TxgRanges, VdevTree};
use zfs_format::{Endian, Guid};

/// Fast and plain forms of every checksum agree.
pub fn checksum(data: &[u8]) {
    let (endian, data) = endian_first(data);
    let salt = Salt::new(&[7; SALT_BYTES]);
    for kind in 0..=15 {
        let kind = ChecksumKind(kind);
        let plain = compute_plain(kind, endian, data, Some(&salt));
        assert_eq!(compute(kind, endian, data, Some(&salt)), plain, "{kind}");
    }
    black_box(embedded_sha256_words(data, [1, 2, 3, 4]));
}

/// Algorithm, logical size, payload. What decodes does so twice alike.
pub fn decompress(data: &[u8]) {
    let mut input = Input(data);
    let kind = CompressKind(input.u8() % 20);
    let lsize = usize::from(input.u16()) * 64;
    let payload = input.0;
    let mut decompressor = Decompressor::new();
    let (mut first, mut second) = (vec![0; lsize], vec![0xff; lsize]);
    let result = decompressor.decompress(kind, payload, &mut first);
    let again = decompressor.decompress(kind, payload, &mut second);
    assert_eq!(result, again);
    assert!(result.is_err() || first == second, "{kind}: what was in the buffer shows");
    black_box(ZstdHeader::parse(payload).is_ok());
}

/// One disk without a label, whose space for blocks holds these bytes.
fn disk(pieces: BTreeMap<u64, Vec<u8>>) -> VdevTree {
    let medium = medium("disk", Pieces { size_bytes: 8 << 20, pieces });
    let leaf = Leaf {
        guid: Guid(1),
        name: "disk".into(),
        node: 0,
        top: 0,
        opened_as: None,
        medium: Some(Arc::new(Device::new(medium.bytes))),
        missing_txgs: TxgRanges::default(),
    };
    let top = TopVdev {
        node: 0,
        ashift: 9,
        asize_bytes: 0,
        class: AllocationClass::Normal,
        zap_object: 0,
        metaslab_array: 0,
        copies: 1,
        layout: Layout::Copies(vec![LeafId(0)]),
    };
    VdevTree { tops: vec![Some(top)], nodes: Vec::new(), leaves: vec![leaf], spares: Vec::new() }
}

/// Puts the right words into an area that ends in an embedded checksum.
pub(crate) fn seal(area: &mut [u8], verifier: [u64; 4], endian: Endian) {
    let Some(at) = area.len().checked_sub(40) else { return };
    let word = |value: u64| if endian == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() };
    area[at..at + 8].copy_from_slice(&word(0x0210_da7a_b10c_7a11));
    let Some((_, computed, _)) = embedded_sha256_words(area, verifier) else { return };
    for (index, value) in computed.into_iter().enumerate() {
        area[at + 8 + index * 8..at + 16 + index * 8].copy_from_slice(&word(value));
    }
}

/// Sectors of the block, then a gang header with a right checksum, then what its pieces may lie in.
pub fn gang(data: &[u8]) {
    let mut input = Input(data);
    let sectors = u64::from(input.u8());
    let mut header = input.bytes(472).to_vec();
    header.resize(512, 0);
    let birth = 9;
    seal(&mut header, [0, 0, birth, 0], Endian::Little);
    // Little endian, level 0, plain file, fletcher4, not compressed.
    let properties = 1 << 63 | 19 << 48 | 7 << 40 | 2 << 32 | sectors << 16 | sectors;
    let mut words = [0; 16];
    (words[0], words[1], words[6], words[10], words[11]) = ((sectors + 1) << 1, 1 << 63, properties, birth, 1);
    let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
    let bp = Blkptr::parse(&bytes, Endian::Little).expect("any words are a pointer");
    let start = 4 << 20;
    let tree = disk(BTreeMap::from([(start, header), (start + 512, input.0.to_vec())]));
    let mut work = Work::default();
    let verification = BlockReader::new(&tree).verify(&bp, &mut work, &mut |_, _, _| {});
    black_box(verification.is_lost);
}
