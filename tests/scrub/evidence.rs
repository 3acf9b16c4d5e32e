//! The evidence of a finding: which copy, on which device, at which byte of it, and what was there instead. What is
//! expected follows from the damage that was done, not from what zcheck once said.

use crate::support::{damaged_media, ensure, for_all, image, options, scrub};
use fixtures::{Case, Op, cases, images_dir};
use std::collections::BTreeSet;
use zfs_scrub::finding::{CopyEvidence, CopyResult, Kind, Observed};
use zfs_scrub::outcome::exit;
use zfs_scrub::{Finding, Outcome};

fn case(name: &str) -> Case {
    Case::read(&images_dir().join("cases").join(format!("{name}.json")))
}

fn run(case: &Case) -> Outcome {
    scrub(&damaged_media(case), &image(&case.pool).expected.pool, &options()).unwrap()
}

fn bad_copies(finding: &Finding) -> impl Iterator<Item = &CopyEvidence> {
    finding.copies.iter().filter(|copy| !matches!(copy.result, CopyResult::Ok | CopyResult::Missing))
}

/// (block, device, offset on it, what was there) of all bad copies of level-0 blocks of one file.
fn bad_copies_of(outcome: &Outcome, path: &str) -> BTreeSet<(u64, String, u64, Option<Observed>)> {
    let of_file = |finding: &&Finding| {
        finding.place.level == Some(0)
            && (finding.place.path.as_deref() == Some(path)
                || finding.place.also_in.iter().any(|name| name.ends_with(&format!(":{path}"))))
    };
    let of_finding = |finding: &Finding| {
        let block = finding.place.block.unwrap();
        let row = |copy: &CopyEvidence| {
            (block, copy.device.clone().unwrap(), copy.device_offset_bytes.unwrap(), copy.observed)
        };
        bad_copies(finding).map(row).collect::<Vec<_>>()
    };
    outcome.findings.iter().filter(of_file).flat_map(of_finding).collect()
}

/// Expected rows for [`bad_copies_of`].
fn rows(rows: &[(u64, &str, u64, Observed)]) -> BTreeSet<(u64, String, u64, Option<Observed>)> {
    rows.iter().map(|&(block, device, offset, seen)| (block, device.to_owned(), offset, Some(seen))).collect()
}

#[test]
fn two_sides_of_a_mirror_with_different_holes_are_told_apart() {
    let outcome = run(&case("mirror-sides-differ"));
    let expected = rows(&[(0, "m.0", 4_299_264, Observed::Other), (2, "m.1", 4_587_520, Observed::Other)]);
    assert_eq!(bad_copies_of(&outcome, "/random.bin"), expected);
    assert_eq!(outcome.findings.len(), 2);
    assert!(outcome.findings.iter().all(|finding| finding.recoverable && finding.copies.len() == 2));
}

#[test]
fn a_flipped_bit_is_told_as_one() {
    let outcome = run(&case("single-bit-flip"));
    let found = bad_copies_of(&outcome, "/random.bin");
    let (block, _, offset, observed) = found.first().cloned().unwrap();
    assert_eq!((found.len(), block, observed), (1, 1, Some(Observed::BitFlip)));
    assert!((offset..offset + (128 << 10)).contains(&4_448_415), "{offset}");
    let place = &outcome.findings[0].place;
    assert_eq!((place.file_offset, place.file_length), (Some(128 << 10), Some(128 << 10)));
}

#[test]
fn a_block_of_zeros_is_told_as_one() {
    let outcome = run(&case("single-zeroed-block"));
    let expected = rows(&[(0, "disk0", 4_300_800, Observed::Zeros)]);
    assert_eq!(bad_copies_of(&outcome, "/random.bin"), expected);
}

#[test]
fn both_sides_of_a_lost_block_are_shown() {
    let outcome = run(&case("mirror-both-sides-one-block"));
    let expected = rows(&[(1, "m.0", 4_430_336, Observed::Other), (1, "m.1", 4_430_336, Observed::Other)]);
    assert_eq!(bad_copies_of(&outcome, "/random.bin"), expected);
    assert_eq!((outcome.summary.lost_blocks, outcome.summary.degraded_blocks), (1, 0));
}

