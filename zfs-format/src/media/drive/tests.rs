//! Trees of files like those of real machines; names, numbers and the form of each file are Linux's.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use super::*;
use std::os::unix::fs::symlink;

/// A machine in a folder.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// A link to a path below the root.
    fn link(&self, path: &str, to: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.0.path().join(to), path).unwrap();
        self
    }

    /// A block device whose folder below `/sys` is `at`.
    fn device(&self, at: &str, major: u32, minor: u32, sectors: u64) -> &Self {
        let name = at.rsplit('/').next().unwrap();
        self.file(&format!("{at}/dev"), format!("{major}:{minor}\n"));
        self.file(&format!("{at}/size"), format!("{sectors}\n"));
        self.file(&format!("{at}/ro"), "0\n");
        self.link(&format!("sys/dev/block/{major}:{minor}"), at);
        self.link(&format!("sys/class/block/{name}"), at)
    }

    fn drive(&self, major: u32, minor: u32) -> Option<Drive> {
        Host::at(self.0.path()).drive(FileId::of_device(major, minor))
    }
}

/// A SATA disk with two partitions, in a machine with udev.
fn sata() -> Machine {
    let machine = Machine::new();
    let disk = "sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdb";
    machine.device(disk, 8, 16, 7_814_037_168);
    machine.device(&format!("{disk}/sdb1"), 8, 17, 7_814_017_024);
    machine.file(&format!("{disk}/sdb1/partition"), "1\n");
    machine.file(&format!("{disk}/device/vendor"), "ATA     \n");
    machine.file(&format!("{disk}/device/model"), "WDC WD40EFRX-68N\n");
    machine.file(&format!("{disk}/queue/rotational"), "1\n");
    machine.file(&format!("{disk}/queue/logical_block_size"), "512\n");
    machine.file(&format!("{disk}/queue/physical_block_size"), "4096\n");
    machine.file(
        "run/udev/data/b8:16",
        "S:disk/by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001\nE:ID_ATA=1\n\
         E:ID_MODEL_ENC=WDC\\x20WD40EFRX-68N32N0\\x20\\x20\nE:ID_MODEL=WDC_WD40EFRX-68N32N0\n\
         E:ID_SERIAL=WDC_WD40EFRX-68N32N0_WD-WCC7K0000001\nE:ID_SERIAL_SHORT=WD-WCC7K0000001\n\
         E:ID_WWN=0x50014ee2b0000001\n",
    );
    for (name, to) in [
        ("by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001", "sdb"),
        ("by-id/ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001-part1", "sdb1"),
        ("by-id/wwn-0x50014ee2b0000001-part1", "sdb1"),
        ("by-id/ata-OTHER_1-part1", "sdc1"),
        ("by-path/pci-0000:00:1f.2-ata-3-part1", "sdb1"),
    ] {
        machine.link(&format!("dev/disk/{name}"), &format!("dev/{to}"));
    }
    machine
}

#[test]
fn a_partition_of_a_sata_disk_has_the_identity_of_the_disk() {
    let drive = sata().drive(8, 17).unwrap();
    assert_eq!((drive.kernel_name.as_str(), drive.parent.as_deref(), drive.partition), ("sdb1", Some("sdb"), Some(1)));
    assert_eq!(drive.summary(), "WDC WD40EFRX-68N32N0 serial WD-WCC7K0000001");
    assert_eq!((drive.wwn.as_deref(), drive.rotational), (Some("0x50014ee2b0000001"), Some(true)));
    assert_eq!(drive.size_bytes, Some(7_814_017_024 * 512));
    assert_eq!((drive.logical_sector_bytes, drive.physical_sector_bytes), (Some(512), Some(4096)));
    assert_eq!(drive.by_id, ["ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001-part1", "wwn-0x50014ee2b0000001-part1"]);
    assert_eq!(drive.by_path, ["pci-0000:00:1f.2-ata-3-part1"]);
    let disk = sata().drive(8, 16).unwrap();
    assert_eq!((disk.kernel_name.as_str(), disk.parent, disk.partition), ("sdb", None, None));
    assert_eq!(disk.by_id, ["ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001"]);
    assert_eq!(disk.read_only, Some(false));
    assert_eq!(sata().drive(8, 99), None);
}

#[test]
fn a_label_that_names_another_drive_is_contradicted() {
    let drive = sata().drive(8, 17).unwrap();
    for same in [
        "ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001-part1",
        "wwn-0x50014ee2b0000001-part1",
        // The whole disk, a form of older releases of udev, and what Linux does not write.
        "ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001",
        "scsi-SATA_WDC_WD40EFRX-68_WD-WCC7K0000001-part1",
        "scsi-350014ee2b0000001-part1",
        "id1,sd@SATA_____WDC_WD40EFRX-68N_____WD-WCC7K0000009/a",
        "",
    ] {
        assert_eq!(drive.contradicts(same), None, "{same}");
    }
    assert_eq!(
        drive.contradicts("ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000002-part1").unwrap(),
        "the label says ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000002, this device is \
         ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000001"
    );
    assert!(drive.contradicts("nvme-Samsung_SSD_980_S64DNF0R000001-part1").is_some());
}

