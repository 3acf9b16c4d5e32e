//! What waits for replay, in the JSON report.

use super::Identity;
use serde::Serialize;
use std::collections::BTreeMap;
use zfs_scrub::outcome::IntentLogFacts;

/// One intent log.
#[derive(Serialize)]
pub(super) struct IntentLogView<'a> {
    dataset: Option<&'a str>,
    objset: Identity,
    claimed: bool,
    blocks: u64,
    records: u64,
    operations: BTreeMap<&'static str, u64>,
    unreadable_records: u64,
    files: u64,
    files_cut: bool,
    written_bytes: u64,
    cloned_bytes: u64,
    oldest_txg: u64,
    newest_txg: u64,
    created: &'a [String],
    created_cut: bool,
}

impl<'a> From<&'a IntentLogFacts> for IntentLogView<'a> {
    fn from(log: &'a IntentLogFacts) -> Self {
        Self {
            dataset: log.dataset.as_deref(),
            objset: Identity(log.objset),
            claimed: log.is_claimed,
            blocks: log.blocks,
            records: log.records,
            operations: log.operations.iter().map(|(operation, count)| (operation.plural(), *count)).collect(),
            unreadable_records: log.unreadable_records,
            files: log.files,
            files_cut: log.files_are_cut,
            written_bytes: log.written_bytes,
            cloned_bytes: log.cloned_bytes,
            oldest_txg: log.oldest_txg,
            newest_txg: log.newest_txg,
            created: &log.created,
            created_cut: log.created_are_cut,
        }
    }
}
