//! Requests: their bytes, what the session has to expect, and what the reply must be.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use onetrip_engine::Time;
use onetrip_redis::{Command, Expect};

use super::{Plan, World};
use crate::redis::model::{SHAPES, bulk, confirmation_start, integer, script_hash, shape, simple};

/// What there is to a request, beside its bytes.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) kind: Kind,
    /// What its reply consists of, if nothing is refused.
    pub(super) frames: Vec<Frame>,
    /// The session is told that its errors may leave something behind.
    pub(super) leaves: bool,
    pub(super) in_order: bool,
    /// Reading stops when its caller does not take its reply.
    pub(super) metered: bool,
}

/// What kind of request it is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// One command.
    Command,
    /// Several commands that share a slot.
    Commands,
    /// The same between MULTI and EXEC.
    Atomic,
    /// A script by its hash, with its text.
    Script(Arc<[u8]>),
    /// SUBSCRIBE or one of its like, by this name.
    Confirmations(&'static str),
}

/// One reply, or one confirmation.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The identity whose error may replace its reply.
    pub(super) op: Option<u64>,
    pub(super) bytes: Bytes,
    /// It has to be an error.
    pub(super) fails: bool,
    /// A line that only the server knows comes behind the bytes.
    pub(super) open: bool,
}

impl Frame {
    fn of(op: u64, bytes: Bytes) -> Frame {
        Frame { op: Some(op), bytes, fails: false, open: false }
    }

    fn fixed(bytes: Bytes) -> Frame {
        Frame { op: None, bytes, fails: false, open: false }
    }
}

impl Request {
    pub(super) fn expect(&self) -> Expect {
        match &self.kind {
            Kind::Command if self.leaves => Expect::reply().leaving(),
            Kind::Command => Expect::reply(),
            Kind::Commands | Kind::Atomic => Expect::replies(self.frames.len() as u32),
            Kind::Script(text) => Expect::reply().script(text.clone()),
            Kind::Confirmations(word) => {
                Expect::confirmations(self.frames.len() as u32).of(word.as_bytes())
            }
        }
    }
}

/// Puts a request together.
struct Build {
    out: BytesMut,
    plan: Plan,
}

impl Build {
    fn add(&mut self, command: &Command, frame: Frame) {
        command.encode(&mut self.out);
        self.plan.ops.extend(frame.op);
        self.plan.own.frames.push(frame);
    }

    fn finish(mut self) -> Plan {
        self.plan.bytes = self.out.freeze();
        self.plan
    }
}

/// The texts of the scripts: one of them fails when it has written something.
const SCRIPTS: [&str; 3] = ["return {ARGV[1], 7, ARGV[1]}", "-- the same again", "-- to fail"];

impl World {
    /// Any request.
    pub(super) fn plan_any(&mut self) -> Plan {
        let mut plan = match self.rng.below(10) {
            _ if self.settings.own.subscriber => self.plan_confirmations(),
            0 => self.plan_confirmations(),
            1 => self.plan_several(Kind::Commands),
            2 => self.plan_several(Kind::Atomic),
            3 | 4 => self.plan_script(),
            _ => self.plan_command(),
        };
        plan.again = self.rng.one_in(2);
        plan.own.in_order = self.rng.one_in(3);
        plan.discard = self.rng.one_in(20);
        plan.own.metered = self.settings.own.metered && !plan.discard && self.rng.one_in(2);
        plan.deadline = if plan.discard { Time::NEVER } else { self.deadline() };
        plan
    }

    fn build(&mut self, kind: Kind) -> Build {
        let own =
            Request { kind, frames: Vec::new(), leaves: false, in_order: false, metered: false };
        let plan = Plan::new(self.take_id(), own);
        Build { out: BytesMut::new(), plan }
    }

    fn plan_command(&mut self) -> Plan {
        let mut build = self.build(Kind::Command);
        let op = build.plan.id;
        let (command, frame) = match self.rng.one_in(self.settings.failures) {
            true => self.failing(op),
            false => self.command(op, true),
        };
        build.plan.own.leaves = self.rng.one_in(4);
        build.add(&command, frame);
        build.finish()
    }

    fn plan_several(&mut self, kind: Kind) -> Plan {
        let atomic = matches!(kind, Kind::Atomic);
        let mut build = self.build(kind);
        if atomic {
            build.add(&Command::new("MULTI"), Frame::fixed(simple("OK")));
        }
        let mut items = Vec::new();
        for at in 0..self.rng.up_to(COMMANDS_MAX) {
            let op = if at == 0 { build.plan.id } else { self.take_id() };
            let fails = !atomic && self.rng.one_in(self.settings.failures);
            let (command, frame) = if fails { self.failing(op) } else { self.command(op, !atomic) };
            match atomic {
                false => build.add(&command, frame),
                true => {
                    items.push(frame.bytes);
                    build.add(&command, Frame::of(op, simple("QUEUED")));
                }
            }
        }
        if atomic {
            let head = Bytes::from(format!("*{}\r\n", items.len()));
            let reply: Bytes = std::iter::once(head).chain(items).flatten().collect();
            build.add(&Command::new("EXEC"), Frame::fixed(reply));
        }
        build.finish()
    }

