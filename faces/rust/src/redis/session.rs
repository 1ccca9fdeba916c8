//! Sessions: a connection of one's own, for WATCH, and for commands that change the state of a
//! connection.

use std::borrow::Cow;
use std::sync::Mutex;

use onetrip_redis::client::session::Traces;
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
/// Its commands are pipelined like those of a [`Client`]. When it is dropped, the connection goes
/// back. If its state was changed (SELECT, CLIENT …, MULTI by hand, or a command that is not known
/// here), or if somebody still waits for a reply on it, the connection is closed instead: once
/// everything is answered, or at once if a blocking command was sent. Commands that were sent and
/// whose replies were dropped run before those of the next session.
#[derive(Debug)]
pub struct Session {
    client: Client,
    lease: Lease,
    traces: Mutex<Traces>,
}

impl Session {
    pub(crate) fn new(client: Client, lease: Lease) -> Session {
        Session { client, lease, traces: Mutex::default() }
    }

    /// Any command, by its name; also one that a client refuses because it changes its connection.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Session> {
        Cmd { sends: self, command: Command::new(name) }
    }

    /// Watches keys: the next [`atomic`](Self::atomic) list runs only if none of them was changed
    /// meanwhile. The keys are watched until then, or until [`unwatch`](Self::unwatch).
    pub fn watch<K>(&self, keys: K) -> Reply<()>
    where
        K: IntoIterator,
        K::Item: ToArg,
    {
        self.send(Command::new("WATCH").args(keys))
    }

    /// Stops watching all keys.
    pub fn unwatch(&self) -> Reply<()> {
        self.send(Command::new("UNWATCH"))
    }

    /// Waits until `replicas` replicas have what this session wrote, for at most `millis`
    /// milliseconds (0: without limit). Returns how many have it.
    pub fn wait(&self, replicas: u32, millis: u64) -> Reply<i64> {
        self.send(Command::new("WAIT").arg(replicas).arg(millis))
    }

    /// Makes a list of commands on this connection; see [`Pipeline`].
    pub fn pipeline(&self) -> Pipeline<'_> {
        Pipeline::new(self.client.on(Some(&self.lease)))
    }

    /// Makes a list of commands that run all or not at all; see [`Atomic`].
    pub fn atomic(&self) -> Atomic<'_> {
        // It is not known here whether the list will be run, which would end the watching.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Traces> {
        self.traces.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Sends for Session {
    type Answer<T: FromReply> = Reply<T>;

    fn send<T: FromReply>(&self, command: Command) -> Reply<T> {
        let spec = Spec::of(&command);
        let name = name_of(spec, &command);
        if let Err(error) = check(&command, &self.client.inner.config) {
            return Reply::refused(error, name);
        }
        match spec.map(|spec| spec.place(&command)) {
            Some(Place::Own) => self.lease.has_blocked(),
            Some(Place::Refused(advice)) => {
                return Reply::refused(misplaced(&name, advice), name);
            }
            _ => {}
        }
        if self.lock().note(spec, &command) {
            self.lease.link.send_scripts_as_texts();
        }
        self.send_item(Item::new(command, spec), name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let traces = *self.lock();
        self.lease.is_spoiled |= traces.is_changed;
        if traces.watches && !self.lease.is_spoiled {
            // A key that this session watched must not fail the MULTI of the next one.
            self.lease.is_spoiled = !self.lease.unwatch();
        }
    }
}
