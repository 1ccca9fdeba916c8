//! Notifications of PostgreSQL and messages of Redis' channels, on a connection of their own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use onetrip_client::flag;
use onetrip_client::redis::Packed;
use onetrip_engine::Time;
use onetrip_postgres::client::listener::{Answered, KEPT_MAX, Listener as Decides};
use onetrip_postgres::message::NotificationResponse;
use onetrip_redis::Command;
use onetrip_redis::value::Value;

use crate::call::{Call, Request, Then, Want};
use crate::failure::Failure;
use crate::link::messages;
use crate::state::{Server, State};

/// What somebody has notified.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notification {
    pub(crate) channel: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) process_id: i32,
}

/// A listener, and what came for its reader.
pub(crate) struct Listener {
    decides: Decides,
    channels: Vec<String>,
    /// Its connection; 0 for none.
    number: u32,
    /// When it connects.
    pub(crate) at: Time,
    pub(crate) kept: VecDeque<Notification>,
    pub(crate) dropped: u64,
    pub(crate) has_gap: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) is_over: bool,
    /// It has listened.
    pub(crate) has_served: bool,
    pub(crate) then: Rc<Then>,
}

type Shared = Rc<RefCell<Listener>>;

impl State {
    /// Listens to these channels from now on.
    pub(crate) fn listen(&mut self, now: Time, channels: Vec<String>) -> Shared {
        let seed = self.next_seed();
        let listener = Rc::new(RefCell::new(Listener {
            decides: Decides::new(channels.clone(), seed),
            channels,
            number: 0,
            at: now,
            kept: VecDeque::new(),
            dropped: 0,
            has_gap: false,
            failure: None,
            is_over: false,
            has_served: false,
            then: Rc::default(),
        }));
        match self.is_closing {
            true => {
                let mut it = listener.borrow_mut();
                (it.is_over, it.failure) = (true, Some(Failure::closed()));
            }
            false => self.listeners.push(listener.clone()),
        }
        self.listeners_go_on(now);
        self.settle(now);
        listener
    }

    /// Connects those whose time it is.
    pub(crate) fn listeners_go_on(&mut self, now: Time) {
        for listener in self.listeners.clone() {
            if listener.borrow().at > now {
                continue;
            }
            let number = self.next_apart();
            {
                let mut it = listener.borrow_mut();
                (it.at, it.number) = (Time::NEVER, number);
            }
            self.open(now, number);
        }
    }

    fn listener(&self, number: u32) -> Option<Shared> {
        self.listeners.iter().find(|it| it.borrow().number == number).cloned()
    }

    pub(crate) fn listener_opened(&mut self, now: Time, number: u32) {
        match self.listener(number) {
            Some(listener) => {
                listener.borrow_mut().decides.handle_opened(now);
                self.say(now, number, &listener);
            }
            None => self.leave(now, number),
        }
    }

    /// Sends what is to be said next.
    fn say(&mut self, now: Time, number: u32, listener: &Shared) {
        let Some(text) = listener.borrow_mut().decides.next_text() else { return };
        let (want, flags, requests) = match &self.server {
            Server::Postgres(_) => {
                let (statement, types) = (self.statement(&text), Default::default());
                let request = Request { statement, types, first: Vec::new(), more: Vec::new() };
                (Want::Listen, flag::SIMPLE, vec![request])
            }
            // When it is said, and how often, is the same; in other words.
            Server::Redis(_) => {
                let channels = listener.borrow().channels.clone();
                let count = channels.len() as u32;
                let command = Command::new("SUBSCRIBE").args(&channels);
                (Want::Subscribe(Packed::confirmed(&command, count)), 0, Vec::new())
            }
        };
        let call = Call::new(want, flags, Time::NEVER, requests, 1);
        let failure = self.links.get_mut(&number).and_then(|link| link.submit(now, number, &call));
        if let Some(failure) = failure {
            self.listen_answered(now, number, Some(failure));
        }
        self.soil(number);
    }

    pub(crate) fn listen_answered(&mut self, now: Time, number: u32, failure: Option<Failure>) {
        let Some(listener) = self.listener(number) else { return };
        let answered = listener.borrow_mut().decides.handle_answered(now, failure.is_none());
        match answered {
            Answered::Serves { gap } => {
                let mut it = listener.borrow_mut();
                it.has_gap |= gap;
                it.has_served = true;
                if gap {
                    it.then.falls_due(&mut self.callbacks);
                }
            }
            Answered::Refused { says } => {
                if failure.as_ref().is_some_and(|it| !it.is_loss()) {
                    if says {
                        self.tell(&listener, failure);
                    }
                    self.destroy(now, number, "it can't listen");
                }
                return;
            }
            _ => {}
        }
        self.say(now, number, &listener);
    }

    fn tell(&mut self, listener: &Shared, failure: Option<Failure>) {
        let mut it = listener.borrow_mut();
        it.failure = failure;
        it.then.falls_due(&mut self.callbacks);
    }

    pub(crate) fn listener_lost(&mut self, now: Time, number: u32) {
        let Some(listener) = self.listener(number) else { return };
        let mut it = listener.borrow_mut();
        it.number = 0;
        let pause = it.decides.handle_lost(now);
        it.at = now.after(pause);
    }

    pub(crate) fn listener_refused(
        &mut self,
        now: Time,
        number: u32,
        failure: Failure,
        is_final: bool,
    ) {
        let Some(listener) = self.listener(number) else { return };
        let retry = {
            let mut it = listener.borrow_mut();
            it.number = 0;
            let retry = it.decides.handle_open_failed(is_final);
            it.at = now.after(retry.pause);
            retry
        };
        if retry.says {
            self.tell(&listener, Some(failure));
        }
    }

    /// A notification has come, or a push.
    pub(crate) fn notified(&mut self, number: u32, block: &Bytes) {
        let Some(listener) = self.listener(number) else { return };
        let read = match &self.server {
            Server::Postgres(_) => notification(block),
            Server::Redis(_) => message(block),
        };
        let Some(read) = read else { return };
        let mut it = listener.borrow_mut();
        let gap = it.decides.take_gap();
        it.has_gap |= gap;
        it.kept.push_back(read);
        if it.kept.len() > KEPT_MAX {
            it.kept.pop_front();
            it.dropped += 1;
            it.has_gap = true;
        }
        it.then.falls_due(&mut self.callbacks);
    }

    pub(crate) fn end_listener(&mut self, now: Time, listener: &Shared) {
        let number = {
            let mut it = listener.borrow_mut();
            (it.is_over, it.at) = (true, Time::NEVER);
            std::mem::take(&mut it.number)
        };
        self.listeners.retain(|other| !Rc::ptr_eq(other, listener));
        self.leave(now, number);
        self.settle(now);
    }
}

fn notification(block: &[u8]) -> Option<Notification> {
    let (_, body) = messages(block).next()?;
    let it = NotificationResponse::decode(body).ok()?;
    let (channel, payload) = (it.channel.into(), it.payload.into());
    Some(Notification { channel, payload, process_id: it.process_id })
}

/// `message`, the channel, the text.
fn message(block: &Bytes) -> Option<Notification> {
    let (value, _) = Value::read(block).ok()?;
    let (Value::Push(items) | Value::Array(items)) = value else { return None };
    let bytes = |value: &Value| match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    match &items[..] {
        [kind, channel, payload] if bytes(kind)? == b"message" => {
            let (channel, payload) = (bytes(channel)?, bytes(payload)?);
            Some(Notification { channel, payload, process_id: 0 })
        }
        _ => None,
    }
}
