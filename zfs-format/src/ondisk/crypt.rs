//! Keys of encrypted datasets as the pool keeps them: a ZAP for each, with the dataset's keys wrapped by the user's.

use crate::codec::cipher::{CipherMode, IV_BYTES, MAC_BYTES};
use crate::units::ObjectId;
use crate::{FormatError, Guid};
use std::fmt;

/// Bytes of a wrapped master key as stored; shorter keys are padded.
const MASTER_KEY_BYTES: usize = 32;
/// Bytes of a wrapped HMAC key.
const HMAC_KEY_BYTES: usize = 64;
/// The newest version of key objects (`ZIO_CRYPT_KEY_CURRENT_VERSION`).
const VERSION_MAX: u64 = 1;

const WHAT: &str = "key object";

/// `crypt`: cipher and mode of an encrypted dataset.
///
/// Source: OpenZFS include/sys/zio.h, `enum zio_encrypt`; module/zfs/zio_crypt.c, `zio_crypt_table`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CryptSuite(pub u64);

impl CryptSuite {
    /// The default of today.
    pub const AES_256_GCM: Self = Self(8);

    /// The mode of AES, `None` when the value is not known.
    #[must_use]
    pub const fn mode(self) -> Option<CipherMode> {
        match self.0 {
            3..=5 => Some(CipherMode::Ccm),
            6..=8 => Some(CipherMode::Gcm),
            _ => None,
        }
    }

    /// Bytes of the master key, `None` when the value is not known.
    #[must_use]
    pub const fn key_bytes(self) -> Option<usize> {
        match self.0 {
            3 | 6 => Some(16),
            4 | 7 => Some(24),
            5 | 8 => Some(32),
            _ => None,
        }
    }
}

impl fmt::Display for CryptSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            3 => f.write_str("aes-128-ccm"),
            4 => f.write_str("aes-192-ccm"),
            5 => f.write_str("aes-256-ccm"),
            6 => f.write_str("aes-128-gcm"),
            7 => f.write_str("aes-192-gcm"),
            8 => f.write_str("aes-256-gcm"),
            other => write!(f, "encryption {other}"),
        }
    }
}

impl fmt::Debug for CryptSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `keyformat`: how the user gives a key.
///
/// Source: OpenZFS include/sys/fs/zfs.h, `zfs_keyformat_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFormat(pub u64);

impl KeyFormat {
    /// 32 bytes.
    pub const RAW: Self = Self(1);
    /// 64 hexadecimal digits.
    pub const HEX: Self = Self(2);
    /// A passphrase, for PBKDF2.
    pub const PASSPHRASE: Self = Self(3);
}

impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RAW => f.write_str("raw"),
            Self::HEX => f.write_str("hex"),
            Self::PASSPHRASE => f.write_str("passphrase"),
            Self(other) => write!(f, "key format {other}"),
        }
    }
}

/// The keys of a dataset, wrapped: `DSL_CRYPTO_*` attributes of the ZAP that the DSL directory names
/// `com.datto:crypto_key_obj`.
///
/// Source: OpenZFS include/sys/dsl_crypt.h; module/zfs/dsl_crypt.c, `dsl_crypto_key_open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptKey {
    /// Cipher and mode.
    pub suite: CryptSuite,
    /// The key's own guid.
    pub guid: Guid,
    /// IV of the wrapping.
    pub iv: [u8; IV_BYTES],
    /// MAC of the wrapping.
    pub mac: [u8; MAC_BYTES],
    /// The master key, as long as the suite asks for, then the HMAC key: both wrapped.
    pub wrapped: Vec<u8>,
    /// 0 (before this was recorded) or 1: what the MACs of the dataset cover.
    pub version: u64,
    /// The DSL directory of the dataset whose user's key wraps this one.
    pub root_dir: ObjectId,
    /// How the user's key is given.
    pub key_format: KeyFormat,
    /// Salt of the passphrase.
    pub passphrase_salt: u64,
    /// Rounds of PBKDF2.
    pub passphrase_iterations: u64,
}

