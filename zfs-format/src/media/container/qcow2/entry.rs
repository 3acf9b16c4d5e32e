//! One entry of an L2 table: what the bytes of one cluster are.

/// Bits 9 to 55.
pub(super) const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const ZERO: u64 = 1 << 0;
const COMPRESSED: u64 = 1 << 62;
const COPIED: u64 = 1 << 63;
/// Subclusters of a cluster.
pub(super) const SUBCLUSTERS: u64 = 32;

/// What the entries of an image can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) version: u32,
    pub(super) cluster_bits: u32,
    /// Entries have a bitmap of subclusters.
    pub(super) is_extended: bool,
    /// Clusters are in a file of their own.
    pub(super) has_data_file: bool,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing here: look in the backing file.
    Unallocated,
    /// Zeros.
    Zero,
    /// The cluster begins at this byte of the file.
    Stored(u64),
    /// A compressed cluster begins at this byte of the file, and has at most so many bytes.
    Packed(u64, u64),
    /// The subclusters differ. The first 32 bits of `bitmap` say which are stored, the others which are zeros.
    Mixed {
        /// Where the cluster begins, if any of it is stored.
        start: u64,
        /// Two bits for each subcluster.
        bitmap: u64,
    },
    /// Impossible, and why.
    Bad(&'static str),
}

impl Entry {
    /// Reads the entry of the cluster at byte `guest` of the disk.
    pub(super) fn read(word: u64, bitmap: u64, guest: u64, rules: Rules) -> Self {
        if word & COMPRESSED != 0 {
            return if rules.has_data_file { Self::Bad("compressed, beside a data file") } else { packed(word, rules) };
        }
        let start = word & OFFSET;
        if word & !(OFFSET | COPIED | ZERO) != 0 {
            return Self::Bad("reserved bits are set");
        }
        if !start.is_multiple_of(1 << rules.cluster_bits) {
            return Self::Bad("it points inside of a cluster");
        }
        // In a data file the first cluster is at 0, which the mark of unshared clusters tells from nothing.
        let is_allocated = start != 0 || rules.has_data_file && word & COPIED != 0;
        // QEMU keeps each cluster of a data file at the place that it has on the disk.
        if is_allocated && rules.has_data_file && start != guest {
            return Self::Bad("it points to another place of the data file");
        }
        if rules.is_extended {
            return mixed(word, bitmap, start, is_allocated);
        }
        match (word & ZERO != 0, is_allocated) {
            (true, _) if rules.version < 3 => Self::Bad("zeros, in an image of version 2"),
            (true, _) => Self::Zero,
            (false, true) => Self::Stored(start),
            (false, false) => Self::Unallocated,
        }
    }
}

fn packed(word: u64, rules: Rules) -> Entry {
    // The larger the clusters, the more bits the number of sectors takes.
    let bits = 62 - (rules.cluster_bits - 8);
    let start = word & ((1 << bits) - 1);
    let sectors = (word & !(COMPRESSED | COPIED)) >> bits;
    let end = (start / 512).saturating_add(sectors).saturating_add(1).saturating_mul(512);
    Entry::Packed(start, end.saturating_sub(start))
}

fn mixed(word: u64, bitmap: u64, start: u64, is_allocated: bool) -> Entry {
    let (stored, zeros) = (bitmap & u64::from(u32::MAX), bitmap >> 32);
    if word & ZERO != 0 {
        return Entry::Bad("reserved bits are set");
    }
    if stored & zeros != 0 {
        return Entry::Bad("subclusters are both stored and zeros");
    }
    if stored != 0 && !is_allocated {
        return Entry::Bad("subclusters are stored nowhere");
    }
    const ALL: u64 = u32::MAX as u64;
    match (stored, zeros) {
        (0, 0) => Entry::Unallocated,
        (ALL, 0) => Entry::Stored(start),
        (0, ALL) => Entry::Zero,
        _ => Entry::Mixed { start, bitmap },
    }
}

/// What one subcluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sub {
    Unallocated,
    Zero,
    Stored,
}

/// What subcluster `index` is, and how many from there on are the same.
pub(super) fn subclusters(bitmap: u64, index: u64) -> (Sub, u64) {
    let kind = |index: u64| {
        let is_set = |bit: u64| bitmap.checked_shr(u32::try_from(bit).unwrap_or(64)).unwrap_or(0) & 1 == 1;
        match (is_set(index), is_set(index.saturating_add(SUBCLUSTERS))) {
            (true, _) => Sub::Stored,
            (false, true) => Sub::Zero,
            (false, false) => Sub::Unallocated,
        }
    };
    let first = kind(index);
    let same = (index..SUBCLUSTERS).take_while(|&index| kind(index) == first).count();
    (first, same as u64)
}
