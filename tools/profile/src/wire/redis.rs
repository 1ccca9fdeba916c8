//! Redis' protocol, RESP2 and RESP3.

use std::collections::VecDeque;

use onetrip_redis::command::Command;
use onetrip_redis::reply::Reply;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};
use onetrip_redis::table::Spec;

use super::frames::Inbox;
use super::postgres::class_of;
use super::{Opaque, Out};
use crate::exchange::{Answer, Class, Exchange, Kind, Shared, VALUES_MAX};
use crate::piece::{Nanos, Side};
use crate::value::Value;

/// The protocol of one connection.
#[derive(Debug)]
pub(crate) struct Redis {
    client: Inbox,
    server: Inbox,
    commands: Scanner,
    replies: Scanner,
    open: VecDeque<Exchange>,
    /// Replies are messages of subscriptions, which nothing asked for.
    is_subscribed: bool,
    in_transaction: bool,
}

impl Default for Redis {
    fn default() -> Redis {
        let scanner = || Scanner::new(ScanLimits::default());
        Redis {
            client: Inbox::default(),
            server: Inbox::default(),
            commands: scanner(),
            replies: scanner(),
            open: VecDeque::new(),
            is_subscribed: false,
            in_transaction: false,
        }
    }
}

impl Redis {
    pub(super) fn read(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        from: Side,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), Opaque> {
        match from {
            Side::Client => {
                self.client.add(at, bytes);
                self.read_client(shared)
            }
            Side::Server => {
                self.server.add(at, bytes);
                self.read_server(shared, at, out)
            }
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.open.len() + usize::from(self.client.is_amid())
    }

    fn read_client(&mut self, shared: &mut Shared) -> Result<(), Opaque> {
        loop {
            let at = self.client.begin();
            let bytes = self.client.bytes();
            let Some(first) = bytes.first() else { return Ok(()) };
            if *first != b'*' {
                let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                    return if bytes.len() > INLINE_MAX { Err(Opaque::Unknown) } else { Ok(()) };
                };
                let line = bytes[..end].to_vec();
                self.client.take(end + 1);
                let words: Vec<_> = line.split(u8::is_ascii_whitespace).collect();
                let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
                if !words.is_empty() {
                    self.sent(shared, at, &words);
                }
                continue;
            }
            match self.commands.scan(bytes).map_err(|_| Opaque::Unknown)? {
                Scan::Need(_) => return Ok(()),
                Scan::Whole { len, .. } => {
                    let bytes = bytes[..len].to_vec();
                    self.client.take(len);
                    self.commands = Scanner::new(ScanLimits::default());
                    let (reply, _) = Reply::read(&bytes).map_err(|_| Opaque::Unknown)?;
                    let Reply::Array(items) = reply else { return Err(Opaque::Unknown) };
                    let mut words = Vec::new();
                    for item in items {
                        match item {
                            Reply::Bulk(word) => words.push(word.into_owned()),
                            _ => return Err(Opaque::Unknown),
                        }
                    }
                    let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
                    if !words.is_empty() {
                        self.sent(shared, at, &words);
                    }
                }
            }
        }
    }

    fn sent(&mut self, shared: &mut Shared, at: Nanos, words: &[&[u8]]) {
        let name = String::from_utf8_lossy(&words[0][..words[0].len().min(64)]).to_uppercase();
        let kind = kind_of(&name);
        let text = shared.texts.add(&shape_of(&name, words), || (kind, kind == Kind::Ping));
        let mut inputs = Vec::new();
        for word in words.iter().skip(1).take(INPUTS_MAX) {
            let values = match kind {
                // Nothing of a login is kept.
                Kind::Session => Vec::new(),
                _ if word.len() > VALUE_LEN_MAX => Vec::new(),
                _ => shared.values.of_redis(word),
            };
            values.iter().for_each(|value| shared.values.count(*value));
            match &values[..] {
                // Each part of a key is an input of its own.
                [_, parts @ ..] if !parts.is_empty() => {
                    inputs.extend(parts.iter().map(|it| vec![*it]));
                }
                _ => inputs.push(values),
            }
        }
        self.open.push_back(Exchange {
            kind,
            text,
            inputs,
            answer: Answer::default(),
            begin: at,
            end: at,
            parses: false,
            is_named: false,
            in_transaction: false,
            trace: None,
            endpoint: None,
        });
    }

