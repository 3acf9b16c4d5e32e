//! Findings: facts about a pool, each a row of the catalogue, a place, and evidence.

mod catalogue;
mod sink;
mod stored;

pub use catalogue::{Entry, Kind};
pub use sink::{Sink, SinkContents};
pub(crate) use stored::parts as stored_parts;
pub use stored::{StoredPart, StoredState, file_name};

use serde::{Deserialize, Serialize};
use std::fmt;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ObjectType;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// A harmless oddity.
    Note,
    /// A copy is bad, the data is whole.
    Degraded,
    /// Something is lost or contradicts itself.
    Damaged,
}

impl Severity {
    /// The word reports use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Degraded => "degraded",
            Self::Damaged => "damaged",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Level of an object set's own block in a place (`ZB_ROOT_LEVEL`).
pub const LEVEL_OBJSET: i8 = -1;
/// Level of an intent log block in a place (`ZB_ZIL_LEVEL`).
pub const LEVEL_ZIL: i8 = -2;
/// Object set number of a dataset that is being destroyed (`ZB_DESTROYED_OBJSET`).
pub const OBJSET_DESTROYED: u64 = u64::MAX;
/// Block number of a spill block in a place (`DMU_SPILL_BLKID`).
pub const BLOCK_SPILL: u64 = u64::MAX - 1;

/// Where in the pool something is.
///
/// `objset`, `object`, `level` and `block` are the numbers `zdb` prints. A block that several snapshots share is
/// reached first through the oldest of them: that one's `objset` stands here, while `dataset`, `snapshot` and `path`
/// name the newest place, and `also_in` all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Full name of the dataset, without snapshot. `None` for the MOS and where no name was found.
    pub dataset: Option<String>,
    /// Name of the snapshot, when no live dataset holds the block.
    pub snapshot: Option<String>,
    /// Object set number; 0 is the MOS, [`OBJSET_DESTROYED`] what is left of a destroyed dataset.
    pub objset: Option<u64>,
    /// The txg of the pool's checkpoint, when it is there and not in the newest state.
    pub checkpoint_txg: Option<u64>,
    /// Object number; 0 is the array of dnodes.
    pub object: Option<u64>,
    /// What the block holds.
    pub object_type: Option<ObjectType>,
    /// Level in the object's tree, [`LEVEL_OBJSET`] or [`LEVEL_ZIL`].
    pub level: Option<i8>,
    /// Block number at that level, or [`BLOCK_SPILL`].
    pub block: Option<u64>,
    /// Path of the file from the root of its dataset, with a leading slash.
    pub path: Option<String>,
    /// Why there is no path, where one could be expected.
    pub no_path_because: Option<String>,
    /// First byte of the object that the block holds, or hides when it is an indirect block.
    pub file_offset: Option<u64>,
    /// Bytes of the object from there, cut at the end of the file.
    pub file_length: Option<u64>,
    /// Other names of the same bytes: `dataset:/path` or `dataset@snapshot:/path`. Hard links and clones too.
    pub also_in: Vec<String>,
    /// The device, for findings about a device and not about a block.
    pub device: Option<String>,
}

impl Place {
    /// The order of findings in a report: by place in the pool, then device.
    fn sort_key(&self) -> impl Ord + use<> {
        (self.device.clone(), self.checkpoint_txg, self.objset, self.object, std::cmp::Reverse(self.level), self.block)
    }

    /// The name a person reads: `tank/home:/docs/a.txt`, `tank/home@monday:/docs/a.txt`, `<metadata>:<0x3d>`,
    /// or `<54>:<7>` when no name could be found. `checkpoint of txg 9, tank:/a` when it is in the checkpoint.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.device, self.checkpoint_txg) {
            (Some(device), _) => device.clone(),
            (None, Some(txg)) => format!("checkpoint of txg {txg}, {}", self.name_in_state()),
            (None, None) => self.name_in_state(),
        }
    }

    /// The name among all in the same state of the pool.
    fn name_in_state(&self) -> String {
        let object = self.object.unwrap_or(0);
        let dataset = match (&self.dataset, &self.snapshot, self.objset) {
            (Some(dataset), Some(snapshot), _) => format!("{dataset}@{snapshot}"),
            (Some(dataset), None, _) => dataset.clone(),
            (None, _, Some(0)) => return format!("<metadata>:<{object:#x}>"),
            (None, _, Some(OBJSET_DESTROYED)) => return format!("<destroyed>:<{object}>"),
            (None, _, objset) => return format!("<{}>:<{object}>", objset.unwrap_or(0)),
        };
        match (&self.path, self.objset) {
            (None, _) if self.object_type == Some(ObjectType::ZVOL) => dataset,
            (Some(path), _) => format!("{dataset}:{path}"),
            (None, _) if self.object.is_none() => dataset,
            (None, Some(objset)) if self.no_path_because.is_some() => format!("<{objset}>:<{object}>"),
            (None, _) => format!("{dataset}:<{object:#x}>"),
        }
    }
}

