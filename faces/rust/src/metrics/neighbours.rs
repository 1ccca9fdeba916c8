//! Which texts held up other statements on a shared connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onetrip_engine::pool::{Ended, TextKey};

use crate::metadata::Metadata;

/// A text behind which other statements waited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowNeighbour {
    /// The first 200 characters of the text. Texts that differ only in numbers and quoted strings
    /// count as one; this is the first of them.
    pub text: Arc<str>,
    /// How many statements waited behind it, summed over the times when it took long.
    pub statements: u64,
    /// The longest time that it took at the server.
    pub longest: Duration,
}

/// The slow texts of a client. The lock is taken when a text is new, and when a slow statement has
/// ended that others waited for. No other lock is taken under it.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    texts: HashMap<TextKey, Arc<str>>,
    slow: HashMap<TextKey, SlowNeighbour>,
}

/// How many texts are kept, in case they turn out to be slow.
const TEXTS_MAX: usize = 1024;

/// How many texts are kept that held up others.
const SLOW_MAX: usize = 32;

const TEXT_CHARS: usize = 200;

impl Neighbours {
    /// Keeps a new text.
    pub(crate) fn name(&self, metadata: &Metadata) {
        let mut state = self.lock();
        if state.texts.contains_key(&metadata.key) {
            return;
        }
        if state.texts.len() >= TEXTS_MAX
            && let Some(any) = state.texts.keys().next().copied()
        {
            state.texts.remove(&any);
        }
        let text: String = metadata.sql.chars().take(TEXT_CHARS).collect();
        state.texts.insert(metadata.key, text.into());
    }

    /// Counts statements that waited behind a slow one, which has ended.
    pub(crate) fn waited(&self, ended: Ended) {
        let state = &mut *self.lock();
        let text = match state.texts.get(&ended.key) {
            Some(text) => text.clone(),
            None if ended.key == TextKey::ALONE => "(a statement that wanted to be alone)".into(),
            None => "(its text was forgotten)".into(),
        };
        let new = SlowNeighbour { text, statements: 0, longest: Duration::ZERO };
        let one = state.slow.entry(ended.key).or_insert(new);
        one.statements += ended.behind as u64;
        one.longest = one.longest.max(ended.took);
        if state.slow.len() > SLOW_MAX {
            let others = state.slow.iter().filter(|(key, _)| **key != ended.key);
            let least = others.min_by_key(|(_, one)| one.statements).map(|(key, _)| *key);
            least.and_then(|key| state.slow.remove(&key));
        }
    }

    pub(crate) fn list(&self) -> Vec<SlowNeighbour> {
        let mut list: Vec<_> = self.lock().slow.values().cloned().collect();
        list.sort_by(|a, b| b.statements.cmp(&a.statements).then(a.text.cmp(&b.text)));
        list
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
