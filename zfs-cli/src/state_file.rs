//! The file of `--state`: how far a check is.

use crate::error::Failure;
use crate::output;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use zfs_scrub::resume::SavedRun;

/// Larger than any state: findings are bounded.
const BYTES_MAX: u64 = 1 << 30;

/// A file that is replaced as a whole, so that it is never half written.
#[derive(Debug)]
pub(crate) struct StateFile<'p> {
    path: &'p Path,
    has_failed: AtomicBool,
}

impl<'p> StateFile<'p> {
    /// The file at `path`, which need not exist.
    pub(crate) fn new(path: &'p Path) -> Self {
        Self { path, has_failed: AtomicBool::new(false) }
    }

    /// What an earlier run saved, if there is something.
    pub(crate) fn load(&self) -> Result<Option<SavedRun>, Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::operational(format!("{}: {error}", self.path.display()));
        match std::fs::metadata(self.path) {
            Ok(metadata) if !metadata.is_file() => return Err(fail(&"--state wants a file")),
            Ok(metadata) if metadata.len() > BYTES_MAX => {
                return Err(fail(&"it is no saved state of zcheck: too large"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(&error)),
        }
        let text = std::fs::read_to_string(self.path).map_err(|error| fail(&error))?;
        SavedRun::from_json(&text).map(Some).map_err(|error| fail(&error))
    }

    /// Replaces what is there. That it cannot be written is told once, and does not end the check.
    pub(crate) fn save(&self, run: &SavedRun) {
        let text = run.to_json().map_err(io::Error::other);
        let written = text.and_then(|text| self.replace(&text));
        if let Err(error) = written
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            output::warning(&format!("{}: how far the check is cannot be saved: {error}", self.path.display()));
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(name);
        // What is there already belongs to somebody else.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        drop(file);
        let result = written.and_then(|()| std::fs::rename(&beside, self.path));
        if result.is_err() {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(&beside);
        }
        result
    }

    /// Everything was checked: nothing is left to go on with.
    pub(crate) fn remove(&self) {
        match std::fs::remove_file(self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                output::warning(&format!("{}: cannot be removed: {error}", self.path.display()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_state_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(StateFile::new(&path).load(), Ok(None));
        std::fs::write(&path, "{}").unwrap();
        let error = StateFile::new(&path).load().unwrap_err();
        assert!(error.message.contains("no saved state of zcheck"), "{}", error.message);
        let error = StateFile::new(dir.path()).load().unwrap_err();
        assert!(error.message.contains("wants a file"), "{}", error.message);
        StateFile::new(&path).remove();
        assert!(!path.exists());
        StateFile::new(&path).remove();
    }
}
