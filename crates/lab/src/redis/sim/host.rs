//! The host: what it submits, takes back, waits for and gives up.

use onetrip_engine::{Cause, Outcome, Request, SubmitError, Ticket, Token};
use onetrip_redis::Expect;

use super::book::{Record, State, failed};
use super::plan::Plan;
use super::world::World;

/// What became of a request that was to be submitted.
#[derive(PartialEq, Eq)]
enum Taken {
    Yes,
    Full,
    Never,
}

impl World {
    /// Does something that a host does.
    pub(super) fn act(&mut self) {
        match self.rng.below(12) {
            0..=7 => self.submit_one(),
            8 => (0..self.rng.up_to(20)).for_each(|_| self.submit_one()),
            9 | 10 => self.take_back(),
            _ => self.take_turn(),
        }
    }

    fn submit_one(&mut self) {
        let plan = self.plan();
        if self.rng.one_in(40) {
            return self.submit_broken(&plan);
        }
        if self.submit(plan.clone(), false) == Taken::Full {
            match self.rng.one_in(4) || plan.discard {
                true => self.book.report.count("refused"),
                false => self.wait(plan),
            }
        }
    }

    /// A request whose encoder fails half-way.
    fn submit_broken(&mut self, plan: &Plan) {
        let before = (self.engine.in_flight_bytes(), self.engine.queued_bytes());
        let written = self.engine.transmit().len();
        let result = self.engine.submit(self.now, request(plan, false), |out| {
            out.extend_from_slice(&plan.bytes);
            Err(())
        });
        let after = (self.engine.in_flight_bytes(), self.engine.queued_bytes());
        if result.is_ok() || before != after || written != self.engine.transmit().len() {
            self.book.complain("a request that failed to encode left something behind");
        }
        self.drain();
    }

    fn submit(&mut self, plan: Plan, reserved: bool) -> Taken {
        let full_before = self.book.report.of("full");
        self.bytes_max = self.bytes_max.max(plan.bytes.len());
        let was_idle = self.engine.transmit().is_empty();
        let result = self.engine.submit(self.now, request(&plan, reserved), |out| {
            out.extend_from_slice(&plan.bytes);
            Ok::<(), ()>(())
        });
        self.waited_from_now(was_idle);
        self.note(|_| format!("submit {} {:?} {result:?}", plan.id, plan.kind));
        let queued = matches!(result, Ok(Ticket::Queued(_)) | Err(SubmitError::QueueFull));
        let taken = self.keep(plan, result);
        self.drain();
        if queued && !self.book.full && self.book.report.of("full") == full_before {
            self.book.complain("a request had to wait, and Full never came");
        }
        taken
    }

    /// Takes note of what became of it.
    fn keep(&mut self, plan: Plan, result: Result<Ticket, SubmitError<()>>) -> Taken {
        match result {
            Ok(ticket) => {
                if ticket != Ticket::Sent && !plan.discard {
                    self.tickets.push((plan.id, ticket));
                }
                self.next_place += 1;
                let record = Record::new(plan, State::Submitted, self.next_place);
                self.book.open(self.now, record);
                return Taken::Yes;
            }
            Err(SubmitError::QueueFull) if reserved_in_vain(self, &plan) => {
                self.book.complain(format!("{} was refused, though there was room", plan.id));
            }
            Err(SubmitError::QueueFull) => return Taken::Full,
            Err(SubmitError::Closed) if self.terminated || self.engine.is_closed() => {}
            Err(error) => self.book.complain(format!("{} was refused: {error:?}", plan.id)),
        }
        Taken::Never
    }

    /// Waiting for the peer begins when the first byte does.
    fn waited_from_now(&mut self, was_idle: bool) {
        if was_idle && !self.engine.transmit().is_empty() {
            self.last_moved = self.now;
        }
    }

