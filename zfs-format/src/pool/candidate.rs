//! A device before it is known to which pool it belongs: what its labels claim.

use super::labels::{ConfigState, DeviceLabels, Label};
use crate::Guid;
use crate::media::{Device, FileId, Medium, NoteKind, ReadAt, probe};
use crate::ondisk::nvlist::NvList;
use std::path::PathBuf;
use std::sync::Arc;

/// A device that is larger may be a disk whose partition table is lost.
const DISK_BYTES_MIN: u64 = 64 << 20;

/// A device with its labels read, before it is known to which pool it belongs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path it was opened by, and which part of that it is.
    pub path: String,
    /// The path alone.
    pub file_path: PathBuf,
    /// Its bytes.
    pub medium: Arc<Device>,
    /// Its labels.
    pub labels: DeviceLabels,
    /// Which file or block device it is, or which part of one, where that is known.
    pub file: Option<FileId>,
    /// Why it is not used unless its pool is asked for: another member overlaps it, and was written later.
    pub older: Option<String>,
    /// What is in the partitions of a disk without a pool.
    pub contents: Option<String>,
}

impl Candidate {
    /// Reads the labels of an opened medium.
    #[must_use]
    pub fn read(medium: &Medium) -> Self {
        let device = Device::new(Arc::clone(&medium.bytes));
        let start = device.partition().map_or(0, |place| place.start_bytes);
        Self {
            path: medium.name(),
            file_path: medium.path.clone(),
            labels: DeviceLabels::read(&device),
            medium: Arc::new(device),
            // Which disk of an archive it is cannot be told by the file.
            file: FileId::of(&medium.path).filter(|_| medium.part.is_none()).map(|file| file.part(start)),
            older: None,
            contents: None,
        }
    }

    /// Adds what is to be said of its place on the disk.
    pub(super) fn tell(&self, message: impl Into<String>) {
        let file = Arc::from(self.file_path.as_path());
        self.medium.told().add(NoteKind::PartitionTable, &file, message);
    }

    /// Where on its disk it begins.
    pub(super) fn start_bytes(&self) -> u64 {
        self.medium.partition().map_or(0, |place| place.start_bytes)
    }

    /// First byte of the disk behind it.
    pub(super) fn end_bytes(&self) -> u64 {
        self.start_bytes().saturating_add(self.medium.size_bytes())
    }

    /// How many of its labels are valid and name its pool.
    pub(super) fn valid_labels(&self) -> usize {
        let pool = self.identity().map(Label::pool_guid);
        let labels = self.labels.labels.iter().filter(|label| label.valid_config().is_some());
        labels.filter(|label| Some(label.pool_guid()) == pool).count()
    }

    /// When the newest uberblock of its pool was written, in seconds since 1970; 0 when there is none.
    pub(super) fn last_written(&self) -> u64 {
        let pool = self.identity().and_then(Label::pool_guid);
        let labels = self.labels.labels.iter().filter(|label| label.pool_guid() == pool && pool.is_some());
        labels.flat_map(Label::uberblocks).map(|(_, uberblock)| uberblock.timestamp_s).max().unwrap_or(0)
    }

    /// The label that says what this device is. A pool's labels lie at both ends; where two pools left labels, the
    /// front ones are the younger in practice (a smaller pool made over an older, larger one).
    pub(super) fn identity(&self) -> Option<&Label> {
        let front = self.labels.labels.iter().find(|label| label.index < 2 && label.valid_config().is_some());
        let pool = front.or(self.labels.best())?.pool_guid();
        self.labels
            .labels
            .iter()
            .rev()
            .filter(|label| label.valid_config().is_some() && label.pool_guid() == pool)
            .max_by_key(|label| label.config_txg())
    }

    /// The members of a pool that its labels claim to be, in the order of the labels: more than one where labels of
    /// another member were written to it.
    pub(super) fn claims(&self, pool: Guid) -> Vec<Guid> {
        let mut claims = Vec::new();
        for label in self.labels.labels.iter().filter(|label| label.pool_guid() == Some(pool)) {
            let guid = label.valid_config().and_then(|config| config.u64("guid")).map(Guid);
            claims.extend(guid.filter(|guid| !claims.contains(guid)));
        }
        claims
    }

