//! Stripes: how a block lies on a raidz vdev, cell by cell.
//!
//! A block is one or more stripes, each with parity of its own. A stripe is a run of cells, at most one on each device:
//! first the parity cells, then the data cells. Without expansion a block is one stripe whose cells are several sectors
//! long; after one it is a stripe for each row of sectors.

/// One run of bytes of a block on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which child of the raidz vdev.
    pub child: usize,
    /// Byte offset in the allocatable space of that child.
    pub offset_bytes: u64,
    /// Length; 0 for a cell that exists only for counting.
    pub length_bytes: usize,
    /// Where in the block (rounded up to whole sectors) the bytes belong; parity belongs nowhere.
    pub block_offset: usize,
}

/// Cells that share parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Parity cells, in the order P, Q, R.
    pub parity: Vec<Cell>,
    /// Data cells in the order of the parity equations.
    pub data: Vec<Cell>,
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
                offset_bytes: base.checked_add(wrap)?,
                length_bytes: usize::try_from(length).ok()?,
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
        }
        Some(stripe)
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
        std::mem::swap(&mut first.offset_bytes, &mut second.offset_bytes);
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
        let cell = |child, block_offset| Cell { child, offset_bytes: 0, length_bytes: 4096, block_offset };
        assert_eq!(stripe, Stripe { parity: vec![cell(0, 0)], data: vec![cell(1, 0)] });
        assert_eq!(RAIDZ1.asize_bytes(512), Some(8192));
    }

    #[test]
    fn a_set_bit_20_exchanges_places_and_not_roles() {
        let stripe = RAIDZ1.stripe(1 << 20, 8192).unwrap();
        // Sector 256 of the vdev is position 1 of row 85: without the exchange parity would lie on child 1.
        let at = |cell: &Cell| (cell.child, cell.offset_bytes);
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
            let filled: usize = stripe.data.iter().map(|cell| cell.length_bytes).sum();
            prop_assert_eq!(filled as u64, psize.next_multiple_of(sector));
            let asize = geometry.asize_bytes(psize).unwrap();
            let mut used = std::collections::BTreeSet::new();
            for cell in stripe.parity.iter().chain(&stripe.data) {
                for sector_index in 0..cell.length_bytes as u64 / sector {
                    // The place in the vdev that this sector of the child stands for.
                    let row = cell.offset_bytes / sector + sector_index;
                    let place = row * width + cell.child as u64;
                    prop_assert!((start..start + asize / sector).contains(&place));
                    prop_assert!(used.insert(place));
                }
            }
        }
    }
}
