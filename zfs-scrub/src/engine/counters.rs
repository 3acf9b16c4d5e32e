//! What all threads count.

use super::Bookmark;
use crate::outcome::Reading;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zfs_format::block::{Loaded, Redundancy, Role};
use zfs_format::vdev::{LeafId, VdevTree};

/// Counters of one device.
#[derive(Debug, Default)]
pub(super) struct LeafCounters {
    pub(super) read_errors: AtomicU64,
    pub(super) checksum_errors: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    /// Copies that are out of date, as its DTL says.
    pub(super) stale_copies: AtomicU64,
    /// Copies on this device that were not looked at because it was not given.
    pub(super) missing_copies: AtomicU64,
    pub(super) missing_bytes: AtomicU64,
    /// Copies and columns that were never rescued from it, as its map says.
    pub(super) unread_copies: AtomicU64,
    pub(super) unread_bytes: AtomicU64,
    /// Copies and columns that were read from it.
    pub(super) parts: AtomicU64,
    /// Blocks that cannot be read without this device, and could be with it alone.
    pub(super) unlocks: AtomicU64,
}

/// Counters of one top-level vdev.
#[derive(Debug, Default)]
pub(super) struct TopCounters {
    pub(super) read_errors: AtomicU64,
    pub(super) checksum_errors: AtomicU64,
    /// Blocks that lie on it.
    pub(super) blocks: AtomicU64,
    /// Those of which all it should hold is good.
    pub(super) full: AtomicU64,
    /// Those that the failure of one more device loses.
    pub(super) one_failure: AtomicU64,
    /// Those that are lost.
    pub(super) lost: AtomicU64,
    /// Blocks that cannot be read while nothing is known of this vdev, and could be with it.
    pub(super) unlocks: AtomicU64,
}

impl LeafCounters {
    /// All numbers, always in the same order.
    fn all(&self) -> [&AtomicU64; 10] {
        let Self {
            read_errors,
            checksum_errors,
            bytes_read,
            stale_copies,
            missing_copies,
            missing_bytes,
            unread_copies,
            unread_bytes,
            parts,
            unlocks,
        } = self;
        [
            read_errors,
            checksum_errors,
            bytes_read,
            stale_copies,
            missing_copies,
            missing_bytes,
            unread_copies,
            unread_bytes,
            parts,
            unlocks,
        ]
    }
}

impl TopCounters {
    /// All numbers, always in the same order.
    fn all(&self) -> [&AtomicU64; 7] {
        let Self { read_errors, checksum_errors, blocks, full, one_failure, lost, unlocks } = self;
        [read_errors, checksum_errors, blocks, full, one_failure, lost, unlocks]
    }
}

/// Counters of a run, or of a part of it.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) leaves: Vec<LeafCounters>,
    pub(super) tops: Vec<TopCounters>,
    pub(super) copies_verified: AtomicU64,
    pub(super) parity_verified: AtomicU64,
    pub(super) decoded_blocks: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) degraded_blocks: AtomicU64,
    pub(super) lost_blocks: AtomicU64,
    /// Blocks below lost indirect blocks, by their fill counts.
    pub(super) hidden_blocks: AtomicU64,
    /// Objects whose dnodes are lost, by the fill counts of the blocks that held them.
    pub(super) hidden_objects: AtomicU64,
    /// Copies that this version cannot judge, and their bytes.
    pub(super) unsupported_copies: AtomicU64,
    pub(super) unsupported_bytes: AtomicU64,
    /// Copies whose checksum needs the salt of a pool whose salt cannot be read, and their bytes.
    pub(super) unsalted_copies: AtomicU64,
    pub(super) unsalted_bytes: AtomicU64,
    /// Blocks with a checksum that verifies nothing.
    pub(super) unprotected_blocks: AtomicU64,
    /// Blocks that need a key to be decoded.
    pub(super) encrypted_blocks: AtomicU64,
    /// Leaf blocks that were looked at, and those with a bad copy.
    pub(super) leaf_blocks: AtomicU64,
    pub(super) bad_leaf_blocks: AtomicU64,
    /// Long requests, what they asked for, and what of that no block needed.
    pub(super) requests: AtomicU64,
    pub(super) requested_bytes: AtomicU64,
    pub(super) skipped_bytes: AtomicU64,
}

