//! The value of a call: a future that resolves to its reply.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use onetrip_engine::pool::Requeue;
use onetrip_engine::{Outcome, Time, Token, Violation};
use onetrip_postgres::client::transaction::verdict::{AT_COMMIT, Failure};
use onetrip_postgres::client::types::look_up::Tries;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{CommandComplete, TransactionStatus};

use crate::canceller::{At as Place, CancelTarget, Canceller};
use crate::core::{Connection, Duty, Options};
use crate::error::{ABORTED, MALFORMED_REPLY, RESULT_TOO_LARGE};
use crate::executor::{At, Executor, Sent};
use crate::fate::Fate;
use crate::first_use::{FirstUse, lacks_binary_form, read_description};
use crate::kept::Kept;
use crate::lead::Lead;
use crate::metadata::Metadata;
use crate::oids::result_format;
use crate::pipelines::rolled_back;
use crate::pool::{Pool, QueueEntry, Work};
use crate::repeat::{Again, Moves, Repeat, Repeating};
use crate::replies::{Finished, Taken};
use crate::rows::{Asked, Blocks, Column, Columns, Row, Rows, columns_of, learned_columns};
use crate::trace::Span;
use crate::types::{Type, TypeCache};
use crate::{Error, Kind};

/// The reply to a statement. The statement was submitted when this was made; await it for the
/// result.
///
/// Dropping it disturbs nobody: a statement that was sent runs, and its reply is read and dropped;
/// one that still waits in the queue is taken back and never sent.
#[must_use = "a reply does nothing by itself: await it, or drop it where the result doesn't matter"]
#[derive(Debug)]
pub struct Reply<T> {
    stage: Stage,
    /// What was learned, or is still to be learned, about the statement's text.
    text: Text,
    /// The lead that went in front of it, or may have.
    lead: Option<Arc<Lead>>,
    /// Whether it is a COMMIT, which the server may answer with ROLLBACK.
    commits: bool,
    /// Where its statement is; set once there is a canceller.
    cancel_target: OnceLock<Arc<CancelTarget>>,
    span: Span,
    deadline: Time,
    /// If it is a read on a replica, how it goes elsewhere.
    moving: Option<Box<dyn Moves>>,
    /// What it then asks for the format of its columns.
    asking: Option<Box<FirstUse>>,
    /// How it is sent again after its connection was lost, if that is allowed.
    repeating: Option<Repeating>,
    /// How it gets in line again after its connection was lost before any byte of it was sent.
    requeue: Option<Box<Requeue>>,
    result: PhantomData<fn() -> T>,
}

/// The connection of a statement, and the token of its reply there.
type Placed = (Arc<Connection>, Token);

#[derive(Debug)]
enum Stage {
    /// Refused before anything was sent.
    Refused(Error),
    /// Submitted and not answered.
    At(At),
    /// Answered, and some of its types are being looked up.
    Learning(Box<Learning>),
    Taken,
}

impl Stage {
    fn place(&self) -> Place {
        match self {
            Stage::At(At::Here(connection, token)) => Place::Here(connection.clone(), *token),
            Stage::At(At::Later(queue_entry)) => Place::Later(queue_entry.clone()),
            Stage::Refused(_) | Stage::Learning(_) | Stage::Taken => Place::Over,
        }
    }
}

/// What is known about the text of a statement.
#[derive(Debug, Default)]
pub(crate) enum Text {
    /// Nothing is to be learned.
    #[default]
    Settled,
    /// It was sent with remembered metadata.
    Known(Arc<Metadata>),
    /// It was sent with remembered metadata, by the name under which it was prepared.
    Prepared(Arc<Metadata>),
    /// It was not seen before.
    New(Box<FirstUse>),
    /// It was not seen before, and can't be sent a second time.
    Unseen(Arc<Metadata>),
}

