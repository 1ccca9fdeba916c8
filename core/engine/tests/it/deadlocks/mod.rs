//! Deadlocks that no server can see, because one edge of the cycle is in the client: whoever holds a
//! lock awaits a statement that was placed behind one that waits for the lock. A real pool and real
//! connections serve programs from a seed, on a virtual clock; a book-keeper knows who waits for
//! whom.
//!
//! `ONETRIP_SEED=n cargo test -p onetrip-engine --test it deadlocks` repeats a run, and
//! `ONETRIP_RUNS=n` makes more.

mod book;
mod server;
mod tasks;

use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::pool::{
    Condition, ConnectionId, Limits, Load, Output, Pool, Served, TextKey, Workload,
};
use onetrip_engine::{
    self as engine, CancelEnd, Connection, End, Outcome, Request, SyncPoint, Time, Token,
};

use crate::toy::{Expect, Toy, put_request};
use server::{Backend, DEADLOCK_TIMEOUT, Lock, Server, Wake, Work};
use tasks::{Mix, Step, Task};

/// Which of the two guards are up.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Guards {
    placing: bool,
    yielding: bool,
}

enum Event {
    Goes(usize),
    Arrives(usize, Vec<u8>),
    Replies(usize, Vec<u8>),
    Server(Wake),
    /// The host is ready to send a cancel.
    Cancels(usize),
    Signal(usize),
    CancelEnds(usize),
    Opened(ConnectionId),
    Due(usize),
    PoolDue,
    Look,
}

/// Ordered by time and then by number, the earliest first.
struct Due(Time, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.1 == other.1
    }
}

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Shared,
    Draining,
    /// This task has it to itself.
    Exclusive(usize),
    Gone,
}

struct Conn {
    id: ConnectionId,
    engine: Connection<Toy>,
    input: BytesMut,
    workload: Workload,
    tasks: HashMap<u32, Option<engine::pool::Task>>,
    since: Time,
    used: Use,
    /// How many were unanswered when the pool was told last.
    reported: usize,
    /// When the last bytes in each direction arrive.
    arrives: [Time; 2],
    due: Time,
}

impl Conn {
    /// Statements whose callers have gone are unanswered, too.
    fn unanswered(&self) -> usize {
        self.engine.in_flight() + self.engine.queued() + self.engine.waiting()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Line,
    On(usize),
}

struct Statement {
    task: usize,
    work: Work,
    place: Place,
    deadline: Time,
    restarts: u32,
    end: Option<End>,
}

/// What the runs have covered.
#[derive(Debug, Default)]
struct Seen {
    statements: usize,
    completed: usize,
    late: usize,
    restarts: u32,
    deadlocks: usize,
    cancelled: usize,
    stuck: usize,
}

struct Sim {
    random: u64,
    now: Time,
    numbers: u64,
    events: BinaryHeap<Due>,
    guards: Guards,
    pool: Pool,
    pool_due: Time,
    conns: Vec<Conn>,
    server: Server,
    tasks: Vec<Task>,
    statements: HashMap<u32, Statement>,
    /// The task that has entered, where only one may.
    inside: Option<usize>,
    in_flight_max: usize,
    /// Whether a statement is cancelled at its deadline.
    cancel_late: bool,
    /// Until when each task that can't go on by itself may stay so, and at which of its steps.
    stuck: Vec<Option<(Time, u64)>>,
    most_restarts: u32,
    seen: Seen,
}

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

impl Sim {
    fn new(seed: u64, guards: Guards) -> Sim {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |n: u64| next(&mut random) % n;
        let Mix { connections, locks, tasks } = tasks::mix(&mut below);
        let yield_after = [50, 200, 500][below(3) as usize];
        let limits = Limits {
            connections_max: connections,
            yield_after: match guards.yielding {
                true => Duration::from_millis(yield_after),
                false => Duration::MAX,
            },
            lifetime: Duration::from_secs([1, 3, 1800, 1800][below(4) as usize]),
            ..Limits::default()
        };
        let is_known = below(4) > 0;
        let in_flight_max = [1, 2, 4, 1024, 1024, 1024][below(6) as usize];
        let cancel_late = below(3) > 0;
        let mut sim = Sim {
            pool: Pool::new(limits, seed),
            random,
            now: Time::ZERO,
            numbers: 0,
            events: BinaryHeap::new(),
            guards,
            pool_due: Time::NEVER,
            conns: Vec::new(),
            server: Server::default(),
            stuck: vec![None; tasks.len()],
            tasks,
            statements: HashMap::new(),
            inside: None,
            in_flight_max,
            cancel_late,
            most_restarts: 0,
            seen: Seen::default(),
        };
        sim.server.locks.resize_with(locks, Lock::default);
        for work in (0..locks).map(Work::Write).chain([Work::Read]) {
            let key = sim.key(work);
            (0..if is_known { 100 } else { 0 }).for_each(|_| {
                sim.pool.timings().took(key, micros(50), Duration::ZERO);
            });
        }
        (0..sim.tasks.len()).for_each(|at| sim.plan(Time::ZERO, Event::Goes(at)));
        sim.plan(Time::ZERO, Event::Look);
        sim
    }

