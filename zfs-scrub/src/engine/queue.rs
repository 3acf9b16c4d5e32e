//! Blocks waiting to be verified, in a compact form.
//!
//! The walk collects leaf blocks here. A full queue gives half of them away, those that lie next on each vdev from where
//! the last pass ended: the head of a disk moves forward, and what stays behind is joined by neighbours before its turn
//! comes. So a pass holds up to twice as many blocks of its range as one over all offsets would.

use super::Bookmark;
use crate::finding::BLOCK_SPILL;
use zfs_format::ondisk::blkptr::Blkptr;

/// A block to verify, and where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) bp: Blkptr,
    pub(super) bookmark: Bookmark,
}

/// The pointer words that an ordinary leaf block uses: one address, sizes and kinds, birth, checksum.
const WORDS: [usize; 8] = [0, 1, 6, 10, 12, 13, 14, 15];
/// The word that holds the fill count, which is 1 for an ordinary leaf block.
const FILL_WORD: usize = 11;

/// An ordinary leaf block in half of the space: one address, no rewrite, numbers that are not huge.
#[derive(Clone, Copy, Debug)]
struct Compact {
    word: [u64; 8],
    objset: u32,
    object: [u16; 3],
    block: [u16; 3],
}
const _: () = assert!(size_of::<Compact>() == 80);

impl Compact {
    /// Packs a block, unless something about it is out of the ordinary.
    fn pack(queued: &Queued) -> Option<Self> {
        let words = queued.bp.words();
        let Bookmark { objset, object, level, block } = queued.bookmark;
        let is_usual = |(index, &word): (usize, &u64)| WORDS.contains(&index) || word == u64::from(index == FILL_WORD);
        if level != 0 || block == BLOCK_SPILL || !words.iter().enumerate().all(is_usual) {
            return None;
        }
        Some(Self {
            word: WORDS.map(|index| words.get(index).copied().unwrap_or(0)),
            objset: objset.try_into().ok()?,
            object: pack48(object)?,
            block: pack48(block)?,
        })
    }

    fn unpack(&self) -> Queued {
        let mut words = [0; 16];
        for (index, word) in WORDS.into_iter().zip(self.word) {
            if let Some(slot) = words.get_mut(index) {
                *slot = word;
            }
        }
        if let Some(fill) = words.get_mut(FILL_WORD) {
            *fill = 1;
        }
        let (objset, object, block) = (self.objset.into(), unpack48(self.object), unpack48(self.block));
        Queued { bp: Blkptr::from_words(words), bookmark: Bookmark { objset, object, level: 0, block } }
    }
}

fn pack48(value: u64) -> Option<[u16; 3]> {
    let [a, b, c, 0] = [value & 0xffff, value >> 16 & 0xffff, value >> 32 & 0xffff, value >> 48] else { return None };
    Some([u16::try_from(a).ok()?, u16::try_from(b).ok()?, u16::try_from(c).ok()?])
}

fn unpack48([a, b, c]: [u16; 3]) -> u64 {
    u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32
}

/// Blocks in the order in which they were added, by number.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    compact: Vec<Compact>,
    /// Those that cannot be packed; their numbers begin where those of the others end.
    whole: Vec<Queued>,
}

impl Blocks {
    pub(super) fn len(&self) -> usize {
        self.compact.len() + self.whole.len()
    }

