//! Checks that the proxy does what it is set to: measures its round trip against the configured
//! one, and its throughput with and without delay, on this machine and now.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Link, Proxy, ProxyConfig};

/// What to measure. The default takes about ten seconds.
#[derive(Clone, Copy, Debug)]
pub struct SelfCheckConfig {
    /// The round trip to configure, half of it each way. Default 10 ms.
    pub rtt: Duration,
    /// Round trips measured at that delay, and ten times as many without. Default 200, at least 10.
    pub samples: usize,
    /// Bytes sent in each throughput run. Default 512 MiB, at least 2.
    pub bulk_bytes: u64,
    /// Throughput runs with and as many without delay, taken in turn. Default 5, at least 1.
    pub bulk_runs: usize,
}

impl Default for SelfCheckConfig {
    fn default() -> Self {
        SelfCheckConfig {
            rtt: Duration::from_millis(10),
            samples: 200,
            bulk_bytes: 512 << 20,
            bulk_runs: 5,
        }
    }
}

/// What was measured. `Display` prints it with units, one figure a line.
#[derive(Clone, Copy, Debug)]
pub struct SelfCheck {
    /// The round trip that was configured.
    pub rtt: Duration,
    /// Median round trip of a small message to the echo server without the proxy.
    pub direct: Duration,
    /// Median round trip through the proxy at zero delay: its base cost, which any configured round
    /// trip comes on top of.
    pub base: Duration,
    /// Median round trip at the configured delay.
    pub delayed: Duration,
    /// 99th percentile of the round trip at the configured delay.
    pub delayed_p99: Duration,
    /// `delayed − base − rtt`, in milliseconds; negative when replies come early.
    pub error_ms: f64,
    /// Median throughput at zero delay, bytes per second.
    pub bulk_base: f64,
    /// Median throughput at a 10 ms round trip, bytes per second.
    pub bulk_delayed: f64,
}

impl SelfCheck {
    /// Whether the proxy can be trusted here: the median error is at most
    /// [`error_max_ms`](Self::error_max_ms), and throughput at a 10 ms round trip is at least 95 %
    /// of that without delay.
    pub fn holds(&self) -> bool {
        self.error_ms.abs() <= self.error_max_ms() && self.bulk_ratio() >= BULK_RATIO_MIN
    }

    /// The error allowed, in milliseconds: 0.05 ms or 1 % of the configured round trip, whichever
    /// is larger.
    pub fn error_max_ms(&self) -> f64 {
        (milliseconds(self.rtt) * 0.01).max(0.05)
    }

    /// Throughput with delay divided by throughput without.
    pub fn bulk_ratio(&self) -> f64 {
        self.bulk_delayed / self.bulk_base
    }
}

impl fmt::Display for SelfCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = milliseconds;
        writeln!(f, "round trip without the proxy   {:>9.3} ms", ms(self.direct))?;
        writeln!(f, "through the proxy, no delay    {:>9.3} ms  (base cost)", ms(self.base))?;
        writeln!(
            f,
            "at {:.3} ms configured        {:>9.3} ms  (p99 {:.3} ms)",
            ms(self.rtt),
            ms(self.delayed),
            ms(self.delayed_p99)
        )?;
        writeln!(
            f,
            "median error above base        {:>+9.3} ms  (limit ±{:.3} ms)",
            self.error_ms,
            self.error_max_ms()
        )?;
        writeln!(f, "throughput, no delay           {:>9.0} MB/s", self.bulk_base / 1e6)?;
        writeln!(
            f,
            "throughput, 10 ms round trip   {:>9.0} MB/s  ({:.1} %, limit {:.0} %)",
            self.bulk_delayed / 1e6,
            self.bulk_ratio() * 100.0,
            BULK_RATIO_MIN * 100.0
        )?;
        write!(f, "self-check {}", if self.holds() { "holds" } else { "FAILS" })
    }
}

/// Measures a proxy of its own on loopback; nothing else should run meanwhile.
///
/// # Errors
/// What the system says when sockets or threads can't be had, and `InvalidInput` for a round trip
/// that is too long.
pub fn self_check(config: &SelfCheckConfig) -> io::Result<SelfCheck> {
    let echo = Service::start(echo)?;
    let proxy = Proxy::start(ProxyConfig::new(echo.addr))?;
    let (up, down) = Link::pair(config.rtt);
    let (mut direct, mut base, mut delayed) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a change in the machine's load affects all three.
    for _ in 0..BLOCKS {
        let samples = (config.samples / BLOCKS).max(1);
        round_trips(echo.addr, samples * 10, &mut direct)?;
        proxy.set_links(Link::default(), Link::default())?;
        round_trips(proxy.addr(), samples * 10, &mut base)?;
        proxy.set_links(up, down)?;
        round_trips(proxy.addr(), samples, &mut delayed)?;
    }
    drop(proxy);
    drop(echo);
    let (bulk_base, bulk_delayed) = throughput(config)?;
    let base = quantile(&mut base, 0.5);
    let median = quantile(&mut delayed, 0.5);
    Ok(SelfCheck {
        rtt: config.rtt,
        direct: quantile(&mut direct, 0.5),
        base,
        delayed: median,
        delayed_p99: quantile(&mut delayed, 0.99),
        error_ms: milliseconds(median) - milliseconds(base) - milliseconds(config.rtt),
        bulk_base,
        bulk_delayed,
    })
}

