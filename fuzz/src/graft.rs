//! Changes any block of a pool that OpenZFS made and puts every checksum above right again, up to all uberblocks with that root.
//!
//! For pools of one disk. Blocks stay where they are if what they hold then still fits there, compressed with lz4 if they were;
//! otherwise they go, as they are, to the free end of the disk. Births stay. A block that several trees share, as snapshots do,
//! is changed in all of them.
//!
//! Not followed: intent logs, gangs, what lists of blocks (dead lists, dedup tables) say of a block that changed. MACs of encrypted
//! datasets are left as they are, so a change there is what somebody without a key could make.

mod find;

use crate::codecs::seal;
use lz4_flex::block::compress;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use zfs_format::Endian;
use zfs_format::block::{Work, decode, needs_key};
use zfs_format::codec::checksum::compute;
use zfs_format::codec::compress::Decompressor;
use zfs_format::endian::OnDisk;
use zfs_format::media::{MediaError, Medium, ReadAt};
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::{CompressKind, ObjectType};
use zfs_format::ondisk::dnode::{Dnode, dnodes};
use zfs_format::pool::Assembly;

const POINTER_BYTES: usize = 128;
/// Where the words of the checksum begin in a pointer.
const CHECKSUM_WORD: usize = 12;
const SLOT_BYTES: usize = 512;
const CORE_BYTES: usize = 64;
/// Where blocks begin on a device.
const FRONT_BYTES: u64 = 4 << 20;
const LABEL_BYTES: u64 = 256 << 10;
const RING_BYTES: u64 = 128 << 10;
/// The pointer in the bonus of a dataset.
const DATASET_POINTER_OFFSET: usize = 128;
/// Dnodes in an object set: of the dnodes, and those that account for users, groups and projects.
const OBJSET_DNODES: [(usize, u64); 4] = [(0, 0), (1024, u64::MAX), (1536, u64::MAX - 1), (2048, u64::MAX - 2)];

/// A device in memory.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let (length, size) = (buffer.len(), self.size_bytes());
        let start = usize::try_from(offset).ok();
        let source = start.and_then(|start| self.0.get(start..start.checked_add(length)?));
        buffer.copy_from_slice(source.ok_or(MediaError::OutOfRange { offset, length, size })?);
        Ok(())
    }
}

/// A place where a pointer stands: a block, and the offset in what it holds.
pub type Place = (usize, usize);

/// A block, named by the numbers of the first tree it was reached through.
#[derive(Clone, Debug)]
pub struct GraftBlock {
    /// The pointer to it, as it was.
    pub bp: Blkptr,
    /// The dataset's object in the MOS; 0 is the MOS.
    pub objset: u64,
    /// The object; 0 are the dnodes, and the object set itself.
    pub object: u64,
    /// Its number among those of its object and level.
    pub block: u64,
    /// All places where a pointer to it stands; none for the root.
    pub places: Vec<Place>,
    /// Longest way from the root.
    depth: usize,
}

/// The image of a pool of one disk, being changed.
#[derive(Debug)]
pub struct Graft {
    image: Vec<u8>,
    assembly: Assembly,
    /// All blocks, the root first.
    pub blocks: Vec<GraftBlock>,
    /// Blocks that were changed: what they hold now.
    changed: BTreeMap<usize, Vec<u8>>,
    /// End of what is free behind all blocks, as an address.
    free_end_bytes: u64,
}

/// A pointer that was found, and where.
struct Found {
    bp: Blkptr,
    place: Option<Place>,
    objset: u64,
    object: u64,
    block: u64,
}

/// The image as zcheck opens it.
fn medium(image: &[u8]) -> Medium {
    Medium::new(PathBuf::from("disk0"), Arc::new(Bytes(image.to_vec())))
}

