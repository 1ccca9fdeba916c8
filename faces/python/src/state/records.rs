//! What the engine says of requests, and what is told to those that wait.

use onetrip_client::completion::{Record, end, event, kind, outcome};
use onetrip_client::postgres::Act;
use onetrip_engine::Outcome;
use onetrip_engine::Time;
use onetrip_engine::pool::Repeats;
use onetrip_postgres::client::migrated;
use onetrip_postgres::client::transaction::verdict::{MemberEnd, of_segment};
use pyo3::prelude::*;

use super::State;
use crate::call::{Call, Progress, Stage, Want, Whole};
use crate::deed::{Deed, Said};
use crate::failure::{Failure, number as number_of};
use crate::redis;

impl State {
    pub(crate) fn walk(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.has_more = true;
        // What one record leads to is told behind the others, and the link stays for all of them.
        if std::mem::replace(&mut link.is_walked, true) {
            return;
        }
        while let Some(link) = self.links.get_mut(&number)
            && std::mem::take(&mut link.has_more)
        {
            let mut records = std::mem::take(&mut link.records);
            records.extend(link.connection.borrow_mut().drain());
            for record in records.drain(..) {
                self.tell_one(py, now, number, record);
            }
            if let Some(link) = self.links.get_mut(&number) {
                link.records = records;
            }
        }
        let Some(link) = self.links.get_mut(&number) else { return };
        link.is_walked = false;
        match link.is_gone {
            true => self.forget_link(number),
            false => self.left(py, now, number),
        }
    }

    pub(super) fn tell_one(&mut self, py: Python<'_>, now: Time, number: u32, record: Record) {
        let Record { kind, token, a, b, block } = record;
        let Some(link) = self.links.get_mut(&number) else { return };
        match kind {
            kind::DATA => {
                if let Some(call) = link.call(token)
                    && link.keep(&call, a, block, self.result_bytes_max)
                {
                    self.deeds.push(Deed::Read(call));
                } else if let Some(call) = link.call(token)
                    && matches!(call.get().want, Want::Stream | Want::CopyOut)
                {
                    self.wake(&call);
                }
            }
            kind::END => {
                let Some(call) = link.take(token) else { return };
                if b & 0xff <= end::PROVISIONAL && !block.is_empty() {
                    link.keep(&call, a, block.clone(), self.result_bytes_max);
                }
                let failure = Failure::of_end(b, &block, &link.why);
                self.ended(py, now, number, token, &call, failure);
            }
            kind::UNSENT => {
                if let Some(call) = link.call(token).filter(|call| self.goes_on(now, call, &block))
                    && let Some(link) = self.links.get_mut(&number)
                {
                    link.take(token);
                    self.place(py, now, call.bind(py));
                }
            }
            kind::RESTARTED => {
                self.counts.sent_again += 1;
                if let Some(call) = link.call(token) {
                    self.drop_rows(&call);
                }
            }
            kind::FEED => {
                if let Some(call) = link.call(token) {
                    self.wake(&call);
                }
            }
            kind::EVENT if a == event::NOTICE => {
                self.tell("notice", number, Some(Said::Bytes(block)));
            }
            kind::EVENT if a == event::NOTIFICATION => {
                self.tell("notified", number, Some(Said::Bytes(block)));
            }
            kind::EVENT if a == event::PUSH => {
                if self.cache.as_ref().is_some_and(|cache| cache.get().pushed(&block)) {
                    return;
                }
                self.tell("pushed", number, Some(Said::Bytes(block)));
            }
            kind::READY => {
                if let (Some(cache), true) = (&self.cache, b != 0) {
                    cache.get().opened(number);
                }
                self.tell("ready", number, Some(Said::Bytes(block)));
            }
            kind::CLOSED => self.lost(py, now, number, (a, b != 0), &block),
            kind::GUARD_PASSED | kind::GUARD_BEHIND | kind::GUARD_FAILED => {
                let reading = |call: Py<Call>| call.get().now.with(|it| it.reading).ok().flatten();
                if let (Some(reading), Some((replicas, Some(at)))) =
                    (link.call(token).and_then(reading), &self.replicas)
                {
                    replicas.get().guard_ended(now, *at, reading, (kind, a, b));
                }
            }
            kind::UNCERTAIN => {
                let of = self.replicas.as_ref();
                if let Some(mark) = of.and_then(|(replicas, _)| replicas.get().uncertain(a)) {
                    for link in self.links.values() {
                        link.connection.borrow_mut().mark_positions(mark);
                    }
                }
            }
            kind::POSITION => {
                if let Some((replicas, _)) = &self.replicas {
                    replicas.get().positioned(b, &block);
                }
            }
            kind::CANCEL => self.tell("cancel", number, None),
            kind::ASTRAY => {
                if !block.is_empty() {
                    self.tell("useless", number, Some(Said::Bytes(block)));
                }
                self.pool.retire(now, number);
                self.walk_pool(py, now);
            }
            kind::FORGOTTEN => _ = link.columns.remove(&a),
            kind::READ => self.tell("read", number, Some(Said::Flag(a != 0))),
            _ => {}
        }
    }

