//! The README's reports are what the program prints. `ZCHECK_BLESS=1` rewrites them.

use std::path::{Path, PathBuf};
use std::process::Command;

const OPEN: &str = "<!-- report -->\n```console\n";
const CLOSE: &str = "```\n<!-- /report -->";
const PROMPT: &str = "$ cargo run --release -- ";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What a terminal shows of the command in the first line of `block`, and of `echo $?` after it.
fn run(block: &str) -> String {
    let command = block.lines().next().unwrap();
    let args = command.strip_prefix(PROMPT).unwrap_or_else(|| panic!("a report begins with {PROMPT:?}: {command}"));
    let output = Command::new(env!("CARGO_BIN_EXE_zcheck")).args(args.split(' ')).current_dir(root()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    let (report, status) = (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap());
    format!("{command}\n{report}$ echo $?\n{status}\n")
}

/// Without the time and the speed in the line of the scan: `in 0.1 s (23.3 MiB/s)`. Nothing else may differ.
pub(crate) fn without_timings(report: &str) -> String {
    let line = |line: &str| match line.split_once(" blocks in ") {
        Some((before, after)) if line.starts_with("  scan: ") => {
            let (timing, after) = after.split_once("; ").expect("what was checked follows the time");
            assert!(timing.ends_with("/s)"), "not a time and a speed: {timing}");
            format!("{before} blocks in TIME; {after}\n")
        }
        _ => format!("{line}\n"),
    };
    report.lines().map(line).collect()
}

/// Splits the page into text and report blocks, by turns.
fn pieces(page: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find(OPEN) {
        let start = start + OPEN.len();
        let end = start + rest[start..].find(CLOSE).expect("a report that ends");
        pieces.extend([&rest[..start], &rest[start..end]]);
        rest = &rest[end..];
    }
    pieces.push(rest);
    pieces
}

#[test]
fn the_reports_in_the_readme_are_what_its_commands_print() {
    let path = root().join("README.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let pieces = pieces(&page);
    assert!(pieces.len() >= 5, "README.md shows a healthy and a damaged pool");
    let mut blessed = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        if index % 2 == 0 {
            blessed.push_str(piece);
            continue;
        }
        let printed = run(piece);
        if std::env::var_os("ZCHECK_BLESS").is_none() {
            let hint = "ZCHECK_BLESS=1 rewrites README.md";
            assert_eq!(without_timings(piece), without_timings(&printed), "{hint}");
        }
        blessed.push_str(&printed);
    }
    if std::env::var_os("ZCHECK_BLESS").is_some() {
        std::fs::write(&path, blessed).unwrap();
    }
}

#[test]
fn all_commands_of_the_readme_for_trying_it_are_tested() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let reports: String = pieces(&page).into_iter().skip(1).step_by(2).collect();
    for command in page.lines().filter(|line| line.starts_with(PROMPT)) {
        assert!(reports.contains(command), "no report is shown for: {command}");
    }
}

#[test]
fn only_timings_are_masked() {
    let text = "  scan: checked 1.09 MiB in 194 blocks in 0.1 s (15.6 MiB/s); every copy\n4\n";
    assert_eq!(without_timings(text), "  scan: checked 1.09 MiB in 194 blocks in TIME; every copy\n4\n");
}
