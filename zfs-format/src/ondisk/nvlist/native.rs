//! The native encoding: an image of the writer's memory, nested lists after the pair that names them.

use super::{
    NvList, NvValue, WHAT, check_version, deeper, number, read, read_array, size_from, take, text, truncated, until_nul,
};
use crate::FormatError;
use byteorder::{ByteOrder, ReadBytesExt};

/// Bytes before the name in a pair.
const PAIR_HEADER_BYTES: usize = 16;

/// Reads a list without its outer header.
pub(super) fn parse<O: ByteOrder>(mut body: &[u8]) -> Result<NvList, FormatError> {
    check_version(read(&mut body, |r| r.read_i32::<O>())?)?;
    let flags = read(&mut body, |r| r.read_u32::<O>())?;
    pairs::<O>(&mut body, flags, 0)
}

/// Pairs up to a zero size. Calls itself through [`value`], at most to the depth limit.
fn pairs<O: ByteOrder>(rest: &mut &[u8], flags: u32, depth: usize) -> Result<NvList, FormatError> {
    let inner_depth = deeper(depth)?;
    let mut found = NvList { flags, pairs: Vec::new() };
    loop {
        let pair_start = *rest;
        let size_bytes = size_from("pair size", read(rest, |r| r.read_i32::<O>())?)?;
        if size_bytes == 0 {
            return Ok(found);
        }
        let pair = take(&mut { pair_start }, size_bytes)?;
        *rest = pair_start.get(size_bytes..).unwrap_or_default();
        let mut header = pair.get(4..).unwrap_or_default();
        let name_bytes = size_from("name size", read(&mut header, |r| r.read_i16::<O>())?.into())?;
        take(&mut header, 2)?;
        let count = size_from("element count", read(&mut header, |r| r.read_i32::<O>())?)?;
        let type_number = read(&mut header, |r| r.read_u32::<O>())?;
        let name = text(until_nul(take(&mut header, name_bytes)?));
        let value_offset = PAIR_HEADER_BYTES.saturating_add(name_bytes).next_multiple_of(8);
        // A boolean has no value, so its pair may end before the next multiple of eight would begin.
        let image = pair.get(value_offset..).unwrap_or_default();
        found.pairs.push((name, value::<O>(image, rest, type_number, count, inner_depth)?));
    }
}

/// Reads a value from its image in the pair; the pairs of lists come from `rest`, which follows the pair.
fn value<O: ByteOrder>(
    mut image: &[u8],
    rest: &mut &[u8],
    type_number: u32,
    count: usize,
    depth: usize,
) -> Result<NvValue, FormatError> {
    let cells = &mut image;
    Ok(match type_number {
        number::BOOLEAN => NvValue::Boolean,
        number::BOOLEAN_VALUE => NvValue::BooleanValue(read(cells, |r| r.read_u32::<O>())? != 0),
        number::BYTE => NvValue::Byte(read(cells, |r| r.read_u8())?),
        number::INT8 => NvValue::Int8(read(cells, |r| r.read_i8())?),
        number::UINT8 => NvValue::Uint8(read(cells, |r| r.read_u8())?),
        number::INT16 => NvValue::Int16(read(cells, |r| r.read_i16::<O>())?),
        number::UINT16 => NvValue::Uint16(read(cells, |r| r.read_u16::<O>())?),
        number::INT32 => NvValue::Int32(read(cells, |r| r.read_i32::<O>())?),
        number::UINT32 => NvValue::Uint32(read(cells, |r| r.read_u32::<O>())?),
        number::INT64 => NvValue::Int64(read(cells, |r| r.read_i64::<O>())?),
        number::UINT64 => NvValue::Uint64(read(cells, |r| r.read_u64::<O>())?),
        number::HRTIME => NvValue::Hrtime(read(cells, |r| r.read_i64::<O>())?),
        number::DOUBLE => NvValue::Double(read(cells, |r| r.read_f64::<O>())?),
        number::STRING => NvValue::String(text(until_nul(cells))),
        number::BYTE_ARRAY => NvValue::ByteArray(take(cells, count)?.to_vec()),
        number::BOOLEAN_ARRAY => NvValue::BooleanArray(read_array(cells, count, 4, |r| Ok(r.read_u32::<O>()? != 0))?),
        number::INT8_ARRAY => NvValue::Int8Array(read_array(cells, count, 1, |r| r.read_i8())?),
        number::UINT8_ARRAY => NvValue::Uint8Array(take(cells, count)?.to_vec()),
        number::INT16_ARRAY => NvValue::Int16Array(read_array(cells, count, 2, |r| r.read_i16::<O>())?),
        number::UINT16_ARRAY => NvValue::Uint16Array(read_array(cells, count, 2, |r| r.read_u16::<O>())?),
        number::INT32_ARRAY => NvValue::Int32Array(read_array(cells, count, 4, |r| r.read_i32::<O>())?),
        number::UINT32_ARRAY => NvValue::Uint32Array(read_array(cells, count, 4, |r| r.read_u32::<O>())?),
        number::INT64_ARRAY => NvValue::Int64Array(read_array(cells, count, 8, |r| r.read_i64::<O>())?),
        number::UINT64_ARRAY => NvValue::Uint64Array(read_array(cells, count, 8, |r| r.read_u64::<O>())?),
        number::STRING_ARRAY => NvValue::StringArray(strings(cells, count)?),
        number::NVLIST => NvValue::List(pairs::<O>(rest, list_flags::<O>(cells)?, depth)?),
        number::NVLIST_ARRAY => NvValue::ListArray(lists::<O>(cells, rest, count, depth)?),
        0 => return Err(FormatError::bad_field(WHAT, "data type", 0, "1 to 27")),
        _ => NvValue::Unknown { type_number, bytes: image.to_vec() },
    })
}

/// Zeroed pointers, eight bytes each, then the strings one after the other.
fn strings(cells: &mut &[u8], count: usize) -> Result<Vec<String>, FormatError> {
    take(cells, count.saturating_mul(8))?;
    // Each string takes at least its NUL.
    if count > cells.len() {
        return Err(truncated(count, cells.len()));
    }
    let found: Vec<String> = cells.split(|&byte| byte == 0).take(count).map(text).collect();
    if found.len() < count { Err(truncated(count, found.len())) } else { Ok(found) }
}

/// The image of a list in memory: version, flags, and 16 bytes that mean nothing on disk.
fn list_flags<O: ByteOrder>(cells: &mut &[u8]) -> Result<u32, FormatError> {
    check_version(read(cells, |r| r.read_i32::<O>())?)?;
    let flags = read(cells, |r| r.read_u32::<O>())?;
    take(cells, 16)?;
    Ok(flags)
}

/// Zeroed pointers, then the images of the lists; their pairs follow in the same order.
fn lists<O: ByteOrder>(
    cells: &mut &[u8],
    rest: &mut &[u8],
    count: usize,
    depth: usize,
) -> Result<Vec<NvList>, FormatError> {
    let need = count.saturating_mul(8 + 24);
    if need > cells.len() {
        return Err(truncated(need, cells.len()));
    }
    take(cells, count.saturating_mul(8))?;
    (0..count)
        .map(|_| {
            let flags = list_flags::<O>(cells)?;
            pairs::<O>(rest, flags, depth)
        })
        .collect()
}