/// Times round trips of a small message, one at a time, on a new connection; two go before them to
/// warm up.
fn round_trips(addr: SocketAddr, samples: usize, times: &mut Vec<Duration>) -> io::Result<()> {
    let mut stream = connect(addr)?;
    let mut message = [7; MESSAGE_BYTES];
    for i in 0..samples + WARM_UP {
        let start = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        if i >= WARM_UP {
            times.push(start.elapsed());
        }
    }
    Ok(())
}

/// Median throughput without delay and at 10 ms, bytes per second. Runs alternate, so that a change
/// in the machine's load affects both.
fn throughput(config: &SelfCheckConfig) -> io::Result<(f64, f64)> {
    let source = Service::start(send_as_told)?;
    let (up, down) = Link::pair(BULK_RTT);
    let near = Proxy::start(ProxyConfig::new(source.addr))?;
    let far = Proxy::start(ProxyConfig { up, down, ..ProxyConfig::new(source.addr) })?;
    let bytes = config.bulk_bytes.max(2);
    let mut rates = (Vec::new(), Vec::new());
    for _ in 0..config.bulk_runs.max(1) {
        rates.0.push(download(near.addr(), bytes)?);
        rates.1.push(download(far.addr(), bytes)?);
    }
    Ok((median(&mut rates.0), median(&mut rates.1)))
}

/// Asks for `bytes` and reads them; bytes per second between the first and the last, so that the
/// delay itself does not count.
fn download(addr: SocketAddr, bytes: u64) -> io::Result<f64> {
    let mut stream = connect(addr)?;
    stream.write_all(&bytes.to_be_bytes())?;
    let mut buffer = vec![0; BULK_BUFFER_BYTES];
    let first = stream.read(&mut buffer)? as u64;
    let start = Instant::now();
    let mut received = first;
    while received < bytes {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => received += count as u64,
        }
    }
    Ok((received - first) as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

/// A server thread on a free loopback port that serves one connection after another.
struct Service {
    addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    fn start(serve: fn(TcpStream) -> io::Result<()>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let addr = listener.local_addr()?;
        let thread = std::thread::Builder::new().name("onetrip-check".into()).spawn(move || {
            while let Ok((stream, peer)) = listener.accept() {
                // A connection from a socket that is shut down at once is the sign to stop (see
                // drop).
                let mut first = [0];
                if matches!(stream.peek(&mut first), Ok(0)) {
                    break;
                }
                let _ = (peer, stream.set_nodelay(true).and_then(|()| serve(stream)));
            }
        })?;
        Ok(Service { addr, thread: Some(thread) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let told = TcpStream::connect(self.addr).and_then(|s| s.shutdown(Shutdown::Both)).is_ok();
        if let Some(thread) = self.thread.take()
            && told
        {
            let _ = thread.join();
        }
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; MESSAGE_BYTES];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

/// Reads a number of bytes to send, and sends them.
fn send_as_told(mut stream: TcpStream) -> io::Result<()> {
    let mut header = [0; 8];
    stream.read_exact(&mut header)?;
    let buffer = vec![7; BULK_BUFFER_BYTES];
    let mut left = u64::from_be_bytes(header);
    while left > 0 {
        let count = left.min(buffer.len() as u64);
        stream.write_all(&buffer[..count as usize])?;
        left -= count;
    }
    Ok(())
}

fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    Ok(stream)
}

fn quantile(times: &mut [Duration], q: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * q).round() as usize]
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Direct, undelayed and delayed round trips take turns this often.
const BLOCKS: usize = 10;

/// Round trips that do not count at the start of a connection.
const WARM_UP: usize = 2;

/// A request of a few words: 64 bytes.
const MESSAGE_BYTES: usize = 64;

/// The round trip at which throughput is measured.
const BULK_RTT: Duration = Duration::from_millis(10);

/// Bytes per read and write of a throughput run.
const BULK_BUFFER_BYTES: usize = 256 << 10;

/// The least ratio of throughput with delay to throughput without.
const BULK_RATIO_MIN: f64 = 0.95;

/// A check that receives nothing for this long has failed. This is more than twice the longest
/// round trip that can be configured.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
