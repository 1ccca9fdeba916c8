//! The task behind a listener: it reads, changes the channels, and reopens the connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Waker;

use onetrip_engine::Time;
use onetrip_postgres::client::listener::{Answered, Listener as State};
use tokio::sync::{mpsc, oneshot, watch};

use super::link::{Link, News};
use crate::buffer::Buffer;
use crate::config::Config;
use crate::connect::{establish, is_final};
use crate::core::Context;
use crate::notification::{Event, Notification};
use crate::pool::Pool;
use crate::{Error, trace};

/// A change of the channels.
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
}

/// The listener, without its handle.
pub(super) struct Task {
    config: Arc<Config>,
    context: Arc<Context>,
    buffer: Arc<Buffer<Result<Event, Error>>>,
    commands: mpsc::Receiver<Command>,
    end: End,
    /// The channels, and what is to be sent about them.
    state: State,
    /// The callers that wait for their changes, in order.
    callers: VecDeque<oneshot::Sender<Result<(), Error>>>,
    link: Link,
}

/// What follows after a connection.
enum Next {
    Reconnect(Error),
    /// The listener was dropped, or its client closed.
    Stop,
}

/// What ends a listener.
struct End {
    /// Its handle was dropped.
    gone: oneshot::Receiver<Infallible>,
    /// Its client was closed.
    closed: watch::Receiver<bool>,
}

impl End {
    /// Resolves when the listener has to end, with what its reader is told. Cancel safe.
    async fn comes(&mut self) -> Option<Error> {
        tokio::select! {
            biased;
            _ = &mut self.gone => None,
            // The sender is in the context, which the task holds.
            _ = self.closed.wait_for(|closed| *closed) => Some(Error::client_closed()),
        }
    }
}

impl Task {
    pub(super) async fn open(
        pool: &Pool,
        buffer: Arc<Buffer<Result<Event, Error>>>,
        commands: mpsc::Receiver<Command>,
        gone: oneshot::Receiver<Infallible>,
    ) -> Result<Task, Error> {
        let (config, context) = (pool.config(), pool.context.clone());
        let mut end = End { gone, closed: context.listeners.subscribe() };
        let opened = tokio::select! {
            biased;
            why = end.comes() => return Err(why.unwrap_or_else(Error::client_closed)),
            opened = establish(&config, &context.lineage) => opened?,
        };
        let link = Link::new(opened, context.now());
        let mut state = State::new([], seed());
        // The first connection was opened just now, so the next may be opened at once.
        state.handle_opened(Time::ZERO);
        Ok(Task { config, context, buffer, commands, end, state, callers: VecDeque::new(), link })
    }

    /// Runs until the listener is dropped, or its client closed.
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
                why = self.end.comes() => {
                    self.tell_end(why);
                    return Next::Stop;
                }
                Some(command) = self.commands.recv(), if self.state.has_room() => {
                    self.state.change(command.channel, command.listens);
                    self.callers.push_back(command.answer);
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

    /// Sends what is due.
    fn submit_next(&mut self) -> Result<(), Error> {
        match self.state.next_text() {
            Some(sql) => self.link.submit(self.context.now(), &sql),
            None => Ok(()),
        }
    }

    /// Handles what came; returns an error if it ends the connection.
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

    /// Passes an event to the reader, behind the gap that must be reported first.
    fn deliver(&mut self, event: Event) {
        if self.state.take_gap() {
            self.tell(Ok(Event::MayHaveMissed));
        }
        let waker = match self.state.awaits_answer() {
            // Reading goes on because an answer is due.
            true => self.buffer.push(Ok(event)),
            false => self.buffer.push_all_the_same(Ok(event)),
        };
        wake(waker);
    }

    fn tell_end(&self, why: Option<Error>) {
        why.into_iter().for_each(|why| self.tell(Err(why)));
    }

    fn tell(&self, news: Result<Event, Error>) {
        wake(self.buffer.push_all_the_same(news));
    }

    fn answered(&mut self, result: Result<(), Error>) -> Option<Error> {
        match (self.state.handle_answered(self.context.now(), result.is_ok()), result) {
            (Answered::Change, result) => {
                // The caller may have given up, which changes nothing.
                let _ = self.callers.pop_front().map(|caller| caller.send(result));
            }
            (Answered::Serves { gap: true }, _) => self.tell(Ok(Event::MayHaveMissed)),
            (Answered::Refused { says }, Err(error)) => {
                if says {
                    self.tell(Err(error.clone()));
                }
                return Some(error);
            }
            _ => {}
        }
        None
    }

    /// Opens the connection again, in as many attempts as it takes. Returns false if the listener
    /// has to end.
    async fn reconnect(&mut self) -> bool {
        let mut pause = self.state.handle_lost(self.context.now());
        loop {
            let (config, context) = (self.config.clone(), self.context.clone());
            let attempt = async move {
                tokio::time::sleep(pause).await;
                establish(&config, &context.lineage).await
            };
            let attempted = tokio::select! {
                biased;
                why = self.end.comes() => {
                    self.tell_end(why);
                    return false;
                }
                attempted = attempt => attempted,
            };
            let error = match attempted {
                Ok(opened) => {
                    let now = self.context.now();
                    self.link = Link::new(opened, now);
                    self.state.handle_opened(now);
                    return true;
                }
                Err(error) => error,
            };
            trace::open_failed(&error);
            let retry = self.state.handle_open_failed(is_final(&error));
            if retry.says {
                self.tell(Err(error));
            }
            pause = retry.pause;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        wake(self.buffer.close());
    }
}

/// Waits for what comes. While the buffer is full nothing is read, unless an answer is due.
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
    // Without random bytes the pauses are not varied, which is no reason not to wait.
    let _ = getrandom::fill(&mut seed);
    u64::from_le_bytes(seed)
}
