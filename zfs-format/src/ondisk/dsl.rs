//! The dataset layer: directories (a place in the tree of names) and datasets (a head or a snapshot), both kept in the
//! bonus of MOS objects.

use super::blkptr::{Blkptr, RawBlkptr};
use crate::FormatError;
use crate::endian::OnDisk;
use crate::units::{Guid, ObjectId, Txg};
use zerocopy::{ByteOrder, FromBytes, Immutable, KnownLayout, U64, Unaligned};

/// Size of a directory in its bonus.
pub const DSL_DIR_BYTES: usize = 256;
/// Size of a dataset in its bonus.
pub const DSL_DATASET_BYTES: usize = 320;

/// Object numbers on disk use 0 for "none".
fn object<O: ByteOrder>(word: U64<O>) -> Option<ObjectId> {
    (word.get() != 0).then(|| ObjectId(word.get()))
}

/// `dsl_dir_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDslDir<O: ByteOrder> {
    creation_time: U64<O>,
    head_dataset: U64<O>,
    parent: U64<O>,
    origin: U64<O>,
    child_dir_zap: U64<O>,
    used_bytes: U64<O>,
    compressed_bytes: U64<O>,
    uncompressed_bytes: U64<O>,
    quota: U64<O>,
    reserved: U64<O>,
    props_zap: U64<O>,
    deleg_zap: U64<O>,
    flags: U64<O>,
    used_breakdown: [U64<O>; 5],
    clones_zap: U64<O>,
    pad: [U64<O>; 13],
}
const _: () = assert!(size_of::<RawDslDir<zerocopy::LittleEndian>>() == DSL_DIR_BYTES);

/// Where the space a directory uses goes (`dd_used_breakdown`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsedBreakdown {
    /// The head dataset.
    pub head_bytes: u64,
    /// Snapshots.
    pub snap_bytes: u64,
    /// Child directories.
    pub child_bytes: u64,
    /// Reservations of children not yet used.
    pub child_reserved_bytes: u64,
    /// The refreservation.
    pub refreserved_bytes: u64,
}

/// `dsl_dir_phys_t`: 32 words, in the bonus of type 12.
///
/// Object numbers that are 0 on disk are `None` here.
///
/// Source: OpenZFS include/sys/dsl_dir.h, `dsl_dir_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DslDir {
    /// When it was made, seconds since 1970.
    pub creation_time_s: u64,
    /// The dataset that can be mounted; none for `$FREE` and `$LEAK`.
    pub head_dataset: Option<ObjectId>,
    /// The directory above; none for the root.
    pub parent: Option<ObjectId>,
    /// The snapshot this directory is a clone of.
    pub origin: Option<ObjectId>,
    /// ZAP from names to child directories.
    pub child_dir_zap: Option<ObjectId>,
    /// Space used by the directory and all below it.
    pub used_bytes: u64,
    /// Compressed size of it.
    pub compressed_bytes: u64,
    /// Uncompressed size of it.
    pub uncompressed_bytes: u64,
    /// The quota, 0 for none.
    pub quota_bytes: u64,
    /// The reservation, 0 for none.
    pub reserved_bytes: u64,
    /// ZAP of properties.
    pub props_zap: Option<ObjectId>,
    /// ZAP of delegated permissions.
    pub deleg_zap: Option<ObjectId>,
    /// Flag bits: [`DslDir::FLAG_USED_BREAKDOWN`].
    pub flags: u64,
    /// The parts of `used_bytes`, when the flag says that they are kept.
    pub used_breakdown: Option<UsedBreakdown>,
    /// ZAP of the clones of this directory's snapshots.
    pub clones_zap: Option<ObjectId>,
}

impl DslDir {
    /// The breakdown of the used space is kept.
    pub const FLAG_USED_BREAKDOWN: u64 = 1;
}

impl OnDisk for DslDir {
    const NAME: &'static str = "dsl_dir";
    type Raw<O: ByteOrder> = RawDslDir<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDslDir<O>) -> Result<Self, FormatError> {
        let flags = raw.flags.get();
        let [head_bytes, snap_bytes, child_bytes, child_reserved_bytes, refreserved_bytes] =
            raw.used_breakdown.map(U64::get);
        let breakdown = UsedBreakdown { head_bytes, snap_bytes, child_bytes, child_reserved_bytes, refreserved_bytes };
        Ok(Self {
            creation_time_s: raw.creation_time.get(),
            head_dataset: object(raw.head_dataset),
            parent: object(raw.parent),
            origin: object(raw.origin),
            child_dir_zap: object(raw.child_dir_zap),
            used_bytes: raw.used_bytes.get(),
            compressed_bytes: raw.compressed_bytes.get(),
            uncompressed_bytes: raw.uncompressed_bytes.get(),
            quota_bytes: raw.quota.get(),
            reserved_bytes: raw.reserved.get(),
            props_zap: object(raw.props_zap),
            deleg_zap: object(raw.deleg_zap),
            flags,
            used_breakdown: (flags & Self::FLAG_USED_BREAKDOWN != 0).then_some(breakdown),
            clones_zap: object(raw.clones_zap),
        })
    }
}

