//! What the engine says of requests, and what is told to those that wait.

use std::os::fd::AsFd;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use onetrip_client::completion::{Record, end, event, kind, outcome, outcome_code};
use onetrip_client::postgres::Act;
use onetrip_engine::Time;
use onetrip_engine::pool::Repeats;
use onetrip_postgres::client::said;
use onetrip_postgres::client::transaction::verdict::{MemberEnd, of_segment};
use onetrip_redis::client::list;

use super::{State, Todo};
use crate::call::{Call, Part, Stage, Want};
use crate::failure::Failure;
use crate::link::{WHOLE, are_texts};

impl State {
    pub(super) fn walk(&mut self, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let connection = link.connection.clone();
        let records: Vec<Record> = connection.borrow_mut().drain().collect();
        let is_it = |state: &State| {
            state.links.get(&number).is_some_and(|link| Rc::ptr_eq(&link.connection, &connection))
        };
        for record in records {
            // The number may stand for the next attempt by now.
            if is_it(self) {
                self.tell_one(now, number, record);
            }
        }
        let Some(link) = self.links.get(&number) else { return };
        if let Some(session) = link.session.clone() {
            self.does(Todo::Advance(session));
        }
    }

    fn tell_one(&mut self, now: Time, number: u32, record: Record) {
        let Record { kind, token, a, b, block } = record;
        let Some(link) = self.links.get_mut(&number) else { return };
        match kind {
            kind::DATA => {
                if let Some(of) = link.call(token) {
                    link.keep(&of, a, block, self.result_bytes_max);
                    self.heard(&of.0);
                }
            }
            kind::END => {
                let Some(of) = link.take(token) else { return };
                let is_reply = b & 0xff <= end::PROVISIONAL || list::is_error(&block);
                if is_reply && !block.is_empty() {
                    link.keep(&of, a, block.clone(), self.result_bytes_max);
                }
                let failure = Failure::of_end(b, &block, &link.why);
                self.ended(now, number, of, failure);
            }
            kind::UNSENT => self.unsent(now, number, token),
            kind::RESTARTED => {
                if let Some((call, part)) = link.call(token) {
                    call.restart(part);
                }
            }
            kind::FEED => {
                if let Some((call, _)) = link.call(token) {
                    call.now().may_feed = true;
                    self.heard(&call);
                }
            }
            kind::EVENT if matches!(a, event::NOTIFICATION | event::PUSH) => {
                self.notified(number, &block);
            }
            kind::READY => self.logged_in(now, number),
            kind::IDENTIFIED => self.identified(now, number),
            kind::CLOSED => self.lost(now, number, (a, b != 0), &block),
            kind::CANCEL => self.cancel(now, number),
            kind::ASTRAY => {
                self.pool.retire(now, number);
                self.does(Todo::Pool);
            }
            kind::FORGOTTEN => link.forget(a),
            kind::READ => {
                link.wire.reads = a != 0;
                link.wire.watch(self.poll.as_fd());
            }
            _ => {}
        }
    }

    /// A part of a reply has come, or a COPY takes more.
    fn heard(&mut self, call: &Rc<Call>) {
        if call.flows() || matches!(call.want, Want::CopyIn) {
            call.now().then.falls_due(&mut self.callbacks);
        }
    }

    /// No byte of it was sent before its connection ended: it gets in line again.
    fn unsent(&mut self, now: Time, number: u32, token: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let Some((call, _)) = link.call(token) else { return };
        let mut it = call.now();
        let may = it.stage != Stage::Over && !it.requests.is_empty();
        if may && self.pool.requeue(now, Time::NEVER, &mut it.requeue).is_some() {
            drop(it);
            link.take(token);
            self.does(Todo::Place(call));
        }
    }

    /// A request has ended; of a call with parts it may be one of several.
    fn ended(
        &mut self,
        now: Time,
        number: u32,
        (call, part): (Rc<Call>, usize),
        failure: Option<Failure>,
    ) {
        match &call.want {
            Want::Segment | Want::Batch if part == WHOLE => self.segment_ended(&call, failure),
            Want::Segment | Want::Batch => {
                if let Some(part) = call.now().parts.get_mut(part)
                    && failure.is_some()
                {
                    part.failure = failure;
                }
            }
            Want::Commands(_) => self.command_ended(&call, part, failure),
            Want::List(_, leaves) => {
                let failure = failure.or_else(|| read_list(&call, leaves));
                self.finish(&call, failure);
            }
            Want::Act(act @ (Act::Commit | Act::Rollback)) => {
                self.transaction_ended(now, number, *act, &call, failure);
            }
            Want::Act(Act::Release) => self.released(now, number, &call, failure),
            Want::Probe => {
                let session = self.links.get(&number).and_then(|link| link.session.clone());
                if let Some(session) = session {
                    session.is_asking.set(false);
                    self.does(Todo::Advance(session));
                }
            }
            Want::Listen | Want::Subscribe(_) => {
                self.finish(&call, None);
                self.listen_answered(now, number, failure);
            }
            Want::Stream | Want::CopyOut | Want::CopyIn => {
                if let Some(session) = self.links.get(&number).and_then(|it| it.session.clone()) {
                    session.claimed.take();
                }
                self.finish(&call, failure);
            }
            _ => self.answered(now, &call, failure),
        }
    }