#[test]
fn a_sas_disk_says_its_slot_without_udev() {
    let machine = Machine::new();
    let disk = "sys/devices/pci0000:00/0000:03:00.0/host0/port-0:0/end_device-0:0/target0:0:5/0:0:5:0/block/sdf";
    machine.device(disk, 8, 80, 23_437_770_752);
    machine.file(&format!("{disk}/device/vendor"), "SEAGATE \n");
    machine.file(&format!("{disk}/device/model"), "ST12000NM0027   \n");
    machine.file(&format!("{disk}/device/vpd_pg80"), b"\x00\x80\x00\x14ZCH0A1BC0000R8220000");
    machine.file(&format!("{disk}/device/wwid"), "naa.5000c500a0000001\n");
    let slot = "sys/devices/pci0000:00/0000:03:00.0/host0/target0:0:9/0:0:9:0/enclosure/0:0:9:0/Slot 03";
    machine.file(&format!("{slot}/slot"), "3\n");
    machine.link(&format!("{disk}/device/enclosure_device:Slot 03"), slot);
    let drive = machine.drive(8, 80).unwrap();
    assert_eq!(drive.summary(), "SEAGATE ST12000NM0027 serial ZCH0A1BC0000R8220000, slot 3");
    assert_eq!((drive.enclosure.as_deref(), drive.slot.as_deref()), (Some("0:0:9:0"), Some("3")));
    // Nothing to compare a label with but serial and WWN.
    assert_eq!(drive.contradicts("scsi-35000c500a0000001-part1"), None);
    assert_eq!(drive.contradicts("scsi-35000c500a0000002-part1"), None);
}

#[test]
fn an_nvme_drive_sits_in_a_slot_of_pci() {
    let machine = Machine::new();
    let disk = "sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/nvme/nvme0/nvme0n1";
    machine.device(disk, 259, 0, 1_953_525_168);
    machine.device(&format!("{disk}/nvme0n1p2"), 259, 2, 1_000_000);
    machine.file(&format!("{disk}/nvme0n1p2/partition"), "2\n");
    machine.file(&format!("{disk}/wwid"), "eui.002538b000000001\n");
    machine.file(&format!("{disk}/device/model"), "Samsung SSD 980 PRO 1TB                 \n");
    machine.file(&format!("{disk}/device/serial"), "S5GXNX0R000001      \n");
    machine.file("sys/bus/pci/slots/7/address", "0000:41:00\n");
    machine.file("sys/bus/pci/slots/8/address", "0000:42:00\n");
    let drive = machine.drive(259, 2).unwrap();
    assert_eq!(drive.summary(), "Samsung SSD 980 PRO 1TB serial S5GXNX0R000001, slot 7");
    assert_eq!((drive.parent.as_deref(), drive.wwn.as_deref()), (Some("nvme0n1"), Some("eui.002538b000000001")));
}

#[test]
fn a_virtio_disk_has_a_serial_if_its_machine_gave_it_one() {
    let machine = Machine::new();
    let disk = "sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vda";
    machine.device(disk, 253, 0, 41_943_040);
    machine.file(&format!("{disk}/device/vendor"), "0x1af4\n");
    assert_eq!(machine.drive(253, 0).unwrap().summary(), "");
    machine.file(&format!("{disk}/serial"), "disk-7\n");
    assert_eq!(machine.drive(253, 0).unwrap().summary(), "serial disk-7");
}

#[test]
fn a_multipath_device_is_the_drive_that_its_paths_lead_to() {
    let machine = Machine::new();
    for (name, minor, host) in [("sdb", 16, 1), ("sdr", 272, 2)] {
        let disk = format!("sys/devices/pci0000:00/host{host}/block/{name}");
        machine.device(&disk, 8, minor, 1000);
        machine
            .file(&format!("{disk}/device/vendor"), "HGST\n")
            .file(&format!("{disk}/device/model"), "HUH721212AL5200\n");
        machine.file(&format!("{disk}/device/vpd_pg80"), b"\x00\x80\x00\x088DG00001");
        machine.file(&format!("{disk}/holders/dm-3"), "");
        machine.file(&format!("sys/devices/virtual/block/dm-3/slaves/{name}"), "");
    }
    machine.device("sys/devices/virtual/block/dm-3", 252, 3, 1000);
    machine.file("sys/devices/virtual/block/dm-3/dm/uuid", "mpath-35000cca260000001\n");
    machine.file("run/udev/data/b252:3", "E:DM_UUID=mpath-35000cca260000001\n");
    machine.link("dev/disk/by-id/dm-uuid-mpath-35000cca260000001", "dev/dm-3");
    let drive = machine.drive(252, 3).unwrap();
    assert_eq!(drive.below, ["sdb", "sdr"]);
    assert_eq!(drive.summary(), "HGST HUH721212AL5200 serial 8DG00001, on sdb and sdr");
    assert_eq!(machine.drive(8, 16).unwrap().holders, ["dm-3"]);
    assert_eq!(drive.contradicts("dm-uuid-mpath-35000cca260000001"), None);
    // Once opened by one path, now by all: the same drive.
    assert_eq!(drive.contradicts("scsi-35000cca260000001-part1"), None);
    assert!(drive.contradicts("scsi-35000cca260000002-part1").is_some());
}

#[test]
fn a_loop_device_names_its_file_and_proves_nothing() {
    let machine = Machine::new();
    machine.device("sys/devices/virtual/block/loop3", 7, 3, 2048);
    machine.file("sys/devices/virtual/block/loop3/loop/backing_file", "/images/disk.img\n");
    let drive = machine.drive(7, 3).unwrap();
    assert_eq!(drive.summary(), "over /images/disk.img");
    assert_eq!(drive.contradicts("ata-WDC_WD40EFRX-68N32N0_WD-WCC7K0000002-part1"), None);
}

#[test]
fn numbers_of_devices_are_put_together_as_linux_does() {
    for (major, minor) in [(0, 0), (8, 17), (259, 300), (4095, 255), (4096, 1_048_575), (u32::MAX, u32::MAX)] {
        assert_eq!(FileId::of_device(major, minor).device_number(), Some((major.into(), minor.into())));
        #[cfg(target_os = "linux")]
        assert_eq!(FileId::of_device(major, minor).node, rustix::fs::makedev(major, minor));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(FileId::of(file.path()).unwrap().device_number(), None);
}
