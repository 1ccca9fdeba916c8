//! Reads that replicas may serve, and that show one's own writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Time, Token};
use onetrip_postgres::client::moving::{Moving as Way, Step};
use onetrip_postgres::client::position::{Position, Wanted};
use onetrip_postgres::client::replicas::Read;
use onetrip_postgres::client::retry::GoesOn;
use onetrip_postgres::message::SYNC;
use onetrip_postgres::sql::{self, Traits};

use crate::core::Core;
use crate::error::ABORTED;
use crate::executor::{At, Executor, Message, Outgoing, Sent, Unready, with_scratch};
use crate::first_use::FirstUse;
use crate::guard::Guard;
use crate::kept::Kept;
use crate::lead::Part;
use crate::params::Params;
use crate::pool::{QueueEntry, Work};
use crate::repeat::{Again, Moves};
use crate::replicas::{ReplicaSet, no_replica};
use crate::reply::{FromReply, Reply, Text};
use crate::statement::Source;
use crate::statements::shows_stale;
use crate::trace::Span;
use crate::{Client, Error, Kind, Row, Rows, ToStatement};

/// A client's reads, which replicas may serve. Made by [`Client::reads`].
///
/// ```no_run
/// # async fn f() -> Result<(), onetrip::Error> {
/// let url = "postgres://alice@db1,db2,db3/shop?reads=prefer_replica";
/// let client = onetrip::Client::connect(url).await?;
/// client.execute("update item set price = 7 where id = 1", &[]).await?;
/// // On a replica, if it has replayed the update by then, and else on the primary.
/// let row = client.reads().query_one("select price from item where id = 1", &[]).await?;
/// # Ok(()) }
/// ```
///
/// Where they go, [`reads`](crate::config::Settings::reads) says: to the primary (the default), to
/// replicas with the primary's help, or to replicas only. Of the replicas that will do the one is
/// taken where the read is expected to wait least.
///
/// **They show this client's own writes**: all that were acknowledged before the call, of all
/// clones. Or those up to a [`Position`] ([`after`](Reads::after)), which may come from another
/// process; or whatever a replica has ([`stale`](Reads::stale)). For that a guard goes in front of
/// the read, in the same flight. Where the replica is not there yet the guard fails, nothing of the
/// read runs, and it goes to the primary, which costs a second trip; or is tried again on replicas
/// first ([`or_wait`](Reads::or_wait)). Where a connection has shown before how far its server is,
/// no guard is needed.
///
/// A text that shows more than one SELECT, VALUES, TABLE or WITH, or INTO, row locks or a writing
/// WITH, is refused (`not_a_read`, `NotSent`). A function that writes fails on a replica, with
/// SQLSTATE 25006.
///
/// When bytes leave, what dropping a [`Reply`] does and what errors there are, is as with the
/// client's own statements; and `no_replica` (`NotSent`) with `reads=replica`, where no replica was
/// able to serve the read within `wait_timeout`. A read that was sent to a replica whose connection
/// is lost ends as `Unknown`, and is not sent again.
#[derive(Clone, Debug)]
pub struct Reads<'a> {
    client: &'a Client,
    shows: Shows,
    bound: Option<Duration>,
    timeout: Option<Duration>,
}

/// What the reads must show.
#[derive(Clone, Copy, Debug)]
enum Shows {
    /// What this client wrote.
    Own,
    /// What is acknowledged up to here.
    After(Position),
    Anything,
}

impl<'a> Reads<'a> {
    pub(crate) fn new(client: &'a Client) -> Reads<'a> {
        Reads { client, shows: Shows::Own, bound: None, timeout: None }
    }

    /// The same, but they show all writes up to this position. It takes the place of the client's own
    /// newest position, and of one that was given before: a read may then miss a later write of this
    /// client. For both, take the later one of it and [`Client::position`].
    #[must_use]
    pub fn after(&self, position: &Position) -> Reads<'a> {
        Reads { shows: Shows::After(*position), ..self.clone() }
    }

