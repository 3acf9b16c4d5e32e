//! Structures of the pool: labels, pointers, lists.

use crate::input::endian_first;
use std::hint::black_box;
use zfs_format::Endian;
use zfs_format::block::decode;
use zfs_format::codec::compress::Decompressor;
use zfs_format::endian::OnDisk;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::bpobj::{BpobjHeader, DeadlistHeader};
use zfs_format::ondisk::bptree::{self, BptreeEntry, BptreeHeader};
use zfs_format::ondisk::brt::{BrtEntry, BrtHeader};
use zfs_format::ondisk::ddt::{DdtEncoding, DdtKey, DdtLogHeader, log_records, parse_variants};
use zfs_format::ondisk::dmu::ChecksumKind;
use zfs_format::ondisk::dsl::{DslDataset, DslDir};
use zfs_format::ondisk::history::{HistoryHeader, HistoryRecord, may_be_record};
use zfs_format::ondisk::nvlist::NvList;
use zfs_format::ondisk::protect;
use zfs_format::ondisk::space_map::{self, SpaceMapEntry, SpaceMapHeader};
use zfs_format::ondisk::uberblock::Uberblock;
use zfs_format::ondisk::zil::{ZilBlock, ZilHeader};

/// A name-value list in either encoding.
pub fn nvlist(data: &[u8]) {
    let Ok(list) = NvList::parse(data) else { return };
    for (name, value) in list.iter() {
        black_box((list.get(name), list.u64(name), list.str(name), list.lists(name), value));
    }
    black_box(format!("{list:?}"));
}

/// A slot of the uberblock ring.
pub fn uberblock(data: &[u8]) {
    let Ok(uberblock) = Uberblock::parse_slot(data) else { return };
    assert!(uberblock.cmp_best(&uberblock).is_eq());
    black_box((uberblock.order_key(), uberblock.reflow_offset_bytes(), uberblock.reflow_scratch_state()));
    look_at(&uberblock.rootbp);
}

/// A block pointer.
pub fn blkptr(data: &[u8]) {
    let (endian, data) = endian_first(data);
    if let Ok(bp) = Blkptr::parse(data, endian) {
        look_at(&bp);
    }
}

/// Asks a pointer all there is to ask.
pub(crate) fn look_at(bp: &Blkptr) {
    black_box((bp.kind(), bp.level(), bp.object_type(), bp.checksum_kind(), bp.compress_kind(), bp.endian()));
    black_box((bp.lsize_bytes(), bp.psize_bytes(), bp.asize_bytes(), bp.birth_txg(), bp.fill_count(), bp.checksum()));
    black_box(protect::BlockCrypt::of(bp));
    black_box((bp.is_hole(), bp.is_gang(), bp.is_dedup(), bp.is_protected(), bp.is_encrypted(), bp.is_rewritten()));
    black_box((bp.dvas().collect::<Vec<_>>(), bp.check().is_ok(), format!("{bp} {bp:?}")));
    if bp.is_embedded()
        && let Ok(payload) = bp.embedded_payload()
    {
        let mut plain = Vec::new();
        if decode(bp, &payload, &mut plain, &mut Decompressor::new()).is_ok() {
            assert_eq!(plain.len() as u64, bp.lsize_bytes());
        }
    }
}

/// The bonus of a DSL directory.
pub fn dsl_dir(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box(DslDir::parse(data, endian).is_ok());
}

/// The bonus of a DSL dataset.
pub fn dsl_dataset(data: &[u8]) {
    let (endian, data) = endian_first(data);
    if let Ok(dataset) = DslDataset::parse(data, endian) {
        black_box(dataset.is_snapshot());
        look_at(&dataset.bp);
    }
}

/// The bonus of a list of pointers, or of a deadlist.
pub fn bpobj(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box((BpobjHeader::parse(data, endian).is_ok(), DeadlistHeader::parse(data, endian).is_ok()));
}

/// The queue of datasets to be destroyed.
pub fn bptree(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box((BptreeHeader::parse(data, endian).is_ok(), BptreeEntry::parse(data, endian).is_ok()));
    for index in [0, 1, 2, usize::MAX] {
        if let Ok(entry) = bptree::entry(data, endian, index) {
            look_at(&entry.bp);
        }
    }
}

/// Header and records of a pool's history.
pub fn history(data: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        if let Ok(header) = HistoryHeader::parse(data, endian) {
            let length: u64 = header.parts().iter().map(|part| part.end - part.start).sum();
            assert!(length <= header.end_bytes);
        }
    }
    black_box((HistoryRecord::parse(data).is_ok(), may_be_record(data)));
}

/// Key, payload and log of a dedup table.
pub fn ddt(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box((DdtKey::parse(data, endian).is_ok(), DdtLogHeader::parse(data, endian).is_ok()));
    black_box(data.first().map(|byte| DdtEncoding::from_byte(*byte)));
    for size in [72, 256] {
        let payload = data.get(..size).unwrap_or(data);
        if let Ok(variants) = parse_variants(payload, endian) {
            assert_eq!(variants.len(), if payload.len() == 72 { 1 } else { 4 });
        }
    }
    let records = log_records(data, endian).count();
    assert!(records <= data.len() / 9 + 1);
}

/// Header and entries of a table of cloned blocks.
pub fn brt(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box(BrtHeader::parse(data, endian).is_ok());
    let (name, value) = data.split_at(data.len().min(8));
    for size in [1, 8] {
        let parsed = BrtEntry::parse(name, size, value, endian);
        assert_eq!(parsed.is_ok(), name.len() == 8 && value.len() == 8);
    }
}

/// Header and entries of a space map.
pub fn space_map(data: &[u8]) {
    let (endian, data) = endian_first(data);
    black_box((SpaceMapHeader::parse(data, endian).is_ok(), SpaceMapHeader::histogram(data, endian)));
    for entry in space_map::entries(data, endian) {
        if let Ok(SpaceMapEntry::Range(range)) = entry {
            for shift in [0, 9, 16, 63, 64] {
                black_box(range.to_bytes(shift).is_ok());
            }
        }
    }
}

/// Header, block and records of an intent log.
pub fn zil(data: &[u8]) {
    for endian in [Endian::Little, Endian::Big] {
        if let Ok(header) = ZilHeader::parse(data, endian) {
            black_box(header.claimed_record_seq());
            look_at(&header.log);
        }
        if let Some(auth) = protect::log_block(data, endian) {
            assert!(auth.areas.into_iter().all(|area| data.get(area).is_some()));
        }
    }
    for kind in [ChecksumKind::ZILOG, ChecksumKind::ZILOG2] {
        let Ok(block) = ZilBlock::parse(data, kind) else { continue };
        look_at(&block.chain.next);
        for record in block.records().flatten() {
            black_box((record.object(), record.clone_range().is_ok()));
            black_box((record.target(), record.created_name(), record.written_bytes(), record.cloned_bytes()));
            if let Ok(Some(write)) = record.write() {
                look_at(&write.bp);
            }
        }
    }
}
