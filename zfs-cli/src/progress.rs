//! Progress on stderr: a bar, or one JSON line a second. A thread of its own polls the counters and ends with the run.

use crate::args::ProgressMode;
use crate::report::page;
use crate::report::units::{duration, size, thousands};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zfs_scrub::options::{Progress, ProgressReading};

/// The rate is an average over this long.
const WINDOW: Duration = Duration::from_secs(20);
/// No time left is promised before this much was measured.
const ETA_AFTER: Duration = Duration::from_secs(3);
/// How often the bar moves.
const BAR_INTERVAL: Duration = Duration::from_millis(200);
/// How often a JSON line is written.
const JSON_INTERVAL: Duration = Duration::from_secs(1);
/// Length of the bar in steps.
const BAR_STEPS: u64 = 1000;
/// Terminals narrower than this get a short bar and no rate.
const WIDE_COLUMNS: u16 = 96;
/// Letters of the pool's name in the bar.
const NAME_MAX: usize = 24;

/// What can be said about a run that is under way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    /// From 0 to 1; `None` while nothing is known.
    fraction: Option<f64>,
    /// The rate of the recent seconds.
    bytes_per_second: u64,
    /// Time left for what is known to be left.
    eta: Option<Duration>,
}

/// Turns readings of the counters into estimates.
#[derive(Debug, Default)]
struct Meter {
    /// Time and bytes done, oldest first, not much older than [`WINDOW`].
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// Takes a reading made `elapsed` after the start.
    fn update(&mut self, reading: ProgressReading, elapsed: Duration) -> Estimate {
        self.samples.push_back((elapsed, reading.done_bytes));
        while self.samples.get(1).is_some_and(|(time, _)| elapsed.saturating_sub(*time) >= WINDOW) {
            self.samples.pop_front();
        }
        let (since, done_then) = self.samples.front().copied().unwrap_or_default();
        estimate(reading, reading.done_bytes.saturating_sub(done_then), elapsed.saturating_sub(since))
    }
}

/// The estimate, given that `recent_bytes` were done in the last `recent` time.
fn estimate(reading: ProgressReading, recent_bytes: u64, recent: Duration) -> Estimate {
    let known = reading.known_bytes.max(reading.done_bytes);
    let fraction = (known > 0).then(|| reading.done_bytes as f64 / known as f64);
    let rate = if recent.is_zero() { 0.0 } else { recent_bytes as f64 / recent.as_secs_f64() };
    let left = known.saturating_sub(reading.done_bytes) as f64;
    let eta = (rate >= 1.0 && recent >= ETA_AFTER).then(|| Duration::try_from_secs_f64(left / rate).ok()).flatten();
    Estimate { fraction, bytes_per_second: rate as u64, eta }
}

/// What stands behind the bar: `47 %  1.14 TiB of 2.41 TiB  612 MiB/s  36 min left  3 bad`.
fn message(reading: ProgressReading, estimate: Estimate, wide: bool) -> String {
    let mut parts = Vec::new();
    if let Some(fraction) = estimate.fraction {
        parts.push(format!("{:>3} %", (fraction * 100.0) as u64));
        parts.push(format!("{} of {}", size(reading.done_bytes), size(reading.known_bytes)));
    }
    if wide && estimate.bytes_per_second > 0 {
        parts.push(format!("{}/s", size(estimate.bytes_per_second)));
    }
    if let Some(eta) = estimate.eta {
        parts.push(format!("{} left", duration(Duration::from_secs(eta.as_secs()))));
    }
    if reading.bad_blocks > 0 {
        parts.push(format!("{} bad", thousands(reading.bad_blocks)));
    }
    parts.join("  ")
}

/// One line of `--progress json`.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    pool: &'a str,
    done_bytes: u64,
    known_bytes: u64,
    bad_blocks: u64,
    bytes_per_second: u64,
    elapsed_s: f64,
    left_s: Option<u64>,
}

