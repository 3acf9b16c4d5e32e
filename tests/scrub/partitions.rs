//! Pools in partitions: which ranges of a disk are members, with tables that are whole, lost, or lie.

use crate::support::{devices_of, image, in_memory, options, scrub};
use fixtures::clear_labels;
use zfs_format::media::{Medium, NoteKind, PartitionPlace, ReadAt};
use zfs_format::pool::{Assembly, Look, LookError, Selector, members};
use zfs_scrub::Kind;
use zfs_scrub::Outcome;

const MIB: usize = 1 << 20;
const SECTOR: usize = 512;

/// The devices of a kept pool.
fn kept(folder: &str) -> Vec<Vec<u8>> {
    devices_of(&image(folder)).into_iter().map(|(_, bytes)| bytes).collect()
}

/// A disk with these bytes at these places, all in an MBR as Linux partitions.
fn disk(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut disk = vec![0; size];
    for (index, (start, bytes)) in parts.iter().enumerate() {
        disk[*start..start + bytes.len()].copy_from_slice(bytes);
        let entry = &mut disk[446 + 16 * index..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&((start / SECTOR) as u32).to_le_bytes());
        entry[12..16].copy_from_slice(&((bytes.len() / SECTOR) as u32).to_le_bytes());
    }
    disk[510..512].copy_from_slice(b"\x55\xaa");
    disk
}

fn medium(disk: Vec<u8>) -> Medium {
    in_memory(vec![("disk.img".into(), disk)]).remove(0)
}

fn opened(disk: Vec<u8>) -> Assembly {
    Assembly::new(&[medium(disk)], None).unwrap()
}

/// Names of the members, and where they begin.
fn places(assembly: &Assembly) -> Vec<(&str, Option<PartitionPlace>)> {
    assembly.members.iter().map(|member| (member.path.as_str(), member.medium.partition())).collect()
}

fn notes(assembly: &Assembly) -> Vec<String> {
    let notes = assembly.members.iter().flat_map(|member| member.medium.notes());
    notes.inspect(|note| assert_eq!(note.kind, NoteKind::PartitionTable)).map(|note| note.message).collect()
}

fn assert_noted(assembly: &Assembly, part: &str) {
    let notes = notes(assembly);
    assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
}

/// The members are whole, and all of the pool is: no finding but about the table, the totals of the pool by itself.
fn assert_whole(disk: Vec<u8>, folder: &str) {
    let alone = devices_of(&image(folder));
    let alone: Outcome = scrub(&in_memory(alone), &image(folder).expected.pool, &options()).unwrap();
    let outcome = scrub(&[medium(disk)], &image(folder).expected.pool, &options()).unwrap();
    assert_eq!(outcome.summary.exit_status, alone.summary.exit_status);
    let others = outcome.findings.iter().filter(|finding| finding.kind != Kind::PartitionTableDamaged).count();
    assert_eq!((outcome.totals, others), (alone.totals, alone.findings.len()), "{:?}", outcome.findings);
}

const fn place(number: u32, start: usize) -> Option<PartitionPlace> {
    Some(PartitionPlace { number: Some(number), start_bytes: start as u64 })
}

const fn found(start: usize) -> Option<PartitionPlace> {
    Some(PartitionPlace { number: None, start_bytes: start as u64 })
}

#[test]
fn a_pool_in_a_partition_is_read_there() {
    let pool = kept("single").remove(0);
    let disk = disk(pool.len() + 12 * MIB, &[(MIB, &[0; 2 * MIB]), (4 * MIB, &pool)]);
    let assembly = opened(disk.clone());
    assert_eq!(places(&assembly), [("disk.img, partition 2", place(2, 4 * MIB))]);
    assert_eq!(notes(&assembly), [""; 0]);
    let outcome = scrub(&[medium(disk.clone())], "single", &options()).unwrap();
    assert_eq!(outcome.vdevs[0].device.as_deref(), Some("disk.img, partition 2"));
    assert_whole(disk, "single");
}

#[test]
fn a_pool_in_a_partition_at_the_very_end_is_not_one_on_the_whole_disk() {
    let pool = kept("single").remove(0);
    let start = 4 * MIB;
    let whole = disk(start + pool.len(), &[(start, &pool)]);
    let assembly = opened(whole.clone());
    assert_eq!(places(&assembly), [("disk.img, partition 1", place(1, start))]);
    assert_whole(whole.clone(), "single");
    // Without the table: the labels themselves tell where it begins.
    let mut lost = whole.clone();
    lost[..SECTOR].fill(0);
    let assembly = opened(lost.clone());
    assert_eq!(places(&assembly), [("disk.img, from byte 4194304", found(start))]);
    assert_noted(&assembly, "its labels were found by a search");
    assert_whole(lost.clone(), "single");
    // Without the labels at the front: those at the end do.
    lost[start..start + MIB / 2].fill(0);
    let assembly = opened(lost);
    assert_eq!(places(&assembly), [("disk.img, from byte 4194304", found(start))]);
    // A table that lies.
    let mut lies = whole;
    lies[446 + 8..446 + 12].copy_from_slice(&4000_u32.to_le_bytes());
    assert_eq!(places(&opened(lies)), [("disk.img, from byte 4194304", found(start))]);
}

