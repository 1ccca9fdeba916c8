//! A socket that never blocks, with TLS or without.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};
use rustls::ClientConnection;

/// Where a socket leads.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Ip(SocketAddr),
    Unix(PathBuf),
}

impl Place {
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Place::Ip(address) => Some(address.ip()),
            Place::Unix(_) => None,
        }
    }

    /// Whether nothing between here and there can listen.
    pub(crate) fn is_local(&self) -> bool {
        self.ip().is_none_or(|ip| ip.is_loopback())
    }
}

/// What the kernel watches of a line; 0 for its own default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeepAlive {
    pub(crate) is_on: bool,
    pub(crate) idle_s: u32,
    pub(crate) interval_s: u32,
    pub(crate) count: u32,
    pub(crate) user_timeout_ms: u32,
}

/// A socket.
pub(crate) struct Wire {
    socket: OwnedFd,
    pub(crate) tls: Option<Box<ClientConnection>>,
    key: u64,
    /// What the loop is told of.
    interest: EventFlags,
    /// The socket took less than there was.
    is_full: bool,
    /// Its bytes are to be read.
    pub(crate) reads: bool,
    /// It is not connected yet.
    is_dialing: bool,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Wire {
    /// Begins to connect. The loop is told of the socket under this key.
    pub(crate) fn dial(
        poll: BorrowedFd<'_>,
        place: &Place,
        keep: KeepAlive,
        key: u64,
    ) -> io::Result<Wire> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let of = |family| socket_with(family, SocketType::STREAM, flags, None);
        let (socket, connected) = match place {
            Place::Ip(address) => {
                let family = match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                let socket = of(family)?;
                keep_alive(&socket, keep)?;
                let connected = connect(&socket, address);
                (socket, connected)
            }
            Place::Unix(path) => {
                let socket = of(AddressFamily::UNIX)?;
                let connected = connect(&socket, &SocketAddrUnix::new(path)?);
                (socket, connected)
            }
        };
        let is_dialing = match connected {
            Ok(()) => false,
            Err(Errno::INPROGRESS) => true,
            Err(error) => return Err(error.into()),
        };
        let interest = if is_dialing { EventFlags::OUT } else { EventFlags::IN };
        epoll::add(poll, &socket, EventData::new_u64(key), interest)?;
        Ok(Wire { socket, tls: None, key, interest, is_full: false, reads: true, is_dialing })
    }

    /// Whether it is connected by now.
    pub(crate) fn is_connected(&mut self) -> io::Result<bool> {
        if self.is_dialing {
            sockopt::socket_error(&self.socket)?.map_err(io::Error::from)?;
            match rustix::net::getpeername(&self.socket) {
                Ok(_) => self.is_dialing = false,
                Err(Errno::NOTCONN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Tells the loop what it waits for now.
    pub(crate) fn watch(&mut self, poll: BorrowedFd<'_>) {
        let is_full = self.is_full || self.is_dialing;
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::OUT, is_full);
        wanted.set(EventFlags::IN, self.reads && !self.is_dialing);
        if wanted != self.interest
            && epoll::modify(poll, &self.socket, EventData::new_u64(self.key), wanted).is_ok()
        {
            self.interest = wanted;
        }
    }

    /// What follows is written, as far as the socket takes it.
    pub(crate) fn begin_writing(&mut self) {
        self.is_full = false;
    }

    /// Writes some of these bytes, and returns how many that were; 0 if the socket takes none now.
    /// Those of TLS count as handed over even if the socket takes them later.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut raw = Raw(self.socket.as_fd());
        let written = match &mut self.tls {
            None => unless_blocked(raw.write(bytes))?,
            Some(tls) => match unless_blocked(flush(tls, &mut raw).map(|()| 0))? {
                None => None,
                Some(_) => {
                    let taken = tls.writer().write(bytes)?;
                    // An error shows again at the next write; these bytes were taken all the same.
                    let _ = flush(tls, &mut raw);
                    Some(taken)
                }
            },
        };
        self.is_full |= written.is_none();
        Ok(written.unwrap_or(0))
    }

    /// Reads what has come. `None`: nothing has; 0 bytes: its end.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        let mut raw = Raw(self.socket.as_fd());
        let Some(tls) = &mut self.tls else { return unless_blocked(raw.read(room)) };
        loop {
            match tls.reader().read(room) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It ended without saying so: what came before it is whole, by its own rules.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
            match unless_blocked(tls.read_tls(&mut raw))? {
                None => return Ok(None),
                Some(_) => {
                    let state = tls.process_new_packets();
                    // An alert says to the server what is wrong.
                    let _ = flush(tls, &mut raw);
                    state.map_err(io::Error::other)?;
                }
            }
        }
    }

    /// Reads bytes that come before TLS begins.
    pub(crate) fn read_raw(&mut self, room: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(Raw(self.socket.as_fd()).read(room))
    }

    /// Goes on with the handshake. Whether it is complete.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        let mut raw = Raw(self.socket.as_fd());
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.is_handshaking() {
            if tls.wants_write() {
                match unless_blocked(flush(tls, &mut raw).map(|()| 0))? {
                    Some(_) => continue,
                    None => {
                        self.is_full = true;
                        return Ok(false);
                    }
                }
            }
            self.is_full = false;
            match unless_blocked(tls.read_tls(&mut raw))? {
                None => return Ok(false),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => {
                    let state = tls.process_new_packets();
                    let _ = flush(tls, &mut raw);
                    state.map_err(io::Error::other)?;
                }
            }
        }
        let _ = flush(tls, &mut raw);
        self.is_full = tls.wants_write();
        Ok(true)
    }

    /// Says that nothing follows.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = flush(tls, &mut Raw(self.socket.as_fd()));
        }
    }

    /// Writes what of TLS waits for the socket. Whether nothing does any more.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let flushed = flush(tls, &mut Raw(self.socket.as_fd())).map(|()| 0);
        let is_flushed = unless_blocked(flushed)?.is_some();
        self.is_full |= !is_flushed;
        Ok(is_flushed)
    }
}

fn keep_alive(socket: &OwnedFd, of: KeepAlive) -> io::Result<()> {
    use std::time::Duration;
    sockopt::set_tcp_nodelay(socket, true)?;
    if !of.is_on {
        return Ok(());
    }
    sockopt::set_socket_keepalive(socket, true)?;
    let seconds = |it: u32| Duration::from_secs(it.into());
    if of.idle_s > 0 {
        sockopt::set_tcp_keepidle(socket, seconds(of.idle_s))?;
    }
    if of.interval_s > 0 {
        sockopt::set_tcp_keepintvl(socket, seconds(of.interval_s))?;
    }
    if of.count > 0 {
        sockopt::set_tcp_keepcnt(socket, of.count)?;
    }
    if of.user_timeout_ms > 0 {
        sockopt::set_tcp_user_timeout(socket, of.user_timeout_ms)?;
    }
    Ok(())
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn flush(tls: &mut ClientConnection, raw: &mut Raw<'_>) -> io::Result<()> {
    while tls.wants_write() {
        if tls.write_tls(raw)? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// The socket as rustls wants it. No signal is raised where the peer is gone.
struct Raw<'a>(BorrowedFd<'a>);

impl Read for Raw<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.0, &mut *room, RecvFlags::empty()) {
                Ok((_, len)) => return Ok(len),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(self.0, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
