//! Decryption of block payloads, and the keyed sums beside it. There is no encryption here: the library never writes.
//!
//! [`Cipher`] is AES in one of the two modes that ZFS uses, [`derive_key`] and [`passphrase_key`] make its keys, and
//! [`Mac`] authenticates what stays in clear. What holds a key is zeroed when it is dropped and prints nothing.

mod aead;
mod ccm;
mod derive;

#[cfg(test)]
mod tests;

pub use aead::{Cipher, CipherError, CipherMode, IV_BYTES, MAC_BYTES};
pub use derive::{ITERATIONS_MAX, Mac, derive_key, digest, passphrase_key};
