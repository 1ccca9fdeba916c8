//! Redis' protocol, RESP2 and RESP3.
//!
//! Each command has one reply, but for these:
//!
//! 1. SUBSCRIBE and its like have one for each channel; UNSUBSCRIBE without channels one for each
//!    that was subscribed, and one if there was none (pubsub.c).
//! 2. Messages of subscriptions, invalidations and the lines of MONITOR answer nothing.
//! 3. CLIENT REPLY OFF and SKIP have none, nor what they silence (networking.c). What is not
//!    answered is no exchange.

mod commands;
mod stream;

use std::collections::VecDeque;

use onetrip_redis::reply::Reply;

use super::postgres::class_of;
use super::{Opaque, Out};
use crate::exchange::{Answer, Class, Exchange, INPUTS_MAX, Kind, Shared, VALUES_MAX};
use crate::piece::{Nanos, Side};
use crate::value::Value;
pub(crate) use commands::Keys;
use commands::{Command, Family};
use stream::{Item, Stream};

/// How many replies a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    One,
    /// So many confirmations.
    Confirmations(usize),
    /// Confirmations until nothing of this family is subscribed.
    AllOf(Family),
}

#[derive(Debug)]
struct Open {
    exchange: Exchange,
    command: Command,
    due: Due,
}

/// Channels that are subscribed.
#[derive(Clone, Copy, Debug, Default)]
struct Subscribed {
    channels: u64,
    patterns: u64,
    shards: u64,
}

/// Whether the server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Replies {
    #[default]
    On,
    Off,
    SkipNext,
}

/// Commands without a reply that are followed; beyond it nothing is known until all is quiet.
const OPEN_MAX: usize = 1 << 20;
/// The same when memory is short.
const OPEN_TIGHT: usize = 64;

/// The protocol of one connection.
#[derive(Debug)]
pub(crate) struct Redis {
    client: Stream,
    server: Stream,
    open: VecDeque<Open>,
    subscribed: Subscribed,
    replies: Replies,
    is_monitoring: bool,
    in_transaction: bool,
    /// Bytes of memory of exchanges on their way.
    held: usize,
}

impl Default for Redis {
    fn default() -> Redis {
        Redis {
            client: Stream::new(Side::Client),
            server: Stream::new(Side::Server),
            open: VecDeque::new(),
            subscribed: Subscribed::default(),
            replies: Replies::On,
            is_monitoring: false,
            in_transaction: false,
            held: 0,
        }
    }
}

impl Redis {
    /// Whether bytes begin as a command that is not inline.
    pub(super) fn is_command(bytes: &[u8]) -> bool {
        let Some(line) = bytes.split(|byte| *byte == b'\r').next() else { return false };
        let is_count = matches!(line, [b'*', digits @ ..] if !digits.is_empty()
            && digits.len() < 8 && digits.iter().all(u8::is_ascii_digit));
        is_count && matches!(bytes.get(line.len()..line.len() + 3), Some(b"\r\n$"))
    }

    pub(super) fn read(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        from: Side,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), Opaque> {
        let open_max = if shared.memory.is_full() { OPEN_TIGHT } else { OPEN_MAX };
        let kept_max = shared.memory.kept_max();
        match from {
            Side::Client => {
                let mut stream = std::mem::take(&mut self.client);
                let read = stream.read(at, bytes, kept_max, |at, item| self.sent(shared, at, item));
                self.client = stream;
                read?;
            }
            Side::Server => {
                let mut stream = std::mem::take(&mut self.server);
                let read =
                    stream.read(at, bytes, kept_max, |_, item| self.replied(shared, at, item, out));
                self.server = stream;
                read?;
            }
        }
        if self.open.len() > open_max { Err(Opaque::Incomplete) } else { Ok(()) }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.open.len() + usize::from(self.client.is_amid())
    }

