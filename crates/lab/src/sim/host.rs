//! The host: what it submits, takes back, waits for and gives up.

use onetrip_engine::{Cause, Feed, Group, Outcome, Request, SubmitError, Ticket, Token};

use super::book::{Record, State, failed};
use super::owners::Owners;
use super::plan::Plan;
use super::reply::Part;
use super::workload::reply_len_max;
use super::world::World;

/// What became of a request that was to be submitted.
#[derive(PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    Full,
    Never,
}

impl World {
    /// Does something that a host does.
    pub(super) fn act(&mut self) {
        if self.owners.as_mut().is_some_and(Owners::is_leaving) {
            return;
        }
        if self.owners.is_some() && self.rng.one_in(3) {
            return self.act_as_owner();
        }
        if self.settings.cancels && self.rng.one_in(3) {
            self.want_cancel();
        }
        match self.rng.below(16) {
            0..=6 => self.submit_isolated(),
            7 if self.rng.one_in(2) => {
                for _ in 0..self.rng.up_to(20) {
                    self.submit_isolated();
                }
            }
            7..=9 => self.submit_segment(),
            10 | 11 => self.open_group(),
            12 | 13 => self.cancel(),
            14 => self.forget_prepared(),
            _ => self.take_turn(),
        }
    }

    // --- requests ---

    pub(super) fn submit_isolated(&mut self) {
        let plan = self.plan_isolated();
        if self.rng.one_in(40) {
            return self.submit_broken(plan);
        }
        if self.submit(plan.clone(), false, None) == Taken::Full {
            match self.rng.one_in(4) || plan.discard {
                true => self.book.report.count("refused"),
                false => self.wait(vec![plan]),
            }
        }
    }

    /// A request whose encoder fails half-way.
    fn submit_broken(&mut self, plan: Plan) {
        // What the protocol owes goes with whatever comes next.
        let was_idle = self.transmit_is_empty();
        self.engine.settle_debts(self.now);
        self.waited_from_now(was_idle);
        let before = (self.engine.in_flight_bytes(), self.engine.queued_bytes());
        let written = self.engine.transmit().len();
        let request = self.request(&plan, false, None);
        let result = self.engine.submit(self.now, request, |out| {
            out.extend_from_slice(&plan.bytes);
            Err(())
        });
        let after = (self.engine.in_flight_bytes(), self.engine.queued_bytes());
        if result.is_ok() || before != after || written != self.engine.transmit().len() {
            self.book.complain("a request that failed to encode left something behind");
        }
        self.drain();
    }

    pub(super) fn submit_segment(&mut self) {
        let plans = self.plan_segment();
        let bytes = plans.iter().map(|plan| plan.bytes.len()).sum();
        if self.engine.has_room(plans.len(), bytes) {
            self.submit_all(plans);
        } else if self.rng.one_in(4) {
            self.book.report.count("refused");
        } else {
            self.wait(plans);
        }
    }

    fn submit_all(&mut self, plans: Vec<Plan>) {
        self.run_max = self.run_max.max(plans.len());
        let run = plans.first().map_or(0, |plan| plan.id);
        for plan in plans {
            let id = plan.id;
            if self.submit(plan, true, None) == Taken::Full {
                self.book.complain(format!("{id} was refused, though there was room"));
            }
            if let Some(record) = self.book.records.get_mut(&id) {
                record.run = run;
            }
        }
        self.drain();
    }

    /// Requests of an explicit transaction, for which there is room.
    pub(super) fn submit_in_transaction(&mut self, plans: Vec<Plan>) {
        let ids: Vec<u64> = plans.iter().map(|plan| plan.id).collect();
        self.submit_all(plans);
        for id in ids {
            if let Some(record) = self.book.records.get_mut(&id) {
                record.in_transaction = true;
            }
        }
    }

    pub(super) fn submit(&mut self, plan: Plan, reserved: bool, floor: Option<usize>) -> Taken {
        let full_before = self.book.report.of("full");
        let group = floor.map(|at| self.floors[at].group);
        let request = self.request(&plan, reserved, group);
        self.bytes_max = self.bytes_max.max(plan.bytes.len());
        self.reply_max = self.reply_max.max(reply_len_max(&plan));
        let was_idle = self.transmit_is_empty();
        let result = self.engine.submit(self.now, request, |out| {
            out.extend_from_slice(&plan.bytes);
            Ok::<(), ()>(())
        });
        self.waited_from_now(was_idle);
        self.note(|_| format!("submit {} {:?} {result:?}", plan.id, plan.sync));
        let queued = matches!(result, Ok(Ticket::Queued(_)) | Err(SubmitError::QueueFull));
        let taken = match result {
            Ok(ticket) => {
                if ticket != Ticket::Sent && !plan.discard {
                    self.tickets.push((plan.id, ticket));
                }
                self.keep(plan, floor);
                Taken::Yes
            }
            Err(SubmitError::QueueFull) => Taken::Full,
            Err(SubmitError::Closed) => {
                if !(self.terminated || self.engine.is_closed()) {
                    self.book.complain("an open connection takes nothing");
                }
                Taken::Never
            }
            Err(error) => {
                self.book.complain(format!("{} was refused: {error:?}", plan.id));
                Taken::Never
            }
        };
        // The rest of a segment follows before anything else happens.
        if !reserved {
            self.drain();
            if queued && !self.book.full && self.book.report.of("full") == full_before {
                self.book.complain("a request had to wait, and Full never came");
            }
        }
        taken
    }

