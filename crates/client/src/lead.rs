//! What rides along with the statements of a transaction: BEGIN and SAVEPOINT with the first one behind
//! them, and a RELEASE that nobody awaits with whatever comes next.
//!
//! BEGIN and its guard are as [`onetrip_postgres::client::transaction`] has them.

mod front;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::transaction::pending::Begin;
use onetrip_postgres::message::{EncodeError, SYNC};

use crate::core::Core;
use crate::error::ABORTED;
use crate::executor::plain_statement;
use crate::params;
use crate::{Error, Kind, Outcome};
use front::{Front, command, pinned};

/// A transaction or a savepoint in it: what begins it, and what became of that.
#[derive(Debug)]
pub(crate) struct Lead {
    /// What a savepoint is in; none for the transaction itself.
    outer: Option<Arc<Lead>>,
    block: Arc<Block>,
    /// Of the savepoint; empty for the transaction itself.
    name: String,
    state: AtomicU8,
    /// Why BEGIN or SAVEPOINT failed.
    refused: OnceLock<Error>,
    /// What belongs to it belongs to what is around it from now on.
    released: AtomicBool,
    /// Nothing more of it is sent: it was ended, sent or not.
    over: AtomicBool,
    /// What made it fail: the first failure since a statement succeeded last.
    failure: Mutex<Option<Error>>,
}

/// What a transaction and its savepoints have in common.
#[derive(Debug)]
struct Block {
    begin: Begin,
    savepoints: AtomicU64,
    /// The savepoint whose RELEASE goes in front of what comes next.
    owed: Mutex<Option<String>>,
    /// The first failure after which the transaction may be run again.
    conflict: OnceLock<Error>,
}

/// It waits for the first statement behind it.
const UNSENT: u8 = 0;
/// It was submitted, and its answer is not known.
const SENT: u8 = 1;
/// The server has answered that it is done.
const DONE: u8 = 2;
/// The server has refused it.
const REFUSED: u8 = 3;

/// What a request is to its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// One of its statements.
    Statement,
    /// COMMIT, which releases all savepoints.
    Commit,
    /// What undoes all of it, and harms nobody where it is not open.
    Undo,
}

/// Whom the end of a request concerns beside its caller.
#[derive(Debug)]
pub(crate) enum Note {
    /// It is what begins this.
    Begins(Arc<Lead>),
    /// It is a statement of this.
    Within(Arc<Lead>),
}

impl Note {
    pub(crate) fn ended(self, error: Option<&Error>) {
        match self {
            Note::Begins(lead) => lead.begun(error),
            Note::Within(lead) => lead.heard(error),
        }
    }
}

impl Lead {
    /// A transaction that nothing was sent of.
    pub(crate) fn begin(text: &str) -> Arc<Lead> {
        // Unlike in every other transaction of the session, so that what is left over of an earlier
        // one is refused.
        static TRANSACTIONS: AtomicU64 = AtomicU64::new(1);
        let number = TRANSACTIONS.fetch_add(1, Ordering::Relaxed);
        let block = Block {
            begin: Begin::new(text, number),
            savepoints: AtomicU64::new(0),
            owed: Mutex::default(),
            conflict: OnceLock::new(),
        };
        Lead::new(None, Arc::new(block), String::new())
    }

    /// A savepoint that nothing was sent of.
    pub(crate) fn savepoint(self: &Arc<Lead>) -> Arc<Lead> {
        let number = self.block.savepoints.fetch_add(1, Ordering::Relaxed) + 1;
        Lead::new(Some(self.clone()), self.block.clone(), format!("onetrip_{number}"))
    }

    fn new(outer: Option<Arc<Lead>>, block: Arc<Block>, name: String) -> Arc<Lead> {
        Arc::new(Lead {
            outer,
            block,
            name,
            state: AtomicU8::new(UNSENT),
            refused: OnceLock::new(),
            released: AtomicBool::new(false),
            over: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    // --- what is known ---

    /// Whether BEGIN or SAVEPOINT was submitted, so that there is something to end.
    pub(crate) fn is_sent(&self) -> bool {
        self.state() != UNSENT
    }

    /// Whether what begins it was answered, and nothing waits to go in front of what comes next.
    pub(crate) fn is_known(&self) -> bool {
        self.state() == DONE && lock(&self.block.owed).is_none()
    }

    /// Why BEGIN was refused: nothing of the transaction runs.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.root().refused.get().cloned()
    }

    /// Why a statement was skipped: what begins it failed in front of it.
    pub(crate) fn why_skipped(&self) -> Option<Error> {
        let outer = self.outer.as_ref().and_then(|outer| outer.why_skipped());
        outer.or_else(|| self.refused.get().cloned())
    }

    /// What made it fail, where that is known.
    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.failure).clone()
    }

