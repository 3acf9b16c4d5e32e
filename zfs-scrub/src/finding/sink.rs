//! Where findings go: a bounded, ordered collection that many threads push into.

use super::{Finding, Severity};
use std::sync::{Mutex, PoisonError};

/// Collects findings from all threads.
///
/// It keeps the first `max` in report order, whatever order they come in, and only counts the rest: the same findings
/// survive with one thread and with eight.
#[derive(Debug)]
pub struct Sink {
    max: usize,
    state: Mutex<SinkContents>,
}

/// What a sink holds at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkContents {
    /// The findings that were kept, in report order once the sink is closed.
    pub findings: Vec<Finding>,
    /// Findings of severity degraded that were counted but not kept.
    pub dropped_degraded: u64,
    /// Findings of severity damaged that were counted but not kept.
    pub dropped_damaged: u64,
}

impl Sink {
    /// An empty sink that keeps at most `max` findings.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max: max.max(1), state: Mutex::new(SinkContents::default()) }
    }

    /// Takes one finding.
    pub fn push(&self, finding: Finding) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.findings.push(finding);
        if state.findings.len() >= self.max.saturating_mul(2) {
            state.trim(self.max);
        }
    }

    /// Takes what another sink held.
    pub fn absorb(&self, contents: SinkContents) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.findings.extend(contents.findings);
        state.dropped_degraded += contents.dropped_degraded;
        state.dropped_damaged += contents.dropped_damaged;
        state.trim(self.max);
    }

    /// What it holds now.
    #[must_use]
    pub fn contents(&self) -> SinkContents {
        let mut contents = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        contents.trim(self.max);
        contents
    }

    /// Ends the collection: findings in report order.
    #[must_use]
    pub fn close(&self) -> SinkContents {
        let mut state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        state.trim(self.max);
        state
    }
}

impl SinkContents {
    /// Puts the findings in report order.
    pub fn sort(&mut self) {
        self.findings.sort_by_cached_key(Finding::sort_key);
    }

    /// Sorts, and drops what lies beyond `max`. Damage is kept before degradation, degradation before notes.
    fn trim(&mut self, max: usize) {
        self.findings.sort_by_cached_key(|finding| (std::cmp::Reverse(finding.severity), finding.sort_key()));
        for finding in self.findings.drain(max.min(self.findings.len())..) {
            match finding.severity {
                Severity::Damaged => self.dropped_damaged += 1,
                Severity::Degraded => self.dropped_degraded += 1,
                Severity::Note => {}
            }
        }
        self.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Place};
    use super::*;

    fn finding(object: u64, severity: Severity) -> Finding {
        let place = Place { objset: Some(1), object: Some(object), block: Some(0), ..Place::default() };
        Finding { severity, ..Finding::new(Kind::BlockChecksum, place, "") }
    }

    #[test]
    fn the_same_findings_survive_in_any_order_of_arrival() {
        let mut all: Vec<_> = (0..50).map(|n| finding(n, Severity::Degraded)).collect();
        all.push(finding(99, Severity::Damaged));
        let forward = Sink::new(10);
        all.iter().cloned().for_each(|f| forward.push(f));
        let backward = Sink::new(10);
        all.iter().rev().cloned().for_each(|f| backward.push(f));
        let (forward, backward) = (forward.close(), backward.close());
        assert_eq!(forward, backward);
        assert_eq!(forward.findings.len(), 10);
        assert_eq!(forward.dropped_degraded, 41);
        assert!(forward.findings.iter().any(|f| f.place.object == Some(99)));
        // As well as in two parts.
        let parts = [Sink::new(10), Sink::new(10)];
        all.iter().cloned().enumerate().for_each(|(index, f)| parts[index % 2].push(f));
        let [first, second] = parts;
        first.absorb(second.close());
        assert_eq!(first.contents(), forward);
        assert_eq!(first.close(), forward);
    }
}
