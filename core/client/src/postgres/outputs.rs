//! Turns the engine's outputs into completions for the host, and learns from them about statements.

use bytes::Bytes;
use onetrip_engine::memory::is_there;
use onetrip_engine::pool::Task;
use onetrip_engine::{Cause, CloseReason, End, Failure, Outcome, Output, Token};
use onetrip_postgres::Event as Told;
use onetrip_postgres::client::statements::{Fault, Seen, fault_of};
use onetrip_postgres::client::transaction::pending::PendingBegin;
use onetrip_postgres::message::bind;

use super::blocks::role_of;
use super::positions::is_guard;
use super::statements::Number;
use super::{BEGIN, BEGIN_SYNC, Postgres};
use crate::completion::{Completions, close, close_code, end, event, kind, outcome, too_long};
use crate::protocol::Event;

/// Memory that is allocated at once for a message whose length the server announces. More is
/// allocated only as bytes arrive.
const GATHER_AHEAD_MAX: usize = 1 << 20;

/// How a request ends whose connection ended before any byte of it was sent.
const NOT_SENT: End = End::Failed(Failure { outcome: Outcome::NotSent, cause: Cause::Closed });

impl Postgres {
    pub(super) fn settle(&mut self, to: &mut Completions) {
        if self.login.is_none() {
            self.tell_positions(to);
        }
        while let Some(output) = self.engine.poll_output() {
            self.take(output, to);
        }
        if self.engine.protocol_mut().take_statements_lost() {
            self.statements.lost();
        }
        if self.engine.is_closed() {
            self.pending_begin = None;
            self.close_delayed(to);
        }
        self.tell_flow(to);
        while let Some(number) = self.statements.take_forgotten() {
            to.push(kind::FORGOTTEN, 0, (number, 0), Bytes::new());
        }
    }

