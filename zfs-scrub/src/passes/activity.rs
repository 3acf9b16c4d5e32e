//! Whether the pool is in use while it is checked.
//!
//! Checks: whether this host has it imported (its kernel says so), and, by reading the labels again at the end, whether
//! a newer uberblock appeared since they were first read. One of a newer txg means that blocks were written and freed
//! meanwhile: what was found bad may just have been written anew. One of the same txg is a heartbeat of a host that has
//! the pool imported (multihost), and changes nothing.
//!
//! Source: OpenZFS module/zfs/mmp.c; module/os/linux/spl/spl-kstat.c and module/zfs/spa_stats.c for the files in /proc.

use crate::finding::{Finding, Kind, Place};
use zfs_format::Txg;
use zfs_format::media::Host;
use zfs_format::ondisk::uberblock::Uberblock;
use zfs_format::pool::Assembly;

/// The pool went on while it was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The newest txg when the pool was opened.
    pub(crate) from: Txg,
    /// The newest txg at the end.
    pub(crate) to: Txg,
}

/// Notes, and how far the pool went on.
pub(crate) fn check(assembly: &Assembly, host: &Host) -> (Vec<Finding>, Option<Change>) {
    let mut findings = Vec::new();
    let mut add = |kind, message| {
        let place = Place { device: Some(assembly.name.clone()), ..Place::default() };
        findings.push(Finding::new(kind, place, message));
    };
    let imported = imported_here(assembly, host);
    if let Some(how) = imported {
        add(Kind::PoolInUse, format!("it is imported on this host ({how})"));
    }
    let (Some(before), Some(now)) = (assembly.newest_uberblock(), assembly.newest_uberblock_now()) else {
        return (findings, None);
    };
    if now.cmp_best(&before).is_le() {
        return (findings, None);
    }
    if (now.txg, now.rootbp.checksum()) == (before.txg, before.rootbp.checksum()) {
        if imported.is_none() {
            add(Kind::PoolInUse, heartbeat(assembly, &before, &now));
        }
        return (findings, None);
    }
    let change = Change { from: before.txg, to: now.txg };
    add(Kind::PoolChanged, format!("the pool changed during the check (txg {} to {})", change.from, change.to));
    (findings, Some(change))
}

/// By what this host says that it has the pool imported.
fn imported_here(assembly: &Assembly, host: &Host) -> Option<&'static str> {
    let name = &assembly.name;
    // Names of pools have no slashes. A damaged label may say anything.
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    let folder = format!("proc/spl/kstat/zfs/{name}");
    if host.has(&folder) {
        // Another pool may have the name. Older releases do not tell the guid.
        let guid = host.read(&format!("{folder}/guid")).and_then(|text| text.parse::<u64>().ok());
        return guid.is_none_or(|guid| guid == assembly.guid.0).then_some("/proc/spl/kstat/zfs");
    }
    let mounts = host.read("proc/mounts")?;
    let is_own = |line: &str| {
        let mut words = line.split(' ');
        let (dataset, kind) = (words.next().unwrap_or_default(), words.nth(1));
        kind == Some("zfs") && dataset.split(['/', '@']).next() == Some(name.as_str())
    };
    mounts.lines().any(is_own).then_some("/proc/mounts")
}

/// What the heartbeat of another host says.
fn heartbeat(assembly: &Assembly, before: &Uberblock, now: &Uberblock) -> String {
    let who = assembly.hostname.as_deref().map_or_else(|| "some host".to_owned(), |name| format!("host {name}"));
    let sequence = |uberblock: &Uberblock| {
        let number = uberblock.mmp.and_then(|mmp| mmp.seq).map_or_else(String::new, |seq| format!(", number {seq}"));
        format!("second {}{number}", uberblock.timestamp_s)
    };
    format!(
        "{who} has it imported: its heartbeat went on during the check (from {} to {}); no txg was written meanwhile",
        sequence(before),
        sequence(now)
    )
}
