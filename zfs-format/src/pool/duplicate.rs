//! Two devices that claim to be one member: which is used, and what the other one is.

use super::assembly::Member;
use super::candidate::Candidate;
use super::labels::Label;
use crate::ondisk::uberblock::Uberblock;
use crate::{Guid, Txg};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a device is to another one that claims to be the same member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same file or block device under another name.
    SameFile,
    /// Another device in the same state: the newest uberblocks are equal. Whether its data is, is not known.
    SameState,
    /// An older copy: the device used went through its newest state, as its ring of uberblocks shows.
    Older,
    /// Older; the ring of the device used does not reach back to its newest state.
    PerhapsOlder,
    /// Neither is a copy of the other: both hold a state of this txg, and the states differ.
    Diverged(Txg),
}

/// A second device with the guid of a member.
#[derive(Clone, Debug)]
pub struct Duplicate {
    /// The path that is not used.
    pub path: String,
    /// The path that is.
    pub used: String,
    /// Newest txg on the one not used.
    pub txg: Txg,
    /// Newest txg on the one used.
    pub used_txg: Txg,
    /// What it is to the one used.
    pub relation: Relation,
}

impl Duplicate {
    /// Both are in the same txg, and their content differs: neither claim is better.
    #[must_use]
    pub fn is_rival(&self) -> bool {
        self.txg == self.used_txg && matches!(self.relation, Relation::Diverged(_))
    }
}

/// Keeps one device for each guid: the one with the best uberblock; among equals the one with more valid labels, then
/// the first.
pub(super) fn unique(candidates: Vec<(Candidate, Guid)>, pool: Guid) -> (Vec<Member>, Vec<Duplicate>) {
    let mut members: Vec<Member> = Vec::new();
    let mut left = Vec::new();
    for (candidate, guid) in candidates {
        let Candidate { path, medium, labels, file, .. } = candidate;
        let mut member = Member { path, medium, labels, guid, file };
        if let Some(used) = members.iter_mut().find(|used| used.guid == guid) {
            if rank(&member, pool, used) == Ordering::Greater {
                std::mem::swap(used, &mut member);
            }
            left.push(member);
        } else {
            members.push(member);
        }
    }
    let told = |member: &Member| {
        let used = members.iter().find(|used| used.guid == member.guid)?;
        let newest = |member| best(member, pool).map_or(Txg(0), |uberblock| uberblock.txg);
        Some(Duplicate {
            path: member.path.clone(),
            used: used.path.clone(),
            txg: newest(member),
            used_txg: newest(used),
            relation: relation(used, member, pool),
        })
    };
    let duplicates = left.iter().filter_map(told).collect();
    (members, duplicates)
}

fn rank(member: &Member, pool: Guid, other: &Member) -> Ordering {
    let by_uberblock = match (best(member, pool), best(other, pool)) {
        (Some(own), Some(other)) => own.cmp_best(other),
        (own, other) => own.is_some().cmp(&other.is_some()),
    };
    let valid = |member: &Member| member.labels.labels.iter().filter(|label| label.pool_guid() == Some(pool)).count();
    by_uberblock.then(valid(member).cmp(&valid(other)))
}

fn best(member: &Member, pool: Guid) -> Option<&Uberblock> {
    uberblocks(member, pool).max_by(|a, b| a.cmp_best(b))
}

fn uberblocks(member: &Member, pool: Guid) -> impl Iterator<Item = &Uberblock> {
    pool_labels(member, pool).flat_map(|label| label.uberblocks().map(|(_, uberblock)| uberblock))
}

/// Labels of a member that name the pool; when none of them has an uberblock, those whose configuration is lost. The
/// ring of a lost configuration may be that of another pool.
pub(super) fn pool_labels(member: &Member, pool: Guid) -> impl Iterator<Item = &Label> {
    let labels = &member.labels.labels;
    let is_own = move |label: &&Label| label.pool_guid() == Some(pool);
    let has_ring = labels.iter().filter(is_own).any(|label| label.uberblocks().next().is_some());
    labels.iter().filter(move |label| match label.pool_guid() {
        Some(guid) => guid == pool,
        None => !has_ring,
    })
}

/// States by txg: the checksum of the root tells them apart.
fn states(member: &Member, pool: Guid) -> BTreeMap<Txg, [u64; 4]> {
    uberblocks(member, pool).map(|uberblock| (uberblock.txg, uberblock.rootbp.checksum())).collect()
}

fn relation(used: &Member, left: &Member, pool: Guid) -> Relation {
    if used.file.is_some() && used.file == left.file && used.labels.size_bytes == left.labels.size_bytes {
        return Relation::SameFile;
    }
    let (used, left) = (states(used, pool), states(left, pool));
    let differs = |(txg, root): (&Txg, &[u64; 4])| used.get(txg).is_some_and(|other| other != root).then_some(*txg);
    if let Some(txg) = left.iter().find_map(differs) {
        return Relation::Diverged(txg);
    }
    match left.last_key_value() {
        Some((txg, root)) if used.last_key_value() == Some((txg, root)) => Relation::SameState,
        Some((txg, _)) if used.contains_key(txg) => Relation::Older,
        None if used.is_empty() => Relation::SameState,
        _ => Relation::PerhapsOlder,
    }
}
