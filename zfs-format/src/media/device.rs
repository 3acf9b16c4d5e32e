//! A device of the pool as the scrub reads it: what fails is tried again in smaller pieces, and remembered.
//!
//! A dying disk takes seconds for each sector that it cannot read. So a failed read is repeated sector by sector, each
//! bad sector once more, and what is then known to be bad is not asked for again. The exact ranges are the evidence.

use super::bad_ranges::BadRanges;
use super::rescue_map::RescueMap;
use super::{Extent, MediaError, Note, Notes, PartitionPlace, ReadAt};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// When so many sectors in a row are bad, the rest of the request counts as bad without being tried: each can take a
/// disk seconds, and the block that was asked for is lost on it anyway.
const SECTORS_IN_A_ROW_MAX: usize = 32;
/// Nothing is gone.
const NOTHING: u64 = u64::MAX;

/// A member's bytes, with what became of reading them.
#[derive(Debug)]
pub struct Device {
    medium: Arc<dyn ReadAt>,
    requests: AtomicU64,
    requested_bytes: AtomicU64,
    failed_requests: AtomicU64,
    recovered_reads: AtomicU64,
    has_bad: AtomicBool,
    bad: Mutex<BadRanges>,
    /// First byte that can no longer be reached, or [`NOTHING`].
    gone_from: AtomicU64,
    /// The request at which that was first seen.
    gone_at: OnceLock<u64>,
    /// What is to be said of it, beside what its medium says.
    told: Notes,
}

/// A device that disappeared, or became shorter, while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Offset of the request at which it was noticed.
    pub at: u64,
    /// First byte that cannot be reached any more; 0 when the whole device is gone.
    pub from: u64,
}

/// What reading a device was like so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceReport {
    /// Requests that went to the medium.
    pub requests: u64,
    /// Bytes asked for by them.
    pub requested_bytes: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Reads that failed at first, and gave all bytes when they were repeated.
    pub recovered_reads: u64,
    /// Bytes that cannot be read, in order. Only what was asked for is known.
    pub bad_ranges: Vec<Range<u64>>,
    /// There are more of them than are listed.
    pub bad_ranges_are_cut: bool,
    /// The device, or its end, disappeared.
    pub gone: Option<Gone>,
    /// The map that says which of its bytes were never read.
    pub map: Option<String>,
}

impl Device {
    /// A device that was not read yet.
    #[must_use]
    pub fn new(medium: Arc<dyn ReadAt>) -> Self {
        Self {
            medium,
            requests: AtomicU64::new(0),
            requested_bytes: AtomicU64::new(0),
            failed_requests: AtomicU64::new(0),
            recovered_reads: AtomicU64::new(0),
            has_bad: AtomicBool::new(false),
            bad: Mutex::default(),
            gone_from: AtomicU64::new(NOTHING),
            gone_at: OnceLock::new(),
            told: Notes::default(),
        }
    }

    /// Fills `buffer` by one request, or fails as a whole: for long reads over several blocks, each of which the caller
    /// reads by itself when this fails.
    ///
    /// # Errors
    /// As [`ReadAt::read_at`]; at once, without a request, where a part is known to be bad, gone or unread.
    pub fn read_extent(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        self.refuse(&range_of(buffer, offset))?;
        self.request(buffer, offset)
    }

    /// Whether the device, or a part of it, disappeared while it was read.
    #[must_use]
    pub fn gone(&self) -> Option<Gone> {
        let from = self.gone_from.load(Relaxed);
        self.gone_at.get().map(|&at| Gone { at, from })
    }

    /// What is to be said of it, beside what its medium says.
    pub(crate) fn told(&self) -> &Notes {
        &self.told
    }

    /// Where on its disk it lies, when it is a part of one.
    #[must_use]
    pub fn partition(&self) -> Option<PartitionPlace> {
        self.medium.place()
    }

    /// What reading it was like so far.
    #[must_use]
    pub fn report(&self) -> DeviceReport {
        let bad = self.bad();
        DeviceReport {
            requests: self.requests.load(Relaxed),
            requested_bytes: self.requested_bytes.load(Relaxed),
            failed_requests: self.failed_requests.load(Relaxed),
            recovered_reads: self.recovered_reads.load(Relaxed),
            bad_ranges: bad.ranges(),
            bad_ranges_are_cut: bad.is_cut(),
            gone: self.gone(),
            map: self.medium.map().map(|map| map.name().to_owned()),
        }
    }

    fn bad(&self) -> MutexGuard<'_, BadRanges> {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails where it is known that the medium would.
    fn refuse(&self, range: &Range<u64>) -> Result<(), MediaError> {
        let from = self.gone_from.load(Relaxed);
        if range.end > from && range.end <= self.medium.size_bytes() {
            return Err(gone(range, from));
        }
        if self.has_bad.load(Relaxed)
            && let Some((bad, source)) = self.bad().first_in(range)
        {
            return Err(failed(&self.first_sector(&bad), source));
        }
        Ok(())
    }

    /// The first sector of a bad range. How long the range is depends on what else was read by then.
    fn first_sector(&self, bad: &Range<u64>) -> Range<u64> {
        let sector = self.medium.sector_bytes().max(1);
        let end = (bad.start / sector).saturating_add(1).saturating_mul(sector);
        bad.start..end.min(bad.end)
    }

