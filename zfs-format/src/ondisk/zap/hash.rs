//! The hash that decides in which leaf and bucket an entry lies: CRC-64, started from the salt of the ZAP.

/// Reflected polynomial of the CRC.
const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

/// `zap_flags`.
///
/// Source: OpenZFS include/sys/zap.h, `zap_flags_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZapFlags(pub u64);

impl ZapFlags {
    /// Hashes keep 48 bits instead of 28.
    pub const HASH64: Self = Self(1);
    /// Names are arrays of 64-bit words.
    pub const UINT64_KEY: Self = Self(2);
    /// The first word of the name is its hash.
    pub const PRE_HASHED_KEY: Self = Self(4);

    /// True when all bits of `flag` are set.
    #[must_use]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// What the names in the leaves are.
    #[must_use]
    pub const fn key_kind(self) -> KeyKind {
        if self.has(Self::UINT64_KEY) { KeyKind::Words } else { KeyKind::Text }
    }
}

/// What the names of a ZAP are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Text, with a NUL at its end on disk.
    Text,
    /// 64-bit words, stored big endian.
    Words,
}

const TABLE: [u64; 256] = {
    let mut table = [0_u64; 256];
    let mut byte = 0_usize;
    let mut crc = 0_u64;
    // `crc` runs along with `byte`, as a `const` block has no conversions between integers but `as`.
    while byte < 256 {
        let mut entry = crc;
        let mut bit = 0_u8;
        while bit < 8 {
            entry = (entry >> 1) ^ (POLYNOMIAL & (entry & 1).wrapping_neg());
            bit = bit.wrapping_add(1);
        }
        if let Some(cell) = table.split_at_mut(byte).1.first_mut() {
            *cell = entry;
        }
        byte = byte.wrapping_add(1);
        crc = crc.wrapping_add(1);
    }
    table
};

/// The hash of a name: for text its bytes without NUL (already normalized, if the ZAP normalizes), for words the raw
/// big-endian bytes as [`super::leaf::LeafEntry::name`] holds them.
///
/// The top 28 bits are kept, or the top 48 with [`ZapFlags::HASH64`]; the others are zero.
///
/// Source: OpenZFS module/zfs/zap.c, `zap_hash`; include/sys/spa.h, `ZFS_CRC64_POLY`.
#[must_use]
pub fn hash(salt: u64, name: &[u8], flags: ZapFlags) -> u64 {
    let words = || name.chunks_exact(8).map(|word| word.iter().fold(0_u64, |sum, &byte| (sum << 8) | u64::from(byte)));
    let full = match flags.key_kind() {
        _ if flags.has(ZapFlags::PRE_HASHED_KEY) => words().next().unwrap_or(0),
        KeyKind::Text => name.iter().fold(salt, |crc, &byte| step(crc, byte)),
        KeyKind::Words => words().flat_map(u64::to_le_bytes).fold(salt, step),
    };
    full & if flags.has(ZapFlags::HASH64) { u64::MAX << 16 } else { u64::MAX << 36 }
}

fn step(crc: u64, byte: u8) -> u64 {
    let [low, ..] = crc.to_le_bytes();
    let entry = TABLE.get(usize::from(low ^ byte)).copied().unwrap_or(0);
    (crc >> 8) ^ entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_gives_the_check_value_of_crc_64_xz() {
        let crc = b"123456789".iter().fold(u64::MAX, |crc, &byte| step(crc, byte));
        assert_eq!(!crc, 0x995d_c9bb_df19_39fa);
        assert_eq!(TABLE[128], POLYNOMIAL);
    }

    #[test]
    fn text_is_hashed_byte_by_byte_from_the_salt() {
        let full = step(step(0x1234_5678_9abc_def1, b'a'), b'b');
        assert_eq!(hash(0x1234_5678_9abc_def1, b"ab", ZapFlags::default()), full & !((1 << 36) - 1));
        assert_eq!(hash(0x1234_5678_9abc_def1, b"ab", ZapFlags::HASH64), full & !0xffff);
    }

    #[test]
    fn words_are_hashed_low_byte_first_or_not_at_all() {
        let name = [0x01_02_03_04_05_06_07_08_u64.to_be_bytes(), 9_u64.to_be_bytes()].concat();
        let low_first = [8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0];
        let words = ZapFlags(ZapFlags::UINT64_KEY.0 | ZapFlags::HASH64.0);
        assert_eq!(hash(77, &name, words), hash(77, &low_first, ZapFlags::HASH64));
        let pre_hashed = ZapFlags(words.0 | ZapFlags::PRE_HASHED_KEY.0);
        assert_eq!(hash(77, &name, pre_hashed), 0x0102_0304_0506_0000);
    }

    proptest! {
        #[test]
        fn any_bytes_do_not_panic(salt: u64, name: Vec<u8>, flags in 0..8_u64) {
            let _ = hash(salt, &name, ZapFlags(flags));
        }
    }
}
