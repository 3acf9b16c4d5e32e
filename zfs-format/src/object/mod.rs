//! From object numbers to bytes, entries and attributes.

mod objset;
mod sa;
mod tree;
mod zap;

pub use objset::{ObjsetError, ObjsetReader};
pub use sa::AttributeReader;
pub use tree::ObjectReader;
pub use zap::{ZapEntry, ZapReader};

use crate::FormatError;
use crate::block::ReadError;

/// Why an object, or a part of it, cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum ObjectError {
    /// A block of it has no plain bytes.
    #[error("object {object}, level {level}, block {block}: {source}")]
    Block { object: u64, level: u8, block: u64, source: ReadError },
    /// A block of it reads well and makes no sense.
    #[error("object {object}: {source}")]
    Format { object: u64, source: FormatError },
    /// There is no such object.
    #[error("object {object} does not exist")]
    NoObject { object: u64 },
}
