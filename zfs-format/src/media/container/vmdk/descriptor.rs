//! The descriptor of a VMDK image: a text that lists the extents of the disk, and names the parent.
//!
//! It is a file of its own, or lies in the second sector of a sparse extent.
//!
//! Source: VMware, Virtual Disk Format 5.0 ("The Descriptor File"); QEMU block/vmdk.c, `vmdk_parse_extents`.

use crate::media::ReadAt;

/// Descriptors have about a kilobyte, and a line for each 2 GiB where a disk is split.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 20;
const SECTOR_BYTES: u64 = 512;
/// The identifier of "no parent".
const NO_PARENT: u32 = u32::MAX;

/// What a descriptor says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Changes when the disk is first written to after it was opened.
    pub(super) cid: Option<u32>,
    /// The identifier that the parent had when the image was made.
    pub(super) parent_cid: Option<u32>,
    /// The name of the parent.
    pub(super) parent: Option<String>,
    /// The extents, in the order of the disk.
    pub(super) extents: Vec<ExtentLine>,
    /// vSphere encrypted it.
    pub(super) is_encrypted: bool,
}

/// A line that describes an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExtentLine {
    /// Bytes of the disk.
    pub(super) bytes: u64,
    /// What it is.
    pub(super) kind: ExtentKind,
    /// The file that holds it.
    pub(super) file: Option<String>,
    /// Where in the file it begins, when it is flat.
    pub(super) offset_bytes: u64,
}

/// The kinds of extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExtentKind {
    /// As it is: FLAT, VMFS.
    Flat,
    /// With tables: SPARSE, VMFSSPARSE, SESPARSE. The file says which.
    Sparse,
    /// Zeros that are stored nowhere.
    Zero,
    /// One that a copy of the files does not hold, such as the device of a raw device mapping.
    Elsewhere(String),
}

impl Descriptor {
    /// Reads the descriptor that is `bytes`, which may have zeros behind it.
    ///
    /// # Errors
    /// What is wrong, in a few words.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let text = text_of(bytes.get(..end).unwrap_or_default());
        let mut found = Self::default();
        for (number, line) in text.lines().enumerate().map(|(index, line)| (index.saturating_add(1), line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(rest) = extent_fields(line) {
                let extent = ExtentLine::parse(rest).map_err(|why| format!("line {number} of the descriptor {why}"))?;
                found.extents.push(extent);
            } else if let Some((key, value)) = line.split_once('=') {
                found.set(key.trim(), value.trim().trim_matches('"'));
            }
        }
        Ok(found)
    }

    fn set(&mut self, key: &str, value: &str) {
        let number = || u32::from_str_radix(value, 16).ok();
        match key.to_ascii_lowercase().as_str() {
            "cid" => self.cid = number(),
            "parentcid" => self.parent_cid = number().filter(|&cid| cid != NO_PARENT),
            "parentfilenamehint" => self.parent = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "ddb.iofilters" => self.is_encrypted = value.contains("vmcrypt"),
            _ => {}
        }
    }

    /// Whether it holds only what was written since a snapshot.
    pub(super) fn is_child(&self) -> bool {
        self.parent_cid.is_some()
    }
}

/// The text of a descriptor. Old ones of Windows hosts are in a code page; names that are not ASCII are a guess then.
fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}').to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// What follows the access in a line that describes an extent.
fn extent_fields(line: &str) -> Option<&str> {
    let (access, rest) = line.split_once([' ', '\t'])?;
    matches!(access, "RW" | "RDONLY" | "NOACCESS").then(|| rest.trim_start())
}

impl ExtentLine {
    /// `SIZE KIND "FILE" OFFSET`; the last two only where the kind has them.
    fn parse(fields: &str) -> Result<Self, String> {
        let mut words = fields.splitn(3, [' ', '\t']);
        let sectors = words.next().and_then(|word| word.parse::<u64>().ok());
        let bytes = sectors.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)).filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or("does not say the size of an extent")?;
        let kind = match words.next().map(str::trim) {
            Some("FLAT" | "VMFS") => ExtentKind::Flat,
            Some("SPARSE" | "VMFSSPARSE" | "SESPARSE") => ExtentKind::Sparse,
            Some("ZERO") => ExtentKind::Zero,
            Some(other) if !other.is_empty() => ExtentKind::Elsewhere(other.to_owned()),
            _ => return Err("does not say the kind of an extent".to_owned()),
        };
        let rest = words.next().unwrap_or_default();
        let quoted = rest.find('"').zip(rest.rfind('"')).filter(|(open, close)| open < close);
        let file = quoted.and_then(|(open, close)| rest.get(open.saturating_add(1)..close)).map(str::to_owned);
        let after = quoted.and_then(|(_, close)| rest.get(close.saturating_add(1)..)).unwrap_or_default();
        let offset = match after.split_whitespace().next() {
            Some(word) if kind == ExtentKind::Flat => word.parse::<u64>().ok(),
            _ => Some(0),
        };
        let offset_bytes = offset.and_then(|sectors| sectors.checked_mul(SECTOR_BYTES));
        let offset_bytes = offset_bytes.ok_or("does not say where in its file an extent begins")?;
        if file.is_none() && matches!(kind, ExtentKind::Flat | ExtentKind::Sparse) {
            return Err("does not name the file of an extent".to_owned());
        }
        Ok(Self { bytes, kind, file, offset_bytes })
    }
}

