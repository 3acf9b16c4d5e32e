//! dRAID: stripes over a permutation of the children that changes from slice to slice, so that spare space is spread
//! over all of them.
//!
//! The vdev is cut into groups of `data + parity` columns, 16 MiB high; a slice is as many groups as fill whole rows of
//! all children but the spares. Each slice has a permutation of its own.

use super::draid_maps::{CHILDREN_MIN, DraidMap, MAPS};
use super::stripe::{Cell, Stripe};
use crate::ondisk::label::VDEV_LABEL_START_BYTES;
use std::fmt;
use std::sync::Arc;

/// Height of a row on each child (`VDEV_DRAID_ROWHEIGHT`).
const ROW_HEIGHT_BYTES: u64 = 16 << 20;
/// First half of the seed of every map (`VDEV_DRAID_SEED`).
const SEED: u64 = 0xd7a1_d5eed;

/// The numbers a dRAID vdev records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraidConfig {
    /// Number of children.
    pub children: u64,
    /// Parity columns: 1 to 3.
    pub parity: u64,
    /// Data columns in a group (`draid_ndata`).
    pub data: u64,
    /// Distributed spares (`draid_nspares`).
    pub spares: u64,
    /// Groups in a slice (`draid_ngroups`).
    pub groups: u64,
    /// Children in a failure group (`draid_nchildren`); all of them in most pools.
    pub group_children: u64,
    /// log2 of the sector size.
    pub ashift: u8,
}

/// The geometry of a dRAID vdev.
#[derive(Clone, PartialEq, Eq)]
pub struct Draid {
    config: DraidConfig,
    /// Rows of `config.group_children` positions, one after the other.
    map: Arc<[u16]>,
    rows: u64,
    /// Failure groups: 1 in most pools.
    failure_groups: u64,
    /// Children that hold data in each row, all failure groups together.
    data_disks: u64,
    group_width: u64,
    group_bytes: u64,
    slice_bytes: u64,
}

impl fmt::Debug for Draid {
    /// The numbers; the map follows from them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draid").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Where the columns of a group lie.
struct Row {
    /// Number of the permutation.
    permutation: u64,
    /// Position of the first column in it.
    start: u64,
    /// Positions in a row.
    positions: u64,
    /// Offset on each child of the first column, without labels.
    leaf_offset: u64,
}

impl Draid {
    /// The geometry of a vdev, `None` when its numbers contradict each other.
    #[must_use]
    pub fn new(config: DraidConfig) -> Option<Self> {
        let DraidConfig { children, parity, data, spares, groups, group_children, ashift } = config;
        let map_index = usize::try_from(group_children).ok()?.checked_sub(CHILDREN_MIN)?;
        let numbers = MAPS.get(map_index)?;
        let failure_groups = children.checked_div(group_children)?;
        let data_disks = children.checked_sub(spares)?;
        let group_width = data.checked_add(parity)?;
        let is_possible = (1..=3).contains(&parity)
            && data > 0
            && groups > 0
            && (9..=16).contains(&ashift)
            && failure_groups > 0
            && failure_groups.checked_mul(group_children)? == children
            && group_width <= data_disks / failure_groups
            && groups <= 1 << 16
            && groups.checked_mul(group_width)?.is_multiple_of(data_disks)
            && (failure_groups == 1 || groups >= failure_groups);
        let group_bytes = group_width.checked_mul(ROW_HEIGHT_BYTES)?;
        if !is_possible {
            return None;
        }
        let map = permutations(map_index + CHILDREN_MIN, numbers)?;
        let (map, rows) = match usize::try_from(failure_groups).ok()? {
            1 => (map, numbers.rows.into()),
            count => shuffled(map, map_index + CHILDREN_MIN, numbers, count)?,
        };
        Some(Self {
            config,
            map: map.into(),
            rows,
            failure_groups,
            data_disks,
            group_width,
            group_bytes,
            slice_bytes: group_bytes.checked_mul(groups)? / data_disks,
        })
    }

    /// Parity columns.
    #[must_use]
    pub fn parity(&self) -> u64 {
        self.config.parity
    }

