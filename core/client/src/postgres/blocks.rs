//! A transaction that the host opened, with its savepoints. `client::transaction` decides what is
//! sent; this module submits it to the engine.
//!
//! Statements submitted while it is open belong to its innermost level. Members share a sync point,
//! which is sent with them at the end of the turn.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Cause, End, Failure, Outcome, Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::transaction::block::{Block, LevelId, NotSent, Part};
use onetrip_postgres::client::transaction::front::{Front, Role, write_command};
use onetrip_postgres::client::transaction::modes::Modes;
use onetrip_postgres::client::transaction::pending::{Begin, PendingBegin, Treatment};
use onetrip_postgres::client::transaction::verdict::{self, Failure as Failed};
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{ErrorResponse, Header, SYNC, TransactionStatus};

use super::request::Submission;
use super::submitting::enter;
use super::{Postgres, Refused, Use};
use crate::completion::{Completions, close, end, end_code, kind, outcome_code, outcome_of};
use crate::flag;

/// A transaction of the host's.
#[derive(Debug)]
pub(super) struct Transaction {
    block: Block<Told>,
    /// The transaction and the savepoints that are open, the innermost last.
    open: Vec<LevelId>,
    /// The token of COMMIT, and whether the server has confirmed it.
    commit: (u32, bool),
    /// The token of what ends the transaction, while that is not answered.
    end: u32,
    /// The result of COMMIT, once it is known.
    result: Option<Result<(), Told>>,
}

/// What a host can do with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sets a savepoint. Statements submitted from now on are behind it.
    Savepoint,
    /// Ends the innermost savepoint: releases it, or rolls back to it if a statement behind it has
    /// failed.
    Release,
    /// Rolls back to the innermost savepoint, and ends it.
    Undo,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// Ends the segment of the members that were submitted, if there is one.
    Flush,
    /// Returns whether the start of the transaction was answered. After that, requests may follow
    /// that the server would not skip.
    IsKnown,
    /// Returns whether the transaction is to be run again as it stands.
    RunsAgain,
    /// Returns the outcome of a statement that was sent with COMMIT and failed. The token is the
    /// outcome of the statement alone.
    WithCommit,
    /// Forgets the transaction.
    Forget,
    /// Returns whether something of the innermost level may have reached the server, as
    /// [`verdict::left`] asks; of a transaction that a text has begun, too. When the connection has
    /// ended, [`Act::Savepoint`], [`Act::Release`] and [`Act::Undo`] still say which level that is.
    HasLeft,
    /// A statement of the innermost level was given up before it was submitted. The level can't be
    /// committed or released without it: both roll back, and say so.
    LeaveOut,
}

/// A failure as the server or the engine reported it.
#[derive(Clone, Debug)]
struct Told {
    failure: Failure,
    /// The server's error. A text may precede it.
    block: Bytes,
    /// The end code of the requests that were skipped because of it.
    code: u32,
}

impl Failed for Told {
    fn answer(&self) -> Option<(&str, Option<&str>)> {
        let error = match self.code {
            // A text precedes the error.
            end::ROLLED_BACK => {
                self.block.split(|byte| *byte == 0).next().map_or(0, |it| it.len() + 1)
            }
            _ => 0,
        };
        let body = self.block.get(error + Header::LEN..)?;
        if self.failure.cause != Cause::Server {
            return None;
        }
        let fields = ErrorResponse::decode(body).ok()?.fields;
        let text = |it| fields.value(it).and_then(|it| str::from_utf8(it).ok());
        Some((text(field::CODE)?, text(field::ROUTINE)))
    }

    fn is_skipped(&self) -> bool {
        self.failure.cause == Cause::Aborted
    }

    fn outcome(&self) -> Outcome {
        self.failure.outcome
    }

    fn with_outcome(self, outcome: Outcome) -> Told {
        Told { failure: Failure { outcome, ..self.failure }, ..self }
    }

    fn about(self, what: &'static str) -> Told {
        Told { code: if what == "BEGIN" { end::BEGIN } else { end::SAVEPOINT }, ..self }
    }

    fn rolled_back(text: &'static str, why: Option<Told>) -> Told {
        let mut block = BytesMut::from(text);
        block.extend_from_slice(b"\0");
        block.extend_from_slice(&why.map(|why| why.block).unwrap_or_default());
        let failure = Failure { outcome: Outcome::Rejected, cause: Cause::Server };
        Told { failure, block: block.freeze(), code: end::ROLLED_BACK }
    }
}

