//! Which device is what: the cases of groups A and B of the collection of bug reports (`docs/cases.md`), and others.

use crate::support::{devices_of, image, in_memory, name_of, options, scrub, shared_pool};
use fixtures::{
    PoolSpec, TopSpec, clear_labels, edit_config, exchange_labels, forge_uberblock, label_start, make, newest_slot,
    ring_mut, set_label_u64,
};
use zfs_format::media::Medium;
use zfs_format::pool::{Assembly, Relation, Selector};
use zfs_scrub::outcome::exit;
use zfs_scrub::{Finding, Kind, Outcome};

const ALL: [usize; 4] = [0, 1, 2, 3];
/// Slots of pools with sectors of 512 bytes.
const SLOT_BYTES: usize = 1 << 10;

type Devices = Vec<(String, Vec<u8>)>;

fn kept(folder: &str) -> Devices {
    devices_of(&image(folder))
}

fn checked(devices: Devices, folder: &str) -> Outcome {
    scrub(&in_memory(devices), name_of(&image(folder)), &options()).unwrap()
}

/// The error in place of a pool.
fn refused(devices: Devices) -> String {
    Assembly::new(&in_memory(devices), None).unwrap_err().to_string()
}

fn of_kind(outcome: &Outcome, kind: Kind) -> Vec<&Finding> {
    outcome.findings.iter().filter(|finding| finding.kind == kind).collect()
}

fn status(outcome: &Outcome) -> u8 {
    outcome.summary.exit_status
}

/// A device made by the maker.
fn made(spec: &PoolSpec, device: usize) -> Vec<u8> {
    let pool = make(spec);
    let mut bytes = vec![0; usize::try_from(pool.device_bytes(device)).unwrap()];
    pool.read_at(device, 0, &mut bytes);
    bytes
}

/// Removes the newest uberblock from all labels.
fn age(device: &mut [u8]) {
    for label in ALL {
        let (slot, _) = newest_slot(device, label, SLOT_BYTES);
        ring_mut(device, label)[slot * SLOT_BYTES..][..SLOT_BYTES].fill(0);
    }
}

#[test]
fn case_a1_what_is_no_pool_is_refused_by_name() {
    for (size, part) in [(0, "empty"), (1, "no ZFS label"), (255 << 10, "no ZFS label"), (64 << 20, "no ZFS label")] {
        let text = refused(vec![("x".into(), vec![0; size])]);
        assert!(text.contains(part), "{size}: {text}");
    }
    let mut ext4 = vec![0; 64 << 20];
    ext4[0x438..0x43a].copy_from_slice(b"\x53\xef");
    assert!(refused(vec![("x".into(), ext4)]).contains("ext4"));
}

