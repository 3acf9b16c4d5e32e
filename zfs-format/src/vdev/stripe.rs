//! Stripes: how a block lies on a raidz vdev, cell by cell; dRAID has stripes of the same kind.
//!
//! A block is one or more stripes, each with parity of its own. A stripe is a run of cells, at most one on each device:
//! first the parity cells, then the data cells. Without expansion a block is one stripe whose cells are several sectors
//! long; after one it is a stripe for each row of sectors.

use crate::Txg;
use crate::ondisk::label::{BOOT_REGION_BYTES, VDEV_LABEL_START_BYTES};

/// One run of bytes of a block on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which child of the raidz vdev.
    pub child: usize,
    /// Byte offset on the devices of that child, labels included.
    pub device_offset_bytes: u64,
    /// Length; 0 for a cell that exists only in the parity equations.
    pub length_bytes: usize,
    /// How many of these bytes hold the block; the rest are zeros: the tail of its last sector, the pads of dRAID.
    pub data_bytes: usize,
    /// Where in the block (rounded up to whole sectors) the bytes belong; parity belongs nowhere.
    pub block_offset: usize,
}

impl Cell {
    /// What lies beyond the end of a block of `psize` bytes is no part of it.
    pub(super) fn limit(&mut self, psize: u64) {
        let left = psize.saturating_sub(self.block_offset as u64);
        self.data_bytes = self.data_bytes.min(usize::try_from(left).unwrap_or(usize::MAX));
    }
}

/// Cells that share parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Parity cells, in the order P, Q, R.
    pub parity: Vec<Cell>,
    /// Data cells in the order of the parity equations.
    pub data: Vec<Cell>,
}

/// How far the expansion of a raidz vdev has come, and what expansions it has behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expansion {
    /// When each completed expansion took effect, ascending (`raidz_expand_txgs`).
    pub completed_txgs: Vec<Txg>,
    /// An expansion is in progress: blocks before this offset of the vdev lie in the new width.
    pub reflow_offset_bytes: Option<u64>,
    /// The first rows still lie in the scratch area.
    pub in_scratch: bool,
}

impl Expansion {
    /// The width by which a block born in `birth` was laid out, on a vdev of `width` children.
    ///
    /// Source: OpenZFS module/zfs/vdev_raidz.c, `vdev_raidz_get_logical_width`.
    #[must_use]
    pub fn logical_width(&self, width: u64, birth: Txg) -> u64 {
        let now = width.saturating_sub(self.reflow_offset_bytes.is_some().into());
        let later = self.completed_txgs.iter().filter(|&&txg| txg > birth).count() as u64;
        now.saturating_sub(later)
    }

    /// The expansion changes how a block of this logical width lies.
    fn applies(&self, width: u64, logical_width: u64) -> bool {
        logical_width != width || self.reflow_offset_bytes.is_some()
    }
}

/// The geometry of a raidz vdev for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaidzGeometry {
    /// Number of children.
    pub width: u64,
    /// Parity cells in a stripe: 1 to 3.
    pub parity: u64,
    /// log2 of the sector size.
    pub ashift: u8,
}

/// Bit of the offset that exchanges the first two cells of raidz1, so that parity is not always on the same devices.
const SWAP_BIT: u64 = 1 << 20;

