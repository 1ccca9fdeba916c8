//! The socket of a connection, in two halves: the driver reads, callers and driver write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

/// The reading half.
#[derive(Debug)]
pub(crate) enum Reader {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

/// The writing half.
#[derive(Debug)]
pub(crate) enum Writer {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
}

pub(crate) fn split_tcp(stream: TcpStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Reader::Tcp(reader), Writer::Tcp(writer))
}

pub(crate) fn split_unix(stream: UnixStream) -> (Reader, Writer) {
    let (reader, writer) = stream.into_split();
    (Reader::Unix(reader), Writer::Unix(writer))
}

impl Reader {
    /// Appends what has arrived, at most what `buffer` has room for. Zero bytes: the peer has
    /// closed its side.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        // The future keeps nothing between polls, so a new one each time is the same.
        match self {
            Reader::Tcp(half) => std::pin::pin!(half.read_buf(buffer)).poll(cx),
            Reader::Unix(half) => std::pin::pin!(half.read_buf(buffer)).poll(cx),
        }
    }

    /// Waits for bytes and appends them.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        buffer.reserve(4096);
        std::future::poll_fn(|cx| self.poll_read(cx, buffer)).await
    }
}

impl Writer {
    /// Writes what the socket takes at once.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writer::Tcp(half) => half.try_write(bytes),
            Writer::Unix(half) => half.try_write(bytes),
        }
    }

    /// Writes what the socket takes, and otherwise wakes the task when it takes more.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Writer::Tcp(half) => Pin::new(half).poll_write(cx, bytes),
            Writer::Unix(half) => Pin::new(half).poll_write(cx, bytes),
        }
    }

    /// Writes all of it.
    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::future::poll_fn(|cx| self.poll_write(cx, bytes)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        Ok(())
    }
}