/// A reply that waits for its types.
#[derive(Debug)]
struct Learning {
    connection: Arc<Connection>,
    columns: Option<Columns>,
    blocks: Blocks,
    provisional: bool,
    missing: Vec<u32>,
    /// The deadline of the statement. If types are unanswered by then, they stay known by number.
    deadline: Time,
    tries: Tries,
    /// Owner epoch; never query inside another caller's transaction.
    owner_epoch: u32,
    /// Whether a second connection was tried: the first may be in a failed transaction, for
    /// instance.
    elsewhere: bool,
    /// Why the server gave a query for them up, and whether that has ended the transaction.
    failure: Option<(Error, bool)>,
}

impl Learning {
    /// Looks for the types, and fails as the query did that the server gave up. What else leaves them
    /// unknown is no failure.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        ready!(self.poll_found(cx));
        let failure = self.failure.take().filter(|_| !self.missing.is_empty());
        Poll::Ready(match failure {
            None => Ok(()),
            Some((error, true)) => Err(error.with_outcome(Outcome::Rejected)),
            Some((error, false)) => Err(error.with_outcome(Outcome::Applied)),
        })
    }

    fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.missing = self.connection.context.types.missing(&self.missing);
            let deadline = self.deadline;
            if self.missing.is_empty() || self.connection.now() >= deadline {
                return Poll::Ready(());
            }
            let (missing, tries, owner_epoch) = (&self.missing, &mut self.tries, self.owner_epoch);
            let (failure, is_member) = (&mut self.failure, self.provisional);
            let asked = self.connection.with(|core, now| {
                if core.replies.owner_epoch() != owner_epoch {
                    return Poll::Ready(());
                }
                if let Some(error) = core.look_ups.failure(missing, tries) {
                    let is_undone = is_member || core.status() == TransactionStatus::Failed;
                    failure.get_or_insert((error.clone(), is_undone));
                }
                let asked = core.poll_types(now, missing, tries, deadline, cx);
                core.settle(now);
                core.write_on_await(now);
                asked
            });
            if asked.is_pending() {
                return Poll::Pending;
            }
            // What was asked there has ended the transaction: nothing is to be asked elsewhere.
            if matches!(self.failure, Some((_, true))) {
                return Poll::Ready(());
            }
            // Only without waiting: the connection waited for might be held by this very caller.
            let other = self.connection.pool_slot.owner.clone().another();
            let is_new = |other: &Arc<Connection>, owner_epoch| {
                !Arc::ptr_eq(other, &self.connection) || owner_epoch != self.owner_epoch
            };
            match other {
                Some((other, owner_epoch)) if !self.elsewhere && is_new(&other, owner_epoch) => {
                    (self.connection, self.owner_epoch) = (other, owner_epoch);
                    (self.elsewhere, self.tries) = (true, Tries::default());
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<T> Reply<T> {
    pub(crate) fn refused(error: Error) -> Reply<T> {
        Reply::new(Stage::Refused(error))
    }

    pub(crate) fn of(sent: Sent) -> Reply<T> {
        let mut reply = Reply::new(Stage::At(sent.at));
        (reply.lead, reply.deadline) = (sent.lead, sent.deadline);
        reply
    }

    /// Whether it was refused before anything was sent.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.stage, Stage::Refused(_))
    }

    /// Sets what the encoder knows about the reply.
    pub(crate) fn reading(mut self, text: Text, commits: bool) -> Reply<T> {
        (self.text, self.commits) = (text, commits);
        self
    }

    /// Sets how it goes to another server.
    pub(crate) fn moving(
        mut self,
        moving: Box<dyn Moves>,
        first_use: Option<Box<FirstUse>>,
    ) -> Reply<T> {
        (self.moving, self.asking) = (Some(moving), first_use);
        self
    }

    /// Sets how it is repeated.
    pub(crate) fn repeating(mut self, repeat: Option<Repeat>) -> Reply<T> {
        self.repeating = repeat.map(|repeat| Repeating::new(repeat, self.deadline));
        self
    }

    fn new(stage: Stage) -> Reply<T> {
        Reply {
            stage,
            text: Text::Settled,
            lead: None,
            commits: false,
            cancel_target: OnceLock::new(),
            span: Default::default(),
            deadline: Time::NEVER,
            moving: None,
            asking: None,
            repeating: None,
            requeue: None,
            result: PhantomData,
        }
    }

    /// Returns a handle that cancels the statement, from any task. A statement of a pipeline shares
    /// its sync point with others and can't be cancelled by itself; the
    /// [pipeline](crate::Pipeline::canceller) can.
    pub fn canceller(&self) -> Canceller {
        Canceller::of_statement(
            self.cancel_target.get_or_init(|| CancelTarget::new(self.stage.place())),
        )
    }

    /// Tells the cancellers where the statement is now.
    fn note_place(&self) {
        if let Some(cancel_target) = self.cancel_target.get() {
            *cancel_target.lock() = self.stage.place();
        }
    }

    /// Ready when the statement has a connection. Cancellers find the statement in one of the two
    /// places at any time.
    fn poll_place(
        &self,
        queue_entry: &QueueEntry,
        cx: &Context<'_>,
    ) -> Poll<Result<Placed, Error>> {
        let mut cancel_target = self.cancel_target.get().map(|cancel_target| cancel_target.lock());
        let placed = queue_entry.poll(cx);
        if let (Some(cancel_target), Poll::Ready(Ok((connection, token)))) =
            (&mut cancel_target, &placed)
        {
            **cancel_target = Place::Here(connection.clone(), *token);
        }
        placed
    }

    /// The same for a stage that is put back while it waits. `None` if the statement waits anew.
    fn poll_later(
        &mut self,
        queue_entry: Arc<QueueEntry>,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Placed>, Error>> {
        let Poll::Ready(placed) = self.poll_place(&queue_entry, cx) else {
            self.stage = Stage::At(At::Later(queue_entry));
            return Poll::Pending;
        };
        if let Some(repeating) = &mut self.repeating {
            repeating.waited(queue_entry.waited());
        }
        Poll::Ready(match placed {
            Ok(placed) => Ok(Some(placed)),
            Err(error) if self.repeats(&error, None) || self.moves(&error) => Ok(None),
            Err(error) => Err(self.failed(error)),
        })
    }

    /// Ends this span with the reply.
    pub(crate) fn traced(mut self, span: Span) -> Reply<T> {
        self.span = span;
        self
    }

    /// Whether it is sent again after this error.
    fn repeats(&mut self, error: &Error, on: Option<&Connection>) -> bool {
        let queue_entry = self.repeating.as_mut().and_then(|repeating| repeating.again(error, on));
        let repeats = queue_entry.is_some();
        if let Some(queue_entry) = queue_entry {
            self.stage = Stage::At(At::Later(queue_entry));
            self.note_place();
        }
        repeats
    }

    /// Whether it goes to another server after this error. Once it is the primary's, it stays there.
    fn moves(&mut self, error: &Error) -> bool {
        let Some(moving) = &self.moving else { return false };
        let queue_entry = match self.asking.take().filter(|_| lacks_binary_form(error)) {
            Some(first_use) => Some(moving.ask(first_use)),
            None => moving.next(error),
        };
        let moves = queue_entry.is_some();
        if let Some(queue_entry) = queue_entry {
            self.stage = Stage::At(At::Later(queue_entry));
            self.note_place();
        }
        moves
    }

    /// Whether it gets in line again, since nothing of it was sent on this connection.
    fn goes_on(&mut self, connection: &Connection, unsent: Option<Box<Kept>>) -> bool {
        let Some(kept) = unsent else { return false };
        let Ok(pool) = connection.pool_slot.owner.clone().itself().downcast::<Pool>() else {
            return false;
        };
        let deadline = self.deadline;
        let Some(until) = pool.requeue(deadline, &mut self.requeue) else { return false };
        let (executor, key) = (Executor::of_pool(&pool), kept.key);
        let again = Again::Encoded(*kept);
        let work =
            Work::new(move |_, core, now| executor.submit_again(core, now, &again, deadline));
        self.stage = Stage::At(At::Later(pool.run_later(key, work, until)));
        self.note_place();
        true
    }

    /// Its last error, with the outcome over all attempts.
    fn failed(&self, error: Error) -> Error {
        match &self.repeating {
            Some(repeating) => repeating.last(error),
            None => error,
        }
    }

    /// Learns from how the statement ended. Returns its new token if it is sent again.
    fn learn(
        &mut self,
        connection: &Arc<Connection>,
        blocks: &Blocks,
        result: &Result<Finished, Error>,
        same_owner: bool,
    ) -> Option<Token> {
        match (std::mem::take(&mut self.text), result) {
            (Text::New(first_use), Ok(_)) => {
                connection.context.metadata_cache.remember(first_use.metadata)
            }
            (Text::New(first_use), Err(error)) if same_owner && lacks_binary_form(error) => {
                if let Some(repeating) = &mut self.repeating {
                    repeating.ask(&first_use);
                }
                return connection.ask_again(first_use);
            }
            (Text::Unseen(metadata), Ok(_)) => connection.context.metadata_cache.remember(metadata),
            (Text::Known(metadata) | Text::Prepared(metadata), Err(error)) => {
                connection.context.metadata_cache.failed(&metadata, error);
            }
            (Text::Known(metadata), Ok(_)) if metadata.any_text() => {
                let description =
                    blocks.messages().find(|(tag, _)| *tag == backend::ROW_DESCRIPTION);
                let columns = description.and_then(|(_, body)| columns_of(body, Asked::Portal));
                if columns.is_none_or(|columns| columns.len() != metadata.formats().len()) {
                    connection.context.metadata_cache.forget(&metadata);
                }
            }
            _ => {}
        }
        None
    }
}

impl<T: FromReply> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.poll_result(cx);
        let fate = self.lead.as_ref().map(|lead| &lead.fate);
        let polled = polled.map(|result| match result {
            Ok(value) => Ok(value.part_of(fate)),
            Err(error) => Err(error.part_of(fate)),
        });
        if let Poll::Ready(Err(error)) = &polled {
            self.span.failed(error);
        }
        polled
    }
}