impl RaidzGeometry {
    /// The one stripe of a block of `psize` bytes at `offset` of the vdev. `None` when the geometry is impossible.
    ///
    /// Source: OpenZFS module/zfs/vdev_raidz.c, `vdev_raidz_map_alloc`.
    #[must_use]
    pub fn stripe(&self, offset: u64, psize: u64) -> Option<Stripe> {
        let Self { width, parity, ashift } = *self;
        let sector = 1_u64.checked_shl(ashift.into())?;
        let data_width = width.checked_sub(parity).filter(|&data| data > 0 && (1..=3).contains(&parity))?;
        let sectors = psize.div_ceil(sector);
        let (full_rows, rest) = (sectors / data_width, sectors % data_width);
        let big_cells = if rest == 0 { 0 } else { rest + parity };
        let cells = if full_rows == 0 { big_cells } else { width };
        let start = offset >> ashift;
        let (first, base) = (start % width, (start / width).checked_mul(sector)?);
        let mut placed = Vec::with_capacity(usize::try_from(cells).ok()?);
        for index in 0..cells {
            let position = first + index;
            let child = position % width;
            let wrap = if position >= width { sector } else { 0 };
            let length = (full_rows + u64::from(index < big_cells)).checked_mul(sector)?;
            placed.push(Cell {
                child: usize::try_from(child).ok()?,
                device_offset_bytes: base.checked_add(wrap)?.checked_add(VDEV_LABEL_START_BYTES)?,
                length_bytes: usize::try_from(length).ok()?,
                data_bytes: usize::try_from(length).ok()?,
                block_offset: 0,
            });
        }
        if parity == 1 && offset & SWAP_BIT != 0 {
            swap_places(&mut placed);
        }
        let data = placed.split_off(usize::try_from(parity).ok()?.min(placed.len()));
        let mut stripe = Stripe { parity: placed, data };
        let mut at = 0_usize;
        for cell in &mut stripe.data {
            cell.block_offset = at;
            at = at.checked_add(cell.length_bytes)?;
            cell.limit(psize);
        }
        Some(stripe)
    }

    /// The stripes of a block born in `birth` on a vdev that was, or is being, expanded.
    #[must_use]
    pub fn stripes(&self, expansion: &Expansion, birth: Txg, offset: u64, psize: u64) -> Option<Vec<Stripe>> {
        let logical_width = expansion.logical_width(self.width, birth);
        if !expansion.applies(self.width, logical_width) {
            return Some(vec![self.stripe(offset, psize)?]);
        }
        self.rows(expansion, logical_width, offset, psize)
    }

    /// A stripe for each row of sectors: each row of the old layout went to a place of its own.
    ///
    /// Source: OpenZFS module/zfs/vdev_raidz.c, `vdev_raidz_map_alloc_expanded`.
    fn rows(&self, expansion: &Expansion, logical_width: u64, offset: u64, psize: u64) -> Option<Vec<Stripe>> {
        let Self { width, parity, ashift } = *self;
        let sector = 1_u64.checked_shl(ashift.into())?;
        let data_width = logical_width.checked_sub(parity).filter(|&data| data > 0 && (1..=3).contains(&parity))?;
        let sectors = psize.div_ceil(sector);
        let (full_rows, rest) = (sectors / data_width, sectors % data_width);
        let rows = full_rows + u64::from(rest != 0);
        let columns = if full_rows == 0 { rest + parity } else { logical_width };
        let mut stripes = Vec::with_capacity(usize::try_from(rows).ok()?);
        for row in 0..rows {
            let first = (offset >> ashift).checked_add(row.checked_mul(logical_width)?)?;
            let (mut row_width, mut in_scratch) = (width, false);
            if let Some(reflow_offset) = expansion.reflow_offset_bytes {
                if first.checked_add(columns)? > reflow_offset >> ashift {
                    row_width = width - 1;
                } else {
                    in_scratch = expansion.in_scratch;
                }
            }
            let is_short = rest != 0 && row == rows - 1;
            let mut cells = Vec::with_capacity(usize::try_from(columns).ok()?);
            for column in 0..columns {
                let place = first.checked_add(column)?;
                let at = (place / row_width).checked_mul(sector)?.checked_add(VDEV_LABEL_START_BYTES)?;
                let data = column.saturating_sub(parity);
                let index = if data < rest || rest == 0 {
                    data * rows + row
                } else {
                    rest * rows + (data - rest) * (rows - 1) + row
                };
                let exists = !is_short || column < rest + parity;
                let length_bytes = if exists { usize::try_from(sector).ok()? } else { 0 };
                cells.push(Cell {
                    child: usize::try_from(place % row_width).ok()?,
                    device_offset_bytes: if in_scratch { at.checked_sub(BOOT_REGION_BYTES)? } else { at },
                    length_bytes,
                    data_bytes: length_bytes,
                    block_offset: usize::try_from(index.checked_mul(sector)?).ok()?,
                });
            }
            if parity == 1 && offset & SWAP_BIT != 0 {
                swap_places(&mut cells);
            }
            let mut data = cells.split_off(usize::try_from(parity).ok()?.min(cells.len()));
            data.iter_mut().for_each(|cell| cell.limit(psize));
            stripes.push(Stripe { parity: cells, data });
        }
        Some(stripes)
    }

