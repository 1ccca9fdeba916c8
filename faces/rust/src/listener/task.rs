//! The task behind a listener: it reads, changes what is listened to, and opens the connection anew.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::Waker;

use onetrip_engine::Time;
use onetrip_postgres::client::listener::{Answered, Listener as State};
use tokio::sync::{mpsc, oneshot};

use super::link::{Link, News};
use crate::buffer::Buffer;
use crate::config::Config;
use crate::connect::{establish, is_final};
use crate::core::Context;
use crate::notification::{Event, Notification};
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
}

/// A listener without its handle.
pub(super) struct Task {
    config: Arc<Config>,
    context: Arc<Context>,
    buffer: Arc<Buffer<Result<Event, Error>>>,
    commands: mpsc::Receiver<Command>,
    gone: oneshot::Receiver<Infallible>,
    /// What is listened to, and what is said of it.
    state: State,
    /// Who waits for the changes that were asked for, in order.
    callers: VecDeque<oneshot::Sender<Result<(), Error>>>,
    link: Link,
}

/// How it goes on after the connection.
enum Next {
    Reconnect(Error),
    /// The listener was dropped.
    Stop,
}

impl Task {
    pub(super) async fn open(
        pool: &Pool,
        buffer: Arc<Buffer<Result<Event, Error>>>,
        commands: mpsc::Receiver<Command>,
        gone: oneshot::Receiver<Infallible>,
    ) -> Result<Task, Error> {
        let (config, context) = (pool.config(), pool.context.clone());
        let link = Link::new(establish(&config).await?, context.now());
        let mut state = State::new([], seed());
        // That the first one stands is proof enough that it can be opened again at once.
        state.handle_opened(Time::ZERO);
        Ok(Task { config, context, buffer, commands, gone, state, callers: VecDeque::new(), link })
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

    /// Hands an event out, behind the gap that is owed.
    fn deliver(&mut self, event: Event) {
        if self.state.take_gap() {
            self.tell(Ok(Event::MayHaveMissed));
        }
        let waker = match self.state.awaits_answer() {
            // Reading goes on for the sake of an answer.
            true => self.buffer.push(Ok(event)),
            false => self.buffer.push_all_the_same(Ok(event)),
        };
        wake(waker);
    }

    fn tell(&self, news: Result<Event, Error>) {
        wake(self.buffer.push_all_the_same(news));
    }

    fn answered(&mut self, result: Result<(), Error>) -> Option<Error> {
        match (self.state.handle_answered(self.context.now(), result.is_ok()), result) {
            (Answered::Change, result) => {
                // Its caller may have gone away, which changes nothing.
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

    /// Opens the connection anew, however often that takes. False if the listener was dropped.
    async fn reconnect(&mut self) -> bool {
        let mut pause = self.state.handle_lost(self.context.now());
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
