//! Copies, parity and the shape of the pool: cases of groups D and E of the collection of bug reports
//! (`docs/cases.md`) that no other test has.

use crate::support::{devices_of, image, in_memory, name_of, options, scrub, shared_pool};
use fixtures::{Damage, DatasetSpec, PoolSpec, make};
use zfs_scrub::finding::{CopyResult, LEVEL_OBJSET};
use zfs_scrub::outcome::exit;
use zfs_scrub::{Finding, Kind, Options, Outcome, Severity};

type Devices = Vec<(String, Vec<u8>)>;

fn kept(folder: &str) -> Devices {
    devices_of(&image(folder))
}

fn checked(devices: Devices, folder: &str) -> Outcome {
    scrub(&in_memory(devices), name_of(&image(folder)), &options()).unwrap()
}

fn status(outcome: &Outcome) -> u8 {
    outcome.summary.exit_status
}

fn of_kind(outcome: &Outcome, kind: Kind) -> Vec<&Finding> {
    outcome.findings.iter().filter(|finding| finding.kind == kind).collect()
}

/// Devices with a bad copy or column.
fn bad_devices(outcome: &Outcome) -> Vec<String> {
    let copies = outcome.findings.iter().flat_map(|finding| &finding.copies);
    let bad = copies.filter(|copy| copy.result == CopyResult::Checksum);
    let mut names: Vec<String> = bad.filter_map(|copy| copy.device.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The devices of a pool but some.
fn without(folder: &str, missing: &[&str]) -> Devices {
    kept(folder).into_iter().filter(|(name, _)| !missing.contains(&name.as_str())).collect()
}

/// Leaves with what they alone may bring back.
fn unlocks(outcome: &Outcome) -> Vec<(&str, u64)> {
    let leaves = outcome.vdevs.iter().flat_map(|top| &top.children);
    leaves.filter(|leaf| leaf.unlocks_blocks > 0).map(|leaf| (leaf.name.as_str(), leaf.unlocks_blocks)).collect()
}

/// A whole mirror of three is gone. Metadata has copies on the others and is walked; what is out of reach is counted for
/// each side of it, and either side brings all of that back.
#[test]
fn a_missing_vdev_leaves_the_rest_checked_and_says_which_device_brings_it_back() {
    let outcome = checked(without("raid10", &["c.0", "c.1"]), "raid10");
    let lost = outcome.summary.lost_blocks;
    assert_eq!(status(&outcome), exit::DAMAGED | exit::INCOMPLETE);
    assert!(lost > 0 && outcome.totals.decoded_blocks > 100, "{:?}", outcome.totals);
    assert!(outcome.findings.iter().filter(|f| f.severity == Severity::Damaged).all(|f| f.kind == Kind::BlockMissing));
    let hidden: u64 = outcome.findings.iter().map(|finding| finding.hidden_blocks).sum();
    assert_eq!(unlocks(&outcome), [("c.0", lost + hidden), ("c.1", lost + hidden)]);
    for side in ["c.0", "c.1"] {
        let options = Options { at_risk: true, ..options() };
        let given = scrub(&in_memory(without("raid10", &[side])), name_of(&image("raid10")), &options).unwrap();
        assert_eq!((status(&given), given.summary.lost_blocks), (exit::DEGRADED | exit::INCOMPLETE, 0));
        // What was lost without both is now one failure from that.
        let at_risk: Vec<&str> = given.at_risk.iter().flatten().map(|file| file.path.as_str()).collect();
        let damaged = outcome.files.iter().filter(|file| file.severity == Severity::Damaged);
        for file in damaged {
            assert!(at_risk.contains(&file.path.as_str()), "{} is not among {at_risk:?}", file.path);
        }
        let ledger = given.vdevs.iter().map(|top| top.redundancy.unwrap()).map(|r| (r.full == r.blocks, r.lost));
        assert_eq!(ledger.collect::<Vec<_>>(), [(true, 0), (true, 0), (false, 0)]);
    }
}

fn spoil(device: &mut [u8], offset: usize, length: usize) {
    Damage::Random(11).apply(&mut device[offset..offset + length]);
}

#[test]
fn case_d1_one_rotten_side_of_a_mirror_is_found_and_nothing_is_lost() {
    let mut devices = kept("mirror2");
    spoil(&mut devices[0].1, 4 << 20, 50 << 20);
    let outcome = checked(devices, "mirror2");
    assert_eq!((status(&outcome), bad_devices(&outcome)), (exit::DEGRADED, vec!["m.0".to_owned()]));
    let sides = &outcome.vdevs[0].children;
    assert!(sides[0].checksum_errors > 100 && sides[1].checksum_errors == 0, "{sides:?}");
    assert!(outcome.files.iter().all(|file| file.severity == Severity::Degraded));
}

#[test]
fn case_d2_one_bad_copy_of_the_root_is_told_with_its_address() {
    let mut pool = make(&PoolSpec::new("tank").with_dataset(DatasetSpec::new("home")));
    let is_root = |block: &fixtures::MadeBlock| block.owner.objset == 0 && block.level == LEVEL_OBJSET;
    let root = pool.blocks.iter().position(is_root).unwrap();
    assert!(pool.damage_copy(root, 0, None, Damage::Random(3)));
    let span = pool.blocks[root].copies[0].leaves[0];
    let mut bytes = vec![0; usize::try_from(pool.device_bytes(0)).unwrap()];
    pool.read_at(0, 0, &mut bytes);
    let outcome = scrub(&in_memory(vec![("disk0".into(), bytes)]), "tank", &options()).unwrap();
    assert_eq!((status(&outcome), outcome.findings.len()), (exit::DEGRADED, 1), "{:?}", outcome.findings);
    let bad: Vec<_> = outcome.findings[0].copies.iter().filter(|copy| copy.result == CopyResult::Checksum).collect();
    assert_eq!((bad.len(), bad[0].copy, bad[0].device_offset_bytes), (1, 0, Some(span.offset_bytes)));
}

#[test]
fn case_d3_the_rotten_member_of_a_raidz_is_named() {
    for index in 0..3 {
        let mut devices = kept("raidz1-3disk");
        spoil(&mut devices[index].1, 4 << 20, 1 << 20);
        let name = devices[index].0.clone();
        let outcome = checked(devices, "raidz1-3disk");
        assert_eq!((status(&outcome), bad_devices(&outcome)), (exit::DEGRADED, vec![name]));
    }
}

#[test]
fn case_d7_a_side_that_claims_to_be_complete_and_is_not() {
    let mut devices = kept("mirror2");
    let half = 5 << 20;
    let end = devices[1].1.len() - (512 << 10);
    devices[1].1[half..end].fill(0);
    let outcome = checked(devices, "mirror2");
    assert_eq!((status(&outcome), bad_devices(&outcome)), (exit::DEGRADED, vec!["m.1".to_owned()]));
    // No record says that it was away, so these are bad copies and not stale ones.
    let side = &outcome.vdevs[0].children[1];
    assert!(side.checksum_errors > 0 && side.stale_copies == 0, "{side:?}");
}

#[test]
fn case_e1_a_missing_log_device_and_what_cannot_be_replayed() {
    let pools = [
        ("zil-on-slog-unreplayed", "slog", "mirror-1", "the intent log of slog"),
        ("public/zol-0.7.0-rc1-be-ziltest", "ziltestpool.26210", "ziltest_slog.26210", "ziltestpool.26210/fs"),
    ];
    for (folder, name, log, dataset) in pools {
        let Some(pool) = shared_pool(folder) else { return };
        let mut devices = devices_of(&pool);
        let whole = scrub(&in_memory(devices.clone()), name, &options()).unwrap();
        assert!(of_kind(&whole, Kind::IntentLogMissing).is_empty() && status(&whole) == 0, "{:?}", whole.findings);
        devices.retain(|(name, _)| !name.starts_with("l.") && !name.contains("slog"));
        let outcome = scrub(&in_memory(devices), name, &options()).unwrap();
        assert_eq!(status(&outcome), exit::DEGRADED | exit::INCOMPLETE, "{folder}");
        // Everything else is checked: the log blocks of an unclaimed log are all that is not.
        assert_eq!((outcome.summary.lost_blocks, outcome.summary.degraded_blocks), (0, 0), "{folder}");
        let found = of_kind(&outcome, Kind::IntentLogMissing);
        let txg = format!("after txg {}", outcome.pool.txg);
        let tells = |finding: &&Finding| {
            finding.place.device.as_deref() == Some(log)
                && [dataset, txg.as_str(), "zpool import -m"].iter().all(|part| finding.message.contains(part))
        };
        assert!(!found.is_empty() && found.iter().all(tells), "{found:?}");
    }
}

#[test]
fn a_missing_log_device_without_a_log_on_it_costs_no_record() {
    let Some(pool) = shared_pool("classes-special-dedup-log-cache-spare") else { return };
    let mut devices = devices_of(&pool);
    devices.retain(|(name, _)| !name.starts_with("lg."));
    let outcome = scrub(&in_memory(devices), "classes", &options()).unwrap();
    assert_eq!(of_kind(&outcome, Kind::IntentLogMissing).len(), 0, "{:?}", outcome.findings);
    assert_eq!(status(&outcome), exit::DEGRADED | exit::INCOMPLETE);
}

#[test]
fn case_e2_too_few_members_are_each_named_with_guid_and_last_path() {
    let mut devices = kept("raidz1-3disk");
    devices.truncate(1);
    let outcome = checked(devices, "raidz1-3disk");
    let missing = of_kind(&outcome, Kind::MemberMissing);
    let is_told = |finding: &&Finding| finding.message.contains("guid ") && finding.message.contains("last seen as /");
    assert!(missing.len() == 2 && missing.iter().all(is_told), "{missing:?}");
    assert!(status(&outcome) & exit::INCOMPLETE != 0);
    assert!(bad_devices(&outcome).is_empty(), "a device that was given is blamed: {:?}", bad_devices(&outcome));
}

#[test]
fn case_e9_an_expansion_that_stopped_midway_is_a_note() {
    let Some(pool) = shared_pool("raidz2-expanding-in-progress") else { return };
    let outcome = scrub(&in_memory(devices_of(&pool)), name_of(&pool), &options()).unwrap();
    let notes = of_kind(&outcome, Kind::ExpansionRunning);
    assert!(notes.len() == 1 && notes[0].place.device.as_deref() == Some("raidz2-0"), "{:?}", outcome.findings);
    assert_eq!((status(&outcome), outcome.findings.len()), (0, 1));
}

#[test]
fn case_e12_holes_in_the_list_of_vdevs_are_no_finding() {
    let Some(pool) = shared_pool("log-removed-hole") else { return };
    let mut devices = devices_of(&pool);
    devices.retain(|(name, _)| name != "lg");
    let outcome = scrub(&in_memory(devices), "added", &options()).unwrap();
    assert_eq!((status(&outcome), outcome.findings.len()), (0, 0), "{:?}", outcome.findings);
    let ids: Vec<(u64, &str)> = outcome.vdevs.iter().map(|vdev| (vdev.id, vdev.vdev_type.as_str())).collect();
    assert!(ids.contains(&(0, "file")) && ids.contains(&(1, "raidz")), "{ids:?}");
    assert_eq!(outcome.totals.blocks, pool.expected.zdb.unwrap().blocks);
}

#[test]
fn case_e12_the_removed_log_beside_the_pool_is_a_note() {
    let Some(pool) = shared_pool("log-removed-hole") else { return };
    let outcome = scrub(&in_memory(devices_of(&pool)), "added", &options()).unwrap();
    let notes = of_kind(&outcome, Kind::NotAMember);
    assert!(notes.len() == 1 && notes[0].message.contains("its label has txg 0"), "{:?}", outcome.findings);
    assert_eq!((status(&outcome), outcome.findings.len()), (0, 1));
}

#[test]
fn case_e14_one_of_several_top_level_vdevs_alone() {
    let mut devices = kept("stripe3");
    devices.truncate(1);
    let outcome = checked(devices, "stripe3");
    assert_eq!(status(&outcome), exit::DAMAGED | exit::INCOMPLETE);
    assert_eq!(of_kind(&outcome, Kind::MemberMissing).len(), 2);
    // What lies on the others is missing, and not corrupt.
    let lost = outcome.findings.iter().filter(|finding| finding.severity == Severity::Damaged);
    assert!(lost.clone().count() > 0);
    assert!(lost.clone().all(|finding| finding.kind == Kind::BlockMissing), "{:?}", lost.collect::<Vec<_>>());
}
