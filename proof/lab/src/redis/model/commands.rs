//! The commands that the model knows.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::reply::{aggregate, pushed};
use super::slots::key_number;
use super::{Effect, Model, bulk, integer, message, shape, simple};

/// The state of a session and of its server.
#[derive(Debug, Default)]
pub(super) struct Store {
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) scripts: BTreeMap<String, Vec<u8>>,
    channels: BTreeSet<Vec<u8>>,
    /// Nothing is published to these here.
    patterns: BTreeSet<Vec<u8>>,
    sharded: BTreeSet<Vec<u8>>,
}

impl Store {
    /// Subscribes or unsubscribes, and counts as a server does: patterns with channels.
    fn subscribe(&mut self, name: &[u8], channel: &[u8]) -> usize {
        let is_sharded = name.starts_with(b"SS") || name.starts_with(b"SUN");
        let of_kind = match name[0] {
            b'P' => &mut self.patterns,
            _ if is_sharded => &mut self.sharded,
            _ => &mut self.channels,
        };
        match name.ends_with(b"UNSUBSCRIBE") {
            false => of_kind.insert(channel.to_vec()),
            true => of_kind.remove(channel),
        };
        match is_sharded {
            true => self.sharded.len(),
            false => self.channels.len() + self.patterns.len(),
        }
    }
}

/// The name under which the model knows a script: 40 digits, as a real one's, and by another
/// function.
#[must_use]
pub fn script_hash(text: &[u8]) -> String {
    // FNV-1a.
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:040x}", text.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// What a command came to, and what it left behind.
type Done = (Bytes, Effect);

impl Model {
    /// Does what a command says, or queues it, or refuses it.
    pub(super) fn obey(&mut self, arguments: Vec<Vec<u8>>) {
        let (name, op) = (arguments[0].to_ascii_uppercase(), op_of(&arguments));
        self.log.received(op);
        self.make_noise();
        match &name[..] {
            b"MULTI" => {
                self.queued = Some((Vec::new(), false));
                return self.answer(&simple("OK"));
            }
            b"EXEC" => return self.execute(),
            b"ASKING" => {
                self.asking = true;
                return self.answer(&simple("OK"));
            }
            _ => {}
        }
        if let Some(refusal) = self.refused(op, &arguments) {
            if let Some((_, refused)) = &mut self.queued {
                *refused = true;
            }
            return self.answer(&refusal);
        }
        self.queue_or_run(arguments);
    }

    /// The error with which a command is refused before it begins, if it is.
    fn refused(&mut self, op: Option<u64>, arguments: &[Vec<u8>]) -> Option<Bytes> {
        // For a transaction, EXEC decides.
        let asking = match self.queued {
            None => std::mem::take(&mut self.asking),
            Some(_) => self.asking,
        };
        if let Some(elsewhere) = self.redirect(arguments, asking) {
            return Some(elsewhere);
        }
        let op = op?;
        let code = self.refusal()?;
        Some(match self.config.node {
            // The error as a server sends it for a script.
            Some(_) => format!("-{code}\r\n").into(),
            None => error(code, op),
        })
    }

    /// The redirect of a command whose slot is on another node.
    fn redirect(&self, arguments: &[Vec<u8>], asking: bool) -> Option<Bytes> {
        let member = self.config.node.as_ref()?;
        let key = arguments.iter().find_map(|argument| key_number(argument))?;
        let redirect = member.slots().redirect(member.node, key, asking)?;
        Some(format!("-{redirect}\r\n").into())
    }

    fn queue_or_run(&mut self, arguments: Vec<Vec<u8>>) {
        match &mut self.queued {
            Some((queued, _)) => {
                queued.push(arguments);
                self.answer(&simple("QUEUED"));
            }
            None => {
                let reply = self.run(&arguments);
                self.answer(&reply);
            }
        }
    }

    fn answer(&mut self, reply: &[u8]) {
        self.out.extend_from_slice(reply);
    }

    fn execute(&mut self) {
        let asking = std::mem::take(&mut self.asking);
        let queued = self.queued.take();
        let commands = queued.iter().flat_map(|(commands, _)| commands);
        let moved = commands.filter_map(|command| self.redirect(command, asking)).next();
        let reply = match queued {
            Some((_, false)) if moved.is_some() => moved.unwrap_or_default(),
            None => "-ERR EXEC without MULTI\r\n".into(),
            Some((_, true)) => "-EXECABORT Transaction discarded\r\n".into(),
            Some((queued, false)) => {
                let replies: Vec<Bytes> = queued.iter().map(|command| self.run(command)).collect();
                aggregate('*', replies.len(), &replies)
            }
        };
        self.answer(&reply);
    }

    /// Runs one command, and logs its effect.
    fn run(&mut self, arguments: &[Vec<u8>]) -> Bytes {
        let name = arguments[0].to_ascii_uppercase();
        let op = op_of(arguments);
        if let Some(unknown) = self.before(&name, arguments) {
            return unknown;
        }
        self.log.executed(op);
        let (reply, effect) = self.effect(&name, arguments);
        self.log.settled(op, effect);
        reply
    }

