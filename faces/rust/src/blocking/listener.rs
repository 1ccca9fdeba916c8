//! A listener whose calls block.

use std::time::Duration;

use super::client::within;
use super::drive::Runtime;
use crate::{Error, Event};

/// Notifications on a connection of its own; otherwise like [`onetrip::Listener`](crate::Listener).
#[derive(Debug)]
pub struct Listener {
    inner: crate::Listener,
    runtime: Runtime,
}

impl Listener {
    pub(super) fn new(inner: crate::Listener, runtime: Runtime) -> Listener {
        Listener { inner, runtime }
    }

    /// Listens to a channel as well.
    ///
    /// # Errors
    /// As [`onetrip::Listener::listen`](crate::Listener::listen).
    pub fn listen(&self, channel: &str) -> Result<(), Error> {
        self.runtime.wait(|| self.inner.listen(channel))
    }

    /// Listens to a channel no more.
    ///
    /// # Errors
    /// As [`onetrip::Listener::unlisten`](crate::Listener::unlisten).
    pub fn unlisten(&self, channel: &str) -> Result<(), Error> {
        self.runtime.wait(|| self.inner.unlisten(channel))
    }

    /// Blocks until something happens.
    ///
    /// # Errors
    /// As [`onetrip::Listener::next`](crate::Listener::next).
    // It never ends, so it is no iterator.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Event, Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || inner.next())
    }

    /// The same for at most this time; `None` if nothing happened in it. No time at all takes what is
    /// there already.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Event>, Error> {
        let inner = &mut self.inner;
        self.runtime.wait(move || within(time, inner.next()))
    }
}
