//! Damages pools by chance, round after round, and holds each report against what was really changed.
//!
//! `tests/soak.sh` runs it for as long as it is told; as a plain test it is a short round. A round is a number: it says which
//! pool is damaged and how, so that a failure can be had again with `ZCHECK_SOAK_ROUND`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod blows;
mod oracle;
mod overlay;
mod subject;

use crate::blows::Dice;
use crate::oracle::{Truth, run};
use crate::subject::Subject;
use std::io::Write;
use std::time::{Duration, Instant};

/// Rounds of a plain test, over all pools.
const SHORT_ROUNDS: u64 = 160;
/// Rounds from one pool to the next.
const ROUNDS_A_POOL: u64 = 10;

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn say(text: &str) {
    // Nothing can be done about a closed stderr.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn damage_by_chance_is_found_and_nothing_else_is() {
    let seed = setting("ZCHECK_SOAK_SEED").unwrap_or(1);
    let rounds = setting("ZCHECK_SOAK").unwrap_or(SHORT_ROUNDS);
    let time = setting("ZCHECK_SOAK_SECONDS").map_or(Duration::MAX, Duration::from_secs);
    let only = setting("ZCHECK_SOAK_ROUND");
    let started = Instant::now();
    let (mut done, mut complaints, mut counts) = (0, Vec::new(), oracle::Counts::default());
    let mut subject: Option<(u64, Subject)> = None;
    let numbers = only.map_or(0..rounds, |round| round..round + 1);
    for round in numbers.take_while(|_| started.elapsed() < time) {
        let turn = round / ROUNDS_A_POOL;
        if subject.as_ref().is_none_or(|(of, _)| *of != turn) {
            subject = Some((turn, Subject::open(&subject::of_turn(turn), seed ^ turn)));
        }
        let (_, pool) = subject.as_ref().unwrap();
        let mut dice = Dice::new(seed, round);
        let damage = blows::strike(pool, &mut dice);
        let truth = Truth::new(pool, &damage);
        let answer = run(pool, &damage, &mut dice);
        if only.is_some() {
            say(&format!("{}\n{answer}", damage.told()));
        }
        if let Err(complaint) = truth.check(&answer, &mut counts) {
            complaints.push(format!("round {round}, {}: {complaint}\n  damage: {}", pool.name, damage.told()));
        }
        done += 1;
    }
    say(&format!("soak: seed {seed}, {done} rounds in {:.0?}: {counts}", started.elapsed()));
    let shown = complaints.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(complaints.is_empty(), "{} of {done} rounds were answered wrongly:\n{shown}", complaints.len());
}
