//! VMDK, the disk image of VMware: a descriptor names extents, which are flat or have tables.
//!
//! | what | where |
//! | --- | --- |
//! | monolithicSparse, streamOptimized | one hosted sparse extent with the descriptor inside |
//! | twoGbMaxExtentSparse | hosted sparse extents `-s001.vmdk`, ... |
//! | monolithicFlat, twoGbMaxExtentFlat, vmfs, fullDevice, partitionedDevice | flat extents: files or devices |
//! | vmfsSparse, seSparse | what ESXi writes for snapshots: `-delta.vmdk`, `-sesparse.vmdk` |
//!
//! The type that the descriptor names is not asked: its extents say all. An extent that cannot be had costs its range of the disk.
//! A snapshot is a VMDK with a parent; identifiers tell whether the parent was changed since.
//!
//! Source: VMware, Virtual Disk Format 1.1 and 5.0; QEMU block/vmdk.c.

mod descriptor;
mod grains;
mod header;
mod markers;
mod newer;

use super::image::{Image, ImagePart, Layout, Place, Run};
use super::{Chain, ImageFile, unusable};
use crate::media::{MediaError, NoteKind, Notes, ReadAt};
use descriptor::{Descriptor, ExtentKind, ExtentLine};
use grains::Grains;
use header::{Format, Header};
use markers::Walk;
use std::sync::Arc;

/// Opens the disk of a VMDK image; `None` where the file is none. The flat extent of one is a raw image, but may have newer images
/// beside it, which is noted.
///
/// # Errors
/// [`MediaError::Container`] where nothing of it can be read.
pub(super) fn open(file: &ImageFile, chain: &Chain<'_>) -> Result<Option<Arc<dyn ReadAt>>, MediaError> {
    let format = Format::of(&*file.bytes);
    if format.is_none() && !descriptor::is_text(&*file.bytes) {
        if has_lost_header(&*file.bytes) {
            let why = "the header in its first sector is destroyed (the descriptor behind it is there): take the sector from a \
                copy, or let VMware repair it (vmware-vdiskmanager -R)";
            return Err(unusable(&file.path, why));
        }
        return Ok(newer::noted(file, chain));
    }
    let own = read_own(file, format)?;
    let notes = Notes::default();
    let mut builder =
        Builder { image: file, chain, notes: &notes, files: vec![ImagePart::from(file)], pieces: Vec::new() };
    let parent = match &own {
        Own::Extent(header, described) => {
            let is_alone = described.is_none();
            if is_alone {
                refuse_part(file, chain)?;
            }
            builder.note_header(header, file);
            builder.add_sparse(header, 0, header.disk_bytes)?;
            builder.note_alone(is_alone, format);
            open_parent(file, described.as_ref(), chain, &notes)?
        }
        Own::Descriptor(described) => {
            builder.add_all(&described.extents)?;
            open_parent(file, Some(described), chain, &notes)?
        }
    };
    if chain.is_first() {
        newer::note(file, chain, &notes);
    }
    let Builder { files, pieces, .. } = builder;
    let size = pieces.last().map_or(0, |piece| piece.start.saturating_add(piece.length));
    if let Some(parent) = parent.as_ref().filter(|parent| parent.size_bytes() != size) {
        let message = format!("its disk has {size} bytes, that of its parent {}", parent.size_bytes());
        notes.add(NoteKind::ChainMismatch, &file.path, message);
    }
    let mut image = Image::new(size, Box::new(Extents { pieces }), files, parent);
    image.notes = notes;
    Ok(Some(Arc::new(image)))
}

/// What the named file is.
enum Own {
    /// An extent, perhaps with a descriptor inside.
    Extent(Header, Option<Descriptor>),
    /// A descriptor that names the extents.
    Descriptor(Descriptor),
}