    pub(super) fn is_owed(&self) -> bool {
        !self.open.is_empty()
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> usize {
        self.held + self.client.held() + self.server.held()
    }

    fn sent(&mut self, shared: &mut Shared, at: Nanos, item: Item<'_>) -> Result<(), Opaque> {
        let words = item.words().ok_or(Opaque::Unknown)?;
        let Some((first, arguments)) = words.split_first() else { return Ok(()) };
        let command = Command::of(first, arguments);
        if !command.is_plausible(item.is_inline()) {
            return Err(Opaque::Unknown);
        }
        if command == Command::Replication {
            return Err(Opaque::Replication);
        }
        if !self.is_answered(command) {
            return Ok(());
        }
        let kind = commands::kind_of(first, arguments);
        let text = commands::text_of(shared, kind, first, arguments);
        let mut exchange = Exchange::new(kind, text, at);
        // Nothing of a login is kept.
        let inputs_max =
            if kind == Kind::Session || shared.memory.is_tight() { 0 } else { INPUTS_MAX };
        for word in arguments.iter().take(inputs_max) {
            let mut values = Vec::new();
            if word.len() <= VALUE_LEN_MAX {
                shared.values.of_redis(word, &mut values);
            }
            values.iter().for_each(|value| shared.values.count(*value));
            match &values[..] {
                // Each part of a key is an input of its own.
                [_, parts @ ..] if !parts.is_empty() => {
                    exchange.inputs.extend(parts.iter().map(|it| vec![*it]));
                }
                _ => exchange.inputs.push(values),
            }
        }
        let due = match command {
            Command::Subscribe(_) => Due::Confirmations(item.count(arguments.len() + 1) - 1),
            Command::Unsubscribe(family) if arguments.is_empty() => Due::AllOf(family),
            Command::Unsubscribe(_) => Due::Confirmations(item.count(arguments.len() + 1) - 1),
            _ => Due::One,
        };
        self.held += held(&exchange);
        self.open.push_back(Open { exchange, command, due });
        Ok(())
    }

    /// Rule 3.
    fn is_answered(&mut self, command: Command) -> bool {
        match (command, self.replies) {
            (Command::ReplyOn | Command::Reset, _) => {
                self.replies = Replies::On;
                true
            }
            (Command::ReplyOff, _) => {
                self.replies = Replies::Off;
                false
            }
            (_, Replies::Off) => false,
            (Command::ReplySkip, _) => {
                self.replies = Replies::SkipNext;
                false
            }
            (_, Replies::SkipNext) => {
                self.replies = Replies::On;
                false
            }
            (_, Replies::On) => true,
        }
    }

    fn replied(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        item: Item<'_>,
        out: &mut Out,
    ) -> Result<(), Opaque> {
        let reply = match item {
            Item::Whole(bytes, _) => Some(Reply::read(bytes).map_err(|_| Opaque::Unknown)?.0),
            _ => None,
        };
        if item.kind() == b'>' && reply.as_ref().is_none_or(|it| confirmed(it).is_none()) {
            return Ok(());
        }
        let confirmed = reply.as_ref().and_then(confirmed);
        if self.answers_nothing(item.kind(), reply.as_ref(), confirmed) {
            return Ok(());
        }
        let Some(front) = self.open.front_mut() else { return Err(Opaque::Incomplete) };
        front.exchange.answer.bytes += item.len();
        let is_over = match (front.due, confirmed) {
            (Due::Confirmations(more), Some(_)) if more > 1 => {
                front.due = Due::Confirmations(more - 1);
                false
            }
            (Due::AllOf(family), Some(_)) => self.subscribed.of(family) == 0,
            _ => true,
        };
        if is_over && let Some(mut open) = self.open.pop_front() {
            self.held = self.held.saturating_sub(held(&open.exchange));
            self.take_effect(open.command, reply.as_ref());
            let exchange = &mut open.exchange;
            exchange.end = at;
            exchange.in_transaction = self.in_transaction;
            match reply {
                Some(reply) => note(shared, &mut exchange.answer, reply, 0),
                None => exchange.answer.rows = if item.is_aggregate() { 2 } else { 1 },
            }
            exchange.answer.class = class_of(&exchange.answer);
            out.ended.push(open.exchange);
        }
        Ok(())
    }

    /// Rule 2. Counts what is subscribed.
    fn answers_nothing(
        &mut self,
        kind: u8,
        reply: Option<&Reply<'_>>,
        confirmed: Option<(Family, u64)>,
    ) -> bool {
        if let Some((family, total)) = confirmed {
            let is_asked = self.open.front().is_some_and(|it| it.command.is_of(family));
            if is_asked || kind == b'>' || self.subscribed.any() {
                self.subscribed.note(family, total);
                return !is_asked;
            }
        }
        match reply {
            Some(Reply::Simple(line)) => self.is_monitoring && commands::is_monitor_line(line),
            Some(Reply::Array(_)) if self.subscribed.any() => {
                let first = reply.and_then(first_word);
                first.is_some_and(|it| matches!(&*it, b"message" | b"pmessage" | b"smessage"))
            }
            _ => false,
        }
    }

    fn take_effect(&mut self, command: Command, reply: Option<&Reply<'_>>) {
        let is_ok = !matches!(reply, Some(Reply::Error(_)));
        match command {
            Command::Multi if is_ok => self.in_transaction = true,
            Command::EndOfMulti => self.in_transaction = false,
            Command::Monitor if is_ok && !self.in_transaction => self.is_monitoring = true,
            Command::Reset if is_ok => {
                self.subscribed = Subscribed::default();
                (self.is_monitoring, self.in_transaction) = (false, false);
            }
            _ => {}
        }
    }
}

impl Subscribed {
    fn any(self) -> bool {
        self.channels + self.patterns + self.shards > 0
    }