impl<'a> Line<'a> {
    fn new(pool: &'a str, reading: ProgressReading, estimate: Estimate, elapsed: Duration) -> Self {
        Self {
            schema: "zcheck.progress/1",
            pool,
            done_bytes: reading.done_bytes,
            known_bytes: reading.known_bytes,
            bad_blocks: reading.bad_blocks,
            bytes_per_second: estimate.bytes_per_second,
            elapsed_s: (elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
            left_s: estimate.eta.map(|eta| eta.as_secs()),
        }
    }
}

/// Shows progress until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Display {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Display {
    /// Starts to show the progress of checking `pool`. `quiet` turns the automatic bar off.
    pub(crate) fn start(mode: ProgressMode, quiet: bool, pool: &str, progress: &Arc<Progress>) -> Self {
        let bar = match mode {
            ProgressMode::None => return Self::default(),
            ProgressMode::Json => false,
            ProgressMode::Auto if quiet => return Self::default(),
            ProgressMode::Auto | ProgressMode::Bar if io::stderr().is_terminal() => true,
            ProgressMode::Auto | ProgressMode::Bar => return Self::default(),
        };
        let (stop, stopped) = mpsc::channel::<()>();
        let (pool, progress) = (pool.to_owned(), Arc::clone(progress));
        let show = move || {
            let ended = |wait| !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
            if bar { show_bar(&pool, &progress, ended) } else { show_json(&pool, &progress, ended) }
        };
        // Without a thread there is no progress to see, which is no reason not to check the pool.
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(show);
        Self { running: thread.ok().map(|thread| (stop, thread)) }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Moves the bar until `ended` says so, then takes it away.
fn show_bar(pool: &str, progress: &Progress, ended: impl Fn(Duration) -> bool) {
    let wide = terminal_size::terminal_size_of(io::stderr()).is_none_or(|(width, _)| width.0 >= WIDE_COLUMNS);
    let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(if wide {
        "{prefix}  [{bar:20}]  {wide_msg}"
    } else {
        "{prefix}  [{bar:10}]  {wide_msg}"
    }) {
        bar.set_style(style.progress_chars("=> "));
    }
    let name: String = page::name(pool).chars().take(NAME_MAX).collect();
    bar.set_prefix(format!("checking {name}"));
    let (start, mut meter) = (Instant::now(), Meter::default());
    while !ended(BAR_INTERVAL) {
        let reading = progress.read();
        let estimate = meter.update(reading, start.elapsed());
        bar.set_position((estimate.fraction.unwrap_or(0.0) * BAR_STEPS as f64) as u64);
        bar.set_message(if progress.is_cancelled() { "stopping".to_owned() } else { message(reading, estimate, wide) });
    }
    bar.finish_and_clear();
}

/// Writes a line at the start, one a second, and one at the end.
fn show_json(pool: &str, progress: &Progress, ended: impl Fn(Duration) -> bool) {
    let (start, mut meter) = (Instant::now(), Meter::default());
    let mut last = false;
    loop {
        let (reading, elapsed) = (progress.read(), start.elapsed());
        let estimate = meter.update(reading, elapsed);
        let Ok(mut line) = serde_json::to_string(&Line::new(pool, reading, estimate, elapsed)) else { return };
        line.push('\n');
        // One write a line; nobody reads any more if it fails.
        if last || io::stderr().write_all(line.as_bytes()).is_err() {
            return;
        }
        last = ended(JSON_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn reading(done_bytes: u64, known_bytes: u64) -> ProgressReading {
        ProgressReading { done_bytes, known_bytes, bad_blocks: 0 }
    }

    #[test]
    fn nothing_known_promises_nothing() {
        let first = Meter::default().update(reading(0, 0), Duration::ZERO);
        assert_eq!(first, Estimate { fraction: None, bytes_per_second: 0, eta: None });
        assert_eq!(message(reading(0, 0), first, true), "");
    }

    #[test]
    fn the_time_left_follows_from_the_rate_of_recent_seconds() {
        let mut meter = Meter::default();
        let mut last = None;
        // Slow for a minute, then ten times as fast for half a minute.
        let mut done = 0;
        for second in 0..=90 {
            done += if second > 60 { 100 } else { 10 };
            last = Some(meter.update(reading(done, 10_000), SECOND * second));
        }
        let last = last.unwrap();
        assert_eq!(last.bytes_per_second, 100);
        assert_eq!(last.eta, Some(Duration::from_secs(10_000 - done) / 100));
        assert!(meter.samples.len() <= 22);
    }

    #[test]
    fn the_fraction_never_passes_one() {
        let mut meter = Meter::default();
        for (done, known) in [(1, 0), (u64::MAX, 1), (u64::MAX, u64::MAX), (5, 5)] {
            let fraction = meter.update(reading(done, known), SECOND).fraction.unwrap();
            assert!((0.0..=1.0).contains(&fraction));
        }
    }

    #[test]
    fn a_hundred_percent_means_done() {
        let almost = estimate(reading(9999, 10_000), 0, SECOND);
        assert!(message(reading(9999, 10_000), almost, true).starts_with(" 99 %"));
        let done = estimate(reading(10_000, 10_000), 0, SECOND);
        assert!(message(reading(10_000, 10_000), done, true).starts_with("100 %"));
    }

    #[test]
    fn the_message_has_all_parts() {
        let reading = ProgressReading { done_bytes: 47 << 30, known_bytes: 100 << 30, bad_blocks: 3 };
        let estimate = estimate(reading, 6 << 30, SECOND * 10);
        assert_eq!(message(reading, estimate, true), " 47 %  47 GiB of 100 GiB  614 MiB/s  88 s left  3 bad");
        assert_eq!(message(reading, estimate, false), " 47 %  47 GiB of 100 GiB  88 s left  3 bad");
    }

    #[test]
    fn a_display_ends_with_the_run() {
        let progress = Arc::new(Progress::default());
        let display = Display::start(ProgressMode::Json, false, "tank", &progress);
        drop(display);
        assert_eq!(Arc::strong_count(&progress), 1);
    }
}