/// Whether `file` is a descriptor: a text of comments and empty lines up to the line of the version.
pub(super) fn is_text(file: &dyn ReadAt) -> bool {
    let mut start = [0; 512];
    let length = usize::try_from(file.size_bytes().min(512)).unwrap_or(0);
    let Some(start) = start.get_mut(..length) else { return false };
    if file.read_at(start, 0).is_err() || start.contains(&0) && !is_marked(start) {
        return false;
    }
    if is_marked(start) {
        return true;
    }
    let text = text_of(start);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    file.size_bytes() <= TEXT_BYTES_MAX
        && first.is_some_and(|line| line.starts_with("version="))
        && text.contains("CID=")
}

/// Whether `bytes` begin with the comment that all products write first.
pub(super) fn is_marked(bytes: &[u8]) -> bool {
    const MARK: &[u8] = b"# Disk DescriptorFile";
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.get(..MARK.len()).is_some_and(|start| start.eq_ignore_ascii_case(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_of_each_product_is_understood() {
        let text = "# Disk DescriptorFile\r\nversion=1\r\nencoding=\"UTF-8\"\r\nCID=fffffffe\r\nparentCID=1a2B3c4d\r\n\
            createType=\"vmfsSparse\"\r\nparentFileNameHint=\"/vmfs/volumes/x/my vm.vmdk\"\r\n\r\n# Extent description\r\n\
            RW 63 FLAT \"a \"b\"-pt.vmdk\" 0\r\nRW 4192256 VMFSSPARSE \"vm-000001-delta.vmdk\"\r\n\
            RDONLY 2048 ZERO\r\nRW 100 FLAT \"\\\\.\\PhysicalDrive1\" 63 partitionUUID x\r\nNOACCESS 7 VMFSRDM \"x-rdm.vmdk\"\r\n\
            ddb.iofilters = \"vmwarevmcrypt\"\r\n\0\0";
        let found = Descriptor::parse(text.as_bytes()).unwrap();
        assert_eq!((found.cid, found.parent_cid), (Some(0xffff_fffe), Some(0x1a2b_3c4d)));
        assert_eq!(found.parent.as_deref(), Some("/vmfs/volumes/x/my vm.vmdk"));
        assert!(found.is_child() && found.is_encrypted);
        let extents: Vec<_> = found
            .extents
            .iter()
            .map(|line| (line.bytes / 512, line.file.as_deref(), line.offset_bytes / 512))
            .collect();
        let expected = [
            (63, Some("a \"b\"-pt.vmdk"), 0),
            (4_192_256, Some("vm-000001-delta.vmdk"), 0),
            (2048, None, 0),
            (100, Some("\\\\.\\PhysicalDrive1"), 63),
            (7, Some("x-rdm.vmdk"), 0),
        ];
        assert_eq!(extents, expected);
        assert_eq!(found.extents.last().map(|line| line.kind.clone()), Some(ExtentKind::Elsewhere("VMFSRDM".into())));
    }

    #[test]
    fn lines_that_hide_the_size_of_the_disk_are_refused() {
        for line in
            ["RW x FLAT \"a\" 0", "RW 0 ZERO", "RW 1", "RW 1 FLAT", "RW 36028797018963968 ZERO", "RW 1 FLAT \"a\" b"]
        {
            let error = Descriptor::parse(format!("CID=1\n{line}\n").as_bytes()).unwrap_err();
            assert!(error.starts_with("line 2 of the descriptor"), "{error}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        proptest::proptest!(|(bytes: Vec<u8>)| { let _ = Descriptor::parse(&bytes); });
    }
}
