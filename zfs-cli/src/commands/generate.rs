//! `zcheck completions` and `zcheck man`: files that follow from the command line's definition.

use crate::args::Cli;
use crate::error::Failure;
use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Prints a completion script.
pub(super) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "zcheck", &mut script);
    output::report(&String::from_utf8_lossy(&script)).map(|()| 0)
}

/// Writes a man page for the program and one for each command.
pub(super) fn man(dir: &Path) -> Result<u8, Failure> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .map(|()| 0)
        .map_err(|error| Failure::operational(format!("cannot write man pages to {}: {error}", dir.display())))
}
