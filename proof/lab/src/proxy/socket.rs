//! The system calls on one socket of a connection, and what epoll last said about it. No policy.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType, connect, sendmsg, shutdown, socket_with, sockopt,
};

use super::config::Upstream;

/// A nonblocking socket. Readiness is edge-triggered: a flag stays set until a call would have
/// blocked.
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    /// A read may find something.
    pub(super) readable: bool,
    /// A write may find room.
    pub(super) writable: bool,
    /// The peer sent its last byte: reads go on until they have seen the end.
    pub(super) hung_up: bool,
    /// A write failed: nothing can be delivered here any more.
    pub(super) broken: bool,
}

/// What a read found.
pub(super) enum ReadOutcome {
    Bytes(usize),
    Eof,
    Reset,
    WouldBlock,
}

impl Socket {
    /// A client's connection.
    pub(super) fn accepted(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let fd = OwnedFd::from(stream);
        tune_tcp(&fd)?;
        Ok(Socket::new(fd, true))
    }

    /// Begins to connect; it has when epoll says that it is writable.
    pub(super) fn dial(upstream: &Upstream) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (fd, result) = match upstream {
            Upstream::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let fd = socket_with(family, SocketType::STREAM, flags, None)?;
                tune_tcp(&fd)?;
                let result = connect(&fd, address);
                (fd, result)
            }
            Upstream::Unix(path) => {
                let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                let result = connect(&fd, &SocketAddrUnix::new(path)?);
                (fd, result)
            }
        };
        match result {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Socket::new(fd, false)),
            Err(error) => Err(error.into()),
        }
    }

    fn new(fd: OwnedFd, writable: bool) -> Self {
        Socket { fd, readable: false, writable, hung_up: false, broken: false }
    }

    /// The socket's pending error, which this call clears; used to learn how a dial ended.
    pub(super) fn take_error(&self) -> io::Result<()> {
        match sockopt::socket_error(&self.fd) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(error.into()),
        }
    }

    /// Reads once into `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        loop {
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) if self.broken => return ReadOutcome::Reset,
                Ok(0) => return ReadOutcome::Eof,
                Ok(bytes) => {
                    // A short read has emptied the socket, and more bytes make a new edge; only a
                    // hang-up may have been announced already.
                    self.readable = bytes == buffer.len() || self.hung_up || self.broken;
                    return ReadOutcome::Bytes(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !self.broken => {
                    self.readable = false;
                    return ReadOutcome::WouldBlock;
                }
                Err(_) => return ReadOutcome::Reset,
            }
        }
    }

    /// Writes once and returns how many bytes were taken; 0 if there is no room or the peer is
    /// gone.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> usize {
        loop {
            // NOSIGNAL: a vanished peer is an error here, not a SIGPIPE.
            let mut control = SendAncillaryBuffer::default();
            match sendmsg(&self.fd, slices, &mut control, SendFlags::NOSIGNAL) {
                Ok(bytes) => return bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.writable = false;
                    return 0;
                }
                Err(_) => {
                    // Bytes that the peer sent before it went are still read, up to the reset.
                    self.broken = true;
                    self.readable = true;
                    return 0;
                }
            }
        }
    }

    /// Sends an end of stream. Errors are left to the next read: they mean that the peer is gone.
    pub(super) fn shutdown_write(&self) {
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// Makes the coming close a reset (TCP only; a unix socket just closes).
    pub(super) fn reset_on_close(&self) {
        let _ = sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }
}

/// No Nagle delay in either direction. Buffer sizes are left to the kernel's own tuning: it grows
/// them to 4 MiB (send) and 32 MiB (receive), where an explicit size is capped at
/// `net.core.{w,r}mem_max`, 208 KiB on a stock system.
fn tune_tcp(fd: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd, true)?)
}
