//! Names of datasets and snapshots, found from the root of the DSL tree.

use crate::ObjectId;
use crate::block::Work;
use crate::endian::OnDisk;
use crate::object::ObjectError;
use crate::ondisk::dsl::{DslDataset, DslDir};
use crate::pool::Mos;
use std::collections::{BTreeMap, BTreeSet};

/// A dataset or a snapshot.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Its object in the MOS, which is also the number of its object set.
    pub object: u64,
    /// Name of the file system or volume, without the snapshot.
    pub name: String,
    /// Name of the snapshot, when it is one.
    pub snapshot: Option<String>,
    /// What the MOS says of it.
    pub dsl: DslDataset,
}

impl Dataset {
    /// `pool/name` or `pool/name@snapshot`.
    #[must_use]
    pub fn full_name(&self) -> String {
        match &self.snapshot {
            Some(snapshot) => format!("{}@{snapshot}", self.name),
            None => self.name.clone(),
        }
    }

    /// Not one of the pool's own (`$ORIGIN` and the like).
    #[must_use]
    pub fn is_users(&self) -> bool {
        !self.name.contains("/$")
    }
}

/// All datasets that can be reached by name.
#[derive(Clone, Debug, Default)]
pub struct DatasetMap {
    /// By object number.
    pub datasets: BTreeMap<u64, Dataset>,
    /// What could not be read on the way; the datasets below have no names.
    pub problems: Vec<ObjectError>,
}

impl DatasetMap {
    /// Walks the tree of DSL directories from the root dataset, named `pool_name`.
    #[must_use]
    pub fn load(mos: &mut Mos<'_>, pool_name: &str, work: &mut Work) -> Self {
        let mut map = Self::default();
        let Some(&root) = mos.directory.get("root_dataset") else {
            map.problems.push(ObjectError::NoObject { object: 0 });
            return map;
        };
        let mut pending = vec![(root, pool_name.to_owned())];
        let mut seen = BTreeSet::new();
        while let Some((dir, name)) = pending.pop() {
            // A directory that stands below itself would go on for ever.
            if !seen.insert(dir) {
                continue;
            }
            match map.load_dir(mos, dir, &name, work) {
                Ok(children) => {
                    pending.extend(children.into_iter().map(|(child, dir)| (dir, format!("{name}/{child}"))));
                }
                Err(problem) => map.problems.push(problem),
            }
        }
        map
    }

    /// Loads one directory: its head, the snapshots of the head. Returns its children.
    fn load_dir(
        &mut self,
        mos: &mut Mos<'_>,
        object: u64,
        name: &str,
        work: &mut Work,
    ) -> Result<BTreeMap<String, u64>, ObjectError> {
        let dnode = mos.objset.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        let dir = DslDir::parse(&dnode.bonus, dnode.endian).map_err(|source| ObjectError::Format { object, source })?;
        if let Some(ObjectId(head)) = dir.head_dataset
            && let Err(problem) = self.load_head(mos, head, name, work)
        {
            self.problems.push(problem);
        }
        match dir.child_dir_zap {
            Some(children) => mos.zap_u64(children.0, work),
            None => Ok(BTreeMap::new()),
        }
    }

    fn load_head(&mut self, mos: &mut Mos<'_>, object: u64, name: &str, work: &mut Work) -> Result<(), ObjectError> {
        let head = self.load_dataset(mos, object, name, None, work)?;
        let Some(snapshots) = head.snapnames_zap else { return Ok(()) };
        for (snapshot, object) in mos.zap_u64(snapshots.0, work)? {
            if let Err(problem) = self.load_dataset(mos, object, name, Some(snapshot), work) {
                self.problems.push(problem);
            }
        }
        Ok(())
    }

    fn load_dataset(
        &mut self,
        mos: &mut Mos<'_>,
        object: u64,
        name: &str,
        snapshot: Option<String>,
        work: &mut Work,
    ) -> Result<DslDataset, ObjectError> {
        let dnode = mos.objset.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        let parsed = DslDataset::parse(&dnode.bonus, dnode.endian);
        let dsl = parsed.map_err(|source| ObjectError::Format { object, source })?;
        let dataset = Dataset { object, name: name.to_owned(), snapshot, dsl };
        self.datasets.insert(object, dataset);
        Ok(dsl)
    }

    /// The dataset `owner` and all that came after it on its chains: later snapshots, heads, clones. A block that
    /// `owner` holds can be in no other.
    #[must_use]
    pub fn descendants(&self, owner: u64) -> Vec<&Dataset> {
        let mut successors: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for dataset in self.datasets.values() {
            if let Some(previous) = dataset.dsl.prev_snap {
                successors.entry(previous.0).or_default().push(dataset.object);
            }
        }
        let mut found = BTreeMap::new();
        let mut pending = vec![owner];
        while let Some(object) = pending.pop() {
            let Some(dataset) = self.datasets.get(&object) else { continue };
            if found.insert(object, dataset).is_none() {
                pending.extend(successors.get(&object).into_iter().flatten());
            }
        }
        found.into_values().collect()
    }
}
