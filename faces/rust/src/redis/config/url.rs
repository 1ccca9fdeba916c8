//! URLs: `redis://`, `rediss://` and `unix:`.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{Config, PORT, Protocol, Reads, Server};
use crate::config::error::Place;
use crate::config::{ConfigError, ConfigErrorKind as Kind, RootCert, SslMode, WhenFull};

/// Reads a URL.
pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
    let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
    let config = Config::new();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let config = match (scheme, rest.strip_prefix("//")) {
        ("redis" | "valkey", Some(rest)) => servers(config, rest)?,
        ("rediss" | "valkeys", Some(rest)) => servers(config.tls(SslMode::VerifyFull), rest)?,
        ("redis+sentinel" | "valkey+sentinel", Some(rest)) => sentinels(config, rest)?,
        ("rediss+sentinel" | "valkeys+sentinel", Some(rest)) => {
            sentinels(config.tls(SslMode::VerifyFull), rest)?
        }
        ("unix" | "redis+unix" | "valkey+unix", rest_of_two) => {
            socket(config, rest_of_two.unwrap_or(rest))?
        }
        _ => {
            let what = "the scheme is none of redis://, rediss://, redis+sentinel://, rediss+sentinel:// and unix:";
            return Err(fault(Kind::Scheme, what));
        }
    };
    let is_sentinel = config.sentinel.is_some();
    let asks_for_tls = config.transport.sslmode != SslMode::Disable;
    let config =
        query.split('&').filter(|pair| !pair.is_empty()).try_fold(config, |config, pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            set(config, key, &decode(value)?)
        })?;
    if asks_for_tls {
        config.check_scheme()?;
    }
    match config.sentinel.is_some() == is_sentinel {
        true => Ok(config),
        false => Err(fault(Kind::Keyword, "settings of Sentinels go with redis+sentinel://")),
    }
}

fn servers(config: Config, rest: &str) -> Result<Config, ConfigError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (mut config, hosts) = login(config, authority)?;
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        config.servers.push(server(host, PORT)?);
    }
    if !path.is_empty() {
        config.database = database(path)?;
    }
    Ok(config)
}

/// Reads `hosts/master/database`.
fn sentinels(config: Config, rest: &str) -> Result<Config, ConfigError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (mut config, hosts) = login(config, authority)?;
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        config.servers.push(server(host, SENTINEL_PORT)?);
    }
    let (master, database_part) = path.split_once('/').unwrap_or((path, ""));
    if config.servers.is_empty() || master.is_empty() {
        let what =
            "a URL of Sentinels names them and the master: redis+sentinel://host,host/mymaster";
        return Err(fault(Kind::Host, what));
    }
    if !database_part.is_empty() {
        config.database = database(database_part)?;
    }
    Ok(config.sentinel(decode(master)?))
}

/// The port of a Sentinel.
const SENTINEL_PORT: u16 = 26379;

fn socket(config: Config, rest: &str) -> Result<Config, ConfigError> {
    let (login_part, path) = match rest.find('@') {
        Some(at) => rest.split_at(at + 1),
        None => ("", rest),
    };
    let (config, _) = login(config, login_part)?;
    match path.starts_with('/') {
        true => Ok(config.unix(PathBuf::from(decode(path)?))),
        false => Err(fault(Kind::Host, "unix: must be followed by the absolute path of a socket")),
    }
}

/// Reads the part before the `@`. Returns the part behind it.
fn login(mut config: Config, authority: &str) -> Result<(Config, &str), ConfigError> {
    let Some((login, hosts)) = authority.rsplit_once('@') else { return Ok((config, authority)) };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    if !user.is_empty() {
        config.login.user = Some(decode(user)?);
    }
    if !password.is_empty() {
        config.login.password = Some(decode(password)?);
    }
    Ok((config, hosts))
}

