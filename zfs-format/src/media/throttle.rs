//! Reading slower than a device could, so that others can use it.

use super::rescue_map::RescueMap;
use super::{Extent, MediaError, Note, ReadAt};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many bytes a second, over all devices that share it.
#[derive(Debug)]
pub struct RateLimit {
    bytes_per_second: u64,
    /// When what was read so far is paid for.
    paid_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// A limit of at least one byte a second.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), paid_at: Mutex::default() }
    }

    /// How long to wait at `now` before a request of so many bytes. Nothing is saved up while no one reads.
    fn delay(&self, bytes: u64, now: Instant) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = paid_at.map_or(now, |paid_at| paid_at.max(now));
        // A time too far ahead to be told is as good as now: no one waits for it.
        *paid_at = Some(start.checked_add(cost).unwrap_or(start));
        start.duration_since(now)
    }
}

/// A medium that is read no faster than a limit allows.
#[derive(Debug)]
pub struct Throttled {
    inner: Arc<dyn ReadAt>,
    limit: Arc<RateLimit>,
}

impl Throttled {
    /// `inner`, under `limit`.
    #[must_use]
    pub fn new(inner: Arc<dyn ReadAt>, limit: Arc<RateLimit>) -> Self {
        Self { inner, limit }
    }
}

impl ReadAt for Throttled {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        // No lock is held while waiting.
        let delay = self.limit.delay(buffer.len() as u64, Instant::now());
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        self.inner.read_at(buffer, offset)
    }

    fn sector_bytes(&self) -> u64 {
        self.inner.sector_bytes()
    }

    fn size_now_bytes(&self) -> u64 {
        self.inner.size_now_bytes()
    }

    fn map(&self) -> Option<&RescueMap> {
        self.inner.map()
    }

    fn extent_at(&self, offset: u64) -> Extent {
        self.inner.extent_at(offset)
    }

    fn notes(&self) -> Vec<Note> {
        self.inner.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_those_before_it() {
        let limit = RateLimit::new(1000);
        let start = Instant::now();
        assert_eq!(limit.delay(500, start), Duration::ZERO);
        assert_eq!(limit.delay(250, start), Duration::from_millis(500));
        assert_eq!(limit.delay(1, start + Duration::from_millis(100)), Duration::from_millis(650));
        // A pause is not made up for.
        let later = start + Duration::from_secs(10);
        assert_eq!(limit.delay(1000, later), Duration::ZERO);
        assert_eq!(limit.delay(1, later), Duration::from_secs(1));
    }

    #[test]
    fn no_number_of_bytes_is_too_large() {
        let limit = RateLimit::new(0);
        let now = Instant::now();
        assert_eq!(limit.delay(u64::MAX, now), Duration::ZERO);
        let _ = limit.delay(u64::MAX, now);
    }
}
