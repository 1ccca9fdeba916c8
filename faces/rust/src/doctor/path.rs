//! The hosts of a configuration: what answers at each of their addresses, which server that leads
//! to, and whether this client takes it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use onetrip_postgres::client::identity::{self, Identity, Lineage};
use onetrip_postgres::client::position::read_lsn;
use onetrip_postgres::client::replicas::{PROBE, Report};

use super::hosts::{Between, Host, Server, Standby};
use super::wire::{PATIENCE, Trouble, Wire};
use crate::Error;
use crate::config::{Address, Config, Endpoint, TargetSessionAttrs};
use crate::connect::{establish, lookup};

/// So many addresses of one name are looked at.
const ADDRESSES_MAX: usize = 16;

/// How often a round trip is measured.
const TRIPS: usize = 3;

/// What a server says of itself, beside [`PROBE`].
const ABOUT: &str = "select pg_catalog.pg_backend_pid()::pg_catalog.text, \
     pg_catalog.host(pg_catalog.inet_server_addr()), \
     pg_catalog.inet_server_port()::pg_catalog.text, \
     pg_catalog.current_setting('synchronous_standby_names'), \
     (case when pg_catalog.pg_is_in_recovery() then null \
     else pg_catalog.pg_current_wal_insert_lsn() end)::pg_catalog.text";

/// The standbys of a server. A user without the role `pg_read_all_stats` sees names alone.
const STANDBYS: &str = "select application_name, coalesce(pg_catalog.host(client_addr), ''), \
     coalesce(state, ''), coalesce(sync_state, ''), \
     pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), replay_lsn)\
     ::pg_catalog.int8::pg_catalog.text \
     from pg_catalog.pg_stat_replication order by application_name, pid limit 100";

/// Looks at each host of the configuration, in the order in which they stand there, and at all
/// addresses of each. Bounded: what does not answer takes its `connect_timeout`, 10 s without one.
///
/// # Errors
/// The configuration is wrong. A host that can't be used is no error.
pub async fn path(config: &Config) -> Result<Vec<Host>, Error> {
    let resolved = config.resolve().map_err(Error::config)?;
    let mut seen = Seen { lineage: Mutex::default(), hosts: Vec::new() };
    for (place, endpoint) in resolved.endpoints().iter().enumerate() {
        seen.look_at(&config.only_host(place), endpoint).await;
    }
    Ok(seen.judge(config).await)
}

/// The hosts that were looked at, each with the configuration that leads to it alone.
struct Seen {
    lineage: Mutex<Lineage>,
    hosts: Vec<(Config, Host, Option<Identity>)>,
}

impl Seen {
    async fn look_at(&mut self, config: &Config, endpoint: &Endpoint) {
        let name = endpoint.to_string();
        let addresses = match endpoint.address() {
            Address::Unix(_) => vec![None],
            Address::Tcp { address: Some(address), .. } => {
                vec![Some(SocketAddr::new(*address, endpoint.port()))]
            }
            Address::Tcp { .. } => match lookup(endpoint).await {
                Ok(found) => found.into_iter().take(ADDRESSES_MAX).map(Some).collect(),
                Err(error) => {
                    let found = Err(error.to_string());
                    let host = unjudged(name, None, found);
                    return self.hosts.push((config.clone(), host, None));
                }
            },
        };
        for address in addresses {
            let config = match (address, endpoint.address()) {
                (Some(it), Address::Tcp { address: None, .. }) => config.clone().hostaddr(it.ip()),
                _ => config.clone(),
            };
            let looked = tokio::time::timeout(limit(&config), look(&config, address)).await;
            let (found, identity) = match looked {
                Ok(Ok((server, identity))) => (Ok(server), identity),
                Ok(Err(error)) => (Err(error.to_string()), None),
                Err(_) => (Err(format!("{name} did not answer in time")), None),
            };
            if let Some(identity) = identity {
                // What it refuses is asked once all are known.
                let _ = self.lineage.get_mut().map(|lineage| lineage.admit(identity));
            }
            let host = unjudged(name.clone(), address, found);
            self.hosts.push((config, host, identity));
        }
    }

    /// Says whom this client would refuse, and how far standbys are behind.
    async fn judge(mut self, config: &Config) -> Vec<Host> {
        let target = config.settings().target_session_attrs;
        let mut hosts = Vec::new();
        for (only, mut host, identity) in std::mem::take(&mut self.hosts) {
            let lineage = *self.lineage.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let former = identity.and_then(|it| lineage.refuses(it));
            host.is_former_primary = former.is_some();
            host.refusal = match (&host.found, former) {
                (Ok(_), Some(refusal)) => Some(format!("{}{}", host.name, refusal.text())),
                (Ok(_), None) if target != TargetSessionAttrs::Any => {
                    let open = establish(&only, &self.lineage);
                    let opened = tokio::time::timeout(limit(&only), open).await;
                    opened.ok().and_then(Result::err).map(|error| error.to_string())
                }
                _ => None,
            };
            hosts.push(host);
        }
        measure(&mut hosts);
        hosts
    }
}

fn unjudged(name: String, address: Option<SocketAddr>, found: Result<Server, String>) -> Host {
    Host { name, address, found, refusal: None, is_former_primary: false }
}

/// How long a look at one address may take: the login, and the answers to a few statements.
fn limit(config: &Config) -> Duration {
    config.settings().connect_timeout.unwrap_or(PATIENCE * 2) * 2 + PATIENCE
}

