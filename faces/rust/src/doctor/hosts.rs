//! The hosts of a configuration and what answers there, as values.

use std::net::SocketAddr;
use std::time::Duration;

/// A host of the configuration at one of its addresses.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Host {
    /// The host and the port as they were given, or the path of the Unix socket.
    pub name: String,
    /// The address that was connected to. `None` for a Unix socket, and for a name that was not
    /// found.
    pub address: Option<SocketAddr>,
    /// What answers there; or why nothing can be said of it, as the message of the error.
    pub found: Result<Server, String>,
    /// Why this client would not use it, although it answers.
    pub refusal: Option<String>,
    /// Whether it takes writes although another host is the primary that was promoted since.
    pub is_former_primary: bool,
}

/// What answers at an address.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Server {
    /// The version that it reports, such as `18.1`.
    pub version: String,
    /// What is between this client and the server.
    pub between: Between,
    /// Whether it is a standby. `None` if it does not say.
    pub is_standby: Option<bool>,
    /// The system identifier of the cluster, the same on all of its servers.
    pub system: Option<u64>,
    /// The timeline that it is on, which each promotion makes larger.
    pub timeline: Option<u32>,
    /// The place in the log (LSN) up to which a primary has written, or a standby has replayed.
    pub position: Option<u64>,
    /// How far a standby is behind, measured by itself; see
    /// [`max_lag`](crate::config::Settings::max_lag).
    pub lag: Option<Duration>,
    /// How many bytes of the log a standby has to replay to be where the primary among the hosts
    /// is.
    pub behind_bytes: Option<u64>,
    /// What `synchronous_standby_names` says: whom a commit on this server waits for.
    pub synchronous_standby_names: String,
    /// The standbys that are connected to it, as far as this user may see them.
    pub standbys: Vec<Standby>,
    /// Whether the connection has TLS.
    pub is_encrypted: bool,
    /// The shortest of three round trips.
    pub round_trip: Duration,
}

/// What is between a client and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Between {
    /// Nothing that shows.
    Nothing,
    /// Something that passes connections on: the server has another address than the one that was
    /// connected to, which is here. A proxy, such as HAProxy, or a translation of addresses.
    Proxy(SocketAddr),
    /// A pooler: another process than the login's answers.
    Pooler {
        /// PgBouncer's version, if this user may use its console.
        version: Option<String>,
        /// Its `pool_mode`, likewise; a database or a user may have another one.
        pool_mode: Option<String>,
    },
}

/// A standby, as the server that it follows sees it (`pg_stat_replication`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standby {
    /// Its `application_name`, the name that `synchronous_standby_names` means.
    pub name: String,
    /// Where it connects from; empty for a Unix socket.
    pub address: String,
    /// `streaming` if all is well. Empty if this user may not see it.
    pub state: String,
    /// `sync` or `quorum` if commits wait for it, otherwise `async` or `potential`.
    pub sync_state: String,
    /// How many bytes of the log it has to replay.
    pub behind_bytes: Option<u64>,
}
