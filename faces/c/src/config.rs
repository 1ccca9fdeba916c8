//! The settings of a client of PostgreSQL: a URL or `keyword=value` pairs, libpq's environment, a
//! service. The keywords and their rules are the core's.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onetrip_postgres::client::connect::keywords::{
    Form, KEYWORDS, Keyword, NEGOTIATIONS, NOT_IN_PYTHON, ORDERS, SSL_MODES, SWITCH, TARGETS,
    UNSUPPORTED, lacking_in, says,
};
use onetrip_postgres::client::connect::rules::broken;
use onetrip_postgres::client::connect::{
    Host, LoadBalanceHosts, Settings, SslMode, SslNegotiation, TargetSessionAttrs, passfile,
    service,
};

use crate::tls::Tls;

/// What is wrong with the settings, in one line. It repeats no value that may be a password.
pub(crate) type Wrong = String;

/// A server to try.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The one of `hostaddr`, which saves the lookup.
    pub(crate) address: Option<IpAddr>,
}

impl Endpoint {
    /// The file of its socket, if it is one.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        (self.address.is_none() && self.host.starts_with('/'))
            .then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }

    /// Its address, where nothing has to be looked up.
    pub(crate) fn known(&self) -> Option<IpAddr> {
        self.address.or_else(|| self.host.parse().ok())
    }

    /// What it is, for the plan, and as a letter.
    fn kind(&self) -> (Host, char) {
        match (self.socket(), self.known()) {
            (Some(_), _) => (Host::Socket, 's'),
            (_, Some(_)) => (Host::Address, 'a'),
            _ => (Host::Name, 'n'),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.socket(), self.host.contains(':')) {
            (Some(path), _) => path.display().fmt(f),
            (None, true) => write!(f, "[{}]:{}", self.host, self.port),
            (None, false) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What a client was told.
#[derive(Clone, Default)]
pub(crate) struct Config {
    texts: Vec<(Keyword, String)>,
    pub(crate) endpoints: Vec<Endpoint>,
    user: String,
    dbname: String,
}

/// Passwords are not shown.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// What the engine is told of a connection, and the policy of the pool, under the same names.
const OF_ENGINE: &[&str] = &[
    "target_session_attrs",
    "scram_iterations_max",
    "in_flight_max",
    "in_flight_bytes_max",
    "queue_max",
    "queue_bytes_max",
    "stall_timeout_ms",
    "prepare_threshold",
];
const OF_POOL: &[&str] = &[
    "connections_max",
    "connections_min",
    "waiting_max",
    "wait_timeout_ms",
    "idle_timeout_ms",
    "lifetime_ms",
    "slow_head_ms",
    "yield_after_ms",
];

/// Keywords that this face does not carry out, and so does not have.
fn is_known(keyword: Keyword) -> bool {
    let lacks = [Keyword::Reads, Keyword::MaxLagMs, Keyword::Sslpassword];
    keyword == Keyword::RequestTimeoutMs
        || !NOT_IN_PYTHON.contains(&keyword) && !lacks.contains(&keyword)
}

impl Config {
    pub(crate) fn read(text: &str) -> Result<Config, Wrong> {
        let mut config = Config::default();
        for (name, value) in pairs(text)? {
            config.set(&name, &value)?;
        }
        config.add_service()?;
        config.add_environment()?;
        config.add_files();
        let user = config.text(Keyword::User).map(str::to_owned);
        config.user = match user {
            Some(user) => user,
            None => std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).map_err(|_| {
                "the settings name no user, and neither do USER and LOGNAME".to_owned()
            })?,
        };
        config.dbname =
            config.text(Keyword::Dbname).map_or_else(|| config.user.clone(), str::to_owned);
        config.endpoints = config.endpoints()?;
        config.check()?;
        Ok(config)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        if let Some((_, what)) = UNSUPPORTED.iter().find(|row| row.0 == name) {
            return Err([name, says::NEEDS, what, says::LACKING].concat());
        }
        let looks_like_one =
            name.len() < 40 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let Some(keyword) = Keyword::named(name).filter(|it| is_known(*it)) else {
            let named = if looks_like_one { name } else { "of this name" };
            return Err([says::UNKNOWN, named].concat());
        };
        if value.is_empty() {
            return Ok(());
        }
        let value = checked(keyword, value)?;
        self.texts.retain(|(other, _)| *other != keyword);
        self.texts.push((keyword, value));
        Ok(())
    }

    fn set_if_unsaid(&mut self, keyword: Keyword, value: &str) -> Result<(), Wrong> {
        match self.text(keyword) {
            Some(_) => Ok(()),
            None => self.set(keyword.name(), value),
        }
    }

    /// What was set, if it was.
    pub(crate) fn text(&self, keyword: Keyword) -> Option<&str> {
        self.texts.iter().find(|it| it.0 == keyword).map(|it| &*it.1)
    }

    /// What was set, or what holds otherwise.
    pub(crate) fn said(&self, keyword: Keyword) -> &str {
        self.text(keyword).unwrap_or(keyword.row().default)
    }

    pub(crate) fn is_on(&self, keyword: Keyword) -> bool {
        self.said(keyword) == "1"
    }

    pub(crate) fn number(&self, keyword: Keyword) -> u64 {
        self.said(keyword).parse().unwrap_or(0)
    }

    /// The settings of the service, where nothing else is said.
    fn add_service(&mut self) -> Result<(), Wrong> {
        let said = |keyword: Keyword| {
            let own = self.text(keyword).map(str::to_owned);
            own.or_else(|| variable(keyword.row().variable))
        };
        let Some(name) = said(Keyword::Service) else { return Ok(()) };
        let named = said(Keyword::Servicefile);
        let first = named.clone().map(PathBuf::from).or_else(|| in_home(".pg_service.conf"));
        let common = variable("PGSYSCONFDIR").unwrap_or_else(|| "/etc/postgresql-common".into());
        let files = [first, Some(Path::new(&common).join("pg_service.conf"))];
        for file in files.iter().flatten() {
            let text = match std::fs::read(file) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) if named.as_deref().is_some_and(|named| Path::new(named) == file) => {
                    return Err(format!("this service file can't be read: {}", file.display()));
                }
                Err(_) => continue,
            };
            let wrong =
                |why: &dyn fmt::Display| format!("in the service file {}: {why}", file.display());
            let Some(lines) = service::settings(&text, &name).map_err(|why| wrong(&why))? else {
                continue;
            };
            let mut seen = Vec::new();
            for (number, name, value) in lines {
                let known = Keyword::named(name);
                // The first line of a keyword counts, as in libpq.
                if seen.contains(&name) || known.is_some_and(|it| self.text(it).is_some()) {
                    continue;
                }
                seen.push(name);
                self.set(name, value).map_err(|why| wrong(&format!("line {number}: {why}")))?;
            }
            return Ok(());
        }
        Err("the service has no section in its files".into())
    }

    /// What the environment has, where nothing else is said.
    fn add_environment(&mut self) -> Result<(), Wrong> {
        for (name, harmless, what) in lacking_in(|row| is_known(row.keyword)) {
            if variable(name).is_some_and(|value| value != harmless) {
                return Err(format!(
                    "the environment variable {name} asks for {what}, which isn't in this \
                     version: unset it"
                ));
            }
        }
        for row in KEYWORDS.iter().filter(|row| !row.variable.is_empty() && is_known(row.keyword)) {
            if let Some(value) = variable(row.variable) {
                let wrong = |why| format!("{}: {why}", row.variable);
                self.set_if_unsaid(row.keyword, &value).map_err(wrong)?;
            }
        }
        match variable("PGREQUIRESSL") {
            Some(value) if value.starts_with('1') => {
                self.set_if_unsaid(Keyword::Sslmode, "require")
            }
            _ => Ok(()),
        }
    }

    /// The files in `~/.postgresql` that exist.
    fn add_files(&mut self) {
        let of = |name: &str| {
            let path = in_home(".postgresql")?.join(name);
            path.exists().then(|| path.to_string_lossy().into_owned())
        };
        let uses_system = self.text(Keyword::Sslrootcert) == Some("system");
        if uses_system && self.text(Keyword::Sslmode).is_none() {
            let _ = self.set("sslmode", "verify-full");
        }
        let files = [
            (Keyword::Sslcert, "postgresql.crt", self.said(Keyword::Sslcertmode) != "disable"),
            (Keyword::Sslrootcert, "root.crt", true),
            (Keyword::Sslcrl, "root.crl", !uses_system),
        ];
        for (keyword, name, is_wanted) in files {
            if let Some(path) = of(name).filter(|_| is_wanted) {
                let _ = self.set_if_unsaid(keyword, &path);
            }
        }
        if let Some(path) = of("postgresql.key").filter(|_| self.text(Keyword::Sslcert).is_some()) {
            let _ = self.set_if_unsaid(Keyword::Sslkey, &path);
        }
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>, Wrong> {
        let list = |keyword| {
            let text = self.text(keyword).unwrap_or_default();
            text.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>()
        };
        let (mut names, addresses) = (list(Keyword::Host), list(Keyword::Hostaddr));
        let gives = self.text(Keyword::Hostaddr).is_some();
        if gives && self.text(Keyword::Host).is_none() {
            names = vec![String::new(); addresses.len()];
        }
        if gives && names.len() != addresses.len() {
            let (hosts, given) = (names.len(), addresses.len());
            return Err(format!("{hosts} hosts and {given} hostaddr values don't match"));
        }
        let ports: Vec<_> = self.said(Keyword::Port).split(',').collect();
        if ports.len() != 1 && ports.len() != names.len() {
            return Err("there is one port for all hosts, or one for each".into());
        }
        let mut found = Vec::new();
        for (place, name) in names.into_iter().enumerate() {
            let given = addresses.get(place).filter(|it| gives && !it.is_empty());
            let address = given.map(|it| it.parse()).transpose();
            let address = address
                .map_err(|_| "hostaddr takes IPv4 or IPv6 addresses, not names".to_owned())?;
            let host = match (name.is_empty(), given) {
                (false, _) => name,
                (true, Some(address)) => address.clone(),
                (true, None) => "localhost".into(),
            };
            let port = ports.get(place).unwrap_or(&ports[0]);
            let port = if port.is_empty() { "5432" } else { port };
            let port = port.parse().ok().filter(|it| *it > 0);
            let port = port.ok_or("a port is a number from 1 to 65535")?;
            found.push(Endpoint { host, port, address });
        }
        Ok(found)
    }

    fn check(&self) -> Result<(), Wrong> {
        let said = |name: &str| {
            let keyword = Keyword::named(name)?;
            let always = [Keyword::Sslmode, Keyword::Sslnegotiation, Keyword::Sslcertmode];
            let has_default = always.contains(&keyword);
            self.text(keyword).or_else(|| has_default.then(|| self.said(keyword)))
        };
        if let Some(why) = broken(said) {
            return Err(why.into());
        }
        let is_over_tcp = self.endpoints.iter().any(|it| it.socket().is_none());
        if self.sslmode() >= SslMode::VerifyCa
            && is_over_tcp
            && self.text(Keyword::Sslrootcert).is_none()
        {
            return Err("this sslmode verifies the server, and there is no certificate to trust: \
                name a file in sslrootcert, or set sslrootcert=system"
                .into());
        }
        self.tls().versions().map(drop)
    }

    fn sslmode(&self) -> SslMode {
        word(SSL_MODES, &SslMode::ALL, self.said(Keyword::Sslmode))
    }

    /// How TLS is set up.
    pub(crate) fn tls(&self) -> Tls {
        let file = |keyword| self.text(keyword).map(PathBuf::from);
        let sends = self.said(Keyword::Sslcertmode) != "disable";
        let mode = self.sslmode();
        let is_required = mode == SslMode::Require && self.text(Keyword::Sslrootcert).is_some();
        Tls {
            checks_name: mode == SslMode::VerifyFull,
            verifies: mode >= SslMode::VerifyCa || is_required,
            uses_system: self.text(Keyword::Sslrootcert) == Some("system"),
            root: file(Keyword::Sslrootcert),
            certificate: file(Keyword::Sslcert).filter(|_| sends),
            key: file(Keyword::Sslkey),
            revoked: file(Keyword::Sslcrl),
            sends_name: self.is_on(Keyword::Sslsni),
            oldest: self.said(Keyword::SslMinProtocolVersion).to_owned(),
            newest: self.said(Keyword::SslMaxProtocolVersion).to_owned(),
            alpn: Some(b"postgresql".to_vec()),
        }
    }

    /// The plan of how to come to a server.
    pub(crate) fn plan(&self, seed: u64, scouts: bool) -> Settings {
        let seconds = self.number(Keyword::ConnectTimeout);
        Settings {
            hosts: self.endpoints.iter().map(|it| it.kind().0).collect(),
            sslmode: self.sslmode(),
            sslnegotiation: word(
                NEGOTIATIONS,
                &SslNegotiation::ALL,
                self.said(Keyword::Sslnegotiation),
            ),
            target_session_attrs: word(
                TARGETS,
                &TargetSessionAttrs::ALL,
                self.said(Keyword::TargetSessionAttrs),
            ),
            load_balance_hosts: word(
                ORDERS,
                &LoadBalanceHosts::ALL,
                self.said(Keyword::LoadBalanceHosts),
            ),
            connect_timeout: Some(seconds).filter(|it| *it > 0).map(Duration::from_secs),
            seed,
            identifies: true,
            scouts,
        }
    }

    /// What the policy of the pool is told.
    pub(crate) fn of_pool(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put_said(OF_POOL, &mut out);
        if matches!(self.said(Keyword::IdleOrder), "fifo" | "oldest") {
            put(&mut out, "oldest_first", "1");
        }
        let letters: String = self.endpoints.iter().map(|it| it.kind().1).collect();
        put(&mut out, "hosts", &letters);
        put(&mut out, "target_session_attrs", self.said(Keyword::TargetSessionAttrs));
        put(&mut out, "connects", "1");
        out
    }

    /// What the engine is told of a connection to this server. `verified`: its certificate was
    /// found good. `binding`: what SCRAM binds to its certificate.
    pub(crate) fn of_engine(
        &self,
        of: &Endpoint,
        is_local: bool,
        verified: bool,
        binding: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, "user", &self.user);
        put(&mut out, "database", &self.dbname);
        put(&mut out, "secure_channel", if verified || is_local { "1" } else { "0" });
        put(&mut out, "allow_cleartext", self.said(Keyword::AllowPlainPassword));
        put(&mut out, "statements_max", self.said(Keyword::PreparedMax));
        let own = self.text(Keyword::Password).map(str::to_owned);
        if let Some(password) = own.or_else(|| self.password_of_file(of)) {
            put(&mut out, "password", &password);
        }
        if let Some(binding) = binding.filter(|_| self.said(Keyword::ChannelBinding) != "disable") {
            let hex: String = binding.iter().map(|byte| format!("{byte:02x}")).collect();
            put(&mut out, "channel_binding", &hex);
        }
        self.put_said(OF_ENGINE, &mut out);
        let application = self.text(Keyword::ApplicationName);
        if let Some(name) = application.or(self.text(Keyword::FallbackApplicationName)) {
            put(&mut out, "parameter.application_name", name);
        }
        if let Some(options) = self.text(Keyword::Options) {
            put(&mut out, "parameter.options", options);
        }
        out
    }

    fn put_said(&self, names: &[&str], out: &mut Vec<u8>) {
        for (keyword, value) in self.texts.iter().filter(|it| names.contains(&it.0.name())) {
            put(out, keyword.name(), value);
        }
    }

    /// What the password file has for a server. One that others can read is not used.
    fn password_of_file(&self, of: &Endpoint) -> Option<String> {
        use std::os::unix::fs::MetadataExt;
        let named = self.text(Keyword::Passfile).map(PathBuf::from);
        let file = named.or_else(|| in_home(".pgpass"))?;
        let metadata = std::fs::metadata(&file).ok()?;
        if !metadata.is_file() || metadata.mode() & 0o077 != 0 {
            return None;
        }
        let text = std::fs::read(file).ok()?;
        let port = of.port.to_string();
        let wanted = [&*of.host, &port, &self.dbname, &self.user];
        passfile::password(&String::from_utf8_lossy(&text), wanted)
    }
}

