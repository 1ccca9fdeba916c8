//! What a run, or many, came across.

use std::collections::BTreeMap;
use std::fmt;

/// How often each thing happened. A generator that stops reaching something would test nothing in
/// silence: tests ask for the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report(BTreeMap<&'static str, u64>);

impl Report {
    /// How often this happened.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Everything that happened, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, count)| (*what, *count))
    }

    /// Adds what happened elsewhere.
    pub fn merge(&mut self, other: &Report) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, count) in &self.0 {
            writeln!(f, "{count:>10}  {what}")?;
        }
        Ok(())
    }
}