impl Counters {
    pub(super) fn new(tree: &VdevTree) -> Self {
        Self {
            leaves: tree.leaves.iter().map(|_| LeafCounters::default()).collect(),
            tops: tree.tops.iter().map(|_| TopCounters::default()).collect(),
            copies_verified: AtomicU64::new(0),
            parity_verified: AtomicU64::new(0),
            decoded_blocks: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            degraded_blocks: AtomicU64::new(0),
            lost_blocks: AtomicU64::new(0),
            hidden_blocks: AtomicU64::new(0),
            hidden_objects: AtomicU64::new(0),
            unsupported_copies: AtomicU64::new(0),
            unsupported_bytes: AtomicU64::new(0),
            unsalted_copies: AtomicU64::new(0),
            unsalted_bytes: AtomicU64::new(0),
            unprotected_blocks: AtomicU64::new(0),
            encrypted_blocks: AtomicU64::new(0),
            leaf_blocks: AtomicU64::new(0),
            bad_leaf_blocks: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            requested_bytes: AtomicU64::new(0),
            skipped_bytes: AtomicU64::new(0),
        }
    }

    /// All numbers, always in the same order.
    fn all(&self) -> Vec<&AtomicU64> {
        let Self {
            leaves,
            tops,
            copies_verified,
            parity_verified,
            decoded_blocks,
            bytes_read,
            degraded_blocks,
            lost_blocks,
            hidden_blocks,
            hidden_objects,
            unsupported_copies,
            unsupported_bytes,
            unsalted_copies,
            unsalted_bytes,
            unprotected_blocks,
            encrypted_blocks,
            leaf_blocks,
            bad_leaf_blocks,
            requests,
            requested_bytes,
            skipped_bytes,
        } = self;
        let of_devices = leaves.iter().flat_map(LeafCounters::all).chain(tops.iter().flat_map(TopCounters::all));
        let of_run = [
            copies_verified,
            parity_verified,
            decoded_blocks,
            bytes_read,
            degraded_blocks,
            lost_blocks,
            hidden_blocks,
            hidden_objects,
            unsupported_copies,
            unsupported_bytes,
            unsalted_copies,
            unsalted_bytes,
            unprotected_blocks,
            encrypted_blocks,
            leaf_blocks,
            bad_leaf_blocks,
            requests,
            requested_bytes,
            skipped_bytes,
        ];
        of_devices.chain(of_run).collect()
    }

    /// The numbers, to be saved. Some may be below zero, as what is counted in one place is corrected in another.
    pub(super) fn values(&self) -> Vec<u64> {
        self.all().into_iter().map(|counter| counter.load(Relaxed)).collect()
    }

    /// Adds numbers of the same pool.
    pub(super) fn add(&self, values: &[u64]) {
        for (counter, &value) in self.all().into_iter().zip(values) {
            // Wraps around, as it must where a number is below zero.
            counter.fetch_add(value, Relaxed);
        }
    }

    /// Long requests were made.
    pub(super) fn add_loaded(&self, loaded: &Loaded) {
        self.requests.fetch_add(loaded.requests, Relaxed);
        self.requested_bytes.fetch_add(loaded.bytes, Relaxed);
        self.skipped_bytes.fetch_add(loaded.skipped_bytes, Relaxed);
    }

    /// The requests that were made.
    pub(super) fn reading(&self) -> Reading {
        Reading {
            requests: self.requests.load(Relaxed),
            bytes: self.requested_bytes.load(Relaxed),
            skipped_bytes: self.skipped_bytes.load(Relaxed),
        }
    }

