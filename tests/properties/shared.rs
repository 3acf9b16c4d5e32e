//! Pools with an eventful past: whatever was shared, cloned, promoted and destroyed, the blocks that a scrub visits are
//! those the maker allocated, each once.

use crate::healthy::assert_whole;
use crate::memory::{options, scrub, scrub_with};
use crate::model::{Injuries, Model, names_of};
use crate::names::assert_named;
use fixtures::{Damage, MadeBlock, Pool, PoolSpec, Sharer, make};
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use proptest::sample::Index;
use std::collections::BTreeSet;
use zfs_scrub::finding::{CopyResult, Finding, Place};

/// Injures a leaf of a block.
fn hurt(pool: &mut Pool, injuries: &mut Injuries, place: (usize, usize, usize)) {
    let (block, dva, leaf) = place;
    assert!(pool.damage_copy(block, dva, Some(leaf), Damage::Random(1)));
    assert_eq!(injuries.insert(place, CopyResult::Checksum), None);
}

/// All leaves of a block.
fn leaves(block: &MadeBlock) -> Vec<(usize, usize)> {
    block.copies.iter().flat_map(|copy| (0..copy.leaves.len()).map(|leaf| (copy.dva_index, leaf))).collect()
}

fn is_data(block: &MadeBlock) -> bool {
    block.file_offset_bytes.is_some() && !block.embedded
}

/// Hurts every block of the pool at one leaf: those of metadata can still be read, so nothing is hidden.
fn hurt_all(pool: &mut Pool, choice: usize) -> Injuries {
    let mut injuries = Injuries::new();
    for block in 0..pool.blocks.len() {
        let leaves = leaves(&pool.blocks[block]);
        if let Some((dva, leaf)) = leaves.get((choice + block) % leaves.len().max(1)) {
            assert!(leaves.len() > 1 || is_data(&pool.blocks[block]));
            hurt(pool, &mut injuries, (block, *dva, *leaf));
        }
    }
    injuries
}

/// Loses all copies of these blocks of files.
fn lose(pool: &mut Pool, choices: &[Index]) -> Injuries {
    let blocks: Vec<usize> = (0..pool.blocks.len()).filter(|index| is_data(&pool.blocks[*index])).collect();
    let mut injuries = Injuries::new();
    let chosen = choices.iter().filter(|_| !blocks.is_empty()).map(|choice| *choice.get(&blocks));
    for block in chosen.collect::<BTreeSet<usize>>() {
        for (dva, leaf) in leaves(&pool.blocks[block]) {
            hurt(pool, &mut injuries, (block, dva, leaf));
        }
    }
    injuries
}

/// Numbers of a place, and all names of it.
type Told = ([u64; 4], BTreeSet<String>);

fn told(place: &Place) -> Told {
    let numbers = [place.objset.unwrap(), place.object.unwrap(), place.level.unwrap() as u64, place.block.unwrap()];
    (numbers, place.also_in.iter().cloned().chain([place.name()]).collect())
}

fn wanted(sharer: &Sharer) -> Told {
    let numbers = [sharer.owner.objset, sharer.object, sharer.level as u64, sharer.block];
    (numbers, names_of(&sharer.owner, &sharer.also))
}

/// The other pointers to a lost block are told, each with all its names.
fn assert_references(block: &MadeBlock, finding: &Finding) {
    let found: Vec<Told> = finding.references.iter().map(told).collect();
    let wanted: Vec<Told> = block.sharers.iter().map(wanted).collect();
    let set = |told: &[Told]| told.iter().cloned().collect::<BTreeSet<Told>>();
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    assert_eq!(set(&found), set(&wanted), "{finding:#?}");
}

proptest! {
    #![proptest_config(crate::cases(40))]

    #[test]
    fn an_eventful_pool_is_clean_and_counted_as_its_maker_counts(seed in any::<u64>(), past in vec(any::<u64>(), 0..50)) {
        let pool = make(&PoolSpec::eventful(seed, &past));
        assert_whole(&pool, &scrub(&pool, &[]));
    }

    /// Each block is bad somewhere, so each block that is visited is a finding: the set of findings is the set of blocks.
    #[test]
    fn every_block_is_visited_once(seed in any::<u64>(), past in vec(any::<u64>(), 0..50), choice in 0..60usize) {
        let mut pool = make(&PoolSpec::eventful(seed, &past));
        let injuries = hurt_all(&mut pool, choice);
        let outcome = scrub(&pool, &[]);
        let stored = pool.blocks.iter().filter(|block| !block.embedded).count();
        assert_eq!(outcome.findings.iter().filter(|finding| finding.is_about_block()).count(), stored);
        Model::new(&pool).check(&injuries, &outcome);
    }

    #[test]
    fn a_lost_block_has_all_names_of_all_pointers_to_it(
        seed in any::<u64>(),
        past in vec(any::<u64>(), 0..50),
        choices in vec(any::<Index>(), 1..40),
    ) {
        let mut pool = make(&PoolSpec::eventful(seed, &past));
        let injuries = lose(&mut pool, &choices);
        let outcome = scrub(&pool, &[]);
        let model = Model::new(&pool);
        model.check(&injuries, &outcome);
        for finding in outcome.findings.iter().filter(|finding| finding.is_about_block()) {
            let index = model.block_of(finding);
            assert_named(&pool, index, finding);
            assert_references(&pool.blocks[index], finding);
        }
    }

    #[test]
    fn threads_make_no_difference(seed in any::<u64>(), past in vec(any::<u64>(), 20..50), choices in vec(any::<Index>(), 1..20)) {
        let mut pool = make(&PoolSpec::eventful(seed, &past));
        lose(&mut pool, &choices);
        assert_eq!(scrub_with(&pool, &[], &options(1)), scrub_with(&pool, &[], &options(4)));
    }
}

/// The cases above are worth something only if there is something to share.
#[test]
fn many_eventful_pools_share_blocks() {
    let (mut deduped, mut cloned, mut in_clones) = (0, 0, 0);
    for seed in 0..40 {
        let past: Vec<u64> = (0..40).map(|number| seed * 1000 + number).collect();
        let pool = make(&PoolSpec::eventful(seed, &past));
        deduped += u64::from(pool.totals.dedup_saved_bytes > 0);
        cloned += u64::from(pool.totals.cloned_bytes > 0);
        let is_in_clone = |block: &MadeBlock| block.also.iter().any(|reach| reach.dataset.starts_with("eventful/c"));
        in_clones += u64::from(pool.blocks.iter().any(is_in_clone));
    }
    assert!(deduped > 10 && cloned > 10 && in_clones > 10, "{deduped}, {cloned}, {in_clones} of 40");
}
