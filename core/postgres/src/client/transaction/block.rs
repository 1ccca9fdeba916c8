//! A transaction and its savepoints: what is sent and when, and the known state of each.
//!
//! BEGIN and SAVEPOINT wait for the first statement behind them. A RELEASE that no caller awaits
//! waits for the next request. A host asks for the [`Front`] of a request, submits both together,
//! and reports the answer to each. What a session does outside of the block is not known here.

use onetrip_engine::{Outcome, SyncPoint};

use super::front::{Front, Role, command};
use super::pending::Begin;
use super::verdict::{self, Failure, is_conflict};
use crate::client::statements::Generation;
use crate::message::EncodeError;
use crate::outdated::{is_lost, may_be_outdated};
use crate::sql::Refusal;

/// A transaction and its savepoints. `E` is a failure as the host keeps it.
#[derive(Debug)]
pub struct Block<E> {
    begin: Begin,
    outermost: Level<E>,
    /// The savepoints that are still in use, sorted by number.
    inner: Vec<Level<E>>,
    savepoints: u32,
    /// The savepoint whose RELEASE goes in front of the next request.
    owed: Option<LevelId>,
    /// The first failure after which the transaction may be run again.
    conflict: Option<E>,
    /// The first that may come of what was remembered of the server, and is no more.
    suspect: Option<E>,
    /// What all texts are remembered by, and how often that was found to have changed, and a statement
    /// to be lost, when the transaction began.
    generation: (Generation, [u64; 2]),
    /// Whether a statement was sent that was not answered. It may have been one that sets a failed
    /// transaction right.
    is_in_doubt: bool,
}

/// Names the transaction, or one of its savepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LevelId(pub u32);

impl LevelId {
    /// The transaction itself.
    pub const OUTERMOST: LevelId = LevelId(0);
}

/// The BEGIN of the transaction, or the SAVEPOINT of a savepoint, and what became of it.
#[derive(Debug)]
struct Level<E> {
    id: LevelId,
    /// The level around it.
    outer: Option<LevelId>,
    state: State,
    /// Why BEGIN or SAVEPOINT failed.
    refused: Option<E>,
    /// Why the level has failed: the first failure since the last successful statement.
    failure: Option<E>,
    /// Whether a statement of it was left out.
    is_incomplete: bool,
    /// Whether it was released, so that its statements now belong to the level around it.
    is_released: bool,
    /// Whether its end was requested, so that nothing more of it is sent.
    is_over: bool,
}

/// The progress of BEGIN or SAVEPOINT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for the first statement behind it.
    Unsent,
    /// It was submitted, and is unanswered.
    Sent,
    /// The server has executed it.
    Done,
    /// The server has refused it.
    Refused,
}

/// What kind of request of the transaction this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One of its statements.
    Statement,
    /// COMMIT, which releases all savepoints.
    Commit,
    /// A request that undoes all of it, and does no harm if the transaction is not open.
    Undo,
}

/// Why a request of a transaction is not sent.
#[derive(Debug)]
pub enum NotSent<E> {
    /// Nothing of the transaction runs: BEGIN has failed.
    NotBegun(E),
    /// Its level has ended.
    Ended(Refusal),
    /// It is a COMMIT, which would leave a statement out.
    Incomplete(E),
    /// The text can't be encoded.
    Unencodable(EncodeError),
}

impl<E> From<EncodeError> for NotSent<E> {
    fn from(error: EncodeError) -> NotSent<E> {
        NotSent::Unencodable(error)
    }
}

/// Whether a failure may come of what was remembered of the server.
fn is_suspect(failure: &impl Failure) -> bool {
    let as_bytes = |(code, routine): (&str, Option<&str>)| {
        may_be_outdated(Some(code.as_bytes()), routine.map(str::as_bytes))
    };
    is_loss(failure) || failure.answer().is_some_and(as_bytes)
}

/// Whether the server has no such statement.
fn is_loss(failure: &impl Failure) -> bool {
    failure.answer().is_some_and(|(code, _)| is_lost(Some(code.as_bytes())))
}

impl<E: Failure> Block<E> {
    /// A transaction of which nothing was sent. `generation`: that of the texts of its client.
    pub fn new(begin: Begin, generation: &Generation) -> Block<E> {
        Block {
            begin,
            outermost: Level::new(LevelId::OUTERMOST, None),
            inner: Vec::new(),
            savepoints: 0,
            owed: None,
            conflict: None,
            suspect: None,
            generation: (generation.clone(), [generation.now(), generation.losses()]),
            is_in_doubt: false,
        }
    }

