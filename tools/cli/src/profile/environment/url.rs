//! URLs of servers, of which only the places are read and replaced.

use std::net::SocketAddr;

use percent_encoding::percent_decode_str;

use super::{Speaks, Target, postgres};

/// A URL in parts.
#[derive(Debug)]
pub(super) struct Url {
    /// With `://`.
    scheme: String,
    /// With `@`, or empty.
    user: String,
    pub(super) targets: Vec<Target>,
    /// With `/`, or empty.
    path: String,
    /// Without what names places.
    query: Vec<String>,
}

impl Url {
    /// Reads the value of a variable if it is such a URL. One that names no host has the servers of
    /// `usual`.
    pub(super) fn read(name: &str, value: &str, usual: &dyn Fn() -> Vec<Target>) -> Option<Url> {
        let (scheme, rest) = value.split_once("://")?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user, places) = match authority.rfind('@') {
            Some(at) => authority.split_at(at + 1),
            None => ("", authority),
        };
        let url = Url {
            scheme: format!("{scheme}://"),
            user: user.to_owned(),
            targets: Vec::new(),
            path: path.to_owned(),
            query: query.split('&').filter(|it| !it.is_empty()).map(str::to_owned).collect(),
        };
        let parts: Vec<&str> = scheme.split(['+', ':']).collect();
        let is = |words: &[&str]| parts.iter().any(|it| words.contains(it));
        if is(&["postgres", "postgresql", "postgis", "psql", "pgsql"]) {
            return Some(url.of_postgres(places, usual));
        }
        // Such a URL may also lead to something that is no Redis.
        let is_of_redis = name.to_ascii_lowercase().contains("redis") || is(&["redis", "valkey"]);
        if is_of_redis && is(&["unix", "socket", "redis-socket"]) {
            return Some(url.of_redis_socket());
        }
        is(&["redis", "rediss", "valkey", "valkeys"]).then(|| url.of_redis(places))
    }

    fn of_postgres(mut self, places: &str, usual: &dyn Fn() -> Vec<Target>) -> Url {
        let mut taken = |key: &str| -> Option<String> {
            let prefix = format!("{key}=");
            let found = self.query.iter().rev().find_map(|it| it.strip_prefix(&prefix));
            let found = found.map(decoded).filter(|it| !it.is_empty());
            self.query.retain(|it| !it.starts_with(&prefix));
            found
        };
        let (hosts, address, ports) = (taken("host"), taken("hostaddr"), taken("port"));
        let places = address.or(hosts).unwrap_or_else(|| places.to_owned());
        let ports: Vec<u16> =
            ports.iter().flat_map(|it| it.split(',')).flat_map(str::parse).collect();
        let of_place = |(at, place): (usize, &str)| {
            let (host, port) = host_and_port(place);
            let port = ports.get(at).or(ports.first()).copied().or(port);
            if host.is_empty() && port.is_none() {
                return usual();
            }
            vec![postgres(&host, port)]
        };
        self.targets = places.split(',').enumerate().flat_map(of_place).collect();
        self
    }

    fn of_redis(mut self, places: &str) -> Url {
        let of_place = |place: &str| {
            let (host, port) = host_and_port(place);
            let host = if host.is_empty() { "localhost".to_owned() } else { host };
            Target::new(Speaks::Redis, host, port.unwrap_or(6379))
        };
        self.targets = places.split(',').map(of_place).collect();
        self
    }

    /// A socket's path stands where that of other URLs is the database, which is an option there.
    fn of_redis_socket(mut self) -> Url {
        let host = decoded(&self.path);
        self.targets = vec![Target::new(Speaks::Redis, host, 0)];
        self.scheme = "redis://".to_owned();
        let number = |it: &str| {
            let number = it.strip_prefix("db=").or(it.strip_prefix("virtual_host="));
            number.map(|it| format!("/{it}"))
        };
        self.path = self.query.iter().find_map(|it| number(it)).unwrap_or_default();
        self.query.retain(|it| number(it).is_none());
        self
    }

    /// Moves what the URL says of TLS to its targets, so that what is left of it does without.
    pub(super) fn clear(&mut self) {
        let is_redis = self.targets.iter().any(|it| it.speaks == Speaks::Redis);
        let mut tls = Vec::new();
        if let Some(scheme) = self.scheme.strip_suffix("s://")
            && ["redis", "valkey"].iter().any(|it| scheme.ends_with(it))
        {
            self.scheme = format!("{scheme}://");
            tls.push("sslmode=verify-full".to_owned());
        }
        self.query = std::mem::take(&mut self.query)
            .into_iter()
            .filter_map(|item| match of_tls(&item, is_redis) {
                None => Some(item),
                Some((said, instead)) => {
                    tls.retain(|it| !said.starts_with("sslmode=") || !it.starts_with("sslmode="));
                    tls.push(said);
                    instead.map(str::to_owned)
                }
            })
            .collect();
        self.targets.iter_mut().for_each(|it| it.tls.clone_from(&tls));
    }

    /// The URL with other places.
    pub(super) fn with(&self, fronts: &[SocketAddr]) -> String {
        let places: Vec<String> = fronts.iter().map(SocketAddr::to_string).collect();
        let mut url = format!("{}{}{}{}", self.scheme, self.user, places.join(","), self.path);
        if !self.query.is_empty() {
            url += &format!("?{}", self.query.join("&"));
        }
        url
    }
}