impl<T: FromReply> Reply<T> {
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        loop {
            let this = &mut *self;
            let (connection, token) = match std::mem::replace(&mut this.stage, Stage::Taken) {
                Stage::Refused(error) => return Poll::Ready(Err(error)),
                Stage::Taken => panic!("a reply was polled again after it had been taken"),
                Stage::At(At::Here(connection, token)) => (connection, token),
                Stage::Learning(mut learning) => {
                    let Poll::Ready(found) = learning.poll(cx) else {
                        this.stage = Stage::Learning(learning);
                        return Poll::Pending;
                    };
                    found?;
                    let Learning { connection, columns, blocks, provisional, .. } = *learning;
                    let described = T::describe(columns, &blocks, &connection.context.types);
                    let (columns, _) = connection.judge(described, provisional)?;
                    let read = T::read(columns, blocks, provisional);
                    return Poll::Ready(connection.judge(read, provisional));
                }
                Stage::At(At::Later(queue_entry)) => match ready!(this.poll_later(queue_entry, cx))
                {
                    Ok(Some(placed)) => placed,
                    Ok(None) => continue,
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            let (connection, taken) = ready!(this.poll_answer(connection, token, cx));
            this.span.on(&connection);
            let Taken { blocks, columns, result, too_large, same_owner, owner_epoch, .. } = taken;
            if let Err(error) = &result
                && (this.repeats(error, Some(&connection))
                    || this.moves(error)
                    || this.goes_on(&connection, taken.unsent))
            {
                continue;
            }
            if let Some(token) = this.learn(&connection, &blocks, &result, same_owner) {
                this.stage = Stage::At(At::Here(connection, token));
                this.note_place();
                continue;
            }
            let provisional = result.map_err(|error| this.failed(error))? == Finished::Provisional;
            if too_large {
                return Poll::Ready(Err(result_too_large(&connection.context.options)));
            }
            if this.commits && command_tag(&blocks) == Some("ROLLBACK") {
                return Poll::Ready(Err(Error::rolled_back(AT_COMMIT, None)));
            }
            let described = T::describe(columns, &blocks, &connection.context.types);
            let (columns, missing) = connection.judge(described, provisional)?;
            if missing.is_empty() {
                let read = T::read(columns, blocks, provisional);
                return Poll::Ready(connection.judge(read, provisional));
            }
            let (deadline, tries, elsewhere) = (this.deadline, Tries::default(), false);
            this.stage = Stage::Learning(Box::new(Learning {
                connection,
                columns,
                blocks,
                provisional,
                missing,
                deadline,
                tries,
                owner_epoch,
                elsewhere,
                failure: None,
            }));
        }
    }
}

impl<T> Reply<T> {
    /// Takes the answer, and the connection that it came from. Until then the stage is put back.
    fn poll_answer(
        &mut self,
        connection: Arc<Connection>,
        token: Token,
        cx: &mut Context<'_>,
    ) -> Poll<(Arc<Connection>, Taken)> {
        let first = connection.poll_reply(token, self.lead.as_deref(), cx);
        let repeating = self.repeating.as_mut();
        if let Poll::Ready(taken) = first {
            repeating.into_iter().for_each(Repeating::end_hedge);
            return Poll::Ready((connection, taken));
        }
        let second = repeating.map(|repeating| repeating.poll_hedge(&connection, cx));
        if let Some(Poll::Ready(second)) = second {
            connection.with(|core, now| core.drop_reply(now, token));
            return Poll::Ready(second);
        }
        self.stage = Stage::At(At::Here(connection, token));
        Poll::Pending
    }
}

/// The command tag of the last statement of a reply.
pub(crate) fn command_tag(blocks: &Blocks) -> Option<&str> {
    let complete = blocks.messages().filter(|(tag, _)| *tag == backend::COMMAND_COMPLETE).last();
    let (_, body) = complete?;
    Some(CommandComplete::decode(body).ok()?.tag)
}

/// The error of a statement that ran, but whose result was too long to be kept.
pub(crate) fn result_too_large(options: &Options) -> Error {
    let message = format!(
        "the result is longer than {} bytes (result_bytes_max), so it was dropped: read it with \
         query_stream, ask for less, or raise the limit",
        options.result_bytes_max
    );
    Error::new(Kind::Misuse, Outcome::Applied, RESULT_TOO_LARGE, message)
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(repeating) = &mut self.repeating {
            repeating.end_hedge();
        }
        let (connection, token) = match std::mem::replace(&mut self.stage, Stage::Taken) {
            Stage::At(At::Here(connection, token)) => (connection, token),
            Stage::At(At::Later(queue_entry)) => match queue_entry.give_up() {
                Some(placed) => placed,
                None => return,
            },
            _ => return,
        };
        connection.with(|core, now| core.drop_reply(now, token));
    }
}

