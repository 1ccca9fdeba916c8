//! Lists of commands that are sent together: each one independent, or all or none.

mod atomic;
mod list;
mod replies;
mod running;

use std::sync::Arc;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_redis::Command;

pub use self::atomic::Atomic;
use self::list::{List, shares};
pub use self::replies::{Position, Replies};
use self::running::Part;
pub use self::running::Running;
pub(crate) use self::running::checked;
use super::FromReply;
use super::call::{Body, Call, Item};
use super::client::Inner;
use super::cluster::Cluster;
use super::config::Config;
use super::link::Link;
use super::node::{Lease, Sent};
use super::script::ScriptCall;
use super::sends::Sends;
use super::sent::Pending;
use crate::Error;

/// A list of commands that [`run`](Pipeline::run) sends in one go. They are independent: one that
/// fails leaves the others alone. If the list is dropped before, nothing is sent.
///
/// The calls of [`commands`](super::commands) return the position of the reply:
///
/// ```no_run
/// # use onetrip::redis::{Client, commands::*};
/// # async fn f(client: &Client) -> Result<(), onetrip::Error> {
/// let pipeline = client.pipeline();
/// let visits = pipeline.incr("visits");
/// let name = pipeline.get::<Option<String>>("name");
/// let replies = pipeline.run().await?;
/// let (visits, name) = (replies.get(visits)?, replies.get(name)?);
/// # Ok(()) }
/// ```
///
/// Other callers' commands may run between them; with [`atomic`](super::Client::atomic) they don't.
#[must_use = "a pipeline sends nothing until it is run"]
pub struct Pipeline<'a> {
    list: List,
    on: On<'a>,
}

/// How a pipeline is sent.
pub(crate) struct On<'a> {
    pub(crate) inner: Arc<Inner>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) repeats: bool,
    /// The connection of a session, if there is one.
    pub(crate) lease: Option<&'a Lease>,
}

impl On<'_> {
    fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The deadline of commands that are sent now.
    fn deadline(&self) -> Time {
        self.inner.node.context.deadline(self.timeout)
    }

    /// The cluster, in which each command is routed by itself.
    fn cluster(&self) -> Option<&Cluster> {
        self.inner.cluster.as_deref().filter(|_| self.lease.is_none())
    }

    fn send(&self, call: Call) -> Sent {
        match self.lease {
            None => self.inner.send(call),
            Some(lease) => on_link(&lease.link, call),
        }
    }
}

fn on_link(link: &Arc<Link>, call: Call) -> Sent {
    match link.submit(call) {
        Ok(token) => Sent::Here(link.clone(), token),
        Err((_, error)) => Sent::Refused(error),
    }
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(on: On<'a>) -> Pipeline<'a> {
        Pipeline { list: List::new(), on }
    }

    /// Any command, by its name.
    pub fn cmd(&self, name: &str) -> super::Cmd<'_, Self> {
        super::Cmd { sends: self, command: Command::new(name) }
    }

    /// Adds a call of a script.
    pub fn script<T: FromReply>(&self, call: ScriptCall) -> Position<T> {
        self.list.add_script(call, self.on.config())
    }

    /// How many commands it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether it has no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// Sends the commands now. Resolves when all are answered. A pipeline needs memory for all of
    /// its commands and replies; for lists without end see
    /// [`Client::stream`](super::Client::stream).
    ///
    /// # Errors
    /// A command can't be sent here; then nothing was sent. Later errors belong to single commands:
    /// see [`Replies::get`].
    pub fn run(self) -> Running {
        let deadline = self.on.deadline();
        let (items, names) = match self.list.take() {
            Ok(list) => list,
            Err(error) => return Running::refused(error),
        };
        if let Some(cluster) = self.on.cluster() {
            let repeats = self.on.repeats;
            let send = |item: Item| Part {
                leaves: vec![item.leaves],
                pending: Pending::of(cluster.send(item, deadline, repeats)),
            };
            return Running {
                in_cluster: true,
                parts: items.into_iter().map(send).collect(),
                names,
                ..Running::of_nothing()
            };
        }
        let mut parts = Vec::new();
        let mut link: Option<Arc<Link>> = None;
        let mut lost = None;
        for items in shares(items) {
            let leaves = items.iter().map(|item| item.leaves).collect();
            let call = Call::of(Body::Many(items), deadline);
            // Later commands go to the same connection, or fail: they must not overtake.
            let sent = match (&link, &lost) {
                (_, Some(error)) => Sent::Refused(Error::clone(error)),
                (Some(link), None) => on_link(link, call),
                (None, None) => self.on.send(call),
            };
            match &sent {
                Sent::Here(on, _) => link = Some(on.clone()),
                Sent::Refused(error) => lost = Some(error.clone()),
                Sent::Later(_) | Sent::Cluster(_) => {}
            }
            parts.push(Part { pending: Pending::of(sent), leaves });
        }
        Running {
            in_cluster: self.on.config().is_cluster,
            parts: parts.into(),
            at: 0,
            replies: Vec::new(),
            names,
            refused: None,
            whole: None,
            reply_max: self.on.config().limits.reply_bytes_max,
        }
    }
}

impl Sends for Pipeline<'_> {
    type Answer<T: FromReply> = Position<T>;

    fn send<T: FromReply>(&self, command: Command) -> Position<T> {
        self.list.add_command(command, self.on.config(), false)
    }
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} commands)", self.len())
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Pipeline<'static>>();
    is_send::<Running>();
};
