//! What the media have to say of themselves: disk images with damaged tables, chains that do not fit, partition tables.
//!
//! Checks: the notes of each member's medium, at the end of the run. It reads nothing: the media noted what they met.

use crate::finding::{Finding, Kind, Place};
use std::collections::BTreeSet;
use zfs_format::media::{Note, NoteKind, ReadAt};
use zfs_format::vdev::VdevTree;

/// Findings about the images and partition tables in which the members of a pool lie.
pub(crate) fn check(tree: &VdevTree) -> Vec<Finding> {
    let mut told: BTreeSet<Note> = BTreeSet::new();
    let mut findings = Vec::new();
    for leaf in &tree.leaves {
        let Some(device) = &leaf.medium else { continue };
        for note in device.notes() {
            // Two members may lie in two partitions of one image.
            if told.insert(note.clone()) {
                let place = Place { device: Some(leaf.name.clone()), ..Place::default() };
                let message = format!("{}: {}", note.file.display(), note.message);
                findings.push(Finding::new(kind_of(note.kind), place, message));
            }
        }
    }
    findings
}

fn kind_of(kind: NoteKind) -> Kind {
    match kind {
        NoteKind::ImageDamaged => Kind::ImageDamaged,
        NoteKind::ImageTruncated => Kind::ImageTruncated,
        NoteKind::ChainMismatch => Kind::ImageChainMismatch,
        NoteKind::ImageUnclean => Kind::ImageUnclean,
        NoteKind::NewerImage => Kind::ImageNewerBeside,
        NoteKind::FormatGuessed => Kind::ImageFormatGuessed,
        NoteKind::ManifestMismatch => Kind::ImageManifestMismatch,
        NoteKind::PartitionTable => Kind::PartitionTableDamaged,
    }
}
