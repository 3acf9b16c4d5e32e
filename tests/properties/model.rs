//! What a scrub has to say of a pool with injuries, by what its maker knows.

use fixtures::{Copy, Endian, Family, LeafSpan, MadeBlock, Part, Pool, Reach};
use std::collections::{BTreeMap, BTreeSet};
use zfs_scrub::finding::{CopyResult, Finding, Kind, Severity};
use zfs_scrub::outcome::{NotCheckedReason, Outcome, exit};

/// Object type of the pool's configuration.
const PACKED_NVLIST: u8 = 3;
/// The object directory of the MOS.
const DIRECTORY: u64 = 1;
const MOS: &str = "mos";

/// Bad copies, or cells of them, by block, address and leaf: side of the mirror or column.
pub(crate) type Injuries = BTreeMap<(usize, usize, usize), CopyResult>;

/// A pool, and how its blocks hang together.
pub(crate) struct Model<'a> {
    pub(crate) pool: &'a Pool,
    family: Family<'a>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(pool: &'a Pool) -> Self {
        Model { pool, family: Family::new(pool) }
    }

    /// What reading each leaf of a copy gives.
    fn results(&self, index: usize, copy: &Copy, injuries: &Injuries) -> Vec<CopyResult> {
        let result = |(leaf, span): (usize, &LeafSpan)| match injuries.get(&(index, copy.dva_index, leaf)) {
            _ if self.pool.devices[span.device].is_missing => CopyResult::Missing,
            Some(result) => *result,
            None => CopyResult::Ok,
        };
        copy.leaves.iter().enumerate().map(result).collect()
    }

    /// The rows of a finding's evidence, in its order.
    fn rows(&self, index: usize, injuries: &Injuries) -> Vec<Row> {
        let mut rows = Vec::new();
        for copy in &self.pool.blocks[index].copies {
            let results = self.results(index, copy, injuries);
            let survives = copy.survives(|leaf| results[leaf] != CopyResult::Ok);
            for (span, result) in copy.leaves.iter().zip(&results) {
                // Where a stripe cannot be rebuilt, nothing proves which of the cells that were read lie.
                let is_judged = survives || !is_striped(copy);
                if is_judged || !matches!(result, CopyResult::Ok | CopyResult::Checksum) {
                    rows.push(Row {
                        copy: copy.dva_index,
                        device: Some((self.pool.devices[span.device].name.clone(), span.offset_bytes)),
                        length_bytes: span.len_bytes,
                        result: *result,
                    });
                }
            }
            if is_striped(copy) && !survives {
                let result = failure(copy, &results);
                rows.push(Row { copy: copy.dva_index, device: None, length_bytes: copy.asize_bytes, result });
            }
        }
        rows
    }

    /// Whether there is something to say of a block.
    fn is_worth_a_finding(&self, index: usize, injuries: &Injuries) -> bool {
        let is_bad = |row: &Row| matches!(row.result, CopyResult::Checksum | CopyResult::ReadError);
        self.is_lost(index, injuries) || self.rows(index, injuries).iter().any(is_bad)
    }

    pub(crate) fn is_lost(&self, index: usize, injuries: &Injuries) -> bool {
        let copies = &self.pool.blocks[index].copies;
        let survives = |copy: &Copy| {
            let results = self.results(index, copy, injuries);
            copy.survives(|leaf| results[leaf] != CopyResult::Ok)
        };
        !copies.is_empty() && !copies.iter().any(survives)
    }

    /// Whether any block above is lost.
    pub(crate) fn is_hidden(&self, index: usize, injuries: &Injuries) -> bool {
        let mut at = index;
        while let Some(parent) = self.family.parent(at) {
            if self.is_lost(parent, injuries) {
                return true;
            }
            at = parent;
        }
        false
    }

    /// Whether all blocks of the MOS that `is_wanted` chooses can be read.
    fn can_read(&self, injuries: &Injuries, is_wanted: impl Fn(&MadeBlock) -> bool) -> bool {
        let is_wanted = |block: &MadeBlock| block.owner.dataset == MOS && is_wanted(block);
        let mut wanted = (0..self.pool.blocks.len()).filter(|index| is_wanted(&self.pool.blocks[*index]));
        wanted.all(|index| !self.is_lost(index, injuries) && !self.is_hidden(index, injuries))
    }

    /// Whether the object directory can be read: without it there are no names and no configuration.
    pub(crate) fn has_directory(&self, injuries: &Injuries) -> bool {
        self.can_read(injuries, |block| block.object == DIRECTORY && block.level == 0)
    }

    /// Whether the configuration can be read: the first packed nvlist. The list of spares is another.
    fn has_config(&self, injuries: &Injuries) -> bool {
        let lists = self.pool.blocks.iter().filter(|block| block.object_type == PACKED_NVLIST);
        let config = lists.map(|block| block.object).min();
        self.can_read(injuries, |block| Some(block.object) == config && block.level == 0)
    }

    /// Whether all of the MOS can be read.
    pub(crate) fn has_mos(&self, injuries: &Injuries) -> bool {
        self.can_read(injuries, |_| true)
    }

    /// `fill` of the pointer: what a reader who cannot go on is told that he misses.
    fn fill(&self, block: &MadeBlock) -> u64 {
        let word: [u8; 8] = block.pointer[88..96].try_into().expect("eight bytes");
        if self.pool.endian == Endian::Little { u64::from_le_bytes(word) } else { u64::from_be_bytes(word) }
    }

    /// What the findings must be: nothing more, nothing less.
    pub(crate) fn check(&self, injuries: &Injuries, outcome: &Outcome) {
        let injured: BTreeSet<usize> = injuries.keys().map(|(block, _, _)| *block).collect();
        let mut expected: BTreeSet<usize> = injured;
        expected.retain(|index| self.is_worth_a_finding(*index, injuries) && !self.is_hidden(*index, injuries));
        let (of_blocks, others): (Vec<&Finding>, Vec<&Finding>) =
            outcome.findings.iter().partition(|finding| finding.is_about_block());
        let (mut hidden_blocks, mut hidden_objects) = (0, 0);
        let (mut degraded, mut lost) = (0, 0);
        for finding in &of_blocks {
            let index = self.block_of(finding);
            assert!(expected.remove(&index), "a finding of a good or hidden block, or the second: {finding:#?}");
            // Fill counts count objects in the array of dnodes and above it, blocks below it.
            let is_array = self.pool.blocks[index].object == 0;
            let hidden = if is_array { &mut hidden_objects } else { &mut hidden_blocks };
            *hidden += self.check_finding(index, injuries, finding);
            *(if self.is_lost(index, injuries) { &mut lost } else { &mut degraded }) += 1;
        }
        let missed: Vec<_> = expected.iter().map(|index| &self.pool.blocks[*index]).collect();
        assert!(missed.is_empty(), "damage without a finding: {missed:#?}");
        self.check_others(injuries, &others);
        self.check_not_checked(injuries, outcome, hidden_blocks, hidden_objects);
        let summary = &outcome.summary;
        assert_eq!((summary.degraded_blocks, summary.lost_blocks), (degraded, lost));
        self.check_totals(injuries, outcome);
        self.check_redundancy(injuries, outcome);
        let is_missing = self.pool.devices.iter().any(|device| device.is_missing);
        let is_incomplete = is_missing || !self.has_directory(injuries);
        let bits = [(exit::DAMAGED, lost > 0), (exit::DEGRADED, lost == 0 && (degraded > 0 || is_missing))];
        let bits = bits.into_iter().chain([(exit::INCOMPLETE, is_incomplete)]);
        let status: u8 = bits.filter(|(_, is_set)| *is_set).map(|(bit, _)| bit).sum();
        assert_eq!(summary.exit_status, status);
    }

    /// What lost blocks hide is said, and what lies on missing members, and nothing else was left out.
    fn check_not_checked(&self, injuries: &Injuries, outcome: &Outcome, hidden_blocks: u64, hidden_objects: u64) {
        let mut blocks = None;
        let mut objects = None;
        let mut missing = BTreeMap::new();
        let mut unlocked = BTreeMap::new();
        for left in &outcome.not_checked {
            if left.reason == NotCheckedReason::MissingMember && left.bytes.is_none() {
                unlocked.insert(left.what.clone(), left.blocks.unwrap());
                continue;
            }
            if left.reason == NotCheckedReason::MissingMember {
                missing.insert(left.what.clone(), (left.blocks.unwrap(), left.bytes.unwrap()));
                continue;
            }
            assert_eq!(left.reason, NotCheckedReason::BadParent);
            match left.blocks {
                Some(count) => assert_eq!(blocks.replace(count), None),
                None => {
                    let (count, what) = left.what.split_once(' ').expect("a number and what it counts");
                    assert!(what.starts_with("objects"), "{}", left.what);
                    assert_eq!(objects.replace(count.parse().expect("a number")), None);
                }
            }
        }
        assert_eq!((blocks.unwrap_or(0), objects.unwrap_or(0)), (hidden_blocks, hidden_objects));
        assert_eq!(missing, self.copies_missing(injuries));
        assert_eq!(unlocked, self.unlocked(injuries));
    }

    /// Lost blocks, and those they hide, that need one missing member to be read, as far as missing members go.
    fn unlocked(&self, injuries: &Injuries) -> BTreeMap<String, u64> {
        let mut unlocked: BTreeMap<String, u64> = BTreeMap::new();
        let is_lost = |index: &usize| self.is_lost(*index, injuries) && !self.is_hidden(*index, injuries);
        for index in (0..self.pool.blocks.len()).filter(is_lost) {
            let block = &self.pool.blocks[index];
            let mut members = BTreeSet::new();
            for copy in &block.copies {
                let missing: BTreeSet<usize> = copy
                    .leaves
                    .iter()
                    .map(|span| span.device)
                    .filter(|&device| self.pool.devices[device].is_missing)
                    .collect();
                let parity = copy.parts.iter().map(|part| part.parity).max().unwrap();
                if !is_striped(copy) || missing.len() <= parity + 1 {
                    members.extend(missing);
                }
            }
            let hides = block.level != 0 || block.object == 0;
            let blocks = 1 + if hides { self.fill(block) } else { 0 };
            for member in members {
                let what = format!("blocks that {} alone may bring back", self.pool.devices[member].name);
                *unlocked.entry(what).or_default() += blocks;
            }
        }
        unlocked
    }

    /// Copies, or cells of them, on members that are not there, and their bytes.
    fn copies_missing(&self, injuries: &Injuries) -> BTreeMap<String, (u64, u64)> {
        let mut missing: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for index in (0..self.pool.blocks.len()).filter(|index| !self.is_hidden(*index, injuries)) {
            for span in self.pool.blocks[index].copies.iter().flat_map(|copy| &copy.leaves) {
                let device = &self.pool.devices[span.device];
                if device.is_missing {
                    let sum = missing.entry(format!("copies on {}", device.name)).or_default();
                    *sum = (sum.0 + 1, sum.1 + span.len_bytes);
                }
            }
        }
        missing
    }

    /// The block at the place that a finding names.
    pub(crate) fn block_of(&self, finding: &Finding) -> usize {
        let place = &finding.place;
        let (objset, object) = (place.objset.unwrap(), place.object.unwrap());
        let (level, block) = (place.level.unwrap(), place.block.unwrap());
        let dataset = self.pool.blocks.iter().find(|made| made.owner.objset == objset);
        let dataset = &dataset.expect("the object set exists").owner.dataset;
        let found = self.family.find(dataset, object, level, block);
        found.unwrap_or_else(|| panic!("no such block: {finding:#?}"))
    }

    /// Compares a finding with what is known of its block; returns how many blocks it hides.
    fn check_finding(&self, index: usize, injuries: &Injuries, finding: &Finding) -> u64 {
        let block = &self.pool.blocks[index];
        let rows = self.rows(index, injuries);
        let is_shown_whole = |row: &Row| !is_split(&block.copies[row.copy]);
        let found = finding.copies.iter().map(|copy| Row {
            copy: copy.copy,
            device: copy.device.clone().zip(copy.device_offset_bytes),
            length_bytes: copy.length_bytes,
            result: copy.result,
        });
        let found: Vec<Row> = found.collect();
        let (whole, split): (Vec<&Row>, Vec<&Row>) = found.iter().partition(|row| is_shown_whole(row));
        assert_eq!(whole, rows.iter().filter(|row| is_shown_whole(row)).collect::<Vec<_>>(), "{finding:#?}");
        self.check_split(index, injuries, &split);
        for copy in &finding.copies {
            let made = &block.copies[copy.copy];
            assert_eq!((copy.vdev as usize, copy.offset_bytes), (made.top, made.offset_bytes));
            assert_eq!(copy.size_bytes, made.asize_bytes);
        }
        let is_lost = self.is_lost(index, injuries);
        let severity = if is_lost { Severity::Damaged } else { Severity::Degraded };
        assert_eq!((finding.severity, finding.recoverable), (severity, !is_lost));
        assert_eq!(finding.place.object_type.map(|kind| kind.0), Some(block.object_type));
        let is_root = block.owner.dataset == MOS && block.level < 0;
        let has_checksum = rows.iter().any(|row| row.result == CopyResult::Checksum);
        let kind = match (is_root && is_lost, has_checksum) {
            (true, _) => Kind::RootLost,
            (false, true) => Kind::BlockChecksum,
            (false, false) => Kind::BlockReadError,
        };
        assert_eq!(finding.kind, kind);
        let hides = is_lost && (block.level != 0 || block.object == 0);
        assert_eq!(finding.hidden_blocks, if hides { self.fill(block) } else { 0 });
        self.check_names(index, finding);
        finding.hidden_blocks
    }

    /// Of a copy in parts that can be read, the bad ones are named; of one that cannot, nothing more is expected than that
    /// it is not called good.
    fn check_split(&self, index: usize, injuries: &Injuries, found: &[&Row]) {
        let is_bad = |row: &&Row| row.result != CopyResult::Ok && row.device.is_some();
        for copy in self.pool.blocks[index].copies.iter().filter(|copy| is_split(copy)) {
            let results = self.results(index, copy, injuries);
            let own = || found.iter().filter(|row| row.copy == copy.dva_index);
            if !copy.survives(|leaf| results[leaf] != CopyResult::Ok) {
                assert!(own().any(|row| row.result != CopyResult::Ok), "{found:#?}");
                continue;
            }
            // Parts that are neighbours where they are now are read as one.
            let rows = self.rows(index, injuries);
            let named: Vec<&Row> = own().filter(|row| is_bad(row)).copied().collect();
            let wanted: Vec<&Row> = rows.iter().filter(|row| row.copy == copy.dva_index && is_bad(row)).collect();
            let covers = |outer: &Row, inner: &Row| {
                let ((outer_on, outer_at), (inner_on, inner_at)) =
                    (outer.device.as_ref().unwrap(), inner.device.as_ref().unwrap());
                let is_within = outer_at <= inner_at && inner_at + inner.length_bytes <= outer_at + outer.length_bytes;
                outer_on == inner_on && is_within && outer.result == inner.result
            };
            let is_told = wanted.iter().all(|wanted| named.iter().any(|named| covers(named, wanted)));
            let is_true = named.iter().all(|named| wanted.iter().any(|wanted| covers(named, wanted)));
            assert!(is_told && is_true, "told {named:#?}, wanted {wanted:#?}");
        }
    }

    /// Every name that is given is a name of the block. Whether all are given is for the tests of names.
    fn check_names(&self, index: usize, finding: &Finding) {
        let block = &self.pool.blocks[index];
        let mut known = names(block);
        let datasets = std::iter::once(&block.owner).chain(&block.also).map(|reach| reach.dataset.clone());
        known.extend(datasets.clone());
        let place = &finding.place;
        if let Some(dataset) = &place.dataset {
            let snapshot = place.snapshot.as_ref().map(|name| format!("@{name}")).unwrap_or_default();
            let dataset = format!("{dataset}{snapshot}");
            assert!(datasets.clone().any(|known| known == dataset), "{dataset} does not hold it: {finding:#?}");
            if let Some(path) = &place.path {
                assert!(known.contains(&format!("{dataset}:{path}")), "not its name: {finding:#?}");
            }
        }
        for also in &place.also_in {
            assert!(known.contains(also), "{also} is not its name: {finding:#?}");
        }
    }

    /// Devices of which at least ten copies are bad, and one in ten of those that could be judged.
    fn bad_devices(&self, injuries: &Injuries) -> BTreeSet<String> {
        let mut counted: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for index in (0..self.pool.blocks.len()).filter(|index| !self.is_hidden(*index, injuries)) {
            for row in self.rows(index, injuries) {
                let Some((device, _)) = row.device else { continue };
                let (copies, bad) = counted.entry(device).or_default();
                let is_bad = matches!(row.result, CopyResult::Checksum | CopyResult::ReadError);
                *copies += u64::from(is_bad || row.result == CopyResult::Ok);
                *bad += u64::from(is_bad);
            }
        }
        let is_bad = |(_, (copies, bad)): &(String, (u64, u64))| *bad >= 10 && bad * 10 >= *copies;
        counted.into_iter().filter(is_bad).map(|(device, _)| device).collect()
    }

    /// Devices of which a copy of a block that is reached, or of any block, cannot be read.
    fn unreadable_devices(&self, injuries: &Injuries, is_any: bool) -> BTreeSet<String> {
        let reached = (0..self.pool.blocks.len()).filter(|index| is_any || !self.is_hidden(*index, injuries));
        let rows = reached.flat_map(|index| self.rows(index, injuries));
        let unreadable = rows.filter(|row| row.result == CopyResult::ReadError);
        unreadable.filter_map(|row| row.device.map(|(device, _)| device)).collect()
    }

    fn check_others(&self, injuries: &Injuries, others: &[&Finding]) {
        // Labels stay readable in these tests, so that it is blocks that were met.
        let (unreadable, others): (Vec<&Finding>, Vec<&Finding>) =
            others.iter().partition(|finding| finding.kind == Kind::MemberUnreadable);
        let told: BTreeSet<String> = unreadable.iter().filter_map(|finding| finding.place.device.clone()).collect();
        assert_eq!(told.len(), unreadable.len());
        // A block below a lost one may be met all the same: on the way to a name, through a clone that shares it.
        assert!(self.unreadable_devices(injuries, false).is_subset(&told), "{told:?}");
        assert!(told.is_subset(&self.unreadable_devices(injuries, true)), "{told:?}");
        let (bad, others): (Vec<&Finding>, Vec<&Finding>) =
            others.into_iter().partition(|finding| finding.kind == Kind::MemberBad);
        let named: BTreeSet<String> = bad.iter().filter_map(|finding| finding.place.device.clone()).collect();
        assert_eq!(named.len(), bad.len());
        // Whom the parts of a split copy are counted to that cannot be told apart, is the reader's.
        if !self.pool.blocks.iter().flat_map(|block| &block.copies).any(is_split) {
            assert_eq!(named, self.bad_devices(injuries));
        }
        let root = self.family.find(MOS, 0, -1, 0).unwrap();
        let mut wanted = Vec::new();
        if !self.has_directory(injuries) {
            // A lost root block is one finding, with its copies.
            wanted.extend((!self.is_lost(root, injuries)).then_some(Kind::RootLost));
        } else if !self.has_config(injuries) {
            wanted.push(Kind::ConfigIncomplete);
        }
        let missing = self.pool.devices.iter().filter(|device| device.is_missing);
        wanted.extend(missing.map(|_| Kind::MemberMissing));
        let found: Vec<Kind> = others.iter().map(|finding| finding.kind).collect();
        assert_eq!(found, wanted, "{others:#?}");
    }

    /// How many devices have to fail before a copy is lost, found by letting them fail one after the other. Parity and the
    /// first data column of a part are never mere padding, and come first.
    fn failures_to_lose(copy: &Copy, results: &[CopyResult]) -> u64 {
        let bad: Vec<bool> = results.iter().map(|result| *result != CopyResult::Ok).collect();
        if !copy.survives(|leaf| bad[leaf]) {
            return 0;
        }
        let of_part = |part: &Part| {
            let mut bad = bad.clone();
            let leaves = part.cells.iter().flat_map(Clone::clone).filter(|leaf| results[*leaf] == CopyResult::Ok);
            let fatal = leaves.enumerate().find(|(_, leaf)| {
                bad[*leaf] = true;
                !part.survives(|leaf| bad[leaf])
            });
            fatal.map(|(failed, _)| failed as u64 + 1).unwrap()
        };
        copy.parts.iter().map(of_part).min().unwrap()
    }

    /// The ledger of redundancy counts each block that is not hidden, on each of its vdevs.
    fn check_redundancy(&self, injuries: &Injuries, outcome: &Outcome) {
        if outcome.vdevs.iter().any(|top| top.vdev_type == "indirect") || !self.has_config(injuries) {
            // Where the blocks of removed vdevs count is the reader's; and without the configuration not all is known.
            return;
        }
        let mut counted: BTreeMap<usize, [u64; 4]> = BTreeMap::new();
        for index in (0..self.pool.blocks.len()).filter(|index| !self.is_hidden(*index, injuries)) {
            let mut tops: BTreeMap<usize, (u64, bool)> = BTreeMap::new();
            for copy in &self.pool.blocks[index].copies {
                let results = self.results(index, copy, injuries);
                let (failures, is_full) = tops.entry(copy.top).or_insert((0, true));
                *failures = (*failures).max(Self::failures_to_lose(copy, &results));
                *is_full &= results.iter().all(|result| *result == CopyResult::Ok);
            }
            let failures: u64 = tops.values().map(|(failures, _)| failures).sum();
            for (top, (_, is_full)) in tops {
                let [blocks, full, one, lost] = counted.entry(top).or_default();
                *blocks += 1;
                *full += u64::from(is_full);
                *one += u64::from(failures == 1);
                *lost += u64::from(failures == 0);
            }
        }
        for (id, top) in outcome.vdevs.iter().enumerate() {
            let found = top.redundancy.map(|r| [r.blocks, r.full, r.one_failure_from_loss, r.lost]);
            assert_eq!(found, counted.get(&id).copied(), "{}: blocks, full, one failure from loss, lost", top.name);
            let promised = match (top.parity, top.children.len() as u64) {
                (Some(parity), _) => parity,
                (None, children) => children.saturating_sub(1),
            };
            assert!(top.redundancy.is_none_or(|r| r.failures_survived == promised), "{:?}", top.redundancy);
        }
    }

    /// What is not hidden is counted, and each of its copies that could be read was verified.
    fn check_totals(&self, injuries: &Injuries, outcome: &Outcome) {
        let visited: Vec<usize> =
            (0..self.pool.blocks.len()).filter(|index| !self.is_hidden(*index, injuries)).collect();
        let (mut copies, mut parity, mut bytes) = (0, 0, 0);
        let mut is_any_stripe_lost = false;
        let mut is_any_split = false;
        let mut bad: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for index in &visited {
            for row in self.rows(*index, injuries) {
                let Some((device, _)) = row.device else { continue };
                let errors = bad.entry(device).or_default();
                errors.0 += u64::from(row.result == CopyResult::Checksum);
                errors.1 += u64::from(row.result == CopyResult::ReadError);
            }
            for copy in &self.pool.blocks[*index].copies {
                let results = self.results(*index, copy, injuries);
                let is_read = |leaf: usize| matches!(results[leaf], CopyResult::Ok | CopyResult::Checksum);
                let read = || (0..results.len()).filter(|leaf| is_read(*leaf));
                bytes += read().map(|leaf| copy.leaves[leaf].len_bytes).sum::<u64>();
                is_any_split |= is_split(copy);
                if is_striped(copy) {
                    is_any_stripe_lost |= !copy.survives(|leaf| results[leaf] != CopyResult::Ok);
                    copies += 1;
                    parity += parity_leaves(copy).filter(|leaf| is_read(*leaf)).count() as u64;
                } else {
                    copies += read().count() as u64;
                }
            }
        }
        let decoded = visited.iter().filter(|index| !self.is_lost(**index, injuries)).count() as u64;
        let totals = &outcome.totals;
        let pointers: u64 = visited.iter().map(|index| 1 + self.pool.blocks[*index].sharers.len() as u64).sum();
        assert_eq!((totals.blocks, totals.decoded_blocks), (pointers, decoded));
        // What was read in vain of a stripe that cannot be rebuilt may be counted or not.
        let counted = (totals.copies_verified, totals.parity_verified, totals.bytes_read);
        if is_any_split {
            // How many copies the parts are, and whom those are counted to that cannot be told apart, is the reader's.
            return;
        }
        if is_any_stripe_lost {
            assert!(counted.0 <= copies && counted.1 <= parity && counted.2 <= bytes, "{totals:?}");
        } else {
            assert_eq!(counted, (copies, parity, bytes));
        }
        let leaves = outcome
            .vdevs
            .iter()
            .filter(|top| top.vdev_type != "indirect")
            .flat_map(|top| if top.children.is_empty() { std::slice::from_ref(top) } else { &top.children });
        let said: BTreeMap<String, (u64, u64)> = leaves
            .map(|leaf| (leaf.name.clone(), (leaf.checksum_errors, leaf.read_errors)))
            .filter(|(_, errors)| *errors != (0, 0))
            .collect();
        bad.retain(|_, errors| *errors != (0, 0));
        assert_eq!(said, bad, "errors by device: checksum, read");
    }
}

