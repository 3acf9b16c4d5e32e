//! The header of a qcow2 image.

use super::super::unpack::Codec;
use super::extensions::Extensions;
use super::{ImageFile, MAGIC, MediaError, NoteKind, Notes, be_u32, be_u64, unusable};

/// Version 2 ends here; extensions follow.
const V2_BYTES: u64 = 72;
/// What every header of version 3 has.
const V3_BYTES: u64 = 104;
/// The limit of QEMU.
const NAME_BYTES_MAX: u32 = 1023;

const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;
const KNOWN: u64 = DIRTY | CORRUPT | DATA_FILE | COMPRESSION | EXTENDED_L2;

/// The header, checked.
///
/// | offset | size | content |
/// | --- | --- | --- |
/// | 0, 4 | 4 each | magic `QFI\xfb`, version |
/// | 8, 16 | 8, 4 | where the name of the backing file is, its length |
/// | 20 | 4 | log2 of the bytes of a cluster |
/// | 24 | 8 | size of the disk |
/// | 32 | 4 | encryption: 0 none, 1 AES, 2 LUKS |
/// | 36, 40 | 4, 8 | entries of the L1 table, where it is |
/// | 48, 56 | 8, 4 | where the table of reference counts is, its clusters |
/// | 60, 64 | 4, 8 | number of snapshots, where their table is |
/// | 72, 80, 88 | 8 each | version 3: features, incompatible, compatible, and cleared by programs that do not know them |
/// | 96, 100 | 4 each | version 3: width of reference counts, length of the header |
/// | 104 | 1 | compression: 0 deflate, 1 zstd; in headers that are long enough |
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) backing_file: Option<String>,
    pub(super) cluster_bits: u32,
    pub(super) disk_bytes: u64,
    pub(super) l1_entries: u64,
    pub(super) l1_start: u64,
    pub(super) refcounts_start: u64,
    pub(super) refcounts_clusters: u64,
    pub(super) snapshots: u64,
    pub(super) snapshots_start: u64,
    pub(super) codec: Codec,
    pub(super) extensions: Extensions,
    incompatible: u64,
    /// The type of compression contradicts the feature bit.
    is_codec_odd: bool,
}

impl Header {
    pub(super) fn read(file: &ImageFile) -> Result<Self, MediaError> {
        let bad = |why: &str| unusable(&file.path, format!("no usable qcow2 header: {why}"));
        let mut bytes = [0; 112];
        // Files of version 2 may be shorter.
        let length = usize::try_from(file.bytes.size_bytes()).unwrap_or(usize::MAX).min(bytes.len());
        let head = bytes.get_mut(..length).unwrap_or_default();
        file.bytes.read_at(head, 0).map_err(|error| bad(&error.to_string()))?;
        if (length as u64) < V2_BYTES || !bytes.starts_with(&MAGIC) {
            return Err(bad("it is too short"));
        }
        let version = be_u32(&bytes, 4);
        check_version(file, version)?;
        if version >= 3 && (length as u64) < V3_BYTES {
            return Err(bad("it is too short"));
        }
        let cluster_bits = be_u32(&bytes, 20);
        if !(9..=21).contains(&cluster_bits) {
            return Err(bad(&format!("clusters of 2^{cluster_bits} bytes, which must be 512 bytes to 2 MiB")));
        }
        let (incompatible, header_bytes) = match version {
            2 => (0, V2_BYTES),
            _ => (be_u64(&bytes, 72), be_u32(&bytes, 100).into()),
        };
        let cluster_bytes = 1_u64 << cluster_bits;
        if version >= 3 && !(V3_BYTES..=cluster_bytes).contains(&header_bytes) {
            return Err(bad(&format!("it says that it has {header_bytes} bytes")));
        }
        let backing = (be_u64(&bytes, 8), be_u32(&bytes, 16));
        let end = if backing.0 == 0 { cluster_bytes } else { backing.0.min(cluster_bytes) };
        let extensions = Extensions::read(&*file.bytes, header_bytes, end);
        check_features(file, incompatible & !KNOWN, &extensions)?;
        check_encryption(file, be_u32(&bytes, 32))?;
        let compression =
            if version >= 3 && header_bytes > V3_BYTES { bytes.get(104).copied().unwrap_or(0) } else { 0 };
        let codec = match compression {
            0 => Codec::Deflate,
            1 => Codec::Zstd,
            other => {
                return Err(unusable(&file.path, format!("its type of compression is {other}, which is not known")));
            }
        };
        let header = Self {
            version,
            backing_file: backing_name(file, backing)?,
            cluster_bits,
            disk_bytes: be_u64(&bytes, 24),
            l1_entries: be_u32(&bytes, 36).into(),
            l1_start: be_u64(&bytes, 40),
            refcounts_start: be_u64(&bytes, 48),
            refcounts_clusters: be_u32(&bytes, 56).into(),
            snapshots: be_u32(&bytes, 60).into(),
            snapshots_start: be_u64(&bytes, 64),
            codec,
            extensions,
            incompatible,
            is_codec_odd: (compression != 0) != (incompatible & COMPRESSION != 0),
        };
        if i64::try_from(header.disk_bytes).is_err() {
            return Err(bad("the disk has more than 2^63 bytes"));
        }
        if !header.l1_start.is_multiple_of(cluster_bytes) {
            return Err(bad(&format!("the L1 table begins at byte {}, inside of a cluster", header.l1_start)));
        }
        if header.has_extended_l2() && cluster_bits < 14 {
            return Err(bad("it has subclusters, but clusters of less than 16 KiB"));
        }
        Ok(header)
    }

