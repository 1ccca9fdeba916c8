//! Plain functions over bytes, which hand onetrip what a hostile peer, a hostile text or a careless
//! host could hand it.
//!
//! A [`Target`] processes its input as onetrip would, and panics if a promise is broken: if a
//! decoder panics, if an answer depends on where the stream was cut, if an error contains a
//! password, or if more memory is allocated than the length of the input allows. Any bytes are
//! valid input for any target.
//!
//! Two programs run them: `tests/corpus.rs`, over the checked-in `corpus/` and seeded changes of
//! it, and the workspace in `proof/fuzz/` under cargo-fuzz. This crate is for tests alone and is
//! never published.
#![allow(clippy::unwrap_used, reason = "it is a test: whatever fails is to be seen")]

mod input;
mod mutate;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use mutate::Mutator;
pub use targets::{TARGETS, row_types};

/// A function that takes any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its directory in `corpus/`.
    pub name: &'static str,
    /// Panics where a promise is broken.
    pub run: fn(&[u8]),
    /// How much memory it may take at once.
    pub memory: Memory,
}

/// The most memory a target may hold at once: a constant, plus a number of bytes for each byte of
/// the input. The length that a message claims for itself does not raise it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// In bytes, whatever the input.
    pub fixed: u64,
    /// In bytes, for each byte of the input.
    pub per_byte: u64,
}

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Runs the target and measures what it allocates.
    ///
    /// # Panics
    /// If the target panics, or takes more memory than it may.
    pub fn check(&self, data: &[u8]) {
        let mut result = Ok(());
        let info = allocation_counter::measure(|| {
            result = catch_unwind(AssertUnwindSafe(|| (self.run)(data)));
        });
        if let Err(panic) = result {
            resume_unwind(panic);
        }
        let max = self.memory.fixed + self.memory.per_byte * data.len() as u64;
        let (name, len, taken) = (self.name, data.len(), info.bytes_max);
        assert!(taken <= max, "{name}: {taken} bytes held for {len} bytes of input, limit {max}");
    }
}
