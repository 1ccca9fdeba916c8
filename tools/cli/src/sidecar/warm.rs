//! Warm connections: to the server, logged in already, for programs that come and go.
//!
//! A program gets one only if its whole first packet is that of the connection's own login, and if
//! it has proved by SCRAM that it knows the password with which that was logged in. The password is
//! that of `--to` or of the password file, which is read anew for each login. What no password is
//! known for logs in by itself, as without warm connections.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetrip::config::{AuthMethod, ChannelBinding, Endpoint, Resolved, SslMode};
use onetrip_postgres::auth::{Password, ScramServer, Verifier};
use onetrip_postgres::client::early::{Key, Time};
use onetrip_postgres::client::lent::{Lent, Proof};
use onetrip_postgres::message::error_response::{self, field};
use onetrip_postgres::message::{InitialMessage, ServerError, TERMINATE};
use onetrip_postgres::startup::{AuthMethods, Ready, Startup, StartupConfig, StartupError};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::carry::Carrier;
use super::dial::{Place, Saying, Unmet};
use super::greeting::Refused;
use super::metrics::Counts;
use super::random;
use super::servers::Servers;
use super::stream::Stream;

/// A login that the sidecar does itself, on behalf of programs.
pub(super) struct Login {
    /// The program's first packet.
    packet: BytesMut,
    pub(super) user: String,
    resolved: Resolved,
}

/// A connection that is logged in.
pub(super) struct Session {
    login: Arc<Login>,
    pub(super) stream: Stream,
    pub(super) place: Place,
    pub(super) ready: Ready,
    /// When the server was last heard.
    pub(super) heard: Time,
    /// `None` if its reset can't be proven.
    lent: Option<Lent>,
    opened: Instant,
    returned: Instant,
}

/// The warm connections of one sidecar.
pub(super) struct Warm {
    max: usize,
    state: Mutex<State>,
    /// A connection has come back, or will not.
    returned: Notify,
    verifiers: Mutex<HashMap<(String, String), Arc<Verifier>>>,
}

#[derive(Default)]
struct State {
    /// The one that came back last is the last.
    idle: Vec<Session>,
    /// The logins of those that are being reset.
    resetting: Vec<Arc<Login>>,
    has_ended: bool,
}

/// How long a connection waits for a program, and how long it serves programs. Whoever lost a right
/// to log in, or whose role was given other settings, meets them then at the latest.
const IDLE_MAX: Duration = Duration::from_secs(300);
const LIFE_MAX: Duration = Duration::from_secs(1800);

/// How long a server may take to reset a connection.
const RESET_MAX: Duration = Duration::from_secs(10);

/// How often what has expired is closed.
const TENDED: Duration = Duration::from_secs(10);

/// As PostgreSQL stores passwords (SCRAM_SHA_256_DEFAULT_ITERATIONS).
const ITERATIONS: u32 = 4096;

/// Passwords whose verifiers are kept.
const VERIFIERS_MAX: usize = 64;

impl Login {
    fn passwords(&self) -> impl Iterator<Item = Option<&str>> {
        self.resolved.endpoints().iter().map(Endpoint::password)
    }

    /// Whether a connection that was logged in with the other may serve this one.
    fn is_like(&self, other: &Login) -> bool {
        self.packet == other.packet && self.passwords().eq(other.passwords())
    }

    /// The password that the program must know: all servers of a list have the same users.
    fn password(&self) -> &str {
        self.passwords().flatten().next().unwrap_or_default()
    }

    /// The startup on a stream to a server of the list.
    pub(super) fn startup(&self, place: Place, is_encrypted: bool) -> Result<Startup, String> {
        let settings = self.resolved.settings();
        let endpoint = self.resolved.endpoints().get(place.host);
        let mut config = StartupConfig::new(self.user.as_str());
        config.password = endpoint.and_then(Endpoint::password).map(Into::into);
        let is_verified = is_encrypted && settings.sslmode >= SslMode::VerifyCa;
        config.secure_channel = is_verified || place.peer.is_none();
        config.allow_cleartext = settings.allows_plain_password(place.peer.map(|it| it.ip()));
        config.methods = AuthMethods {
            none: settings.require_auth.allows(AuthMethod::None),
            password: settings.require_auth.allows(AuthMethod::Password),
            md5: settings.require_auth.allows(AuthMethod::Md5),
            scram: settings.require_auth.allows(AuthMethod::ScramSha256),
        };
        config.channel_binding_required = settings.channel_binding == ChannelBinding::Require;
        config.scram_iterations_max = settings.scram_iterations_max;
        let nonce = random().ok_or("the system gives no random bytes")?;
        Startup::with_packet(config, &self.packet, nonce).map_err(|error| error.to_string())
    }
}

