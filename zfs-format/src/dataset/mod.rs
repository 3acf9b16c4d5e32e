//! Names: datasets and snapshots of a pool, files of a file system.

mod dsl;
mod zpl;

pub use dsl::{Dataset, DatasetMap};
pub use zpl::{FileSystem, NamesSearch, PathError};
