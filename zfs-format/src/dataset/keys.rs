//! Which dataset needs whose key: encryption roots, and what is inherited from them.

use super::DatasetMap;
use crate::block::{BlockReader, DataKey, KeyRing, Work};
use crate::object::ObjectError;
use crate::ondisk::crypt::{CryptKey, CryptSuite, KeyFormat};
use crate::pool::{Assembly, KeyError, Mos, MosError, Secret, load_removed, unwrap_key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A key as it was given.
#[derive(Debug)]
pub struct GivenKey {
    /// The dataset it is for: an encryption root, or one that inherits from it. Without, it is tried on all.
    pub dataset: Option<String>,
    /// The key.
    pub secret: Secret,
}

/// Why a given key is of no use.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum UnlockError {
    /// The pool has no such dataset.
    #[error("there is no dataset {name}")]
    NoDataset { name: String },
    /// It needs no key.
    #[error("{name} is not encrypted")]
    NotEncrypted { name: String },
    /// The key does not fit the dataset it was given for.
    #[error("{name}: {source}")]
    Key { name: String, source: KeyError },
    /// The key fits none of the pool's datasets.
    #[error("the key fits none of the pool's encrypted datasets; tried: {}", tried.join(", "))]
    FitsNone { tried: Vec<String> },
    /// The pool cannot be opened far enough to find its datasets.
    #[error("the pool's datasets cannot be found: {0}")]
    Pool(#[from] MosError),
    /// Nothing in the pool is encrypted.
    #[error("the pool has no encrypted datasets")]
    NothingEncrypted,
}

/// Opens what the given keys fit: [`Assembly::keys`] then holds the keys of the datasets. Their blocks are read by way of
/// [`BlockReader::of_objset`].
///
/// # Errors
/// [`UnlockError`] for the first given key that fits nothing.
pub fn unlock(assembly: &mut Assembly, given: &[GivenKey], work: &mut Work) -> Result<(), UnlockError> {
    if given.is_empty() {
        return Ok(());
    }
    let root = assembly.chosen.uberblock.rootbp;
    // The pool's own list of devices is complete. Where it cannot be read, that of the labels may do.
    let config = Mos::open(BlockReader::new(&assembly.tree), &root, work)?.config(work);
    if let Ok(config) = config {
        let _ = assembly.adopt_config(&config);
    }
    let _ = load_removed(&mut assembly.tree, &root, work);
    let encrypted = {
        let mut mos = Mos::open(BlockReader::new(&assembly.tree), &root, work)?;
        let map = DatasetMap::load(&mut mos, &assembly.name, work);
        EncryptedDatasets::load(&mut mos, &map, work)
    };
    assembly.keys = encrypted.unlock(given)?;
    Ok(())
}

/// The encrypted datasets of a pool.
#[derive(Debug, Default)]
pub struct EncryptedDatasets {
    /// Wrapped keys by DSL directory.
    keys: BTreeMap<u64, CryptKey>,
    /// Names of heads by DSL directory.
    names: BTreeMap<u64, String>,
    /// Object sets, heads and snapshots, with their DSL directory.
    objsets: Vec<(u64, u64)>,
    /// Datasets whose key objects cannot be read, or make no sense.
    pub problems: Vec<KeyProblem>,
}

/// A key object that is of no use.
#[derive(Clone, Debug)]
pub struct KeyProblem {
    /// The dataset it is of.
    pub dataset: String,
    /// Why. Damage to its blocks is found by the walk of the MOS, too.
    pub error: ObjectError,
}

/// What is known of a dataset's key without the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFacts {
    /// The cipher.
    pub suite: CryptSuite,
    /// The encryption root: whose key it inherits, or its own name.
    pub root: String,
    /// What form the user's key has.
    pub format: KeyFormat,
    /// How often a passphrase is hashed, for that format.
    pub iterations: Option<u64>,
}

impl EncryptedDatasets {
    /// Reads the key objects of all datasets that have names.
    #[must_use]
    pub fn load(mos: &mut Mos<'_>, map: &DatasetMap, work: &mut Work) -> Self {
        let mut found = Self::default();
        for dataset in map.datasets.values() {
            let dir = dataset.dsl.dir.0;
            if found.names.insert(dir, dataset.name.clone()).is_none() {
                match mos.crypt_key(dir, work) {
                    Ok(Some(key)) => drop(found.keys.insert(dir, key)),
                    Ok(None) => {}
                    Err(error) => found.problems.push(KeyProblem { dataset: dataset.name.clone(), error }),
                }
            }
            if found.keys.contains_key(&dir) {
                found.objsets.push((dataset.object, dir));
            }
        }
        found
    }

    /// The DSL directories that others inherit from, in order of their names.
    fn roots(&self) -> Vec<(&str, u64)> {
        let mut roots: Vec<u64> = self.keys.values().map(|key| key.root_dir.0).collect();
        roots.sort_unstable();
        roots.dedup();
        let mut named: Vec<_> = roots.into_iter().map(|root| (self.name(root), root)).collect();
        named.sort_unstable();
        named
    }

    fn name(&self, dir: u64) -> &str {
        self.names.get(&dir).map_or("?", String::as_str)
    }

