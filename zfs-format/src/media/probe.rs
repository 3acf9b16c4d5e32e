//! What an input is when it is not a ZFS device: a name for what lies on it.

use super::ReadAt;

/// Something recognised by its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is, as in "this is ...".
    pub what: &'static str,
    /// What to do next, if anything but "this is no ZFS device" can be said.
    pub advice: Option<&'static str>,
}

const PARTITIONS: &str = "give the start of the pool with --offset BYTES, or look for it with --find-labels";
const CONVERT: &str = "convert it to a raw image first (qemu-img convert -O raw)";
const UNPACK: &str = "unpack it first";
const LUKS: &str = "open it and give the device inside: cryptsetup open --readonly DEVICE NAME";
const BITLOCKER: &str = "open it and give the device inside: cryptsetup open --type bitlk --readonly DEVICE NAME";
const LVM: &str = "activate it and give the logical volume: lvchange -ay GROUP/VOLUME";
const MD: &str = "assemble the array and give that: mdadm --assemble --readonly /dev/md0 DEVICE...";
const BCACHE: &str = "register it with the kernel and give the bcache device";
const INTEGRITY: &str = "open it and give the device inside: integritysetup open DEVICE NAME";
const VDO: &str = "start it and give the VDO volume";
const VMFS: &str = "give the .vmdk of the virtual disk that is stored in it";
const INSIDE: &str = "copy it out, and give the copy";
const CEPH: &str = "export the RBD image from the Ceph cluster, and give that";

/// (offset, magic bytes, what, advice), most specific first.
const SIGNATURES: &[(u64, &[u8], &str, Option<&str>)] = &[
    // Images are opened, so that these are met inside of other disks only.
    (0, b"QFI\xfb", "a qcow2 image", Some(INSIDE)),
    (0, b"QED\0", "a QED image", Some(CONVERT)),
    (0, b"vhdxfile", "a VHDX image", Some(INSIDE)),
    (0, b"conectix", "a VHD image", Some(INSIDE)),
    (64, b"\x7f\x10\xda\xbe", "a VDI image", Some(INSIDE)),
    (0, b"\x1f\x8b", "a gzip file", Some(UNPACK)),
    (0, b"\xfd7zXZ\0", "an xz file", Some(UNPACK)),
    (0, b"BZh", "a bzip2 file", Some(UNPACK)),
    (0, b"PK\x03\x04", "a zip file", Some(UNPACK)),
    (0, b"LUKS\xba\xbe", "a LUKS encrypted device", Some(LUKS)),
    (16384, b"SKUL\xba\xbe", "a LUKS encrypted device (its first header is lost)", Some(LUKS)),
    (3, b"-FVE-FS-", "a BitLocker encrypted device", Some(BITLOCKER)),
    (0x18, b"LVM2 001", "an LVM physical volume", Some(LVM)),
    (0x218, b"LVM2 001", "an LVM physical volume", Some(LVM)),
    (0x418, b"LVM2 001", "an LVM physical volume", Some(LVM)),
    (0x618, b"LVM2 001", "an LVM physical volume", Some(LVM)),
    (0, b"\xfc\x4e\x2b\xa9\x01\0\0\0", "a member of a Linux md array (metadata 1.1)", Some(MD)),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a Linux md array (metadata 1.2)", Some(MD)),
    (0, b"integrt\0", "a device of dm-integrity", Some(INTEGRITY)),
    (0, b"dmvdo001", "a VDO device", Some(VDO)),
    (0, b"bluestore block device", "a Ceph OSD (BlueStore)", Some(CEPH)),
    (4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", "a bcachefs file system", None),
    (
        4120,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        "a bcache device, or an old bcachefs file system",
        Some(BCACHE),
    ),
    (0x10_0000, b"\x0d\xd0\x01\xc0", "a VMFS volume of VMware", Some(VMFS)),
    (0x20_0000, b"\x5e\xf1\xab\x2f", "a VMFS volume of VMware", Some(VMFS)),
    (0, b"XFSB", "an XFS file system", None),
    (0, b"hsqs", "a squashfs file system", None),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system", None),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system", None),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system", None),
    (32, b"NXSB", "an APFS container", None),
    (1024, b"H+\0\x04", "an HFS+ file system", None),
    (1024, b"HX\0\x05", "an HFS+ file system", None),
    (65536 + 1372, b"\x19\x01\x54\x19", "a UFS file system", None),
    (65536 + 1372, b"\x19\x54\x01\x19", "a UFS file system", None),
    (8192 + 1372, b"\x54\x19\x01\x00", "a UFS file system", None),
    (8192 + 1372, b"\x00\x01\x19\x54", "a UFS file system", None),
    (4086, b"SWAPSPACE2", "Linux swap space", None),
    (16374, b"SWAPSPACE2", "Linux swap space", None),
    (65526, b"SWAPSPACE2", "Linux swap space", None),
    (0x8001, b"CD001", "an ISO 9660 image", None),
    (3, b"NTFS    ", "an NTFS file system", None),
    (3, b"EXFAT   ", "an exFAT file system", None),
    (3, b"ReFS\0\0\0\0", "a ReFS file system", None),
    (0x52, b"FAT32   ", "a FAT file system", None),
    (0x36, b"FAT16   ", "a FAT file system", None),
    (0x36, b"FAT12   ", "a FAT file system", None),
    (512, b"EFI PART", "a disk with a GPT partition table", Some(PARTITIONS)),
    (4096, b"EFI PART", "a disk with a GPT partition table", Some(PARTITIONS)),
    (510, b"\x55\xaa", "a disk with an MBR partition table", Some(PARTITIONS)),
];

