//! Gives findings their names: dataset, path, byte range, and every other place that shares the block.
//!
//! This runs after the walk, for the findings that were kept, and reads only what they need. A block that the walk
//! reached through the oldest snapshot lives on in later ones, in heads and in clones as long as their pointer at the
//! same place is the same pointer; so the pointer is looked up in each of them.

use super::judge::is_spill;
use super::patience::Patience;
use crate::finding::{Finding, LEVEL_OBJSET, Place, Severity};
use std::collections::{BTreeMap, BTreeSet};
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::{Dataset, DatasetMap, FileSystem, PathError};
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ObjectType;
use zfs_format::ondisk::dnode::DNODE_SLOT_BYTES;
use zfs_format::ondisk::objset::OsType;

/// Lookups of one block in one dataset, in all; beyond this only the dataset the walk came through is named.
const LOOKUPS_MAX: usize = 200_000;

/// Names kept of the files that one lost block hides.
const HIDDEN_PATHS_MAX: usize = 1000;
/// The same over all findings.
const HIDDEN_PATHS_IN_ALL_MAX: usize = 50_000;

/// What ends the search for names.
struct Limits {
    patience: Patience,
    /// Names that may yet be kept of files which lost blocks hide.
    hidden_left: usize,
}

/// What a dataset knows of one damaged object.
#[derive(Clone, Debug, Default)]
struct ObjectNames {
    /// Path by way of its parents, the name ZFS would give.
    path: Option<String>,
    /// All other paths.
    links: Vec<String>,
    /// Why there is no path.
    because: Option<String>,
    /// Size of the file.
    size_bytes: Option<u64>,
}

/// Where a finding's block was found to be held.
#[derive(Clone, Debug)]
struct Holder<'a> {
    dataset: &'a Dataset,
    /// First byte and length of what the block holds or hides; none for blocks that hold no file data.
    range: Option<(u64, u64)>,
}

/// Names all findings about blocks of datasets. Answers with the number of those that were not, or not in full, since the
/// time was over.
pub(super) fn name_findings(
    findings: &mut [Finding],
    blocks: BlockReader<'_>,
    map: &DatasetMap,
    patience: Patience,
    work: &mut Work,
) -> u64 {
    let mut by_owner: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, finding) in findings.iter().enumerate() {
        if let Some(objset) = finding.place.objset.filter(|&objset| objset != 0) {
            by_owner.entry(objset).or_default().push(index);
        }
    }
    let mut lookups = 0_usize;
    let mut limits = Limits { patience, hidden_left: HIDDEN_PATHS_IN_ALL_MAX };
    let mut cut = 0_u64;
    for (owner, indices) in by_owner {
        let mut family = map.descendants(owner);
        lookups = lookups.saturating_add(family.len().saturating_mul(indices.len()));
        if lookups > LOOKUPS_MAX {
            family.retain(|dataset| dataset.object == owner);
            for &index in &indices {
                if let Some(finding) = findings.get_mut(index) {
                    finding.message.push_str("; other places that share the block were not looked for: too many");
                }
            }
        }
        name_family(findings, &indices, owner, &family, blocks, work, &mut limits);
        if patience.is_over() {
            cut += indices.len() as u64;
            let unnamed = |finding: &&mut Finding| finding.place.dataset.is_none();
            for &index in &indices {
                if let Some(finding) = findings.get_mut(index).filter(unnamed) {
                    finding.place.no_path_because = Some("its name was not looked for: the time was over".into());
                }
            }
        }
    }
    cut
}

fn name_family(
    findings: &mut [Finding],
    indices: &[usize],
    owner: u64,
    family: &[&Dataset],
    blocks: BlockReader<'_>,
    work: &mut Work,
    limits: &mut Limits,
) {
    let patience = limits.patience;
    let mut holders: BTreeMap<usize, Vec<Holder<'_>>> = BTreeMap::new();
    let mut names: BTreeMap<(u64, u64), ObjectNames> = BTreeMap::new();
    for dataset in family {
        if patience.is_over() {
            break;
        }
        let Ok(mut objset) = ObjsetReader::open(blocks.of_objset(dataset.object), &dataset.dsl.bp, work) else {
            // An object set that cannot be read is itself a finding of the dataset that owns it.
            for &index in indices.iter().filter(|_| dataset.object == owner) {
                holders.entry(index).or_default().push(Holder { dataset, range: None });
            }
            continue;
        };
        let os_type = objset.objset.os_type;
        let mut objects = BTreeSet::new();
        for &index in indices {
            if patience.is_over() {
                break;
            }
            let Some(finding) = findings.get(index) else { continue };
            let is_owner = dataset.object == owner;
            if is_owner || holds(&mut objset, dataset, finding, work) {
                let range = range_of(&mut objset, &finding.place, work);
                holders.entry(index).or_default().push(Holder { dataset, range });
                objects.extend(finding.place.object.filter(|&object| object != 0));
            }
        }
        if os_type == OsType::ZFS {
            let found = names_in(objset, &objects, patience, work);
            names.extend(found.into_iter().map(|(object, found)| ((dataset.object, object), found)));
        }
    }
    for (index, mut holders) in holders {
        let Some(finding) = findings.get_mut(index) else { continue };
        order(&mut holders, owner, family);
        fill_place(&mut finding.place, &holders, &names);
        let hides_dnodes = finding.place.object == Some(0) && finding.severity == Severity::Damaged;
        if let Some(holder) = holders.first().filter(|_| hides_dnodes) {
            let (paths, is_cut) = hidden_paths(holder.dataset, &finding.place, blocks, work, limits);
            limits.hidden_left -= paths.len();
            finding.hidden_paths = paths;
            if is_cut {
                finding.message.push_str("; more files are lost with it than are listed");
            }
        }
    }
}

