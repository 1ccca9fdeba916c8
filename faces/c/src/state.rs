//! The state of a client: the pool, its connections, who waits for what. All of it is marshalled,
//! and nothing is decided.
//!
//! What one thing leads to is written down (`Todo`), and done behind it, in its order.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use onetrip_client::completion::outcome;
use onetrip_client::{Connection, Pool};
use onetrip_engine::Time;
use onetrip_postgres::client::connect::keywords::Keyword;
use onetrip_postgres::client::identity::Lineage;
use onetrip_postgres::client::said;
use onetrip_postgres::client::texts::text_key;
use onetrip_postgres::sql::{Place, classify, refusal};
use rustix::event::epoll;

use crate::call::{Call, Request, Stage, Statement, Then, Want};
use crate::config::Config;
use crate::failure::Failure;
use crate::link::Link;
use crate::listener::Listener;
use crate::opening::Opening;
use crate::redis::RedisConfig;
use crate::session::Session;

mod drive;
mod ends;
mod own;
mod pool;
mod records;

pub(crate) use drive::Cancel;

/// Connections from this number on are none of the pool's.
pub(crate) const APART: u32 = 1 << 31;

/// Texts that are remembered.
const STATEMENTS_MAX: usize = 1024;

/// Lists of types that have a number of their own. What has none is never prepared.
const TYPES_MAX: usize = 4096;

/// Uses of a statement in one request, and their bytes.
const RUN_MAX: usize = 255;
const RUN_BYTES: usize = 32 << 10;

/// Which server it is.
#[derive(Debug)]
pub(crate) enum Server {
    Postgres(Box<Config>),
    Redis(Box<RedisConfig>),
}

/// Who waits for a connection.
pub(crate) enum Waiting {
    Call(Rc<Call>),
    Session(Rc<Session>),
}

/// What is to be done.
pub(crate) enum Todo {
    /// What the engine says of a connection is told.
    Walk(u32),
    /// The same of the pool.
    Pool,
    /// What waits on a session may go on.
    Advance(Rc<Session>),
    /// A call is sent again.
    Place(Rc<Call>),
}

type Timer = Reverse<(Time, u64)>;

/// The state of a client.
pub(crate) struct State {
    pub(crate) server: Server,
    pub(crate) poll: OwnedFd,
    pub(crate) pool: Pool<Rc<RefCell<Connection>>>,
    pub(crate) links: BTreeMap<u32, Link>,
    pub(crate) openings: BTreeMap<u32, Opening>,
    pub(crate) cancels: BTreeMap<u32, Cancel>,
    in_line: BTreeMap<u32, Waiting>,
    tokens: u32,
    /// Connections with bytes to send, perhaps.
    dirty: Vec<u32>,
    todo: VecDeque<Todo>,
    pub(crate) lineage: Lineage,
    seed: u64,
    /// Numbers of connections apart, and of cancels.
    pub(crate) apart: u32,
    /// Why a connection could not be opened last.
    pub(crate) last_error: Option<Failure>,
    pub(crate) is_closing: bool,
    /// No connection is left, and none comes.
    pub(crate) is_closed: bool,
    /// What is sent again, since its connection was lost, and when.
    pausing: Vec<(Time, Rc<Call>)>,
    /// When calls are late.
    timers: BinaryHeap<Timer>,
    timed: HashMap<u64, Weak<Call>>,
    timers_made: u64,
    statements: HashMap<Box<str>, Rc<Statement>>,
    types: HashMap<Vec<u32>, (u32, Rc<[u32]>)>,
    pub(crate) callbacks: Vec<Rc<Then>>,
    pub(crate) listeners: Vec<Rc<RefCell<Listener>>>,
    /// Bytes of one result that are kept.
    result_bytes_max: usize,
    /// Where bytes are read to, and events.
    pub(crate) room: Vec<u8>,
    events: Vec<epoll::Event>,
}

/// What time it is.
pub(crate) fn clock() -> Time {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Time::from_nanos(START.elapsed().as_nanos() as u64)
}

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without a source of random bytes nothing may log in, nor be named.
    getrandom::fill(&mut bytes).unwrap_or_else(|_| std::process::abort());
    bytes
}

