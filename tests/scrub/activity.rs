//! Pools that somebody uses while they are checked, and members that are on another drive than their label says.

use crate::support::{Bytes, devices_of, image, in_memory, name_of, options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use zfs_format::media::{FileId, Host, MediaError, Medium, ReadAt};
use zfs_format::pool::{Assembly, Candidate};
use zfs_scrub::finding::Severity;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::{NotCheckedReason, Verdict, exit};
use zfs_scrub::{Finding, Kind, Options, Outcome};

/// A device whose content becomes another one once the pool is open.
#[derive(Debug)]
struct Changing {
    before: Bytes,
    after: Bytes,
    is_after: Arc<AtomicBool>,
}

impl ReadAt for Changing {
    fn size_bytes(&self) -> u64 {
        self.before.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let now = if self.is_after.load(Relaxed) { &self.after } else { &self.before };
        now.read_at(buffer, offset)
    }
}

/// Bytes of a label before its ring, size of the ring.
const RING: usize = 128 << 10;
const LABEL: usize = 256 << 10;

/// Where the four labels of a device begin.
fn labels(size: usize) -> [usize; 4] {
    [0, LABEL, size - 2 * LABEL, size - LABEL]
}

/// What the device held some txgs ago, as far as its labels say: the newest uberblocks are taken out.
fn before(bytes: &[u8], txg_max: u64) -> Vec<u8> {
    let mut older = bytes.to_vec();
    for label in labels(bytes.len()) {
        for slot in older[label + RING..label + LABEL].chunks_exact_mut(1024) {
            let txg = u64::from_le_bytes(slot[16..24].try_into().unwrap());
            if slot[..8] == 0x00ba_b10c_u64.to_le_bytes() && txg > txg_max {
                slot.fill(0);
            }
        }
    }
    older
}

/// Txgs of the uberblocks of a device, in order.
fn txgs(bytes: &[u8]) -> Vec<u64> {
    let assembly = Assembly::new(&in_memory(vec![("disk".into(), bytes.to_vec())]), None).unwrap();
    let labels = assembly.members[0].labels.labels.iter();
    let mut txgs: Vec<u64> = labels.flat_map(|label| label.uberblocks().map(|(_, found)| found.txg.0)).collect();
    txgs.sort_unstable();
    txgs.dedup();
    txgs
}

/// Scrubs a pool whose first device changes from one content to another as soon as it is open.
fn scrub_changing(folder: &str, change: impl Fn(Vec<u8>) -> (Vec<u8>, Vec<u8>), host: Host) -> Outcome {
    let is_after = Arc::new(AtomicBool::new(false));
    let mut devices = devices_of(&image(folder));
    let (name, first) = devices.remove(0);
    let (before, after) = change(first);
    let changing = Changing { before: Bytes(before), after: Bytes(after), is_after: Arc::clone(&is_after) };
    let mut media = vec![Medium::new(name.into(), Arc::new(changing))];
    media.extend(in_memory(devices));
    let mut assembly = Assembly::new(&media, None).unwrap();
    is_after.store(true, Relaxed);
    zfs_scrub::scrub(&mut assembly, &Options { host, ..options() }, &Progress::default()).unwrap()
}

fn of_kind(outcome: &Outcome, kind: Kind) -> Vec<&Finding> {
    outcome.findings.iter().filter(|finding| finding.kind == kind).collect()
}

/// A machine that says nothing.
fn nobody() -> Host {
    Host::at(Path::new("this-folder-is-not-there"))
}

#[test]
fn a_pool_that_goes_on_during_the_check_is_incomplete_and_never_damaged() {
    for is_bad in [false, true] {
        let mut expected = String::new();
        let outcome = scrub_changing(
            "single",
            |bytes| {
                let txgs = txgs(&bytes);
                let [.., from, _] = txgs.as_slice() else { panic!("one txg only") };
                let older = before(&bytes, *from);
                let mut newer = bytes;
                if is_bad {
                    // What was freed was written anew.
                    let size = newer.len();
                    newer[5 << 20..size - (8 << 20)].fill(0x5a);
                }
                (older, newer)
            },
            nobody(),
        );
        let changed = of_kind(&outcome, Kind::PoolChanged);
        assert_eq!(changed.len(), 1, "{:?}", outcome.findings);
        expected.push_str("the pool changed during the check (txg ");
        assert!(changed[0].message.starts_with(&expected), "{}", changed[0].message);
        assert_eq!(outcome.summary.exit_status, exit::INCOMPLETE, "{:?}", outcome.findings);
        assert_eq!(outcome.summary.verdict, Verdict::Incomplete);
        assert_eq!((outcome.summary.lost_blocks, outcome.summary.degraded_blocks), (0, 0));
        assert!(outcome.files.is_empty());
        assert!(outcome.findings.iter().all(|finding| finding.severity == Severity::Note));
        let seen = outcome.findings.iter().filter(|found| found.message.starts_with("seen while the pool was being"));
        assert_eq!(seen.count() > 0, is_bad, "{:?}", outcome.findings);
        let left = outcome.not_checked.iter().filter(|left| left.reason == NotCheckedReason::Changed);
        let blocks: Vec<Option<u64>> = left.map(|left| left.blocks).collect();
        assert_eq!(blocks.len(), if is_bad { 2 } else { 1 });
        assert_eq!(blocks.iter().any(Option::is_some), is_bad);
        assert!(outcome.vdevs.iter().all(|vdev| vdev.checksum_errors == 0 && vdev.state == "ONLINE"));
    }
}

#[test]
fn the_same_damage_in_a_pool_that_rests_is_damage() {
    let outcome = scrub_changing(
        "single",
        |mut bytes| {
            let before = bytes.clone();
            let size = bytes.len();
            bytes[5 << 20..size - (8 << 20)].fill(0x5a);
            (before, bytes)
        },
        nobody(),
    );
    assert_eq!(outcome.summary.exit_status & exit::DAMAGED, exit::DAMAGED);
    assert!(of_kind(&outcome, Kind::PoolChanged).is_empty());
}

#[test]
fn labels_that_went_back_or_lost_their_checksum_are_no_change() {
    let outcome = scrub_changing(
        "mirror2",
        |bytes| {
            let mut torn = bytes.clone();
            torn[RING..LABEL].fill(0xff);
            (bytes, torn)
        },
        nobody(),
    );
    assert!(of_kind(&outcome, Kind::PoolChanged).is_empty(), "{:?}", outcome.findings);
}

/// A slot of a ring with a later timestamp under a right checksum: the heartbeat of a host that has the pool imported.
fn heartbeat(bytes: &[u8], folder: &str) -> Vec<u8> {
    let assembly = Assembly::new(&in_memory(devices_of(&image(folder))), None).unwrap();
    let chosen = &assembly.chosen;
    let label = &assembly.members[chosen.member].labels.labels[chosen.label];
    let ashift = label.valid_config().and_then(|c| c.list("vdev_tree")).and_then(|top| top.u64("ashift")).unwrap();
    let slot_bytes = 1_usize << ashift.clamp(10, 13);
    let mut after = bytes.to_vec();
    // The last slot, as multihost uses it.
    fixtures::forge_uberblock(&mut after, chosen.label, slot_bytes, (chosen.slot, RING / slot_bytes - 1), |words| {
        words[4] += 5;
        words[22..25].copy_from_slice(&[0xa11c_ea11, 1_000_000_000, 2 | 7 << 32]);
    });
    after
}

#[test]
fn a_heartbeat_is_a_note_and_changes_nothing() {
    let outcome = scrub_changing(
        "single",
        |bytes| {
            let after = heartbeat(&bytes, "single");
            (bytes, after)
        },
        nobody(),
    );
    let [note] = of_kind(&outcome, Kind::PoolInUse)[..] else { panic!("{:?}", outcome.findings) };
    assert!(note.message.contains("has it imported: its heartbeat went on") && note.message.contains("number 7"));
    assert_eq!((outcome.summary.exit_status, outcome.summary.verdict), (0, Verdict::Clean));
}

/// Scrubs a pool on a machine with these files.
fn scrub_on(files: &[(&str, &str)]) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let mut assembly = Assembly::new(&in_memory(devices_of(&image("single"))), None).unwrap();
    let options = Options { host: Host::at(dir.path()), ..options() };
    zfs_scrub::scrub(&mut assembly, &options, &Progress::default()).unwrap()
}

