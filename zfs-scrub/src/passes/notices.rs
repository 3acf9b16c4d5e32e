//! What the pool's state promises or keeps, and is no damage: logs that wait for replay, a checkpoint, frees in the
//! background, interrupted receives, a removal or a scan in progress.
//!
//! Reads the MOS only; what of it cannot be read has findings of its own. A log that was removed leaves a hole among the
//! vdevs, of which there is nothing to say.

use crate::finding::{Finding, Kind, Place};
use crate::outcome::IntentLogFacts;
use std::ops::ControlFlow;
use zfs_format::block::{BlockReader, Work};
use zfs_format::dataset::{Dataset, DatasetMap};
use zfs_format::ondisk::scan::{Scan, ScanFunction};
use zfs_format::pool::{Assembly, Freeing, Mos, PartialReceive, Removal};

/// Names of files told in a message.
const NAMES_MAX: usize = 5;

/// A note for each. Gives the logs the names of their datasets.
pub(crate) fn check(assembly: &Assembly, logs: &mut [IntentLogFacts]) -> Vec<Finding> {
    let mut work = Work::default();
    let root = &assembly.chosen.uberblock.rootbp;
    let Ok(mut mos) = Mos::open(BlockReader::new(&assembly.tree), root, &mut work) else { return Vec::new() };
    let map = DatasetMap::load(&mut mos, &assembly.name, &mut work);
    for log in &mut *logs {
        log.dataset = map.datasets.get(&log.objset).map(|dataset| dataset.name.clone());
    }
    logs.sort_by(|a, b| (&a.dataset, a.objset).cmp(&(&b.dataset, b.objset)));
    let mut findings: Vec<Finding> = logs.iter().map(log_waits).collect();
    let pool = || Place { device: Some(assembly.name.clone()), ..Place::default() };
    let mut add = |kind, message: Option<String>| {
        findings.extend(message.map(|message| Finding::new(kind, pool(), message)));
    };
    add(Kind::CheckpointKept, checkpoint(&mut mos, &mut work));
    add(Kind::FreeingRunning, mos.freeing(&mut work).ok().and_then(|freeing| freeing_runs(&freeing)));
    add(Kind::RemovalRunning, mos.removal(&mut work).ok().flatten().map(|removal| removal_runs(&removal)));
    add(Kind::ScanRunning, mos.scan(&mut work).ok().flatten().map(|scan| scan_runs(&scan)));
    for dataset in map.datasets.values().filter(|dataset| dataset.snapshot.is_none()) {
        if let Ok(Some(receive)) = mos.partial_receive(dataset.object, &mut work) {
            findings.push(receive_broke_off(dataset, &receive));
        }
    }
    findings
}

/// `1 file`, `2 files`.
fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn log_waits(log: &IntentLogFacts) -> Finding {
    let operations: Vec<String> =
        log.operations.iter().map(|(operation, count)| format!("{} {count}", operation.plural())).collect();
    let is_one = log.records == 1;
    let mut message = format!(
        "{} ({}) will be replayed at the next {}: ",
        counted(log.records, "record", "records"),
        operations.join(", "),
        if log.is_claimed { "mount; an import has claimed the log" } else { "import" },
    );
    if log.unreadable_records == log.records {
        message.push_str("what ");
        message.push_str(if is_one { "it changes is encrypted" } else { "they change is encrypted" });
    } else {
        let least = if log.files_are_cut { "at least " } else { "" };
        message.push_str(&format!(
            "{least}{}, {} of data",
            counted(log.files, "file", "files"),
            counted(log.written_bytes, "byte", "bytes")
        ));
        if log.cloned_bytes > 0 {
            message.push_str(&format!(" and {} cloned", counted(log.cloned_bytes, "byte", "bytes")));
        }
        if log.unreadable_records > 0 {
            message.push_str(&format!(", not counting {} encrypted records", log.unreadable_records));
        }
    }
    message.push_str(&match (log.oldest_txg, log.newest_txg) {
        (oldest, newest) if oldest == newest => format!("; of txg {oldest}"),
        (oldest, newest) => format!("; of txgs {oldest} to {newest}"),
    });
    if !log.created.is_empty() {
        let told = log.created.get(..NAMES_MAX).unwrap_or(&log.created);
        message.push_str(&format!("; new are {}", told.join(", ")));
        match log.created.len() - told.len() {
            0 => {}
            more if log.created_are_cut => message.push_str(&format!(" and more than {more} others")),
            more => message.push_str(&format!(" and {}", counted(more as u64, "other", "others"))),
        }
    }
    let place = Place { dataset: log.dataset.clone(), objset: Some(log.objset), ..Place::default() };
    Finding::new(Kind::IntentLogWaits, place, message)
}

