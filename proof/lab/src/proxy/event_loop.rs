//! The proxy's thread: waits for sockets, for the next release time and for commands, and pumps the
//! connections they concern.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
    timerfd_create, timerfd_settime,
};

use super::config::{Direction, Link, ProxyConfig};
use super::connection::{Connection, Readiness, Side};
use super::faults::{Fault, Faults, Scope};
use super::pipe::Pipe;
use super::queue::SplitMix;
use super::recording::Passage;
use super::rope::Pool;
use super::socket::Socket;
use super::stats::Stats;
use super::trips::SideBySide;

/// What the handle asks of the thread. Each is answered once it is in effect.
pub(super) enum Command {
    SetLinks(Link, Link),
    Fault(Fault, Scope),
    ClearFaults,
    Stats,
    ResetStats,
    Record,
    Recorded,
    Stop,
}

/// The answer to a [`Command`].
pub(super) enum Answer {
    Done,
    Stats(Stats),
    Recorded(Vec<Passage>),
}

pub(super) struct EventLoop {
    epoll: OwnedFd,
    timer: OwnedFd,
    listener: TcpListener,
    config: ProxyConfig,
    connections: BTreeMap<u64, Connection>,
    next_id: u64,
    /// When which connection wants to be pumped: one entry per connection at most, the same as in
    /// `wakes`.
    agenda: BTreeSet<(u64, u64)>,
    wakes: BTreeMap<u64, u64>,
    /// What the timer is set to.
    armed_ns: Option<u64>,
    /// Accepting failed (no descriptors left); tried again at this time.
    accept_again_ns: Option<u64>,
    future_faults: (Faults, Faults),
    /// Counts of connections that are closed.
    closed: Stats,
    side_by_side: SideBySide,
    pool: Pool,
    commands: Receiver<Command>,
    answers: SyncSender<Answer>,
    stopping: bool,
}

