//! What a command of Redis is for, and what is shown of it.

use std::collections::HashMap;

use onetrip_redis::command::Command as Words;
use onetrip_redis::table::Spec;

use crate::exchange::{Kind, Shared, TextId};
use crate::value::Value;

/// What is subscribed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Channels,
    Patterns,
    Shards,
}

/// A command, as far as it changes how replies are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Known,
    Unknown,
    Subscribe(Family),
    Unsubscribe(Family),
    Multi,
    EndOfMulti,
    Monitor,
    Reset,
    ReplyOn,
    ReplyOff,
    ReplySkip,
    /// What follows has no requests.
    Replication,
}

impl Command {
    pub(super) fn of(first: &[u8], arguments: &[&[u8]]) -> Command {
        let is = |word: &str| first.eq_ignore_ascii_case(word.as_bytes());
        let family = match first.first().map(u8::to_ascii_lowercase) {
            Some(b'p') => Family::Patterns,
            Some(b's') if !is("subscribe") => Family::Shards,
            _ => Family::Channels,
        };
        if is("subscribe") || is("psubscribe") || is("ssubscribe") {
            return Command::Subscribe(family);
        }
        if is("unsubscribe") || is("punsubscribe") || is("sunsubscribe") {
            return Command::Unsubscribe(family);
        }
        if is("multi") {
            return Command::Multi;
        }
        if is("exec") || is("discard") {
            return Command::EndOfMulti;
        }
        if is("monitor") {
            return Command::Monitor;
        }
        if is("reset") {
            return Command::Reset;
        }
        if is("psync") || is("sync") {
            return Command::Replication;
        }
        if is("client")
            && let [sub, mode] = arguments
            && sub.eq_ignore_ascii_case(b"reply")
        {
            return match () {
                () if mode.eq_ignore_ascii_case(b"off") => Command::ReplyOff,
                () if mode.eq_ignore_ascii_case(b"skip") => Command::ReplySkip,
                () => Command::ReplyOn,
            };
        }
        if spec(first, arguments).is_some() { Command::Known } else { Command::Unknown }
    }

    /// Whether it may be one: a line of another protocol is not.
    pub(super) fn is_plausible(self, is_inline: bool) -> bool {
        !is_inline || self != Command::Unknown
    }

    /// Whether it is answered by confirmations of this family.
    pub(super) fn is_of(self, family: Family) -> bool {
        matches!(self, Command::Subscribe(of) | Command::Unsubscribe(of) if of == family)
    }
}

fn spec(first: &[u8], arguments: &[&[u8]]) -> Option<&'static Spec> {
    if first.len() > NAME_MAX {
        return None;
    }
    let sub = arguments.first().filter(|it| it.len() <= NAME_MAX);
    Spec::of(&Words::new("").arg(first).args(sub))
}

const NAME_MAX: usize = 32;

/// A line of MONITOR begins with a time: `1700000000.123456 [0 127.0.0.1:1] "get" "a"`.
pub(super) fn is_monitor_line(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_digit) && line.windows(2).any(|it| it == b" [")
}

pub(super) fn kind_of(first: &[u8], arguments: &[&[u8]]) -> Kind {
    let name = String::from_utf8_lossy(&first[..first.len().min(NAME_MAX)]).to_uppercase();
    match &*name {
        "AUTH" | "HELLO" | "SELECT" | "CLIENT" | "READONLY" | "READWRITE" | "ASKING"
        | "COMMAND" | "CONFIG" | "INFO" | "ACL" | "RESET" => Kind::Session,
        "PING" | "ECHO" => Kind::Ping,
        "MULTI" => Kind::Begin,
        "EXEC" => Kind::Commit,
        "DISCARD" => Kind::Rollback,
        "WATCH" | "UNWATCH" => Kind::Watch,
        "BLPOP" | "BRPOP" | "BLMOVE" | "BRPOPLPUSH" | "BLMPOP" | "BZPOPMIN" | "BZPOPMAX"
        | "BZMPOP" | "WAIT" | "WAITAOF" | "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE"
        | "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" | "MONITOR" => Kind::Wait,
        // XREAD and XREADGROUP wait if they say so.
        "XREAD" | "XREADGROUP" if arguments.iter().any(|it| it.eq_ignore_ascii_case(b"block")) => {
            Kind::Wait
        }
        _ if spec(first, arguments).is_some_and(Spec::is_readonly) => Kind::Read,
        _ => Kind::Write,
    }
}

