//! The text of what was found at each host, and the settings that suit these servers.

use std::fmt;
use std::time::Duration;

use super::advice::{Advice, Place};
use super::hosts::{Between, Host, Server, Standby};
use crate::config::{LoadBalanceHosts, Reads, Settings, SslMode, TargetSessionAttrs};

/// Where several hosts are tried, more than this for one that does not answer holds callers up.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(5);

impl Host {
    fn server(&self) -> Option<&Server> {
        self.found.as_ref().ok()
    }

    /// The server, if this client takes it.
    fn taken(&self) -> Option<&Server> {
        self.server().filter(|_| self.refusal.is_none())
    }

    fn is_local(&self) -> bool {
        self.address.is_none_or(|address| address.ip().is_loopback())
    }
}

/// Which of these hosts a client uses first; `None` if it takes none of them.
pub(super) fn used(hosts: &[Host]) -> Option<usize> {
    hosts.iter().position(|host| host.taken().is_some())
}

/// The settings that should be changed for these servers.
pub(super) fn advice(hosts: &[Host], settings: &Settings) -> Vec<Advice> {
    [
        on_target(hosts, settings),
        on_reads(hosts, settings),
        on_finding_hosts(hosts, settings),
        on_commits(hosts),
        on_encryption(hosts, settings),
    ]
    .concat()
}

fn client(setting: &'static str, why: &'static str) -> Advice {
    Advice { place: Place::Client, setting, why }
}

fn has_standby(hosts: &[Host]) -> bool {
    hosts.iter().filter_map(Host::server).any(|server| server.is_standby == Some(true))
}

fn on_target(hosts: &[Host], settings: &Settings) -> Vec<Advice> {
    let names = names(hosts);
    let takes_any = settings.target_session_attrs == TargetSessionAttrs::Any;
    let takes_standby = hosts.iter().filter_map(Host::taken).any(|it| it.is_standby == Some(true));
    let proxied = hosts.iter().filter_map(Host::server).any(|it| it.between != Between::Nothing);
    let follows =
        proxied && hosts.iter().filter_map(Host::server).any(|it| !it.standbys.is_empty());
    if takes_any && names > 1 && takes_standby {
        return vec![client(
            "target_session_attrs=primary",
            "a standby is among the hosts, and without this the first host that answers is used: \
             writes fail there",
        )];
    }
    if takes_any && names == 1 && follows {
        return vec![client(
            "target_session_attrs=read-write",
            "something in between chooses the server: with this the client refuses one that \
             takes no writes, or that was the primary before another was promoted",
        )];
    }
    Vec::new()
}

fn on_reads(hosts: &[Host], settings: &Settings) -> Vec<Advice> {
    let is_on = settings.reads != Reads::Primary;
    if is_on && settings.max_lag.is_none() && has_standby(hosts) {
        return vec![client(
            "max_lag_ms=5000",
            "without it reads that ask for nothing newer go to a replica however far it is behind",
        )];
    }
    let is_primary = |server: &Server| server.is_standby == Some(false);
    let wants_primary = hosts.iter().filter_map(Host::taken).any(is_primary);
    if !is_on && has_standby(hosts) && wants_primary {
        return vec![client(
            "reads=prefer_replica",
            "only to send the reads of client.reads() to the standbys among the hosts; all else \
             goes to the primary",
        )];
    }
    Vec::new()
}

fn on_finding_hosts(hosts: &[Host], settings: &Settings) -> Vec<Advice> {
    let mut advice = Vec::new();
    let waits = settings.connect_timeout.is_none_or(|it| it > CONNECT_TIMEOUT_MAX);
    if hosts.len() > 1 && waits {
        advice.push(client(
            "connect_timeout=3",
            "a host that does not answer is waited for as long, each time it comes first",
        ));
    }
    let lone = match hosts {
        [one] => one.server().filter(|it| it.between == Between::Nothing),
        _ => None,
    };
    if lone.is_some_and(|it| !it.standbys.is_empty()) {
        advice.push(client(
            "all servers as hosts",
            "this one has standbys: name them too, with target_session_attrs=primary, so that \
             the client finds the one that is promoted",
        ));
    }
    let taken: Vec<&Server> = hosts.iter().filter_map(Host::taken).collect();
    let is_random = settings.load_balance_hosts == LoadBalanceHosts::Random;
    let alike = |role: bool| taken.iter().all(|it| it.is_standby == Some(role));
    let poolers = taken.iter().all(|it| it.between != Between::Nothing);
    if !is_random && names(hosts) > 1 && taken.len() > 1 && (alike(true) || alike(false) && poolers)
    {
        advice.push(client(
            "load_balance_hosts=random",
            "several hosts will do, and without this all clients use the first",
        ));
    }
    advice
}

fn on_commits(hosts: &[Host]) -> Vec<Advice> {
    let waits_for_none =
        |it: &Server| !it.standbys.is_empty() && it.synchronous_standby_names.trim().is_empty();
    match hosts.iter().filter_map(Host::taken).any(waits_for_none) {
        true => vec![Advice {
            place: Place::Server,
            setting: "synchronous_standby_names",
            why: "a commit waits for no standby: what was acknowledged in the last moments is \
                  lost if a standby takes over after a crash",
        }],
        false => Vec::new(),
    }
}

