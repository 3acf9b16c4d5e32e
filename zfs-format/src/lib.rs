//! The ZFS on-disk format, read-only.
//!
//! Bytes go one way through this crate: [`media`] says where bytes come from, [`vdev`] where a block's copies lie,
//! [`block`] turns a block pointer into verified plain bytes, [`object`] reads objects out of blocks, [`pool`] opens a
//! pool from its labels, and [`dataset`] names what is inside. [`ondisk`] (bytes to values, no I/O) and [`codec`]
//! (bytes to bytes) are the tools of all floors.
//!
//! Nothing here opens an input for writing, prints, or panics on any input.

pub mod block;
pub mod codec;
pub mod dataset;
pub mod endian;
pub mod error;
pub mod media;
pub mod object;
pub mod ondisk;
pub mod pool;
pub mod units;
pub mod vdev;

pub use endian::Endian;
pub use error::FormatError;
pub use units::{Guid, ObjectId, Txg};
