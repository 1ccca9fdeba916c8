//! What a keyword makes of its text.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{ConfigError, ConfigErrorKind as Kind, Place};
use super::keyword::Keyword;
use super::{
    ChannelBinding, Config, IdleOrder, LoadBalanceHosts, LogStatements, ProtocolVersion,
    RequireAuth, RootCert, Settings, SslMode, SslNegotiation, TargetSessionAttrs, TlsVersion,
    WhenFull,
};

impl Config {
    /// Sets a keyword from its text. As in libpq an empty text means the default, but counts as
    /// set.
    pub(super) fn set(
        &mut self,
        keyword: Keyword,
        text: &str,
        place: Place,
    ) -> Result<(), ConfigError> {
        self.given |= keyword.bit();
        let value = Value { keyword, text, place };
        let settings = &mut self.settings;
        let defaults = Settings::default();
        match keyword {
            Keyword::Host => self.hosts = list(text).map(str::to_owned).collect(),
            Keyword::Hostaddr => {
                self.hostaddrs =
                    list(text).map(|address| value.address(address)).collect::<Result<_, _>>()?;
            }
            Keyword::Port => {
                self.ports = list(text).map(|port| value.port(port)).collect::<Result<_, _>>()?;
            }
            Keyword::Dbname => self.dbname = text.to_owned(),
            Keyword::User => self.user = text.to_owned(),
            Keyword::Password => self.password = text.to_owned(),
            Keyword::Passfile => self.passfile = value.filled().map(PathBuf::from),
            Keyword::Options => self.options = value.filled().map(str::to_owned),
            Keyword::ApplicationName => {
                settings.application_name = value.filled().map(str::to_owned);
            }
            Keyword::FallbackApplicationName => {
                self.fallback_application_name = value.filled().map(str::to_owned);
            }
            Keyword::ClientEncoding => value.one_of(&[
                ("", ()),
                ("auto", ()),
                ("UTF8", ()),
                ("utf8", ()),
                ("UTF-8", ()),
                ("utf-8", ()),
                ("unicode", ()),
            ])?,
            Keyword::ConnectTimeout => {
                settings.connect_timeout =
                    value.duration(Duration::from_secs, defaults.connect_timeout)?;
            }
            Keyword::Keepalives => {
                settings.keepalives = value.number()?.is_none_or(|number| number != 0);
            }
            Keyword::KeepalivesIdle => {
                settings.keepalives_idle =
                    value.duration(Duration::from_secs, defaults.keepalives_idle)?;
            }
            Keyword::KeepalivesInterval => {
                settings.keepalives_interval =
                    value.duration(Duration::from_secs, defaults.keepalives_interval)?;
            }
            Keyword::KeepalivesCount => {
                settings.keepalives_count = match value.number()? {
                    None => defaults.keepalives_count,
                    Some(..=0) => None,
                    Some(count) => Some(u32::try_from(count).unwrap_or(u32::MAX)),
                };
            }
            Keyword::TcpUserTimeout => {
                settings.tcp_user_timeout =
                    value.duration(Duration::from_millis, defaults.tcp_user_timeout)?;
            }
            Keyword::TargetSessionAttrs => {
                settings.target_session_attrs = value.one_of(TARGET_SESSION_ATTRS)?;
            }
            Keyword::LoadBalanceHosts => {
                settings.load_balance_hosts = value.one_of(LOAD_BALANCE_HOSTS)?;
            }
            Keyword::MinProtocolVersion => {
                settings.min_protocol_version = value.one_of(&PROTOCOL_VERSIONS)?;
            }
            Keyword::MaxProtocolVersion => {
                settings.max_protocol_version = value.one_of(&PROTOCOL_VERSIONS)?;
            }
            Keyword::Sslmode => settings.sslmode = value.one_of(SSLMODES)?,
            Keyword::Sslnegotiation => {
                settings.sslnegotiation = value.one_of(SSL_NEGOTIATIONS)?;
            }
            Keyword::Sslcert => settings.sslcert = value.filled().map(PathBuf::from),
            Keyword::Sslkey => settings.sslkey = value.filled().map(PathBuf::from),
            Keyword::Sslrootcert => {
                settings.sslrootcert = value.filled().map(|text| match text {
                    "system" => RootCert::System,
                    path => RootCert::File(path.into()),
                });
            }
            Keyword::Sslcrl => settings.sslcrl = value.filled().map(PathBuf::from),
            Keyword::Sslsni => {
                settings.sslsni = value.one_of(&[("", true), ("0", false), ("1", true)])?;
            }
            Keyword::SslMinProtocolVersion => {
                // TLS 1.2 is within what an older minimum allows.
                let version = value.tls_version()?.flatten();
                settings.ssl_min_protocol_version =
                    version.unwrap_or(defaults.ssl_min_protocol_version);
            }
            Keyword::SslMaxProtocolVersion => {
                settings.ssl_max_protocol_version = match value.tls_version()? {
                    Some(None) => return Err(value.unsupported("TLS before 1.2,")),
                    version => version.flatten(),
                };
            }
            Keyword::Gssencmode => match text {
                "require" => return Err(value.unsupported("GSSAPI encryption")),
                _ => value.one_of(&[("", ()), ("disable", ()), ("prefer", ())])?,
            },
            Keyword::ChannelBinding => {
                settings.channel_binding = value.one_of(&ChannelBinding::WORDS)?;
            }
            Keyword::RequireAuth => {
                let parsed =
                    value.filled().map_or(Some(RequireAuth::default()), RequireAuth::parse);
                settings.require_auth = parsed.ok_or_else(|| {
                    value.wrong(
                        "takes a list of none, password, md5 and scram-sha-256, with '!' before \
                         each or before none of them, that leaves at least one",
                    )
                })?;
            }
            Keyword::AllowPlainPassword => {
                settings.allow_plain_password = value.switch(defaults.allow_plain_password)?;
            }
            Keyword::ScramIterationsMax => {
                settings.scram_iterations_max = value.limit(defaults.scram_iterations_max)?;
            }
            Keyword::InFlightMax => settings.in_flight_max = value.limit(defaults.in_flight_max)?,
            Keyword::InFlightBytesMax => {
                settings.in_flight_bytes_max = value.limit(defaults.in_flight_bytes_max)?;
            }
            Keyword::QueueMax => settings.queue_max = value.limit(defaults.queue_max)?,
            Keyword::QueueBytesMax => {
                settings.queue_bytes_max = value.limit(defaults.queue_bytes_max)?;
            }
            Keyword::WhenFull => {
                settings.when_full = value.one_of(&[
                    ("", WhenFull::Wait),
                    ("wait", WhenFull::Wait),
                    ("refuse", WhenFull::Refuse),
                ])?;
            }
            Keyword::WaitingBytesMax => {
                settings.waiting_bytes_max = value.limit(defaults.waiting_bytes_max)?;
            }
            Keyword::ResultBytesMax => {
                settings.result_bytes_max = value.count(defaults.result_bytes_max)?;
            }
            Keyword::PrepareThreshold => {
                settings.prepare_threshold = value.count(defaults.prepare_threshold)?;
            }
            Keyword::PreparedMax => settings.prepared_max = value.limit(defaults.prepared_max)?,
            Keyword::ConnectionsMax => {
                settings.connections_max = value.limit(defaults.connections_max)?;
            }
            Keyword::ConnectionsMin => {
                settings.connections_min = value.count(defaults.connections_min)?;
            }
            Keyword::WaitTimeoutMs => {
                settings.wait_timeout = value.millis(defaults.wait_timeout)?
            }
            Keyword::WaitingMax => settings.waiting_max = value.count(defaults.waiting_max)?,
            Keyword::IdleTimeoutMs => {
                settings.idle_timeout = value.millis(defaults.idle_timeout)?
            }
            Keyword::LifetimeMs => settings.lifetime = value.millis(defaults.lifetime)?,
            Keyword::SlowHeadMs => settings.slow_head = value.millis(defaults.slow_head)?,
            Keyword::IdleOrder => {
                settings.idle_order = value.one_of(&[
                    ("", IdleOrder::Lifo),
                    ("lifo", IdleOrder::Lifo),
                    ("fifo", IdleOrder::Fifo),
                ])?;
            }
            Keyword::LogStatements => {
                settings.log_statements = value.one_of(&[
                    ("", LogStatements::None),
                    ("none", LogStatements::None),
                    ("text", LogStatements::Text),
                ])?;
            }
            Keyword::RequestTimeoutMs => {
                settings.request_timeout =
                    value.duration(Duration::from_millis, defaults.request_timeout)?;
            }
            Keyword::StallTimeoutMs => {
                settings.stall_timeout = value.millis(defaults.stall_timeout)?;
            }
            Keyword::CancelOnTimeout => {
                settings.cancel_on_timeout = value.switch(defaults.cancel_on_timeout)?;
            }
            Keyword::CancelOnDrop => {
                settings.cancel_on_drop = value.switch(defaults.cancel_on_drop)?;
            }
            Keyword::CancelsMax => settings.cancels_max = value.count(defaults.cancels_max)?,
            Keyword::CancelTimeoutMs => {
                settings.cancel_timeout = value.millis(defaults.cancel_timeout)?;
            }
            Keyword::OneSegment => settings.one_segment = value.switch(defaults.one_segment)?,
        }
        Ok(())
    }
}

