//! What a host does for its pool and its connections, over a network that takes its time.

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::pool::{ConnectionId, Load, Output, Served, Workload};
use onetrip_engine::{self as engine, CancelEnd, Connection, End, Outcome, Time};

use super::server::Backend;
use super::tasks::Task;
use super::{Event, Sim, Use, WAIT_MAX, micros};
use crate::toy::Toy;

pub(super) struct Conn {
    pub(super) id: ConnectionId,
    pub(super) engine: Connection<Toy>,
    pub(super) input: BytesMut,
    pub(super) workload: Workload,
    pub(super) tasks: HashMap<u32, Option<engine::pool::Task>>,
    pub(super) since: Time,
    pub(super) used: Use,
    /// How many were unanswered when the pool was told last.
    pub(super) reported: usize,
    /// When the last bytes in each direction arrive.
    pub(super) arrives: [Time; 2],
    pub(super) due: Time,
}

impl Conn {
    /// Statements whose callers have gone are unanswered, too.
    pub(super) fn unanswered(&self) -> usize {
        self.engine.in_flight() + self.engine.queued() + self.engine.waiting()
    }
}

impl Sim {
    pub(super) fn opened(&mut self, id: ConnectionId) {
        let limits = engine::Limits {
            yield_after: self.pool.timings().yield_after(),
            wait_behind_max: if self.has_calls { WAIT_MAX } else { Duration::MAX },
            in_flight_max: self.in_flight_max,
            ..engine::Limits::default()
        };
        self.server.backends.push(Backend::default());
        let mut engine = Connection::new(self.now, Toy::default(), limits);
        engine.yield_to(self.pool.timings().holders().clone());
        self.conns.push(Conn {
            id,
            engine,
            input: BytesMut::new(),
            workload: Workload::new(Duration::from_millis(2)),
            tasks: HashMap::new(),
            since: self.now,
            used: Use::Draining,
            reported: 0,
            arrives: [self.now; 2],
            due: Time::NEVER,
        });
        self.pool.handle_opened(self.now, id);
    }

    pub(super) fn index(&self, id: ConnectionId) -> usize {
        self.conns.iter().position(|conn| conn.id == id).unwrap()
    }

    /// Sends the cancel that a connection asked for, unless the host can't.
    pub(super) fn cancel(&mut self, at: usize) {
        let fails = self.below(10) == 0;
        if !self.conns[at].engine.begin_cancel(self.now) {
            return;
        }
        if fails {
            return self.conns[at].engine.handle_cancel_end(self.now, CancelEnd::NotSent);
        }
        let mut arrives = self.soon(20_000);
        // The signal goes to the process and to its group.
        for _ in 0..1 + self.below(3) / 2 {
            self.plan(arrives, Event::Signal(at));
            arrives = arrives.after(micros(self.below(500)));
        }
        let ends = arrives.after(micros(self.below(20_000)));
        self.plan(ends, Event::CancelEnds(at));
    }