    /// The child at a position of a permutation.
    ///
    /// Source: OpenZFS module/zfs/vdev_draid.c, `vdev_draid_get_perm`, `vdev_draid_permute_id`.
    fn child(&self, permutation: u64, position: u64) -> Option<usize> {
        let width = self.config.group_children;
        let count = self.failure_groups;
        let offset = permutation % self.rows.checked_mul(width)?;
        let first_row = offset / (width * count) * count;
        let shift = (offset % width) + (permutation % count) * width;
        let child = if count == 1 {
            (self.entry(first_row * width + position)? + shift) % width
        } else {
            let column = (position + shift) % width + shift / width * width;
            self.entry(first_row * width + column)?
        };
        usize::try_from(child).ok()
    }

    fn entry(&self, index: u64) -> Option<u64> {
        self.map.get(usize::try_from(index).ok()?).map(|&entry| entry.into())
    }

    /// Where the group begins that holds `offset` of the vdev, and where in it `offset` lies.
    ///
    /// Source: OpenZFS module/zfs/vdev_draid.c, `vdev_draid_logical_to_physical`.
    fn row(&self, offset: u64) -> Option<Row> {
        let Self { config, failure_groups: count, data_disks, group_width: width, .. } = self;
        let (count, data_disks, width) = (*count, *data_disks, *width);
        let group = offset / self.group_bytes;
        let mut permutation = (group / config.groups).checked_mul(count)?;
        let first_row = group / config.groups * (width * config.groups / data_disks);
        let mut group = group % config.groups;
        let mut positions = data_disks;
        if count > 1 {
            // The first `big` failure groups have one spare more than the others, and one group less.
            let big = config.spares % count;
            let small_groups = config.groups / count;
            let failure_group = if big == 0 || group < big * small_groups {
                group / small_groups
            } else {
                big + (group - big * small_groups) / (small_groups + 1)
            };
            permutation += failure_group;
            positions = data_disks / count + u64::from(big != 0 && failure_group >= big);
            group = group.checked_sub(if big == 0 || failure_group <= big {
                failure_group * small_groups
            } else {
                big * small_groups + (failure_group - big) * (small_groups + 1)
            })?;
        }
        let row_sectors = ROW_HEIGHT_BYTES >> config.ashift;
        let row = first_row + group * width / positions;
        let inside = (offset >> config.ashift) % (row_sectors * width) / width;
        let leaf_offset = row.checked_mul(row_sectors)?.checked_add(inside)?.checked_mul(1 << config.ashift)?;
        Some(Row { permutation, start: group * width % positions, positions, leaf_offset })
    }

    /// The stripes of a block of `psize` bytes at `offset` of the vdev: one, or two when it reaches past the end of its
    /// group. `None` when the address is impossible.
    ///
    /// Source: OpenZFS module/zfs/vdev_draid.c, `vdev_draid_map_alloc_row`.
    #[must_use]
    pub fn stripes(&self, offset: u64, psize: u64) -> Option<Vec<Stripe>> {
        let ashift = self.config.ashift;
        let mut sectors = psize.div_ceil(1 << ashift);
        let (mut at, mut filled, mut stripes) = (offset, 0_u64, Vec::new());
        while sectors > 0 {
            let left = (self.group_bytes - at % self.group_bytes) >> ashift;
            let here = sectors.min(left / self.group_width * self.config.data);
            if here == 0 {
                return None;
            }
            stripes.push(self.stripe(at, here, filled, psize)?);
            at = (at / self.group_bytes).checked_add(1)?.checked_mul(self.group_bytes)?;
            sectors -= here;
            filled += here;
        }
        Some(stripes)
    }

    /// The stripe of `sectors` sectors at `offset`, which hold the block of `psize` bytes from sector `filled` on.
    fn stripe(&self, offset: u64, sectors: u64, filled: u64, psize: u64) -> Option<Stripe> {
        let DraidConfig { parity, data, ashift, .. } = self.config;
        let row = self.row(offset)?;
        let (full_rows, rest) = (sectors / data, sectors % data);
        let bytes = |sectors: u64| usize::try_from(sectors.checked_mul(1 << ashift)?).ok();
        let length_bytes = bytes(full_rows + u64::from(rest != 0))?;
        let mut stripe = Stripe { parity: Vec::new(), data: Vec::new() };
        let mut at = filled;
        for column in 0..self.group_width {
            let position = row.start + column;
            let wrap = if position >= row.positions { ROW_HEIGHT_BYTES } else { 0 };
            let mut cell = Cell {
                child: self.child(row.permutation, position % row.positions)?,
                device_offset_bytes: row.leaf_offset.checked_add(wrap)?.checked_add(VDEV_LABEL_START_BYTES)?,
                length_bytes,
                data_bytes: length_bytes,
                block_offset: 0,
            };
            if column < parity {
                stripe.parity.push(cell);
                continue;
            }
            let held = full_rows + u64::from(column - parity < rest);
            (cell.data_bytes, cell.block_offset) = (bytes(held)?, bytes(at)?);
            cell.limit(psize);
            at += held;
            stripe.data.push(cell);
        }
        Some(stripe)
    }

