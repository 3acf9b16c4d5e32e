//! The threads of a run, and what they do next.
//!
//! A thread takes a piece of work, reads, checks, and comes back; nothing is handed from reader to checker, so bytes are
//! checked in the cache they were read into. Waves come first, since the walk waits for them; then the tasks of the device
//! that has the fewest threads, in the oldest batch that has some. There are more threads than `--threads` when a pool has
//! several devices: those that wait for a slow device do not keep others from theirs, and permits bound how many check at
//! the same time.

use super::batch::{Batch, LaneKey};
use super::journal::{Before, Journal};
use super::judge::Shared;
use super::verify::{Buffers, Turns, run};
use super::wave::Wave;
use crate::options::Stop;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use zfs_format::vdev::{Layout, VdevTree};

/// Batches that were sealed and are not finished: one being verified, one waiting.
const BATCHES_MAX: usize = 2;
/// A thread takes tasks of about this size together: neighbours stay with one thread.
const CHUNK_BYTES: u64 = 1 << 20;
/// Memory of one thread's buffers, about.
const THREAD_BYTES: u64 = 8 << 20;

/// The threads, and the work for them.
#[derive(Debug)]
pub(super) struct Crew<'a> {
    /// What the walk shares with them: for waves.
    pub(super) walk: Shared<'a>,
    /// What the verification of leaf blocks counts in, and reports to.
    pub(super) leaf: Shared<'a>,
    state: Mutex<State>,
    /// There is work, or the end.
    work: Condvar,
    /// Something was finished.
    finished: Condvar,
    /// The end.
    closed: Condvar,
    permits: Permits,
    turns: Turns,
}

#[derive(Debug, Default)]
struct State {
    wave: Option<Arc<Wave>>,
    batches: VecDeque<Running>,
    /// Threads at work in each lane.
    busy: BTreeMap<LaneKey, usize>,
    /// Most threads in one lane: where there are several, one is left for the others.
    lane_max: usize,
    /// Threads at work on tasks.
    at_work: usize,
    /// Batches of the run that were handed over.
    handed_over: u64,
    /// No task is to be taken now.
    is_paused: bool,
    is_closed: bool,
}

/// A batch that is not finished.
#[derive(Debug)]
struct Running {
    batch: Arc<Batch>,
    /// For each lane the next task.
    next: Vec<usize>,
    /// Tasks that are not done.
    left: usize,
    /// Its number in the run.
    number: u64,
}

/// What a thread does next.
enum Job {
    Wave(Arc<Wave>),
    Tasks { batch: Arc<Batch>, lane: usize, tasks: Range<usize> },
}

impl<'a> Crew<'a> {
    pub(super) fn new(walk: Shared<'a>, leaf: Shared<'a>) -> Self {
        let mut crew = Self {
            walk,
            leaf,
            state: Mutex::default(),
            work: Condvar::new(),
            finished: Condvar::new(),
            closed: Condvar::new(),
            permits: Permits::new(walk.options.threads),
            turns: Turns::new(walk.options.memory_bytes),
        };
        let others = usize::from(lanes(walk.reader.tree()) > 1);
        let lane_max = crew.threads().saturating_sub(others).max(1);
        let handed_over = leaf.journal.map_or(0, Journal::batches);
        crew.state = Mutex::new(State { handed_over, lane_max, ..State::default() });
        crew
    }

