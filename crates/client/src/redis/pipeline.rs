//! Lists of commands that are sent together: each for itself, or all or none.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use onetrip_redis::{Command, Place, Spec};

use super::FromReply;
use super::call::{Body, Call, Item};
use super::client::{Client, check, misplaced, name_of};
use super::cluster::Cluster;
use super::config::Config;
use super::decode::decode;
use super::error::from_frame;
use super::frames::Frames;
use super::link::Link;
use super::node::Sent;
use super::reply::too_large;
use super::script::ScriptCall;
use super::sends::Sends;
use super::sent::Pending;
use crate::error::RESULT_TOO_LARGE;
use crate::{Error, Kind, Outcome};

/// A list of commands, sent in one go by [`run`](Pipeline::run). Each is for itself: one that fails leaves
/// the others alone. Dropped before that, nothing is sent.
///
/// The calls of [`commands`](super::commands) return where the reply will be:
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
/// Other callers' commands may run between them. With [`atomic`](Client::atomic) none do.
#[must_use = "a pipeline sends nothing until it is run"]
pub struct Pipeline<'a> {
    list: List,
    on: On<'a>,
}

/// A list of commands that the server runs one behind the other, with nobody's between: MULTI, the
/// commands, EXEC, in one flight.
///
/// If the server refuses one of them before it begins (a wrong number of arguments, no memory), none runs, and
/// [`run`](Atomic::run) fails with the outcome `Rejected`. One that fails while it runs (a key of another type)
/// is an error of its own, and the others take effect: Redis does not roll back.
#[must_use = "nothing is sent until it is run"]
pub struct Atomic<'a> {
    list: List,
    on: On<'a>,
}

/// What a pipeline is sent with.
pub(crate) enum On<'a> {
    Client(Client),
    Session(&'a Arc<Link>, &'a Client),
}

impl On<'_> {
    fn client(&self) -> &Client {
        match self {
            On::Client(client) => client,
            On::Session(_, client) => client,
        }
    }

    /// The cluster that each command goes to by itself.
    fn cluster(&self) -> Option<&Cluster> {
        match self {
            On::Client(client) => client.inner.cluster.as_deref(),
            On::Session(..) => None,
        }
    }

    fn send(&self, call: Call) -> Sent {
        match self {
            On::Client(client) => client.inner.send(call),
            On::Session(link, _) => on_link(link, call),
        }
    }
}

fn on_link(link: &Arc<Link>, call: Call) -> Sent {
    match link.submit(call) {
        Ok(token) => Sent::Here(link.clone(), token),
        Err((_, error)) => Sent::Refused(error),
    }
}

/// Where in a pipeline the reply to a command will be, and what it converts to.
#[derive(Debug)]
pub struct Position<T> {
    at: usize,
    result: PhantomData<fn() -> T>,
}

impl<T> Clone for Position<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Position<T> {}

/// The commands that were added so far.
struct List(RefCell<Added>);

#[derive(Default)]
struct Added {
    items: Vec<Item>,
    names: Vec<Cow<'static, str>>,
    /// Why it can't be sent.
    fault: Option<Error>,
}

impl List {
    fn new() -> List {
        List(RefCell::default())
    }

    fn add<T>(&self, item: Item, name: Cow<'static, str>) -> Position<T> {
        let mut added = self.0.borrow_mut();
        added.items.push(item);
        added.names.push(name);
        Position { at: added.items.len() - 1, result: PhantomData }
    }

    fn add_command<T>(&self, command: Command, config: &Config, atomic: bool) -> Position<T> {
        let spec = Spec::of(&command);
        let name = name_of(spec, &command);
        let place = spec.map_or(Place::Shared, |spec| spec.place(&command));
        let fault = match place {
            _ if let Err(error) = check(&command, config) => Some(error),
            Place::Shared => None,
            // Within MULTI what blocks does not: the server answers at once.
            Place::Own if atomic => None,
            Place::Own => Some(misplaced(
                &name,
                "it may block those behind it; send it with the client, which gives it a connection of its \
                 own",
            )),
            Place::Session(advice) | Place::Refused(advice) => Some(misplaced(&name, advice)),
        };
        if let Some(error) = fault {
            self.refuse(error);
        }
        self.add(Item::new(command, spec), name)
    }

