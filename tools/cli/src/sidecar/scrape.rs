//! The endpoint at which metrics are read: `GET /metrics` of HTTP/1.1, an answer a connection.
//!
//! What clients can take is bounded: so many at a time, each with so many bytes and so much time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::listener::check;

/// How long a client may take, from its connection to the end of its answer.
const CLIENT_MAX: Duration = Duration::from_secs(2);

/// How long its request may be.
const REQUEST_MAX: usize = 8 << 10;

/// Listens for those who ask. It needs a runtime.
///
/// # Errors
/// It can't, or other machines could ask: one line.
pub(super) fn listen(at: SocketAddr, allow_remote: bool) -> Result<TcpListener, String> {
    check("--metrics", at, allow_remote)?;
    let open = || {
        let listener = std::net::TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    open().map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => format!("{at} is in use; choose another with --metrics"),
        _ => format!("can't listen on {at}: {error}; choose another with --metrics"),
    })
}

/// Where they are, for people.
pub(super) fn place(listener: &TcpListener) -> String {
    listener
        .local_addr()
        .map_or_else(|_| String::new(), |it| format!("; metrics at http://{it}/metrics"))
}

/// Answers with this text for ever, four clients at a time: one that is slow delays no other.
pub(super) async fn serve(listener: &TcpListener, text: impl Fn() -> String) -> Infallible {
    let one = || answers(listener, &text);
    tokio::select! {
        never = one() => never,
        never = one() => never,
        never = one() => never,
        never = one() => never,
    }
}

async fn answers(listener: &TcpListener, text: &impl Fn() -> String) -> Infallible {
    loop {
        match listener.accept().await {
            // Who does not hear it asks again.
            Ok((client, _)) => drop(timeout(CLIENT_MAX, answer(client, text)).await),
            // No descriptor is left until a connection ends.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn answer(mut client: TcpStream, text: &impl Fn() -> String) -> io::Result<()> {
    let mut request = Vec::new();
    let is_whole = |request: &[u8]| request.windows(4).any(|it| it == b"\r\n\r\n");
    while !is_whole(&request) && request.len() < REQUEST_MAX {
        let mut bytes = [0; 1024];
        match client.read(&mut bytes).await? {
            0 => return Ok(()),
            len => request.extend_from_slice(&bytes[..len]),
        }
    }
    let line = request.split(|it| *it == b'\r').next().unwrap_or_default();
    let mut words = line.split(|it| *it == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|it| *it == b'?').next().unwrap_or_default();
    let (status, text) = match (method, path) {
        _ if !is_whole(&request) => ("431 Request Header Fields Too Large", String::new()),
        (Some(b"GET"), b"/metrics") => ("200 OK", text()),
        (_, b"/metrics") => ("405 Method Not Allowed\r\nAllow: GET", String::new()),
        _ => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}