    /// A request has ended; of a call with parts it may be one of several.
    pub(super) fn ended(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        token: u32,
        call: &Py<Call>,
        failure: Option<Failure>,
    ) {
        match &call.get().want {
            Want::Redis(request) => {
                if let (Some(failure), Some(link)) = (&failure, self.links.get_mut(&number)) {
                    // The server still works on it, so nobody else gets its connection.
                    link.is_spoiled |= failure.is_late();
                }
                redis::ended(self, py, now, (call, request), failure);
            }
            Want::Parts(..) => {
                let is_last = call.get().now.with(|it| {
                    // What is said of its rows is of no account where all is undone.
                    let gives_way = |known: &Failure| known.is_aborted() || known.is_of_reading();
                    if it.failure.as_ref().is_none_or(gives_way) && failure.is_some() {
                        it.failure = failure;
                    }
                    matches!(it.stage, Stage::Sent(_, last, _) if last == token)
                });
                if is_last.unwrap_or(true) {
                    let failure = call.get().now.with(|it| it.failure.take()).ok().flatten();
                    match failure.map(|failure| self.outdated(py, (call, number), failure)) {
                        Some(Some(failure)) => {
                            let _ = call.get().now.with(|it| it.failure = Some(failure));
                            self.finish(py, call, None);
                        }
                        Some(None) => {}
                        None => self.check(py, call, number),
                    }
                }
            }
            Want::Calls(parts) => self.pipeline_ended(py, (call, number), parts, failure),
            Want::Act(act @ (Act::Commit | Act::Rollback)) => {
                self.transaction_ended(py, now, number, *act, call, failure);
            }
            _ => {
                let is_part = self.links.get_mut(&number).is_some_and(|it| it.parts.remove(&token));
                match is_part {
                    // Its caller hears of it with the others.
                    true => {
                        // What was found as it was kept stands, where the server says nothing.
                        let failure = failure.map(told);
                        let is_told = failure.is_some();
                        let stands = |it: &Failure| !is_told && it.is_of_reading();
                        let _ = call.get().now.with(|it| {
                            if !it.failure.as_ref().is_some_and(stands) {
                                it.failure = failure;
                            }
                        });
                    }
                    false => self.answered(py, now, (call, number), failure),
                }
            }
        }
    }

    /// A statement has ended. What was learned of its text may be the cause of an error.
    fn answered(
        &mut self,
        py: Python<'_>,
        now: Time,
        (call, number): (&Py<Call>, u32),
        failure: Option<Failure>,
    ) {
        let Some(failure) = failure else { return self.check(py, call, number) };
        let failure = self.outdated(py, (call, number), failure);
        if failure.is_none() {
            return;
        }
        if failure.as_ref().is_some_and(Failure::is_loss) && self.repeats(py, now, call, &failure) {
            return;
        }
        self.finish(py, call, failure);
    }