fn read_own(file: &ImageFile, format: Option<Format>) -> Result<Own, MediaError> {
    let bad = |why: String| unusable(&file.path, why);
    let parse = |bytes: &[u8]| {
        let described = Descriptor::parse(bytes).map_err(bad)?;
        if described.is_encrypted {
            return Err(bad(
                "vSphere encrypted it: only a decrypted copy can be read (Storage Policy: datastore default)".into(),
            ));
        }
        Ok(described)
    };
    let Some(format) = format else {
        let described = parse(&header::descriptor_bytes(&*file.bytes, (0, u64::MAX))?)?;
        return Ok(Own::Descriptor(described));
    };
    let header = Header::read(format, &*file.bytes).map_err(|why| bad(format!("no usable VMDK header: {why}")))?;
    let described = match header.descriptor {
        Some(place) => match header::descriptor_bytes(&*file.bytes, place) {
            Ok(bytes) if descriptor::is_marked(&bytes) => Some(parse(&bytes)?),
            Ok(_) | Err(MediaError::OutOfRange { .. } | MediaError::Read { .. }) => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    match described {
        Some(described) if header.disk_bytes == 0 => Ok(Own::Descriptor(described)),
        None if header.disk_bytes == 0 => Err(bad("it has neither a disk nor a descriptor".to_owned())),
        described => Ok(Own::Extent(header, described)),
    }
}

/// Whether `file` is a sparse extent with a destroyed first sector.
fn has_lost_header(file: &dyn ReadAt) -> bool {
    let mut start = [0; 64];
    file.read_at(&mut start, 512).is_ok() && descriptor::is_marked(&start)
}

/// Fails if a descriptor beside names `file` as one of its extents: that descriptor is the disk.
fn refuse_part(file: &ImageFile, chain: &Chain<'_>) -> Result<(), MediaError> {
    let Some(whole) = newer::descriptors(&file.path, chain).find(|found| found.has_extent(&file.path)) else {
        return Ok(());
    };
    let name = whole.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(unusable(&file.path, format!("it is one extent of a disk: give {name}, its descriptor")))
}

fn open_parent(
    file: &ImageFile,
    described: Option<&Descriptor>,
    chain: &Chain<'_>,
    notes: &Notes,
) -> Result<Option<Arc<dyn ReadAt>>, MediaError> {
    let Some(described) = described.filter(|described| described.is_child()) else { return Ok(None) };
    let bad = |why: String| unusable(&file.path, format!("it holds only what was written since a snapshot: {why}"));
    let Some(hint) = &described.parent else { return Err(bad("and does not name its parent".to_owned())) };
    let (parent, chain) = chain.open_parent(&file.path, hint).map_err(|error| match error {
        MediaError::Container { why, .. } => {
            bad(format!("{why}; copy its parent and the extents of that to its folder"))
        }
        other => other,
    })?;
    if Format::of(&*parent.bytes).is_none() && !descriptor::is_text(&*parent.bytes) {
        return Err(bad(format!("its parent {} is no VMDK", parent.path.display())));
    }
    if let Some(found) = described_by(&parent) {
        let (expected, found) = (described.parent_cid.unwrap_or_default(), found.cid.unwrap_or_default());
        if expected != found {
            let message = format!(
                "it was made on a parent with the content ID {expected:08x}, but {} has {found:08x}: that was changed since, or \
                 is of another disk",
                parent.path.display()
            );
            notes.add(NoteKind::ChainMismatch, &file.path, message);
        }
    }
    super::open(&parent, &chain)
}

/// The descriptor of `file`, be it one or have one inside.
fn described_by(file: &ImageFile) -> Option<Descriptor> {
    let format = Format::of(&*file.bytes);
    if format.is_none() && !descriptor::is_text(&*file.bytes) {
        return None;
    }
    match read_own(file, format).ok()? {
        Own::Extent(_, described) => described,
        Own::Descriptor(described) => Some(described),
    }
}

/// Gathers the extents of a disk.
struct Builder<'a> {
    image: &'a ImageFile,
    chain: &'a Chain<'a>,
    notes: &'a Notes,
    files: Vec<ImagePart>,
    pieces: Vec<Piece>,
}

impl Builder<'_> {
    fn push(&mut self, length: u64, content: PieceContent) {
        let start = self.pieces.last().map_or(0, |piece| piece.start.saturating_add(piece.length));
        self.pieces.push(Piece { start, length, content, is_alone: false });
    }

    /// Adds the extents of a descriptor.
    fn add_all(&mut self, lines: &[ExtentLine]) -> Result<(), MediaError> {
        let mut first_failure = None;
        let mut has_content = false;
        for line in lines {
            match self.add(line) {
                Ok(()) => has_content = true,
                Err(MediaError::Container { path, why }) => {
                    let lost: Arc<str> = format!("{}: {why}", path.display()).into();
                    self.notes.add(NoteKind::ImageDamaged, &path.as_path().into(), why.clone());
                    first_failure.get_or_insert(MediaError::Container { path, why });
                    self.push(line.bytes, PieceContent::Lost(lost));
                }
                Err(MediaError::Open { path, source }) => {
                    let why: Arc<str> = format!("{} cannot be opened: {source}", path.display()).into();
                    self.notes.add(NoteKind::ImageDamaged, &self.image.path, format!("its extent {why}"));
                    first_failure.get_or_insert(MediaError::Open { path, source });
                    self.push(line.bytes, PieceContent::Lost(why));
                }
                Err(error) => return Err(error),
            }
        }
        match first_failure {
            Some(error) if !has_content => Err(error),
            _ if lines.is_empty() => Err(unusable(&self.image.path, "its descriptor lists no extent")),
            _ => Ok(()),
        }
    }

    fn add(&mut self, line: &ExtentLine) -> Result<(), MediaError> {
        let named = line.file.as_deref().unwrap_or_default();
        match &line.kind {
            ExtentKind::Zero => self.push(line.bytes, PieceContent::Zero),
            ExtentKind::Elsewhere(kind) => {
                let why = format!(
                    "its extent {named} is of the kind {kind}, of which no bytes are here: give the device itself"
                );
                return Err(unusable(&self.image.path, why));
            }
            ExtentKind::Flat => {
                let part = self.chain.open_part(&self.image.path, named)?;
                let end = line.offset_bytes.saturating_add(line.bytes);
                let size = part.bytes.size_bytes();
                if size < end {
                    let message = format!("it has {size} bytes, but should have {end}");
                    self.notes.add(NoteKind::ImageTruncated, &part.path, message);
                }
                let content = PieceContent::Flat { file: self.files.len(), offset: line.offset_bytes, end: size };
                self.files.push(ImagePart::from(&part));
                self.push(line.bytes, content);
            }
            ExtentKind::Sparse => {
                let part = self.chain.open_part(&self.image.path, named)?;
                let header = Format::of(&*part.bytes).ok_or_else(|| "it begins like none".to_owned());
                let header = header.and_then(|format| Header::read(format, &*part.bytes));
                let header =
                    header.map_err(|why| unusable(&part.path, format!("it is no usable sparse extent: {why}")))?;
                self.note_header(&header, &part);
                let number = self.files.len();
                self.files.push(ImagePart::from(&part));
                self.add_sparse(&header, number, line.bytes)?;
            }
        }
        Ok(())
    }

    /// Adds the extent that is the file `number`, as `length` bytes of the disk.
    fn add_sparse(&mut self, header: &Header, number: usize, length: u64) -> Result<(), MediaError> {
        let Some(part) = self.files.get(number) else { return Ok(()) };
        let path = Arc::clone(&part.path);
        let content = match header.grains(number) {
            Some(grains) => PieceContent::Grains(grains),
            None => {
                let walk = Walk::new(part, number, header.disk_bytes, header.grain_bytes)?;
                if walk.is_empty() {
                    return Err(unusable(
                        &path,
                        "its end, with the directory of its grains, is missing, and no grain was found",
                    ));
                }
                let message = "its end, with the directory of its grains, is missing: they were found one by one, up to where it ends";
                self.notes.add(NoteKind::ImageTruncated, &path, message);
                PieceContent::Walk(walk)
            }
        };
        let held = header.disk_bytes.min(length);
        self.push(held, content);
        if held < length {
            let message = format!("it holds {held} bytes of the disk, but the descriptor says {length}");
            self.notes.add(NoteKind::ImageDamaged, &path, message);
            self.push(length.saturating_sub(held), PieceContent::Lost("beyond the end of its extent".into()));
        }
        Ok(())
    }

    fn note_header(&self, header: &Header, file: &ImageFile) {
        for oddity in &header.oddities {
            self.notes.add(NoteKind::ImageDamaged, &file.path, oddity.clone());
        }
        if let Some(unclean) = header.unclean {
            self.notes.add(NoteKind::ImageUnclean, &file.path, unclean);
        }
    }

    /// An extent without a descriptor: nobody says whether it has a parent. Those of ESXi practically always have.
    fn note_alone(&mut self, is_alone: bool, format: Option<Format>) {
        if !is_alone {
            return;
        }
        let what = "it is an extent without its descriptor, which would tell whether it has a parent or other extents";
        if format == Some(Format::Hosted) {
            let message = format!("{what}: what is not stored in it reads as zeros");
            self.notes.add(NoteKind::ImageDamaged, &self.image.path, message);
            return;
        }
        self.notes.add(
            NoteKind::ChainMismatch,
            &self.image.path,
            format!("{what}: what is not stored in it cannot be read"),
        );
        for piece in &mut self.pieces {
            piece.is_alone = true;
        }
    }
}

