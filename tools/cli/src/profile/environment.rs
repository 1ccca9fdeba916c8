//! The servers that a program is told of by its environment, and the same environment with the
//! addresses of splices in their place.
//!
//! Replaced are PGHOST, PGPORT and PGHOSTADDR, and every variable whose value is a URL of
//! PostgreSQL or Redis. Of a URL only the places of servers change: user, password, database and
//! options stay as they are, letter by letter.

mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

/// What a server speaks, as far as the name of a variable or a scheme says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speaks {
    Postgres,
    Redis,
}

/// A server that a program would connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) speaks: Speaks,
    /// A name, an address, or the path of a Unix socket.
    pub(crate) host: String,
    /// Of no meaning for a Unix socket.
    pub(crate) port: u16,
    /// What the URL said of TLS, as `key=value`.
    pub(crate) tls: Vec<String>,
}

impl Target {
    fn new(speaks: Speaks, host: String, port: u16) -> Target {
        Target { speaks, host, port, tls: Vec::new() }
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// With what the program's URL said of TLS.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.speaks {
            _ if self.is_socket() => return self.host.clone(),
            Speaks::Postgres => "postgres",
            Speaks::Redis if self.tls.is_empty() => "redis",
            Speaks::Redis => "rediss",
        };
        format!("{scheme}://{self}/?{}", self.tls.join("&"))
    }
}

/// As the options of the command take it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_str() {
            path if self.is_socket() => f.write_str(path),
            host if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

/// The variables of an environment.
pub(crate) type Variables = BTreeMap<String, String>;

/// What becomes of an environment.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    /// Variables to set.
    pub(crate) set: Variables,
    /// What the user should know of, a line each.
    pub(crate) notes: Vec<String>,
}

/// What is not seen of a login, since the program connects without TLS.
const HIDDEN: &str = "PGSSLMODE=disable is set for the program: in its own environment a login of \
     PostgreSQL takes one trip more, to ask for TLS, and another one if it is used";

/// Replaces the servers of an environment by what `front` gives for each of them. If `is_clear`, the
/// program is to connect there without TLS.
///
/// # Errors
/// Of `front`, or nothing names a server: one line.
pub(crate) fn replaced(
    variables: &Variables,
    is_clear: bool,
    mut front: impl FnMut(&Target) -> Result<SocketAddr, String>,
) -> Result<Replaced, String> {
    let mut replaced = Replaced::default();
    for (name, value) in variables {
        if let Some(mut url) = url::Url::read(name, value, &|| hosts(variables)) {
            if is_clear {
                url.clear();
            }
            let fronts: Result<Vec<_>, _> = url.targets.iter().map(&mut front).collect();
            let fronts = fronts.map_err(|error| format!("{name}: {error}"))?;
            replaced.set.insert(name.clone(), url.with(&fronts));
        }
    }
    let is_set = PLACES.iter().any(|it| variables.contains_key(*it));
    let fallback = || replaced.set.is_empty().then(nothing_named).flatten();
    if is_set {
        let of_variables = hosts(variables);
        let fronts: Result<Vec<_>, _> = of_variables.iter().map(&mut front).collect();
        let fronts = fronts.map_err(|error| format!("PGHOST: {error}"))?;
        replaced.set_places(&fronts, variables.contains_key("PGHOSTADDR"));
    } else if let Some(targets) = fallback() {
        for target in targets {
            let front = front(&target)?;
            match target.speaks {
                Speaks::Postgres => replaced.set_places(&[front], false),
                Speaks::Redis => {
                    replaced.set.insert("REDIS_URL".to_owned(), format!("redis://{front}"));
                }
            }
            replaced.notes.push(format!("nothing names a server: {target} is profiled"));
        }
    }
    if replaced.set.is_empty() {
        return Err(NOTHING.to_owned());
    }
    if is_clear {
        let was_off = variables.get("PGSSLMODE").is_some_and(|mode| mode == "disable");
        replaced.set.insert("PGSSLMODE".to_owned(), "disable".to_owned());
        let is_redis = |url: &String| url.starts_with("redis");
        if !was_off && !replaced.set.iter().all(|(name, it)| name == "PGSSLMODE" || is_redis(it)) {
            replaced.notes.push(HIDDEN.to_owned());
        }
        if variables.contains_key("PGSSLNEGOTIATION") {
            replaced.set.insert("PGSSLNEGOTIATION".to_owned(), "postgres".to_owned());
        }
    }
    if variables.contains_key("PGSERVICE") {
        replaced.notes.push(
            "PGSERVICE is not replaced: the host of that service wins over PGHOST; unset it and \
             set PGHOST and PGPORT"
                .to_owned(),
        );
    }
    Ok(replaced)
}