    /// A statement has ended.
    pub(super) fn answered(&mut self, now: Time, call: &Rc<Call>, failure: Option<Failure>) {
        let failure = failure.or_else(|| call.look().parts.iter().find_map(unread));
        if let Some(failure) = &failure
            && failure.is_loss()
            && self.repeats(now, call, failure)
        {
            return;
        }
        self.finish(call, failure);
    }

    /// Whether a call whose connection was lost is sent again, after a pause.
    fn repeats(&mut self, now: Time, call: &Rc<Call>, failure: &Failure) -> bool {
        if !call.is_repeatable() || self.is_closing || call.is_over() {
            return false;
        }
        let seed = self.next_seed();
        let mut it = call.now();
        it.may_have_run |= failure.outcome == outcome::UNKNOWN;
        it.repeats += 1;
        let Some(pause) = Repeats::default().pause(it.repeats, seed) else { return false };
        drop(it);
        self.pause(now.after(pause), call);
        true
    }

    /// All of a segment has taken effect, or none.
    fn segment_ended(&mut self, call: &Rc<Call>, failure: Option<Failure>) {
        let mut it = call.now();
        let ends: Vec<MemberEnd> = it.parts.iter().map(end_of).collect();
        let end = failure.as_ref().map(Failure::known);
        let failed = of_segment(ends.iter().copied(), end);
        let named = failed.and_then(|it| Some((it.cause?, outcome_code(it.outcome))));
        let several = ends.len() > 1 && !matches!(call.want, Want::Batch);
        let cause = named.and_then(|(number, outcome)| {
            let own = it.parts[number].failure.clone()?.with_outcome(outcome);
            let statement = if several { number + 1 } else { 0 };
            Some(Failure { statement, ..own })
        });
        // Nothing has an error of its own, but not all have run.
        let skipped = || failed.map(|it| Failure::told(said::ABORTED, outcome_code(it.outcome)));
        let cause = cause.or(failure).or_else(skipped);
        let cause = cause.or_else(|| it.parts.iter().find_map(unread));
        if cause.is_some() {
            it.parts.clear();
        }
        drop(it);
        self.finish(call, cause);
    }

    /// One of several commands has ended. What an error reply says is its own.
    fn command_ended(&mut self, call: &Rc<Call>, part: usize, failure: Option<Failure>) {
        let mut it = call.now();
        it.open -= 1;
        let is_one = it.parts.len() == 1;
        if let Some(of) = it.parts.get_mut(part) {
            match failure {
                // A reply like others, of a pipeline: its reader sees it.
                Some(failure) if failure.is_servers && !is_one => of.failure = None,
                Some(failure) => of.failure = Some(failure),
                None => {}
            }
        }
        if it.open > 0 {
            return;
        }
        let failures: Vec<_> = it.parts.iter().map(|part| part.failure.clone()).collect();
        drop(it);
        let Some(first) = failures.iter().flatten().next() else {
            return self.finish(call, None);
        };
        // Of some of them something else may be known than of the others.
        let same =
            failures.iter().all(|it| it.as_ref().is_some_and(|it| it.outcome == first.outcome));
        let outcome = if same { first.outcome } else { outcome::UNKNOWN };
        self.finish(call, Some(first.clone().with_outcome(outcome)));
    }
}

/// The replies of a list, each as a part; or why there are none.
fn read_list(call: &Call, leaves: &[bool]) -> Option<Failure> {
    let mut it = call.now();
    let blocks: BytesMut =
        it.parts.iter().flat_map(|part| &part.blocks).flatten().copied().collect();
    match list::read(&Bytes::from(blocks), leaves) {
        Ok(frames) => {
            let of = |frame| Part { blocks: vec![frame], ..Part::default() };
            it.parts = frames.into_iter().map(of).collect();
            None
        }
        Err(why) => Some(match &why {
            list::Failed::Refused { at, frame, outcome } => {
                let failure = Failure::of_reply(frame, outcome_code(*outcome));
                Failure { statement: *at, ..failure }
            }
            _ => Failure::said(why.code(), outcome_code(why.outcome()), why.to_string()),
        }),
    }
}

/// How a statement of a segment ended by itself.
fn end_of(part: &Part) -> MemberEnd {
    match &part.failure {
        None => MemberEnd::Whole,
        Some(failure) if failure.is_aborted() => MemberEnd::Skipped,
        Some(failure) => MemberEnd::Failed(failure.known()),
    }
}

/// Why an answer is not read, if it is not.
fn unread(part: &Part) -> Option<Failure> {
    if let Some(failure) = part.failure.as_ref().filter(|it| it.is_of_reading()) {
        return Some(failure.clone());
    }
    let is_foreign = part.columns.as_ref().is_some_and(|columns| !are_texts(columns));
    is_foreign.then(|| {
        const WHY: &str = "a column came in another form than was asked for: a FETCH from a cursor \
            that was declared BINARY?";
        Failure::said("conversion", outcome::APPLIED, WHY)
    })
}
