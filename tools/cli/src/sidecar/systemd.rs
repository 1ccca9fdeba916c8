//! What systemd tells a service, and hears from it: the socket that it has opened
//! (sd_listen_fds(3)), and how far the service is (sd_notify(3)).

use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first socket of a service (SD_LISTEN_FDS_START).
const FIRST: i32 = 3;

/// The listening socket that systemd has opened for this process.
///
/// # Errors
/// There is none, or several, or it does not listen: one line.
pub(super) fn listener() -> Result<OwnedFd, String> {
    let variable = |name: &str| std::env::var(name).ok();
    // A parent may have left both variables to its children (sd_listen_fds(3)).
    let is_ours = variable("LISTEN_PID").is_some_and(|it| it == std::process::id().to_string());
    match variable("LISTEN_FDS").filter(|_| is_ours).as_deref() {
        Some("1") => {}
        Some(count) => return Err(format!("one socket of systemd's is served, not {count}")),
        None => return Err("there is no socket of systemd's: start it by its .socket".to_owned()),
    }
    let socket = taken().map_err(|error| format!("can't use the socket of systemd's: {error}"))?;
    match socket_acceptconn(&socket) {
        Ok(true) => Ok(socket),
        _ => Err("what systemd has opened does not listen: ListenStream= does".to_owned()),
    }
}

/// A copy of the descriptor, as a number alone can't be owned without `unsafe`. No program that is
/// run inherits the copy. Linux allows it to every process for itself, from 5.6 on.
fn taken() -> rustix::io::Result<OwnedFd> {
    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    pidfd_getfd(this, FIRST, PidfdGetfdFlags::empty())
}

/// Tells systemd how far the service is: `READY=1`, `STOPPING=1`. Nothing happens without systemd.
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let at = match path.as_encoded_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    // If it fails, systemd waits until its own time is over, and says so.
    let _ = UnixDatagram::unbound().and_then(|it| it.send_to_addr(state.as_bytes(), &at?));
}