fn on_encryption(hosts: &[Host], settings: &Settings) -> Vec<Advice> {
    let far = || hosts.iter().filter(|host| !host.is_local()).filter_map(Host::server);
    if far().any(|server| !server.is_encrypted) {
        return vec![client(
            "sslmode=verify-full",
            "a connection that leaves this machine is not encrypted; the server or the pooler \
             needs a certificate for that",
        )];
    }
    if far().next().is_some() && settings.sslmode < SslMode::VerifyFull {
        return vec![client(
            "sslmode=verify-full",
            "it is encrypted, but nobody checks that the peer is the host that was named",
        )];
    }
    Vec::new()
}

/// How many different hosts there are, whatever addresses they have.
fn names(hosts: &[Host]) -> usize {
    let mut names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// The lines of all hosts, each with its line end.
pub(super) fn write(hosts: &[Host], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let used = used(hosts);
    for (place, host) in hosts.iter().enumerate() {
        writeln!(
            f,
            "host              {}{}",
            Line(host),
            if used == Some(place) { ", used" } else { "" }
        )?;
        if let Ok(server) = &host.found {
            write_server(server, f)?;
        }
    }
    Ok(())
}

/// The hosts of [`path`](super::path()) as text, with a line or several for each.
#[derive(Clone, Copy, Debug)]
pub struct Hosts<'a>(pub &'a [Host]);

impl fmt::Display for Hosts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, f)
    }
}

/// Where a host is, and in a word what.
struct Line<'a>(&'a Host);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, address, found, refusal, .. } = self.0;
        f.write_str(name)?;
        if let Some(address) = address.filter(|it| it.to_string() != *name) {
            write!(f, " at {}", address.ip())?;
        }
        match (found, refusal) {
            (Err(why), _) => write!(f, ": not used: {why}"),
            (Ok(server), None) => write!(f, ": {}", role(server)),
            (Ok(server), Some(why)) => write!(f, ": {}, refused: {why}", role(server)),
        }
    }
}

fn role(server: &Server) -> &'static str {
    match server.is_standby {
        Some(true) => "standby",
        Some(false) => "primary",
        None => "a server that does not say whether it is a primary",
    }
}

fn write_server(server: &Server, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let trip_ms = server.round_trip.as_secs_f64() * 1e3;
    let encrypted = if server.is_encrypted { "encrypted" } else { "not encrypted" };
    let Server { version, between, .. } = server;
    writeln!(f, "  answers         PostgreSQL {version}, {between}")?;
    writeln!(f, "  round trip      {trip_ms:.2} ms, {encrypted}")?;
    if let (Some(system), Some(timeline)) = (server.system, server.timeline) {
        let at = server.position.map_or("an unknown position".to_owned(), lsn);
        let is_standby = server.is_standby == Some(true);
        let verb = if is_standby { "replayed" } else { "written" };
        write!(f, "  history         system {system}, timeline {timeline}, {verb} up to {at}")?;
        match (is_standby, server.behind_bytes, server.lag) {
            (false, ..) => writeln!(f)?,
            (true, bytes, lag) => writeln!(f, ": {} behind", behind(bytes, lag))?,
        }
    }
    if server.is_standby == Some(false) {
        let names = server.synchronous_standby_names.trim();
        let whom = if names.is_empty() { "no standby" } else { names };
        writeln!(f, "  commits wait    for {whom}")?;
    }
    for standby in &server.standbys {
        writeln!(f, "  standby         {standby}")?;
    }
    Ok(())
}

fn behind(bytes: Option<u64>, lag: Option<Duration>) -> String {
    let bytes = bytes.map_or("an unknown number of bytes".to_owned(), |it| format!("{it} bytes"));
    let lag = lag.map_or("an unknown time".to_owned(), |it| format!("{} ms", it.as_millis()));
    format!("{bytes} and {lag}")
}

/// A place in the log as PostgreSQL writes it.
fn lsn(position: u64) -> String {
    format!("{:X}/{:X}", position >> 32, position as u32)
}

impl fmt::Display for Standby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Standby { name, address, state, sync_state, behind_bytes } = self;
        let place = if address.is_empty() { "a Unix socket" } else { address };
        match (state.is_empty(), behind_bytes) {
            (true, _) => write!(f, "{name}; this user may not see more (pg_read_all_stats)"),
            (false, Some(bytes)) => {
                write!(f, "{name} at {place}: {state}, {sync_state}, {bytes} bytes behind")
            }
            (false, None) => write!(f, "{name} at {place}: {state}, {sync_state}"),
        }
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Between::Nothing => f.write_str("nothing in between that shows"),
            Between::Proxy(own) => write!(f, "behind a proxy: the server itself is {own}"),
            Between::Pooler { version: Some(version), pool_mode } => {
                let mode = pool_mode.as_deref().unwrap_or("unknown");
                write!(f, "behind PgBouncer {version} (pool_mode={mode})")
            }
            Between::Pooler { version: None, .. } => {
                f.write_str("behind a pooler, which does not say more to this user")
            }
        }
    }
}
