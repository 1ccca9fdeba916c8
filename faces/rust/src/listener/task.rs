//! The task behind a listener: it reads, changes what is listened to, and opens the connection anew.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Limits, Pauses};
use tokio::sync::{mpsc, oneshot};

use super::link::{Link, News};
use crate::buffer::Buffer;
use crate::config::Config;
use crate::connect::{establish, is_final};
use crate::core::Context;
use crate::notification::{Event, Notification, quoted};
use crate::pool::Pool;
use crate::{Error, trace};

/// What the listener is asked for.
#[derive(Debug)]
pub(super) struct Command {
    channel: String,
    listens: bool,
    answer: oneshot::Sender<Result<(), Error>>,
}

impl Command {
    pub(super) fn listen(channel: &str, answer: oneshot::Sender<Result<(), Error>>) -> Command {
        Command { channel: channel.to_owned(), listens: true, answer }
    }

    pub(super) fn unlisten(channel: &str, answer: oneshot::Sender<Result<(), Error>>) -> Command {
        Command { listens: false, ..Command::listen(channel, answer) }
    }

    fn sql(&self) -> Result<String, Error> {
        let verb = if self.listens { "listen" } else { "unlisten" };
        Ok(format!("{verb} {}", quoted(&self.channel)?))
    }
}

/// A listener without its handle.
pub(super) struct Task {
    config: Arc<Config>,
    context: Arc<Context>,
    buffer: Arc<Buffer<Result<Event, Error>>>,
    commands: mpsc::Receiver<Command>,
    gone: oneshot::Receiver<Infallible>,
    /// What is listened to.
    channels: BTreeSet<String>,
    /// What is to be changed, in order. The first may be on its way.
    pending: VecDeque<Command>,
    link: Link,
    /// What is on its way.
    request: Option<Sent>,
    /// A gap is to be told of, in front of what comes next.
    owes_gap: bool,
    /// Since when all is listened to on this connection.
    serves_since: Option<Time>,
    /// The reader was told why it takes so long.
    said: bool,
    pauses: Pauses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// The channels, anew.
    All,
    /// The first of what is pending.
    Pending,
}

/// How it goes on after the connection.
enum Next {
    Reconnect(Error),
    /// The listener was dropped.
    Stop,
}

/// A connection that lasts so long did not fail.
const LASTS: Duration = Duration::from_secs(1);

/// Commands that wait; more are left where they are.
const PENDING_MAX: usize = 16;

impl Task {
    pub(super) async fn open(
        pool: &Pool,
        buffer: Arc<Buffer<Result<Event, Error>>>,
        commands: mpsc::Receiver<Command>,
        gone: oneshot::Receiver<Infallible>,
    ) -> Result<Task, Error> {
        let (config, context) = (pool.config(), pool.context.clone());
        let link = Link::new(establish(&config).await?, context.now());
        Ok(Task {
            config,
            context,
            buffer,
            commands,
            gone,
            channels: BTreeSet::new(),
            pending: VecDeque::new(),
            link,
            request: None,
            owes_gap: false,
            serves_since: Some(Time::ZERO),
            said: false,
            pauses: Pauses::new(Limits::default(), seed()),
        })
    }

