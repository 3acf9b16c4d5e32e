//! How far the last scrub or resilver has come: arrays of numbers in the object directory of the MOS.

use crate::FormatError;
use crate::units::Txg;

/// Numbers in the entry `scan`.
const SCAN_NUMBERS: usize = 24;
/// Numbers in the entry `error_scrub`.
const ERROR_SCRUB_NUMBERS: usize = 9;
/// Visit the dataset again: the only flag that pools with errata 1 could have.
const FLAG_VISIT_AGAIN: u64 = 1;
/// Paused.
const FLAG_PAUSED: u64 = 2;

/// What is, or was, scanned for.
///
/// Source: OpenZFS include/sys/fs/zfs.h, `pool_scan_func_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanFunction(pub u64);

#[allow(missing_docs, reason = "the names are those of pool_scan_func_t")]
impl ScanFunction {
    pub const NONE: Self = Self(0);
    pub const SCRUB: Self = Self(1);
    pub const RESILVER: Self = Self(2);
    pub const ERROR_SCRUB: Self = Self(3);

    /// The word of reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::SCRUB => "scrub",
            Self::RESILVER => "resilver",
            Self::ERROR_SCRUB => "error_scrub",
            _ => "unknown",
        }
    }
}

/// How far it is.
///
/// Source: OpenZFS include/sys/fs/zfs.h, `dsl_scan_state_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanState(pub u64);

#[allow(missing_docs, reason = "the names are those of dsl_scan_state_t")]
impl ScanState {
    pub const NONE: Self = Self(0);
    pub const SCANNING: Self = Self(1);
    pub const FINISHED: Self = Self(2);
    pub const CANCELED: Self = Self(3);
    pub const ERROR_SCRUBBING: Self = Self(4);

    /// The word of reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::SCANNING | Self::ERROR_SCRUBBING => "scanning",
            Self::FINISHED => "finished",
            Self::CANCELED => "canceled",
            _ => "unknown",
        }
    }
}

/// `dsl_scan_phys_t`, the entry `scan`: 24 numbers.
///
/// Source: OpenZFS include/sys/dsl_scan.h, `dsl_scan_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// For what.
    pub function: ScanFunction,
    /// How far.
    pub state: ScanState,
    /// Blocks born after this txg are looked at.
    pub min_txg: Txg,
    /// Blocks born up to this txg are looked at.
    pub max_txg: Txg,
    /// When it began, in seconds since 1970.
    pub start_s: u64,
    /// When it ended.
    pub end_s: u64,
    /// Bytes that were allocated when it began.
    pub to_examine_bytes: u64,
    /// Bytes looked at.
    pub examined_bytes: u64,
    /// Bytes that needed no look.
    pub skipped_bytes: u64,
    /// Bytes repaired or resilvered.
    pub processed_bytes: u64,
    /// Blocks in error.
    pub errors: u64,
    /// Somebody paused it.
    pub is_paused: bool,
    /// One number more than there should be: ZFS on Linux 0.6.3 pre-releases wrote it so, which is erratum 1 or 2.
    pub extra: Option<u64>,
}

impl Scan {
    /// Takes the numbers of the entry.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when there are fewer than 24.
    pub fn from_words(words: &[u64]) -> Result<Self, FormatError> {
        let Some((
            &[
                func,
                state,
                _queue,
                min,
                max,
                _,
                _,
                start,
                end,
                to_examine,
                examined,
                skipped,
                processed,
                errors,
                rest @ ..,
            ],
            extra,
        )) = words.split_first_chunk::<SCAN_NUMBERS>()
        else {
            return Err(FormatError::Truncated { what: "scan", need: SCAN_NUMBERS, have: words.len() });
        };
        let [.., flags] = rest;
        Ok(Self {
            function: ScanFunction(func),
            state: ScanState(state),
            min_txg: Txg(min),
            max_txg: Txg(max),
            start_s: start,
            end_s: end,
            to_examine_bytes: to_examine,
            examined_bytes: examined,
            skipped_bytes: skipped,
            processed_bytes: processed,
            errors,
            is_paused: flags & FLAG_PAUSED != 0,
            extra: extra.first().copied(),
        })
    }

