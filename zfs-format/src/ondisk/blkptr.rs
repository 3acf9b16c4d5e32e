//! Block pointers and the addresses inside them.

use super::dmu::{ChecksumKind, CompressKind, ObjectType};
use crate::FormatError;
use crate::endian::{Endian, OnDisk, bits};
use crate::units::{MAX_BLOCK_BYTES, Txg, sectors_to_bytes};
use std::fmt;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of a block pointer on disk.
pub const BLKPTR_BYTES: usize = 128;

/// The most bytes an embedded block pointer can hold.
pub const EMBEDDED_BYTES_MAX: u64 = 112;

/// `dva_t` as stored. Alignment 1; the byte order is a type parameter, never a swap in place.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDva<O: ByteOrder> {
    word: [U64<O>; 2],
}
const _: () = assert!(size_of::<RawDva<zerocopy::LittleEndian>>() == 16);

/// `dva_t`: where one copy of a block lies.
///
/// Source: OpenZFS include/sys/spa.h, `dva_t` and the `DVA_GET_*` macros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dva {
    /// Top-level vdev id.
    pub vdev: u32,
    /// Offset in the allocatable space of the top-level vdev.
    pub offset_bytes: u64,
    /// Space allocated on that vdev, parity and padding included; of a gang also its children's.
    pub asize_bytes: u64,
    /// The copy is a gang header.
    pub is_gang: bool,
}

impl Dva {
    fn from_words(word0: u64, word1: u64) -> Result<Self, FormatError> {
        Ok(Self {
            vdev: u32::try_from(bits::<32, 24>(word0)).unwrap_or(u32::MAX),
            asize_bytes: sectors_to_bytes("dva", "asize", bits::<0, 24>(word0))?,
            offset_bytes: sectors_to_bytes("dva", "offset", bits::<0, 63>(word1))?,
            is_gang: bits::<63, 1>(word1) == 1,
        })
    }
}

impl OnDisk for Dva {
    const NAME: &'static str = "dva";
    type Raw<O: ByteOrder> = RawDva<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDva<O>) -> Result<Self, FormatError> {
        let [word0, word1] = raw.word.map(U64::get);
        Self::from_words(word0, word1)
    }
}

impl fmt::Display for Dva {
    /// `vdev:offset:asize` in hexadecimal, as `zdb` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}:{:x}{}", self.vdev, self.offset_bytes, self.asize_bytes, if self.is_gang { "G" } else { "" })
    }
}

/// What a block pointer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlkptrKind {
    /// No block: reads as zeros.
    Hole,
    /// The payload is in the pointer itself.
    Embedded {
        /// 0 data, 2 redacted; other values are not defined.
        embedded_type: u8,
    },
    /// An ordinary block.
    Regular,
    /// Copies are gang headers.
    Gang,
}

/// `blkptr_t` as stored: sixteen words, in the byte order of the block that contains it.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBlkptr<O: ByteOrder> {
    word: [U64<O>; 16],
}
const _: () = assert!(size_of::<RawBlkptr<zerocopy::LittleEndian>>() == BLKPTR_BYTES);

/// `blkptr_t`: sixteen 64-bit words in native order, decoded on demand.
///
/// | word | content |
/// | --- | --- |
/// | 0-5 | three [`Dva`] |
/// | 6 | sizes, compression, checksum, type, level, flags |
/// | 9, 10 | physical and logical birth |
/// | 11 | fill count |
/// | 12-15 | checksum |
///
/// Keeping the words makes the value small to copy and loses nothing (salt, IV and MAC of encrypted blocks live in
/// words that mean something else elsewhere).
///
/// Source: OpenZFS include/sys/spa.h, `blkptr_t` and the `BP_*` macros.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Blkptr {
    word: [u64; 16],
}

impl OnDisk for Blkptr {
    const NAME: &'static str = "blkptr";
    type Raw<O: ByteOrder> = RawBlkptr<O>;

    fn from_raw<O: ByteOrder>(raw: &RawBlkptr<O>) -> Result<Self, FormatError> {
        Ok(Self { word: raw.word.map(U64::get) })
    }
}

impl Blkptr {
    /// Makes a pointer from its words in native order.
    #[must_use]
    pub const fn from_words(word: [u64; 16]) -> Self {
        Self { word }
    }

    /// The sixteen words in native order.
    #[must_use]
    pub const fn words(&self) -> &[u64; 16] {
        &self.word
    }

    const fn prop(&self) -> u64 {
        self.word[6]
    }

    /// Hole, embedded, regular or gang.
    #[must_use]
    pub fn kind(&self) -> BlkptrKind {
        if self.is_embedded() {
            BlkptrKind::Embedded { embedded_type: low8(bits::<40, 8>(self.prop())) }
        } else if self.word[0] == 0 && self.word[1] == 0 {
            BlkptrKind::Hole
        } else if bits::<63, 1>(self.word[1]) == 1 {
            BlkptrKind::Gang
        } else {
            BlkptrKind::Regular
        }
    }

