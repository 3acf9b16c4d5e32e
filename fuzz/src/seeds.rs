//! Good inputs, taken from a made pool: what a mutator should begin with.

use crate::containers::{vdi_seed, vmdk_seeds};
use crate::forge::Forge;
use crate::image::pool;
use crate::sealed::{ova_seed, vhd_seeds, vhdx_seeds};
use fixtures::{Endian, MadeBlock, Pool};
use zfs_format::ondisk::zil::ZIL_CHAIN_BYTES;

/// An input and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the file.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

const DNODE_BYTES: usize = 512;

/// All seeds, in both byte orders.
#[must_use]
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (number, word, endian) in [(0, "le", Endian::Little), (1, "be", Endian::Big)] {
        let pool = pool(endian);
        let mut add = |target, name: &str, bytes: &[u8]| {
            seeds.push(Seed { target, name: format!("{name}-{word}"), bytes: bytes.to_vec() });
        };
        from_labels(pool, &mut add);
        from_blocks(pool, number, &mut add);
        from_payloads(pool, &mut add);
        add("zil", "log", &intent_log(pool));
        add("ddt", "log", &dedup_log(number, endian));
        add("brt", "entry", &[&[number], 0x10200_u64.to_be_bytes().as_slice(), &stored(&[3], endian)].concat());
        add("brt", "header", &[vec![number], stored(&[90, 1, 0, 1, 16 << 20, 131_072, 393_216], endian)].concat());
        add("history", "header", &stored(&[2040, 131_072, 133_112, 264_144, 12], endian));
        add("history", "record", &history_record(endian));
        let changes =
            [vec![number, 6, 3, 0, 9, 0, 4], vec![number, 4, 40, 0, 16, 0, 1, 7, 7], vec![number, 2, 9, 0, 5, 0, 1, 1]];
        for (index, change) in changes.iter().enumerate() {
            add("scrub_image", &format!("change{index}"), change);
        }
    }
    let mut add = |target, name: &str, bytes: &[u8]| {
        seeds.push(Seed { target, name: name.to_owned(), bytes: bytes.to_vec() });
    };
    add("rescue_map", "rescued", RESCUE_MAP.as_bytes());
    // The table and its first entries.
    add("partitions", "gpt", &include_bytes!("../../fixtures/containers/gpt-64m.bin")[..1536]);
    add("partitions", "mbr", &nested_tables());
    // Which number or empty list, and what it becomes.
    for (name, changes) in [("counts", [64, 7, 0, 6]), ("lanes", [0, 7, 0, 6]), ("batches", [2, 20, 250, 31])] {
        add("saved_run", name, &changes);
    }
    for (name, image) in vmdk_seeds() {
        add("vmdk", name, &image);
    }
    add("ova", "disk", &ova_seed());
    add("vdi", "dynamic", &vdi_seed());
    for (name, image) in vhd_seeds() {
        add("vhd", name, &image);
    }
    for (name, image) in vhdx_seeds() {
        add("vhdx", name, &image);
    }
    add("qcow2", "deflate", include_bytes!("../../fixtures/containers/qcow2/deflate.qcow2"));
    add("qcow2", "zstd", include_bytes!("../../fixtures/containers/qcow2/zstd.qcow2"));
    add("qcow2", "snapshots", include_bytes!("../../fixtures/containers/qcow2/snapshots.qcow2"));
    add("ewf", "disk", include_bytes!("../../fixtures/containers/ewf/disk-33k.E01"));
    seeds
}

/// What ddrescue writes: comments, where it is, and ranges with what became of them.
const RESCUE_MAP: &str = "# Mapfile. Created by GNU ddrescue version 1.27\n# current_pos  current_status  current_pass\n\
    0x00120000     ?               1\n#      pos        size  status\n0x00000000  0x00100000  +\n\
    0x00100000  0x00010000  -\n0x00110000  0x00010000  /\n0x00120000  0x00E00000  ?\n";

/// An MBR with a Solaris partition, a BSD partition and an extended one, each with a table inside.
fn nested_tables() -> Vec<u8> {
    let mut disk = vec![0; 10 * 512];
    let mut put = |at: usize, bytes: &[u8]| disk[at..at + bytes.len()].copy_from_slice(bytes);
    let entry = |kind: u8, first: u32, sectors: u32| {
        [[0; 4], [kind, 0, 0, 0], first.to_le_bytes(), sectors.to_le_bytes()].concat()
    };
    for (index, (kind, first)) in [(0xbf, 1), (0xa5, 4), (0x05, 8)].into_iter().enumerate() {
        put(446 + 16 * index, &entry(kind, first, 9000));
    }
    put(8 * 512 + 446, &[entry(0x83, 1, 100), entry(0x05, 1, 100)].concat());
    put(9 * 512 + 446, &entry(0x83, 1, 100));
    for sector in [0, 8, 9] {
        put(sector * 512 + 510, b"\x55\xaa");
    }
    let vtoc = 2 * 512;
    put(vtoc + 12, &0x600d_deee_u32.to_le_bytes());
    put(vtoc + 30, &[2, 0]);
    put(vtoc + 72, &[2, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0]);
    put(vtoc + 508, &[0xbe, 0xda]);
    let label = 5 * 512;
    for magic in [0, 132] {
        put(label + magic, &0x8256_4557_u32.to_le_bytes());
    }
    put(label + 138, &[4, 0]);
    put(label + 148, &[0, 16, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 27]);
    disk
}