/// Files whose dnodes lie in, or below, a lost block of the array of dnodes: directories still name them.
/// At most as many as are left; the second answer tells that there are more.
fn hidden_paths(
    dataset: &Dataset,
    place: &Place,
    blocks: BlockReader<'_>,
    work: &mut Work,
    limits: &Limits,
) -> (Vec<String>, bool) {
    let nothing = (Vec::new(), false);
    let (Some(Ok(level)), Some(block)) = (place.level.map(u8::try_from), place.block) else { return nothing };
    let Ok(objset) = ObjsetReader::open(blocks.of_objset(dataset.object), &dataset.dsl.bp, work) else {
        return nothing;
    };
    let meta = &objset.objset.meta_dnode;
    let per_block = u64::from(meta.data_block_bytes) / DNODE_SLOT_BYTES as u64;
    let span = meta.level_span(level).saturating_mul(per_block);
    let first = block.saturating_mul(span);
    let range = first..first.saturating_add(span);
    let Ok(mut file_system) = FileSystem::open(objset, work) else { return nothing };
    let (wanted, names_max) = (|object| range.contains(&object), HIDDEN_PATHS_MAX.min(limits.hidden_left));
    let search = file_system.search_names(&wanted, names_max, &|| limits.patience.is_over(), work);
    let mut paths: Vec<String> = search.paths.into_values().flatten().collect();
    paths.sort();
    (paths, search.is_cut)
}