/// The violation with which a connection is closed whose reply can't be explained.
pub(crate) const MALFORMED: Violation = Violation("a malformed reply");

impl Connection {
    /// Counts a reply that can't be read as requested. If it breaks the protocol, the connection is
    /// closed; if it was provisional, its segment ends as `Unknown`.
    fn judge<R>(&self, read: Result<R, Error>, provisional: bool) -> Result<R, Error> {
        read.map_err(|error| {
            self.context.totals.unreadable();
            match error.code() {
                MALFORMED_REPLY => self.broken(error, !provisional),
                _ => error,
            }
        })
    }

    /// Closes the connection, because it brought something that breaks the protocol. `ended` says
    /// whether the statement has ended successfully.
    pub(crate) fn broken(&self, error: Error, ended: bool) -> Error {
        self.with(|core, _| core.engine.handle_violation(MALFORMED));
        let error = error.about("the connection was closed");
        if ended { error } else { error.with_outcome(Outcome::Unknown) }
    }

    /// Takes a reply that has ended. If it hasn't, unwritten bytes leave now, and the task is woken
    /// when it has.
    pub(crate) fn poll_reply(
        &self,
        token: Token,
        lead: Option<&Lead>,
        cx: &mut Context<'_>,
    ) -> Poll<Taken> {
        let mut core = self.lock();
        if !core.replies.poll_ended(token, cx) {
            let member = core.replies.entry(token).and_then(|entry| entry.member);
            if member.is_none() && core.nothing_to_write() {
                return Poll::Pending;
            }
            drop(core);
            let ended = self.with(|core, now| {
                if let Some(member) = member {
                    core.pipelined(now, |pipelines, io| pipelines.awaited(io, member));
                }
                core.settle(now);
                core.write_on_await(now);
                core.replies.poll_ended(token, cx)
            });
            if !ended {
                return Poll::Pending;
            }
            core = self.lock();
        }
        let mut taken = core.replies.take(token);
        if let Err(error) = &taken.result
            && error.code() == ABORTED
            && let Some(why) = lead.and_then(Lead::why_skipped)
        {
            taken.result = Err(why.with_outcome(error.outcome()));
        }
        let Some(member) = taken.member else { return Poll::Ready(taken) };
        let bytes = taken.blocks.len();
        let segment = if core.pipelines.has_group(member.pipeline) {
            drop(core);
            self.with(|core, now| core.pipeline_taken(now, member, bytes))
        } else {
            let now = core.clock();
            core.pipeline_taken(now, member, bytes)
        };
        taken.result = match (taken.result, segment) {
            (Ok(_), Some(Err(error))) => Err(rolled_back(&error)),
            (Ok(_), Some(Ok(()))) => Ok(Finished::Settled),
            (result, _) => result,
        };
        Poll::Ready(taken)
    }

