//! Skein-512 with a key, as the checksum `skein`: 512 bits of state, 256 of output, the pool's salt as the key of a MAC.
//!
//! A chain of UBI blocks: the key, a configuration that names the size of the output, the message, and one block that
//! makes the output. The first two are the same for all blocks of a pool, so their result is kept in a [`Template`].
//!
//! Source: The Skein Hash Function Family, version 1.3 (2010), sections 3.3 to 3.5 and 4.3; OpenZFS
//! module/zfs/skein_zfs.c, `abd_checksum_skein_tmpl_init`.

const WORDS: usize = 8;
const BLOCK_BYTES: usize = 64;
/// Added to the parity of the key words.
const KEY_PARITY: u64 = 0x1bd1_1bda_a9fc_1a22;
/// How far the four mixed words of a round turn; the table repeats after eight rounds.
const ROTATIONS: [[u32; 4]; 8] = [
    [46, 36, 19, 37],
    [33, 27, 14, 42],
    [17, 49, 36, 39],
    [44, 9, 54, 56],
    [39, 30, 34, 24],
    [13, 50, 10, 17],
    [25, 29, 39, 43],
    [8, 35, 56, 22],
];

type State = [u64; WORDS];

/// What a UBI chain works on: bits 56 to 61 of the second word of the tweak.
#[derive(Clone, Copy)]
enum Stage {
    Key = 0,
    Configuration = 4,
    Message = 48,
    Output = 63,
}

/// The state of the hash after key and configuration.
#[derive(Clone, Debug)]
pub(super) struct Template(State);

impl Template {
    /// For this key and `output_bits` of output, 512 at most.
    pub(super) fn new(key: &[u8], output_bits: u64) -> Self {
        let state = if key.is_empty() { [0; WORDS] } else { ubi([0; WORDS], Stage::Key, key) };
        // The schema identifier "SHA3", version 1, the size of the output; zeros say that there is no tree.
        let mut configuration = [0; 32];
        configuration[..4].copy_from_slice(b"SHA3");
        configuration[4] = 1;
        configuration[8..16].copy_from_slice(&output_bits.to_le_bytes());
        Self(ubi(state, Stage::Configuration, &configuration))
    }

    /// The first 512 bits of output.
    pub(super) fn digest(&self, message: &[u8]) -> [u8; BLOCK_BYTES] {
        let state = ubi(self.0, Stage::Message, message);
        let state = ubi(state, Stage::Output, &[0; 8]);
        let mut digest = [0; BLOCK_BYTES];
        for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
            *bytes = word.to_le_bytes();
        }
        digest
    }
}

/// One chain of blocks: each is encrypted under the state and added to the result. The last is padded with zeros, and
/// an empty message is one block.
fn ubi(mut state: State, stage: Stage, message: &[u8]) -> State {
    let stage = (stage as u64) << 56;
    let first = 1 << 62;
    let (blocks, rest) = message.as_chunks::<BLOCK_BYTES>();
    let (inner, last) = match blocks.split_last() {
        Some((last, inner)) if rest.is_empty() => (inner, last.as_slice()),
        _ => (blocks, rest),
    };
    let mut position = 0;
    let mut start = first;
    for block in inner {
        position += BLOCK_BYTES as u64;
        state = encrypted(&state, [position, stage | start], block);
        start = 0;
    }
    let mut padded = [0; BLOCK_BYTES];
    for (target, &byte) in padded.iter_mut().zip(last) {
        *target = byte;
    }
    encrypted(&state, [position + last.len() as u64, stage | start | 1 << 63], &padded)
}

