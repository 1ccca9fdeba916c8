//! A TCP proxy in user space that adds a network's round trip to a local server, counts trips and
//! breaks the line on command.
//!
//! The proxy knows no protocol: it never interprets the bytes that pass through it. A [`Tap`] may
//! look on.
//!
//! One thread, `epoll` and a timer. Each read is stamped, and its bytes leave in order at `stamp +
//! delay`; all due bytes leave in one write. Reading never waits for writing until the byte cap, so
//! delay does not limit throughput. An end of stream and a reset take the same delay as bytes. With
//! no delay, bytes are forwarded at once.
//!
//! # What it does not model
//! The TCP handshake: a connect through the proxy succeeds at once, where a real network takes one
//! round trip more. Loss, slow start and congestion: throughput is what the machine can do unless
//! [`Link::bandwidth`] says otherwise.
//!
//! # Precision
//! See [`self_check`](fn@self_check): it measures what an installation really does. The thread
//! wakes 150 µs before a release time and looks at the clock for the rest, because a sleeping
//! virtual CPU takes 20–100 µs to wake.
//!
//! # Trips
//! A trip is a client write that comes after server bytes were delivered since the last one. The
//! first client bytes of a connection open its first trip, and after [`Proxy::reset_stats`] the
//! next client bytes do. Client bytes that come in several writes without server bytes delivered in
//! between are one trip; the proxy reads the client's socket right before it delivers, so that a
//! write issued before the delivery counts as before it.
//!
//! A trip is under way from its first client bytes until server bytes are delivered on its
//! connection. It ran side by side with others if a trip of another connection was under way at the
//! same time, or if it began while bytes of its own connection were on the line: sent, and not
//! delivered yet. Without a delay no bytes are on the line, so the proxy then sees only trips that
//! ran side by side on other connections. A trip that was not side by side was waited for before
//! the next.

mod config;
mod connection;
mod event_loop;
mod faults;
mod pipe;
mod queue;
mod recording;
mod rope;
mod self_check;
mod socket;
mod stats;
mod tap;
mod trips;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

pub use config::{BUFFER_DEFAULT, DELAY_MAX, Direction, Link, ProxyConfig, Upstream};
pub use faults::{Fault, Scope};
pub use recording::{HEAD_MAX, PASSAGES_MAX, Passage};
pub use self_check::{SelfCheck, SelfCheckConfig, self_check};
pub use stats::{ConnectionStats, Stats};
pub use tap::Tap;

use event_loop::{Answer, Command, EventLoop};

/// A running proxy. Dropping it closes all its connections, stops its thread and waits for that.
///
/// Every method is answered by the proxy's thread: when it returns, it is in effect, and what
/// clients had written before the call counts as before it.
///
/// ```
/// use std::time::Duration;
/// use onetrip_lab::proxy::{Proxy, ProxyConfig};
///
/// let server = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let config = ProxyConfig::new(server.local_addr()?).with_rtt(Duration::from_millis(10));
/// let proxy = Proxy::start(config)?;
/// let client = std::net::TcpStream::connect(proxy.addr())?;
/// assert_eq!(proxy.stats().trips, 0);
/// # drop(client);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    remote: Mutex<Remote>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The channel to the thread: one command at a time, each answered.
#[derive(Debug)]
struct Remote {
    commands: SyncSender<Command>,
    answers: Receiver<Answer>,
    wake: Arc<OwnedFd>,
}

impl Proxy {
    /// Listens and starts the thread. The upstream is dialled when a client connects; a client
    /// whose upstream can't be reached is reset.
    ///
    /// # Errors
    /// `InvalidInput` for a listen address that is not allowed or a link that makes no sense;
    /// otherwise what the system says (the address is taken, no descriptors left).
    pub fn start(config: ProxyConfig) -> io::Result<Proxy> {
        config.check()?;
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (command_sender, commands) = sync_channel(1);
        let (answer_sender, answers) = sync_channel(1);
        let event_loop = EventLoop::new(listener, config, &wake, commands, answer_sender)?;
        let thread = std::thread::Builder::new()
            .name("onetrip-proxy".into())
            .spawn(move || event_loop.run())?;
        let remote = Remote { commands: command_sender, answers, wake };
        Ok(Proxy { addr, remote: Mutex::new(remote), thread: Some(thread) })
    }

    /// Replaces both links for bytes that are read from now on. Bytes on the line keep their time,
    /// and none overtakes them.
    ///
    /// # Errors
    /// `InvalidInput` for a link that makes no sense; the links stay as they were.
    pub fn set_links(&self, up: Link, down: Link) -> io::Result<()> {
        up.check(Direction::Up)?;
        down.check(Direction::Down)?;
        self.call(Command::SetLinks(up, down));
        Ok(())
    }

    /// Puts a fault in force for the connections in `scope`.
    pub fn fault(&self, fault: Fault, scope: Scope) {
        self.call(Command::Fault(fault, scope));
    }

    /// Ends all faults, present and future. Connections that a fault has ended stay ended.
    pub fn clear_faults(&self) {
        self.call(Command::ClearFaults);
    }

    /// Sets all counts to zero and marks every connection: its next client bytes open a trip. Call
    /// it while no request is unanswered, or the rest of that conversation is counted too.
    pub fn reset_stats(&self) {
        self.call(Command::ResetStats);
    }

    /// The address clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Counts since the start or the last [`reset_stats`](Self::reset_stats).
    pub fn stats(&self) -> Stats {
        match self.call(Command::Stats) {
            Answer::Stats(stats) => stats,
            _ => unreachable!("a question for counts is answered by counts"),
        }
    }

    /// Records what leaves either end of the connections that are open now, until
    /// [`recorded`](Self::recorded): of each connection and direction the last [`PASSAGES_MAX`]
    /// passages.
    pub fn record(&self) {
        self.call(Command::Record);
    }

    /// The passages that have arrived since [`record`](Self::record) on connections that are still
    /// open, in the order in which they left. This ends the recording.
    pub fn recorded(&self) -> Vec<Passage> {
        match self.call(Command::Recorded) {
            Answer::Recorded(passages) => passages,
            _ => unreachable!("a question for passages is answered by passages"),
        }
    }

    fn call(&self, command: Command) -> Answer {
        let remote = self.remote.lock().unwrap_or_else(PoisonError::into_inner);
        remote.send(command).expect("the proxy's thread runs as long as its handle");
        remote.answers.recv().expect("the proxy's thread runs as long as its handle")
    }
}

impl Remote {
    /// Hands a command over and wakes the thread; `None` if it is gone.
    fn send(&self, command: Command) -> Option<()> {
        self.commands.send(command).ok()?;
        rustix::io::write(&*self.wake, &1_u64.to_ne_bytes()).ok()?;
        Some(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let remote = self.remote.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = remote.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