fn stored(words: &[u64], endian: Endian) -> Vec<u8> {
    let put = |word: &u64| if endian == Endian::Little { word.to_le_bytes() } else { word.to_be_bytes() };
    words.iter().flat_map(put).collect()
}

/// A block of a dedup log with two records; its start reads as a key, a header and a payload too.
fn dedup_log(order: u8, endian: Endian) -> Vec<u8> {
    let record = |sector: u64| {
        let mut words = vec![120 << 8 | 1, sector, 2, 3, 4, 0xf_0007_0007];
        words.extend([8, sector, 0, 0, 0, 0, 2, 77, 1_796_049_318]);
        words
    };
    let mut words = record(1000);
    words.extend(record(2000));
    words.extend([0, 0, 0]);
    [vec![order], stored(&words, endian)].concat()
}

/// A native list of one number: `history time`.
fn history_record(endian: Endian) -> Vec<u8> {
    let is_little = endian == Endian::Little;
    let half = |value: u16| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
    let word = |value: u32| if is_little { value.to_le_bytes() } else { value.to_be_bytes() };
    let mut record = vec![0, u8::from(is_little), 0, 0];
    record.extend([word(0), word(1), word(40)].concat());
    record.extend([half(13), half(0)].concat());
    record.extend([word(1), word(8)].concat());
    record.extend(b"history time\0\0\0\0");
    record.extend(stored(&[1_796_049_318], endian));
    record.extend(word(0));
    record
}

