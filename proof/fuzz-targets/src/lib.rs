//! What a hostile peer, a hostile text or an unlucky host can hand to onetrip, as plain functions over
//! bytes.
//!
//! A [`Target`] reads its input, does with it what onetrip would, and panics where a promise is broken:
//! a decoder that panics, an answer that depends on where the stream was cut, a password in an error,
//! or more memory than the length of the input allows. Any bytes are an input of any target.
//!
//! Two programs run them: `tests/corpus.rs`, over the checked-in `corpus/` and seeded changes of it, and
//! the workspace in `proof/fuzz/` under cargo-fuzz. This crate is for tests alone and is never published.
#![allow(clippy::unwrap_used, reason = "it is a test: whatever fails is to be seen")]

mod input;
mod mutate;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub use mutate::Mutator;
pub use targets::{TARGETS, row_types};

/// A function that any bytes can be handed to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its directory in `corpus/`.
    pub name: &'static str,
    /// Panics where a promise is broken.
    pub run: fn(&[u8]),
    /// How much memory it may take at once.
    pub memory: Memory,
}

/// How much memory may be taken at once: a constant, and so many bytes for each byte of the input. What a
/// message says of its own length is no part of it.
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

    /// Runs it and looks at what it allocates.
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
        assert!(taken <= max, "{name} takes {taken} bytes for {len}, of {max} that it may");
    }
}
