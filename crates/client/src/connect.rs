//! From a configuration to a connection that is ready: which servers are tried in which order, with
//! TLS and without it, and which of them will do.

use std::sync::Arc;
use std::time::Duration;

use onetrip_engine::Limits;
use onetrip_postgres::Postgres;
use onetrip_postgres::startup::{self, Ready};

use crate::cancel::CancelKey;
use crate::config::{
    Address, Config, Endpoint, ProtocolVersion, Resolved, Settings, SslMode, TargetSessionAttrs,
};
use crate::core::{Connection, Context, Engine};
use crate::driver::Driver;
use crate::login::log_in;
use crate::open::{Failure, Peer, Protection, Route, open, peers, unresolved};
use crate::pool::Seat;
use crate::socket::Stream;
use crate::tls::Setup;
use crate::{Error, Kind, Outcome};

/// Connects to the first address that answers and fits, and starts the driver.
pub(crate) async fn connect(
    config: &Config,
    context: &Arc<Context>,
    seat: Seat,
) -> Result<Arc<Connection>, Error> {
    let settings = config.settings();
    Ok(spawn(establish(config).await?, settings, context, seat))
}

/// Connects to the first address that answers and fits. Dropping the future gives it up.
pub(crate) async fn establish(config: &Config) -> Result<Opened, Error> {
    let resolved = config.resolve().map_err(Error::config)?;
    let wanted = resolved.settings().target_session_attrs;
    // "prefer-standby" is two rounds: a standby, and then whatever there is.
    let rounds: &[TargetSessionAttrs] = match wanted {
        TargetSessionAttrs::PreferStandby => {
            &[TargetSessionAttrs::Standby, TargetSessionAttrs::Any]
        }
        _ => &[wanted],
    };
    let mut failures = Vec::new();
    for &wanted in rounds {
        for endpoint in resolved.endpoints() {
            match try_endpoint(&resolved, endpoint, wanted).await {
                Ok(opened) => return Ok(opened),
                // Another host would only ask for the same password again, as with libpq.
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => failures.push(error),
            }
        }
    }
    Err(all_failed(failures))
}

pub(crate) fn is_final(error: &Error) -> bool {
    // 3D000: no such database. A file on this side is the same for all hosts.
    is_about_access(error) || error.sqlstate() == Some("3D000") || error.code() == "config"
}

fn all_failed(mut failures: Vec<Error>) -> Error {
    match failures.len() {
        0 => Error::misuse("config", "there is no host to connect to"),
        1 => failures.remove(0),
        _ => {
            let list: Vec<String> = failures.iter().map(ToString::to_string).collect();
            let last = failures.remove(failures.len() - 1);
            Error::new(last.kind(), Outcome::NotSent, last.code(), list.join("; "))
        }
    }
}

/// Tries an endpoint within the connect timeout: every address of its name, one after the other.
async fn try_endpoint(
    resolved: &Resolved,
    endpoint: &Endpoint,
    wanted: TargetSessionAttrs,
) -> Result<Opened, Error> {
    let attempt = attempt(resolved, endpoint, wanted);
    let Some(timeout) = resolved.settings().connect_timeout else { return attempt.await };
    tokio::time::timeout(timeout, attempt).await.unwrap_or_else(|_| {
        Err(Error::new(
            Kind::Timeout,
            Outcome::NotSent,
            "connect_timeout",
            format!(
                "{endpoint} did not answer within {} s (connect_timeout): is it a PostgreSQL server, \
                 and can it be reached from here?",
                timeout.as_secs_f64()
            ),
        ))
    })
}

async fn attempt(
    resolved: &Resolved,
    endpoint: &Endpoint,
    wanted: TargetSessionAttrs,
) -> Result<Opened, Error> {
    let mut last = None;
    for peer in peers(endpoint).await? {
        let attempt = Attempt { resolved, endpoint, wanted, peer };
        match attempt.run().await {
            Err(Failure::Unreachable(error)) => last = Some(error),
            other => return other.map_err(Failure::into_error),
        }
    }
    Err(last.unwrap_or_else(|| unresolved(endpoint, "the name has no address")))
}

/// A connection that can be used, without its driver.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    pub(crate) ready: Ready,
    pub(crate) route: Route,
    /// About how long a round trip takes.
    trip: Duration,
}

/// One address of one server.
struct Attempt<'a> {
    resolved: &'a Resolved,
    endpoint: &'a Endpoint,
    wanted: TargetSessionAttrs,
    peer: Peer,
}

