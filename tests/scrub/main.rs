//! Scrubs of pools made by OpenZFS, held against what `zdb` and `zpool scrub` say of them.
//!
//! The pools of `fixtures/images` are always checked; those of `../shared/pools` where that folder is there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod activity;
mod cases;
mod classes;
mod contents;
mod devices;
mod encryption;
mod evidence;
#[cfg(target_os = "linux")]
mod fault_filter;
mod identity;
mod intent_logs;
mod partitions;
mod resume;
mod salt;
mod scope;
mod shared_blocks;
mod slow_device;
mod support;
mod threads;
mod topology;
mod totals;
