//! The four labels of a device, each part judged by its own checksum.

use crate::FormatError;
use crate::codec::checksum::{Embedded, verify_embedded_sha256};
use crate::media::{MediaError, ReadAt};
use crate::ondisk::label::{
    BOOT_ENV_BYTES, BOOT_ENV_OFFSET_BYTES, LABEL_BYTES, LABEL_COUNT, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET_BYTES,
    VDEV_LABEL_END_BYTES, VDEV_LABEL_START_BYTES, VDEV_PHYS_BYTES, VDEV_PHYS_OFFSET_BYTES, label_offset,
    uberblock_slot_bytes, usable_bytes,
};
use crate::ondisk::nvlist::NvList;
use crate::ondisk::uberblock::Uberblock;
use crate::{Guid, Txg};

/// What an area with an embedded checksum turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaState {
    /// The checksum holds.
    Valid,
    /// There is a checksum, and it does not hold.
    BadChecksum,
    /// No checksum was ever written there.
    Absent,
}

impl From<Embedded> for AreaState {
    fn from(embedded: Embedded) -> Self {
        match embedded {
            Embedded::Valid(_) => Self::Valid,
            Embedded::Bad(_) => Self::BadChecksum,
            Embedded::Absent => Self::Absent,
        }
    }
}

/// The configuration of a label.
#[derive(Clone, Debug)]
pub enum ConfigState {
    /// The checksum holds and the nvlist parses.
    Valid(NvList),
    /// There is a checksum, and it does not hold.
    BadChecksum,
    /// No label was ever written there, or it was wiped.
    Absent,
    /// The checksum holds, the content is no nvlist.
    Invalid(FormatError),
    /// The device did not give the bytes.
    Unreadable(MediaError),
    /// The device is too small to have this label.
    Outside,
}

/// What a used slot of the uberblock ring holds. Slots that were never written are not listed.
#[derive(Clone, Debug)]
pub enum SlotState {
    /// The checksum holds.
    Valid(Box<Uberblock>),
    /// There is an uberblock, and its checksum does not hold.
    BadChecksum,
    /// The checksum holds, the content is no uberblock.
    Invalid(FormatError),
}

/// A used slot of an uberblock ring.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its number in the ring.
    pub index: usize,
    /// What it holds.
    pub state: SlotState,
}

/// One of the four labels.
#[derive(Clone, Debug)]
pub struct Label {
    /// 0 to 3.
    pub index: usize,
    /// Where it was looked for; `None` when the device is too small.
    pub offset_bytes: Option<u64>,
    /// The configuration.
    pub config: ConfigState,
    /// The boot environment area.
    pub boot_env: AreaState,
    /// Used slots of the ring.
    pub slots: Vec<Slot>,
}

impl Label {
    /// The configuration, when it is valid.
    #[must_use]
    pub fn valid_config(&self) -> Option<&NvList> {
        match &self.config {
            ConfigState::Valid(config) => Some(config),
            _ => None,
        }
    }

    /// The `txg` of the configuration: when it last changed.
    #[must_use]
    pub fn config_txg(&self) -> Option<Txg> {
        self.valid_config()?.u64("txg").map(Txg)
    }

    /// The pool the configuration names.
    #[must_use]
    pub fn pool_guid(&self) -> Option<Guid> {
        self.valid_config()?.u64("pool_guid").map(Guid)
    }

    /// Valid uberblocks with their slot numbers. Templates with txg 0 are left out.
    pub fn uberblocks(&self) -> impl Iterator<Item = (usize, &Uberblock)> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            SlotState::Valid(uberblock) if uberblock.txg.0 != 0 => Some((slot.index, &**uberblock)),
            _ => None,
        })
    }
}

/// The four labels of one device.
#[derive(Clone, Debug)]
pub struct DeviceLabels {
    /// Size of the device.
    pub size_bytes: u64,
    /// The four labels in order.
    pub labels: Vec<Label>,
    /// The last two labels were found where the device ended before it grew.
    pub at_old_end: bool,
}

impl DeviceLabels {
    /// Reads and judges all four labels of a device.
    ///
    /// When the device has grown since its labels were written, the last two still lie at the old end, which the
    /// first two tell; they are looked for there too.
    #[must_use]
    pub fn read(medium: &dyn ReadAt) -> Self {
        let size_bytes = medium.size_bytes();
        let psize = usable_bytes(size_bytes);
        let mut labels: Vec<Label> = (0..LABEL_COUNT).map(|index| read_label(medium, index, psize)).collect();
        let mut at_old_end = false;
        let recorded = labels.iter().find_map(|label| recorded_psize(label.valid_config()?));
        if let Some(old_psize) = recorded.filter(|&old| old < psize)
            && labels.iter().skip(2).all(|label| label.valid_config().is_none())
        {
            let old: Vec<Label> = (2..LABEL_COUNT).map(|index| read_label(medium, index, old_psize)).collect();
            if old.iter().any(|label| label.valid_config().is_some()) {
                labels.truncate(2);
                labels.extend(old);
                at_old_end = true;
            }
        }
        let mut found = Self { size_bytes, labels, at_old_end };
        found.read_rings(medium);
        found
    }

    /// The same labels with their rings as they are now; what cannot be read is empty.
    #[must_use]
    pub fn with_rings_now(&self, medium: &dyn ReadAt) -> Self {
        let mut now = self.clone();
        now.labels.iter_mut().for_each(|label| label.slots.clear());
        now.read_rings(medium);
        now
    }