impl Attempt<'_> {
    /// Connects with TLS or without it, as `sslmode` says: where it leaves the choice, a way that
    /// fails is followed by the other one on a new connection.
    async fn run(&self) -> Result<Opened, Failure> {
        let (first, second) = self.protections();
        let ways = match self.resolved.settings().sslmode {
            SslMode::Allow => ["without TLS", "with TLS"],
            _ => ["with TLS", "without TLS"],
        };
        match (self.run_with(first).await, second) {
            (Err(Failure::Protection(before)), Some(second)) => {
                let result = self.run_with(second).await;
                result.map_err(|failure| Failure::Final(both([before, failure.into_error()], ways)))
            }
            (result, _) => result,
        }
    }

    fn protections(&self) -> (Protection, Option<Protection>) {
        let settings = self.resolved.settings();
        let (Peer::Tcp(address), Address::Tcp { host, .. }) = (&self.peer, self.endpoint.address())
        else {
            return (Protection::None, None);
        };
        let setup = || Arc::new(Setup::new(settings, host, address.ip()));
        match settings.sslmode {
            SslMode::Disable => (Protection::None, None),
            SslMode::Allow => (Protection::None, Some(Protection::Tls(setup()))),
            SslMode::Prefer => (Protection::IfOffered(setup()), Some(Protection::None)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                (Protection::Tls(setup()), None)
            }
        }
    }

    async fn run_with(&self, protection: Protection) -> Result<Opened, Failure> {
        let Attempt { resolved, endpoint, .. } = *self;
        let settings = resolved.settings();
        let route = Route::new(endpoint, self.peer.clone(), protection);
        let mut stream = open(settings, &route).await?;
        // Where the server was asked for TLS and has none, there is no other way left.
        let other_way = stream.tls().is_some() || !route.asks_for_tls();
        let route = route.taken(&stream);
        let (ready, trip) =
            log_in(&mut stream, resolved, endpoint, &route).await.map_err(|error| {
                match other_way && is_about_access(&error) {
                    true => Failure::Protection(error),
                    false => Failure::Final(error),
                }
            })?;
        check_protocol(&ready, settings, endpoint).map_err(Failure::Final)?;
        check_target(&ready, self.wanted, endpoint).map_err(Failure::Final)?;
        Ok(Opened { stream, ready, route, trip })
    }
}

/// Class 28: invalid authorization. The server's rules about it (pg_hba.conf) may be others with TLS
/// than without.
fn is_about_access(error: &Error) -> bool {
    error.sqlstate().is_some_and(|code| code.starts_with("28"))
}

/// Why neither of two ways led to a connection. A wrong password is the last word; else the first
/// way is the one that was wanted.
fn both([first, second]: [Error; 2], [first_way, second_way]: [&str; 2]) -> Error {
    if first.to_string() == second.to_string() {
        return first;
    }
    let (main, other, way) = match second.sqlstate() {
        Some("28P01") => (second, first, first_way),
        _ => (first, second, second_way),
    };
    let message = format!("{main}; {way}: {other}");
    main.with_message(message)
}

fn spawn(
    opened: Opened,
    settings: &Settings,
    context: &Arc<Context>,
    seat: Seat,
) -> Arc<Connection> {
    let limits = Limits {
        in_flight_max: settings.in_flight_max,
        in_flight_bytes_max: settings.in_flight_bytes_max,
        one_segment: settings.one_segment,
        queue_max: settings.queue_max,
        queue_bytes_max: settings.queue_bytes_max,
        stall_timeout: settings.stall_timeout,
        cancel_wait_max: settings.cancel_timeout,
        ..Limits::default()
    };
    let Opened { stream: Stream { reader, writer, input }, ready, route, trip } = opened;
    let way = (route, CancelKey::new(ready.process_id, ready.secret_key));
    // The login has had random bytes for its nonce, so there are some.
    let unique = getrandom::u64().unwrap_or_default();
    let mut protocol = Postgres::new(ready.status);
    // Where one segment leaves at a time there is a pooler, and to ask would cost a trip.
    let process_id = if settings.one_segment { 0 } else { ready.process_id };
    protocol.identify(process_id, unique);
    let engine = |now| Engine::new(now, protocol, limits);
    let connection =
        Connection::new(engine, writer, ready.parameters, way, context.clone(), seat, trip);
    context.totals.opened(&connection);
    tokio::spawn(Driver::new(connection.clone(), reader, input).run());
    connection
}

/// Whether both sides came to speak a version that the configuration allows.
fn check_protocol(ready: &Ready, settings: &Settings, endpoint: &Endpoint) -> Result<(), Error> {
    let old = ready.protocol == startup::ProtocolVersion::V3_0;
    if old && settings.min_protocol_version > ProtocolVersion::V3_0 {
        return Err(Error::new(
            Kind::Misuse,
            Outcome::NotSent,
            "protocol_version",
            format!(
                "{endpoint} speaks protocol 3.0 at most, and min_protocol_version asks for more"
            ),
        ));
    }
    Ok(())
}

/// Whether the server is one that the configuration wants. Servers before 14 don't say.
fn check_target(
    ready: &Ready,
    wanted: TargetSessionAttrs,
    endpoint: &Endpoint,
) -> Result<(), Error> {
    let is_on = |name: &str| {
        let parameter = ready.parameters.iter().find(|(parameter, _)| parameter == name);
        parameter.map(|(_, value)| value == "on")
    };
    let standby = is_on("in_hot_standby");
    let read_only = match (standby, is_on("default_transaction_read_only")) {
        (Some(standby), Some(read_only)) => Some(standby || read_only),
        _ => None,
    };
    let fits = match wanted {
        TargetSessionAttrs::Any | TargetSessionAttrs::PreferStandby => Some(true),
        TargetSessionAttrs::Primary => standby.map(|standby| !standby),
        TargetSessionAttrs::Standby => standby,
        TargetSessionAttrs::ReadOnly => read_only,
        TargetSessionAttrs::ReadWrite => read_only.map(|read_only| !read_only),
    };
    let why = match fits {
        Some(true) => return Ok(()),
        Some(false) => "is not what target_session_attrs asks for",
        None => {
            "is too old to say whether it is what target_session_attrs asks for (14 or newer is)"
        }
    };
    Err(Error::new(
        Kind::Misuse,
        Outcome::NotSent,
        "target_session_attrs",
        format!("{endpoint} {why}"),
    ))
}
