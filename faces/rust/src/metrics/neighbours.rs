//! Which texts held up others on a shared connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onetrip_engine::pool::{Ended, TextKey};

use crate::metadata::Metadata;

/// A text behind which other statements waited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowNeighbour {
    /// Its first 200 characters. Texts that differ only in numbers and quoted strings count as one, the
    /// first of them.
    pub text: Arc<str>,
    /// Statements that waited behind it, each time that it took long.
    pub statements: u64,
    /// The longest that it took at the server.
    pub longest: Duration,
}

/// What a client knows of them. Its lock is taken when a text is new and when something slow has ended
/// that others waited for; nothing is locked under it.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    texts: HashMap<TextKey, Arc<str>>,
    slow: HashMap<TextKey, SlowNeighbour>,
}

/// Texts that are kept, in case that they turn out to be slow.
const TEXTS_MAX: usize = 1024;

/// Those of them that held up others.
const SLOW_MAX: usize = 32;

const TEXT_CHARS: usize = 200;

impl Neighbours {
    /// A text is new.
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

    /// Statements waited behind a slow one, which has ended.
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
