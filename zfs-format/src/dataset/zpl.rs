//! File systems: from object numbers to paths, from paths to object numbers.

use crate::block::Work;
use crate::object::{AttributeReader, ObjectError, ObjectReader, ObjsetReader, ZapReader};
use crate::ondisk::dmu::ObjectType;
use crate::ondisk::znode::FileAttributes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// The master node (`MASTER_NODE_OBJ`).
const MASTER_NODE_OBJECT: u64 = 1;
/// Deeper paths than any system allows; ends loops of parents.
const DEPTH_MAX: usize = 4096;
/// The object number in a directory entry; the bits above hold the file type.
const ENTRY_OBJECT_MASK: u64 = (1 << 48) - 1;

/// The file type of a directory in the top bits of an entry.
const ENTRY_TYPE_DIRECTORY: u64 = 4;

/// Why an object has no path.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// Something on the way to the root cannot be read.
    #[error("{0}")]
    Object(#[from] ObjectError),
    /// The object is no file or directory.
    #[error("the object is not a file or a directory")]
    NotAFile,
    /// Its parent does not list it.
    #[error("no directory lists it")]
    NotListed,
    /// Its parents go round in a circle, or deeper than any path.
    #[error("its parents form a loop")]
    Loop,
}

/// An open file system.
#[derive(Debug)]
pub struct FileSystem<'a> {
    /// Its object set.
    pub objset: ObjsetReader<'a>,
    /// The root directory.
    pub root: u64,
    attributes: AttributeReader,
}

/// Names found by [`FileSystem::search_names`].
#[derive(Clone, Debug, Default)]
pub struct NamesSearch {
    /// Paths by object number.
    pub paths: BTreeMap<u64, Vec<String>>,
    /// Directories that could not be read, so that names below them are not known.
    pub unread_directories: u64,
    /// There are more names than were asked for.
    pub is_cut: bool,
}