    /// Sends a statement again, with a Describe in front. On a session only if nothing was sent
    /// since: it must not come into a transaction that was begun meanwhile.
    fn ask_again(&self, mut first_use: Box<FirstUse>) -> Option<Token> {
        first_use.lacks_binary_form = true;
        self.with(|core, now| {
            let undisturbed = core.engine.is_idle() && core.status() == TransactionStatus::Idle;
            let may = core.duty == Duty::Shared || undisturbed;
            may.then(|| core.submit_asking(now, first_use, None).ok()).flatten()
        })
    }
}

/// What a reply can be read as.
pub trait FromReply: Sized + sealed::Sealed {
    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: only this crate calls it.
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Self, Error>;

    /// The same of a statement of this transaction.
    #[doc(hidden)]
    #[allow(private_interfaces)] // As above.
    fn part_of(self, _: Option<&Arc<Fate>>) -> Self {
        self
    }

    /// The columns with their types as far as they are known, and the numbers of unknown types, if
    /// the reader needs either.
    #[doc(hidden)]
    #[allow(private_interfaces)] // As above.
    fn describe(
        columns: Option<Columns>,
        _: &Blocks,
        _: &Arc<TypeCache>,
    ) -> Result<(Option<Columns>, Vec<u32>), Error> {
        Ok((columns, Vec::new()))
    }
}