    /// One request to the medium. An error that says that the medium is no longer there is remembered.
    fn request(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        self.requests.fetch_add(1, Relaxed);
        self.requested_bytes.fetch_add(buffer.len() as u64, Relaxed);
        let error = match self.medium.read_at(buffer, offset) {
            Err(MediaError::Read { source, .. }) => source,
            Err(error) => {
                self.remember_damage(&error);
                return Err(error);
            }
            Ok(()) => return Ok(()),
        };
        self.failed_requests.fetch_add(1, Relaxed);
        let range = range_of(buffer, offset);
        let from = if is_gone(&error) { 0 } else { self.medium.size_now_bytes() };
        if range.end <= from {
            return Err(failed(&range, error));
        }
        self.gone_at.get_or_init(|| offset);
        let from = self.gone_from.fetch_min(from, Relaxed).min(from);
        Err(gone(&range, from))
    }

    /// Notes what a disk image cannot give: another try would not help.
    fn remember_damage(&self, error: &MediaError) {
        if let MediaError::Damaged { offset, length, why } = error {
            let source = Arc::new(io::Error::other(why.to_string()));
            self.bad().add(*offset..offset.saturating_add(*length), &source);
            self.has_bad.store(true, Relaxed);
        }
    }

    /// Reads what could not be read at once sector by sector.
    fn read_sectors(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let whole = range_of(buffer, offset);
        let sector = self.medium.sector_bytes().max(1);
        let next_sector = |at: u64| (at / sector).saturating_add(1).saturating_mul(sector).min(whole.end);
        // A request of one sector was its first try already.
        let tries = if next_sector(offset) == whole.end { 1 } else { 2 };
        let mut rest = buffer;
        let mut at = offset;
        let mut found: Option<(Range<u64>, Arc<io::Error>)> = None;
        let mut in_a_row = 0;
        while at < whole.end {
            let mut end = next_sector(at);
            let length = usize::try_from(end - at).unwrap_or(rest.len());
            let Some(piece) = rest.split_off_mut(..length) else { break };
            match self.try_sector(piece, at, tries) {
                Ok(()) => in_a_row = 0,
                Err(MediaError::Read { source, .. }) => {
                    in_a_row += 1;
                    if in_a_row >= SECTORS_IN_A_ROW_MAX {
                        end = whole.end;
                    }
                    self.bad().add(at..end, &source);
                    self.has_bad.store(true, Relaxed);
                    match &mut found {
                        Some((bad, _)) if bad.end == at => bad.end = end,
                        Some(_) => {}
                        None => found = Some((at..end, source)),
                    }
                }
                Err(other) => return Err(other),
            }
            at = end;
        }
        match found {
            Some((bad, source)) => Err(failed(&self.first_sector(&bad), source)),
            None => {
                self.recovered_reads.fetch_add(1, Relaxed);
                Ok(())
            }
        }
    }

    fn try_sector(&self, piece: &mut [u8], at: u64, tries: usize) -> Result<(), MediaError> {
        let mut result = self.request(piece, at);
        for _ in 1..tries {
            if !matches!(result, Err(MediaError::Read { .. })) {
                break;
            }
            result = self.request(piece, at);
        }
        result
    }
}

impl ReadAt for Device {
    fn size_bytes(&self) -> u64 {
        self.medium.size_bytes()
    }

    /// Reads carefully: what fails is tried again sector by sector, and what stays bad is remembered.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        self.refuse(&range_of(buffer, offset))?;
        match self.request(buffer, offset) {
            Err(MediaError::Read { .. }) => self.read_sectors(buffer, offset),
            other => other,
        }
    }

    fn sector_bytes(&self) -> u64 {
        self.medium.sector_bytes()
    }

    fn size_now_bytes(&self) -> u64 {
        self.medium.size_now_bytes()
    }

    fn map(&self) -> Option<&RescueMap> {
        self.medium.map()
    }

    fn extent_at(&self, offset: u64) -> Extent {
        self.medium.extent_at(offset)
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = self.medium.notes();
        notes.extend(self.told.list());
        notes
    }

    fn place(&self) -> Option<PartitionPlace> {
        self.medium.place()
    }
}

fn range_of(buffer: &[u8], offset: u64) -> Range<u64> {
    offset..offset.saturating_add(buffer.len() as u64)
}

fn failed(range: &Range<u64>, source: Arc<io::Error>) -> MediaError {
    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    MediaError::Read { offset: range.start, length, source }
}

fn gone(range: &Range<u64>, from: u64) -> MediaError {
    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    MediaError::Gone { offset: range.start, length, from }
}

/// Whether an error says that the device is not there any more, and not that a part of it is bad.
fn is_gone(error: &io::Error) -> bool {
    if matches!(error.kind(), io::ErrorKind::NotConnected | io::ErrorKind::StaleNetworkFileHandle) {
        return true;
    }
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let signs = [
            Errno::NODEV,
            Errno::NXIO,
            Errno::SHUTDOWN,
            Errno::STALE,
            #[cfg(target_os = "linux")]
            Errno::NOMEDIUM,
        ];
        error.raw_os_error().is_some_and(|code| signs.iter().any(|sign| sign.raw_os_error() == code))
    }
    #[cfg(windows)]
    {
        // ERROR_NOT_READY, ERROR_DEV_NOT_EXIST, ERROR_NO_SUCH_DEVICE, ERROR_DEVICE_NOT_CONNECTED.
        matches!(error.raw_os_error(), Some(21 | 55 | 433 | 1167))
    }
    #[cfg(not(any(unix, windows)))]
    {
        false
    }
}

#[cfg(test)]
mod tests;