#[test]
fn partitions_of_one_pool_are_its_members() {
    let [a, b] = <[_; 2]>::try_from(kept("mirror2")).unwrap();
    let second = 2 * MIB + a.len();
    let disk = disk(second + b.len() + 3 * MIB, &[(MIB, &a), (second, &b)]);
    let assembly = opened(disk.clone());
    let wanted = [("disk.img, partition 1", place(1, MIB)), ("disk.img, partition 2", place(2, second))];
    assert_eq!(places(&assembly), wanted);
    assert!(assembly.duplicates.is_empty());
    assert_whole(disk, "mirror2");
}

#[test]
fn partitions_of_several_pools_are_a_choice() {
    let (a, b) = (kept("single").remove(0), kept("single-ashift12").remove(0));
    let second = 2 * MIB + a.len();
    let disk = medium(disk(second + b.len(), &[(MIB, &a), (second, &b)]));
    let error = Assembly::new(std::slice::from_ref(&disk), None).unwrap_err().to_string();
    assert!(error.starts_with("several pools: "), "{error}");
    let wanted = Selector::Name(image("single-ashift12").expected.pool);
    let assembly = Assembly::new(&[disk], Some(&wanted)).unwrap();
    assert_eq!(places(&assembly), [("disk.img, partition 2", place(2, second))]);
}

/// Seconds at which the newest uberblock of a device was written.
fn written(device: &[u8]) -> u64 {
    opened(device.to_vec()).chosen.uberblock.timestamp_s
}

/// A pool on the whole disk and one in a partition, so that all labels of both are valid.
fn nested(outer: &[u8], inner: &[u8]) -> Vec<u8> {
    let mut disk = outer.to_vec();
    let start = MIB;
    disk[start..start + inner.len()].copy_from_slice(inner);
    let table = crate::partitions::disk(start + inner.len(), &[(start, inner)]);
    disk[..SECTOR].copy_from_slice(&table[..SECTOR]);
    disk
}

#[test]
fn case_b4_of_overlapping_pools_the_one_written_last_is_used_and_the_other_told() {
    let make = |txg: u64, name: &str, tops: &[fixtures::TopSpec]| {
        let spec = fixtures::PoolSpec::new(name).with_tops(tops).with_dataset(fixtures::DatasetSpec::new(""));
        let pool = fixtures::make(&fixtures::PoolSpec { txg, ..spec });
        let mut bytes = vec![0; usize::try_from(pool.devices[0].bytes).unwrap()];
        pool.devices[0].read_at(0, &mut bytes);
        bytes
    };
    let single = kept("single").remove(0);
    let made = make(50, "made", &[fixtures::TopSpec::Disk]);
    assert_ne!(written(&single), written(&made));
    for (inner, inner_name, outer_seed, outer_name) in
        [(&single, "single", &made, "made"), (&made, "made", &single, "single")]
    {
        // The outer one is larger: its labels at the end lie behind the partition.
        let mut outer = outer_seed.clone();
        let size = inner.len() + 8 * MIB;
        outer.resize(size.max(outer.len()), 0);
        let disk = nested(&outer, inner);
        let inner_is_newer = written(inner) > written(outer_seed);
        let assembly = opened(disk.clone());
        let (used, place, left) = if inner_is_newer {
            (inner_name, place(1, MIB), format!("pool {outer_name} "))
        } else {
            (outer_name, None, format!("pool {inner_name} "))
        };
        assert_eq!((assembly.name.as_str(), places(&assembly)[0].1), (used, place));
        assert_noted(&assembly, &format!("it overlaps labels of {left}"));
        assert_eq!(assembly.ignored.len(), 1);
        assert!(assembly.ignored[0].because.contains("later: what is here may have been overwritten"));
        // The other one by its name.
        let wanted = Selector::Name(if inner_is_newer { outer_name } else { inner_name }.to_owned());
        let other = Assembly::new(&[medium(disk)], Some(&wanted)).unwrap();
        assert_noted(&other, "what is here may have been overwritten");
    }
}

#[test]
fn a_new_table_over_a_pool_on_the_whole_disk_is_told() {
    let pool = kept("single").remove(0);
    let mut over = pool.clone();
    let table = disk(pool.len(), &[(MIB, &[0; 8 * MIB])]);
    over[..SECTOR].copy_from_slice(&table[..SECTOR]);
    let assembly = opened(over.clone());
    assert_eq!(places(&assembly), [("disk.img", None)]);
    assert_noted(&assembly, "there is a partition table (MBR, 1 partition), and the pool is on the disk as a whole");
    assert_whole(over, "single");
}