impl Told {
    fn end(self) -> (u32, Bytes) {
        (self.code | outcome_code(self.failure.outcome) << 8, self.block)
    }
}

/// The token of a request that the transaction itself submits. It encodes the role of the request,
/// and is larger than every token of a host.
fn own_token(role: Role) -> Token {
    match role {
        Role::Begins(LevelId(number)) => Token(u64::from(number) | BEGINS),
        Role::Within(LevelId(number)) => Token(u64::from(number) | WITHIN),
        Role::Nobody | Role::Caller => Token::DISCARD,
    }
}

/// A token that no host has.
const NOBODYS: u32 = u32::MAX;

const BEGINS: u64 = 1 << 32;
const WITHIN: u64 = 1 << 33;

/// The role of a request that the transaction itself submitted; none for a request of the host.
pub(super) fn role_of(token: Token) -> Option<Role> {
    let level = LevelId(token.0 as u32);
    match token.0 & !u64::from(u32::MAX) {
        BEGINS => Some(Role::Begins(level)),
        WITHIN => Some(Role::Within(level)),
        _ => None,
    }
}

impl Transaction {
    fn level(&self) -> LevelId {
        self.open.last().copied().unwrap_or(LevelId::OUTERMOST)
    }

    /// Looks for the completion of COMMIT in a part of a reply.
    pub(super) fn look(&mut self, token: u32, mut block: &[u8]) {
        const DONE: &[u8] = b"COMMIT\0";
        if self.commit.0 != token {
            return;
        }
        while let Some((head, _)) = block.split_first_chunk::<{ Header::LEN }>() {
            let len = 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let body = block.get(Header::LEN..len).unwrap_or_default();
            self.commit.1 |= head[0] == backend::COMMAND_COMPLETE && body == DONE;
            block = block.get(len..).unwrap_or_default();
        }
    }

    /// A request has ended. Returns the end that the host is told, if it differs from the engine's.
    pub(super) fn ended(
        &mut self,
        role: Role,
        token: u32,
        end: End,
        block: &Bytes,
    ) -> Option<(u32, Bytes)> {
        let result = match end {
            End::Failed(failure) => Err(Told { failure, block: block.clone(), code: end::SERVER }),
            _ => Ok(()),
        };
        self.block.answered(role, result.as_ref().err());
        let level = match role {
            Role::Within(level) => level,
            _ => LevelId::OUTERMOST,
        };
        let is_commit = token != NOBODYS && self.commit.0 == token;
        if self.end == token {
            self.end = NOBODYS;
        }
        let told = match &result {
            _ if is_commit && self.block.is_incomplete(LevelId::OUTERMOST) => self.incomplete(),
            Err(told) if is_commit && told.failure.cause == Cause::Closed => {
                let told = Told { code: end::CLOSED, ..told.clone() };
                Some(verdict::not_committed(told, true, self.block.is_doomed()))
            }
            Err(told) if told.is_skipped() => {
                let why = self.block.why_skipped(level).cloned();
                why.map(|why| why.with_outcome(told.outcome()))
            }
            Ok(()) if is_commit => {
                let tag = self.commit.1.then_some("COMMIT");
                verdict::committed(tag, self.block.failure(LevelId::OUTERMOST).cloned()).err()
            }
            _ => None,
        };
        if is_commit {
            self.result = Some(told.clone().map_or(result, Err));
        }
        told.map(Told::end)
    }

    /// A level was undone for this reason, and not because of an error.
    fn undone(&self, level: LevelId, text: &'static str) -> Told {
        let has_left = self.block.has_left(level);
        let outcome = verdict::left(Outcome::NotSent, verdict::Leaver::Own, has_left);
        Told::rolled_back(text, None).with_outcome(outcome)
    }

    /// Why it can't be committed, where a statement of it was left out.
    fn incomplete(&self) -> Option<Told> {
        let is_incomplete = self.block.is_incomplete(LevelId::OUTERMOST);
        is_incomplete.then(|| self.undone(LevelId::OUTERMOST, verdict::INCOMPLETE))
    }

    fn runs_again(&self) -> bool {
        match &self.result {
            None => self.block.conflict().is_some(),
            Some(result) => result.as_ref().is_err_and(|end| self.block.runs_again(end)),
        }
    }

    fn with_commit(&self, statement: Outcome) -> Outcome {
        let commit = self.result.as_ref().map(|it| it.as_ref().err().map(Told::outcome));
        // Without a COMMIT nothing was committed.
        verdict::with_commit(statement, commit.unwrap_or(Some(Outcome::Rejected)))
    }
}

