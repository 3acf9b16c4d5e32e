//! From a block pointer to plain bytes: copies, checksums, decompression.
//!
//! [`BlockReader::read`] gives the first good copy; [`BlockReader::verify`] looks at every copy. Both count a copy as
//! good when its checksum holds; whether the payload decodes is told apart from that.

mod copies;
mod gang;
mod keys;
mod log;
mod protected;
mod redundancy;
mod split;
mod striped;
mod windows;

pub use keys::{DataKey, KeyRing};
pub use protected::MacState;
pub use redundancy::{Redundancy, Strength};
pub use windows::{Loaded, Windows};

use crate::codec::checksum::{self, SEVERAL_MAX, Salt};
use crate::codec::compress::Decompressor;
use crate::media::MediaError;
use crate::ondisk::blkptr::{Blkptr, BlkptrKind, Dva};
use crate::ondisk::dmu::{ChecksumKind, CompressKind, ObjectType};
use crate::units::MAX_BLOCK_BYTES;
use crate::vdev::{LeafId, VdevTree};
use crate::{Endian, FormatError};
use copies::Search;

/// What reading one copy of a block gave.
#[derive(Clone, Debug)]
pub enum CopyState {
    /// The checksum holds.
    Good,
    /// The bytes do not match the checksum.
    BadChecksum,
    /// The device did not give the bytes.
    Failed(MediaError),
    /// The device was not given, or disappeared during the run.
    Missing,
    /// It lies where an image holds nothing that was read from the disk, as its rescue map says.
    Unread,
    /// The bytes are not those of the block, on a device that is known to be out of date for its txg.
    Stale,
    /// The address lies outside the device or names no vdev.
    OutOfRange,
    /// The vdev type or the checksum algorithm is one this version cannot read.
    Unsupported(String),
    /// The copy cannot be put together from its parts; says why.
    Broken(String),
}

impl CopyState {
    /// True for bytes that match their checksum.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Good)
    }

    /// True when the copy says nothing about damage: its device is absent or out of date, its bytes were never rescued, or
    /// this version cannot read it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Missing | Self::Unread | Self::Stale | Self::Unsupported(_))
    }

    /// True when there is no device, or nothing of it was read there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Missing | Self::Unread)
    }
}

/// What a part of a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A whole copy.
    Copy,
    /// A data cell of a stripe.
    Data,
    /// A parity cell of a stripe.
    Parity,
}

/// One copy of a block on one device, or the part of it that lies there, and what reading it gave.
#[derive(Clone, Debug)]
pub struct CopyRead {
    /// Whole copy, data or parity.
    pub role: Role,
    /// Bytes that were read, or should have been.
    pub length_bytes: u64,
    /// Which of the pointer's addresses.
    pub copy: usize,
    /// The address.
    pub dva: Dva,
    /// The device, when the address leads to one.
    pub leaf: Option<LeafId>,
    /// Byte offset on the device.
    pub device_offset_bytes: Option<u64>,
    /// What reading gave.
    pub state: CopyState,
}

/// Why a block has no plain bytes.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum ReadError {
    /// The pointer itself is impossible.
    #[error("the block pointer is invalid: {0}")]
    Pointer(#[source] FormatError),
    /// No copy matches its checksum.
    #[error("no good copy among {}", copies.len())]
    NoGoodCopy { copies: Vec<CopyRead> },
    /// A copy matches its checksum, yet does not decode.
    #[error("the payload does not decode: {source}")]
    Undecodable { source: FormatError },
    /// The payload is encrypted.
    #[error("the block is encrypted and no key was given")]
    NoKey,
    /// Its checksum holds, yet it is not what was encrypted or authenticated with the dataset's key.
    #[error("the MAC of the block does not match its content")]
    WrongMac,
    /// Left out of a redacted send stream, by design.
    #[error("the block was redacted")]
    Redacted,
}

/// Buffers for reading blocks; one for each thread, reused from block to block.
#[derive(Debug, Default)]
pub struct Work {
    payload: Vec<u8>,
    spare: Vec<u8>,
    cells: Vec<u8>,
    plain: Vec<u8>,
    decompressor: Decompressor,
}