fn server(text: &str, default_port: u16) -> Result<Server, ConfigError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest
                .split_once(']')
                .ok_or_else(|| fault(Kind::Host, "the ']' of an address in brackets is missing"))?;
            (host.to_owned(), rest.strip_prefix(':').unwrap_or(rest))
        }
        None => {
            let (host, port) = text.split_once(':').unwrap_or((text, ""));
            (decode(host)?, port)
        }
    };
    let host = if host.is_empty() { "127.0.0.1".to_owned() } else { host };
    let port = match port {
        "" => default_port,
        digits => match digits.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(fault(Kind::Port, "a port is a number from 1 to 65535")),
        },
    };
    Ok(Server::Tcp { host, port })
}

fn database(text: &str) -> Result<u32, ConfigError> {
    let number = decode(text)?.parse();
    number.map_err(|_| fault(Kind::Value, "the database behind the server is a number from 0"))
}

fn set(mut config: Config, key: &str, value: &str) -> Result<Config, ConfigError> {
    let limits = &mut config.limits;
    match key {
        "db" => config.database = database(value)?,
        "client_name" => config.client_name = Some(value.to_owned()),
        "protocol" => {
            config.protocol = match value {
                "2" => Protocol::Resp2,
                "3" => Protocol::Best,
                _ => return Err(refused(key, "2 or 3")),
            };
        }
        "cluster" => config.is_cluster = flag(key, value)?,
        "replica_reads" => config.replica_reads = flag(key, value)?,
        "sentinel_username" => config = config.sentinel_user(value),
        "sentinel_password" => config = config.sentinel_password(value),
        "reads" => config = config.reads(reads(key, value)?),
        "repeat_reads" => config.repeat_reads = flag(key, value)?,
        "cache" => config.cache_bytes = size(key, value)?,
        "sslmode" => {
            config = config.tls(match value {
                "disable" => SslMode::Disable,
                "require" => SslMode::Require,
                "verify-ca" => SslMode::VerifyCa,
                "verify-full" => SslMode::VerifyFull,
                _ => return Err(refused(key, "disable, require, verify-ca or verify-full")),
            });
        }
        "sslrootcert" => {
            config.transport.sslrootcert = Some(match value {
                "system" => RootCert::System,
                file => RootCert::File(file.into()),
            });
        }
        "sslcert" => config.transport.sslcert = Some(value.into()),
        "sslkey" => config.transport.sslkey = Some(value.into()),
        "sslsni" => config.transport.sslsni = flag(key, value)?,
        "connect_timeout_ms" => limits.connect_timeout = time(key, value)?,
        "request_timeout_ms" => {
            limits.request_timeout = if value == "0" { None } else { Some(time(key, value)?) };
        }
        "wait_timeout_ms" => limits.wait_timeout = time(key, value)?,
        "idle_timeout_ms" => limits.idle_timeout = time(key, value)?,
        "stall_timeout_ms" => limits.stall_timeout = time(key, value)?,
        "in_flight_max" => limits.in_flight_max = number(key, value)?,
        "in_flight_bytes_max" => limits.in_flight_bytes_max = number(key, value)?,
        "queue_max" => limits.queue_max = number(key, value)?,
        "queue_bytes_max" => limits.queue_bytes_max = number(key, value)?,
        "waiting_bytes_max" => limits.waiting_bytes_max = number(key, value)?,
        "reply_bytes_max" => limits.reply_bytes_max = number(key, value)?,
        "argument_bytes_max" => limits.argument_bytes_max = number(key, value)?,
        "connections_max" => limits.connections_max = number(key, value)?,
        "attempts_max" => limits.attempts_max = number(key, value)? as u32,
        "redirects_max" => limits.redirects_max = number(key, value)? as u32,
        "when_full" => {
            limits.when_full = match value {
                "wait" => WhenFull::Wait,
                "refuse" => WhenFull::Refuse,
                _ => return Err(refused(key, "wait or refuse")),
            };
        }
        // The key may be a part of a password that lacks an escape.
        _ => return Err(fault(Kind::Keyword, "a key behind the question mark isn't known")),
    }
    Ok(config)
}

fn reads(key: &str, value: &str) -> Result<Reads, ConfigError> {
    Reads::of(value).ok_or_else(|| refused(key, "master, replica or prefer_replica"))
}

fn flag(key: &str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "0" | "false" | "no" => Ok(false),
        "1" | "true" | "yes" => Ok(true),
        _ => Err(refused(key, "0 or 1")),
    }
}

