//! What the pool remembers: said apart from what was found.

use super::Detail;
use super::json::Identity;
use super::page::{Page, name};
use super::units::{count, size, thousands, timestamp};
use serde::Serialize;
use zfs_format::ondisk::scan::{ErrorScrub, Scan, ScanFunction, ScanState};
use zfs_scrub::remembered::{RememberedError, RememberedFacts};

/// Files listed unless everything is wanted.
const FILES_MAX: usize = 10;

/// The section, with a heading.
pub(super) fn write(page: &mut Page, facts: &RememberedFacts, detail: Detail) {
    page.blank();
    page.line(0, "what the pool remembers:");
    page.blank();
    page.wrapped(8, 10, &facts.scan.as_ref().map_or_else(|| "last scrub: none".to_owned(), scan));
    if let Some(scrub) = facts.error_scrub.filter(|scrub| scrub.state != ScanState::NONE) {
        page.wrapped(8, 10, &error_scrub(&scrub));
    }
    let files = files(&facts.errors);
    let total = match facts.errors_total {
        0 => "none".to_owned(),
        errors => count(errors, "block"),
    };
    page.line(8, &format!("known errors: {total}"));
    let shown = if detail == Detail::Full { files.len() } else { FILES_MAX };
    for (file, blocks) in files.iter().take(shown) {
        page.line(10, &format!("{file}  ({})", count(*blocks, "block")));
    }
    let listed = facts.errors.len() as u64;
    if files.len() > shown || facts.errors_total > listed {
        let more = if facts.errors_total > listed {
            format!("... not listed: {}", count(facts.errors_total - listed, "block"))
        } else {
            format!("... and {}", count((files.len() - shown) as u64, "more file"))
        };
        page.line(10, &more);
    }
    for problem in &facts.unread {
        page.wrapped(8, 10, &format!("cannot be read: {problem}"));
    }
}

/// Files with the number of their blocks, in the order of the errors.
fn files(errors: &[RememberedError]) -> Vec<(String, u64)> {
    let mut files: Vec<(String, u64)> = Vec::new();
    let mut last = None;
    for error in errors {
        let key = (error.error.objset, error.error.object);
        match files.last_mut() {
            Some((_, blocks)) if last == Some(key) => *blocks += 1,
            _ => files.push((name(&error.file()), 1)),
        }
        last = Some(key);
    }
    files
}

/// `last scrub: finished 2026-11-30 14:36:42 UTC, 0 errors`
fn scan(scan: &Scan) -> String {
    let word = match scan.function {
        ScanFunction::SCRUB => "scrub".to_owned(),
        ScanFunction::RESILVER => "resilver".to_owned(),
        ScanFunction::NONE => return "last scrub: none".to_owned(),
        other => format!("scan of kind {}", other.0),
    };
    let errors = count(scan.errors, "error");
    let mut text = match scan.state {
        ScanState::FINISHED => format!("last {word}: finished {}, {errors}", timestamp(scan.end_s)),
        ScanState::CANCELED => format!("last {word}: canceled {}, {errors}", timestamp(scan.end_s)),
        ScanState::SCANNING => {
            let what = if scan.is_paused { "paused, begun" } else { "not finished, begun" };
            let (examined, all) = (size(scan.examined_bytes), size(scan.to_examine_bytes));
            format!("{word}: {what} {}, {examined} of {all} looked at, {errors}", timestamp(scan.start_s))
        }
        ScanState::NONE => return format!("last {word}: none"),
        other => format!("{word}: in state {}", other.0),
    };
    if scan.processed_bytes > 0 {
        let verb = if scan.function == ScanFunction::RESILVER { "resilvered" } else { "repaired" };
        text.push_str(&format!(", {} {verb}", size(scan.processed_bytes)));
    }
    if scan.min_txg.0 > 0 {
        text.push_str(&format!(" (txgs {} to {})", scan.min_txg, scan.max_txg));
    }
    text
}

/// `last error scrub: finished 2026-11-30 14:36:42 UTC, 3 of 3 blocks looked at, 0 errors`
fn error_scrub(scrub: &ErrorScrub) -> String {
    let looked = format!("{} of {} looked at", thousands(scrub.examined), count(scrub.to_examine, "block"));
    let errors = count(scrub.errors, "error");
    match scrub.state {
        ScanState::FINISHED => format!("last error scrub: finished {}, {looked}, {errors}", timestamp(scrub.end_s)),
        ScanState::CANCELED => format!("last error scrub: canceled {}, {looked}, {errors}", timestamp(scrub.end_s)),
        _ => {
            let what = if scrub.is_paused { "paused" } else { "not finished" };
            format!("error scrub: {what}, begun {}, {looked}, {errors}", timestamp(scrub.start_s))
        }
    }
}

/// The JSON form.
#[derive(Serialize)]
pub(super) struct RememberedView<'a> {
    scan: Option<ScanView>,
    error_scrub: Option<ErrorScrubView>,
    errors_total: u64,
    errors: Vec<ErrorView<'a>>,
    unread: &'a [String],
}

#[derive(Serialize)]
struct ScanView {
    function: &'static str,
    state: &'static str,
    paused: bool,
    start: u64,
    end: u64,
    min_txg: u64,
    max_txg: u64,
    to_examine_bytes: u64,
    examined_bytes: u64,
    skipped_bytes: u64,
    processed_bytes: u64,
    errors: u64,
}