    /// A savepoint of which nothing was sent.
    pub fn savepoint(&mut self, outer: LevelId) -> LevelId {
        self.savepoints += 1;
        let id = LevelId(self.savepoints);
        self.inner.push(Level::new(id, Some(outer)));
        id
    }

    /// This savepoint is no longer in use, and none of its requests is in flight.
    pub fn forget(&mut self, id: LevelId) {
        self.inner.retain(|level| level.id != id);
    }

    // --- state ---

    /// Whether BEGIN or SAVEPOINT was submitted, so that there is something to end.
    pub fn is_sent(&self, id: LevelId) -> bool {
        self.state(id) != State::Unsent
    }

    /// Whether something of it may have reached the server. Exact once its BEGIN or SAVEPOINT has
    /// ended.
    pub fn has_left(&self, id: LevelId) -> bool {
        let was_unsent = |why: &E| why.outcome() == Outcome::NotSent;
        let mut refused = self.around(id).filter_map(|level| level.refused.as_ref());
        self.is_sent(id) && !refused.any(was_unsent)
    }

    /// Whether a statement of it was left out, so that it must not be committed or kept.
    pub fn is_incomplete(&self, id: LevelId) -> bool {
        self.level(id).is_some_and(|level| level.is_incomplete)
    }

    /// Whether its BEGIN or SAVEPOINT succeeded, and nothing waits to go in front of the next
    /// request.
    pub fn is_known(&self, id: LevelId) -> bool {
        self.state(id) == State::Done && self.owed.is_none()
    }

    /// Whether there may be something to undo.
    pub fn is_open(&self, id: LevelId) -> bool {
        self.is_sent(id) && self.refusal().is_none()
    }

    /// Why BEGIN was refused, if it was. Nothing of the transaction runs then.
    pub fn refusal(&self) -> Option<&E> {
        self.level(LevelId::OUTERMOST)?.refused.as_ref()
    }

    /// Why a statement was skipped: its BEGIN or SAVEPOINT, or that of a level around it, failed
    /// before.
    pub fn why_skipped(&self, id: LevelId) -> Option<&E> {
        self.around(id).filter_map(|level| level.refused.as_ref()).last()
    }

    /// Why a level failed, if that is known.
    pub fn failure(&self, id: LevelId) -> Option<&E> {
        self.level(id)?.failure.as_ref()
    }

    /// Whether a COMMIT behind what was answered until now can't commit: the server has refused a
    /// statement, and has run none since.
    pub fn is_doomed(&self) -> bool {
        let is_refused = |it: &E| it.answer().is_some() && it.outcome() == Outcome::Rejected;
        !self.is_in_doubt && self.outermost.failure.as_ref().is_some_and(is_refused)
    }

    /// The first failure of BEGIN or any of its statements for which the transaction is run again:
    /// a serialization failure, a deadlock, or what came of a text that was remembered as it is no
    /// more, or of a prepared statement that is lost, where the client has found that out since.
    pub fn conflict(&self) -> Option<&E> {
        let suspect = self.suspect.as_ref().filter(|it| self.explains(it));
        self.conflict.as_ref().or(suspect)
    }

    /// Whether the transaction, whose begin or end failed in this way, is run again.
    pub fn runs_again(&self, end: &E) -> bool {
        if self.refusal().is_some() {
            return self.conflict.is_some();
        }
        let is_outdated = || is_suspect(end) && self.explains(end);
        verdict::runs_again(end) || end.outcome() == Outcome::Rejected && is_outdated()
    }

    /// Whether what was found since the transaction began explains such a failure: that a statement is
    /// lost, where the server has no such statement, or else that something has changed. What fails
    /// for that reason says so to the client at once, and the next use asks anew.
    fn explains(&self, failure: &E) -> bool {
        let (generation, [changes, losses]) = &self.generation;
        match is_loss(failure) {
            true => generation.losses() != *losses,
            false => generation.now() != *changes,
        }
    }

    fn level(&self, id: LevelId) -> Option<&Level<E>> {
        if id == LevelId::OUTERMOST {
            return Some(&self.outermost);
        }
        let at = self.inner.binary_search_by_key(&id, |level| level.id).ok()?;
        self.inner.get(at)
    }

    fn level_mut(&mut self, id: LevelId) -> Option<&mut Level<E>> {
        if id == LevelId::OUTERMOST {
            return Some(&mut self.outermost);
        }
        let at = self.inner.binary_search_by_key(&id, |level| level.id).ok()?;
        self.inner.get_mut(at)
    }