    /// A part of a copy was read from a device and judged.
    pub(super) fn add_verified(&self, leaf: LeafId, role: Role, bytes: u64) {
        match role {
            Role::Copy => self.add_copies(leaf, 1, bytes),
            Role::Data => self.add_cell(leaf, bytes),
            Role::Parity => {
                self.parity_verified.fetch_add(1, Relaxed);
                self.add_cell(leaf, bytes);
            }
        }
    }

    /// Whole copies, those of an extent for example, were read from a device and held against their checksums.
    pub(super) fn add_copies(&self, leaf: LeafId, copies: u64, bytes: u64) {
        self.copies_verified.fetch_add(copies, Relaxed);
        self.bytes_read.fetch_add(bytes, Relaxed);
        if let Some(leaf) = self.leaves.get(leaf.0) {
            leaf.bytes_read.fetch_add(bytes, Relaxed);
            leaf.parts.fetch_add(copies, Relaxed);
        }
    }

    fn add_cell(&self, leaf: LeafId, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Relaxed);
        if let Some(leaf) = self.leaves.get(leaf.0) {
            leaf.bytes_read.fetch_add(bytes, Relaxed);
            leaf.parts.fetch_add(1, Relaxed);
        }
    }

    /// A block has this redundancy.
    pub(super) fn add_redundancy(&self, redundancy: &Redundancy) {
        self.count_redundancy(redundancy, |counter| {
            counter.fetch_add(1, Relaxed);
        });
    }

    /// What was counted by [`Counters::add_redundancy`] did not hold.
    pub(super) fn take_redundancy(&self, redundancy: &Redundancy) {
        self.count_redundancy(redundancy, |counter| {
            counter.fetch_sub(1, Relaxed);
        });
    }

    fn count_redundancy(&self, redundancy: &Redundancy, change: impl Fn(&AtomicU64)) {
        for (vdev, is_full) in redundancy.vdevs() {
            let Some(top) = self.tops.get(vdev as usize) else { continue };
            change(&top.blocks);
            match redundancy.failures_to_lose() {
                0 => change(&top.lost),
                1 => change(&top.one_failure),
                _ => {}
            }
            if is_full {
                change(&top.full);
            }
        }
    }

    /// A copy lies on a vdev, or has a checksum, that this version cannot read.
    pub(super) fn add_unsupported(&self, bytes: u64) {
        self.unsupported_copies.fetch_add(1, Relaxed);
        self.unsupported_bytes.fetch_add(bytes, Relaxed);
    }

    /// A copy has a checksum that needs a salt, and the pool's cannot be read.
    pub(super) fn add_unsalted(&self, bytes: u64) {
        self.unsalted_copies.fetch_add(1, Relaxed);
        self.unsalted_bytes.fetch_add(bytes, Relaxed);
    }

    /// A copy on a device is out of date, as its DTL says.
    pub(super) fn add_stale(&self, leaf: LeafId) {
        if let Some(leaf) = self.leaves.get(leaf.0) {
            leaf.stale_copies.fetch_add(1, Relaxed);
        }
    }

    /// A block was lost that leads to others.
    pub(super) fn add_hidden(&self, bookmark: Bookmark, fill: u64) {
        // In the array of dnodes, and above it, the fill count is one of objects.
        let counter = if bookmark.object == 0 { &self.hidden_objects } else { &self.hidden_blocks };
        counter.fetch_add(fill, Relaxed);
    }

    /// A copy or column lies where nothing was rescued.
    pub(super) fn add_unread(&self, leaf: LeafId, bytes: u64) {
        if let Some(leaf) = self.leaves.get(leaf.0) {
            leaf.unread_copies.fetch_add(1, Relaxed);
            leaf.unread_bytes.fetch_add(bytes, Relaxed);
        }
    }

    pub(super) fn add_missing(&self, leaf: LeafId, copies: u64, bytes: u64) {
        if let Some(leaf) = self.leaves.get(leaf.0) {
            leaf.missing_copies.fetch_add(copies, Relaxed);
            leaf.missing_bytes.fetch_add(bytes, Relaxed);
        }
    }
}
