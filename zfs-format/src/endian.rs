//! Byte order, and the one door from bytes to values.

use crate::FormatError;
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, Unaligned};

/// The byte order in which a block was written. It belongs to the block, never to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// x86, ARM and most others.
    Little,
    /// SPARC, PowerPC.
    Big,
}

impl Endian {
    /// The byte order of the machine this runs on.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };

    /// The other byte order.
    #[must_use]
    pub fn swapped(self) -> Self {
        match self {
            Self::Little => Self::Big,
            Self::Big => Self::Little,
        }
    }

    /// Reads a u16 stored in this order.
    #[must_use]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Reads a u32 stored in this order.
    #[must_use]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Reads a u64 stored in this order.
    #[must_use]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Reads the u64 at `offset`, or `None` when the buffer ends before it does.
    #[must_use]
    pub fn u64_at(self, bytes: &[u8], offset: usize) -> Option<u64> {
        let end = offset.checked_add(8)?;
        bytes.get(offset..end)?.try_into().ok().map(|word| self.u64(word))
    }

    /// Reads the u32 at `offset`, or `None` when the buffer ends before it does.
    #[must_use]
    pub fn u32_at(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let end = offset.checked_add(4)?;
        bytes.get(offset..end)?.try_into().ok().map(|word| self.u32(word))
    }

    /// Reads the u16 at `offset`, or `None` when the buffer ends before it does.
    #[must_use]
    pub fn u16_at(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let end = offset.checked_add(2)?;
        bytes.get(offset..end)?.try_into().ok().map(|word| self.u16(word))
    }
}

/// A structure with a fixed layout on disk.
///
/// The raw form has alignment 1 and carries the byte order as a type parameter, so nothing is ever swapped in place.
pub trait OnDisk: Sized {
    /// The name errors use.
    const NAME: &'static str;
    /// The layout as stored.
    type Raw<O: ByteOrder>: FromBytes + KnownLayout + Immutable + Unaligned;

    /// Checks the fields once and turns them into native values.
    ///
    /// # Errors
    /// [`FormatError::BadField`] when a field holds a value the format does not allow.
    fn from_raw<O: ByteOrder>(raw: &Self::Raw<O>) -> Result<Self, FormatError>;

    /// Reads the structure at the start of `bytes`, written in the order `endian`.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when `bytes` is too short, and what [`OnDisk::from_raw`] reports.
    fn parse(bytes: &[u8], endian: Endian) -> Result<Self, FormatError> {
        fn typed<T: OnDisk, O: ByteOrder>(bytes: &[u8]) -> Result<T, FormatError> {
            match <T::Raw<O> as FromBytes>::ref_from_prefix(bytes) {
                Ok((raw, _)) => T::from_raw::<O>(raw),
                Err(_) => {
                    Err(FormatError::Truncated { what: T::NAME, need: size_of::<T::Raw<O>>(), have: bytes.len() })
                }
            }
        }
        match endian {
            Endian::Little => typed::<Self, zerocopy::LittleEndian>(bytes),
            Endian::Big => typed::<Self, zerocopy::BigEndian>(bytes),
        }
    }
}

/// Bits `LO .. LO + LEN` of a word.
#[must_use]
pub const fn bits<const LO: u32, const LEN: u32>(word: u64) -> u64 {
    let shifted = word >> LO;
    if LEN >= 64 { shifted } else { shifted & ((1 << LEN) - 1) }
}