    /// The first serialization failure or deadlock of any of its statements.
    pub(crate) fn conflict(&self) -> Option<&Error> {
        self.block.conflict.get()
    }

    /// Its end was asked for: what comes from now on, of a pipeline that is still there, is refused. It
    /// would begin it anew.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        let outer_is_over = || self.outer.as_ref().is_some_and(|outer| outer.is_over());
        self.over.load(Ordering::Acquire) || outer_is_over()
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    fn root(&self) -> &Lead {
        let mut lead = self;
        while let Some(outer) = &lead.outer {
            lead = outer;
        }
        lead
    }

    // --- what became of requests ---

    fn begun(&self, error: Option<&Error>) {
        let Some(error) = error else { return self.state.store(DONE, Ordering::Release) };
        if error.code() != ABORTED {
            let command = if self.outer.is_some() { "SAVEPOINT" } else { "BEGIN" };
            let _ = self.refused.set(error.clone().about(command));
        }
        match &self.outer {
            // The transaction has failed; rolling back to what was never set changes nothing.
            Some(outer) => outer.heard(Some(error)),
            None => self.state.store(REFUSED, Ordering::Release),
        }
    }

    fn heard(&self, error: Option<&Error>) {
        if self.released.load(Ordering::Acquire)
            && let Some(outer) = &self.outer
        {
            return outer.heard(error);
        }
        let mut failure = lock(&self.failure);
        match error {
            None => *failure = None,
            Some(error) if is_answer(error) => {
                failure.get_or_insert_with(|| error.clone());
                if is_conflict(error) {
                    let _ = self.block.conflict.set(error.clone());
                }
            }
            Some(_) => {}
        }
    }

    // --- what is sent ---

    /// Submits a request with what has to go in front of it.
    pub(crate) fn submit(
        self: &Arc<Lead>,
        core: &mut Core,
        now: Time,
        request: Request<Expect>,
        bytes: &[u8],
        part: Part,
        refuse: bool,
    ) -> Result<(), Error> {
        let mut front = self.front(core, part)?;
        if part == Part::Statement
            && let Some(entry) = core.replies.entry(request.token)
        {
            entry.note = Some(Note::Within(self.clone()));
        }
        if front.requests.is_empty() {
            return core.submit_one(now, request, bytes, refuse);
        }
        front.add(request, bytes);
        front.submit(core, now, refuse)
    }

    /// Submits what has to go in front of the next statement by itself. No trip: nobody waits for its
    /// answer.
    pub(crate) fn submit_front(self: &Arc<Lead>, core: &mut Core, now: Time) -> Result<(), Error> {
        let mut front = self.front(core, Part::Statement)?;
        if front.leads.is_empty() && front.released.is_none() {
            return Ok(());
        }
        let token = core.replies.add();
        let end = Request { sync: SyncPoint::Only, ..pinned(token, Expect::sync()) };
        front.add(end, &SYNC);
        let submitted = front.submit(core, now, false);
        match submitted {
            Ok(()) => drop(core.replies.abandon(token)),
            Err(_) => core.replies.remove(token),
        }
        submitted
    }

    /// Undoes all since the savepoint, and forgets it. `token` names the reply that tells of it.
    pub(crate) fn submit_undo(
        &self,
        core: &mut Core,
        now: Time,
        token: Token,
    ) -> Result<(), Error> {
        // Savepoints in it go with it.
        lock(&self.block.owed).take();
        let mut both = Front::default();
        let undo = core.replies.add();
        if let (Some(entry), Some(outer)) = (core.replies.entry(undo), &self.outer) {
            entry.note = Some(Note::Within(outer.clone()));
        }
        both.command(&format!("ROLLBACK TO SAVEPOINT {}", self.name), undo, SyncPoint::Member)?;
        both.command(&self.release_command(), token, SyncPoint::Own)?;
        let submitted = both.submit(core, now, false);
        match submitted {
            Ok(()) => drop(core.replies.abandon(undo)),
            Err(_) => core.replies.remove(undo),
        }
        submitted
    }