const NOTHING: &str = "--run: no variable names a server, and none answers at the usual places; \
                       set PGHOST and PGPORT, DATABASE_URL or REDIS_URL";

/// Where libpq looks for a server.
const PLACES: [&str; 3] = ["PGHOST", "PGHOSTADDR", "PGPORT"];

impl Replaced {
    fn set_places(&mut self, fronts: &[SocketAddr], has_hostaddr: bool) {
        let list = |of: fn(&SocketAddr) -> String| -> String {
            fronts.iter().map(of).collect::<Vec<_>>().join(",")
        };
        let hosts = list(|it| it.ip().to_string());
        self.set.insert("PGPORT".to_owned(), list(|it| it.port().to_string()));
        if has_hostaddr {
            self.set.insert("PGHOSTADDR".to_owned(), hosts.clone());
        }
        self.set.insert("PGHOST".to_owned(), hosts);
    }
}

/// The servers of libpq's variables.
fn hosts(variables: &Variables) -> Vec<Target> {
    let list = |name: &str| -> Vec<&str> {
        let value = variables.get(name).map(String::as_str).filter(|it| !it.is_empty());
        value.map_or_else(Vec::new, |it| it.split(',').collect())
    };
    let mut hosts = list("PGHOSTADDR");
    if hosts.is_empty() {
        hosts = list("PGHOST");
    }
    if hosts.is_empty() {
        hosts = vec![""];
    }
    let ports = list("PGPORT");
    let port_of = |at: usize| ports.get(at).or(ports.first()).and_then(|it| it.parse().ok());
    hosts.iter().enumerate().map(|(at, host)| postgres(host, port_of(at))).collect()
}

/// A PostgreSQL server at a host, which may be the directory of its socket or nothing.
fn postgres(host: &str, port: Option<u16>) -> Target {
    let port = port.unwrap_or(5432);
    let socket = |directory: &str| format!("{directory}/.s.PGSQL.{port}");
    let host = match host {
        "" => DIRECTORIES
            .iter()
            .map(|it| socket(it))
            .find(|it| Path::new(it).exists())
            .unwrap_or_else(|| "localhost".to_owned()),
        directory if directory.starts_with('/') => socket(directory),
        host => host.to_owned(),
    };
    Target::new(Speaks::Postgres, host, port)
}

