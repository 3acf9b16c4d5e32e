//! The text report: what it looks like, and what it must never do.

use super::super::page::{self, WIDTH, columns};
use super::super::samples;
use super::*;
use proptest::prelude::*;
use std::path::Path;
use zfs_scrub::finding::{CopyResult, Observed, Place};
use zfs_scrub::outcome::NotCheckedReason;

fn text(outcome: &Outcome, detail: Detail) -> String {
    Text { detail, color: false }.render(outcome).unwrap()
}

/// Compares with `tests/cli/golden/NAME.txt`; `ZCHECK_BLESS=1` rewrites the file.
fn assert_golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/cli/golden/{name}.txt"));
    if std::env::var_os("ZCHECK_BLESS").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == actual,
        "{name} differs; ZCHECK_BLESS=1 rewrites it\n--- expected\n{expected}\n--- actual\n{actual}"
    );
}

#[test]
fn reports_look_as_they_did() {
    for (name, outcome) in samples::all() {
        if !matches!(name, "flood" | "hostile") {
            assert_golden(name, &text(&outcome, Detail::Normal));
        }
    }
    assert_golden("damaged-quiet", &text(&samples::damaged(), Detail::Quiet));
    assert_golden("damaged-verbose", &text(&samples::damaged(), Detail::Full));
}

#[test]
fn a_clean_pool_is_one_quiet_line() {
    assert_eq!(text(&samples::clean(), Detail::Quiet), "clean: everything was checked, nothing is damaged\n");
}

#[test]
fn quiet_says_why_the_root_is_lost() {
    let text = text(&samples::root_lost(), Detail::Quiet);
    assert!(text.contains("the root block of the object directory is bad in all 3 copies (ZC0201)"), "{text}");
    assert!(text.ends_with("damaged: nothing was checked at txg 4711 (exit status 12)\n"), "{text}");
}

#[test]
fn floods_are_cut_unless_all_was_asked_for() {
    let outcome = samples::flood();
    let short = text(&outcome, Detail::Normal);
    assert!(short.lines().count() < 260, "{} lines", short.lines().count());
    assert!(short.contains("errors: 5,000 files are damaged"));
    for cut in ["180 more files", "180 more objects", "180 more findings", "180 more notes", "180 more items"] {
        assert!(short.contains(&format!("... and {cut}, -v shows all")), "no {cut} in\n{short}");
    }
    assert!(short.contains("... and 4,800 more files, which were only counted"));
    assert!(short.contains("123,456 findings more than a report keeps"));
    let full = text(&outcome, Detail::Full);
    assert!(!full.contains("-v shows all"));
    assert!((0..200).all(|number| full.contains(&format!("file-{number:05}.dat"))));
}

#[test]
fn hostile_names_do_not_drive_the_terminal() {
    for detail in [Detail::Quiet, Detail::Normal, Detail::Full] {
        let text = text(&samples::hostile(), detail);
        assert!(text.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}')), "{text:?}");
        assert!(text.contains("\\x1b[2J"));
    }
}

#[test]
fn lines_end_at_column_100_and_without_blanks() {
    for (name, outcome) in samples::all() {
        for detail in [Detail::Quiet, Detail::Normal, Detail::Full] {
            assert_shape(name, &outcome, &text(&outcome, detail));
        }
    }
}

/// Names are never cut nor wrapped, so that they can be copied: such a line may be as long as the name.
fn assert_shape(name: &str, outcome: &Outcome, text: &str) {
    let vdevs = outcome.vdevs.iter().flat_map(|vdev| [Some(&vdev.name), vdev.device.as_ref()]).flatten();
    let names = outcome.files.iter().map(|file| &file.path).chain(vdevs).chain([&outcome.pool.name]);
    let names: Vec<_> = names.map(|text| page::name(text).trim().to_owned()).collect();
    for line in text.lines() {
        let longest_word = line.split(' ').map(columns).max().unwrap_or(0);
        let is_name = || names.iter().any(|name| name == line.trim());
        assert!(columns(line) <= WIDTH || longest_word > 60 || is_name(), "{name}: {} columns: {line}", columns(line));
        assert_eq!(line.trim_end(), line, "{name}: blanks at the end");
    }
    assert!(!text.contains("\n\n\n") && text.ends_with('\n') && !text.starts_with('\n'), "{name}:\n{text}");
}