/// One value in a text, with what an error has to say about it.
#[derive(Clone, Copy)]
struct Value<'a> {
    keyword: Keyword,
    text: &'a str,
    place: Place,
}

impl<'a> Value<'a> {
    fn filled(self) -> Option<&'a str> {
        Some(self.text).filter(|text| !text.is_empty())
    }

    /// A whole number, with white space around it as in libpq; `None` where the text is empty.
    fn number(self) -> Result<Option<i64>, ConfigError> {
        let Some(text) = self.filled() else { return Ok(None) };
        let number = text.trim().parse::<i32>();
        number.map(|number| Some(number.into())).map_err(|_| self.wrong("takes a whole number"))
    }

    /// A number of units; zero and less mean none.
    fn duration(
        self,
        unit: fn(u64) -> Duration,
        default: Option<Duration>,
    ) -> Result<Option<Duration>, ConfigError> {
        Ok(match self.number()? {
            None => default,
            Some(number) => u64::try_from(number).ok().filter(|&number| number > 0).map(unit),
        })
    }

    /// A number from 1.
    fn limit<T: TryFrom<i64>>(self, default: T) -> Result<T, ConfigError> {
        match self.number()? {
            None => Ok(default),
            Some(number @ 1..) => {
                T::try_from(number).map_err(|_| self.wrong("takes a smaller number"))
            }
            Some(_) => Err(self.wrong("must be at least 1")),
        }
    }

    /// A number of milliseconds from 1.
    fn millis(self, default: Duration) -> Result<Duration, ConfigError> {
        self.limit(default.as_millis() as u64).map(Duration::from_millis)
    }

    /// A number from 0.
    fn count<T: TryFrom<i64>>(self, default: T) -> Result<T, ConfigError> {
        match self.number()? {
            None => Ok(default),
            Some(number) => T::try_from(number).map_err(|_| self.wrong("takes a number from 0")),
        }
    }

    /// On or off.
    fn switch(self, default: bool) -> Result<bool, ConfigError> {
        self.one_of(&[("", default), ("false", false), ("true", true), ("0", false), ("1", true)])
    }

    /// One of these words; the empty one isn't listed in the error.
    fn one_of<T: Copy>(self, words: &[(&str, T)]) -> Result<T, ConfigError> {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == self.text) {
            return Ok(*value);
        }
        let words = words.iter().map(|(word, _)| *word).filter(|word| !word.is_empty());
        let list = words.collect::<Vec<_>>().join(", ");
        Err(self.wrong(&format!("takes one of {list}")))
    }

    /// A version of TLS; `Some(None)` is one that is too old to be spoken.
    fn tls_version(self) -> Result<Option<Option<TlsVersion>>, ConfigError> {
        let Some(text) = self.filled() else { return Ok(None) };
        let version = TlsVersion::named(text);
        version.map(Some).ok_or_else(|| self.wrong("takes one of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3"))
    }

    fn address(self, text: &str) -> Result<Option<IpAddr>, ConfigError> {
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            let what = "hostaddr takes IPv4 or IPv6 addresses, not names: give names to host";
            ConfigError::new(Kind::Host, self.place, what)
        })
    }

    fn port(self, text: &str) -> Result<Option<u16>, ConfigError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse() {
            Ok(port @ 1..) => Ok(Some(port)),
            _ => {
                let what = "a port must be a number from 1 to 65535 (a password with '@', ':' or \
                            '/' in a URL needs %40, %3A or %2F)";
                Err(ConfigError::new(Kind::Port, self.place, what))
            }
        }
    }

    fn wrong(self, what: &str) -> ConfigError {
        let what = format!("{} {what}", self.keyword.name());
        ConfigError::new(Kind::Value, self.place, what)
    }

    fn unsupported(self, what: &str) -> ConfigError {
        let name = self.keyword.name();
        let what = format!(
            "this value of {name} asks for {what} which isn't in this version: remove {name} or \
             choose another value"
        );
        ConfigError::new(Kind::Unsupported, self.place, what)
    }
}