    /// A statement has failed. If its text may be something else by now, the server is asked anew;
    /// if it is, and the statement stood alone, it is sent again, and nothing is returned.
    fn outdated(
        &mut self,
        py: Python<'_>,
        (call, number): (&Py<Call>, u32),
        failure: Failure,
    ) -> Option<Failure> {
        let it = call.get();
        // What shows a change does so though its text was described just now; and all may be as it
        // was, where it has been changed back since.
        let is_certain = failure.is_stale() || failure.shows_change();
        let is_old = is_remembered(it);
        let is_doubtful = is_certain || is_old && failure.may_be_outdated();
        let Some(statement) = it.statement.as_ref().filter(|_| is_doubtful) else {
            return Some(failure);
        };
        statement.get().forget();
        if failure.shows_change() {
            self.has_changed(it);
        }
        if it.is_one() && self.may_go_again(call, number, failure.known()) {
            self.send_again(py, (call, number), Some(failure).filter(|_| !is_certain));
            return None;
        }
        // It may be long until its next use shows what has changed, and others would fail meanwhile.
        if is_old && failure.ends_all() {
            self.generation.has_changed();
        }
        Some(told(failure))
    }

    /// What a call was sent with is the server's no more: the types of its parameters, and its
    /// composites, are asked for anew as well.
    fn has_changed(&mut self, call: &Call) {
        self.generation.has_changed();
        let described = call.now.with(|it| it.described.clone()).ok().flatten();
        if let Some(described) = described {
            let composites = described.guard.iter().flat_map(|guard| &guard.types);
            described.oids.iter().chain(composites).for_each(|oid| self.types.forget(*oid));
        }
    }

    /// Whether a statement with this outcome is sent again, as its text is by now.
    pub(crate) fn may_go_again(&self, call: &Py<Call>, number: u32, outcome: Outcome) -> bool {
        let it = call.get();
        let again = it.now.with(|it| it.again).unwrap_or(u8::MAX);
        let is_plain_read = it.statement.as_ref().is_some_and(|it| it.get().is_plain_read);
        let stands_alone =
            self.links.get(&number).is_some_and(|link| !link.is_over && link.is_clear());
        let sent = migrated::Sent { stands_alone, outcome, is_plain_read, again };
        !it.is_over() && migrated::goes_again(sent)
    }

    /// Sends a statement again once its text was described anew; unless the server says of it what
    /// it has said before, and then it has failed for this reason.
    pub(crate) fn send_again(
        &mut self,
        py: Python<'_>,
        (call, number): (&Py<Call>, u32),
        held: Option<Failure>,
    ) {
        self.counts.sent_again += 1;
        self.drop_rows(call);
        self.settle_read(call.get());
        let old = call.get().now.with(|it| {
            (it.stage, it.held) = (Stage::Made, held.map(Box::new));
            it.again += 1;
            it.holder.take()
        });
        self.deeds.extend(old.ok().flatten().map(Deed::Drop));
        match self.links.get_mut(&number).filter(|link| link.is_lent) {
            Some(link) => {
                link.line.push_front(call.clone_ref(py));
                self.deeds.push(Deed::Advance(number));
            }
            None => self.deeds.push(Deed::Begin(call.clone_ref(py))),
        }
    }

    /// A statement was answered, and ends; unless its rows are to be looked at first.
    fn check(&mut self, py: Python<'_>, call: &Py<Call>, number: u32) {
        if call.get().is_known() {
            return self.finish(py, call, None);
        }
        let _ = call.get().now.with(|it| it.stage = Stage::Answered);
        self.deeds.push(Deed::Check(call.clone_ref(py), number));
    }

    /// Whether a call whose connection was lost is sent again, after a pause.
    pub(crate) fn repeats(
        &mut self,
        py: Python<'_>,
        now: Time,
        call: &Py<Call>,
        failure: &Option<Failure>,
    ) -> bool {
        let it = call.get();
        if !it.is_repeatable() || self.is_closing {
            return false;
        }
        self.seed = self.seed.wrapping_add(1);
        let seed = self.seed;
        let outcome = failure.as_ref().map_or(outcome::UNKNOWN, Failure::outcome);
        let pause = it.now.with(|it| {
            it.may_have_run |= outcome == outcome::UNKNOWN;
            it.repeats += 1;
            Repeats::default().pause(it.repeats, seed)
        });
        let Ok(Some(pause)) = pause else { return false };
        self.pause(py, (now, pause), call);
        true
    }

