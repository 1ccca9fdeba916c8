//! A moment of the host's clock.

use std::time::Duration;

/// Nanoseconds since a moment that the host chose and keeps, such as its start.
///
/// The engine never reads a clock; each call that needs the time takes it as an argument.
/// `std::time::Instant` can't serve, because a WebAssembly host and a simulation can't make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The first moment of the host's clock.
    pub const ZERO: Time = Time(0);
    /// A moment that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    /// The moment `nanos` nanoseconds after the first.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the first moment.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `wait` later; [`Time::NEVER`] if that is too far ahead to be represented.
    pub fn after(self, wait: Duration) -> Time {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// The moment `wait` earlier; [`Time::ZERO`] if there is none.
    pub fn before(self, wait: Duration) -> Time {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(nanos))
    }

    /// How long after `earlier` this moment is; zero if it isn't later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