    fn take(&mut self, output: Output<Event>, to: &mut Completions) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. }
                if is_guard(token) =>
            {
                self.guard_came(token, &block);
            }
            Output::Ended { token, block, end, .. } if is_guard(token) => {
                self.guard_ended(token, &block, end, to);
            }
            // Of a BEGIN only the end matters.
            Output::Data { token: BEGIN | BEGIN_SYNC, .. }
            | Output::Piece { token: BEGIN | BEGIN_SYNC, .. } => {}
            Output::Data { token, .. } | Output::Piece { token, .. }
                if role_of(token).is_some() => {}
            Output::Ended { token: BEGIN, block, end, .. } => self.begun(block, end),
            Output::Ended { token: BEGIN_SYNC, .. } => self.own_requests -= 1,
            Output::Data { token, ref block } | Output::Piece { token, ref block, .. }
                if self.is_left(token, block.len(), to) => {}
            Output::Data { token, block } => {
                let token = token.0 as u32;
                let statement = self.note(token, &block);
                to.push(kind::DATA, token, (statement, 0), block);
            }
            Output::Piece { token, block, left } if self.pieces => {
                let token = token.0 as u32;
                let statement = self.note(token, &[]);
                to.push(kind::PIECE, token, (statement, left as u32), block);
            }
            Output::Piece { token, block, left } => self.gather(token, block, left, to),
            Output::Ended { token, block, end, together } => match role_of(token) {
                Some(role) => self.own_ended(role, &block, end),
                None => {
                    let token = token.0 as u32;
                    if together {
                        self.pass_task(token);
                    }
                    self.ended(token, block, end, to);
                }
            },
            Output::Restarted { token } => self.restarted(token.0 as u32, to),
            Output::Event { event: Event::Postgres(event), block } => {
                let which = match event {
                    Told::Notice => event::NOTICE,
                    Told::Notification => event::NOTIFICATION,
                    Told::ParameterStatus => event::PARAMETER_STATUS,
                    Told::StaleNotification => return,
                };
                to.push(kind::EVENT, 0, (which, 0), block);
            }
            Output::Full => to.push(kind::FULL, 0, (0, 0), Bytes::new()),
            Output::Drained => to.push(kind::DRAINED, 0, (0, 0), Bytes::new()),
            Output::Cancel => to.push(kind::CANCEL, 0, (0, 0), Bytes::new()),
            Output::NotCancelled { token } => self.not_cancelled(token.0 as u32, to),
            Output::Astray => to.push(kind::ASTRAY, 0, (0, 0), Bytes::new()),
            Output::Leaving => to.push(kind::ASTRAY, 0, (1, 0), Bytes::new()),
            Output::Closed(reason) => self.note_closed(reason, to),
            #[cfg(feature = "redis")]
            Output::Event { event: Event::Redis(_), .. } => {}
            // This host opens no groups and waits for no room.
            Output::Granted { .. } | Output::Room { .. } => {}
        }
    }

    /// The server is not asked to cancel a request. Its caller is told once.
    fn not_cancelled(&mut self, token: u32, to: &mut Completions) {
        let Some(used) = self.uses.get_mut(token as usize) else { return };
        if !std::mem::replace(&mut used.is_late, true) {
            to.push(kind::NOT_CANCELLED, token, (0, 0), Bytes::new());
            self.given_up_until = self.next_given_up();
        }
    }

    /// A request is sent again, so what came of its reply is void, and so is what was learned of its
    /// statement from it.
    fn restarted(&mut self, token: u32, to: &mut Completions) {
        self.gathered = None;
        if let Some(used) = self.uses.get_mut(token as usize) {
            used.seen = Seen::default();
            used.task.iter_mut().for_each(|task| self.workload.restart(task));
        }
        to.push(kind::RESTARTED, token, (0, 0), Bytes::new());
    }

    /// Puts a long message together. The next message begins only after the last piece of this one,
    /// or after its request has ended.
    fn gather(&mut self, token: Token, block: Bytes, left: usize, to: &mut Completions) {
        let begun = self.gathered.take().filter(|(of, _)| *of == token);
        let (_, mut message) = begun.unwrap_or_else(|| (token, Vec::new()));
        let more = block.len() + left;
        if message.len() + more > self.message_bytes_max || !fits(&mut message, block.len(), left) {
            return self.end(close::NO_MEMORY, too_long(message.len(), more), to);
        }
        message.extend_from_slice(&block);
        if left > 0 {
            self.gathered = Some((token, message));
            // Its reader can't take a part, so parts of a stream must not stop reading.
            self.engine.handle_taken(block.len());
            return;
        }
        let token = token.0 as u32;
        let statement = self.note(token, &[]);
        to.push(kind::DATA, token, (statement, 0), Bytes::from(message));
    }

    fn note_closed(&mut self, reason: CloseReason, to: &mut Completions) {
        if !std::mem::replace(&mut self.closed, true) {
            let (reason, block) = close_code(reason);
            to.push(kind::CLOSED, 0, (reason, 0), block);
        }
    }

    /// Learns from a part of a reply about its statement. Returns the number of the statement.
    fn note(&mut self, token: u32, block: &[u8]) -> Number {
        if let Some(transaction) = &mut self.block {
            transaction.look(token, block);
        }
        let Some(used) = self.uses.get_mut(token as usize) else { return 0 };
        let Some(statement) = &used.statement else { return 0 };
        used.seen.look(block);
        statement.prepared().data.number
    }

    fn ended(&mut self, token: u32, block: Bytes, end: End, to: &mut Completions) {
        if !matches!(end, End::Failed(_)) {
            self.note(token, &block);
        }
        if self.gathered.as_ref().is_some_and(|(of, _)| of.0 == u64::from(token)) {
            self.gathered = None;
        }
        let end = self.flow_ended(token, end);
        let is_late_end = self.is_late_end(token, end);
        let mut used = self.forget(token);
        match (used.task.take(), &self.timings) {
            (Some(task), _) => self.end_task(task, &end, to),
            (None, Some(timings)) if end == End::Complete => {
                self.workload.end_pipeline(self.clock, timings);
            }
            (None, _) => {}
        }
        let (mut number, mut has_missed) = (0, false);
        let failed = matches!(end, End::Failed(_));
        let fault = failed.then(|| fault_of(block.get(5..).unwrap_or_default()));
        if let (None, Some(fault)) = (&used.statement, fault) {
            self.statements.failed_unnamed(fault);
        }
        if let Some(statement) = &used.statement {
            statement.ended(&used.seen, fault);
            has_missed = used.is_behind && fault.is_some_and(Fault::is_stale);
            number = statement.prepared().data.number;
        }
        if let End::Failed(Failure { outcome: Outcome::NotSent, .. }) = end {
            used.close.take().into_iter().for_each(|closing| self.statements.give_back(closing));
        }
        if end == NOT_SENT {
            self.tell_unsent(token, to);
        }
        let refusal =
            self.pending_begin.as_ref().and_then(PendingBegin::refusal).filter(|_| used.guarded);
        match (end, refusal) {
            (End::Failed(Failure { cause: Cause::Server | Cause::Aborted, .. }), Some(error)) => {
                let how = end::BEGIN | outcome::REJECTED << 8;
                to.push(kind::END, token, (number, how), error.clone());
            }
            // It was not sent again, as it would be without the guard; on another server it runs.
            (End::Failed(Failure { cause: Cause::Server, .. }), None) if has_missed => {
                let how = end::ABORTED | outcome::REJECTED << 8;
                to.push(kind::END, token, (number, how), Bytes::new());
            }
            _ => {
                let (how, block) = self.told(token, &used, end, block);
                to.push(kind::END, token, (number, how), block);
            }
        }
        if is_late_end {
            // Nobody knows whether the transaction is open, and nobody may come to find out.
            const WHY: &[u8] = b"the server has not answered the end of a transaction in time";
            self.end(close::UNUSABLE, Bytes::from_static(WHY), to);
        }
    }
}