    /// How many threads there should be: `--threads`, and one more for each further device, as far as memory goes.
    pub(super) fn threads(&self) -> usize {
        let threads = self.walk.options.threads.max(1);
        let most = usize::try_from(self.walk.options.memory_bytes / 2 / THREAD_BYTES).unwrap_or(usize::MAX);
        let wanted = threads.saturating_add(lanes(self.walk.reader.tree()).saturating_sub(1));
        wanted.min(most).max(threads)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cancelled(&self) -> bool {
        self.walk.progress.is_cancelled()
    }

    /// One thread: works until the crew is closed and nothing is left.
    pub(super) fn run(&self) {
        let mut buffers = Buffers::default();
        while let Some(job) = self.next_job() {
            match job {
                Job::Wave(wave) => {
                    let _telling = Telling(self);
                    while wave.work(self.walk, &mut buffers) {}
                }
                Job::Tasks { batch, lane, tasks } => {
                    let _finishing = Finishing { crew: self, batch: &batch, lane, count: tasks.len() };
                    let of_lane = batch.lanes.get(lane);
                    let range = of_lane.and_then(|lane| lane.tasks.get(tasks.clone())).unwrap_or_default();
                    for task in range {
                        if !self.leaf.is_given_up() {
                            run(&self.leaf, &batch, task, &mut buffers, &self.permits, &self.turns);
                        }
                    }
                }
            }
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(wave) = state.wave.as_ref().filter(|wave| !wave.is_taken()) {
                return Some(Job::Wave(Arc::clone(wave)));
            }
            if !self.is_cancelled()
                && !state.is_paused
                && let Some(job) = state.take_tasks()
            {
                return Some(job);
            }
            // Who is paused may have tasks left.
            if state.is_closed && (!state.is_paused || self.is_cancelled()) {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, batch: &Arc<Batch>, lane: usize, count: usize) {
        let mut state = self.lock();
        state.at_work = state.at_work.saturating_sub(1);
        if let Some(lane) = batch.lanes.get(lane)
            && let Some(busy) = state.busy.get_mut(&lane.key)
        {
            *busy = busy.saturating_sub(1);
            // Somebody may have waited for this lane.
            self.work.notify_one();
        }
        if let Some(running) = state.batches.iter_mut().find(|running| Arc::ptr_eq(&running.batch, batch)) {
            running.left = running.left.saturating_sub(count);
        }
        while state.batches.front().is_some_and(|running| running.left == 0) {
            state.batches.pop_front();
        }
        drop(state);
        self.finished.notify_all();
    }

    /// Waits until another batch may be made.
    pub(super) fn wait_for_room(&self) {
        let is_full = |state: &mut State| state.batches.len() >= BATCHES_MAX && !self.is_cancelled();
        drop(self.finished.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner));
    }

    /// Hands a batch over, without what an earlier run did of it.
    pub(super) fn submit(&self, batch: Batch) {
        let (number, before) = self.leaf.journal.map_or((0, Before::Nothing), Journal::next_batch);
        let mut next = vec![0; batch.lanes.len()];
        match before {
            Before::Nothing => {}
            Before::Begun(tasks) => {
                for (lane, (next, done)) in batch.lanes.iter().zip(next.iter_mut().zip(tasks)) {
                    *next = done.min(lane.tasks.len());
                }
            }
            Before::Done => {
                self.lock().handed_over = number + 1;
                self.walk.progress.add_done(batch.blocks.iter().map(|block| block.bp.asize_bytes()).sum());
                return;
            }
        }
        let left = batch.tasks() - next.iter().sum::<usize>();
        let mut state = self.lock();
        state.handed_over = number + 1;
        if left > 0 {
            state.batches.push_back(Running { batch: Arc::new(batch), next, left, number });
            drop(state);
            self.work.notify_all();
        }
    }

    /// Verifies a wave with the help of all threads that are free.
    pub(super) fn verify(&self, wave: &Arc<Wave>, buffers: &mut Buffers) {
        if wave.groups() > 1 {
            self.lock().wave = Some(Arc::clone(wave));
            self.work.notify_all();
        }
        while wave.work(self.walk, buffers) {}
        let is_open = |_: &mut State| !wave.is_done();
        let state = self.finished.wait_while(self.lock(), is_open).unwrap_or_else(PoisonError::into_inner);
        let mut state = state;
        state.wave = None;
    }

    /// Ends the run when its time is over, and saves how far it is from time to time; returns when the crew is closed.
    pub(super) fn watch(&self) {
        let Shared { deadline, journal, .. } = self.walk;
        let next_save = || journal.and_then(|journal| Instant::now().checked_add(journal.interval()));
        let mut save_at = next_save();
        loop {
            let Some(next) = deadline.into_iter().chain(save_at).min() else { return };
            let left = next.saturating_duration_since(Instant::now());
            let is_open = |state: &mut State| !state.is_closed;
            let waited = self.closed.wait_timeout_while(self.lock(), left, is_open);
            let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if !timeout.timed_out() {
                return;
            }
            drop(state);
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.walk.progress.stop(Stop::TimeOver);
                return;
            }
            self.save();
            save_at = next_save();
        }
    }

    /// Saves how far the run is, between two tasks of each thread.
    pub(super) fn save(&self) {
        let Some(journal) = self.leaf.journal else { return };
        let mut state = self.lock();
        state.is_paused = true;
        let is_at_work = |state: &mut State| state.at_work > 0;
        let mut state = self.finished.wait_while(state, is_at_work).unwrap_or_else(PoisonError::into_inner);
        let begun: Vec<_> = state.batches.iter().map(|running| (running.number, running.next.clone())).collect();
        let done = begun.first().map_or(state.handed_over, |(number, _)| *number);
        // What is written to a file meanwhile keeps nobody from working.
        let (counted, found) = (self.leaf.counters.values(), self.leaf.sink.contents());
        state.is_paused = false;
        drop(state);
        self.work.notify_all();
        journal.save(done, begun, counted, &found);
    }

    /// No more work will come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.work.notify_all();
        self.closed.notify_all();
    }
}