impl Work {
    /// The bytes of the block last read or verified, decoded. Empty when there are none.
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// A search for the copies of a block of `size` bytes, in these buffers.
    fn search(&mut self, size: usize, all: bool) -> Search<'_> {
        let Self { payload, spare, cells, .. } = self;
        Search { size, all, payload, spare, cells, is_found: false, copies: Vec::new(), strengths: Vec::new() }
    }

    /// Gives the bytes of the block last read away, for an empty buffer whose memory is used again.
    pub fn swap_plain(&mut self, other: &mut Vec<u8>) {
        other.clear();
        std::mem::swap(&mut self.plain, other);
    }

    /// Decodes a payload that was read and verified elsewhere; [`Work::plain`] then holds the block.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn decode(&mut self, bp: &Blkptr, payload: &[u8]) -> Result<(), FormatError> {
        decode(bp, payload, &mut self.plain, &mut self.decompressor)
    }
}

/// The answer of [`BlockReader::verify`].
#[derive(Clone, Debug)]
pub struct Verification {
    /// Every copy on every device, in the order of addresses, then of mirror sides or of cells.
    pub copies: Vec<CopyRead>,
    /// There are addresses, and none of them gives the right bytes.
    pub is_lost: bool,
    /// How many failures the block survives; means something only when all copies were looked at.
    pub redundancy: Redundancy,
    /// What its MACs say, which blocks of encrypted datasets have.
    pub mac: MacState,
    /// Whether [`Work::plain`] now holds the block, or why not.
    pub plain: Result<(), ReadError>,
}

impl CopyRead {
    /// A copy that no device gave.
    fn missing(copy: usize, dva: Dva) -> Self {
        Self {
            role: Role::Copy,
            length_bytes: 0,
            copy,
            dva,
            leaf: None,
            device_offset_bytes: None,
            state: CopyState::Missing,
        }
    }
}

/// A way to compute a checksum.
type Compute = fn(ChecksumKind, Endian, &[u8], Option<&Salt>) -> Result<checksum::Checksum, FormatError>;

/// Sees each part of a copy whose bytes are wrong: the part, its bytes, and the right ones where they are known.
pub type OnBad<'a> = &'a mut dyn FnMut(&CopyRead, &[u8], Option<&[u8]>);

impl Verification {
    fn without_copies(plain: Result<(), ReadError>) -> Self {
        Self { copies: Vec::new(), is_lost: false, redundancy: Redundancy::default(), mac: MacState::Unchecked, plain }
    }
}

/// Half of the checksum words hold a MAC.
fn is_mac_split(bp: &Blkptr) -> bool {
    bp.is_protected() && bp.object_type() != ObjectType::OBJSET
}

/// True when the payload is ciphertext that only a key could decode. Blocks of dnodes are readable in part without:
/// they are never compressed, and only their bonus areas are encrypted.
#[must_use]
pub fn needs_key(bp: &Blkptr) -> bool {
    bp.is_encrypted() && bp.object_type() != ObjectType::DNODE
}

/// Decodes `payload` into `plain`, which becomes lsize bytes long.
///
/// # Errors
/// What the decompressor reports; [`FormatError::BadField`] when a block stored as it is has the wrong size.
pub fn decode(
    bp: &Blkptr,
    payload: &[u8],
    plain: &mut Vec<u8>,
    decompressor: &mut Decompressor,
) -> Result<(), FormatError> {
    let lsize = bounded(bp.lsize_bytes())?;
    plain.resize(lsize, 0);
    decompressor.decompress(bp.compress_kind(), payload, plain)
}

/// A block size as a length, refused beyond the format's limit.
fn bounded(size: u64) -> Result<usize, FormatError> {
    usize::try_from(size).ok().filter(|_| size <= MAX_BLOCK_BYTES).ok_or(FormatError::bad_field(
        "blkptr",
        "size",
        size,
        "at most 16 MiB",
    ))
}

/// Reads blocks of one pool.
#[derive(Clone, Copy, Debug)]
pub struct BlockReader<'a> {
    tree: &'a VdevTree,
    salt: Option<&'a Salt>,
    keys: Option<&'a KeyRing>,
    objset: Option<u64>,
    windows: Option<&'a Windows>,
    /// Sets of devices are tried where a stripe lies.
    searches: bool,
}

impl<'a> BlockReader<'a> {
    /// A reader over the devices of `tree`, without the pool's salt: what needs that is unsupported.
    #[must_use]
    pub fn new(tree: &'a VdevTree) -> Self {
        Self { tree, salt: None, keys: None, objset: None, windows: None, searches: true }
    }