/// The elements of a list; an empty text has none.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(move |_| !text.is_empty())
}

const PROTOCOL_VERSIONS: [(&str, ProtocolVersion); 4] = [
    ("", ProtocolVersion::V3_0),
    ("3.0", ProtocolVersion::V3_0),
    ("3.2", ProtocolVersion::V3_2),
    ("latest", ProtocolVersion::V3_2),
];

const TARGET_SESSION_ATTRS: &[(&str, TargetSessionAttrs)] = &[
    ("", TargetSessionAttrs::Any),
    ("any", TargetSessionAttrs::Any),
    ("read-write", TargetSessionAttrs::ReadWrite),
    ("read-only", TargetSessionAttrs::ReadOnly),
    ("primary", TargetSessionAttrs::Primary),
    ("standby", TargetSessionAttrs::Standby),
    ("prefer-standby", TargetSessionAttrs::PreferStandby),
];

const LOAD_BALANCE_HOSTS: &[(&str, LoadBalanceHosts)] = &[
    ("", LoadBalanceHosts::Disable),
    ("disable", LoadBalanceHosts::Disable),
    ("random", LoadBalanceHosts::Random),
];

const SSLMODES: &[(&str, SslMode)] = &[
    ("", SslMode::Prefer),
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

const SSL_NEGOTIATIONS: &[(&str, SslNegotiation)] = &[
    ("", SslNegotiation::Postgres),
    ("postgres", SslNegotiation::Postgres),
    ("direct", SslNegotiation::Direct),
];
