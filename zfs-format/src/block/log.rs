//! Blocks of an intent log. Their checksum lies inside them, seeded with the checksum words of the pointer.

use super::copies::Search;
use super::protected::open_areas;
use super::{
    BlockReader, CopyState, MacState, OnBad, ReadError, Redundancy, Verification, Work, bounded, is_mac_split,
};
use crate::FormatError;
use crate::codec::checksum::{embedded_fletcher_words, matches};
use crate::endian::OnDisk;
use crate::ondisk::blkptr::{Blkptr, BlkptrKind};
use crate::ondisk::dmu::ChecksumKind;
use crate::ondisk::protect::{self, BlockCrypt};
use crate::ondisk::zil::{ZIL_CHAIN_BYTES, ZilBlock, ZilChain};

/// Where the `zio_eck` lies in the chain structure.
const ECK_OFFSET: usize = 144;
/// What the newer form covers is rounded up to this.
const COVER_BYTES: u64 = 4096;

impl BlockReader<'_> {
    /// Reads the first good copy of a block of an intent log; [`Work::plain`] then holds it. `None` when none is good,
    /// which is how a log normally ends: the last pointer leads to a block that was never written.
    ///
    /// Bodies of encrypted records are decrypted when this reader has the key; otherwise, or when the MAC is wrong,
    /// they are zeros. Headers and pointers in records are in clear.
    ///
    /// Source: OpenZFS module/zfs/zil.c, `zil_read_log_block`; module/zfs/zio_checksum.c, `zio_checksum_error_impl`.
    pub fn read_log(&self, bp: &Blkptr, work: &mut Work) -> Option<MacState> {
        let found = self.examine_log(bp, work, false, &mut |_, _, _| {});
        found.plain.is_ok().then_some(found.mac)
    }

    /// Reads every copy of a block of an intent log, each of which checks itself. [`Work::plain`] then holds the block as
    /// [`BlockReader::read_log`] gives it.
    pub fn verify_log(&self, bp: &Blkptr, work: &mut Work, on_bad: OnBad<'_>) -> Verification {
        self.examine_log(bp, work, true, on_bad)
    }

    fn examine_log(&self, bp: &Blkptr, work: &mut Work, all: bool, on_bad: OnBad<'_>) -> Verification {
        work.plain.clear();
        let psize = match bp.check().and_then(|()| bounded(bp.psize_bytes())) {
            Ok(psize) => psize,
            Err(error) => return Verification::without_copies(Err(ReadError::Pointer(error))),
        };
        let mut verification = match bp.kind() {
            BlkptrKind::Regular => {
                let mut search = work.search(psize, all);
                let judge = &mut |block: &[u8]| match log_matches(bp, block) {
                    true => CopyState::Good,
                    false => CopyState::BadChecksum,
                };
                self.search(bp, &mut search, judge, on_bad);
                let Search { is_found, copies, strengths, .. } = search;
                let plain = if is_found { Ok(()) } else { Err(ReadError::NoGoodCopy { copies: copies.clone() }) };
                let redundancy = Redundancy::new(&strengths);
                Verification { copies, is_lost: !is_found, redundancy, mac: MacState::Unchecked, plain }
            }
            // A log block that had to be a gang: its pieces are judged by sums of their own, the whole by that of the log.
            BlkptrKind::Gang => {
                let mut found = self.examine_gang(bp, work, all, on_bad);
                if work.payload.len() == psize && log_matches(bp, &work.payload) {
                    // The sum of a log says nothing to those who read other blocks.
                    found.copies.retain(|copy| copy.leaf.is_some());
                    (found.is_lost, found.plain) = (false, Ok(()));
                }
                found
            }
            BlkptrKind::Hole | BlkptrKind::Embedded { .. } => {
                let bad = FormatError::bad_field("blkptr", "type", bp.object_type().0.into(), "a block of a log");
                Verification::without_copies(Err(ReadError::Pointer(bad)))
            }
        };
        if verification.plain.is_ok() {
            work.plain.extend_from_slice(&work.payload);
            verification.mac = self.open_log(bp, &mut work.plain);
        }
        verification
    }

    /// Decrypts the bodies of records.
    fn open_log(&self, bp: &Blkptr, block: &mut [u8]) -> MacState {
        if !bp.is_protected() {
            return MacState::Unchecked;
        }
        let parsed = ZilBlock::parse(block, bp.checksum_kind()).ok();
        let Some(auth) = parsed.and_then(|parsed| protect::log_block(block, parsed.endian)) else {
            return if self.key().is_some() { MacState::Wrong } else { MacState::Unchecked };
        };
        let Some(key) = self.key() else {
            for area in auth.areas {
                block.get_mut(area).unwrap_or_default().fill(0);
            }
            return MacState::Unchecked;
        };
        let crypt = BlockCrypt { mac: auth.mac, ..BlockCrypt::of(bp) };
        open_areas(block, &auth.areas, &auth.aad, key, &crypt)
    }
}

