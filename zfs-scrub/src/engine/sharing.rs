//! Blocks that several pointers share: those of the dedup tables and of the tables of cloned blocks.
//!
//! The tables say which blocks are shared, so nothing is kept for any other block. An entry takes 20 bytes; what does
//! not fit the budget is left out: such blocks are read once for each pointer, and what they save is taken from the
//! tables instead of being counted.

use crate::outcome::Totals;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use zfs_format::block::Work;
use zfs_format::object::ObjectError;
use zfs_format::ondisk::blkptr::{Blkptr, Dva};
use zfs_format::ondisk::ddt::{DdtKey, DdtVariant};
use zfs_format::pool::{DdtTable, Mos};
use zfs_format::units::SECTOR_BYTES;

/// A shared block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// Its first address: 16 bits vdev, 48 bits sector, the high half first (four-byte fields pack without gaps).
    address: [u32; 2],
    /// References not met yet; in the table of clones those beyond the first.
    left: u32,
    /// What the table says of its addresses, when that counts and not the pointer: 26 bits of sectors, then the number of
    /// gangs. 0 when the pointer counts.
    space: u32,
    state: State,
}

/// What was met so far, in one word: 29 bits that tell blocks at one address apart, a bit for "counted", and the number of
/// addresses that were verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State(u32);

const TAG: u32 = (1 << 29) - 1;
const COUNTED: u32 = 1 << 29;
const READ_SHIFT: u32 = 30;

impl State {
    fn tag(self) -> u32 {
        self.0 & TAG
    }

    fn is_counted(self) -> bool {
        self.0 & COUNTED != 0
    }

    fn set_counted(&mut self) {
        self.0 |= COUNTED;
    }

    /// How many addresses were verified; 0 when the block was not met by the walk.
    fn read(self) -> u32 {
        self.0 >> READ_SHIFT
    }

    fn set_read(&mut self, tag: u32, addresses: u32) {
        self.0 = (self.0 & COUNTED) | tag | (addresses.min(3) << READ_SHIFT);
    }
}

/// Memory that an entry of a log takes in the map that is needed while tables are loaded, about.
const LOGGED_BYTES: usize = 64;

/// The shared blocks of a pool, or of its checkpoint.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// By address, then tag.
    dedup: Vec<Entry>,
    /// By address.
    clones: Vec<Entry>,
    entries_max: usize,
    /// What blocks beyond `entries_max` save, as their tables say.
    dedup_rest_bytes: u64,
    /// What all clones save, as the tables say; only needed when not all fit.
    clones_saved_bytes: Option<u64>,
    /// Entries of dedup logs that did not fit, so that savings are not those of `zdb`.
    pub(super) logged_dropped: u64,
    /// What could not be read of the tables.
    pub(super) problems: Vec<ObjectError>,
}

impl Sharing {
    /// Reads the tables, keeping at most about `budget_bytes`. What cannot be read is found by the walk of the MOS, and
    /// its blocks count as not shared. `entries_max` bounds the work: no pool has more blocks than sectors.
    ///
    /// Of the entries only those matter that have several references, or addresses that a pointer may lack. So the ZAP of
    /// unique entries of a legacy table is not even read.
    pub(super) fn load(mos: &mut Mos<'_>, budget_bytes: u64, sectors: u64, work: &mut Work) -> Self {
        let entries_max = usize::try_from(budget_bytes).unwrap_or(usize::MAX) / size_of::<Entry>();
        let mut sharing = Self { entries_max, ..Self::default() };
        let mut problems = Vec::new();
        for table in mos.ddt_tables(work, &mut problems) {
            sharing.load_ddt(mos, &table, sectors, work);
        }
        sharing.load_brt(mos, sectors, work);
        sharing.problems.append(&mut problems);
        sharing.seal();
        sharing
    }

