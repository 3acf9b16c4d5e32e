//! SHA-256 of several messages side by side: two by the SHA instructions, eight by AVX-512.
//!
//! One message is a chain of operations that wait for each other (`sha256rnds2` answers after four cycles and could begin
//! every second one); messages do not wait for each other. Everything here is safe but the calls into functions with a
//! target feature.
//!
//! Rounds are macros, and there are no closures: what has a target feature is not always inlined into what has none, and
//! one call for each round costs more than all lanes gain.
#![allow(unsafe_code, reason = "calls of functions compiled for a CPU feature that was detected")]

use super::sha_lanes::{Kernels, State};
use super::sha_plain::ROUND_256;
use std::arch::is_x86_feature_detected;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi32, _mm_alignr_epi8, _mm_extract_epi32, _mm_set_epi32, _mm_set_epi64x,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
    _mm256_add_epi32, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_permute2x128_si256, _mm256_ror_epi32,
    _mm256_set_epi64x, _mm256_set1_epi32, _mm256_shuffle_epi8, _mm256_srli_epi32, _mm256_ternarylogic_epi32,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

/// Truth tables of `vpternlogd`.
const XOR: i32 = 0x96;
const CHOICE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

/// The bytes of each 32-bit word the other way round: a shuffle of 16 bytes, as its upper and lower half.
const SWAP: [i64; 2] = [0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203];

#[target_feature(enable = "sha,ssse3,sse4.1")]
#[inline]
fn four([a, b, c, d]: [u32; 4]) -> __m128i {
    _mm_set_epi32(d.cast_signed(), c.cast_signed(), b.cast_signed(), a.cast_signed())
}

#[target_feature(enable = "sha,ssse3,sse4.1")]
#[inline]
fn unpack(v: __m128i) -> [u32; 4] {
    [
        _mm_extract_epi32::<0>(v).cast_unsigned(),
        _mm_extract_epi32::<1>(v).cast_unsigned(),
        _mm_extract_epi32::<2>(v).cast_unsigned(),
        _mm_extract_epi32::<3>(v).cast_unsigned(),
    ]
}

/// Four words of a message.
#[target_feature(enable = "sha,ssse3,sse4.1")]
#[inline]
fn load(bytes: &[u8; 16]) -> __m128i {
    let value = u128::from_le_bytes(*bytes);
    let value = _mm_set_epi64x((value >> 64) as i64, value as i64);
    _mm_shuffle_epi8(value, _mm_set_epi64x(SWAP[0], SWAP[1]))
}

/// One of two messages. The SHA instructions keep the state as A, B, E, F and C, D, G, H.
#[derive(Clone, Copy)]
struct Lane {
    upper: __m128i,
    lower: __m128i,
    words: [__m128i; 4],
}

impl Lane {
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    #[inline]
    fn new([a, b, c, d, e, f, g, h]: State) -> Self {
        Self { upper: four([f, e, b, a]), lower: four([h, g, d, c]), words: [four([0; 4]); 4] }
    }

    #[target_feature(enable = "sha,ssse3,sse4.1")]
    #[inline]
    fn state(&self) -> State {
        let ([f, e, b, a], [h, g, d, c]) = (unpack(self.upper), unpack(self.lower));
        [a, b, c, d, e, f, g, h]
    }

    /// The sixteen words of a block.
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    #[inline]
    fn load(&mut self, block: &[u8; 64]) {
        for (words, bytes) in self.words.iter_mut().zip(block.as_chunks().0) {
            *words = load(bytes);
        }
    }

    #[target_feature(enable = "sha,ssse3,sse4.1")]
    #[inline]
    fn add(&mut self, before: &Self) {
        self.upper = _mm_add_epi32(self.upper, before.upper);
        self.lower = _mm_add_epi32(self.lower, before.lower);
    }
}

/// Four rounds of one message, and the words for the rounds sixteen later, which take the place of those used.
macro_rules! four_rounds {
    ($lane:ident, $row:literal) => {
        let constants =
            [ROUND_256[4 * $row], ROUND_256[4 * $row + 1], ROUND_256[4 * $row + 2], ROUND_256[4 * $row + 3]];
        let sums = _mm_add_epi32($lane.words[$row % 4], four(constants));
        $lane.lower = _mm_sha256rnds2_epu32($lane.lower, $lane.upper, sums);
        $lane.upper = _mm_sha256rnds2_epu32($lane.upper, $lane.lower, _mm_shuffle_epi32::<0x0e>(sums));
        if $row < 12 {
            let [w0, w1] = [$lane.words[$row % 4], $lane.words[($row + 1) % 4]];
            let [w2, w3] = [$lane.words[($row + 2) % 4], $lane.words[($row + 3) % 4]];
            let sums = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8::<4>(w3, w2));
            $lane.words[$row % 4] = _mm_sha256msg2_epu32(sums, w3);
        }
    };
}