    /// The erratum that the extra number shows: 1 asks for a scrub, 2 for the destruction of a dataset to end.
    ///
    /// Source: OpenZFS module/zfs/dsl_scan.c, `dsl_scan_init`.
    #[must_use]
    pub fn erratum(&self, is_destroying: bool) -> Option<u64> {
        let extra = self.extra?;
        if extra & !FLAG_VISIT_AGAIN != 0 || is_destroying {
            return Some(2);
        }
        matches!(self.state, ScanState::FINISHED | ScanState::CANCELED).then_some(1)
    }
}

/// `dsl_errorscrub_phys_t`, the entry `error_scrub`: 9 numbers. Such a scrub looks at blocks of the error log only.
///
/// Source: OpenZFS include/sys/dsl_scan.h, `dsl_errorscrub_phys_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorScrub {
    /// How far.
    pub state: ScanState,
    /// When it began, in seconds since 1970.
    pub start_s: u64,
    /// When it ended.
    pub end_s: u64,
    /// Blocks to look at.
    pub to_examine: u64,
    /// Blocks looked at.
    pub examined: u64,
    /// Blocks in error.
    pub errors: u64,
    /// Somebody paused it.
    pub is_paused: bool,
}

impl ErrorScrub {
    /// Takes the numbers of the entry.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when there are fewer than 9.
    pub fn from_words(words: &[u64]) -> Result<Self, FormatError> {
        let Some((&[_func, state, _cursor, start_s, end_s, to_examine, examined, errors, paused], _)) =
            words.split_first_chunk::<ERROR_SCRUB_NUMBERS>()
        else {
            return Err(FormatError::Truncated { what: "error scrub", need: ERROR_SCRUB_NUMBERS, have: words.len() });
        };
        let state = ScanState(state);
        Ok(Self { state, start_s, end_s, to_examine, examined, errors, is_paused: paused != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::testing::numbered;

    #[test]
    fn fields_come_from_their_places() {
        let scan = Scan::from_words(&numbered(24)).unwrap();
        assert_eq!((scan.function, scan.state), (ScanFunction(0), ScanState::SCANNING));
        assert_eq!((scan.min_txg, scan.max_txg, scan.start_s, scan.end_s), (Txg(3), Txg(4), 7, 8));
        assert_eq!((scan.to_examine_bytes, scan.examined_bytes, scan.skipped_bytes), (9, 10, 11));
        assert_eq!((scan.processed_bytes, scan.errors, scan.extra), (12, 13, None));
        // Flags are the last: 23 has the bit of a pause.
        assert!(scan.is_paused);
        let scrub = ErrorScrub::from_words(&numbered(9)).unwrap();
        assert_eq!((scrub.state, scrub.start_s, scrub.end_s), (ScanState::SCANNING, 3, 4));
        assert_eq!((scrub.to_examine, scrub.examined, scrub.errors, scrub.is_paused), (5, 6, 7, true));
    }

    #[test]
    fn too_few_numbers_are_refused() {
        assert!(Scan::from_words(&numbered(23)).is_err() && Scan::from_words(&[]).is_err());
        assert!(ErrorScrub::from_words(&numbered(8)).is_err());
    }

    #[test]
    fn one_number_more_is_an_erratum() {
        let mut words = numbered(25);
        words[1] = 2;
        let erratum = |extra, is_destroying, words: &[u64]| {
            let words: Vec<u64> = words[..24].iter().copied().chain([extra]).collect();
            Scan::from_words(&words).unwrap().erratum(is_destroying)
        };
        assert_eq!(erratum(0, false, &words), Some(1));
        assert_eq!((erratum(1, false, &words), erratum(2, false, &words)), (Some(1), Some(2)));
        assert_eq!(erratum(0, true, &words), Some(2));
        words[1] = 1;
        assert_eq!(erratum(0, false, &words), None, "the scrub that mends it runs");
        assert_eq!(Scan::from_words(&numbered(24)).unwrap().erratum(true), None);
    }

    #[test]
    fn every_value_has_a_word() {
        let words: Vec<_> = (0..5).map(|number| ScanFunction(number).word()).collect();
        assert_eq!(words, ["none", "scrub", "resilver", "error_scrub", "unknown"]);
        let words: Vec<_> = (0..6).map(|number| ScanState(number).word()).collect();
        assert_eq!(words, ["none", "scanning", "finished", "canceled", "scanning", "unknown"]);
    }
}
