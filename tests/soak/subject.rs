//! The pools that are damaged, with a list of all blocks that does not come from zcheck.

use crate::overlay::{Base, Overlay};
use crate::say;
use fixtures::{
    Copy, Draid, ListedBlock, MadeBlock, PoolSpec, RealPool, TopSpec, images_dir, kept_list, listed_blocks, make,
    pools_in, shared_dir, unpack,
};
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::media::Medium;
use zfs_format::pool::{Assembly, Selector};
use zfs_scrub::options::Progress;
use zfs_scrub::{Options, Outcome};

/// A block of the list.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) copies: Vec<Copy>,
    /// Whether what lies below it, or what is needed to find other blocks, goes with it.
    pub(crate) is_metadata: bool,
    /// Whether each change of a byte has to be found.
    pub(crate) is_checked: bool,
}

/// Which pool.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    /// Made by OpenZFS, with the list by zdb.
    Listed(&'static str, &'static [TopSpec], u8),
    /// Made by OpenZFS; what its blocks are nobody says, so that only what is reported can be held against what was changed.
    Unlisted(Box<RealPool>),
    /// Made by the independent maker, from a seed.
    Made(&'static str, Maker),
}

/// A pool in memory.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) devices: Vec<(String, Base)>,
    /// All blocks; `None` when nobody knows.
    pub(crate) blocks: Option<Vec<Block>>,
    /// What zcheck says of it without damage.
    pub(crate) whole: Option<Outcome>,
}

const MIRROR: TopSpec = TopSpec::Mirror(2);

/// Shape and sector size of the pools kept with the tests. Devices come in the order of their names.
const KEPT: &[(&str, &[TopSpec], u8)] = &[
    ("single", &[TopSpec::Disk], 9),
    ("mirror2", &[MIRROR], 9),
    ("raidz1-3disk", &[TopSpec::Raidz { parity: 1, width: 3 }], 9),
    ("encrypted", &[TopSpec::Disk], 9),
    ("raid10", &[MIRROR, MIRROR, MIRROR], 9),
    ("single-ashift12", &[TopSpec::Disk], 12),
    ("stripe3", &[TopSpec::Disk, TopSpec::Disk, TopSpec::Disk], 9),
    ("salted", &[TopSpec::Disk], 9),
    ("single-ashift16", &[TopSpec::Disk], 16),
    ("copies", &[TopSpec::Disk], 9),
    ("mirror3", &[TopSpec::Mirror(3)], 9),
    ("compression", &[TopSpec::Disk], 9),
    ("directories", &[TopSpec::Disk], 9),
    ("zvols", &[TopSpec::Disk], 9),
    ("renamed-pool", &[TopSpec::Disk], 9),
    ("recordsizes-dnodesize", &[TopSpec::Disk], 9),
];

/// Makes a pool from a seed.
type Maker = fn(u64) -> PoolSpec;

/// Shapes that no kept pool has.
const MADE: &[(&str, Maker)] = &[
    ("made: anything", PoolSpec::random),
    ("made: draid1", |seed| with_tops(seed, TopSpec::Draid(Draid { parity: 1, data: 2, spares: 1, children: 6 }))),
    ("made: raidz2", |seed| with_tops(seed, TopSpec::Raidz { parity: 2, width: 5 })),
    ("made: removed", removed),
    ("made: raidz3", |seed| with_tops(seed, TopSpec::Raidz { parity: 3, width: 6 })),
    ("made: draid2", |seed| with_tops(seed, TopSpec::Draid(Draid { parity: 2, data: 3, spares: 2, children: 9 }))),
];

fn with_tops(seed: u64, top: TopSpec) -> PoolSpec {
    PoolSpec::random(seed).with_tops(&[top])
}

fn removed(seed: u64) -> PoolSpec {
    PoolSpec::random(seed).with_tops(&[TopSpec::Disk, TopSpec::Disk, MIRROR]).without_tops(&[0])
}

/// Object types of files and volumes, whose blocks nothing else hangs on.
const CONTENT: [u8; 2] = [19, 23];
/// Id of "no checksum".
const CHECKSUM_OFF: u8 = 2;

impl From<&MadeBlock> for Block {
    fn from(made: &MadeBlock) -> Self {
        Block {
            copies: made.copies.clone(),
            is_metadata: made.level != 0 || !CONTENT.contains(&made.object_type),
            is_checked: made.checksum_id != CHECKSUM_OFF,
        }
    }
}

