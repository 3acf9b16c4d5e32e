//! The counts of a scrub are those of `zdb -bcc`, and a whole pool is called whole.

use crate::support::{ensure, for_all, kept_pools, media_of, name_of, options, scrub, shared_pools};
use fixtures::{RealPool, ZdbTotals};
use zfs_scrub::outcome::{NotCheckedReason, Totals, Verdict};
use zfs_scrub::{Outcome, Severity};

/// Pools that are not whole, and what zcheck must answer.
const NOT_CLEAN: &[(&str, Verdict, u8)] = &[
    ("public/broken-mirror", Verdict::Degraded, 1),
    ("draid2-spare-active-one-missing", Verdict::Degraded, 9),
    ("draid2-two-spares-active-two-missing", Verdict::Degraded, 9),
];

/// Pools that cannot be checked, and a part of the error.
const REFUSED: &[(&str, &str)] = &[("public/v999", "version 999 is not supported")];

fn listed<T: Copy>(list: &[(&str, T)], pool: &RealPool) -> Option<T> {
    list.iter().find(|(folder, _)| *folder == pool.folder).map(|&(_, value)| value)
}

/// The totals that `zdb` knows too.
fn as_zdb_counts(totals: &Totals) -> ZdbTotals {
    ZdbTotals {
        blocks: totals.blocks,
        gang_blocks: totals.gang_blocks,
        logical_bytes: totals.logical_bytes,
        physical_bytes: totals.physical_bytes,
        allocated_bytes: totals.allocated_bytes,
        dedup_saved_bytes: totals.dedup_saved_bytes,
        cloned_bytes: totals.cloned_bytes,
        embedded_blocks: totals.embedded_blocks,
    }
}

/// The complaint about an outcome, if there is one.
fn judge(pool: &RealPool, outcome: &Outcome) -> Result<(), String> {
    let folder = &pool.folder;
    let counted = as_zdb_counts(&outcome.totals);
    if let Some(zdb) = pool.expected.zdb {
        ensure(counted == zdb, || format!("{folder}: counted {counted:?}\n  where zdb counted {zdb:?}"))?;
    }
    let not_clean = NOT_CLEAN.iter().find(|(name, ..)| name == folder);
    let (wanted, status) = not_clean.map_or((Verdict::Clean, 0), |&(_, verdict, status)| (verdict, status));
    let summary = &outcome.summary;
    ensure(summary.verdict == wanted, || format!("{folder}: {:?}, not {wanted:?}", summary.verdict))?;
    ensure(summary.exit_status == status, || format!("{folder}: exit status {}", summary.exit_status))?;
    if wanted == Verdict::Clean {
        let finding = outcome.findings.iter().find(|finding| finding.severity > Severity::Note);
        ensure(finding.is_none(), || format!("{folder}: {finding:?}"))?;
        let left = outcome.not_checked.iter().find(|left| left.reason != NotCheckedReason::NoKey);
        ensure(left.is_none(), || format!("{folder}: {left:?}"))?;
    }
    Ok(())
}

fn check(pool: &RealPool) -> Result<(), String> {
    let folder = &pool.folder;
    match (scrub(&media_of(pool), name_of(pool), &options()), listed(REFUSED, pool)) {
        (Ok(outcome), None) => judge(pool, &outcome),
        (Err(error), Some(part)) if error.to_string().contains(part) => Ok(()),
        (result, _) => Err(format!("{folder}: {:?}", result.err())),
    }
}

#[test]
fn kept_pools_are_clean_and_count_as_zdb_does() {
    for_all(&kept_pools(), |pool| {
        ensure(pool.expected.zdb.is_some(), || format!("{}: no numbers of zdb", pool.folder))?;
        check(pool)
    });
}

#[test]
fn shared_pools_are_clean_and_count_as_zdb_does() {
    for_all(&shared_pools(), check);
}
