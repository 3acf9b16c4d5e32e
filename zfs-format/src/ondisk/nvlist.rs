//! Name-value lists: the configuration in labels and in the MOS, history records, SA xattrs, FUID tables.
//!
//! Two encodings exist and both are read in the order of their writer: XDR (always big endian) and native (an image of
//! the writer's memory). The layout is known only while walking, so the walk is done with byteorder's readers on a
//! shrinking slice. Every count is checked against the bytes that are left before anything is allocated.

mod native;
mod xdr;

use crate::FormatError;
use byteorder::{BigEndian, LittleEndian};

/// How deep lists may nest here. The configuration of a pool with a spare in use needs about 6.
///
/// OpenZFS has a limit of its own: module/nvpair/nvpair.c, `nvpair_max_recursion`.
pub const NVLIST_DEPTH_MAX: usize = 32;

const WHAT: &str = "nvlist";

/// The numbers of the data types.
///
/// Source: OpenZFS include/sys/nvpair.h, `data_type_t`.
mod number {
    pub(super) const BOOLEAN: u32 = 1;
    pub(super) const BYTE: u32 = 2;
    pub(super) const INT16: u32 = 3;
    pub(super) const UINT16: u32 = 4;
    pub(super) const INT32: u32 = 5;
    pub(super) const UINT32: u32 = 6;
    pub(super) const INT64: u32 = 7;
    pub(super) const UINT64: u32 = 8;
    pub(super) const STRING: u32 = 9;
    pub(super) const BYTE_ARRAY: u32 = 10;
    pub(super) const INT16_ARRAY: u32 = 11;
    pub(super) const UINT16_ARRAY: u32 = 12;
    pub(super) const INT32_ARRAY: u32 = 13;
    pub(super) const UINT32_ARRAY: u32 = 14;
    pub(super) const INT64_ARRAY: u32 = 15;
    pub(super) const UINT64_ARRAY: u32 = 16;
    pub(super) const STRING_ARRAY: u32 = 17;
    pub(super) const HRTIME: u32 = 18;
    pub(super) const NVLIST: u32 = 19;
    pub(super) const NVLIST_ARRAY: u32 = 20;
    pub(super) const BOOLEAN_VALUE: u32 = 21;
    pub(super) const INT8: u32 = 22;
    pub(super) const UINT8: u32 = 23;
    pub(super) const BOOLEAN_ARRAY: u32 = 24;
    pub(super) const INT8_ARRAY: u32 = 25;
    pub(super) const UINT8_ARRAY: u32 = 26;
    pub(super) const DOUBLE: u32 = 27;
}

/// A value in a list. Strings are lossily UTF-8.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of data_type_t")]
pub enum NvValue {
    /// A name without a value; being there is what it says.
    Boolean,
    BooleanValue(bool),
    Byte(u8),
    Int8(i8),
    Uint8(u8),
    Int16(i16),
    Uint16(u16),
    Int32(i32),
    Uint32(u32),
    Int64(i64),
    Uint64(u64),
    Double(f64),
    /// Nanoseconds.
    Hrtime(i64),
    String(String),
    List(NvList),
    ByteArray(Vec<u8>),
    BooleanArray(Vec<bool>),
    Int8Array(Vec<i8>),
    Uint8Array(Vec<u8>),
    Int16Array(Vec<i16>),
    Uint16Array(Vec<u16>),
    Int32Array(Vec<i32>),
    Uint32Array(Vec<u32>),
    Int64Array(Vec<i64>),
    Uint64Array(Vec<u64>),
    StringArray(Vec<String>),
    ListArray(Vec<NvList>),
    /// A type this library does not know, with the encoded bytes of its value.
    Unknown {
        type_number: u32,
        bytes: Vec<u8>,
    },
}

/// A list of pairs in stored order.
///
/// ```text
/// offset  size  content
/// 0       1     encoding: 0 native, 1 XDR
/// 1       1     byte order of the writer: 0 big, 1 little (decides for native, informs for XDR)
/// 2       2     zero
/// 4       ...   version (0), flags, pairs, end mark
/// ```
///
/// Source: OpenZFS include/sys/nvpair.h, `nvs_header_t`; module/nvpair/nvpair.c, `nvs_native_*` and `nvs_xdr_*`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NvList {
    /// 1: names are unique, 2: pairs of name and type are.
    pub flags: u32,
    pairs: Vec<(String, NvValue)>,
}