/// Two messages, by the SHA instructions, row by row: the numbers are known to the compiler, so all stays in registers.
#[target_feature(enable = "sha,ssse3,sse4.1")]
fn compress_two(states: &mut [State; 2], blocks: [&[[u8; 64]]; 2]) {
    let [mut one, mut two] = [Lane::new(states[0]), Lane::new(states[1])];
    macro_rules! rows {
        ($($row:literal)*) => {$(
            four_rounds!(one, $row);
            four_rounds!(two, $row);
        )*};
    }
    for (first, second) in blocks[0].iter().zip(blocks[1]) {
        let before = (one, two);
        one.load(first);
        two.load(second);
        rows!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        one.add(&before.0);
        two.add(&before.1);
    }
    *states = [one.state(), two.state()];
}

/// One row of 32 bytes, in the order of memory.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn row(bytes: &[u8; 32]) -> __m256i {
    let mut words = [0_i64; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = i64::from_le_bytes(*bytes);
    }
    let [a, b, c, d] = words;
    _mm256_set_epi64x(d, c, b, a)
}

/// Rows of eight words, one for each message, become columns: word `n` of all messages.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn transpose(rows: [__m256i; 8]) -> [__m256i; 8] {
    let mut pairs = rows;
    for (two, rows) in pairs.as_chunks_mut().0.iter_mut().zip(rows.as_chunks::<2>().0) {
        *two = [_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[0], rows[1])];
    }
    let mut halves = pairs;
    for (four, pairs) in halves.as_chunks_mut().0.iter_mut().zip(pairs.as_chunks::<4>().0) {
        let [a, b, c, d] = *pairs;
        *four = [
            _mm256_unpacklo_epi64(a, c),
            _mm256_unpackhi_epi64(a, c),
            _mm256_unpacklo_epi64(b, d),
            _mm256_unpackhi_epi64(b, d),
        ];
    }
    let mut columns = halves;
    for index in 0..4 {
        columns[index] = _mm256_permute2x128_si256::<0x20>(halves[index], halves[index + 4]);
        columns[index + 4] = _mm256_permute2x128_si256::<0x31>(halves[index], halves[index + 4]);
    }
    columns
}

/// Half of a block of each message, at `at` bytes, as columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn load_half(blocks: &[&[[u8; 64]]; 8], index: usize, at: usize) -> [__m256i; 8] {
    let mut rows = [_mm256_set1_epi32(0); 8];
    for (target, blocks) in rows.iter_mut().zip(blocks) {
        *target = row(blocks[index][at..].first_chunk::<32>().unwrap_or(&[0; 32]));
    }
    let mut columns = transpose(rows);
    for column in &mut columns {
        *column = _mm256_shuffle_epi8(*column, _mm256_set_epi64x(SWAP[0], SWAP[1], SWAP[0], SWAP[1]));
    }
    columns
}

/// Three rotations, exclusive or.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn sum<const A: i32, const B: i32, const C: i32>(v: __m256i) -> __m256i {
    let (a, b, c) = (_mm256_ror_epi32::<A>(v), _mm256_ror_epi32::<B>(v), _mm256_ror_epi32::<C>(v));
    _mm256_ternarylogic_epi32::<XOR>(a, b, c)
}

/// Two rotations and a shift, exclusive or.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn sigma<const A: i32, const B: i32, const C: i32>(v: __m256i) -> __m256i {
    let (a, b, c) = (_mm256_ror_epi32::<A>(v), _mm256_ror_epi32::<B>(v), _mm256_srli_epi32::<C>(v));
    _mm256_ternarylogic_epi32::<XOR>(a, b, c)
}

