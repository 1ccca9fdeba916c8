//! The login: HELLO with AUTH and SETNAME, SELECT, and PING, in one trip; or AUTH and the like if
//! the server has no HELLO.

use onetrip_engine::Outcome;
use onetrip_redis::client::sentinel::{Role, unfit};
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

use super::config::Config;
use super::connect::{Greeting, Target, is_loading};
use super::error::from_frame;
use crate::open::Route;
use crate::socket::Stream;
use crate::{Error, Kind};

/// The code of the error of a server that has another role than Sentinels said.
const OTHER_ROLE: &str = "other_role";

/// The code of the error of a peer that is not a Redis server.
pub(crate) const NOT_REDIS: &str = "not_redis";

/// What a connection speaks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spoken {
    pub(crate) is_resp3: bool,
    /// Whether the server tells which keys that are read on it were changed.
    pub(crate) tracks: bool,
}

/// Logs in.
pub(crate) async fn log_in(
    stream: &mut Stream,
    config: &Config,
    target: &Target,
    route: &Route,
) -> Result<Spoken, Error> {
    // Nobody has logged in yet, so no long reply is expected.
    let limits = ScanLimits {
        string_bytes_max: 64 << 10,
        items_max: 1024,
        depth_max: 16,
        ..ScanLimits::default()
    };
    let mut greeter = Greeter { stream, route, scanner: Scanner::new(limits), tracks: false };
    let (greeting, is_resp3) = Greeting::best(config, target);
    let answer = greeter.greet(&greeting).await?;
    let tracks = greeter.tracks;
    let Some(error) = answer else { return Ok(Spoken { is_resp3, tracks }) };
    if is_resp3 && lacks_resp3(&error) {
        return match greeter.greet(&Greeting::resp2(config, target)).await? {
            None => Ok(Spoken { is_resp3: false, tracks: false }),
            Some(error) => Err(refused(error, config, route)),
        };
    }
    Err(refused(error, config, route))
}

/// Whether the server has no HELLO, or no RESP3: Redis before 6, and some compatible servers.
fn lacks_resp3(error: &Error) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    error.redis_code() == Some("NOPROTO") || text.starts_with("err unknown command")
}

/// Whether the reply to PING says that nothing can be sent yet. (The user may lack the right to
/// send it, or a script may be running.)
fn is_of_ping(error: &Error) -> bool {
    is_loading(error) || error.redis_code() == Some("NOAUTH")
}

fn refused(error: Error, config: &Config, route: &Route) -> Error {
    let hint = config.login.hint(error.redis_code().unwrap_or_default().as_bytes());
    match is_loading(&error) {
        _ if error.code() == OTHER_ROLE => error,
        true => error.about(format_args!("{route} is not ready")),
        false => error.about(format_args!("{route} refused the login{hint}")),
    }
}

struct Greeter<'a> {
    stream: &'a mut Stream,
    route: &'a Route,
    scanner: Scanner,
    /// Whether the server has promised to tell which keys were changed.
    tracks: bool,
}

impl Greeter<'_> {
    /// Sends the greeting and reads the replies. Returns the first error among them that matters.
    async fn greet(&mut self, greeting: &Greeting) -> Result<Option<Error>, Error> {
        let route = self.route;
        let lost = |error: std::io::Error| transport(route, &format!("was lost ({error})"));
        self.stream.write_all(&greeting.bytes).await.map_err(lost)?;
        let mut first = None;
        for left in (0..greeting.replies).rev() {
            let role = greeting.role.filter(|_| left == 1 + usize::from(greeting.tracks));
            match self.reply(role).await {
                // Without it nothing is cached, and the rest works.
                Ok(error) if left == 1 && greeting.tracks => self.tracks = error.is_none(),
                Ok(error) if left == 0 => first = first.or(error.filter(is_of_ping)),
                Ok(error) => first = first.or(error),
                // The server has said why, and has closed the connection.
                Err(_) if first.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(first)
    }

    /// The error in the next reply. `role` if the reply says which role the server has.
    async fn reply(&mut self, role: Option<Role>) -> Result<Option<Error>, Error> {
        loop {
            let scan = self.scanner.scan(&self.stream.input).map_err(|_| not_redis(self.route))?;
            if let Scan::Whole { len, start, kind } = scan {
                let frame = self.stream.input.split_to(len);
                if let Some(role) = role {
                    return Ok(self.unfit(role, &frame));
                }
                let error = matches!(kind, b'-' | b'!');
                return Ok(error.then(|| from_frame(&frame[start..], Outcome::NotSent, false)));
            }
            if let Some(end) = self.stream.read().await.end {
                let why = format!(
                    "ended during the login ({end}): is it Redis, does it expect TLS (rediss://), or has it \
                     too many clients?"
                );
                return Err(transport(self.route, &why));
            }
        }
    }
}

impl Greeter<'_> {
    /// Why a server is not what it was looked up as.
    fn unfit(&self, role: Role, frame: &[u8]) -> Option<Error> {
        let why = onetrip_redis::Reply::read(frame).ok().and_then(|(it, _)| unfit(role, &it))?;
        let message = format!("{} is not {role}: {why}", self.route);
        Some(Error::new(Kind::Transport, Outcome::NotSent, OTHER_ROLE, message))
    }
}

fn transport(route: &Route, why: &str) -> Error {
    let message = format!("the connection to {route} {why}");
    Error::new(Kind::Transport, Outcome::NotSent, "connect_failed", message)
}

fn not_redis(route: &Route) -> Error {
    let message = format!(
        "{route} does not speak the protocol of Redis (RESP): is the port that of another service, or does \
         it expect TLS (rediss://)?"
    );
    Error::new(Kind::Protocol, Outcome::NotSent, NOT_REDIS, message)
}