#[test]
fn colours_only_paint() {
    for (name, outcome) in samples::all() {
        let painted = Text { detail: Detail::Full, color: true }.render(&outcome).unwrap();
        let mut plain = painted.clone();
        for code in ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_ne!(painted, plain);
        assert_eq!(plain, text(&outcome, Detail::Full), "{name}");
    }
}

#[test]
fn the_verdict_line_comes_after_the_lists_and_names_the_status() {
    for (name, outcome) in samples::all() {
        let text = text(&outcome, Detail::Quiet);
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(outcome.summary.verdict.word()), "{name}: {last}");
        let status = outcome.summary.exit_status;
        assert_eq!(last.ends_with(&format!("(exit status {status})")), status != 0, "{name}: {last}");
    }
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,12}", "[a-z0-9/ .@:-]{0,120}", "\\PC{0,40}", any::<String>()]
}

fn any_severity() -> impl Strategy<Value = Severity> {
    prop_oneof![Just(Severity::Note), Just(Severity::Degraded), Just(Severity::Damaged)]
}

fn any_finding() -> impl Strategy<Value = Finding> {
    let numbers = (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<i8>>(), any::<u64>());
    let names = (any_name(), any_name(), proptest::option::of(any_name()), any_name());
    (0..Kind::ALL.len(), any_severity(), numbers, names).prop_map(|(kind, severity, numbers, names)| {
        let place = Place {
            objset: numbers.0,
            object: numbers.1,
            block: numbers.1,
            level: numbers.2,
            dataset: Some(names.0.clone()),
            path: Some(names.1.clone()),
            device: names.2.clone(),
            ..Place::default()
        };
        let copy = samples::copy(&names.3, numbers.3, CopyResult::Checksum, Some(Observed::Ones));
        let mut finding = Finding::new(Kind::ALL[kind], place, names.3);
        (finding.severity, finding.hidden_blocks) = (severity, numbers.3);
        finding.copies = vec![copy.clone(), copy];
        finding
    })
}

prop_compose! {
    fn any_outcome()(
        findings in proptest::collection::vec(any_finding(), 0..6),
        names in proptest::collection::vec(any_name(), 8),
        numbers in any::<[u64; 8]>(),
        status in any::<u8>(),
        decoded in any::<bool>(),
        base in 0..10_usize,
    ) -> Outcome {
        let mut outcome = samples::all().swap_remove(base).1;
        for finding in &findings {
            let ranges = vec![(numbers[0], numbers[1])];
            outcome.files.push(samples::file(&finding.place.name(), finding.severity, ranges, &[&names[7]]));
        }
        outcome.findings.extend(findings);
        outcome.pool.name.clone_from(&names[0]);
        outcome.pool.state.clone_from(&names[1]);
        outcome.patterns.push(names[3].clone());
        outcome.vdevs.push(samples::top(samples::leaf(numbers[2], &names[4], Some(&names[5])), Vec::new()));
        outcome.not_checked.push(samples::not_checked(NotCheckedReason::NoKey, &names[6], Some(numbers[3]), Some(numbers[4])));
        (outcome.pool.txg, outcome.pool.timestamp) = (numbers[5], numbers[6]);
        (outcome.summary.exit_status, outcome.decoded) = (status, decoded);
        (outcome.summary.lost_blocks, outcome.totals.bytes_read) = (numbers[6], numbers[7]);
        outcome.summary.damaged_files = numbers[2];
        outcome
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_outcome_keeps_the_shape(outcome in any_outcome(), detail in 0..3_usize) {
        let detail = [Detail::Quiet, Detail::Normal, Detail::Full][detail];
        let text = text(&outcome, detail);
        assert_shape("any", &outcome, &text);
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
