//! Whole devices: labels, and pools that are changed and scrubbed.

use crate::codecs::seal;
use crate::forge::Forge;
use crate::input::Input;
use crate::medium::{Pieces, made, medium};
use fixtures::{
    Attributes, Checksum, Compression, Content, DatasetSpec, Endian, FileSpec, Pool, PoolSpec, TopSpec, make,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::OnceLock;
use zfs_format::media::Medium;
use zfs_format::media::partition::Partitions;
use zfs_format::pool::{Assembly, Candidate, DeviceLabels, Look, members};
use zfs_scrub::Options;
use zfs_scrub::options::Progress;

const LABEL_BYTES: u64 = 256 << 10;
const CONFIG_BYTES: usize = 112 << 10;
const ECK_BYTES: usize = 40;

/// A device of any bytes.
pub fn labels(data: &[u8]) {
    let size_bytes = data.len() as u64;
    let medium = medium("disk", Pieces { size_bytes, pieces: BTreeMap::from([(0, data.to_vec())]) });
    black_box(DeviceLabels::read(&*medium.bytes).missing_bytes());
    assert!(Assembly::new(&[medium], None).is_err(), "no device this small is a pool");
}

/// A disk whose first 4 KiB and next 32 KiB are the input, and so are its last sectors: all tables lie there. What they
/// name is looked at, and the disk is searched for labels.
pub fn partitions(data: &[u8]) {
    let size_bytes = 16 << 20;
    let end = size_bytes - (data.len() as u64).min(1 << 20);
    let pieces = BTreeMap::from([(0, data.to_vec()), (end, data.to_vec())]);
    let disk = medium("disk", Pieces { size_bytes, pieces });
    let tables = Partitions::read(&*disk.bytes);
    let mut numbers: Vec<u32> = tables.list.iter().map(|partition| partition.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), tables.list.len(), "each partition has a number of its own");
    black_box(tables.tables());
    // Each that is looked at costs a megabyte.
    if tables.list.len() <= 16 {
        black_box(
            members(&disk, Look::Tables).map(|found| found.iter().map(Candidate::why_not).collect::<Vec<_>>()).ok(),
        );
    }
    black_box(members(&disk, Look::Partition(numbers.last().copied().unwrap_or(1))).is_ok());
}

/// A label whose configuration and uberblock are the input, with right checksums: the length of the configuration, it, the slot.
pub fn label(data: &[u8]) {
    let mut input = Input(data);
    let length = usize::from(input.u16());
    let endian = if length & 1 == 0 { zfs_format::Endian::Little } else { zfs_format::Endian::Big };
    let mut config = input.bytes(length.min(CONFIG_BYTES - ECK_BYTES)).to_vec();
    config.resize(CONFIG_BYTES, 0);
    let mut slot = input.bytes(984).to_vec();
    slot.resize(1024, 0);
    let mut pieces = BTreeMap::new();
    for start in [0, LABEL_BYTES] {
        seal(&mut config, [start + (16 << 10), 0, 0, 0], endian);
        pieces.insert(start + (16 << 10), config.clone());
        seal(&mut slot, [start + (128 << 10), 0, 0, 0], endian);
        pieces.insert(start + (128 << 10), slot.clone());
    }
    let medium = medium("disk", Pieces { size_bytes: 8 << 20, pieces });
    black_box(Candidate::read(&medium));
    scrub(&[medium], 1);
}

/// A small pool with something of everything that the maker can make.
fn sample(endian: Endian) -> Pool {
    let mut root = DatasetSpec::new("");
    (root.indirect_shift, root.zap_shift, root.record_bytes, root.meta_levels) = (12, 12, 4096, 2);
    for number in 0..60 {
        root = root.with_file(FileSpec::new(&format!("many/a name of some length {number}"), Content::text(1, 40)));
    }
    root = root.with_file(FileSpec::new("noise", Content::random(2, 150_000)).with_link("dir/link"));
    root = root.with_file(FileSpec::new("to", Content::Symlink("noise".into()))).then_snapshot("s");
    root = root.with_file(FileSpec::new("noise", Content::random(2, 150_000).patched(9_000, Content::text(3, 50))));
    let mut old = DatasetSpec::new("old").with_file(FileSpec::new("dir/file", Content::text(4, 30_000)));
    (old.attributes, old.checksum, old.compression) = (Attributes::Legacy, Checksum::Sha256, Compression::Lzjb);
    let mut spec = PoolSpec::new("sample").with_tops(&[TopSpec::Mirror(2), TopSpec::Disk]).with_endian(endian);
    for dataset in [root, DatasetSpec::clone_of("clone", "@s"), old] {
        spec = spec.with_dataset(dataset);
    }
    make(&spec.with_dataset(DatasetSpec::volume("vol", 1 << 20, Content::text(5, 20_000))))
}