    /// Bytes that a block of `psize` takes on the vdev, parity and padding included.
    ///
    /// Source: OpenZFS module/zfs/vdev_raidz.c, `vdev_raidz_psize_to_asize`.
    #[must_use]
    pub fn asize_bytes(&self, psize: u64) -> Option<u64> {
        let data_width = self.width.checked_sub(self.parity).filter(|&data| data > 0)?;
        let sectors = psize.div_ceil(1_u64.checked_shl(self.ashift.into())?);
        let total = sectors.checked_add(self.parity.checked_mul(sectors.div_ceil(data_width))?)?;
        total.checked_next_multiple_of(self.parity + 1)?.checked_shl(self.ashift.into())
    }
}

/// Exchanges device and offset of the first two cells; their roles and lengths stay.
fn swap_places(cells: &mut [Cell]) {
    if let [first, second, ..] = cells {
        std::mem::swap(&mut first.child, &mut second.child);
        std::mem::swap(&mut first.device_offset_bytes, &mut second.device_offset_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RAIDZ1: RaidzGeometry = RaidzGeometry { width: 3, parity: 1, ashift: 12 };

    #[test]
    fn a_block_of_one_sector_is_parity_and_data() {
        let stripe = RAIDZ1.stripe(0, 512).unwrap();
        let cell = |child, data_bytes| Cell {
            child,
            device_offset_bytes: 4 << 20,
            length_bytes: 4096,
            data_bytes,
            block_offset: 0,
        };
        assert_eq!(stripe, Stripe { parity: vec![cell(0, 4096)], data: vec![cell(1, 512)] });
        assert_eq!(RAIDZ1.asize_bytes(512), Some(8192));
    }

    #[test]
    fn a_set_bit_20_exchanges_places_and_not_roles() {
        let stripe = RAIDZ1.stripe(1 << 20, 8192).unwrap();
        // Sector 256 of the vdev is position 1 of row 85: without the exchange parity would lie on child 1.
        let at = |cell: &Cell| (cell.child, cell.device_offset_bytes - (4 << 20));
        assert_eq!(stripe.parity.iter().map(at).collect::<Vec<_>>(), [(2, 85 << 12)]);
        assert_eq!(stripe.data.iter().map(at).collect::<Vec<_>>(), [(1, 85 << 12), (0, 86 << 12)]);
    }

    proptest! {
        /// Cells of one block never overlap, fill the block exactly, and lie in the sectors the block was given.
        #[test]
        fn cells_fill_the_block_and_stay_inside(
            width in 2..20_u64, parity in 1..=3_u64, ashift in 9..=16_u8, start in 0..1_000_000_u64, psize in 1..(1_u64 << 20),
        ) {
            prop_assume!(parity < width);
            let geometry = RaidzGeometry { width, parity, ashift };
            let sector = 1_u64 << ashift;
            let stripe = geometry.stripe(start << ashift, psize).unwrap();
            let sum = |of: fn(&Cell) -> usize| stripe.data.iter().map(of).sum::<usize>() as u64;
            prop_assert_eq!(sum(|cell| cell.length_bytes), psize.next_multiple_of(sector));
            prop_assert_eq!(sum(|cell| cell.data_bytes), psize);
            let asize = geometry.asize_bytes(psize).unwrap();
            let mut used = std::collections::BTreeSet::new();
            for cell in stripe.parity.iter().chain(&stripe.data) {
                for sector_index in 0..cell.length_bytes as u64 / sector {
                    // The place in the vdev that this sector of the child stands for.
                    let row = (cell.device_offset_bytes - (4 << 20)) / sector + sector_index;
                    let place = row * width + cell.child as u64;
                    prop_assert!((start..start + asize / sector).contains(&place));
                    prop_assert!(used.insert(place));
                }
            }
        }
    }
}
