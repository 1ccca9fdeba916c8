//! Random numbers from a seed, or a given list of choices.

use std::collections::VecDeque;
use std::time::Duration;

pub(crate) struct Rng {
    state: u64,
    /// Choices that are used up first, one for each number.
    choices: VecDeque<u8>,
}

impl Rng {
    /// The state of the generator that follows these choices.
    pub(crate) fn with_choices(seed: u64, choices: &[u8]) -> Rng {
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Rng { state, choices: choices.iter().copied().collect() }
    }

    pub(crate) fn next(&mut self) -> u64 {
        if let Some(choice) = self.choices.pop_front() {
            return choice.into();
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn try_pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(self.pick(of)) }
    }

    pub(crate) fn micros(&mut self, max: u64) -> Duration {
        Duration::from_micros(self.next() % max)
    }
}
