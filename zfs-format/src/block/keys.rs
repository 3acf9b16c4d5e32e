//! Keys of encrypted datasets, once they are unwrapped: what reading their blocks needs.

use crate::FormatError;
use crate::codec::cipher::{Cipher, CipherMode, Mac, derive_key};
use crate::ondisk::protect::BLOCK_SALT_BYTES;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The keys of one dataset: of those that share them, snapshots and clones. Zeroed when dropped, printed never.
pub struct DataKey {
    mode: CipherMode,
    version: u64,
    master: Zeroizing<Vec<u8>>,
    hmac: Mac,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey(..)")
    }
}

impl DataKey {
    /// From a master key of 16, 24 or 32 bytes and an HMAC key; `version` is that of the key object.
    ///
    /// # Errors
    /// [`FormatError::BadField`] for a master key of another length.
    pub fn new(
        mode: CipherMode,
        version: u64,
        master: Zeroizing<Vec<u8>>,
        hmac_key: &[u8],
    ) -> Result<Self, FormatError> {
        let length = master.len() as u64;
        let bad = || FormatError::bad_field("key object", "master key", length, "16, 24 or 32 bytes");
        let hmac = Mac::new(hmac_key).filter(|_| matches!(master.len(), 16 | 24 | 32)).ok_or_else(bad)?;
        Ok(Self { mode, version, master, hmac })
    }

    /// What decides which parts of pointers the MACs cover.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The cipher for blocks with this salt. `None` never happens with a key that [`DataKey::new`] took.
    pub(super) fn cipher(&self, salt: &[u8; BLOCK_SALT_BYTES]) -> Option<Cipher> {
        Cipher::new(self.mode, &derive_key(&self.master, salt)).ok()
    }

    /// HMAC-SHA512 of some bytes.
    pub(super) fn mac(&self, bytes: &[u8]) -> [u8; 64] {
        let mut mac = self.hmac.clone();
        mac.update(bytes);
        mac.finish()
    }
}

/// The keys of a pool's datasets, by the number of their object set.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    keys: BTreeMap<u64, Arc<DataKey>>,
}

impl KeyRing {
    /// Adds the key of an object set.
    pub fn insert(&mut self, objset: u64, key: Arc<DataKey>) {
        self.keys.insert(objset, key);
    }

    /// Forgets the key of an object set.
    pub fn remove(&mut self, objset: u64) {
        self.keys.remove(&objset);
    }

    /// The key of an object set, when it is known.
    #[must_use]
    pub fn get(&self, objset: u64) -> Option<&DataKey> {
        self.keys.get(&objset).map(Arc::as_ref)
    }

    /// True when no key is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
