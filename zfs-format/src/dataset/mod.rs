//! Names: datasets and snapshots of a pool, files of a file system.

mod dsl;
mod errata;
mod keys;
mod zpl;

pub use dsl::{Dataset, DatasetMap};
pub use errata::errata;
pub use keys::{EncryptedDatasets, GivenKey, KeyFacts, KeyProblem, UnlockError, unlock};
pub use zpl::{FileSystem, NamesSearch, PathError};
