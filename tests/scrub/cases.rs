//! Damaged pools: what zcheck says of them is what `zpool scrub` and `zdb -bcc` say.

use crate::support::{damaged_media, ensure, for_all, options, pool_of, scrub, shared_cases};
use fixtures::{Case, LostBlock, cases, images_dir};
use std::collections::{BTreeMap, BTreeSet};
use zfs_scrub::finding::Place;
use zfs_scrub::outcome::{NotCheckedReason, VdevFacts, Verdict, exit};
use zfs_scrub::{Finding, Kind, Outcome, Severity};

/// What zcheck answers where OpenZFS has no answer, or one that says nothing of our exit status: error or status.
const SPECIAL: &[(&str, Result<u8, &str>)] = &[
    // No label, no pool: where data begins and what the disk is a part of is not known.
    ("single-all-labels-zeroed", Err("no ZFS label found")),
    // OpenZFS refuses a device that is too small. Labels 0 and 1 are whole, and no block lies beyond the cut: all data
    // is there, and what is missing (the labels at the end) OpenZFS would write again on a device of the right size.
    ("single-truncated", Ok(exit::DEGRADED)),
    // Two labels are enough to import, and importing writes the others.
    ("single-front-labels-zeroed", Ok(exit::DEGRADED)),
    ("single-back-labels-zeroed", Ok(exit::DEGRADED)),
    // What was damaged is no part of the newest state: neither zdb nor a scrub finds an error.
    ("single-mos-root-one-copy", Ok(0)),
    ("single-mos-root-all-copies", Ok(0)),
    // Each block could be verified on the other side.
    ("mirror-one-side-missing", Ok(exit::DEGRADED | exit::INCOMPLETE)),
    ("raidz1-3disk-1-missing", Ok(exit::DEGRADED | exit::INCOMPLETE)),
    ("raidz1-5disk-ashift12-1-missing", Ok(exit::DEGRADED | exit::INCOMPLETE)),
    ("raidz2-4disk-2-missing", Ok(exit::DEGRADED | exit::INCOMPLETE)),
    ("raidz2-6disk-ashift12-2-missing", Ok(exit::DEGRADED | exit::INCOMPLETE)),
    ("raidz3-7disk-3-missing", Ok(exit::DEGRADED | exit::INCOMPLETE)),
];

/// The outcome of a case, or the error that took its place.
fn run(case: &Case) -> Result<Outcome, String> {
    let pool = pool_of(case).expected.pool;
    scrub(&damaged_media(case), &pool, &options()).map_err(|error| error.to_string())
}

/// The exit status that follows from the answer of OpenZFS.
fn expected_status(case: &Case) -> u8 {
    let lost = case.openzfs.zdb.as_ref().is_some_and(|zdb| !zdb.lost_blocks.is_empty());
    let errors = case.openzfs.device_errors.iter().flatten().any(|(_, errors)| errors.checksum + errors.read > 0);
    match (lost, errors) {
        (true, _) => exit::DAMAGED,
        (false, true) => exit::DEGRADED,
        (false, false) => 0,
    }
}

/// Findings of what is lost. OpenZFS does not decode in a scrub, so it does not see what only decoding shows: damage to a
/// block without a checksum.
fn damaged(outcome: &Outcome) -> impl Iterator<Item = &Finding> {
    let is_lost = |finding: &&Finding| finding.severity == Severity::Damaged && finding.kind != Kind::BlockUndecodable;
    outcome.findings.iter().filter(is_lost)
}

/// The places of lost blocks; a block that is shared by dedup or cloning has several, and `zdb` prints each.
fn lost_blocks(outcome: &Outcome) -> BTreeSet<LostBlock> {
    let block = |place: &Place| {
        Some(LostBlock { objset: place.objset?, object: place.object?, level: place.level?, block: place.block? })
    };
    let places = damaged(outcome).flat_map(|finding| std::iter::once(&finding.place).chain(&finding.references));
    places.filter_map(block).collect()
}