    /// Names of the encryption roots, sorted.
    #[must_use]
    pub fn root_names(&self) -> Vec<String> {
        self.roots().into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// Opens what the given keys fit.
    ///
    /// # Errors
    /// [`UnlockError`] for the first given key that fits nothing.
    pub fn unlock(&self, given: &[GivenKey]) -> Result<KeyRing, UnlockError> {
        let mut ring = KeyRing::default();
        given.iter().try_for_each(|given| self.unlock_one(given, &mut ring))?;
        Ok(ring)
    }

    /// Opens what the given keys fit, and says which fit nothing, by their places among the given ones.
    #[must_use]
    pub fn unlock_all(&self, given: &[GivenKey]) -> (KeyRing, Vec<(usize, UnlockError)>) {
        let mut ring = KeyRing::default();
        let mut errors = Vec::new();
        for (index, given) in given.iter().enumerate() {
            errors.extend(self.unlock_one(given, &mut ring).err().map(|error| (index, error)));
        }
        (ring, errors)
    }

    fn unlock_one(&self, given: &GivenKey, ring: &mut KeyRing) -> Result<(), UnlockError> {
        match &given.dataset {
            Some(name) => self
                .unlock_root(self.root_of(name)?, &given.secret, ring)
                .map_err(|source| UnlockError::Key { name: name.clone(), source }),
            None => self.unlock_any(&given.secret, ring),
        }
    }

    /// What is known of the key of an object set; `None` when it is not encrypted.
    #[must_use]
    pub fn facts(&self, objset: u64) -> Option<KeyFacts> {
        let dir = self.objsets.iter().find(|(known, _)| *known == objset).map(|(_, dir)| dir)?;
        let key = self.keys.get(dir)?;
        Some(KeyFacts {
            suite: key.suite,
            root: self.name(key.root_dir.0).to_owned(),
            format: key.key_format,
            iterations: (key.key_format == KeyFormat::PASSPHRASE).then_some(key.passphrase_iterations),
        })
    }

    /// Datasets that stay locked although the key of their encryption root opened others: dataset and root. Their key
    /// objects are damaged.
    #[must_use]
    pub fn locked(&self, ring: &KeyRing) -> Vec<(String, String)> {
        let mut opened: BTreeMap<u64, bool> = BTreeMap::new();
        for (objset, dir) in &self.objsets {
            *opened.entry(*dir).or_default() |= ring.get(*objset).is_some();
        }
        let is_open = |dir: u64| opened.get(&dir).copied().unwrap_or(false);
        let root_of = |dir: &u64| self.keys.get(dir).map(|key| key.root_dir.0);
        let open_roots: BTreeSet<u64> = self.keys.keys().filter(|dir| is_open(**dir)).filter_map(root_of).collect();
        let locked = self.keys.iter().filter(|(dir, key)| !is_open(**dir) && open_roots.contains(&key.root_dir.0));
        locked.map(|(dir, key)| (self.name(*dir).to_owned(), self.name(key.root_dir.0).to_owned())).collect()
    }

    /// Some keys have the form of before ZFS on Linux 0.8, which is an erratum.
    #[must_use]
    pub fn has_early_keys(&self) -> bool {
        self.keys.values().any(|key| key.version == 0)
    }

    /// The encryption root of a dataset.
    fn root_of(&self, name: &str) -> Result<u64, UnlockError> {
        let dir = self.names.iter().find(|(_, known)| *known == name).map(|(&dir, _)| dir);
        let dir = dir.ok_or_else(|| UnlockError::NoDataset { name: name.to_owned() })?;
        let key = self.keys.get(&dir).ok_or_else(|| UnlockError::NotEncrypted { name: name.to_owned() })?;
        Ok(key.root_dir.0)
    }

    /// Tries a key on every encryption root.
    fn unlock_any(&self, secret: &Secret, ring: &mut KeyRing) -> Result<(), UnlockError> {
        let roots = self.roots();
        if roots.is_empty() {
            return Err(UnlockError::NothingEncrypted);
        }
        let mut fits = false;
        let mut tried = Vec::new();
        for (name, root) in roots {
            match self.unlock_root(root, secret, ring) {
                Ok(()) => fits = true,
                Err(error) => tried.push(format!("{name} ({error})")),
            }
        }
        if fits { Ok(()) } else { Err(UnlockError::FitsNone { tried }) }
    }

    /// Unwraps the keys of all datasets below one encryption root.
    fn unlock_root(&self, root: u64, secret: &Secret, ring: &mut KeyRing) -> Result<(), KeyError> {
        let own = self.keys.get(&root).into_iter();
        let others = self.keys.values().filter(|key| key.root_dir.0 == root);
        // The root's own key object says what the user's key looks like; inheriting ones repeat it.
        let Some(form) = own.chain(others).next() else { return Err(KeyError::Wrong) };
        let wrapping_key = secret.wrapping_key(form)?;
        let mut opened: BTreeMap<u64, Arc<DataKey>> = BTreeMap::new();
        let mut failed = None;
        for (&dir, key) in self.keys.iter().filter(|(_, key)| key.root_dir.0 == root) {
            match unwrap_key(key, &wrapping_key) {
                Ok(key) => drop(opened.insert(dir, Arc::new(key))),
                Err(error) => failed = Some(error),
            }
        }
        // Where the key opens one of them it is right, and the key object of the other is damaged.
        if let Some(error) = failed.filter(|_| opened.is_empty()) {
            return Err(error);
        }
        for (objset, dir) in &self.objsets {
            if let Some(key) = opened.get(dir) {
                ring.insert(*objset, Arc::clone(key));
            }
        }
        Ok(())
    }
}
