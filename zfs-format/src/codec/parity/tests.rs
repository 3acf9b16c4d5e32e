use super::field::product;
use super::*;
use proptest::prelude::*;

/// The table of the module's documentation, byte by byte.
fn by_definition(row: usize, data: &[Vec<u8>], length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| {
            data.iter().enumerate().fold(0, |sum, (index, column)| {
                let weight = (0..row * (data.len() - 1 - index)).fold(1, |weight, _| product(weight, 2));
                sum ^ product(weight, column.get(at).copied().unwrap_or(0))
            })
        })
        .collect()
}

/// Columns as raidz makes them: the first ones may be longer than the rest.
fn columns() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (1..12_usize, 1..70_usize, 0..12_usize).prop_flat_map(|(count, length, longer)| {
        (0..count)
            .map(|index| prop::collection::vec(any::<u8>(), length + usize::from(index < longer)))
            .collect::<Vec<_>>()
    })
}

fn all_parity(data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let length = data.iter().map(Vec::len).max().unwrap_or(0);
    let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    (0..PARITY_MAX)
        .map(|row| {
            let mut parity = vec![0xaa; length];
            generate(row, &slices, &mut parity);
            parity
        })
        .collect()
}

/// All ascending sets of up to three of `count` numbers.
fn sets(count: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![vec![]];
    for a in 0..count {
        sets.push(vec![a]);
        for b in a + 1..count {
            sets.push(vec![a, b]);
            sets.extend((b + 1..count).map(|c| vec![a, b, c]));
        }
    }
    sets
}

proptest! {
    #[test]
    fn parity_is_what_the_definition_says(data in columns()) {
        let length = data.iter().map(Vec::len).max().unwrap_or(0);
        for (row, parity) in all_parity(&data).iter().enumerate() {
            prop_assert_eq!(parity, &by_definition(row, &data, length));
        }
    }

    #[test]
    fn every_set_of_lost_columns_comes_back_from_every_set_of_rows(data in columns()) {
        let parity = all_parity(&data);
        for lost in sets(data.len()) {
            for rows in sets(PARITY_MAX).into_iter().filter(|rows| rows.len() == lost.len()) {
                let mut damaged = data.clone();
                lost.iter().for_each(|&index| damaged[index].fill(0x5a));
                let mut slices: Vec<&mut [u8]> = damaged.iter_mut().map(Vec::as_mut_slice).collect();
                let rows: Vec<(usize, &[u8])> = rows.iter().map(|&row| (row, parity[row].as_slice())).collect();
                prop_assert!(reconstruct(&mut slices, &lost, &rows));
                prop_assert_eq!(&damaged, &data, "lost {:?}", lost);
            }
        }
    }
}

#[test]
fn what_cannot_be_restored_is_left_alone() {
    let mut column = vec![7; 4];
    let parity = [1_u8; 4];
    assert!(!reconstruct(&mut [column.as_mut_slice()], &[0], &[]));
    assert!(!reconstruct(&mut [column.as_mut_slice()], &[1], &[(0, &parity)]));
    assert!(!reconstruct(&mut [column.as_mut_slice()], &[0], &[(3, &parity)]));
    assert_eq!(column, [7; 4]);
}