impl Postgres {
    /// Begins a transaction. Nothing is sent yet.
    pub(crate) fn open_block(&mut self, modes: Modes) {
        self.transactions += 1;
        let begin = Begin::new(modes.begin(), self.transactions);
        let block = Block::new(begin, self.statements.generation());
        let open = vec![LevelId::OUTERMOST];
        let commit = (NOBODYS, false);
        self.block = Some(Transaction { block, open, commit, end: NOBODYS, result: None });
    }

    /// Acts on the transaction. The end of an act that takes a token comes under that token.
    pub(crate) fn act(
        &mut self,
        now: Time,
        act: Act,
        token: u32,
        to: &mut Completions,
    ) -> Result<u32, Refused> {
        if act == Act::HasLeft && self.block.is_none() {
            return Ok(self.has_begun().into());
        }
        if !self.engine.is_open() && self.ends_with_connection(act) {
            return Err(Refused::Closed);
        }
        let ends = matches!(act, Act::Release | Act::Commit | Act::Rollback);
        if ends {
            self.check(token)?;
        }
        let Some(it) = &mut self.block else { return Err(Refused::Malformed) };
        let level = it.level();
        let result = match act {
            Act::Savepoint => {
                let inner = it.block.savepoint(level);
                it.open.push(inner);
                Ok(())
            }
            Act::Release => self.release(now, token, level, to),
            Act::Undo => self.undo(now, level, to),
            Act::Commit => self.end_block(now, token, Part::Commit, to),
            Act::Rollback => self.end_block(now, token, Part::Undo, to),
            Act::Flush => self.end_segment(now),
            Act::IsKnown => return Ok(it.block.is_known(level).into()),
            Act::RunsAgain => return Ok(it.runs_again().into()),
            Act::WithCommit => return Ok(outcome_code(it.with_commit(outcome_of(token)))),
            Act::HasLeft => return Ok(it.block.has_left(level).into()),
            Act::LeaveOut => {
                self.leave_out();
                Ok(())
            }
            Act::Forget => {
                self.block = None;
                Ok(())
            }
        };
        // Behind what was given up nobody waits for it longer than for that.
        if act == Act::Rollback && self.engine.is_given_up() {
            self.caller_gone(now, token);
        }
        self.settle(to);
        result.map(|()| 0)
    }

    /// A statement of the innermost level was refused: see [`Block::leave_out`].
    ///
    /// [`Block::leave_out`]: onetrip_postgres::client::transaction::block::Block::leave_out
    pub(super) fn leave_out(&mut self) {
        if let Some(it) = &mut self.block {
            let level = it.level();
            it.block.leave_out(level);
        }
    }

    /// The connection has ended, and has undone what the act would end: what is asked next is asked
    /// of the level around that. Whether nothing more is to be done.
    fn ends_with_connection(&mut self, act: Act) -> bool {
        let Some(it) = &mut self.block else { return false };
        let level = it.level();
        match act {
            Act::Release | Act::Undo => self.leave_level(level),
            Act::Commit | Act::Rollback => it.open.truncate(1),
            _ => {}
        }
        matches!(act, Act::Release | Act::Undo)
    }

    /// Whether a transaction that a text has begun may be known to the server.
    fn has_begun(&self) -> bool {
        let is_sent = |it: &PendingBegin| !it.is_held() && it.refusal().is_none();
        self.engine.protocol().status() != TransactionStatus::Idle
            || self.pending_begin.as_ref().is_some_and(is_sent)
    }

    /// Whether this is the token of what ends the transaction, sent or not.
    pub(super) fn ends_transaction(&self, token: u32) -> bool {
        self.block.as_ref().is_some_and(|it| it.end == token)
    }

    /// A request has ended, so its token may be another's.
    pub(super) fn forget_end(&mut self, token: u32) {
        if let Some(it) = self.block.as_mut().filter(|it| it.end == token) {
            it.end = NOBODYS;
        }
    }

    fn release(
        &mut self,
        now: Time,
        token: u32,
        level: LevelId,
        to: &mut Completions,
    ) -> Result<(), Refused> {
        let Some(it) = &mut self.block else { return Ok(()) };
        let how = match it.block.failure(level).cloned() {
            Some(failure) => {
                self.undo(now, level, to)?;
                verdict::not_released(Some(failure)).end()
            }
            None if it.block.is_incomplete(level) => {
                let why = it.undone(level, verdict::INCOMPLETE_SAVEPOINT);
                self.undo(now, level, to)?;
                why.end()
            }
            None => {
                if it.block.is_sent(level) {
                    it.block.release(level);
                }
                self.leave_level(level);
                (end::COMPLETE, Bytes::new())
            }
        };
        to.push(kind::END, token, (0, how.0), how.1);
        Ok(())
    }

