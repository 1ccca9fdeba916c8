//! A second server that follows the first: streaming replication, and servers that stand still.
//!
//! A data directory fresh from initdb is a complete backup of every server that was copied from it,
//! as long as that server still has all of its WAL. So a standby is one more copy of the template.
//! It asks for everything since, and needs no program but the server's own: `pg_basebackup` is
//! missing from the packages that `scripts/setup` can download.

use std::fs;
use std::time::Instant;

use rustix::process::Signal;

use super::server::{Options, PrivatePostgres, USER, parent_of, signal};
use crate::private::{LabError, START_TIMEOUT};

/// The first version whose standbys are configured by settings and `standby.signal`.
const STANDBY_MAJOR_MIN: u32 = 12;

impl PrivatePostgres {
    /// Starts a streaming standby of this server, on a port of its own and with the same password,
    /// and returns when it answers reads: it may still be behind then. `select pg_promote()` makes
    /// it a primary. It runs the binaries of this server, whatever `options` say.
    ///
    /// Delayed apply: `Options::default().setting("recovery_min_apply_delay", "10ms")`. Other
    /// useful settings: `primary_slot_name`, `hot_standby_feedback`, `cluster_name`, which is the
    /// name that `synchronous_standby_names` of the primary means.
    ///
    /// # Errors
    /// As [`start`](Self::start). When this server is older than PostgreSQL 12. When it has written
    /// so much since its start (256 MB, or without end with `Durability::Full` and the default of
    /// `wal_keep_size`) that it has removed what a standby needs.
    pub fn start_standby(&self, options: Options) -> Result<Self, LabError> {
        if self.major() < STANDBY_MAJOR_MIN {
            return Err(LabError::new(format!(
                "PostgreSQL {} has no standby here; use {STANDBY_MAJOR_MIN} or later",
                self.version()
            )));
        }
        // `postgresql.auto.conf` and not an argument, which every user of the machine could read.
        let source = format!(
            "primary_conninfo = 'host=127.0.0.1 port={} user={USER} password={}'\n",
            self.port(),
            self.password()
        );
        let options = options.file("standby.signal", "").file("postgresql.auto.conf", source);
        Self::start_of(self.installation().clone(), options)
    }

    /// Stops all of its processes where they are (SIGSTOP), as a virtual machine that is paused:
    /// connections stay open and nobody answers. [`resume`](Self::resume) wakes them, and so does
    /// a stop.
    ///
    /// # Errors
    /// When a process of it can't be stopped.
    pub fn pause(&self) -> Result<(), LabError> {
        self.signal_all(Signal::STOP)
    }

    /// Lets all of its processes go on after [`pause`](Self::pause).
    ///
    /// # Errors
    /// When it has no process.
    pub fn resume(&self) -> Result<(), LabError> {
        self.signal_all(Signal::CONT)
    }

    /// The postmaster comes first: once it stands, no process of the server is born any more.
    fn signal_all(&self, which: Signal) -> Result<(), LabError> {
        let postmaster = self.postmaster_pid();
        if !signal(postmaster, which) {
            return Err(LabError::new(format!("the server has no process {postmaster}")));
        }
        let deadline = Instant::now() + START_TIMEOUT;
        while which == Signal::STOP && !stands(postmaster) {
            if Instant::now() > deadline {
                return Err(LabError::new(format!("process {postmaster} does not stop")));
            }
            std::thread::yield_now();
        }
        let processes = fs::read_dir("/proc")
            .map_err(|error| LabError::io("cannot list", "/proc".as_ref(), error))?;
        let pids = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        for pid in pids.filter(|&pid: &u32| parent_of(pid) == Some(postmaster)) {
            // One that has ended meanwhile needs no signal.
            signal(pid, which);
        }
        Ok(())
    }
}

/// Whether a process was stopped by a signal (proc(5): state T).
fn stands(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// How much WAL a server keeps, so that a standby can be started later: no more than what it may
/// have lying around between two checkpoints anyway.
pub(super) fn kept_wal(major: u32) -> (&'static str, String) {
    match major {
        ..13 => ("wal_keep_segments", "16".into()),
        13.. => ("wal_keep_size", "256MB".into()),
    }
}
