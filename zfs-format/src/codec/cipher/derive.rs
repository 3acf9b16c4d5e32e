//! Keys from keys and from passphrases, and sums with a key: HKDF, PBKDF2, HMAC.

use super::MAC_BYTES;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac as _};
use sha1::Sha1;
use sha2::{Digest, Sha512};
use std::fmt;
use zeroize::Zeroizing;

/// The most rounds of PBKDF2 that are computed: a minute or so. OpenZFS uses 350,000 unless it is told otherwise.
pub const ITERATIONS_MAX: u64 = 100_000_000;

/// The key of one salt: HKDF-SHA512 of the master key without a salt of its own, the block's salt as `info`.
///
/// Returns as many bytes as the master key has, at most 32.
///
/// Source: OpenZFS module/zfs/hkdf.c; module/os/linux/zfs/zio_crypt.c, `zio_crypt_key_change_salt`.
#[must_use]
pub fn derive_key(master_key: &[u8], salt: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(vec![0; master_key.len().min(32)]);
    let is_derived = Hkdf::<Sha512>::new(None, master_key).expand(salt, &mut key);
    debug_assert!(is_derived.is_ok(), "HKDF-SHA512 gives up to 16,320 bytes");
    key
}

/// The wrapping key of a passphrase: PBKDF2-HMAC-SHA1. `None` for more rounds than [`ITERATIONS_MAX`].
///
/// Source: OpenZFS lib/libzfs/libzfs_crypto.c, `derive_key`.
#[must_use]
pub fn passphrase_key(passphrase: &[u8], salt: &[u8], iterations: u64) -> Option<Zeroizing<[u8; 32]>> {
    let rounds = u32::try_from(iterations).ok().filter(|_| (1..=ITERATIONS_MAX).contains(&iterations))?;
    let mut key = Zeroizing::new([0; 32]);
    pbkdf2::pbkdf2_hmac::<Sha1>(passphrase, salt, rounds, &mut *key);
    Some(key)
}

/// HMAC-SHA512, fed part by part.
#[derive(Clone)]
pub struct Mac(Hmac<Sha512>);

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac(..)")
    }
}

impl Mac {
    /// A sum of nothing yet.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(key).ok().map(Self)
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum. ZFS keeps the first 16 or 32 bytes of it.
    #[must_use]
    pub fn finish(self) -> [u8; 64] {
        self.0.finalize().into_bytes().into()
    }
}

/// SHA-512, cut to the length of a MAC: what indirect blocks carry. No key is needed for it.
#[must_use]
pub fn digest(bytes: &[u8]) -> [u8; MAC_BYTES] {
    let digest: [u8; 64] = Sha512::digest(bytes).into();
    std::array::from_fn(|index| digest.get(index).copied().unwrap_or_default())
}