/// Counts the bytes between each standby and the primary of its cluster.
fn measure(hosts: &mut [Host]) {
    let primaries: Vec<(u64, u32, u64)> = hosts
        .iter()
        .filter_map(|host| host.found.as_ref().ok())
        .filter(|server| server.is_standby == Some(false))
        .filter_map(|server| Some((server.system?, server.timeline?, server.position?)))
        .collect();
    for server in hosts.iter_mut().filter_map(|host| host.found.as_mut().ok()) {
        if server.is_standby != Some(true) {
            continue;
        }
        let of_cluster = primaries.iter().filter(|it| Some(it.0) == server.system);
        let newest = of_cluster.max_by_key(|it| it.1);
        let behind = newest.zip(server.position).map(|(it, at)| it.2.saturating_sub(at));
        server.behind_bytes = behind;
    }
}

/// Looks at one address, whatever server it leads to.
async fn look(
    config: &Config,
    address: Option<SocketAddr>,
) -> Result<(Server, Option<Identity>), Error> {
    let any = config.clone().target_session_attrs(TargetSessionAttrs::Any);
    let mut wire = Wire::open(&any).await?;
    let mut round_trip = Duration::MAX;
    for _ in 0..TRIPS {
        let begin = Instant::now();
        wire.simple("select 1").await.map_err(Trouble::into_error)?;
        round_trip = round_trip.min(begin.elapsed());
    }
    let version = wire.parameter("server_version").unwrap_or_default().to_owned();
    let is_asked = identity::is_asked(&version);
    let mut server = Server {
        version,
        between: Between::Nothing,
        is_standby: wire.parameter("in_hot_standby").map(|it| it == "on"),
        system: None,
        timeline: None,
        position: None,
        lag: None,
        behind_bytes: None,
        synchronous_standby_names: String::new(),
        standbys: Vec::new(),
        is_encrypted: wire.is_encrypted(),
        round_trip,
    };
    let identity = if is_asked { ask(&mut wire, &mut server, address).await? } else { None };
    if let Between::Pooler { version, pool_mode } = &mut server.between {
        (*version, *pool_mode) = console(&any).await;
    }
    wire.end().await;
    Ok((server, identity))
}

/// Asks a server for all that it says of itself. What it refuses to say stays unknown.
async fn ask(
    wire: &mut Wire,
    server: &mut Server,
    address: Option<SocketAddr>,
) -> Result<Option<Identity>, Error> {
    let identity = match &one_row(wire, identity::QUESTION).await?[..] {
        [Some(system), Some(is_standby), Some(timeline)] => {
            Identity::read(system, is_standby, timeline)
        }
        _ => None,
    };
    if let Some(identity) = identity {
        server.is_standby = Some(identity.is_standby);
        (server.system, server.timeline) = (Some(identity.system), Some(identity.timeline));
    }
    let probe = one_row(wire, PROBE).await?;
    let texts = std::array::from_fn(|at| probe.get(at)?.as_deref());
    if let Some(report) = Report::read(texts).filter(|it| it.identity.is_standby) {
        (server.position, server.lag) = (report.replayed, report.lag);
    }
    let about = one_row(wire, ABOUT).await?;
    let text = |at: usize| about.get(at)?.as_deref();
    server.position = text(4).and_then(read_lsn).or(server.position);
    server.synchronous_standby_names = text(3).unwrap_or_default().to_owned();
    let process = text(0).and_then(|it| it.parse::<i32>().ok());
    let ip = text(1).and_then(|it| it.parse::<IpAddr>().ok());
    let port = text(2).and_then(|it| it.parse::<u16>().ok());
    let own = ip.zip(port).map(|(ip, port)| SocketAddr::new(ip, port));
    server.between = match (process, address.zip(own)) {
        (Some(process), _) if process != wire.process_id => {
            Between::Pooler { version: None, pool_mode: None }
        }
        (_, Some((address, own))) if address != own => Between::Proxy(own),
        _ => Between::Nothing,
    };
    if server.is_standby == Some(false) {
        let rows = wire.rows(STANDBYS).await.map_err(Trouble::into_error)?;
        server.standbys = rows.into_iter().map(standby).collect();
    }
    Ok(identity)
}

/// The first row; empty if the server refuses the statement.
async fn one_row(wire: &mut Wire, sql: &str) -> Result<Vec<Option<String>>, Error> {
    let rows = wire.rows(sql).await.map_err(Trouble::into_error)?;
    Ok(rows.into_iter().next().unwrap_or_default())
}

fn standby(row: Vec<Option<String>>) -> Standby {
    let mut texts = row.into_iter();
    let mut text = || texts.next().flatten().unwrap_or_default();
    let (name, address, state, sync_state) = (text(), text(), text(), text());
    let behind = text().parse::<i64>().ok().map(|bytes| bytes.max(0) as u64);
    Standby { name, address, state, sync_state, behind_bytes: behind }
}

/// PgBouncer's version and `pool_mode`, if there is its console and this user may ask there.
async fn console(config: &Config) -> (Option<String>, Option<String>) {
    let config = config.clone().dbname("pgbouncer");
    let Ok(mut wire) = Wire::open(&config).await else { return (None, None) };
    let version = wire.parameter("server_version").and_then(|it| it.strip_suffix("/bouncer"));
    let version = version.map(str::to_owned);
    let mut pool_mode = None;
    if version.is_some() {
        let settings = wire.rows("show config").await.unwrap_or_default();
        let is_it = |row: &&Vec<Option<String>>| row.first() == Some(&Some("pool_mode".into()));
        pool_mode = settings.iter().find(is_it).and_then(|row| row.get(1)?.clone());
    }
    wire.end().await;
    (version, pool_mode)
}
