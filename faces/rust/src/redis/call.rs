//! What is sent as one request: a command, several that share a slot of the engine, or a call of a
//! script.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Request, Time, Token};
use onetrip_redis::client::cache::{FetchId, Writes};
use onetrip_redis::client::router::FlightId;
use onetrip_redis::client::scripts::Scripts;
use onetrip_redis::{Command, Expect, Spec};

use super::published::Family;
use super::script::ScriptText;

/// One command of a call.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// The whole command; for a script, the part behind its text or hash.
    pub(crate) command: Command,
    pub(crate) script: Option<Arc<ScriptText>>,
    /// Whether an error may leave effects behind.
    pub(crate) leaves: bool,
}

/// What is sent as one request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) body: Body,
    pub(crate) deadline: Time,
    /// Whether the reply is metered.
    pub(crate) metered: bool,
    /// In a cluster, the flight whose result is reported.
    pub(crate) flight: Option<FlightId>,
    /// The fetch of the cache whose result is reported.
    pub(crate) fetch: Option<FetchId>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    One(Item),
    /// Commands with a reply each.
    Many(Vec<Item>),
    /// The same, encoded, and what they may change.
    Encoded(Bytes, u32, Writes),
    /// Commands between MULTI and EXEC.
    Atomic(Vec<Item>),
    /// A call behind ASKING, which has a reply of its own.
    Asking(Box<Body>),
    /// UNWATCH, so that the next session does not watch the keys of this one.
    Unwatch,
    /// A subscription, confirmed by one push for each of so many channels.
    Confirmed(Command, u32),
}

impl Body {
    /// A command, or the subscription to one sharded channel.
    pub(crate) fn of(command: &Command) -> Body {
        match command.name() == Family::Sharded.subscribe().as_bytes() {
            true => Body::Confirmed(command.clone(), 1),
            false => Body::One(Item::new(command.clone(), Spec::of(command))),
        }
    }
}

impl Item {
    pub(crate) fn new(command: Command, spec: Option<&'static Spec>) -> Item {
        let leaves = spec.is_none_or(Spec::may_leave_effects);
        Item { command, script: None, leaves }
    }

    pub(crate) fn len_max(&self) -> usize {
        self.command.len_max() + self.script.as_ref().map_or(0, |script| script.text.len() + 64)
    }

    fn add_writes(&self, writes: &mut Writes) {
        match &self.script {
            None => writes.add(&self.command),
            Some(_) => writes.extend(Writes::of_script()),
        }
    }

    /// Whether the script is called by its hash on a connection that has run these scripts.
    fn is_known(&self, scripts: &Scripts) -> bool {
        self.script.as_ref().is_some_and(|script| scripts.has(script.sha.as_bytes()))
    }

    fn encode(&self, scripts: &Scripts, out: &mut BytesMut) {
        match &self.script {
            None => self.command.encode(out),
            Some(script) if scripts.has(script.sha.as_bytes()) => {
                self.command.encode_behind(&[b"EVALSHA", script.sha.as_bytes()], out);
            }
            Some(script) => self.command.encode_behind(&[b"EVAL", &script.text], out),
        }
    }
}

impl Call {
    pub(crate) fn one(item: Item, deadline: Time) -> Call {
        Call::of(Body::One(item), deadline)
    }

    pub(crate) fn of(body: Body, deadline: Time) -> Call {
        Call { body, deadline, metered: false, flight: None, fetch: None }
    }

    /// What it may change of the data.
    pub(crate) fn writes(&self) -> Writes {
        self.body.writes()
    }

    pub(crate) fn len_max(&self) -> usize {
        self.body.len_max()
    }

    /// The request, as it is made on a connection that has run these scripts.
    pub(crate) fn request(&self, token: Token, scripts: &Scripts) -> Request<Expect> {
        let again = matches!(&self.body, Body::One(item) if item.is_known(scripts));
        Request {
            deadline: self.deadline,
            again,
            in_order: true,
            reserved: true,
            metered: self.metered,
            ..Request::isolated(token, self.body.expect(scripts))
        }
    }

    pub(crate) fn encode(&self, scripts: &Scripts, out: &mut BytesMut) -> Result<(), Infallible> {
        self.body.encode(scripts, out);
        Ok(())
    }

    /// How many bytes of its replies are kept, if not `reply_max`. Several replies may have that
    /// many each; a metered reply is bounded by its meter.
    pub(crate) fn bytes_max(&self, reply_max: usize) -> Option<usize> {
        match &self.body {
            _ if self.metered => Some(usize::MAX),
            Body::Many(items) => Some(reply_max.saturating_mul(items.len())),
            _ => None,
        }
    }