/// Threefish-512 of a block, added to the block itself.
fn encrypted(key: &State, tweak: [u64; 2], block: &[u8; BLOCK_BYTES]) -> State {
    let mut plain = [0; WORDS];
    for (word, bytes) in plain.iter_mut().zip(block.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let mut keys = [KEY_PARITY; WORDS + 1];
    for (index, &word) in key.iter().enumerate() {
        keys[index] = word;
        keys[WORDS] ^= word;
    }
    let tweaks = [tweak[0], tweak[1], tweak[0] ^ tweak[1]];
    let mut state = plain;
    eight_rounds::<0>(&mut state, &keys, &tweaks);
    eight_rounds::<2>(&mut state, &keys, &tweaks);
    eight_rounds::<4>(&mut state, &keys, &tweaks);
    eight_rounds::<6>(&mut state, &keys, &tweaks);
    eight_rounds::<8>(&mut state, &keys, &tweaks);
    eight_rounds::<10>(&mut state, &keys, &tweaks);
    eight_rounds::<12>(&mut state, &keys, &tweaks);
    eight_rounds::<14>(&mut state, &keys, &tweaks);
    eight_rounds::<16>(&mut state, &keys, &tweaks);
    add_subkey(18, &mut state, &keys, &tweaks);
    for (word, plain) in state.iter_mut().zip(plain) {
        *word ^= plain;
    }
    state
}

/// Subkey `S` and four rounds, twice. `S` is a constant so that every index is one.
#[inline(always)]
fn eight_rounds<const S: usize>(state: &mut State, keys: &[u64; WORDS + 1], tweaks: &[u64; 3]) {
    let [a, b, c, d, e, f, g, h] = ROTATIONS;
    add_subkey(S, state, keys, tweaks);
    for rotations in [a, b, c, d] {
        *state = round(*state, rotations);
    }
    add_subkey(S + 1, state, keys, tweaks);
    for rotations in [e, f, g, h] {
        *state = round(*state, rotations);
    }
}

/// Mixes four pairs of words, and permutes the words.
#[inline(always)]
fn round([a, b, c, d, e, f, g, h]: State, rotations: [u32; 4]) -> State {
    let mix = |left: u64, right: u64, rotation| {
        let sum = left.wrapping_add(right);
        (sum, right.rotate_left(rotation) ^ sum)
    };
    let (a, b) = mix(a, b, rotations[0]);
    let (c, d) = mix(c, d, rotations[1]);
    let (e, f) = mix(e, f, rotations[2]);
    let (g, h) = mix(g, h, rotations[3]);
    [c, b, e, h, g, f, a, d]
}

#[inline(always)]
fn add_subkey(number: usize, state: &mut State, keys: &[u64; WORDS + 1], tweaks: &[u64; 3]) {
    for (index, word) in state.iter_mut().enumerate() {
        let tweak = match index {
            5 => tweaks[number % 3],
            6 => tweaks[(number + 1) % 3],
            7 => number as u64,
            _ => 0,
        };
        *word = word.wrapping_add(keys[(number + index) % (WORDS + 1)]).wrapping_add(tweak);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counting, counting_salt, hex};
    use super::*;

    #[test]
    fn digests_are_those_of_the_authors_known_answers() {
        // skein_golden_kat.txt of version 1.3: without a key 256 bits of 1024 zero bits and of 0xff down to 0x80.
        let unkeyed = Template::new(&[], 256);
        let zeros = "2d0e2e241972df39be822a8c682105c64747faf8a10ec032881de7dc67887cc2";
        assert_eq!(hex(&unkeyed.digest(&[0; 128])[..32]), zeros);
        let down: Vec<u8> = (0x80..=0xff).rev().collect();
        let answer = "1a6a5ba08e74a864b5cb052cfb9b2fa128203230a4d9923a329f5427c477a4db";
        assert_eq!(hex(&unkeyed.digest(&down)[..32]), answer);
        let empty = "bc5b4c50925519c290cc634277ae3d6257212395cba733bbad37a4af0fa06af4\
                     1fca7903d06564fea7a2d3730dbdb80c1f85562dfcc070334ea4d1d9e72cba7a";
        assert_eq!(hex(&Template::new(&[], 512).digest(&[])), empty);
    }

    #[test]
    fn macs_are_those_of_the_authors_known_answers() {
        // skein_golden_kat.txt of version 1.3: "random+MAC", 512 bits, a key of 64 bytes.
        let key = [
            0xcb41_f170_6cde_0965_u64,
            0x1203_c2d0_efba_ddf8,
            0x47a0_d315_cb2e_53ff,
            0x8bac_41da_0002_672e,
            0x9202_44c6_6e02_d5f0,
            0xdad3_e94c_42bb_65f0,
            0xd141_57de_cf41_05ef,
            0x5609_d5b0_9844_57c1,
        ];
        let key = key.map(u64::to_be_bytes).concat();
        let message = [0xd309_0c72_1675_17f7_u64, 0xc7ad_82a7_0c2f_d3f6].map(u64::to_be_bytes).concat();
        let answer = "478d7b6c0cc6e35d9ebbdedf39128e5a36585db6222891692d1747d401de34ce\
                      3db6fcbab6c968b7f2620f4a844a2903b547775579993736d2493a75ff6752a1";
        assert_eq!(hex(&Template::new(&key, 512).digest(&message)), answer);
    }

    #[test]
    fn digests_are_those_of_openzfs() {
        // `Skein_512_InitExt` with 256 bits and a key of 32 bytes, called in libzpool 2.3.2.
        let template = Template::new(&counting_salt(), 256);
        for (length, answer) in [
            (0, "31b970e3a806634ee3801e5940ac2124ed388df234c346352494a2431a353da3"),
            (1, "bef47912b4cba3a16158294cefe985bc88ca4cbdd1daebcafda3e131c7712781"),
            (63, "2fc38d70a289c686936b5a634231c89050afb0ceb585544acf2aa3abf2475410"),
            (64, "3d4aa41fba35b0158b0680552f20f7df7ca013b1e41c19f0a717fb1ea1326a23"),
            (65, "6e12b96c220c76e58961f313c46a69905d80fbd985b97630073380c20b9a6eae"),
            (512, "274f91b32b2ca48ec61136dd695ff8ad78f7bed55ac05686c3670209a73ba222"),
            (1000, "fdad220de88407e089af0b30c272b2f36f96fcc5b90bf3659692956ddef1045c"),
        ] {
            assert_eq!(hex(&template.digest(&counting(length))[..32]), answer, "{length} bytes");
        }
    }
}
