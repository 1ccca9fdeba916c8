//! A listener whose calls block.

use std::time::Duration;

use super::client::within;
use super::drive::Runtime;
use crate::{Error, Event};

/// Receives notifications on a connection of its own; otherwise like
/// [`onetrip::Listener`](crate::Listener).
#[derive(Debug)]
pub struct Listener {
    inner: crate::Listener,
    runtime: Runtime,
}

impl Listener {
    pub(super) fn new(inner: crate::Listener, runtime: Runtime) -> Listener {
        Listener { inner, runtime }
    }

    /// Adds a channel, and waits for the server's answer.
    ///
    /// # Errors
    /// As [`onetrip::Listener::listen`](crate::Listener::listen).
    pub fn listen(&self, channel: &str) -> Result<(), Error> {
        self.runtime.wait(|| self.inner.listen(channel))
    }

    /// Removes a channel, and waits for the server's answer.
    ///
    /// # Errors
    /// As [`onetrip::Listener::unlisten`](crate::Listener::unlisten).
    pub fn unlisten(&self, channel: &str) -> Result<(), Error> {
        self.runtime.wait(|| self.inner.unlisten(channel))
    }

    /// Blocks until there is an event.
    ///
    /// # Errors
    /// As [`onetrip::Listener::next`](crate::Listener::next).
    // It has no end, so it is no iterator.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Event, Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || inner.next())
    }

    /// As [`next`](Self::next), but waits at most this time; `None` if there was no event. Zero
    /// returns only an event that has arrived already.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Event>, Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || within(time, inner.next()))
    }
}