impl State {
    pub(crate) fn new(server: Server) -> io::Result<State> {
        let (of_pool, kept) = match &server {
            Server::Postgres(config) => (config.of_pool(), config.number(Keyword::ResultBytesMax)),
            Server::Redis(config) => (config.of_pool(), 0),
        };
        let seed = u64::from_le_bytes(random());
        let mut state = State {
            server,
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            pool: Pool::new(clock(), &of_pool, seed),
            links: BTreeMap::new(),
            openings: BTreeMap::new(),
            cancels: BTreeMap::new(),
            in_line: BTreeMap::new(),
            tokens: 0,
            dirty: Vec::new(),
            todo: VecDeque::from([Todo::Pool]),
            lineage: Lineage::default(),
            seed,
            apart: APART,
            last_error: None,
            is_closing: false,
            is_closed: false,
            pausing: Vec::new(),
            timers: BinaryHeap::new(),
            timed: HashMap::new(),
            timers_made: 0,
            statements: HashMap::new(),
            types: HashMap::new(),
            callbacks: Vec::new(),
            listeners: Vec::new(),
            result_bytes_max: if kept == 0 { usize::MAX } else { kept as usize },
            room: vec![0; ROOM],
            events: Vec::with_capacity(EVENTS_MAX),
        };
        state.settle(clock());
        Ok(state)
    }

    pub(crate) fn next_seed(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }

    pub(crate) fn next_apart(&mut self) -> u32 {
        self.apart = self.apart.wrapping_add(1).max(APART);
        self.apart
    }

    pub(crate) fn does(&mut self, todo: Todo) {
        self.todo.push_back(todo);
    }

    /// Does what is to be done, until nothing is.
    pub(crate) fn settle(&mut self, now: Time) {
        while let Some(todo) = self.todo.pop_front() {
            match todo {
                Todo::Walk(number) => self.walk(now, number),
                Todo::Pool => self.walk_pool(now),
                Todo::Advance(session) => self.advance(now, &session),
                Todo::Place(call) => self.place(now, &call),
            }
        }
    }

    // --- what is known of texts ---

    pub(crate) fn statement(&mut self, text: &str) -> Rc<Statement> {
        if let Some(known) = self.statements.get(text) {
            return known.clone();
        }
        let traits = classify(text);
        let key = text_key(text, traits);
        let made = Rc::new(Statement { text: text.into(), traits, key });
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(text.into(), made.clone());
        made
    }

    /// The types that a request names, with a number that stands for them alone; none of most.
    pub(crate) fn types_of(&mut self, oids: Vec<u32>) -> Option<(u32, Rc<[u32]>)> {
        if oids.is_empty() {
            return Some((0, Rc::default()));
        }
        let id = self.types.len() as u32 + 1;
        if let Some(known) = self.types.get(&oids) {
            return Some(known.clone());
        }
        (self.types.len() < TYPES_MAX).then(|| {
            let made = (id, Rc::from(&*oids));
            self.types.insert(oids, made.clone());
            made
        })
    }

    /// The requests of one text with these sets of parameters, many in one.
    pub(crate) fn runs(
        &mut self,
        statement: &Rc<Statement>,
        sets: Vec<(Vec<u8>, Vec<u32>)>,
    ) -> Vec<Request> {
        let (mut requests, mut bytes): (Vec<Request>, _) = (Vec::new(), 0);
        for (parameters, oids) in sets {
            let types = self.types_of(oids).unwrap_or_default();
            bytes += parameters.len();
            match requests.last_mut() {
                Some(run)
                    if run.more.len() < RUN_MAX && bytes < RUN_BYTES && run.types == types =>
                {
                    run.more.push(parameters);
                }
                _ => {
                    bytes = parameters.len();
                    let statement = statement.clone();
                    requests.push(Request {
                        statement,
                        types,
                        first: parameters,
                        more: Vec::new(),
                    });
                }
            }
        }
        requests
    }