/// The columns of a result; those of a prepared statement were noted in the order of the replies.
fn described_rows(
    columns: Option<Columns>,
    blocks: &Blocks,
    types: &Arc<TypeCache>,
) -> Result<(Option<Columns>, Vec<u32>), Error> {
    let columns = match columns {
        Some(columns) => Some(columns),
        None => described(blocks)?,
    };
    let Some(columns) = columns else { return Ok((None, Vec::new())) };
    if !columns.iter().any(Column::is_unlearned) {
        return Ok((Some(columns), Vec::new()));
    }
    let columns = learned_columns(&columns, types).unwrap_or(columns);
    let missing = columns.iter().filter(|column| column.is_unlearned());
    let missing = missing.map(|column| column.type_().oid()).collect();
    Ok((Some(columns), missing))
}

/// The columns that a reply describes, in front of its rows.
fn described(blocks: &Blocks) -> Result<Option<Columns>, Error> {
    for (tag, body) in blocks.messages() {
        match tag {
            backend::ROW_DESCRIPTION => {
                let columns = columns_of(body, Asked::Portal)
                    .ok_or_else(|| Error::unreadable("the columns of the result can't be read"))?;
                return Ok(Some(columns));
            }
            backend::DATA_ROW | backend::COMMAND_COMPLETE => break,
            _ => {}
        }
    }
    Ok(None)
}

/// The server's description of a statement, after its types were looked up.
#[derive(Debug)]
pub(crate) struct Description(pub(crate) Blocks);

