//! A minimal host: one blocking socket, one thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use onetrip_abi::Connection;
use onetrip_abi::completion::{Completion, end, kind};
use onetrip_abi::export::*;
use onetrip_lab::postgres::{PrivatePostgres, shared};

/// A completion, with a copy of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) kind: u32,
    pub(crate) token: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) block: Vec<u8>,
}

/// The result of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// All messages of the reply, in order; or the server's error.
    pub(crate) messages: Vec<u8>,
    /// One of [`end`], and one of [`onetrip_abi::completion::outcome`].
    pub(crate) end: u32,
    pub(crate) outcome: u32,
    pub(crate) statement: u32,
}

impl Answer {
    /// The types of the messages in order, without the ReadyForQuery of the sync point.
    pub(crate) fn tags(&self) -> String {
        let tags: String = self.split().map(|(tag, _)| char::from(tag)).collect();
        tags.trim_end_matches('Z').to_owned()
    }

    /// The first value of each row, as text.
    pub(crate) fn values(&self) -> Vec<String> {
        let rows = self.split().filter(|(tag, _)| *tag == b'D');
        rows.map(|(_, body)| String::from_utf8_lossy(&body[6..]).into_owned()).collect()
    }

    /// A field of the error, by its letter.
    pub(crate) fn error(&self, letter: u8) -> String {
        let fields = self.messages.get(5..).unwrap_or_default().split(|byte| *byte == 0);
        let field = fields.filter_map(|field| field.split_first()).find(|(it, _)| **it == letter);
        field.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    }

    fn split(&self) -> impl Iterator<Item = (u8, Vec<u8>)> {
        let mut rest = &self.messages[..];
        std::iter::from_fn(move || {
            let (head, _) = rest.split_first_chunk::<5>()?;
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let (message, behind) = rest.split_at(len + 1);
            rest = behind;
            Some((message[0], message[5..].to_vec()))
        })
    }
}

/// A connection and its socket.
pub(crate) struct Host {
    pub(crate) connection: *mut Connection,
    socket: TcpStream,
    began: Instant,
    /// The time that it is, if the test says so.
    pub(crate) clock: Option<f64>,
    /// Completions that the test has not asked for yet.
    pub(crate) happened: Vec<Happened>,
    tokens: u32,
}

impl Host {
    /// Logs in to the server that all tests share.
    pub(crate) fn connect(extra: &str) -> Host {
        let server = shared();
        let mut host = Host::begin(server, &settings(server, server.password(), extra));
        host.wait_for(kind::READY);
        host
    }

    pub(crate) fn begin(server: &PrivatePostgres, settings: &str) -> Host {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        // If something never comes, the test must fail and not hang.
        socket.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        Host::on(socket, settings)
    }

    pub(crate) fn on(socket: TcpStream, settings: &str) -> Host {
        // Another nonce for each connection, as every host must provide.
        static CONNECTIONS: AtomicU8 = AtomicU8::new(1);
        let nonce = [CONNECTIONS.fetch_add(1, Ordering::Relaxed); 18];
        // SAFETY: both are valid for their lengths.
        let connection =
            unsafe { onetrip_postgres_new(0.0, settings.as_ptr(), settings.len(), nonce.as_ptr()) };
        Host::over(socket, connection)
    }

    /// A host for a connection that already exists.
    pub(crate) fn over(socket: TcpStream, connection: *mut Connection) -> Host {
        Host {
            connection,
            socket,
            began: Instant::now(),
            clock: None,
            happened: Vec::new(),
            tokens: 0,
        }
    }

    pub(crate) fn now(&self) -> f64 {
        self.clock.unwrap_or_else(|| self.began.elapsed().as_secs_f64() * 1e3)
    }

    /// Submits a text with parameters as text, and returns its token.
    pub(crate) fn submit(&mut self, flags: u32, text: &str, name: &str, values: &[&str]) -> u32 {
        let (token, place) = self.try_submit(flags, text, name, &parameters(values), 0.0);
        assert!(place >= 0.0, "{text} was refused: {place}");
        token
    }

