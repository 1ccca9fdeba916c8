//! From a configuration to a ready connection. Carries out the plan of
//! `onetrip_postgres::client::connect`, which decides what is tried, in which order.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use onetrip_engine::{Limits, Time};
use onetrip_postgres::Postgres;
use onetrip_postgres::client::connect::{self, Action, Fault, Host, Plan, Session, Verdict, plan};
use onetrip_postgres::client::identity::{Identity, Lineage};
use onetrip_postgres::message::TERMINATE;
use onetrip_postgres::startup::{self, Ready};

use crate::cancel::CancelKey;
use crate::config::{Address, Config, Endpoint, ProtocolVersion, Resolved, Settings};
use crate::core::slot::PoolSlot;
use crate::core::{Connection, Context, Engine};
use crate::driver::Driver;
use crate::login::{identify, log_in};
use crate::open::{Failure, Peer, Route, begin_tls, dial, refused};
use crate::socket::Stream;
use crate::tls;
use crate::{Error, Kind, Outcome};

/// Connects to the first address that answers and fits, and starts the driver.
pub(crate) async fn connect(
    config: &Config,
    context: &Arc<Context>,
    pool_slot: PoolSlot,
) -> Result<Arc<Connection>, Unopened> {
    let settings = config.settings();
    let opened = establish_as(config, &context.lineage, false).await;
    let connection = opened.map(|opened| spawn(opened, settings, context, pool_slot));
    // One that was refused may have taught something, too.
    close_former(context);
    context.primary.iter().for_each(|primary| close_former(primary));
    connection
}

/// Closes connections to servers that are former primaries, now that another one was seen: nothing
/// more is sent there.
fn close_former(context: &Context) {
    let lineage = *seen(&context.lineage);
    for connection in context.totals.live() {
        connection.with(|core, _| {
            if let Some(refusal) = core.identity.and_then(|it| lineage.refuses(it)) {
                core.refuse_server(refusal);
            }
        });
    }
}

/// Looks for another primary while the present server is silent. What is open to a former primary
/// ends; the connection that showed that is told goodbye, and the pool opens its own.
pub(crate) async fn scout(config: &Config, context: &Context) {
    let met = establish_as(config, &context.lineage, true).await;
    close_former(context);
    if let Ok(Opened { mut stream, .. }) = met {
        // Whether it arrives or not, the connection ends.
        let _ = stream.write_all(&TERMINATE).await;
    }
}

fn seen(lineage: &Mutex<Lineage>) -> MutexGuard<'_, Lineage> {
    lineage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects to the first address that answers and fits. Dropping the future gives it up.
pub(crate) async fn establish(config: &Config, lineage: &Mutex<Lineage>) -> Result<Opened, Error> {
    establish_as(config, lineage, false).await.map_err(|unopened| unopened.error)
}

/// Why no connection was opened.
#[derive(Clone, Debug)]
pub(crate) struct Unopened {
    pub(crate) error: Error,
    /// A server was met, and another attempt may fare better soon.
    pub(crate) may_pass: bool,
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Unopened {
        Unopened { error, may_pass: false }
    }
}

/// The same, for a scout as well.
async fn establish_as(
    config: &Config,
    lineage: &Mutex<Lineage>,
    scouts: bool,
) -> Result<Opened, Unopened> {
    let resolved = config.resolve().map_err(Error::config)?;
    let no_host = || Error::misuse("config", "there is no host to connect to");
    let endpoint = resolved.endpoints().first().ok_or_else(no_host)?;
    let plan = Plan::new(Time::ZERO, plan_of(&resolved, scouts), &seen(lineage));
    let mut connecting = Connecting {
        resolved: &resolved,
        endpoint,
        begin: Instant::now(),
        peers: Vec::new(),
        way: None,
        login: None,
        identity: None,
        lineage,
        errors: Vec::new(),
    };
    connecting.run(plan).await
}

fn plan_of(resolved: &Resolved, scouts: bool) -> plan::Settings {
    let settings = resolved.settings();
    let host = |endpoint: &Endpoint| match endpoint.address() {
        Address::Unix(_) => Host::Socket,
        Address::Tcp { address: Some(_), .. } => Host::Address,
        Address::Tcp { address: None, .. } => Host::Name,
    };
    plan::Settings {
        hosts: resolved.endpoints().iter().map(host).collect(),
        sslmode: settings.sslmode,
        sslnegotiation: settings.sslnegotiation,
        target_session_attrs: settings.target_session_attrs,
        load_balance_hosts: settings.load_balance_hosts,
        connect_timeout: settings.connect_timeout,
        // If the system has no random bytes, the login fails anyway, so the order of hosts is no
        // matter.
        seed: getrandom::u64().unwrap_or_default(),
        identifies: true,
        scouts,
    }
}

