//! From paths to devices: directories are looked through, everything else is opened as it is.

use crate::args::InputArgs;
use crate::error::Failure;
use crate::map::maps_of;
use crate::{output, search};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zfs_format::media::{Mapped, Medium, Opener, RateLimit, RescueMap, Throttled};
use zfs_format::pool::{Assembly, AssemblyError, Candidate, Look, Selector, members};

/// Opens all inputs and reads their labels; at least one.
///
/// What lies in a directory and cannot be opened is passed over; what was named and cannot be opened is an error.
pub(crate) fn candidates(input: &InputArgs, limit: Option<&Arc<RateLimit>>) -> Result<Vec<Candidate>, Failure> {
    let mut entries: Vec<(PathBuf, bool)> = Vec::new();
    for path in &input.paths {
        if path.is_dir() {
            entries.extend(members_of(path)?.into_iter().map(|entry| (entry, false)));
        } else {
            entries.push((path.clone(), true));
        }
    }
    let maps = maps_of(&input.map, &entries.iter().map(|(path, _)| path.as_path()).collect::<Vec<_>>())?;
    let opener = input.opener();
    let mut candidates = Vec::new();
    for (path, is_named) in entries {
        match open(&opener, &path, look(input), maps.get(&path), limit) {
            Ok(found) => candidates.extend(found),
            Err(error) if is_named => return Err(error),
            Err(error) => output::warning(&error.message),
        }
    }
    if candidates.is_empty() {
        let paths: Vec<String> = input.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::operational(format!("{}: no files or block devices in it", paths.join(", "))));
    }
    Ok(candidates)
}

/// The disks in one input: an archive may hold several.
pub(crate) fn open(
    opener: &Opener,
    path: &Path,
    look: Look,
    map: Option<&RescueMap>,
    limit: Option<&Arc<RateLimit>>,
) -> Result<Vec<Candidate>, Failure> {
    let mut found = Vec::new();
    for medium in opener.open(path).map_err(|error| Failure::operational(error.to_string()))? {
        found.extend(candidates_on(medium, look, map.cloned(), limit)?);
    }
    Ok(found)
}

/// The members on one disk.
fn candidates_on(
    medium: Medium,
    look: Look,
    map: Option<RescueMap>,
    limit: Option<&Arc<RateLimit>>,
) -> Result<Vec<Candidate>, Failure> {
    let Medium { path, part, mut bytes } = medium;
    if let Some(limit) = limit {
        bytes = Arc::new(Throttled::new(bytes, Arc::clone(limit)));
    }
    if let Some(map) = map {
        bytes = Arc::new(Mapped::new(bytes, map));
    }
    members(&Medium { path, part, bytes }, look).map_err(|error| Failure::operational(error.to_string()))
}

/// Where on each path to look.
pub(crate) fn look(input: &InputArgs) -> Look {
    match (input.partition, input.offset) {
        (Some(number), _) => Look::Partition(number),
        (None, Some(offset)) => Look::Offset(offset),
        (None, None) if input.find_labels => Look::Search,
        (None, None) => Look::Tables,
    }
}

/// The files and block devices of a directory, by name; not those below it.
pub(crate) fn members_of(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: std::io::Error| {
        Failure::operational(format!("cannot list the directory {}: {error}", directory.display()))
    };
    let mut members = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        // Links are followed: a folder of links to devices is a common way to name members.
        if std::fs::metadata(&path).is_ok_and(|metadata| is_medium(&metadata)) {
            members.push(path);
        }
    }
    members.sort();
    Ok(members)
}

fn is_medium(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if metadata.file_type().is_block_device() {
            return true;
        }
    }
    metadata.is_file()
}

/// Opens all inputs and puts one pool together. Named inputs that are no members are told on stderr.
pub(crate) fn pool(
    input: &InputArgs,
    wanted: Option<&str>,
    limit: Option<&Arc<RateLimit>>,
) -> Result<Assembly, Failure> {
    let candidates = candidates(input, limit)?;
    let wanted = wanted.map(Selector::parse);
    let candidates = search::add_members(candidates, input, wanted.as_ref(), limit)?;
    let assembly = Assembly::from_candidates(candidates, wanted.as_ref()).map_err(|error| Failure {
        is_unsupported: matches!(
            error,
            AssemblyError::UnsupportedFeatures { .. } | AssemblyError::UnsupportedVersion { .. }
        ),
        ..Failure::operational(error.to_string())
    })?;
    for ignored in &assembly.ignored {
        if input.paths.contains(&ignored.file_path) {
            output::warning(&format!("{} is not used: {}", ignored.path, ignored.because));
        }
    }
    Ok(assembly)
}

/// Txgs that are listed when another one was asked for.
const TXGS_LISTED_MAX: usize = 12;

/// Goes to the state of an older txg.
pub(crate) fn select_txg(assembly: &mut Assembly, txg: u64) -> Result<(), Failure> {
    let states = assembly.states();
    let Some(state) = states.iter().find(|state| state.chosen.uberblock.txg.0 == txg) else {
        let mut txgs: Vec<String> = states.iter().map(|state| state.chosen.uberblock.txg.to_string()).collect();
        txgs.dedup();
        let more = if txgs.len() > TXGS_LISTED_MAX { ", ..." } else { "" };
        txgs.truncate(TXGS_LISTED_MAX);
        let list = txgs.join(", ");
        return Err(Failure::operational(format!(
            "--txg {txg}: no uberblock of that txg is left; there are {list}{more} (`zcheck txgs` shows what can be read of each)"
        )));
    };
    assembly.select(state).map_err(|error| Failure::operational(error.to_string()))
}