#[test]
fn case_b2_another_file_system_over_a_pool_in_a_partition() {
    let mut pool = kept("single").remove(0);
    clear_labels(&mut pool, &[0, 1]);
    pool[0x438..0x43a].copy_from_slice(b"\x53\xef");
    let disk = disk(pool.len() + 4 * MIB, &[(MIB, &pool)]);
    let assembly = opened(disk.clone());
    assert_eq!(places(&assembly), [("disk.img, partition 1", place(1, MIB))]);
    let outcome = scrub(&[medium(disk)], "single", &options()).unwrap();
    assert!(outcome.findings.iter().any(|finding| finding.message.contains("starts like an ext2")));
}

#[test]
fn a_disk_without_a_pool_lists_what_is_in_its_partitions() {
    let mut ext4 = vec![0; 2 * MIB];
    ext4[0x438..0x43a].copy_from_slice(b"\x53\xef");
    let mut luks = vec![0; 3 * MIB];
    luks[..8].copy_from_slice(b"LUKS\xba\xbe\0\x02");
    let disk = medium(disk(16 * MIB, &[(MIB, &ext4), (4 * MIB, &luks), (8 * MIB, &[0; MIB])]));
    let error = Assembly::new(std::slice::from_ref(&disk), None).unwrap_err().to_string();
    for part in
        ["(MBR)", "1 of 2 MiB: an ext2, ext3 or ext4", "2 of 3 MiB: a LUKS", "3 of 1 MiB: type Linux, nothing known"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(error.contains("cryptsetup open --readonly"), "{error}");
    let error = members(&disk, Look::Partition(4)).unwrap_err();
    assert!(matches!(error, LookError::NoPartition { number: 4, .. }));
    assert!(
        error.to_string().contains("there is no partition 4 to read; its partitions (MBR) are 1 of 2 MiB"),
        "{error}"
    );
    assert!(matches!(members(&disk, Look::Offset(16 << 20)), Err(LookError::Beyond { .. })));
}

#[test]
fn a_search_finds_labels_anywhere() {
    let pool = kept("single").remove(0);
    let start = 171 * MIB + 3 * SECTOR;
    let mut disk = vec![0; start + pool.len() + 20 * MIB];
    disk[start..start + pool.len()].copy_from_slice(&pool);
    let error = Assembly::new(&[medium(disk.clone())], None).unwrap_err().to_string();
    assert!(error.contains("no ZFS label found"), "{error}");
    let search = |disk: Vec<u8>| {
        let found = members(&medium(disk), Look::Search).unwrap();
        Assembly::from_candidates(found, None).unwrap()
    };
    let assembly = search(disk.clone());
    assert_eq!(assembly.members[0].medium.partition(), found(start));
    assert_eq!(assembly.members[0].labels.size_bytes, pool.len() as u64);
    // By the labels at the end alone.
    disk[start..start + MIB / 2].fill(0);
    let assembly = search(disk);
    assert_eq!(assembly.members[0].medium.partition(), found(start));
    assert_eq!(assembly.members[0].labels.size_bytes, pool.len() as u64);
    // A pool on the whole disk is one of what is found.
    assert_eq!(places(&search(pool)), [("disk.img", None)]);
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// A disk with one partition in a primary GPT, in sectors of this size.
fn gpt_disk(sector: usize, start: usize, part: &[u8]) -> Vec<u8> {
    let mut disk = vec![0; start + part.len() + MIB];
    disk[start..start + part.len()].copy_from_slice(part);
    let lba = |bytes: usize| ((bytes / sector) as u64).to_le_bytes();
    let mut list = vec![0; 128 * 128];
    list[..16].copy_from_slice(&[7; 16]);
    list[32..40].copy_from_slice(&lba(start));
    list[40..48].copy_from_slice(&lba(start + part.len() - sector));
    let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0".to_vec();
    header.resize(92, 0);
    header[24..32].copy_from_slice(&lba(sector));
    header[32..40].copy_from_slice(&lba(disk.len() - sector));
    header[72..80].copy_from_slice(&lba(2 * sector));
    header[80..88].copy_from_slice(&[128, 0, 0, 0, 128, 0, 0, 0]);
    header[88..92].copy_from_slice(&crc32(&list).to_le_bytes());
    let sum = crc32(&header).to_le_bytes();
    header[16..20].copy_from_slice(&sum);
    disk[sector..sector + 92].copy_from_slice(&header);
    disk[2 * sector..2 * sector + list.len()].copy_from_slice(&list);
    disk
}

#[test]
fn case_e11_a_gpt_in_sectors_of_either_size_leads_to_a_pool_of_either_sector_size() {
    for (folder, sector) in [("single", 4096), ("single", 512), ("single-ashift12", 512)] {
        let disk = gpt_disk(sector, MIB, &kept(folder)[0]);
        let assembly = opened(disk.clone());
        assert_eq!(places(&assembly), [("disk.img, partition 1", place(1, MIB))]);
        let notes = notes(&assembly);
        assert!(notes.len() == 1 && notes[0].contains("no backup GPT"), "{notes:?}");
        assert_whole(disk, folder);
    }
}