/// The checkpoint, and the space that only it holds: what was freed since and is kept.
fn checkpoint(mos: &mut Mos<'_>, work: &mut Work) -> Option<String> {
    let uberblock = mos.checkpoint(work).ok().flatten()?;
    let mut bytes = 0_u64;
    let is_read = mos
        .checkpointed_ranges(work, &mut |_, _, length| {
            bytes = bytes.saturating_add(length);
            ControlFlow::Continue(())
        })
        .is_ok();
    let space = if is_read { format!("; {bytes} bytes are used by it alone") } else { String::new() };
    Some(format!("a checkpoint keeps the state of txg {}, written {}{space}", uberblock.txg, at(uberblock.timestamp_s)))
}

fn freeing_runs(freeing: &Freeing) -> Option<String> {
    if freeing.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    if freeing.trees > 0 {
        parts.push(format!(
            "{}, {} bytes",
            counted(freeing.trees, "tree of a destroyed dataset", "trees of destroyed datasets"),
            freeing.tree_bytes
        ));
    }
    if freeing.clones > 0 {
        parts.push(counted(freeing.clones, "destroyed clone", "destroyed clones"));
    }
    if freeing.listed_bytes > 0 {
        parts.push(format!("listed blocks, {} bytes", freeing.listed_bytes));
    }
    (!parts.is_empty()).then(|| format!("still to be freed: {}", parts.join("; ")))
}

fn removal_runs(removal: &Removal) -> String {
    let Removal { vdev, to_copy_bytes, copied_bytes } = removal;
    format!("top-level vdev {vdev} is being removed: {copied_bytes} of {to_copy_bytes} bytes were copied")
}

fn scan_runs(scan: &Scan) -> String {
    let what = if scan.function == ScanFunction::RESILVER { "a resilver" } else { "a scrub" };
    let state = if scan.is_paused { "is paused" } else { "is in progress" };
    let found =
        if scan.errors > 0 { format!(", {} found", counted(scan.errors, "error", "errors")) } else { String::new() };
    let Scan { to_examine_bytes, examined_bytes, .. } = scan;
    let started = at(scan.start_s);
    format!(
        "{what} by ZFS, begun {started}, {state}: {examined_bytes} of {to_examine_bytes} bytes were examined{found}"
    )
}

fn receive_broke_off(dataset: &Dataset, receive: &PartialReceive) -> Finding {
    let PartialReceive { to_guid, object, offset_bytes, received_bytes } = receive;
    let message = format!(
        "a receive into {} broke off after {received_bytes} bytes of the stream (at object {object}, offset \
         {offset_bytes}); it can be resumed with the snapshot whose guid is {to_guid}",
        dataset.name.strip_suffix("/%recv").unwrap_or(&dataset.name)
    );
    let place = Place { dataset: Some(dataset.name.clone()), objset: Some(dataset.object), ..Place::default() };
    Finding::new(Kind::ReceiveInterrupted, place, message)
}

/// Seconds since 1970 as a date in UTC.
fn at(seconds: u64) -> String {
    const DAY: u64 = 86_400;
    // Later than anybody wrote: no date.
    if seconds > 1 << 40 {
        return format!("in second {seconds}");
    }
    let (mut year, mut day) = (1970, seconds / DAY);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // 400 years have 146,097 days.
    year += day / 146_097 * 400;
    day %= 146_097;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let second = seconds % DAY;
    format!("{year}-{month:02}-{:02} {:02}:{:02}:{:02} UTC", day + 1, second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_date() {
        // The answers of `date -u`.
        for (seconds, date) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_796_048_855, "2026-11-30 14:27:35 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (16_725_225_600, "2500-01-01 00:00:00 UTC"),
        ] {
            assert_eq!(at(seconds), date);
        }
        assert_eq!(at(u64::MAX), "in second 18446744073709551615");
    }
}