    /// The same with encoded parameters and a timeout; returns the result of the function.
    pub(crate) fn try_submit(
        &mut self,
        flags: u32,
        text: &str,
        name: &str,
        parameters: &[u8],
        timeout: f64,
    ) -> (u32, f64) {
        self.tokens += 1;
        let request = [text.as_bytes(), name.as_bytes(), parameters].concat();
        let now = self.now();
        // SAFETY: the connection lives, and there is room for the request.
        let place = unsafe {
            let room = onetrip_request(self.connection, request.len());
            std::ptr::copy_nonoverlapping(request.as_ptr(), room, request.len());
            let lens = (text.len(), name.len(), request.len());
            onetrip_postgres_submit(
                self.connection,
                now,
                self.tokens,
                flags,
                lens.0,
                lens.1,
                lens.2,
                timeout,
                0,
            )
        };
        (self.tokens, place)
    }

    /// Ends a segment, and returns the token of its sync point.
    pub(crate) fn sync(&mut self) -> u32 {
        self.tokens += 1;
        let now = self.now();
        // SAFETY: the connection lives.
        assert!(unsafe { onetrip_postgres_sync(self.connection, now, self.tokens) } >= 0.0);
        self.tokens
    }

    /// Hands over more data of a COPY. Returns whether it was taken.
    pub(crate) fn feed(&mut self, token: u32, part: u32, data: &[u8]) -> bool {
        let now = self.now();
        // SAFETY: the connection lives, and there is room for the data.
        unsafe {
            let room = onetrip_request(self.connection, data.len());
            std::ptr::copy_nonoverlapping(data.as_ptr(), room, data.len());
            onetrip_postgres_feed(self.connection, now, token, part, data.len()) == 1.0
        }
    }

    /// The test has consumed this many bytes of a stream.
    pub(crate) fn taken(&mut self, bytes: usize) {
        // SAFETY: the connection lives.
        unsafe { onetrip_postgres_taken(self.connection, bytes) }
        self.take();
    }

    /// Stops taking a stream.
    pub(crate) fn leave(&mut self, token: u32, rest: u32) {
        let now = self.now();
        // SAFETY: the connection lives.
        unsafe { onetrip_postgres_leave(self.connection, now, token, rest) }
    }

    /// All callers share the session from now on.
    pub(crate) fn share(&mut self) {
        // SAFETY: the connection lives.
        assert!(!unsafe { onetrip_postgres_hold(self.connection, 0) });
    }

    /// Runs a text as the only request.
    pub(crate) fn run(&mut self, text: &str, values: &[&str]) -> Answer {
        let token = self.submit(0, text, "", values);
        self.answer(token)
    }

    /// Runs a text by the simple protocol.
    pub(crate) fn run_simple(&mut self, text: &str) -> Answer {
        let token = self.submit(flag::SIMPLE, text, "", &[]);
        self.answer(token)
    }

    /// How many Syncs are in the bytes to send.
    pub(crate) fn unsent_syncs(&self) -> usize {
        // SAFETY: the connection lives.
        let bytes = unsafe {
            let len = onetrip_transmit_len(self.connection);
            std::slice::from_raw_parts(onetrip_transmit(self.connection), len)
        };
        let (mut at, mut syncs) = (0, 0);
        while at < bytes.len() {
            syncs += usize::from(bytes[at] == b'S');
            let len = bytes[at + 1..at + 5].try_into().unwrap();
            at += 1 + u32::from_be_bytes(len) as usize;
        }
        syncs
    }