/// True when the embedded checksum holds.
fn log_matches(bp: &Blkptr, block: &[u8]) -> bool {
    let kind = bp.checksum_kind();
    let (covered, eck_offset) = match kind {
        ChecksumKind::ZILOG => (block.len(), block.len().saturating_sub(ZIL_CHAIN_BYTES) + ECK_OFFSET),
        ChecksumKind::ZILOG2 => {
            let Ok(chain) =
                ZilChain::parse(block, bp.endian()).or_else(|_| ZilChain::parse(block, bp.endian().swapped()))
            else {
                return false;
            };
            let covered = chain.used_bytes.checked_next_multiple_of(COVER_BYTES).unwrap_or(u64::MAX);
            (usize::try_from(covered).unwrap_or(usize::MAX), ECK_OFFSET)
        }
        _ => return false,
    };
    block
        .get(..covered)
        .and_then(|area| embedded_fletcher_words(kind, area, eck_offset, bp.checksum()))
        .is_some_and(|(_, computed, stored)| matches(kind, computed, stored, is_mac_split(bp)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{DataKey, KeyRing};
    use crate::codec::cipher::CipherMode;
    use crate::vdev::VdevTree;
    use std::ops::Range;
    use std::sync::Arc;

    /// Type and length of records: a write, a creation that does not regard case, a cloned range.
    const RECORDS: [(u64, usize); 3] = [(9, 208), (1 << 63 | 1, 96), (24, 200)];
    /// Bodies, as ZFS encrypts them: an independent program took the block apart by the rules, and OpenSSL 3.0 encrypted.
    const BODIES: [Range<usize>; 4] = [216..248, 376..392, 424..488, 520..552];
    const CIPHERTEXT: &str = "40fa04bd7ccfcecb9fa320f186d733dfabe502e93f0c48742fe20dd3f2d31576bc3e966a0db53545fb00a03f3b2ae365ac9f98a9dd7e2f22c0da0d2b48f23d6ca9458781a0f7f21752c13cfe571816c6f911e46b4c63473e9a229f997af06630debee9b78439e7a7651b8abc6d969fefb4594c6cfbf24e9b52ca44c8ad97434b9f7cf037e7e9621b7405d0bfcc3e1682";
    const MAC: u128 = 0x9221bcede3933060106d253964ab9de8;

    fn plain() -> Vec<u8> {
        let mut block = vec![0; 4096];
        let fill = |block: &mut Vec<u8>, range: Range<usize>| {
            for at in range {
                block[at] = u8::try_from((at * 7 + 3) & 0xff).unwrap();
            }
        };
        fill(&mut block, 8..136);
        let mut at = ZIL_CHAIN_BYTES;
        for (tx_type, length) in RECORDS {
            fill(&mut block, at..at + length);
            for (word, value) in [tx_type, length as u64, 5, at as u64].into_iter().enumerate() {
                block[at + 8 * word..][..8].copy_from_slice(&value.to_le_bytes());
            }
            at += length;
        }
        block[136..144].copy_from_slice(&(at as u64).to_le_bytes());
        block[144..152].copy_from_slice(&0x0210_da7a_b10c_7a11_u64.to_le_bytes());
        block
    }

    fn encrypted() -> Vec<u8> {
        let mut block = plain();
        let digits = CIPHERTEXT.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let mut bytes = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap());
        for at in BODIES.into_iter().flatten() {
            block[at] = bytes.next().unwrap();
        }
        assert_eq!(bytes.next(), None);
        block[168..184].copy_from_slice(&MAC.to_be_bytes());
        block
    }

    /// A pointer with the salt, the IV, zilog2, type 9.
    fn pointer() -> Blkptr {
        let mut words = [0; 16];
        words[0] = 1;
        words[4] = u64::from_le_bytes([0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17]);
        words[5] = u64::from_le_bytes([0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27]);
        words[6] = 1 << 63 | 1 << 61 | 9 << 48 | 9 << 40 | 2 << 32;
        words[11] = 0x2b2a_2928 << 32;
        Blkptr::from_words(words)
    }

    fn open(objset: u64, block: &mut [u8]) -> MacState {
        let tree = VdevTree::with_tops(0).unwrap();
        let mut keys = KeyRing::default();
        let master = (0..32).collect::<Vec<u8>>().into();
        keys.insert(5, Arc::new(DataKey::new(CipherMode::Gcm, 1, master, &[0; 64]).unwrap()));
        BlockReader::new(&tree).with_keys(Some(&keys)).of_objset(objset).open_log(&pointer(), block)
    }

    #[test]
    fn bodies_of_records_are_decrypted_and_nothing_else_changes() {
        let mut block = encrypted();
        assert_eq!(open(5, &mut block), MacState::Right);
        block[168..184].fill(0);
        assert_eq!(block, plain());
    }

    #[test]
    fn what_is_in_clear_is_covered_too() {
        for at in [8, 140, 184 + 16, 184 + 64, 184 + 191, 392 + 24, 488 + 64, 488 + 199, 170, 220] {
            let mut block = encrypted();
            block[at] ^= 1;
            assert_eq!(open(5, &mut block), MacState::Wrong, "byte {at}");
        }
    }

    #[test]
    fn without_a_key_bodies_are_zeros() {
        let mut block = encrypted();
        assert_eq!(open(6, &mut block), MacState::Unchecked);
        assert!(BODIES.into_iter().flatten().all(|at| block[at] == 0));
        assert_eq!(block[248..376], plain()[248..376]);
    }
}
