//! E01, the images of EnCase and other forensic programs: chunks, usually of 32 KiB, compressed or not, in segments
//! `.E01`, `.E02`, ..., `.E99`, `.EAA`, ...
//!
//! A segment begins with a header of 13 bytes and is a chain of sections. `sectors` holds chunks; the `table` behind it says
//! where each begins, and `table2` says it again. Tables do not say which chunks of the disk they are about: that follows
//! from all tables before them, see [`segments`].
//!
//! Source: Joachim Metz, "Expert Witness Compression Format (EWF)", libewf's documentation.

mod chunks;
mod section;
mod segments;
mod unread;
mod volume;

use super::image::Image;
use super::{Chain, ImageFile, unusable};
use crate::media::{MediaError, Notes, ReadAt};
use chunks::Chunks;
use section::FileHeader;
use std::sync::Arc;

/// Begins an image of version 1.
const SIGNATURE: &[u8; 8] = b"EVF\x09\x0d\x0a\xff\x00";
/// Begins what is of the family, but no disk that can be read here, with what it is.
const OTHERS: [(&[u8; 8], &str); 3] = [
    (b"EVF2\x0d\x0a\x81\x00", "it is an Ex01 image: export it to E01 or a raw image (ewfexport), and give that"),
    (b"LVF\x09\x0d\x0a\xff\x00", "it is an L01 image, which holds files, no disk"),
    (b"LEF2\x0d\x0a\x81\x00", "it is an Lx01 image, which holds files, no disk"),
];

/// Whether `file` begins like a segment of an image.
pub(super) fn is(file: &dyn ReadAt) -> bool {
    let mut found = [0; 8];
    file.read_at(&mut found, 0).is_ok() && (found == *SIGNATURE || OTHERS.iter().any(|(other, _)| **other == found))
}

/// Opens the disk of an E01 image, with the segments beside the first.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Arc<dyn ReadAt>, MediaError> {
    let header = FileHeader::read(&*file.bytes).map_err(|_| unusable(&file.path, "its first bytes cannot be read"))?;
    if let Some((_, why)) = OTHERS.iter().find(|(other, _)| **other == header.signature) {
        return Err(unusable(&file.path, *why));
    }
    if header.number != 1 {
        let why = format!("it is segment {} of an E01 image: give the first one (.E01)", header.number);
        return Err(unusable(&file.path, why));
    }
    let notes = Notes::default();
    let found = segments::find(file, chain, &notes)?;
    let Some(volume) = found.volume.clone() else {
        return Err(unusable(&file.path, "no section of it says how large the disk is, or all that do are damaged"));
    };
    let tables = segments::place(&found, volume.chunks(), file, &notes);
    let layout = Box::new(Chunks::new(volume.clone(), tables, found.unread));
    let mut image = Image::new(volume.disk_bytes, layout, found.files, None);
    if volume.sector_bytes == 4096 {
        image.sector = volume.sector_bytes;
    }
    image.notes = notes;
    Ok(Arc::new(image))
}

/// Adler-32 (RFC 1950, section 8).
fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    let (mut low, mut high) = (1_u32, 0_u32);
    // So many bytes cannot overflow the sums.
    for piece in bytes.chunks(5552) {
        for &byte in piece {
            low = low.wrapping_add(byte.into());
            high = high.wrapping_add(low);
        }
        low %= MODULUS;
        high %= MODULUS;
    }
    high << 16 | low
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
