//! CCM (NIST SP 800-38C) with an IV of 12 bytes, so a length field of 3, and a MAC of 16.
//!
//! Each block of the MAC needs the one before, so the latency of AES bounds the speed. What can be done beside it is: the
//! key stream is made for several blocks at once, and a processor computes it while it waits for the MAC.

use super::aead::{CipherError, IV_BYTES, MAC_BYTES};
use aes::cipher::common::{ParBlocks, ParBlocksSizeUser};
use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{Array, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser};

/// What CCM can encrypt at once: all that three bytes can count.
pub(super) const CCM_BYTES_MAX: usize = (1 << 24) - 1;

/// In the first byte of a counter: the 3 bytes of the length field, less one.
const FLAGS_COUNTER: u8 = 2;
/// In the first byte of what is authenticated first: the 16 bytes of the MAC, by two, less one.
const FLAGS_MAC: u8 = 7 << 3;
/// The same when there is data beside the text.
const FLAGS_AAD: u8 = 1 << 6;
/// Data beside the text that is shorter has its length in two bytes.
const AAD_SHORT: usize = 0xff00;

type Block = Array<u8, U16>;

/// Decrypts `data` in place, when `mac` is that of `aad` and `data`.
pub(super) fn decrypt<C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>>(
    cipher: &C,
    iv: &[u8; IV_BYTES],
    aad: &[u8],
    mac: &[u8; MAC_BYTES],
    data: &mut [u8],
) -> Result<(), CipherError> {
    let aad_length = u32::try_from(aad.len()).map_err(|_| CipherError::TooLong)?;
    let length = u32::try_from(data.len()).ok().filter(|_| data.len() <= CCM_BYTES_MAX);
    let length = length.ok_or(CipherError::TooLong)?;
    let mut found = Block::default();
    cipher.encrypt_with_backend(Decryption { iv, aad, aad_length, length, data, found: &mut found });
    // All bytes are compared, so that the time tells nothing.
    let difference = found.iter().zip(mac).fold(0, |difference, (a, b)| difference | (a ^ b));
    if difference == 0 { Ok(()) } else { Err(CipherError::WrongMac) }
}

struct Decryption<'a> {
    iv: &'a [u8; IV_BYTES],
    aad: &'a [u8],
    aad_length: u32,
    length: u32,
    data: &'a mut [u8],
    found: &'a mut Block,
}

impl BlockSizeUser for Decryption<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Decryption<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { iv, aad, aad_length, length, data, found } = self;
        let is_with_aad = if aad.is_empty() { 0 } else { FLAGS_AAD };
        let mut mac = block(FLAGS_MAC | FLAGS_COUNTER | is_with_aad, iv, length);
        backend.encrypt_block_inplace(&mut mac);
        if !aad.is_empty() {
            let [a, b, c, d] = aad_length.to_be_bytes();
            let long = [0xff, 0xfe, a, b, c, d];
            let head: &[u8] = if aad.len() < AAD_SHORT { &[c, d] } else { &long };
            let (first, rest) = aad.split_at(aad.len().min(MAC_BYTES - head.len()));
            xor(&mut mac, head);
            mac.iter_mut().skip(head.len()).zip(first).for_each(|(state, byte)| *state ^= byte);
            backend.encrypt_block_inplace(&mut mac);
            authenticate(backend, &mut mac, rest);
        }
        let at_once = <B as ParBlocksSizeUser>::ParBlocksSize::USIZE;
        let mut counter = 1;
        for part in data.chunks_mut(at_once * MAC_BYTES) {
            let mut stream = ParBlocks::<B>::default();
            for pad in &mut stream {
                *pad = block(FLAGS_COUNTER, iv, counter);
                counter += 1;
            }
            backend.encrypt_par_blocks_inplace(&mut stream);
            for (bytes, pad) in part.chunks_mut(MAC_BYTES).zip(&stream) {
                bytes.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
            }
            authenticate(backend, &mut mac, part);
        }
        let mut pad = block(FLAGS_COUNTER, iv, 0);
        backend.encrypt_block_inplace(&mut pad);
        xor(&mut mac, &pad);
        *found = mac;
    }
}

/// A first byte, the IV, and a number of three bytes.
#[inline(always)]
fn block(flags: u8, iv: &[u8; IV_BYTES], number: u32) -> Block {
    let [_, number @ ..] = number.to_be_bytes();
    let mut block = Block::default();
    block[0] = flags;
    block[1..=IV_BYTES].copy_from_slice(iv);
    block[IV_BYTES + 1..].copy_from_slice(&number);
    block
}

#[inline(always)]
fn xor(state: &mut Block, bytes: &[u8]) {
    state.iter_mut().zip(bytes).for_each(|(state, byte)| *state ^= byte);
}

/// Goes on with the MAC. What is no whole block counts as filled with zeros.
#[inline(always)]
fn authenticate<B: BlockCipherEncBackend<BlockSize = U16>>(backend: &B, mac: &mut Block, bytes: &[u8]) {
    let (blocks, rest) = bytes.as_chunks::<MAC_BYTES>();
    for block in blocks {
        xor(mac, block);
        backend.encrypt_block_inplace(mac);
    }
    if !rest.is_empty() {
        xor(mac, rest);
        backend.encrypt_block_inplace(mac);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::KeyInit;
    use aes::{Aes128, Aes256};
    use ccm::Ccm;
    use ccm::aead::AeadInOut;
    use ccm::consts::U12;

    /// Encrypts with the crate `ccm`, and decrypts here.
    fn agrees<C>(key: &[u8], length: usize, aad_length: usize)
    where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit,
    {
        let iv = [9; IV_BYTES];
        let made =
            |count: usize, step: usize| -> Vec<u8> { (0..count).map(|index| (index * step + 5) as u8).collect() };
        let (plain, aad) = (made(length, 13), made(aad_length, 7));
        let mut data = plain.clone();
        let other = Ccm::<C, U16, U12>::new_from_slice(key).unwrap();
        let mac = other.encrypt_inout_detached(&iv.into(), &aad, data.as_mut_slice().into()).unwrap();
        let mac: [u8; MAC_BYTES] = mac.into();
        let cipher = C::new_from_slice(key).unwrap();
        for bit in [0, 77, 127] {
            let mut wrong = mac;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decrypt(&cipher, &iv, &aad, &wrong, &mut data.clone()), Err(CipherError::WrongMac));
        }
        assert_eq!(decrypt(&cipher, &iv, &aad, &mac, &mut data), Ok(()));
        assert!(data == plain, "{length} bytes, {aad_length} beside");
    }

    #[test]
    fn all_lengths_agree_with_another_implementation() {
        for length in [0, 1, 15, 16, 17, 127, 128, 129, 255, 1000, 4096, 100_001] {
            for aad_length in [0, 1, 13, 14, 15, 30, 31, 100] {
                agrees::<Aes256>(&[7; 32], length, aad_length);
                agrees::<Aes128>(&[8; 16], length, aad_length);
            }
        }
    }

    #[test]
    fn the_length_of_what_stands_beside_has_two_forms() {
        for aad_length in [0xfeff, 0xff00, 70_000] {
            agrees::<Aes256>(&[7; 32], 100, aad_length);
        }
    }

    #[test]
    fn more_than_three_bytes_can_count_is_refused() {
        let cipher = Aes128::new(&[0; 16].into());
        let mut data = vec![0; CCM_BYTES_MAX + 1];
        assert_eq!(decrypt(&cipher, &[0; IV_BYTES], &[], &[0; MAC_BYTES], &mut data), Err(CipherError::TooLong));
    }
}
