//! Edon-R-512, tweaked (Edon-R'), as the checksum `edonr`: the pool's salt makes a first block, 32 of the 64 bytes of
//! the digest are kept.
//!
//! Works on the operation `*` of a quasigroup of 512 bits ([`product`]): a linear step on each side, then a sum. A
//! block is worked in by eight of them. The reference in the tests is the definition by Latin squares.
//!
//! Source: Gligoroski and others, Cryptographic Hash Function Edon-R (submission to NIST, 2008), with the feedback of
//! Edon-R' (2009); OpenZFS module/zfs/edonr_zfs.c, `abd_checksum_edonr_tmpl_init`.

const BLOCK_BYTES: usize = 128;

type Half = [u64; 8];
type State = [Half; 2];

/// The initial state: the bytes 0x80 to 0xff, as big-endian words.
const INITIAL: State = {
    let mut state = [[0; 8]; 2];
    let mut index = 0;
    while index < 16 {
        state[index / 8][index % 8] = 0x8081_8283_8485_8687 + 0x0808_0808_0808_0808 * index as u64;
        index += 1;
    }
    state
};

/// The state of the hash after the block made from the salt.
#[derive(Clone, Debug)]
pub(super) struct Template(State);

impl Template {
    /// The block is the digest of the salt and the digest of that.
    pub(super) fn new(salt: &[u8]) -> Self {
        let first = finished(INITIAL, 0, salt);
        let second = finished(INITIAL, 0, &first);
        let mut block = [0; BLOCK_BYTES];
        let (front, back) = block.split_at_mut(first.len());
        front.copy_from_slice(&first);
        back.copy_from_slice(&second);
        Self(compressed(&INITIAL, &block))
    }

    /// The digest of the salted message.
    pub(super) fn digest(&self, message: &[u8]) -> [u8; 64] {
        finished(self.0, BLOCK_BYTES, message)
    }
}

/// Works in a message and its end: a bit, zeros, and the length in bits, `before` bytes included.
fn finished(mut state: State, before: usize, message: &[u8]) -> [u8; 64] {
    let (blocks, rest) = message.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        state = compressed(&state, block);
    }
    let bits = ((before + message.len()) as u64).wrapping_mul(8);
    let mut end = [0; 2 * BLOCK_BYTES];
    for (target, &byte) in end.iter_mut().zip(rest.iter().chain(&[0x80])) {
        *target = byte;
    }
    // The length needs eight bytes behind the bit.
    let end_blocks = if rest.len() + 1 + 8 > BLOCK_BYTES { 2 } else { 1 };
    let (end, _) = end.as_chunks_mut::<BLOCK_BYTES>();
    for (index, block) in end.iter_mut().take(end_blocks).enumerate() {
        if let (true, Some(length)) = (index + 1 == end_blocks, block.last_chunk_mut()) {
            *length = bits.to_le_bytes();
        }
        state = compressed(&state, block);
    }
    let mut digest = [0; 64];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state[1]) {
        *bytes = word.to_le_bytes();
    }
    digest
}