    pub(super) fn has_data_file(&self) -> bool {
        self.incompatible & DATA_FILE != 0
    }

    pub(super) fn has_extended_l2(&self) -> bool {
        self.incompatible & EXTENDED_L2 != 0
    }

    /// Tells what the header says of the state of the image.
    pub(super) fn note_state(&self, file: &ImageFile, notes: &Notes) {
        if self.incompatible & DIRTY != 0 {
            let message = "it is marked dirty: it was not closed, and its reference counts may be wrong";
            notes.add(NoteKind::ImageUnclean, &file.path, message);
        }
        if self.incompatible & CORRUPT != 0 {
            let message = "it is marked corrupt: QEMU found a table that contradicts another one (see qemu-img check)";
            notes.add(NoteKind::ImageDamaged, &file.path, message);
        }
        if self.is_codec_odd {
            let message = "its header contradicts itself about the type of compression";
            notes.add(NoteKind::ImageDamaged, &file.path, message);
        }
    }
}

fn check_version(file: &ImageFile, version: u32) -> Result<(), MediaError> {
    match version {
        2 | 3 => Ok(()),
        1 => {
            let why = "a qcow image of version 1, which QEMU gave up in 2008: convert it first \
                       (qemu-img convert -f qcow -O qcow2)";
            Err(unusable(&file.path, why))
        }
        other => Err(unusable(&file.path, format!("a qcow2 image of version {other}; versions 2 and 3 are known"))),
    }
}

/// Refuses features that change the meaning of the tables.
fn check_features(file: &ImageFile, unknown: u64, extensions: &Extensions) -> Result<(), MediaError> {
    if unknown == 0 {
        return Ok(());
    }
    let name = |bit: u32| match extensions.incompatible_name(bit) {
        Some(name) => format!("{name} (bit {bit})"),
        None => format!("bit {bit}"),
    };
    let names: Vec<String> = (0..64).filter(|bit| unknown >> bit & 1 == 1).map(name).collect();
    Err(unusable(&file.path, format!("it uses features of qcow2 that are not known here: {}", names.join(", "))))
}

fn check_encryption(file: &ImageFile, method: u32) -> Result<(), MediaError> {
    let how = match method {
        0 => return Ok(()),
        1 => "AES".to_owned(),
        2 => "LUKS".to_owned(),
        other => format!("method {other}"),
    };
    let why = format!(
        "the image is encrypted ({how}): decrypt it first (qemu-img convert --object secret,... --image-opts ... -O raw)"
    );
    Err(unusable(&file.path, why))
}

fn backing_name(file: &ImageFile, (start, length): (u64, u32)) -> Result<Option<String>, MediaError> {
    if start == 0 || length == 0 {
        return Ok(None);
    }
    let bad = |why: String| unusable(&file.path, format!("the name of its backing file cannot be read: {why}"));
    if length > NAME_BYTES_MAX {
        return Err(bad(format!("it would have {length} bytes")));
    }
    let mut name = vec![0; usize::try_from(length).unwrap_or(0)];
    file.bytes.read_at(&mut name, start).map_err(|error| bad(error.to_string()))?;
    String::from_utf8(name).map(Some).map_err(|_| bad("it is not UTF-8".to_owned()))
}
