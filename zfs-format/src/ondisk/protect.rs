//! What the MACs of an encrypted dataset cover: parts of block pointers, of dnodes and of object sets.
//!
//! In clear, and so covered: object sets, indirect blocks, all block pointers, and dnodes but for most bonuses. Keys of
//! version 0 cover less of a pointer than those of version 1.
//!
//! Source: OpenZFS module/os/linux/zfs/zio_crypt.c, `zio_crypt_bp_auth_init`, `zio_crypt_init_uios_dnode`,
//! `zio_crypt_do_dnode_hmac_updates`, `zio_crypt_do_objset_hmacs`.

use super::blkptr::{BLKPTR_BYTES, Blkptr};
use super::dmu::ObjectType;
use super::dnode::{DNODE_SLOT_BYTES, DnodeFlags, indirect_blkptrs};
use super::zil::{TxType, ZIL_CHAIN_BYTES};
use crate::Endian;
use crate::codec::cipher::{IV_BYTES, MAC_BYTES};
use std::ops::Range;

/// Bytes of a block's salt.
pub const BLOCK_SALT_BYTES: usize = 8;
/// Bytes of a dnode before its first pointer.
const CORE_BYTES: usize = 64;
/// Where `used` lies in a dnode.
const USED: Range<usize> = 24..32;

/// Salt, IV and MAC of a block, out of its pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCrypt {
    /// With the master key it makes the block's key.
    pub salt: [u8; BLOCK_SALT_BYTES],
    /// The IV.
    pub iv: [u8; IV_BYTES],
    /// The MAC; of a pointer to an intent log's block it means nothing.
    pub mac: [u8; MAC_BYTES],
}

impl BlockCrypt {
    /// What the pointer holds, in the byte order of the block it leads to.
    #[must_use]
    pub fn of(bp: &Blkptr) -> Self {
        let [_, _, _, _, salt, iv, _, _, _, _, _, fill, ..] = *bp.words();
        let [_, _, mac0, mac1] = bp.checksum();
        let bytes = |word: u64| match bp.endian() {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        };
        // The upper half of the fill word is a word of its own.
        let [fill0, fill1, fill2, fill3, ..] = match bp.endian() {
            Endian::Little => (fill >> 32).to_le_bytes(),
            Endian::Big => fill.to_be_bytes(),
        };
        let [iv0, iv1, iv2, iv3, iv4, iv5, iv6, iv7] = bytes(iv);
        Self {
            salt: bytes(salt),
            iv: [iv0, iv1, iv2, iv3, iv4, iv5, iv6, iv7, fill0, fill1, fill2, fill3],
            mac: joined(bytes(mac0), bytes(mac1)),
        }
    }
}

fn joined(first: [u8; 8], second: [u8; 8]) -> [u8; MAC_BYTES] {
    let mut all = [0; MAC_BYTES];
    for (to, from) in all.iter_mut().zip(first.into_iter().chain(second)) {
        *to = from;
    }
    all
}

/// Adds what is authenticated of a pointer (`blkptr_auth_buf_t`).
pub fn put_pointer(bp: &Blkptr, version: u64, out: &mut Vec<u8>) {
    const DEDUP: u64 = 1 << 62;
    const CHECKSUM: u64 = 0xff << 40;
    const PSIZE: u64 = 0xffff << 16;
    const COMPRESSION: u64 = 0x7f << 32;
    const BYTE_ORDER: u64 = 1 << 63;
    let [_, _, _, _, _, _, mut prop, ..] = *bp.words();
    prop &= !(DEDUP | CHECKSUM);
    if version == 0 {
        prop &= !PSIZE;
    } else if bp.is_hole() {
        prop = 0;
    } else if bp.level() != 0 {
        prop &= !(BYTE_ORDER | COMPRESSION | PSIZE);
    }
    let mac = if bp.object_type() == ObjectType::OBJSET { [0; MAC_BYTES] } else { BlockCrypt::of(bp).mac };
    out.extend_from_slice(&prop.to_le_bytes());
    out.extend_from_slice(&mac);
    if version > 0 {
        out.extend_from_slice(&[0; 8]);
    }
}

/// What the MAC of an indirect block covers: all its pointers.
#[must_use]
pub fn indirect(block: &[u8], endian: Endian, version: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for bp in indirect_blkptrs(block, endian) {
        put_pointer(&bp, version, &mut out);
    }
    out
}

