//! Where bytes leave the program: reports to stdout, errors to stderr.

use crate::args::When;
use crate::error::Failure;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Writes a report. A reader that has gone is no error: the program ends quietly with the status it has.
pub(crate) fn report(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::output(&error)),
        _ => Ok(()),
    }
}

/// Writes the one error line.
pub(crate) fn error(message: &str) {
    // If stderr is gone there is nobody left to tell.
    let _ = writeln!(io::stderr(), "zcheck: error: {message}");
}

/// Writes a warning.
pub(crate) fn warning(message: &str) {
    let _ = writeln!(io::stderr(), "zcheck: warning: {message}");
}

/// Whether stdout takes colours.
pub(crate) fn color(when: When) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
        }
    }
}