/// What an item of a query says of TLS, in the words of libpq, and what stands in its place for a
/// connection without TLS. `ssl` is that of JDBC, asyncpg and node-postgres, and `ssl_…` are those
/// of redis-py.
fn of_tls(item: &str, is_redis: bool) -> Option<(String, Option<&'static str>)> {
    let (key, value) = item.split_once('=')?;
    let mode = |mode: &str| format!("sslmode={mode}");
    Some(match (key, value) {
        ("ssl", "false" | "0" | "off") => return None,
        ("ssl", "true" | "1" | "on") => (mode("verify-full"), Some("ssl=false")),
        ("ssl", _) => (mode(value), Some("ssl=disable")),
        ("sslmode", "no-verify") => (mode("require"), Some("sslmode=disable")),
        ("sslmode", _) if !is_redis => (item.to_owned(), Some("sslmode=disable")),
        ("ssl_cert_reqs", "none") => (mode("require"), None),
        ("ssl_ca_certs", file) => (format!("sslrootcert={file}"), None),
        ("ssl_certfile", file) => (format!("sslcert={file}"), None),
        ("ssl_keyfile", file) => (format!("sslkey={file}"), None),
        ("sslmode" | "sslrootcert" | "sslcert" | "sslkey" | "sslcrl" | "sslnegotiation", _) => {
            (item.to_owned(), None)
        }
        _ => return None,
    })
}

/// `host`, `host:port`, `[address]:port`; a path has no port.
fn host_and_port(place: &str) -> (String, Option<u16>) {
    let place = decoded(place);
    if place.starts_with('/') {
        return (place, None);
    }
    if let Some((address, port)) = place.strip_prefix('[').and_then(|it| it.split_once(']')) {
        return (address.to_owned(), port.strip_prefix(':').and_then(|it| it.parse().ok()));
    }
    match place.split_once(':') {
        // An address of version 6 without brackets.
        Some((_, port)) if port.contains(':') => (place, None),
        Some((host, port)) => (host.to_owned(), port.parse().ok()),
        None => (place, None),
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn usual() -> Vec<Target> {
        vec![postgres("usual", None)]
    }

    /// The places of a URL, and the URL with places from port 7001 on.
    fn read(name: &str, value: &str) -> Option<(Vec<String>, String)> {
        let url = Url::read(name, value, &usual)?;
        let fronts: Vec<SocketAddr> = (0..url.targets.len())
            .map(|at| SocketAddr::from(([127, 0, 0, 1], 7001 + at as u16)))
            .collect();
        Some((url.targets.iter().map(Target::to_string).collect(), url.with(&fronts)))
    }

    #[test]
    fn of_a_url_only_the_places_change() {
        for (given, places, with) in [
            ("postgres://u:p@db/d", &["db:5432"][..], "postgres://u:p@127.0.0.1:7001/d"),
            ("postgres://u:a@b@db:6000/d", &["db:6000"], "postgres://u:a@b@127.0.0.1:7001/d"),
            (
                "postgresql://db:1,[::1]:2,c/d?sslmode=disable&a=b",
                &["db:1", "[::1]:2", "c:5432"],
                "postgresql://127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003/d?sslmode=disable&a=b",
            ),
            (
                "postgres://u@/d?host=/run/pg&port=6000&x=1",
                &["/run/pg/.s.PGSQL.6000"],
                "postgres://u@127.0.0.1:7001/d?x=1",
            ),
            (
                "postgres://u@%2Frun%2Fpg/d",
                &["/run/pg/.s.PGSQL.5432"],
                "postgres://u@127.0.0.1:7001/d",
            ),
            ("postgres:///d", &["usual:5432"], "postgres://127.0.0.1:7001/d"),
            ("db+postgresql://u@h/d", &["h:5432"], "db+postgresql://u@127.0.0.1:7001/d"),
            ("jdbc:postgresql://h:9/d?u=x", &["h:9"], "jdbc:postgresql://127.0.0.1:7001/d?u=x"),
            ("redis://", &["localhost:6379"], "redis://127.0.0.1:7001"),
            ("rediss://u:p@h/1", &["h:6379"], "rediss://u:p@127.0.0.1:7001/1"),
            (
                "redis+socket:///tmp/r.sock?virtual_host=2",
                &["/tmp/r.sock"],
                "redis://127.0.0.1:7001/2",
            ),
        ] {
            let places: Vec<String> = places.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(read("X", given), Some((places, with.to_owned())), "{given}");
        }
    }

    #[test]
    fn a_socket_is_one_of_redis_if_its_variable_says_so() {
        let given = "unix://:p@/run/redis.sock?db=1&x=2";
        let with = "redis://:p@127.0.0.1:7001/1?x=2".to_owned();
        assert_eq!(read("REDIS_URL", given), Some((vec!["/run/redis.sock".to_owned()], with)));
        assert_eq!(read("DOCKER_HOST", "unix:///var/run/docker.sock"), None);
    }

    #[test]
    fn other_values_are_none_of_ours() {
        for value in ["", "postgres", "https://db/x", "/home/u", "a://b", "mysql://u@h/d"] {
            assert_eq!(read("X", value), None, "{value}");
        }
    }
}
