//! Bytes to values: one file per noun of the format. No I/O, no state.
#![warn(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod blkptr;
pub mod dmu;
