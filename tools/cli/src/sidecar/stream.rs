//! A socket of either kind.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::net::sockopt::set_socket_keepalive;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Where the server is reached without TLS: itself, or a relay in front of it.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(Vec<SocketAddr>),
    Unix(PathBuf),
}

impl Place {
    /// # Errors
    /// The last one of its addresses that was tried.
    pub(super) async fn connect(&self) -> io::Result<Stream> {
        match self {
            Place::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
            Place::Tcp(addresses) => {
                let stream = TcpStream::connect(&addresses[..]).await?;
                stream.set_nodelay(true)?;
                // Those of the program end here.
                set_socket_keepalive(&stream, true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl Stream {
    /// Waits until it can be read or written, as far as that is asked for.
    pub(super) async fn ready(&self, reads: bool, writes: bool) -> io::Result<()> {
        let interest = match (reads, writes) {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (true, false) => Interest::READABLE,
            (false, true) => Interest::WRITABLE,
            (false, false) => return std::future::pending().await,
        };
        match self {
            Stream::Tcp(stream) => stream.ready(interest).await.map(drop),
            Stream::Unix(stream) => stream.ready(interest).await.map(drop),
        }
    }

    /// Reads what is there; `None` if nothing is.
    pub(super) fn try_read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        would_block(match self {
            Stream::Tcp(stream) => stream.try_read(into),
            Stream::Unix(stream) => stream.try_read(into),
        })
    }

    /// Writes what there is room for; `None` if there is none.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        would_block(match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
        })
    }

    /// Sends the end.
    pub(super) async fn shut_down(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown().await,
            Stream::Unix(stream) => stream.shutdown().await,
        }
    }
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