    /// The scripts that a connection has run once this was sent, unless it fails.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &Arc<ScriptText>> {
        let items = match &self.body {
            Body::One(item) => std::slice::from_ref(item),
            Body::Many(items) => items,
            // It is not known whether EXEC runs them, and behind ASKING another node does.
            Body::Atomic(_) | Body::Asking(_) => &[],
            Body::Encoded(..) | Body::Confirmed(..) | Body::Unwatch => &[],
        };
        items.iter().filter_map(|item| item.script.as_ref())
    }

    /// Whether it may call scripts by their hashes, and whether their results are among several
    /// replies.
    pub(crate) fn calls_scripts(&self) -> (bool, bool) {
        let calls = self.scripts().next().is_some();
        (calls, calls && !matches!(self.body, Body::One(_)))
    }
}

impl Body {
    fn writes(&self) -> Writes {
        let mut writes = Writes::Nothing;
        match self {
            Body::One(item) => item.add_writes(&mut writes),
            Body::Many(items) | Body::Atomic(items) => {
                items.iter().for_each(|item| item.add_writes(&mut writes));
            }
            Body::Encoded(_, _, writes) => return writes.clone(),
            Body::Asking(body) => return body.writes(),
            Body::Unwatch | Body::Confirmed(..) => {}
        }
        writes
    }

    fn len_max(&self) -> usize {
        match self {
            Body::One(item) => item.len_max(),
            Body::Many(items) => items.iter().map(Item::len_max).sum(),
            Body::Atomic(items) => items.iter().map(Item::len_max).sum::<usize>() + 64,
            Body::Encoded(bytes, ..) => bytes.len(),
            Body::Asking(body) => body.len_max() + 32,
            Body::Unwatch => 32,
            Body::Confirmed(command, _) => command.len_max(),
        }
    }

    /// The expected reply, on a connection that has run these scripts.
    fn expect(&self, scripts: &Scripts) -> Expect {
        match self {
            Body::One(item) if item.is_known(scripts) => {
                let text = item.script.as_ref().map(|script| script.text.clone());
                Expect::reply().script(text.unwrap_or_default())
            }
            Body::One(item) if item.leaves => Expect::reply().leaving(),
            Body::One(_) => Expect::reply(),
            Body::Many(items) => Expect::replies(items.len() as u32),
            Body::Encoded(_, count, _) => Expect::replies(*count),
            Body::Atomic(items) => Expect::atomic(items.len() as u32),
            Body::Asking(body) => body.expect(&Scripts::default()).behind_asking(),
            Body::Unwatch => Expect::reply().resetting(),
            Body::Confirmed(command, channels) => {
                Expect::confirmations(*channels).of(command.name())
            }
        }
    }

    fn encode(&self, scripts: &Scripts, out: &mut BytesMut) {
        match self {
            Body::One(item) => item.encode(scripts, out),
            Body::Confirmed(command, _) => command.encode(out),
            Body::Encoded(bytes, ..) => out.extend_from_slice(bytes),
            Body::Many(items) => {
                let mut scripts = Known { before: scripts, here: Vec::new() };
                items.iter().for_each(|item| scripts.encode(item, out));
            }
            Body::Atomic(items) => {
                out.extend_from_slice(b"*1\r\n$5\r\nMULTI\r\n");
                // If the server has forgotten a script, EXEC would run the others without it. So
                // each script goes as a text, which can't be missing.
                items.iter().for_each(|item| item.encode(&Scripts::default(), out));
                out.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
            }
            Body::Asking(body) => {
                out.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
                // Behind ASKING a forgotten script is not loaded again, so its text is sent.
                body.encode(&Scripts::default(), out);
            }
            Body::Unwatch => out.extend_from_slice(b"*1\r\n$7\r\nUNWATCH\r\n"),
        }
    }
}

/// The known scripts within a pipeline: those that earlier commands send are known to later ones.
struct Known<'a> {
    before: &'a Scripts,
    here: Vec<Arc<ScriptText>>,
}

impl Known<'_> {
    fn encode(&mut self, item: &Item, out: &mut BytesMut) {
        let Some(script) = &item.script else { return item.command.encode(out) };
        if self.before.has(script.sha.as_bytes())
            || self.here.iter().any(|other| other.sha == script.sha)
        {
            return item.command.encode_behind(&[b"EVALSHA", script.sha.as_bytes()], out);
        }
        item.command.encode_behind(&[b"EVAL", &script.text], out);
        if !self.before.go_all_as_texts() {
            self.here.push(script.clone());
        }
    }
}
