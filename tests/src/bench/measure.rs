//! Taking turns with a clock.

use std::io;
use std::time::{Duration, Instant};

use super::contender::Contender;

/// What one contender took, round by round, sorted.
pub struct Times {
    /// The contender's name.
    pub name: &'static str,
    /// Whether it could not run the program.
    pub failed: bool,
    sorted: Vec<Duration>,
}

impl Times {
    /// The middle of all rounds.
    pub fn median(&self) -> Duration {
        self.at(50)
    }

    /// The quickest round: the least disturbed by others.
    pub fn least(&self) -> Duration {
        self.at(0)
    }

    /// What 95 of 100 rounds stay below.
    pub fn high(&self) -> Duration {
        self.at(95)
    }

    fn at(&self, percent: usize) -> Duration {
        let place = self.sorted.len() * percent / 100;
        self.sorted
            .get(place)
            .or(self.sorted.last())
            .copied()
            .unwrap_or_default()
    }
}

/// Runs each contender once per round, from spawn to reap. A few rounds at the start
/// only warm the caches.
pub fn interleaved(
    contenders: &[Contender],
    program: &[&str],
    rounds: usize,
) -> io::Result<Vec<Times>> {
    let all: Vec<&Contender> = contenders.iter().collect();
    interleaved_among(&all, program, rounds)
}

/// As [`interleaved`], among some of them.
pub fn interleaved_among(
    contenders: &[&Contender],
    program: &[&str],
    rounds: usize,
) -> io::Result<Vec<Times>> {
    const WARM: usize = 5;
    let mut all: Vec<Times> = contenders
        .iter()
        .map(|contender| Times {
            name: contender.name,
            failed: false,
            sorted: Vec::with_capacity(rounds),
        })
        .collect();
    for round in 0..rounds + WARM {
        for (contender, times) in contenders.iter().zip(&mut all) {
            if times.failed {
                continue;
            }
            let mut command = contender.command(program);
            let start = Instant::now();
            let status = command.status()?;
            let took = start.elapsed();
            if !status.success() {
                // One that cannot run it is named and left out, not fatal.
                eprintln!("bench: {} {program:?} ended with {status}", contender.name);
                times.failed = true;
            }
            if round >= WARM {
                times.sorted.push(took);
            }
        }
    }
    for times in &mut all {
        times.sorted.sort_unstable();
    }
    Ok(all)
}
