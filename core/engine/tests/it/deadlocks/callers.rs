//! How tasks go on: step by step, whenever all that they wait for has come.

use std::time::Duration;

use onetrip_engine::pool::Condition;
use onetrip_engine::{Cause, End, Outcome, Request, SyncPoint, Time, Token};

use super::host::load;
use super::server::Work;
use super::tasks::Step;
use super::{Event, Place, Sim, Statement, Use, WAIT_MAX, micros};
use crate::toy::{Expect, put_request};

impl Sim {
    pub(super) fn go_on(&mut self, at: usize) {
        loop {
            let task = &mut self.tasks[at];
            task.epoch += 1;
            if task.thinks || task.enters || task.checks_out || !task.awaits.is_empty() {
                return;
            }
            let Some(step) = task.steps.pop_front() else { return };
            let ends = matches!(step, Step::Own(Work::Commit) | Step::Return | Step::Leave);
            if task.failed && !ends {
                continue;
            }
            match step {
                Step::Think(wait) => {
                    task.thinks = true;
                    self.plan(self.now.after(wait), Event::Goes(at));
                }
                Step::Enter if self.inside.is_some() => task.enters = true,
                Step::Enter => self.inside = Some(at),
                Step::Checkout => {
                    task.checks_out = true;
                    self.pool.checkout(self.now, Token(at as u64), Some(Time::NEVER));
                }
                Step::Own(work) => {
                    let conn = task.holds.unwrap();
                    let id = self.make(at, work, None, true);
                    self.send(conn, id);
                }
                Step::Shared(works) => {
                    for (work, deadline) in works {
                        let id = self.make(at, work, deadline, false);
                        self.place(id);
                    }
                }
                Step::Return => {
                    task.failed = false;
                    let conn = task.holds.take().unwrap();
                    let id = self.conns[conn].id;
                    self.conns[conn].used = Use::Draining;
                    self.pool.release(self.now, id, Condition::Clean);
                }
                Step::Leave => {
                    self.inside = None;
                    if let Some(next) = self.tasks.iter().position(|task| task.enters) {
                        self.tasks[next].enters = false;
                        self.inside = Some(next);
                        self.plan(self.now, Event::Goes(next));
                    }
                }
            }
        }
    }

    pub(super) fn make(
        &mut self,
        task: usize,
        work: Work,
        deadline: Option<Duration>,
        is_own: bool,
    ) -> u32 {
        let id = self.statements.len() as u32;
        let most = if self.below(50) == 0 { 100_000 } else { 300 };
        let takes = micros(20 + self.below(most));
        let deadline = deadline.map_or(Time::NEVER, |wait| self.now.after(wait));
        let place = Place::Line;
        self.server.works.insert(id, (work, takes));
        let statement = Statement { task, is_own, work, place, deadline, restarts: 0, end: None };
        self.statements.insert(id, statement);
        self.tasks[task].awaits.insert(id);
        self.seen.statements += 1;
        id
    }

    pub(super) fn place(&mut self, id: u32) {
        let key = self.key(self.statements[&id].work);
        let conns = &self.conns;
        match self.pool.place(self.now, key, |id| load(conns, id)) {
            Some(on) => self.send(self.index(on), id),
            None => {
                let (token, deadline) =
                    (Token(u64::from(id) << 8 | 255), self.statements[&id].deadline);
                let limit = if self.has_calls { self.now.after(WAIT_MAX) } else { Time::NEVER };
                let deadline = deadline.min(limit);
                self.pool.wait_shared(self.now, token, key, Some(deadline));
            }
        }
    }

    pub(super) fn send(&mut self, at: usize, id: u32) {
        let statement = self.statements.get_mut(&id).unwrap();
        statement.place = Place::On(at);
        let (work, deadline) = (statement.work, statement.deadline);
        let (key, conn) = (self.key(work), &mut self.conns[at]);
        let is_own = matches!(conn.used, Use::Exclusive(_));
        if conn.unanswered() == 0 {
            conn.since = self.now.after(conn.workload.trip());
        }
        let task = (!is_own).then(|| conn.workload.begin(self.now, key, self.pool.timings()));
        conn.tasks.insert(id, task);
        let expect = Expect::new(id, SyncPoint::Own);
        let request = Request::isolated(Token(id.into()), expect);
        let cancel_late = self.cancel_late && !is_own;
        let resend = !is_own && !matches!(work, Work::Once | Work::Call(_));
        let request = Request { resend, pinned: is_own, cancel_late, ..request };
        let request = Request { deadline, ..request };
        let sent = conn.engine.submit(self.now, request, |out| {
            put_request(out, id, SyncPoint::Own, b"o");
            Ok::<(), ()>(())
        });
        sent.unwrap();
    }

    pub(super) fn ended(&mut self, at: usize, id: u32, end: End) -> Result<(), String> {
        let conn = &mut self.conns[at];
        if let Some(task) = conn.tasks.remove(&id).flatten() {
            let _ = conn.workload.ended(self.now, task, &end, self.pool.timings());
        }
        conn.since = self.now;
        self.told(id, end)
    }

    /// Tells the pool what a connection has become, after each step.
    pub(super) fn report(&mut self, at: usize) {
        let waiting = self.pool.waiting() > 0;
        let conn = &mut self.conns[at];
        let unanswered = conn.unanswered();
        let was = std::mem::replace(&mut conn.reported, unanswered);
        if conn.reported == 0 {
            conn.workload.clear();
        }
        match conn.used {
            _ if was == conn.reported => {}
            Use::Draining if conn.reported == 0 => self.pool.handle_drained(conn.id),
            Use::Shared if conn.reported == 0 && waiting => self.pool.handle_drained(conn.id),
            Use::Shared if waiting => self.pool.handle_room(),
            _ => {}
        }
    }

    /// A statement has ended for its caller.
    pub(super) fn told(&mut self, id: u32, end: End) -> Result<(), String> {
        let statement = self.statements.get_mut(&id).unwrap();
        if statement.end.replace(end).is_some() {
            return Err(format!("{id} ended twice"));
        }
        let is_late = self.now >= statement.deadline;
        match end {
            End::Complete => self.seen.completed += 1,
            _ if is_late => self.seen.late += 1,
            // It was in line, or behind what is never taken away.
            End::Failed(failure)
                if self.has_calls
                    && failure.cause == Cause::Deadline
                    && failure.outcome != Outcome::Unknown =>
            {
                self.seen.waited += 1;
            }
            // The server has ended a cycle.
            _ if statement.work.lock().is_some() && self.server.deadlocks > 0 => {}
            end => return Err(format!("{id} ended as {end:?}")),
        }
        let task = statement.task;
        self.tasks[task].failed |= end != End::Complete && self.tasks[task].holds.is_some();
        self.tasks[task].awaits.remove(&id);
        self.go_on(task);
        Ok(())
    }
}
