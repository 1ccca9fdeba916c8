//! The texts that were seen: what each shows, and how often it came. What came often is worth a name.

use std::collections::HashMap;

use crate::sql::{Traits, classify};

/// A bounded memory of texts.
#[derive(Debug)]
pub struct Texts {
    texts: HashMap<Box<str>, Text>,
    max: usize,
    /// From so many uses on a text is prepared; 0: never.
    threshold: u32,
    keys: u64,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Text {
    key: u64,
    traits: Traits,
    uses: u32,
    used: u64,
}

/// A use of a text.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// What the text shows.
    pub traits: Traits,
    /// What tells it from all other texts, where it came often enough to be prepared.
    pub key: Option<u64>,
}

impl Texts {
    /// Texts that are counted, for each statement that may be prepared.
    const PER_STATEMENT: usize = 4;

    /// None yet. `statements_max`: so many are kept prepared at a time.
    pub fn new(threshold: u32, statements_max: usize) -> Texts {
        let threshold = if statements_max == 0 { 0 } else { threshold };
        let max = statements_max.saturating_mul(Self::PER_STATEMENT);
        Texts { texts: HashMap::new(), max, threshold, keys: 0, clock: 0 }
    }

    /// Whether none was ever counted.
    pub fn is_fresh(&self) -> bool {
        self.clock == 0
    }

    /// What a text shows, without counting it.
    pub fn traits(&self, text: &str) -> Traits {
        self.texts.get(text).map_or_else(|| classify(text), |known| known.traits)
    }

    /// Counts a use of a text.
    pub fn count(&mut self, text: &str) -> Counted {
        self.clock += 1;
        if let Some(known) = self.texts.get_mut(text) {
            (known.uses, known.used) = (known.uses.saturating_add(1), self.clock);
            let Text { key, traits, uses, .. } = *known;
            return Counted { traits, key: (uses >= self.threshold).then_some(key) };
        }
        let traits = classify(text);
        if self.threshold == 0 || text.len() > TEXT_LEN_MAX {
            return Counted { traits, key: None };
        }
        self.make_room();
        self.keys += 1;
        let key = self.keys;
        self.texts.insert(text.into(), Text { key, traits, uses: 1, used: self.clock });
        Counted { traits, key: (self.threshold == 1).then_some(key) }
    }

    /// Sees that one more text can be counted. Those that came too seldom go, all at once: they are as many
    /// as make that rare. Where most came often, those go that did so longest ago.
    fn make_room(&mut self) {
        if self.texts.len() < self.max {
            return;
        }
        let threshold = self.threshold;
        self.texts.retain(|_, text| text.uses >= threshold);
        if self.texts.len() > self.max / 2 {
            let mut used: Vec<u64> = self.texts.values().map(|text| text.used).collect();
            let (_, median, _) = used.select_nth_unstable(self.texts.len() / 2);
            self.texts.retain(|_, text| text.used > *median);
        }
    }
}

/// Longer texts are mostly made by programs and seldom come twice.
pub const TEXT_LEN_MAX: usize = 16 << 10;
