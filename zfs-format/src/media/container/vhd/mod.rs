//! VHD, the disk image of Virtual PC, Azure and XCP-ng: the bytes of the disk with a footer behind them (fixed), or a
//! table of blocks, usually of 2 MiB, each behind a bitmap of its sectors (dynamic, differencing).
//!
//! A sector whose bit is 0 was never written: it is in the parent, or zero where there is none. A dynamic image has its
//! footer at the front, too.
//!
//! The size of the disk is the field `current size`. QEMU takes cylinders, heads and sectors instead for images of some
//! programs (block/vpc.c), which is never more; what lies behind that would be hidden here.
//!
//! Source: Microsoft "Virtual Hard Disk Image Format Specification", version 1.0 (2006).

mod blocks;
mod footer;
mod header;
mod parent;

use super::image::{Image, ImagePart, Layout};
use super::{Chain, ImageFile, bitmap, unusable};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use blocks::{Blocks, Flat};
use footer::{Footer, Kind};
use header::Header;
use std::path::Path;
use std::sync::Arc;

/// Whether `file` is a VHD image: it begins with a footer, or ends with an undamaged one.
pub(super) fn is(file: &dyn ReadAt) -> bool {
    footer::begins_with(file) || footer::at_end(file).is_some()
}

/// Opens the disk of a VHD image.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let notes = Notes::default();
    let footer = choose(file, &notes)?;
    let (layout, parent): (Box<dyn Layout>, Option<Arc<dyn ReadAt>>) = match footer.kind {
        Kind::Fixed => (Box::new(Flat { data_end: footer::data_end(&*file.bytes) }), None),
        Kind::Dynamic => (Box::new(Blocks::new(&Header::read(file, &footer, &notes)?)), None),
        Kind::Differencing => {
            let header = Header::read(file, &footer, &notes)?;
            (Box::new(Blocks::new(&header)), Some(parent::open(file, &header, chain, &notes)?))
        }
    };
    let mut image = Image::new(footer.disk_bytes, layout, vec![ImagePart::from(file)], parent);
    image.notes = notes;
    Ok(Arc::new(image))
}

/// The footer to go by: the one at the end, or else its copy at the front.
fn choose(file: &ImageFile, notes: &Notes) -> Result<Footer, MediaError> {
    let (front, end) = (footer::at_front(&*file.bytes), footer::at_end(&*file.bytes));
    let damaged = |message: &str| notes.add(NoteKind::ImageDamaged, &file.path, message);
    match (front, end) {
        (Some(front), Some(end)) => {
            if front != end {
                damaged("the footer at the end and its copy at the front differ; the one at the end is used");
            }
            Ok(end)
        }
        (None, Some(end)) => {
            if end.kind != Kind::Fixed {
                damaged("the copy of the footer at the front is damaged; the footer at the end is used");
            }
            Ok(end)
        }
        (Some(front), None) if front.kind != Kind::Fixed => {
            damaged("the footer at the end is damaged or missing; its copy at the front is used");
            Ok(front)
        }
        _ => {
            Err(unusable(&file.path, "no usable VHD footer: the one at the end and its copy at the front are damaged"))
        }
    }
}

/// The big-endian number at `offset` of `bytes`; 0 beyond their end.
fn be_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

/// As [`be_u32`].
fn be_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_be_bytes(*word))
}

/// The UUID at `offset` of `bytes`.
fn uuid(bytes: &[u8], offset: usize) -> [u8; 16] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// The checksum of a footer or header whose own checksum is at `at`: the complement of the sum of all other bytes.
fn checksum(bytes: &[u8], at: usize) -> u32 {
    let own = at..at.saturating_add(4);
    let others = bytes.iter().enumerate().filter(|(index, _)| !own.contains(index));
    !others.fold(0_u32, |sum, (_, &byte)| sum.wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests;