impl State {
    /// The next tasks in the lane that has the fewest threads, of the older batch if lanes are equal: who waits for a slow
    /// device in one batch does not keep others from reading theirs for the next. `None` while all that is left waits for
    /// devices that have enough threads.
    fn take_tasks(&mut self) -> Option<Job> {
        let Self { batches, busy, at_work, lane_max, .. } = self;
        let threads = |key: &LaneKey| busy.get(key).copied().unwrap_or(0);
        let open = batches.iter().enumerate().flat_map(|(number, Running { batch, next, .. })| {
            let lanes = batch.lanes.iter().zip(next).enumerate();
            let open = lanes.filter(|(_, (lane, next))| **next < lane.tasks.len());
            open.map(move |(index, (lane, _))| (number, index, lane.key))
        });
        let free = open.filter(|(_, _, key)| threads(key) < *lane_max);
        let (number, index, key) = free.min_by_key(|(_, _, key)| threads(key))?;
        let Running { batch, next, .. } = batches.get_mut(number)?;
        let (lane, next) = (batch.lanes.get(index)?, next.get_mut(index)?);
        let first = *next;
        let mut bytes = 0;
        while let Some(task) = lane.tasks.get(*next).filter(|_| bytes < CHUNK_BYTES) {
            bytes += batch.read_bytes(task);
            *next += 1;
        }
        *busy.entry(key).or_default() += 1;
        *at_work += 1;
        Some(Job::Tasks { batch: Arc::clone(batch), lane: index, tasks: first..*next })
    }
}

/// Tells that tasks were finished; also when a thread panics, so that nobody waits for it and the panic is seen.
struct Finishing<'c, 'a> {
    crew: &'c Crew<'a>,
    batch: &'c Arc<Batch>,
    lane: usize,
    count: usize,
}

impl Drop for Finishing<'_, '_> {
    fn drop(&mut self) {
        self.crew.finish(self.batch, self.lane, self.count);
    }
}

/// Tells that no more of a wave is left to take for this thread, in the same way.
struct Telling<'c, 'a>(&'c Crew<'a>);

impl Drop for Telling<'_, '_> {
    fn drop(&mut self) {
        // Who looks whether the wave is done holds the lock until it waits.
        drop(self.0.lock());
        self.0.finished.notify_all();
    }
}

/// How many devices, and vdevs with parity, can be read at the same time.
fn lanes(tree: &VdevTree) -> usize {
    let of_top = |layout: &Layout| match layout {
        Layout::Copies(leaves) => leaves.iter().filter(|&&leaf| tree.is_given(leaf)).count(),
        Layout::Striped(_) | Layout::Mirror(_) => 1,
        _ => 0,
    };
    tree.tops.iter().flatten().map(|top| of_top(&top.layout)).sum()
}

/// How many threads may check at the same time.
#[derive(Debug)]
pub(super) struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The permission to check; given back when dropped.
#[derive(Debug)]
pub(super) struct Permit<'p>(&'p Permits);

impl Permits {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), freed: Condvar::new() }
    }

    /// Waits for a permit.
    pub(super) fn take(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
