//! A lost block of a file is called by all its names.

use crate::memory::scrub;
use crate::model::{Injuries, Model, names};
use fixtures::{Content, Damage, DatasetSpec, FileSpec, MadeBlock, Pool, PoolSpec, make};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use proptest::sample::Index;
use std::collections::BTreeSet;
use zfs_scrub::Outcome;
use zfs_scrub::finding::{CopyResult, Finding};

/// Loses all copies of level-0 blocks of files and volumes.
fn lose(pool: &mut Pool, choices: &[Index]) -> Injuries {
    let is_file = |index: &usize| pool.blocks[*index].file_offset_bytes.is_some() && !pool.blocks[*index].embedded;
    let blocks: Vec<usize> = (0..pool.blocks.len()).filter(is_file).collect();
    let mut injuries = Injuries::new();
    let chosen = choices.iter().filter(|_| !blocks.is_empty()).map(|choice| *choice.get(&blocks));
    for block in chosen.collect::<BTreeSet<usize>>() {
        for copy in pool.blocks[block].copies.clone() {
            for leaf in 0..copy.leaves.len() {
                assert!(pool.damage_copy(block, copy.dva_index, Some(leaf), Damage::Random(1)));
                injuries.insert((block, copy.dva_index, leaf), CopyResult::Checksum);
            }
        }
    }
    injuries
}

/// Dataset or snapshot of the first name.
fn holder(finding: &Finding) -> String {
    let dataset = finding.place.dataset.clone().unwrap();
    match &finding.place.snapshot {
        Some(snapshot) => format!("{dataset}@{snapshot}"),
        None => dataset,
    }
}

/// The place of a finding and all its names are those of the block's own pointer.
pub(crate) fn assert_named(pool: &Pool, index: usize, finding: &Finding) {
    let block = &pool.blocks[index];
    let place = &finding.place;
    let (dataset, path) = (holder(finding), place.path.as_ref());
    let first = path.map_or(dataset.clone(), |path| format!("{dataset}:{path}"));
    assert_eq!(finding.place.name(), first);
    let mut all: BTreeSet<String> = place.also_in.iter().cloned().collect();
    assert!(all.len() == place.also_in.len() && all.insert(first), "a name is there twice: {finding:#?}");
    assert_eq!(all, names(block), "{finding:#?}");
    // A live dataset comes before snapshots.
    let is_live = std::iter::once(&block.owner).chain(&block.also).any(|reach| !reach.dataset.contains('@'));
    assert_eq!(place.snapshot.is_none(), is_live, "{finding:#?}");
    let file = pool.files.iter().find(|file| file.dataset == dataset && file.object == block.object).unwrap();
    let start = block.file_offset_bytes.unwrap();
    let length = if file.paths.is_empty() { block.lsize } else { block.lsize.min(file.content.len() - start) };
    assert_eq!((place.file_offset, place.file_length), (Some(start), Some(length)), "{finding:#?}");
}

/// Every name of every lost block is that of a damaged file, and its bytes are among those lost.
fn assert_files(outcome: &Outcome) {
    let of_blocks = || outcome.findings.iter().filter(|finding| finding.is_about_block());
    for finding in of_blocks() {
        let name = finding.place.name();
        let file = outcome.files.iter().find(|file| file.path == name).unwrap_or_else(|| panic!("{name} is no file"));
        let (start, length) = (finding.place.file_offset.unwrap(), finding.place.file_length.unwrap());
        let is_within = |(from, len): &(u64, u64)| *from <= start && start + length <= from + len;
        assert!(file.ranges.iter().any(is_within), "{name}: {start}+{length} is not in {:?}", file.ranges);
        assert_eq!(file.lost_bytes, file.ranges.iter().map(|(_, len)| len).sum::<u64>());
    }
    let names: BTreeSet<String> = of_blocks().map(|finding| finding.place.name()).collect();
    assert_eq!(outcome.files.len(), names.len());
    assert_eq!(outcome.summary.damaged_files, names.len() as u64);
}

proptest! {
    #![proptest_config(crate::cases(60))]

    #[test]
    fn a_lost_block_of_a_file_has_all_its_names(seed in any::<u64>(), choices in vec(any::<Index>(), 1..25)) {
        let mut pool = make(&PoolSpec::random(seed));
        let injuries = lose(&mut pool, &choices);
        let outcome = scrub(&pool, &[]);
        let model = Model::new(&pool);
        model.check(&injuries, &outcome);
        for finding in outcome.findings.iter().filter(|finding| finding.is_about_block()) {
            assert_named(&pool, model.block_of(finding), finding);
        }
        assert_files(&outcome);
    }
}

/// A file system of many files, whose array of dnodes takes several blocks.
fn many_files() -> Pool {
    let mut dataset = DatasetSpec::new("many");
    for number in 0..120 {
        let name = format!("dir{}/file{number}", number % 3);
        dataset = dataset.with_file(FileSpec::new(&name, Content::text(number, 700)));
    }
    make(&PoolSpec::new("tank").with_dataset(dataset))
}

#[test]
fn a_lost_block_of_dnodes_names_the_files_that_are_lost_with_it() {
    let pool = many_files();
    let is_dnodes = |block: &MadeBlock| block.owner.dataset == "tank/many" && block.object == 0 && block.level == 0;
    let directories: BTreeSet<u64> =
        pool.blocks.iter().filter(|block| block.object_type == 20).map(|block| block.object).collect();
    let mut looked_at = 0;
    for index in (0..pool.blocks.len()).filter(|index| is_dnodes(&pool.blocks[*index])) {
        let range = pool.blocks[index].block * 32..(pool.blocks[index].block + 1) * 32;
        // Without its directories nothing has a name, and the first block describes the file system itself.
        if range.start == 0 || directories.iter().any(|directory| range.contains(directory)) {
            continue;
        }
        looked_at += 1;
        let mut damaged = many_files();
        for copy in damaged.blocks[index].copies.clone() {
            assert!(damaged.damage_copy(index, copy.dva_index, None, Damage::Zero));
        }
        let outcome = scrub(&damaged, &[]);
        let files = pool.files.iter().filter(|file| file.dataset == "tank/many" && range.contains(&file.object));
        let expected: BTreeSet<String> = files.flat_map(|file| file.paths.clone()).collect();
        let [finding] = outcome.findings.as_slice() else { panic!("one finding: {:#?}", outcome.findings) };
        assert_eq!(finding.hidden_paths.iter().cloned().collect::<BTreeSet<_>>(), expected);
        let named: BTreeSet<String> = outcome.files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(named, expected.iter().map(|path| format!("tank/many:{path}")).collect());
        assert!(outcome.files.iter().all(|file| file.is_whole));
    }
    assert!(looked_at >= 2, "{looked_at} blocks");
}
