//! Newtypes that keep identities of different kinds apart, and sector arithmetic.

use crate::FormatError;
use std::fmt;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

newtype!(
    /// A transaction group number. Real pools start at 4 (`TXG_INITIAL`).
    Txg
);
newtype!(
    /// The number of an object inside an object set. Object 0 is never used.
    ObjectId
);
newtype!(
    /// A 64-bit identity of a pool, a vdev or a dataset.
    Guid
);

/// The smallest unit the format counts in: 512 bytes (`SPA_MINBLOCKSIZE`).
pub const SECTOR_BYTES: u64 = 512;

/// The largest block the format allows: 16 MiB (`SPA_MAXBLOCKSIZE`).
pub const MAX_BLOCK_BYTES: u64 = 16 << 20;

/// Turns a count of 512-byte sectors into bytes.
///
/// # Errors
/// [`FormatError::BadField`] when the product does not fit 64 bits.
pub fn sectors_to_bytes(what: &'static str, field: &'static str, sectors: u64) -> Result<u64, FormatError> {
    sectors.checked_mul(SECTOR_BYTES).ok_or(FormatError::bad_field(what, field, sectors, "at most 2^55 - 1 sectors"))
}
