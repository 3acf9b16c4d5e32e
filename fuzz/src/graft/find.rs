//! Finds what is to be changed: datasets and files by name, objects and blocks by number, in the newest state.

use super::{CORE_BYTES, DATASET_POINTER_OFFSET, Graft, OBJSET_DNODES, POINTER_BYTES, Place, SLOT_BYTES};
use std::ops::Range;
use zfs_format::block::Work;
use zfs_format::dataset::{DatasetMap, FileSystem};
use zfs_format::object::ObjsetReader;
use zfs_format::ondisk::dnode::Dnode;
use zfs_format::pool::Mos;

impl Graft {
    /// The object of a dataset or snapshot in the MOS.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn dataset(&self, name: &str) -> u64 {
        let mut work = Work::default();
        let root = &self.assembly.chosen.uberblock.rootbp;
        let mut mos = Mos::open(self.assembly.blocks(), root, &mut work).expect("the pool is whole");
        let map = DatasetMap::load(&mut mos, &self.assembly.name, &mut work);
        let dataset = map.datasets.values().find(|found| found.full_name() == name);
        dataset.expect("there is a dataset of that name").object
    }

    /// The object of a file or directory, as it was before any change.
    ///
    /// # Panics
    /// If there is none of that name.
    #[must_use]
    pub fn file(&self, objset: u64, path: &str) -> u64 {
        let mut work = Work::default();
        let place = self.objset(objset);
        let bp = self.blocks[place].bp;
        let reader = ObjsetReader::open(self.assembly.blocks(), &bp, &mut work).expect("the pool is whole");
        let mut files = FileSystem::open(reader, &mut work).expect("the dataset is a file system");
        files.lookup(path, &mut work).expect("the pool is whole").expect("there is a file of that name")
    }

    /// The block of an object set.
    fn objset(&self, objset: u64) -> usize {
        if objset == 0 {
            return 0;
        }
        let (index, range) = self.dnode_place(0, objset);
        let dnode = self.parsed(index, &range);
        let bonus = range.start + CORE_BYTES + usize::from(dnode.nblkptr) * POINTER_BYTES;
        self.below((index, bonus + DATASET_POINTER_OFFSET)).expect("the dataset has an object set")
    }

    /// The block that the pointer at this place leads to.
    fn below(&self, place: Place) -> Option<usize> {
        self.blocks.iter().position(|block| block.places.contains(&place))
    }

    fn parsed(&self, index: usize, range: &Range<usize>) -> Dnode {
        let endian = self.blocks[index].bp.endian();
        let held = self.held(index);
        Dnode::parse(&held[range.clone()], endian).expect("the pool is whole").expect("the object is allocated")
    }

    /// Where the dnode of an object lies: the block, and the bytes in it, with those of all its slots. Object 0 are the dnodes.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn dnode_place(&self, objset: u64, object: u64) -> (usize, Range<usize>) {
        let set = self.objset(objset);
        if let Some((start, _)) = OBJSET_DNODES.into_iter().find(|(_, number)| *number == object) {
            return (set, start..start + SLOT_BYTES);
        }
        let per_block = 32;
        let index = self.find(objset, 0, 0, object / per_block).expect("the object has a block of dnodes");
        let start = usize::try_from(object % per_block).expect("below 32") * SLOT_BYTES;
        let slots = usize::from(self.held(index)[start + 12]) + 1;
        (index, start..start + slots * SLOT_BYTES)
    }

    /// The bytes of a dnode, with those of all its slots, to be changed.
    ///
    /// # Panics
    /// If there is none.
    pub fn dnode(&mut self, objset: u64, object: u64) -> &mut [u8] {
        let (index, range) = self.dnode_place(objset, object);
        &mut self.plain(index)[range]
    }

    /// The block with this number of an object, `None` if it is a hole or lies in its pointer.
    ///
    /// # Panics
    /// If there is no such object.
    #[must_use]
    pub fn find(&self, objset: u64, object: u64, level: u8, number: u64) -> Option<usize> {
        let (mut index, range) = self.dnode_place(objset, object);
        let dnode = self.parsed(index, &range);
        let shift = u32::from(dnode.indblkshift) - 7;
        let span = |above: u8| 1_u64.checked_shl(shift * u32::from(above)).unwrap_or(u64::MAX);
        let mut at = dnode.nlevels - 1;
        let first = usize::try_from(number / span(at - level)).expect("a number of a pointer");
        index = self.below((index, range.start + CORE_BYTES + first * POINTER_BYTES))?;
        while at > level {
            at -= 1;
            let child = number / span(at - level) % (1 << shift);
            let child = usize::try_from(child).expect("a number of a pointer");
            index = self.below((index, child * POINTER_BYTES))?;
        }
        Some(index)
    }
}
