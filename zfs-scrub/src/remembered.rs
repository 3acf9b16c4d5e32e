//! What the pool itself remembers of its health, with names: the last scan, and the log of errors.
//!
//! None of it was found by this run, so none of it is a finding, and it changes no verdict.

use std::collections::BTreeMap;
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::{DatasetMap, FileSystem};
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::error_log::LoggedError;
use zfs_format::ondisk::objset::OsType;
use zfs_format::ondisk::scan::{ErrorScrub, Scan, ScanState};
use zfs_format::pool::{Assembly, Mos, Remembered};

/// Errors that are listed; all are counted.
const ERRORS_MAX: usize = 1000;

/// What the pool remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RememberedFacts {
    /// The last scrub or resilver, or the one that runs.
    pub scan: Option<Scan>,
    /// The last scrub of errors only.
    pub error_scrub: Option<ErrorScrub>,
    /// How many blocks are in the error logs.
    pub errors_total: u64,
    /// The first of them.
    pub errors: Vec<RememberedError>,
    /// What cannot be read of it, and why.
    pub unread: Vec<String>,
}

impl RememberedFacts {
    /// There is nothing to say: nothing was ever scanned for, and no error is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_scanned = self.scan.is_some_and(|scan| scan.state != ScanState::NONE)
            || self.error_scrub.is_some_and(|scrub| scrub.state != ScanState::NONE);
        !is_scanned && self.errors_total == 0 && self.unread.is_empty()
    }
}

/// A block that OpenZFS found damaged once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedError {
    /// Where.
    pub error: LoggedError,
    /// The dataset or snapshot; `None` for the pool's own metadata, and what is gone.
    pub dataset: Option<String>,
    /// The file.
    pub path: Option<String>,
}

impl RememberedError {
    /// `tank/home:/file`, or `<objset>:<object>` where there is no name.
    #[must_use]
    pub fn file(&self) -> String {
        match (&self.dataset, &self.path) {
            (Some(dataset), Some(path)) => format!("{dataset}:{path}"),
            (Some(dataset), None) => format!("{dataset}:<{:#x}>", self.error.object),
            _ => format!("<{:#x}>:<{:#x}>", self.error.objset, self.error.object),
        }
    }
}

/// Reads what the pool remembers. What cannot be read is told in [`RememberedFacts::unread`].
#[must_use]
pub fn remembered(assembly: &Assembly) -> RememberedFacts {
    let mut work = Work::default();
    let blocks = assembly.blocks();
    // A MOS that cannot be opened is told elsewhere.
    let Ok(mut mos) = Mos::open(blocks, &assembly.chosen.uberblock.rootbp, &mut work) else {
        return RememberedFacts::default();
    };
    let Remembered { scan, error_scrub, errors, errors_left_out, problems } = mos.remembered(&mut work);
    let errors_total = (errors.len() as u64).saturating_add(errors_left_out);
    let listed: Vec<LoggedError> = errors.into_iter().take(ERRORS_MAX).collect();
    let map =
        if listed.is_empty() { DatasetMap::default() } else { DatasetMap::load(&mut mos, &assembly.name, &mut work) };
    RememberedFacts {
        scan,
        error_scrub,
        errors_total,
        errors: named(listed, &map, blocks, &mut work),
        unread: problems.into_iter().map(|(what, error)| format!("{what}: {error}")).collect(),
    }
}

/// Gives errors their names. The set they come from has all errors of one dataset together.
fn named(errors: Vec<LoggedError>, map: &DatasetMap, blocks: BlockReader<'_>, work: &mut Work) -> Vec<RememberedError> {
    let mut named: Vec<RememberedError> = Vec::with_capacity(errors.len());
    let mut open: Option<(u64, Option<FileSystem<'_>>)> = None;
    let mut paths: BTreeMap<(u64, u64), Option<String>> = BTreeMap::new();
    for error in errors {
        let dataset = map.datasets.get(&error.objset);
        if open.as_ref().is_none_or(|(objset, _)| *objset != error.objset) {
            let file_system = dataset.and_then(|dataset| {
                let blocks = blocks.of_objset(dataset.object);
                let objset = ObjsetReader::open(blocks, &dataset.dsl.bp, work).ok()?;
                let is_zpl = objset.objset.os_type == OsType::ZFS;
                is_zpl.then(|| FileSystem::open(objset, work).ok()).flatten()
            });
            open = Some((error.objset, file_system));
        }
        let file_system = open.as_mut().and_then(|(_, file_system)| file_system.as_mut());
        let path = paths
            .entry((error.objset, error.object))
            .or_insert_with(|| file_system.and_then(|file_system| file_system.path_of(error.object, work).ok()))
            .clone();
        named.push(RememberedError { error, dataset: dataset.map(|dataset| dataset.full_name()), path });
    }
    named
}
