//! AES-CCM and AES-GCM with keys of 128, 192 and 256 bits, an IV of 12 bytes and a MAC of 16.

use super::ccm;
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{AeadInOut, KeyInit};
use std::fmt;

/// Bytes of an IV (`ZIO_DATA_IV_LEN`).
pub const IV_BYTES: usize = 12;
/// Bytes of a MAC (`ZIO_DATA_MAC_LEN`).
pub const MAC_BYTES: usize = 16;

/// A mode of AES that authenticates what it encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherMode {
    /// Counter with CBC-MAC (NIST SP 800-38C).
    Ccm,
    /// Galois/counter mode (NIST SP 800-38D).
    Gcm,
}

/// Why nothing was decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CipherError {
    /// The key is not 16, 24 or 32 bytes long.
    #[error("an AES key has 16, 24 or 32 bytes")]
    KeyLength,
    /// The mode cannot encrypt so much at once.
    #[error("more bytes than the cipher's mode can encrypt at once")]
    TooLong,
    /// Key, IV, ciphertext or the data beside it are not those of the MAC.
    #[error("the MAC does not match")]
    WrongMac,
}

enum Kind {
    Ccm128(Aes128),
    Ccm192(Aes192),
    Ccm256(Aes256),
    Gcm128(AesGcm<Aes128, U12>),
    Gcm192(AesGcm<Aes192, U12>),
    Gcm256(AesGcm<Aes256, U12>),
}

/// A cipher with its key.
pub struct Cipher(Box<Kind>);

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    /// AES in `mode`; the size is that of the key.
    ///
    /// # Errors
    /// [`CipherError::KeyLength`].
    pub fn new(mode: CipherMode, key: &[u8]) -> Result<Self, CipherError> {
        fn keyed<C: KeyInit>(key: &[u8]) -> Result<C, CipherError> {
            C::new_from_slice(key).map_err(|_| CipherError::KeyLength)
        }
        let kind = match (mode, key.len()) {
            (CipherMode::Ccm, 16) => Kind::Ccm128(keyed(key)?),
            (CipherMode::Ccm, 24) => Kind::Ccm192(keyed(key)?),
            (CipherMode::Ccm, _) => Kind::Ccm256(keyed(key)?),
            (CipherMode::Gcm, 16) => Kind::Gcm128(keyed(key)?),
            (CipherMode::Gcm, 24) => Kind::Gcm192(keyed(key)?),
            (CipherMode::Gcm, _) => Kind::Gcm256(keyed(key)?),
        };
        Ok(Self(Box::new(kind)))
    }

    /// Decrypts `data` in place, when `mac` is that of `aad` and `data`. Otherwise the content of `data` is not defined.
    ///
    /// # Errors
    /// [`CipherError::WrongMac`], [`CipherError::TooLong`].
    pub fn decrypt(
        &self,
        iv: &[u8; IV_BYTES],
        aad: &[u8],
        mac: &[u8; MAC_BYTES],
        data: &mut [u8],
    ) -> Result<(), CipherError> {
        let (gcm_iv, gcm_mac) = (&(*iv).into(), &(*mac).into());
        let decrypted = match &*self.0 {
            Kind::Ccm128(cipher) => return ccm::decrypt(cipher, iv, aad, mac, data),
            Kind::Ccm192(cipher) => return ccm::decrypt(cipher, iv, aad, mac, data),
            Kind::Ccm256(cipher) => return ccm::decrypt(cipher, iv, aad, mac, data),
            Kind::Gcm128(cipher) => cipher.decrypt_inout_detached(gcm_iv, aad, data.into(), gcm_mac),
            Kind::Gcm192(cipher) => cipher.decrypt_inout_detached(gcm_iv, aad, data.into(), gcm_mac),
            Kind::Gcm256(cipher) => cipher.decrypt_inout_detached(gcm_iv, aad, data.into(), gcm_mac),
        };
        decrypted.map_err(|_| CipherError::WrongMac)
    }
}