    fn key(&self, work: Work) -> TextKey {
        let text = match work {
            Work::Read => "select a from t".to_owned(),
            // Locks of rows and advisory ones have texts of their own.
            Work::Write(lock) => "x".repeat(1 + lock % 3),
            Work::Begin | Work::Commit => return TextKey::UNTOLD,
        };
        TextKey::of(&text).locking(self.guards.placing && work != Work::Read)
    }

    fn below(&mut self, n: u64) -> u64 {
        next(&mut self.random) % n
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.numbers += 1;
        self.events.push(Due(at, self.numbers, event));
    }

    fn soon(&mut self, most_micros: u64) -> Time {
        let wait = micros(1 + self.below(most_micros));
        self.now.after(wait)
    }

    /// Runs to the end. The error says which promise was broken.
    fn live(mut self) -> Result<Seen, String> {
        let end = Time::ZERO.after(Duration::from_secs(1000));
        loop {
            let Some(Due(at, _, event)) = self.events.pop() else { return self.check() };
            self.now = at;
            if self.now > end {
                return Err(format!("no end: {}", self.state()));
            }
            self.happens(event)?;
            self.settle()?;
        }
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Goes(task) => {
                self.tasks[task].thinks = false;
                self.go_on(task);
            }
            Event::Arrives(at, bytes) => self.server.feed(self.now, at, &bytes),
            Event::Replies(at, bytes) => {
                let conn = &mut self.conns[at];
                conn.input.extend_from_slice(&bytes);
                conn.engine.handle_bytes(self.now, &mut conn.input);
            }
            Event::Server(wake) => self.server.wake(self.now, &wake),
            Event::Cancels(at) => self.cancel(at),
            Event::Signal(at) => self.server.signal(self.now, at),
            Event::CancelEnds(at) => {
                self.conns[at].engine.handle_cancel_end(self.now, CancelEnd::Closed);
            }
            Event::Opened(id) => self.opened(id),
            Event::Due(at) => {
                self.conns[at].due = Time::NEVER;
                self.conns[at].engine.handle_time(self.now);
            }
            Event::PoolDue => {
                self.pool_due = Time::NEVER;
                self.pool.handle_time(self.now);
            }
            Event::Look => self.look()?,
        }
        Ok(())
    }

    // --- what tasks do ---