    /// Runs until the listener is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let error = match self.serve().await {
                Next::Reconnect(error) => error,
                Next::Stop => break,
            };
            trace::lost(&error);
            if !self.reconnect().await {
                return;
            }
        }
        self.link.say_goodbye(self.context.now()).await;
    }

    /// Serves one connection.
    async fn serve(&mut self) -> Next {
        loop {
            if let Err(error) = self.submit_next() {
                return Next::Reconnect(error);
            }
            let news = tokio::select! {
                biased;
                _ = &mut self.gone => return Next::Stop,
                Some(command) = self.commands.recv(), if self.pending.len() < PENDING_MAX => {
                    self.pending.push_back(command);
                    continue;
                }
                news = read(&mut self.link, &self.context, &self.buffer) => news,
            };
            for news in news {
                if let Some(error) = self.heard(news) {
                    return Next::Reconnect(error);
                }
            }
        }
    }

    /// Sends what is to be changed, one at a time.
    fn submit_next(&mut self) -> Result<(), Error> {
        let now = self.context.now();
        if self.request.is_none()
            && let Some(command) = self.pending.front()
        {
            self.link.submit(now, &command.sql()?)?;
            self.request = Some(Sent::Pending);
        }
        Ok(())
    }

    /// Takes what came; an error where it is the end of the connection.
    fn heard(&mut self, news: News) -> Option<Error> {
        match news {
            News::Notification(block) => match Notification::read(&block) {
                Some(notification) => self.deliver(Event::Notification(notification)),
                None => return Some(self.link.lost("a malformed notification")),
            },
            News::Notice(block) => {
                trace::notice(&self.context, &block);
                wake(self.context.notices.tell(&block));
            }
            News::Answered(result) => return self.answered(result),
            News::Lost(error) => return Some(error),
        }
        None
    }

    /// Hands an event out. A notification shows that all is listened to again, so the gap is over.
    fn deliver(&mut self, event: Event) {
        self.tell_gap();
        let waker = match self.request {
            // Reading goes on for the sake of an answer.
            Some(_) => self.buffer.push(Ok(event)),
            None => self.buffer.push_all_the_same(Ok(event)),
        };
        wake(waker);
    }

    fn tell_gap(&mut self) {
        if std::mem::take(&mut self.owes_gap) {
            wake(self.buffer.push_all_the_same(Ok(Event::MayHaveMissed)));
        }
    }

    fn answered(&mut self, result: Result<(), Error>) -> Option<Error> {
        match self.request.take() {
            Some(Sent::All) => match result {
                Ok(()) => self.serves(),
                Err(error) => {
                    self.say(&error);
                    return Some(error);
                }
            },
            Some(Sent::Pending) => {
                if let Some(command) = self.pending.pop_front() {
                    self.apply(command, result);
                }
            }
            None => {}
        }
        None
    }

    /// All is listened to again.
    fn serves(&mut self) {
        self.serves_since = Some(self.context.now());
        self.said = false;
        self.tell_gap();
    }

    /// Tells the reader what is in the way, once.
    fn say(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.said, true) {
            wake(self.buffer.push_all_the_same(Err(error.clone())));
        }
    }

    fn apply(&mut self, command: Command, result: Result<(), Error>) {
        if result.is_ok() {
            match command.listens {
                true => drop(self.channels.insert(command.channel)),
                false => drop(self.channels.remove(&command.channel)),
            }
        }
        // Its caller may have gone away, which changes nothing.
        let _ = command.answer.send(result);
    }

    /// Opens the connection anew, however often that takes. False if the listener was dropped.
    async fn reconnect(&mut self) -> bool {
        (self.request, self.owes_gap) = (None, true);
        let mut pause = self.first_pause();
        loop {
            let config = self.config.clone();
            let attempt = async move {
                tokio::time::sleep(pause).await;
                establish(&config).await
            };
            let attempted = tokio::select! {
                biased;
                _ = &mut self.gone => return false,
                attempted = attempt => attempted,
            };
            match attempted.and_then(|opened| self.begin(Link::new(opened, self.context.now()))) {
                Ok(()) => return true,
                Err(error) => {
                    trace::open_failed(&error);
                    if is_final(&error) {
                        self.say(&error);
                    }
                }
            }
            pause = self.pauses.failed();
        }
    }

    /// None after a connection that lasted. One that did not counts as a failure: a server that takes
    /// connections and drops them must not be asked all the time.
    fn first_pause(&mut self) -> Duration {
        let now = self.context.now();
        let lasted = self.serves_since.take().is_some_and(|since| now.since(since) >= LASTS);
        if lasted {
            self.pauses.succeeded();
            return Duration::ZERO;
        }
        self.pauses.failed()
    }

    /// Listens to all channels on a new connection, in one trip.
    fn begin(&mut self, link: Link) -> Result<(), Error> {
        self.link = link;
        let all: Result<Vec<String>, Error> = self
            .channels
            .iter()
            .map(|channel| Ok(format!("listen {}", quoted(channel)?)))
            .collect();
        let all = all?;
        if all.is_empty() {
            self.owes_gap = false;
            self.serves();
            return Ok(());
        }
        self.link.submit(self.context.now(), &all.join(";"))?;
        self.request = Some(Sent::All);
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        wake(self.buffer.close());
    }
}

/// Waits for what comes. Nothing is read while there is no room for it, unless an answer is due.
async fn read(
    link: &mut Link,
    context: &Context,
    buffer: &Buffer<Result<Event, Error>>,
) -> Vec<News> {
    std::future::poll_fn(|cx| {
        let reads = link.is_busy() || buffer.poll_room(cx).is_ready();
        link.poll(context.now(), reads, cx)
    })
    .await
}

fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

fn seed() -> u64 {
    let mut seed = [0; 8];
    // Without random numbers the pauses are those of everybody, which is no reason not to wait.
    let _ = getrandom::fill(&mut seed);
    u64::from_le_bytes(seed)
}