    /// Answers that come without running anything.
    fn before(&mut self, name: &[u8], arguments: &[Vec<u8>]) -> Option<Bytes> {
        match name {
            b"EVALSHA" => {
                let hash = String::from_utf8_lossy(&arguments[1]).into_owned();
                let known = self.store.scripts.contains_key(&hash);
                (!known).then(|| "-NOSCRIPT No matching script. Please use EVAL.\r\n".into())
            }
            b"CLUSTER" if self.config.node.is_some() => None,
            b"ECHO" | b"GET" | b"SET" | b"INCRBY" | b"SCRIPT" | b"PUBLISH" | b"FAIL" | b"REPLY"
            | b"EVAL" => None,
            _ if name.ends_with(b"SUBSCRIBE") => None,
            _ => {
                self.log.violation(format!("unknown command {}", name.escape_ascii()));
                Some("-ERR unknown command\r\n".into())
            }
        }
    }

    fn effect(&mut self, name: &[u8], arguments: &[Vec<u8>]) -> Done {
        let argument = |at: usize| arguments.get(at).map(Vec::as_slice).unwrap_or_default();
        let op = op_of(arguments).unwrap_or_default();
        let reply = match name {
            b"ECHO" => bulk(argument(1)),
            b"GET" => self.store.keys.get(argument(1)).map_or("_\r\n".into(), |value| bulk(value)),
            b"SET" => {
                self.store.keys.insert(argument(1).to_vec(), argument(2).to_vec());
                simple("OK")
            }
            b"INCRBY" => integer(self.add(argument(1), number(argument(2)))),
            b"SCRIPT" => {
                let hash = script_hash(argument(2));
                self.store.scripts.insert(hash.clone(), argument(2).to_vec());
                bulk(hash.as_bytes())
            }
            b"CLUSTER" => {
                self.config.node.as_ref().map_or(Bytes::new(), |member| member.slots().reply())
            }
            b"EVALSHA" => {
                let hash = String::from_utf8_lossy(argument(1));
                let text = self.store.scripts.get(&*hash).cloned().unwrap_or_default();
                return script(&text, argument(4), op);
            }
            b"EVAL" => {
                let text = argument(1).to_vec();
                self.store.scripts.insert(script_hash(&text), text.clone());
                return script(&text, argument(4), op);
            }
            _ if name.ends_with(b"SUBSCRIBE") => self.subscribe(name, &arguments[1..]),
            b"PUBLISH" => self.publish(argument(1), argument(2)),
            b"REPLY" => shape(number(argument(1)).unsigned_abs(), argument(2)),
            _ => return fail(argument(1), op),
        };
        (reply, Effect::Committed)
    }

    fn add(&mut self, key: &[u8], amount: i64) -> i64 {
        let value = self.store.keys.entry(key.to_vec()).or_default();
        let sum = number(value) + amount;
        *value = sum.to_string().into_bytes();
        sum
    }

    /// One confirmation for each channel, as pushes.
    fn subscribe(&mut self, name: &[u8], channels: &[Vec<u8>]) -> Bytes {
        let word = name.to_ascii_lowercase();
        let mut out = Vec::new();
        for channel in channels {
            let count = self.store.subscribe(name, channel);
            let items = [bulk(&word), bulk(channel), integer(count as i64)];
            out.extend_from_slice(&pushed(self.config.resp2, &items));
        }
        out.into()
    }

    /// A subscriber gets its own message before the answer.
    fn publish(&mut self, channel: &[u8], payload: &[u8]) -> Bytes {
        let heard = self.store.channels.contains(channel);
        if heard {
            self.push(message(self.config.resp2, channel, payload));
        }
        integer(heard.into())
    }
}

/// Runs a script. If its text says so, it fails after it has written.
fn script(text: &[u8], payload: &[u8], op: u64) -> Done {
    match text.ends_with(b"fail") {
        true => (error("ERR", op), Effect::Partial),
        false => (shape(1, payload), Effect::Committed),
    }
}

/// FAIL. IOERR leaves the effect open, as from MIGRATE when the other server's effect is unknown.
fn fail(code: &[u8], op: u64) -> Done {
    let code = String::from_utf8_lossy(code);
    match code.strip_prefix('!') {
        // A bulk error of RESP3.
        Some(code) => {
            let text = format!("{code} op:{op} it was to fail");
            (format!("!{}\r\n{text}\r\n", text.len()).into(), Effect::RolledBack)
        }
        None if code == "IOERR" => (error(&code, op), Effect::Partial),
        None => (error(&code, op), Effect::RolledBack),
    }
}

fn error(code: &str, op: u64) -> Bytes {
    format!("-{code} op:{op} it was to fail\r\n").into()
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The identity of a command: `op:17`, at the beginning of an argument. Channels of others are in
/// front of it.
fn op_of(arguments: &[Vec<u8>]) -> Option<u64> {
    arguments.iter().rev().find_map(|argument| {
        let rest = argument.strip_prefix(b"op:")?;
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..len]).ok()?.parse().ok()
    })
}