    fn add_script<T>(&self, call: ScriptCall, config: &Config) -> Position<T> {
        let name = Cow::Borrowed("EVAL");
        match call.into_item(config) {
            Ok(item) => self.add(item, name),
            Err(error) => {
                self.refuse(error);
                self.add(Item::new(Command::new("EVAL"), None), name)
            }
        }
    }

    fn refuse(&self, error: Error) {
        self.0.borrow_mut().fault.get_or_insert(error);
    }

    fn take(self) -> Result<(Vec<Item>, Vec<Cow<'static, str>>), Error> {
        let added = self.0.into_inner();
        match added.fault {
            Some(error) => Err(error),
            None => Ok((added.items, added.names)),
        }
    }

    fn len(&self) -> usize {
        self.0.borrow().items.len()
    }
}

/// So many commands share a slot of the engine and a reply at most, and so many bytes. More save little,
/// and if the connection is lost, it is for a whole slot that nobody knows what became of it.
const SHARE_MAX: usize = 64;
const SHARE_BYTES_MAX: usize = 16 << 10;

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
        self.list.add_script(call, &self.on.client().inner.config)
    }

    /// How many commands it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// Sends the commands now, and resolves when all are answered. A pipeline of any length needs the
    /// memory of its commands and replies; for lists without end see [`Client::stream`].
    ///
    /// # Errors
    /// A command can't be sent here, so nothing was sent. What goes wrong later is an error of the commands that it
    /// concerns: see [`Replies::get`].
    pub fn run(self) -> Running {
        let deadline = self.on.client().deadline();
        let (items, names) = match self.list.take() {
            Ok(list) => list,
            Err(error) => return Running::refused(error),
        };
        if let Some(cluster) = self.on.cluster() {
            let repeats = self.on.client().repeats();
            let send = |item: Item| Part {
                leaves: vec![item.leaves],
                pending: Pending::of(cluster.send(item, deadline, repeats)),
            };
            return Running {
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
            let call = Call { body: Body::Many(items), deadline, metered: false, flight: None };
            // What comes behind goes the same way, or not at all: it must not overtake.
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
            parts: parts.into(),
            at: 0,
            replies: Vec::new(),
            names,
            refused: None,
            whole: None,
            reply_max: self.on.client().inner.config.limits.reply_bytes_max,
        }
    }
}

/// Commands in order, in lists that share a slot each.
fn shares(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut shares: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let len = item.len_max();
        match shares.last_mut() {
            Some(share) if share.len() < SHARE_MAX && bytes + len <= SHARE_BYTES_MAX => {
                share.push(item);
                bytes += len;
            }
            _ => {
                shares.push(vec![item]);
                bytes = len;
            }
        }
    }
    shares
}

impl Sends for Pipeline<'_> {
    type Answer<T: FromReply> = Position<T>;

    fn send<T: FromReply>(&self, command: Command) -> Position<T> {
        self.list.add_command(command, &self.on.client().inner.config, false)
    }
}

impl<'a> Atomic<'a> {
    pub(crate) fn new(on: On<'a>) -> Atomic<'a> {
        Atomic { list: List::new(), on }
    }

    /// It can't be sent, and says so when it is run.
    pub(crate) fn refuse(&self, error: Error) {
        self.list.refuse(error);
    }

    /// Any command, by its name.
    pub fn cmd(&self, name: &str) -> super::Cmd<'_, Self> {
        super::Cmd { sends: self, command: Command::new(name) }
    }

    /// Adds a call of a script. It goes as a text unless the connection has run it before: whether EXEC runs it is
    /// known only afterwards.
    pub fn script<T: FromReply>(&self, call: ScriptCall) -> Position<T> {
        self.list.add_script(call, &self.on.client().inner.config)
    }