fn word<T: Copy>(words: &[&str], values: &[T], word: &str) -> T {
    let place = words.iter().position(|it| *it == word).unwrap_or_default();
    values[place.min(values.len() - 1)]
}

/// Adds a name and its value, each ended by a zero byte. None of them has one: `checked`.
pub(crate) fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    for text in [name, value] {
        out.extend_from_slice(text.as_bytes());
        out.push(0);
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn in_home(name: &str) -> Option<PathBuf> {
    variable("HOME").map(|home| Path::new(&home).join(name))
}

/// A value as it is used.
fn checked(keyword: Keyword, text: &str) -> Result<String, Wrong> {
    let row = keyword.row();
    let name = row.name;
    let least = match row.form {
        _ if text.contains('\0') => return Err(format!("{name} has a zero byte in it")),
        Form::Text => return Ok(text.to_owned()),
        Form::Words(["disable", "prefer", "require"]) if text == "require" => {
            return Err(format!("{name}=require{}{}{}", says::NEEDS, "a promise", says::LACKING));
        }
        Form::Words(words) if words.contains(&text) => return Ok(text.to_owned()),
        Form::Words(words) => return Err(format!("{name} {}{}", says::ONE_OF, words.join(", "))),
        Form::Switch => {
            let at = SWITCH.iter().position(|word| *word == text.to_lowercase());
            let wrong = || format!("{name} {}{}", says::ONE_OF, SWITCH.join(", "));
            return Ok((at.ok_or_else(wrong)? % 2).to_string());
        }
        Form::From(least) => least,
        Form::Limit => 0,
    };
    match text.parse::<u64>() {
        Ok(number) if number < least.into() => Err(format!("{name} {}{least}", says::AT_LEAST)),
        Ok(number) if row.form == Form::Limit && number > i32::MAX as u64 => {
            Err(format!("{name} {}{}", says::AT_MOST, i32::MAX))
        }
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err(format!("{name} {}", says::WHOLE)),
    }
}

type Pairs = Vec<(String, String)>;

/// The settings of a connection string, in their order.
fn pairs(text: &str) -> Result<Pairs, Wrong> {
    match ["postgres://", "postgresql://"].iter().find_map(|it| text.strip_prefix(it)) {
        Some(rest) => of_url(rest),
        None if text.split(['=', ' ', '\'']).next().is_some_and(|it| it.contains("://")) => {
            Err("the scheme must be postgres:// or postgresql://".into())
        }
        None => of_keywords(text),
    }
}

fn of_url(text: &str) -> Result<Pairs, Wrong> {
    let (mut found, mut rest) = (Pairs::new(), text);
    let mut add = |name: &str, value: &str| {
        found.push((name.to_owned(), decoded(value)?));
        Ok::<_, Wrong>(())
    };
    if let Some(at) = text.find(['@', '/', '?']).filter(|&at| text[at..].starts_with('@')) {
        let (user, password) = text[..at].split_once(':').unwrap_or((&text[..at], ""));
        add("user", user)?;
        add("password", password)?;
        rest = &text[at + 1..];
    }
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, dbname) = address.split_once('/').unwrap_or((address, ""));
    if hosts.contains('@') || dbname.contains('@') {
        return Err(
            "an unescaped '@' stands behind the user's part: in a user name, a password or \
             a database name write %40 for '@', %3A for ':' and %2F for '/'"
                .into(),
        );
    }
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        let (name, port) = host_and_port(host)?;
        names.push(name);
        ports.push(port);
    }
    add("host", &names.join(","))?;
    if ports.iter().any(|port| !port.is_empty()) {
        add("port", &ports.join(","))?;
    }
    add("dbname", dbname)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        // JDBC's way to require TLS, as in libpq.
        let pair = if pair == "ssl=true" { "sslmode=require" } else { pair };
        let (name, value) = pair.split_once('=').ok_or("a parameter behind '?' has no '='")?;
        add(&decoded(name)?, value)?;
    }
    Ok(found)
}