/// Round number T of sixteen, of a block. The state rotates by name: what is `a` in one
/// round is `b` in the next.
macro_rules! round {
    ($state:ident, $words:ident, $constant:expr, $t:literal) => {
        let [a, b, c] = [$state[(16 - $t) % 8], $state[(17 - $t) % 8], $state[(18 - $t) % 8]];
        let [e, f, g, h] = [$state[(20 - $t) % 8], $state[(21 - $t) % 8], $state[(22 - $t) % 8], $state[(23 - $t) % 8]];
        let added = _mm256_add_epi32($words[$t], _mm256_set1_epi32($constant.cast_signed()));
        let chosen = _mm256_add_epi32(sum::<6, 11, 25>(e), _mm256_ternarylogic_epi32::<CHOICE>(e, f, g));
        let first = _mm256_add_epi32(_mm256_add_epi32(h, added), chosen);
        let second = _mm256_add_epi32(sum::<2, 13, 22>(a), _mm256_ternarylogic_epi32::<MAJORITY>(a, b, c));
        $state[(19 - $t) % 8] = _mm256_add_epi32($state[(19 - $t) % 8], first);
        $state[(23 - $t) % 8] = _mm256_add_epi32(first, second);
    };
}

/// The word for the round sixteen after round number T, which takes the place of that round's.
macro_rules! expand {
    ($words:ident, $t:literal) => {
        let (near, far) = ($words[($t + 14) % 16], $words[($t + 1) % 16]);
        let old = _mm256_add_epi32($words[$t], $words[($t + 9) % 16]);
        $words[$t] = _mm256_add_epi32(old, _mm256_add_epi32(sigma::<17, 19, 10>(near), sigma::<7, 18, 3>(far)));
    };
}

/// Eight messages, one in each lane of a vector of 32-bit words.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn compress_eight(states: &mut [State; 8], blocks: [&[[u8; 64]]; 8]) {
    macro_rules! rounds {
        ($state:ident, $words:ident, $constants:ident, $($t:literal)*) => {$(
            round!($state, $words, $constants[$t], $t);
        )*};
    }
    macro_rules! rounds_that_expand {
        ($state:ident, $words:ident, $constants:ident, $($t:literal)*) => {$(
            round!($state, $words, $constants[$t], $t);
            expand!($words, $t);
        )*};
    }
    let mut rows = [_mm256_set1_epi32(0); 8];
    for (row, state) in rows.iter_mut().zip(&*states) {
        let pair = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)).cast_signed();
        let [a, b, c, d, e, f, g, h] = *state;
        *row = _mm256_set_epi64x(pair(g, h), pair(e, f), pair(c, d), pair(a, b));
    }
    let mut columns = transpose(rows);
    let count = blocks.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    for index in 0..count {
        let [a, b, c, d, e, f, g, h] = load_half(&blocks, index, 0);
        let [i, j, k, l, m, n, o, p] = load_half(&blocks, index, 32);
        let mut words = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
        let mut state = columns;
        let [first @ .., last] = ROUND_256.as_chunks::<16>().0 else { return };
        for constants in first {
            rounds_that_expand!(state, words, constants, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
        rounds!(state, words, last, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for (column, new) in columns.iter_mut().zip(state) {
            *column = _mm256_add_epi32(*column, new);
        }
    }
    for (state, row) in states.iter_mut().zip(transpose(columns)) {
        let ([a, b, c, d], [e, f, g, h]) =
            (unpack_half(_mm256_castsi256_si128(row)), unpack_half(_mm256_extracti128_si256::<1>(row)));
        *state = [a, b, c, d, e, f, g, h];
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn unpack_half(v: __m128i) -> [u32; 4] {
    [
        _mm_extract_epi32::<0>(v).cast_unsigned(),
        _mm_extract_epi32::<1>(v).cast_unsigned(),
        _mm_extract_epi32::<2>(v).cast_unsigned(),
        _mm_extract_epi32::<3>(v).cast_unsigned(),
    ]
}

fn two(states: &mut [State; 2], blocks: [&[[u8; 64]]; 2]) {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected SHA, SSSE3 and SSE4.1.
    unsafe { compress_two(states, blocks) }
}

fn eight(states: &mut [State; 8], blocks: [&[[u8; 64]]; 8]) {
    // SAFETY: private to this file, and `kernels` hands it out only after it detected AVX-512 F, BW and VL.
    unsafe { compress_eight(states, blocks) }
}

/// What this CPU can run.
pub(super) fn kernels() -> Kernels {
    let has_sha =
        is_x86_feature_detected!("sha") && is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("sse4.1");
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl");
    Kernels { two: has_sha.then_some(two), eight: has_avx512.then_some(eight) }
}