    /// How many commands it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// Sends all of it now, in one flight, and resolves when EXEC is answered.
    ///
    /// # Errors
    /// None of it ran (`NotSent`, `Rejected`): a command was refused, or a key that the session watches was changed
    /// (the code is `watched_key_changed`). `Unknown` if the connection was lost: all of it may have run, or none;
    /// and if the server refused MULTI alone (an ACL may), since the commands ran each by itself then.
    pub fn run(self) -> Running {
        let deadline = self.on.client().deadline();
        let (items, names) = match self.list.take() {
            Ok(list) => list,
            Err(error) => return Running::refused(error),
        };
        if items.is_empty() {
            return Running::of_nothing();
        }
        let leaves = items.iter().map(|item| item.leaves).collect();
        let sent = match self.on.cluster() {
            Some(cluster) => cluster.send_atomic(items, deadline),
            None => {
                let body = Body::Atomic(items);
                self.on.send(Call { body, deadline, metered: false, flight: None })
            }
        };
        let part = Part { pending: Pending::of(sent), leaves: Vec::new() };
        Running {
            parts: vec![part].into(),
            at: 0,
            replies: Vec::new(),
            names,
            refused: None,
            whole: Some(leaves),
            reply_max: usize::MAX,
        }
    }
}

impl Sends for Atomic<'_> {
    type Answer<T: FromReply> = Position<T>;

    fn send<T: FromReply>(&self, command: Command) -> Position<T> {
        self.list.add_command(command, &self.on.client().inner.config, true)
    }
}

/// A pipeline that was sent. Await it for the replies.
///
/// Dropping it disturbs nobody: what was sent runs, and its replies are dropped.
#[must_use = "await it for the replies, or drop it where they don't matter"]
pub struct Running {
    parts: Box<[Part]>,
    at: usize,
    replies: Vec<Result<Bytes, Error>>,
    names: Vec<Cow<'static, str>>,
    refused: Option<Error>,
    /// All or nothing: for each command whether its error may leave something behind.
    whole: Option<Vec<bool>>,
    /// Bytes that one reply may have.
    reply_max: usize,
}

/// What shares a slot.
struct Part {
    pending: Pending,
    /// For each command whether its error may leave something behind.
    leaves: Vec<bool>,
}

impl Running {
    fn refused(error: Error) -> Running {
        Running { refused: Some(error), ..Running::of_nothing() }
    }

    fn of_nothing() -> Running {
        Running {
            parts: Box::default(),
            at: 0,
            replies: Vec::new(),
            names: Vec::new(),
            refused: None,
            whole: None,
            reply_max: usize::MAX,
        }
    }
}

impl Future for Running {
    type Output = Result<Replies, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.refused.take() {
            return Poll::Ready(Err(error));
        }
        let Running { parts, at, replies, whole, reply_max, .. } = &mut *self;
        while let Some(part) = parts.get_mut(*at) {
            let (block, result) = std::task::ready!(part.pending.poll(cx));
            *at += 1;
            match whole {
                None => take_each(&part.leaves, block, result, *reply_max, replies),
                Some(leaves) => match take_whole(leaves, block, result) {
                    Ok(all) => *replies = all,
                    Err(error) => return Poll::Ready(Err(error)),
                },
            }
        }
        let replies = std::mem::take(&mut self.replies);
        let names = std::mem::take(&mut self.names);
        Poll::Ready(Ok(Replies { replies, names }))
    }
}

/// The replies of commands that are each for itself. Those that came before the connection was lost count.
fn take_each(
    leaves: &[bool],
    block: Bytes,
    mut result: Result<(), Error>,
    reply_max: usize,
    replies: &mut Vec<Result<Bytes, Error>>,
) {
    let mut frames = Frames::new(block);
    if let (Err(error), 2..) = (&mut result, leaves.len())
        && error.code() == RESULT_TOO_LARGE
    {
        // Those that failed are among them.
        *error = error.clone().with_outcome(Outcome::Unknown);
    }
    for &leaves in leaves {
        replies.push(match (frames.next(), &result) {
            (Some(frame), _) if frame.len() > reply_max => Err(too_large()),
            (Some(frame), _) => checked(frame, leaves),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(())) => Err(incomplete()),
        });
    }
}

/// A reply, or the error that came in its place.
pub(crate) fn checked(frame: Bytes, leaves: bool) -> Result<Bytes, Error> {
    match frame.first() {
        Some(b'-' | b'!') => Err(error_of(&frame, leaves)),
        _ => Ok(frame),
    }
}