/// What reading one copy gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CopyResult {
    /// The checksum holds.
    Ok,
    /// The bytes do not match the checksum.
    Checksum,
    /// The device did not give the bytes.
    ReadError,
    /// The device is not there.
    Missing,
    /// It lies where nothing was rescued, as the map of the image says.
    Unread,
    /// The device is known not to hold this block yet (DTL).
    Stale,
    /// The address lies outside the device.
    OutOfRange,
    /// The checksum holds, yet the payload does not decode.
    Undecodable,
    /// This version of zcheck cannot read it.
    Unsupported,
}

impl CopyResult {
    /// The word of the JSON report.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Checksum => "checksum",
            Self::ReadError => "read_error",
            Self::Missing => "missing",
            Self::Unread => "unread",
            Self::Stale => "stale",
            Self::OutOfRange => "out_of_range",
            Self::Undecodable => "undecodable",
            Self::Unsupported => "unsupported",
        }
    }
}

/// What a bad copy held instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Observed {
    /// Nothing but zeros.
    Zeros,
    /// Nothing but 0xff.
    Ones,
    /// One bit differs (proven: with it flipped the checksum holds).
    BitFlip,
    /// Anything else.
    Other,
}

impl Observed {
    /// The word of the JSON report.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Ones => "ones",
            Self::BitFlip => "bit_flip",
            Self::Other => "other",
        }
    }
}

/// What was read of one copy of a block on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyEvidence {
    /// Which of the pointer's up to three addresses.
    pub copy: usize,
    /// Top-level vdev id.
    pub vdev: u32,
    /// Offset in the top-level vdev, bytes.
    pub offset_bytes: u64,
    /// Allocated size on the top-level vdev, bytes.
    pub size_bytes: u64,
    /// Name of the leaf device in the config table.
    pub device: Option<String>,
    /// Byte offset on that device.
    pub device_offset_bytes: Option<u64>,
    /// Bytes the checksum covers there.
    pub length_bytes: u64,
    /// What reading it gave.
    pub result: CopyResult,
    /// What was there instead.
    pub observed: Option<Observed>,
    /// Where its bytes are stored, when it is bad and lies in a file: in the image, or in one below it. 16 parts at most.
    pub stored: Vec<StoredPart>,
}

/// A fact about the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The row of the catalogue.
    pub kind: Kind,
    /// How bad this instance is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What each copy gave; empty for findings that are not about a block.
    pub copies: Vec<CopyEvidence>,
    /// ZFS would heal it from another copy.
    pub recoverable: bool,
    /// Blocks that could not be reached because of this one.
    pub hidden_blocks: u64,
    /// Files that are lost as a whole because this block described them; at most a thousand.
    pub hidden_paths: Vec<String>,
    /// The other places that lead to the same block, by dedup or block cloning; a thousand at most.
    pub references: Vec<Place>,
    /// One sentence: what is wrong here.
    pub message: String,
    /// The pointer to the block, for findings about one.
    pub pointer: Option<Blkptr>,
}

impl Finding {
    /// A finding with the severity of its row and no evidence yet.
    #[must_use]
    pub fn new(kind: Kind, place: Place, message: impl Into<String>) -> Self {
        let severity = kind.entry().severity;
        Self {
            kind,
            severity,
            place,
            copies: Vec::new(),
            recoverable: severity != Severity::Damaged,
            hidden_blocks: 0,
            hidden_paths: Vec::new(),
            references: Vec::new(),
            message: message.into(),
            pointer: None,
        }
    }

    /// The order of findings in a report: by place, then kind.
    fn sort_key(&self) -> impl Ord + use<> {
        (self.place.sort_key(), self.kind, self.message.clone())
    }

    /// True when this is about a block of the pool.
    #[must_use]
    pub fn is_about_block(&self) -> bool {
        self.place.objset.is_some() && self.place.block.is_some()
    }
}
