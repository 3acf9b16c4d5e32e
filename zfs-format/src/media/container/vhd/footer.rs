//! The footer of a VHD image, and its copy at the front.
//!
//! | offset | size | content |
//! | --- | --- | --- |
//! | 0 | 8 | `conectix` |
//! | 16 | 8 | where the header is; all ones in fixed images |
//! | 48 | 8 | current size of the disk |
//! | 60 | 4 | type: 2 fixed, 3 dynamic, 4 differencing |
//! | 64 | 4 | checksum |
//! | 68 | 16 | UUID |

use super::{be_u32, be_u64, checksum, uuid};
use crate::media::ReadAt;

pub(super) const FOOTER_BYTES: u64 = 512;
/// Programs before Virtual PC 2004 left out the last byte.
const OLD_FOOTER_BYTES: u64 = 511;
const COOKIE: &[u8] = b"conectix";
const CHECKSUM_AT: usize = 64;
/// A raw disk may end with the footer of an image that it holds: in a fixed image, what is between the disk and the
/// footer is less than what programs round sizes to.
const SLACK_BYTES_MAX: u64 = 1 << 20;

/// How an image stores the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fixed,
    Dynamic,
    Differencing,
}

/// An undamaged footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) kind: Kind,
    /// Where the header of a dynamic image is.
    pub(super) header_start: u64,
    pub(super) disk_bytes: u64,
    pub(super) uuid: [u8; 16],
}

impl Footer {
    fn parse(bytes: &[u8; FOOTER_BYTES as usize]) -> Option<Self> {
        let is_whole = bytes.starts_with(COOKIE) && be_u32(bytes, CHECKSUM_AT) == checksum(bytes, CHECKSUM_AT);
        let kind = match be_u32(bytes, 60) {
            2 => Kind::Fixed,
            3 => Kind::Dynamic,
            4 => Kind::Differencing,
            _ => return None,
        };
        let (header_start, disk_bytes) = (be_u64(bytes, 16), be_u64(bytes, 48));
        is_whole.then(|| Self { kind, header_start, disk_bytes, uuid: uuid(bytes, 68) })
    }
}

/// Whether `file` begins with something like a footer, damaged or not.
pub(super) fn begins_with(file: &dyn ReadAt) -> bool {
    let mut cookie = [0; COOKIE.len()];
    file.read_at(&mut cookie, 0).is_ok() && cookie == COOKIE
}

/// The copy of the footer at the front of `file`.
pub(super) fn at_front(file: &dyn ReadAt) -> Option<Footer> {
    let mut bytes = [0; FOOTER_BYTES as usize];
    file.read_at(&mut bytes, 0).ok()?;
    Footer::parse(&bytes)
}

/// The footer at the end of `file`.
pub(super) fn at_end(file: &dyn ReadAt) -> Option<Footer> {
    let start = data_end(file);
    let mut bytes = [0; FOOTER_BYTES as usize];
    let length = usize::try_from(file.size_bytes().saturating_sub(start)).ok()?;
    file.read_at(bytes.get_mut(..length)?, start).ok()?;
    let footer = Footer::parse(&bytes)?;
    let is_behind_its_disk = start.saturating_sub(footer.disk_bytes) < SLACK_BYTES_MAX;
    (footer.kind != Kind::Fixed || is_behind_its_disk).then_some(footer)
}

/// Where the footer at the end of `file` begins.
pub(super) fn data_end(file: &dyn ReadAt) -> u64 {
    let size = file.size_bytes();
    let length = if size % FOOTER_BYTES == OLD_FOOTER_BYTES { OLD_FOOTER_BYTES } else { FOOTER_BYTES };
    size.saturating_sub(length)
}