/// The compression function: four rows of two products, then the feedback.
fn compressed(state: &State, block: &[u8; BLOCK_BYTES]) -> State {
    let mut words = [[0; 8]; 2];
    for (word, bytes) in words.as_flattened_mut().iter_mut().zip(block.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [first, second] = words;
    let reversed = |[a, b, c, d, e, f, g, h]: Half| [h, g, f, e, d, c, b, a];
    let left = product(&reversed(second), &first);
    let right = product(&left, &second);
    let left = product(&state[1], &left);
    let right = product(&left, &right);
    let left = product(&left, &state[0]);
    let right = product(&right, &left);
    let left = product(&reversed(first), &left);
    let right = product(&left, &right);
    let fed_back = |result: Half, old: &Half, words: &Half| {
        let mut result = result;
        for ((result, old), word) in result.iter_mut().zip(old).zip(words) {
            *result ^= old ^ word;
        }
        result
    };
    [fed_back(left, &state[0], &second), fed_back(right, &state[1], &first)]
}

/// The operation of the quasigroup. Each side: five words summed for each word of the result, rotated, and three of
/// these added (exclusive or).
#[inline(always)]
fn product(x: &Half, y: &Half) -> Half {
    let sum = |terms: [u64; 3]| terms[0].wrapping_add(terms[1]).wrapping_add(terms[2]);
    let add = u64::wrapping_add;

    // Pairs and fours that several sums share, named by the indices of their words.
    let (x04, x17, x23, x56) = (add(x[0], x[4]), add(x[1], x[7]), add(x[2], x[3]), add(x[5], x[6]));
    let (x0147, x2356) = (add(x04, x17), add(x23, x56));
    let a = [
        sum([0xaaaa_aaaa_aaaa_aaaa, x0147, x[2]]),
        add(x0147, x[3]).rotate_left(5),
        add(x0147, x[6]).rotate_left(15),
        add(x2356, x[7]).rotate_left(22),
        add(x2356, x[1]).rotate_left(31),
        sum([x04, x23, x[5]]).rotate_left(40),
        sum([x17, x56, x[0]]).rotate_left(50),
        add(x2356, x[4]).rotate_left(59),
    ];
    let (y01, y25, y34, y67) = (add(y[0], y[1]), add(y[2], y[5]), add(y[3], y[4]), add(y[6], y[7]));
    let (y0125, y0134, y2567, y3467) = (add(y01, y25), add(y01, y34), add(y25, y67), add(y34, y67));
    let b = [
        sum([0x5555_5555_5555_5555, y0125, y[7]]),
        add(y0134, y[6]).rotate_left(10),
        add(y0125, y[3]).rotate_left(19),
        add(y3467, y[2]).rotate_left(29),
        add(y0134, y[5]).rotate_left(36),
        add(y2567, y[4]).rotate_left(44),
        add(y2567, y[1]).rotate_left(48),
        add(y3467, y[0]).rotate_left(55),
    ];
    [
        add(a[0] ^ a[1] ^ a[4], b[0] ^ b[1] ^ b[5]),
        add(a[0] ^ a[4] ^ a[7], b[2] ^ b[6] ^ b[7]),
        add(a[1] ^ a[6] ^ a[7], b[0] ^ b[1] ^ b[3]),
        add(a[2] ^ a[3] ^ a[4], b[0] ^ b[3] ^ b[4]),
        add(a[0] ^ a[1] ^ a[7], b[1] ^ b[2] ^ b[5]),
        add(a[3] ^ a[5] ^ a[6], b[3] ^ b[4] ^ b[6]),
        add(a[2] ^ a[5] ^ a[6], b[2] ^ b[5] ^ b[7]),
        add(a[2] ^ a[3] ^ a[5], b[4] ^ b[6] ^ b[7]),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counting, counting_salt, hex};
    use super::*;
    use proptest::prelude::*;

    /// The two orthogonal Latin squares. A column tells which words make one word of the result: the first five are
    /// summed; of the sums, the last three are added (exclusive or).
    const FIRST: [[usize; 8]; 8] = [
        [0, 7, 1, 3, 2, 4, 6, 5],
        [4, 1, 7, 6, 3, 0, 5, 2],
        [7, 0, 4, 2, 5, 3, 1, 6],
        [1, 4, 0, 5, 6, 2, 7, 3],
        [2, 3, 6, 7, 1, 5, 0, 4],
        [5, 2, 3, 1, 7, 6, 4, 0],
        [3, 6, 5, 0, 4, 7, 2, 1],
        [6, 5, 2, 4, 0, 1, 3, 7],
    ];
    const SECOND: [[usize; 8]; 8] = [
        [0, 4, 2, 3, 1, 6, 5, 7],
        [7, 6, 3, 2, 5, 4, 1, 0],
        [5, 3, 1, 6, 0, 2, 7, 4],
        [1, 0, 5, 4, 3, 7, 2, 6],
        [2, 1, 0, 7, 4, 5, 6, 3],
        [3, 5, 7, 0, 6, 1, 4, 2],
        [4, 7, 6, 1, 2, 0, 3, 5],
        [6, 2, 4, 5, 7, 3, 0, 1],
    ];

    /// One side of the product, by definition.
    fn side(words: &Half, square: &[[usize; 8]; 8], rotations: [u32; 8], constant: u64) -> Half {
        let sums: Half = std::array::from_fn(|column| {
            let start = if column == 0 { constant } else { 0 };
            let sum = square[..5].iter().fold(start, |sum, row| sum.wrapping_add(words[row[column]]));
            sum.rotate_left(rotations[column])
        });
        std::array::from_fn(|column| square[5..].iter().fold(0, |sum, row| sum ^ sums[row[column]]))
    }

    fn product_by_definition(x: &Half, y: &Half) -> Half {
        let left = side(x, &FIRST, [0, 5, 15, 22, 31, 40, 50, 59], 0xaaaa_aaaa_aaaa_aaaa);
        let right = side(y, &SECOND, [0, 10, 19, 29, 36, 44, 48, 55], 0x5555_5555_5555_5555);
        let mut sums: Half = std::array::from_fn(|index| left[index].wrapping_add(right[index]));
        sums.rotate_right(5);
        sums
    }

    proptest! {
        #[test]
        fn products_are_what_the_latin_squares_say(x in any::<Half>(), y in any::<Half>()) {
            prop_assert_eq!(product(&x, &y), product_by_definition(&x, &y));
        }
    }

    #[test]
    fn the_initial_state_counts_from_0x80_to_0xff() {
        let bytes: Vec<u8> = INITIAL.as_flattened().iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(bytes, (0x80..=0xff).collect::<Vec<u8>>());
    }

    #[test]
    fn digests_of_the_examples_of_fips_180_are_those_of_openzfs() {
        // `EdonRHash` in libzpool 2.3.2.
        let abc = "1b14db155f1d406594b8cef70a4362ec6b5de6a5daf50ec999e987c19d3049e2\
                   de5977bb05b1bb220050a1ea5b46a9f1740acafbf6b45032adc90c628372c22b";
        assert_eq!(hex(&finished(INITIAL, 0, b"abc")), abc);
        let long = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs\
                     mnopqrstnopqrstu";
        let answer = "5351070dc51c3b2baca5a60d0252ccb4e4921a96fe5a69e76dad48fd21a0845a\
                      d57f880b3e4a907bc503151842bb949e1cba7439a6409a34b8436cb46921583c";
        assert_eq!(hex(&finished(INITIAL, 0, long)), answer);
    }

    #[test]
    fn digests_are_those_of_openzfs() {
        // `EdonRHash` in libzpool 2.3.2, around the length that needs one more block for the end.
        for (length, answer) in [
            (0, "c57f7e17fdc1ce5074cc748c9bd38f9f51ebe88fbe6eda3190c4314cafb1abb2"),
            (119, "a114e2bacee304d23fe4dab9f335918d67dec0083bd0d3da8829d79f3241ec65"),
            (120, "b3c370ad4b6ecae958c6d44ae794d74a59b62af2fb9cc786ff035a3f1df093db"),
            (128, "757ccf26d0602e61720ac39965e59e92de86d4beaba4806919bfb0bb8276e145"),
            (1000, "b182d0b4a91fae12724d307acce58795ae8b54e58546037439d3de7d4e7cdfbf"),
        ] {
            assert_eq!(hex(&finished(INITIAL, 0, &counting(length))[..32]), answer, "{length} bytes");
        }
    }

    #[test]
    fn a_salt_is_a_block_before_the_message() {
        // The same function over H(salt), H(H(salt)) and the message.
        let template = Template::new(&counting_salt());
        for (length, answer) in [
            (0, "6305c603c0961544d6ffc7359c0a4194f5f31a05853bcfa0438308eef2f7052b"),
            (512, "4dbf2ea99373f256b70052bfeaba1e607a9d0e05e95346836c9c1f167a00ab01"),
            (1000, "71b9821e80676f5478385ddcf0fca6c99a823c1d1fbf68d24e24cd669bac2d9c"),
        ] {
            assert_eq!(hex(&template.digest(&counting(length))[..32]), answer, "{length} bytes");
        }
    }
}
