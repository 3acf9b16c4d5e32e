//! One reader for all images that are made of clusters.

use super::unpack::{Codec, unpack};
use crate::media::{Content, Extent, MediaError, Note, NoteKind, Notes, ReadAt, SECTOR_BYTES, check_range};
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Unpacked clusters that are kept, so that small reads of one do not unpack it again for each.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// No format has larger compressed clusters (qcow2 goes up to 2 MiB, VMDK to a few more).
const CLUSTER_BYTES_MAX: u64 = 16 << 20;

/// Where the bytes of a [`Run`] are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// As they are, in one of the image's files.
    Stored {
        /// Index among the files of the image.
        file: usize,
        /// Byte of the file that holds the first byte of the run.
        offset: u64,
    },
    /// Compressed, in one of the image's files. The run may begin inside of the cluster.
    Packed {
        /// Index among the files of the image.
        file: usize,
        /// Byte of the file at which the compressed cluster begins.
        offset: u64,
        /// At most so many bytes of the file belong to it.
        length: u64,
        /// Byte of the disk at which the cluster begins.
        cluster_start: u64,
        /// Bytes of the disk in the cluster.
        cluster_bytes: u64,
        /// How it is compressed.
        codec: Codec,
    },
    /// Zeros, by the word of a table.
    Zero,
    /// Not in this image: in its parent at the same offset, or zeros if there is none.
    Parent,
    /// The table that would tell is damaged, or what it says is impossible.
    Bad {
        /// What is wrong, in a few words.
        why: Arc<str>,
    },
}

/// A range of the disk that is in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Bytes from the offset asked for; at least 1. More than the disk has are cut.
    pub(super) length: u64,
    /// Where they are.
    pub(super) place: Place,
}

impl Run {
    /// A run of `length` bytes that cannot be read.
    pub(super) fn bad(length: u64, why: impl Into<Arc<str>>) -> Self {
        Self { length, place: Place::Bad { why: why.into() } }
    }

    /// Whether `next`, which begins where this run ends, only continues it.
    pub(super) fn goes_on_in(&self, next: &Self) -> bool {
        match (&self.place, &next.place) {
            (Place::Stored { file, offset }, Place::Stored { file: other, offset: at }) => {
                file == other && offset.checked_add(self.length) == Some(*at)
            }
            (Place::Zero, Place::Zero) | (Place::Parent, Place::Parent) => true,
            _ => false,
        }
    }
}

/// What a format has to know: where a byte of the disk is.
pub(super) trait Layout: Send + Sync + fmt::Debug {
    /// The run that begins at `offset`, which lies inside of the disk. It may read tables out of `files`; what is wrong
    /// with them is added to `notes`, and makes a [`Place::Bad`] of as many bytes as are concerned.
    ///
    /// # Errors
    /// Only what a later try could give: a table that the medium below does not deliver.
    fn run_at(&self, offset: u64, files: &[ImagePart], notes: &Notes) -> Result<Run, MediaError>;
}

/// A file that holds a part of an image.
#[derive(Clone, Debug)]
pub(super) struct ImagePart {
    /// Its path, for messages.
    pub(super) path: Arc<Path>,
    /// Its bytes.
    pub(super) bytes: Arc<dyn ReadAt>,
}

impl From<&super::ImageFile> for ImagePart {
    fn from(file: &super::ImageFile) -> Self {
        Self { path: Arc::clone(&file.path), bytes: Arc::clone(&file.bytes) }
    }
}

/// A disk inside of an image.
#[derive(Debug)]
pub(super) struct Image {
    /// Size of the disk.
    pub(super) size: u64,
    /// Its sectors, for what reads the disk: 512 or 4096.
    pub(super) sector: u64,
    /// Where what is.
    layout: Box<dyn Layout>,
    /// The files that hold it. The first one is the image that was named.
    files: Vec<ImagePart>,
    /// The disk below it in the chain.
    pub(super) parent: Option<Arc<dyn ReadAt>>,
    /// What is to be said of it.
    pub(super) notes: Notes,
    /// Clusters unpacked lately.
    kept: Kept,
}

/// Clusters that were unpacked lately, by where they begin on the disk.
#[derive(Debug, Default)]
struct Kept(Mutex<VecDeque<(u64, Arc<[u8]>)>>);

