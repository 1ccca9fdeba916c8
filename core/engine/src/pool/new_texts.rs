//! New texts, whose statements wait in line.
//!
//! One statement of each text is tried first, to learn how long the others take. If they are quick,
//! they share its connection, and opening more connections would only have delayed it.

use super::{TextKey, Timings};
use crate::Time;

#[derive(Default)]
pub(super) struct NewTexts {
    texts: Vec<(TextKey, Tried)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// No statement yet: the first one in this pass through the line is worth a connection.
    Wanted,
    /// A statement was placed. By this time it has shown whether the text is quick.
    Until(Time),
}

/// How many texts are remembered. Each statement of a further text is worth a connection.
const TEXTS_MAX: usize = 64;

impl NewTexts {
    /// Begins a pass through the line.
    pub(super) fn begin(&mut self, timings: &Timings) {
        self.texts.retain(|(key, tried)| *tried != Tried::Wanted && timings.is_new(*key));
    }

    /// Whether to get a connection for a statement that waits to be alone on one.
    pub(super) fn is_worth_one(&mut self, key: TextKey, now: Time, timings: &Timings) -> bool {
        if !timings.is_new(key) {
            return true;
        }
        match self.texts.iter().find(|(of, _)| *of == key) {
            Some((_, Tried::Wanted)) => false,
            // The statement that was tried is late, so the text is slow.
            Some((_, Tried::Until(until))) => *until <= now,
            None => {
                self.remember(key, Tried::Wanted, now);
                true
            }
        }
    }

    /// A statement was placed, and its reply is late after `until`.
    pub(super) fn placed(&mut self, key: TextKey, now: Time, until: Time, timings: &Timings) {
        if !timings.is_new(key) {
            return;
        }
        match self.texts.iter_mut().find(|(of, _)| *of == key) {
            Some((_, tried @ Tried::Wanted)) => *tried = Tried::Until(until),
            Some((_, Tried::Until(_))) => {}
            None => self.remember(key, Tried::Until(until), now),
        }
    }

    /// If there is no room, it takes the place of one that is late: that may never be measured, since
    /// its connection was lost or it belongs to a slow pipeline.
    fn remember(&mut self, key: TextKey, tried: Tried, now: Time) {
        if self.texts.len() < TEXTS_MAX {
            return self.texts.push((key, tried));
        }
        let is_late =
            |(_, it): &&mut (TextKey, Tried)| matches!(it, Tried::Until(at) if *at <= now);
        if let Some(place) = self.texts.iter_mut().find(is_late) {
            *place = (key, tried);
        }
    }

    /// When the next tried statement counts as late.
    pub(super) fn next_late(&self, now: Time) -> Time {
        let late = self.texts.iter().filter_map(|(_, tried)| match tried {
            Tried::Until(until) if *until > now => Some(*until),
            Tried::Until(_) | Tried::Wanted => None,
        });
        late.min().unwrap_or(Time::NEVER)
    }
}
