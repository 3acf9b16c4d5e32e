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
    ask(&format!("key or passphrase{whose}: ")).map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => Failure::cancelled("no key was given: cancelled"),
        _ => fail(error),
    })
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
///
/// Keys come one at a time, Ctrl-C too: a signal would end the program and leave the terminal without its echo.
#[cfg(unix)]
fn ask(prompt: &str) -> io::Result<Secret> {
    use std::io::Write;
    let mut terminal = unbuffered()?;
    let mut stderr = io::stderr();
    write!(stderr, "{prompt}").and_then(|()| stderr.flush())?;
    let silent = Silent::new(terminal.try_clone()?)?;
    let mut line = Line::default();
    let mut byte = [0];
    let end = loop {
        match terminal.read(&mut byte) {
            Ok(0) => break Ok(()),
            Ok(_) => match line.press(byte[0]) {
                Step::More => {}
                Step::Done => break Ok(()),
                Step::Interrupted => break Err(io::Error::from(io::ErrorKind::Interrupted)),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    drop(silent);
    writeln!(stderr)?;
    end.map(|()| Secret::new(std::mem::take(&mut line.bytes)))
}

/// A terminal that shows nothing and sends no signals, until this is dropped.
#[cfg(unix)]
struct Silent {
    terminal: File,
    before: rustix::termios::Termios,
}

#[cfg(unix)]
impl Silent {
    fn new(terminal: File) -> io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

#[cfg(unix)]
impl Drop for Silent {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // A terminal that has gone needs no echo.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// What is typed, in a buffer that does not move.
#[cfg(any(unix, test))]
struct Line {
    bytes: Vec<u8>,
}

#[cfg(any(unix, test))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    More,
    Done,
    Interrupted,
}

#[cfg(any(unix, test))]
impl Default for Line {
    fn default() -> Self {
        Self { bytes: Vec::with_capacity(KEY_BYTES_MAX) }
    }
}

#[cfg(any(unix, test))]
impl Line {
    /// One byte from the keyboard: Ctrl-C and Ctrl-\ leave, Backspace and Ctrl-U erase, Enter and Ctrl-D end.
    fn press(&mut self, byte: u8) -> Step {
        match byte {
            0x03 | 0x1c => return Step::Interrupted,
            b'\n' | b'\r' | 0x04 => return Step::Done,
            0x08 | 0x7f => {
                // A character of several bytes goes as a whole.
                while self.bytes.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            0x15 => self.bytes.clear(),
            _ if self.bytes.len() < KEY_BYTES_MAX => self.bytes.push(byte),
            _ => {}
        }
        Step::More
    }
}

#[cfg(any(unix, test))]
impl Drop for Line {
    fn drop(&mut self) {
        // What was typed before Ctrl-C is zeroed as a secret is.
        drop(Secret::new(std::mem::take(&mut self.bytes)));
    }
}

#[cfg(not(unix))]
fn ask(_: &str) -> io::Result<Secret> {
    Err(io::Error::other("it is a terminal, and what is typed would be shown; give the key in a file or by a pipe"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> (Vec<u8>, Step) {
        let mut line = Line::default();
        let mut step = Step::More;
        for &byte in bytes {
            step = line.press(byte);
        }
        (line.bytes.clone(), step)
    }

    #[test]
    fn a_line_is_edited_as_it_is_typed() {
        assert_eq!(typed(b"abc\n"), (b"abc".to_vec(), Step::Done));
        assert_eq!(typed("a\u{e9}\u{20ac}\x7f\x7fb\r".as_bytes()), (b"ab".to_vec(), Step::Done));
        assert_eq!(typed(b"wrong\x15\x7fright\x04"), (b"right".to_vec(), Step::Done));
        assert_eq!(typed(&vec![b'x'; KEY_BYTES_MAX + 9]).0.len(), KEY_BYTES_MAX);
    }

    #[test]
    fn ctrl_c_leaves_at_once() {
        assert_eq!(typed(b"abc\x03").1, Step::Interrupted);
        assert_eq!(typed(b"\x1c").1, Step::Interrupted);
    }
}
