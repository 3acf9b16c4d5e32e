//! Blocks of encrypted datasets between checksum and use: what is ciphertext is decrypted, what is in clear is
//! authenticated. The MACs of indirect blocks need no key; all others do.

use super::{BlockReader, DataKey, ReadError, Work, decode};
use crate::FormatError;
use crate::codec::cipher::{CipherError, digest};
use crate::ondisk::blkptr::Blkptr;
use crate::ondisk::dmu::ObjectType;
use crate::ondisk::protect::{self, BlockCrypt};
use std::ops::Range;

/// Versions of key objects, in the order in which OpenZFS tries them where it does not know.
const VERSIONS: [u64; 2] = [1, 0];

/// What is known of a block's MACs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacState {
    /// It has none, or checking it needs a key that is not known.
    #[default]
    Unchecked,
    /// All that could be checked hold.
    Right,
    /// One does not hold.
    Wrong,
}

impl MacState {
    fn of(is_right: bool) -> Self {
        if is_right { Self::Right } else { Self::Wrong }
    }
}

impl BlockReader<'_> {
    /// The key of the object set this reader was made for.
    pub(super) fn key(&self) -> Option<&DataKey> {
        self.keys?.get(self.objset?)
    }

    /// True when the payload of `bp` is ciphertext that this reader has no key for.
    #[must_use]
    pub fn lacks_key(&self, bp: &Blkptr) -> bool {
        super::needs_key(bp) && self.key().is_none()
    }

    /// Makes plain bytes of a payload whose checksum holds; [`Work::plain`] then holds the block. Where only a MAC of
    /// something in clear is wrong there are plain bytes all the same.
    ///
    /// # Errors
    /// [`ReadError`] says why there are no plain bytes.
    pub fn decode(&self, bp: &Blkptr, payload: &[u8], work: &mut Work) -> Result<MacState, ReadError> {
        let mut own = std::mem::take(&mut work.payload);
        own.clear();
        own.extend_from_slice(payload);
        work.payload = own;
        self.decode_own(bp, work)
    }

    /// The same for the payload that was read into `work`, which is used up.
    pub(super) fn decode_own(&self, bp: &Blkptr, work: &mut Work) -> Result<MacState, ReadError> {
        let undecodable = |source| ReadError::Undecodable { source };
        let mut state = if bp.is_protected() && bp.level() == 0 && bp.object_type() != ObjectType::OBJSET {
            self.open_payload(bp, &mut work.payload)?
        } else {
            MacState::Unchecked
        };
        decode(bp, &work.payload, &mut work.plain, &mut work.decompressor).map_err(undecodable)?;
        if bp.is_protected() && bp.level() > 0 {
            state = MacState::of(is_indirect_right(bp, &work.plain));
        } else if let Some(key) = self.key().filter(|_| bp.is_protected() && bp.object_type() == ObjectType::OBJSET) {
            state = MacState::of(is_objset_right(bp, &work.plain, key));
        }
        Ok(state)
    }

    /// Decrypts or authenticates a level-0 payload.
    fn open_payload(&self, bp: &Blkptr, payload: &mut [u8]) -> Result<MacState, ReadError> {
        let is_dnodes = bp.object_type() == ObjectType::DNODE;
        let Some(key) = self.key() else {
            if super::needs_key(bp) {
                return Err(ReadError::NoKey);
            }
            if is_dnodes && bp.is_encrypted() {
                // Nobody shall take ciphertext for a bonus.
                for area in protect::encrypted_areas(payload).collect::<Vec<_>>() {
                    payload.get_mut(area).unwrap_or_default().fill(0);
                }
            }
            return Ok(MacState::Unchecked);
        };
        let crypt = BlockCrypt::of(bp);
        if !bp.is_encrypted() {
            return match key.mac(payload).starts_with(&crypt.mac) {
                true => Ok(MacState::Right),
                false => Err(ReadError::WrongMac),
            };
        }
        if is_dnodes {
            return Ok(open_dnodes(bp, payload, key, &crypt));
        }
        match decrypt(key, &crypt, &[], payload) {
            Ok(()) => Ok(MacState::Right),
            Err(CipherError::WrongMac) => Err(ReadError::WrongMac),
            Err(error) => {
                let source = FormatError::Unsupported { what: "encrypted block", feature: error.to_string() };
                Err(ReadError::Undecodable { source })
            }
        }
    }
}

fn decrypt(key: &DataKey, crypt: &BlockCrypt, aad: &[u8], data: &mut [u8]) -> Result<(), CipherError> {
    key.cipher(&crypt.salt).ok_or(CipherError::KeyLength)?.decrypt(&crypt.iv, aad, &crypt.mac, data)
}

/// Decrypts the bonuses of a block of dnodes. Where the MAC is wrong they become zeros; the rest can still be read.
fn open_dnodes(bp: &Blkptr, block: &mut [u8], key: &DataKey, crypt: &BlockCrypt) -> MacState {
    let areas: Vec<_> = protect::encrypted_areas(block).collect();
    let aad = protect::dnode_block(block, bp.endian(), key.version());
    open_areas(block, &areas, &aad, key, crypt)
}

/// Decrypts a block that is ciphertext in some areas only: one stream. Where the MAC is wrong they become zeros.
pub(super) fn open_areas(
    block: &mut [u8],
    areas: &[Range<usize>],
    aad: &[u8],
    key: &DataKey,
    crypt: &BlockCrypt,
) -> MacState {
    let mut stream = Vec::new();
    for area in areas {
        stream.extend_from_slice(block.get(area.clone()).unwrap_or_default());
    }
    let is_right = decrypt(key, crypt, aad, &mut stream).is_ok();
    if !is_right {
        stream.fill(0);
    }
    let mut rest = stream.as_slice();
    for area in areas {
        let target = block.get_mut(area.clone()).unwrap_or_default();
        let Some((part, after)) = rest.split_at_checked(target.len()) else { break };
        target.copy_from_slice(part);
        rest = after;
    }
    MacState::of(is_right)
}

/// The MAC of an indirect block is a digest of the MACs below it, in one of two forms.
fn is_indirect_right(bp: &Blkptr, plain: &[u8]) -> bool {
    let stored = BlockCrypt::of(bp).mac;
    VERSIONS.iter().any(|&version| digest(&protect::indirect(plain, bp.endian(), version)) == stored)
}

/// The MACs of an object set. The local one is zero where nothing is counted, or nothing was when it was written.
fn is_objset_right(bp: &Blkptr, plain: &[u8], key: &DataKey) -> bool {
    let auth = protect::objset(plain, bp.endian(), key.version());
    let Some((portable, local)) = protect::stored_objset_macs(plain) else { return false };
    key.mac(&auth.portable).starts_with(&portable) && (local == [0; 32] || key.mac(&auth.local).starts_with(&local))
}