    /// Reads the rings once the slot size is known. It follows from the sector size, which only a configuration
    /// tells; a label without one uses its neighbours', and a device without any tries all sizes.
    fn read_rings(&mut self, medium: &dyn ReadAt) {
        let own = |label: &Label| label.valid_config().and_then(config_ashift);
        let any = self.labels.iter().find_map(own);
        for label in &mut self.labels {
            let Some(offset) = label.offset_bytes else { continue };
            let mut ring = vec![0; UBERBLOCK_RING_BYTES as usize];
            let start = offset.saturating_add(UBERBLOCK_RING_OFFSET_BYTES);
            if medium.read_at(&mut ring, start).is_err() {
                continue;
            }
            label.slots = match own(label).or(any) {
                Some(ashift) => read_ring(&ring, start, ashift),
                None => {
                    (10..=13).map(|ashift| read_ring(&ring, start, ashift)).max_by_key(Vec::len).unwrap_or_default()
                }
            };
        }
    }

    /// The valid label with the newest configuration; `None` when no label is valid.
    #[must_use]
    pub fn best(&self) -> Option<&Label> {
        // On equal txgs the first label wins, as everywhere.
        self.labels.iter().rev().filter(|label| label.valid_config().is_some()).max_by_key(|label| label.config_txg())
    }

    /// How many bytes the device is shorter than its configuration says.
    #[must_use]
    pub fn missing_bytes(&self) -> Option<u64> {
        let recorded = recorded_psize(self.best()?.valid_config()?)?;
        recorded.checked_sub(self.size_bytes).filter(|&missing| missing > 0)
    }
}

/// Vdevs below each other: `zpool` makes at most four.
const VDEV_DEPTH_MAX: usize = 8;

/// Size of the device when its configuration was written, where one device's share can be told from the top-level's.
pub(super) fn recorded_psize(config: &NvList) -> Option<u64> {
    let top = config.list("vdev_tree")?;
    let mut asize = top.u64("asize")?;
    let mut vdev = top;
    // A raidz spreads it evenly; while it is being expanded, not yet over the newest child.
    for _ in 0..VDEV_DEPTH_MAX {
        let children = vdev.lists("children").unwrap_or_default();
        match vdev.str("type")? {
            "disk" | "file" => return asize.checked_add(VDEV_LABEL_START_BYTES)?.checked_add(VDEV_LABEL_END_BYTES),
            "mirror" | "replacing" | "spare" => {}
            "raidz" => {
                let width = (children.len() as u64).checked_sub(vdev.has("raidz_expanding").into())?;
                asize = asize.checked_div(width)?;
            }
            _ => return None,
        }
        vdev = children.first()?;
    }
    None
}

fn config_ashift(config: &NvList) -> Option<u64> {
    config.list("vdev_tree").and_then(|top| top.u64("ashift")).or_else(|| config.u64("ashift"))
}

fn read_label(medium: &dyn ReadAt, index: usize, psize: u64) -> Label {
    let mut label = Label {
        index,
        offset_bytes: None,
        config: ConfigState::Outside,
        boot_env: AreaState::Absent,
        slots: Vec::new(),
    };
    let Some(offset) = label_offset(index, psize).filter(|_| psize >= 2 * LABEL_BYTES) else { return label };
    label.offset_bytes = Some(offset);
    let mut area = vec![0; VDEV_PHYS_BYTES as usize];
    let start = offset.saturating_add(VDEV_PHYS_OFFSET_BYTES);
    label.config = match medium.read_at(&mut area, start) {
        Err(error) => ConfigState::Unreadable(error),
        Ok(()) => match verify_embedded_sha256(&area, [start, 0, 0, 0]) {
            Embedded::Absent => ConfigState::Absent,
            Embedded::Bad(_) => ConfigState::BadChecksum,
            Embedded::Valid(_) => match NvList::parse(&area) {
                Ok(config) => ConfigState::Valid(config),
                Err(error) => ConfigState::Invalid(error),
            },
        },
    };
    area.truncate(BOOT_ENV_BYTES as usize);
    let start = offset.saturating_add(BOOT_ENV_OFFSET_BYTES);
    if medium.read_at(&mut area, start).is_ok() {
        label.boot_env = verify_embedded_sha256(&area, [start, 0, 0, 0]).into();
    }
    label
}

fn read_ring(ring: &[u8], start: u64, ashift: u64) -> Vec<Slot> {
    let slot_bytes = uberblock_slot_bytes(ashift) as usize;
    let mut slots = Vec::new();
    for (index, bytes) in ring.chunks_exact(slot_bytes).enumerate() {
        let offset = start.saturating_add((index * slot_bytes) as u64);
        let state = match verify_embedded_sha256(bytes, [offset, 0, 0, 0]) {
            Embedded::Absent => continue,
            // OpenZFS leaves checksum magics in slots that never held an uberblock.
            Embedded::Bad(_) if Uberblock::parse_slot(bytes).is_err() => continue,
            Embedded::Bad(_) => SlotState::BadChecksum,
            Embedded::Valid(_) => match Uberblock::parse_slot(bytes) {
                Ok(uberblock) => SlotState::Valid(Box::new(uberblock)),
                Err(error) => SlotState::Invalid(error),
            },
        };
        slots.push(Slot { index, state });
    }
    slots
}