    /// Writes the bytes to send.
    pub(crate) fn write(&mut self) {
        let now = self.now();
        // SAFETY: the connection lives, and the socket copies the bytes.
        unsafe {
            let len = onetrip_transmit_len(self.connection);
            if len > 0 {
                let bytes = std::slice::from_raw_parts(onetrip_transmit(self.connection), len);
                self.socket.write_all(bytes).unwrap();
                onetrip_written(self.connection, now, len);
            }
        }
    }

    /// Writes, reads once, and collects the completions.
    pub(crate) fn turn(&mut self) {
        self.write();
        self.take();
        let mut chunk = [0; 4096];
        match self.socket.read(&mut chunk).unwrap() {
            // SAFETY: the connection lives.
            0 => unsafe { onetrip_peer_closed(self.connection) },
            len => self.receive(&chunk[..len]),
        }
        self.take();
        self.write();
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        let now = self.now();
        // SAFETY: the connection lives, and the room is as long as it was asked for.
        unsafe {
            let room = onetrip_input(self.connection, bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
            onetrip_received(self.connection, now, bytes.len());
        }
    }

    /// Collects the completions.
    pub(crate) fn take(&mut self) {
        // SAFETY: the connection lives, and the completions are valid until the next take.
        let records = unsafe {
            let count = onetrip_take(self.connection);
            match count {
                0 => return,
                _ => std::slice::from_raw_parts(onetrip_completions(self.connection), count),
            }
        };
        self.happened.extend(records.iter().map(copy));
    }

    /// Removes the first completion of this kind; the host runs until there is one.
    pub(crate) fn wait_for(&mut self, kind: u32) -> Happened {
        self.take();
        loop {
            if let Some(at) = self.happened.iter().position(|it| it.kind == kind) {
                return self.happened.remove(at);
            }
            self.turn();
        }
    }

    /// All completions with a token; the host runs until its request has ended.
    pub(crate) fn answer(&mut self, token: u32) -> Answer {
        self.take();
        while !self.happened.iter().any(|it| it.kind == kind::END && it.token == token) {
            self.turn();
        }
        let mut answer = Answer::default();
        for it in self.happened.extract_if(.., |it| it.token == token) {
            match it.kind {
                kind::RESTARTED => answer = Answer::default(),
                kind::DATA | kind::PIECE => answer.messages.extend(&it.block),
                kind::END => {
                    let failed = matches!(it.b & 0xff, end::SERVER | end::BEGIN);
                    if failed {
                        answer.messages.clear();
                    }
                    answer.messages.extend(&it.block);
                    (answer.end, answer.outcome) = (it.b & 0xff, it.b >> 8);
                }
                _ => {}
            }
            answer.statement = it.a;
        }
        answer
    }

    /// The peer has closed the connection.
    pub(crate) fn hang_up(&mut self) {
        // SAFETY: the connection lives.
        unsafe { onetrip_peer_closed(self.connection) };
        self.take();
    }

    /// The socket, so that a test can close it.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the connection is not used after this.
        unsafe { onetrip_connection_free(self.connection) }
    }
}

/// The settings for this server, and further ones: names and values, each ended by a zero byte.
pub(crate) fn settings(server: &PrivatePostgres, password: &str, extra: &str) -> String {
    let user = server.user();
    format!("user\0{user}\0database\0postgres\0password\0{password}\0{extra}")
}

/// Parameters as text, in the format of a Bind message.
pub(crate) fn parameters(values: &[&str]) -> Vec<u8> {
    if values.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0, 0];
    bytes.extend((values.len() as u16).to_be_bytes());
    for value in values {
        bytes.extend((value.len() as u32).to_be_bytes());
        bytes.extend(value.as_bytes());
    }
    bytes
}

fn copy(record: &Completion) -> Happened {
    let block = match record.block.is_null() {
        true => Vec::new(),
        // SAFETY: a block is valid until the next take.
        false => unsafe { std::slice::from_raw_parts(record.block, record.len) }.to_vec(),
    };
    Happened { kind: record.kind, token: record.token, a: record.a, b: record.b, block }
}