fn number(key: &str, value: &str) -> Result<usize, ConfigError> {
    let number = value.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| refused(key, "a number from 1"))
}

/// A number of bytes, with a unit if it has one.
fn size(key: &str, value: &str) -> Result<usize, ConfigError> {
    let end = value.find(|it: char| !it.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(end);
    let unit: Option<usize> = match unit {
        "" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let number = digits.parse::<usize>().ok();
    let bytes = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| refused(key, "a number of bytes, or of KiB, MiB or GiB: 64MiB"))
}

fn time(key: &str, value: &str) -> Result<Duration, ConfigError> {
    let millis = value.parse().ok().filter(|&millis| millis > 0);
    millis.map(Duration::from_millis).ok_or_else(|| refused(key, "milliseconds, at least 1"))
}

fn refused(key: &str, wants: &str) -> ConfigError {
    fault(Kind::Value, format!("{key} takes {wants}"))
}

fn decode(text: &str) -> Result<String, ConfigError> {
    let escaped = text.bytes().enumerate().filter(|&(_, byte)| byte == b'%');
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    if escaped.into_iter().any(|(at, _)| !is_hex(at + 1) || !is_hex(at + 2)) {
        let what = "a percent sign is not followed by two hexadecimal digits: write %25 for it";
        return Err(fault(Kind::PercentEncoding, what));
    }
    let text = percent_decode_str(text).decode_utf8();
    Ok(text
        .map_err(|_| fault(Kind::PercentEncoding, "the percent-encoded bytes aren't UTF-8"))?
        .into_owned())
}

fn fault(kind: Kind, what: impl Into<std::borrow::Cow<'static, str>>) -> ConfigError {
    ConfigError::new(kind, Place::Url, what)
}

/// All but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(super) fn redacted(config: &Config) -> String {
    let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let mut login = config.login.user.as_deref().map(encode).unwrap_or_default();
    if config.login.password.is_some() {
        login += ":***";
    }
    if !login.is_empty() {
        login += "@";
    }
    let servers = config.servers();
    if let [Server::Unix(path)] = &servers[..] {
        let database =
            if config.database > 0 { format!("?db={}", config.database) } else { String::new() };
        return format!("unix:{login}{}{database}", path.display());
    }
    let tls = if config.transport.sslmode == SslMode::Disable { "" } else { "s" };
    let hosts: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let database =
        if config.database > 0 { format!("/{}", config.database) } else { String::new() };
    let (scheme, master) = match &config.sentinel {
        Some(sentinel) => ("+sentinel", format!("/{}", encode(&sentinel.master))),
        None => ("", String::new()),
    };
    format!("redis{tls}{scheme}://{login}{}{master}{database}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::super::{Limits, Login};
    use super::*;

    #[test]
    fn a_url_says_who_where_and_which_database() {
        let config = parse("redis://app:p%40ss@cache:7000/3?client_name=till").unwrap();
        assert_eq!(config.servers, [Server::Tcp { host: "cache".into(), port: 7000 }]);
        assert_eq!(config.login.user.as_deref(), Some("app"));
        assert_eq!(config.login.password.as_deref(), Some("p@ss"));
        assert_eq!((config.database, config.client_name.as_deref()), (3, Some("till")));
        assert_eq!(config.transport.sslmode, SslMode::Disable);
    }

    #[test]
    fn what_a_url_leaves_out_has_its_default() {
        let config = parse("redis://").unwrap();
        assert_eq!(config.servers(), [Server::Tcp { host: "127.0.0.1".into(), port: 6379 }]);
        assert_eq!((config.login, config.database), (Login::default(), 0));
        let config = parse("redis://:secret@[::1]").unwrap();
        assert_eq!(config.servers(), [Server::Tcp { host: "::1".into(), port: 6379 }]);
        assert_eq!(config.login.password.as_deref(), Some("secret"));
    }

    #[test]
    fn rediss_verifies_the_server_and_its_name() {
        let config = parse("rediss://cache").unwrap();
        assert_eq!(config.transport().sslmode, SslMode::VerifyFull);
        assert_eq!(config.transport().sslrootcert, Some(RootCert::System));
        let config = parse("rediss://cache?sslmode=require").unwrap();
        assert_eq!(config.transport().sslmode, SslMode::Require);
        assert_eq!(config.transport().sslrootcert, None);
    }

    #[test]
    fn a_url_of_sentinels_names_them_the_master_and_two_logins() {
        let text = "redis+sentinel://app:p@s1,s2:7/my%20master/3?sentinel_username=w\
                    &sentinel_password=q&reads=replica";
        let config = parse(text).unwrap();
        let tcp = |host: &str, port| Server::Tcp { host: host.into(), port };
        assert_eq!(config.servers, [tcp("s1", 26379), tcp("s2", 7)]);
        assert_eq!(
            (config.login.user.as_deref(), config.login.password.as_deref()),
            (Some("app"), Some("p"))
        );
        assert_eq!((config.database, config.reads_from()), (3, Reads::Replica));
        let sentinel = config.sentinel.as_ref().unwrap();
        assert_eq!(sentinel.master, "my master");
        assert_eq!(sentinel.login.user.as_deref(), Some("w"));
        assert_eq!(sentinel.login.password.as_deref(), Some("q"));
        assert_eq!(config.redacted_url(), "redis+sentinel://app:***@s1:26379,s2:7/my%20master/3");
        assert_eq!(
            parse("rediss+sentinel://s/m").unwrap().transport().sslmode,
            SslMode::VerifyFull
        );
        for text in ["redis+sentinel:///m", "redis+sentinel://s", "redis://h?reads=replica"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_unix_socket_is_its_path() {
        for text in ["unix:/run/r.sock", "unix:///run/r.sock", "redis+unix:///run/r.sock"] {
            assert_eq!(
                parse(text).unwrap().servers,
                [Server::Unix("/run/r.sock".into())],
                "{text}"
            );
        }
        let config = parse("unix:me:x@/run/r.sock?db=2").unwrap();
        assert_eq!((config.login.user.as_deref(), config.database), (Some("me"), 2));
    }

    #[test]
    fn no_error_shows_a_value() {
        for text in [
            "http://secret",
            "redis://h:secret",
            "redis://h/secret",
            "redis://h?secret=1",
            "redis://h?in_flight_max=secret",
            "redis://u:sec%ret@h",
            "redis://u:p@[secret",
            "unix:secret",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret") && !error.contains("ret@"), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    /// docs/reference/configuration.md has each key with its default, each limit, and no other key.
    #[test]
    fn the_page_of_settings_says_what_a_url_can_say() {
        const PAGE: &str =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let page = std::fs::read_to_string(PAGE).unwrap();
        let code = |cell: &str| cell.split('`').nth(1).map(str::to_owned);
        let rows = page.lines().skip_while(|line| !line.starts_with("| key in a URL |")).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|')).map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            (code(cells[1]), code(cells[2]), code(cells[6]))
        });
        let rows: Vec<_> = rows.collect();

        let keys: BTreeSet<&str> = rows.iter().filter_map(|row| row.0.as_deref()).collect();
        let source = include_str!("url.rs").split_once("fn set(").unwrap().1;
        let arms = source.lines().take_while(|line| *line != "}");
        let arms = arms.filter_map(|line| line.strip_prefix("        \"")?.split('"').next());
        assert_eq!(keys, arms.collect());

        for (key, _, default) in &rows {
            if let (Some(key), Some(default)) = (key, default) {
                let url = format!("redis://h?{key}={default}");
                assert_eq!(parse(&url).unwrap(), parse("redis://h").unwrap(), "{url}");
            }
        }

        let limits = format!("{:#?}", Limits::default());
        let limits = limits.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        for (limit, _) in limits {
            assert!(rows.iter().any(|row| row.1.as_deref() == Some(limit)), "{limit}");
        }
    }

    #[test]
    fn the_redacted_url_can_be_read_again() {
        for text in ["redis://a:***@h:1,g:2/4", "rediss://h:6379", "unix:/run/r.sock?db=3"] {
            assert_eq!(parse(text).unwrap().redacted_url(), text);
        }
        assert_eq!(parse("redis://:pw@h").unwrap().redacted_url(), "redis://:***@h:6379");
    }
}