impl EventLoop {
    pub(super) fn new(
        listener: TcpListener,
        config: ProxyConfig,
        wake: &Arc<OwnedFd>,
        commands: Receiver<Command>,
        answers: SyncSender<Answer>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered, so that neither the timer nor the event counter has to be read.
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), edge)?;
        epoll::add(&epoll, wake.as_fd(), epoll::EventData::new_u64(WAKE), edge)?;
        let level = epoll::EventFlags::IN;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), level)?;
        Ok(EventLoop {
            epoll,
            timer,
            listener,
            config,
            connections: BTreeMap::new(),
            next_id: 0,
            agenda: BTreeSet::new(),
            wakes: BTreeMap::new(),
            armed_ns: None,
            accept_again_ns: None,
            future_faults: Default::default(),
            closed: Stats::default(),
            side_by_side: SideBySide::default(),
            pool: Pool::default(),
            commands,
            answers,
            stopping: false,
        })
    }

    /// Runs until told to stop, or until the handle is gone.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stopping {
            self.wait(&mut events)?;
            let now_ns = now_ns();
            for event in events.drain(..) {
                match event.data.u64() {
                    TIMER => self.armed_ns = None,
                    WAKE => self.handle_commands(now_ns),
                    LISTENER => self.accept(now_ns)?,
                    token => self.handle_socket(token, event.flags, now_ns),
                }
            }
            self.pump_due()?;
        }
        Ok(())
    }

    /// Waits for an event or the next release time; within [`SPIN_NS`] of that time it only looks,
    /// and the loop spins.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let next_ns = self.agenda.first().map(|&(wake_ns, _)| wake_ns);
        let next_ns = next_ns.into_iter().chain(self.accept_again_ns).min();
        let spin = next_ns.is_some_and(|next_ns| next_ns <= now_ns() + SPIN_NS);
        if let Some(next_ns) = next_ns
            && !spin
        {
            self.arm(next_ns - SPIN_NS)?;
        }
        let timeout = spin.then_some(&Timespec { tv_sec: 0, tv_nsec: 0 });
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the timer. It is never stopped: a ring for nothing is harmless and rarer than stopping
    /// it would be.
    fn arm(&mut self, at_ns: u64) -> io::Result<()> {
        if self.armed_ns == Some(at_ns) {
            return Ok(());
        }
        self.armed_ns = Some(at_ns);
        let value =
            Timespec { tv_sec: (at_ns / NS_PER_S) as i64, tv_nsec: (at_ns % NS_PER_S) as i64 };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval: interval, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        Ok(())
    }

    fn handle_socket(&mut self, token: u64, flags: epoll::EventFlags, now_ns: u64) {
        let (id, side) = (token >> 1, if token & 1 == 0 { Side::Client } else { Side::Server });
        // A connection that an earlier event of this batch closed is gone.
        if let Some(connection) = self.connections.get_mut(&id) {
            use epoll::EventFlags as E;
            let ready = Readiness {
                readable: flags.intersects(E::IN | E::RDHUP | E::HUP | E::ERR),
                writable: flags.intersects(E::OUT | E::HUP | E::ERR),
                hung_up: flags.intersects(E::RDHUP | E::HUP | E::ERR),
                error: flags.contains(E::ERR),
            };
            connection.handle_readiness(side, ready, now_ns);
            self.pump(id, now_ns);
        }
    }

    /// Pumps each connection whose time has come, once.
    fn pump_due(&mut self) -> io::Result<()> {
        let now_ns = now_ns();
        if self.accept_again_ns.is_some_and(|again_ns| again_ns <= now_ns) {
            self.accept_again_ns = None;
            let data = epoll::EventData::new_u64(LISTENER);
            epoll::modify(&self.epoll, &self.listener, data, epoll::EventFlags::IN)?;
        }
        let due: Vec<u64> = self.agenda.range(..=(now_ns, u64::MAX)).map(|&(_, id)| id).collect();
        for id in due {
            self.pump(id, now_ns);
        }
        Ok(())
    }

    fn pump(&mut self, id: u64, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.pump(now_ns, &mut self.pool, &mut self.side_by_side);
        let wake_ns = connection.next_wake_ns();
        if connection.is_closed() {
            connection.over(&mut self.side_by_side);
            self.closed.add(&connection.stats());
            self.connections.remove(&id);
        }
        self.schedule(id, wake_ns);
    }

    fn schedule(&mut self, id: u64, wake_ns: Option<u64>) {
        let before = match wake_ns {
            Some(wake_ns) => self.wakes.insert(id, wake_ns),
            None => self.wakes.remove(&id),
        };
        if before == wake_ns {
            return;
        }
        if let Some(before_ns) = before {
            self.agenda.remove(&(before_ns, id));
        }
        if let Some(wake_ns) = wake_ns {
            self.agenda.insert((wake_ns, id));
        }
    }

    fn accept(&mut self, now_ns: u64) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => self.open(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    // Out of descriptors or memory: leave the queue alone for a while instead of
                    // spinning on it.
                    self.accept_again_ns = Some(now_ns + ACCEPT_AGAIN_NS);
                    let data = epoll::EventData::new_u64(LISTENER);
                    epoll::modify(&self.epoll, &self.listener, data, epoll::EventFlags::empty())?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Dials upstream for a new client. A client that can't be served is reset.
    fn open(&mut self, stream: std::net::TcpStream) {
        let id = self.next_id;
        self.next_id += 1;
        self.closed.connections += 1;
        let Ok(client) = Socket::accepted(stream) else { return };
        if self.connections.len() >= CONNECTIONS_MAX {
            return client.reset_on_close();
        }
        // Not the time of this turn: connections accepted before this one took some of it.
        let now_ns = now_ns();
        let Ok(server) = Socket::dial(&self.config.upstream) else {
            return client.reset_on_close();
        };
        let up = self.pipe(id, Direction::Up);
        let down = self.pipe(id, Direction::Down);
        let tap = self.config.tap.clone();
        let connection = Connection::new(id, client, server, up, down, now_ns).tapped(tap);
        if self.register(id, &connection).is_err() {
            return connection
                .sockets()
                .into_iter()
                .for_each(|(_, socket)| socket.reset_on_close());
        }
        self.connections.insert(id, connection);
        self.pump(id, now_ns);
    }

    fn register(&self, id: u64, connection: &Connection) -> io::Result<()> {
        use epoll::EventFlags as E;
        for (side, socket) in connection.sockets() {
            let token = id << 1 | u64::from(side == Side::Server);
            let data = epoll::EventData::new_u64(token);
            epoll::add(&self.epoll, &socket.fd, data, E::IN | E::OUT | E::RDHUP | E::ET)?;
        }
        Ok(())
    }

    fn pipe(&self, id: u64, direction: Direction) -> Pipe {
        let (link, faults, salt) = match direction {
            Direction::Up => (&self.config.up, self.future_faults.0, 0),
            Direction::Down => (&self.config.down, self.future_faults.1, 1),
        };
        let seed = SplitMix(self.config.seed ^ SplitMix(id << 1 | salt).next()).next();
        Pipe::new(link, seed, self.config.buffer_max, faults)
    }

    fn handle_commands(&mut self, now_ns: u64) {
        while let Ok(command) = self.commands.try_recv() {
            // What clients wrote before the call counts as before it.
            for connection in self.connections.values_mut() {
                connection.catch_up(now_ns, &mut self.pool, &mut self.side_by_side);
            }
            let answer = self.handle_command(command, now_ns);
            let ids: Vec<u64> = self.connections.keys().copied().collect();
            for id in ids {
                self.pump(id, now_ns);
            }
            // The handle waits for each answer before it asks again; if it is gone, a Stop is next.
            let _ = self.answers.try_send(answer);
        }
    }

    fn handle_command(&mut self, command: Command, now_ns: u64) -> Answer {
        match command {
            Command::SetLinks(up, down) => {
                (self.config.up, self.config.down) = (up, down);
                for connection in self.connections.values_mut() {
                    connection.set_links(&up, &down, self.config.buffer_max);
                }
            }
            Command::Fault(fault, scope) => self.apply(fault, scope),
            Command::ClearFaults => {
                self.future_faults = Default::default();
                self.connections.values_mut().for_each(Connection::clear_faults);
            }
            Command::Stats => return Answer::Stats(self.stats()),
            Command::ResetStats => {
                self.closed = Stats::default();
                self.side_by_side = SideBySide::default();
                self.connections.values_mut().for_each(Connection::mark);
            }
            Command::Record => self.connections.values_mut().for_each(|it| it.record(now_ns)),
            Command::Recorded => return Answer::Recorded(self.recorded()),
            Command::Stop => self.stopping = true,
        }
        Answer::Done
    }

    fn apply(&mut self, fault: Fault, scope: Scope) {
        if matches!(scope, Scope::Future | Scope::All) {
            match fault.direction() {
                Direction::Up => self.future_faults.0.apply(fault),
                Direction::Down => self.future_faults.1.apply(fault),
            }
        }
        for (&id, connection) in &mut self.connections {
            if matches!(scope, Scope::Present | Scope::All) || scope == Scope::Connection(id) {
                connection.apply(fault);
            }
        }
    }

    /// The passages of all connections, in the order in which they left.
    fn recorded(&mut self) -> Vec<Passage> {
        let mut passages: Vec<Passage> =
            self.connections.values_mut().flat_map(Connection::recorded).collect();
        passages.sort_by_key(|it| it.left);
        passages
    }

    fn stats(&self) -> Stats {
        let mut stats = self.closed.clone();
        stats.side_by_side = self.side_by_side.trips();
        stats.open = self.connections.values().map(Connection::stats).collect();
        for connection in stats.open.clone() {
            stats.add(&connection);
        }
        stats
    }
}