    fn of(self, family: Family) -> u64 {
        match family {
            Family::Channels => self.channels,
            Family::Patterns => self.patterns,
            Family::Shards => self.shards,
        }
    }

    /// A confirmation counts channels and patterns together, and channels of shards alone.
    fn note(&mut self, family: Family, total: u64) {
        match family {
            Family::Channels => self.channels = total.saturating_sub(self.patterns),
            Family::Patterns => self.patterns = total.saturating_sub(self.channels),
            Family::Shards => self.shards = total,
        }
    }
}

/// Bytes of an exchange on its way.
fn held(exchange: &Exchange) -> usize {
    size_of::<Open>() + exchange.held()
}

/// Bytes of a value that is looked at.
const VALUE_LEN_MAX: usize = 1024;

/// What a confirmation of SUBSCRIBE and the like confirms: the family, and how many there are now.
fn confirmed(reply: &Reply<'_>) -> Option<(Family, u64)> {
    let first = first_word(reply)?;
    let family = match &*first {
        b"subscribe" | b"unsubscribe" => Family::Channels,
        b"psubscribe" | b"punsubscribe" => Family::Patterns,
        b"ssubscribe" | b"sunsubscribe" => Family::Shards,
        _ => return None,
    };
    let (Reply::Push(items) | Reply::Array(items)) = reply else { return None };
    match items.clone().nth(2)? {
        Reply::Int(total) => Some((family, u64::try_from(total).ok()?)),
        _ => None,
    }
}

fn first_word<'a>(reply: &Reply<'a>) -> Option<std::borrow::Cow<'a, [u8]>> {
    let (Reply::Push(items) | Reply::Array(items)) = reply else { return None };
    match items.clone().next()? {
        Reply::Bulk(first) => Some(first),
        _ => None,
    }
}

/// Keeps the values of a reply; those of a list by their place in it count as one column.
fn note(shared: &mut Shared, answer: &mut Answer, reply: Reply<'_>, depth: u16) {
    let is_full = answer.values.len() >= VALUES_MAX || shared.memory.is_tight();
    if depth > 0 && (depth > 8 || is_full) {
        return;
    }
    let mut put = |shared: &mut Shared, text: &[u8]| {
        if is_full || text.len() > VALUE_LEN_MAX {
            return;
        }
        let mut values: Vec<Value> = std::mem::take(&mut shared.values.found);
        values.clear();
        shared.values.of_redis(text, &mut values);
        for value in &values {
            shared.values.count(*value);
            answer.values.push((depth, *value));
        }
        shared.values.found = values;
    };
    let is_top = u64::from(depth == 0);
    match reply {
        // OK and the like say nothing.
        Reply::Nil | Reply::Simple(_) => {}
        Reply::Error(error) => {
            let code = shared.values.hash(0, error.code());
            if depth == 0 {
                answer.class = Class::Failed(code);
            }
        }
        Reply::Int(number) => {
            put(shared, number.to_string().as_bytes());
            answer.rows += is_top;
        }
        Reply::Bulk(text) => {
            put(shared, &text);
            answer.rows += is_top;
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            for item in items {
                answer.rows += is_top;
                note(shared, answer, item, depth + 1);
            }
        }
        Reply::Map(pairs) => {
            for (key, value) in pairs {
                answer.rows += is_top;
                note(shared, answer, key, depth + 1);
                note(shared, answer, value, depth + 1);
            }
        }
        _ => answer.rows += is_top,
    }
}