/// Live data sets first, that of the owner's own chain at the very front; then snapshots, the newest first.
fn order(holders: &mut [Holder<'_>], owner: u64, family: &[&Dataset]) {
    let home = family.iter().find(|dataset| dataset.object == owner).map(|dataset| dataset.name.as_str());
    holders.sort_by_key(|holder| {
        let is_home = Some(holder.dataset.name.as_str()) == home;
        let age = std::cmp::Reverse(holder.dataset.dsl.creation_txg);
        (holder.dataset.snapshot.is_some(), !is_home, holder.dataset.name.clone(), age)
    });
}

/// True when the same pointer stands at the same place in `dataset`.
fn holds(objset: &mut ObjsetReader<'_>, dataset: &Dataset, finding: &Finding, work: &mut Work) -> bool {
    let Some(wanted) = finding.pointer else { return false };
    let same = |found: &Blkptr| {
        found.dva(0) == wanted.dva(0)
            && found.birth_txg() == wanted.birth_txg()
            && found.checksum() == wanted.checksum()
            && found.is_embedded() == wanted.is_embedded()
    };
    let place = &finding.place;
    let (Some(object), Some(level), Some(block)) = (place.object, place.level, place.block) else { return false };
    if level == LEVEL_OBJSET {
        return same(&dataset.dsl.bp);
    }
    let Ok(level) = u8::try_from(level) else { return false };
    let found = if object == 0 {
        objset.meta_blkptr(level, block, work)
    } else {
        objset.object(object, work).and_then(|mut reader| {
            if is_spill(block) { Ok(reader.dnode.dnode.spill) } else { reader.blkptr(level, block, work) }
        })
    };
    matches!(found, Ok(Some(found)) if same(&found))
}

/// The bytes of the object that the block holds, or hides when it is an indirect block.
fn range_of(objset: &mut ObjsetReader<'_>, place: &Place, work: &mut Work) -> Option<(u64, u64)> {
    let (object, level, block) = (place.object?, u8::try_from(place.level?).ok()?, place.block?);
    if object == 0 || is_spill(block) {
        return None;
    }
    let dnode = objset.dnode(object, work).ok()??.dnode;
    if !matches!(dnode.object_type, ObjectType::PLAIN_FILE | ObjectType::ZVOL) {
        return None;
    }
    let span = dnode.level_span(level).saturating_mul(dnode.data_block_bytes.into());
    let start = block.checked_mul(span)?;
    let end = dnode.max_blkid.saturating_add(1).saturating_mul(dnode.data_block_bytes.into());
    Some((start, span.min(end.saturating_sub(start))))
}

/// Paths and sizes of the given objects of one file system.
fn names_in(
    objset: ObjsetReader<'_>,
    objects: &BTreeSet<u64>,
    patience: Patience,
    work: &mut Work,
) -> BTreeMap<u64, ObjectNames> {
    let mut file_system = match FileSystem::open(objset, work) {
        Ok(file_system) => file_system,
        Err(error) => {
            let because = Some(error.to_string());
            return objects
                .iter()
                .map(|&object| (object, ObjectNames { because: because.clone(), ..ObjectNames::default() }))
                .collect();
        }
    };
    let mut names = BTreeMap::new();
    let mut linked = BTreeSet::new();
    for &object in objects {
        let mut found = ObjectNames::default();
        if patience.is_over() {
            found.because = Some("its name was not looked for: the time was over".into());
            names.insert(object, found);
            continue;
        }
        match file_system.path_of(object, work) {
            Ok(path) => found.path = Some(path),
            // An object that is no file is not expected to have a path.
            Err(PathError::NotAFile) => {}
            Err(error) => found.because = Some(error.to_string()),
        }
        let attributes = file_system.attributes(object, work).ok();
        found.size_bytes = attributes.as_ref().and_then(|attributes| attributes.size);
        // More links than the parent can tell, or a parent that does not list it: look through all directories.
        let links = attributes.and_then(|attributes| attributes.links).unwrap_or(0);
        let is_directory = matches!(file_system.objset.dnode(object, work),
            Ok(Some(dnode)) if dnode.dnode.object_type == ObjectType::DIRECTORY);
        let is_file = matches!(file_system.objset.dnode(object, work),
            Ok(Some(dnode)) if dnode.dnode.object_type == ObjectType::PLAIN_FILE);
        if (links > 1 && !is_directory) || (is_file && found.path.is_none()) {
            linked.insert(object);
        }
        names.insert(object, found);
    }
    if !linked.is_empty() {
        add_links(&mut file_system, &linked, &mut names, patience, work);
    }
    names
}

fn add_links(
    file_system: &mut FileSystem<'_>,
    linked: &BTreeSet<u64>,
    names: &mut BTreeMap<u64, ObjectNames>,
    patience: Patience,
    work: &mut Work,
) {
    let wanted = |object| linked.contains(&object);
    let search = file_system.search_names(&wanted, usize::MAX, &|| patience.is_over(), work);
    for object in linked {
        let Some(found) = names.get_mut(object) else { continue };
        let mut paths = search.paths.get(object).cloned().unwrap_or_default();
        if found.path.is_none() && !paths.is_empty() {
            found.path = Some(paths.remove(0));
            found.because = None;
        }
        paths.retain(|path| Some(path) != found.path.as_ref());
        found.links = paths;
        if found.path.is_none() && search.unread_directories > 0 {
            found.because = Some(format!("{} directories cannot be read", search.unread_directories));
        }
    }
}

/// Writes the names into the place: the first holder is the place itself, all others are `also_in`.
fn fill_place(place: &mut Place, holders: &[Holder<'_>], names: &BTreeMap<(u64, u64), ObjectNames>) {
    let object = place.object.unwrap_or(0);
    let nothing = ObjectNames::default();
    for (index, holder) in holders.iter().enumerate() {
        let dataset = holder.dataset;
        let found = names.get(&(dataset.object, object)).unwrap_or(&nothing);
        if index == 0 {
            place.dataset = Some(dataset.name.clone());
            place.snapshot.clone_from(&dataset.snapshot);
            place.path.clone_from(&found.path);
            place.no_path_because.clone_from(&found.because);
            if let Some((start, length)) = holder.range {
                let end = found.size_bytes.map_or(start.saturating_add(length), |size| {
                    // Blocks may lie beyond the end of a file that is being shortened.
                    if size > start { size.min(start.saturating_add(length)) } else { start.saturating_add(length) }
                });
                place.file_offset = Some(start);
                place.file_length = Some(end - start);
            }
        } else {
            place.also_in.push(also(dataset, found.path.as_deref()));
        }
        place.also_in.extend(found.links.iter().map(|link| also(dataset, Some(link))));
    }
}

fn also(dataset: &Dataset, path: Option<&str>) -> String {
    match path {
        Some(path) => format!("{}:{path}", dataset.full_name()),
        None => dataset.full_name(),
    }
}
