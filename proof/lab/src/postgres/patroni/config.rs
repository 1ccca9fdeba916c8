//! What etcd and Patroni are told.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::super::server::USER;

/// How long a node leads without renewing its lease: Patroni's smallest.
pub const TTL: Duration = Duration::from_secs(20);

/// The pause between two rounds of a Patroni: its smallest.
pub const LOOP_WAIT: Duration = Duration::from_secs(1);

/// How long a Patroni tries to reach etcd or PostgreSQL before its node steps down: its smallest.
const RETRY_TIMEOUT: Duration = Duration::from_secs(3);

/// When a primary gives a standby up that does not answer. A primary that is cut off has ended its
/// senders by this before Patroni shuts it down; otherwise the shutdown waits for them. While it
/// waits, Patroni 3.0 demotes a second time from another thread (`demote` of its ha.py says so),
/// starts PostgreSQL twice, and may remove the data below the one that runs.
const WAL_SENDER_TIMEOUT: Duration = Duration::from_secs(5);

/// PostgreSQL's `max_connections` of each node.
pub const CONNECTIONS_MAX: u16 = 200;

/// The arguments of an etcd with one member.
pub(super) fn etcd(data: &Path, client: u16, peer: u16) -> Vec<String> {
    let url = |port| format!("http://127.0.0.1:{port}");
    let arguments = [
        ("data-dir", data.display().to_string()),
        ("listen-client-urls", url(client)),
        ("advertise-client-urls", url(client)),
        ("listen-peer-urls", url(peer)),
        ("initial-advertise-peer-urls", url(peer)),
        ("initial-cluster", format!("default={}", url(peer))),
        ("log-level", "warn".into()),
    ];
    arguments.map(|(name, value)| format!("--{name}={value}")).into()
}

/// Where a node is, and how others reach it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) name: String,
    /// The node's own directory, for sockets and its password file.
    pub(super) directory: &'a Path,
    pub(super) data: &'a Path,
    pub(super) bin: &'a Path,
    /// The ports of PostgreSQL and of the REST API.
    pub(super) port: u16,
    pub(super) rest: u16,
    /// The proxies in front of them, and the node's proxy to etcd.
    pub(super) port_seen: SocketAddr,
    pub(super) rest_seen: SocketAddr,
    pub(super) etcd_seen: SocketAddr,
    pub(super) password: &'a str,
}

/// A Patroni's configuration in YAML.
///
/// Files are not flushed. A killed process loses nothing that it has written, and the machine
/// itself does not crash here, so flushing would only make starts slower.
pub(super) fn patroni(place: &Place<'_>) -> String {
    let Place { name, port, rest, port_seen, rest_seen, etcd_seen, password, .. } = place;
    let [directory, data, bin] = [place.directory, place.data, place.bin].map(Path::display);
    let (ttl, loop_wait) = (TTL.as_secs(), LOOP_WAIT.as_secs());
    let retry_timeout = RETRY_TIMEOUT.as_secs();
    let wal_sender_timeout = WAL_SENDER_TIMEOUT.as_secs();
    format!(
        "scope: lab
name: {name}
restapi:
  listen: 127.0.0.1:{rest}
  connect_address: {rest_seen}
etcd3:
  host: {etcd_seen}
  use_proxies: true
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: {loop_wait}
    retry_timeout: {retry_timeout}
    synchronous_mode: true
    synchronous_mode_strict: true
    primary_start_timeout: 0
    postgresql:
      use_pg_rewind: true
      use_slots: true
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: {port_seen}
  use_unix_socket: true
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {directory}/pgpass
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  authentication:
    superuser: {{username: {USER}, password: '{password}'}}
    replication: {{username: {USER}, password: '{password}'}}
    rewind: {{username: {USER}, password: '{password}'}}
  pg_hba:
  - local all all scram-sha-256
  - host all all 127.0.0.1/32 scram-sha-256
  - host replication all 127.0.0.1/32 scram-sha-256
  parameters:
    unix_socket_directories: {directory}
    unix_socket_permissions: '0700'
    max_connections: {CONNECTIONS_MAX}
    fsync: 'off'
    wal_log_hints: 'on'
    wal_keep_size: 256MB
    wal_receiver_status_interval: 1
    wal_sender_timeout: {wal_sender_timeout}s
    timezone: UTC
    log_timezone: UTC
"
    )
}
