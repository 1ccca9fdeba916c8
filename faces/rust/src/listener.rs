//! LISTEN and NOTIFY: a connection that only waits for notifications, and reconnects by itself.

mod link;
mod task;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use onetrip_postgres::client::listener::KEPT_MAX;
use tokio::sync::{mpsc, oneshot};

use crate::buffer::Buffer;
use crate::notification::{Event, check};
use crate::pool::Pool;
use crate::{Error, Kind, Outcome};
use task::{Command, Task};

/// Receives the notifications of its channels, on a connection of its own.
///
/// The connection does not belong to the pool: it does not count towards `connections_max`, and no
/// statement runs on it. So each listener costs the server one connection until it is dropped; use
/// one listener for all channels. It outlives a client that is dropped. A client that is
/// [closed](crate::Client::close) ends its listeners: what came before is still returned, and then
/// `next` fails with the code `closed`.
///
/// - **Lost connection.** The listener reconnects by itself, at once or after a pause that doubles
///   from 0.1 s to 10 s and is shortened at random, until it is dropped. It listens to all channels
///   again, in one trip; then [`Event::MayHaveMissed`] says that there was a gap. TCP keepalive
///   detects a dead network, as everywhere (30 s of silence, and three probes).
/// - **A reader that stops.** 1,024 notifications are kept; then the connection is not read.
///   Further ones fill the buffers of both sockets, and then wait in the server's own queue, which
///   all databases of the server share (8 GiB by default). Nothing is lost. But if that queue fills
///   up, every NOTIFY fails at its commit, so don't stop for long. While a call of
///   [`listen`](Self::listen) waits for its answer, reading goes on; the oldest notifications are
///   dropped then, and [`Event::MayHaveMissed`] says so.
///
/// # Example
/// ```no_run
/// use onetrip::Event;
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// # async fn look_at_all_jobs() {}
/// let mut listener = client.listen("jobs").await?;
/// look_at_all_jobs().await;
/// loop {
///     match listener.next().await? {
///         Event::Notification(notification) => println!("job {}", notification.payload),
///         Event::MayHaveMissed => look_at_all_jobs().await,
///     }
/// }
/// # }
/// ```
pub struct Listener {
    buffer: Arc<Buffer<Result<Event, Error>>>,
    commands: mpsc::Sender<Command>,
    context: Arc<crate::core::Context>,
    /// Dropping it ends the task.
    _alive: oneshot::Sender<Infallible>,
}

/// `Debug` shows no more than that it is one: the rest holds statements of its client.
impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Listener {
    /// Opens the connection.
    pub(crate) async fn open(pool: &Pool) -> Result<Listener, Error> {
        let buffer = Arc::new(Buffer::new(KEPT_MAX));
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let (alive, gone) = oneshot::channel();
        let task = Task::open(pool, buffer.clone(), receiver, gone).await?;
        tokio::spawn(task.run());
        Ok(Listener { buffer, commands, context: pool.context.clone(), _alive: alive })
    }

    /// Adds a channel. Resolves when the server has answered, one trip later; notifications that
    /// are committed from then on are received. The name is case-sensitive, as in `LISTEN "Name"`.
    /// While there is no connection the call waits, up to the client's `request_timeout`.
    ///
    /// # Errors
    /// The name is empty, longer than 63 bytes or contains a NUL (`channel_name`, nothing was
    /// sent), or the server refuses: a standby takes no LISTEN. The channel is not listened to
    /// then. The code `timeout`, with the outcome `Unknown`, says that no answer came in time: the
    /// listener may come to listen to the channel all the same.
    ///
    /// Dropping the future takes nothing back.
    pub async fn listen(&self, channel: &str) -> Result<(), Error> {
        check(channel)?;
        self.command(|answer| Command::listen(channel, answer)).await
    }

    /// Removes a channel; it is no error if the listener does not listen to it. Notifications that
    /// arrived before are still returned.
    ///
    /// # Errors
    /// As [`listen`](Self::listen). Dropping the future takes nothing back.
    pub async fn unlisten(&self, channel: &str) -> Result<(), Error> {
        check(channel)?;
        self.command(|answer| Command::unlisten(channel, answer)).await
    }

    async fn command(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), Error>>) -> Command,
    ) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let answered = async {
            self.commands.send(command(answer)).await.map_err(|_| self.over())?;
            answered.await.unwrap_or_else(|_| Err(self.over().with_outcome(Outcome::Unknown)))
        };
        let Some(timeout) = self.context.options.request_timeout else { return answered.await };
        tokio::time::timeout(timeout, answered).await.unwrap_or_else(|_| Err(late()))
    }

    /// The next event, in the order in which the server sent them. Cancel safe: an event is either
    /// returned or kept.
    ///
    /// # Errors
    /// The connection can't be opened again for a reason that does not pass with time alone: a
    /// wrong password, no such database. This is reported once per outage, and the listener keeps
    /// trying: call `next` again to go on. Or the client was closed, or the runtime in which the
    /// listener was made was shut down, which is final.
    pub async fn next(&mut self) -> Result<Event, Error> {
        let next = std::future::poll_fn(|cx| self.poll(cx)).await;
        next.unwrap_or_else(|| Err(self.over()))
    }

    /// Why it has ended.
    fn over(&self) -> Error {
        match *self.context.listeners.borrow() {
            true => Error::client_closed(),
            false => runtime_gone(),
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<Event, Error>>> {
        if self.buffer.take_lost() > 0 {
            return Poll::Ready(Some(Ok(Event::MayHaveMissed)));
        }
        self.buffer.poll_next(cx)
    }
}

/// As [`next`](Listener::next). It ends when the runtime does, or behind the error that tells that
/// the client was closed.
impl Stream for Listener {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

/// How many calls of `listen` and `unlisten` the task's queue holds; further ones wait for room.
const COMMANDS_MAX: usize = 16;

fn late() -> Error {
    let message = "the deadline passed before the server answered; the change may still be made";
    Error::new(Kind::Timeout, Outcome::Unknown, "timeout", message)
}

fn runtime_gone() -> Error {
    Error::new(
        Kind::Transport,
        Outcome::Unknown,
        crate::error::CLOSED,
        "the runtime in which the listener was made was shut down: make it in one that lives on",
    )
}
