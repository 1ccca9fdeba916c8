//! The configuration of a proxy: where it listens, where it connects to, and the properties of the
//! simulated network. It is checked here and used elsewhere.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::tap::Tap;

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Where the proxy connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// A TCP address, on this machine or another.
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        Upstream::Tcp(address)
    }
}

/// How the simulated network treats the bytes of one direction. Default: no delay, no jitter, no
/// bandwidth limit.
///
/// Bytes are stamped when the proxy reads them and leave, in order and never early, at
/// `stamp + serialisation + delay ± jitter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// One-way delay. Default 0, at most [`DELAY_MAX`].
    pub delay: Duration,
    /// Each read's delay is moved by a seeded, uniform draw from `-jitter ..= +jitter`, so that the
    /// median stays `delay`. Later bytes never overtake: under dense traffic they wait for the
    /// slowest before them, and the median rises. Default 0, at most `delay`.
    pub jitter: Duration,
    /// Bytes per second. Serialisation time is added before the delay by a clock of its own: bytes
    /// queue behind the bytes before them, and an idle line saves nothing up. Default: no limit.
    /// `Some(0)` is refused.
    pub bandwidth: Option<u64>,
}

impl Link {
    /// A link that only delays.
    pub fn delayed(delay: Duration) -> Self {
        Link { delay, ..Link::default() }
    }

    /// Both directions of a line with the given round trip: half of it each way.
    pub fn pair(rtt: Duration) -> (Self, Self) {
        let up = rtt / 2;
        (Link::delayed(up), Link::delayed(rtt - up))
    }

    /// Checks the link; the error says what is wrong with it.
    pub(super) fn check(&self, direction: Direction) -> io::Result<()> {
        let name = match direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        if self.delay > DELAY_MAX {
            return Err(invalid(format!(
                "proxy: {name} link: a delay of {:?} is over the limit of {DELAY_MAX:?}; choose a shorter one",
                self.delay
            )));
        }
        if self.jitter > self.delay {
            return Err(invalid(format!(
                "proxy: {name} link: jitter {:?} is larger than the delay {:?}; choose one that is not",
                self.jitter, self.delay
            )));
        }
        if self.bandwidth == Some(0) {
            return Err(invalid(format!(
                "proxy: {name} link: a bandwidth of 0 bytes/s would never deliver; use None for no limit"
            )));
        }
        Ok(())
    }
}

/// The argument of [`Proxy::start`](super::Proxy::start). [`ProxyConfig::new`] fills in the
/// defaults.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Where to listen. Default `127.0.0.1:0` (a free port). Only loopback addresses are accepted,
    /// since the proxy has no authentication of its own, unless `beyond_loopback` is set.
    pub listen: SocketAddr,
    /// Whether other machines may be able to connect. Default false.
    pub beyond_loopback: bool,
    /// Where to connect to.
    pub upstream: Upstream,
    /// Client to server. Default: no delay.
    pub up: Link,
    /// Server to client. Default: no delay.
    pub down: Link,
    /// Seed of the jitter; each connection and direction draws from a stream of its own. Default 0.
    pub seed: u64,
    /// Bytes that one direction of one connection may hold; reading stops there until some are
    /// delivered. Default (`None`): the larger of [`BUFFER_DEFAULT`] and twice what fits on the
    /// line (2 × bandwidth × delay). At least 1. Worst-case memory: twice this per connection.
    pub buffer_max: Option<usize>,
    /// Who looks on. Default: nobody.
    pub tap: Option<Arc<dyn Tap>>,
}

impl ProxyConfig {
    /// A proxy to `upstream` with all defaults: a free loopback port, no delay, no limits on the
    /// line.
    pub fn new(upstream: impl Into<Upstream>) -> Self {
        ProxyConfig {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            beyond_loopback: false,
            upstream: upstream.into(),
            up: Link::default(),
            down: Link::default(),
            seed: 0,
            buffer_max: None,
            tap: None,
        }
    }

    /// The same with both links replaced: half of `rtt` each way.
    pub fn with_rtt(mut self, rtt: Duration) -> Self {
        (self.up, self.down) = Link::pair(rtt);
        self
    }

    /// Checks the configuration; the error says what is wrong with it.
    pub(super) fn check(&self) -> io::Result<()> {
        if !self.listen.ip().is_loopback() && !self.beyond_loopback {
            return Err(invalid(format!(
                "proxy: {} is not a loopback address; listen on 127.0.0.1 or [::1], the proxy has no authentication",
                self.listen
            )));
        }
        if self.buffer_max == Some(0) {
            return Err(invalid(
                "proxy: buffer_max is 0, so nothing could pass; use at least 1 byte".into(),
            ));
        }
        self.up.check(Direction::Up)?;
        self.down.check(Direction::Down)
    }
}

/// The byte cap of one direction: the caller's, or the default for this link.
pub(super) fn buffer_max(chosen: Option<usize>, link: &Link) -> usize {
    chosen.unwrap_or_else(|| {
        let in_flight = link.bandwidth.unwrap_or(0) as f64 * link.delay.as_secs_f64();
        BUFFER_DEFAULT.max((2.0 * in_flight) as usize)
    })
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The longest one-way delay: 60 s, beyond any network and far from overflow.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

/// The least default of [`ProxyConfig::buffer_max`]: 64 MiB. At 5 ms one way that is 12 GiB/s, more
/// than loopback carries.
pub const BUFFER_DEFAULT: usize = 64 << 20;
