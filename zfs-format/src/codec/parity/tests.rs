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
    (1..12_usize, 1..300_usize, 0..12_usize).prop_flat_map(|(count, length, longer)| {
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

/// Columns of a kilobyte or so, the first `longer` of them a sector longer.
fn sectors(count: usize, longer: usize) -> Vec<Vec<u8>> {
    let byte = |column: usize, at: usize| ((column * 4099 + at).wrapping_mul(0x9e37_79b1) >> 24) as u8;
    let length = |column| 1024 + if column < longer { 512 } else { 0 };
    (0..count).map(|column| (0..length(column)).map(|at| byte(column, at)).collect()).collect()
}

fn all_kernels() -> Vec<Kernels> {
    let mut all = kernels::candidates();
    all.push(kernels::PLAIN);
    all
}

#[test]
fn every_form_restores_every_set_of_lost_columns_from_every_set_of_rows() {
    for (kernels, count) in all_kernels().iter().flat_map(|kernels| (1..=8).map(move |count| (kernels, count))) {
        let data = sectors(count, count / 2);
        let parity = all_parity(&data);
        for lost in sets(count) {
            for rows in sets(PARITY_MAX).into_iter().filter(|rows| rows.len() == lost.len()) {
                let mut damaged = data.clone();
                lost.iter().for_each(|&index| damaged[index].fill(0x5a));
                let mut slices: Vec<&mut [u8]> = damaged.iter_mut().map(Vec::as_mut_slice).collect();
                let rows: Vec<(usize, &[u8])> = rows.iter().map(|&row| (row, parity[row].as_slice())).collect();
                assert!(reconstruct_with(kernels, &mut slices, &lost, &rows));
                assert!(damaged == data, "{}: lost {lost:?} of {count}", kernels.name);
            }
        }
    }
}

#[test]
fn rows_made_together_are_those_made_alone() {
    let data = sectors(5, 2);
    let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let alone = all_parity(&data);
    for count in 0..=PARITY_MAX {
        let mut together = vec![vec![0xaa; 1536]; count];
        generate_rows(&slices, &mut together.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        assert!(together == alone[..count], "{count} rows");
    }
    let mut untouched = [7; 4];
    generate(PARITY_MAX, &slices, &mut untouched);
    assert_eq!(untouched, [7; 4]);
}

proptest! {
    #[test]
    fn every_form_computes_as_the_plain_one_does(
        data in columns(), wanted in any::<[bool; PARITY_MAX]>(), factors in any::<[u8; PARITY_MAX]>(),
        length in 1..700_usize
    ) {
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let terms: Vec<Term<'_>> = factors.into_iter().zip(slices.iter().copied()).collect();
        let answer = |kernels: &Kernels| {
            let mut rows = wanted.map(|wanted| vec![0xaa; if wanted { length } else { 0 }]);
            (kernels.generate)(&slices, &mut rows.each_mut().map(Vec::as_mut_slice));
            let mut sum = vec![0xaa; length];
            (kernels.combine)(&terms, &mut sum);
            (rows, sum)
        };
        let plain = answer(&kernels::PLAIN);
        for kernels in kernels::candidates() {
            prop_assert_eq!(&answer(&kernels), &plain, "{}", kernels.name);
        }
    }

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