/// The server's refusal as it would have said it to the program.
pub(super) fn refused(error: StartupError) -> Result<Refused, String> {
    let (error, was_taken): (Box<ServerError>, _) = match error {
        StartupError::Server(error) => (error, false),
        StartupError::Session(error) => (error, true),
        other => return Err(other.to_string()),
    };
    let mut said = BytesMut::new();
    let fields = [
        (field::SEVERITY, &b"FATAL"[..]),
        (field::SEVERITY_NONLOCALIZED, b"FATAL"),
        (field::CODE, error.code.as_bytes()),
        (field::MESSAGE, error.message.as_bytes()),
    ];
    error_response::write(&mut said, fields).map_err(|error| error.to_string())?;
    Ok(Refused { said, code: error.code.clone(), text: error.message.clone(), was_taken })
}

impl Servers {
    /// The login that a program's first packet asks for, if the sidecar can do it itself: it knows
    /// a password, and the packet asks for nothing that concerns the connection beyond its session.
    pub(super) fn login(&self, packet: &BytesMut) -> Option<Arc<Login>> {
        let Ok(InitialMessage::Startup(startup)) = InitialMessage::decode(packet.get(4..)?) else {
            return None;
        };
        let named = |wanted: &str| {
            startup.parameters.filter(|(name, _)| *name == wanted).last().map(|(_, value)| value)
        };
        let is_special = |name: &str| name == "replication" || name.starts_with("_pq_.");
        if startup.version != 3 << 16 || { startup.parameters }.any(|(name, _)| is_special(name)) {
            return None;
        }
        let user = named("user")?;
        let database = named("database").filter(|it| !it.is_empty()).unwrap_or(user);
        let resolved = self.for_user(user, database)?;
        let has_password = |it: &Endpoint| it.password().is_some_and(|it| !it.is_empty());
        let is_known = resolved.endpoints().iter().all(has_password);
        let login = Login { packet: packet.clone(), user: user.to_owned(), resolved };
        is_known.then(|| Arc::new(login))
    }

    /// Logs in, and asks what is needed to prove a reset.
    pub(super) async fn open(&self, login: &Arc<Login>, now: Time) -> Result<Session, Unmet> {
        let mut session = self.logged_in(login, now).await?;
        if let Some(mut lent) = Lent::new(&session.ready) {
            let mut question = BytesMut::new();
            let is_asked = lent.ask(&mut question).is_ok();
            if is_asked && proven(&session.stream, &mut lent, &question).await {
                session.lent = Some(lent);
                return Ok(session);
            }
            // It is no plain PostgreSQL, and what was asked there may have left a trace.
            session = self.logged_in(login, now).await?;
        }
        Ok(session)
    }

    async fn logged_in(&self, login: &Arc<Login>, now: Time) -> Result<Session, Unmet> {
        let met = self.meet(Saying::Own(login)).await?;
        let lost = || Unmet::Failed("the login ended in the middle".to_owned());
        Ok(Session {
            login: login.clone(),
            stream: met.stream,
            place: met.place,
            ready: met.ready.ok_or_else(lost)?,
            heard: now,
            lent: None,
            opened: Instant::now(),
            returned: Instant::now(),
        })
    }
}

impl Session {
    /// What cancels its statements at the server.
    pub(super) fn key(&self) -> Key {
        Key { process_id: self.ready.process_id, secret: self.ready.secret_key.clone() }
    }

    /// Whether it may serve another program: it is not too old, and the server has said nothing
    /// since it was reset.
    fn is_fit(&self) -> bool {
        let is_young = self.opened.elapsed() < LIFE_MAX && self.returned.elapsed() < IDLE_MAX;
        is_young && matches!(self.stream.try_read(&mut [0]), Ok(None))
    }

    /// Says goodbye.
    pub(super) fn close(self) {
        let _ = self.stream.try_write(&TERMINATE);
    }
}