    pub(super) fn get(&self, number: usize) -> Option<Queued> {
        match self.compact.get(number) {
            Some(compact) => Some(compact.unpack()),
            None => self.whole.get(number - self.compact.len()).copied(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Queued> + '_ {
        self.compact.iter().map(Compact::unpack).chain(self.whole.iter().copied())
    }

    fn push(&mut self, block: &Queued) {
        match Compact::pack(block) {
            Some(compact) => self.compact.push(compact),
            None => self.whole.push(*block),
        }
    }

    fn held_bytes(&self) -> usize {
        self.compact.len() * size_of::<Compact>() + self.whole.len() * size_of::<Queued>()
    }
}

/// The collection.
#[derive(Debug)]
pub(super) struct Queue {
    blocks: Blocks,
    bytes_max: usize,
    /// For each vdev, where the last pass ended.
    heads: Vec<u64>,
}

/// Where a block lies, seen from the head of its vdev, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    vdev: u32,
    ahead_bytes: u64,
    number: u32,
}

/// Vdevs that have a head; the blocks of others, of which no real pool has so many, are sorted from offset 0.
const HEADS_MAX: usize = 4096;
/// The smallest queue: this many blocks.
const BLOCKS_MIN: usize = 64;

impl Queue {
    /// A queue that, with the batches made of it, takes about `budget_bytes`: while it fills up to a third of that, one
    /// batch made of half of it waits, and one is being verified, each with an index of the same size.
    pub(super) fn new(budget_bytes: u64) -> Self {
        let bytes_max = usize::try_from(budget_bytes / 3).unwrap_or(usize::MAX);
        let bytes_max = bytes_max.clamp(BLOCKS_MIN * size_of::<Compact>(), u32::MAX as usize * size_of::<Compact>());
        Self { blocks: Blocks::default(), bytes_max, heads: Vec::new() }
    }

    pub(super) fn push(&mut self, block: &Queued) {
        self.blocks.push(block);
    }

    pub(super) fn is_full(&self) -> bool {
        self.blocks.held_bytes() >= self.bytes_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.len() == 0
    }

    /// Hands over all that was collected, in the order of the walk.
    pub(super) fn take(&mut self) -> Blocks {
        std::mem::take(&mut self.blocks)
    }

    /// Hands over the blocks of the next pass, in the order of their offsets: half of what lies on each vdev.
    pub(super) fn take_pass(&mut self) -> Blocks {
        self.take_ahead(|on_vdev| on_vdev.div_ceil(2))
    }

    /// Hands over all that is left, in the order of offsets.
    pub(super) fn take_rest(&mut self) -> Blocks {
        self.take_ahead(|on_vdev| on_vdev)
    }

    fn take_ahead(&mut self, share: impl Fn(usize) -> usize) -> Blocks {
        let positions = self.positions();
        let mut is_taken = vec![false; self.blocks.len()];
        let mut taken = Blocks::default();
        for on_vdev in positions.chunk_by(|a, b| a.vdev == b.vdev) {
            let chosen = on_vdev.get(..share(on_vdev.len())).unwrap_or(on_vdev);
            for position in chosen {
                let number = position.number as usize;
                if let (Some(block), Some(flag)) = (self.blocks.get(number), is_taken.get_mut(number)) {
                    taken.push(&block);
                    *flag = true;
                }
            }
            if let Some(last) = chosen.last()
                && let Some(head) = self.heads.get_mut(last.vdev as usize)
            {
                *head = head.wrapping_add(last.ahead_bytes).wrapping_add(1);
            }
        }
        let (of_compact, of_whole) = is_taken.split_at(self.blocks.compact.len());
        retain(&mut self.blocks.compact, of_compact);
        retain(&mut self.blocks.whole, of_whole);
        taken
    }