/// `dsl_dataset_phys_t` as stored.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDslDataset<O: ByteOrder> {
    dir: U64<O>,
    prev_snap: U64<O>,
    prev_snap_txg: U64<O>,
    next_snap: U64<O>,
    snapnames_zap: U64<O>,
    num_children: U64<O>,
    creation_time: U64<O>,
    creation_txg: U64<O>,
    deadlist: U64<O>,
    referenced_bytes: U64<O>,
    compressed_bytes: U64<O>,
    uncompressed_bytes: U64<O>,
    unique_bytes: U64<O>,
    fsid_guid: U64<O>,
    guid: U64<O>,
    flags: U64<O>,
    bp: RawBlkptr<O>,
    next_clones_zap: U64<O>,
    props_zap: U64<O>,
    userrefs_zap: U64<O>,
    pad: [U64<O>; 5],
}
const _: () = assert!(size_of::<RawDslDataset<zerocopy::LittleEndian>>() == DSL_DATASET_BYTES);

/// `ds_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DslDatasetFlags(pub u64);

impl DslDatasetFlags {
    /// Being received or destroyed.
    pub const INCONSISTENT: Self = Self(1);
    /// The origin of this clone must not be promoted away.
    pub const NOPROMOTE: Self = Self(2);
    /// `unique_bytes` is exact.
    pub const UNIQUE_ACCURATE: Self = Self(4);
    /// A snapshot to be destroyed with its last clone or hold.
    pub const DEFER_DESTROY: Self = Self(8);
    /// File names compare without regard to case.
    pub const CI_DATASET: Self = Self(1 << 16);

    /// True when all bits of `flag` are set.
    #[must_use]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }
}

/// `dsl_dataset_phys_t`: 40 words, in the bonus of type 16.
///
/// Object numbers that are 0 on disk are `None` here.
///
/// Source: OpenZFS include/sys/dsl_dataset.h, `dsl_dataset_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DslDataset {
    /// The directory it belongs to.
    pub dir: ObjectId,
    /// The snapshot before it; for the first of a clone, the origin.
    pub prev_snap: Option<ObjectId>,
    /// The txg of that snapshot: blocks born at or before it belong to it. 0 when there is none.
    pub prev_snap_txg: Txg,
    /// The dataset after it; none for a head.
    pub next_snap: Option<ObjectId>,
    /// ZAP from names to snapshots; none for snapshots.
    pub snapnames_zap: Option<ObjectId>,
    /// 0 for a head; for a snapshot, its clones and its successor.
    pub num_children: u64,
    /// When it was made, seconds since 1970.
    pub creation_time_s: u64,
    /// The txg in which it was made.
    pub creation_txg: Txg,
    /// The list of blocks that the snapshot before has and this one no longer.
    pub deadlist: Option<ObjectId>,
    /// Space of the whole tree.
    pub referenced_bytes: u64,
    /// Compressed size of it.
    pub compressed_bytes: u64,
    /// Uncompressed size of it.
    pub uncompressed_bytes: u64,
    /// Space that only this dataset refers to.
    pub unique_bytes: u64,
    /// A guid of 56 bits, unique among the file systems of a host.
    pub fsid_guid: u64,
    /// The guid that send streams use.
    pub guid: Guid,
    /// Flag bits.
    pub flags: DslDatasetFlags,
    /// The object set; a hole for `$ORIGIN` and for datasets still being received.
    pub bp: Blkptr,
    /// ZAP of the clones made from this snapshot.
    pub next_clones_zap: Option<ObjectId>,
    /// ZAP of properties of this snapshot.
    pub props_zap: Option<ObjectId>,
    /// ZAP of holds.
    pub userrefs_zap: Option<ObjectId>,
}

impl DslDataset {
    /// A snapshot: it has a successor.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.next_snap.is_some() || self.num_children != 0
    }
}

impl OnDisk for DslDataset {
    const NAME: &'static str = "dsl_dataset";
    type Raw<O: ByteOrder> = RawDslDataset<O>;