impl Kept {
    fn find(&self, start: u64) -> Option<Arc<[u8]>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(at, _)| *at == start).map(|(_, bytes)| Arc::clone(bytes))
    }

    fn add(&self, start: u64, bytes: &Arc<[u8]>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((start, Arc::clone(bytes)));
        let mut total: usize = kept.iter().map(|(_, bytes)| bytes.len()).sum();
        while total > KEPT_BYTES_MAX && kept.len() > 1 {
            total -= kept.pop_front().map_or(0, |(_, bytes)| bytes.len());
        }
    }
}

impl Image {
    /// The disk of `size` bytes that `layout` finds in `files`, above `parent`.
    pub(super) fn new(
        size: u64,
        layout: Box<dyn Layout>,
        files: Vec<ImagePart>,
        parent: Option<Arc<dyn ReadAt>>,
    ) -> Self {
        let (notes, kept) = (Notes::default(), Kept::default());
        Self { size, sector: SECTOR_BYTES, layout, files, parent, notes, kept }
    }

    /// The run at `offset`, cut at the end of the disk.
    fn run_at(&self, offset: u64) -> Result<Run, MediaError> {
        let mut run = self.layout.run_at(offset, &self.files, &self.notes)?;
        run.length = run.length.clamp(1, self.size.saturating_sub(offset).max(1));
        Ok(run)
    }

    /// As [`Image::run_at`], with all that follows it in a row, up to `wanted` bytes.
    fn long_run_at(&self, offset: u64, wanted: u64) -> Result<Run, MediaError> {
        let mut run = self.run_at(offset)?;
        while run.length < wanted {
            let next = match self.run_at(offset.saturating_add(run.length)) {
                Ok(next) => next,
                // The next request will meet it again.
                Err(_) => break,
            };
            if !run.goes_on_in(&next) {
                break;
            }
            run.length = run.length.saturating_add(next.length);
        }
        run.length = run.length.min(wanted);
        Ok(run)
    }

    fn read_run(&self, run: &Run, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        match &run.place {
            Place::Stored { file, offset: at } => self.read_stored(*file, *at, buffer, offset, run),
            Place::Packed { .. } => self.read_packed(&run.place, buffer, offset),
            Place::Zero => {
                buffer.fill(0);
                Ok(())
            }
            Place::Parent => self.read_parent(buffer, offset),
            Place::Bad { why } => Err(damaged(offset, run.length, Arc::clone(why))),
        }
    }

    fn read_stored(&self, file: usize, at: u64, buffer: &mut [u8], offset: u64, run: &Run) -> Result<(), MediaError> {
        let Some(part) = self.files.get(file) else { return Err(damaged(offset, run.length, "no such file")) };
        part.bytes.read_at(buffer, at).map_err(|error| match error {
            MediaError::OutOfRange { size, .. } => {
                // What still lies in the file is good.
                let inside = size.saturating_sub(at).min(buffer.len() as u64);
                let lost = buffer.len() as u64 - inside;
                let message = format!("it ends at byte {size}, before the clusters that its tables name");
                self.notes.add(NoteKind::ImageTruncated, &part.path, message);
                let why = format!("beyond the end of {}", part.path.display());
                damaged(offset.saturating_add(inside), lost.max(1), why)
            }
            other => other.shifted(at, offset),
        })
    }

    fn read_parent(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let Some(parent) = &self.parent else {
            buffer.fill(0);
            return Ok(());
        };
        // A child may be larger than its parent: the rest is empty.
        let inside = parent.size_bytes().saturating_sub(offset).min(buffer.len() as u64);
        let (held, rest) = buffer.split_at_mut(usize::try_from(inside).unwrap_or(0).min(buffer.len()));
        rest.fill(0);
        if held.is_empty() { Ok(()) } else { parent.read_at(held, offset) }
    }