    /// The same reader with the pool's salt, as far as it is known.
    #[must_use]
    pub fn with_salt(self, salt: Option<&'a Salt>) -> Self {
        Self { salt, ..self }
    }

    /// The same reader with keys of encrypted datasets; they are used by [`BlockReader::of_objset`].
    #[must_use]
    pub fn with_keys(self, keys: Option<&'a KeyRing>) -> Self {
        Self { keys, ..self }
    }

    /// The same reader, that takes stripes as they are: it does not look for devices that lie. For a question that only a
    /// whole block answers, and that is asked often.
    #[must_use]
    pub fn without_search(self) -> Self {
        Self { searches: false, ..self }
    }

    /// The same reader, that looks for bytes in what was read ahead.
    #[must_use]
    pub fn with_windows(self, windows: &'a Windows) -> Self {
        Self { windows: Some(windows), ..self }
    }

    /// The same reader for the blocks of one object set, with its key if that is known.
    #[must_use]
    pub fn of_objset(self, objset: u64) -> Self {
        Self { objset: Some(objset), ..self }
    }

    /// True when the block's checksum needs a salt that is not known, so that nothing can be said of its copies.
    #[must_use]
    pub fn lacks_salt(&self, bp: &Blkptr) -> bool {
        bp.checksum_kind().is_salted() && self.salt.is_none()
    }