/// Where the parts of a dnode lie in its block.
struct Parts {
    core: Range<usize>,
    pointers: Range<usize>,
    bonus: Range<usize>,
    spill: Option<Range<usize>>,
    is_bonus_encrypted: bool,
    end: usize,
}

/// The parts of the dnode at `start`, `None` when none begins there. A free slot is a dnode of one slot.
fn parts(block: &[u8], start: usize) -> Option<Parts> {
    let core = start..start.checked_add(CORE_BYTES)?;
    let [kind, _, _, nblkptr, bonus_type, _, _, flags, _, _, bonus_len0, bonus_len1, extra_slots, ..] =
        *block.get(core.clone())?
    else {
        return None;
    };
    let slots = if kind == 0 { 1 } else { usize::from(extra_slots).checked_add(1)? };
    let end = start.checked_add(slots.checked_mul(DNODE_SLOT_BYTES)?)?.min(block.len());
    let pointers_end = core.end.checked_add(usize::from(nblkptr).checked_mul(BLKPTR_BYTES)?)?.min(end);
    let has_spill = DnodeFlags(flags).has(DnodeFlags::SPILL_BLKPTR);
    let bonus_end = if has_spill { end.checked_sub(BLKPTR_BYTES)?.max(pointers_end) } else { end };
    Some(Parts {
        pointers: core.end..pointers_end,
        core,
        bonus: pointers_end..bonus_end,
        spill: has_spill.then_some(bonus_end..end),
        is_bonus_encrypted: kind != 0
            && ObjectType(bonus_type).is_encrypted_kind()
            && (bonus_len0, bonus_len1) != (0, 0),
        end,
    })
}

/// The parts of all dnodes of a block.
fn all_parts(block: &[u8]) -> impl Iterator<Item = Parts> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = parts(block, at)?;
        at = found.end;
        Some(found)
    })
}

/// The areas of a block of dnodes that are ciphertext, in order: one stream.
pub fn encrypted_areas(block: &[u8]) -> impl Iterator<Item = Range<usize>> {
    all_parts(block).filter(|parts| parts.is_bonus_encrypted).map(|parts| parts.bonus)
}

/// Adds the core of a dnode without what changes when nothing of its content does.
fn put_core(core: &[u8], out: &mut Vec<u8>) {
    for (at, &byte) in core.iter().enumerate() {
        out.push(match at {
            7 => byte & DnodeFlags::SPILL_BLKPTR.0,
            at if USED.contains(&at) => 0,
            _ => byte,
        });
    }
}

fn put_pointers(block: &[u8], parts: &Parts, endian: Endian, version: u64, out: &mut Vec<u8>) {
    for range in std::iter::once(parts.pointers.clone()).chain(parts.spill.clone()) {
        for bp in indirect_blkptrs(block.get(range).unwrap_or_default(), endian) {
            put_pointer(&bp, version, out);
        }
    }
}

/// What the MAC of a block of dnodes covers beside the ciphertext.
#[must_use]
pub fn dnode_block(block: &[u8], endian: Endian, version: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for parts in all_parts(block) {
        put_core(block.get(parts.core.clone()).unwrap_or_default(), &mut out);
        put_pointers(block, &parts, endian, version, &mut out);
        if !parts.is_bonus_encrypted {
            out.extend_from_slice(block.get(parts.bonus.clone()).unwrap_or_default());
        }
    }
    out
}

/// What is ciphertext in a block of an intent log, and what its MAC covers beside that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogAuth {
    /// The chain without its checksum, headers of records, pointers in records.
    pub aad: Vec<u8>,
    /// Bodies of records, in order: one stream.
    pub areas: Vec<Range<usize>>,
    /// The MAC, which lies in the chain.
    pub mac: [u8; MAC_BYTES],
}

