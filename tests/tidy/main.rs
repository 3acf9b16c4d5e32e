//! House rules that a machine can check: it reads the sources, and says file and line of what breaks one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod manifests;
mod rooms;
mod sources;
mod tree;
