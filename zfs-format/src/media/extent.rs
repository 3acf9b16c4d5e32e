//! What lies behind a byte of a medium: in which file it is stored, or why there is nothing.

use std::path::Path;
use std::sync::Arc;

/// What a range of a medium is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes that a file or device holds.
    Data,
    /// Bytes that a file holds in compressed form.
    Packed,
    /// Zeros that were written as such: a table says zero, and nothing is stored.
    Zero,
    /// Nothing was ever written here, or it was given back: reads as zeros.
    Hole,
    /// It cannot be told what was here.
    Unreadable {
        /// Why, such as a table that points beyond the end of its file.
        why: Arc<str>,
    },
}

impl Content {
    /// The word of reports.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Packed => "compressed",
            Self::Zero => "zero",
            Self::Hole => "hole",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Whether a file holds something for this range.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        matches!(self, Self::Data | Self::Packed)
    }
}

/// A range of a medium that is of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the offset asked for that are of this kind and, when they are data, lie in a row.
    pub length_bytes: u64,
    /// What they are.
    pub content: Content,
    /// The file that holds them, or whose table says that there is nothing; `None` where that has no name.
    pub file: Option<Arc<Path>>,
    /// Where in the file they begin; for compressed bytes the start of the compressed piece.
    pub file_offset_bytes: Option<u64>,
    /// How many images up the chain of parents (backing files) the answer was found; 0 is the image itself.
    pub layer: u32,
}

impl Extent {
    /// Bytes without a file of their own.
    #[must_use]
    pub fn data(length_bytes: u64) -> Self {
        Self { length_bytes, content: Content::Data, file: None, file_offset_bytes: None, layer: 0 }
    }

    /// The same with at most `length_bytes` bytes.
    #[must_use]
    pub fn at_most(mut self, length_bytes: u64) -> Self {
        self.length_bytes = self.length_bytes.min(length_bytes);
        self
    }
}