/// A path component, shown without harm when it is not UTF-8.
fn component(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

impl<'a> FileSystem<'a> {
    /// Opens the file system of an object set.
    ///
    /// # Errors
    /// [`ObjectError`] when the master node or the attribute tables cannot be read.
    pub fn open(mut objset: ObjsetReader<'a>, work: &mut Work) -> Result<Self, ObjectError> {
        let mut master = BTreeMap::new();
        ZapReader::new(objset.object(MASTER_NODE_OBJECT, work)?).for_each(work, &mut |entry| {
            master.insert(entry.name.clone(), entry.first_u64().unwrap_or(0));
            ControlFlow::Continue(())
        })?;
        let key = |name: &str| master.get(name.as_bytes()).copied();
        let root = key("ROOT").ok_or(ObjectError::NoObject { object: MASTER_NODE_OBJECT })?;
        let attributes = AttributeReader::open(&mut objset, key("SA_ATTRS"), work)?;
        Ok(Self { objset, root, attributes })
    }

    /// Attributes of a file or directory, whichever way they are stored.
    ///
    /// # Errors
    /// [`ObjectError`] when the object cannot be read or has no attributes.
    pub fn attributes(&mut self, object: u64, work: &mut Work) -> Result<FileAttributes, ObjectError> {
        let dnode = self.objset.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        self.attributes.read(self.objset.blocks(), object, &dnode, work)
    }

    /// A reader of an object's data.
    ///
    /// # Errors
    /// [`ObjectError`] when there is no such object.
    pub fn object(&mut self, object: u64, work: &mut Work) -> Result<ObjectReader<'a>, ObjectError> {
        self.objset.object(object, work)
    }

    /// Entries of a directory: name and object number.
    ///
    /// # Errors
    /// [`ObjectError`] when it cannot be read or is no directory.
    pub fn entries(&mut self, directory: u64, work: &mut Work) -> Result<Vec<(Vec<u8>, u64)>, ObjectError> {
        let mut entries = Vec::new();
        self.each_entry(directory, work, &mut |name, object| {
            entries.push((name.to_vec(), object & ENTRY_OBJECT_MASK));
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    fn each_entry(
        &mut self,
        directory: u64,
        work: &mut Work,
        each: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), ObjectError> {
        let object = self.objset.object(directory, work)?;
        ZapReader::new(object).for_each(work, &mut |entry| match entry.first_u64() {
            Some(value) => each(&entry.name, value),
            None => ControlFlow::Continue(()),
        })
    }

    /// The object at a path from the root, `None` when there is none.
    ///
    /// # Errors
    /// [`ObjectError`] when a directory on the way cannot be read.
    pub fn lookup(&mut self, path: &str, work: &mut Work) -> Result<Option<u64>, ObjectError> {
        let mut at = self.root;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let mut found = None;
            self.each_entry(at, work, &mut |name, object| {
                if name == part.as_bytes() {
                    found = Some(object & ENTRY_OBJECT_MASK);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
            match found {
                Some(object) => at = object,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The path of an object by way of its recorded parents, as ZFS names it. An object with several links has others.
    ///
    /// # Errors
    /// [`PathError`] says why there is none.
    ///
    /// Source: OpenZFS module/zfs/zfs_znode.c, `zfs_obj_to_path`.
    pub fn path_of(&mut self, object: u64, work: &mut Work) -> Result<String, PathError> {
        let mut parts = Vec::new();
        let mut at = object;
        while at != self.root {
            if parts.len() > DEPTH_MAX {
                return Err(PathError::Loop);
            }
            if at == object && !self.is_file_like(at, work)? {
                return Err(PathError::NotAFile);
            }
            let attributes = self.attributes(at, work)?;
            let (name, parent) = self.name_in_parent(at, &attributes, work)?;
            parts.push(name);
            at = parent;
        }
        parts.reverse();
        Ok(format!("/{}", parts.join("/")))
    }

    fn is_file_like(&mut self, object: u64, work: &mut Work) -> Result<bool, PathError> {
        let dnode = self.objset.dnode(object, work)?.ok_or(ObjectError::NoObject { object })?;
        let kind = dnode.dnode.bonus_type;
        Ok(kind == ObjectType::SA || kind == ObjectType::ZNODE)
    }

    /// An object's name in its parent, and the parent. Extended attributes have a file as parent: their directory
    /// stands in the path as `<xattrdir>`.
    fn name_in_parent(
        &mut self,
        object: u64,
        attributes: &FileAttributes,
        work: &mut Work,
    ) -> Result<(String, u64), PathError> {
        let parent = attributes.parent.ok_or(PathError::NotListed)?.0;
        let parent_type = self.objset.dnode(parent, work)?.map(|dnode| dnode.dnode.object_type);
        let parent_is_directory = parent_type == Some(ObjectType::DIRECTORY);
        if parent_is_directory && let Some(name) = self.name_in(parent, object, work)? {
            return Ok((name, parent));
        }
        if attributes.flags.is_some_and(|flags| flags & FileAttributes::FLAG_XATTR != 0) {
            let holder = self.attributes(parent, work)?;
            if holder.xattr.is_some_and(|xattr| xattr.0 == object) {
                return Ok(("<xattrdir>".to_owned(), parent));
            }
        }
        Err(PathError::NotListed)
    }

    fn name_in(&mut self, directory: u64, object: u64, work: &mut Work) -> Result<Option<String>, ObjectError> {
        let mut found = None;
        self.each_entry(directory, work, &mut |name, entry| {
            if entry & ENTRY_OBJECT_MASK == object {
                found = Some(component(name));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Looks through all directories for names of the objects that `wanted` picks: how hard links are found, and files
    /// whose dnodes are lost. Ends early when `names_max` names are found, or when `is_over` says so between two directories.
    pub fn search_names(
        &mut self,
        wanted: &dyn Fn(u64) -> bool,
        names_max: usize,
        is_over: &dyn Fn() -> bool,
        work: &mut Work,
    ) -> NamesSearch {
        let mut search = NamesSearch::default();
        let mut names = 0;
        let mut seen = BTreeSet::new();
        let mut pending = vec![(self.root, String::new())];
        while let Some((directory, path)) = pending.pop() {
            if !seen.insert(directory) {
                continue;
            }
            if is_over() {
                search.is_cut = true;
                break;
            }
            let Ok(entries) = self.interesting_entries(directory, wanted, work) else {
                search.unread_directories += 1;
                continue;
            };
            for (name, object) in entries {
                let path = format!("{path}/{}", component(&name));
                if wanted(object) {
                    if names == names_max {
                        search.is_cut = true;
                        return search;
                    }
                    names += 1;
                    search.paths.entry(object).or_default().push(path.clone());
                }
                let dnode = self.objset.dnode(object, work);
                if matches!(&dnode, Ok(Some(dnode)) if dnode.dnode.object_type == ObjectType::DIRECTORY) {
                    pending.push((object, path));
                }
            }
        }
        for paths in search.paths.values_mut() {
            paths.sort();
        }
        search
    }

    /// The entries that are wanted, and those that may be directories: a large directory of files is not kept.
    fn interesting_entries(
        &mut self,
        directory: u64,
        wanted: &dyn Fn(u64) -> bool,
        work: &mut Work,
    ) -> Result<Vec<(Vec<u8>, u64)>, ObjectError> {
        let mut entries = Vec::new();
        self.each_entry(directory, work, &mut |name, value| {
            let (object, file_type) = (value & ENTRY_OBJECT_MASK, value >> 60);
            // ZPL version 1 did not record the type: 0.
            if matches!(file_type, 0 | ENTRY_TYPE_DIRECTORY) || wanted(object) {
                entries.push((name.to_vec(), object));
            }
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }
}
