//! What the pool remembers of its health: the last scan, and the log of errors.

use super::Mos;
use super::mos::DIRECTORY_OBJECT;
use crate::block::Work;
use crate::object::{ObjectError, ZapReader};
use crate::ondisk::error_log::{ErrorLogName, LoggedError};
use crate::ondisk::scan::{ErrorScrub, Scan};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Errors that are kept. More of them say no more than that much is lost.
const ERRORS_MAX: usize = 100_000;

/// What OpenZFS noted down. It is what was known then, and nothing that this library found.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// The last scrub or resilver, or the one that runs.
    pub scan: Option<Scan>,
    /// The last scrub of errors only.
    pub error_scrub: Option<ErrorScrub>,
    /// Blocks in the error logs: that of the last scrub, and that of the one that runs.
    pub errors: BTreeSet<LoggedError>,
    /// More than were kept.
    pub errors_left_out: u64,
    /// Parts that cannot be read, each with why.
    pub problems: Vec<(&'static str, ObjectError)>,
}

impl Mos<'_> {
    /// Reads what the pool remembers, as far as it can be read.
    ///
    /// Source: OpenZFS module/zfs/spa_errlog.c, `spa_get_errlog`; module/zfs/dsl_scan.c, `dsl_scan_init`.
    pub fn remembered(&mut self, work: &mut Work) -> Remembered {
        let mut found = Remembered::default();
        if let Err(error) = self.remembered_scans(&mut found, work) {
            found.problems.push(("the last scan", error));
        }
        for key in ["errlog_last", "errlog_scrub"] {
            let object = self.directory.get(key).copied().filter(|&object| object != 0);
            if let Some(object) = object
                && let Err(error) = self.error_log(object, &mut found, work)
            {
                found.problems.push(("the error log", error));
            }
        }
        found
    }

    /// The state of the last scan alone.
    pub fn remembered_scan(&mut self, work: &mut Work) -> Option<Scan> {
        let mut found = Remembered::default();
        let _ = self.remembered_scans(&mut found, work);
        found.scan
    }

    fn remembered_scans(&mut self, found: &mut Remembered, work: &mut Work) -> Result<(), ObjectError> {
        let format = |source| ObjectError::Format { object: DIRECTORY_OBJECT, source };
        let mut problem = Ok(());
        let mut directory = ZapReader::new(self.objset.object(DIRECTORY_OBJECT, work)?);
        directory.for_each(work, &mut |entry| {
            let words = || entry.u64s().collect::<Vec<u64>>();
            match entry.name.as_slice() {
                b"scan" => match Scan::from_words(&words()) {
                    Ok(scan) => found.scan = Some(scan),
                    Err(source) => problem = Err(format(source)),
                },
                b"error_scrub" => match ErrorScrub::from_words(&words()) {
                    Ok(scrub) => found.error_scrub = Some(scrub),
                    Err(source) => problem = Err(format(source)),
                },
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        problem
    }

    /// One log, in either form.
    fn error_log(&mut self, object: u64, found: &mut Remembered, work: &mut Work) -> Result<(), ObjectError> {
        let mut inner = Vec::new();
        ZapReader::new(self.objset.object(object, work)?).for_each(work, &mut |entry| {
            match ErrorLogName::parse(&entry.name) {
                Some(ErrorLogName::Error(error)) => found.add(error),
                Some(ErrorLogName::Dataset(dataset)) if inner.len() < ERRORS_MAX => {
                    inner.extend(entry.first_u64().map(|log| (dataset, log)));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        for (dataset, log) in inner {
            ZapReader::new(self.objset.object(log, work)?).for_each(work, &mut |entry| {
                if let Some(error) = LoggedError::parse(dataset, &entry.name) {
                    found.add(error);
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(())
    }
}

impl Remembered {
    fn add(&mut self, error: LoggedError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.insert(error);
        } else if !self.errors.contains(&error) {
            self.errors_left_out = self.errors_left_out.saturating_add(1);
        }
    }
}
