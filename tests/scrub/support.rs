//! Opens pools as they are or damaged, and runs checks over many of them at once.

use fixtures::{Case, RealPool, cases, images_dir, pools_in, shared_dir, unpack};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use zfs_format::media::{self, MediaError, Medium, ReadAt};
use zfs_format::pool::{Assembly, Selector};
use zfs_scrub::options::Progress;
use zfs_scrub::{Options, Outcome, ScrubError};

/// A device in memory.
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl ReadAt for Bytes {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let start = usize::try_from(offset).ok();
        let source = start.and_then(|start| self.0.get(start..start.checked_add(buffer.len())?));
        let length = buffer.len();
        let source = source.ok_or(MediaError::OutOfRange { offset, length, size: self.size_bytes() })?;
        buffer.copy_from_slice(source);
        Ok(())
    }
}

/// The folder of the pool a case damages.
pub(crate) fn image(folder: &str) -> RealPool {
    RealPool::read(images_dir().join(folder))
}

/// The name in the labels, where it is not the one in `expected.json`.
const RENAMED: &[(&str, &str)] = &[("destroyed", "gone")];

/// The name of a pool.
pub(crate) fn name_of(pool: &RealPool) -> &str {
    let renamed = RENAMED.iter().find(|(folder, _)| *folder == pool.folder);
    renamed.map_or(pool.expected.pool.as_str(), |&(_, name)| name)
}

/// The devices of a pool as zcheck opens them.
pub(crate) fn media_of(pool: &RealPool) -> Vec<Medium> {
    pool.devices().iter().map(|(_, path)| media::open(path).unwrap()).collect()
}

/// The folder of the pool of a case.
pub(crate) fn pool_of(case: &Case) -> RealPool {
    RealPool::read(case.pools.join(&case.pool))
}

/// Name and bytes of each device that is left after the damage.
pub(crate) fn damaged_devices(case: &Case) -> Vec<(String, Vec<u8>)> {
    let pool = pool_of(case);
    let mut devices = Vec::new();
    for (name, path) in pool.devices() {
        let mut bytes = unpack(&path, pool.expected.devices[&name]);
        if case.damage(&name, &mut bytes) {
            devices.push((name, bytes));
        }
    }
    devices
}

/// The damaged devices of a case, in memory.
pub(crate) fn damaged_media(case: &Case) -> Vec<Medium> {
    in_memory(damaged_devices(case))
}

/// Devices with their names, as zcheck opens them.
pub(crate) fn in_memory(devices: Vec<(String, Vec<u8>)>) -> Vec<Medium> {
    let medium = |(name, bytes)| Medium::new(PathBuf::from(name), Arc::new(Bytes(bytes)));
    devices.into_iter().map(medium).collect()
}

/// Name and bytes of each device of a pool.
pub(crate) fn devices_of(pool: &RealPool) -> Vec<(String, Vec<u8>)> {
    let unpacked = |(name, path): (String, PathBuf)| {
        let bytes = unpack(&path, pool.expected.devices[&name]);
        (name, bytes)
    };
    pool.devices().into_iter().map(unpacked).collect()
}

/// One pool beside the repository; says so where it is not there.
pub(crate) fn shared_pool(folder: &str) -> Option<RealPool> {
    let path = shared_dir().map(|dir| dir.join(folder)).filter(|path| path.is_dir());
    if path.is_none() {
        skipped(&format!("../shared/pools/{folder} is not there (set ZCHECK_SHARED to the folder that holds pools/)"));
    }
    path.map(RealPool::read)
}

/// Two threads, the default otherwise.
pub(crate) fn options() -> Options {
    Options { threads: 2, ..Options::default() }
}

/// Puts the named pool together and scrubs it.
pub(crate) fn scrub(media: &[Medium], pool: &str, options: &Options) -> Result<Outcome, ScrubError> {
    let mut assembly = Assembly::new(media, Some(&Selector::Name(pool.to_owned())))?;
    zfs_scrub::scrub(&mut assembly, options, &Progress::default())
}

/// The pools kept with the tests.
pub(crate) fn kept_pools() -> Vec<RealPool> {
    let pools = pools_in(&images_dir());
    assert!(pools.len() >= 13, "images are missing");
    pools
}

/// The cases beside the repository; says so where there are none.
pub(crate) fn shared_cases() -> Vec<Case> {
    shared().map(|dir| cases(&dir.join("cases"))).unwrap_or_default()
}

fn shared() -> Option<PathBuf> {
    let dir = shared_dir();
    if dir.is_none() {
        skipped("../shared/pools is not there (set ZCHECK_SHARED to the folder that holds pools/)");
    }
    dir
}

/// The pools beside the repository; says so where there are none.
pub(crate) fn shared_pools() -> Vec<RealPool> {
    let Some(dir) = shared() else { return Vec::new() };
    let mut pools = pools_in(&dir);
    let public = pools_in(&dir.join("public"));
    pools.extend(public.into_iter().map(|pool| RealPool { folder: format!("public/{}", pool.folder), ..pool }));
    pools
}

/// Says on the real stderr, past the capture of the test harness, that something was not tested.
pub(crate) fn skipped(why: &str) {
    // Nothing can be done about a closed stderr.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Runs a check over all items on a few threads, and fails with all complaints together.
pub(crate) fn for_all<T: Sync>(items: &[T], check: impl Fn(&T) -> Result<(), String> + Sync) {
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(complaint) = check(item) {
                        complaints.lock().unwrap().push(complaint);
                    }
                }
            });
        }
    });
    let mut complaints = complaints.into_inner().unwrap();
    complaints.sort();
    assert!(complaints.is_empty(), "{} of {} failed:\n{}", complaints.len(), items.len(), complaints.join("\n"));
}

/// `Err` with the message unless the condition holds.
pub(crate) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// One case beside the repository, and the name of its pool; nothing where there are none.
pub(crate) fn shared_case(name: &str) -> Option<(Case, String)> {
    let case = shared_cases().into_iter().find(|case| case.name == name)?;
    let pool = shared_pool(&case.pool)?.expected.pool;
    Some((case, pool))
}
