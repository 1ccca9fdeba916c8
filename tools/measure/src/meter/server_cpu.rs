//! CPU of the server's processes.

use std::collections::BTreeMap;
use std::time::Duration;

use onetrip::{Config, Session};
use onetrip_lab::postgres::PrivatePostgres;

use super::backend::postmaster_of;
use super::proc::{Stat, cpu, is_cpu_kept, processes, ticks};
use crate::error::Result;

/// CPU time of a server since a moment: that of its postmaster and of the postmaster's children.
/// Programs that those start in turn are not included (`archive_command`, COPY … PROGRAM).
///
/// Processes alive at the end are measured in nanoseconds; the figure of a running one may be some
/// milliseconds behind. Processes that ended in between are measured by the clock ticks that the
/// postmaster counts for them, two of which (20 ms) may be lost.
///
/// A reading takes some 10 µs for each process of the machine.
#[derive(Debug)]
pub struct ServerCpu {
    server: Server,
    start: Look,
}

/// A server whose processes can be read: a pid, and the start time that identifies its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    postmaster: u32,
    started: u64,
}

impl Server {
    /// Finds a private server. `None` if its processes can't be read.
    pub fn of_private(server: &PrivatePostgres) -> Option<Server> {
        Server::of_postmaster(server.postmaster_pid())
    }

    /// Finds the server of a session that was opened with this configuration. `None` if the
    /// processes can't be read, or if it isn't certain that they belong to this server:
    ///
    /// * the configuration names a server that is reached neither by a Unix socket nor at a
    ///   loopback address;
    /// * the process with the pid that the session's server reports is not PostgreSQL, lives in
    ///   another namespace (a container's), began at another time than the session, or its title
    ///   names another user, database or client.
    ///
    /// The last check detects a server at the other end of a tunnel. This takes one trip.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn of_session(config: &Config, session: &Session) -> Result<Option<Server>> {
        Ok(postmaster_of(config, session).await?.and_then(Server::of_postmaster))
    }

    fn of_postmaster(postmaster: u32) -> Option<Server> {
        let started = Stat::of(postmaster)?.started;
        let server = Server { postmaster, started };
        (is_cpu_kept() && Look::at(server).is_some()).then_some(server)
    }
}

impl ServerCpu {
    /// Starts the measurement. `None` if the server has ended since it was found.
    pub fn start(server: Server) -> Option<ServerCpu> {
        Some(ServerCpu { server, start: Look::at(server)? })
    }

    /// The CPU used since the start. `None` if the server has ended or was restarted.
    pub fn elapsed(&self) -> Option<Duration> {
        Some(Look::at(self.server)?.since(&self.start))
    }
}

/// One reading.
#[derive(Debug)]
struct Look {
    /// CPU of each process by its number and when it began.
    alive: BTreeMap<(u32, u64), Duration>,
    /// CPU of children that had ended, in clock ticks.
    ended: u64,
}

impl Look {
    fn at(server: Server) -> Option<Look> {
        /// How often a reading is repeated if processes of the server end during it.
        const TRIES: usize = 8;
        let mut look = Look::once(server)?;
        for _ in 1..TRIES {
            // A process that ends while others are read could be missed, or be counted twice.
            if server.ended_children()? == look.ended {
                break;
            }
            look = Look::once(server)?;
        }
        Some(look)
    }

    fn once(server: Server) -> Option<Look> {
        let ended = server.ended_children()?;
        let is_of_it =
            |pid, stat: &Stat| pid == server.postmaster || stat.parent == server.postmaster;
        let of_it = processes().into_iter().filter(|(pid, stat)| is_of_it(*pid, stat));
        let cpu = |(pid, stat): (u32, Stat)| Some(((pid, stat.started), cpu(pid)?));
        let alive: BTreeMap<_, _> = of_it.filter_map(cpu).collect();
        // If the processes of other users are hidden, at most one is visible.
        (alive.len() > 1).then_some(Look { alive, ended })
    }

    /// The count of ended processes includes all CPU that they ever used, so what they had used by
    /// the start is subtracted.
    fn since(&self, start: &Look) -> Duration {
        let before = |id| start.alive.get(id).copied().unwrap_or_default();
        let alive = self.alive.iter().map(|(id, cpu)| cpu.saturating_sub(before(id)));
        let gone = start.alive.iter().filter(|(id, _)| !self.alive.contains_key(id));
        let ended = ticks(self.ended.saturating_sub(start.ended));
        alive.sum::<Duration>() + ended.saturating_sub(gone.map(|(_, cpu)| *cpu).sum())
    }
}

impl Server {
    fn ended_children(self) -> Option<u64> {
        let stat = Stat::of(self.postmaster)?;
        (stat.started == self.started).then_some(stat.ended_children)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn look(alive: &[(u32, u64)], ended: u64) -> Look {
        let each = |(pid, ms): &(u32, u64)| ((*pid, 1), Duration::from_millis(*ms));
        Look { alive: alive.iter().map(each).collect(), ended }
    }

    /// 100 ticks are a second on every Linux.
    #[test]
    fn what_ended_counts_without_what_it_had_used_before() {
        let start = look(&[(1, 1000), (2, 500), (3, 100)], 50);
        let end = look(&[(1, 1010), (3, 150), (4, 7)], 50 + 80);
        assert_eq!(end.since(&start), Duration::from_millis(10 + 50 + 7 + 800 - 500));
    }

    #[test]
    fn it_never_goes_backwards() {
        let start = look(&[(1, 1000), (2, 500)], 50);
        // Ticks are rounded: the one that ended seems to have used less than it had.
        let end = look(&[(1, 999)], 50 + 49);
        assert_eq!(end.since(&start), Duration::ZERO);
    }
}
