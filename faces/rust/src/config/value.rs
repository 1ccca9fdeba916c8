//! Reads the values of keywords from text.

use std::net::IpAddr;
use std::num::IntErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{ConfigError, ConfigErrorKind as Kind, Place};
use super::keyword::{Form, Keyword, SWITCH, bit, says};
use super::{
    ChannelBinding, Config, IdleOrder, LoadBalanceHosts, LogStatements, ProtocolVersion, Reads,
    RequireAuth, RootCert, Settings, SslCertMode, SslMode, SslNegotiation, TargetSessionAttrs,
    TlsVersion, WhenFull,
};

impl Config {
    /// Sets a keyword from its text. As in libpq, an empty text means the default, but counts as
    /// set.
    pub(super) fn set(
        &mut self,
        keyword: Keyword,
        text: &str,
        place: Place,
    ) -> Result<(), ConfigError> {
        self.given |= bit(keyword);
        self.from_environment &= !bit(keyword);
        if matches!(place, Place::Variable(_)) {
            self.from_environment |= bit(keyword);
        }
        let value = Value { keyword, text, place };
        let settings = &mut self.settings;
        let defaults = Settings::default();
        match keyword {
            Keyword::Service => self.service = value.filled().map(str::to_owned),
            Keyword::Servicefile => self.servicefile = value.filled().map(PathBuf::from),
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
            Keyword::ClientEncoding => value.word((), &[(); 6])?,
            Keyword::ConnectTimeout => {
                settings.connect_timeout =
                    value.duration(Duration::from_secs, defaults.connect_timeout)?;
            }
            Keyword::Keepalives => {
                settings.keepalives = value.switch(defaults.keepalives)?;
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
                settings.keepalives_count = match value.filled() {
                    None => defaults.keepalives_count,
                    Some(_) => Some(value.count(0)?).filter(|&count| count > 0),
                };
            }
            Keyword::TcpUserTimeout => {
                settings.tcp_user_timeout =
                    value.duration(Duration::from_millis, defaults.tcp_user_timeout)?;
            }
            Keyword::TargetSessionAttrs => {
                settings.target_session_attrs =
                    value.word(TargetSessionAttrs::Any, &TargetSessionAttrs::ALL)?;
            }
            Keyword::LoadBalanceHosts => {
                settings.load_balance_hosts =
                    value.word(LoadBalanceHosts::Disable, &LoadBalanceHosts::ALL)?;
            }
            Keyword::MinProtocolVersion => {
                settings.min_protocol_version =
                    value.word(ProtocolVersion::V3_0, &PROTOCOL_VERSIONS)?;
            }
            Keyword::MaxProtocolVersion => {
                settings.max_protocol_version =
                    value.word(ProtocolVersion::V3_0, &PROTOCOL_VERSIONS)?;
            }
            Keyword::Sslmode => settings.sslmode = value.word(SslMode::Prefer, &SslMode::ALL)?,
            Keyword::Sslnegotiation => {
                settings.sslnegotiation =
                    value.word(SslNegotiation::Postgres, &SslNegotiation::ALL)?;
            }
            Keyword::Sslcert => settings.sslcert = value.filled().map(PathBuf::from),
            Keyword::Sslkey => settings.sslkey = value.filled().map(PathBuf::from),
            Keyword::Sslpassword if value.filled().is_some() => {
                let what = ["sslpassword", says::NEEDS, "encrypted key files", says::LACKING];
                return Err(ConfigError::new(Kind::Unsupported, place, what.concat()));
            }
            Keyword::Sslpassword => {}
            Keyword::Sslcertmode => match text {
                "require" => return Err(value.unsupported("a server that asks for a certificate,")),
                _ => settings.sslcertmode = value.word(SslCertMode::Allow, &SslCertMode::ALL)?,
            },
            Keyword::Sslrootcert => {
                settings.sslrootcert = value.filled().map(|text| match text {
                    "system" => RootCert::System,
                    path => RootCert::File(path.into()),
                });
            }
            Keyword::Sslcrl => settings.sslcrl = value.filled().map(PathBuf::from),
            Keyword::Sslsni => {
                settings.sslsni = value.word(true, &[false, true])?;
            }
            Keyword::SslMinProtocolVersion => {
                // TLS 1.2 is allowed by an older minimum.
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
                _ => value.word((), &[(); 2])?,
            },
            Keyword::ChannelBinding => {
                settings.channel_binding =
                    value.word(ChannelBinding::Prefer, &ChannelBinding::ALL)?;
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
                settings.scram_iterations_max = value.count(defaults.scram_iterations_max)?;
            }
            Keyword::InFlightMax => settings.in_flight_max = value.count(defaults.in_flight_max)?,
            Keyword::InFlightBytesMax => {
                settings.in_flight_bytes_max = value.count(defaults.in_flight_bytes_max)?;
            }
            Keyword::QueueMax => settings.queue_max = value.count(defaults.queue_max)?,
            Keyword::QueueBytesMax => {
                settings.queue_bytes_max = value.count(defaults.queue_bytes_max)?;
            }
            Keyword::WhenFull => {
                settings.when_full =
                    value.word(WhenFull::Wait, &[WhenFull::Wait, WhenFull::Refuse])?;
            }
            Keyword::WaitingBytesMax => {
                settings.waiting_bytes_max = value.count(defaults.waiting_bytes_max)?;
            }
            Keyword::ResultBytesMax => {
                settings.result_bytes_max = value.count(defaults.result_bytes_max)?;
            }
            Keyword::PrepareThreshold => {
                settings.prepare_threshold = value.count(defaults.prepare_threshold)?;
            }
            Keyword::PreparedMax => settings.prepared_max = value.count(defaults.prepared_max)?,
            Keyword::ConnectionsMax => {
                settings.connections_max = value.count(defaults.connections_max)?;
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
            Keyword::YieldAfterMs => {
                settings.yield_after =
                    value.duration(Duration::from_millis, defaults.yield_after)?;
            }
            Keyword::IdleOrder => {
                settings.idle_order = value.word(IdleOrder::Lifo, &IDLE_ORDERS)?;
            }
            Keyword::LogStatements => {
                settings.log_statements =
                    value.word(LogStatements::None, &[LogStatements::None, LogStatements::Text])?;
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
            Keyword::Reads => settings.reads = value.word(Reads::Primary, &Reads::ALL)?,
            Keyword::MaxLagMs => {
                settings.max_lag = value.duration(Duration::from_millis, defaults.max_lag)?;
            }
            Keyword::OneSegment => settings.one_segment = value.switch(defaults.one_segment)?,
        }
        Ok(())
    }
}

/// One value of a text, with the place that its error names.
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

    /// A whole number, with white space around it as in libpq; `None` if the text is empty.
    fn number(self) -> Result<Option<i64>, ConfigError> {
        let Some(text) = self.filled() else { return Ok(None) };
        let number = text.trim().parse::<i32>();
        number.map(|number| Some(number.into())).map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => self.too_large(),
            _ => self.wrong(says::WHOLE),
        })
    }

    fn too_large(self) -> ConfigError {
        self.wrong(&format!("{}{}", says::AT_MOST, i32::MAX))
    }

    /// A number of units as a duration; `None` for zero.
    fn duration(
        self,
        unit: fn(u64) -> Duration,
        default: Option<Duration>,
    ) -> Result<Option<Duration>, ConfigError> {
        Ok(match self.filled() {
            None => default,
            Some(_) => Some(self.count(0)?).filter(|&number| number > 0).map(unit),
        })
    }

    /// A number, at least the minimum that the table has.
    fn count<T: TryFrom<i64>>(self, default: T) -> Result<T, ConfigError> {
        let least = if let Form::From(least) = self.keyword.row().form { least } else { 0 };
        match self.number()? {
            None => Ok(default),
            Some(number) if number < i64::from(least) => {
                Err(self.wrong(&format!("{}{least}", says::AT_LEAST)))
            }
            Some(number) => T::try_from(number).map_err(|_| self.too_large()),
        }
    }

    /// A number of milliseconds.
    fn millis(self, default: Duration) -> Result<Duration, ConfigError> {
        self.count(default.as_millis() as u64).map(Duration::from_millis)
    }

    /// On or off.
    fn switch(self, default: bool) -> Result<bool, ConfigError> {
        self.one_of(default, SWITCH, &[false, true, false, true, false, true])
    }

    /// The value of one of the table's words; `values` are in the table's order.
    fn word<T: Copy>(self, default: T, values: &[T]) -> Result<T, ConfigError> {
        let words = if let Form::Words(words) = self.keyword.row().form { words } else { &[] };
        self.one_of(default, words, values)
    }

    fn one_of<T: Copy>(self, default: T, words: &[&str], values: &[T]) -> Result<T, ConfigError> {
        let Some(text) = self.filled() else { return Ok(default) };
        let found = words.iter().zip(values).find(|(word, _)| **word == text);
        let wrong = || self.wrong(&format!("{}{}", says::ONE_OF, words.join(", ")));
        found.map(|(_, value)| *value).ok_or_else(wrong)
    }

    /// A version of TLS; `Some(None)` for one that is too old to be used.
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

/// The values of the words `3.0`, `3.2` and `latest`.
const PROTOCOL_VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V3_0, ProtocolVersion::V3_2, ProtocolVersion::V3_2];

/// Each value has two words.
const IDLE_ORDERS: [IdleOrder; 4] =
    [IdleOrder::Lifo, IdleOrder::Fifo, IdleOrder::Lifo, IdleOrder::Fifo];
