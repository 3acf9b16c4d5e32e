//! Leaves of a fat ZAP: a small hash table whose chains lead to entries, names and values in chunks of 24 bytes.
//!
//! Entries are read along the chains, as ZFS finds them. All chains of a leaf together can use each chunk once, so the
//! number of chunks bounds the walk: a leaf made to run in circles ends with an error.

use super::LEAF_BLOCK_TYPE;
use super::hash::KeyKind;
use crate::FormatError;
use crate::endian::{Endian, OnDisk};
use byteorder::{BigEndian, ByteOrder as _, LittleEndian, ReadBytesExt};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U16, U32, U64, Unaligned};

/// Magic of a leaf.
pub const LEAF_MAGIC: u32 = 0x2AB_1EAF;
/// Size of a chunk.
pub const CHUNK_BYTES: usize = 24;
/// Bytes of name or value in an array chunk.
const ARRAY_BYTES: usize = 21;
/// The chunk number that ends a chain.
const CHAIN_END: u16 = 0xffff;
const HEADER_BYTES: usize = 48;
const CHUNK_ENTRY: u8 = 252;
const CHUNK_ARRAY: u8 = 251;

const WHAT: &str = "zap leaf";

/// The header of `zap_leaf_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawLeafHeader<O: ByteOrder> {
    block_type: U64<O>,
    pad: U64<O>,
    prefix: U64<O>,
    magic: U32<O>,
    free_chunks: U16<O>,
    entry_count: U16<O>,
    prefix_len: U16<O>,
    free_list: U16<O>,
    flags: u8,
    pad2: [u8; 11],
}
const _: () = assert!(size_of::<RawLeafHeader<zerocopy::LittleEndian>>() == HEADER_BYTES);

/// The header of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafHeader {
    /// The top `prefix_len` bits of all hashes here.
    pub prefix: u64,
    /// Number of those bits.
    pub prefix_len: u16,
    /// Free chunks, as the writer counted.
    pub free_chunks: u16,
    /// Entries, as the writer counted.
    pub entry_count: u16,
    /// First free chunk.
    pub free_list: u16,
    /// 1: entries of equal hash are sorted by their `cd`.
    pub flags: u8,
}

impl OnDisk for LeafHeader {
    const NAME: &'static str = WHAT;
    type Raw<O: ByteOrder> = RawLeafHeader<O>;

    fn from_raw<O: ByteOrder>(raw: &RawLeafHeader<O>) -> Result<Self, FormatError> {
        if raw.block_type.get() != LEAF_BLOCK_TYPE {
            return Err(FormatError::bad_field(WHAT, "block type", raw.block_type.get(), "2^63"));
        }
        if raw.magic.get() != LEAF_MAGIC {
            return Err(FormatError::bad_field(WHAT, "magic", raw.magic.get().into(), "0x2ab1eaf"));
        }
        Ok(Self {
            prefix: raw.prefix.get(),
            prefix_len: raw.prefix_len.get(),
            free_chunks: raw.free_chunks.get(),
            entry_count: raw.entry_count.get(),
            free_list: raw.free_list.get(),
            flags: raw.flags,
        })
    }
}

/// `zap_leaf_phys_t`: one leaf, borrowed from its block.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0 | 48 | header |
/// | 48 | block / 16 | hash table: `block / 32` chunk numbers of two bytes |
/// | then | 24 each | chunks |
///
/// Source: OpenZFS include/sys/zap_leaf.h, `zap_leaf_phys_t` and the `ZAP_LEAF_*` macros.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// The header.
    pub header: LeafHeader,
    endian: Endian,
    buckets: &'a [u8],
    chunks: &'a [u8],
    bucket_shift: u32,
}

/// One name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// Text without its NUL, or the raw big-endian bytes of words.
    pub name: Vec<u8>,
    /// Size of each integer of the value: 1, 2, 4 or 8.
    pub integer_bytes: u8,
    /// The integers of the value, big endian whatever the byte order of the leaf.
    pub value: Vec<u8>,
    /// Hash of the name as stored.
    pub hash: u64,
    /// Tells apart names of equal hash.
    pub cd: u32,
}

impl LeafEntry {
    /// The integers of the value, widened to 64 bits.
    pub fn u64s(&self) -> impl ExactSizeIterator<Item = u64> {
        let size = usize::from(self.integer_bytes.clamp(1, 8));
        self.value.chunks_exact(size).map(move |bytes| BigEndian::read_uint(bytes, size))
    }

