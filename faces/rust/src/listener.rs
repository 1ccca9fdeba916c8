//! LISTEN and NOTIFY: a connection that does nothing but wait for notifications, and comes back by
//! itself.

mod link;
mod task;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use onetrip_postgres::client::listener::KEPT_MAX;
use tokio::sync::{mpsc, oneshot};

use crate::buffer::Buffer;
use crate::notification::{Event, check};
use crate::pool::Pool;
use crate::{Error, Kind, Outcome};
use task::{Command, Task};

/// Notifications of the channels that it listens to, on a connection of its own.
///
/// The connection does not belong to the pool: it is not one of `connections_max`, and no statement
/// runs on it. So each listener costs the server one connection, from its making to its drop; let
/// one listener have all channels. It outlives its client.
///
/// * **Lost connection.** It is opened again by itself, at once or after a pause that doubles from
///   0.1 s to 10 s and is shortened at random, for as long as the listener lives. All channels are
///   listened to again, in one trip, and then [`Event::MayHaveMissed`] says that there was a gap. A
///   dead network is noticed by TCP keepalive, as everywhere (30 s of silence, and three probes).
/// * **A reader that stops.** 1,024 notifications are kept; then the connection is not read. What
///   comes fills the buffers of both sockets, and then waits in the server's own queue, for all
///   databases of the server together (8 GiB by default). Nothing is lost. But if that fills up, every
///   NOTIFY fails at its commit, so don't stop for long. While an answer to
///   [`listen`](Self::listen) is awaited, reading goes on and the oldest notifications go instead, which
///   [`Event::MayHaveMissed`] says as well.
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
#[derive(Debug)]
pub struct Listener {
    buffer: Arc<Buffer<Result<Event, Error>>>,
    commands: mpsc::Sender<Command>,
    /// How long a change of what it listens to may take.
    timeout: Option<Duration>,
    /// Its drop ends the task.
    _alive: oneshot::Sender<Infallible>,
}

impl Listener {
    /// Opens the connection.
    pub(crate) async fn open(pool: &Pool) -> Result<Listener, Error> {
        let buffer = Arc::new(Buffer::new(KEPT_MAX));
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let (alive, gone) = oneshot::channel();
        let task = Task::open(pool, buffer.clone(), receiver, gone).await?;
        tokio::spawn(task.run());
        let timeout = pool.context.options.request_timeout;
        Ok(Listener { buffer, commands, timeout, _alive: alive })
    }

    /// Listens to a channel as well. Resolves when the server has answered, one trip later;
    /// notifications that are committed from then on are received. Case counts: the name is taken letter
    /// by letter, as in `LISTEN "Name"`. Waits while there is no connection, as long as the client's
    /// `request_timeout` lets it.
    ///
    /// # Errors
    /// The name is empty, longer than 63 bytes or has a NUL in it (`channel_name`, nothing was sent),
    /// or the server refuses: a standby takes no LISTEN. The channel is not listened to then. The code
    /// `timeout`, `Unknown`, says that nothing was answered in time: it may come to listen all the same.
    ///
    /// Dropping the future takes nothing back.
    pub async fn listen(&self, channel: &str) -> Result<(), Error> {
        check(channel)?;
        self.command(|answer| Command::listen(channel, answer)).await
    }

    /// Listens to a channel no more; to one that it did not listen to, that is no error. What had
    /// arrived before is still handed out.
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
            self.commands.send(command(answer)).await.map_err(|_| runtime_gone())?;
            answered.await.unwrap_or_else(|_| Err(runtime_gone()))
        };
        let Some(timeout) = self.timeout else { return answered.await };
        tokio::time::timeout(timeout, answered).await.unwrap_or_else(|_| Err(late()))
    }

    /// The next event, in the order in which the server sent them. Cancel safe: an event is either
    /// returned or still there.
    ///
    /// # Errors
    /// The connection can't be opened again for a reason that time alone does not mend: a wrong
    /// password, no such database. It is said once per outage, and tried again all the same: call
    /// `next` again to go on. Or the runtime in which the listener was made is gone, which is final.
    pub async fn next(&mut self) -> Result<Event, Error> {
        let next = std::future::poll_fn(|cx| self.poll(cx)).await;
        next.unwrap_or_else(|| Err(runtime_gone()))
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<Event, Error>>> {
        if self.buffer.take_lost() > 0 {
            return Poll::Ready(Some(Ok(Event::MayHaveMissed)));
        }
        self.buffer.poll_next(cx)
    }
}

/// The same as [`next`](Listener::next). It ends where the runtime does.
impl Stream for Listener {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

/// Calls of `listen` that wait for the task to look at them; further ones wait for room.
const COMMANDS_MAX: usize = 16;

fn late() -> Error {
    let message =
        "the deadline passed before the server answered; it may come to that all the same";
    Error::new(Kind::Timeout, Outcome::Unknown, "timeout", message)
}

fn runtime_gone() -> Error {
    Error::new(
        Kind::Transport,
        Outcome::Unknown,
        crate::error::CONNECTION_ENDED,
        "the runtime in which the listener was made was shut down: make it in one that lives on",
    )
}