impl From<ListedBlock> for Block {
    fn from(listed: ListedBlock) -> Self {
        Block {
            is_metadata: listed.is_metadata,
            is_checked: listed.is_checked && !listed.is_gang,
            copies: listed.copies,
        }
    }
}

/// Which pool a turn is about: one kept with the tests, a made one, and one of those beside the repository, where there are any.
pub(crate) fn of_turn(turn: u64) -> Name {
    let kept = KEPT.iter().map(|(folder, tops, ashift)| Name::Listed(folder, tops, *ashift));
    let made = MADE.iter().map(|(name, spec)| Name::Made(name, *spec));
    let shared = shared_dir().map(|dir| [pools_in(&dir), pools_in(&dir.join("public"))].concat()).unwrap_or_default();
    let is_kept = |pool: &RealPool| KEPT.iter().any(|(folder, ..)| *folder == pool.folder);
    let unlisted = shared.into_iter().filter(|pool| !is_kept(pool)).map(|pool| Name::Unlisted(Box::new(pool)));
    let lists: [Vec<Name>; 3] = [kept.collect(), made.collect(), unlisted.collect()];
    let lists: Vec<&Vec<Name>> = lists.iter().filter(|list| !list.is_empty()).collect();
    let turn = usize::try_from(turn).unwrap();
    let list = lists[turn % lists.len()];
    list[turn / lists.len() % list.len()].clone()
}

fn unpacked(pool: &RealPool) -> Vec<(String, Base)> {
    let device = |(name, path): (String, PathBuf)| {
        let bytes = unpack(&path, pool.expected.devices[&name]);
        (name, Base::Bytes(Arc::new(bytes)))
    };
    pool.devices().into_iter().map(device).collect()
}

impl Subject {
    pub(crate) fn open(name: &Name, seed: u64) -> Self {
        let mut subject = match name {
            Name::Listed(folder, tops, ashift) => {
                let pool = RealPool::read(images_dir().join(folder));
                let list = kept_list(&pool).expect("the list of its blocks");
                let blocks = listed_blocks(&list, tops, *ashift).into_iter().map(Block::from).collect();
                Subject {
                    name: (*folder).to_owned(),
                    pool: pool.expected.pool.clone(),
                    devices: unpacked(&pool),
                    blocks: Some(blocks),
                    whole: None,
                }
            }
            Name::Unlisted(pool) => Subject {
                name: pool.folder.clone(),
                pool: pool.expected.pool.clone(),
                devices: unpacked(pool),
                blocks: None,
                whole: None,
            },
            Name::Made(name, spec) => {
                let pool = make(&spec(seed));
                let blocks = pool.blocks.iter().filter(|block| !block.embedded).map(Block::from).collect();
                let device = |device: fixtures::Device| (device.name.clone(), Base::Made(Arc::new(device)));
                Subject {
                    name: format!("{name}, seed {seed}"),
                    pool: pool.name,
                    devices: pool.devices.into_iter().map(device).collect(),
                    blocks: Some(blocks),
                    whole: None,
                }
            }
        };
        let whole: Vec<Overlay> = subject.devices.iter().map(|(_, base)| Overlay::new(base.clone())).collect();
        match subject.scrub(&whole, &Options { threads: 2, findings_max: usize::MAX, ..Options::default() }) {
            Ok(outcome) => subject.whole = Some(outcome),
            Err(error) => say(&format!("{}: not opened even as it is: {error}", subject.name)),
        }
        subject
    }

    /// A scrub of the devices as they are now, or why it could not begin.
    pub(crate) fn scrub(&self, devices: &[Overlay], options: &Options) -> Result<Outcome, String> {
        let media: Vec<Medium> = self
            .devices
            .iter()
            .zip(devices)
            .map(|((name, _), device)| Medium::new(PathBuf::from(name), Arc::new(device.clone())))
            .collect();
        let by_name = Assembly::new(&media, Some(&Selector::Name(self.pool.clone())));
        let mut assembly = by_name.or_else(|_| Assembly::new(&media, None)).map_err(|error| error.to_string())?;
        zfs_scrub::scrub(&mut assembly, options, &Progress::default()).map_err(|error| error.to_string())
    }
}
