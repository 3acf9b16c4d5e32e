//! How far a run has come, for a later one to go on from there.

use crate::finding::{Sink, SinkContents};
use crate::resume::{Identity, ResumeError, Resuming, SavedRun, SavedSink};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What lasts over all states that a run walks.
#[derive(Debug)]
pub(super) struct Journal<'a> {
    resuming: &'a Resuming<'a>,
    identity: Identity,
    /// Batches that were made in this run, those that were done before included.
    numbers: AtomicU64,
    /// What was found in states whose walk has ended.
    ended: Mutex<Vec<SavedSink>>,
}

/// What an earlier run did of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing.
    Nothing,
    /// So many tasks of each lane.
    Begun(Vec<usize>),
    /// All of it.
    Done,
}

impl<'a> Journal<'a> {
    pub(super) fn new(resuming: &'a Resuming<'a>, identity: Identity) -> Result<Self, ResumeError> {
        if let Some(from) = &resuming.from {
            from.check(&identity)?;
            from.found.iter().try_for_each(|found| found.contents().map(drop))?;
        }
        Ok(Self { resuming, identity, numbers: AtomicU64::new(0), ended: Mutex::default() })
    }

    /// Numbers the next batch, and tells what was done of it before.
    pub(super) fn next_batch(&self) -> (u64, Before) {
        let number = self.numbers.fetch_add(1, Relaxed);
        let Some(from) = &self.resuming.from else { return (number, Before::Nothing) };
        if number < from.batches_done {
            return (number, Before::Done);
        }
        let begun = from.begun.iter().find(|(of, _)| *of == number);
        (number, begun.map_or(Before::Nothing, |(_, tasks)| Before::Begun(tasks.clone())))
    }

    /// What was counted before.
    pub(super) fn counted(&self) -> &[u64] {
        self.resuming.from.as_ref().map(|from| from.counted.as_slice()).unwrap_or_default()
    }

    /// Puts what was found before, in the state that is walked next, into its sink.
    pub(super) fn restore(&self, sink: &Sink) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).len();
        let found = self.resuming.from.as_ref().and_then(|from| from.found.get(ended));
        if let Some(Ok(contents)) = found.map(SavedSink::contents) {
            sink.absorb(contents);
        }
    }

    /// The walk of a state has ended, with this found in its leaf blocks.
    pub(super) fn end_state(&self, contents: &SinkContents) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(SavedSink::of(contents));
    }

    /// How often to save.
    pub(super) fn interval(&self) -> Duration {
        self.resuming.interval
    }

    /// How many batches were numbered.
    pub(super) fn batches(&self) -> u64 {
        self.numbers.load(Relaxed)
    }

    /// Saves how far the run is: the first `batches_done` batches, and of later ones what `begun` says.
    pub(super) fn save(
        &self,
        batches_done: u64,
        begun: Vec<(u64, Vec<usize>)>,
        counted: Vec<u64>,
        found: &SinkContents,
    ) {
        let mut sinks = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sinks.push(SavedSink::of(found));
        let identity = self.identity.clone();
        (self.resuming.save)(&SavedRun { identity, batches_done, begun, counted, found: sinks });
    }
}
