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
}

impl Failure {
    /// Nothing could be checked, or an output could not be written.
    pub(crate) fn operational(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: exit::INCOMPLETE }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: exit::USAGE }
    }

    /// Somebody left at a prompt.
    pub(crate) fn cancelled(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: exit::CANCELLED | exit::INCOMPLETE }
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
