use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn config(parity: u64, data: u64, spares: u64, children: u64) -> DraidConfig {
    // The fewest groups that fill whole rows, as `zpool create` chooses them.
    let disks = children - spares;
    let groups = (1..).find(|groups| (groups * (data + parity)).is_multiple_of(disks)).unwrap();
    DraidConfig { children, parity, data, spares, groups, group_children: children, ashift: 12 }
}

/// The numbers are those that were published with the format.
#[test]
fn the_seeds_are_those_of_the_published_list() {
    let list = include_str!("../../../../fixtures/data/draid-maps.csv");
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let mut rows = 0;
    for (line, (index, map)) in list.lines().skip(1).zip(MAPS.iter().enumerate()) {
        let [children, perms, seed, sum] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((children.parse(), perms.parse()), (Ok(index + CHILDREN_MIN), Ok(map.rows)));
        assert_eq!((number(seed), number(sum)), (map.seed, map.checksum));
        rows += 1;
    }
    assert_eq!(rows, MAPS.len());
}

#[test]
fn every_map_has_its_checksum() {
    for (index, numbers) in MAPS.iter().enumerate() {
        let children = index + CHILDREN_MIN;
        let map = permutations(children, numbers).unwrap_or_else(|| panic!("map for {children} children"));
        assert_eq!(map.len(), children * usize::from(numbers.rows));
        for row in map.chunks(children) {
            let values: BTreeSet<u16> = row.iter().copied().collect();
            assert_eq!(values.len(), children, "a row is a permutation");
        }
    }
}

/// The sum is the first word of fletcher4 over the bytes of the map.
#[test]
fn the_checksum_is_the_one_of_fletcher4() {
    let map = permutations(7, &MAPS[5]).unwrap();
    let bytes: Vec<u8> = map.iter().map(|&entry| u8::try_from(entry).unwrap()).collect();
    let kind = crate::ondisk::dmu::ChecksumKind::FLETCHER4;
    let [first, ..] = crate::codec::checksum::compute_plain(kind, crate::Endian::Little, &bytes, None).unwrap();
    assert_eq!(first, MAPS[5].checksum);
}

fn config_of(parity: u64) -> DraidConfig {
    config(parity, 4, 2, 12)
}

#[test]
fn impossible_numbers_make_no_geometry() {
    let good = config(2, 4, 1, 9);
    assert!(Draid::new(good).is_some());
    for bad in [
        DraidConfig { parity: 0, ..good },
        DraidConfig { parity: 4, ..good },
        DraidConfig { data: 0, ..good },
        DraidConfig { data: 8, ..good },
        DraidConfig { data: u64::MAX, ..good },
        DraidConfig { groups: 0, ..good },
        DraidConfig { groups: good.groups + 1, ..good },
        DraidConfig { spares: 9, ..good },
        DraidConfig { spares: 10, ..good },
        DraidConfig { group_children: 0, ..good },
        DraidConfig { group_children: 4, ..good },
        DraidConfig { children: 256, group_children: 256, ..good },
        DraidConfig { ashift: 8, ..good },
        DraidConfig { ashift: 64, ..good },
    ] {
        assert!(Draid::new(bad).is_none(), "{bad:?}");
    }
}

/// All cells of a block, with the child and the sectors on it.
fn sectors_of(draid: &Draid, offset: u64, psize: u64) -> Vec<(usize, u64)> {
    let stripes = draid.stripes(offset, psize).unwrap();
    let cells = stripes.iter().flat_map(|stripe| stripe.parity.iter().chain(&stripe.data));
    cells
        .flat_map(|cell| {
            (0..cell.length_bytes as u64).step_by(4096).map(|at| (cell.child, cell.device_offset_bytes + at))
        })
        .collect()
}

/// Blocks laid one after the other over several slices use each sector of the children once, spares left out.
#[test]
fn blocks_do_not_overlap_and_leave_the_spare_free() {
    let draid = Draid::new(config(1, 2, 1, 6)).unwrap();
    let mut used = BTreeSet::new();
    let step = 3 * 4096 * 256_u64;
    for index in 0..(3 * draid.slice_bytes * 5 / step) {
        for sector in sectors_of(&draid, index * step, 2 * 4096 * 256) {
            assert!(used.insert(sector), "sector used twice");
        }
    }
    for &(child, offset) in &used {
        assert_ne!(draid.spare_child(0, offset), Some(child), "data on the spare space of child {child}");
    }
}

