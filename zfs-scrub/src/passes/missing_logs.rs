//! What cannot be replayed because a log device is missing.
//!
//! Checks: of each file system and volume, whether its intent log leads to a top-level vdev of which no device was
//! given. It looks only when there is such a vdev, and reads log blocks only, which the walk has judged.

use crate::finding::{Finding, Kind, Place};
use std::collections::BTreeMap;
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::DatasetMap;
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::zil::{ZilBlock, ZilHeader};
use zfs_format::pool::{Assembly, Mos};
use zfs_format::vdev::VdevTree;

/// Log blocks followed in one dataset until one on a missing device is met.
const BLOCKS_MAX: usize = 1 << 16;

/// A finding for each dataset whose intent log leads to a missing device.
pub(crate) fn check(assembly: &Assembly) -> Vec<Finding> {
    let tree = &assembly.tree;
    if !(0..tree.tops.len()).any(|id| tree.is_absent(id)) {
        return Vec::new();
    }
    let mut work = Work::default();
    let blocks = BlockReader::new(tree);
    let uberblock = &assembly.chosen.uberblock;
    let Ok(mut mos) = Mos::open(blocks, &uberblock.rootbp, &mut work) else { return Vec::new() };
    let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
    let mut found: BTreeMap<(usize, u64), Finding> = BTreeMap::new();
    for dataset in map.datasets.values().filter(|dataset| dataset.snapshot.is_none()) {
        let Ok(objset) = ObjsetReader::open(blocks, &dataset.dsl.bp, &mut work) else { continue };
        let Some((top, is_first)) = leads_to(blocks, &objset.objset.zil_header, &mut work) else { continue };
        let node = tree.tops.get(top).and_then(Option::as_ref).and_then(|top| tree.nodes.get(top.node));
        let device = node.map_or_else(|| format!("missing-{top}"), |node| node.name());
        let place = Place {
            dataset: Some(dataset.name.clone()),
            objset: Some(dataset.object),
            device: Some(device),
            ..Place::default()
        };
        let verb = if is_first { "starts" } else { "goes on" };
        let message = format!(
            "the intent log of {} {verb} on it: what was written synchronously after txg {} cannot be replayed; \
             without it the pool needs `zpool import -m`",
            dataset.name, uberblock.txg
        );
        found.insert((top, dataset.object), Finding::new(Kind::IntentLogMissing, place, message));
    }
    found.into_values().collect()
}

/// The missing top-level vdev that a log leads to, and whether its very first block lies there.
fn leads_to(blocks: BlockReader<'_>, header: &ZilHeader, work: &mut Work) -> Option<(usize, bool)> {
    let is_claimed = header.claim_txg.0 != 0;
    if is_claimed && header.claimed_record_seq() == Some(0) {
        return None;
    }
    let mut bp = header.log;
    for number in 0..BLOCKS_MAX {
        if bp.is_hole() || (is_claimed && sequence(&bp) > header.claim_blk_seq) {
            return None;
        }
        if let Some(top) = missing_top(blocks.tree(), &bp) {
            return Some((top, number == 0));
        }
        blocks.read_log(&bp, work)?;
        bp = ZilBlock::parse(work.plain(), bp.checksum_kind()).ok()?.chain.next;
    }
    None
}

fn sequence(bp: &Blkptr) -> u64 {
    let [_, _, _, seq] = bp.checksum();
    seq
}

/// The vdev of a block all of whose addresses lie on missing ones.
pub(crate) fn missing_top(tree: &VdevTree, bp: &Blkptr) -> Option<usize> {
    let is_missing = bp.dvas().all(|(_, dva)| tree.is_absent(dva.vdev as usize));
    let first = bp.dvas().next().map(|(_, dva)| dva.vdev as usize);
    first.filter(|_| is_missing)
}
