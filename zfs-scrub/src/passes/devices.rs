//! What reading the devices was like.
//!
//! Checks: of each device, at the end of the run, whether ranges of it could not be read, whether it disappeared, and
//! whether reads failed at first. It reads nothing: the devices have recorded it.

use crate::finding::{Finding, Kind, Place};
use std::ops::Range;
use zfs_format::media::{DeviceReport, Gone, ReadAt};
use zfs_format::vdev::VdevTree;

/// Ranges that are listed; the rest is counted.
const RANGES_LISTED_MAX: usize = 16;

/// Findings about the devices of a pool that were given.
pub(crate) fn check(tree: &VdevTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for leaf in &tree.leaves {
        let Some(device) = &leaf.medium else { continue };
        let report = device.report();
        let mut add = |kind, message| {
            let place = Place { device: Some(leaf.name.clone()), ..Place::default() };
            findings.push(Finding::new(kind, place, message));
        };
        if !report.bad_ranges.is_empty() {
            add(Kind::MemberUnreadable, unreadable(&report));
        }
        if let Some(gone) = report.gone {
            add(Kind::MemberGone, disappeared(gone, device.size_bytes()));
        }
        if report.recovered_reads > 0 {
            let reads = if report.recovered_reads == 1 { "read" } else { "reads" };
            let message = format!("{} {reads} failed, and succeeded when repeated", report.recovered_reads);
            add(Kind::MemberUnsteady, message);
        }
    }
    findings
}

/// `1,536 bytes in 2 ranges: 4096-4607, 8192-9215`, with offsets of first and last bytes.
fn unreadable(report: &DeviceReport) -> String {
    let ranges = &report.bad_ranges;
    let bytes: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let show = |range: &Range<u64>| format!("{}-{}", range.start, range.end.saturating_sub(1));
    let listed: Vec<String> = ranges.iter().take(RANGES_LISTED_MAX).map(show).collect();
    let more = match ranges.len().saturating_sub(RANGES_LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let at_least = if report.bad_ranges_are_cut { "at least " } else { "" };
    let noun = if ranges.len() == 1 { "range" } else { "ranges" };
    format!("{at_least}{bytes} bytes in {} {noun} cannot be read: bytes {}{more}", ranges.len(), listed.join(", "))
}

fn disappeared(gone: Gone, size: u64) -> String {
    match gone.from {
        0 => format!("it disappeared at a read of byte {}; nothing could be read from it afterwards", gone.at),
        from => format!("it had {size} bytes, and ends at byte {from} since a read of byte {}", gone.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_listed_up_to_a_bound() {
        let mut report = DeviceReport::default();
        report.bad_ranges.push(4096..4608);
        assert_eq!(unreadable(&report), "512 bytes in 1 range cannot be read: bytes 4096-4607");
        report.bad_ranges = (0..20).map(|number| number * 1024..number * 1024 + 512).collect();
        report.bad_ranges_are_cut = true;
        let message = unreadable(&report);
        assert!(message.starts_with("at least 10240 bytes in 20 ranges cannot be read: bytes 0-511, 1024-1535, "));
        assert!(message.ends_with(", 15360-15871 and 4 more"), "{message}");
    }
}