    fn undo(&mut self, now: Time, level: LevelId, to: &mut Completions) -> Result<(), Refused> {
        self.end_segment(now)?;
        let Some(it) = &mut self.block else { return Ok(()) };
        if it.block.is_open(level) {
            let front = it.block.undo(level)?;
            if self.submit_front(now, front, 0).is_err() {
                // The statements that were to be undone would otherwise remain in the transaction.
                const WHY: &[u8] = b"the queue had no room for the ROLLBACK TO of a savepoint";
                self.end(close::UNUSABLE, Bytes::from_static(WHY), to);
            }
        }
        self.leave_level(level);
        Ok(())
    }

    fn leave_level(&mut self, level: LevelId) {
        let is_idle = self.is_idle();
        let Some(it) = &mut self.block else { return };
        it.block.end(level);
        it.open.retain(|open| *open < level);
        if !it.block.is_sent(level) || is_idle {
            it.block.forget(level);
        }
    }

    /// Ends the transaction. If nothing of it was sent, it ends at once.
    fn end_block(
        &mut self,
        now: Time,
        token: u32,
        part: Part,
        to: &mut Completions,
    ) -> Result<(), Refused> {
        self.end_segment(now)?;
        let Some(it) = &mut self.block else { return Ok(()) };
        it.open.truncate(1);
        let commits = part == Part::Commit;
        // What its caller gave up would be missing.
        let part = if it.block.is_incomplete(LevelId::OUTERMOST) { Part::Undo } else { part };
        let text = if part == Part::Commit { "COMMIT" } else { "ROLLBACK" };
        let is_unsent = !it.block.is_sent(LevelId::OUTERMOST) && self.engine.is_open();
        if it.result.is_some() || is_unsent {
            let incomplete = it.incomplete().filter(|_| commits);
            let (how, block) = incomplete.map_or((end::COMPLETE, Bytes::new()), Told::end);
            to.push(kind::END, token, (0, how), block);
        } else if part == Part::Undo && !it.block.is_open(LevelId::OUTERMOST) {
            // The transaction is over already. The answer to a sync point ends this request.
            self.submit_sync(now, Token(token.into()), Treatment::Plain)?;
            self.begin(token, None, None, true, false);
        } else if self.lead(now, token, (part, 0), to)? {
            self.submit_end(now, token, (part, text))?;
        }
        let is_submitted = self.uses.get(token as usize).is_some_and(|it| it.is_live);
        if let Some(it) = &mut self.block {
            if commits && is_submitted {
                it.commit = (token, false);
            }
            it.block.end(LevelId::OUTERMOST);
            it.end = if is_submitted { token } else { NOBODYS };
        }
        let is_let_run = |it: &Use| it.is_live && it.level.is_some() && it.is_let_run;
        if part != Part::Commit && self.uses.iter().any(is_let_run) {
            self.end_block_until(now.after(self.cancel_wait));
        }
        let given_up =
            self.uses.iter().filter(|it| it.level.is_some()).filter_map(|it| it.given_up);
        if let Some(until) = given_up.max() {
            self.end_block_until(if part == Part::Commit {
                now.after(self.cancel_wait)
            } else {
                until
            });
        }
        Ok(())
    }

    /// Whether this request ends the transaction and was not answered as long as its caller waited.
    pub(super) fn is_late_end(&self, token: u32, end: End) -> bool {
        let is_late = matches!(end, End::Failed(Failure { cause: Cause::Deadline, .. }));
        is_late && self.ends_transaction(token)
    }

    /// The caller of a statement gave it up: he waits for the end of its transaction until then.
    pub(super) fn end_block_until(&mut self, until: Time) {
        if let Some(it) = self.block.as_ref().filter(|it| it.end != NOBODYS) {
            self.engine.wait_until(Token(it.end.into()), until);
        }
    }

    fn submit_end(
        &mut self,
        now: Time,
        token: u32,
        (part, text): (Part, &str),
    ) -> Result<(), Refused> {
        let expect = Expect::sync().parse().bind().execute().leaves_nothing();
        let expect = if part == Part::Commit { expect.commits() } else { expect };
        let request = Request {
            pinned: true,
            in_order: true,
            ..Request::isolated(Token(token.into()), expect.into())
        };
        enter(&mut self.engine, now, request, text.len(), &mut |out| {
            write_command(out, text)?;
            out.extend_from_slice(&SYNC);
            Ok(())
        })?;
        self.segment_open = false;
        self.begin(token, None, None, true, false);
        Ok(())
    }

