//! Structures inside objects: dnodes, object sets, ZAPs, attributes.

use crate::input::{Input, endian_first};
use crate::metadata::look_at;
use std::hint::black_box;
use zfs_format::Endian;
use zfs_format::endian::OnDisk;
use zfs_format::ondisk::dnode::{Dnode, DnodeBuf, dnodes, indirect_blkptr, indirect_blkptrs};
use zfs_format::ondisk::objset::Objset;
use zfs_format::ondisk::protect;
use zfs_format::ondisk::sa::{SaAttributes, SaLayouts, SaRegistry};
use zfs_format::ondisk::zap::block_kind;
use zfs_format::ondisk::zap::fat::FatHeader;
use zfs_format::ondisk::zap::hash::{KeyKind, ZapFlags, hash};
use zfs_format::ondisk::zap::leaf::parse_leaf;
use zfs_format::ondisk::zap::micro::parse_micro;
use zfs_format::ondisk::znode::{DirEntry, FileAttributes};

fn look_at_dnode(dnode: &Dnode, slots: &[u8]) {
    dnode.blkptrs().iter().for_each(look_at);
    dnode.spill.iter().for_each(look_at);
    black_box((dnode.bonus(slots), dnode.slots(), dnode.pointers_per_indirect_shift(), dnode.blkptr_at(3)));
    for level in [0, 1, dnode.nlevels, u8::MAX] {
        for blkid in [0, 1, dnode.max_blkid, u64::MAX] {
            black_box((dnode.level_span(level), dnode.top_index(blkid), dnode.child_index(blkid, level)));
        }
    }
}

/// A block of dnodes; also as a block of pointers.
pub fn dnode(data: &[u8]) {
    let (endian, data) = endian_first(data);
    for found in dnodes(data, endian) {
        assert!(found.slot * 512 < data.len());
        if let Ok(dnode) = &found.dnode {
            look_at_dnode(dnode, found.slots);
        }
    }
    if let Ok(Some(found)) = DnodeBuf::parse(data, endian) {
        look_at_dnode(&found.dnode, data);
    }
    indirect_blkptrs(data, endian).for_each(|bp| look_at(&bp));
    assert!(protect::encrypted_areas(data).all(|area| data.get(area).is_some()));
    black_box((protect::dnode_block(data, endian, 1), protect::indirect(data, endian, 0)));
    black_box(indirect_blkptr(data, endian, 7).is_ok());
}

/// The block of an object set, in each of its sizes.
pub fn objset(data: &[u8]) {
    let (endian, data) = endian_first(data);
    for size in [1024, 2048, 4096] {
        let mut block = data.to_vec();
        block.resize(size, 0);
        if let Ok(objset) = Objset::parse(&block, endian) {
            look_at_dnode(&objset.meta_dnode, &block);
            look_at(&objset.zil_header.log);
            black_box((protect::objset(&block, endian, 1), protect::stored_objset_macs(&block)));
        }
    }
    black_box(Objset::parse(data, endian).is_ok());
}

/// A ZAP of one block.
pub fn micro_zap(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box(block_kind(data, endian).is_ok());
    let Ok(zap) = parse_micro(data, endian) else { return };
    for entry in zap.entries() {
        black_box((zap.get(entry.name).is_some(), DirEntry::from_value(entry.value)));
    }
}

/// The header of a fat ZAP.
pub fn fat_zap(data: &[u8]) {
    let (endian, data) = endian_first(data);
    let Ok(header) = FatHeader::parse_block(data, endian) else { return };
    let name = data.get(..20).unwrap_or_default();
    for hash in [0, u64::MAX, hash(header.salt, name, ZapFlags(0)), hash(header.salt, name, ZapFlags(7))] {
        let index = header.table_index(hash);
        black_box((header.embedded_entry(data, endian, index), header.external_entry(index)));
    }
    black_box((header.is_table_embedded(), header.table_len(), header.key_kind()));
    assert!(header.embedded_table(data, endian).count() <= data.len() / 8);
}

/// A leaf of a fat ZAP.
pub fn zap_leaf(data: &[u8]) {
    let (endian, data) = endian_first(data);
    let Ok(leaf) = parse_leaf(data, endian) else { return };
    for keys in [KeyKind::Text, KeyKind::Words] {
        let mut entries = 0;
        for entry in leaf.entries(keys).flatten() {
            entries += 1;
            black_box((entry.u64(), entry.u64s().count(), leaf.bucket_of(entry.hash)));
        }
        assert!(entries <= leaf.chunk_count());
        for hash in [0, u64::MAX] {
            black_box(leaf.chain(hash, keys).count());
        }
    }
}

/// The attributes every file system registers: name, number, swap class, length.
const ATTRIBUTES: &[(&str, u64, u64, u64)] = &[
    ("ZPL_ATIME", 0, 0, 16),
    ("ZPL_MTIME", 1, 0, 16),
    ("ZPL_CTIME", 2, 0, 16),
    ("ZPL_CRTIME", 3, 0, 16),
    ("ZPL_GEN", 4, 0, 8),
    ("ZPL_MODE", 5, 0, 8),
    ("ZPL_SIZE", 6, 0, 8),
    ("ZPL_PARENT", 7, 0, 8),
    ("ZPL_LINKS", 8, 0, 8),
    ("ZPL_XATTR", 9, 0, 8),
    ("ZPL_FLAGS", 11, 0, 8),
    ("ZPL_SYMLINK", 17, 3, 0),
    ("ZPL_DACL_COUNT", 16, 0, 8),
    ("ZPL_DACL_ACES", 19, 4, 0),
    ("ZPL_DXATTR", 20, 3, 0),
];

/// A bonus with system attributes: how many attributes the layout has, their numbers, the bonus.
pub fn sa(data: &[u8]) {
    let mut input = Input(data);
    let mut registry = SaRegistry::default();
    for (name, number, swap, length) in ATTRIBUTES {
        registry.insert(name.as_bytes(), number | swap << 16 | length << 24);
    }
    registry.insert(b"OTHER", input.u64());
    let count = usize::from(input.u8());
    let numbers: Vec<u64> = input.bytes(count).iter().map(|number| u64::from(*number)).collect();
    let mut layouts = SaLayouts::default();
    black_box(layouts.insert(b"2", numbers).is_ok());
    let Ok(attributes) = SaAttributes::parse(input.0, &registry, &layouts) else { return };
    for (attribute, content) in attributes.iter() {
        black_box((attribute, content.len()));
    }
    black_box(FileAttributes::from_sa(&attributes).file_type());
}

/// The bonus of a file before system attributes.
pub fn znode(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box(FileAttributes::from_znode(data, endian).is_ok());
    if let Ok(attributes) = FileAttributes::parse(data, Endian::Big) {
        black_box(attributes.file_type());
    }
}