    fn request(
        &self,
        plan: &Plan,
        reserved: bool,
        group: Option<Group>,
    ) -> Request<onetrip_postgres::Expect> {
        Request {
            token: if plan.discard { Token::DISCARD } else { Token(plan.id) },
            expect: self.owners.as_ref().map_or(plan.expect, |owners| owners.expect(plan)),
            sync: plan.sync,
            deadline: plan.deadline,
            again: plan.again,
            joins: plan.joins,
            group,
            in_order: self.is_lent(),
            pinned: plan.pinned,
            resend: plan.resend,
            cancel_late: plan.cancel_late,
            reserved,
            feed: Feed::Whole,
            metered: false,
        }
    }

    /// Takes note of a request that was taken.
    fn keep(&mut self, plan: Plan, floor: Option<usize>) {
        let id = plan.id;
        if let Some(owners) = &mut self.owners {
            owners.keep(&plan);
        }
        let place = match floor {
            Some(at) => {
                let place = &mut self.floors[at].place;
                place.1 += 1;
                *place
            }
            None => self.take_place(),
        };
        let mut record = Record::new(plan, State::Submitted, place, id);
        record.in_order = self.is_lent();
        if record.plan.depends {
            let columns = Part::Columns { op: 0, format: Default::default() };
            record.healed = vec![Part::ParseComplete, Part::Parameters(3), columns];
        }
        if let Some(at) = floor {
            let floor = &mut self.floors[at];
            floor.pending += 1;
            record.run = floor.run;
            record.group = Some(floor.token);
            record.in_transaction = floor.transaction.is_some();
        }
        self.book.open(self.now, record);
    }

    pub(super) fn take_place(&mut self) -> (u64, u64) {
        self.next_place += 1;
        (self.next_place, 0)
    }

    /// Waiting for the peer begins when the first byte does.
    pub(super) fn waited_from_now(&mut self, was_idle: bool) {
        if was_idle && !self.transmit_is_empty() {
            self.last_moved = self.now;
        }
    }

    fn wait(&mut self, plans: Vec<Plan>) {
        let Some(first) = plans.first() else { return };
        let id = first.id;
        match self.engine.wait(Token(id), first.deadline) {
            Some(ticket) => {
                self.note(|_| format!("{id} waits for room"));
                self.book.report.count("waited for room");
                self.tickets.push((id, ticket));
                self.book.open(self.now, Record::new(first.clone(), State::Waiting, (0, 0), id));
                self.parked.push((id, plans));
            }
            None if self.terminated || self.engine.is_closed() => {}
            None if self.engine.waiting() >= self.settings.limits.waiting_max => {
                self.book.report.count("refused to wait");
            }
            None => self.book.complain("an open connection lets nobody wait"),
        }
        self.drain();
    }

    /// The caller whose turn it is submits what it has in hand, or thinks better of it.
    pub(super) fn take_turn(&mut self) {
        let Some(plans) = self.turn.take() else { return };
        let was_idle = self.transmit_is_empty();
        if !self.rng.one_in(10) && !self.engine.is_closed() {
            self.submit_all(plans);
        }
        self.engine.end_turn(self.now);
        self.waited_from_now(was_idle);
        self.moved = true;
        self.drain();
    }

    fn cancel(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let at = self.rng.index(self.tickets.len());
        let (id, ticket) = self.tickets[at];
        let was_open = self.book.records.get(&id).is_some_and(Record::is_open);
        let was_idle = self.transmit_is_empty();
        let taken_back = self.engine.cancel(self.now, ticket);
        self.waited_from_now(was_idle);
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

    /// A prepared statement leaves the cache, maybe while requests use it.
    fn forget_prepared(&mut self) {
        if !self.prepared.is_empty() && self.rng.one_in(4) {
            let at = self.rng.index(self.prepared.len());
            let (id, _) = self.prepared.swap_remove(at);
            self.engine.protocol_mut().unregister(id);
        }
    }

    pub(super) fn register_prepared(&mut self) {
        for prepared in std::mem::take(&mut self.book.confirmed) {
            let id = self.engine.protocol_mut().register(prepared.heal());
            self.prepared.push((id, prepared));
        }
    }

    pub(super) fn terminate(&mut self) {
        self.note(|_| "terminate".into());
        self.terminated = true;
        let was_idle = self.transmit_is_empty();
        self.engine.terminate(self.now);
        self.waited_from_now(was_idle);
    }

    /// What no step may exceed.
    pub(super) fn check_limits(&mut self) {
        let limits = &self.settings.limits;
        let engine = &self.engine;
        let window = limits.in_flight_max.max(1);
        let request = self.bytes_max + ADDED_MAX;
        let bytes = limits.in_flight_bytes_max + request;
        let replies = bytes + (window + 1).saturating_mul(self.reply_max);
        let wishes = self.floors.len();
        let checks = [
            ("in flight", engine.in_flight(), window),
            ("bytes in flight", engine.in_flight_bytes(), bytes),
            ("queued", engine.queued(), 2 * (limits.queue_max + self.run_max) + wishes),
            (
                "bytes queued",
                engine.queued_bytes(),
                2 * (limits.queue_bytes_max + self.run_max * request),
            ),
            ("bytes undelivered", engine.undelivered_bytes(), replies),
            // What is unwritten of requests whose reply came early stays behind.
            ("bytes unwritten", engine.transmit().len(), 2 * bytes + OWED_MAX),
        ];
        for (what, is, max) in checks {
            if is > max {
                self.book.complain(format!("{is} {what}, and {max} is the most"));
            }
        }
    }
}

/// Bytes that the engine may add to a request: what prepares its statement anew, and a Flush.
const ADDED_MAX: usize = 200;
/// A reset, which no request has to wait for.
const OWED_MAX: usize = 1000;