#[test]
fn a_pool_that_this_host_has_imported_is_a_note() {
    let assembly = Assembly::new(&in_memory(devices_of(&image("single"))), None).unwrap();
    let (name, guid) = (name_of(&image("single")).to_owned(), assembly.guid.to_string());
    let state = format!("proc/spl/kstat/zfs/{name}/state");
    let guid_file = format!("proc/spl/kstat/zfs/{name}/guid");
    let mounts = |line: String| vec![("proc/mounts".to_owned(), line)];
    let cases: Vec<(Vec<(String, String)>, bool)> = vec![
        (vec![(state.clone(), "ONLINE\n".into())], true),
        (vec![(state.clone(), "ONLINE\n".into()), (guid_file.clone(), guid + "\n")], true),
        // Another pool of that name.
        (vec![(state, "ONLINE\n".into()), (guid_file, "12\n".into())], false),
        (mounts(format!("/dev/vda / ext4 rw 0 0\n{name}/data@today /data zfs ro 0 0\n")), true),
        (mounts(format!("{name} /pool zfs rw 0 0\n")), true),
        (mounts(format!("{name}2/data /data zfs rw 0 0\n{name} /mnt nfs rw 0 0\n")), false),
        (Vec::new(), false),
    ];
    for (files, is_imported) in cases {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let outcome = scrub_on(&files);
        assert_eq!(of_kind(&outcome, Kind::PoolInUse).len(), usize::from(is_imported), "{files:?}");
        assert_eq!(outcome.summary.exit_status, 0);
    }
}

