//! Bytes to bytes: one file per algorithm, one dispatch for each kind of codec.

pub mod checksum;
pub mod cipher;
pub mod compress;
pub mod parity;
