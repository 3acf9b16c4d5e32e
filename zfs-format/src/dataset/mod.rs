//! Names: datasets and snapshots of a pool, files of a file system.

mod dsl;
mod keys;
mod zpl;

pub use dsl::{Dataset, DatasetMap};
pub use keys::{EncryptedDatasets, GivenKey, UnlockError, unlock};
pub use zpl::{FileSystem, NamesSearch, PathError};
