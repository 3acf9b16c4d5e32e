//! Why the program could not do what was asked: one line on stderr, and an exit status.

use std::io;
use zfs_scrub::outcome::exit;

/// An error that ends the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What failed, where, and what to do about it; one line.
    pub(crate) message: String,
    /// The exit status.
    pub(crate) status: u8,
    /// The pool is one that this version cannot read: its labels are all that can be shown.
    pub(crate) is_unsupported: bool,
}

impl Failure {
    fn new(message: impl Into<String>, status: u8) -> Self {
        Self { message: message.into(), status, is_unsupported: false }
    }

    /// Nothing could be checked, or an output could not be written.
    pub(crate) fn operational(message: impl Into<String>) -> Self {
        Self::new(message, exit::INCOMPLETE)
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(message, exit::USAGE)
    }

    /// Somebody left at a prompt.
    pub(crate) fn cancelled(message: impl Into<String>) -> Self {
        Self::new(message, exit::CANCELLED | exit::INCOMPLETE)
    }

    /// The report could not be put into JSON.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        Self::operational(format!("cannot write the report as JSON: {error}"))
    }

    /// The report could not be written.
    pub(crate) fn output(error: &io::Error) -> Self {
        Self::operational(format!("cannot write to standard output: {error}"))
    }
}
