//! How long names are looked for, when the time of a run is limited.

use crate::scope::Scope;
use std::time::{Duration, Instant};

/// Names get a tenth of the time of the run beyond its end, and no less than this: a finding without a name helps little.
const NAMES_MIN: Duration = Duration::from_secs(1);

/// When no more names are looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    end: Option<Instant>,
}

impl Patience {
    /// For a run that began at `started`.
    pub(super) fn new(scope: &Scope, started: Instant) -> Self {
        let more = |time: Duration| time.saturating_add((time / 10).max(NAMES_MIN));
        Self { end: scope.time_max.and_then(|time| started.checked_add(more(time))) }
    }

    /// Whether the time is over.
    pub(super) fn is_over(self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_tenth_more_and_at_least_a_second() {
        let is_over = |time_max: Option<u64>, ago: u64| {
            let scope = Scope { time_max: time_max.map(Duration::from_secs), ..Scope::default() };
            Patience { end: Patience::new(&scope, Instant::now()).end.map(|end| end - Duration::from_secs(ago)) }
                .is_over()
        };
        assert!(!is_over(None, 1_000_000));
        assert!(!is_over(Some(0), 0) && is_over(Some(0), 1));
        assert!(!is_over(Some(100), 109) && is_over(Some(100), 110));
    }
}