impl CryptKey {
    /// What the MAC of the wrapping covers beside the keys.
    #[must_use]
    pub fn wrapping_aad(&self) -> Vec<u8> {
        let mut aad = self.guid.0.to_le_bytes().to_vec();
        if self.version > 0 {
            aad.extend_from_slice(&self.suite.0.to_le_bytes());
            aad.extend_from_slice(&self.version.to_le_bytes());
        }
        aad
    }
}

/// The attributes of a key object, entry by entry.
#[derive(Clone, Debug, Default)]
pub struct CryptKeyAttributes {
    suite: Option<u64>,
    guid: Option<u64>,
    iv: Option<Vec<u8>>,
    mac: Option<Vec<u8>>,
    master_key: Option<Vec<u8>>,
    hmac_key: Option<Vec<u8>>,
    root_dir: Option<u64>,
    version: u64,
    key_format: u64,
    passphrase_salt: u64,
    passphrase_iterations: u64,
}

impl CryptKeyAttributes {
    /// Takes an entry: its name, and its integers, big endian one after the other. Names that are not known are passed
    /// over.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let number = value.first_chunk::<8>().map(|word| u64::from_be_bytes(*word));
        let bytes = Some(value.to_vec());
        match name {
            b"DSL_CRYPTO_SUITE" => self.suite = number,
            b"DSL_CRYPTO_GUID" => self.guid = number,
            b"DSL_CRYPTO_IV" => self.iv = bytes,
            b"DSL_CRYPTO_MAC" => self.mac = bytes,
            b"DSL_CRYPTO_MASTER_KEY_1" => self.master_key = bytes,
            b"DSL_CRYPTO_HMAC_KEY_1" => self.hmac_key = bytes,
            b"DSL_CRYPTO_ROOT_DDOBJ" => self.root_dir = number,
            b"DSL_CRYPTO_VERSION" => self.version = number.unwrap_or(0),
            b"keyformat" => self.key_format = number.unwrap_or(0),
            b"pbkdf2salt" => self.passphrase_salt = number.unwrap_or(0),
            b"pbkdf2iters" => self.passphrase_iterations = number.unwrap_or(0),
            _ => {}
        }
    }

    /// The key.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when an attribute is missing or has another length, [`FormatError::Unsupported`] for
    /// suites and versions that are not known.
    pub fn finish(self) -> Result<CryptKey, FormatError> {
        let number = |field, value: Option<u64>| value.ok_or(FormatError::bad_field(WHAT, field, 0, "a number"));
        let suite = CryptSuite(number("DSL_CRYPTO_SUITE", self.suite)?);
        let Some(key_bytes) = suite.key_bytes() else {
            return Err(FormatError::Unsupported { what: WHAT, feature: suite.to_string() });
        };
        if self.version > VERSION_MAX {
            let feature = format!("version {}", self.version);
            return Err(FormatError::Unsupported { what: WHAT, feature });
        }
        let mut wrapped = fixed::<MASTER_KEY_BYTES>("DSL_CRYPTO_MASTER_KEY_1", self.master_key)?.to_vec();
        wrapped.truncate(key_bytes);
        wrapped.extend_from_slice(&fixed::<HMAC_KEY_BYTES>("DSL_CRYPTO_HMAC_KEY_1", self.hmac_key)?);
        Ok(CryptKey {
            suite,
            guid: Guid(number("DSL_CRYPTO_GUID", self.guid)?),
            iv: fixed("DSL_CRYPTO_IV", self.iv)?,
            mac: fixed("DSL_CRYPTO_MAC", self.mac)?,
            wrapped,
            version: self.version,
            root_dir: ObjectId(number("DSL_CRYPTO_ROOT_DDOBJ", self.root_dir)?),
            key_format: KeyFormat(self.key_format),
            passphrase_salt: self.passphrase_salt,
            passphrase_iterations: self.passphrase_iterations,
        })
    }
}

