//! Checks beside the walk over all blocks.

pub(crate) mod labels;
