//! Extents made by plain code, of the kinds that no free program writes.

/// What a grain of a made extent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// In the parent.
    Nothing,
    /// Zeros by the word of the table.
    Zero,
    /// Given back.
    Unmapped,
    /// Bytes of this value.
    Full(u8),
}

fn put(bytes: &mut Vec<u8>, at: usize, value: &[u8]) {
    if bytes.len() < at + value.len() {
        bytes.resize(at + value.len(), 0);
    }
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A COWD extent with grains of `grain` sectors; they are stored in the order that `order` gives.
pub(super) fn cowd(grain: u32, grains: &[Grain]) -> Vec<u8> {
    let mut bytes = vec![0; 2048];
    let tables = grains.len().div_ceil(4096);
    let words = [0x4457_4f43, 1, 3, grain * grains.len() as u32, grain, 4, tables as u32, 0];
    for (index, word) in words.iter().enumerate() {
        put(&mut bytes, 4 * index, &u32::to_le_bytes(*word));
    }
    let directory = 2048;
    let first_table = directory + (4 * tables).next_multiple_of(512);
    let mut next = (first_table + tables * 16_384) / 512;
    for table in 0..tables {
        let start = first_table + table * 16_384;
        put(&mut bytes, directory + 4 * table, &((start / 512) as u32).to_le_bytes());
        put(&mut bytes, start + 16_383, &[0]);
    }
    for (index, kind) in grains.iter().enumerate() {
        let Grain::Full(value) = kind else { continue };
        put(&mut bytes, first_table + 4 * index, &(next as u32).to_le_bytes());
        put(&mut bytes, 512 * next, &vec![*value; grain as usize * 512]);
        next += grain as usize;
    }
    bytes
}

/// Where the tables of a made seSparse extent begin.
pub(super) const SE_TABLES: usize = 16 * 512;

/// A seSparse extent: grains of 4 KiB, tables of 4096 entries. Every third grain is stored out of order.
pub(super) fn se_sparse(grains: &[Grain]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    let tables = grains.len().div_ceil(4096);
    let grains_start = SE_TABLES / 512 + tables * 64;
    let stored = grains.iter().filter(|grain| matches!(grain, Grain::Full(_))).count();
    let words: [u64; 26] = [
        0xcafe_babe,
        0x2_0000_0001,
        8 * grains.len() as u64,
        8,
        64,
        0,
        0,
        0,
        0,
        0, // to the reserved ones
        1,
        1,
        2,
        1,
        3,
        5, // volatile header, journal header, journal
        8,
        8,
        16,
        64 * tables as u64, // directory, tables
        0,
        0,
        0,
        0, // free bitmap, backmap
        grains_start as u64,
        8 * stored as u64,
    ];
    for (index, word) in words.iter().enumerate() {
        put(&mut bytes, 8 * index, &word.to_le_bytes());
    }
    put(&mut bytes, 512, &0xcafe_cafe_u64.to_le_bytes());
    for table in 0..tables {
        put(&mut bytes, 8 * 512 + 8 * table, &(1 << 60 | table as u64).to_le_bytes());
    }
    put(&mut bytes, 512 * grains_start - 1, &[0]);
    let mut next = 0_usize;
    for (index, kind) in grains.iter().enumerate() {
        let entry = match kind {
            Grain::Nothing => 0,
            Grain::Unmapped => 1 << 60,
            Grain::Zero => 2 << 60,
            Grain::Full(value) => {
                // Swap the last two of each three.
                let number = match next % 3 {
                    1 if next + 1 < stored => next + 1,
                    2 => next - 1,
                    _ => next,
                };
                next += 1;
                put(&mut bytes, 512 * grains_start + 4096 * number, &[*value; 4096]);
                3 << 60 | (number as u64 & 0xfff) << 48 | number as u64 >> 12
            }
        };
        put(&mut bytes, SE_TABLES + 8 * index, &u64::to_le_bytes(entry));
    }
    bytes
}

/// A descriptor as ESXi writes it.
pub(super) fn descriptor(kind: &str, cid: u32, parent: Option<(u32, &str)>, extents: &[String]) -> String {
    let parent_cid = parent.map_or(u32::MAX, |(cid, _)| cid);
    let hint = parent.map(|(_, name)| format!("parentFileNameHint=\"{name}\"\n")).unwrap_or_default();
    format!(
        "# Disk DescriptorFile\nversion=1\nencoding=\"UTF-8\"\nCID={cid:08x}\nparentCID={parent_cid:08x}\n\
         createType=\"{kind}\"\n{hint}\n# Extent description\n{}\n\n# The Disk Data Base\n#DDB\n\n\
         ddb.adapterType = \"lsilogic\"\n",
        extents.join("\n")
    )
}