/// An attribute of exactly `N` bytes.
fn fixed<const N: usize>(field: &'static str, value: Option<Vec<u8>>) -> Result<[u8; N], FormatError> {
    let value = value.unwrap_or_default();
    let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
    value.try_into().map_err(|_| FormatError::bad_field(WHAT, field, length, "as many bytes as it always has"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Vec<(&'static [u8], Vec<u8>)> {
        let word = |value: u64| value.to_be_bytes().to_vec();
        vec![
            (b"DSL_CRYPTO_SUITE", word(6)),
            (b"DSL_CRYPTO_GUID", word(0x0102)),
            (b"DSL_CRYPTO_IV", vec![3; 12]),
            (b"DSL_CRYPTO_MAC", vec![4; 16]),
            (b"DSL_CRYPTO_MASTER_KEY_1", vec![5; 32]),
            (b"DSL_CRYPTO_HMAC_KEY_1", vec![6; 64]),
            (b"DSL_CRYPTO_ROOT_DDOBJ", word(7)),
            (b"DSL_CRYPTO_REFCOUNT", word(1)),
            (b"DSL_CRYPTO_VERSION", word(1)),
            (b"keyformat", word(3)),
            (b"pbkdf2salt", word(8)),
            (b"pbkdf2iters", word(350_000)),
        ]
    }

    fn parse(attributes: &[(&'static [u8], Vec<u8>)]) -> Result<CryptKey, FormatError> {
        let mut found = CryptKeyAttributes::default();
        for (name, value) in attributes {
            found.insert(name, value);
        }
        found.finish()
    }

    #[test]
    fn attributes_make_a_key() {
        let key = parse(&attributes()).unwrap();
        assert_eq!(
            (key.suite.to_string().as_str(), key.guid, key.root_dir),
            ("aes-128-gcm", Guid(0x0102), ObjectId(7))
        );
        assert_eq!((key.iv, key.mac, key.version), ([3; 12], [4; 16], 1));
        assert_eq!(key.wrapped, [vec![5; 16], vec![6; 64]].concat());
        assert_eq!(
            (key.key_format, key.passphrase_salt, key.passphrase_iterations),
            (KeyFormat::PASSPHRASE, 8, 350_000)
        );
    }

    #[test]
    fn the_wrapping_covers_more_since_versions_are_recorded() {
        let mut key = parse(&attributes()).unwrap();
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(key.wrapping_aad(), words(&[0x0102, 6, 1]));
        key.version = 0;
        assert_eq!(key.wrapping_aad(), words(&[0x0102]));
    }

    #[test]
    fn what_is_missing_or_has_another_length_is_named() {
        for index in 0..7 {
            let mut attributes = attributes();
            let (name, _) = attributes.remove(index);
            let Err(FormatError::BadField { field, .. }) = parse(&attributes) else { panic!("{index}") };
            assert_eq!(field.as_bytes(), name);
        }
        let mut longer = attributes();
        longer[2].1.push(0);
        assert!(matches!(parse(&longer), Err(FormatError::BadField { field: "DSL_CRYPTO_IV", found: 13, .. })));
    }

    #[test]
    fn unknown_suites_and_versions_are_unsupported() {
        for (index, value) in [(0, 9_u64), (0, 0), (8, 2)] {
            let mut attributes = attributes();
            attributes[index].1 = value.to_be_bytes().to_vec();
            assert!(matches!(parse(&attributes), Err(FormatError::Unsupported { .. })));
        }
    }

    #[test]
    fn suites_have_modes_and_sizes() {
        let all: Vec<_> = (3..=8).map(|suite| (CryptSuite(suite).mode(), CryptSuite(suite).key_bytes())).collect();
        let (ccm, gcm) = (Some(CipherMode::Ccm), Some(CipherMode::Gcm));
        let sizes = [Some(16), Some(24), Some(32)];
        let wanted: Vec<_> = [ccm, gcm].into_iter().flat_map(|mode| sizes.map(|size| (mode, size))).collect();
        assert_eq!(all, wanted);
        assert_eq!(CryptSuite(2).mode(), None);
    }
}