    /// Where all blocks lie, by vdev, then as seen from its head.
    fn positions(&mut self) -> Vec<Position> {
        let mut positions = Vec::with_capacity(self.blocks.len());
        for (number, block) in self.blocks.iter().enumerate() {
            let dva = block.bp.dva(0).unwrap_or_default();
            let vdev = dva.vdev as usize;
            if vdev >= self.heads.len() && vdev < HEADS_MAX {
                self.heads.resize(vdev + 1, 0);
            }
            let head = self.heads.get(vdev).copied().unwrap_or(0);
            positions.push(Position {
                vdev: dva.vdev,
                ahead_bytes: dva.offset_bytes.wrapping_sub(head),
                number: u32::try_from(number).unwrap_or(u32::MAX),
            });
        }
        positions.sort_unstable();
        positions
    }
}

/// Keeps what is not marked.
fn retain<T>(items: &mut Vec<T>, is_taken: &[bool]) {
    let mut marks = is_taken.iter();
    items.retain(|_| !marks.next().copied().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(vdev: u64, sector: u64) -> Queued {
        let mut words = [0; 16];
        words[0] = vdev << 32 | 1;
        words[1] = sector;
        words[6] = 1 << 63 | 19 << 48 | 7 << 40 | 2 << 32;
        words[10] = 5;
        words[11] = 1;
        words[15] = sector;
        let bookmark = Bookmark { objset: 54, object: sector, level: 0, block: 7 };
        Queued { bp: Blkptr::from_words(words), bookmark }
    }

    fn sectors(blocks: &Blocks) -> Vec<(u32, u64)> {
        let sector = |block: Queued| block.bp.dva(0).map(|dva| (dva.vdev, dva.offset_bytes / 512)).unwrap();
        blocks.iter().map(sector).collect()
    }

    #[test]
    fn packing_loses_nothing_and_refuses_what_does_not_fit() {
        let usual = queued(3, 1 << 40);
        assert_eq!(Compact::pack(&usual).unwrap().unpack(), usual);
        let with = |index: usize, word: u64| {
            let mut words = *usual.bp.words();
            words[index] = word;
            Queued { bp: Blkptr::from_words(words), ..usual }
        };
        for index in [2, 3, 4, 5, 7, 8, 9, 11] {
            assert!(Compact::pack(&with(index, 2)).is_none(), "word {index}");
        }
        let at = |bookmark| Compact::pack(&Queued { bookmark, ..usual });
        let usual_place = usual.bookmark;
        assert!(at(Bookmark { level: 1, ..usual_place }).is_none());
        assert!(at(Bookmark { block: BLOCK_SPILL, ..usual_place }).is_none());
        assert!(at(Bookmark { block: 1 << 48, ..usual_place }).is_none());
        assert!(at(Bookmark { object: u64::MAX, ..usual_place }).is_none());
        assert!(at(Bookmark { objset: 1 << 32, ..usual_place }).is_none());
        assert!(at(Bookmark { objset: u32::MAX.into(), object: (1 << 48) - 1, ..usual_place }).is_some());
    }

    #[test]
    fn passes_go_forward_on_each_vdev_and_around() {
        let mut queue = Queue::new(0);
        for (vdev, sector) in [(0, 50), (1, 5), (0, 10), (0, 40), (1, 3), (0, 20)] {
            queue.push(&queued(vdev, sector));
        }
        assert_eq!(sectors(&queue.take_pass()), [(0, 10), (0, 20), (1, 3)]);
        // What lies behind the head waits; what lies ahead of it is next.
        for (vdev, sector) in [(0, 5), (0, 30), (1, 1)] {
            queue.push(&queued(vdev, sector));
        }
        assert_eq!(sectors(&queue.take_pass()), [(0, 30), (0, 40), (1, 5)]);
        assert_eq!(sectors(&queue.take_rest()), [(0, 50), (0, 5), (1, 1)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn every_block_comes_out_once() {
        let mut queue = Queue::new(0);
        let mut seen = Vec::new();
        for number in 0..1000_u64 {
            let mut block = queued(number % 3, number * 7919 % 1000);
            if number % 10 == 0 {
                // Not packed.
                block.bookmark.level = 1;
            }
            queue.push(&block);
            if queue.is_full() {
                seen.extend(sectors(&queue.take_pass()));
            }
        }
        seen.extend(sectors(&queue.take_rest()));
        seen.sort_unstable();
        let mut expected: Vec<(u32, u64)> = (0..1000).map(|n| ((n % 3) as u32, n * 7919 % 1000)).collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
    }
}