/// CLOCK_MONOTONIC in nanoseconds, the clock that the timer is set by.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

const NS_PER_S: u64 = 1_000_000_000;

/// How long before a release time the thread stops sleeping and looks at the clock and the sockets
/// in turn: 150 µs.
///
/// A timer alone wakes a halted virtual CPU 20-100 µs late, twice a round trip. Measured on two
/// EPYC vCPUs without guest halt polling, as the median round trip above the configured one:
/// without spinning 192-207 µs at 1 ms and 297-337 µs at 10 ms, with 60 µs 56-93 µs and 79-200 µs
/// (the base cost alone is 40-130 µs). 30 µs were too few. While the host was busy, spinning for 60
/// µs gave 170-190 µs at 10 ms, and 150 µs gave 80-90 µs. Staying awake for 50 µs after each
/// delivery as well, to meet the peer's answer, made it worse: the thread then holds a CPU that the
/// peer needs.
const SPIN_NS: u64 = 150_000;

/// Connections open at once: 4,096; further ones are reset. Each may hold twice the byte cap.
const CONNECTIONS_MAX: usize = 4_096;

/// Connections accepted before others get their turn.
const ACCEPTS_MAX: usize = 64;

/// How long accepting pauses when the process has no descriptors left: 100 ms.
const ACCEPT_AGAIN_NS: u64 = 100_000_000;

/// Events taken per wait.
const EVENTS_MAX: usize = 256;

// Tokens of what is not a connection; connection `id` has `2 × id` for its client and `2 × id + 1`
// for its server.
const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