    /// The value when it is exactly one integer, of any size.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        let mut integers = self.u64s();
        if integers.len() == 1 { integers.next() } else { None }
    }
}

/// Reads the header of a leaf and finds its tables.
///
/// # Errors
/// [`FormatError::BadField`] when type or magic is wrong, when the block size is no power of two of at least 512, and
/// when the prefix is longer than a hash has bits left.
pub fn parse_leaf(block: &[u8], endian: Endian) -> Result<Leaf<'_>, FormatError> {
    let header = LeafHeader::parse(block, endian)?;
    let size = block.len();
    if !size.is_power_of_two() || size < 512 {
        let found = u64::try_from(size).unwrap_or(u64::MAX);
        return Err(FormatError::bad_field(WHAT, "block size", found, "a power of two, at least 512"));
    }
    let bucket_shift = size.trailing_zeros().saturating_sub(5);
    if bucket_shift.saturating_add(header.prefix_len.into()) > 64 {
        return Err(FormatError::bad_field(WHAT, "prefix length", header.prefix_len.into(), "room for the bucket"));
    }
    let table_bytes = size / 16;
    let (buckets, rest) =
        block.get(HEADER_BYTES..).unwrap_or_default().split_at_checked(table_bytes).unwrap_or_default();
    let chunk_count = (size.saturating_sub(table_bytes) / CHUNK_BYTES).saturating_sub(2);
    let chunks = rest.get(..chunk_count.saturating_mul(CHUNK_BYTES)).unwrap_or(rest);
    Ok(Leaf { header, endian, buckets, chunks, bucket_shift })
}

impl<'a> Leaf<'a> {
    /// Number of chunks.
    #[must_use]
    pub fn chunk_count(&self) -> usize {
        self.chunks.len() / CHUNK_BYTES
    }

    /// All entries, chain after chain. A chain that is broken yields an error and ends; the next one follows.
    #[must_use]
    pub fn entries(&self, keys: KeyKind) -> LeafEntries<'a> {
        self.walk(keys, 0..self.buckets.len() / 2)
    }

    /// The entries in the chain where a name with this hash must be.
    #[must_use]
    pub fn chain(&self, hash: u64, keys: KeyKind) -> LeafEntries<'a> {
        let bucket = usize::try_from(self.bucket_of(hash)).unwrap_or(0);
        self.walk(keys, bucket..bucket.saturating_add(1))
    }

    /// The bucket of a hash: the bits after the prefix.
    #[must_use]
    pub fn bucket_of(&self, hash: u64) -> u64 {
        let shift = 64_u32.saturating_sub(self.bucket_shift).saturating_sub(self.header.prefix_len.into());
        let mask = 1_u64.checked_shl(self.bucket_shift).unwrap_or(0).wrapping_sub(1);
        hash.checked_shr(shift).unwrap_or(0) & mask
    }

    fn walk(&self, keys: KeyKind, buckets: std::ops::Range<usize>) -> LeafEntries<'a> {
        LeafEntries { leaf: *self, keys, buckets, next_chunk: CHAIN_END, steps_left: self.chunk_count() }
    }

    fn chunk(&self, index: u16) -> Result<&'a [u8; CHUNK_BYTES], FormatError> {
        let start = usize::from(index).saturating_mul(CHUNK_BYTES);
        let bytes = self.chunks.get(start..).and_then(|rest| rest.first_chunk());
        bytes.ok_or(FormatError::bad_field(WHAT, "chunk", index.into(), "a chunk of this leaf"))
    }
}

/// An entry chunk; name and value are elsewhere.
struct EntryChunk {
    integer_bytes: u8,
    next: u16,
    name_chunk: u16,
    name_len: u16,
    value_chunk: u16,
    value_len: u16,
    cd: u32,
    hash: u64,
}

impl EntryChunk {
    /// The fields after the type byte. The only error is the end of the bytes, which a whole chunk does not have.
    fn read<O: byteorder::ByteOrder>(mut rest: &[u8]) -> std::io::Result<Self> {
        Ok(Self {
            integer_bytes: rest.read_u8()?,
            next: rest.read_u16::<O>()?,
            name_chunk: rest.read_u16::<O>()?,
            name_len: rest.read_u16::<O>()?,
            value_chunk: rest.read_u16::<O>()?,
            value_len: rest.read_u16::<O>()?,
            cd: rest.read_u32::<O>()?,
            hash: rest.read_u64::<O>()?,
        })
    }

