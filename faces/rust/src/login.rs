//! From an open connection to a session: startup packet, authentication, and their errors.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetrip_postgres::client::identity::{Asking, Identity};
use onetrip_postgres::startup::{
    self, AuthMethods, NONCE_LEN, Ready, Startup, StartupConfig, StartupError,
};

use crate::config::{AuthMethod, ChannelBinding, Endpoint, ProtocolVersion, RequireAuth, Resolved};
use crate::open::{Failure, Route};
use crate::socket::{Ending, Stream};
use crate::{Error, Kind, Outcome};

/// Logs in. `route` is the one that the stream was opened by. Returns how long the fastest exchange
/// took, which is about a round trip.
pub(crate) async fn log_in(
    stream: &mut Stream,
    resolved: &Resolved,
    endpoint: &Endpoint,
    route: &Route,
) -> Result<(Ready, Duration), Failure> {
    let who = format!("{route} (user {}, database {})", resolved.user(), resolved.dbname());
    let failed = |error| startup_failure(error, &who);
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(|error| {
        Failure::Other(lost(route, &format!("this system gives no random bytes: {error}")))
    })?;
    let config = startup_config(stream, resolved, endpoint, route);
    let mut startup = Startup::new(config, nonce).map_err(failed)?;
    let mut trip = Duration::MAX;
    loop {
        let begin = Instant::now();
        let sent = send(stream, &mut startup).await;
        let received = stream.read().await;
        if let Ok(true) = sent {
            trip = trip.min(begin.elapsed());
        }
        // Bytes that came before the end are handled first: they mostly say why.
        if let Some(ready) = startup.handle_bytes(&mut stream.input).map_err(failed)? {
            return Ok((ready, trip));
        }
        match (received.end, sent) {
            (None, Ok(_)) => {}
            (Some(Ending::Closed), Ok(_)) => return Err(failed(startup.handle_closed())),
            (None | Some(Ending::Closed), Err(error)) => {
                let why = lost(route, &error.to_string()).with_source(error);
                return Err(Failure::Other(why));
            }
            (Some(ending), _) => {
                return Err(Failure::Other(ending.into_error(|why| lost(route, why))));
            }
        }
    }
}

/// Asks the server which it is. Settings that it reports meanwhile are added to `ready`.
pub(crate) async fn identify(
    stream: &mut Stream,
    route: &Route,
    ready: &mut Ready,
) -> Result<Option<Identity>, Error> {
    let (mut asking, mut question) = (Asking::default(), BytesMut::new());
    let sent = asking.write(&mut question).map_err(|error| lost(route, &error.to_string()));
    sent?;
    let sent = stream.write_all(&question).await;
    sent.map_err(|error| lost(route, &error.to_string()).with_source(error))?;
    loop {
        let received = stream.read().await;
        let parameter =
            |name: &str, value: &str| ready.parameters.push((name.into(), value.into()));
        let answer = asking.handle_bytes(&mut stream.input, parameter);
        let answer = answer.map_err(|violation| lost(route, &violation.to_string()))?;
        if let Some(answer) = answer {
            return Ok(answer.identity);
        }
        if let Some(ending) = received.end {
            return Err(ending.into_error(|why| lost(route, why)));
        }
    }
}

/// Returns whether there was anything to send.
async fn send(stream: &mut Stream, startup: &mut Startup) -> io::Result<bool> {
    let mut any = false;
    while let Some(bytes) = startup.transmit() {
        stream.write_all(&bytes).await?;
        any = true;
    }
    Ok(any)
}

fn startup_config(
    stream: &Stream,
    resolved: &Resolved,
    endpoint: &Endpoint,
    route: &Route,
) -> StartupConfig {
    let settings = resolved.settings();
    let mut config = StartupConfig::new(resolved.user());
    config.database = Some(resolved.dbname().to_owned());
    config.password = endpoint.password().map(Into::into);
    config.protocol = match settings.max_protocol_version {
        ProtocolVersion::V3_0 => startup::ProtocolVersion::V3_0,
        ProtocolVersion::V3_2 => startup::ProtocolVersion::V3_2,
    };
    config.secure_channel = route.is_secure();
    let address = route.address().map(|address| address.ip());
    config.allow_cleartext = settings.allows_plain_password(address);
    config.methods = methods(settings.require_auth);
    config.channel_binding_required = settings.channel_binding == ChannelBinding::Require;
    if settings.channel_binding != ChannelBinding::Disable {
        config.channel_binding = stream.tls().and_then(|tls| tls.end_point());
    }
    config.scram_iterations_max = settings.scram_iterations_max;
    let name = settings.application_name.as_ref();
    config.parameters.extend(name.map(|name| ("application_name".into(), name.clone())));
    let options = resolved.options();
    config.parameters.extend(options.map(|options| ("options".into(), options.to_owned())));
    config
}

fn methods(allowed: RequireAuth) -> AuthMethods {
    AuthMethods {
        none: allowed.allows(AuthMethod::None),
        password: allowed.allows(AuthMethod::Password),
        md5: allowed.allows(AuthMethod::Md5),
        scram: allowed.allows(AuthMethod::ScramSha256),
    }
}

fn startup_failure(error: StartupError, who: &str) -> Failure {
    match error {
        StartupError::Session(_) => Failure::Session(startup_error(error, who)),
        _ => Failure::Other(startup_error(error, who)),
    }
}

/// `who`: the server, the user and the database.
fn startup_error(error: StartupError, who: &str) -> Error {
    let message = format!("{who}: {error}");
    match error {
        StartupError::Server(error) | StartupError::Session(error) => {
            Error::server_error(*error, Outcome::NotSent).about(who)
        }
        StartupError::Closed | StartupError::RefusedEarly => {
            Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", message)
        }
        StartupError::PasswordMissing
        | StartupError::PlainPasswordRefused { .. }
        | StartupError::MethodRefused { .. }
        | StartupError::ChannelBindingMissing => Error::misuse("authentication", message),
        _ => Error::new(Kind::Protocol, Outcome::NotSent, "connect_failed", message),
    }
}

fn lost(route: &Route, why: &str) -> Error {
    let message = format!("the connection to {route} was lost during its startup: {why}");
    Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", message)
}
