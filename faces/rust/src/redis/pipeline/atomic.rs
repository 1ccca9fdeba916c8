//! Lists of commands that run as a whole: MULTI, the commands, EXEC.

use bytes::Bytes;
use onetrip_redis::Command;
use onetrip_redis::client::list;

use super::list::List;
use super::running::{Part, Running, checked, error_of, incomplete};
use super::{On, Position};
use crate::redis::call::{Body, Call, Item};
use crate::redis::client::misplaced;
use crate::redis::script::ScriptCall;
use crate::redis::sends::Sends;
use crate::redis::sent::Pending;
use crate::redis::{Cmd, FromReply};
use crate::{Error, Kind, Outcome};

/// A list of commands that the server runs one behind the other, with no other caller's commands
/// between them: MULTI, the commands, EXEC, in one flight.
///
/// If the server refuses a command before it begins (a wrong number of arguments, no memory), none
/// runs, and [`run`](Atomic::run) fails with the outcome `Rejected`. If a command fails while it
/// runs (a key of another type), only its own reply is an error, and the others take effect: Redis
/// does not roll back.
///
/// Within MULTI a blocking command does not block: BLPOP answers an empty list at once, as LPOP
/// does. But if an ACL forbids MULTI, each command runs by itself. So a list with a blocking
/// command goes on a connection of its own, outside of the order of the client's other calls; in a
/// cluster it is refused except on a session.
#[must_use = "nothing is sent until it is run"]
pub struct Atomic<'a> {
    list: List,
    on: On<'a>,
}

impl<'a> Atomic<'a> {
    pub(crate) fn new(on: On<'a>) -> Atomic<'a> {
        Atomic { list: List::new(), on }
    }

    /// Keeps a refusal, which `run` then reports.
    pub(crate) fn refuse(&self, error: Error) {
        self.list.refuse(error);
    }

    /// Any command, by its name.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd { sends: self, command: Command::new(name) }
    }

    /// Adds a call of a script. It is sent as a text each time: if the server had forgotten the
    /// script, this would show only after the rest has run.
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

    /// Sends the whole list now, in one flight. Resolves when EXEC is answered.
    ///
    /// # Errors
    /// None of the commands ran (`NotSent`, `Rejected`): a command was refused, or a key that the
    /// session watches was changed (the code is `watched_key_changed`). `Unknown` if the connection
    /// was lost: all of them may have run, or none. Also `Unknown` if the server refused only MULTI
    /// (an ACL may), since each command then ran by itself.
    pub fn run(self) -> Running {
        let may_block = self.list.may_block();
        let (items, names) = match self.list.take() {
            Ok(list) => list,
            Err(error) => return Running::refused(error),
        };
        if items.is_empty() {
            return Running::of_nothing();
        }
        let leaves = items.iter().map(|item| item.leaves).collect();
        let part = Part { pending: send(&self.on, items, may_block), leaves: Vec::new() };
        Running {
            parts: vec![part].into(),
            at: 0,
            replies: Vec::new(),
            names,
            refused: None,
            whole: Some(leaves),
            reply_max: usize::MAX,
            in_cluster: self.on.config().is_cluster,
        }
    }
}

/// Sends a list; one that may block after all, on a connection of its own.
fn send(on: &On<'_>, items: Vec<Item>, may_block: bool) -> Pending {
    let deadline = on.deadline();
    if let Some(cluster) = on.cluster() {
        return match may_block {
            true => Pending::Refused(misplaced("a list with a command that may block", ADVICE)),
            false => Pending::of(cluster.send_atomic(items, deadline)),
        };
    }
    let call = Call::of(Body::Atomic(items), deadline);
    match on.lease {
        Some(lease) if may_block => lease.has_blocked(),
        None if may_block => return Pending::Borrowing(on.inner.node.send_own(call)),
        _ => {}
    }
    Pending::of(on.send(call))
}

const ADVICE: &str = "in a cluster send it on a session, or name the command that does not block";

impl Sends for Atomic<'_> {
    type Answer<T: FromReply> = Position<T>;

    fn send<T: FromReply>(&self, command: Command) -> Position<T> {
        self.list.add_command(command, self.on.config(), true)
    }
}

/// The replies within that of EXEC, or why nothing ran.
pub(super) fn take_whole(
    (leaves, in_cluster): (&[bool], bool),
    block: Bytes,
    result: Result<(), Error>,
) -> Result<Vec<Result<Bytes, Error>>, Error> {
    result?;
    match list::read(&block, leaves) {
        Ok(frames) => {
            let both = frames.into_iter().zip(leaves);
            Ok(both.map(|(it, &leaves)| checked(it, leaves, in_cluster)).collect())
        }
        Err(list::Failed::Changed) => Err(changed()),
        Err(list::Failed::Misfit) => Err(incomplete()),
        Err(list::Failed::Refused { at, frame, outcome }) => {
            let what = match at {
                0 => "MULTI".to_owned(),
                at if at > leaves.len() => "EXEC".to_owned(),
                at => format!("command {at} of {}", leaves.len()),
            };
            Err(error_of(&frame, false, in_cluster).about(what).with_outcome(outcome))
        }
    }
}

fn changed() -> Error {
    let message =
        "a key that the session watches was changed, so none of it ran: read again, and try again";
    Error::new(Kind::Server, Outcome::Rejected, "watched_key_changed", message)
}

impl std::fmt::Debug for Atomic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Atomic({} commands)", self.len())
    }
}
