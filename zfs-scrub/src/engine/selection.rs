//! The part of a pool that was asked for: names become object sets and objects before the walk begins.

use super::judge::Shared;
use super::walk::{Feed, FoundDataset, Walk};
use crate::error::ScrubError;
use crate::outcome::{NotChecked, NotCheckedReason};
use crate::scope::Scope;
use std::collections::{BTreeMap, BTreeSet};
use zfs_format::Txg;
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::{Dataset, DatasetMap, FileSystem};
use zfs_format::object::{ObjectError, ObjsetReader};
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::pool::Mos;

/// Directories below a path that is checked: more than any file system has.
const DIRECTORIES_MAX: usize = 1 << 26;

/// What of the pool's datasets is visited.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Only these datasets; all when there is no such list.
    datasets: Option<BTreeSet<u64>>,
    /// Objects of datasets that are not in the list.
    targets: Vec<Target>,
}

/// A file, or a directory with all below it.
#[derive(Clone, Debug)]
struct Target {
    /// As it was asked for.
    name: String,
    dataset: u64,
    root: Blkptr,
    object: u64,
}

impl Selection {
    /// Looks up what was asked for.
    pub(super) fn find(scope: &Scope, blocks: BlockReader<'_>, root: &Blkptr, pool: &str) -> Result<Self, ScrubError> {
        if scope.datasets.is_empty() && scope.paths.is_empty() {
            return Ok(Self::default());
        }
        let mut work = Work::default();
        let mut mos = Mos::open(blocks, root, &mut work).map_err(|error| ScrubError::NoNames(error.to_string()))?;
        let map = DatasetMap::load(&mut mos, pool, &mut work);
        let by_name: BTreeMap<String, &Dataset> =
            map.datasets.values().map(|dataset| (dataset.full_name(), dataset)).collect();
        let find = |name: &str| {
            by_name.get(name).copied().ok_or_else(|| ScrubError::NoSuchDataset {
                name: name.to_owned(),
                because: map
                    .problems
                    .first()
                    .map(|problem| format!("; some names cannot be read: {problem}"))
                    .unwrap_or_default(),
            })
        };
        let mut selection = Self::default();
        let datasets = selection.datasets.insert(BTreeSet::new());
        for name in &scope.datasets {
            datasets.insert(find(name)?.object);
        }
        for name in &scope.paths {
            let Some((dataset, path)) = name.split_once(':') else {
                return Err(ScrubError::NotAPath { name: name.clone() });
            };
            let dataset = find(dataset)?;
            let fail = |error: ObjectError| ScrubError::NoSuchPath { name: name.clone(), because: error.to_string() };
            let blocks = blocks.of_objset(dataset.object);
            let objset = ObjsetReader::open(blocks, &dataset.dsl.bp, &mut work)
                .map_err(|error| ScrubError::NoSuchPath { name: name.clone(), because: error.to_string() })?;
            let mut files = FileSystem::open(objset, &mut work).map_err(fail)?;
            let object = files.lookup(path, &mut work).map_err(fail)?.ok_or_else(|| ScrubError::NoSuchPath {
                name: name.clone(),
                because: "there is no such file or directory".into(),
            })?;
            let Dataset { object: objset, dsl, .. } = dataset;
            selection.targets.push(Target { name: name.clone(), dataset: *objset, root: dsl.bp, object });
        }
        Ok(selection)
    }

    /// Whether only a part of the datasets is visited.
    pub(super) fn is_partial(&self) -> bool {
        self.datasets.is_some()
    }

    /// The datasets to visit, each with the txg up to which others of them hold its blocks.
    pub(super) fn choose(&self, found: &[FoundDataset]) -> Vec<(FoundDataset, Txg)> {
        let Some(chosen) = &self.datasets else {
            return found.iter().map(|dataset| (*dataset, dataset.prev_snap_txg)).collect();
        };
        let by_object: BTreeMap<u64, &FoundDataset> = found.iter().map(|dataset| (dataset.object, dataset)).collect();
        let of_chosen = found.iter().filter(|dataset| chosen.contains(&dataset.object));
        of_chosen.map(|dataset| (*dataset, covered(dataset, chosen, &by_object))).collect()
    }

    /// Visits the objects that were asked for by path.
    pub(super) fn visit<F: Feed>(&self, walk: &mut Walk<'_, F>) -> Vec<NotChecked> {
        let mut not_checked = Vec::new();
        for target in &self.targets {
            if walk.shared.progress.is_cancelled() {
                break;
            }
            if let Err(error) = target.visit(walk) {
                not_checked.push(NotChecked {
                    reason: NotCheckedReason::BadParent,
                    what: format!("what lies below {}: {error}", target.name),
                    blocks: None,
                    bytes: None,
                });
            }
        }
        not_checked
    }
}

/// Up to which txg the blocks of a dataset are held by one before it that is visited, too.
fn covered(dataset: &FoundDataset, chosen: &BTreeSet<u64>, by_object: &BTreeMap<u64, &FoundDataset>) -> Txg {
    let mut at = dataset.prev_snap;
    // A chain that leads back to itself would go on for ever.
    for _ in 0..by_object.len() {
        let Some(snapshot) = at.and_then(|object| by_object.get(&object.0)) else { break };
        if chosen.contains(&snapshot.object) {
            return snapshot.creation_txg;
        }
        at = snapshot.prev_snap;
    }
    Txg(0)
}

impl Target {
    fn visit<F: Feed>(&self, walk: &mut Walk<'_, F>) -> Result<(), ObjectError> {
        let Shared { reader, .. } = walk.shared;
        let mut work = Work::default();
        let as_error = |_| ObjectError::NoObject { object: self.object };
        let objset = ObjsetReader::open(reader.of_objset(self.dataset), &self.root, &mut work).map_err(as_error)?;
        let mut files = FileSystem::open(objset, &mut work)?;
        let mut directories = BTreeSet::new();
        let mut pending = vec![self.object];
        let mut result = Ok(());
        while let Some(object) = pending.pop().filter(|_| !walk.shared.progress.is_cancelled()) {
            let dnode = match files.objset.dnode(object, &mut work) {
                Ok(Some(found)) => found.dnode,
                Ok(None) => continue,
                Err(error) => {
                    result = Err(error);
                    continue;
                }
            };
            // A directory that stands below itself would go on for ever.
            let is_directory = dnode.object_type == ObjectType::DIRECTORY;
            if is_directory && (directories.len() >= DIRECTORIES_MAX || !directories.insert(object)) {
                continue;
            }
            walk.object(self.dataset, object, &dnode);
            if is_directory {
                match files.entries(object, &mut work) {
                    Ok(entries) => pending.extend(entries.into_iter().rev().map(|(_, object)| object)),
                    Err(error) => result = Err(error),
                }
            }
        }
        result
    }
}