impl Graft {
    /// Begins with this image, and walks all trees in it.
    ///
    /// # Panics
    /// If it is no pool of one disk without damage.
    #[must_use]
    pub fn new(image: Vec<u8>) -> Self {
        let mut assembly = Assembly::new(&[medium(&image)], None).expect("the image is a pool");
        assembly.load_salt(&mut Work::default());
        assert_eq!(assembly.tree.leaves.len(), 1, "the pool has one disk");
        let top = assembly.tree.tops.first().and_then(Option::as_ref).expect("the pool has one vdev");
        let free_end_bytes = top.asize_bytes;
        let mut graft = Graft { image, assembly, blocks: Vec::new(), changed: BTreeMap::new(), free_end_bytes };
        graft.walk();
        graft
    }

    /// The image, to be checked.
    #[must_use]
    pub fn medium(&self) -> Medium {
        medium(&self.image)
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    fn walk(&mut self) {
        let root = self.assembly.chosen.uberblock.rootbp;
        let mut known: BTreeMap<[u64; 2], usize> = BTreeMap::new();
        let mut stack = vec![Found { bp: root, place: None, objset: 0, object: 0, block: 0 }];
        while let Some(found) = stack.pop() {
            let [word0, word1, ..] = *found.bp.words();
            if found.bp.is_hole() || found.bp.is_embedded() || found.bp.is_gang() {
                continue;
            }
            if let Some(&index) = known.get(&[word0, word1]) {
                self.blocks[index].places.extend(found.place);
                continue;
            }
            let index = self.blocks.len();
            known.insert([word0, word1], index);
            let Found { bp, place, objset, object, block } = found;
            let places = place.into_iter().collect();
            self.blocks.push(GraftBlock { bp, objset, object, block, places, depth: 0 });
            let plain = self.read(index).expect("the pool is whole");
            self.children(index, &plain, &mut stack);
        }
        self.measure();
    }

    /// Gives every block its longest way from the root, so that those above come after those below.
    fn measure(&mut self) {
        loop {
            let mut is_stable = true;
            for index in 0..self.blocks.len() {
                let above = self.blocks[index].places.iter().map(|place| self.blocks[place.0].depth + 1).max();
                let depth = above.unwrap_or(0);
                is_stable &= self.blocks[index].depth == depth;
                self.blocks[index].depth = depth;
            }
            if is_stable {
                return;
            }
        }
    }

    /// The pointers in a block.
    fn children(&self, index: usize, plain: &[u8], stack: &mut Vec<Found>) {
        let GraftBlock { bp, objset, object, block, .. } = &self.blocks[index];
        let (objset, object, block, endian) = (*objset, *object, *block, bp.endian());
        let pointer = |offset: usize| Blkptr::parse(&plain[offset..offset + POINTER_BYTES], endian);
        let mut push = |offset: usize, objset: u64, object: u64, block: u64| {
            let bp = pointer(offset).expect("any words are a pointer");
            stack.push(Found { bp, place: Some((index, offset)), objset, object, block });
        };
        if bp.level() > 0 {
            let count = plain.len() / POINTER_BYTES;
            (0..count)
                .for_each(|child| push(child * POINTER_BYTES, objset, object, block * count as u64 + child as u64));
        } else if bp.object_type() == ObjectType::OBJSET {
            for (start, object) in OBJSET_DNODES.into_iter().filter(|(start, _)| *start < plain.len()) {
                let Ok(Some(dnode)) = Dnode::parse(&plain[start..start + SLOT_BYTES], endian) else { continue };
                pointers(&dnode, start).for_each(|(offset, number)| push(offset, objset, object, number));
            }
        } else if bp.object_type() == ObjectType::DNODE {
            for found in dnodes(plain, endian) {
                let Ok(dnode) = found.dnode else { continue };
                let start = found.slot * SLOT_BYTES;
                let object = block * (plain.len() / SLOT_BYTES) as u64 + found.slot as u64;
                pointers(&dnode, start).for_each(|(offset, number)| push(offset, objset, object, number));
                if dnode.spill.is_some() {
                    push(start + found.slots.len() - POINTER_BYTES, objset, object, 0);
                }
                if dnode.bonus_type == ObjectType::DSL_DATASET {
                    let bonus = start + CORE_BYTES + usize::from(dnode.nblkptr) * POINTER_BYTES;
                    push(bonus + DATASET_POINTER_OFFSET, object, 0, 0);
                }
            }
        }
    }

    /// What a block holds, decoded; of encrypted contents it is the ciphertext as it lies there. It may be changed.
    ///
    /// # Panics
    /// If the block cannot be read.
    pub fn plain(&mut self, index: usize) -> &mut Vec<u8> {
        if !self.changed.contains_key(&index) {
            let plain = self.read(index).expect("the pool is whole");
            self.changed.insert(index, plain);
        }
        self.changed.get_mut(&index).expect("it was just put there")
    }

    /// What a block holds now.
    fn held(&self, index: usize) -> Vec<u8> {
        let changed = self.changed.get(&index).cloned();
        changed.unwrap_or_else(|| self.read(index).expect("the pool is whole"))
    }

    fn read(&self, index: usize) -> Option<Vec<u8>> {
        let bp = &self.blocks[index].bp;
        let dva = bp.dva(0)?;
        let start = usize::try_from(dva.offset_bytes + FRONT_BYTES).ok()?;
        let payload = self.image.get(start..start + usize::try_from(bp.psize_bytes()).ok()?)?;
        if needs_key(bp) {
            return Some(payload.to_vec());
        }
        let mut plain = Vec::new();
        decode(bp, payload, &mut plain, &mut Decompressor::new()).ok()?;
        Some(plain)
    }

    /// Writes what was changed, with right checksums in everything above it.
    ///
    /// # Panics
    /// If there is no room for a block that grew.
    pub fn seal(&mut self) {
        let mut pending: BTreeSet<(usize, usize)> =
            self.changed.keys().map(|&index| (self.blocks[index].depth, index)).collect();
        while let Some((_, index)) = pending.pop_last() {
            let plain = self.changed.remove(&index).expect("what is pending was changed");
            let new = self.write(index, &plain);
            for (parent, offset) in self.blocks[index].places.clone() {
                self.patch(parent, offset, &new);
                pending.insert((self.blocks[parent].depth, parent));
            }
            let old = std::mem::replace(&mut self.blocks[index].bp, new);
            if self.blocks[index].places.is_empty() {
                self.replace_root(&old, &new);
            }
        }
    }

    /// Puts what changes of a pointer where it stands. A MAC that is there stays.
    fn patch(&mut self, parent: usize, offset: usize, new: &Blkptr) {
        let endian = self.blocks[parent].bp.endian();
        let area = &mut self.plain(parent)[offset..offset + POINTER_BYTES];
        let kept = if is_mac_split(new) { CHECKSUM_WORD + 2..16 } else { 16..16 };
        for (number, (word, bytes)) in new.words().iter().zip(area.chunks_exact_mut(8)).enumerate() {
            if !kept.contains(&number) {
                bytes.copy_from_slice(&stored(*word, endian));
            }
        }
    }

    /// Writes a block, and makes its pointer.
    fn write(&mut self, index: usize, plain: &[u8]) -> Blkptr {
        let bp = self.blocks[index].bp;
        let mut words = *bp.words();
        let psize = usize::try_from(bp.psize_bytes()).expect("a block fits memory");
        let payload = payload(&bp, plain, psize).unwrap_or_else(|| {
            self.make_room(plain.len() as u64, &mut words);
            plain.to_vec()
        });
        let moved = Blkptr::from_words(words);
        for (_, dva) in moved.dvas() {
            let start = usize::try_from(dva.offset_bytes + FRONT_BYTES).expect("it lies in the image");
            self.image[start..start + payload.len()].copy_from_slice(&payload);
        }
        let computed = compute(bp.checksum_kind(), bp.endian(), &payload, self.assembly.salt.as_ref());
        let mut computed = computed.expect("a checksum of blocks");
        let mut length = 4;
        if is_mac_split(&bp) {
            length = 2;
            if !bp.checksum_kind().is_dedup_strong() {
                (computed[0], computed[1]) = (computed[0] ^ computed[2], computed[1] ^ computed[3]);
            }
        }
        words[CHECKSUM_WORD..CHECKSUM_WORD + length].copy_from_slice(&computed[..length]);
        Blkptr::from_words(words)
    }

    /// One copy, not compressed, behind all blocks.
    fn make_room(&mut self, size_bytes: u64, words: &mut [u64; 16]) {
        const SECTOR_BYTES: u64 = 512;
        let sector = self.assembly.tree.tops[0].as_ref().map_or(SECTOR_BYTES, |top| 1 << top.ashift);
        let asize = size_bytes.next_multiple_of(sector);
        self.free_end_bytes = (self.free_end_bytes - asize) / sector * sector;
        let start = usize::try_from(self.free_end_bytes + FRONT_BYTES).expect("it lies in the image");
        let room = &self.image[start..start + usize::try_from(asize).expect("a block fits memory")];
        assert!(room.iter().all(|&byte| byte == 0), "the end of the disk is free");
        words[0] = asize / SECTOR_BYTES;
        words[1] = self.free_end_bytes / SECTOR_BYTES;
        words[2..4].fill(0);
        if !Blkptr::from_words(*words).is_encrypted() {
            words[4..6].fill(0);
        }
        let logical = size_bytes / SECTOR_BYTES - 1;
        words[6] = words[6] & !(0xffff << 16 | 0x7f << 32) | logical << 16 | u64::from(CompressKind::OFF.0) << 32;
    }

    /// Puts a new root into all uberblocks that have the old one.
    fn replace_root(&mut self, old: &Blkptr, new: &Blkptr) {
        let endian = self.assembly.chosen.uberblock.endian;
        let bytes = |bp: &Blkptr| bp.words().iter().flat_map(|&word| stored(word, endian)).collect::<Vec<u8>>();
        let (old, new) = (bytes(old), bytes(new));
        let ashift = self.assembly.tree.tops[0].as_ref().map_or(9, |top| top.ashift);
        let slot_bytes = (1_usize << ashift).clamp(1 << 10, 8 << 10);
        let end = self.image.len() as u64 / LABEL_BYTES * LABEL_BYTES;
        let mut count = 0;
        for label in [0, LABEL_BYTES, end - 2 * LABEL_BYTES, end - LABEL_BYTES] {
            let ring = usize::try_from(label + RING_BYTES).expect("it lies in the image");
            let length = usize::try_from(RING_BYTES).expect("128 KiB");
            for (number, slot) in self.image[ring..ring + length].chunks_exact_mut(slot_bytes).enumerate() {
                let Some(at) = slot.windows(POINTER_BYTES).position(|window| window == old) else { continue };
                slot[at..at + POINTER_BYTES].copy_from_slice(&new);
                seal(slot, [(ring + number * slot_bytes) as u64, 0, 0, 0], endian);
                count += 1;
            }
        }
        assert!(count > 0, "no uberblock has the root");
    }
}

/// The pointers of a dnode that lead to its content: where they stand, and the number of the block.
fn pointers(dnode: &Dnode, start: usize) -> impl Iterator<Item = (usize, u64)> {
    let count = usize::from(dnode.nblkptr);
    (0..count).map(move |index| (start + CORE_BYTES + index * POINTER_BYTES, index as u64))
}

/// What is to lie where a block of `psize` bytes lay, `None` when it does not fit.
fn payload(bp: &Blkptr, plain: &[u8], psize: usize) -> Option<Vec<u8>> {
    const LENGTH_BYTES: usize = 4;
    let mut payload = match bp.compress_kind() {
        _ if needs_key(bp) => plain.to_vec(),
        CompressKind::OFF => plain.to_vec(),
        CompressKind::LZ4 => {
            let packed = compress(plain);
            let length = u32::try_from(packed.len()).ok()?;
            [&length.to_be_bytes()[..LENGTH_BYTES], &packed].concat()
        }
        _ => return None,
    };
    (payload.len() <= psize).then(|| {
        payload.resize(psize, 0);
        payload
    })
}

fn is_mac_split(bp: &Blkptr) -> bool {
    bp.is_protected() && bp.object_type() != ObjectType::OBJSET
}

fn stored(word: u64, endian: Endian) -> [u8; 8] {
    if endian == Endian::Little { word.to_le_bytes() } else { word.to_be_bytes() }
}
