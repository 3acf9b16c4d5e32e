//! J. Tables of names whose checksums are right and whose content is not.

use crate::support::{Disks, graft};

/// Waits for the passes over directories: "leaf block N has no leaf header", the entries of the other leaves listed. Blocks and
/// checksums are fine, which is all that a scrub answers for.
#[test]
fn case_j1_a_zeroed_leaf_of_a_directory_ends() {
    let Some(mut graft) = graft("directories") else { return };
    let head = graft.dataset("dirs");
    let directory = graft.file(head, "/big");
    // Block 0 is the header of the table.
    let leaf = graft.find(head, directory, 0, 2).unwrap();
    graft.plain(leaf).fill(0);
    graft.seal();
    let answer = Disks::one(graft.image()).scrub();
    answer.is_clean().says("No known data errors").is_expected("j1");
    assert!(answer.codes().is_empty() && answer.findings("ZC0303").is_empty());
}
