//! A socket of either kind.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UnixStream};

/// A connected socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
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

    /// Waits for bytes; false at the end.
    pub(super) async fn read(&self, into: &mut BytesMut) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        loop {
            self.ready(true, false).await?;
            if let Some(len) = self.try_read(&mut bytes)? {
                into.extend_from_slice(&bytes[..len]);
                return Ok(len > 0);
            }
        }
    }

    /// Writes all of it.
    pub(super) async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(false, true).await?;
            if let Some(len) = self.try_write(bytes)? {
                bytes = &bytes[len..];
            }
        }
        Ok(())
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
