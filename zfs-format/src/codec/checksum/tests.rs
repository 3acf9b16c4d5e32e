use super::*;
use proptest::prelude::*;

const LABEL_MAGIC: u64 = 0x0210_da7a_b10c_7a11;

fn bytes_of(endian: Endian, word: u64) -> [u8; 8] {
    match endian {
        Endian::Little => word.to_le_bytes(),
        Endian::Big => word.to_be_bytes(),
    }
}

/// Writes a `zio_eck` whose sum is taken by `sum` over the area with the verifier in place.
fn seal(area: &mut [u8], eck: usize, endian: Endian, verifier: [u64; 4], sum: impl Fn(&[u8]) -> Checksum) {
    let put = |area: &mut [u8], words: [u64; 4]| {
        for (i, word) in words.into_iter().enumerate() {
            area[eck + 8 + 8 * i..][..8].copy_from_slice(&bytes_of(endian, word));
        }
    };
    area[eck..][..8].copy_from_slice(&bytes_of(endian, LABEL_MAGIC));
    put(area, verifier);
    let words = sum(area);
    put(area, words);
}

fn any_endian() -> impl Strategy<Value = Endian> {
    prop_oneof![Just(Endian::Little), Just(Endian::Big)]
}

#[test]
fn sha256_matches_fips_180_vectors() {
    let abc = compute(ChecksumKind::SHA256, Endian::Little, b"abc", None).unwrap();
    assert_eq!(abc, [0xba78_16bf_8f01_cfea, 0x4141_40de_5dae_2223, 0xb003_61a3_9617_7a9c, 0xb410_ff61_f200_15ad]);
    assert_eq!(compute(ChecksumKind::SHA256, Endian::Big, b"abc", None), Ok(abc), "words are big endian on any host");
    let empty = compute(ChecksumKind::SHA256, Endian::Little, b"", None).unwrap();
    assert_eq!(empty, [0xe3b0_c442_98fc_1c14, 0x9afb_f4c8_996f_b924, 0x27ae_41e4_649b_934c, 0xa495_991b_7852_b855]);
}

#[test]
fn sums_of_several_blocks_are_those_of_each() {
    let blocks: Vec<Vec<u8>> = (0..SEVERAL_MAX).map(|index| counting(512 * (1 + index % 3))).collect();
    let blocks: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    for count in 0..=SEVERAL_MAX {
        let sums = compute_several(ChecksumKind::SHA256, &blocks[..count]).unwrap();
        for (sum, block) in sums.into_iter().zip(&blocks[..count]) {
            assert_eq!(Ok(sum), compute_plain(ChecksumKind::SHA256, Endian::Little, block, None));
        }
    }
    assert_eq!(compute_several(ChecksumKind::FLETCHER4, &blocks), None);
}

#[test]
fn sha512_is_sha512_256_with_words_in_the_writers_order() {
    let big = compute(ChecksumKind::SHA512, Endian::Big, b"abc", None).unwrap();
    assert_eq!(big, [0x5304_8e26_8194_1ef9, 0x9b2e_29b7_6b4c_7dab, 0xe4c2_d0c6_34fc_6d46, 0xe0e2_f131_07e7_af23]);
    let little = compute(ChecksumKind::SHA512, Endian::Little, b"abc", None).unwrap();
    assert_eq!(little, big.map(u64::swap_bytes));
}

#[test]
fn fletcher_sums_of_small_inputs_are_as_computed_by_hand() {
    let words: Vec<u8> = [1_u32, 2, 3].into_iter().flat_map(u32::to_le_bytes).collect();
    assert_eq!(compute(ChecksumKind::FLETCHER4, Endian::Little, &words, None), Ok([6, 10, 15, 21]));
    let words: Vec<u8> = [1_u32, 2, 3].into_iter().flat_map(u32::to_be_bytes).collect();
    assert_eq!(compute(ChecksumKind::FLETCHER4, Endian::Big, &words, None), Ok([6, 10, 15, 21]));
    let words: Vec<u8> = [1_u64, 10, 2, 20].into_iter().flat_map(u64::to_le_bytes).collect();
    assert_eq!(compute(ChecksumKind::FLETCHER2, Endian::Little, &words, None), Ok([3, 30, 4, 40]));
    let words: Vec<u8> = [1_u64, 10, 2, 20].into_iter().flat_map(u64::to_be_bytes).collect();
    assert_eq!(compute(ChecksumKind::FLETCHER2, Endian::Big, &words, None), Ok([3, 30, 4, 40]));
}

