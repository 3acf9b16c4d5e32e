//! Files and volumes read out of a pool are, byte for byte, what was written.

use crate::support::{ensure, for_all, kept_pools, media_of, name_of, shared_pools};
use fixtures::RealPool;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::{Dataset, DatasetMap, FileSystem, GivenKey, unlock};
use zfs_format::media::Medium;
use zfs_format::object::{ObjectReader, ObjsetReader, ZapReader};
use zfs_format::pool::{Assembly, Mos, Secret, Selector, load_removed};
use zfs_format::vdev::{Layout, LeafId, Node, Source};

/// Pools whose files cannot be read yet.
const NOT_YET: &[(&str, &str)] = &[("public/v999", "its version is not supported")];

/// Every so many names are looked up by path as well.
const LOOKUP_EACH: usize = 20;

/// The file that holds the content of a volume.
const VOLUME_OBJECT: u64 = 1;
/// The ZAP that holds its size.
const VOLUME_PROPERTIES_OBJECT: u64 = 2;

/// An open pool.
struct Reader<'a> {
    blocks: BlockReader<'a>,
    map: DatasetMap,
    work: Work,
}

impl<'a> Reader<'a> {
    fn open(assembly: &'a Assembly) -> Result<Self, String> {
        let blocks = assembly.blocks();
        let mut work = Work::default();
        let mos = Mos::open(blocks, &assembly.chosen.uberblock.rootbp, &mut work);
        let mut mos = mos.map_err(|error| error.to_string())?;
        let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
        Ok(Self { blocks, map, work })
    }