    /// Why a text does not go there, if it does not.
    pub(crate) fn refusal_of(&self, statement: &Statement, place: Place) -> Option<Failure> {
        if matches!(self.server, Server::Redis(_)) {
            return Some(Failure::unsent("protocol", "this is a client of Redis: call ot_command"));
        }
        let refusal = refusal(statement.traits, place)?;
        Some(Failure::unsent(refusal.code(), refusal.message()))
    }

    // --- calls ---

    /// Takes a call for a connection that others use as well.
    pub(crate) fn begin(&mut self, now: Time, call: &Rc<Call>) {
        self.time_out(call);
        match self.is_closing {
            true => self.fail(call, Failure::closed()),
            false => self.place(now, call),
        }
        self.settle(now);
    }

    fn place(&mut self, now: Time, call: &Rc<Call>) {
        if call.is_over() {
            return;
        }
        let number = self.pool.place(now, call.key);
        self.does(Todo::Pool);
        match number {
            0 => self.wait_shared(now, call),
            number => self.submit(now, number, call),
        }
    }

    /// Keeps its place in the line of the pool.
    fn wait_shared(&mut self, now: Time, call: &Rc<Call>) {
        let token = self.token();
        self.in_line.insert(token, Waiting::Call(call.clone()));
        call.now().stage = Stage::InLine(token);
        let until = call.look().requeue.as_ref().map(|it| it.until());
        self.pool.wait_shared(now, token, call.key, until);
        self.does(Todo::Pool);
    }

    fn token(&mut self) -> u32 {
        loop {
            self.tokens = self.tokens.wrapping_add(1);
            if self.tokens != 0 && !self.in_line.contains_key(&self.tokens) {
                return self.tokens;
            }
        }
    }

    /// Hands a call to the engine.
    fn submit(&mut self, now: Time, number: u32, call: &Rc<Call>) {
        let Some(link) = self.links.get_mut(&number).filter(|link| !link.is_over) else {
            // Lost in the moment in which it was told.
            return self.does(Todo::Place(call.clone()));
        };
        match link.submit(now, number, call) {
            // Others were placed there at the same time, and have filled its queue.
            Some(failure)
                if failure.is_of_room() && link.session.is_none() && !call.is_behind() =>
            {
                self.wait_shared(now, call);
            }
            Some(failure) => self.fail(call, failure),
            None => {
                let next = call.now().next.take();
                if let Some(next) = next.filter(|next| !next.is_over()) {
                    self.submit(now, number, &next);
                }
            }
        }
        self.does(Todo::Walk(number));
        self.soil(number);
    }

    /// A connection has bytes to send, perhaps.
    pub(crate) fn soil(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if !std::mem::replace(&mut link.is_dirty, true) {
            self.dirty.push(number);
        }
    }

    /// Ends a call that is not with the engine.
    pub(crate) fn fail(&mut self, call: &Rc<Call>, failure: Failure) {
        self.finish(call, Some(failure));
    }

    /// A call has ended: whoever waits hears of it.
    pub(crate) fn finish(&mut self, call: &Rc<Call>, failure: Option<Failure>) {
        let mut it = call.now();
        if it.stage == Stage::Over {
            return;
        }
        it.stage = Stage::Over;
        it.requests = Vec::new();
        if let Some(failure) = failure {
            let known = failure.known().over_attempts(it.may_have_run);
            let outcome = onetrip_client::completion::outcome_code(known);
            it.failure = Some(failure.with_outcome(outcome));
        }
        it.then.falls_due(&mut self.callbacks);
        // What goes behind it alone goes nowhere.
        let (next, failure) = (it.next.take(), it.failure.clone());
        drop(it);
        if let (Some(next), Some(failure)) = (next, failure) {
            self.finish(&next, Some(failure));
        }
    }

    /// Nobody waits for it any more.
    pub(crate) fn give_up(&mut self, now: Time, call: &Rc<Call>) {
        self.stop(now, call, (said::WITHDRAWN, said::CANCELLED));
        self.settle(now);
    }

