//! The socket of a connection in two halves, with TLS in between if there is TLS: the driver reads,
//! and callers and the driver write.
//!
//! TLS belongs to the writing half, which the connection's lock guards. The driver reads encrypted
//! bytes without the lock, and [`Writer::receive`] decrypts them under it.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, tcp, unix};

use crate::Error;
use crate::tls::{Session, explain_io};

/// Room for encrypted bytes at each read: a few records of 8 KiB, which is PostgreSQL's send buffer
/// (PQ_SEND_BUFFER_SIZE in pqcomm.c).
const ENCRYPTED_READ: usize = 32 << 10;

/// The reading half.
#[derive(Debug)]
pub(crate) struct Reader {
    half: ReadHalf,
    /// With TLS: bytes that were read and are still to be decrypted.
    encrypted: Option<BytesMut>,
}

/// The writing half.
#[derive(Debug)]
pub(crate) struct Writer {
    half: WriteHalf,
    tls: Option<Box<Session>>,
}

#[derive(Debug)]
enum ReadHalf {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
}

#[derive(Debug)]
enum WriteHalf {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    /// The socket was dropped.
    Gone,
}

/// The result of a read.
#[derive(Debug)]
pub(crate) struct Received {
    /// How many bytes were appended.
    pub(crate) bytes: usize,
    /// Why no more will come, if so.
    pub(crate) end: Option<Ending>,
}

/// Why no more bytes come from a peer.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The peer closed its side.
    Closed,
    /// The connection closed without TLS's close_notify: somebody in between may have cut it.
    CutOff,
    /// The socket failed, or what came was not valid TLS.
    Failed(io::Error),
}

impl Ending {
    /// The error of this ending. `lost` makes it from the reason; the system's own error becomes
    /// its source.
    pub(crate) fn into_error(self, lost: impl FnOnce(&str) -> Error) -> Error {
        let error = lost(&self.to_string());
        match self {
            Ending::Failed(source) => error.with_source(source),
            _ => error,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Closed => f.write_str("the server closed it"),
            Ending::CutOff => f.write_str("TLS was cut off, without the server's goodbye"),
            Ending::Failed(error) => match explain_io(error) {
                Some(text) => f.write_str(&text),
                None => error.fmt(f),
            },
        }
    }
}

impl Reader {
    /// Reads what has arrived into `buffer`, up to its free room; with TLS into a buffer of its
    /// own, to be decrypted. The result is passed to [`Writer::receive`].
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let buffer = match &mut self.encrypted {
            None => buffer,
            Some(encrypted) => {
                encrypted.reserve(ENCRYPTED_READ);
                encrypted
            }
        };
        self.half.poll_read(cx, buffer)
    }

    /// Reads bytes that nobody will look at, as they come off the socket.
    pub(crate) fn poll_skip(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        buffer.reserve(ENCRYPTED_READ);
        self.half.poll_read(cx, buffer)
    }
}

impl ReadHalf {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        // The future keeps no state between polls, so a new one each time is the same.
        match self {
            ReadHalf::Tcp(half) => std::pin::pin!(half.read_buf(buffer)).poll(cx),
            ReadHalf::Unix(half) => std::pin::pin!(half.read_buf(buffer)).poll(cx),
        }
    }
}

impl Writer {
    /// Handles the result of a read, and decrypts it if there is TLS.
    pub(crate) fn receive(
        &mut self,
        read: io::Result<usize>,
        reader: &mut Reader,
        buffer: &mut BytesMut,
    ) -> Received {
        let (bytes, end) = match (read, &mut self.tls, &mut reader.encrypted) {
            (Err(error), ..) => (0, Some(Ending::Failed(error))),
            (Ok(0), None, _) => (0, Some(Ending::Closed)),
            (Ok(0), Some(_), _) => (0, Some(Ending::CutOff)),
            (Ok(_), Some(tls), Some(encrypted)) => {
                let decrypted = tls.decrypt(encrypted, buffer);
                let failed =
                    |error| Ending::Failed(io::Error::new(io::ErrorKind::InvalidData, error));
                let closed = decrypted.closed.then_some(Ending::Closed);
                (decrypted.bytes, decrypted.error.map(failed).or(closed))
            }
            (Ok(bytes), ..) => (bytes, None),
        };
        Received { bytes, end }
    }

