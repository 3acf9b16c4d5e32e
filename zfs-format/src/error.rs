//! The error of the lowest floor: what can be wrong with bytes that claim to be a structure.

/// What can be wrong with bytes that claim to be a structure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum FormatError {
    /// The buffer ends before the structure does.
    #[error("{what}: needs {need} bytes, buffer has {have}")]
    Truncated { what: &'static str, need: usize, have: usize },
    /// A field holds a value the format does not allow.
    #[error("{what}: {field} is {found:#x}, expected {expected}")]
    BadField { what: &'static str, field: &'static str, found: u64, expected: &'static str },
    /// The format allows it, this library cannot read it.
    #[error("{what}: unsupported {feature}")]
    Unsupported { what: &'static str, feature: String },
}

impl FormatError {
    /// Shorthand for [`FormatError::BadField`].
    #[must_use]
    pub fn bad_field(what: &'static str, field: &'static str, found: u64, expected: &'static str) -> Self {
        Self::BadField { what, field, found, expected }
    }
}
