//! Why nothing could be checked.

use crate::resume::ResumeError;
use zfs_format::pool::AssemblyError;

/// Why a run could not begin. Damage is never a reason.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum ScrubError {
    /// The pool cannot be read by this version.
    #[error("{0}")]
    Assembly(#[from] AssemblyError),
    /// The names of datasets cannot be read.
    #[error("datasets cannot be chosen, since their names cannot be read: {0}")]
    NoNames(String),
    /// No dataset has this name.
    #[error("no dataset {name} in this pool (`zcheck info` lists them){because}")]
    NoSuchDataset { name: String, because: String },
    /// Not of the form `dataset:/path`.
    #[error("{name} is not of the form DATASET:/PATH or DATASET@SNAPSHOT:/PATH")]
    NotAPath { name: String },
    /// No file has this name.
    #[error("{name}: {because}")]
    NoSuchPath { name: String, because: String },
    /// The saved state of an earlier run does not fit this one.
    #[error("the saved state cannot be used: {0}")]
    Resume(#[from] ResumeError),
}