/// First parts of keys, as `user` of `user:17`.
#[derive(Debug, Default)]
pub(crate) struct Keys(HashMap<Value, Part>);

/// A first part of keys, which is shown once enough different keys began with it: then it is no
/// value of its own.
#[derive(Debug, Default)]
struct Part {
    keys: Vec<Value>,
    /// Texts that it is not shown in yet.
    texts: Vec<TextId>,
}

const PARTS_MAX: usize = 4_096;
const PART_KEYS: usize = 8;

/// A command without its values: its name, that of a subcommand, and the shape of its key.
pub(super) fn text_of(
    shared: &mut Shared,
    kind: Kind,
    first: &[u8],
    arguments: &[&[u8]],
) -> TextId {
    let spec = spec(first, arguments);
    let name = spec.map_or("(command)", Spec::name);
    let has_key = spec.is_none_or(|it| it.arity() != 1)
        && !matches!(kind, Kind::Session | Kind::Ping | Kind::Begin | Kind::Commit)
        && !name.contains(' ');
    let Some(key) = arguments.first().filter(|_| has_key) else {
        return shared.texts.add(name, || (kind, kind == Kind::Ping));
    };
    let key = &key[..key.len().min(512)];
    let parts = key.split(|byte| *byte == b':').count().min(8);
    let part = key.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name = parts > 1
        && !part.is_empty()
        && part.len() <= 24
        && part.iter().all(|byte| byte.is_ascii_alphabetic() || b"_-.".contains(byte));
    let masked = format!("{name} {}", vec!["?"; parts].join(":"));
    let part = if is_name { part } else { b"?" };
    let shape = [masked.as_bytes(), b"\0", part].concat();
    let hash = shared.values.hash(0, &shape).0;
    let part = String::from_utf8_lossy(part);
    let known = is_name && shared.is_known_part(&part, key);
    let shown = || match known {
        true => masked.replacen('?', &part, 1),
        false => masked.clone(),
    };
    let shows_values = shared.shows_values;
    let full = || match shows_values {
        true => [&[first], arguments]
            .concat()
            .iter()
            .map(|it| String::from_utf8_lossy(it))
            .collect::<Vec<_>>()
            .join(" "),
        false => shown(),
    };
    let id = shared.texts.add_as(hash, full, || (kind, false));
    if is_name && !shows_values {
        shared.show_part(&part, id, known);
    }
    id
}

impl Shared {
    /// Notes a key, and says whether its first part is known to be no value.
    fn is_known_part(&mut self, part: &str, key: &[u8]) -> bool {
        let (hash, key) = (self.values.hash(1, part.as_bytes()), self.values.hash(1, key));
        if !self.keys.0.contains_key(&hash) && self.keys.0.len() >= PARTS_MAX {
            return false;
        }
        let keys = &mut self.keys.0.entry(hash).or_default().keys;
        if keys.len() < PART_KEYS && !keys.contains(&key) {
            keys.push(key);
        }
        keys.len() >= PART_KEYS
    }

    /// Shows a part in texts, once it is known.
    fn show_part(&mut self, part: &str, text: TextId, is_known: bool) {
        let hash = self.values.hash(1, part.as_bytes());
        let Some(of) = self.keys.0.get_mut(&hash) else { return };
        if !is_known {
            if of.texts.len() < PARTS_MAX && !of.texts.contains(&text) {
                of.texts.push(text);
            }
            return;
        }
        for text in std::mem::take(&mut of.texts) {
            let named = self.texts.get(text).text.replacen('?', part, 1);
            self.texts.show(text, &named);
        }
    }
}
