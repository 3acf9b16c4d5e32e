//! From a user's key to the keys of a dataset: the key object, the wrapping key, the unwrapping.
//!
//! Source: OpenZFS module/zfs/dsl_crypt.c, `dsl_crypto_key_open`, `spa_keystore_load_wkey_impl`;
//! module/os/linux/zfs/zio_crypt.c, `zio_crypt_key_unwrap`.

use super::Mos;
use crate::FormatError;
use crate::block::{DataKey, Work};
use crate::codec::cipher::{Cipher, ITERATIONS_MAX, passphrase_key};
use crate::object::{ObjectError, ZapReader};
use crate::ondisk::crypt::{CryptKey, CryptKeyAttributes, KeyFormat};
use crate::ondisk::dmu::ObjectType;
use std::fmt;
use std::ops::ControlFlow;
use zeroize::Zeroizing;

/// A DSL directory with attributes of its own: a ZAP.
const ZAPIFIED: ObjectType = ObjectType(0xC4);
/// The attribute that names the key object.
const KEY_OBJECT: &[u8] = b"com.datto:crypto_key_obj";
/// Bytes of a wrapping key.
const WRAPPING_KEY_BYTES: usize = 32;

/// What a user gives: the content of a key file, or a passphrase. Zeroed when dropped, printed never.
pub struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a secret gives no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum KeyError {
    /// It is not of the form that the dataset asks for.
    #[error("the dataset's key format is {format}: {expected}")]
    Form { format: KeyFormat, expected: &'static str },
    /// It has the right form, and is not the key.
    #[error("wrong key: it does not open the dataset's own key")]
    Wrong,
    /// The key object is one this version cannot use.
    #[error("{0}")]
    Format(#[from] FormatError),
}

impl Secret {
    /// Takes the content of a key file, or a passphrase; a newline at its end is no part of a hex key or a passphrase.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The key that wraps the dataset's keys.
    ///
    /// # Errors
    /// [`KeyError::Form`] when the secret cannot be a key of the format that `key` asks for.
    pub fn wrapping_key(&self, key: &CryptKey) -> Result<Zeroizing<[u8; WRAPPING_KEY_BYTES]>, KeyError> {
        let form = |expected| KeyError::Form { format: key.key_format, expected };
        let line = self.0.strip_suffix(b"\n").unwrap_or(&self.0);
        match key.key_format {
            KeyFormat::RAW => {
                let bytes = <[u8; WRAPPING_KEY_BYTES]>::try_from(self.0.as_slice());
                bytes.map(Zeroizing::new).map_err(|_| form("exactly 32 bytes are needed"))
            }
            KeyFormat::HEX => from_hex(line).ok_or_else(|| form("exactly 64 hexadecimal digits are needed")),
            KeyFormat::PASSPHRASE => {
                if !(8..=512).contains(&line.len()) {
                    return Err(form("a passphrase of 8 to 512 bytes is needed"));
                }
                let salt = key.passphrase_salt.to_le_bytes();
                passphrase_key(line, &salt, key.passphrase_iterations).ok_or_else(|| {
                    let feature = format!("{} rounds (1 to {ITERATIONS_MAX} are computed)", key.passphrase_iterations);
                    KeyError::Format(FormatError::Unsupported { what: "passphrase", feature })
                })
            }
            other => {
                let feature = other.to_string();
                Err(KeyError::Format(FormatError::Unsupported { what: "key object", feature }))
            }
        }
    }
}

/// The keys of a dataset, unwrapped.
///
/// # Errors
/// [`KeyError::Wrong`] when the MAC of the wrapping does not hold.
pub fn unwrap_key(key: &CryptKey, wrapping_key: &[u8; WRAPPING_KEY_BYTES]) -> Result<DataKey, KeyError> {
    let unknown = || FormatError::Unsupported { what: "key object", feature: key.suite.to_string() };
    let (mode, key_bytes) = key.suite.mode().zip(key.suite.key_bytes()).ok_or_else(unknown)?;
    let cipher = Cipher::new(mode, wrapping_key).map_err(|_| unknown())?;
    let mut keys = Zeroizing::new(key.wrapped.clone());
    cipher.decrypt(&key.iv, &key.wrapping_aad(), &key.mac, &mut keys).map_err(|_| KeyError::Wrong)?;
    let (master, hmac_key) = keys.split_at_checked(key_bytes).ok_or_else(unknown)?;
    Ok(DataKey::new(mode, key.version, Zeroizing::new(master.to_vec()), hmac_key)?)
}

fn from_hex(digits: &[u8]) -> Option<Zeroizing<[u8; WRAPPING_KEY_BYTES]>> {
    if digits.len() != 2 * WRAPPING_KEY_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut key = Zeroizing::new([0; WRAPPING_KEY_BYTES]);
    for (byte, &[high, low]) in key.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(key)
}

impl Mos<'_> {
    /// The key of the datasets in a DSL directory, wrapped; `None` when they are not encrypted.
    ///
    /// # Errors
    /// [`ObjectError`] when the directory or its key object cannot be read or makes no sense.
    pub fn crypt_key(&mut self, dir: u64, work: &mut Work) -> Result<Option<CryptKey>, ObjectError> {
        let reader = self.objset.object(dir, work)?;
        if reader.dnode.dnode.object_type != ZAPIFIED {
            return Ok(None);
        }
        let mut object = None;
        ZapReader::new(reader).for_each(work, &mut |entry| {
            if entry.name != KEY_OBJECT {
                return ControlFlow::Continue(());
            }
            object = entry.first_u64();
            ControlFlow::Break(())
        })?;
        let Some(object) = object else { return Ok(None) };
        let mut attributes = CryptKeyAttributes::default();
        ZapReader::new(self.objset.object(object, work)?).for_each(work, &mut |entry| {
            attributes.insert(&entry.name, &entry.value);
            ControlFlow::Continue(())
        })?;
        attributes.finish().map(Some).map_err(|source| ObjectError::Format { object, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::crypt::CryptSuite;
    use crate::{Guid, ObjectId};

    fn key(key_format: KeyFormat) -> CryptKey {
        CryptKey {
            suite: CryptSuite::AES_256_GCM,
            guid: Guid(1),
            iv: [0; 12],
            mac: [0; 16],
            wrapped: vec![0; 96],
            version: 1,
            root_dir: ObjectId(1),
            key_format,
            passphrase_salt: u64::from_le_bytes(*b"salt\0\0\0\0"),
            passphrase_iterations: 1,
        }
    }

    fn secret(bytes: &[u8]) -> Secret {
        Secret::new(bytes.to_vec())
    }

    fn wrapping(bytes: &[u8], format: KeyFormat) -> Result<Vec<u8>, KeyError> {
        secret(bytes).wrapping_key(&key(format)).map(|key| key.to_vec())
    }

    #[test]
    fn raw_keys_are_taken_as_they_are() {
        let mut bytes = [7; 32];
        bytes[31] = b'\n';
        assert_eq!(wrapping(&bytes, KeyFormat::RAW), Ok(bytes.to_vec()));
        assert!(wrapping(&[7; 33], KeyFormat::RAW).is_err() && wrapping(&[7; 31], KeyFormat::RAW).is_err());
    }

    #[test]
    fn hex_keys_have_64_digits_of_either_case() {
        let digits = "0123456789abcdefABCDEF".repeat(3)[..64].to_owned();
        let found = wrapping(digits.as_bytes(), KeyFormat::HEX).unwrap();
        assert_eq!(found[..11], [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xab, 0xcd, 0xef]);
        assert_eq!(wrapping(format!("{digits}\n").as_bytes(), KeyFormat::HEX), Ok(found));
        assert!(wrapping(&digits.as_bytes()[..63], KeyFormat::HEX).is_err());
        assert!(wrapping(digits.replace('a', "g").as_bytes(), KeyFormat::HEX).is_err());
    }

    #[test]
    fn a_passphrase_ends_before_its_newline() {
        let one = wrapping(b"password", KeyFormat::PASSPHRASE).unwrap();
        assert_eq!(wrapping(b"password\n", KeyFormat::PASSPHRASE), Ok(one.clone()));
        assert_ne!(wrapping(b"password\n\n", KeyFormat::PASSPHRASE), Ok(one));
        assert!(matches!(wrapping(b"seven77", KeyFormat::PASSPHRASE), Err(KeyError::Form { .. })));
    }

    #[test]
    fn a_wrong_key_is_told_by_its_mac() {
        assert!(matches!(unwrap_key(&key(KeyFormat::RAW), &[7; 32]), Err(KeyError::Wrong)));
    }

    #[test]
    fn a_secret_prints_nothing_of_itself() {
        let text = format!("{:?} {}", secret(b"password"), KeyError::Wrong);
        assert!(!text.contains("password") && !text.contains("112"), "{text}");
    }
}
