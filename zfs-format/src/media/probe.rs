//! What an input is when it is not a ZFS device: a name for what lies at its start.

use super::ReadAt;

/// Something recognised by its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is, as in "this is ...".
    pub what: &'static str,
    /// What to do next, if anything but "this is no ZFS device" can be said.
    pub advice: Option<&'static str>,
}

const PARTITIONS: &str = "give the partition itself, or its start with --offset BYTES";
const CONVERT: &str = "convert it to a raw image first (qemu-img convert -O raw)";
const UNPACK: &str = "unpack it first";
const UNLOCK: &str = "open it first and give the device inside";

/// (offset, magic bytes, what, advice), most specific first.
const SIGNATURES: &[(u64, &[u8], &str, Option<&str>)] = &[
    (0, b"QFI\xfb", "a qcow2 image", Some(CONVERT)),
    (0, b"QED\0", "a QED image", Some(CONVERT)),
    (0, b"vhdxfile", "a VHDX image", Some(CONVERT)),
    (0, b"conectix", "a VHD image", Some(CONVERT)),
    (64, b"\x7f\x10\xda\xbe", "a VDI image", Some(CONVERT)),
    (0, b"\x1f\x8b", "a gzip file", Some(UNPACK)),
    (0, b"\xfd7zXZ\0", "an xz file", Some(UNPACK)),
    (0, b"BZh", "a bzip2 file", Some(UNPACK)),
    (0, b"PK\x03\x04", "a zip file", Some(UNPACK)),
    (0, b"LUKS\xba\xbe", "a LUKS encrypted device", Some(UNLOCK)),
    (0, b"XFSB", "an XFS file system", None),
    (0, b"hsqs", "a squashfs file system", None),
    (0x218, b"LVM2 001", "an LVM physical volume", Some("give the logical volume")),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a Linux md array", Some("give the assembled array")),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system", None),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system", None),
    (4086, b"SWAPSPACE2", "Linux swap space", None),
    (0x8001, b"CD001", "an ISO 9660 image", None),
    (3, b"NTFS    ", "an NTFS file system", None),
    (0x52, b"FAT32   ", "a FAT file system", None),
    (512, b"EFI PART", "a disk with a GPT partition table", Some(PARTITIONS)),
    (4096, b"EFI PART", "a disk with a GPT partition table", Some(PARTITIONS)),
    (510, b"\x55\xaa", "a disk with an MBR partition table", Some(PARTITIONS)),
];

/// Names what lies at the start of `medium`, when it is something well known.
#[must_use]
pub fn recognise(medium: &dyn ReadAt) -> Option<Signature> {
    SIGNATURES
        .iter()
        .find(|(offset, magic, ..)| holds(medium, *offset, magic))
        .map(|&(_, _, what, advice)| Signature { what, advice })
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
            let mut bytes = vec![0; 128 << 10];
            bytes[*offset as usize..*offset as usize + magic.len()].copy_from_slice(magic);
            assert_eq!(recognise(&Bytes(bytes)).map(|found| found.what), Some(*what));
        }
    }

    #[test]
    fn short_and_empty_inputs_are_nothing() {
        assert_eq!(recognise(&Bytes(Vec::new())), None);
        assert_eq!(recognise(&Bytes(vec![0x1f])), None);
    }
}
