//! `zcheck txgs`: which states of a pool its uberblock rings hold, and what of each can be read.

use super::scrub::stop_on_signal;
use crate::args::{DepthArg, TxgsArgs};
use crate::error::Failure;
use crate::report::states::{States, render_json, render_text};
use crate::{open, output};
use std::sync::Arc;
use zfs_scrub::Options;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::exit;
use zfs_scrub::survey::{Depth, Reach, Survey, survey};

/// States that are scrubbed at most before one is found whole.
pub(super) const DEEP_MAX: usize = 8;

/// Lists the states. 0 when at least one of them can be opened, 8 otherwise.
pub(super) fn run(args: &TxgsArgs, color: bool) -> Result<u8, Failure> {
    let progress = Arc::new(Progress::default());
    stop_on_signal(&progress);
    let assembly = open::pool(&args.input, args.pool.as_deref(), None)?;
    let depth = match args.depth {
        DepthArg::Roots => Depth::Roots,
        DepthArg::Metadata => Depth::Metadata,
        DepthArg::Data => Depth::Data,
    };
    let states = survey(&assembly, Survey { depth, deep_max: DEEP_MAX }, &Options::default(), &progress);
    let is_hopeless = states.iter().all(|state| matches!(state.reach, Reach::Lost { .. } | Reach::Unknown));
    let found = States { pool: assembly.name.clone(), guid: assembly.guid.0, states, verbose: args.verbose };
    let text = if args.json { render_json(&found) } else { Ok(render_text(&found, color)) };
    output::report(&text.map_err(|error| Failure::json(&error))?)?;
    let cancelled = if progress.is_cancelled() { exit::CANCELLED } else { 0 };
    Ok(cancelled | if is_hopeless { exit::INCOMPLETE } else { 0 })
}
