//! A connection of one's own: for WATCH, and for what changes the state of a connection.

use std::borrow::Cow;
use std::sync::Mutex;

use onetrip_redis::{Command, Place, Spec, ToArg};

use super::FromReply;
use super::call::{Call, Item};
use super::client::{Client, Cmd, check, misplaced, name_of};
use super::node::{Lease, Sent};
use super::pipeline::{Atomic, Pipeline};
use super::reply::Reply;
use super::script::ScriptCall;
use super::sends::Sends;

/// A connection of one's own, until it is dropped.
///
/// ```no_run
/// # use onetrip::redis::{Client, commands::*};
/// # async fn f(client: &Client) -> Result<(), onetrip::Error> {
/// let session = client.session().await?;
/// session.watch(["stock"]).await?;
/// let stock: i64 = session.get("stock").await?;
/// let change = session.atomic();
/// change.set("stock", stock - 1);
/// change.run().await?; // Fails, with the code `watched_key_changed`, if somebody else was faster.
/// # Ok(()) }
/// ```
///
/// Its commands are pipelined like those of a [`Client`]. When it is dropped the connection goes back, unless its state
/// was changed (SELECT, CLIENT …, MULTI by hand, or a command that is not known here) or somebody still waits for a reply on it: then it is closed when
/// all is answered, and at once if a blocking command was sent. What was sent and whose reply was dropped runs
/// before what the next one sends.
#[derive(Debug)]
pub struct Session {
    client: Client,
    lease: Lease,
    state: Mutex<State>,
}

/// A command that ends one of these may never leave, so what has begun counts until the session is dropped.
#[derive(Debug, Default)]
struct State {
    has_watched: bool,
    in_multi: bool,
    is_changed: bool,
}

impl Session {
    pub(crate) fn new(client: Client, lease: Lease) -> Session {
        Session { client, lease, state: Mutex::default() }
    }

    /// Any command, by its name; also those that a client refuses since they change their connection.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Session> {
        Cmd { sends: self, command: Command::new(name) }
    }

    /// Watches keys: an [`atomic`](Self::atomic) list that follows runs only if none of them was changed meanwhile. It
    /// watches until then, or until [`unwatch`](Self::unwatch).
    pub fn watch<K>(&self, keys: K) -> Reply<()>
    where
        K: IntoIterator,
        K::Item: ToArg,
    {
        self.send(Command::new("WATCH").args(keys))
    }

    /// Watches nothing any more.
    pub fn unwatch(&self) -> Reply<()> {
        self.send(Command::new("UNWATCH"))
    }

    /// Waits until so many replicas have what this session wrote, for so many milliseconds at most (0: without end).
    /// Returns how many have it.
    pub fn wait(&self, replicas: u32, millis: u64) -> Reply<i64> {
        self.send(Command::new("WAIT").arg(replicas).arg(millis))
    }

    /// A list of commands on this connection; see [`Pipeline`].
    pub fn pipeline(&self) -> Pipeline<'_> {
        Pipeline::new(self.client.on(Some(&self.lease)))
    }

    /// A list of commands that run all or not at all; see [`Atomic`].
    pub fn atomic(&self) -> Atomic<'_> {
        // Whether it is ever run, and so ends the watching, is not known here.
        let atomic = Atomic::new(self.client.on(Some(&self.lease)));
        if self.lock().in_multi {
            atomic.refuse(misplaced("MULTI", "the session has sent one already: end that first"));
        }
        atomic
    }

    /// Calls a [`Script`](super::Script).
    pub fn script<T: FromReply>(&self, call: ScriptCall) -> Reply<T> {
        match call.into_item(&self.client.inner.config) {
            Ok(item) => self.send_item(item, Cow::Borrowed("EVAL")),
            Err(error) => Reply::refused(error, Cow::Borrowed("EVAL")),
        }
    }

    fn send_item<T: FromReply>(&self, item: Item, name: Cow<'static, str>) -> Reply<T> {
        let link = &self.lease.link;
        let sent = match link.submit(Call::one(item, self.client.deadline())) {
            Ok(token) => Sent::Here(link.clone(), token),
            Err((_, error)) => Sent::Refused(error),
        };
        Reply::new(sent, name, true, None)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes note of what a command does to the connection.
    fn note(&self, name: &str) {
        let mut state = self.lock();
        match name {
            "WATCH" => state.has_watched = true,
            "MULTI" => {
                (state.in_multi, state.is_changed) = (true, true);
                self.lease.link.send_scripts_as_texts();
            }
            "EXEC" | "DISCARD" => state.in_multi = false,
            "UNWATCH" | "WAIT" | "WAITAOF" => {}
            _ => state.is_changed = true,
        }
    }
}

/// Nobody knows what it does to its connection, so that serves nobody else.
const UNKNOWN: Place = Place::Session("");

impl Sends for Session {
    type Answer<T: FromReply> = Reply<T>;

    fn send<T: FromReply>(&self, command: Command) -> Reply<T> {
        let spec = Spec::of(&command);
        let name = name_of(spec, &command);
        if let Err(error) = check(&command, &self.client.inner.config) {
            return Reply::refused(error, name);
        }
        match spec.map_or(UNKNOWN, |spec| spec.place(&command)) {
            Place::Shared => {}
            Place::Own => self.lease.has_blocked(),
            Place::Session(_) => self.note(&name),
            Place::Refused(advice) => return Reply::refused(misplaced(&name, advice), name),
        }
        self.send_item(Item::new(command, spec), name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let state = self.lock();
        let (is_changed, has_watched) = (state.is_changed, state.has_watched);
        drop(state);
        self.lease.is_spoiled |= is_changed;
        if has_watched && !self.lease.is_spoiled {
            // The next one's MULTI must not fail for what this one watched.
            self.lease.is_spoiled = !self.lease.unwatch();
        }
    }
}