    /// The child that holds what distributed spare `spare` holds at `device_offset_bytes`.
    ///
    /// Source: OpenZFS module/zfs/vdev_draid.c, `vdev_draid_spare_get_child`.
    #[must_use]
    pub fn spare_child(&self, spare: u64, device_offset_bytes: u64) -> Option<usize> {
        let offset = device_offset_bytes.checked_sub(VDEV_LABEL_START_BYTES)?;
        let count = self.failure_groups;
        let permutation = (offset / self.slice_bytes).checked_mul(count)?.checked_add(spare % count)?;
        let position = (self.config.group_children - 1).checked_sub(spare / count)?;
        self.child(permutation, position)
    }
}

/// The generator behind the maps: xoroshiro128++.
struct Generator {
    state: (u64, u64),
}

impl Generator {
    fn new(seed: u64) -> Self {
        Self { state: (SEED, seed) }
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> Option<usize> {
        let (a, mut b) = self.state;
        let out = a.wrapping_add(b).rotate_left(17).wrapping_add(a);
        b ^= a;
        self.state = (a.rotate_left(49) ^ b ^ (b << 21), b.rotate_left(28));
        usize::try_from(out.checked_rem(limit as u64)?).ok()
    }
}

/// The map for `children` children, `None` when it does not have the checksum it should have.
///
/// Source: OpenZFS module/zfs/vdev_draid.c, `vdev_draid_generate_perms`.
fn permutations(children: usize, numbers: &DraidMap) -> Option<Vec<u16>> {
    let mut generator = Generator::new(numbers.seed);
    let mut row: Vec<u16> = (0..u16::try_from(children).ok()?).collect();
    let mut map = Vec::with_capacity(children * usize::from(numbers.rows));
    for _ in 0..numbers.rows {
        for last in (1..children).rev() {
            row.swap(last, generator.below(last + 1)?);
        }
        map.extend_from_slice(&row);
    }
    (checksum(&map) == numbers.checksum).then_some(map)
}

/// The plain sum of the map's bytes, four at a time as little-endian words: the first word of fletcher4.
fn checksum(map: &[u16]) -> u64 {
    let byte = |entry: Option<&u16>| u64::from(entry.map_or(0, |&entry| entry & 0xff));
    map.chunks(4).map(|word| (0..4).map(|index| byte(word.get(index)) << (8 * index)).sum::<u64>()).sum()
}

/// Spreads bundles of `count` rows over the children of `count` failure groups. Answers with the number of rows, too.
///
/// Source: OpenZFS module/zfs/vdev_draid.c, `vdev_draid_shuffle_perms`.
fn shuffled(mut map: Vec<u16>, width: usize, numbers: &DraidMap, count: usize) -> Option<(Vec<u16>, u64)> {
    let rows = usize::from(numbers.rows) / count * count;
    map.truncate(rows * width);
    let mut generator = Generator::new(numbers.seed);
    for bundle in map.chunks_exact_mut(width * count) {
        for column in 0..width {
            let value = *bundle.get(column)?;
            // Where each row of the bundle has the value that the first row has here.
            let mut places = vec![column];
            for row in 1..count {
                let entries = bundle.get(row * width..(row + 1) * width)?;
                places.push(row * width + entries.iter().position(|&entry| entry == value)?);
            }
            for row in (1..count).rev() {
                let entry = bundle.get_mut(*places.get(row)?)?;
                *entry = entry.checked_add(u16::try_from(row * width).ok()?)?;
            }
            for row in (1..count).rev() {
                let other = generator.below(row + 1)?;
                bundle.swap(*places.get(row)?, *places.get(other)?);
            }
        }
    }
    (rows > 0).then_some((map, rows as u64))
}

#[cfg(test)]
mod tests;