    /// True when there is nothing of ZFS on the device: no label, valid or damaged, and no uberblock.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.labels
            .labels
            .iter()
            .all(|label| label.slots.is_empty() && matches!(label.config, ConfigState::Absent | ConfigState::Outside))
    }

    /// What an older pool left, under what the device holds now.
    fn remains(&self) -> String {
        let with_rings = || self.labels.labels.iter().filter(|label| label.uberblocks().next().is_some());
        let count: usize = with_rings().map(|label| label.uberblocks().count()).sum();
        let first = with_rings().find_map(|label| label.offset_bytes);
        first.map_or_else(String::new, |at| {
            format!(" (remains of an older ZFS label at {at}: {count} uberblocks, no configuration)")
        })
    }

    /// Why the device is no member of any pool, in a few words.
    #[must_use]
    pub fn why_not(&self) -> String {
        if let Some(contents) = &self.contents {
            return format!("no ZFS label on the disk or in a partition{}; {contents}", self.remains());
        }
        if let Some(signature) = probe::recognise(&*self.medium) {
            let advice = signature.advice.map(|advice| format!("; {advice}")).unwrap_or_default();
            return format!("this is {}, not a ZFS device{}{advice}", signature.what, self.remains());
        }
        let damaged = self.labels.labels.iter().any(|label| label.config_damaged());
        let rings: usize = self.labels.labels.iter().map(|label| label.uberblocks().count()).sum();
        match (self.labels.size_bytes, damaged, rings) {
            (0, ..) => "the file is empty".into(),
            (_, true, _) => "no valid ZFS label: there are remains of one, but no checksum holds".into(),
            (_, false, 1..) => format!("no valid ZFS label: {rings} uberblocks are left, but no configuration"),
            (DISK_BYTES_MIN.., ..) => "no ZFS label found; --find-labels looks for one everywhere".into(),
            (..) => "no ZFS label found".into(),
        }
    }
}

impl Label {
    fn config_damaged(&self) -> bool {
        matches!(self.config, ConfigState::BadChecksum | ConfigState::Invalid(_))
    }
}

/// The configuration by which a pool is named among others.
pub(super) fn identity_config(members: &[(Candidate, Guid)]) -> Option<&NvList> {
    members.iter().find_map(|(candidate, _)| candidate.identity()?.valid_config())
}

/// Why a device of the pool `other` is no member of the pool `guid`.
pub(super) fn because_other(guid: Guid, own: Option<&NvList>, other: Guid, config: Option<&NvList>) -> String {
    let name = config.and_then(|config| config.str("name")).unwrap_or_default();
    let split_from = |config: Option<&NvList>| config.and_then(|config| config.u64("split_guid")).map(Guid);
    if split_from(config) == Some(guid) {
        format!("it was split off from this pool, and is the pool {name} (guid {other}) now")
    } else if split_from(own) == Some(other) {
        format!("it belongs to the pool {name} (guid {other}), from which this one was split off")
    } else if own.and_then(|own| own.str("name")) == Some(name) {
        format!("it belongs to another pool of the same name (guid {other})")
    } else {
        format!("it belongs to another pool, {name} (guid {other})")
    }
}

/// A device that carries labels of two members is the one that no other device is.
pub(super) fn settle_claims(members: &mut [(Candidate, Guid)], pool: Guid) {
    let claims: Vec<Vec<Guid>> = members.iter().map(|(candidate, _)| candidate.claims(pool)).collect();
    let mut taken: Vec<Guid> = claims.iter().filter(|claims| claims.len() == 1).flatten().copied().collect();
    for ((_, guid), claims) in members.iter_mut().zip(&claims).filter(|(_, claims)| claims.len() > 1) {
        let free = claims.iter().find(|claim| !taken.contains(claim));
        *guid = free.copied().unwrap_or(*guid);
        taken.push(*guid);
    }
}