    /// Ends a call early. What is said of it: where nothing of it was sent, and otherwise.
    fn stop(&mut self, now: Time, call: &Rc<Call>, (unsent, sent): (said::Said, said::Said)) {
        // What a transaction does is done, whoever waits for it.
        if matches!(call.want, Want::Act(_) | Want::Begin(_)) {
            return;
        }
        let stage = call.look().stage;
        let is_unsent = match stage {
            Stage::Over => return,
            Stage::Made => true,
            Stage::InLine(token) => {
                self.pool.give_up(now, token);
                self.in_line.remove(&token);
                self.does(Todo::Pool);
                true
            }
            Stage::Sent(number, token, ticket) => {
                let link = self.links.get_mut(&number);
                // Of several commands the one that was sent last says nothing of the others.
                let is_one = !matches!(&call.want, Want::Commands(of) if of.len() > 1);
                let is_unsent = link.is_some_and(|link| is_one && link.give_up(now, token, ticket));
                self.does(Todo::Walk(number));
                self.soil(number);
                // What was not written is gone, and with it perhaps what a connection was to be closed
                // behind.
                if self.pool.answered(now, number) {
                    self.does(Todo::Pool);
                }
                is_unsent
            }
        };
        let failure = match is_unsent {
            true => Failure::told(unsent, outcome::NOT_SENT),
            false => Failure::told(sent, outcome::UNKNOWN),
        };
        self.fail(call, failure);
    }

    // --- deadlines ---

    /// Sees that a call fails in time.
    pub(crate) fn time_out(&mut self, call: &Rc<Call>) {
        if call.deadline != Time::NEVER {
            self.timers_made += 1;
            self.timers.push(Reverse((call.deadline, self.timers_made)));
            self.timed.insert(self.timers_made, Rc::downgrade(call));
        }
    }

    fn expire(&mut self, now: Time) {
        while let Some(Reverse((at, number))) = self.timers.peek().copied() {
            let call = self.timed.get(&number).and_then(Weak::upgrade);
            let is_over = call.as_ref().is_none_or(|call| call.is_over());
            if at > now && !is_over {
                return;
            }
            self.timers.pop();
            self.timed.remove(&number);
            if let Some(call) = call.filter(|_| !is_over) {
                self.stop(now, &call, (said::LATE_UNSENT, said::LATE));
            }
        }
    }

    /// Its connection was lost, and it is sent again after this time.
    fn pause(&mut self, at: Time, call: &Rc<Call>) {
        call.restart(0);
        call.now().stage = Stage::Made;
        self.pausing.push((at, call.clone()));
    }

    /// Sends again what has paused.
    fn resume(&mut self, now: Time) {
        let (due, later): (Vec<_>, _) =
            std::mem::take(&mut self.pausing).into_iter().partition(|(at, _)| *at <= now);
        self.pausing = later;
        for (_, call) in due {
            self.does(Todo::Place(call));
        }
    }

    // --- the end ---

    /// Takes nothing new.
    pub(crate) fn close(&mut self, now: Time) {
        self.is_closing = true;
        for (_, call) in std::mem::take(&mut self.pausing) {
            self.fail(&call, Failure::closed());
        }
        for listener in std::mem::take(&mut self.listeners) {
            self.end_listener(now, &listener);
        }
        self.pool.close(now);
        self.does(Todo::Pool);
        self.settle(now);
    }

    /// Ends what is not answered.
    pub(crate) fn cut(&mut self, now: Time) {
        self.pool.cut(now);
        self.does(Todo::Pool);
        self.settle(now);
        for number in self.links.keys().copied().collect::<Vec<_>>() {
            self.destroy(now, number, "the client was closed before the answer came");
        }
        self.openings.clear();
        self.settle(now);
    }
}

/// Bytes that are read at a time.
const ROOM: usize = 1 << 17;

/// Events that are taken at a time.
const EVENTS_MAX: usize = 64;

/// A moment so many milliseconds from now; never, where they are negative.
pub(crate) fn in_ms(now: Time, ms: i32) -> Time {
    match u64::try_from(ms) {
        Ok(ms) => now.after(Duration::from_millis(ms)),
        Err(_) => Time::NEVER,
    }
}

impl AsFd for State {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