/// All names of what a finding hurts.
fn names(finding: &Finding) -> BTreeSet<String> {
    let places = std::iter::once(&finding.place).chain(&finding.references);
    places.flat_map(|place| std::iter::once(place.name()).chain(place.also_in.iter().cloned())).collect()
}

/// What a scrub by OpenZFS calls blocks that it reached through the dedup table, not through a file.
const THROUGH_TABLE: &str = "<metadata>:<0x0>";

/// Every file that OpenZFS names is named here, and every damaged object here is one that OpenZFS names.
fn compare_files(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let Some(theirs) = &case.openzfs.damaged_files else { return Ok(()) };
    let ours: BTreeSet<String> = damaged(outcome).flat_map(names).collect();
    let listed: BTreeSet<String> = outcome
        .files
        .iter()
        .filter(|file| file.severity == Severity::Damaged)
        .flat_map(|file| std::iter::once(file.path.clone()).chain(file.also_in.iter().cloned()))
        .collect();
    let is_through_table = theirs.iter().any(|file| file == THROUGH_TABLE);
    for file in theirs.iter().filter(|file| *file != THROUGH_TABLE) {
        ensure(ours.contains(file), || format!("{}: {file} is in no finding, only {ours:?}", case.name))?;
        ensure(listed.contains(file), || format!("{}: {file} is not among the files: {listed:?}", case.name))?;
    }
    for finding in damaged(outcome) {
        let names = names(finding);
        let is_known =
            theirs.iter().any(|file| names.contains(file)) || is_through_table && !finding.references.is_empty();
        ensure(is_known, || format!("{}: OpenZFS knows none of {names:?}", case.name))?;
    }
    Ok(())
}

/// Leaves by name.
fn leaves(vdevs: &[VdevFacts]) -> BTreeMap<&str, &VdevFacts> {
    let mut pending: Vec<&VdevFacts> = vdevs.iter().collect();
    let mut leaves = BTreeMap::new();
    while let Some(vdev) = pending.pop() {
        pending.extend(&vdev.children);
        if vdev.children.is_empty() {
            leaves.insert(vdev.name.as_str(), vdev);
        }
    }
    leaves
}

/// A device on which OpenZFS met errors has bad copies here; one without damage has none.
fn compare_devices(case: &Case, outcome: &Outcome) -> Result<(), String> {
    let leaves = leaves(&outcome.vdevs);
    // Of a block that raidz cannot rebuild OpenZFS charges every device; zcheck blames none, since none can be told.
    let charges_all = outcome.vdevs.iter().any(|top| top.vdev_type == "raidz" && top.checksum_errors > 0);
    if charges_all {
        return Ok(());
    }
    for (device, theirs) in case.openzfs.device_errors.iter().flatten() {
        // OpenZFS names a device that it does not have by its guid.
        let by_guid = || leaves.values().find(|leaf| leaf.guid.to_string() == *device).copied();
        let ours = leaves.get(device.as_str()).copied().or_else(by_guid);
        let Some(ours) = ours else {
            // A cache holds no block of the pool.
            let is_idle = theirs.checksum + theirs.read == 0;
            ensure(is_idle, || format!("{}: no device {device}", case.name))?;
            continue;
        };
        let bad = ours.checksum_errors + ours.read_errors;
        let both = || format!("{}: {device} has {bad} bad copies; OpenZFS says {theirs:?}", case.name);
        ensure(theirs.checksum == 0 || bad > 0, both)?;
        ensure((theirs.state == "UNAVAIL") == (ours.state == "UNAVAIL"), both)?;
        let is_touched = case.ops.iter().any(|op| op.device() == device);
        ensure(is_touched || bad == 0, both)?;
    }
    Ok(())
}