#[derive(Serialize)]
struct ErrorScrubView {
    state: &'static str,
    paused: bool,
    start: u64,
    end: u64,
    to_examine: u64,
    examined: u64,
    errors: u64,
}

#[derive(Serialize)]
struct ErrorView<'a> {
    dataset: Option<&'a str>,
    path: Option<&'a str>,
    objset: Identity,
    object: Identity,
    level: i64,
    block: Identity,
    birth_txg: Option<u64>,
}

impl<'a> From<&'a RememberedFacts> for RememberedView<'a> {
    fn from(facts: &'a RememberedFacts) -> Self {
        Self {
            scan: facts.scan.map(|scan| ScanView {
                function: scan.function.word(),
                state: scan.state.word(),
                paused: scan.is_paused,
                start: scan.start_s,
                end: scan.end_s,
                min_txg: scan.min_txg.0,
                max_txg: scan.max_txg.0,
                to_examine_bytes: scan.to_examine_bytes,
                examined_bytes: scan.examined_bytes,
                skipped_bytes: scan.skipped_bytes,
                processed_bytes: scan.processed_bytes,
                errors: scan.errors,
            }),
            error_scrub: facts.error_scrub.map(|scrub| ErrorScrubView {
                state: scrub.state.word(),
                paused: scrub.is_paused,
                start: scrub.start_s,
                end: scrub.end_s,
                to_examine: scrub.to_examine,
                examined: scrub.examined,
                errors: scrub.errors,
            }),
            errors_total: facts.errors_total,
            errors: facts.errors.iter().map(Into::into).collect(),
            unread: &facts.unread,
        }
    }
}

impl<'a> From<&'a RememberedError> for ErrorView<'a> {
    fn from(named: &'a RememberedError) -> Self {
        let RememberedError { error, dataset, path } = named;
        Self {
            dataset: dataset.as_deref(),
            path: path.as_deref(),
            objset: Identity(error.objset),
            object: Identity(error.object),
            level: error.level,
            block: Identity(error.block),
            birth_txg: error.birth_txg,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use zfs_format::Txg;
    use zfs_format::ondisk::error_log::LoggedError;

    pub(in super::super) fn facts() -> RememberedFacts {
        let scan = Scan {
            function: ScanFunction::RESILVER,
            state: ScanState::FINISHED,
            min_txg: Txg(3),
            max_txg: Txg(40),
            start_s: 1_699_999_990,
            end_s: 1_700_000_000,
            to_examine_bytes: 4 << 20,
            examined_bytes: 4 << 20,
            skipped_bytes: 0,
            processed_bytes: 1 << 20,
            errors: 2,
            is_paused: false,
            extra: None,
        };
        let error = |object, block, path: Option<&str>| RememberedError {
            error: LoggedError { objset: 54, object, level: 0, block, birth_txg: None },
            dataset: path.map(|_| "tank/a".to_owned()),
            path: path.map(str::to_owned),
        };
        RememberedFacts {
            scan: Some(scan),
            errors_total: 3,
            errors: vec![error(2, 0, Some("/\x1bx")), error(2, 7, Some("/\x1bx")), error(9, 1, None)],
            ..RememberedFacts::default()
        }
    }

    fn text(facts: &RememberedFacts) -> String {
        let mut page = Page::new(false);
        write(&mut page, facts, Detail::Normal);
        page.into_text()
    }

    #[test]
    fn scan_and_errors_are_told() {
        let expected = "what the pool remembers:

        last resilver: finished 2023-11-14 22:13:20 UTC, 2 errors, 1 MiB resilvered (txgs 3 to 40)
        known errors: 3 blocks
          tank/a:/\\x1bx  (2 blocks)
          <0x36>:<0x9>  (1 block)
";
        let text = text(&facts());
        assert!(text == expected, "{text}");
    }

    #[test]
    fn nothing_remembered_is_said_as_well() {
        let text = text(&RememberedFacts::default());
        assert_eq!(text, "what the pool remembers:\n\n        last scrub: none\n        known errors: none\n");
    }

    #[test]
    fn what_is_not_finished_says_how_far_it_is() {
        let mut facts = facts();
        let scan = facts.scan.as_mut().unwrap();
        (scan.function, scan.state, scan.is_paused) = (ScanFunction::SCRUB, ScanState::SCANNING, true);
        (scan.examined_bytes, scan.processed_bytes, scan.min_txg) = (1 << 20, 0, Txg(0));
        facts.error_scrub = Some(ErrorScrub {
            state: ScanState::CANCELED,
            start_s: 1_700_000_000,
            end_s: 1_700_000_001,
            to_examine: 3,
            examined: 1,
            errors: 1,
            is_paused: false,
        });
        facts.errors_total = 4;
        facts.unread.push("the error log: object 9 does not exist".into());
        let text = text(&facts);
        for line in [
            "scrub: paused, begun 2023-11-14 22:13:10 UTC, 1 MiB of 4 MiB looked at, 2 errors",
            "last error scrub: canceled 2023-11-14 22:13:21 UTC, 1 of 3 blocks looked at, 1 error",
            "... not listed: 1 block",
            "cannot be read: the error log: object 9 does not exist",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
