//! The scrub itself: one walk over the pool feeds a queue, workers verify what it holds.
//!
//! `walk` reads metadata (every copy of it) and finds the leaf blocks; `queue` keeps those in a compact form and sorts
//! them by device offset; `verify` reads them in long requests and checks every copy; `judge` looks at one block
//! closely and turns what it sees into a finding; `names` gives findings their paths at the end.

mod batch;
mod checkpoint;
mod conclude;
mod counters;
mod crew;
mod files;
mod intent_log;
mod journal;
mod judge;
mod margin;
mod names;
mod patience;
mod patterns;
mod pending;
mod queue;
mod references;
mod remains;
mod run;
mod selection;
mod sharing;
mod spared;
mod state;
mod verify;
mod walk;
mod wave;

pub use run::{scrub, scrub_resumable};

use crate::finding::{LEVEL_OBJSET, LEVEL_ZIL};
use zfs_format::ondisk::blkptr::Blkptr;

/// The address of a block in the pool's logic (`zbookmark_phys_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bookmark {
    objset: u64,
    object: u64,
    level: i8,
    block: u64,
}

impl Bookmark {
    fn objset(objset: u64) -> Self {
        Self { objset, object: 0, level: LEVEL_OBJSET, block: 0 }
    }

    fn intent_log(objset: u64, seq: u64) -> Self {
        Self { objset, object: 0, level: LEVEL_ZIL, block: seq }
    }

    /// Data of a write that a log's record points to, as OpenZFS names it (`zil_read_log_data`).
    fn logged_data(objset: u64, object: u64, block: u64) -> Self {
        Self { objset, object, level: LEVEL_ZIL, block }
    }

    /// The bookmark of pointer `index` of this indirect block, each of which holds 2^`shift` pointers.
    fn child(self, index: u64, shift: u32) -> Self {
        let block = self.block.checked_shl(shift).unwrap_or(0).saturating_add(index);
        Self { level: self.level - 1, block, ..self }
    }
}

/// The level of the block a bookmark names must be that of its pointer.
fn level_matches(bookmark: Bookmark, bp: &Blkptr) -> bool {
    i16::from(bookmark.level.max(0)) == i16::from(bp.level())
}
