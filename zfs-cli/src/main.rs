//! zcheck: offline scrub and fsck for ZFS pools.
//!
//! Arguments come in through [`args`], [`commands`] do the work, [`report`] says what came of it. The report goes to
//! stdout, everything else to stderr; the exit status is a sum of bits in the manner of fsck(8).

mod args;
mod commands;
mod error;
mod key;
mod map;
mod nice;
mod open;
mod output;
mod progress;
mod report;
mod search;
mod state_file;

use args::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;
use zfs_scrub::outcome::exit;

fn main() -> ExitCode {
    let status = match Cli::try_parse() {
        Ok(cli) => commands::run(cli).unwrap_or_else(|failure| {
            output::error(&failure.message);
            failure.status
        }),
        Err(error) => explain_usage(&error),
    };
    ExitCode::from(status)
}

/// Prints help and version on stdout, usage errors on stderr.
fn explain_usage(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // The only thing that can fail here is a reader that has gone.
            let _ = error.print();
            0
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            exit::USAGE
        }
        _ => {
            let text = error.render().to_string();
            output::error(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
            exit::USAGE
        }
    }
}
