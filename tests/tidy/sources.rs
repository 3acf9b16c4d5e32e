//! Rules about single lines and files.

use crate::tree::{Source, files, report};

const LINES_MAX: usize = 600;

fn each_line<'a>(
    sources: &'a [Source],
    is_bad: impl Fn(&Source, &str) -> bool,
    lines: impl Fn(&'a Source) -> Box<dyn Iterator<Item = (usize, &'a str)> + 'a>,
) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        for (number, line) in lines(source).filter(|(_, line)| is_bad(source, line)) {
            broken.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    broken
}

/// This file has to name what it forbids.
fn all_but_tidy(ending: &str) -> Vec<Source> {
    files(ending).into_iter().filter(|source| !source.path.starts_with("tests/tidy/")).collect()
}

fn may_be_unsafe(path: &str) -> bool {
    path.starts_with("zfs-format/src/codec/") && (path.ends_with("_x86.rs") || path.ends_with("_arm.rs"))
}

#[test]
fn unsafe_stays_in_the_files_that_may_have_it() {
    let sources = all_but_tidy(".rs");
    let is_word = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
    let broken =
        each_line(&sources, |source, line| is_word(line) && !may_be_unsafe(&source.path), |s| Box::new(s.code()));
    report("unsafe outside the memory map and the kernels of one instruction set", &broken);
    for source in sources.iter().filter(|source| may_be_unsafe(&source.path)) {
        let proofs = source.text.matches("// SAFETY:").count();
        let blocks = source.code().filter(|(_, line)| line.contains("unsafe {")).count();
        assert!(proofs >= blocks, "{}: {blocks} unsafe blocks, {proofs} proofs", source.path);
    }
}

#[test]
fn no_file_is_too_long() {
    let too_long = |source: &Source| source.text.lines().count() > LINES_MAX && !source.path.ends_with("/args.rs");
    let broken: Vec<String> = files(".rs").into_iter().filter(too_long).map(|source| source.path).collect();
    report("longer than 600 lines: look for the second noun", &broken);
}

#[test]
fn library_code_does_not_panic_without_a_reason() {
    let mut broken = Vec::new();
    let words = [".unwrap()", ".expect(", "panic!(", "unreachable!(", "todo!(", "unimplemented!("];
    for source in files(".rs").iter().filter(|source| source.is_library()) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in source.tested_code().filter(|(_, line)| words.iter().any(|word| line.contains(word))) {
            let above = number.checked_sub(2).and_then(|index| lines.get(index)).copied().unwrap_or_default();
            if ![line, above].iter().any(|line| line.contains("// OK to ")) {
                broken.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    report("a panic in library code without `// OK to unwrap: why`", &broken);
}

#[test]
fn no_test_is_switched_off() {
    let sources = all_but_tidy(".rs");
    report("a test that never runs", &each_line(&sources, |_, line| line.contains("#[ignore"), |s| Box::new(s.code())));
}

#[test]
fn what_is_left_to_do_has_an_issue() {
    let is_bad = |_: &Source, line: &str| {
        ["TODO", "FIXME", "XXX"].iter().any(|word| {
            let after = line.split_once(word).map(|(_, after)| after);
            after.is_some_and(|after| !after.trim_start_matches(['(', ' ']).starts_with('#'))
        })
    };
    let mut broken = Vec::new();
    for source in all_but_tidy(".rs") {
        for (index, line) in source.text.lines().enumerate().filter(|(_, line)| is_bad(&source, line)) {
            broken.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
        }
    }
    report("work left to do without the number of an issue", &broken);
}

#[test]
fn nothing_is_imported_by_a_star() {
    let sources = all_but_tidy(".rs");
    let is_star = |line: &str| {
        let line = line.trim_start();
        (line.starts_with("use ") || line.starts_with("pub use ") || line.starts_with("pub(")) && line.ends_with("::*;")
    };
    let broken = each_line(&sources, |_, line| is_star(line) && line.contains("pub"), |s| Box::new(s.code()));
    report("a public re-export by a star", &broken);
    let broken =
        each_line(&sources, |source, line| source.is_library() && is_star(line), |s| Box::new(s.tested_code()));
    report("an import by a star", &broken);
}

#[test]
fn no_file_names_a_place_on_someones_machine() {
    // Put together here, so that this file does not name them.
    let places = ["work", "home", "Users", "root", "mnt"].map(|dir| format!("/{dir}/"));
    let starts = |line: &str, place: &str| {
        line.match_indices(place).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| matches!(c, ' ' | '"' | '\'' | '`' | '(' | '=' | '<'))
        })
    };
    let is_bad =
        |line: &str| places.iter().any(|place| starts(line, place)) || starts(line, &["/tmp", "wt/"].join("/"));
    let mut broken = Vec::new();
    for ending in [".rs", ".toml", ".md", ".yml", ".sh", ".json"] {
        for source in files(ending) {
            for (index, line) in source.text.lines().enumerate().filter(|(_, line)| is_bad(line)) {
                broken.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    report("a path of someone's machine", &broken);
}
