//! Damage by chance, and what it did.

use crate::memory::BadRange;
use crate::model::Injuries;
use fixtures::{Damage, LeafSpan, Pool};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;
use zfs_scrub::finding::CopyResult;

/// Which copies of a block are hit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// One side of one address.
    One,
    /// All sides of one address.
    Address,
    /// All copies.
    Whole,
    /// So many columns of each address, from one on.
    Columns(usize),
}

/// A choice of blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Among {
    All,
    /// Not those of the MOS, which are many in a small pool.
    Datasets,
    /// Metadata of datasets: objset blocks, dnodes, indirect blocks.
    Parents,
}

/// One blow, not yet aimed at a certain pool.
#[derive(Clone, Debug)]
pub(crate) struct Blow {
    among: Among,
    block: Index,
    copy: Index,
    extent: Extent,
    damage: Damage,
}

pub(crate) fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Zero),
        Just(Damage::Ones),
        (0..8u8).prop_map(Damage::FlipBit),
        any::<u64>().prop_map(Damage::Random)
    ]
}

pub(crate) fn blow() -> impl Strategy<Value = Blow> {
    blow_of(prop_oneof![2 => Just(Extent::One), 1 => Just(Extent::Address), 2 => Just(Extent::Whole)])
}

/// A blow to stripes: within what parity makes up for, and beyond.
pub(crate) fn blow_to_columns() -> impl Strategy<Value = Blow> {
    blow_of(
        prop_oneof![2 => Just(Extent::One), 6 => (1..=4usize).prop_map(Extent::Columns), 1 => Just(Extent::Address)],
    )
}

fn blow_of(extent: impl Strategy<Value = Extent>) -> impl Strategy<Value = Blow> {
    let among = prop_oneof![Just(Among::All), Just(Among::Datasets), Just(Among::Parents)];
    (among, any::<Index>(), any::<Index>(), extent, damage()).prop_map(|(among, block, copy, extent, damage)| Blow {
        among,
        block,
        copy,
        extent,
        damage,
    })
}

fn is_among(pool: &Pool, index: usize, among: Among) -> bool {
    let block = &pool.blocks[index];
    let is_parent = block.level != 0 || block.object == 0;
    !block.embedded
        && match among {
            Among::All => true,
            Among::Datasets => block.owner.objset != 0,
            Among::Parents => block.owner.objset != 0 && is_parent,
        }
}

/// The copies that a blow hits: block, address, side.
fn aim(pool: &Pool, blow: &Blow) -> Vec<(usize, usize, usize)> {
    let blocks: Vec<usize> = (0..pool.blocks.len()).filter(|index| is_among(pool, *index, blow.among)).collect();
    let block = *blow.block.get(&blocks);
    let sides = |copy: &fixtures::Copy| (0..copy.leaves.len()).map(|leaf| (copy.dva_index, leaf)).collect::<Vec<_>>();
    let copies = &pool.blocks[block].copies;
    let chosen = match blow.extent {
        Extent::One => vec![*blow.copy.get(&copies.iter().flat_map(sides).collect::<Vec<_>>())],
        Extent::Address => sides(blow.copy.get(copies)),
        Extent::Whole => copies.iter().flat_map(sides).collect(),
        Extent::Columns(count) => copies.iter().flat_map(|copy| some_of(sides(copy), count, &blow.copy)).collect(),
    };
    chosen.into_iter().map(|(dva, leaf)| (block, dva, leaf)).collect()
}

/// So many of all, from a chosen one on, and round.
fn some_of<T>(mut all: Vec<T>, count: usize, from: &Index) -> Vec<T> {
    let from = from.index(all.len());
    all.rotate_left(from);
    all.truncate(count);
    all
}

/// Damages the pool. A copy is hit once at most; a blow that changes no byte is no injury.
pub(crate) fn strike(pool: &mut Pool, blows: &[Blow]) -> Injuries {
    let mut injuries = Injuries::new();
    for blow in blows {
        for (block, dva, leaf) in aim(pool, blow) {
            let device = pool.blocks[block].copies[dva].leaves[leaf].device;
            let is_new = !pool.devices[device].is_missing && !injuries.contains_key(&(block, dva, leaf));
            if is_new && pool.damage_copy(block, dva, Some(leaf), blow.damage) {
                injuries.insert((block, dva, leaf), CopyResult::Checksum);
            }
        }
    }
    injuries
}

/// Bad sectors in and around the copies that the blows would hit: so many bytes from so many before the copy's end.
pub(crate) fn bad_ranges(pool: &Pool, blows: &[(Blow, u64, u64)]) -> Vec<BadRange> {
    let mut bad = Vec::new();
    for (blow, before_bytes, len_bytes) in blows {
        for (block, dva, leaf) in aim(pool, blow) {
            let LeafSpan { device, offset_bytes, len_bytes: span_bytes } = pool.blocks[block].copies[dva].leaves[leaf];
            // Labels stay readable: the space for blocks begins 4 MiB after the start.
            let start = (offset_bytes + span_bytes).saturating_sub(1 + before_bytes).max(4 << 20);
            let end = (start + len_bytes).min(pool.device_bytes(device) - (512 << 10));
            bad.push((device, start..end));
        }
    }
    bad
}

/// Adds what cannot be read: there it is of no account what bytes are there.
pub(crate) fn add_read_errors(pool: &Pool, bad: &[BadRange], injuries: &mut Injuries) {
    for (index, block) in pool.blocks.iter().enumerate() {
        for copy in &block.copies {
            for (leaf, span) in copy.leaves.iter().enumerate() {
                let end = span.offset_bytes + span.len_bytes;
                let hits = |(device, range): &BadRange| {
                    *device == span.device && range.start < end && span.offset_bytes < range.end
                };
                if bad.iter().any(hits) {
                    injuries.insert((index, copy.dva_index, leaf), CopyResult::ReadError);
                }
            }
        }
    }
}
