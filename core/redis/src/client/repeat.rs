//! When a command whose connection was lost is sent again.
//!
//! A command that may have run is sent again only if its caller said that it may run twice, or if
//! it only reads and the client was told to repeat such. In a cluster the router does that.

use std::time::Duration;

use onetrip_engine::{Outcome, Retry, RetryLimits};

use crate::Spec;

/// What the client was told of commands that may run twice.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// The caller said that running it twice does no harm.
    pub all: bool,
    /// Commands that only read may be repeated.
    pub reads: bool,
    /// How often a command is sent, in all.
    pub attempts_max: u32,
}

impl Repeats {
    /// The attempts at a command that may be sent again; `None` if it may not. `seed`: as for
    /// [`Repeat::new`].
    #[must_use]
    pub fn of(&self, spec: Option<&Spec>, seed: u64) -> Option<Repeat> {
        self.has(spec).then(|| Repeat::new(self.attempts_max, seed))
    }

    /// Whether a command may be sent again.
    #[must_use]
    pub fn has(&self, spec: Option<&Spec>) -> bool {
        self.all || (self.reads && spec.is_some_and(Spec::is_readonly))
    }
}

/// The attempts at one command.
pub struct Repeat {
    retry: Retry,
    /// An attempt was lost that may have run.
    may_have_run: bool,
    /// Whether it is sent again only if nothing of it was sent.
    only_unsent: bool,
}

impl Repeat {
    /// A command that was not lost yet. `seed`: another number for each, so that commands that were
    /// lost together do not come back together.
    #[must_use]
    pub fn new(attempts_max: u32, seed: u64) -> Repeat {
        let limits = RetryLimits { attempts_max, ..RetryLimits::default() };
        Repeat { retry: Retry::new(limits, seed), may_have_run: false, only_unsent: false }
    }

    /// A command that goes on by itself if nothing of it was sent when its connection was lost: its
    /// server is another one by now, as Sentinels say.
    #[must_use]
    pub fn unsent(seed: u64) -> Repeat {
        Repeat { only_unsent: true, ..Repeat::new(UNSENT_ATTEMPTS_MAX, seed) }
    }

    /// Its connection was lost. Returns the pause before it is sent again; `None` if it is not.
    pub fn lost(&mut self, outcome: Outcome) -> Option<Duration> {
        self.may_have_run |= outcome == Outcome::Unknown;
        if self.only_unsent && outcome != Outcome::NotSent {
            return None;
        }
        self.retry.failed()
    }

    /// What is known of a command that has failed in the end, by what is known of the last attempt.
    #[must_use]
    pub fn outcome(&self, last: Outcome) -> Outcome {
        last.over_attempts(self.may_have_run)
    }
}

/// How often a command is sent in all whose connections are lost before it leaves. Each attempt
/// waits for a connection.
const UNSENT_ATTEMPTS_MAX: u32 = 10;

impl std::fmt::Debug for Repeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repeat").field("failures", &self.retry.failures()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Command;

    #[test]
    fn a_command_is_sent_so_often_in_all() {
        let mut repeat = Repeat::new(3, 1);
        assert!(repeat.lost(Outcome::NotSent).is_some());
        assert_eq!(repeat.outcome(Outcome::Rejected), Outcome::Rejected);
        assert!(repeat.lost(Outcome::Unknown).is_some());
        assert_eq!(repeat.lost(Outcome::NotSent), None);
    }

    #[test]
    fn what_may_have_run_once_is_unknown_whatever_comes_last() {
        let mut repeat = Repeat::new(3, 1);
        repeat.lost(Outcome::Unknown);
        for (last, known) in [
            (Outcome::NotSent, Outcome::Unknown),
            (Outcome::Rejected, Outcome::Unknown),
            (Outcome::Applied, Outcome::Applied),
        ] {
            assert_eq!(repeat.outcome(last), known);
        }
    }

    #[test]
    fn what_was_not_sent_goes_on_and_what_was_does_not() {
        let mut repeat = Repeat::unsent(1);
        assert!(repeat.lost(Outcome::NotSent).is_some());
        assert_eq!(repeat.lost(Outcome::Unknown), None);
        assert_eq!(repeat.lost(Outcome::Rejected), None);
    }

    #[test]
    fn only_what_may_run_twice_is_repeated() {
        let repeats = Repeats { all: false, reads: true, attempts_max: 3 };
        let has = |repeats: Repeats, name| repeats.has(Spec::of(&Command::new(name)));
        assert!(has(repeats, "GET") && !has(repeats, "SET") && !has(repeats, "NOSUCH"));
        assert!(has(Repeats { all: true, ..repeats }, "SET"));
        assert!(!has(Repeats { reads: false, ..repeats }, "GET"));
    }
}