impl Postgres {
    /// A request ended that was not sent. The host may have it sent on another connection.
    fn tell_unsent(&mut self, token: u32, to: &mut Completions) {
        let Some(unsent) = self.engine.take_unsent(Token(token.into())) else { return };
        if let Some(parameters) = bind::parameters_of(&unsent.bytes) {
            to.push(kind::UNSENT, token, (0, 0), unsent.bytes.slice_ref(parameters));
        }
    }

    /// A statement ended together with others, so how long it took is not known.
    fn pass_task(&mut self, token: u32) {
        let task = self.uses.get_mut(token as usize).and_then(|used| used.task.take());
        task.into_iter().for_each(|task| self.workload.pass(self.clock, task));
    }

    fn end_task(&mut self, task: Task, end: &End, to: &mut Completions) {
        let Some(timings) = &self.timings else { return };
        let Some(ended) = self.workload.ended(self.clock, task, end, timings) else { return };
        if ended.slow && ended.behind > 0 {
            let millis = ended.took.as_secs() as u32 * 1000 + ended.took.subsec_millis();
            let figures = (ended.behind as u32, millis);
            to.push(kind::HELD_UP, ended.key.number(), figures, Bytes::new());
        }
    }
}

/// Reserves memory for `more` bytes that have arrived, and for some that are still to come: as many
/// again as the message has, if there is memory for them. False if there is not even enough for the
/// ones that have arrived.
fn fits(message: &mut Vec<u8>, len: usize, left: usize) -> bool {
    let size = message.len() + len;
    if size <= message.capacity() {
        return true;
    }
    let ahead = left.min(size.max(GATHER_AHEAD_MAX));
    let sizes = [len + ahead, len];
    let more = sizes.into_iter().find(|more| is_there(message.len() + more));
    message.reserve_exact(more.unwrap_or_default());
    more.is_some()
}
