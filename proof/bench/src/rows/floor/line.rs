//! A blocking socket that sends what was recorded, keeps as many requests on their way as the
//! client does, and looks at the answers no more than it takes to know where they end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use onetrip_lab::redis::Server;
use tokio_postgres::NoTls;

use super::recording::{Protocol, Recording};
use crate::stage::Stage;

/// A connection that is logged in, with the statements of a recording prepared.
pub struct Line {
    socket: TcpStream,
    protocol: Protocol,
    buffer: Vec<u8>,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Requests on their way at most.
    pub depth: usize,
    /// Answers that are waited for before as many requests follow.
    pub step: usize,
}

impl Line {
    pub async fn to_postgres(stage: &Stage, recording: &Recording) -> Result<Line> {
        let socket = connect(stage.server.port())?;
        // A login is not what is measured: tokio-postgres does it, on a second handle.
        let handle = socket.try_clone()?;
        handle.set_nonblocking(true)?;
        let config: tokio_postgres::Config = stage.server.url().parse()?;
        let client = config.connect_raw(tokio::net::TcpStream::from_std(handle)?, NoTls).await;
        // Its connection never runs, so that nothing says goodbye.
        drop(client.context("the floor cannot log in")?);
        socket.set_nonblocking(false)?;
        Line::prepared(socket, Protocol::Postgres, &recording.setup)
    }

    pub fn to_redis(server: &Server) -> Result<Line> {
        let password = server.password();
        let login = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
        Line::prepared(connect(server.port())?, Protocol::Redis, login.as_bytes())
    }

    /// The socket, for others to use.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    fn prepared(socket: TcpStream, protocol: Protocol, first: &[u8]) -> Result<Line> {
        let mut line = Line { socket, protocol, buffer: vec![0; READ] };
        line.socket.write_all(first)?;
        line.hear(1, |_, _| Ok(()))?;
        Ok(line)
    }

    /// Sends all requests, hears all answers, and returns the checksum of who read the same.
    pub fn round(&mut self, recording: &Recording, Window { depth, step }: Window) -> Result<u64> {
        let count = recording.ends.len();
        let mut sent = depth.min(count);
        self.socket.write_all(recording.requests(0..sent))?;
        let bytes = self.hear(count, |socket, answered| {
            let due = (answered + depth).min(count);
            if due - sent >= step || (due > sent && due == count) {
                socket.write_all(recording.requests(sent..due))?;
                sent = due;
            }
            Ok(())
        })?;
        ensure!(bytes == recording.answers, "the floor was answered something else");
        Ok(recording.checksum)
    }

    /// Reads so many answers, and returns how many bytes they were. `next` is told after each read
    /// how many have come.
    fn hear(
        &mut self,
        count: usize,
        mut next: impl FnMut(&mut TcpStream, usize) -> Result<()>,
    ) -> Result<usize> {
        let (mut answered, mut bytes, mut kept) = (0, 0, 0);
        while answered < count {
            let read = self.socket.read(&mut self.buffer[kept..]);
            let read = read.context("the floor hears nothing")?;
            ensure!(read > 0, "the server has closed the floor's connection");
            let end = kept + read;
            let (whole, answers) = self.protocol.answers(&self.buffer[..end])?;
            bytes += read;
            answered += answers;
            // The beginning of a message, which is short: it goes in front of the next read.
            self.buffer.copy_within(whole..end, 0);
            kept = end - whole;
            next(&mut self.socket, answered)?;
        }
        ensure!(kept == 0 && answered == count, "the floor was answered more than it asked for");
        Ok(bytes)
    }
}

fn connect(port: u16) -> Result<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port)).context("the floor cannot connect")?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// As much as onetrip reads at most.
pub const READ: usize = 128 << 10;

/// An answer that does not come by then never will.
const PATIENCE: Duration = Duration::from_secs(20);