impl FromReply for Description {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, blocks: Blocks, _: bool) -> Result<Description, Error> {
        Ok(Description(blocks))
    }

    #[allow(private_interfaces)]
    fn describe(
        columns: Option<Columns>,
        blocks: &Blocks,
        types: &Arc<TypeCache>,
    ) -> Result<(Option<Columns>, Vec<u32>), Error> {
        let (parameters, results) = read_description(blocks, &result_format, types)?;
        let oids = parameters.iter().chain(results.iter().map(Column::type_)).map(Type::oid);
        Ok((columns, types.missing(&oids.filter(|oid| *oid != 0).collect::<Vec<u32>>())))
    }
}

impl FromReply for Rows {
    #[allow(private_interfaces)]
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Rows, Error> {
        let columns = match columns {
            Some(columns) => Some(columns),
            None => described(&blocks)?,
        };
        let columns = columns.unwrap_or_default();
        // If the description has another encoding, the columns are not known.
        let len = blocks.count_rows(Some(columns.len()).filter(|len| *len > 0))?;
        Ok(Rows::new(columns, blocks, len, provisional))
    }

    #[allow(private_interfaces)]
    fn part_of(self, fate: Option<&Arc<Fate>>) -> Rows {
        Rows::part_of(self, fate)
    }

    #[allow(private_interfaces)]
    fn describe(
        columns: Option<Columns>,
        blocks: &Blocks,
        types: &Arc<TypeCache>,
    ) -> Result<(Option<Columns>, Vec<u32>), Error> {
        described_rows(columns, blocks, types)
    }
}

impl FromReply for Option<Row> {
    #[allow(private_interfaces)]
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Self, Error> {
        let rows = Rows::read(columns, blocks, provisional)?;
        match rows.len() {
            0 => Ok(None),
            1 => Ok(rows.into_first()),
            rows => Err(Error::new(
                Kind::Misuse,
                Outcome::Applied,
                "several_rows",
                format!("the statement returned {rows} rows where at most one was asked for"),
            )),
        }
    }

    #[allow(private_interfaces)]
    fn part_of(self, fate: Option<&Arc<Fate>>) -> Self {
        self.map(|row| row.part_of(fate))
    }

    #[allow(private_interfaces)]
    fn describe(
        columns: Option<Columns>,
        blocks: &Blocks,
        types: &Arc<TypeCache>,
    ) -> Result<(Option<Columns>, Vec<u32>), Error> {
        described_rows(columns, blocks, types)
    }
}

impl FromReply for Row {
    #[allow(private_interfaces)]
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Row, Error> {
        Option::<Row>::read(columns, blocks, provisional)?.ok_or_else(|| {
            Error::new(
                Kind::Misuse,
                Outcome::Applied,
                "no_row",
                "the statement returned no row where one was asked for",
            )
        })
    }

    #[allow(private_interfaces)]
    fn part_of(self, fate: Option<&Arc<Fate>>) -> Row {
        Row::part_of(self, fate)
    }

    #[allow(private_interfaces)]
    fn describe(
        columns: Option<Columns>,
        blocks: &Blocks,
        types: &Arc<TypeCache>,
    ) -> Result<(Option<Columns>, Vec<u32>), Error> {
        described_rows(columns, blocks, types)
    }
}

/// The number of rows that the statement inserted, updated, deleted or returned; 0 if its tag has
/// none.
impl FromReply for u64 {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, blocks: Blocks, _: bool) -> Result<u64, Error> {
        let complete = blocks.messages().find(|(tag, _)| *tag == backend::COMMAND_COMPLETE);
        let Some((_, body)) = complete else { return Ok(0) };
        let complete =
            CommandComplete::decode(body).map_err(|error| Error::unreadable(error.to_string()))?;
        Ok(complete.rows().unwrap_or(0))
    }
}

impl FromReply for () {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, _: Blocks, _: bool) -> Result<(), Error> {
        Ok(())
    }
}

/// The whole reply, for this crate's own requests.
impl FromReply for Blocks {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, blocks: Blocks, _: bool) -> Result<Blocks, Error> {
        blocks.count_rows(None)?;
        Ok(blocks)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Rows {}
    impl Sealed for super::Row {}
    impl Sealed for Option<super::Row> {}
    impl Sealed for u64 {}
    impl Sealed for () {}
    impl Sealed for super::Blocks {}
    impl Sealed for super::Description {}
}
