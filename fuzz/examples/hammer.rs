//! Runs mutated seeds for a while on stable Rust: `cargo run --release -p fuzz --example hammer -- SECONDS [SEED] [TARGET] [FILE]`.
//!
//! With a file, that input alone is run once.
//! An input that fails or takes long is written to `artifacts/TARGET/` in the folder it runs in.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a program for the terminal")]

use fuzz::TARGETS;
use fuzz::mutate::{Dice, mutate};
use fuzz::seeds::seeds;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Longer than this is worth a look.
const SLOW: Duration = Duration::from_secs(4);

fn keep(target: &str, kind: &str, number: u64, input: &[u8]) {
    let dir = Path::new("artifacts").join(target);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join(format!("{kind}-{number:x}")), input).unwrap();
    println!("{target}: {kind}, {} bytes", input.len());
}

/// The input at work and since when.
static AT_WORK: LazyLock<Mutex<(&str, Vec<u8>, Instant)>> =
    LazyLock::new(|| Mutex::new(("", Vec::new(), Instant::now())));

/// Keeps an input that does not return.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(10));
        let (name, input, since) = AT_WORK.lock().unwrap().clone();
        if !name.is_empty() && since.elapsed() > Duration::from_secs(60) {
            keep(name, "hang", input.len() as u64, &input);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(60);
    let mut dice = Dice(arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1));
    let only = arguments.next();
    if let (Some(target), Some(file)) = (&only, arguments.next()) {
        let (_, run) = TARGETS.iter().find(|(name, _)| name == target).expect("such a target");
        let started = Instant::now();
        run(&std::fs::read(file).unwrap());
        println!("{:?}", started.elapsed());
        return;
    }
    let mut pools: Vec<_> = TARGETS
        .iter()
        .filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name))
        .map(|(name, target)| {
            let inputs: Vec<Vec<u8>> = seeds().into_iter().filter(|s| s.target == *name).map(|s| s.bytes).collect();
            (*name, *target, if inputs.is_empty() { vec![vec![0; 600]] } else { inputs }, 0_u64)
        })
        .collect();
    std::thread::spawn(watch);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(seconds) {
        for (name, target, inputs, runs) in &mut pools {
            let slice = Instant::now();
            while slice.elapsed() < Duration::from_millis(if *name == "scrub_image" { 1500 } else { 60 }) {
                let mut input = inputs[dice.below(inputs.len())].clone();
                mutate(&mut input, &mut dice);
                if *name == "scrub_image" {
                    input.extend((0..dice.below(40)).map(|_| dice.roll() as u8));
                }
                let begun = Instant::now();
                *runs += 1;
                *AT_WORK.lock().unwrap() = (*name, input.clone(), Instant::now());
                if std::panic::catch_unwind(|| target(&input)).is_err() {
                    keep(name, "crash", dice.roll(), &input);
                } else if begun.elapsed() > SLOW {
                    keep(name, "slow", dice.roll(), &input);
                }
                // Some mutations stay, so that changes add up.
                if dice.below(50) == 0 && inputs.len() < 200 && input.len() < 20_000 {
                    inputs.push(input);
                }
            }
        }
    }
    for (name, _, _, runs) in pools {
        println!("{name}: {runs} runs");
    }
}
