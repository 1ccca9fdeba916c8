//! What was learned about the text of a statement: the types of its parameters and the formats of
//! its columns, so that later calls make one trip and guess nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use onetrip_postgres::message::Format;
use postgres_types::Type;

/// The parameters' types and the columns' formats of a statement.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) sql: Arc<str>,
    pub(crate) types: Vec<Type>,
    /// Formats of the columns; empty for all binary.
    pub(crate) results: Vec<Format>,
}

/// A bounded memory of shapes: the oldest is forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Shapes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_text: HashMap<Arc<str>, Arc<Shape>>,
    by_age: VecDeque<Arc<str>>,
}

/// Statements remembered per connection; a shape is a few hundred bytes beside the text.
const SHAPES_MAX: usize = 1024;

/// Longer texts are mostly made by programs and seldom come twice.
const TEXT_LEN_MAX: usize = 16 << 10;

impl Shapes {
    pub(crate) fn get(&self, sql: &str) -> Option<Arc<Shape>> {
        self.lock().by_text.get(sql).cloned()
    }

    pub(crate) fn remember(&self, shape: Arc<Shape>) {
        let text = &shape.sql;
        if text.len() > TEXT_LEN_MAX {
            return;
        }
        let mut known = self.lock();
        if let Some(old) = known.by_text.get_mut(text) {
            *old = shape;
            return;
        }
        if known.by_age.len() >= SHAPES_MAX
            && let Some(oldest) = known.by_age.pop_front()
        {
            known.by_text.remove(&oldest);
        }
        known.by_age.push_back(text.clone());
        known.by_text.insert(text.clone(), shape);
    }

    /// What was learned does not hold any more.
    pub(crate) fn forget(&self, shape: &Arc<Shape>) {
        let mut known = self.lock();
        if known.by_text.get(&shape.sql).is_some_and(|current| Arc::ptr_eq(current, shape)) {
            known.by_text.remove(&shape.sql);
            known.by_age.retain(|text| *text != shape.sql);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
