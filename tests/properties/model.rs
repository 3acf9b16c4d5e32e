//! What a scrub has to say of a pool with injuries, by what its maker knows.

use fixtures::{Endian, Family, LeafSpan, MadeBlock, Pool};
use std::collections::{BTreeMap, BTreeSet};
use zfs_scrub::finding::{CopyResult, Finding, Kind, Severity};
use zfs_scrub::outcome::{NotCheckedReason, Outcome, exit};

/// Object type of the pool's configuration.
const PACKED_NVLIST: u8 = 3;
/// The object directory of the MOS.
const DIRECTORY: u64 = 1;
const MOS: &str = "mos";

/// Bad copies by block, address and side of the mirror.
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

    /// Places and results of all copies of a block, in the order of a report.
    fn copies(&self, index: usize, injuries: &Injuries) -> Vec<(usize, LeafSpan, CopyResult)> {
        let mut copies = Vec::new();
        for copy in &self.pool.blocks[index].copies {
            for (leaf, span) in copy.leaves.iter().enumerate() {
                let result = injuries.get(&(index, copy.dva_index, leaf)).copied().unwrap_or(CopyResult::Ok);
                copies.push((copy.dva_index, *span, result));
            }
        }
        copies
    }

    pub(crate) fn is_lost(&self, index: usize, injuries: &Injuries) -> bool {
        let copies = self.copies(index, injuries);
        !copies.is_empty() && copies.iter().all(|(_, _, result)| *result != CopyResult::Ok)
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

    fn has_config(&self, injuries: &Injuries) -> bool {
        self.can_read(injuries, |block| block.object_type == PACKED_NVLIST && block.level == 0)
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
        expected.retain(|index| !self.is_hidden(*index, injuries));
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
        self.check_not_checked(outcome, hidden_blocks, hidden_objects);
        let summary = &outcome.summary;
        assert_eq!((summary.degraded_blocks, summary.lost_blocks), (degraded, lost));
        self.check_totals(injuries, outcome);
        let is_incomplete = !self.has_directory(injuries);
        let bits = [(exit::DAMAGED, lost > 0), (exit::DEGRADED, lost == 0 && degraded > 0)];
        let bits = bits.into_iter().chain([(exit::INCOMPLETE, is_incomplete)]);
        let status: u8 = bits.filter(|(_, is_set)| *is_set).map(|(bit, _)| bit).sum();
        assert_eq!(summary.exit_status, status);
    }

    /// What lost blocks hide is said, and nothing else was left out.
    fn check_not_checked(&self, outcome: &Outcome, hidden_blocks: u64, hidden_objects: u64) {
        let mut blocks = None;
        let mut objects = None;
        for left in &outcome.not_checked {
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
        let copies = self.copies(index, injuries);
        let found: Vec<_> = finding.copies.iter().map(|copy| (copy.copy, copy.device.clone(), copy.result)).collect();
        let device = |span: &LeafSpan| Some(self.pool.devices[span.device].name.clone());
        let wanted: Vec<_> = copies.iter().map(|(dva, span, result)| (*dva, device(span), *result)).collect();
        assert_eq!(found, wanted, "{finding:#?}");
        for (copy, (dva, span, _)) in finding.copies.iter().zip(&copies) {
            let made = &block.copies[*dva];
            assert_eq!((copy.vdev as usize, copy.offset_bytes), (made.top, made.offset_bytes));
            assert_eq!((copy.size_bytes, copy.length_bytes), (made.asize_bytes, block.psize));
            assert_eq!(copy.device_offset_bytes, Some(span.offset_bytes));
        }
        let is_lost = self.is_lost(index, injuries);
        let severity = if is_lost { Severity::Damaged } else { Severity::Degraded };
        assert_eq!((finding.severity, finding.recoverable), (severity, !is_lost));
        assert_eq!(finding.place.object_type.map(|kind| kind.0), Some(block.object_type));
        let is_root = block.owner.dataset == MOS && block.level < 0;
        let has_checksum = copies.iter().any(|(_, _, result)| *result == CopyResult::Checksum);
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

    /// Devices of which at least ten copies are bad, and one in ten.
    fn bad_devices(&self, injuries: &Injuries) -> BTreeSet<String> {
        let mut counted = vec![(0, 0); self.pool.devices.len()];
        for index in (0..self.pool.blocks.len()).filter(|index| !self.is_hidden(*index, injuries)) {
            for (_, span, result) in self.copies(index, injuries) {
                let (copies, bad) = &mut counted[span.device];
                *copies += 1;
                *bad += u64::from(result != CopyResult::Ok);
            }
        }
        let named = self.pool.devices.iter().zip(counted);
        named
            .filter(|(_, (copies, bad))| *bad >= 10 && bad * 10 >= *copies)
            .map(|(device, _)| device.name.clone())
            .collect()
    }

    fn check_others(&self, injuries: &Injuries, others: &[&Finding]) {
        let (bad, others): (Vec<&Finding>, Vec<&Finding>) =
            others.iter().partition(|finding| finding.kind == Kind::MemberBad);
        let named: BTreeSet<String> = bad.iter().filter_map(|finding| finding.place.device.clone()).collect();
        assert_eq!((named, bad.len()), (self.bad_devices(injuries), self.bad_devices(injuries).len()));
        let root = self.family.find(MOS, 0, -1, 0).unwrap();
        let mut wanted = Vec::new();
        if !self.has_directory(injuries) {
            // A lost root block is one finding, with its copies.
            wanted.extend((!self.is_lost(root, injuries)).then_some(Kind::RootLost));
        } else if !self.has_config(injuries) {
            wanted.push(Kind::ConfigIncomplete);
        }
        let found: Vec<Kind> = others.iter().map(|finding| finding.kind).collect();
        assert_eq!(found, wanted, "{others:#?}");
    }

    /// What is not hidden is counted, and each of its copies that could be read was verified.
    fn check_totals(&self, injuries: &Injuries, outcome: &Outcome) {
        let visited: Vec<usize> =
            (0..self.pool.blocks.len()).filter(|index| !self.is_hidden(*index, injuries)).collect();
        let mut copies = 0;
        let mut bytes = 0;
        let mut bad = vec![(0, 0); self.pool.devices.len()];
        for index in &visited {
            for (_, span, result) in self.copies(*index, injuries) {
                if result == CopyResult::ReadError {
                    bad[span.device].1 += 1;
                    continue;
                }
                copies += 1;
                bytes += span.len_bytes;
                bad[span.device].0 += u64::from(result == CopyResult::Checksum);
            }
        }
        let decoded = visited.iter().filter(|index| !self.is_lost(**index, injuries)).count() as u64;
        let totals = &outcome.totals;
        assert_eq!((totals.blocks, totals.decoded_blocks), (visited.len() as u64, decoded));
        assert_eq!((totals.copies_verified, totals.bytes_read), (copies, bytes));
        let leaves = outcome
            .vdevs
            .iter()
            .flat_map(|top| if top.children.is_empty() { std::slice::from_ref(top) } else { &top.children });
        let said: Vec<_> = leaves.map(|leaf| (leaf.checksum_errors, leaf.read_errors)).collect();
        assert_eq!(said, bad, "errors by device: checksum, read");
    }
}

/// All names of a block that belongs to files: `dataset:/path`; a volume's is that of the dataset.
pub(crate) fn names(block: &MadeBlock) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for reach in std::iter::once(&block.owner).chain(&block.also) {
        names.extend(reach.paths.iter().map(|path| format!("{}:{path}", reach.dataset)));
        if reach.paths.is_empty() {
            names.insert(reach.dataset.clone());
        }
    }
    names
}