    /// Carries out what the pool, the connections and the server have said, until nothing is left.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        loop {
            for (at, wake) in std::mem::take(&mut self.server.wakes) {
                self.plan(at, Event::Server(wake));
            }
            for (at, bytes) in std::mem::take(&mut self.server.replies) {
                self.travel(at, 1, bytes);
            }
            let (numbers, mut is_done) = (self.numbers, true);
            for at in 0..self.conns.len() {
                is_done &= !self.obey_connection(at)?;
                self.report(at);
            }
            is_done &= !self.obey_pool()?;
            if is_done && self.numbers == numbers {
                break;
            }
        }
        for at in 0..self.conns.len() {
            if let Some(due) = self.conns[at].engine.poll_deadline()
                && due < self.conns[at].due
            {
                self.conns[at].due = due;
                self.plan(due.max(self.now), Event::Due(at));
            }
        }
        let is_over = self.tasks.iter().all(Task::is_over);
        if let Some(due) = self.pool.poll_deadline().filter(|due| *due < self.pool_due && !is_over)
        {
            self.pool_due = due;
            self.plan(due.max(self.now), Event::PoolDue);
        }
        Ok(())
    }

    /// Bytes arrive later, in order. `to`: 0 for the server, 1 for the client.
    pub(super) fn travel(&mut self, at: usize, to: usize, bytes: Vec<u8>) {
        let arrives = self.soon(2_000).max(self.conns[at].arrives[to]);
        self.conns[at].arrives[to] = arrives;
        let event = [Event::Arrives, Event::Replies][to];
        self.plan(arrives, event(at, bytes));
    }

    pub(super) fn obey_connection(&mut self, at: usize) -> Result<bool, String> {
        let bytes = self.conns[at].engine.transmit().to_vec();
        if !bytes.is_empty() {
            self.conns[at].engine.handle_written(self.now, bytes.len());
            self.travel(at, 0, bytes);
        }
        let mut any = false;
        while let Some(output) = self.conns[at].engine.poll_output() {
            any = true;
            match output {
                engine::Output::Ended { token, end, .. } => self.ended(at, token.0 as u32, end)?,
                engine::Output::Restarted { token } => self.restarted(at, token.0 as u32),
                engine::Output::Cancel => {
                    let ready = self.soon(10_000);
                    self.plan(ready, Event::Cancels(at));
                }
                engine::Output::Full
                | engine::Output::Drained
                | engine::Output::Data { .. }
                | engine::Output::Closed(engine::CloseReason::Host) => {}
                other => return Err(format!("a connection said {other:?}")),
            }
        }
        Ok(any)
    }

    pub(super) fn restarted(&mut self, at: usize, id: u32) {
        let conn = &mut self.conns[at];
        if let Some(task) = conn.tasks.get_mut(&id).and_then(Option::as_mut) {
            conn.workload.restart(task);
        }
        let statement = self.statements.get_mut(&id).unwrap();
        statement.restarts += 1;
        self.most_restarts = self.most_restarts.max(statement.restarts);
        self.seen.restarts += 1;
    }

    pub(super) fn obey_pool(&mut self) -> Result<bool, String> {
        let mut any = false;
        loop {
            let conns = &self.conns;
            let Some(output) = self.pool.poll_output(self.now, |id| load(conns, id)) else {
                return Ok(any);
            };
            any = true;
            match output {
                Output::Open { id } => {
                    let opened = self.soon(30_000);
                    self.plan(opened, Event::Opened(id));
                }
                Output::Placed(Served { token, id, .. }) => {
                    self.send(self.index(id), (token.0 >> 8) as u32);
                }
                Output::Granted(Served { token, id, .. }) => {
                    let (at, task) = (self.index(id), token.0 as usize);
                    self.conns[at].used = Use::Exclusive(task);
                    self.tasks[task].holds = Some(at);
                    self.tasks[task].checks_out = false;
                    self.go_on(task);
                }
                Output::Shared { id } => self.use_as(id, Use::Shared),
                Output::Drain { id } => {
                    self.use_as(id, Use::Draining);
                    if self.conns[self.index(id)].unanswered() == 0 {
                        self.pool.handle_drained(id);
                    }
                }
                Output::Close { id } => {
                    let at = self.index(id);
                    self.conns[at].engine.terminate(self.now);
                    self.use_as(id, Use::Gone);
                }
                Output::Failed { token, cause: engine::pool::Cause::Deadline } => {
                    let outcome = Outcome::NotSent;
                    let failure = engine::Failure { outcome, cause: engine::Cause::Deadline };
                    self.told((token.0 >> 8) as u32, End::Failed(failure))?;
                }
                other => return Err(format!("the pool said {other:?}")),
            }
        }
    }

    pub(super) fn use_as(&mut self, id: ConnectionId, used: Use) {
        let at = self.index(id);
        self.conns[at].used = used;
    }
}

pub(super) fn load(conns: &[Conn], id: ConnectionId) -> Load {
    let conn = conns.iter().find(|conn| conn.id == id).unwrap();
    Load {
        unanswered: conn.unanswered(),
        unanswered_bytes: conn.engine.in_flight_bytes() + conn.engine.queued_bytes(),
        since: conn.since,
        room: usize::MAX,
        expected: conn.workload.expected(),
        unsure: conn.workload.unsure(),
        locking: conn.workload.locking(),
        staying: conn.workload.staying(),
        trip: conn.workload.trip(),
    }
}
