//! The commands. They parse nothing and print through `report` and `output`; each answers with the exit status.

mod explain;
mod generate;
mod info;
mod label;
mod scrub;
mod txgs;

use crate::args::{Cli, Command};
use crate::error::Failure;
use crate::output;

/// Runs what the command line asks for.
pub(crate) fn run(cli: Cli) -> Result<u8, Failure> {
    let color = output::color(cli.color);
    match cli.command {
        Command::Scrub(args) => scrub::run(&args, color),
        Command::Info(args) => info::run(&args, color),
        Command::Label(args) => label::run(&args, color),
        Command::Txgs(args) => txgs::run(&args, color),
        Command::Explain(args) => explain::run(&args, color),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { dir } => generate::man(&dir),
    }
}