#[test]
fn a_block_may_reach_into_the_next_group() {
    let draid = Draid::new(config(1, 2, 0, 6)).unwrap();
    // Two stripes before the end of the first group; the block has five.
    let offset = draid.group_bytes - 2 * 3 * 4096;
    let stripes = draid.stripes(offset, 9 * 4096).unwrap();
    let lengths = |stripe: &Stripe| stripe.data.iter().map(|cell| cell.data_bytes / 4096).collect::<Vec<_>>();
    assert_eq!(stripes.iter().map(lengths).collect::<Vec<_>>(), [[2, 2], [3, 2]]);
    let offsets: Vec<usize> =
        stripes.iter().flat_map(|stripe| &stripe.data).map(|cell| cell.block_offset / 4096).collect();
    assert_eq!(offsets, [0, 2, 4, 7]);
    assert_eq!(stripes[1].data[1].length_bytes, 3 * 4096, "the last sector is a pad");
}

proptest! {
    /// Whatever a configuration says and an address names, the answer is a place or none.
    #[test]
    fn no_numbers_lead_astray(
        numbers in (0..600_u64, 0..5_u64, 0..300_u64, 0..300_u64, 0..70_000_u64, 0..300_u64, 0..=20_u8),
        is_wide in any::<bool>(), offset in any::<u64>(), psize in 0..(16_u64 << 20), spare in any::<u64>(),
    ) {
        let (children, parity, data, spares, groups, group_children, ashift) = numbers;
        // Numbers by chance are rarely those of a vdev; half of the time only the addresses are.
        let config = DraidConfig { children, parity, data, spares, groups, group_children, ashift };
        let usual = DraidConfig { children: 12, group_children: 12, ..config_of(parity.clamp(1, 3)) };
        if let Some(draid) = Draid::new(if is_wide { config } else { usual }) {
            let _ = draid.stripes(offset, psize);
            let _ = draid.spare_child(spare, offset);
        }
    }

    #[test]
    fn cells_fill_the_block(
        parity in 1..=3_u64, data in 1..=8_u64, spares in 0..=3_u64, more in 0..=5_u64,
        start in 0..100_000_u64, psize in 1..(1_u64 << 20), failure_groups in 1..=3_u64,
    ) {
        let width = parity + data + spares + more;
        let one = config(parity, data, spares, width);
        let config = DraidConfig {
            children: width * failure_groups,
            group_children: width,
            spares: spares * failure_groups,
            groups: one.groups * failure_groups,
            ..one
        };
        let draid = Draid::new(config).unwrap();
        let offset = start * (parity + data) * 4096;
        let stripes = draid.stripes(offset, psize).unwrap();
        let mut at = 0;
        for stripe in &stripes {
            prop_assert_eq!((stripe.parity.len() as u64, stripe.data.len() as u64), (parity, data));
            let cells = stripe.parity.iter().chain(&stripe.data);
            let children: BTreeSet<usize> = cells.clone().map(|cell| cell.child).collect();
            prop_assert_eq!(children.len() as u64, parity + data, "one cell on each child");
            // A group lies in one failure group.
            let groups: BTreeSet<u64> = children.iter().map(|&child| child as u64 / width).collect();
            prop_assert!(failure_groups == 1 || groups.len() as u64 <= parity + data);
            for cell in &stripe.data {
                prop_assert!(cell.data_bytes == 0 || cell.block_offset == at);
                prop_assert!(cell.data_bytes <= cell.length_bytes);
                at += cell.data_bytes;
            }
            for spare in 0..config.spares {
                for cell in stripe.parity.iter().chain(&stripe.data) {
                    prop_assert_ne!(draid.spare_child(spare, cell.device_offset_bytes), Some(cell.child));
                }
            }
        }
        prop_assert_eq!(at as u64, psize);
    }
}