    /// The same, but they show whatever the replica has: reads need no guard. How far it may be
    /// behind, [`max_lag`](crate::config::Settings::max_lag) says.
    #[must_use]
    pub fn stale(&self) -> Reads<'a> {
        Reads { shows: Shows::Anything, ..self.clone() }
    }

    /// The same, but a read that no replica can serve yet waits for that for up to this long, from
    /// its call. Then it goes to the primary; with `reads=replica` it fails. Default: it does not
    /// wait; with `reads=replica`, `wait_timeout`.
    #[must_use]
    pub fn or_wait(&self, bound: Duration) -> Reads<'a> {
        Reads { bound: Some(bound), ..self.clone() }
    }

    /// The same with another deadline for each read, in place of the client's
    /// [`request_timeout`](crate::config::Settings::request_timeout). It covers all waiting, and
    /// the way to another server.
    #[must_use]
    pub fn timeout(&self, timeout: Duration) -> Reads<'a> {
        Reads { timeout: Some(timeout), ..self.clone() }
    }

    fn run<T: FromReply>(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        let executor = match self.timeout {
            Some(timeout) => &self.client.executor().within(timeout),
            None => self.client.executor(),
        };
        let set = self.client.replicas().map(|set| {
            let wanted = match self.shows {
                Shows::Own => set.newest().wanted(),
                Shows::After(position) => Wanted::At(position),
                Shows::Anything => Wanted::Nothing,
            };
            (set, set.read(wanted, self.bound))
        });
        executor.run_read(set, statement, params)
    }

    /// Runs a read and returns its rows.
    pub fn query(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Rows> {
        self.run(statement, params)
    }

    /// Runs a read that returns exactly one row. No row, or several, is an error (`Applied`).
    pub fn query_one(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Row> {
        self.run(statement, params)
    }

    /// Runs a read that returns at most one row. Several are an error (`Applied`).
    pub fn query_opt(
        &self,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<Option<Row>> {
        self.run(statement, params)
    }
}

/// A read that may be sent to several servers, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Moving(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// For the primary.
    executor: Executor,
    set: Arc<ReplicaSet>,
    kept: Kept,
    deadline: Time,
    /// Where it goes next.
    way: Mutex<Way>,
}

impl Moving {
    pub(crate) fn new(executor: Executor, set: Arc<ReplicaSet>, kept: Kept, way: Way) -> Moving {
        let (deadline, way) = (way.deadline(), Mutex::new(way));
        Moving(Arc::new(Parts { executor, set, kept, deadline, way }))
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        self.0.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guard(&self, at: usize) -> Option<Guard> {
        let wanted = self.way().wanted();
        match wanted {
            Wanted::At(position) => Some(self.0.set.guard(at, position)),
            Wanted::Nothing | Wanted::Unknown => None,
        }
    }

    /// What is done on a connection of this replica.
    fn work(
        &self,
        at: usize,
    ) -> impl FnMut(&mut Core, Time) -> Result<Token, Error> + Send + use<> {
        let (guard, moving) = (self.guard(at), self.clone());
        let executor = self.0.executor.on(&self.0.set.pools()[at]);
        move |core, now| {
            let Parts { kept, deadline, .. } = &*moving.0;
            executor.submit_guarded(core, now, kept, guard.as_ref(), *deadline)
        }
    }

    /// Submits it on this replica, if a connection takes it at once.
    fn try_submit(&self, at: usize) -> Option<At> {
        let (connection, token) = self.0.set.pools()[at].try_run(self.0.kept.key, self.work(at))?;
        Some(At::Here(connection, token.ok()?))
    }

    /// Submits it on this replica.
    pub(crate) fn submit(&self, at: usize) -> At {
        self.try_submit(at).unwrap_or_else(|| {
            let mut work = self.work(at);
            let work = Work::new(move |_, core, now| work(core, now));
            At::Later(self.0.set.pools()[at].run_later(self.0.kept.key, work, self.0.deadline))
        })
    }

    /// Submits it on the primary, for an entry in its line.
    fn submit_to_primary(&self, queue_entry: &Arc<QueueEntry>, again: Again) {
        let (moving, deadline) = (self.clone(), self.0.deadline);
        let work = Work::new(move |_, core, now| {
            moving.0.executor.submit_again(core, now, &again, deadline)
        });
        self.0.set.primary().run_for(queue_entry, self.0.kept.key, work, deadline);
    }

    /// Lets it wait for a replica.
    pub(crate) fn wait(&self) -> Arc<QueueEntry> {
        let (primary, moving) = (self.0.set.primary(), self.clone());
        let queue_entry = QueueEntry::new(primary.clone());
        let entry = queue_entry.clone();
        primary.spawn(async move { moving.wait_as(&entry).await });
        queue_entry
    }

    async fn wait_as(&self, queue_entry: &Arc<QueueEntry>) {
        let Parts { set, kept, .. } = &*self.0;
        while !queue_entry.is_given_up() {
            let step = set.step(&mut self.way(), kept.key);
            match step {
                Step::Primary => {
                    return self.submit_to_primary(queue_entry, Again::Encoded(kept.clone()));
                }
                Step::Replica { at, .. } => {
                    if let Some(At::Here(connection, token)) = self.try_submit(at) {
                        let waker = queue_entry.settle(&connection, Ok(token));
                        return waker.into_iter().for_each(|it| it.wake());
                    }
                }
                Step::Pause => {}
                Step::Late | Step::NoReplica => {
                    let waker = queue_entry.fail(failure(step));
                    return waker.into_iter().for_each(|it| it.wake());
                }
            }
            tokio::time::sleep(set.retry_pause()).await;
        }
    }
}

impl Moves for Moving {
    fn next(&self, error: &Error) -> Option<Arc<QueueEntry>> {
        let (set, mut way) = (&self.0.set, self.way());
        // The caller's own deadline and cancel hold everywhere.
        let is_final =
            matches!(error.kind(), Kind::Timeout | Kind::Cancelled) || set.primary().is_closed();
        let skipped = error.code() == ABORTED || shows_stale(error);
        let goes_on = way.ended(set.primary().now(), error.outcome(), skipped, is_final);
        drop(way);
        goes_on.then(|| self.wait())
    }

    fn ask(&self, mut first_use: Box<FirstUse>) -> Arc<QueueEntry> {
        self.way().settle();
        first_use.lacks_binary_form = true;
        let queue_entry = QueueEntry::new(self.0.set.primary().clone());
        self.submit_to_primary(&queue_entry, Again::Asking(first_use));
        queue_entry
    }
}

impl Executor {
    /// Submits a read that may go to a replica. Without replicas it goes to the primary.
    pub(crate) fn run_read<T: FromReply>(
        &self,
        set: Option<(&Arc<ReplicaSet>, Read)>,
        statement: &(impl ToStatement + ?Sized),
        params: Params<'_>,
    ) -> Reply<T> {
        let source = statement.to_statement();
        let span = Span::of(&self.context, source);
        let alone = statement.is_alone();
        with_scratch(|out| {
            let submitted = self.try_read(set, alone, source, params, out);
            submitted.unwrap_or_else(Reply::refused).traced(span)
        })
    }

    fn try_read<T: FromReply>(
        &self,
        set: Option<(&Arc<ReplicaSet>, Read)>,
        alone: bool,
        source: Source<'_>,
        params: Params<'_>,
        out: &mut BytesMut,
    ) -> Result<Reply<T>, Error> {
        let key = |own: TextKey| if alone { TextKey::ALONE } else { own };
        let encoded = match self.encode(source, params, out) {
            // The primary is asked, once for each text, so that no guard is needed for that.
            Err(Unready::Ask(first_use)) => {
                check_read(first_use.metadata.traits)?;
                return self.ask(key(first_use.key()), first_use);
            }
            Err(Unready::Error(error)) => return Err(error),
            Ok(encoded) => encoded,
        };
        check_read(encoded.traits)?;
        let message = match &encoded.bound {
            Some(bound) => Message::Bound(bound, out),
            None => {
                out.extend_from_slice(&SYNC);
                Message::Whole(out)
            }
        };
        let (part, key, goes_on) = (Part::Statement, key(encoded.key), GoesOn::InLine);
        let outgoing = Outgoing { expect: encoded.expect, key, goes_on, part, message };
        let Some((set, read)) = set else {
            return self.read_here(outgoing, encoded.text);
        };
        let deadline = self.deadline_now();
        let mut way = Way::new(read, deadline);
        let step = set.step(&mut way, key);
        match step {
            Step::Primary => return self.read_here(outgoing, encoded.text),
            Step::Late | Step::NoReplica => return Err(failure(step)),
            Step::Replica { .. } | Step::Pause => {}
        }
        // A second try in another format needs a guard of its own, so it is the primary's.
        let (text, first_use) = match encoded.text {
            Text::New(first_use) => (Text::Unseen(first_use.metadata.clone()), Some(first_use)),
            text => (text, None),
        };
        let kept = Kept { goes_on: GoesOn::Elsewhere, ..outgoing.to_owned() };
        let moving = Moving::new(self.clone(), set.clone(), kept, way);
        let at = match step {
            Step::Replica { at, .. } => moving.submit(at),
            _ => At::Later(moving.wait()),
        };
        let sent = Sent { at, lead: None, deadline };
        Ok(Reply::of(sent).reading(text, false).moving(Box::new(moving), first_use))
    }

    fn read_here<T: FromReply>(
        &self,
        outgoing: Outgoing<'_>,
        mut text: Text,
    ) -> Result<Reply<T>, Error> {
        let sent = self.submit(outgoing)?;
        if let Text::New(first_use) = &mut text {
            first_use.deadline = sent.deadline;
        }
        Ok(Reply::of(sent).reading(text, false))
    }
}

/// Why a read fails at this step.
fn failure(step: Step) -> Error {
    match step {
        Step::Late => Error::late("the deadline passed before a replica was there"),
        _ => no_replica(),
    }
}

/// Refuses a text that shows more than a read.
fn check_read(traits: Traits) -> Result<(), Error> {
    match sql::refusal_of_read(traits) {
        None => Ok(()),
        Some(refusal) => Err(Error::misuse(refusal.code(), refusal.to_string())),
    }
}