/// Where distributions put the socket.
const DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// The servers at the usual places, as far as they are there.
fn nothing_named() -> Option<Vec<Target>> {
    let redis = Target::new(Speaks::Redis, "localhost".to_owned(), 6379);
    let is_there = |it: &Target| match it.is_socket() {
        true => true,
        false => std::net::TcpStream::connect(it.to_string()).is_ok(),
    };
    let targets = [postgres("", None), redis].into_iter().filter(is_there);
    Some(targets.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Each target gets the next port from 7001 on, and is noted.
    fn replace(given: &[(&str, &str)]) -> (BTreeMap<String, String>, Vec<String>, Replaced) {
        let variables = given.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let mut seen: Vec<String> = Vec::new();
        let replaced = replaced(&variables, false, |target| {
            let name = target.to_string();
            let at = seen.iter().position(|it| *it == name).unwrap_or_else(|| {
                seen.push(name);
                seen.len() - 1
            });
            Ok(SocketAddr::from(([127, 0, 0, 1], 7001 + at as u16)))
        });
        let replaced = replaced.unwrap();
        (replaced.set.clone(), seen, replaced)
    }

    #[test]
    fn variables_of_libpq_are_replaced() {
        let (set, seen, _) = replace(&[("PGHOST", "db,/run/pg"), ("PGPORT", "5433,5434")]);
        assert_eq!(seen, ["db:5433", "/run/pg/.s.PGSQL.5434"]);
        assert_eq!((&*set["PGHOST"], &*set["PGPORT"]), ("127.0.0.1,127.0.0.1", "7001,7002"));
        assert!(!set.contains_key("PGHOSTADDR"));
        let (set, seen, _) = replace(&[("PGHOSTADDR", "10.0.0.1"), ("PGHOST", "db")]);
        assert_eq!(seen, ["10.0.0.1:5432"]);
        let places = ["PGHOSTADDR", "PGHOST", "PGPORT"].map(|it| &*set[it]);
        assert_eq!(places, ["127.0.0.1", "127.0.0.1", "7001"]);
    }

    #[test]
    fn urls_are_replaced_wherever_they_stand_and_one_server_has_one_splice() {
        let (set, seen, _) = replace(&[
            ("APP_DB", "postgresql+asyncpg://u:p%40@db/app?ssl=off"),
            ("DATABASE_URL", "postgres://v@db:5432/other"),
            ("REDIS_URL", "redis://:secret@cache:6380/3"),
            ("HOME", "/home/u"),
        ]);
        assert_eq!(seen, ["db:5432", "cache:6380"]);
        assert_eq!(set["APP_DB"], "postgresql+asyncpg://u:p%40@127.0.0.1:7001/app?ssl=off");
        assert_eq!(set["DATABASE_URL"], "postgres://v@127.0.0.1:7001/other");
        assert_eq!(set["REDIS_URL"], "redis://:secret@127.0.0.1:7002/3");
        assert_eq!(set.len(), 3);
    }

    #[test]
    fn what_is_said_of_tls_goes_to_the_splice_and_the_program_does_without() {
        for (given, to, left) in [
            (
                "postgres://u@db/d?sslmode=verify-full&a=b&sslrootcert=%2Fr.crt",
                "postgres://db:5432/?sslmode=verify-full&sslrootcert=%2Fr.crt",
                "postgres://u@127.0.0.1:1/d?sslmode=disable&a=b",
            ),
            ("postgres://db/d", "postgres://db:5432/?", "postgres://127.0.0.1:1/d"),
            (
                "postgresql+asyncpg://db/d?ssl=require",
                "postgres://db:5432/?sslmode=require",
                "postgresql+asyncpg://127.0.0.1:1/d?ssl=disable",
            ),
            (
                "jdbc:postgresql://db/d?ssl=true",
                "postgres://db:5432/?sslmode=verify-full",
                "jdbc:postgresql://127.0.0.1:1/d?ssl=false",
            ),
            (
                "rediss://c/1?ssl_cert_reqs=none&a=b",
                "rediss://c:6379/?sslmode=require",
                "redis://127.0.0.1:1/1?a=b",
            ),
            ("redis://c/1", "redis://c:6379/?", "redis://127.0.0.1:1/1"),
        ] {
            let variables = [("A_REDIS_URL".to_owned(), given.to_owned())].into();
            let mut seen = String::new();
            let replaced = replaced(&variables, true, |target| {
                seen = target.url();
                Ok(SocketAddr::from(([127, 0, 0, 1], 1)))
            });
            let set = replaced.unwrap().set;
            assert_eq!((&*seen, &*set["A_REDIS_URL"]), (to, left), "{given}");
            assert_eq!(set["PGSSLMODE"], "disable");
        }
    }

    #[test]
    fn a_service_is_named_as_not_replaced() {
        let (_, _, replaced) = replace(&[("PGHOST", "db"), ("PGSERVICE", "main")]);
        assert!(replaced.notes[0].starts_with("PGSERVICE is not replaced"), "{replaced:?}");
    }

    /// A trip that the profiler takes away is not counted, and so it is said.
    #[test]
    fn the_trip_that_asks_for_tls_is_named_as_hidden() {
        let notes = |variables: &[(&str, &str)], is_clear: bool| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let variables = variables.iter().map(own).collect();
            replaced(&variables, is_clear, |_| Ok(SocketAddr::from(([127, 0, 0, 1], 1))))
                .unwrap()
                .notes
        };
        let db = ("DATABASE_URL", "postgres://db/d");
        assert_eq!(notes(&[db], true), [HIDDEN]);
        assert!(notes(&[db], false).is_empty());
        assert!(notes(&[db, ("PGSSLMODE", "disable")], true).is_empty());
        assert!(notes(&[("REDIS_URL", "redis://cache/1")], true).is_empty());
    }
}
