//! One plain function per parser: it takes any bytes, and must return.
//!
//! Stable tests replay them over `corpus/` and over mutated seeds (`tests/replay.rs`); `fuzz_targets/` wraps them for cargo-fuzz.
//! [`TARGETS`] is the list of all.
#![allow(clippy::expect_used, reason = "a wrong answer of what is tested has to stop the run")]

mod codecs;
mod containers;
mod forge;
mod graft;
mod image;
mod input;
mod medium;
mod metadata;
pub mod mutate;
mod objects;
mod sealed;
pub mod seeds;
mod texts;

pub use codecs::{checksum, decompress, gang};
pub use containers::{ewf, qcow2, vdi, vmdk};
pub use forge::Forge;
pub use graft::{Graft, GraftBlock, Place};
pub use image::{label, labels, partitions, scrub_image};
pub use metadata::{blkptr, bpobj, bptree, brt, ddt, dsl_dataset, dsl_dir, history, nvlist, space_map, uberblock, zil};
pub use objects::{dnode, fat_zap, micro_zap, objset, sa, zap_leaf, znode};
pub use sealed::{ova, vhd, vhdx};
pub use texts::{rescue_map, saved_run};

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// All targets by name; the name is that of the file in `fuzz_targets/` and of the folder in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("blkptr", blkptr),
    ("bpobj", bpobj),
    ("bptree", bptree),
    ("brt", brt),
    ("checksum", checksum),
    ("ddt", ddt),
    ("decompress", decompress),
    ("dnode", dnode),
    ("dsl_dataset", dsl_dataset),
    ("dsl_dir", dsl_dir),
    ("ewf", ewf),
    ("fat_zap", fat_zap),
    ("gang", gang),
    ("history", history),
    ("label", label),
    ("labels", labels),
    ("micro_zap", micro_zap),
    ("nvlist", nvlist),
    ("objset", objset),
    ("ova", ova),
    ("partitions", partitions),
    ("qcow2", qcow2),
    ("rescue_map", rescue_map),
    ("sa", sa),
    ("saved_run", saved_run),
    ("scrub_image", scrub_image),
    ("space_map", space_map),
    ("uberblock", uberblock),
    ("vdi", vdi),
    ("vhd", vhd),
    ("vhdx", vhdx),
    ("vmdk", vmdk),
    ("zap_leaf", zap_leaf),
    ("zil", zil),
    ("znode", znode),
];