    /// A level and those around it, from the inside out.
    fn around(&self, id: LevelId) -> impl Iterator<Item = &Level<E>> {
        std::iter::successors(self.level(id), |level| self.level(level.outer?))
    }

    fn state(&self, id: LevelId) -> State {
        self.level(id).map_or(State::Unsent, |level| level.state)
    }

    // --- answers ---

    /// A request was answered, or failed otherwise.
    pub fn answered(&mut self, role: Role, error: Option<&E>) {
        match role {
            Role::Begins(id) => self.begun(id, error),
            Role::Within(id) => self.heard(id, error),
            Role::Nobody | Role::Caller => {}
        }
    }

    fn begun(&mut self, id: LevelId, error: Option<&E>) {
        let Some(level) = self.level_mut(id) else { return };
        let Some(error) = error else { return level.state = State::Done };
        let outer = level.outer;
        if !error.is_skipped() {
            let command = if outer.is_some() { "SAVEPOINT" } else { "BEGIN" };
            level.refused.get_or_insert_with(|| error.clone().about(command));
        }
        match outer {
            // The transaction has failed. Rolling back to a savepoint that was never set changes
            // nothing.
            Some(outer) => self.heard(outer, Some(error)),
            None => {
                level.state = State::Refused;
                // BEGIN names no statement: what is missing is the guard behind a reset that has
                // failed, by a cancel that was meant for another, say.
                if is_loss(error) {
                    self.conflict.get_or_insert_with(|| error.clone());
                }
            }
        }
    }

    /// A statement of it was given up before it was submitted, or was refused: a commit must not leave
    /// it out, since its caller may hear of that only behind the commit. One that comes behind the
    /// end of the level is none of it.
    pub fn leave_out(&mut self, id: LevelId) {
        if self.around(id).any(|level| level.is_over) {
            return;
        }
        if let Some(level) = self.holder(id) {
            level.is_incomplete = true;
        }
    }

    /// The level that what is behind a savepoint belongs to.
    fn holder(&mut self, id: LevelId) -> Option<&mut Level<E>> {
        let holder = self.around(id).find(|level| !level.is_released).map(|level| level.id)?;
        self.level_mut(holder)
    }

    fn heard(&mut self, id: LevelId, error: Option<&E>) {
        let Some(level) = self.holder(id) else { return };
        match error {
            None => level.failure = None,
            Some(error) if error.answer().is_some() => {
                level.failure.get_or_insert_with(|| error.clone());
                if is_conflict(error) {
                    self.conflict.get_or_insert_with(|| error.clone());
                } else if is_suspect(error) {
                    self.suspect.get_or_insert_with(|| error.clone());
                }
            }
            Some(error) => self.is_in_doubt |= error.outcome() == Outcome::Unknown,
        }
    }

    /// The end of a level was requested. From now on its statements are refused, for example those
    /// of a pipeline that is still open. Otherwise they would begin the level anew.
    pub fn end(&mut self, id: LevelId) {
        if let Some(level) = self.level_mut(id) {
            level.is_over = true;
        }
    }

    // --- what is sent ---

    /// The requests that go in front of a request. They count as sent unless the host calls
    /// [`not_sent`](Block::not_sent). `follows`: the request follows another of the transaction in
    /// its segment, and is skipped together with that.
    ///
    /// # Errors
    /// Why the request must not be sent.
    pub fn front(&mut self, id: LevelId, part: Part, follows: bool) -> Result<Front, NotSent<E>> {
        if let Some(refusal) = self.refusal() {
            return Err(NotSent::NotBegun(refusal.clone().with_outcome(Outcome::NotSent)));
        }
        if self.level(id).is_none() || self.around(id).any(|level| level.is_over) {
            return Err(NotSent::Ended(Refusal::TransactionEnded));
        }
        if part == Part::Commit && self.is_incomplete(id) {
            let why = E::rolled_back(verdict::INCOMPLETE, None);
            return Err(NotSent::Incomplete(why.with_outcome(Outcome::NotSent)));
        }
        let mut front = Front::default();
        let owed = self.owed.take();
        if let (Part::Statement, Some(savepoint)) = (part, owed) {
            // If the RELEASE fails, its savepoint had failed, and so does everything behind it.
            front.command(&release_text(savepoint), Role::Nobody, SyncPoint::Own)?;
            front.released = owed;
        }
        let is_covered = part == Part::Undo || follows && front.released.is_none();
        if !is_covered && self.state(LevelId::OUTERMOST) == State::Sent {
            let start = front.bytes.len();
            self.begin.write_guard(&mut front.bytes)?;
            front.push(Role::Nobody, Begin::guard(), SyncPoint::Member, start);
        }
        self.add_unsent(id, &mut front)?;
        Ok(front)
    }

