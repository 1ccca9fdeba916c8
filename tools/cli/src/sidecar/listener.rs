//! Where programs connect: a port, a Unix socket, or what systemd has opened.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::getsockname;
use tokio::net::{TcpListener, UnixListener};

use super::settings::Listen;
use super::stream::Stream;
use super::systemd;

/// It listens until it is dropped.
pub(super) struct Listener {
    /// Before the socket, so that no sidecar that begins now takes it for one that was left.
    _file: Option<File>,
    socket: Socket,
    /// Where programs connect, for people.
    pub(super) name: String,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The file of a socket, which goes with it.
struct File {
    path: PathBuf,
    /// Its device and its number.
    id: (u64, u64),
}

impl Drop for File {
    fn drop(&mut self) {
        // Who has put another one in its place keeps that.
        if id(&self.path).is_ok_and(|it| it == self.id) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn id(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|it| (it.dev(), it.ino()))
}

impl Listener {
    /// Listens. It needs a runtime.
    ///
    /// # Errors
    /// It can't listen there, or other machines could connect: one line.
    pub(super) fn open(listen: &Listen, allow_remote: bool) -> Result<Listener, String> {
        match listen {
            Listen::Tcp(address) => {
                check("--listen", *address, allow_remote)?;
                let listener = std::net::TcpListener::bind(address);
                let listener = listener.map_err(|error| cant_listen(listen, &error))?;
                Listener::tcp(listener).map_err(|error| cant_listen(listen, &error))
            }
            Listen::Unix(path) => unix(path).map_err(|error| cant_listen(listen, &error)),
            Listen::Systemd => Listener::of_systemd(allow_remote)
                .map_err(|error| format!("--listen systemd: {error}")),
        }
    }

    fn of_systemd(allow_remote: bool) -> Result<Listener, String> {
        let socket = systemd::listener()?;
        let at = getsockname(&socket).map_err(|error| error.to_string())?;
        let opened = match SocketAddr::try_from(at) {
            Ok(address) => {
                check("its socket", address, allow_remote)?;
                Listener::tcp(socket.into())
            }
            Err(_) => Listener::unix(socket.into(), None),
        };
        opened.map_err(|error| error.to_string())
    }

    fn tcp(listener: std::net::TcpListener) -> io::Result<Listener> {
        let name = listener.local_addr()?.to_string();
        listener.set_nonblocking(true)?;
        let socket = Socket::Tcp(TcpListener::from_std(listener)?);
        Ok(Listener { _file: None, socket, name })
    }

    fn unix(
        listener: std::os::unix::net::UnixListener,
        file: Option<File>,
    ) -> io::Result<Listener> {
        let name = listener.local_addr()?;
        let name = name.as_pathname().unwrap_or(Path::new("a Unix socket")).display().to_string();
        listener.set_nonblocking(true)?;
        let socket = Socket::Unix(UnixListener::from_std(listener)?);
        Ok(Listener { _file: file, socket, name })
    }

    /// The address, if it is a port.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (program, _) = listener.accept().await?;
                // Where it fails, the program is gone, as will be seen.
                let _ = program.set_nodelay(true);
                Ok(Stream::Tcp(program))
            }
            Socket::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// As for PostgreSQL's own socket, everybody who may enter the directory can connect. What is left
/// of a sidecar that was killed is replaced.
fn unix(path: &Path) -> io::Result<Listener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let is_left = || {
        let refused = UnixStream::connect(path).err().map(|error| error.kind());
        refused == Some(io::ErrorKind::ConnectionRefused)
    };
    if is_socket && is_left() {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    let file = File { path: path.to_owned(), id: id(path)? };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    Listener::unix(listener, Some(file))
}

/// Whether only this machine can connect, or others may.
///
/// # Errors
/// They may not: one line.
pub(super) fn check(what: &str, address: SocketAddr, allow_remote: bool) -> Result<(), String> {
    if address.ip().is_loopback() || allow_remote {
        return Ok(());
    }
    Err(format!(
        "{what} {address} is not a loopback address: whoever can connect there reaches the \
         database, or reads what is counted; take 127.0.0.1 or [::1], or --allow-remote"
    ))
}

fn cant_listen(listen: &Listen, error: &io::Error) -> String {
    match (error.kind(), listen) {
        (io::ErrorKind::AddrInUse, Listen::Tcp(_)) => format!(
            "{listen} is in use; choose another port with --listen, or port 0 for a free one"
        ),
        (io::ErrorKind::AddrInUse, _) => {
            format!("{listen} is in use; choose another with --listen")
        }
        _ => format!("can't listen on {listen}: {error}; choose another with --listen"),
    }
}
