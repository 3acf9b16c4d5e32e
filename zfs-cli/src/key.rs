//! Keys of encrypted datasets: from files, from a pipe, or from a person at a terminal.
//!
//! What is read goes into one buffer that is never moved and becomes a [`Secret`], which zeroes it.

use crate::args::KeyArg;
use crate::error::Failure;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use zfs_format::dataset::GivenKey;
use zfs_format::pool::Secret;

/// More than any key has: a passphrase ends at 512 bytes.
const KEY_BYTES_MAX: usize = 4096;

/// Reads all keys, in the order given.
pub(crate) fn read(args: &[KeyArg]) -> Result<Vec<GivenKey>, Failure> {
    if args.iter().filter(|arg| is_stdin(&arg.file)).count() > 1 {
        return Err(Failure::usage("--key-file - can be given once only"));
    }
    let read = |arg: &KeyArg| {
        let secret = if is_stdin(&arg.file) { from_stdin(arg.dataset.as_deref())? } else { from_file(&arg.file)? };
        Ok(GivenKey { dataset: arg.dataset.clone(), secret })
    };
    args.iter().map(read).collect()
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn from_file(path: &Path) -> Result<Secret, Failure> {
    let fail = |error: io::Error| Failure::operational(format!("cannot read the key file {}: {error}", path.display()));
    bounded(&mut File::open(path).map_err(fail)?).map_err(fail)
}

/// Asks where somebody can answer, reads to the end otherwise.
fn from_stdin(dataset: Option<&str>) -> Result<Secret, Failure> {
    let fail = |error: io::Error| Failure::operational(format!("cannot read a key from the standard input: {error}"));
    if !io::stdin().is_terminal() {
        return bounded(&mut unbuffered().map_err(fail)?).map_err(fail);
    }
    let whose = dataset.map_or_else(String::new, |dataset| format!(" of {dataset}"));
    ask(&format!("key or passphrase{whose}: ")).map_err(fail)
}

/// At most [`KEY_BYTES_MAX`] bytes.
fn bounded(source: &mut dyn Read) -> io::Result<Secret> {
    let mut bytes = Vec::with_capacity(2 * KEY_BYTES_MAX);
    source.take(KEY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    let is_too_long = bytes.len() > KEY_BYTES_MAX;
    let secret = Secret::new(bytes);
    if is_too_long { Err(io::Error::other("too long to be a key")) } else { Ok(secret) }
}

/// The standard input without the buffer that Rust keeps for it, and never clears.
#[cfg(unix)]
fn unbuffered() -> io::Result<File> {
    use std::os::fd::AsFd;
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(not(unix))]
fn unbuffered() -> io::Result<io::Stdin> {
    Ok(io::stdin())
}

/// Reads one line that the terminal does not show.
#[cfg(unix)]
fn ask(prompt: &str) -> io::Result<Secret> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    use std::io::Write;
    let mut terminal = unbuffered()?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let mut stderr = io::stderr();
    write!(stderr, "{prompt}").and_then(|()| stderr.flush())?;
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let mut line = vec![0; KEY_BYTES_MAX];
    // A terminal hands over a line at a time.
    let length = terminal.read(&mut line);
    tcsetattr(&terminal, OptionalActions::Now, &before)?;
    writeln!(stderr)?;
    line.truncate(length?);
    Ok(Secret::new(line))
}

#[cfg(not(unix))]
fn ask(_: &str) -> io::Result<Secret> {
    Err(io::Error::other("it is a terminal, and what is typed would be shown; give the key in a file or by a pipe"))
}