/// 32 bytes of 0x20 and up.
pub(super) fn counting_salt() -> [u8; SALT_BYTES] {
    std::array::from_fn(|index| 0x20 + index as u8)
}

/// The input of BLAKE3's official vectors: 0 to 250, again and again.
pub(super) fn counting(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn salted_digests_are_cut_to_four_words_in_the_writers_order() {
    let salt = Salt::new(&counting_salt());
    let bytes = counting(512);
    for (kind, digest) in [
        (ChecksumKind::SKEIN, salt.skein.digest(&bytes).to_vec()),
        (ChecksumKind::EDONR, salt.edonr.digest(&bytes).to_vec()),
        (ChecksumKind::BLAKE3, blake3::plain(&salt.blake3, &bytes).to_vec()),
    ] {
        for endian in [Endian::Little, Endian::Big] {
            let stored =
                compute(kind, endian, &bytes, Some(&salt)).unwrap().map(|word| bytes_of(endian, word)).concat();
            assert_eq!(stored, digest[..32], "{kind}");
            assert_eq!(compute_plain(kind, endian, &bytes, Some(&salt)), compute(kind, endian, &bytes, Some(&salt)));
        }
    }
}

#[test]
fn largest_block_of_ones_agrees_in_all_forms() {
    let bytes = vec![0xff; 16 << 20];
    let plain = fletcher4::plain(Endian::Little, &bytes);
    for (name, kernel) in fletcher4::candidates() {
        assert_eq!(kernel(Endian::Little, &bytes), plain, "{name}");
    }
}

#[test]
fn kinds_without_words_in_the_pointer_are_told_apart() {
    let answer = |kind| compute(kind, Endian::Little, &[1, 2, 3, 4], None);
    assert_eq!(answer(ChecksumKind::OFF), Ok([0; 4]));
    assert_eq!(answer(ChecksumKind::NOPARITY), Ok([0; 4]));
    for kind in [0, 1, 3, 4, 5, 9].map(ChecksumKind) {
        assert!(matches!(answer(kind), Err(FormatError::BadField { .. })), "{kind}");
    }
    for kind in [12, 13, 14, 15, 255].map(ChecksumKind) {
        assert!(matches!(answer(kind), Err(FormatError::Unsupported { .. })), "{kind}");
    }
    for kind in [2, 6, 7, 8, 10, 11].map(ChecksumKind) {
        assert!(answer(kind).is_ok(), "{kind}");
    }
    let salt = Salt::new(&[0; SALT_BYTES]);
    for kind in [12, 13, 14].map(ChecksumKind) {
        assert!(kind.is_salted() && compute(kind, Endian::Little, &[1, 2, 3, 4], Some(&salt)).is_ok(), "{kind}");
    }
}

#[test]
fn protected_blocks_compare_two_words_folded_only_for_weak_sums() {
    let computed = [1, 2, 4, 8];
    assert!(matches(ChecksumKind::FLETCHER4, computed, computed, false));
    assert!(!matches(ChecksumKind::FLETCHER4, computed, [1, 2, 4, 9], false));
    assert!(matches(ChecksumKind::FLETCHER4, computed, [5, 10, 77, 78], true));
    assert!(matches(ChecksumKind::EDONR, computed, [5, 10, 77, 78], true));
    assert!(matches(ChecksumKind::GANG_HEADER, computed, [5, 10, 0, 0], true));
    assert!(!matches(ChecksumKind::FLETCHER4, computed, [1, 2, 77, 78], true));
    assert!(matches(ChecksumKind::SHA256, computed, [1, 2, 77, 78], true));
    assert!(!matches(ChecksumKind::SHA256, computed, [5, 10, 77, 78], true));
}

#[test]
fn areas_too_short_for_the_checksum_are_absent() {
    for length in 0..40 {
        assert_eq!(verify_embedded_sha256(&vec![0; length], [0; 4]), Embedded::Absent);
    }
    assert_eq!(embedded_fletcher_words(ChecksumKind::ZILOG2, &[0; 64], usize::MAX, [0; 4]), None);
    assert_eq!(embedded_fletcher_words(ChecksumKind::ZILOG2, &[0; 64], 60, [0; 4]), None);
}

#[test]
fn embedded_fletcher_refuses_other_kinds_and_split_words() {
    let mut area = vec![7_u8; 256];
    area[100..108].copy_from_slice(&LABEL_MAGIC.to_le_bytes());
    assert!(embedded_fletcher_words(ChecksumKind::ZILOG2, &area, 100, [0; 4]).is_some());
    assert_eq!(embedded_fletcher_words(ChecksumKind::ZILOG, &area, 100, [0; 4]), None);
    assert_eq!(embedded_fletcher_words(ChecksumKind::SHA256, &area, 100, [0; 4]), None);
}

proptest! {
    #[test]
    fn every_form_of_fletcher4_agrees_with_the_plain_one(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000), endian in any_endian()
    ) {
        let plain = fletcher4::plain(endian, &bytes);
        for (name, kernel) in fletcher4::candidates() {
            prop_assert_eq!(kernel(endian, &bytes), plain, "{}", name);
        }
        // The same code in other widths, without any CPU feature.
        prop_assert_eq!(fletcher4::lanes::<2>(endian, &bytes), plain);
        prop_assert_eq!(fletcher4::lanes::<4>(endian, &bytes), plain);
        prop_assert_eq!(fletcher4::lanes::<8>(endian, &bytes), plain);
        prop_assert_eq!(fletcher4::lanes::<16>(endian, &bytes), plain);
        prop_assert_eq!(compute(ChecksumKind::FLETCHER4, endian, &bytes, None).unwrap(), plain);
        prop_assert_eq!(compute_plain(ChecksumKind::FLETCHER4, endian, &bytes, None).unwrap(), plain);
    }

    #[test]
    fn swapped_words_in_swapped_order_give_the_same_sums(
        words in proptest::collection::vec(any::<u64>(), 0..200)
    ) {
        let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut big = little.clone();
        big.as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse());
        prop_assert_eq!(fletcher2::plain(Endian::Little, &little), fletcher2::plain(Endian::Big, &big));
        let mut big = little.clone();
        big.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
        prop_assert_eq!(fletcher4::plain(Endian::Little, &little), fletcher4::plain(Endian::Big, &big));
    }

    #[test]
    fn sums_of_parts_join_to_the_sum_of_the_whole(
        units in proptest::collection::vec(any::<[u8; 16]>(), 0..100), cut in any::<prop::sample::Index>(),
        endian in any_endian()
    ) {
        let bytes = units.concat();
        let (first, next) = bytes.split_at(cut.index(units.len() + 1) * 16);
        let join4 = fletcher4::append(endian, fletcher4::plain(endian, first), next);
        prop_assert_eq!(join4, fletcher4::plain(endian, &bytes));
        let join2 = fletcher2::append(endian, fletcher2::plain(endian, first), next);
        prop_assert_eq!(join2, fletcher2::plain(endian, &bytes));
    }

    #[test]
    fn embedded_sha256_holds_until_a_bit_flips(
        mut area in proptest::collection::vec(any::<u8>(), 64..600), verifier in any::<[u64; 4]>(),
        endian in any_endian(), flip in any::<prop::sample::Index>()
    ) {
        let eck = area.len() - 40;
        seal(&mut area, eck, endian, verifier, |area| sha::sha256(&[area]));
        prop_assert_eq!(verify_embedded_sha256(&area, verifier), Embedded::Valid(endian));
        prop_assert_eq!(verify_embedded_sha256(&area, verifier.map(|word| word ^ 1)), Embedded::Bad(endian));
        let bit = flip.index(area.len() * 8);
        area[bit / 8] ^= 1 << (bit % 8);
        let in_magic = (eck..eck + 8).contains(&(bit / 8));
        let expected = if in_magic { Embedded::Absent } else { Embedded::Bad(endian) };
        prop_assert_eq!(verify_embedded_sha256(&area, verifier), expected);
    }

    #[test]
    fn embedded_fletcher_is_the_sum_with_the_verifier_in_place(
        seed in any::<u8>(), blocks in 1_usize..4, verifier in any::<[u64; 4]>(), endian in any_endian()
    ) {
        let mut area: Vec<u8> = (0..blocks * 4096).map(|i| (i as u8).wrapping_mul(31) ^ seed).collect();
        seal(&mut area, 144, endian, verifier, |area| fletcher4::plain(endian, area));
        let (order, computed, stored) = embedded_fletcher_words(ChecksumKind::ZILOG2, &area, 144, verifier).unwrap();
        prop_assert_eq!((order, computed), (endian, stored));
        let eck = area.len() - 40;
        seal(&mut area, eck, endian, verifier, |area| fletcher2::plain(endian, area));
        let (order, computed, stored) = embedded_fletcher_words(ChecksumKind::ZILOG, &area, eck, verifier).unwrap();
        prop_assert_eq!((order, computed), (endian, stored));
    }
}
