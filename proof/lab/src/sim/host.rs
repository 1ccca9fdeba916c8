//! The host: it submits requests, cancels them, waits for room and gives up.

use std::time::Duration;

use onetrip_engine::{Cause, Outcome, SubmitError, Ticket, Time, Token};

use super::book::{PlanOf, Record, State, failed};
use super::driven::Driven;
use super::side::Side;
use super::world::World;

/// The result of submitting a request.
#[derive(PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// It had to wait in the queue.
    Queued,
    Full,
    Never,
}

impl<S: Side> World<S> {
    /// Submits a request that stands alone.
    pub(crate) fn submit_one(&mut self) {
        let plan = S::plan(self);
        if self.rng.one_in(40) {
            return self.submit_broken(&plan);
        }
        if self.submit_alone(plan.clone()) == Taken::Full {
            match self.rng.one_in(4) || plan.discard {
                true => self.book.report.count("refused"),
                false => self.wait(vec![plan]),
            }
        }
    }

    /// A request whose encoder fails half-way.
    fn submit_broken(&mut self, plan: &PlanOf<S>) {
        // Messages that the protocol owes are sent with the next request.
        self.settle_debts();
        let held = |driven: &S::Driven| {
            let load = driven.load();
            (load.in_flight_bytes, load.queued_bytes, driven.transmit(0).len())
        };
        let before = held(&self.driven);
        let request = S::request(self, plan, false);
        let result = self.driven.submit(self.now, request, &plan.bytes, false);
        if result.is_ok() || before != held(&self.driven) {
            self.book.complain("a request that failed to encode left something behind");
        }
        self.drain();
    }

    pub(crate) fn settle_debts(&mut self) {
        self.sending(|driven, now| driven.settle_debts(now));
    }

    /// Submits a request, and takes the outputs.
    pub(crate) fn submit_alone(&mut self, plan: PlanOf<S>) -> Taken {
        let full_before = self.book.report.of("full");
        let taken = self.submit(plan, false);
        self.drain();
        self.check_full(&taken, full_before);
        taken
    }

    /// Submits requests that share their fate and for which there is room, one directly after
    /// another.
    pub(crate) fn submit_all(&mut self, plans: Vec<PlanOf<S>>) {
        let full_before = self.book.report.of("full");
        self.run_max = self.run_max.max(plans.len());
        let run = plans.first().map_or(0, |plan| plan.id);
        let mut last = Taken::Yes;
        for plan in plans {
            let id = plan.id;
            last = self.submit(plan, true);
            if last == Taken::Full {
                self.book.complain(format!("{id} was refused, though there was room"));
            }
            if let Some(record) = self.book.records.get_mut(&id) {
                record.run = run;
            }
        }
        self.drain();
        self.check_full(&last, full_before);
    }

    fn check_full(&mut self, taken: &Taken, full_before: u64) {
        let waits = matches!(taken, Taken::Queued | Taken::Full);
        if waits && !self.book.full && self.book.report.of("full") == full_before {
            self.book.complain("a request had to wait, and Full never came");
        }
    }

    /// Submits a request, without taking the outputs.
    pub(crate) fn submit(&mut self, plan: PlanOf<S>, reserved: bool) -> Taken {
        let request = S::request(self, &plan, reserved);
        self.bytes_max = self.bytes_max.max(plan.bytes.len());
        let result = self.sending(|driven, now| driven.submit(now, request, &plan.bytes, true));
        self.note(|_| format!("submit {} {:?} {result:?}", plan.id, S::describe(&plan)));
        match result {
            Ok(ticket) => {
                if ticket != Ticket::Sent && !plan.discard {
                    self.tickets.push((plan.id, ticket));
                }
                let record = S::keep(self, plan);
                self.book.open(self.now, record);
                if matches!(ticket, Ticket::Queued(_)) { Taken::Queued } else { Taken::Yes }
            }
            Err(SubmitError::QueueFull) => Taken::Full,
            Err(SubmitError::Closed) => {
                if !(self.terminated || self.driven.is_closed()) {
                    self.book.complain("an open connection takes nothing");
                }
                Taken::Never
            }
            Err(error) => {
                self.book.complain(format!("{} was refused: {error:?}", plan.id));
                Taken::Never
            }
        }
    }

    /// Runs an action that may send something. The wait for the peer begins with the first byte.
    pub(crate) fn sending<R>(&mut self, send: impl FnOnce(&mut S::Driven, Time) -> R) -> R {
        let was_idle = self.transmit_is_empty();
        let result = send(&mut self.driven, self.now);
        if was_idle && !self.transmit_is_empty() {
            self.last_moved = self.now;
        }
        result
    }

    pub(crate) fn wait(&mut self, plans: Vec<PlanOf<S>>) {
        let Some(first) = plans.first() else { return };
        let id = first.id;
        match self.driven.wait(Token(id), first.deadline) {
            Some(ticket) => {
                self.note(|_| format!("{id} waits for room"));
                self.book.report.count("waited for room");
                self.tickets.push((id, ticket));
                self.book.open(self.now, Record::new(first.clone(), State::Waiting, (0, 0)));
                self.parked.push((id, plans));
            }
            None if self.terminated || self.driven.is_closed() => {}
            None if self.driven.load().waiting >= self.settings.network.limits.waiting_max => {
                self.book.report.count("refused to wait");
            }
            None => self.book.complain("an open connection refused a wait for room"),
        }
        self.drain();
    }

    /// The caller whose turn it is submits its request, or gives it up.
    pub(crate) fn take_turn(&mut self) {
        let Some(plans) = self.turn.take() else { return };
        let was_idle = self.transmit_is_empty();
        if !self.rng.one_in(10) && !self.driven.is_closed() {
            self.submit_all(plans);
        }
        self.driven.end_turn(self.now);
        if was_idle && !self.transmit_is_empty() {
            self.last_moved = self.now;
        }
        self.moved = true;
        self.drain();
    }

    /// A caller gives up: a request that was not sent is cancelled.
    pub(crate) fn take_back(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let at = self.rng.index(self.tickets.len());
        let (id, ticket) = self.tickets[at];
        let was_open = self.book.records.get(&id).is_some_and(Record::is_open);
        let taken_back = self.sending(|driven, now| driven.cancel(now, ticket));
        self.note(|_| format!("cancel {id}: {taken_back}"));
        self.drain();
        if !taken_back {
            self.book.report.count("dropped on its way");
            return;
        }
        self.tickets.swap_remove(at);
        self.book.report.count("cancelled");
        let end = self.book.records.get(&id).and_then(Record::end);
        if !was_open || end != Some(failed(Outcome::NotSent, Cause::Cancelled)) {
            self.book.complain(format!("{id} was taken back, and ended as {end:?}"));
        }
    }

    pub(crate) fn terminate(&mut self) {
        self.note(|_| "terminate".into());
        self.terminated = true;
        self.sending(|driven, now| driven.terminate(now));
    }

    /// A deadline, or none.
    pub(crate) fn deadline(&mut self) -> Time {
        if !self.rng.one_in(self.settings.deadlines) {
            return Time::NEVER;
        }
        let max = self.settings.network.trip() * 3 + DEADLINE_MAX;
        self.now.after(Duration::from_nanos(self.rng.below(max.as_nanos() as u64)))
    }

    pub(crate) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(crate) fn take_place(&mut self) -> (u64, u64) {
        self.next_place += 1;
        (self.next_place, 0)
    }
}

/// The most by which a deadline may lie beyond the time of three replies.
const DEADLINE_MAX: Duration = Duration::from_millis(3);