    fn parse(chunk: &[u8; CHUNK_BYTES], endian: Endian) -> Result<Self, FormatError> {
        let [kind, rest @ ..] = chunk;
        if *kind != CHUNK_ENTRY {
            return Err(FormatError::bad_field(WHAT, "chunk type", (*kind).into(), "252 (entry)"));
        }
        let fields = match endian {
            Endian::Little => Self::read::<LittleEndian>(rest),
            Endian::Big => Self::read::<BigEndian>(rest),
        };
        fields.map_err(|_| FormatError::Truncated { what: WHAT, need: CHUNK_BYTES, have: rest.len() })
    }
}

/// Iterator over the entries of a leaf or of one chain.
#[derive(Clone, Debug)]
pub struct LeafEntries<'a> {
    leaf: Leaf<'a>,
    keys: KeyKind,
    buckets: std::ops::Range<usize>,
    next_chunk: u16,
    steps_left: usize,
}

impl LeafEntries<'_> {
    fn stop(&mut self) {
        self.next_chunk = CHAIN_END;
        self.buckets = 0..0;
    }

    /// Takes a step of the bounded walk to a chunk.
    fn visit(&mut self, index: u16) -> Result<&[u8; CHUNK_BYTES], FormatError> {
        match self.steps_left.checked_sub(1) {
            Some(left) => self.steps_left = left,
            None => {
                self.stop();
                return Err(FormatError::bad_field(WHAT, "chain", index.into(), "no chunk twice"));
            }
        }
        self.leaf.chunk(index)
    }

    /// Gathers `len` bytes from the chain of array chunks that starts at `index`.
    fn array(&mut self, mut index: u16, len: usize) -> Result<Vec<u8>, FormatError> {
        let room = self.leaf.chunk_count().saturating_mul(ARRAY_BYTES);
        if len > room {
            let found = u64::try_from(len).unwrap_or(u64::MAX);
            return Err(FormatError::bad_field(WHAT, "array length", found, "at most what the leaf holds"));
        }
        let endian = self.leaf.endian;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let &[kind, ref data @ .., next0, next1] = self.visit(index)?;
            if kind != CHUNK_ARRAY {
                return Err(FormatError::bad_field(WHAT, "chunk type", kind.into(), "251 (array)"));
            }
            let wanted = len.saturating_sub(bytes.len()).min(data.len());
            bytes.extend_from_slice(data.get(..wanted).unwrap_or_default());
            index = endian.u16([next0, next1]);
        }
        Ok(bytes)
    }

    fn entry(&mut self, chunk: &EntryChunk) -> Result<LeafEntry, FormatError> {
        if !matches!(chunk.integer_bytes, 1 | 2 | 4 | 8) {
            return Err(FormatError::bad_field(WHAT, "integer size", chunk.integer_bytes.into(), "1, 2, 4 or 8"));
        }
        if chunk.name_len == 0 {
            return Err(FormatError::bad_field(WHAT, "name length", 0, "at least 1"));
        }
        let name_unit = if self.keys == KeyKind::Words { 8 } else { 1 };
        let mut name = self.array(chunk.name_chunk, usize::from(chunk.name_len).saturating_mul(name_unit))?;
        if self.keys == KeyKind::Text && name.last() == Some(&0) {
            name.pop();
        }
        let value_bytes = usize::from(chunk.value_len).saturating_mul(chunk.integer_bytes.into());
        let value = self.array(chunk.value_chunk, value_bytes)?;
        Ok(LeafEntry { name, integer_bytes: chunk.integer_bytes, value, hash: chunk.hash, cd: chunk.cd })
    }
}

impl Iterator for LeafEntries<'_> {
    type Item = Result<LeafEntry, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.next_chunk == CHAIN_END {
            let bucket = self.buckets.next()?;
            // A bucket past the table is an empty one.
            let head = self.leaf.endian.u16_at(self.leaf.buckets, bucket.saturating_mul(2));
            self.next_chunk = head.unwrap_or(CHAIN_END);
        }
        let index = std::mem::replace(&mut self.next_chunk, CHAIN_END);
        let endian = self.leaf.endian;
        let chunk = self.visit(index).and_then(|bytes| EntryChunk::parse(bytes, endian));
        Some(chunk.and_then(|chunk| {
            self.next_chunk = chunk.next;
            self.entry(&chunk)
        }))
    }
}

#[cfg(test)]
mod tests;