    /// Ends an open segment with a sync point that no caller waits for.
    fn end_segment(&mut self, now: Time) -> Result<(), Refused> {
        if self.block.is_some() && std::mem::take(&mut self.segment_open) {
            self.submit_sync(now, Token::DISCARD, Treatment::Plain)?;
        }
        Ok(())
    }

    /// Submits what must precede a statement of the transaction, if anything. False if the
    /// statement must not be sent: it has then ended.
    pub(super) fn lead_statement(
        &mut self,
        now: Time,
        token: u32,
        submission: &Submission<'_>,
        to: &mut Completions,
    ) -> Result<bool, Refused> {
        let Some(it) = &self.block else { return Ok(true) };
        // The server would not skip either of these after an error.
        if submission.has(flag::SIMPLE | flag::COPY_IN) && !it.block.is_known(it.level()) {
            return Err(Refused::Malformed);
        }
        if !submission.has(flag::MEMBER) {
            self.end_segment(now)?;
        }
        self.lead(now, token, (Part::Statement, submission.size_max(0)), to)
    }

    /// Submits what must precede a request of the host of `bytes` bytes. False if the request must
    /// not be sent: it has then ended.
    pub(super) fn lead(
        &mut self,
        now: Time,
        token: u32,
        (part, bytes): (Part, usize),
        to: &mut Completions,
    ) -> Result<bool, Refused> {
        let follows = self.segment_open;
        let Some(it) = &mut self.block else { return Ok(true) };
        let level = it.level();
        match it.block.front(level, part, follows) {
            Ok(front) => self.submit_front(now, front, bytes).map(|()| true),
            Err(NotSent::NotBegun(why)) => {
                // The end of COMMIT reports why the whole transaction failed.
                let whole = it.block.refusal().filter(|_| part == Part::Commit).cloned();
                let (code, block) = whole.unwrap_or(why).end();
                to.push(kind::END, token, (0, code), block);
                Ok(false)
            }
            Err(NotSent::Incomplete(why)) => {
                let (code, block) = why.end();
                to.push(kind::END, token, (0, code), block);
                Ok(false)
            }
            Err(NotSent::Ended(_)) => Err(Refused::Closed),
            Err(NotSent::Unencodable(error)) => Err(error.into()),
        }
    }

    /// Submits a front, if there is room for it, for `bytes` more bytes and for a sync point.
    fn submit_front(&mut self, now: Time, mut front: Front, bytes: usize) -> Result<(), Refused> {
        let Some(it) = &mut self.block else { return Ok(()) };
        if !self.engine.has_room(front.pieces.len() + 2, front.bytes.len() + bytes) {
            it.block.not_sent(&front);
            return Err(if self.engine.is_open() { Refused::Full } else { Refused::Closed });
        }
        let pieces = std::mem::take(&mut front.pieces);
        for piece in pieces {
            let token = own_token(piece.role);
            let Request { sync, pinned, .. } = piece.request(token);
            let own = Request::isolated(token, piece.expect.into());
            let request = Request { sync, pinned, in_order: true, ..own };
            let framed = front.bytes.split_to(piece.len);
            enter(&mut self.engine, now, request, piece.len, &mut |out| {
                out.extend_from_slice(&framed);
                Ok(())
            })?;
            self.own_requests += usize::from(token != Token::DISCARD);
            self.segment_open = sync == SyncPoint::Member;
        }
        Ok(())
    }

    /// A request that the transaction itself submitted has ended.
    pub(super) fn own_ended(&mut self, role: Role, block: &Bytes, end: End) {
        self.own_requests -= 1;
        if let Some(it) = &mut self.block {
            it.ended(role, NOBODYS, end, block);
        }
    }

    /// The end of a request as its host is told it.
    pub(super) fn told(&mut self, token: u32, used: &Use, end: End, block: Bytes) -> (u32, Bytes) {
        let role = used.level.map_or(Role::Nobody, Role::Within);
        let told = self.block.as_mut().and_then(|it| it.ended(role, token, end, &block));
        told.unwrap_or_else(|| (end_code(end), block))
    }

    /// The level that a statement belongs to.
    pub(super) fn level(&self) -> Option<LevelId> {
        self.block.as_ref().map(Transaction::level)
    }
}