    /// Has RELEASE ride along with what comes next.
    pub(crate) fn owe_release(&self) {
        *lock(&self.block.owed) = Some(self.name.clone());
        self.pass_on();
    }

    /// Takes the RELEASE back that was to ride along. Returns whether it has not left.
    pub(crate) fn take_release(&self) -> bool {
        let mut owed = lock(&self.block.owed);
        owed.take_if(|name| *name == self.name).is_some()
    }

    pub(crate) fn release_command(&self) -> String {
        format!("RELEASE SAVEPOINT {}", self.name)
    }

    /// From now on what happened in a savepoint happened to what is around it.
    fn pass_on(&self) {
        let failure = self.failure();
        self.released.store(true, Ordering::Release);
        if let (Some(outer), Some(failure)) = (&self.outer, failure) {
            outer.heard(Some(&failure));
        }
    }

    /// A Describe of the portal in which BEGIN ran: it fails where the transaction isn't open.
    pub(crate) fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError> {
        self.block.begin.write_guard(out)?;
        Ok(Expect::sync().describe_portal())
    }

    fn front(self: &Arc<Lead>, core: &mut Core, part: Part) -> Result<Front, Error> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.with_outcome(Outcome::NotSent));
        }
        if self.is_over() {
            return Err(Error::misuse(
                "transaction_ended",
                "the transaction or savepoint has ended, and this was not sent: finish its pipelines before",
            ));
        }
        let mut front = Front { block: Some(self.block.clone()), ..Front::default() };
        let owed = lock(&self.block.owed).take();
        if let (Part::Statement, Some(name)) = (part, owed) {
            let release = format!("RELEASE SAVEPOINT {name}");
            // A failure of it is what made its savepoint fail, and with that all behind it.
            front.command(&release, Token::DISCARD, SyncPoint::Own)?;
            front.released = Some(name);
        }
        if part != Part::Undo && self.root().state() == SENT {
            let mut guard = BytesMut::new();
            let expect = self.write_guard(&mut guard).map_err(params::unencodable)?;
            let request = Request { sync: SyncPoint::Member, ..pinned(Token::DISCARD, expect) };
            front.add(request, &guard);
        }
        self.add_unsent(core, &mut front)?;
        Ok(front)
    }

    /// Adds what was not sent yet, from the outside in.
    fn add_unsent(self: &Arc<Lead>, core: &mut Core, front: &mut Front) -> Result<(), Error> {
        if self.is_sent() {
            return Ok(());
        }
        if let Some(outer) = &self.outer {
            outer.add_unsent(core, front)?;
        }
        let mut bytes = BytesMut::new();
        match self.outer {
            Some(_) => bytes = plain_statement(&format!("SAVEPOINT {}", self.name))?,
            None => self.block.begin.write(&mut bytes).map_err(params::unencodable)?,
        }
        let token = core.replies.add();
        if let Some(entry) = core.replies.entry(token) {
            entry.note = Some(Note::Begins(self.clone()));
        }
        let expect = command();
        front.add(Request { sync: SyncPoint::Member, ..pinned(token, expect) }, &bytes);
        front.leads.push((self.clone(), token));
        self.state.store(SENT, Ordering::Release);
        Ok(())
    }
}

/// Whether the server answered the statement with this error, and the session goes on.
fn is_answer(error: &Error) -> bool {
    error.kind() == Kind::Server && error.server().is_some() && !error.is_connection_lost()
}

/// Whether it is a serialization failure (40001) or a deadlock (40P01): the same transaction may
/// succeed when it is run again from its beginning (PostgreSQL documentation, "Serialization Failure
/// Handling").
pub(crate) fn is_conflict(error: &Error) -> bool {
    is_answer(error) && matches!(error.sqlstate(), Some("40001" | "40P01"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of a caller's runs under it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