fn fault(failure: &Failure) -> Fault<'_> {
    match failure {
        Failure::Unreachable(_) => Fault::Unreachable,
        Failure::Late(_) => Fault::Late,
        Failure::Handshake(_) => Fault::Handshake,
        Failure::Session(error) => error.sqlstate().map_or(Fault::Server, Fault::Session),
        // A file on this side is the same for all hosts, so another host would fail alike.
        Failure::Other(error) if error.code() == "config" => Fault::Ours,
        Failure::Other(error) => error.sqlstate().map_or(Fault::Server, Fault::LogIn),
    }
}

/// Whether another attempt, or another host, would fail in the same way.
pub(crate) fn is_final(error: &Error) -> bool {
    error.code() == "config" || error.sqlstate().is_some_and(connect::is_final)
}

/// A connection that is ready, without its driver.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    pub(crate) ready: Ready,
    pub(crate) route: Route,
    /// Which server it is, if it was asked and said so.
    identity: Option<Identity>,
    /// About how long a round trip takes.
    trip: Duration,
}

/// The state of a plan that is being carried out.
struct Connecting<'a> {
    resolved: &'a Resolved,
    /// The host that is being tried.
    endpoint: &'a Endpoint,
    /// When the plan's clock began.
    begin: Instant,
    /// The addresses that the last lookup found.
    peers: Vec<SocketAddr>,
    way: Option<(Stream, Route)>,
    /// The result of the login, and how long a round trip took.
    login: Option<(Ready, Duration)>,
    identity: Option<Identity>,
    /// What the client has seen of servers.
    lineage: &'a Mutex<Lineage>,
    /// In the order in which the plan is told of them.
    errors: Vec<Error>,
}

impl Connecting<'_> {
    fn now(&self) -> Time {
        Time::ZERO.after(self.begin.elapsed())
    }

    async fn run(&mut self, mut plan: Plan) -> Result<Opened, Unopened> {
        while !matches!(plan.action(), Action::Done | Action::Failed) {
            if let Err(failure) = self.in_time(&mut plan).await {
                let text = failure.error().to_string();
                let now = self.now();
                plan.handle_failed(now, fault(&failure), text, &mut seen(self.lineage));
                self.errors.push(failure.into_error());
            }
        }
        match (self.way.take(), self.login.take()) {
            (Some((stream, route)), Some((ready, trip))) if plan.action() == Action::Done => {
                Ok(Opened { stream, ready, route, identity: self.identity, trip })
            }
            _ => Err(self.unopened(plan.verdict())),
        }
    }

    /// Carries out the next action, within its deadline.
    async fn in_time(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        if let Action::Resolve(host) | Action::Dial { host, .. } = plan.action() {
            self.endpoint = self.resolved.endpoints().get(host).unwrap_or(self.endpoint);
        }
        if plan.deadline() == Time::NEVER {
            return self.carry_out(plan).await;
        }
        let limit = plan.deadline().since(self.now());
        let done = tokio::time::timeout(limit, self.carry_out(plan)).await;
        done.unwrap_or_else(|_| Err(Failure::Late(self.too_slow())))
    }

    async fn carry_out(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        let action = plan.action();
        if let Action::Resolve(_) = action {
            self.peers = lookup(self.endpoint).await.map_err(Failure::Other)?;
            plan.handle_resolved(self.now(), self.peers.len());
            return Ok(());
        }
        if let Action::Dial { address, .. } = action {
            self.way = None;
            let route = Route::new(self.endpoint, self.peer(address)?, None);
            self.way = Some((dial(self.resolved.settings(), &route).await?, route));
            plan.handle_connected();
            return Ok(());
        }
        let Some((stream, route)) = &mut self.way else { return Ok(()) };
        match action {
            Action::AskForTls => {
                let asked = tls::ask(stream, route.name()).await;
                let (answer, early) = asked.map_err(Failure::Other)?;
                plan.handle_answer(answer, early).map_err(|refusal| refused(route, refusal))?;
            }
            Action::BeginTls => {
                route.protect(self.resolved.settings(), self.endpoint);
                begin_tls(stream, route).await?;
                plan.handle_secured();
            }
            Action::Identify => {
                let Some((ready, _)) = &mut self.login else { return Ok(()) };
                self.identity = identify(stream, route, ready).await.map_err(Failure::Other)?;
                let identified = plan.handle_identified(self.identity, &mut seen(self.lineage));
                identified.map_err(|refusal| refused(route, refusal))?;
            }
            _ => {
                self.identity = None;
                let login = log_in(stream, self.resolved, self.endpoint, route).await;
                let (ready, trip) = login?;
                check_protocol(&ready, self.resolved.settings(), self.endpoint)
                    .map_err(Failure::Other)?;
                let session = session(&ready);
                let logged_in = plan.handle_logged_in(session, &mut seen(self.lineage));
                logged_in.map_err(|refusal| refused(route, refusal))?;
                self.login = Some((ready, trip));
            }
        }
        Ok(())
    }

    fn peer(&self, address: usize) -> Result<Peer, Failure> {
        let port = self.endpoint.port();
        let known = match self.endpoint.address() {
            Address::Unix(_) => self.endpoint.socket().map(Peer::Unix),
            Address::Tcp { address: Some(address), .. } => {
                Some(Peer::Tcp(SocketAddr::new(*address, port)))
            }
            Address::Tcp { .. } => self.peers.get(address).copied().map(Peer::Tcp),
        };
        known.ok_or_else(|| Failure::Other(unresolved(self.endpoint, NO_ADDRESS)))
    }

    fn too_slow(&self) -> Error {
        let timeout = self.resolved.settings().connect_timeout.unwrap_or_default();
        let message = format!(
            "{} did not answer within {} s (connect_timeout): is it a PostgreSQL server, and can \
             it be reached from here?",
            self.endpoint,
            timeout.as_secs_f64()
        );
        Error::new(Kind::Timeout, Outcome::NotSent, "connect_timeout", message)
    }

    fn unopened(&mut self, verdict: Option<Verdict>) -> Unopened {
        let Some(Verdict { error, text, is_of_many, may_pass }) = verdict else {
            return Error::misuse("config", "there is no host to connect to").into();
        };
        let error = self.errors.swap_remove(error);
        let error = match is_of_many {
            true => Error::new(error.kind(), Outcome::NotSent, error.code(), text),
            false if error.to_string() == text => error,
            false => error.with_message(text),
        };
        // What this side refuses at the login, it refuses again, and so does a server that does not
        // trust our certificate, which TLS 1.3 tells behind the handshake.
        let is_refused = !matches!(error.kind(), Kind::Transport | Kind::Server);
        let io = std::error::Error::source(&error).and_then(|it| it.downcast_ref::<io::Error>());
        let is_refused = is_refused || io.and_then(tls::explain_io).is_some();
        let may_pass = may_pass && !is_refused;
        Unopened { error, may_pass }
    }
}