fn error_of(frame: &Bytes, leaves: bool) -> Error {
    from_frame(frame, onetrip_redis::protocol::outcome_of_frame(frame, leaves))
}

/// The replies within EXEC's, or why nothing ran.
fn take_whole(
    leaves: &[bool],
    block: Bytes,
    result: Result<(), Error>,
) -> Result<Vec<Result<Bytes, Error>>, Error> {
    result?;
    let mut frames = Frames::new(block);
    let (mut refused, mut no_multi, mut has_run) = (None, false, false);
    // MULTI's, and one for each command.
    for number in 0..=leaves.len() {
        let frame = frames.next().ok_or_else(incomplete)?;
        let leaves_some = number > 0 && leaves[number - 1];
        let outcome = match checked(frame, leaves_some) {
            Ok(_) => Outcome::Unknown,
            Err(error) => {
                let outcome = error.outcome();
                let what = match number {
                    0 => "MULTI".to_owned(),
                    number => format!("command {number} of {}", leaves.len()),
                };
                no_multi |= number == 0;
                refused.get_or_insert(error.about(what));
                outcome
            }
        };
        // Without MULTI each runs by itself as it comes.
        has_run |= no_multi && outcome != Outcome::Rejected;
    }
    let outcome = if has_run { Outcome::Unknown } else { Outcome::Rejected };
    let exec = frames.next().ok_or_else(incomplete)?;
    match (exec.first(), refused) {
        (Some(b'-' | b'!'), Some(error)) => Err(error.with_outcome(outcome)),
        (Some(b'-' | b'!'), None) => Err(error_of(&exec, false).about("EXEC")),
        (Some(b'_'), _) | (Some(b'*'), _) if is_nil(&exec) => Err(changed()),
        _ => {
            let mut items = Frames::within(exec);
            leaves
                .iter()
                .map(|&leaves| items.next().ok_or_else(incomplete).map(|it| checked(it, leaves)))
                .collect()
        }
    }
}

fn is_nil(frame: &[u8]) -> bool {
    frame.starts_with(b"_") || frame.starts_with(b"*-1")
}

fn changed() -> Error {
    let message =
        "a key that the session watches was changed, so none of it ran: read again, and try again";
    Error::new(Kind::Server, Outcome::Rejected, "watched_key_changed", message)
}

fn incomplete() -> Error {
    let message = "the server answered fewer commands than there were";
    Error::new(Kind::Protocol, Outcome::Unknown, "malformed_reply", message)
}

/// The replies to a pipeline, in its order.
#[derive(Clone)]
pub struct Replies {
    replies: Vec<Result<Bytes, Error>>,
    names: Vec<Cow<'static, str>>,
}

impl Replies {
    /// The reply of the command that this position was returned for.
    ///
    /// # Errors
    /// The command failed, or its reply does not convert; the error names the command.
    pub fn get<T: FromReply>(&self, position: Position<T>) -> Result<T, Error> {
        self.at(position.at)
    }

    /// The reply of the command at this place in the list, from 0.
    ///
    /// # Errors
    /// As [`get`](Self::get); or there is no such command.
    pub fn at<T: FromReply>(&self, at: usize) -> Result<T, Error> {
        let name = self.names.get(at).map_or("", |name| name);
        match self.replies.get(at) {
            Some(Ok(block)) => decode(block, name),
            Some(Err(error)) if error.kind() == Kind::Server => Err(error.clone().about(name)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::misuse(
                "no_such_reply",
                format!("there is no command {at} in the pipeline"),
            )),
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// The first command that failed, or whose reply does not convert.
    pub fn all<T: FromReply>(&self) -> Result<Vec<T>, Error> {
        (0..self.len()).map(|at| self.at(at)).collect()
    }

    /// How many commands there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replies({})", self.len())
    }
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} commands)", self.len())
    }
}

impl std::fmt::Debug for Atomic<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Atomic({} commands)", self.len())
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running({} commands)", self.names.len())
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Pipeline<'static>>();
    is_send::<Running>();
};