    fn read_packed(&self, place: &Place, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let &Place::Packed { file, offset: at, length, cluster_start, cluster_bytes, codec } = place else {
            return Err(damaged(offset, 1, "not compressed"));
        };
        if offset == cluster_start && buffer.len() as u64 == cluster_bytes {
            return self.unpack_into(buffer, file, at, length, cluster_start, codec);
        }
        let cluster = match self.kept.find(cluster_start) {
            Some(cluster) => cluster,
            None => {
                let bytes = usize::try_from(cluster_bytes.min(CLUSTER_BYTES_MAX)).unwrap_or(0);
                let mut cluster = vec![0; bytes];
                self.unpack_into(&mut cluster, file, at, length, cluster_start, codec)?;
                let cluster: Arc<[u8]> = cluster.into();
                self.kept.add(cluster_start, &cluster);
                cluster
            }
        };
        let from = usize::try_from(offset.saturating_sub(cluster_start)).unwrap_or(usize::MAX);
        match cluster.get(from..from.saturating_add(buffer.len())) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(damaged(offset, buffer.len() as u64, "the compressed cluster is too short")),
        }
    }

    fn unpack_into(
        &self,
        cluster: &mut [u8],
        file: usize,
        at: u64,
        length: u64,
        start: u64,
        codec: Codec,
    ) -> Result<(), MediaError> {
        let whole = cluster.len() as u64;
        let Some(part) = self.files.get(file) else { return Err(damaged(start, whole, "no such file")) };
        // What a cluster is packed into is hardly longer than it; a table may claim anything.
        let packed_bytes_max = whole.saturating_mul(2).saturating_add(64 << 10);
        // The size of a compressed cluster is often rounded up to sectors, which the file need not have.
        let available = part.bytes.size_bytes().saturating_sub(at).min(length).min(packed_bytes_max);
        let mut packed = vec![0; usize::try_from(available).unwrap_or(0)];
        part.bytes.read_at(&mut packed, at).map_err(|error| match error {
            // A sector of the file that cannot be read costs the whole cluster.
            MediaError::Read { source, .. } => damaged(start, whole, source.to_string()),
            other => other.shifted(at, start),
        })?;
        unpack(codec, &packed, cluster).map_err(|why| {
            let message = format!("the compressed cluster at byte {at} does not unpack: {why}");
            self.notes.add(NoteKind::ImageDamaged, &part.path, message);
            damaged(start, whole, format!("a compressed cluster that does not unpack: {why}"))
        })
    }
}

/// The error for bytes of the disk that the image cannot give.
pub(super) fn damaged(offset: u64, length: u64, why: impl Into<Arc<str>>) -> MediaError {
    MediaError::Damaged { offset, length, why: why.into() }
}

impl ReadAt for Image {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        check_range(offset, buffer.len(), self.size)?;
        let mut rest = buffer;
        let mut at = offset;
        while !rest.is_empty() {
            let run = self.long_run_at(at, rest.len() as u64)?;
            let length = usize::try_from(run.length).unwrap_or(rest.len()).min(rest.len());
            let Some(piece) = rest.split_off_mut(..length) else { break };
            self.read_run(&run, piece, at)?;
            at = at.saturating_add(length as u64);
        }
        Ok(())
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn extent_at(&self, offset: u64) -> Extent {
        let rest = self.size.saturating_sub(offset);
        let own = self.files.first().map(|part| Arc::clone(&part.path));
        let nothing = |length, content| Extent {
            length_bytes: length,
            content,
            file: own.clone(),
            file_offset_bytes: None,
            layer: 0,
        };
        let run = match self.run_at(offset) {
            Ok(run) => run,
            Err(error) => return nothing(rest.min(1), Content::Unreadable { why: error.to_string().into() }),
        };
        let stored = |file: usize| self.files.get(file).map(|part| Arc::clone(&part.path));
        match run.place {
            Place::Stored { file, offset } => match self.files.get(file) {
                Some(part) if offset < part.bytes.size_bytes() => part.bytes.extent_at(offset).at_most(run.length),
                Some(_) => nothing(run.length, Content::Unreadable { why: "beyond the end of its file".into() }),
                None => nothing(run.length, Content::Unreadable { why: "no such file".into() }),
            },
            Place::Packed { file, offset: at, cluster_start, cluster_bytes, .. } => Extent {
                length_bytes: cluster_start
                    .saturating_add(cluster_bytes)
                    .saturating_sub(offset)
                    .min(rest)
                    .min(run.length),
                content: Content::Packed,
                file: stored(file),
                file_offset_bytes: Some(at),
                layer: 0,
            },
            Place::Zero => nothing(run.length, Content::Zero),
            Place::Bad { why } => nothing(run.length, Content::Unreadable { why }),
            Place::Parent => match self.parent.as_ref().filter(|parent| offset < parent.size_bytes()) {
                Some(parent) => {
                    let extent = parent.extent_at(offset).at_most(run.length);
                    Extent { layer: extent.layer.saturating_add(1), ..extent }
                }
                None => nothing(run.length, Content::Hole),
            },
        }
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = self.notes.list();
        notes.extend(self.files.iter().flat_map(|part| part.bytes.notes()));
        notes.extend(self.parent.iter().flat_map(|parent| parent.notes()));
        notes
    }
}