    /// The same on their own, for a request that can't be submitted together with them. That costs
    /// no trip, since no caller waits for the answer. `None` if nothing waits to be sent.
    ///
    /// # Errors
    /// Nothing of the level may be sent.
    pub fn front_alone(&mut self, id: LevelId) -> Result<Option<Front>, NotSent<E>> {
        let mut front = self.front(id, Part::Statement, false)?;
        let begins = |piece: &super::front::Piece| matches!(piece.role, Role::Begins(_));
        if front.released.is_none() && !front.pieces.iter().any(begins) {
            return Ok(None);
        }
        front.sync();
        Ok(Some(front))
    }

    /// The front was not submitted, so it still waits.
    pub fn not_sent(&mut self, front: &Front) {
        for piece in &front.pieces {
            if let Role::Begins(id) = piece.role
                && let Some(level) = self.level_mut(id)
            {
                level.state = State::Unsent;
            }
        }
        self.owed = front.released.or(self.owed);
    }

    /// Adds BEGIN and SAVEPOINTs that were not sent yet, from the outermost level inwards.
    fn add_unsent(&mut self, id: LevelId, front: &mut Front) -> Result<(), EncodeError> {
        let unsent = self.around(id).take_while(|level| level.state == State::Unsent);
        let inner = unsent.map(|level| level.id).filter(|id| *id != LevelId::OUTERMOST);
        let inner: Vec<LevelId> = inner.collect();
        if self.state(LevelId::OUTERMOST) == State::Unsent {
            // One allocation for BEGIN and the statement behind it.
            front.bytes.reserve(192);
            let start = front.bytes.len();
            self.begin.write(&mut front.bytes)?;
            front.push(Role::Begins(LevelId::OUTERMOST), command(), SyncPoint::Member, start);
            self.outermost.state = State::Sent;
        }
        for &id in inner.iter().rev() {
            let text = text_of("SAVEPOINT ", id);
            front.command(&text, Role::Begins(id), SyncPoint::Member)?;
            if let Some(level) = self.level_mut(id) {
                level.state = State::Sent;
            }
        }
        Ok(())
    }

    /// Undoes everything since a savepoint, and removes the savepoint at the server.
    ///
    /// # Errors
    /// None: the names of savepoints have no NUL and are short.
    pub fn undo(&mut self, id: LevelId) -> Result<Front, EncodeError> {
        // Savepoints inside it are removed, too.
        self.owed = None;
        let outer = self.level(id).and_then(|level| level.outer);
        let mut front = Front::default();
        let undo = text_of("ROLLBACK TO SAVEPOINT ", id);
        front.command(&undo, outer.map_or(Role::Nobody, Role::Within), SyncPoint::Member)?;
        front.command(&release_text(id), Role::Caller, SyncPoint::Own)?;
        Ok(front)
    }

    /// Sends the RELEASE of a savepoint with the next request. From now on its statements belong to
    /// the level around it.
    pub fn release(&mut self, id: LevelId) {
        let Some(level) = self.level_mut(id) else { return };
        level.is_released = true;
        let (failure, outer, is_incomplete) =
            (level.failure.clone(), level.outer, level.is_incomplete);
        self.owed = Some(id);
        if let Some(outer) = outer.filter(|_| is_incomplete) {
            self.leave_out(outer);
        }
        if let (Some(outer), Some(failure)) = (outer, failure) {
            self.heard(outer, Some(&failure));
        }
    }

    /// Takes back a RELEASE that waits for the next request, to send it on its own. Returns its
    /// text, unless it was sent already.
    pub fn take_release(&mut self, id: LevelId) -> Option<String> {
        self.owed.take_if(|owed| *owed == id).map(release_text)
    }

    /// The BEGIN, which also writes the guard.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }
}

impl<E> Level<E> {
    fn new(id: LevelId, outer: Option<LevelId>) -> Level<E> {
        let (refused, failure) = (None, None);
        let state = State::Unsent;
        let (is_incomplete, is_released, is_over) = (false, false, false);
        Level { id, outer, state, refused, failure, is_incomplete, is_released, is_over }
    }
}

fn release_text(id: LevelId) -> String {
    text_of("RELEASE SAVEPOINT ", id)
}

fn text_of(command: &str, id: LevelId) -> String {
    [command, "onetrip_", &id.0.to_string()].concat()
}