#[cfg(unix)]
#[test]
fn a_member_on_another_drive_than_its_label_names_is_a_note() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("sys/devices/ata3/block/sdb");
    for folder in [&disk.join("device"), &dir.path().join("sys/dev/block"), &dir.path().join("dev/disk/by-id")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    symlink(&disk, dir.path().join("sys/dev/block/8:16")).unwrap();
    symlink("../../sdb", dir.path().join("dev/disk/by-id/ata-WDC_WD40EFRX_WCC7K0000002")).unwrap();
    std::fs::write(disk.join("device/model"), "WDC WD40EFRX\n").unwrap();
    std::fs::write(disk.join("device/serial"), "WCC7K0000002\n").unwrap();
    for (label, is_elsewhere) in
        [("ata-WDC_WD40EFRX_WCC7K0000001-part1", true), ("ata-WDC_WD40EFRX_WCC7K0000002", false)]
    {
        let media = in_memory(devices_of(&image("single")));
        let mut candidate = Candidate::read(&media[0]);
        candidate.file = Some(FileId::of_device(8, 16));
        let mut assembly = Assembly::from_candidates(vec![candidate], None).unwrap();
        // Images lie in files, which have no devid; so it is put into the tree, and the tree is not read again.
        let leaf = assembly.tree.leaves[0].node;
        assembly.tree.nodes[leaf].devid = Some(label.to_owned());
        let drive = Host::at(dir.path()).drive(assembly.members[0].file.unwrap()).unwrap();
        assert_eq!(drive.contradicts(label).is_some(), is_elsewhere);
        let found = zfs_scrub::facts::elsewhere(&assembly, &Host::at(dir.path()));
        let message = "the label says ata-WDC_WD40EFRX_WCC7K0000001, this device is ata-WDC_WD40EFRX_WCC7K0000002";
        let messages: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
        assert_eq!(messages, if is_elsewhere { vec![message] } else { Vec::new() });
        assert_eq!(Kind::MemberElsewhere.entry().severity, Severity::Note);
        let mut shown = zfs_scrub::facts::vdevs_uncounted(&assembly);
        zfs_scrub::facts::identify(&mut shown, &assembly, &Host::at(dir.path()));
        assert_eq!(shown[0].drive.as_ref().unwrap().summary(), "WDC WD40EFRX serial WCC7K0000002");
    }
}
