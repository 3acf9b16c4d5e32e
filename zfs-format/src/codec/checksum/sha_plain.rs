//! SHA-256 and SHA-512/256 in the plain form of the standard: the second opinion beside the instructions of the CPU.
//!
//! Slow, and used only before a copy is called bad.
//!
//! Source: FIPS 180-4, sections 4 to 6; the constants are computed by its rules.

/// The first 64 bits of the fractional parts of the cube roots of the first 80 primes. SHA-256 uses the upper halves of
/// the first 64.
const ROUND: [u64; 80] = [
    0x428a_2f98_d728_ae22,
    0x7137_4491_23ef_65cd,
    0xb5c0_fbcf_ec4d_3b2f,
    0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538,
    0x59f1_11f1_b605_d019,
    0x923f_82a4_af19_4f9b,
    0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242,
    0x1283_5b01_4570_6fbe,
    0x2431_85be_4ee4_b28c,
    0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f,
    0x80de_b1fe_3b16_96b1,
    0x9bdc_06a7_25c7_1235,
    0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2,
    0xefbe_4786_384f_25e3,
    0x0fc1_9dc6_8b8c_d5b5,
    0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275,
    0x4a74_84aa_6ea6_e483,
    0x5cb0_a9dc_bd41_fbd4,
    0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab,
    0xa831_c66d_2db4_3210,
    0xb003_27c8_98fb_213f,
    0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2,
    0xd5a7_9147_930a_a725,
    0x06ca_6351_e003_826f,
    0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc,
    0x2e1b_2138_5c26_c926,
    0x4d2c_6dfc_5ac4_2aed,
    0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de,
    0x766a_0abb_3c77_b2a8,
    0x81c2_c92e_47ed_aee6,
    0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364,
    0xa81a_664b_bc42_3001,
    0xc24b_8b70_d0f8_9791,
    0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218,
    0xd699_0624_5565_a910,
    0xf40e_3585_5771_202a,
    0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8,
    0x1e37_6c08_5141_ab53,
    0x2748_774c_df8e_eb99,
    0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63,
    0x4ed8_aa4a_e341_8acb,
    0x5b9c_ca4f_7763_e373,
    0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc,
    0x78a5_636f_4317_2f60,
    0x84c8_7814_a1f0_ab72,
    0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28,
    0xa450_6ceb_de82_bde9,
    0xbef9_a3f7_b2c6_7915,
    0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c,
    0xd186_b8c7_21c0_c207,
    0xeada_7dd6_cde0_eb1e,
    0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba,
    0x0a63_7dc5_a2c8_98a6,
    0x113f_9804_bef9_0dae,
    0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84,
    0x32ca_ab7b_40c7_2493,
    0x3c9e_be0a_15c9_bebc,
    0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6,
    0x597f_299c_fc65_7e2a,
    0x5fcb_6fab_3ad6_faec,
    0x6c44_198c_4a47_5817,
];

/// The constants of the 64 rounds of SHA-256.
#[cfg(target_arch = "x86_64")]
pub(super) const ROUND_256: [u32; 64] = {
    let mut round = [0; 64];
    let mut at = 0;
    while at < 64 {
        round[at] = (ROUND[at] >> 32) as u32;
        at += 1;
    }
    round
};

/// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
pub(super) const INITIAL_256: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// What SHA-512/256 begins with (section 5.3.6.2).
const INITIAL_512_256: [u64; 8] = [
    0x2231_2194_fc2b_f72c,
    0x9f55_5fa3_c84c_64c2,
    0x2393_b86b_6f53_b151,
    0x9638_7719_5940_eabd,
    0x9628_3ee2_a88e_ffe3,
    0xbe5e_1e25_5386_3992,
    0x2b01_99fc_2c85_b8aa,
    0x0eb7_2ddc_81c5_2ca2,
];

/// SHA-256 of the concatenated pieces.
pub(super) fn sha256(pieces: &[&[u8]]) -> [u8; 32] {
    let message = padded(pieces, 64);
    let mut state = INITIAL_256;
    for block in message.as_chunks::<64>().0 {
        let mut words = [0_u32; 64];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for t in 16..64 {
            let (near, far) = (words[t - 2], words[t - 15]);
            let near = near.rotate_right(17) ^ near.rotate_right(19) ^ near >> 10;
            let far = far.rotate_right(7) ^ far.rotate_right(18) ^ far >> 3;
            words[t] = near.wrapping_add(words[t - 7]).wrapping_add(far).wrapping_add(words[t - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, round) in words.into_iter().zip(ROUND) {
            let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add((round >> 32) as u32).wrapping_add(word);
            let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = sum.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = old.wrapping_add(new);
        }
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// SHA-512/256.
pub(super) fn sha512_256(message: &[u8]) -> [u8; 32] {
    let message = padded(&[message], 128);
    let mut state = INITIAL_512_256;
    for block in message.as_chunks::<128>().0 {
        let mut words = [0_u64; 80];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        for t in 16..80 {
            let (near, far) = (words[t - 2], words[t - 15]);
            let near = near.rotate_right(19) ^ near.rotate_right(61) ^ near >> 6;
            let far = far.rotate_right(1) ^ far.rotate_right(8) ^ far >> 7;
            words[t] = near.wrapping_add(words[t - 7]).wrapping_add(far).wrapping_add(words[t - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (word, round) in words.into_iter().zip(ROUND) {
            let sum = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
            let choice = (e & f) ^ (!e & g);
            let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(round).wrapping_add(word);
            let sum = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
            let second = sum.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = old.wrapping_add(new);
        }
    }
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// The message with its end mark, and its length in bits in the last eighth of a block.
fn padded(pieces: &[&[u8]], block: usize) -> Vec<u8> {
    let mut message = pieces.concat();
    let bits = (message.len() as u128).wrapping_mul(8);
    message.push(0x80);
    let length_bytes = block / 8;
    let end = (message.len() + length_bytes).next_multiple_of(block);
    message.resize(end - length_bytes, 0);
    let bits = bits.to_be_bytes();
    message.extend_from_slice(&bits[bits.len() - length_bytes..]);
    message
}

#[cfg(test)]
mod tests {
    use super::super::tests::{counting, hex};
    use super::*;
    use sha2::{Digest, Sha256, Sha512_256};

    #[test]
    fn the_examples_of_nist() {
        assert_eq!(hex(&sha256(&[b"abc"])), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&sha512_256(b"abc")), "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23");
    }

    #[test]
    fn every_length_around_a_block_agrees_with_the_crate() {
        for length in (0..300).chain([512, 4096, 131_072]) {
            let bytes = counting(length);
            let (front, back) = bytes.split_at(length / 3);
            assert_eq!(sha256(&[front, back]), <[u8; 32]>::from(Sha256::digest(&bytes)), "{length} bytes");
            assert_eq!(sha512_256(&bytes), <[u8; 32]>::from(Sha512_256::digest(&bytes)), "{length} bytes");
        }
    }
}