/// The pool that inputs change, in either byte order.
pub(crate) fn pool(endian: Endian) -> &'static Pool {
    static POOLS: [OnceLock<Pool>; 2] = [OnceLock::new(), OnceLock::new()];
    let number = usize::from(endian == Endian::Big);
    POOLS[number].get_or_init(|| sample(endian))
}

/// Words that often mean something else than what was meant.
const WORDS: [u64; 16] = [
    0,
    1,
    2,
    3,
    u64::MAX,
    1 << 63,
    (1 << 63) - 1,
    1 << 32,
    u32::MAX as u64,
    1 << 62,
    1 << 40,
    1 << 16,
    0xff,
    1 << 31,
    1 << 48,
    0x8000_0000_0000_0001,
];

/// Overwrites a made pool as the input tells, and scrubs it.
///
/// First a byte for byte order and threads, then changes until the input ends. Some write to devices or blocks as they lie, others
/// change what a block holds and put all checksums above right.
pub fn scrub_image(data: &[u8]) {
    let mut input = Input(data);
    let head = input.u8();
    let endian = if head & 1 == 0 { Endian::Little } else { Endian::Big };
    let mut forge = Forge::new(pool(endian).clone());
    let mut sizes: Vec<u64> = forge.pool.devices.iter().map(|device| device.bytes).collect();
    while !input.is_empty() {
        change(&mut forge, &mut sizes, &mut input);
    }
    forge.seal();
    let media: Vec<Medium> = forge.pool.devices.iter().zip(sizes).map(|(device, size)| made(device, size)).collect();
    scrub(&media, 1 + usize::from(head >> 1 & 1));
}

fn change(forge: &mut Forge, sizes: &mut [u64], input: &mut Input<'_>) {
    let kind = input.u8() % 8;
    let (blocks, devices) = (forge.pool.blocks.len(), forge.pool.devices.len());
    let block = usize::from(input.u16()) % blocks;
    let place = usize::from(input.u16());
    match kind {
        // Bytes of a device: labels, or anywhere.
        0 | 1 => {
            let device = &mut forge.pool.devices[block % devices];
            let length = usize::from(input.u8()) + 1;
            let offset = if kind == 0 { place as u64 * 8 } else { place as u64 * 1009 };
            device.write_at(offset, input.bytes(length));
        }
        // Bytes of a copy.
        2 => {
            let length = usize::from(input.u8()) + 1;
            let bytes = input.bytes(length);
            let spans: Vec<_> = forge.pool.blocks[block].copies.iter().flat_map(|copy| copy.leaves.clone()).collect();
            for span in spans.iter().take(1 + length % 6) {
                let offset = span.offset_bytes + place as u64 % span.len_bytes;
                forge.pool.devices[span.device].write_at(offset, bytes);
            }
        }
        // A device that ends early.
        3 => sizes[block % devices] = u64::from(input.u16()) << 10,
        // Bytes that a block holds.
        4 | 5 => {
            let length = usize::from(input.u8() % 32) + 1;
            let bytes = input.bytes(length);
            let Some(plain) = forge.plain(block) else { return };
            let at = place % plain.len();
            let end = (at + bytes.len()).min(plain.len());
            plain[at..end].copy_from_slice(&bytes[..end - at]);
        }
        // A word that a block holds.
        _ => {
            let value = WORDS[usize::from(input.u8() % 16)];
            let bytes = if forge.pool.endian == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() };
            let Some(plain) = forge.plain(block) else { return };
            let words = plain.as_chunks_mut::<8>().0;
            let count = words.len();
            words[place % count] = bytes;
        }
    }
}

/// Scrubs what may be a pool. Whatever it is, this returns; and what it says hangs together.
fn scrub(media: &[Medium], threads: usize) {
    let Ok(mut assembly) = Assembly::new(media, None) else { return };
    let options = Options { threads, memory_bytes: 0, findings_max: 200, ..Options::default() };
    let Ok(outcome) = zfs_scrub::scrub(&mut assembly, &options, &Progress::default()) else { return };
    let summary = &outcome.summary;
    assert_eq!(summary.exit_status == 0, summary.verdict == zfs_scrub::outcome::Verdict::Clean, "{summary:?}");
    assert!(outcome.findings.len() <= 200);
    black_box(format!("{outcome:?}"));
}
