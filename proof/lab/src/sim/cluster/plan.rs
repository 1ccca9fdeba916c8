//! Commands to a cluster, and what their replies must be.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use onetrip_engine::Time;
use onetrip_redis::Command;
use onetrip_redis::client::router::How;

use super::driven::{Body, Call};
use super::{Plan, World};
use crate::redis::model::slots::{KEYS, TAGS, key, slot};
use crate::redis::model::{shape, simple};

/// A request without its bytes.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) key: usize,
    pub(super) repeatable: bool,
    /// Whether it must fail.
    pub(super) fails: bool,
    /// Its reply, if nothing is refused.
    pub(super) reply: Bytes,
    pub(super) call: Option<Call>,
}

/// The texts of the scripts. The last one fails after it has written.
const SCRIPTS: [&str; 3] = ["return {ARGV[1], 7, ARGV[1]}", "-- the same again", "-- to fail"];

const COMMANDS_MAX: usize = 4;

/// A command, its reply, and the form in which it is sent.
struct Made {
    command: Command,
    reply: Bytes,
    fails: bool,
    body: Body,
}

impl Made {
    fn new(command: Command, reply: Bytes) -> Made {
        Made { command, reply, fails: false, body: Body::Command }
    }
}

impl World {
    /// Any request.
    pub(super) fn plan_any(&mut self) -> Plan {
        let key = self.rng.index(KEYS);
        let request =
            Request { key, repeatable: false, fails: false, reply: Bytes::new(), call: None };
        let mut plan = Plan::new(self.take_id(), request);
        plan.ops.push(plan.id);
        plan.deadline = self.deadline();
        let made = match self.rng.below(8) {
            0 | 1 => self.script(plan.id, key),
            2 => self.list(&mut plan.ops, key),
            _ if self.rng.one_in(self.settings.failures) => self.failing(plan.id, key),
            _ => self.command(plan.id, key),
        };
        let slot = slot(key % TAGS);
        // No face allows a transaction to be sent again.
        let is_list = matches!(made.body, Body::List(..));
        plan.own.repeatable = !is_list && self.rng.one_in(5);
        plan.own.reply = made.reply;
        plan.own.fails = made.fails;
        plan.bytes = match &made.body {
            Body::List(bytes, _) => bytes.clone(),
            _ => encoded(&made.command),
        };
        let how = How {
            repeatable: plan.own.repeatable,
            slot: Some(slot),
            deadline: Some(plan.deadline).filter(|deadline| *deadline != Time::NEVER),
            ..How::default()
        };
        let Made { command, body, .. } = made;
        plan.own.call = Some(Call { token: plan.token(), command, how, body });
        plan
    }

    fn command(&mut self, op: u64, at: usize) -> Made {
        let payload = self.payload(op);
        let key = key(at);
        match self.rng.one_in(2) {
            true => Made::new(Command::new("SET").arg(key).arg(&payload), simple("OK")),
            false => {
                let kind = 1 + self.rng.below(3);
                let command = Command::new("REPLY").arg(kind).arg(&payload).arg(key);
                Made::new(command, shape(kind, &payload))
            }
        }
    }

    fn script(&mut self, op: u64, at: usize) -> Made {
        let which = self.rng.index(SCRIPTS.len());
        let which = if self.rng.one_in(self.settings.failures) { which } else { which.min(1) };
        let text: Arc<[u8]> = SCRIPTS[which].as_bytes().into();
        let payload = self.payload(op);
        let command = Command::new("EVAL").arg(&text[..]).arg(1).arg(key(at)).arg(&payload);
        let made = Made::new(command, shape(1, &payload));
        Made { fails: text.ends_with(b"fail"), body: Body::Script(text), ..made }
    }

    fn list(&mut self, ops: &mut Vec<u64>, at: usize) -> Made {
        let count = self.rng.up_to(COMMANDS_MAX);
        let mut bytes = BytesMut::new();
        Command::new("MULTI").encode(&mut bytes);
        let mut replies = Vec::new();
        for number in 0..count {
            if number > 0 {
                ops.push(self.take_id());
            }
            let made = self.command(ops[number], at);
            made.command.encode(&mut bytes);
            replies.push(made.reply);
        }
        Command::new("EXEC").encode(&mut bytes);
        let head = format!("+OK\r\n{}*{count}\r\n", "+QUEUED\r\n".repeat(count));
        let reply = std::iter::once(Bytes::from(head)).chain(replies).flatten().collect();
        let body = Body::List(bytes.freeze(), count as u32);
        Made { body, ..Made::new(Command::new("MULTI"), reply) }
    }

    fn failing(&mut self, op: u64, at: usize) -> Made {
        let code = self.rng.pick(&["WRONGTYPE", "ERR", "OOM", "IOERR"]);
        let command = Command::new("FAIL").arg(code).arg(format!("op:{op}")).arg(key(at));
        Made { fails: true, ..Made::new(command, Bytes::new()) }
    }

    /// Bytes of any kind that begin with the identity.
    fn payload(&mut self, op: u64) -> Vec<u8> {
        let mut payload = format!("op:{op} ").into_bytes();
        let size = self.rng.index(self.settings.own.size_max);
        payload.extend(b"\r\n$1\r\n-MOVED 1 h:1 ".iter().cycle().take(size));
        payload
    }
}

fn encoded(command: &Command) -> Bytes {
    let mut bytes = BytesMut::new();
    command.encode(&mut bytes);
    bytes.freeze()
}

/// What is wrong with the reply to a request that is complete.
pub(super) fn check(reply: &[u8], plan: &Plan) -> Option<String> {
    let request = &plan.own;
    if request.fails {
        return Some("its error is no reply".into());
    }
    if is_discarded(reply, plan) {
        return None;
    }
    let seen = || reply[..reply.len().min(60)].escape_ascii();
    (reply != &request.reply[..]).then(|| format!("its reply is another one: {}", seen()))
}

/// Whether a transaction was refused, so that none of it ran.
pub(super) fn is_discarded(reply: &[u8], plan: &Plan) -> bool {
    let call = plan.own.call.as_ref();
    let is_list = call.is_some_and(|call| matches!(call.body, Body::List(..)));
    is_list && reply.ends_with(b"-EXECABORT Transaction discarded\r\n")
}

/// Whether an error may stand in the place of its reply.
pub(super) fn is_own_error(error: &[u8], plan: &Plan) -> bool {
    let name = format!(" op:{} ", plan.id);
    let names_it = error.windows(name.len()).any(|window| window == name.as_bytes());
    names_it && plan.own.fails || REFUSALS.iter().any(|code| error.starts_with(code))
}

/// Errors with which a command ends if nodes refuse it too often.
const REFUSALS: [&[u8]; 8] = [
    b"-LOADING ",
    b"-CLUSTERDOWN ",
    b"-TRYAGAIN ",
    b"-BUSY ",
    b"-NOPERM ",
    b"-CROSSSLOT ",
    b"-NOSCRIPT ",
    b"-EXECABORT ",
];