/// The extents of a disk, in order.
#[derive(Debug)]
struct Extents {
    pieces: Vec<Piece>,
}

/// A range of the disk.
#[derive(Debug)]
struct Piece {
    start: u64,
    length: u64,
    content: PieceContent,
    /// What is not in it is in a parent that nobody named.
    is_alone: bool,
}

#[derive(Debug)]
enum PieceContent {
    /// As it is in a file, which has `end` bytes.
    Flat { file: usize, offset: u64, end: u64 },
    /// In grains.
    Grains(Grains),
    /// In grains whose directory is lost.
    Walk(Walk),
    /// Zeros.
    Zero,
    /// It cannot be had.
    Lost(Arc<str>),
}

impl Layout for Extents {
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError> {
        let next = self.pieces.partition_point(|piece| piece.start <= offset);
        let Some(piece) = next.checked_sub(1).and_then(|index| self.pieces.get(index)) else {
            return Ok(Run::bad(1, "no extent"));
        };
        let within = offset.saturating_sub(piece.start);
        let left = piece.length.saturating_sub(within).max(1);
        let run = match &piece.content {
            PieceContent::Flat { file, offset, end } => {
                let at = offset.saturating_add(within);
                match end.checked_sub(at).filter(|&held| held > 0) {
                    Some(held) => Run { length: held, place: Place::Stored { file: *file, offset: at } },
                    None => Run::bad(left, "beyond the end of its extent"),
                }
            }
            PieceContent::Grains(grains) => grains::moved(grains.run_at(within, files, notes)?, piece.start),
            PieceContent::Walk(walk) => grains::moved(walk.run_at(within, files, notes)?, piece.start),
            PieceContent::Zero => Run { length: left, place: Place::Zero },
            PieceContent::Lost(why) => Run::bad(left, Arc::clone(why)),
        };
        let place = match run.place {
            Place::Parent if piece.is_alone => {
                Place::Bad { why: "not in this extent, and its parent is unknown".into() }
            }
            other => other,
        };
        Ok(Run { length: run.length.min(left), place })
    }
}

#[cfg(test)]
mod tests;
