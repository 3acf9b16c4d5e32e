//! How often memory is allocated for each block that is verified: a count, no stopwatch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use dhat::{HeapStats, Profiler};
use fixtures::{Checksum, Content, DatasetSpec, Draid, FileSpec, PoolSpec, TopSpec, make};
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::pool::Assembly;
use zfs_scrub::Options;
use zfs_scrub::options::Progress;

#[global_allocator]
static COUNTING: dhat::Alloc = dhat::Alloc;

#[derive(Debug)]
struct MadeDevice(fixtures::Device);

impl ReadAt for MadeDevice {
    fn size_bytes(&self) -> u64 {
        self.0.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        self.0.read_at(offset, buffer);
        Ok(())
    }
}

/// Allocations during a scrub of a pool with a file of so many records of 8 KiB, and the blocks it verified.
fn allocations(top: TopSpec, checksum: Checksum, records: u64) -> (u64, u64) {
    let mut dataset = DatasetSpec::new("");
    (dataset.checksum, dataset.record_bytes) = (checksum, 8192);
    let dataset = dataset.with_file(FileSpec::new("noise", Content::random(7, records * 8192)));
    let spec = PoolSpec { device_bytes: 256 << 20, ..PoolSpec::new("tank").with_tops(&[top]).with_dataset(dataset) };
    let pool = make(&spec);
    let medium =
        |device: &fixtures::Device| Medium::new(PathBuf::from(&device.name), Arc::new(MadeDevice(device.clone())));
    let media: Vec<Medium> = pool.devices.iter().map(medium).collect();
    let mut assembly = Assembly::new(&media, None).unwrap();
    let before = HeapStats::get().total_blocks;
    let outcome =
        zfs_scrub::scrub(&mut assembly, &Options { threads: 1, ..Options::default() }, &Progress::default()).unwrap();
    assert_eq!((outcome.summary.exit_status, outcome.findings.len()), (0, 0));
    (HeapStats::get().total_blocks - before, outcome.totals.blocks)
}

/// What the larger of two pools takes more than the smaller one, for each block more: what does not grow is left out, and
/// what is allocated for an indirect block, which leads to many, counts a little.
#[test]
fn allocations_of_a_block_are_few() {
    let _profiler = Profiler::builder().testing().build();
    let raidz = |parity, width| TopSpec::Raidz { parity, width };
    let draid = TopSpec::Draid(Draid { parity: 1, data: 2, spares: 1, children: 6 });
    for (name, top, checksum, most) in [
        ("disk", TopSpec::Disk, Checksum::Fletcher4, 1.0),
        ("disk, sha256", TopSpec::Disk, Checksum::Sha256, 1.0),
        ("mirror", TopSpec::Mirror(2), Checksum::Fletcher4, 1.0),
        ("raidz1", raidz(1, 3), Checksum::Fletcher4, 18.0),
        ("raidz2", raidz(2, 6), Checksum::Fletcher4, 18.0),
        ("raidz3", raidz(3, 8), Checksum::Fletcher4, 20.0),
        ("draid1", draid, Checksum::Fletcher4, 18.0),
    ] {
        // What is made once, such as the choice of a form for this CPU, is made before.
        allocations(top, checksum, 1);
        let (few, many) = (allocations(top, checksum, 300), allocations(top, checksum, 1500));
        let each = (many.0 - few.0) as f64 / (many.1 - few.1) as f64;
        println!("{name}: {each:.2} allocations a block");
        assert!(each <= most, "{name}: {each:.2} allocations a block, not {most}");
    }
}