#[test]
fn case_a2_another_file_system_over_an_old_pool_says_what_is_left() {
    let mut device = kept("single").remove(0).1;
    clear_labels(&mut device, &[0, 1]);
    for label in [2, 3] {
        let start = label_start(&device, label);
        device[start..start + (128 << 10)].fill(0);
    }
    device[0x438..0x43a].copy_from_slice(b"\x53\xef");
    let at = label_start(&device, 2).to_string();
    let text = refused(vec![("x".into(), device)]);
    for part in ["ext4", "remains of an older ZFS label", at.as_str(), "no configuration"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn case_a6_a_log_device_alone_is_no_damaged_pool() {
    let Some(pool) = shared_pool("zil-on-slog-unreplayed") else { return };
    let mut devices = devices_of(&pool);
    devices.retain(|(name, _)| name == "l.0");
    let text = refused(devices);
    for part in ["a log device of pool slog", "top-level vdev 0 is missing"] {
        assert!(text.contains(part), "{text}");
    }
    let Some(pool) = shared_pool("public/zol-0.7.0-rc1-be-ziltest") else { return };
    let mut devices = devices_of(&pool);
    devices.retain(|(name, _)| name.contains("slog"));
    let text = refused(devices);
    assert!(text.contains("a log device of pool ziltestpool.26210"), "{text}");
}

#[test]
fn case_a8_a_copy_in_the_same_state_counts_once() {
    let mut devices = kept("single");
    devices.push(("copy".into(), devices[0].1.clone()));
    let outcome = checked(devices, "single");
    let twice = of_kind(&outcome, Kind::MemberTwice);
    assert!(twice.len() == 1 && twice[0].message.contains("a copy of disk0"), "{twice:?}");
    assert_eq!((status(&outcome), outcome.totals), (0, checked(kept("single"), "single").totals));
}

#[test]
fn case_a8_the_newer_of_two_copies_is_used_in_any_order() {
    let new = kept("single").remove(0);
    let mut old = ("old".to_owned(), new.1.clone());
    age(&mut old.1);
    let txgs = [newest_slot(&old.1, 0, SLOT_BYTES).1, newest_slot(&new.1, 0, SLOT_BYTES).1];
    for devices in [vec![new.clone(), old.clone()], vec![old, new]] {
        let outcome = checked(devices, "single");
        let twice = of_kind(&outcome, Kind::MemberTwice);
        let wanted = format!("an older copy (txg {}) of disk0 (txg {}), which is used", txgs[0], txgs[1]);
        assert!(twice.len() == 1 && twice[0].message == wanted, "{twice:?}");
        assert_eq!((status(&outcome), outcome.pool.txg), (0, txgs[1]));
    }
}

#[test]
fn a_copy_whose_past_cannot_be_compared_is_only_called_older() {
    let spec = PoolSpec::new("tank");
    let newer = PoolSpec { txg: 900, ..spec.clone() };
    let devices = vec![("a".into(), made(&spec, 0)), ("b".into(), made(&newer, 0))];
    let assembly = Assembly::new(&in_memory(devices), None).unwrap();
    assert_eq!((assembly.duplicates.len(), assembly.duplicates[0].relation), (1, Relation::PerhapsOlder));
    assert_eq!(assembly.duplicates[0].used, "b");
}

#[test]
fn two_devices_with_one_guid_and_two_histories_are_both_said_and_one_is_left_unchecked() {
    let first = kept("single").remove(0);
    let mut second = ("second".to_owned(), first.1.clone());
    for label in ALL {
        let (slot, _) = newest_slot(&second.1, label, SLOT_BYTES);
        // The last word of the root pointer's checksum.
        forge_uberblock(&mut second.1, label, SLOT_BYTES, (slot, slot), |words| words[5 + 15] ^= 1);
    }
    let outcome = checked(vec![first, second], "single");
    let rivals = of_kind(&outcome, Kind::MemberRivals);
    assert!(rivals.len() == 1 && rivals[0].message.contains("this one was not checked"), "{rivals:?}");
    assert_eq!(status(&outcome), exit::INCOMPLETE);
    assert!(outcome.not_checked.iter().any(|left| left.what.contains("second")), "{:?}", outcome.not_checked);
}

#[test]
fn case_a10_a_truncated_image_says_how_much_is_missing() {
    let mut device = kept("single").remove(0).1;
    device.truncate(33 << 20);
    let outcome = checked(vec![("disk0".into(), device)], "single");
    let short = of_kind(&outcome, Kind::DeviceTooShort);
    assert!(short.len() == 1 && short[0].message.contains(&(31_u64 << 20).to_string()), "{short:?}");
    assert_eq!(of_kind(&outcome, Kind::LabelMissing).len(), 2);
}

/// Not even the boot area is there, so there is no room for labels at the end; the two in front say what it was.
#[test]
fn case_a10_an_image_cut_within_its_first_sectors_is_still_a_member() {
    for size in [512 << 10, 1_100_000, 4_300_000] {
        let mut device = kept("single").remove(0).1;
        device.truncate(size);
        let outcome = checked(vec![("disk0".into(), device)], "single");
        let missing = ((64 << 20) - size).to_string();
        let short = of_kind(&outcome, Kind::DeviceTooShort);
        assert!(short.len() == 1 && short[0].message.contains(&missing), "{short:?}");
        assert_eq!(of_kind(&outcome, Kind::RootLost).len(), 1, "{size}");
        assert_eq!(status(&outcome), exit::DAMAGED | exit::INCOMPLETE);
    }
}

#[test]
fn case_b1_the_front_overwritten() {
    let whole = kept("single").remove(0).1;
    let mut device = whole.clone();
    device[..512 << 10].fill(0);
    let outcome = checked(vec![("disk0".into(), device)], "single");
    assert_eq!((of_kind(&outcome, Kind::LabelMissing).len(), status(&outcome)), (2, exit::DEGRADED));
    let mut device = whole;
    device[..8 << 20].fill(0);
    let outcome = checked(vec![("disk0".into(), device)], "single");
    assert!(status(&outcome) & exit::DAMAGED != 0 && outcome.summary.lost_blocks > 0, "{:?}", outcome.summary);
}

#[test]
fn case_b2_another_file_system_over_the_front_is_named_beside_the_labels_that_are_left() {
    let mut device = kept("single").remove(0).1;
    device[..512 << 10].fill(0);
    device[0x438..0x43a].copy_from_slice(b"\x53\xef");
    let outcome = checked(vec![("disk0".into(), device.clone())], "single");
    let missing = of_kind(&outcome, Kind::LabelMissing);
    assert!(missing[0].message.contains("the device starts like an ext2, ext3 or ext4 file system"), "{missing:?}");
    clear_labels(&mut device, &[2, 3]);
    assert!(refused(vec![("disk0".into(), device)]).contains("ext4"));
}

#[test]
fn case_b4_labels_of_another_pool_at_the_end_are_told_and_not_used() {
    let mut device = made(&PoolSpec { device_bytes: 128 << 20, txg: 900, ..PoolSpec::new("older") }, 0);
    let small = kept("single").remove(0).1;
    device[..small.len()].copy_from_slice(&small);
    let outcome = checked(vec![("disk0".into(), device)], "single");
    let disagree = of_kind(&outcome, Kind::LabelsDisagree);
    assert!(disagree.len() == 1, "{:?}", outcome.findings);
    assert!(disagree[0].message.contains("label 2 names older") && disagree[0].message.contains("label 3 names older"));
    assert_eq!((outcome.pool.name.as_str(), status(&outcome)), ("single", 0));
}

#[test]
fn uberblocks_of_another_pool_are_not_used_when_its_configuration_is_lost() {
    let mut device = made(&PoolSpec { device_bytes: 128 << 20, txg: 900, ..PoolSpec::new("older") }, 0);
    let mut small = kept("single").remove(0).1;
    clear_labels(&mut small, &[2, 3]);
    device[..small.len()].copy_from_slice(&small);
    for label in [2, 3] {
        let start = label_start(&device, label);
        device[start + (20 << 10)] ^= 1;
    }
    let outcome = checked(vec![("disk0".into(), device)], "single");
    assert_eq!(outcome.pool.txg, checked(kept("single"), "single").pool.txg);
    assert_eq!((of_kind(&outcome, Kind::LabelDamaged).len(), status(&outcome)), (2, exit::DEGRADED));
}

#[test]
fn case_b6_one_damaged_label_is_degraded_and_the_others_are_used() {
    let whole = kept("single").remove(0).1;
    let damage: [fn(&mut [u8]); 4] = [
        |label| label[(16 << 10) + 100] ^= 4,
        |label| label[(128 << 10) - 1] ^= 1,
        |label| label[100 << 10] ^= 1,
        |label| label[16 << 10..128 << 10].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7).wrapping_add(3)),
    ];
    for (number, bend) in damage.iter().enumerate() {
        let mut device = whole.clone();
        bend(&mut device);
        let outcome = checked(vec![("disk0".into(), device)], "single");
        let kinds: Vec<Kind> = outcome.findings.iter().map(|finding| finding.kind).collect();
        // Where the magic of the checksum is gone, too, nothing shows that there was a label.
        let is_one = kinds == [Kind::LabelDamaged] || (number == 3 && kinds == [Kind::LabelMissing]);
        assert!(is_one && status(&outcome) == exit::DEGRADED, "{number}: {:?}", outcome.findings);
    }
    let mut device = whole;
    // Under a good checksum: the name of the first pair is longer than everything.
    edit_config(&mut device, 0, |config| config[20..24].fill(0x7f));
    let outcome = checked(vec![("disk0".into(), device)], "single");
    assert_eq!((of_kind(&outcome, Kind::LabelDamaged).len(), status(&outcome)), (1, exit::DEGRADED));
}