impl Warm {
    pub(super) fn new(max: u32) -> Arc<Warm> {
        Arc::new(Warm {
            max: max as usize,
            state: Mutex::default(),
            returned: Notify::new(),
            verifiers: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait for a program, and how many are being reset.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let state = self.state();
        (state.idle.len(), state.resetting.len())
    }

    /// The check of a program that wants this login.
    pub(super) fn check(&self, login: &Login) -> Option<ScramServer> {
        let name = (login.user.clone(), login.password().to_owned());
        let known = || self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(&name).cloned();
        let verifier = match found {
            Some(verifier) => verifier,
            None => {
                let salt: [u8; 16] = random()?;
                let password = Password::from(name.1.as_str());
                let verifier = Arc::new(Verifier::new(&password, &salt, ITERATIONS));
                let mut known = known();
                if known.len() >= VERIFIERS_MAX {
                    known.clear();
                }
                known.insert(name, verifier.clone());
                verifier
            }
        };
        let nonce: [u8; 18] = random()?;
        let binding = onetrip_postgres::auth::ChannelBinding::Unsupported;
        Some(ScramServer::with(verifier, &nonce, binding))
    }

    /// A connection for this login. One that is being reset is waited for: that takes a trip, and a
    /// login several.
    pub(super) async fn take(&self, login: &Login) -> Option<Session> {
        loop {
            let returned = self.returned.notified();
            tokio::pin!(returned);
            returned.as_mut().enable();
            {
                let mut state = self.state();
                while let Some(at) = state.idle.iter().rposition(|it| it.login.is_like(login)) {
                    let session = state.idle.remove(at);
                    match session.is_fit() {
                        true => return Some(session),
                        false => session.close(),
                    }
                }
                if !state.resetting.iter().any(|it| it.is_like(login)) {
                    return None;
                }
            }
            returned.await;
        }
    }

    /// Resets a connection whose program has left, and keeps it if that is proven. `carrier` served
    /// the program.
    pub(super) fn give_back(
        self: &Arc<Warm>,
        mut session: Session,
        in_transaction: bool,
        carrier: Arc<Carrier>,
    ) {
        let mut reset = BytesMut::new();
        let lent = session.lent.take().and_then(|mut lent| {
            lent.reset(in_transaction, &mut reset).ok()?;
            Some(lent)
        });
        let has_ended = self.state().has_ended;
        let Some(mut lent) = lent.filter(|_| !has_ended) else {
            carrier.shared.counts.closed.add(1);
            return session.close();
        };
        let login = session.login.clone();
        self.state().resetting.push(login.clone());
        let warm = self.clone();
        tokio::spawn(async move {
            let proven = proven(&session.stream, &mut lent, &reset).await;
            session.heard = carrier.now();
            (session.lent, session.returned) = (Some(lent), Instant::now());
            warm.keep(session, proven, &login, &carrier.shared.counts);
        });
    }

    /// Keeps it if its reset is proven, in place of the one that waits longest if there are too
    /// many.
    fn keep(&self, session: Session, proven: bool, login: &Arc<Login>, counts: &Counts) {
        let mut state = self.state();
        if let Some(at) = state.resetting.iter().position(|it| Arc::ptr_eq(it, login)) {
            state.resetting.swap_remove(at);
        }
        if proven && !state.has_ended {
            counts.kept.add(1);
            state.idle.push(session);
        } else {
            counts.closed.add(1);
            session.close();
        }
        if state.idle.len() > self.max {
            state.idle.remove(0).close();
        }
        drop(state);
        self.returned.notify_waiters();
    }

    /// Closes what has expired, until nobody needs it any more.
    pub(super) async fn tend(warm: Weak<Warm>) {
        loop {
            tokio::time::sleep(TENDED).await;
            let Some(warm) = warm.upgrade() else { return };
            let mut state = warm.state();
            let all = std::mem::take(&mut state.idle);
            let (fit, unfit): (Vec<_>, Vec<_>) = all.into_iter().partition(Session::is_fit);
            state.idle = fit;
            unfit.into_iter().for_each(Session::close);
        }
    }

    /// No program comes any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.idle.drain(..).for_each(Session::close);
    }
}

/// Says it, and hears whether the session is fresh.
async fn proven(stream: &Stream, lent: &mut Lent, says: &[u8]) -> bool {
    let proven = async {
        stream.write(says).await?;
        let mut heard = BytesMut::new();
        loop {
            let goes_on = stream.read(&mut heard).await?;
            match lent.handle_bytes(&mut heard) {
                Proof::Awaited if goes_on => {}
                proof => return Ok::<_, io::Error>(proof == Proof::Proven),
            }
        }
    };
    matches!(timeout(RESET_MAX, proven).await, Ok(Ok(true)))
}