    fn from_raw<O: ByteOrder>(raw: &RawDslDataset<O>) -> Result<Self, FormatError> {
        Ok(Self {
            dir: ObjectId(raw.dir.get()),
            prev_snap: object(raw.prev_snap),
            prev_snap_txg: Txg(raw.prev_snap_txg.get()),
            next_snap: object(raw.next_snap),
            snapnames_zap: object(raw.snapnames_zap),
            num_children: raw.num_children.get(),
            creation_time_s: raw.creation_time.get(),
            creation_txg: Txg(raw.creation_txg.get()),
            deadlist: object(raw.deadlist),
            referenced_bytes: raw.referenced_bytes.get(),
            compressed_bytes: raw.compressed_bytes.get(),
            uncompressed_bytes: raw.uncompressed_bytes.get(),
            unique_bytes: raw.unique_bytes.get(),
            fsid_guid: raw.fsid_guid.get(),
            guid: Guid(raw.guid.get()),
            flags: DslDatasetFlags(raw.flags.get()),
            bp: Blkptr::from_raw(&raw.bp)?,
            next_clones_zap: object(raw.next_clones_zap),
            props_zap: object(raw.props_zap),
            userrefs_zap: object(raw.userrefs_zap),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endian;
    use crate::ondisk::testing::{numbered, stored};
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_a_directory_come_from_their_offsets() {
        let mut words = numbered(32);
        words[12] = 1;
        let dir = DslDir::parse(&stored(&words, Endian::Big), Endian::Big).unwrap();
        let id = |number| Some(ObjectId(number));
        assert_eq!((dir.creation_time_s, dir.head_dataset, dir.parent, dir.origin), (0, id(1), id(2), id(3)));
        assert_eq!((dir.child_dir_zap, dir.used_bytes), (id(4), 5));
        assert_eq!((dir.compressed_bytes, dir.uncompressed_bytes, dir.quota_bytes, dir.reserved_bytes), (6, 7, 8, 9));
        assert_eq!((dir.props_zap, dir.deleg_zap, dir.clones_zap), (id(10), id(11), id(18)));
        let breakdown = dir.used_breakdown.unwrap();
        assert_eq!((breakdown.head_bytes, breakdown.snap_bytes, breakdown.child_bytes), (13, 14, 15));
        assert_eq!((breakdown.child_reserved_bytes, breakdown.refreserved_bytes), (16, 17));
    }

    #[test]
    fn the_fields_of_a_dataset_come_from_their_offsets() {
        let dataset = DslDataset::parse(&stored(&numbered(40), Endian::Little), Endian::Little).unwrap();
        let id = |number| Some(ObjectId(number));
        assert_eq!((dataset.dir, dataset.prev_snap, dataset.prev_snap_txg), (ObjectId(0), id(1), Txg(2)));
        assert_eq!((dataset.next_snap, dataset.snapnames_zap, dataset.num_children), (id(3), id(4), 5));
        assert_eq!((dataset.creation_time_s, dataset.creation_txg, dataset.deadlist), (6, Txg(7), id(8)));
        assert_eq!((dataset.referenced_bytes, dataset.compressed_bytes), (9, 10));
        assert_eq!((dataset.uncompressed_bytes, dataset.unique_bytes), (11, 12));
        assert_eq!((dataset.fsid_guid, dataset.guid), (13, Guid(14)));
        assert!(dataset.flags.has(DslDatasetFlags::DEFER_DESTROY) && !dataset.flags.has(DslDatasetFlags::CI_DATASET));
        assert_eq!(dataset.bp.words()[0], 16);
        assert_eq!((dataset.next_clones_zap, dataset.props_zap, dataset.userrefs_zap), (id(32), id(33), id(34)));
        assert!(dataset.is_snapshot());
    }

    #[test]
    fn zero_object_numbers_mean_none() {
        let dir = DslDir::parse(&[0; DSL_DIR_BYTES], Endian::Little).unwrap();
        assert_eq!((dir.head_dataset, dir.used_breakdown), (None, None));
        let dataset = DslDataset::parse(&[0; DSL_DATASET_BYTES], Endian::Little).unwrap();
        assert!(dataset.prev_snap.is_none() && !dataset.is_snapshot() && dataset.bp.is_hole());
    }

    proptest! {
        #[test]
        fn both_byte_orders_agree(words in proptest::collection::vec(any::<u64>(), 40)) {
            let (little, big) = (stored(&words, Endian::Little), stored(&words, Endian::Big));
            prop_assert_eq!(DslDir::parse(&little, Endian::Little), DslDir::parse(&big, Endian::Big));
            prop_assert_eq!(DslDataset::parse(&little, Endian::Little), DslDataset::parse(&big, Endian::Big));
        }

        #[test]
        fn short_bytes_are_truncated(bytes in proptest::collection::vec(any::<u8>(), 0..320)) {
            prop_assert!(DslDataset::parse(&bytes, Endian::Big).is_err());
            prop_assert_eq!(DslDir::parse(&bytes, Endian::Big).is_err(), bytes.len() < DSL_DIR_BYTES);
        }
    }
}
