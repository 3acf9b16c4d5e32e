//! The files of the repository.

use std::path::{Path, PathBuf};

/// A text file of the repository.
pub(crate) struct Source {
    /// Path from the top of the repository, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The top of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// All files with this ending; build directories and hidden ones are left out.
pub(crate) fn files(ending: &str) -> Vec<Source> {
    let top = top();
    let mut pending = vec![top.clone()];
    let mut found = Vec::new();
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let is_ours = !name.starts_with('.') && !matches!(&*name, "target" | "corpus" | "artifacts");
                pending.extend(is_ours.then_some(path));
            } else if name.ends_with(ending)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let path = path.strip_prefix(&top).unwrap().to_string_lossy().replace('\\', "/");
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

impl Source {
    /// Lines with their numbers, without comments that stand alone.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_comment = |line: &str| line.trim_start().starts_with("//");
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line)).filter(move |(_, line)| !is_comment(line))
    }

    /// The same up to the tests at the end of the file; nothing for files that are tests.
    pub(crate) fn tested_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let is_module = |line: &&&str| line.contains("mod ") && line.ends_with('{');
        let starts = |at: &usize| {
            lines[*at] == "#[cfg(test)]"
                && lines[*at + 1..].iter().find(|line| !line.starts_with("#[")).as_ref().is_some_and(is_module)
        };
        let mut end = (0..lines.len()).find(starts).unwrap_or(usize::MAX);
        if self.path.ends_with("/tests.rs") || self.path.contains("/tests/") || self.path.ends_with("/testing.rs") {
            end = 0;
        }
        self.code().take_while(move |(line, _)| *line <= end)
    }

    /// True for code that others build upon.
    pub(crate) fn is_library(&self) -> bool {
        self.path.starts_with("zfs-format/src/") || self.path.starts_with("zfs-scrub/src/")
    }
}

/// Fails with all lines that break a rule.
pub(crate) fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}