    fn plan_script(&mut self) -> Plan {
        let at = self.rng.index(SCRIPTS.len());
        let at = if self.rng.one_in(self.settings.failures) { at } else { at.min(1) };
        let text: Arc<[u8]> = SCRIPTS[at].as_bytes().into();
        let mut build = self.build(Kind::Script(text.clone()));
        let op = build.plan.id;
        let payload = self.payload(op);
        let command = Command::new("EVALSHA").arg(script_hash(&text)).arg(1);
        let command = command.arg(format!("op:{op}")).arg(&payload);
        let fails = text.ends_with(b"fail");
        build.plan.own.leaves = true;
        build.add(&command, Frame { fails, ..Frame::of(op, shape(1, &payload)) });
        build.finish()
    }

    /// A subscription, or the end of one, that may never have been.
    fn plan_confirmations(&mut self) -> Plan {
        let word = self.rng.pick(&CONFIRMED);
        let mut build = self.build(Kind::Confirmations(word));
        let op = build.plan.id;
        let count = self.rng.up_to(CHANNELS_MAX);
        let channels: Vec<String> = (0..count).map(|at| format!("op:{op}/{at}")).collect();
        for channel in &channels {
            let bytes = confirmation_start(self.settings.own.subscriber, word, channel);
            build.plan.own.frames.push(Frame { open: true, ..Frame::of(op, bytes) });
        }
        build.plan.ops.push(op);
        if word == "SUBSCRIBE" {
            self.side.channels.extend(channels.first().cloned());
        }
        Command::new(word).args(&channels).encode(&mut build.out);
        build.finish()
    }

    /// A command that is to run, and its reply. That of PUBLISH only the server knows.
    fn command(&mut self, op: u64, may_publish: bool) -> (Command, Frame) {
        let key = format!("op:{op}");
        let payload = self.payload(op);
        let (command, reply) = match self.rng.below(8) {
            0 => (Command::new("SET").arg(&key).arg(&payload), simple("OK")),
            1 => (Command::new("GET").arg(&key), Bytes::from_static(b"_\r\n")),
            2 => (Command::new("INCRBY").arg(&key).arg(op), integer(op as i64)),
            3 => (Command::new("ECHO").arg(&payload), bulk(&payload)),
            4 if may_publish && !self.side.channels.is_empty() => {
                return self.publish(op, &payload);
            }
            _ => {
                let kind = self.rng.below(SHAPES);
                // A line holds no more than a line may.
                let payload = if kind == 0 { key.into_bytes() } else { payload };
                let command = Command::new("REPLY").arg(kind).arg(&payload);
                (command, shape(kind, &payload))
            }
        };
        (command, Frame::of(op, reply))
    }

    /// Whether it has a receiver; only the server knows that.
    fn publish(&mut self, op: u64, payload: &[u8]) -> (Command, Frame) {
        let at = self.rng.index(self.side.channels.len());
        let command = Command::new("PUBLISH").arg(&self.side.channels[at]).arg(payload);
        (command, Frame { open: true, ..Frame::of(op, Bytes::from_static(b":")) })
    }

    fn failing(&mut self, op: u64) -> (Command, Frame) {
        let code = self.rng.pick(&["WRONGTYPE", "ERR", "!ERR", "OOM", "IOERR"]);
        let command = Command::new("FAIL").arg(code).arg(format!("op:{op}"));
        (command, Frame { fails: true, ..Frame::of(op, Bytes::new()) })
    }

    /// Bytes of any kind that begin with the identity.
    fn payload(&mut self, op: u64) -> Vec<u8> {
        let size = if self.rng.one_in(2) { 8 } else { self.rng.index(self.settings.own.size_max) };
        let mut payload = format!("op:{op} ").into_bytes();
        payload.extend(b"\r\n$1\r\n>2\r\n\0-ERR ".iter().cycle().take(size));
        payload
    }
}

const COMMANDS_MAX: usize = 5;
const CHANNELS_MAX: usize = 3;

/// Not SUNSUBSCRIBE, whose confirmation looks like what the server says by itself.
const CONFIRMED: [&str; 6] =
    ["SUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "SSUBSCRIBE"];