/// The name and the port of a host of a URL; an IPv6 address stands in brackets.
pub(crate) fn host_and_port(text: &str) -> Result<(&str, &str), Wrong> {
    let Some(inside) = text.strip_prefix('[') else {
        return Ok(text.split_once(':').unwrap_or((text, "")));
    };
    let (address, behind) = inside.split_once(']').ok_or("the ']' of an address is missing")?;
    match behind.strip_prefix(':') {
        Some(port) => Ok((address, port)),
        None if behind.is_empty() => Ok((address, "")),
        None => Err("behind the ']' of an address only a port can follow".into()),
    }
}

pub(crate) fn decoded(text: &str) -> Result<String, Wrong> {
    const WRONG: &str = "a percent sign in the connection string stands before two hexadecimal \
        digits, other than 00; the sign itself is %25";
    for (at, _) in text.match_indices('%') {
        match text.as_bytes().get(at + 1..at + 3) {
            Some(digits) if digits != b"00" && digits.iter().all(u8::is_ascii_hexdigit) => {}
            _ => return Err(WRONG.into()),
        }
    }
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| "the percent-encoded bytes aren't UTF-8")?.into_owned())
}

/// `keyword = value …`. A value with spaces stands between single quotes; a backslash quotes the
/// next character.
fn of_keywords(text: &str) -> Result<Pairs, Wrong> {
    let (mut found, mut rest) = (Pairs::new(), text.trim_start());
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        let behind = rest[end..].trim_start().strip_prefix('=');
        let behind = behind.ok_or(
            "'=' is missing behind a keyword; a value with a space in it needs single quotes",
        )?;
        let mut value = String::new();
        let behind = behind.trim_start();
        let quoted = behind.strip_prefix('\'');
        let of = quoted.unwrap_or(behind);
        let (mut chars, mut left) = (of.char_indices(), None);
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
                '\'' if quoted.is_some() => {
                    left = Some(at + 1);
                    break;
                }
                space if quoted.is_none() && space.is_whitespace() => {
                    left = Some(at);
                    break;
                }
                other => value.push(other),
            }
        }
        if quoted.is_some() && left.is_none() {
            return Err("a closing quote is missing".into());
        }
        rest = of[left.unwrap_or(of.len())..].trim_start();
        found.push((name, value));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_url_and_keywords_say_the_same() {
        let url = "postgresql://me:p%40ss@a:1,[::1]:2/shop?sslmode=require&connect_timeout=3";
        let words = r"host=a,::1 port=1,2 user=me password='p@ss' dbname = shop sslmode=require
            connect_timeout=3";
        for text in [url, words] {
            let config = Config::read(text).unwrap();
            let shown: Vec<_> = config.endpoints.iter().map(Endpoint::to_string).collect();
            assert_eq!(shown, ["a:1", "[::1]:2"]);
            assert_eq!(config.text(Keyword::Password), Some("p@ss"));
            assert_eq!((&*config.user, &*config.dbname), ("me", "shop"));
            assert_eq!(config.number(Keyword::ConnectTimeout), 3);
            assert!(!format!("{config:?}").contains("p@ss"));
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_its_value_is_not() {
        for (text, why) in [
            ("mysql://h/d", "the scheme must be postgres:// or postgresql://"),
            ("user=me colour=blue", "there is no keyword colour"),
            ("user=me host=a port=0", "a port is a number from 1 to 65535"),
            ("user=me in_flight_max=0", "in_flight_max must be at least 1"),
            ("user=me when_full=wait", "there is no keyword when_full"),
            (
                "user=me password=a b",
                "'=' is missing behind a keyword; a value with a space in it \
              needs single quotes",
            ),
            (
                "user=me replication=1",
                "replication needs the replication protocol, which isn't in \
              this version: remove it",
            ),
        ] {
            assert_eq!(Config::read(text).unwrap_err(), why);
        }
    }
}