/// The verdict is the one that the exit status stands for.
fn compare_status(case: &Case, outcome: &Outcome, wanted: u8) -> Result<(), String> {
    let summary = &outcome.summary;
    let found = summary.exit_status;
    ensure(found == wanted, || format!("{}: exit status {found}, not {wanted}", case.name))?;
    let verdict = match found {
        0 => Verdict::Clean,
        status if status & exit::DAMAGED != 0 => Verdict::Damaged,
        status if status & exit::DEGRADED != 0 => Verdict::Degraded,
        _ => Verdict::Incomplete,
    };
    ensure(summary.verdict == verdict, || format!("{}: {:?} with {found}", case.name, summary.verdict))
}

/// `zdb` prints the number of a block in hexadecimal; the cases beside the repository read it as decimal.
fn as_printed(case: &Case, lost: LostBlock) -> LostBlock {
    if case.pools == images_dir() {
        return lost;
    }
    LostBlock { block: u64::from_str_radix(&lost.block.to_string(), 16).unwrap(), ..lost }
}

fn check(case: &Case) -> Result<(), String> {
    let special = SPECIAL.iter().find(|(name, _)| *name == case.name).map(|(_, answer)| *answer);
    let wanted = special.unwrap_or_else(|| Ok(expected_status(case)));
    let outcome = match (run(case), wanted) {
        (Ok(outcome), Ok(wanted)) => {
            compare_status(case, &outcome, wanted)?;
            outcome
        }
        (Err(error), Err(part)) => {
            return ensure(error.contains(part), || format!("{}: {error}, not {part}", case.name));
        }
        (Ok(_), Err(part)) => return Err(format!("{}: an outcome, and not {part}", case.name)),
        (Err(error), Ok(_)) => return Err(format!("{}: {error}", case.name)),
    };
    if let Some(zdb) = &case.openzfs.zdb {
        let ours = lost_blocks(&outcome);
        let theirs: BTreeSet<LostBlock> = zdb.lost_blocks.iter().map(|lost| as_printed(case, *lost)).collect();
        ensure(ours == theirs, || format!("{}: lost here {ours:?}, in zdb {theirs:?}", case.name))?;
        let count = outcome.summary.lost_blocks;
        let is_lost = |finding: &&Finding| finding.severity == Severity::Damaged && finding.is_about_block();
        let findings = outcome.findings.iter().filter(is_lost).count();
        ensure(count == findings as u64, || format!("{}: {count} lost blocks", case.name))?;
    }
    compare_files(case, &outcome)?;
    compare_devices(case, &outcome)
}

#[test]
fn each_damaged_pool_gets_the_answer_of_openzfs() {
    let cases = cases(&images_dir().join("cases"));
    assert!(cases.len() >= 20, "cases are missing");
    for_all(&cases, check);
}

#[test]
fn each_damaged_pool_beside_the_repository_gets_the_answer_of_openzfs() {
    let cases = shared_cases();
    for (name, _) in SPECIAL {
        assert!(cases.is_empty() || cases.iter().any(|case| case.name == *name), "there is no case {name}");
    }
    for_all(&cases, check);
}

#[test]
fn a_lost_indirect_block_says_how_much_it_hides() {
    let case = Case::read(&images_dir().join("cases/single-indirect-both-copies.json"));
    let outcome = run(&case).unwrap();
    let hidden: u64 = damaged(&outcome).map(|finding| finding.hidden_blocks).sum();
    let left = |reason| outcome.not_checked.iter().find(|left| left.reason == reason).and_then(|left| left.blocks);
    assert!(hidden > 0);
    assert_eq!(left(NotCheckedReason::BadParent), Some(hidden));
}

#[test]
fn a_device_cut_short_is_told_with_what_is_missing() {
    let case = Case::read(&images_dir().join("cases/single-truncated.json"));
    let outcome = run(&case).unwrap();
    // The device had 64 MiB and was cut at 40.
    let missing = (24_u64 << 20).to_string();
    let tells = |finding: &Finding| finding.kind == Kind::DeviceTooShort && finding.message.contains(&missing);
    assert!(outcome.findings.iter().any(tells), "{:?}", outcome.findings);
}