#[test]
fn blocks_of_two_files_are_found_where_they_were_hurt() {
    let outcome = run(&case("single-two-files"));
    let hurt = |path: &str| -> Vec<u64> {
        bad_copies_of(&outcome, path).into_iter().map(|(_, _, offset, _)| offset).collect()
    };
    assert_eq!((hurt("/random.bin"), hurt("/text.log")), (vec![4_431_872], vec![5_140_480]));
}

#[test]
fn one_copy_of_an_indirect_block_is_told_and_hides_nothing() {
    let outcome = run(&case("single-indirect-one-copy"));
    let [finding] = outcome.findings.as_slice() else { panic!("{:?}", outcome.findings) };
    let bad: Vec<_> = bad_copies(finding).map(|copy| copy.device_offset_bytes).collect();
    assert_eq!(bad, [Some(5_009_920)]);
    assert_eq!((finding.place.level, finding.recoverable, finding.hidden_blocks), (Some(1), true, 0));
}

#[test]
fn a_zeroed_side_of_a_mirror_shows_only_there_and_only_in_the_range() {
    let case = case("mirror-one-side-zeroed");
    let zeroed = case.ranges("m.0").next().unwrap();
    let outcome = run(&case);
    let bad: Vec<&CopyEvidence> = outcome.findings.iter().flat_map(bad_copies).collect();
    assert!(bad.len() > 40, "{}", bad.len());
    for copy in bad {
        let start = copy.device_offset_bytes.unwrap();
        assert_eq!(copy.device.as_deref(), Some("m.0"));
        assert!(zeroed.contains(&start) && start + copy.length_bytes <= zeroed.end, "{copy:?}");
        assert_eq!(copy.observed, Some(Observed::Zeros), "{copy:?}");
    }
}

/// Each bad copy overlaps a range that the case overwrote on that device.
fn check_ranges(case: &Case) -> Result<(), String> {
    let mut overwritten = case.clone();
    // A swap overwrites two ranges.
    let swapped = case.ops.iter().filter_map(|op| match op {
        Op::Swap { device, offset, length, from } => {
            Some([*offset, *from].map(|offset| Op::Zero { device: device.clone(), offset, length: *length }))
        }
        _ => None,
    });
    overwritten.ops.extend(swapped.flatten());
    for finding in &run(case).findings {
        for copy in bad_copies(finding) {
            // On raidz an entry without a device stands for a block that cannot be rebuilt: no column can be blamed.
            let (Some(device), Some(start)) = (copy.device.clone(), copy.device_offset_bytes) else { continue };
            let end = start + copy.length_bytes;
            let is_hit = overwritten.ranges(&device).any(|range| range.start < end && start < range.end);
            ensure(is_hit, || format!("{}: nothing was damaged at {copy:?}", case.name))?;
        }
    }
    Ok(())
}

#[test]
fn no_copy_is_called_bad_that_was_not_touched() {
    let is_in_place = |op: &Op| !matches!(op, Op::Truncate { .. } | Op::Shift { .. });
    let mut cases = cases(&images_dir().join("cases"));
    cases.retain(|case| case.ops.iter().all(is_in_place) && case.openzfs.imported);
    assert!(cases.len() > 15);
    for_all(&cases, check_ranges);
}

/// With more members missing than parity makes up for, blocks are missing; nothing shows that any is corrupt.
#[test]
fn columns_that_are_not_there_are_not_called_corrupt() {
    let mut case = case("raidz1-3disk-1-missing");
    case.ops.push(Op::Remove { device: "z.1".into() });
    let outcome = run(&case);
    assert_eq!(outcome.summary.exit_status, exit::DAMAGED | exit::INCOMPLETE);
    let kinds: BTreeSet<Kind> = outcome.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, BTreeSet::from([Kind::MemberMissing, Kind::RootLost, Kind::BlockMissing]));
    let raidz = &outcome.vdevs[0];
    assert!(std::iter::once(raidz).chain(&raidz.children).all(|vdev| vdev.checksum_errors + vdev.read_errors == 0));
    let copies = outcome.findings.iter().flat_map(|finding| &finding.copies);
    assert!(copies.into_iter().all(|copy| copy.result == CopyResult::Missing));
}
