//! Changes what blocks hold and puts every checksum above right again, up to the labels: what no checksum can catch.

use crate::codecs::seal;
use fixtures::{Family, Pool};
use std::collections::{BTreeMap, BTreeSet};
use zfs_format::Endian;
use zfs_format::block::decode;
use zfs_format::codec::checksum::compute;
use zfs_format::codec::compress::Decompressor;
use zfs_format::endian::OnDisk;
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::ondisk::dmu::ChecksumKind;

const POINTER_BYTES: usize = 128;
/// Where blocks begin on a device.
const FRONT_BYTES: u64 = 4 << 20;
const LABEL_BYTES: u64 = 256 << 10;
const RING_BYTES: u64 = 128 << 10;
/// Slots of uberblocks on devices of 512-byte sectors.
const SLOT_BYTES: usize = 1 << 10;

/// Bits of a pointer's properties that change: physical size, compression, checksum.
const KEPT_NOT: u64 = 0xffff << 16 | 0x7f << 32 | 0xff << 40;

/// A pool being changed. Its sectors must have 512 bytes.
#[derive(Debug)]
pub struct Forge {
    /// The pool; its list of blocks is that of the pool as it was made.
    pub pool: Pool,
    endian: Endian,
    /// Parent and number of blocks above, by block.
    parents: Vec<(Option<usize>, usize)>,
    /// Blocks that were changed: what they hold now.
    changed: BTreeMap<usize, Vec<u8>>,
    /// Where new blocks go, on the first top-level vdev.
    free_bytes: u64,
}

impl Forge {
    /// Begins with this pool.
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        let family = Family::new(&pool);
        let depth = |index| std::iter::successors(Some(index), |at| family.parent(*at)).count();
        let parents = (0..pool.blocks.len()).map(|index| (family.parent(index), depth(index))).collect();
        let copies = pool.blocks.iter().flat_map(|block| &block.copies).filter(|copy| copy.top == 0);
        let free_bytes = copies.map(|copy| copy.offset_bytes + copy.asize_bytes).max().unwrap_or(0);
        let endian = if pool.endian == fixtures::Endian::Little { Endian::Little } else { Endian::Big };
        Forge { pool, endian, parents, changed: BTreeMap::new(), free_bytes }
    }

    /// What a block holds, decoded; it may be changed. `None` for blocks inside their pointers.
    pub fn plain(&mut self, index: usize) -> Option<&mut Vec<u8>> {
        if !self.changed.contains_key(&index) {
            let plain = self.read(index)?;
            self.changed.insert(index, plain);
        }
        self.changed.get_mut(&index)
    }

    fn read(&self, index: usize) -> Option<Vec<u8>> {
        let block = &self.pool.blocks[index];
        let span = block.copies.first()?.leaves.first()?;
        let mut payload = vec![0; usize::try_from(span.len_bytes).ok()?];
        self.pool.read_at(span.device, span.offset_bytes, &mut payload);
        let bp = Blkptr::parse(&block.pointer, self.endian).ok()?;
        let mut plain = Vec::new();
        decode(&bp, &payload, &mut plain, &mut Decompressor::new()).ok()?;
        Some(plain)
    }

    /// Writes what was changed, and every block above it, to new places with right checksums.
    pub fn seal(&mut self) {
        let by_depth = |index: usize| (self.parents[index].1, index);
        let mut pending: BTreeSet<(usize, usize)> = self.changed.keys().copied().map(by_depth).collect();
        while let Some((_, index)) = pending.pop_last() {
            let Some(plain) = self.changed.remove(&index) else { continue };
            let old = self.pool.blocks[index].pointer;
            let Some(new) = self.write(&old, &plain) else { continue };
            match self.parents[index].0 {
                None => self.replace_root(&old, &new),
                Some(parent) => {
                    if let Some(above) = self.plain(parent) {
                        replace(above, &old, &new);
                        pending.insert((self.parents[parent].1, parent));
                    }
                }
            }
        }
    }

    /// Writes a block as it is, and makes its pointer from the old one.
    fn write(&mut self, old: &[u8; POINTER_BYTES], plain: &[u8]) -> Option<[u8; POINTER_BYTES]> {
        let size = plain.len() as u64;
        let offset = self.free_bytes;
        if offset + FRONT_BYTES + size + 2 * LABEL_BYTES > self.pool.devices[0].bytes {
            return None;
        }
        self.free_bytes += size.next_multiple_of(512);
        for device in self.pool.devices.iter_mut().filter(|device| device.top == 0) {
            device.write_at(offset + FRONT_BYTES, plain);
        }
        let mut words: Vec<u64> = old.as_chunks::<8>().0.iter().map(|word| self.endian.u64(*word)).collect();
        words[..6].fill(0);
        words[0] = size.div_ceil(512);
        words[1] = offset / 512;
        // The size as stored is the logical one, 2 is "not compressed", 7 is fletcher4.
        let logical = words[6] & 0xffff;
        words[6] = words[6] & !KEPT_NOT | logical << 16 | 2 << 32 | 7 << 40;
        words[12..].copy_from_slice(&compute(ChecksumKind::FLETCHER4, self.endian, plain, None).ok()?);
        let bytes: Vec<u8> = words.into_iter().flat_map(|word| self.bytes(word)).collect();
        bytes.try_into().ok()
    }

    fn bytes(&self, word: u64) -> [u8; 8] {
        if self.endian == Endian::Little { word.to_le_bytes() } else { word.to_be_bytes() }
    }

    /// Puts a new root into all uberblocks that have the old one.
    fn replace_root(&mut self, old: &[u8; POINTER_BYTES], new: &[u8; POINTER_BYTES]) {
        for device in &mut self.pool.devices {
            let end = device.bytes / LABEL_BYTES * LABEL_BYTES;
            for label in [0, LABEL_BYTES, end - 2 * LABEL_BYTES, end - LABEL_BYTES] {
                let ring = label + RING_BYTES;
                let mut bytes = vec![0; usize::try_from(RING_BYTES).expect("128 KiB")];
                device.read_at(ring, &mut bytes);
                for (number, slot) in bytes.chunks_exact_mut(SLOT_BYTES).enumerate() {
                    let at = ring + (number * SLOT_BYTES) as u64;
                    if replace(slot, old, new) {
                        seal(slot, [at, 0, 0, 0], self.endian);
                        device.write_at(at, slot);
                    }
                }
            }
        }
    }
}

/// Replaces a pointer wherever it stands on a boundary of words.
fn replace(bytes: &mut [u8], old: &[u8; POINTER_BYTES], new: &[u8; POINTER_BYTES]) -> bool {
    let mut found = false;
    for at in (0..bytes.len().saturating_sub(POINTER_BYTES - 1)).step_by(8) {
        let window = &mut bytes[at..at + POINTER_BYTES];
        if window == old {
            window.copy_from_slice(new);
            found = true;
        }
    }
    found
}
