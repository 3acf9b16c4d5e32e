//! What a rescue left unread: the map file of GNU ddrescue.
//!
//! An image that ddrescue could not finish holds zeros, or anything, where nothing was read. Those bytes say nothing
//! about the pool. The format is that of the chapter "Mapfile structure" of the manual of GNU ddrescue: comments after
//! `#`, a line with the current position and status, then lines of position, size and status. Only `+` was read.

use super::{Extent, MediaError, Note, ReadAt, check_range};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Larger files are no map of one disk: one line for each of several million pieces.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Statuses of a range: not tried, not trimmed, not scraped, bad, finished.
const RANGE_STATUSES: &[&str] = &["?", "*", "/", "-", "+"];
/// Statuses of a rescue: copying, trimming, scraping, retrying, filling, making an approximate map, finished.
const RESCUE_STATUSES: &[&str] = &["?", "*", "/", "-", "F", "G", "+"];

/// Why a map cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message names the fields")]
pub enum RescueMapError {
    /// It cannot be read.
    #[error("cannot read the map {path}: {source}")]
    Read { path: String, source: Arc<io::Error> },
    /// It is longer than any map.
    #[error("the map {path} is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge { path: String },
    /// A line of it makes no sense.
    #[error("the map {path}, line {line}: {why}")]
    Line { path: String, line: usize, why: &'static str },
    /// It lists nothing.
    #[error("the map {path} lists no ranges; expected lines such as `0x00000000  0x00100000  +`")]
    Empty { path: String },
}

/// Which bytes of an image were read from the disk it was copied from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescueMap {
    name: Arc<str>,
    /// What was read, in order, apart from each other.
    rescued: Vec<Range<u64>>,
}

impl RescueMap {
    /// Reads a map file.
    ///
    /// # Errors
    /// [`RescueMapError`] when it cannot be read, or a line of it makes no sense.
    pub fn open(path: &Path) -> Result<Self, RescueMapError> {
        let name = path.display().to_string();
        let fail = |source| RescueMapError::Read { path: name.clone(), source: Arc::new(source) };
        let mut text = Vec::new();
        File::open(path).map_err(fail)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(fail)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(RescueMapError::TooLarge { path: name });
        }
        Self::parse(&name, &String::from_utf8_lossy(&text))
    }

    /// Parses the text of a map file called `name`.
    ///
    /// # Errors
    /// [`RescueMapError::Line`], [`RescueMapError::Empty`].
    pub fn parse(name: &str, text: &str) -> Result<Self, RescueMapError> {
        let fail = |line, why| RescueMapError::Line { path: name.to_owned(), line, why };
        let mut ranges: Vec<(Range<u64>, bool, usize)> = Vec::new();
        let mut is_first = true;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let fields: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            if fields.is_empty() {
                continue;
            }
            let is_status = is_first && fields.get(1).is_some_and(|status| RESCUE_STATUSES.contains(status));
            is_first = false;
            if is_status {
                continue;
            }
            let [position, size, status] = *fields.as_slice() else {
                return Err(fail(number, "expected position, size and status"));
            };
            let start = number_of(position).ok_or_else(|| fail(number, "the position is no number"))?;
            let size = number_of(size).ok_or_else(|| fail(number, "the size is no number"))?;
            if !RANGE_STATUSES.contains(&status) {
                return Err(fail(number, "the status is none of ? * / - +"));
            }
            let end = start.checked_add(size).ok_or_else(|| fail(number, "the range does not fit 64 bits"))?;
            ranges.push((start..end, status == "+", number));
        }
        if ranges.is_empty() {
            return Err(RescueMapError::Empty { path: name.to_owned() });
        }
        ranges.sort_by_key(|(range, ..)| (range.start, range.end));
        for pair in ranges.windows(2) {
            if let [(before, ..), (after, _, line)] = pair
                && after.start < before.end
            {
                return Err(fail(*line, "the range overlaps another one"));
            }
        }
        let mut rescued: Vec<Range<u64>> = Vec::new();
        for (range, ..) in ranges.into_iter().filter(|(range, is_read, _)| *is_read && !range.is_empty()) {
            match rescued.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => rescued.push(range),
            }
        }
        Ok(Self { name: name.into(), rescued })
    }

    /// The path of the map.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether all bytes of `range` were read.
    #[must_use]
    pub fn has_read(&self, range: &Range<u64>) -> bool {
        let after = self.rescued.partition_point(|read| read.end < range.end);
        range.is_empty() || self.rescued.get(after).is_some_and(|read| read.start <= range.start)
    }
}

