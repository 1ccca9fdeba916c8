//! A program at the level of the protocol: it says messages, and hears what comes.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use onetrip_lab::postgres::PrivatePostgres;
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::{
    BackendMessage, CancelRequest, Close, Describe, EncodeError, Execute, Formats, IsNull, Query,
    SYNC, Secret, TERMINATE, Target, bind, frame, max_len, parse,
};
use onetrip_postgres::startup::{Ready, Startup, StartupConfig};

/// Only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(600);

/// A socket of either kind.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    input: BytesMut,
    pub(crate) ready: Ready,
}

impl Wire {
    /// Logs in to a database of this server, at this address.
    pub(crate) fn log_in(server: &PrivatePostgres, addr: &str, database: &str) -> Wire {
        Wire::try_log_in(server, addr, database).unwrap()
    }

    /// The error line if that fails.
    pub(crate) fn try_log_in(
        server: &PrivatePostgres,
        addr: &str,
        database: &str,
    ) -> Result<Wire, String> {
        Wire::as_user(server.user(), server.password(), addr, database)
    }

    pub(crate) fn as_user(
        user: &str,
        password: &str,
        addr: &str,
        database: &str,
    ) -> Result<Wire, String> {
        let mut stream: Box<dyn Stream> = match addr.starts_with('/') {
            true => Box::new(connect_unix(addr)),
            false => Box::new(connect(addr)),
        };
        let config = StartupConfig {
            database: Some(database.to_owned()),
            password: Some(password.into()),
            ..StartupConfig::new(user)
        };
        let mut startup = Startup::new(config, [7; 18]).unwrap();
        let mut input = BytesMut::new();
        loop {
            if let Some(bytes) = startup.transmit() {
                stream.write_all(&bytes).unwrap();
            }
            if !read(&mut stream, &mut input) {
                return Err("closed".to_owned());
            }
            match startup.handle_bytes(&mut input) {
                Ok(None) => {}
                Ok(Some(ready)) => return Ok(Wire { stream, input, ready }),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Says something, and hears all up to so many ReadyForQuery; "closed" at the end.
    pub(crate) fn say(&mut self, bytes: &[u8], readies: usize) -> Vec<String> {
        if self.stream.write_all(bytes).is_err() {
            return vec!["closed".to_owned()];
        }
        self.hear(readies)
    }

    pub(crate) fn hear(&mut self, mut readies: usize) -> Vec<String> {
        let mut heard = Vec::new();
        while readies > 0 {
            if let Some(message) = frame(&self.input, max_len).unwrap() {
                let said = short(message.tag, BackendMessage::decode(message).unwrap());
                let len = message.message_len();
                self.input.advance(len);
                readies -= usize::from(said.starts_with('Z'));
                heard.push(said);
            } else if !read(&mut self.stream, &mut self.input) {
                heard.push("closed".to_owned());
                return heard;
            }
        }
        heard
    }

    pub(crate) fn query(&mut self, sql: &str) -> Vec<String> {
        self.say(&query(sql), 1)
    }

    /// Says it, and does not wait.
    pub(crate) fn begin_query(&mut self, sql: &str) {
        self.stream.write_all(&query(sql)).unwrap();
    }

    /// Asks at this address that what runs is cancelled.
    pub(crate) fn cancel(&self, addr: &str) {
        let mut out = BytesMut::new();
        let secret_key = Secret(self.ready.secret_key.as_bytes());
        let request = CancelRequest { process_id: self.ready.process_id, secret_key };
        request.encode(&mut out).unwrap();
        let mut stream = connect(addr);
        stream.write_all(&out).unwrap();
        // The server closes it once it has done so.
        let _ = stream.read(&mut [0]);
    }

    pub(crate) fn terminate(mut self) {
        self.stream.write_all(&TERMINATE).unwrap();
        while read(&mut self.stream, &mut self.input) {}
    }
}

pub(crate) fn connect(addr: &str) -> TcpStream {
    let addr = addr.to_socket_addrs().unwrap().next().unwrap();
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn connect_unix(path: &str) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// False at the end.
fn read(stream: &mut impl Read, input: &mut BytesMut) -> bool {
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => false,
        Ok(len) => {
            input.extend_from_slice(&bytes[..len]);
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
        Err(error) => panic!("{error}"),
    }
}

fn short(tag: u8, message: BackendMessage<'_>) -> String {
    match message {
        BackendMessage::CommandComplete(it) => format!("C {}", it.tag),
        BackendMessage::ReadyForQuery(it) => format!("Z {:?}", it.status),
        BackendMessage::DataRow(row) => {
            let values =
                row.values.map(|it| String::from_utf8_lossy(it.unwrap_or(b"null")).into_owned());
            format!("D {}", values.collect::<Vec<_>>().join(","))
        }
        BackendMessage::ErrorResponse(it) => {
            let text = |letter| {
                let value = it.fields.value(letter).unwrap_or_default();
                String::from_utf8_lossy(value).into_owned()
            };
            let position = text(field::POSITION);
            let (code, message) = (text(field::CODE), text(field::MESSAGE));
            format!("E {code} {message} @{position} <{}>", text(field::WHERE))
        }
        _ => char::from(tag).to_string(),
    }
}

/// A simple query.
pub(crate) fn query(sql: &str) -> BytesMut {
    let mut out = BytesMut::new();
    Query { sql }.encode(&mut out).unwrap();
    out
}

/// Messages of the extended protocol in one write. A `Bind` has its parameters as texts.
pub(crate) enum Part<'a> {
    Parse(&'a str, &'a str),
    Bind(&'a str, &'a [&'a str]),
    DescribeStatement(&'a str),
    DescribePortal,
    Execute,
    Close(&'a str),
    Sync,
}

pub(crate) fn extended(parts: &[Part<'_>]) -> BytesMut {
    let mut out = BytesMut::new();
    let text = Formats::AllText;
    for part in parts {
        match part {
            Part::Parse(name, sql) => parse::write(&mut out, name, sql, &[]).unwrap(),
            Part::Bind(name, values) => {
                let value = |at: usize, out: &mut BytesMut| {
                    out.extend_from_slice(values[at].as_bytes());
                    Ok::<_, EncodeError>(IsNull::No)
                };
                bind::write(&mut out, "", name, text, values.len(), value, text).unwrap();
            }
            Part::DescribeStatement(name) => {
                Describe { target: Target::Statement(name) }.encode(&mut out).unwrap();
            }
            Part::DescribePortal => {
                Describe { target: Target::Portal("") }.encode(&mut out).unwrap()
            }
            Part::Execute => Execute { portal: "", rows_max: 0 }.encode(&mut out).unwrap(),
            Part::Close(name) => {
                Close { target: Target::Statement(name) }.encode(&mut out).unwrap();
            }
            Part::Sync => out.extend_from_slice(&SYNC),
        }
    }
    out
}
