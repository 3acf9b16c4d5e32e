//! Reports: views of an `Outcome`, its findings, and the catalogue. They read nothing else.

mod config;
mod errors;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod json;
pub(crate) mod label;
pub(crate) mod page;
mod redundancy;
mod remembered;
#[cfg(test)]
mod samples;
pub(crate) mod states;
pub(crate) mod text;
pub(crate) mod units;

use zfs_scrub::Outcome;

/// How much a text report says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Findings and verdict alone.
    Quiet,
    /// What a person needs; floods are cut.
    #[default]
    Normal,
    /// Everything.
    Full,
}

/// A form in which an outcome can be written.
pub(crate) trait Report {
    /// The whole report, with the newline at its end.
    ///
    /// # Errors
    /// When the form cannot hold the outcome; text never fails.
    fn render(&self, outcome: &Outcome) -> Result<String, serde_json::Error>;
}