    fn objset(&mut self, dataset: &str) -> Result<ObjsetReader<'a>, String> {
        let found = self.map.datasets.values().find(|found| found.full_name() == dataset);
        let Dataset { object, dsl, .. } = found.ok_or_else(|| format!("no dataset {dataset}"))?;
        let (object, bp) = (*object, dsl.bp);
        let blocks = self.blocks.of_objset(object);
        ObjsetReader::open(blocks, &bp, &mut self.work).map_err(|error| error.to_string())
    }

    /// Sha256 of the first `size` bytes of an object.
    fn sum(&mut self, mut object: ObjectReader<'_>, size: u64) -> Result<String, String> {
        let block_bytes = object.block_bytes();
        let mut sum = Sha256::new();
        for blkid in 0..size.div_ceil(block_bytes) {
            let length = usize::try_from(block_bytes.min(size - blkid * block_bytes)).unwrap();
            let found = object.read_block(blkid, &mut self.work).map_err(|error| error.to_string())?;
            match found {
                Some(_) => sum.update(self.work.plain().get(..length).ok_or("a short block")?),
                None => sum.update(vec![0; length]),
            }
        }
        Ok(hex(&sum.finalize()))
    }

    /// Checks the files of one dataset.
    fn files(&mut self, dataset: &str, files: &[(String, String)]) -> Result<(), String> {
        let objset = self.objset(dataset)?;
        let mut file_system = FileSystem::open(objset, &mut self.work).map_err(|error| error.to_string())?;
        let mut directories: BTreeMap<String, BTreeMap<Vec<u8>, u64>> = BTreeMap::new();
        for (index, (path, wanted)) in files.iter().enumerate() {
            let (directory, name) = path.rsplit_once('/').ok_or_else(|| path.clone())?;
            if !directories.contains_key(directory) {
                let entries = self.entries(&mut file_system, directory)?;
                directories.insert(directory.to_owned(), entries);
            }
            let object = directories[directory].get(name.as_bytes()).copied();
            if index % LOOKUP_EACH == 0 {
                let found = file_system.lookup(path, &mut self.work).map_err(|error| error.to_string())?;
                ensure(found == object, || format!("{path}: lookup gives {found:?}, the directory {object:?}"))?;
            }
            let object = object.ok_or_else(|| format!("{path}: not found"))?;
            let at = |error| format!("{path}: {error}");
            let attributes = file_system.attributes(object, &mut self.work).map_err(at)?;
            let size = attributes.size.ok_or_else(|| format!("{path}: no size"))?;
            let reader = file_system.object(object, &mut self.work).map_err(at)?;
            let found = self.sum(reader, size).map_err(|error| format!("{path}: {error}"))?;
            ensure(found == *wanted, || format!("{path}: {size} bytes with sha256 {found}, not {wanted}"))?;
        }
        Ok(())
    }

    fn entries(&mut self, file_system: &mut FileSystem<'_>, path: &str) -> Result<BTreeMap<Vec<u8>, u64>, String> {
        let directory = file_system.lookup(path, &mut self.work).map_err(|error| error.to_string())?;
        let directory = directory.ok_or_else(|| format!("{path}: no such directory"))?;
        let entries = file_system.entries(directory, &mut self.work).map_err(|error| error.to_string())?;
        Ok(entries.into_iter().collect())
    }

    fn volume(&mut self, dataset: &str, wanted: &str) -> Result<(), String> {
        let mut objset = self.objset(dataset)?;
        let properties = objset.object(VOLUME_PROPERTIES_OBJECT, &mut self.work).map_err(|error| error.to_string())?;
        let mut size = 0;
        let each = &mut |entry: zfs_format::object::ZapEntry| {
            if entry.name == b"size" {
                size = entry.first_u64().unwrap_or(0);
            }
            std::ops::ControlFlow::Continue(())
        };
        ZapReader::new(properties).for_each(&mut self.work, each).map_err(|error| error.to_string())?;
        let data = objset.object(VOLUME_OBJECT, &mut self.work).map_err(|error| error.to_string())?;
        let found = self.sum(data, size)?;
        ensure(found == wanted, || format!("{dataset}: {size} bytes with sha256 {found}, not {wanted}"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Files that live only in an intent log that was not replayed.
fn is_only_in_log(pool: &RealPool, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    pool.folder.starts_with("zil-") && (name.starts_with("sync-") || name == "bigsync" || path.starts_with("newdir/"))
}

fn open(pool: &RealPool, media: &[Medium]) -> Result<Assembly, String> {
    let selector = Selector::Name(name_of(pool).to_owned());
    let mut assembly = Assembly::new(media, Some(&selector)).map_err(|error| error.to_string())?;
    adopt(&mut assembly)?;
    unlock(&mut assembly, &keys_of(pool), &mut Work::default()).map_err(|error| error.to_string())?;
    Ok(assembly)
}

/// The keys that lie beside a pool.
fn keys_of(pool: &RealPool) -> Vec<GivenKey> {
    let read = |name: &str| std::fs::read(pool.path.join(name)).ok();
    let keys = ["key-raw", "key-hex", "key-pw"].into_iter().filter_map(read);
    keys.map(|key| GivenKey { dataset: None, secret: Secret::new(key) }).collect()
}

fn read_all(pool: &RealPool, media: &[Medium]) -> Result<(), String> {
    let assembly = open(pool, media)?;
    let mut reader = Reader::open(&assembly)?;
    let mut datasets: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (name, sum) in pool.sums("manifest.sha256") {
        let (dataset, path) = name.split_once(":/").ok_or_else(|| name.clone())?;
        if !is_only_in_log(pool, path) {
            datasets.entry(dataset.to_owned()).or_default().push((format!("/{path}"), sum));
        }
    }
    for (dataset, files) in &datasets {
        reader.files(dataset, files).map_err(|error| format!("{dataset}:{error}"))?;
    }
    if !pool.sums("zvols.sha").is_empty() {
        for (_, sum) in pool.sums("zvols.sha") {
            reader.volume("zvols/thick", &sum)?;
        }
    }
    Ok(())
}

/// The list of devices in the MOS is complete, that of a label is not.
fn adopt(assembly: &mut Assembly) -> Result<(), String> {
    let mut work = Work::default();
    let root = assembly.chosen.uberblock.rootbp;
    let mos = Mos::open(BlockReader::new(&assembly.tree), &root, &mut work);
    let config = mos.map_err(|error| error.to_string())?.config(&mut work).map_err(|error| error.to_string())?;
    assembly.adopt_config(&config).map_err(|error| error.to_string())?;
    assembly.load_salt(&mut work);
    let unknown = load_removed(&mut assembly.tree, &root, &mut work);
    ensure(unknown.is_empty(), || format!("{unknown:?}"))
}

/// Sets of members that a pool can do without: of each mirror all sides but one, of each vdev with parity as many as it
/// has, from the front, from the back, and spread out.
fn spared(assembly: &Assembly) -> Vec<BTreeSet<String>> {
    let tree = &assembly.tree;
    let mut sets = vec![BTreeSet::new(); 3];
    for (vdev, top) in tree.tops.iter().enumerate() {
        let Some(top) = top else { continue };
        let children: Vec<Vec<LeafId>> = match &top.layout {
            Layout::Copies(leaves) => leaves.iter().map(|&leaf| vec![leaf]).collect(),
            Layout::Striped(striped) => striped.children.iter().map(|sources| leaves(sources)).collect(),
            _ => Vec::new(),
        };
        let count = match &top.layout {
            Layout::Copies(leaves) => leaves.len().saturating_sub(1),
            _ => usize::try_from(tree.parity(u32::try_from(vdev).unwrap())).unwrap(),
        };
        let chosen = [
            children.iter().take(count).collect::<Vec<_>>(),
            children.iter().rev().take(count).collect(),
            children.iter().skip(1).step_by(2).chain(children.iter().step_by(2)).take(count).collect(),
        ];
        for (set, chosen) in sets.iter_mut().zip(chosen) {
            set.extend(chosen.into_iter().flatten().filter_map(|&leaf| tree.leaf(leaf)?.opened_as.clone()));
        }
    }
    sets.retain(|set| !set.is_empty());
    sets.dedup();
    sets
}

fn leaves(sources: &[Source]) -> Vec<LeafId> {
    let leaf = |source: &Source| match source {
        Source::Leaf(leaf) => Some(*leaf),
        Source::Spare(_) => None,
    };
    sources.iter().filter_map(leaf).collect()
}

/// Pools that cannot do without a member, as another is damaged.
const DAMAGED: &[&str] = &["public/broken-mirror"];

/// Pools that already lack members, or whose members do not all hold everything.
fn is_reduced(assembly: &Assembly) -> bool {
    let is_odd =
        |node: &Node| matches!(node.vdev_type.as_str(), "replacing" | "spare") || node.is_offline || node.is_faulted;
    assembly.tree.leaves.iter().any(|leaf| leaf.medium.is_none()) || assembly.tree.nodes.iter().any(is_odd)
}

/// Reads all files again without members that redundancy makes up for.
fn check_without_members(pool: &RealPool) -> Result<usize, String> {
    let media = media_of(pool);
    let sets = {
        let assembly = open(pool, &media)?;
        if is_reduced(&assembly) || DAMAGED.contains(&pool.folder.as_str()) { Vec::new() } else { spared(&assembly) }
    };
    for set in &sets {
        let left: Vec<Medium> =
            media.iter().filter(|medium| !set.contains(&medium.path.display().to_string())).cloned().collect();
        read_all(pool, &left).map_err(|error| format!("{} without {set:?}: {error}", pool.folder))?;
    }
    Ok(sets.len())
}

fn check(pool: &RealPool) -> Result<(), String> {
    if NOT_YET.iter().any(|(folder, _)| *folder == pool.folder) {
        return Ok(());
    }
    read_all(pool, &media_of(pool)).map_err(|error| format!("{}: {error}", pool.folder))
}

fn all_without_members(pools: &[RealPool], sets_min: usize) {
    let sets = AtomicUsize::new(0);
    for_all(pools, |pool| {
        if NOT_YET.iter().all(|(folder, _)| *folder != pool.folder) {
            sets.fetch_add(check_without_members(pool)?, Ordering::Relaxed);
        }
        Ok(())
    });
    let sets = sets.into_inner();
    assert!(sets >= sets_min, "only {sets} sets of members were left out");
}

#[test]
fn files_of_kept_pools_are_read_without_members_that_redundancy_makes_up_for() {
    all_without_members(&kept_pools(), 6);
}

#[test]
fn files_of_shared_pools_are_read_without_members_that_redundancy_makes_up_for() {
    let pools = shared_pools();
    let sets_min = if pools.is_empty() { 0 } else { 30 };
    all_without_members(&pools, sets_min);
}

#[test]
fn files_and_volumes_of_kept_pools_are_read_as_they_were_written() {
    for_all(&kept_pools(), |pool| {
        let is_known = !pool.sums("manifest.sha256").is_empty() || !pool.sums("zvols.sha").is_empty();
        ensure(is_known, || format!("{}: nothing to compare", pool.folder))?;
        check(pool)
    });
}

#[test]
fn files_of_shared_pools_are_read_as_they_were_written() {
    for_all(&shared_pools(), check);
}
