//! `zcheck scrub`: opens the pool, checks it, reports.

use super::txgs::DEEP_MAX;
use crate::args::{ScopeArgs, ScrubArgs};
use crate::error::Failure;
use crate::progress::Display;
use crate::report::json::Json;
use crate::report::text::Text;
use crate::report::{Detail, Report};
use crate::state_file::StateFile;
use crate::{key, nice, open, output};
use std::sync::Arc;
use std::time::Duration;
use zfs_format::block::Work;
use zfs_format::dataset::{GivenKey, unlock};
use zfs_format::media::RateLimit;
use zfs_scrub::options::Progress;
use zfs_scrub::outcome::exit;
use zfs_scrub::resume::{Resuming, SavedRun};
use zfs_scrub::scope::Scope;
use zfs_scrub::survey::{Depth, Survey};
use zfs_scrub::{Options, Outcome, ScrubError};

/// How often `--state` is written.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// Checks one pool and writes the report. Answers with the exit status of the outcome.
pub(super) fn run(args: &ScrubArgs, color: bool) -> Result<u8, Failure> {
    // Before signals are caught: who is asked for a passphrase may want to leave.
    let keys = key::read(&args.key_file)?;
    if args.nice {
        // Before there are other threads: they take it from this one.
        nice::give_way();
    }
    let progress = Arc::new(Progress::default());
    stop_on_signal(&progress);
    let outcome = run_scrub(args, &keys, &options(args), &progress)?;
    let text = form(args, color).render(&outcome).map_err(|error| Failure::json(&error))?;
    output::report(&text)?;
    Ok(outcome.summary.exit_status)
}

/// What the engine is asked to do.
fn options(args: &ScrubArgs) -> Options {
    let default = Options::default();
    Options {
        threads: args.threads.unwrap_or(default.threads),
        memory_bytes: args.memory,
        decode: !args.no_decode,
        at_risk: args.at_risk,
        scope: scope(&args.scope),
        survey: Some(Survey { depth: Depth::Metadata, deep_max: DEEP_MAX }),
        ..default
    }
}

/// Which part of the pool is to be checked.
fn scope(args: &ScopeArgs) -> Scope {
    Scope {
        metadata_only: args.metadata_only,
        since_txg: args.since_txg,
        share: args.slice.or(args.sample),
        datasets: args.dataset.clone(),
        paths: args.path.clone(),
        time_max: args.max_time,
        fail_fast: args.fail_fast,
    }
}

/// The form of the report.
fn form(args: &ScrubArgs, color: bool) -> Box<dyn Report> {
    let detail = match (args.quiet, args.verbose) {
        (true, _) => Detail::Quiet,
        (false, true) => Detail::Full,
        (false, false) => Detail::Normal,
    };
    if args.json { Box::new(Json) } else { Box::new(Text { detail, color }) }
}

/// The first Ctrl-C ends the check with a partial report, the second one ends the program.
pub(super) fn stop_on_signal(progress: &Arc<Progress>) {
    let progress = Arc::clone(progress);
    let handler = move || {
        if progress.is_cancelled() {
            std::process::exit(i32::from(exit::CANCELLED | exit::INCOMPLETE));
        }
        progress.cancel();
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        output::warning(&format!("Ctrl-C will end the check without a report: {error}"));
    }
}

/// Opens the pool and checks it, showing progress meanwhile.
fn run_scrub(
    args: &ScrubArgs,
    keys: &[GivenKey],
    options: &Options,
    progress: &Arc<Progress>,
) -> Result<Outcome, Failure> {
    let limit = args.rate_limit.map(|rate| Arc::new(RateLimit::new(rate)));
    let mut assembly = open::pool(&args.input, args.pool.as_deref(), limit.as_ref())?;
    if let Some(txg) = args.txg {
        open::select_txg(&mut assembly, txg)?;
    }
    unlock(&mut assembly, keys, &mut Work::default())
        .map_err(|error| Failure::operational(format!("pool {}: a given key is of no use: {error}", assembly.name)))?;
    let fail = |error: ScrubError| Failure::operational(error.to_string());
    let Some(path) = &args.state else {
        let _display = Display::start(args.progress, args.quiet, &assembly.name, progress);
        return zfs_scrub::scrub(&mut assembly, options, progress).map_err(fail);
    };
    let file = StateFile::new(path);
    let from = file.load()?;
    let _display = Display::start(args.progress, args.quiet, &assembly.name, progress);
    let save = |run: &SavedRun| file.save(run);
    let resuming = Resuming { from, interval: SAVE_INTERVAL, save: &save };
    let outcome =
        zfs_scrub::scrub_resumable(&mut assembly, options, progress, &resuming).map_err(|error| match error {
            ScrubError::Resume(error) => Failure::operational(format!("{}: {error}", path.display())),
            error => fail(error),
        })?;
    if progress.stopped().is_none() {
        file.remove();
    }
    Ok(outcome)
}
