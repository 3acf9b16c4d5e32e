//! Devices that hold no pool data, hot spares and caches (L2ARC), and what the pool says of its devices elsewhere than
//! in its configuration: allocation classes, its lists of spares and caches.

use super::assembly::{Assembly, PoolState};
use super::candidate::Candidate;
use super::mos::Mos;
use crate::Guid;
use crate::block::{BlockReader, Work};
use crate::media::ReadAt;
use crate::object::ObjectError;
use crate::ondisk::l2arc::{L2ARC_HEADER_BYTES, L2arcHeader};
use crate::ondisk::label::VDEV_LABEL_START_BYTES;
use crate::ondisk::nvlist::NvList;
use crate::vdev::AllocationClass;

/// A hot spare or a cache device: given, or listed by the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// [`PoolState::SPARE`] or [`PoolState::L2CACHE`].
    pub state: PoolState,
    /// Its guid.
    pub guid: Guid,
    /// `disk` or `file`, as the pool's list says.
    pub vdev_type: Option<String>,
    /// `path` of the label or of the list.
    pub path: Option<String>,
    /// The path it was opened by; `None` when it was not given.
    pub opened_as: Option<String>,
    /// The pool that a cache says it belongs to. Spares do not say.
    pub pool: Option<Guid>,
    /// Whether the pool lists it; `None` before the lists were read, or when they cannot be.
    pub is_listed: Option<bool>,
    /// A spare that stands in for another device: it is among the members, too.
    pub is_in_use: bool,
}

impl Auxiliary {
    /// What a given device is whose label has the state of a spare or a cache.
    pub(super) fn given(candidate: &Candidate, state: PoolState, label: &NvList) -> Self {
        let guid = Guid(label.u64("guid").unwrap_or(0));
        let pool = if state == PoolState::L2CACHE { cache_pool(&*candidate.medium, guid) } else { None };
        Self {
            state,
            guid,
            vdev_type: None,
            path: label.str("path").map(str::to_owned),
            opened_as: Some(candidate.path.clone()),
            pool,
            is_listed: None,
            is_in_use: false,
        }
    }

    fn listed(state: PoolState, entry: &NvList) -> Option<Self> {
        Some(Self {
            state,
            guid: Guid(entry.u64("guid")?),
            vdev_type: entry.str("type").map(str::to_owned),
            path: entry.str("path").map(str::to_owned),
            opened_as: None,
            pool: None,
            is_listed: Some(true),
            is_in_use: false,
        })
    }

    /// What it is, in words.
    #[must_use]
    pub fn what(&self) -> &'static str {
        if self.state == PoolState::L2CACHE { "a cache device (L2ARC)" } else { "a hot spare" }
    }

    /// Short name for reports: the last part of its path.
    #[must_use]
    pub fn name(&self) -> String {
        let path = self.path.as_deref().or(self.opened_as.as_deref());
        let last = path.and_then(|path| path.rsplit('/').next()).filter(|last| !last.is_empty());
        last.map_or_else(|| self.guid.to_string(), str::to_owned)
    }
}

/// The pool that the header of a cache names, if the header is that of this device.
fn cache_pool(medium: &dyn ReadAt, guid: Guid) -> Option<Guid> {
    let mut bytes = [0; L2ARC_HEADER_BYTES];
    medium.read_at(&mut bytes, VDEV_LABEL_START_BYTES).ok()?;
    let header = L2arcHeader::parse_either(&bytes).ok()?;
    (header.guid == guid).then_some(header.pool_guid)
}

/// Something that the pool says of its devices and that cannot be read.
#[derive(Clone, Debug)]
pub struct UnreadRole {
    /// What it is about: a top-level vdev, `spares` or `l2cache`.
    pub what: String,
    /// Why.
    pub error: ObjectError,
}

impl Assembly {
    /// Reads from the MOS which class each top-level vdev has, and which spares and caches the pool lists; fills them
    /// into the tree and into [`Assembly::auxiliaries`]. Answers with what could not be read.
    pub fn read_roles(&mut self, work: &mut Work) -> Vec<UnreadRole> {
        let root = self.chosen.uberblock.rootbp;
        let mut unread = Vec::new();
        // A MOS that cannot be opened is for others to report.
        let Ok(mut mos) = Mos::open(BlockReader::new(&self.tree), &root, work) else { return unread };
        let classes = read_classes(&mut mos, self, work, &mut unread);
        let mut lists = Vec::new();
        for (state, key) in [(PoolState::SPARE, "spares"), (PoolState::L2CACHE, "l2cache")] {
            match read_list(&mut mos, key, state, work) {
                Ok(list) => lists.push((state, list)),
                Err(error) => unread.push(UnreadRole { what: key.to_owned(), error }),
            }
        }
        for (id, class) in classes {
            if let Some(Some(top)) = self.tree.tops.get_mut(id) {
                top.class = class;
            }
        }
        for (state, list) in lists {
            self.adopt_list(state, list);
        }
        unread
    }

    /// Marks the given auxiliary devices that are on the pool's list, and adds those that were not given.
    fn adopt_list(&mut self, state: PoolState, list: Vec<Auxiliary>) {
        for given in self.auxiliaries.iter_mut().filter(|given| given.state == state) {
            given.is_listed = Some(list.iter().any(|listed| listed.guid == given.guid));
        }
        for mut listed in list {
            let leaf = self.tree.leaves.iter().find(|leaf| leaf.guid == listed.guid);
            if let Some(leaf) = leaf {
                listed.is_in_use = true;
                listed.opened_as.clone_from(&leaf.opened_as);
            }
            match self.auxiliaries.iter_mut().find(|known| known.state == state && known.guid == listed.guid) {
                Some(known) => {
                    known.vdev_type = listed.vdev_type;
                    known.path = listed.path.or(known.path.take());
                    known.is_in_use = listed.is_in_use;
                }
                None => self.auxiliaries.push(listed),
            }
        }
    }
}

/// The classes of the top-level vdevs that have one.
fn read_classes(
    mos: &mut Mos<'_>,
    assembly: &Assembly,
    work: &mut Work,
    unread: &mut Vec<UnreadRole>,
) -> Vec<(usize, AllocationClass)> {
    let mut classes = Vec::new();
    for (id, top) in assembly.tree.tops.iter().enumerate() {
        let Some(top) = top.as_ref().filter(|top| top.zap_object != 0) else { continue };
        match mos.zap_bytes(top.zap_object, b"org.zfsonlinux:allocation_bias", work) {
            Ok(bias) => {
                let class = bias.and_then(|bias| AllocationClass::from_bias(&bias));
                classes.extend(class.map(|class| (id, class)));
            }
            Err(error) => {
                let what = assembly.tree.nodes.get(top.node).map_or_else(|| format!("vdev {id}"), |node| node.name());
                unread.push(UnreadRole { what, error });
            }
        }
    }
    classes
}

/// One of the pool's lists of devices without data.
///
/// Source: OpenZFS module/zfs/spa.c, `spa_load_spares`, `spa_load_l2cache`.
fn read_list(mos: &mut Mos<'_>, key: &str, state: PoolState, work: &mut Work) -> Result<Vec<Auxiliary>, ObjectError> {
    let Some(&object) = mos.directory.get(key).filter(|&&object| object != 0) else { return Ok(Vec::new()) };
    let list = mos.packed_nvlist(object, work)?;
    let entries = list.lists(key).unwrap_or_default();
    Ok(entries.iter().filter_map(|entry| Auxiliary::listed(state, entry)).collect())
}