    fn load_ddt(&mut self, mos: &mut Mos<'_>, table: &DdtTable, sectors: u64, work: &mut Work) {
        let logged = self.load_logs(mos, table, work);
        let unique = table.unique_zap.filter(|_| table.is_flat);
        for zap in table.shared_zaps.iter().copied().chain(unique) {
            let mut left = sectors;
            let read = mos.ddt_zap(table, zap, work, &mut |key, variants| {
                if !logged.contains_key(&fingerprint(key)) {
                    variants.iter().for_each(|variant| self.add_dedup(key, variant, table.is_flat));
                }
                left = left.saturating_sub(1);
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            self.problems.extend(read.err());
        }
        for (key, variant) in logged.into_values() {
            self.add_dedup(&key, &variant, table.is_flat);
        }
    }

    /// What the logs say, the log that takes new entries last: it overrides the one that is being flushed.
    fn load_logs(
        &mut self,
        mos: &mut Mos<'_>,
        table: &DdtTable,
        work: &mut Work,
    ) -> BTreeMap<u64, (DdtKey, DdtVariant)> {
        let mut logs: Vec<(bool, u64)> = Vec::new();
        for &log in &table.logs {
            match mos.ddt_log_header(log, work) {
                Ok(header) => logs.push((!header.is_flushing, log)),
                Err(problem) => self.problems.push(problem),
            }
        }
        logs.sort_unstable();
        let entries_max = self.entries_max.saturating_mul(size_of::<Entry>()) / LOGGED_BYTES;
        let mut logged = BTreeMap::new();
        for (_, log) in logs {
            let read = mos.ddt_log(log, work, &mut |key, variants| {
                let name = fingerprint(key);
                match variants {
                    [variant] if logged.len() < entries_max || logged.contains_key(&name) => {
                        logged.insert(name, (*key, *variant));
                    }
                    _ => self.logged_dropped += 1,
                }
                ControlFlow::Continue(())
            });
            self.problems.extend(read.err());
        }
        logged
    }

    fn add_dedup(&mut self, key: &DdtKey, variant: &DdtVariant, is_flat: bool) {
        let [first, ..] = variant.dvas;
        let used = if key.is_encrypted() { 2 } else { 3 };
        let dvas = || variant.dvas.iter().take(used).filter(|dva| dva.asize_bytes != 0);
        let Some(address) = packed(&first) else { return };
        let matters = variant.refcount > 1 || (is_flat && dvas().count() > 1 && variant.refcount > 0);
        if first.asize_bytes == 0 || variant.birth_txg.0 == 0 || !matters {
            return;
        }
        let asize_bytes = dvas().map(|dva| dva.asize_bytes).fold(0, u64::saturating_add);
        if self.room() == 0 {
            let saved = asize_bytes.saturating_mul(variant.refcount.saturating_sub(1));
            self.dedup_rest_bytes = self.dedup_rest_bytes.saturating_add(saved);
            return;
        }
        let gangs = dvas().filter(|dva| dva.is_gang).count();
        let space = u32::try_from(asize_bytes / SECTOR_BYTES).unwrap_or(0) | u32::try_from(gangs).unwrap_or(0) << 26;
        let room = self.room();
        push(
            &mut self.dedup,
            room,
            Entry {
                address,
                left: u32::try_from(variant.refcount).unwrap_or(u32::MAX),
                space: if is_flat { space } else { 0 },
                state: State(tag(key, &first, variant.birth_txg.0)),
            },
        );
    }

    fn load_brt(&mut self, mos: &mut Mos<'_>, sectors: u64, work: &mut Work) {
        let mut saved_bytes = 0_u64;
        let mut is_cut = false;
        for (vdev, object) in mos.brt_tables() {
            let mut left = sectors;
            let header = mos.brt(object, work, &mut |entry| {
                left = left.saturating_sub(1);
                let first = Dva { vdev, offset_bytes: entry.offset_bytes, ..Dva::default() };
                if self.room() == 0 {
                    is_cut = true;
                } else if let Some(address) = packed(&first).filter(|_| entry.count > 0) {
                    let room = self.room();
                    let count = u32::try_from(entry.count).unwrap_or(u32::MAX);
                    push(&mut self.clones, room, Entry { address, left: count, space: 0, state: State::default() });
                }
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            match header {
                Ok(header) => saved_bytes = saved_bytes.saturating_add(header.saved_bytes),
                Err(problem) => self.problems.push(problem),
            }
        }
        self.clones_saved_bytes = is_cut.then_some(saved_bytes);
    }

    fn room(&self) -> usize {
        self.entries_max.saturating_sub(self.dedup.len()).saturating_sub(self.clones.len())
    }

    /// Puts the entries in order. Of two that nothing tells apart, which no whole pool has, the first counts.
    fn seal(&mut self) {
        self.dedup.sort_unstable();
        self.clones.sort_unstable();
        self.clones.dedup_by_key(|entry| entry.address);
    }

    /// Memory that is held for the whole walk.
    pub(super) fn held_bytes(&self) -> u64 {
        ((self.dedup.capacity() + self.clones.capacity()) * size_of::<Entry>()) as u64
    }

    fn dedup_index(&self, bp: &Blkptr) -> Option<usize> {
        if !bp.is_dedup() || self.dedup.is_empty() {
            return None;
        }
        let first = bp.dva(0)?;
        let (address, wanted) = (packed(&first)?, tag(&DdtKey::of(bp), &first, bp.physical_birth_txg().0));
        let start = self.dedup.partition_point(|entry| entry.address < address);
        let mut same_address = self.dedup.get(start..)?.iter().take_while(|entry| entry.address == address);
        same_address.position(|entry| entry.state.tag() == wanted).map(|index| start + index)
    }

    fn clone_index(&self, bp: &Blkptr) -> Option<usize> {
        if self.clones.is_empty() {
            return None;
        }
        let address = packed(&bp.dva(0)?)?;
        self.clones.binary_search_by_key(&address, |entry| entry.address).ok()
    }

    /// Adds one pointer to the totals, as `zdb -b` does: a further reference to a shared block saves its space.
    ///
    /// Source: OpenZFS cmd/zdb/zdb.c, `zdb_count_block`.
    pub(super) fn count(&mut self, totals: &mut Totals, bp: &Blkptr) {
        totals.blocks += 1;
        totals.logical_bytes = totals.logical_bytes.saturating_add(bp.lsize_bytes());
        if bp.is_embedded() {
            totals.embedded_blocks += 1;
            return;
        }
        let mut space_bytes = bp.asize_bytes();
        let mut gangs = bp.dvas().filter(|(_, dva)| dva.is_gang).count() as u64;
        let mut saved_by = None;
        if let Some(entry) = self.dedup_index(bp).and_then(|index| self.dedup.get_mut(index)) {
            if entry.space != 0 {
                space_bytes = u64::from(entry.space & ((1 << 26) - 1)) * SECTOR_BYTES;
                gangs = u64::from(entry.space >> 26);
            }
            if entry.state.is_counted() && entry.left > 0 {
                saved_by = Some(&mut totals.dedup_saved_bytes);
            }
            entry.state.set_counted();
            entry.left = entry.left.saturating_sub(1);
        }
        if saved_by.is_none()
            && let Some(entry) = self.clone_index(bp).and_then(|index| self.clones.get_mut(index))
        {
            if !entry.state.is_counted() {
                entry.state.set_counted();
            } else if entry.left > 0 {
                entry.left -= 1;
                saved_by = Some(&mut totals.cloned_bytes);
            }
        }
        if let Some(saved) = saved_by {
            *saved = saved.saturating_add(space_bytes);
        }
        totals.physical_bytes = totals.physical_bytes.saturating_add(bp.psize_bytes());
        totals.allocated_bytes = totals.allocated_bytes.saturating_add(space_bytes);
        totals.gang_blocks += gangs;
    }

    /// Adds what shared blocks beyond the budget save.
    pub(super) fn count_rest(&self, totals: &mut Totals) {
        totals.dedup_saved_bytes = totals.dedup_saved_bytes.saturating_add(self.dedup_rest_bytes);
        totals.cloned_bytes = self.clones_saved_bytes.unwrap_or(totals.cloned_bytes);
    }

    /// Whether an earlier pointer led to the same block, with as many addresses, so that it was verified already. The
    /// first pointer is remembered.
    pub(super) fn is_verified(&mut self, bp: &Blkptr) -> bool {
        let Some(first) = bp.dva(0) else { return false };
        let wanted = tag(&DdtKey::of(bp), &first, bp.physical_birth_txg().0);
        let addresses = u32::try_from(bp.dvas().count()).unwrap_or(0);
        let entry = match (self.dedup_index(bp), self.clone_index(bp)) {
            (Some(index), _) => self.dedup.get_mut(index),
            (None, Some(index)) => self.clones.get_mut(index),
            (None, None) => None,
        };
        let Some(entry) = entry else { return false };
        if entry.state.read() == 0 {
            entry.state.set_read(wanted, addresses);
            return false;
        }
        if entry.state.tag() != wanted {
            // Another block at the same address: one of the two is damage, and both are looked at.
            return false;
        }
        let is_verified = entry.state.read() >= addresses;
        let most = entry.state.read().max(addresses);
        entry.state.set_read(wanted, most);
        is_verified
    }

    /// Whether a block is one of those that several pointers share.
    pub(super) fn is_shared(&self, bp: &Blkptr) -> bool {
        self.dedup_index(bp).is_some() || self.clone_index(bp).is_some()
    }
}

/// Grows by a quarter, as far as there is room: doubling would hold up to twice the budget.
fn push(entries: &mut Vec<Entry>, room: usize, entry: Entry) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact((entries.len() / 4).max(64).min(room));
    }
    entries.push(entry);
}

/// An address in 64 bits: `None` beyond 2^16 vdevs (more than any tree holds) or 2^48 sectors (128 PiB on one vdev).
fn packed(dva: &Dva) -> Option<[u32; 2]> {
    let sector = dva.offset_bytes / SECTOR_BYTES;
    let high = u16::try_from(sector >> 32).ok()?;
    let low = u32::try_from(sector & u64::from(u32::MAX)).ok()?;
    let vdev = u16::try_from(dva.vdev).ok()?;
    Some([u32::from(vdev) << 16 | u32::from(high), low])
}

/// Tells apart what pointers to one address may expect there.
fn tag(key: &DdtKey, first: &Dva, birth_txg: u64) -> u32 {
    let address =
        [first.offset_bytes, first.asize_bytes, u64::from(first.vdev) << 1 | u64::from(first.is_gang), birth_txg];
    let hash = address.into_iter().fold(fingerprint(key), mix);
    u32::try_from(hash >> 35).unwrap_or(0)
}

/// 64 bits that stand for a key.
fn fingerprint(key: &DdtKey) -> u64 {
    key.checksum.into_iter().chain([key.prop]).fold(0, mix)
}

/// Stirs a word into a hash (multiplication by the golden ratio, then the high half into the low one).
fn mix(hash: u64, word: u64) -> u64 {
    let stirred = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    stirred ^ (stirred >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::Txg;

    const CHECKSUM: [u64; 4] = [11, 22, 33, 44];

    /// A pointer of one sector at `sector`; `dedup` sets the D bit.
    fn pointer(sector: u64, checksum: [u64; 4], dedup: bool) -> Blkptr {
        let mut words = [0; 16];
        (words[0], words[1]) = (1, sector);
        words[6] = 1 << 63 | u64::from(dedup) << 62 | 19 << 48 | 8 << 40 | 2 << 32;
        words[10] = 5;
        words[12..].copy_from_slice(&checksum);
        Blkptr::from_words(words)
    }

    fn variant(sector: u64, refcount: u64) -> DdtVariant {
        let first = Dva { vdev: 0, offset_bytes: sector * 512, asize_bytes: 512, is_gang: false };
        DdtVariant { dvas: [first, Dva::default(), Dva::default()], refcount, birth_txg: Txg(5) }
    }

    fn sharing(entries_max: usize) -> Sharing {
        Sharing { entries_max, ..Sharing::default() }
    }

    fn clone_of(sector: u64, count: u32) -> Entry {
        let first = Dva { offset_bytes: sector * 512, ..Dva::default() };
        Entry { address: packed(&first).unwrap(), left: count, space: 0, state: State::default() }
    }

    #[test]
    fn an_entry_takes_twenty_bytes() {
        assert_eq!(size_of::<Entry>(), 20);
    }

    #[test]
    fn references_beyond_the_first_save_space_until_the_count_is_used_up() {
        let bp = pointer(8, CHECKSUM, true);
        let mut sharing = sharing(10);
        sharing.add_dedup(&DdtKey::of(&bp), &variant(8, 3), true);
        sharing.seal();
        let mut totals = Totals::default();
        for _ in 0..4 {
            sharing.count(&mut totals, &bp);
        }
        assert_eq!((totals.blocks, totals.allocated_bytes, totals.dedup_saved_bytes), (4, 4 * 512, 2 * 512));
    }

    #[test]
    fn a_block_is_verified_once_and_another_at_its_address_is_not_taken_for_it() {
        let bp = pointer(8, CHECKSUM, true);
        let mut sharing = sharing(10);
        sharing.add_dedup(&DdtKey::of(&bp), &variant(8, 2), true);
        sharing.clones.push(clone_of(9, 1));
        sharing.seal();
        assert_eq!([(); 3].map(|()| sharing.is_verified(&bp)), [false, true, true]);
        let other = pointer(8, [1, 2, 3, 4], true);
        assert_eq!([(); 2].map(|()| sharing.is_verified(&other)), [false, false]);
        let cloned = pointer(9, CHECKSUM, false);
        assert_eq!([(); 2].map(|()| sharing.is_verified(&cloned)), [false, true]);
        assert!(!sharing.is_verified(&pointer(9, [1, 2, 3, 4], false)));
        assert!(!sharing.is_verified(&pointer(10, CHECKSUM, false)));
    }

    #[test]
    fn a_freed_reference_counts_yet_does_not_stand_for_a_look_at_the_block() {
        let bp = pointer(9, CHECKSUM, false);
        let mut sharing = sharing(10);
        sharing.clones.push(clone_of(9, 1));
        let mut totals = Totals::default();
        sharing.count(&mut totals, &bp);
        sharing.count(&mut totals, &bp);
        assert_eq!(totals.cloned_bytes, 512);
        assert_eq!([(); 2].map(|()| sharing.is_verified(&bp)), [false, true]);
    }

    #[test]
    fn more_addresses_than_were_verified_are_looked_at_again() {
        let one = pointer(8, CHECKSUM, true);
        let mut words = *one.words();
        (words[2], words[3]) = (1, 100);
        let two = Blkptr::from_words(words);
        let mut sharing = sharing(10);
        sharing.add_dedup(&DdtKey::of(&one), &variant(8, 2), true);
        sharing.seal();
        assert_eq!([one, two, two, one].map(|bp| sharing.is_verified(&bp)), [false, false, true, true]);
    }

    /// Five million references to 2.5 million blocks: within a quarter of the default budget; and with less, what does
    /// not fit is taken from the tables.
    #[test]
    fn five_million_references_stay_within_the_budget_and_are_counted() {
        const BLOCKS: u64 = 2_500_000;
        for budget_bytes in [64_usize << 20, 16 << 20] {
            let mut sharing = sharing(budget_bytes / size_of::<Entry>());
            for sector in 1..=BLOCKS {
                let key = DdtKey::of(&pointer(sector, [sector, 0, 0, 0], true));
                sharing.add_dedup(&key, &variant(sector, 2), true);
            }
            sharing.seal();
            assert!(sharing.held_bytes() <= budget_bytes as u64, "{} bytes", sharing.held_bytes());
            let mut totals = Totals::default();
            let mut looks = 0;
            for sector in (1..=BLOCKS).chain(1..=BLOCKS) {
                let bp = pointer(sector, [sector, 0, 0, 0], true);
                sharing.count(&mut totals, &bp);
                looks += u64::from(!sharing.is_verified(&bp));
            }
            sharing.count_rest(&mut totals);
            assert_eq!(totals.blocks, 2 * BLOCKS);
            assert_eq!(totals.dedup_saved_bytes, BLOCKS * 512);
            let fits = BLOCKS.min((budget_bytes / size_of::<Entry>()) as u64);
            assert_eq!(looks, BLOCKS + (BLOCKS - fits));
        }
    }
}