    /// Writes as many bytes as the socket takes at once; TLS also keeps some that the socket does
    /// not take yet.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => Now(&self.half).write(bytes),
            Some(tls) => tls.write(bytes, &mut Now(&self.half)),
        }
    }

    /// Writes as many bytes as are taken; if none are, the task is woken when more will be.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut socket = Later(&mut self.half, cx);
        ready(match &mut self.tls {
            None => socket.write(bytes),
            Some(tls) => tls.write(bytes, &mut socket),
        })
    }

    /// Whether the socket has taken all bytes that were written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_flushed())
    }

    /// Writes what TLS still holds; if the socket does not take it, the task is woken when it does.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.tls {
            None => Poll::Ready(Ok(())),
            Some(tls) => ready(tls.flush(&mut Later(&mut self.half, cx))),
        }
    }

    /// Sends TLS's close_notify.
    pub(crate) fn poll_goodbye(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            tls.say_goodbye();
        }
        self.poll_flush(cx)
    }

    /// Shuts the writing half down, behind the goodbye.
    pub(crate) fn poll_shut_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.half {
            WriteHalf::Tcp(half) => Pin::new(half).poll_shutdown(cx),
            WriteHalf::Unix(half) => Pin::new(half).poll_shutdown(cx),
            WriteHalf::Gone => Poll::Ready(Ok(())),
        }
    }

    /// Drops this half, so that the socket closes with the other one: a caller may hold the
    /// connection for long after it has ended.
    pub(crate) fn let_go(&mut self) {
        self.half = WriteHalf::Gone;
    }
}

fn ready<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        other => Poll::Ready(other),
    }
}

/// Writes as much as the socket takes at once.
struct Now<'a>(&'a WriteHalf);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0 {
            WriteHalf::Tcp(half) => half.try_write(bytes),
            WriteHalf::Unix(half) => half.try_write(bytes),
            WriteHalf::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0 {
            WriteHalf::Tcp(half) => half.try_write_vectored(pieces),
            WriteHalf::Unix(half) => half.try_write_vectored(pieces),
            WriteHalf::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same, and the task is woken when the socket takes more: `WouldBlock` stands for pending.
struct Later<'a, 'c>(&'a mut WriteHalf, &'a mut Context<'c>);

impl Write for Later<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        at_once(match &mut self.0 {
            WriteHalf::Tcp(half) => Pin::new(half).poll_write(self.1, bytes),
            WriteHalf::Unix(half) => Pin::new(half).poll_write(self.1, bytes),
            WriteHalf::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        })
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        at_once(match &mut self.0 {
            WriteHalf::Tcp(half) => Pin::new(half).poll_write_vectored(self.1, pieces),
            WriteHalf::Unix(half) => Pin::new(half).poll_write_vectored(self.1, pieces),
            WriteHalf::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn at_once(written: Poll<io::Result<usize>>) -> io::Result<usize> {
    match written {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Both halves, before the driver has taken its own: for the exchange before the first request.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    /// Bytes that were read and not used yet.
    pub(crate) input: BytesMut,
}

impl Stream {
    pub(crate) fn tcp(stream: TcpStream) -> Stream {
        let (reader, writer) = stream.into_split();
        Stream::new(ReadHalf::Tcp(reader), WriteHalf::Tcp(writer))
    }

    pub(crate) fn unix(stream: UnixStream) -> Stream {
        let (reader, writer) = stream.into_split();
        Stream::new(ReadHalf::Unix(reader), WriteHalf::Unix(writer))
    }

    fn new(reader: ReadHalf, writer: WriteHalf) -> Stream {
        Stream {
            reader: Reader { half: reader, encrypted: None },
            writer: Writer { half: writer, tls: None },
            input: BytesMut::new(),
        }
    }

    /// From now on all bytes pass through TLS.
    pub(crate) fn begin_tls(&mut self, session: Session) {
        self.writer.tls = Some(Box::new(session));
        self.reader.encrypted = Some(BytesMut::new());
    }

    pub(crate) fn tls(&self) -> Option<&Session> {
        self.writer.tls.as_deref()
    }

    /// Waits for one byte, and takes no more than that off the socket.
    pub(crate) async fn read_byte(&mut self) -> io::Result<u8> {
        match &mut self.reader.half {
            ReadHalf::Tcp(half) => half.read_u8().await,
            ReadHalf::Unix(half) => half.read_u8().await,
        }
    }

    /// Whether a byte has arrived. It is taken, so the stream can't be used after that.
    pub(crate) fn try_read_byte(&mut self) -> bool {
        let mut byte = [0];
        let read = match &mut self.reader.half {
            ReadHalf::Tcp(half) => half.try_read(&mut byte),
            ReadHalf::Unix(half) => half.try_read(&mut byte),
        };
        read.is_ok_and(|read| read > 0)
    }

    /// Waits until bytes have arrived. With TLS they may contain none for us; TLS's answer to them
    /// is written as far as the socket takes it.
    pub(crate) async fn read(&mut self) -> Received {
        let Stream { reader, writer, input } = self;
        input.reserve(4096);
        let read = std::future::poll_fn(|cx| reader.poll_read(cx, input)).await;
        let received = writer.receive(read, reader, input);
        if !writer.is_flushed() {
            let _ = writer.try_write(&[]);
        }
        received
    }

    /// Writes all of it.
    pub(crate) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::future::poll_fn(|cx| self.writer.poll_write(cx, bytes)).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
        self.flush().await
    }

    /// Writes what TLS still holds.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.writer.poll_flush(cx)).await
    }
}