impl NvList {
    /// Reads the list at the start of `bytes`, outer header included. What follows its end mark is ignored.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when a size or a count reaches past the end, [`FormatError::BadField`] for an unknown
    /// encoding or byte order, a list version other than 0, a pair whose sizes contradict each other, and lists nested
    /// deeper than [`NVLIST_DEPTH_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let (&[encoding, endian, _, _], body) =
            bytes.split_first_chunk::<4>().ok_or_else(|| truncated(4, bytes.len()))?;
        match (encoding, endian) {
            (0, 0) => native::parse::<BigEndian>(body),
            (0, 1) => native::parse::<LittleEndian>(body),
            (1, _) => xdr::parse(body),
            (0, _) => Err(FormatError::bad_field(WHAT, "endian", endian.into(), "0 or 1")),
            _ => Err(FormatError::bad_field(WHAT, "encoding", encoding.into(), "0 or 1")),
        }
    }

    /// The first value under `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NvValue> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// The uint64 under `name`.
    #[must_use]
    pub fn u64(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            NvValue::Uint64(value) => Some(*value),
            _ => None,
        }
    }

    /// The string under `name`.
    #[must_use]
    pub fn str(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            NvValue::String(value) => Some(value),
            _ => None,
        }
    }

    /// The embedded list under `name`.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<&Self> {
        match self.get(name)? {
            NvValue::List(value) => Some(value),
            _ => None,
        }
    }

    /// The array of lists under `name`.
    #[must_use]
    pub fn lists(&self, name: &str) -> Option<&[Self]> {
        match self.get(name)? {
            NvValue::ListArray(value) => Some(value),
            _ => None,
        }
    }

    /// The uint64 array under `name`.
    #[must_use]
    pub fn u64s(&self, name: &str) -> Option<&[u64]> {
        match self.get(name)? {
            NvValue::Uint64Array(value) => Some(value),
            _ => None,
        }
    }

    /// The byte array under `name` (uint8 arrays too).
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.get(name)? {
            NvValue::ByteArray(value) | NvValue::Uint8Array(value) => Some(value),
            _ => None,
        }
    }

    /// True when `name` is there as a boolean without value, or as a boolean value that is true.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        matches!(self.get(name), Some(NvValue::Boolean | NvValue::BooleanValue(true)))
    }

    /// Names and values in stored order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NvValue)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// True when the list has no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

fn truncated(need: usize, have: usize) -> FormatError {
    FormatError::Truncated { what: WHAT, need, have }
}

/// Cuts `count` bytes off the front of `rest`.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], FormatError> {
    let (head, tail) = rest.split_at_checked(count).ok_or_else(|| truncated(count, rest.len()))?;
    *rest = tail;
    Ok(head)
}

/// Runs a byteorder reader on `rest`; the only error a slice can give is its end.
fn read<'a, T>(
    rest: &mut &'a [u8],
    reader: impl FnOnce(&mut &'a [u8]) -> std::io::Result<T>,
) -> Result<T, FormatError> {
    let have = rest.len();
    reader(rest).map_err(|_| truncated(size_of::<T>(), have))
}

/// Reads `count` values of `unit_bytes` each, having checked that they are there.
fn read_array<'a, T>(
    rest: &mut &'a [u8],
    count: usize,
    unit_bytes: usize,
    mut reader: impl FnMut(&mut &'a [u8]) -> std::io::Result<T>,
) -> Result<Vec<T>, FormatError> {
    let need = count.saturating_mul(unit_bytes);
    let mut cells = take(rest, need)?;
    (0..count).map(|_| read(&mut cells, &mut reader)).collect()
}

/// Refuses a list that lies deeper than the limit, and returns the depth of the lists inside it.
fn deeper(depth: usize) -> Result<usize, FormatError> {
    if depth >= NVLIST_DEPTH_MAX {
        let found = u64::try_from(depth).unwrap_or(u64::MAX);
        return Err(FormatError::bad_field(WHAT, "depth", found, "below 32"));
    }
    Ok(depth.saturating_add(1))
}

/// Checks the version of a list.
fn check_version(version: i32) -> Result<(), FormatError> {
    if version != 0 {
        return Err(FormatError::bad_field(WHAT, "version", version.cast_unsigned().into(), "0"));
    }
    Ok(())
}

/// A count or a size from disk that must not be negative.
fn size_from(field: &'static str, value: i32) -> Result<usize, FormatError> {
    usize::try_from(value)
        .map_err(|_| FormatError::bad_field(WHAT, field, value.cast_unsigned().into(), "not negative"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The part of `bytes` before the first NUL, or all of it.
fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