    /// Whether a call gets in line again whose connection ended before any byte of it was sent.
    fn goes_on(&mut self, now: Time, call: &Py<Call>, parameters: &[u8]) -> bool {
        let pool = &self.pool;
        let goes_on = |it: &mut Progress| {
            let goes_on = pool.requeue(now, Time::NEVER, &mut it.requeue).is_some();
            if goes_on && let Some(described) = it.described.take() {
                it.requests = vec![(None, described, parameters.to_vec(), Vec::new())];
            }
            goes_on
        };
        call.get().now.with(goes_on).unwrap_or(false)
    }

    /// A transaction is over, and its connection goes on without it.
    pub(super) fn transaction_ended(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        act: Act,
        call: &Py<Call>,
        failure: Option<Failure>,
    ) {
        let runs_again = self.asks(now, number, Act::RunsAgain);
        let has_left = self.asks(now, number, Act::HasLeft);
        let _ = call.get().now.with(|it| it.whole = Whole { runs_again, has_left });
        self.asks(now, number, Act::Forget);
        if failure.is_some() && act == Act::Rollback {
            self.destroy(py, now, number, "a transaction could not be rolled back");
        }
        self.finish(py, call, failure);
    }

    /// All of a pipeline has taken effect, or none.
    fn pipeline_ended(
        &mut self,
        py: Python<'_>,
        (call, number): (&Py<Call>, u32),
        parts: &[Py<Call>],
        failure: Option<Failure>,
    ) {
        let ends: Vec<MemberEnd> = parts.iter().map(end_of).collect();
        let end = failure.as_ref().map(Failure::known);
        let failed = of_segment(ends.iter().copied(), end);
        let named = failed.and_then(|it| Some((it.cause?, number_of(it.outcome))));
        let cause = named.and_then(|(number, outcome)| {
            let again = |it: &mut Progress| it.failure.as_ref().map(|it| it.again(py, outcome));
            let own = parts[number].get().now.with(again).ok().flatten()?;
            Some(if parts.len() > 1 { own.of_statement(number) } else { own })
        });
        let is_undone = failure.is_some();
        let cause = cause.or(failure);
        if cause.is_none() && !parts.iter().all(|part| part.get().is_known()) {
            let _ = call.get().now.with(|it| it.stage = Stage::Answered);
            return self.deeds.push(Deed::Check(call.clone_ref(py), number));
        }
        if let Some(cause) = cause.as_ref().filter(|it| it.may_be_outdated()) {
            let is_old = parts.iter().any(|part| is_remembered(part.get()));
            if cause.shows_change() {
                parts.iter().for_each(|part| self.has_changed(part.get()));
            } else if is_old && cause.ends_all() {
                self.generation.has_changed();
            }
            let texts = parts.iter().filter_map(|part| part.get().statement.as_ref());
            texts.for_each(|text| text.get().forget());
        }
        for part in parts {
            // What can't be read is of no account where all is undone.
            let stands = |it: &Failure| !(is_undone && it.is_of_reading());
            let has_failed = |it: &mut Progress| it.failure.as_ref().is_some_and(stands);
            let has_failed = part.get().now.with(has_failed).unwrap_or(true);
            let undone = cause.as_ref().filter(|_| !has_failed).map(|it| it.undoing(py));
            self.finish(py, part, undone);
        }
        self.finish(py, call, cause);
    }
}

/// How a statement of a pipeline ended by itself.
fn end_of(part: &Py<Call>) -> MemberEnd {
    let of = |it: &mut Progress| match &it.failure {
        None => MemberEnd::Whole,
        Some(failure) if failure.is_of_reading() => MemberEnd::Whole,
        Some(failure) if failure.is_aborted() => MemberEnd::Skipped,
        Some(failure) => MemberEnd::Failed(failure.known()),
    };
    part.get().now.with(of).unwrap_or(MemberEnd::Whole)
}

/// Whether a call was sent as its text was described before. What was described for it is not to
/// blame for its error.
fn is_remembered(call: &Call) -> bool {
    let is_old = |now: &mut Progress| {
        !now.is_fresh && now.described.as_ref().is_some_and(|described| described.id > 0)
    };
    call.now.with(is_old).unwrap_or(false)
}

/// The same, which names what has changed.
fn told(failure: Failure) -> Failure {
    match failure.columns_changed() {
        true => failure.told_first(migrated::COLUMNS_CHANGED),
        false => failure,
    }
}