    fn read_server(&mut self, shared: &mut Shared, at: Nanos, out: &mut Out) -> Result<(), Opaque> {
        loop {
            let bytes = self.server.bytes();
            if bytes.is_empty() {
                return Ok(());
            }
            let Scan::Whole { len, .. } = self.replies.scan(bytes).map_err(|_| Opaque::Unknown)?
            else {
                return Ok(());
            };
            let bytes = bytes[..len].to_vec();
            self.server.take(len);
            self.replies = Scanner::new(ScanLimits::default());
            let (reply, _) = Reply::read(&bytes).map_err(|_| Opaque::Unknown)?;
            let is_push = matches!(reply, Reply::Push(_));
            if is_push && !is_confirmation(&reply) {
                continue;
            }
            let Some(mut exchange) = self.open.pop_front() else {
                // Messages of subscriptions in RESP2 are arrays that nothing asked for.
                if self.is_subscribed {
                    continue;
                }
                return Err(Opaque::Incomplete);
            };
            self.is_subscribed |= exchange.kind == Kind::Wait && is_confirmation(&reply);
            let name = &*shared.texts.get(exchange.text).text;
            let is_ok = !matches!(reply, Reply::Error(_));
            match name {
                "MULTI" => self.in_transaction = is_ok,
                "EXEC" | "DISCARD" => self.in_transaction = false,
                _ => {}
            }
            exchange.end = at;
            exchange.in_transaction = self.in_transaction;
            exchange.answer.bytes = len as u64;
            note(shared, &mut exchange.answer, reply, 0);
            exchange.answer.class = class_of(shared, &exchange.answer);
            out.ended.push(exchange);
        }
    }
}

/// The longest inline command (PROTO_INLINE_MAX_SIZE in server.h).
const INLINE_MAX: usize = 64 << 10;
const INPUTS_MAX: usize = 64;
const VALUE_LEN_MAX: usize = 1024;

/// Whether a push answers SUBSCRIBE and the like.
fn is_confirmation(reply: &Reply<'_>) -> bool {
    let (Reply::Push(items) | Reply::Array(items)) = reply else { return false };
    let Some(Reply::Bulk(first)) = items.clone().next() else { return false };
    first.ends_with(b"subscribe")
}

/// Keeps the values of a reply; those of a list by their place in it count as one column.
fn note(shared: &mut Shared, answer: &mut Answer, reply: Reply<'_>, depth: u16) {
    if answer.values.len() >= VALUES_MAX || depth > 8 {
        return;
    }
    let mut put = |shared: &mut Shared, values: Vec<Value>| {
        for value in values {
            shared.values.count(value);
            answer.values.push((depth, value));
        }
    };
    match reply {
        Reply::Nil => {}
        Reply::Error(error) => {
            let code = shared.values.hash(0, error.code());
            if depth == 0 {
                answer.class = Class::Failed(code);
            }
        }
        // OK and the like say nothing.
        Reply::Simple(_) => {}
        Reply::Int(number) => {
            let values = shared.values.of_redis(number.to_string().as_bytes());
            put(shared, values);
            answer.rows += u64::from(depth == 0);
        }
        Reply::Bulk(text) => {
            if text.len() <= VALUE_LEN_MAX {
                let values = shared.values.of_redis(&text);
                // A single small value is a class of its own, so its parts are left out.
                put(shared, values);
            }
            answer.rows += u64::from(depth == 0);
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            for item in items {
                answer.rows += u64::from(depth == 0);
                note(shared, answer, item, depth + 1);
            }
        }
        Reply::Map(pairs) => {
            for (key, value) in pairs {
                answer.rows += u64::from(depth == 0);
                note(shared, answer, key, depth + 1);
                note(shared, answer, value, depth + 1);
            }
        }
        _ => answer.rows += u64::from(depth == 0),
    }
}

fn kind_of(name: &str) -> Kind {
    match name {
        "AUTH" | "HELLO" | "SELECT" | "CLIENT" | "READONLY" | "READWRITE" | "ASKING"
        | "COMMAND" | "CONFIG" | "INFO" => Kind::Session,
        "PING" | "ECHO" => Kind::Ping,
        "MULTI" => Kind::Begin,
        "EXEC" => Kind::Commit,
        "DISCARD" => Kind::Rollback,
        "WATCH" | "UNWATCH" => Kind::Watch,
        "BLPOP" | "BRPOP" | "BLMOVE" | "BRPOPLPUSH" | "BLMPOP" | "BZPOPMIN" | "BZPOPMAX"
        | "BZMPOP" | "WAIT" | "WAITAOF" | "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE"
        | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" | "MONITOR" => Kind::Wait,
        _ if reads(name) => Kind::Read,
        _ => Kind::Write,
    }
}

/// Whether a command only reads, by the table of commands.
fn reads(name: &str) -> bool {
    Spec::of(&Command::new(name)).is_some_and(Spec::is_readonly)
}

/// A command without its values: its name, that of a subcommand, and what a key begins with.
fn shape_of(name: &str, words: &[&[u8]]) -> String {
    let text = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
    match (name, words) {
        ("CLIENT" | "CONFIG" | "COMMAND" | "XGROUP" | "SCRIPT" | "CLUSTER", [_, sub, ..]) => {
            format!("{name} {}", text(sub).to_uppercase())
        }
        ("MULTI" | "EXEC" | "DISCARD" | "PING" | "AUTH" | "HELLO" | "SELECT", _) => name.to_owned(),
        (_, [_, key, ..]) => {
            // A part of a key that has no digit is a name, mostly.
            let key = text(key);
            let parts = key.split(':').map(|part| {
                let is_name = part.len() <= 24
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_alphabetic() || b"_-.".contains(&byte));
                if is_name { part } else { "?" }
            });
            let is_plain = !key.contains(':');
            let parts = if is_plain { "?".to_owned() } else { parts.collect::<Vec<_>>().join(":") };
            format!("{name} {parts}")
        }
        _ => name.to_owned(),
    }
}