    /// No block is stored; the range reads as zeros.
    #[must_use]
    pub fn is_hole(&self) -> bool {
        self.kind() == BlkptrKind::Hole
    }

    /// The payload is in the pointer itself.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        bits::<39, 1>(self.prop()) == 1
    }

    /// Embedded type 2: the data was left out of a redacted send stream, by design.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        self.kind() == BlkptrKind::Embedded { embedded_type: 2 }
    }

    /// The copies are gang headers.
    #[must_use]
    pub fn is_gang(&self) -> bool {
        self.kind() == BlkptrKind::Gang
    }

    /// The X bit: the block is encrypted, authenticated, or an indirect block with a MAC.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        !self.is_embedded() && bits::<61, 1>(self.prop()) == 1
    }

    /// The payload itself is ciphertext (protected, level 0, a type of the encrypted kind).
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.is_protected() && self.level() == 0 && self.object_type().is_encrypted_kind()
    }

    /// The D bit: the block is, or once was, in the dedup table.
    #[must_use]
    pub fn is_dedup(&self) -> bool {
        !self.is_embedded() && bits::<62, 1>(self.prop()) == 1
    }

    /// The byte order of the block the pointer leads to (B bit).
    #[must_use]
    pub fn endian(&self) -> Endian {
        if bits::<63, 1>(self.prop()) == 1 { Endian::Little } else { Endian::Big }
    }

    /// Level in the tree: 0 is data, above are blocks of pointers.
    #[must_use]
    pub fn level(&self) -> u8 {
        low8(bits::<56, 5>(self.prop()))
    }

    /// What the block holds.
    #[must_use]
    pub fn object_type(&self) -> ObjectType {
        ObjectType(low8(bits::<48, 8>(self.prop())))
    }

    /// The algorithm of the checksum; [`ChecksumKind::OFF`] for embedded pointers.
    #[must_use]
    pub fn checksum_kind(&self) -> ChecksumKind {
        if self.is_embedded() { ChecksumKind::OFF } else { ChecksumKind(low8(bits::<40, 8>(self.prop()))) }
    }

    /// The compression of the payload.
    #[must_use]
    pub fn compress_kind(&self) -> CompressKind {
        CompressKind(low8(bits::<32, 7>(self.prop())))
    }

    /// Logical size in bytes: what the block decodes to.
    #[must_use]
    pub fn lsize_bytes(&self) -> u64 {
        if self.is_embedded() {
            bits::<0, 25>(self.prop()).saturating_add(1)
        } else {
            bits::<0, 16>(self.prop()).saturating_add(1).saturating_mul(512)
        }
    }

    /// Physical size in bytes: what the checksum covers. For embedded pointers the length of the payload.
    #[must_use]
    pub fn psize_bytes(&self) -> u64 {
        if self.is_embedded() {
            bits::<25, 7>(self.prop()).saturating_add(1)
        } else {
            bits::<16, 16>(self.prop()).saturating_add(1).saturating_mul(512)
        }
    }

    /// The address in slot `index` (0..3), `None` when the slot is unused or holds no address.
    ///
    /// Embedded pointers have none, and slot 2 of an encrypted pointer holds salt and IV.
    #[must_use]
    #[inline]
    pub fn dva(&self, index: usize) -> Option<Dva> {
        if self.is_embedded() || index > 2 || (index == 2 && self.is_encrypted()) {
            return None;
        }
        let first = index.checked_mul(2)?;
        let dva = Dva::from_words(*self.word.get(first)?, *self.word.get(first.checked_add(1)?)?).ok()?;
        (dva.asize_bytes != 0).then_some(dva)
    }

    /// The addresses in use, in order, with their slot numbers.
    pub fn dvas(&self) -> impl Iterator<Item = (usize, Dva)> + use<> {
        let pointer = *self;
        (0..3_usize).filter_map(move |index| pointer.dva(index).map(|dva| (index, dva)))
    }

    /// Space allocated on all vdevs together: what `zdb -b` adds to "bp allocated".
    #[must_use]
    pub fn asize_bytes(&self) -> u64 {
        self.dvas().fold(0_u64, |sum, (_, dva)| sum.saturating_add(dva.asize_bytes))
    }

    /// When the data was last changed.
    #[must_use]
    pub fn logical_birth_txg(&self) -> Txg {
        Txg(self.word[10])
    }

    /// When the copies were written: needed by gang headers, DTLs and expanded raidz.
    #[must_use]
    pub fn physical_birth_txg(&self) -> Txg {
        if self.is_embedded() {
            Txg(0)
        } else if self.word[9] == 0 {
            Txg(self.word[10])
        } else {
            Txg(self.word[9])
        }
    }

    /// The R bit: the block was copied to a new place without a logical change.
    #[must_use]
    pub fn is_rewritten(&self) -> bool {
        !self.is_embedded() && bits::<63, 1>(self.word[7]) == 1
    }

    /// The birth that snapshots and pruning go by (`BP_GET_BIRTH`).
    #[must_use]
    pub fn birth_txg(&self) -> Txg {
        if self.is_rewritten() { self.physical_birth_txg() } else { self.logical_birth_txg() }
    }

    /// How many blocks (or, in a tree of dnodes, objects) lie below. Embedded data counts as 1.
    #[must_use]
    pub fn fill_count(&self) -> u64 {
        if self.is_embedded() {
            1
        } else if self.is_encrypted() {
            bits::<0, 32>(self.word[11])
        } else {
            self.word[11]
        }
    }

    /// The stored checksum.
    #[must_use]
    pub fn checksum(&self) -> [u64; 4] {
        [self.word[12], self.word[13], self.word[14], self.word[15]]
    }

    /// The payload of an embedded pointer (still compressed): `psize_bytes` bytes.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when the pointer is not embedded data or claims more than 112 bytes.
    pub fn embedded_payload(&self) -> Result<Vec<u8>, FormatError> {
        if self.kind() != (BlkptrKind::Embedded { embedded_type: 0 }) {
            return Err(FormatError::bad_field("blkptr", "embedded type", bits::<40, 8>(self.prop()), "0 (data)"));
        }
        let psize = self.psize_bytes();
        if psize > EMBEDDED_BYTES_MAX {
            return Err(FormatError::bad_field("blkptr", "embedded psize", psize, "at most 112"));
        }
        let mut payload: Vec<u8> = Vec::with_capacity(BLKPTR_BYTES);
        for (index, word) in self.word.iter().enumerate() {
            if index != 6 && index != 10 {
                payload.extend_from_slice(&word.to_le_bytes());
            }
        }
        payload.truncate(usize::try_from(psize).unwrap_or(0));
        Ok(payload)
    }

    /// Checks what OpenZFS itself would reject before following a pointer: algorithms, type, sizes, addresses.
    ///
    /// Whether the addresses exist in this pool is for the vdev tree to say.
    ///
    /// # Errors
    /// [`FormatError::BadField`] naming the first field that is out of range.
    ///
    /// Source: OpenZFS module/zfs/zio.c, `zfs_blkptr_verify`.
    pub fn check(&self) -> Result<(), FormatError> {
        let bad = |field, found: u64, expected| Err(FormatError::bad_field("blkptr", field, found, expected));
        if !self.compress_kind().is_valid() {
            return bad("compression", self.compress_kind().0.into(), "below 17");
        }
        if !self.object_type().is_valid() {
            return bad("type", self.object_type().0.into(), "a known object type");
        }
        match self.kind() {
            BlkptrKind::Hole => Ok(()),
            BlkptrKind::Embedded { embedded_type } => {
                if !matches!(embedded_type, 0 | 2) {
                    return bad("embedded type", embedded_type.into(), "0 or 2");
                }
                if self.psize_bytes() > EMBEDDED_BYTES_MAX {
                    return bad("embedded psize", self.psize_bytes(), "at most 112");
                }
                if self.lsize_bytes() > MAX_BLOCK_BYTES {
                    return bad("lsize", self.lsize_bytes(), "at most 16 MiB");
                }
                Ok(())
            }
            BlkptrKind::Regular | BlkptrKind::Gang => {
                if !self.checksum_kind().is_valid() || self.checksum_kind().0 < ChecksumKind::OFF.0 {
                    return bad("checksum", self.checksum_kind().0.into(), "2 to 14");
                }
                if self.compress_kind().0 < CompressKind::OFF.0 {
                    return bad("compression", self.compress_kind().0.into(), "2 to 16");
                }
                if self.lsize_bytes() > MAX_BLOCK_BYTES || self.psize_bytes() > MAX_BLOCK_BYTES {
                    return bad("size", self.lsize_bytes().max(self.psize_bytes()), "at most 16 MiB");
                }
                if self.dvas().next().is_none() {
                    return bad("asize", 0, "at least one address in use");
                }
                Ok(())
            }
        }
    }
}

fn low8(value: u64) -> u8 {
    u8::try_from(value & 0xff).unwrap_or(0)
}

impl fmt::Debug for Blkptr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Blkptr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            BlkptrKind::Hole => write!(f, "hole L{} birth={}", self.level(), self.logical_birth_txg()),
            BlkptrKind::Embedded { .. } => write!(
                f,
                "embedded {:x}L/{:x}P {} {} birth={}",
                self.lsize_bytes(),
                self.psize_bytes(),
                self.compress_kind(),
                self.object_type(),
                self.logical_birth_txg()
            ),
            BlkptrKind::Regular | BlkptrKind::Gang => {
                for (index, dva) in self.dvas() {
                    write!(f, "DVA[{index}]=<{dva}> ")?;
                }
                write!(
                    f,
                    "L{} {} {:x}L/{:x}P {} {} birth={}/{} fill={}",
                    self.level(),
                    self.object_type(),
                    self.lsize_bytes(),
                    self.psize_bytes(),
                    self.checksum_kind(),
                    self.compress_kind(),
                    self.logical_birth_txg(),
                    self.physical_birth_txg(),
                    self.fill_count()
                )
            }
        }
    }
}