/// A number as C writes them: decimal, hexadecimal after `0x`, octal after `0`.
fn number_of(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let (digits, radix) = match (text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

/// An image with the map of what was read of it: the rest is never read.
#[derive(Debug)]
pub struct Mapped {
    inner: Arc<dyn ReadAt>,
    map: RescueMap,
}

impl Mapped {
    /// `inner`, of which only what `map` says is believed.
    #[must_use]
    pub fn new(inner: Arc<dyn ReadAt>, map: RescueMap) -> Self {
        Self { inner, map }
    }
}

impl ReadAt for Mapped {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), MediaError> {
        let length = buffer.len();
        check_range(offset, length, self.size_bytes())?;
        if !self.map.has_read(&(offset..offset.saturating_add(length as u64))) {
            return Err(MediaError::Unread { offset, length, map: Arc::clone(&self.map.name) });
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
        Some(&self.map)
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
    use proptest::prelude::*;

    /// The example of the chapter "Mapfile structure" of the manual of GNU ddrescue 1.27.
    const EXAMPLE: &str = "\
# Mapfile. Created by GNU ddrescue version 1.27
# Command line: ddrescue -d -c18 /dev/fd0 fdimage mapfile
# Start time:   2015-07-21 09:37:44
# Current time: 2015-07-21 09:38:19
# Copying non-tried blocks... Pass 1 (forwards)
# current_pos  current_status  current_pass
0x00120000     ?               1
#      pos        size  status
0x00000000  0x00117000  +
0x00117000  0x00000200  -
0x00117200  0x00001000  /
0x00118200  0x00007E00  *
0x00120000  0x00048000  ?
";

    fn parsed(text: &str) -> Result<Vec<(u64, u64)>, String> {
        let map = RescueMap::parse("a.map", text).map_err(|error| error.to_string())?;
        Ok(map.rescued.iter().map(|range| (range.start, range.end)).collect())
    }

    #[test]
    fn the_example_of_the_manual_is_understood() {
        assert_eq!(parsed(EXAMPLE), Ok(vec![(0, 0x11_7000)]));
        let map = RescueMap::parse("a.map", EXAMPLE).unwrap();
        assert!(map.has_read(&(0..0x11_7000)) && map.has_read(&(512..1024)));
        assert!(!map.has_read(&(0x11_6fff..0x11_7001)) && !map.has_read(&(0x12_0000..0x12_0001)));
        // What the map does not list was not read either.
        assert!(!map.has_read(&(u64::MAX - 1..u64::MAX)));
    }

    #[test]
    fn what_touches_is_one_range_and_other_forms_of_numbers_are_numbers() {
        assert_eq!(
            parsed("512 512 +\n0 512 +\r\n\n  0x800 0X200 +  # last\n1024 01000 -\n"),
            Ok(vec![(0, 1024), (2048, 2560)])
        );
        // Without the line of the current position, and with a pass behind it.
        assert_eq!(parsed("0 + 1\n0 10 +"), Ok(vec![(0, 10)]));
    }

    #[test]
    fn errors_name_the_line() {
        let why = |text: &str| parsed(text).unwrap_err();
        assert_eq!(why("0 +\n0 10\n"), "the map a.map, line 2: expected position, size and status");
        assert_eq!(why("0 +\nx 10 +\n"), "the map a.map, line 2: the position is no number");
        assert_eq!(why("0 +\n0 +1 +\n"), "the map a.map, line 2: the size is no number");
        assert_eq!(why("0 +\n\n0 1 !\n"), "the map a.map, line 3: the status is none of ? * / - +");
        assert_eq!(why("0 +\n2 0xffffffffffffffff +\n"), "the map a.map, line 2: the range does not fit 64 bits");
        assert_eq!(why("0 +\n5 5 +\n0 6 -\n"), "the map a.map, line 2: the range overlaps another one");
        assert!(why("# nothing\n0 +\n").starts_with("the map a.map lists no ranges"));
        let absent = RescueMap::open(Path::new("/nowhere/a.map")).unwrap_err();
        assert!(absent.to_string().starts_with("cannot read the map /nowhere/a.map: "), "{absent}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "[0-9a-fx+?*/# \n-]{0,200}") {
            let _ = RescueMap::parse("a.map", &text);
        }

        #[test]
        fn what_is_read_is_what_the_lines_say(pieces in proptest::collection::vec((1..10_u64, 0..5_usize), 1..20)) {
            let (mut text, mut bytes) = ("0 ?\n".to_owned(), Vec::new());
            for (size, status) in pieces {
                text += &format!("{} {size} {}\n", bytes.len(), RANGE_STATUSES[status]);
                bytes.resize(bytes.len() + size as usize, RANGE_STATUSES[status] == "+");
            }
            let map = RescueMap::parse("a.map", &text).unwrap();
            for start in 0..bytes.len() {
                for end in start + 1..=bytes.len() {
                    let all = bytes[start..end].iter().all(|&is_read| is_read);
                    prop_assert_eq!(map.has_read(&(start as u64..end as u64)), all);
                }
            }
        }
    }
}