/// A row of evidence.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// Which address.
    copy: usize,
    /// Device and offset on it.
    device: Option<(String, u64)>,
    length_bytes: u64,
    result: CopyResult,
}

/// Whether a copy lies in several places, each of which has a part of it: then its parts are judged together only.
pub(crate) fn is_split(copy: &Copy) -> bool {
    copy.parts.len() > 1 && !is_striped(copy)
}

/// Whether the leaves of a copy are columns with parity.
pub(crate) fn is_striped(copy: &Copy) -> bool {
    copy.parts.iter().any(|part| part.parity > 0)
}

pub(crate) fn parity_leaves(copy: &Copy) -> impl Iterator<Item = usize> {
    copy.parts.iter().flat_map(|part| part.cells[..part.parity].iter().cloned().flatten())
}

/// What is said of a stripe as a whole that cannot be rebuilt.
fn failure(copy: &Copy, results: &[CopyResult]) -> CopyResult {
    let is_too_many = |is_it: &dyn Fn(CopyResult) -> bool| {
        copy.parts.iter().any(|part| {
            let cells = part.cells.iter().filter(|cell| (*cell).clone().all(|leaf| is_it(results[leaf])));
            cells.count() > part.parity
        })
    };
    if is_too_many(&|result| result == CopyResult::Missing) {
        CopyResult::Missing
    } else if is_too_many(&|result| matches!(result, CopyResult::Missing | CopyResult::ReadError)) {
        CopyResult::ReadError
    } else {
        CopyResult::Checksum
    }
}

/// All names of a block that belongs to files: `dataset:/path`; a volume's is that of the dataset. Those of other pointers
/// to it are none of its own.
pub(crate) fn names(block: &MadeBlock) -> BTreeSet<String> {
    names_of(&block.owner, &block.also)
}

/// All names of what these see.
pub(crate) fn names_of(owner: &Reach, also: &[Reach]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for reach in std::iter::once(owner).chain(also) {
        names.extend(reach.paths.iter().map(|path| format!("{}:{path}", reach.dataset)));
        if reach.paths.is_empty() {
            names.insert(reach.dataset.clone());
        }
    }
    names
}