/// Takes a block of an intent log apart, one with its chain at the start as all encrypted ones have. `None` when its
/// records do not fit it.
///
/// Source: OpenZFS module/os/linux/zfs/zio_crypt.c, `zio_crypt_init_uios_zil`.
#[must_use]
pub fn log_block(block: &[u8], endian: Endian) -> Option<LogAuth> {
    const CHAIN: Range<usize> = 0..144;
    const USED_OFFSET: usize = 136;
    const MAC_OFFSET: usize = 168;
    const HEADER_BYTES: usize = 32;
    const LENGTH_OFFSET: usize = 8;
    const POINTERS_OFFSET: usize = 64;
    let used = usize::try_from(endian.u64_at(block, USED_OFFSET)?).ok().filter(|&used| used <= block.len())?;
    let mut auth =
        LogAuth { aad: block.get(CHAIN)?.to_vec(), areas: Vec::new(), mac: *block.get(MAC_OFFSET..)?.first_chunk()? };
    let mut at = ZIL_CHAIN_BYTES;
    while at < used {
        // Bit 63 of the type says that names do not regard case.
        let tx_type = TxType(endian.u64_at(block, at)? & !(1 << 63));
        let length = usize::try_from(endian.u64_at(block, at.checked_add(LENGTH_OFFSET)?)?).ok()?;
        let end = at.checked_add(length).filter(|&end| length >= HEADER_BYTES && end <= used)?;
        let body = at.checked_add(HEADER_BYTES)?;
        auth.aad.extend_from_slice(block.get(at..body)?);
        let pointers = at.checked_add(POINTERS_OFFSET)?;
        let clear = match tx_type {
            TxType::WRITE => pointers..pointers.checked_add(BLKPTR_BYTES)?,
            TxType::CLONE_RANGE => pointers..end,
            _ => end..end,
        };
        // A record too short for its pointers ends before them.
        auth.aad.extend_from_slice(block.get(clear.clone()).filter(|_| clear.end <= end)?);
        auth.areas.extend([body..clear.start, clear.end..end]);
        at = end;
    }
    Some(auth)
}

/// What the two MACs of an object set cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjsetAuth {
    /// Of the portable MAC: type, flags, meta-dnode.
    pub portable: Vec<u8>,
    /// Of the local MAC: flags, accounting dnodes.
    pub local: Vec<u8>,
}

/// What the two MACs of an object set cover. `block` is one that was parsed as an object set.
#[must_use]
pub fn objset(block: &[u8], endian: Endian, version: u64) -> ObjsetAuth {
    const TYPE_OFFSET: usize = 704;
    const FLAGS_OFFSET: usize = 712;
    const ACCOUNTING_OFFSETS: [usize; 3] = [1024, 1536, 2048];
    let word = |offset| endian.u64_at(block, offset).unwrap_or(0);
    let mut portable = word(TYPE_OFFSET).to_be_bytes().to_vec();
    // No flag is portable today.
    portable.extend_from_slice(&[0; 8]);
    put_objset_dnode(block, 0, endian, version, &mut portable);
    let mut local = word(FLAGS_OFFSET).to_le_bytes().to_vec();
    for offset in ACCOUNTING_OFFSETS {
        if block.get(offset).is_some_and(|&kind| kind != 0) {
            put_objset_dnode(block, offset, endian, version, &mut local);
        }
    }
    ObjsetAuth { portable, local }
}

/// The portable and the local MAC that an object set holds, `None` when the block is too short for one.
#[must_use]
pub fn stored_objset_macs(block: &[u8]) -> Option<([u8; 32], [u8; 32])> {
    const MACS_OFFSET: usize = 720;
    let (portable, rest) = block.get(MACS_OFFSET..)?.split_first_chunk::<32>()?;
    Some((*portable, *rest.first_chunk::<32>()?))
}

