//! The sources of a stream's commands.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use onetrip_redis::Command;

/// A source of commands: an iterator, or a stream. See [`Client::stream`](super::Client::stream)
/// and [`Client::stream_of`](super::Client::stream_of).
pub trait CommandSource {
    /// The next command; `None` if no more come. If it is not known yet, this is pending, and the
    /// task is woken when it is.
    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Option<Command>>;
}

/// Commands of an iterator, which are always ready.
#[derive(Clone, Debug)]
pub struct FromIter<I>(pub(crate) I);

impl<I: Iterator<Item = Command>> CommandSource for FromIter<I> {
    fn poll_command(&mut self, _: &mut Context<'_>) -> Poll<Option<Command>> {
        Poll::Ready(self.0.next())
    }
}

/// Commands of a stream.
#[derive(Clone, Debug)]
pub struct FromStream<S>(pub(crate) S);

impl<S: Stream<Item = Command> + Unpin> CommandSource for FromStream<S> {
    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Option<Command>> {
        Pin::new(&mut self.0).poll_next(cx)
    }
}
