//! A device whose bytes were changed in places, without a copy of the rest.

use std::sync::Arc;
use zfs_format::media::{MediaError, ReadAt};

/// Bytes that replace those of a device.
pub(crate) type Patch = (usize, Vec<u8>);

/// A device as it was.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    Bytes(Arc<Vec<u8>>),
    Made(Arc<fixtures::Device>),
}

impl Base {
    pub(crate) fn size(&self) -> usize {
        match self {
            Base::Bytes(bytes) => bytes.len(),
            Base::Made(device) => usize::try_from(device.bytes).unwrap(),
        }
    }

    fn read(&self, at: usize, buffer: &mut [u8]) {
        match self {
            Base::Bytes(bytes) => buffer.copy_from_slice(&bytes[at..at + buffer.len()]),
            Base::Made(device) => device.read_at(at as u64, buffer),
        }
    }
}

/// A damaged device.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    base: Base,
    /// Later ones lie over earlier ones.
    patches: Vec<Patch>,
    /// Where it was cut.
    end: usize,
}

impl Overlay {
    pub(crate) fn new(base: Base) -> Self {
        let end = base.size();
        Overlay { base, patches: Vec::new(), end }
    }

    pub(crate) fn size(&self) -> usize {
        self.end
    }

    pub(crate) fn cut(&mut self, end: usize) {
        self.end = self.end.min(end);
    }

    /// Writes, as far as the device goes.
    pub(crate) fn write(&mut self, at: usize, mut bytes: Vec<u8>) {
        bytes.truncate(self.end.saturating_sub(at));
        if !bytes.is_empty() {
            self.patches.push((at, bytes));
        }
    }

    /// What is there now; nothing beyond the end.
    pub(crate) fn read(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = self.before(at, length);
        self.overlay(at, &mut bytes);
        bytes
    }

    /// What was there, as far as the device goes now.
    fn before(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.end.saturating_sub(at).min(length)];
        self.base.read(at, &mut bytes);
        bytes
    }

    fn overlay(&self, at: usize, bytes: &mut [u8]) {
        let end = at + bytes.len();
        for (start, patch) in &self.patches {
            let (from, to) = (at.max(*start), end.min(start + patch.len()));
            if from < to {
                bytes[from - at..to - at].copy_from_slice(&patch[from - start..to - start]);
            }
        }
    }

    /// Whether a range differs from what it was.
    pub(crate) fn is_changed(&self, at: usize, length: usize) -> bool {
        let end = at + length;
        let is_touched = self.patches.iter().any(|(start, patch)| *start < end && at < start + patch.len());
        end > self.end || is_touched && self.read(at, length) != self.before(at, length)
    }
}

impl ReadAt for Overlay {
    fn size_bytes(&self) -> u64 {
        self.end as u64
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let (length, size) = (buffer.len(), self.size_bytes());
        let start =
            usize::try_from(offset).ok().filter(|start| start.checked_add(length).is_some_and(|end| end <= self.end));
        let start = start.ok_or(MediaError::OutOfRange { offset, length, size })?;
        self.base.read(start, buffer);
        self.overlay(start, buffer);
        Ok(())
    }
}