fn from_labels(pool: &Pool, add: &mut impl FnMut(&'static str, &str, &[u8])) {
    let mut label = vec![0; 256 << 10];
    pool.read_at(0, 0, &mut label);
    let config = &label[16 << 10..];
    let used = 112 * 1024 - 40 - config[..112 * 1024 - 40].iter().rev().take_while(|byte| **byte == 0).count();
    let config = &config[..(used + 8).next_multiple_of(4)];
    add("nvlist", "config", config);
    let slots = label[128 << 10..].chunks_exact(1024);
    let slot = slots.into_iter().find(|slot| slot[..8].iter().any(|byte| *byte != 0));
    let slot = slot.expect("the ring has an uberblock");
    add("uberblock", "slot", &slot[..256]);
    let odd = usize::from(pool.endian == Endian::Big);
    let length = u16::try_from((config.len() & !1) | odd).expect("a small configuration");
    let mut input = length.to_le_bytes().to_vec();
    input.extend(config.iter().chain(std::iter::repeat(&0)).take(length.into()));
    input.extend(&slot[..256]);
    add("label", "label", &input);
    add("labels", "front", &label[..64]);
}

/// Decoded blocks for the parsers of what they hold, the byte for their order in front.
fn from_blocks(pool: &Pool, order: u8, add: &mut impl FnMut(&'static str, &str, &[u8])) {
    let mut forge = Forge::new(pool.clone());
    let mut taken = std::collections::BTreeMap::new();
    for index in 0..pool.blocks.len() {
        let Some(plain) = forge.plain(index).cloned() else { continue };
        let block = &pool.blocks[index];
        let targets = targets_of(block, &plain, pool.endian);
        for target in targets {
            let count: &mut usize = taken.entry(target).or_default();
            *count += 1;
            if *count > 2 {
                continue;
            }
            let most = if target == "fat_zap" || target == "zap_leaf" { 4096 } else { 2048 };
            let mut input = vec![order];
            input.extend(&plain[..plain.len().min(most)]);
            add(target, &format!("block{count}"), &input);
        }
        if block.level == 0 && block.object == 0 && block.object_type == 10 {
            from_bonuses(&plain, order, pool.endian, &mut taken, add);
        }
    }
    let pointers = pool.blocks.iter().filter(|block| block.level == 0);
    for (index, block) in pointers.step_by(60).enumerate().take(6) {
        add("blkptr", &format!("pointer{index}"), &[&[order], block.pointer.as_slice()].concat());
    }
    let embedded = pool.blocks.iter().find(|block| block.embedded).expect("a small file");
    add("blkptr", "embedded", &[&[order], embedded.pointer.as_slice()].concat());
}

fn targets_of(block: &MadeBlock, plain: &[u8], endian: Endian) -> Vec<&'static str> {
    let first = plain.first_chunk::<8>().copied().unwrap_or_default();
    let first = if endian == Endian::Little { u64::from_le_bytes(first) } else { u64::from_be_bytes(first) };
    let is_zap = block.level == 0 && first >> 63 == 1;
    match (block.level, block.object_type, is_zap, first & 0xff) {
        (-1, ..) => vec!["objset"],
        (0, 8, ..) => vec!["space_map"],
        (0, 10, ..) => vec!["dnode"],
        (1.., ..) => vec!["dnode", "bptree"],
        (_, _, true, 3) => vec!["micro_zap"],
        (_, _, true, 1) => vec!["fat_zap"],
        (_, _, true, 0) => vec!["zap_leaf"],
        _ => Vec::new(),
    }
}

/// Bonuses of a block of dnodes.
fn from_bonuses(
    plain: &[u8],
    order: u8,
    endian: Endian,
    taken: &mut std::collections::BTreeMap<&'static str, usize>,
    add: &mut impl FnMut(&'static str, &str, &[u8]),
) {
    for dnode in plain.chunks_exact(DNODE_BYTES) {
        let length = [dnode[10], dnode[11]];
        let length = if endian == Endian::Little { u16::from_le_bytes(length) } else { u16::from_be_bytes(length) };
        let start = 64 + usize::from(dnode[3]) * 128;
        let Some(bonus) = dnode.get(start..start + usize::from(length)) else { continue };
        let target = match dnode[4] {
            6 | 51 => "bpobj",
            7 => "space_map",
            12 => "dsl_dir",
            16 => "dsl_dataset",
            17 => "znode",
            44 => "sa",
            _ => continue,
        };
        let count = taken.entry(target).or_default();
        *count += 1;
        if *count > 3 {
            continue;
        }
        let head: &[u8] = match target {
            // One attribute more, and the layout the maker uses for files.
            "sa" => &[99, 0, 3, 0, 8, 0, 0, 0, 14, 5, 6, 4, 7, 8, 11, 0, 1, 2, 3, 8, 16, 19, 17],
            _ => &[order],
        };
        add(target, &format!("bonus{count}"), &[head, bonus].concat());
    }
}

/// Payloads as they are stored, for the decoders.
fn from_payloads(pool: &Pool, add: &mut impl FnMut(&'static str, &str, &[u8])) {
    let mut taken = std::collections::BTreeSet::new();
    for block in pool.blocks.iter().filter(|block| !block.embedded && block.psize <= 4096) {
        if !taken.insert(block.compression_id) {
            continue;
        }
        let span = block.copies[0].leaves[0];
        let mut payload = vec![0; usize::try_from(span.len_bytes).expect("a small block")];
        pool.read_at(span.device, span.offset_bytes, &mut payload);
        let units = u16::try_from(block.lsize / 64).unwrap_or(u16::MAX).to_le_bytes();
        let id = block.compression_id;
        add("decompress", &format!("kind{id}"), &[&[id], units.as_slice(), &payload].concat());
        add("checksum", &format!("kind{id}"), &payload[..512]);
    }
    let pointers: Vec<u8> = pool.blocks.iter().take(3).flat_map(|block| block.pointer).collect();
    add("gang", "pointers", &[&[3], pointers.as_slice(), &[0; 88 + 1536]].concat());
}

/// A block of an intent log of the newer sort: chain, a write by pointer, a write inline, a cloned range.
fn intent_log(pool: &Pool) -> Vec<u8> {
    let words = |words: &[u64]| -> Vec<u8> {
        let word = |word: &u64| if pool.endian == Endian::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        words.iter().flat_map(word).collect()
    };
    let pointer = &pool.blocks[0].pointer;
    let mut records = [words(&[9, 192, 7, 1, 2, 0, 4096, 0]), pointer.to_vec()].concat();
    records.extend([words(&[9, 200, 7, 2, 2, 0, 8, 0]), vec![0; 128], b"the data".to_vec()].concat());
    records.extend([words(&[24, 200, 7, 3, 2, 0, 4096, 4096, 1]), pointer.to_vec()].concat());
    let used = (ZIL_CHAIN_BYTES + records.len()) as u64;
    let mut block = [words(&[0]), pointer.to_vec(), words(&[used, 0x0210_da7a_b10c_7a11])].concat();
    block.resize(ZIL_CHAIN_BYTES, 0);
    block.extend(records);
    block.resize(4096, 0);
    block
}
