//! Whether two devices carry each other's labels.
//!
//! Checks: when blocks are bad, whether all of them are good once two devices stand in each other's place. Checksums
//! of blocks say where content belongs, whatever a label says; so this is proof, and it needs no pattern.
//! It relies on the findings of the walk and gathers nothing.

use crate::finding::{Finding, Kind, Place, Severity};
use zfs_format::block::{BlockReader, Work};
use zfs_format::ondisk::blkptr::Blkptr;
use zfs_format::pool::Assembly;
use zfs_format::vdev::{LeafId, VdevTree};

/// Fewer bad blocks prove nothing.
const SAMPLES_MIN: usize = 3;
/// Bad blocks that have to fit.
const SAMPLES_MAX: usize = 16;
/// Larger blocks are no samples: they would be read for each pair of devices.
const SAMPLE_BYTES_MAX: u64 = 1 << 20;
/// Devices among which pairs are tried; beyond it there are too many pairs.
const DEVICES_MAX: usize = 64;

/// A finding when two devices stand in each other's place.
pub(crate) fn check(assembly: &Assembly, findings: &[Finding]) -> Option<Finding> {
    let tree = &assembly.tree;
    let mut samples = samples(findings);
    if samples.len() < SAMPLES_MIN {
        return None;
    }
    let bad = samples.len();
    // A device of which one cell is bad may fit elsewhere by chance, but not so what was good before.
    samples.insert(0, assembly.chosen.uberblock.rootbp);
    let given: Vec<usize> =
        tree.leaves.iter().enumerate().filter(|(_, leaf)| leaf.medium.is_some()).map(|(index, _)| index).collect();
    if given.len() > DEVICES_MAX {
        return None;
    }
    let mut work = Work::default();
    for (at, &first) in given.iter().enumerate() {
        for &second in given.iter().skip(at + 1) {
            let Some(exchanged) = exchanged(tree, first, second) else { continue };
            let reader = BlockReader::new(&exchanged).with_salt(assembly.salt.as_ref()).without_search();
            if samples.iter().all(|bp| is_whole(reader, bp, &mut work)) {
                return finding(tree, first, second, bad);
            }
        }
    }
    None
}

/// Pointers to blocks that have a bad copy, small ones first: most pairs fail at the first.
fn samples(findings: &[Finding]) -> Vec<Blkptr> {
    let is_bad = |finding: &&Finding| finding.severity != Severity::Note && !finding.copies.is_empty();
    let bad = findings.iter().filter(is_bad).filter_map(|finding| finding.pointer);
    let is_sample = |bp: &Blkptr| bp.psize_bytes() <= SAMPLE_BYTES_MAX && !bp.checksum_kind().is_none();
    let mut samples: Vec<Blkptr> = bad.filter(is_sample).take(SAMPLES_MAX).collect();
    samples.sort_by_key(Blkptr::psize_bytes);
    samples
}

fn exchanged(tree: &VdevTree, first: usize, second: usize) -> Option<VdevTree> {
    let mut exchanged = tree.clone();
    let medium = |index: usize| tree.leaf(LeafId(index)).and_then(|leaf| leaf.medium.clone());
    exchanged.leaves.get_mut(first)?.medium = medium(second);
    exchanged.leaves.get_mut(second)?.medium = medium(first);
    Some(exchanged)
}

/// Every copy that can be judged is good, and one is.
fn is_whole(reader: BlockReader<'_>, bp: &Blkptr, work: &mut Work) -> bool {
    let copies = reader.verify(bp, work, &mut |_, _, _| {}).copies;
    copies.iter().any(|copy| copy.state.is_good())
        && copies.iter().all(|copy| copy.state.is_good() || copy.state.is_unknown())
}

fn finding(tree: &VdevTree, first: usize, second: usize, samples: usize) -> Option<Finding> {
    let name = |index: usize| tree.leaves.get(index).map(|leaf| leaf.name.clone());
    let (first, second) = (name(first)?, name(second)?);
    let message = format!(
        "the contents of {first} and {second} are exchanged: with each in the other's place all {samples} bad blocks that \
         were tried are good"
    );
    let place = Place { device: Some(first), ..Place::default() };
    Some(Finding::new(Kind::ContentsExchanged, place, message))
}
