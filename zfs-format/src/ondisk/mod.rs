//! Bytes to values: one file per noun of the format. No I/O, no state.
// Not in test builds: a test may panic, and its arithmetic is on values it chose.
#![cfg_attr(not(test), warn(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub mod blkptr;
pub mod bpobj;
pub mod bptree;
pub mod brt;
pub mod crypt;
pub mod ddt;
pub mod dmu;
pub mod dnode;
pub mod dsl;
pub mod errata;
pub mod error_log;
pub mod features;
pub mod history;
pub mod indirect;
pub mod l2arc;
pub mod label;
pub mod nvlist;
pub mod objset;
pub mod protect;
pub mod sa;
pub mod scan;
pub mod space_map;
pub mod uberblock;
pub mod zap;
pub mod zil;
pub mod znode;

#[cfg(test)]
mod testing;