#[test]
fn case_b7_configurations_without_an_uberblock_are_told_from_missing_labels() {
    let mut device = kept("single").remove(0).1;
    ALL.iter().for_each(|&label| ring_mut(&mut device, label).fill(0));
    let text = refused(vec![("disk0".into(), device)]);
    for part in ["readable in 4 labels", "no uberblock ring holds a valid uberblock", "0 of 512 slots"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn case_b9_a_detached_device_says_so() {
    let mut devices = kept("mirror2");
    devices.remove(0);
    let (_, txg) = newest_slot(&devices[0].1, 0, SLOT_BYTES);
    ALL.iter().for_each(|&label| set_label_u64(&mut devices[0].1, label, "txg", 0));
    let text = refused(devices);
    for part in ["was detached or removed", "its label has txg 0", format!("is of txg {txg}").as_str()] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_device_that_was_detached_or_replaced_earlier_is_a_note_beside_its_pool() {
    let mut devices = kept("single");
    let mut left = devices[0].1.clone();
    ALL.iter().for_each(|&label| set_label_u64(&mut left, label, "guid", 77));
    age(&mut left);
    devices.push(("left".into(), left));
    let outcome = checked(devices, "single");
    let notes = of_kind(&outcome, Kind::NotAMember);
    assert!(notes.len() == 1 && notes[0].message.contains("it was in use until txg"), "{notes:?}");
    assert_eq!(status(&outcome), 0);
}

#[test]
fn case_b10_half_the_labels_cleared() {
    for labels in [[0, 1], [2, 3]] {
        let mut device = kept("single").remove(0).1;
        clear_labels(&mut device, &labels);
        let outcome = checked(vec![("disk0".into(), device)], "single");
        let missing = of_kind(&outcome, Kind::LabelMissing);
        assert_eq!((missing.len(), status(&outcome)), (2, exit::DEGRADED));
        assert!(
            labels.iter().zip(&missing).all(|(label, found)| found.message.starts_with(&format!("label {label} ")))
        );
    }
}

#[test]
fn case_b13_a_torn_slot_of_8_kib_is_no_damage() {
    let mut device = made(&PoolSpec::new("tank").with_ashift(13), 0);
    let slot_bytes = 8 << 10;
    for label in ALL {
        let (slot, txg) = newest_slot(&device, label, slot_bytes);
        let torn = (slot + 1 + label) % 16;
        forge_uberblock(&mut device, label, slot_bytes, (slot, torn), |words| words[2] = txg + 1);
        ring_mut(&mut device, label)[torn * slot_bytes + (4 << 10)..(torn + 1) * slot_bytes].fill(0xaa);
    }
    let outcome = scrub(&in_memory(vec![("disk0".into(), device)]), "tank", &options()).unwrap();
    assert_eq!((status(&outcome), outcome.findings.len()), (0, 0), "{:?}", outcome.findings);
}

#[test]
fn labels_of_one_device_with_different_txgs_are_no_damage() {
    let mut device = kept("single").remove(0).1;
    [0, 2].iter().for_each(|&label| set_label_u64(&mut device, label, "txg", 5));
    let outcome = checked(vec![("disk0".into(), device)], "single");
    assert_eq!((status(&outcome), outcome.findings.len()), (0, 0), "{:?}", outcome.findings);
}

#[test]
fn members_of_another_pool_of_the_same_name_are_strangers() {
    let mine = PoolSpec::new("tank");
    let other = PoolSpec { guid: 99, ..PoolSpec::new("tank") };
    let media = in_memory(vec![("a".into(), made(&mine, 0)), ("b".into(), made(&other, 0))]);
    let text = Assembly::new(&media, Some(&Selector::Name("tank".into()))).unwrap_err().to_string();
    for part in [format!("tank (guid {})", mine.guid), "tank (guid 99)".into(), "--pool GUID".into()] {
        assert!(text.contains(&part), "{text}");
    }
    let assembly = Assembly::new(&media, Some(&Selector::parse("99"))).unwrap();
    assert_eq!((assembly.members.len(), assembly.ignored.len()), (1, 1));
    assert!(assembly.ignored[0].because.contains("another pool of the same name"), "{:?}", assembly.ignored);
}

fn ignored_of(media: &[Medium], pool: &str) -> String {
    let assembly = Assembly::new(media, Some(&Selector::Name(pool.into()))).unwrap();
    assert_eq!((assembly.members.len(), assembly.ignored.len()), (1, 1));
    assembly.ignored[0].because.clone()
}

#[test]
fn the_two_halves_of_a_split_mirror_know_each_other() {
    let Some(pool) = shared_pool("split-mirror") else { return };
    let media = in_memory(devices_of(&pool));
    let text = ignored_of(&media, "splt");
    assert!(text.contains("it was split off from this pool, and is the pool splitoff"), "{text}");
    let text = ignored_of(&media, "splitoff");
    assert!(text.contains("the pool splt") && text.contains("from which this one was split off"), "{text}");
    for name in ["splt", "splitoff"] {
        assert_eq!(status(&scrub(&media, name, &options()).unwrap()), 0);
    }
}

#[test]
fn exported_active_and_destroyed_pools_say_so() {
    assert_eq!(checked(kept("single"), "single").pool.state, "exported");
    let mut device = kept("single").remove(0).1;
    ALL.iter().for_each(|&label| set_label_u64(&mut device, label, "state", 0));
    // Case C8: a note, not damage.
    let outcome = checked(vec![("disk0".into(), device.clone())], "single");
    assert_eq!((outcome.pool.state.as_str(), status(&outcome)), ("active", 0));
    assert_eq!(of_kind(&outcome, Kind::NotExported).len(), 1);
    ALL.iter().for_each(|&label| set_label_u64(&mut device, label, "state", 2));
    let outcome = checked(vec![("disk0".into(), device)], "single");
    assert_eq!((outcome.pool.state.as_str(), status(&outcome)), ("destroyed", 0));
}

#[test]
fn a_device_with_labels_of_two_members_is_the_one_that_is_not_there_otherwise() {
    let mut devices = kept("raidz1-3disk");
    let other = devices[0].1.clone();
    // The first two labels of the first device were copied over those of the second.
    devices[1].1[..512 << 10].copy_from_slice(&other[..512 << 10]);
    let outcome = checked(devices, "raidz1-3disk");
    assert!(outcome.summary.degraded_blocks == 0 && outcome.summary.lost_blocks == 0, "{:?}", outcome.summary);
    assert_eq!(of_kind(&outcome, Kind::LabelsDisagree).len(), 1, "{:?}", outcome.findings);
    assert!(of_kind(&outcome, Kind::MemberMissing).is_empty() && of_kind(&outcome, Kind::MemberTwice).is_empty());
}

fn with_labels_exchanged(folder: &str, first: usize, second: usize) -> (Outcome, String) {
    let mut devices = kept(folder);
    let (front, back) = devices.split_at_mut(second);
    exchange_labels(&mut front[first].1, &mut back[0].1, &ALL);
    let names = format!("the contents of {} and {} are exchanged", devices[first].0, devices[second].0);
    (checked(devices, folder), names)
}

#[test]
fn exchanged_labels_are_found_by_the_content() {
    for (folder, first, second) in [("raidz1-3disk", 0, 2), ("stripe3", 0, 1), ("stripe3", 1, 2), ("raid10", 0, 3)] {
        let (outcome, names) = with_labels_exchanged(folder, first, second);
        let found = of_kind(&outcome, Kind::ContentsExchanged);
        assert!(found.len() == 1 && found[0].message.starts_with(&names), "{folder}: {found:?}, not {names}");
        assert!(status(&outcome) & exit::DAMAGED != 0, "{folder}");
    }
}

#[test]
fn exchanged_labels_of_equal_sides_are_harmless() {
    let (outcome, _) = with_labels_exchanged("mirror2", 0, 1);
    assert_eq!((status(&outcome), outcome.findings.len()), (0, 0), "{:?}", outcome.findings);
}

#[test]
fn plain_damage_is_not_called_an_exchange() {
    for folder in ["raidz1-3disk", "mirror2", "stripe3"] {
        let mut devices = kept(folder);
        let end = devices[0].1.len() - (512 << 10);
        devices[0].1[4 << 20..end].fill(0x11);
        let outcome = checked(devices, folder);
        assert!(of_kind(&outcome, Kind::ContentsExchanged).is_empty(), "{folder}");
        assert!(status(&outcome) & (exit::DAMAGED | exit::DEGRADED) != 0, "{folder}");
    }
}

#[test]
fn an_older_copy_of_one_side_beside_a_newer_other_side_is_said() {
    let mut devices = kept("mirror2");
    age(&mut devices[0].1);
    let outcome = checked(devices, "mirror2");
    let behind = of_kind(&outcome, Kind::MemberBehind);
    assert!(behind.len() == 1 && behind[0].place.device.as_deref() == Some("m.0"), "{:?}", outcome.findings);
    assert_eq!(status(&outcome), 0);
}

#[test]
fn pools_with_two_tops_are_not_called_behind() {
    // Top-level vdevs take turns with uberblocks.
    let pool = make(&PoolSpec::new("tank").with_tops(&[TopSpec::Mirror(2), TopSpec::Disk]));
    let bytes = |device: usize| {
        let mut bytes = vec![0; usize::try_from(pool.device_bytes(device)).unwrap()];
        pool.read_at(device, 0, &mut bytes);
        bytes
    };
    let mut devices: Devices = (0..3).map(|device| (format!("disk{device}"), bytes(device))).collect();
    ALL.iter().for_each(|&label| ring_mut(&mut devices[2].1, label).fill(0));
    let outcome = scrub(&in_memory(devices), "tank", &options()).unwrap();
    assert!(of_kind(&outcome, Kind::MemberBehind).is_empty(), "{:?}", outcome.findings);
}
