//! Numbers for variables.

use std::collections::HashMap;

/// The variable with the seed of functions that were given none.
pub(super) const DEFAULT_SEED: &str = "default_seed";

/// Names in the order of their first use. The number of a name is its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Names {
    list: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The number of a name. A new name is added.
    pub(super) fn number_of(&mut self, name: &str) -> usize {
        if let Some(number) = self.get(name) {
            return number;
        }
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }

    /// The number of a name, if it is used.
    pub(super) fn get(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// All of them.
    pub(super) fn list(&self) -> &[String] {
        &self.list
    }
}
