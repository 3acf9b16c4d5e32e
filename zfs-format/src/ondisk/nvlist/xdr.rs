//! The XDR encoding: big endian, everything padded to four bytes, nested lists inside their pair.

use super::{
    NvList, NvValue, WHAT, check_version, deeper, number, read, read_array, size_from, take, text, truncated, until_nul,
};
use crate::FormatError;
use byteorder::{BigEndian, ReadBytesExt};

/// Reads a list without its outer header.
pub(super) fn parse(mut body: &[u8]) -> Result<NvList, FormatError> {
    list(&mut body, 0)
}

/// One list: version, flags, pairs, two zero words. Calls itself through [`value`], at most to the depth limit.
fn list(rest: &mut &[u8], depth: usize) -> Result<NvList, FormatError> {
    let inner_depth = deeper(depth)?;
    check_version(read(rest, |r| r.read_i32::<BigEndian>())?)?;
    let mut found = NvList { flags: read(rest, |r| r.read_u32::<BigEndian>())?, pairs: Vec::new() };
    loop {
        let pair_start = *rest;
        let encoded_bytes = size_from("encoded size", read(rest, |r| r.read_i32::<BigEndian>())?)?;
        let decoded_bytes = size_from("decoded size", read(rest, |r| r.read_i32::<BigEndian>())?)?;
        if encoded_bytes == 0 || decoded_bytes == 0 {
            return Ok(found);
        }
        // The size counts from itself; whatever the value leaves of it is skipped.
        let mut pair = take(&mut { pair_start }, encoded_bytes)?;
        *rest = pair_start.get(encoded_bytes..).unwrap_or_default();
        take(&mut pair, 8)?;
        let name = string(&mut pair)?;
        let type_number = read(&mut pair, |r| r.read_u32::<BigEndian>())?;
        let count = size_from("element count", read(&mut pair, |r| r.read_i32::<BigEndian>())?)?;
        found.pairs.push((name, value(&mut pair, type_number, count, inner_depth)?));
    }
}

fn string(rest: &mut &[u8]) -> Result<String, FormatError> {
    let length = size_from("string length", read(rest, |r| r.read_i32::<BigEndian>())?)?;
    Ok(text(until_nul(padded(rest, length)?)))
}

/// Takes `length` bytes and the padding after them; the padding of the last value may be missing.
fn padded<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], FormatError> {
    let bytes = take(rest, length)?;
    let padding = length.wrapping_neg() % 4;
    *rest = rest.get(padding..).unwrap_or_default();
    Ok(bytes)
}

/// Reads an array that carries its own count, in cells of four or eight bytes.
fn counted<'a, T>(
    rest: &mut &'a [u8],
    unit_bytes: usize,
    reader: impl FnMut(&mut &'a [u8]) -> std::io::Result<T>,
) -> Result<Vec<T>, FormatError> {
    let count = size_from("array count", read(rest, |r| r.read_i32::<BigEndian>())?)?;
    read_array(rest, count, unit_bytes, reader)
}

/// The low byte of a four-byte cell.
fn low_byte(rest: &mut &[u8]) -> std::io::Result<u8> {
    let [_, _, _, low] = rest.read_u32::<BigEndian>()?.to_be_bytes();
    Ok(low)
}

/// The low half of a four-byte cell.
fn low_half(rest: &mut &[u8]) -> std::io::Result<u16> {
    let [_, _, high, low] = rest.read_u32::<BigEndian>()?.to_be_bytes();
    Ok(u16::from_be_bytes([high, low]))
}

fn value(rest: &mut &[u8], type_number: u32, count: usize, depth: usize) -> Result<NvValue, FormatError> {
    type E = BigEndian;
    Ok(match type_number {
        number::BOOLEAN => NvValue::Boolean,
        number::BOOLEAN_VALUE => NvValue::BooleanValue(read(rest, |r| r.read_u32::<E>())? != 0),
        number::BYTE => NvValue::Byte(read(rest, low_byte)?),
        number::INT8 => NvValue::Int8(read(rest, low_byte)?.cast_signed()),
        number::UINT8 => NvValue::Uint8(read(rest, low_byte)?),
        number::INT16 => NvValue::Int16(read(rest, low_half)?.cast_signed()),
        number::UINT16 => NvValue::Uint16(read(rest, low_half)?),
        number::INT32 => NvValue::Int32(read(rest, |r| r.read_i32::<E>())?),
        number::UINT32 => NvValue::Uint32(read(rest, |r| r.read_u32::<E>())?),
        number::INT64 => NvValue::Int64(read(rest, |r| r.read_i64::<E>())?),
        number::UINT64 => NvValue::Uint64(read(rest, |r| r.read_u64::<E>())?),
        number::HRTIME => NvValue::Hrtime(read(rest, |r| r.read_i64::<E>())?),
        number::DOUBLE => NvValue::Double(read(rest, |r| r.read_f64::<E>())?),
        number::STRING => NvValue::String(string(rest)?),
        number::NVLIST => NvValue::List(list(rest, depth)?),
        number::BYTE_ARRAY => NvValue::ByteArray(padded(rest, count)?.to_vec()),
        number::BOOLEAN_ARRAY => NvValue::BooleanArray(counted(rest, 4, |r| Ok(r.read_u32::<E>()? != 0))?),
        number::INT8_ARRAY => NvValue::Int8Array(counted(rest, 4, |r| Ok(low_byte(r)?.cast_signed()))?),
        number::UINT8_ARRAY => NvValue::Uint8Array(counted(rest, 4, low_byte)?),
        number::INT16_ARRAY => NvValue::Int16Array(counted(rest, 4, |r| Ok(low_half(r)?.cast_signed()))?),
        number::UINT16_ARRAY => NvValue::Uint16Array(counted(rest, 4, low_half)?),
        number::INT32_ARRAY => NvValue::Int32Array(counted(rest, 4, |r| r.read_i32::<E>())?),
        number::UINT32_ARRAY => NvValue::Uint32Array(counted(rest, 4, |r| r.read_u32::<E>())?),
        number::INT64_ARRAY => NvValue::Int64Array(counted(rest, 8, |r| r.read_i64::<E>())?),
        number::UINT64_ARRAY => NvValue::Uint64Array(counted(rest, 8, |r| r.read_u64::<E>())?),
        // The smallest string takes 4 bytes, the smallest list 16.
        number::STRING_ARRAY => NvValue::StringArray(several(rest, count, 4, string)?),
        number::NVLIST_ARRAY => NvValue::ListArray(several(rest, count, 16, |r| list(r, depth))?),
        0 => return Err(FormatError::bad_field(WHAT, "data type", 0, "1 to 27")),
        _ => NvValue::Unknown { type_number, bytes: std::mem::take(rest).to_vec() },
    })
}

fn several<T>(
    rest: &mut &[u8],
    count: usize,
    bytes_min: usize,
    mut one: impl FnMut(&mut &[u8]) -> Result<T, FormatError>,
) -> Result<Vec<T>, FormatError> {
    let need = count.saturating_mul(bytes_min);
    if need > rest.len() {
        return Err(truncated(need, rest.len()));
    }
    (0..count).map(|_| one(rest)).collect()
}