/// Magic of the metadata of Linux md, as it is written by hosts of little-endian order, and always from version 1 on.
const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";

/// Names what lies on `medium`, when it is something well known.
#[must_use]
pub fn recognise(medium: &dyn ReadAt) -> Option<Signature> {
    let found = SIGNATURES
        .iter()
        .find(|(offset, magic, ..)| holds(medium, *offset, magic))
        .map(|&(_, _, what, advice)| Signature { what, advice });
    // What an array holds may begin like anything, as long as its member has the metadata at the end.
    let at_end = md_at_end(medium).map(|what| Signature { what, advice: Some(MD) });
    at_end.or(found)
}

/// The old forms of md have their metadata in the last 128 KiB.
///
/// Source: Linux include/uapi/linux/raid/md_p.h, `MD_NEW_SIZE_SECTORS`; drivers/md/md.c, `super_1_load`.
fn md_at_end(medium: &dyn ReadAt) -> Option<&'static str> {
    const RESERVED_BYTES: u64 = 64 << 10;
    let size = medium.size_bytes();
    let version_1_0 = (size & !511).checked_sub(8 << 10).map(|at| at & !4095);
    let version_0_90 = (size & !(RESERVED_BYTES - 1)).checked_sub(RESERVED_BYTES);
    let holds_at = |at: Option<u64>, magic| at.is_some_and(|at| holds(medium, at, magic));
    if holds_at(version_1_0.filter(|&at| at > 0), b"\xfc\x4e\x2b\xa9\x01\0\0\0") {
        Some("a member of a Linux md array (metadata 1.0)")
    } else if holds_at(version_0_90.filter(|&at| at > 0), MD_MAGIC) {
        Some("a member of a Linux md array (metadata 0.90)")
    } else {
        None
    }
}

fn holds(medium: &dyn ReadAt, offset: u64, magic: &[u8]) -> bool {
    let mut found = [0; 32];
    let Some(found) = found.get_mut(..magic.len()) else { return false };
    medium.read_at(found, offset).is_ok() && found == magic
}

#[cfg(test)]
mod tests {
    use super::super::{MediaError, check_range};
    use super::*;

    #[derive(Debug)]
    struct Bytes(Vec<u8>);

    impl ReadAt for Bytes {
        fn size_bytes(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
            check_range(offset, buffer.len(), self.size_bytes())?;
            buffer.copy_from_slice(&self.0[offset as usize..offset as usize + buffer.len()]);
            Ok(())
        }
    }

    #[test]
    fn every_signature_is_recognised_at_its_place() {
        for (offset, magic, what, _) in SIGNATURES {
            let mut bytes = vec![0; 3 << 20];
            bytes[*offset as usize..*offset as usize + magic.len()].copy_from_slice(magic);
            assert_eq!(recognise(&Bytes(bytes)).map(|found| found.what), Some(*what));
        }
    }

    #[test]
    fn members_of_md_with_metadata_at_the_end_are_recognised() {
        for (size, at, magic, what) in [
            (1_000_000, 983_040 - 65_536, MD_MAGIC, "(metadata 0.90)"),
            (1 << 20, (1 << 20) - 8192, b"\xfc\x4e\x2b\xa9\x01\0\0\0", "(metadata 1.0)"),
        ] {
            let mut bytes = vec![0; size];
            bytes[at..at + magic.len()].copy_from_slice(magic);
            bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
            let found = recognise(&Bytes(bytes)).unwrap();
            assert!(found.what.ends_with(what) && found.advice.unwrap().starts_with("assemble"), "{found:?}");
        }
    }

    /// As util-linux says, which knows the file systems by other code.
    #[test]
    fn file_systems_made_by_their_own_programs_are_recognised() {
        let programs: [(&str, &[&str], &str); 8] = [
            ("mkfs.ext4", &["-q", "-F"], "an ext2, ext3 or ext4 file system"),
            ("mkfs.xfs", &["-q"], "an XFS file system"),
            ("mkfs.btrfs", &["-q"], "a btrfs file system"),
            ("mkfs.fat", &["-F", "32"], "a FAT file system"),
            ("mkfs.fat", &["-F", "16"], "a FAT file system"),
            ("mkfs.f2fs", &["-q"], "an F2FS file system"),
            ("mkswap", &[], "Linux swap space"),
            ("pvcreate", &["-q"], "an LVM physical volume"),
        ];
        let dir = tempfile::tempdir().unwrap();
        for (program, args, what) in programs {
            let path = dir.path().join("disk");
            std::fs::File::create(&path).unwrap().set_len(320 << 20).unwrap();
            let mut run = std::process::Command::new(program);
            run.args(args).arg(&path).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            if run.status().is_ok_and(|status| status.success()) {
                let medium = super::super::FileMedium::open(&path).unwrap();
                assert_eq!(recognise(&medium).map(|found| found.what), Some(what), "{program}");
            } else {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "skipped: {program} cannot be used here");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn short_and_empty_inputs_are_nothing() {
        assert_eq!(recognise(&Bytes(Vec::new())), None);
        assert_eq!(recognise(&Bytes(vec![0x1f])), None);
    }
}
