//! A minimal connection to a real server, which records what the server sends.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Buf, BytesMut};
use onetrip_lab::postgres::shared;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Describe, EncodeError, Execute, Formats, IsNull, SYNC, Target, bind, frame, max_len, parse,
};
use onetrip_postgres::startup::{NONCE_LEN, Startup, StartupConfig};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A session with a server.
pub(crate) struct Server {
    stream: TcpStream,
    /// All that the server sent during the startup.
    pub(crate) said: Vec<u8>,
}

/// A message: its type and its body.
pub(crate) type Message = (u8, Vec<u8>);

impl Server {
    /// Logs in, with a nonce that never changes.
    pub(crate) fn connect(mut config: StartupConfig) -> Result<Server> {
        config.database = Some("postgres".to_owned());
        let stream = TcpStream::connect(("127.0.0.1", shared().port()))?;
        let mut server = Server { stream, said: Vec::new() };
        let mut startup = Startup::new(config, [9; NONCE_LEN])?;
        let mut input = BytesMut::new();
        loop {
            if let Some(bytes) = startup.transmit() {
                server.stream.write_all(&bytes)?;
            }
            let bytes = server.read()?;
            server.said.extend_from_slice(&bytes);
            input.extend_from_slice(&bytes);
            // The answer to a wrong password is recorded too.
            if !matches!(startup.handle_bytes(&mut input), Ok(None)) {
                return Ok(server);
            }
        }
    }

    fn read(&mut self) -> Result<Vec<u8>> {
        let mut bytes = [0; 8192];
        let len = self.stream.read(&mut bytes)?;
        if len == 0 { Err("the server hung up".into()) } else { Ok(bytes[..len].to_vec()) }
    }

    /// Sends these bytes, and reads until `ready` ReadyForQuery messages have come.
    pub(crate) fn ask(&mut self, bytes: &[u8], ready: usize) -> Result<Vec<u8>> {
        self.stream.write_all(bytes)?;
        let mut said = Vec::new();
        while messages(&said).iter().filter(|(tag, _)| *tag == backend::READY_FOR_QUERY).count()
            < ready
        {
            said.extend(self.read()?);
        }
        Ok(said)
    }

    /// The first row of a statement with these values, all binary, or the error.
    pub(crate) fn rows(&mut self, sql: &str, values: &[&[u8]]) -> Result<Vec<Message>> {
        let mut out = BytesMut::new();
        extended(sql, values, &mut out)?;
        out.extend_from_slice(&SYNC);
        Ok(messages(&self.ask(&out, 1)?))
    }
}

/// Parse, Bind, Describe and Execute.
pub(crate) fn extended(
    sql: &str,
    values: &[&[u8]],
    out: &mut BytesMut,
) -> std::result::Result<(), EncodeError> {
    parse::write(out, "", sql, &[])?;
    let value = |at: usize, out: &mut BytesMut| {
        out.extend_from_slice(values[at]);
        Ok::<_, EncodeError>(IsNull::No)
    };
    let (formats, count) = (Formats::AllBinary, values.len());
    bind::write(out, "", "", formats, count, value, Formats::AllBinary)?;
    Describe { target: Target::Portal("") }.encode(out)?;
    Execute { portal: "", rows_max: 0 }.encode(out)
}

/// The whole messages in these bytes.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    while let Ok(Some(message)) = frame(bytes, max_len) {
        found.push((message.tag, message.body.to_vec()));
        bytes.advance(message.message_len());
    }
    found
}