    fn wait(&mut self, plan: Plan) {
        let id = plan.id;
        match self.engine.wait(Token(id), plan.deadline) {
            Some(ticket) => {
                self.note(|_| format!("{id} waits for room"));
                self.book.report.count("waited for room");
                self.tickets.push((id, ticket));
                self.book.open(self.now, Record::new(plan.clone(), State::Waiting, 0));
                self.parked.push(plan);
            }
            None if self.terminated || self.engine.is_closed() => {}
            None if self.engine.waiting() >= self.settings.network.limits.waiting_max => {
                self.book.report.count("refused to wait");
            }
            None => self.book.complain("an open connection lets nobody wait"),
        }
        self.drain();
    }

    /// The caller whose turn it is submits what it has in hand, or thinks better of it.
    pub(super) fn take_turn(&mut self) {
        let Some(plan) = self.turn.take() else { return };
        let was_idle = self.engine.transmit().is_empty();
        if !self.rng.one_in(10) && !self.engine.is_closed() {
            self.reserved = Some(plan.id);
            self.submit(plan, true);
            self.reserved = None;
        }
        self.engine.end_turn(self.now);
        self.waited_from_now(was_idle);
        self.moved = true;
        self.drain();
    }

    /// A caller goes away: what was not sent is taken back.
    fn take_back(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let at = self.rng.index(self.tickets.len());
        let (id, ticket) = self.tickets[at];
        let was_open = self.book.records.get(&id).is_some_and(Record::is_open);
        let was_idle = self.engine.transmit().is_empty();
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

    /// Callers take some of the replies that reading waits for, or all.
    pub(super) fn consume(&mut self) {
        if self.untaken == 0 {
            return;
        }
        let some = if self.rng.one_in(2) { self.untaken } else { self.rng.up_to(self.untaken) };
        self.engine.handle_taken(some);
        self.untaken -= some;
        self.moved = true;
        self.book.report.count("slow reader took some");
    }

    /// Counts what its caller has not taken.
    pub(super) fn note_received(&mut self, token: Token, len: usize) {
        let record = self.book.records.get(&token.0);
        if record.is_some_and(|record| record.plan.metered) {
            self.untaken += len;
        }
    }

    pub(super) fn terminate(&mut self) {
        self.note(|_| "terminate".into());
        self.terminated = true;
        let was_idle = self.engine.transmit().is_empty();
        self.engine.terminate(self.now);
        self.waited_from_now(was_idle);
    }

    /// What no step may exceed.
    pub(super) fn check_limits(&mut self) {
        let limits = &self.settings.network.limits;
        let engine = &self.engine;
        let window = limits.in_flight_max.max(1);
        let request = self.bytes_max + ADDED_MAX;
        let bytes = limits.in_flight_bytes_max + request;
        let checks = [
            ("in flight", engine.in_flight(), window),
            ("bytes in flight", engine.in_flight_bytes(), bytes),
            // What is sent again goes in front of a queue that may be full.
            ("queued", engine.queued(), limits.queue_max + 1 + window),
            ("bytes queued", engine.queued_bytes(), limits.queue_bytes_max + request + bytes),
            ("bytes undelivered", engine.undelivered_bytes(), 0),
            ("bytes untaken", engine.untaken_bytes(), limits.untaken_bytes_max + self.input_max),
            // What is unwritten of requests whose reply came early stays behind.
            ("bytes unwritten", engine.transmit().len(), 2 * bytes),
        ];
        if !engine.is_closed() && engine.untaken_bytes() != self.untaken {
            let (counted, left) = (engine.untaken_bytes(), self.untaken);
            self.book.complain(format!("{left} bytes were not taken, and {counted} are counted"));
        }
        for (what, is, max) in checks {
            if is > max {
                self.book.complain(format!("{is} {what}, and {max} is the most"));
            }
        }
    }
}

/// Whether it was announced that there is room for this request.
fn reserved_in_vain(world: &World, plan: &Plan) -> bool {
    world.reserved == Some(plan.id)
}

fn request(plan: &Plan, reserved: bool) -> Request<Expect> {
    let token = if plan.discard { Token::DISCARD } else { Token(plan.id) };
    Request {
        deadline: plan.deadline,
        again: plan.again,
        in_order: plan.in_order,
        metered: plan.metered,
        reserved,
        ..Request::isolated(token, plan.expect())
    }
}

/// Bytes that the engine may add to a request: what loads its script anew.
const ADDED_MAX: usize = 200;