/// Adds a dnode of an object set: its core in little endian, its pointers, no bonus.
fn put_objset_dnode(block: &[u8], offset: usize, endian: Endian, version: u64, out: &mut Vec<u8>) {
    let slot = block.get(..offset.saturating_add(DNODE_SLOT_BYTES)).unwrap_or_default();
    let Some(parts) = parts(slot, offset) else { return };
    let mut core = slot.get(parts.core.clone()).unwrap_or_default().to_vec();
    if endian == Endian::Big {
        for range in [8..10, 10..12, 16..24] {
            core.get_mut(range).unwrap_or_default().reverse();
        }
    }
    put_core(&core, out);
    put_pointers(slot, &parts, endian, version, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    /// Type 19, level, all masked fields set, MAC words 1 and 2.
    fn pointer(level: u64, little: bool) -> Blkptr {
        let mut words = [0; 16];
        words[0] = 1;
        words[4] = 0x0102_0304_0506_0708;
        words[5] = 0x1112_1314_1516_1718;
        let order = u64::from(little) << 63;
        words[6] = order | 3 << 61 | level << 56 | 19 << 48 | 7 << 40 | 15 << 32 | 6 << 16 | 255;
        words[11] = 0x2122_2324_0000_0001;
        words[14] = 1;
        words[15] = 2;
        Blkptr::from_words(words)
    }

    #[test]
    fn salt_iv_and_mac_are_bytes_in_the_order_of_the_block() {
        let big = BlockCrypt::of(&pointer(0, false));
        assert_eq!(big.salt, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(big.iv, [0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24]);
        assert_eq!(big.mac, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        let little = BlockCrypt::of(&pointer(0, true));
        assert_eq!(little.salt, [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(little.iv, [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21]);
        assert_eq!(little.mac, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    }

    fn prop(bp: &Blkptr, version: u64) -> u64 {
        let mut out = Vec::new();
        put_pointer(bp, version, &mut out);
        assert_eq!(out.len(), if version == 0 { 24 } else { 32 });
        u64::from_le_bytes(out[..8].try_into().unwrap())
    }

    #[test]
    fn what_may_change_without_the_content_is_masked() {
        let x = 1 << 61;
        let order = 1 << 63;
        assert_eq!(prop(&pointer(0, true), 1), order | x | 19 << 48 | 15 << 32 | 6 << 16 | 255);
        assert_eq!(prop(&pointer(1, true), 1), x | 1 << 56 | 19 << 48 | 255);
        assert_eq!(prop(&pointer(1, true), 0), order | x | 1 << 56 | 19 << 48 | 15 << 32 | 255);
        let mut hole = [0; 16];
        hole[6] = order | 1 << 56 | 19 << 48 | 255;
        assert_eq!(prop(&Blkptr::from_words(hole), 1), 0);
        assert_eq!(prop(&Blkptr::from_words(hole), 0), hole[6]);
    }

    /// A dnode of two slots with an encrypted bonus, a free slot, and one whose bonus is in clear.
    fn dnodes() -> Vec<u8> {
        let mut block = vec![0xaa; 4 * DNODE_SLOT_BYTES];
        block[..16].copy_from_slice(&[19, 17, 1, 1, 44, 0, 0, 0xff, 1, 0, 168, 0, 1, 0, 0, 0]);
        block[1024..1536].fill(0);
        block[1536..1552].copy_from_slice(&[21, 17, 1, 3, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0]);
        block
    }

    #[test]
    fn only_bonuses_of_encrypted_types_are_ciphertext() {
        let areas: Vec<_> = encrypted_areas(&dnodes()).collect();
        assert_eq!((areas.len(), areas.first()), (1, Some(&(64 + 128..1024 - 128))));
        let aad = dnode_block(&dnodes(), Endian::Little, 1);
        // Cores; pointers: one and a spill, none, three; bonuses in clear.
        assert_eq!(aad.len(), 3 * 64 + (2 + 3) * 32 + (512 - 64) + (512 - 64 - 3 * 128));
        assert_eq!((aad[7], &aad[24..32], aad[32]), (4, &[0; 8][..], 0xaa));
    }

    #[test]
    fn objset_dnodes_have_no_bonus_and_are_little_endian() {
        let mut block = vec![0; 2048];
        block[..32].copy_from_slice(&[
            10, 17, 1, 3, 0, 0, 0, 1, 0, 32, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 1, 1, 1, 1, 1, 1, 1,
        ]);
        block[704..720].copy_from_slice(&stored(&[2, 7], Endian::Big));
        block[1536..1548].copy_from_slice(&[39, 17, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0]);
        let auth = objset(&block, Endian::Big, 1);
        assert_eq!(auth.portable.len(), 16 + 64 + 3 * 32);
        assert_eq!(auth.portable[..16], [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            auth.portable[16..48],
            [10, 17, 1, 3, 0, 0, 0, 0, 32, 0, 5, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!((auth.local.len(), &auth.local[..8]), (8 + 64 + 32, &[7, 0, 0, 0, 0, 0, 0, 0][..]));
    }

    #[test]
    fn an_indirect_block_is_covered_with_its_holes() {
        let block = [stored(&numbered(16), Endian::Little), vec![0; 2 * BLKPTR_BYTES]].concat();
        assert_eq!(indirect(&block, Endian::Little, 1).len(), 3 * 32);
        assert_eq!(indirect(&block, Endian::Little, 0).len(), 3 * 24);
    }

    proptest! {
        #[test]
        fn any_bytes_do_not_panic(mut block in proptest::collection::vec(any::<u8>(), 4096), kind in 0..3_u8) {
            block[0] = kind;
            for endian in [Endian::Little, Endian::Big] {
                for size in [0, 100, 1024, 2048, 4096] {
                    let block = &block[..size];
                    let _ = log_block(block, endian);
                    let _ = (indirect(block, endian, 1), dnode_block(block, endian, 0), objset(block, endian, 1));
                    prop_assert!(encrypted_areas(block).all(|area| block.get(area).is_some()));
                }
            }
        }
    }
}