    fn go_on(&mut self, at: usize) {
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
                    let id = self.make(at, work, None);
                    self.send(conn, id);
                }
                Step::Shared(works) => {
                    for (work, deadline) in works {
                        let id = self.make(at, work, deadline);
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

    fn make(&mut self, task: usize, work: Work, deadline: Option<Duration>) -> u32 {
        let id = self.statements.len() as u32;
        let takes = micros(20 + self.below(if self.numbers % 50 == 0 { 100_000 } else { 300 }));
        let deadline = deadline.map_or(Time::NEVER, |wait| self.now.after(wait));
        let place = Place::Line;
        self.server.works.insert(id, (work, takes));
        let statement = Statement { task, work, place, deadline, restarts: 0, end: None };
        self.statements.insert(id, statement);
        self.tasks[task].awaits.insert(id);
        self.seen.statements += 1;
        id
    }

    fn place(&mut self, id: u32) {
        let key = self.key(self.statements[&id].work);
        let conns = &self.conns;
        match self.pool.place(self.now, key, |id| load(conns, id)) {
            Some(on) => self.send(self.index(on), id),
            None => {
                let (token, deadline) =
                    (Token(u64::from(id) << 8 | 255), self.statements[&id].deadline);
                self.pool.wait_shared(self.now, token, key, Some(deadline));
            }
        }
    }

    fn send(&mut self, at: usize, id: u32) {
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
        let request = Request { resend: !is_own, pinned: is_own, cancel_late, ..request };
        let request = Request { deadline, ..request };
        let sent = conn.engine.submit(self.now, request, |out| {
            put_request(out, id, SyncPoint::Own, b"o");
            Ok::<(), ()>(())
        });
        sent.unwrap();
    }

    fn ended(&mut self, at: usize, id: u32, end: End) -> Result<(), String> {
        let conn = &mut self.conns[at];
        if let Some(task) = conn.tasks.remove(&id).flatten() {
            match end {
                End::Failed(failure) if failure.outcome == Outcome::NotSent => {
                    conn.workload.leave(task);
                }
                _ => _ = conn.workload.end(self.now, task, self.pool.timings()),
            }
        }
        conn.since = self.now;
        self.told(id, end)
    }

    /// Tells the pool what a connection has become, after each step.
    fn report(&mut self, at: usize) {
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
    fn told(&mut self, id: u32, end: End) -> Result<(), String> {
        let statement = self.statements.get_mut(&id).unwrap();
        if statement.end.replace(end).is_some() {
            return Err(format!("{id} ended twice"));
        }
        let is_late = self.now >= statement.deadline;
        match end {
            End::Complete => self.seen.completed += 1,
            _ if is_late => self.seen.late += 1,
            // The server has ended a cycle.
            _ if statement.work != Work::Read && self.server.deadlocks > 0 => {}
            end => return Err(format!("{id} ended as {end:?}")),
        }
        let task = statement.task;
        self.tasks[task].failed |= end != End::Complete && self.tasks[task].holds.is_some();
        self.tasks[task].awaits.remove(&id);
        self.go_on(task);
        Ok(())
    }

    // --- the host ---

    fn opened(&mut self, id: ConnectionId) {
        let limits = engine::Limits {
            yield_after: self.pool.timings().yield_after(),
            in_flight_max: self.in_flight_max,
            ..engine::Limits::default()
        };
        self.server.backends.push(Backend::default());
        self.conns.push(Conn {
            id,
            engine: Connection::new(self.now, Toy::default(), limits),
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

    fn index(&self, id: ConnectionId) -> usize {
        self.conns.iter().position(|conn| conn.id == id).unwrap()
    }

    /// Sends the cancel that a connection asked for, unless the host can't.
    fn cancel(&mut self, at: usize) {
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
    fn settle(&mut self) -> Result<(), String> {
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
    fn travel(&mut self, at: usize, to: usize, bytes: Vec<u8>) {
        let arrives = self.soon(2_000).max(self.conns[at].arrives[to]);
        self.conns[at].arrives[to] = arrives;
        let event = [Event::Arrives, Event::Replies][to];
        self.plan(arrives, event(at, bytes));
    }

    fn obey_connection(&mut self, at: usize) -> Result<bool, String> {
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

    fn restarted(&mut self, at: usize, id: u32) {
        let conn = &mut self.conns[at];
        if let Some(task) = conn.tasks.get_mut(&id).and_then(Option::as_mut) {
            conn.workload.restart(task);
        }
        let statement = self.statements.get_mut(&id).unwrap();
        statement.restarts += 1;
        self.most_restarts = self.most_restarts.max(statement.restarts);
        self.seen.restarts += 1;
    }

    fn obey_pool(&mut self) -> Result<bool, String> {
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

    fn use_as(&mut self, id: ConnectionId, used: Use) {
        let at = self.index(id);
        self.conns[at].used = used;
    }

    // --- what is promised ---

    /// Looks for those that can't go on by themselves, now and again.
    fn look(&mut self) -> Result<(), String> {
        let stuck = book::stuck(&self);
        for at in 0..self.tasks.len() {
            let (epoch, fresh) =
                (self.tasks[at].epoch, (self.now.after(self.bound()), self.tasks[at].epoch));
            let was = self.stuck[at].filter(|(_, of)| *of == epoch);
            self.stuck[at] = stuck.contains(&at).then(|| was.unwrap_or(fresh));
            self.seen.stuck += usize::from(self.stuck[at].is_some() && was.is_none());
            if self.stuck[at].is_some_and(|(until, _)| self.now > until) {
                return Err(format!("task {at} is in a cycle: {}", self.state()));
            }
        }
        if !self.tasks.iter().all(Task::is_over) {
            self.plan(self.now.after(Duration::from_millis(20)), Event::Look);
        }
        Ok(())
    }

    /// How long a task may be unable to go on by itself. Each statement in front may have to be taken
    /// away, after its time; and the server may have to end a cycle of its own first.
    fn bound(&self) -> Duration {
        let doublings = self.most_restarts.saturating_sub(2).min(10);
        let each = self.pool.limits().yield_after.min(Duration::from_millis(500));
        let slack = DEADLOCK_TIMEOUT + Duration::from_millis(1_000);
        each * (self.tasks.len() as u32 + 1) * (1 << doublings) + slack
    }

    /// Who has what and waits for what.
    fn state(&self) -> String {
        let mut state =
            format!("{:?} now {:?} due {:?}", self.pool, self.now, self.pool.poll_deadline());
        for (at, c) in self.conns.iter().enumerate() {
            state += &format!(
                " [{at}: {:?} {} {:?}]",
                c.workload,
                c.unanswered(),
                self.pool.limits().yield_after
            );
        }
        for (at, conn) in self.conns.iter().enumerate().filter(|(_, conn)| conn.used != Use::Gone) {
            let backend = &self.server.backends[at];
            let (queue, waits, engine) = (&backend.queue, backend.waits, &conn.engine);
            let sent: Vec<_> =
                conn.tasks.keys().map(|id| (*id, self.statements[id].work)).collect();
            state += &format!(
                "\n{at} {:?} since {:?}: {sent:?} at the server {queue:?} waits {waits:?}",
                conn.used, conn.since
            );
            state += &format!(" {engine:?} due {:?}", engine.poll_deadline());
        }
        for (at, task) in self.tasks.iter().enumerate() {
            state += &format!(
                "\ntask {at} holds {:?} awaits {:?} {}",
                task.holds, task.awaits, task.checks_out
            );
        }
        for lock in &self.server.locks {
            state += &format!("\n{:?} {:?}", lock.holder, lock.line);
        }
        state
    }

    /// Nothing happens any more.
    fn check(mut self) -> Result<Seen, String> {
        let is_quiet = |conn: &Conn| conn.engine.is_idle() && conn.tasks.is_empty();
        let is_over = self.tasks.iter().all(Task::is_over);
        if !(is_over && self.server.is_idle() && self.conns.iter().all(is_quiet)) {
            return Err("something is left".to_owned());
        }
        for (id, statement) in &self.statements {
            let effects = self.server.effects.get(id).copied().unwrap_or(0);
            let Some(end) = statement.end else { return Err(format!("{id} was never answered")) };
            let is_true = match end {
                _ if !matches!(statement.work, Work::Write(_)) => true,
                // What a transaction wrote is undone if that fails later.
                End::Complete if self.server.deadlocks > 0 => effects <= 1,
                End::Complete => effects == 1,
                End::Failed(failure) if failure.outcome == Outcome::Unknown => effects <= 1,
                End::Failed(_) => effects == 0,
                End::Provisional => false,
            };
            if !is_true {
                return Err(format!("{id} ended as {end:?} and took effect {effects} times"));
            }
        }
        self.seen.deadlocks = self.server.deadlocks;
        self.seen.cancelled = self.server.cancelled;
        Ok(self.seen)
    }
}

fn load(conns: &[Conn], id: ConnectionId) -> Load {
    let conn = conns.iter().find(|conn| conn.id == id).unwrap();
    Load {
        unanswered: conn.unanswered(),
        unanswered_bytes: conn.engine.in_flight_bytes() + conn.engine.queued_bytes(),
        since: conn.since,
        room: usize::MAX,
        expected: conn.workload.expected(),
        unsure: conn.workload.unsure(),
        locking: conn.workload.locking(),
        trip: conn.workload.trip(),
    }
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
}

const BOTH: Guards = Guards { placing: true, yielding: true };

#[test]
fn nobody_waits_for_ever_for_one_who_waits_for_him() {
    let number = |name| std::env::var(name).ok().map(|n| n.parse::<u64>().unwrap());
    if let Some(seed) = number("ONETRIP_SEED") {
        match Sim::new(seed, BOTH).live() {
            Ok(seen) => eprintln!("{seen:?}"),
            Err(broken) => panic!("{broken}"),
        }
        return;
    }
    let mut all = Seen::default();
    for seed in 1..=number("ONETRIP_RUNS").unwrap_or(300) {
        match Sim::new(seed, BOTH).live() {
            Ok(seen) => all.add(&seen),
            Err(broken) => panic!("ONETRIP_SEED={seed} repeats this run: {broken}"),
        }
    }
    eprintln!("{all:?}");
    // A generator that no longer covers something would silently test nothing.
    let restarts = all.restarts as usize;
    for reached in [restarts, all.cancelled, all.stuck, all.late, all.deadlocks] {
        assert!(reached > 0, "{all:?}");
    }
}

/// Without the guards it has to find what they are for.
#[test]
fn without_its_guards_there_are_cycles() {
    let broken = |guards| {
        let runs = (1..=200).map(|seed| Sim::new(seed, guards).live());
        runs.filter(|run| run.as_ref().is_err_and(|error| error.contains("cycle"))).count()
    };
    let none = broken(Guards { placing: false, yielding: false });
    let placing = broken(Guards { placing: true, yielding: false });
    let yielding = broken(Guards { placing: false, yielding: true });
    eprintln!("{none}, {placing} with the placing alone, {yielding} with the yielding alone");
    assert!(none > 20 && placing > 0 && placing < none);
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.statements += other.statements;
        self.completed += other.completed;
        self.late += other.late;
        self.restarts += other.restarts;
        self.deadlocks += other.deadlocks;
        self.cancelled += other.cancelled;
        self.stuck += other.stuck;
    }
}
