//! A connection to a real server behind a network that delays, whose bytes a profiler sees.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use onetrip_profile::{Legs, Nanos, Piece, Profile, Profiler, Side};

use crate::speaker::{extended, message};

/// Rows of text values.
pub(crate) type Rows = Vec<Vec<String>>;

/// The server, which asks for no password and logs how long each statement took.
pub(crate) fn server() -> &'static PrivatePostgres {
    static SERVER: OnceLock<PrivatePostgres> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = Options::default()
            .file("pg_hba.conf", "host all all 127.0.0.1/32 trust\nlocal all all trust\n")
            .setting("log_min_duration_statement", "0");
        PrivatePostgres::start(options).expect("a server starts")
    })
}

pub(crate) fn network(rtt: Duration) -> Proxy {
    let upstream = std::net::SocketAddr::from(([127, 0, 0, 1], server().port()));
    Proxy::start(ProxyConfig::new(upstream).with_rtt(rtt)).expect("the proxy starts")
}

pub(crate) struct Line {
    stream: TcpStream,
    handshake: Nanos,
    /// What passed. It is analysed later, so that trips are no slower for it.
    seen: Vec<(Nanos, Side, Vec<u8>)>,
    since: Instant,
    /// Rests that nobody waited for.
    rested: Duration,
}

impl Line {
    /// Logs in.
    pub(crate) fn new(proxy: &Proxy) -> Line {
        let since = Instant::now();
        let stream = TcpStream::connect(proxy.addr()).expect("the proxy listens");
        stream.set_nodelay(true).expect("a socket takes options");
        let handshake = since.elapsed().as_nanos() as Nanos;
        let (seen, rested) = (Vec::new(), Duration::ZERO);
        let mut it = Line { stream, handshake, seen, since, rested };
        let mut startup = vec![0, 3, 0, 0];
        startup.extend(b"user\0postgres\0database\0postgres\0\0");
        let mut first = (startup.len() as u32 + 4).to_be_bytes().to_vec();
        first.extend(startup);
        it.exchange(&first, 1);
        it
    }

    /// So much time passes for the profiler.
    pub(crate) fn rest(&mut self, time: Duration) {
        self.rested += time;
    }

    /// A text by the simple protocol.
    pub(crate) fn simple(&mut self, sql: &str) -> Rows {
        let bytes = message(b'Q', &[sql.as_bytes(), b"\0"].concat());
        self.exchange(&bytes, 1).remove(0)
    }

    /// Statements in one write, with a Sync each.
    pub(crate) fn trip(&mut self, all: &[(String, Vec<String>)]) -> Vec<Rows> {
        let bytes: Vec<u8> = all.iter().flat_map(|(sql, with)| extended(sql, with)).collect();
        self.exchange(&bytes, all.len())
    }

    fn exchange(&mut self, bytes: &[u8], answers: usize) -> Vec<Rows> {
        self.see(Side::Client, bytes);
        self.stream.write_all(bytes).expect("the server reads");
        let (mut seen, mut all, mut buffer) = (Vec::new(), vec![Rows::new()], vec![0; 1 << 16]);
        while all.len() <= answers {
            let len = self.stream.read(&mut buffer).expect("the server answers");
            assert!(len > 0, "the server closed the connection");
            self.see(Side::Server, &buffer[..len]);
            seen.extend(&buffer[..len]);
            while let Some(len) = seen.get(1..5).map(|it| 1 + u32_of(it) as usize)
                && len <= seen.len()
            {
                let whole: Vec<u8> = seen.drain(..len).collect();
                match whole[0] {
                    b'D' => all.last_mut().expect("there is one").push(row(&whole[5..])),
                    b'E' => panic!("the server: {}", String::from_utf8_lossy(&whole)),
                    b'Z' => all.push(Rows::new()),
                    _ => {}
                }
            }
        }
        all.truncate(answers);
        all
    }

    fn see(&mut self, from: Side, bytes: &[u8]) {
        let at = (self.since.elapsed() + self.rested).as_nanos() as Nanos;
        self.seen.push((at, from, bytes.to_vec()));
    }

    /// What the profiler finds, which is told what the handshake took, as by a proxy or a capture.
    pub(crate) fn profile(self) -> Profile {
        let mut profiler = Profiler::new();
        profiler.rtt(1, Legs { client: None, server: Some(self.handshake) });
        for (at, from, bytes) in &self.seen {
            profiler.piece(Piece { at: *at, connection: 1, from: *from, bytes });
        }
        profiler.finish()
    }
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

fn row(mut body: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    body = &body[2..];
    while body.len() >= 4 {
        let len = u32_of(&body[..4]);
        body = &body[4..];
        let len = if len == u32::MAX { 0 } else { len as usize };
        values.push(String::from_utf8_lossy(&body[..len]).into_owned());
        body = &body[len..];
    }
    values
}
