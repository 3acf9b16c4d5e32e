//! Members that lie in the directories of `--search`.

use crate::args::InputArgs;
use crate::error::Failure;
use crate::open::{look, members_of, open};
use std::collections::BTreeSet;
use std::sync::Arc;
use zfs_format::Guid;
use zfs_format::media::{FileId, RateLimit};
use zfs_format::pool::{Assembly, Candidate, Selector};

/// Adds what `--search` finds of the pool that is meant; of all pools among the inputs when none of them is chosen.
///
/// Only members that the inputs do not hold are taken, each once: a disk and its partition, or two names of a device, are
/// one. What cannot be opened there is passed over, like everything that belongs to other pools.
pub(crate) fn add_members(
    mut candidates: Vec<Candidate>,
    input: &InputArgs,
    wanted: Option<&Selector>,
    limit: Option<&Arc<RateLimit>>,
) -> Result<Vec<Candidate>, Failure> {
    if input.search.is_empty() {
        return Ok(candidates);
    }
    let pools = match Assembly::from_candidates(candidates.clone(), wanted) {
        Ok(assembly) => BTreeSet::from([assembly.guid]),
        // What is missing may be why.
        Err(_) => candidates.iter().filter_map(pool_of).collect(),
    };
    let mut known: Vec<FileId> = candidates.iter().filter_map(|candidate| candidate.file).collect();
    let mut held: BTreeSet<Guid> = candidates.iter().filter_map(member_of).collect();
    let opener = input.opener();
    for directory in &input.search {
        for path in members_of(directory)? {
            let file = FileId::of(&path);
            if file.is_some_and(|file| known.contains(&file)) {
                continue;
            }
            known.extend(file);
            for found in open(&opener, &path, look(input), None, limit).unwrap_or_default() {
                let is_own = pool_of(&found).is_some_and(|pool| pools.contains(&pool));
                if is_own && member_of(&found).is_some_and(|member| held.insert(member)) {
                    candidates.push(found);
                }
            }
        }
    }
    Ok(candidates)
}

/// The pool that the newest label names.
fn pool_of(candidate: &Candidate) -> Option<Guid> {
    candidate.labels.best()?.pool_guid()
}

/// The member that the newest label says it is.
fn member_of(candidate: &Candidate) -> Option<Guid> {
    candidate.labels.best()?.valid_config()?.u64("guid").map(Guid)
}