fn session(ready: &Ready) -> Session {
    let mut session = Session::default();
    for (name, value) in &ready.parameters {
        session.note(name, value);
    }
    session
}

/// The addresses of a name, in the order to try them.
pub(crate) async fn lookup(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, Error> {
    let Address::Tcp { host, .. } = endpoint.address() else { return Ok(Vec::new()) };
    let found = tokio::net::lookup_host((host.as_str(), endpoint.port())).await;
    let found: Vec<_> = found.map_err(|error| unresolved(endpoint, &error.to_string()))?.collect();
    match found.is_empty() {
        true => Err(unresolved(endpoint, NO_ADDRESS)),
        false => Ok(found),
    }
}

const NO_ADDRESS: &str = "the name has no address";

fn unresolved(endpoint: &Endpoint, why: &str) -> Error {
    let message =
        format!("the host of {endpoint} can't be found: {why}; check its spelling and DNS");
    Error::new(Kind::Transport, Outcome::NotSent, "unknown_host", message)
}

fn spawn(
    opened: Opened,
    settings: &Settings,
    context: &Arc<Context>,
    pool_slot: PoolSlot,
) -> Arc<Connection> {
    let limits = Limits {
        in_flight_max: settings.in_flight_max,
        in_flight_bytes_max: settings.in_flight_bytes_max,
        one_segment: settings.one_segment,
        queue_max: settings.queue_max,
        queue_bytes_max: settings.queue_bytes_max,
        stall_timeout: settings.stall_timeout,
        cancel_wait_max: settings.cancel_timeout,
        yield_after: context.timings.yield_after(),
        wait_behind_max: context.timings.wait_timeout(),
        ..Limits::default()
    };
    let Opened { stream: Stream { reader, writer, input }, ready, route, identity, trip } = opened;
    let way = (route, CancelKey::new(ready.process_id, ready.secret_key));
    // The login has read random bytes for its nonce, so there are some.
    let unique = getrandom::u64().unwrap_or_default();
    let mut protocol = Postgres::new(ready.status);
    // If only one segment may leave at a time, a pooler is assumed, and asking it would cost a
    // trip.
    let process_id = if settings.one_segment { 0 } else { ready.process_id };
    protocol.identify(process_id, unique);
    protocol.greeted(&ready.parameters);
    protocol.target(settings.target_session_attrs);
    if context.newest.is_some() {
        protocol.watch_positions();
    }
    if context.primary.is_some() {
        protocol.serve_as_replica();
    }
    let holders = context.timings.holders().clone();
    let engine = |now| {
        let mut engine = Engine::new(now, protocol, limits);
        engine.yield_to(holders);
        engine.see_trip(trip);
        engine
    };
    let connection =
        Connection::new(engine, writer, ready.parameters, way, context.clone(), pool_slot, trip);
    connection.with(|core, _| core.identity = identity);
    context.totals.opened(&connection);
    tokio::spawn(Driver::new(connection.clone(), reader, input).run());
    connection
}

/// Whether both sides agreed on a version that the configuration allows.
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
