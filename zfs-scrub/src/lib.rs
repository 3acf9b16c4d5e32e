//! Judges a ZFS pool offline.
//!
//! [`finding`] is the vocabulary: what can be wrong, where, and the evidence. [`outcome`] is what a run answers, and
//! [`options`] what was asked of it. The engine walks the pool once and pushes findings into a bounded sink; reports
//! read only these types.
//!
//! A damaged pool yields findings, never errors; what was not checked is always said.

mod engine;
mod error;
pub mod facts;
pub mod finding;
pub mod options;
pub mod outcome;
mod passes;
pub mod remembered;
pub mod resume;
pub mod scope;
pub mod survey;

pub use engine::{scrub, scrub_resumable};
pub use error::ScrubError;
pub use finding::{Finding, Kind, Severity};
pub use options::Options;
pub use outcome::Outcome;