    /// The vdev tree it reads from.
    #[must_use]
    pub fn tree(&self) -> &'a VdevTree {
        self.tree
    }

    /// Reads the first good copy; [`Work::plain`] then holds the block.
    ///
    /// # Errors
    /// [`ReadError`] says why there are no plain bytes; bad copies are listed only when none is good.
    pub fn read(&self, bp: &Blkptr, work: &mut Work) -> Result<(), ReadError> {
        self.examine(bp, work, false, &mut |_, _, _| {}).plain
    }

    /// Reads every copy of a block. `on_bad` sees each part of one whose bytes are wrong.
    pub fn verify(&self, bp: &Blkptr, work: &mut Work, on_bad: OnBad<'_>) -> Verification {
        self.examine(bp, work, true, on_bad)
    }

    fn examine(&self, bp: &Blkptr, work: &mut Work, all: bool, on_bad: OnBad<'_>) -> Verification {
        work.plain.clear();
        if let Err(error) = bp.check() {
            return Verification::without_copies(Err(ReadError::Pointer(error)));
        }
        match bp.kind() {
            BlkptrKind::Hole => {
                let zeros = bounded(bp.lsize_bytes()).map_err(ReadError::Pointer);
                Verification::without_copies(zeros.map(|size| work.plain.resize(size, 0)))
            }
            BlkptrKind::Embedded { .. } => Verification::without_copies(read_embedded(bp, work)),
            BlkptrKind::Regular => {
                let verification = self.examine_copies(bp, work, all, on_bad);
                self.decoded(bp, work, verification)
            }
            BlkptrKind::Gang => {
                let verification = self.examine_gang(bp, work, all, on_bad);
                self.decoded(bp, work, verification)
            }
        }
    }

    /// Looks at the copies of a block that is no gang. The first good one is then in [`Work`]'s payload.
    fn examine_copies(&self, bp: &Blkptr, work: &mut Work, all: bool, on_bad: OnBad<'_>) -> Verification {
        let psize = match bp.check().and_then(|()| bounded(bp.psize_bytes())) {
            Ok(psize) => psize,
            Err(error) => return Verification::without_copies(Err(ReadError::Pointer(error))),
        };
        let mut search = work.search(psize, all);
        self.search(bp, &mut search, &mut |payload| self.judge(bp, payload), on_bad);
        let Search { is_found, copies, strengths, .. } = search;
        let plain = if is_found { Ok(()) } else { Err(ReadError::NoGoodCopy { copies: copies.clone() }) };
        Verification {
            copies,
            is_lost: !is_found,
            redundancy: Redundancy::new(&strengths),
            mac: MacState::Unchecked,
            plain,
        }
    }

    /// True when `payload` (exactly psize bytes, as on disk) matches the pointer's checksum.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for algorithms this version does not compute, for salted ones without a salt, and
    /// for a mismatch that says nothing: edonr of a big-endian host, which OpenZFS itself cannot verify elsewhere.
    pub fn payload_matches(&self, bp: &Blkptr, payload: &[u8]) -> Result<bool, FormatError> {
        self.compare(bp, payload, checksum::compute)
    }

    /// [`BlockReader::payload_matches`] of several blocks, those with `None` left out: true where it is sure. Faster than
    /// one after the other where [`checksum::compute_several`] is.
    #[must_use]
    pub fn payloads_match(&self, blocks: &[Option<(&Blkptr, &[u8])>; SEVERAL_MAX]) -> [bool; SEVERAL_MAX] {
        let is_joined = |bp: &Blkptr| bp.checksum_kind() == ChecksumKind::SHA256;
        let mut payloads = [&[][..]; SEVERAL_MAX];
        let mut count = 0;
        for (_, payload) in blocks.iter().flatten().filter(|(bp, _)| is_joined(bp)) {
            if let Some(target) = payloads.get_mut(count) {
                (*target, count) = (payload, count + 1);
            }
        }
        let joined = payloads.get(..count).filter(|joined| joined.len() > 1);
        let sums = joined.and_then(|joined| checksum::compute_several(ChecksumKind::SHA256, joined));
        let mut sums = sums.into_iter().flatten();
        blocks.map(|block| {
            let Some((bp, payload)) = block else { return false };
            if is_joined(bp)
                && let Some(sum) = sums.next()
            {
                return checksum::matches(ChecksumKind::SHA256, sum, bp.checksum(), is_mac_split(bp));
            }
            matches!(self.payload_matches(bp, payload), Ok(true))
        })
    }

    /// The same by the plain versions of the algorithms: the second opinion before a copy is called bad.
    ///
    /// # Errors
    /// As [`BlockReader::payload_matches`].
    pub fn payload_matches_plainly(&self, bp: &Blkptr, payload: &[u8]) -> Result<bool, FormatError> {
        self.compare(bp, payload, checksum::compute_plain)
    }

    fn compare(&self, bp: &Blkptr, payload: &[u8], compute: Compute) -> Result<bool, FormatError> {
        let kind = bp.checksum_kind();
        if kind.is_none() {
            return Ok(true);
        }
        let computed = compute(kind, bp.endian(), payload, self.salt)?;
        let matches = checksum::matches(kind, computed, bp.checksum(), is_mac_split(bp));
        if !matches && kind == ChecksumKind::EDONR && bp.endian() == Endian::Big {
            let feature = "edonr of a big-endian host, where it does not match".into();
            return Err(FormatError::Unsupported { what: "checksum", feature });
        }
        Ok(matches)
    }

    /// Compares a payload with the pointer's checksum; a mismatch is confirmed by the plain algorithm.
    fn judge(&self, bp: &Blkptr, payload: &[u8]) -> CopyState {
        let fast = self.payload_matches(bp, payload);
        match fast.and_then(|fast| Ok(fast || self.payload_matches_plainly(bp, payload)?)) {
            Ok(true) => CopyState::Good,
            Ok(false) => CopyState::BadChecksum,
            Err(error) => CopyState::Unsupported(error.to_string()),
        }
    }

    /// Decodes what was found.
    fn decoded(&self, bp: &Blkptr, work: &mut Work, mut verification: Verification) -> Verification {
        if verification.plain.is_ok() {
            match self.decode_own(bp, work) {
                Ok(mac) => verification.mac = mac,
                Err(error) => {
                    if matches!(error, ReadError::WrongMac) {
                        verification.mac = MacState::Wrong;
                    }
                    verification.plain = Err(error);
                }
            }
        }
        if verification.plain.is_err() {
            work.plain.clear();
        }
        verification
    }
}

fn read_embedded(bp: &Blkptr, work: &mut Work) -> Result<(), ReadError> {
    if bp.is_redacted() {
        return Err(ReadError::Redacted);
    }
    let payload = bp.embedded_payload().map_err(ReadError::Pointer)?;
    let result = if bp.compress_kind() == CompressKind::OFF {
        work.plain.clear();
        work.plain.extend_from_slice(&payload);
        bounded(bp.lsize_bytes()).map(|lsize| work.plain.resize(lsize, 0))
    } else {
        decode(bp, &payload, &mut work.plain, &mut work.decompressor)
    };
    result.map_err(|source| ReadError::Undecodable { source })
}
