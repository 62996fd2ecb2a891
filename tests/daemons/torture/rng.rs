//! Reproducible pseudo-random numbers.

use std::time::{SystemTime, UNIX_EPOCH};

/// The SplitMix64 generator.
pub struct Rng {
    seed: u64,
    state: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng { seed, state: seed }
    }

    /// Seed from `TORTURE_SEED`, otherwise from the clock.
    pub fn from_environment() -> Rng {
        let given = std::env::var("TORTURE_SEED")
            .ok()
            .map(|seed| seed.parse().unwrap());
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_millis() as u64
                % 1_000_000
        };
        Rng::new(given.unwrap_or_else(clock))
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A new generator, seeded from this one.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A random item; None if there are none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        (!all.is_empty()).then(|| &all[self.below(all.len() as u64) as usize])
    }
}
