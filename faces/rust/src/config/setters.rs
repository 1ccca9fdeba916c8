//! One setter for each setting that has a default.

use std::path::PathBuf;
use std::time::Duration;

use super::keyword::Keyword;
use super::{
    ChannelBinding, Config, IdleOrder, LoadBalanceHosts, LogStatements, ProtocolVersion, Reads,
    RequireAuth, RootCert, SslCertMode, SslMode, SslNegotiation, TargetSessionAttrs, TlsVersion,
    WhenFull,
};

/// Setters. The field of the same name in [`Settings`](super::Settings) has the default and the
/// unit.
impl Config {
    /// Sets [`application_name`](super::Settings::application_name).
    #[must_use]
    pub fn application_name(mut self, name: impl Into<String>) -> Config {
        self.settings.application_name = Some(name.into());
        self.give(Keyword::ApplicationName)
    }

    /// Sets [`connect_timeout`](super::Settings::connect_timeout).
    #[must_use]
    pub fn connect_timeout(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.connect_timeout = value.into();
        self.give(Keyword::ConnectTimeout)
    }

    /// Sets [`keepalives`](super::Settings::keepalives).
    #[must_use]
    pub fn keepalives(mut self, value: bool) -> Config {
        self.settings.keepalives = value;
        self.give(Keyword::Keepalives)
    }

    /// Sets [`keepalives_idle`](super::Settings::keepalives_idle).
    #[must_use]
    pub fn keepalives_idle(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.keepalives_idle = value.into();
        self.give(Keyword::KeepalivesIdle)
    }

    /// Sets [`keepalives_interval`](super::Settings::keepalives_interval).
    #[must_use]
    pub fn keepalives_interval(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.keepalives_interval = value.into();
        self.give(Keyword::KeepalivesInterval)
    }

    /// Sets [`keepalives_count`](super::Settings::keepalives_count).
    #[must_use]
    pub fn keepalives_count(mut self, value: impl Into<Option<u32>>) -> Config {
        self.settings.keepalives_count = value.into();
        self.give(Keyword::KeepalivesCount)
    }

    /// Sets [`tcp_user_timeout`](super::Settings::tcp_user_timeout).
    #[must_use]
    pub fn tcp_user_timeout(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.tcp_user_timeout = value.into();
        self.give(Keyword::TcpUserTimeout)
    }

    /// Sets [`target_session_attrs`](super::Settings::target_session_attrs).
    #[must_use]
    pub fn target_session_attrs(mut self, value: TargetSessionAttrs) -> Config {
        self.settings.target_session_attrs = value;
        self.give(Keyword::TargetSessionAttrs)
    }

    /// Sets [`load_balance_hosts`](super::Settings::load_balance_hosts).
    #[must_use]
    pub fn load_balance_hosts(mut self, value: LoadBalanceHosts) -> Config {
        self.settings.load_balance_hosts = value;
        self.give(Keyword::LoadBalanceHosts)
    }

    /// Sets [`min_protocol_version`](super::Settings::min_protocol_version).
    #[must_use]
    pub fn min_protocol_version(mut self, value: ProtocolVersion) -> Config {
        self.settings.min_protocol_version = value;
        self.give(Keyword::MinProtocolVersion)
    }

    /// Sets [`max_protocol_version`](super::Settings::max_protocol_version).
    #[must_use]
    pub fn max_protocol_version(mut self, value: ProtocolVersion) -> Config {
        self.settings.max_protocol_version = value;
        self.give(Keyword::MaxProtocolVersion)
    }

    /// Sets [`sslmode`](super::Settings::sslmode).
    #[must_use]
    pub fn sslmode(mut self, value: SslMode) -> Config {
        self.settings.sslmode = value;
        self.give(Keyword::Sslmode)
    }

    /// Sets [`sslnegotiation`](super::Settings::sslnegotiation).
    #[must_use]
    pub fn sslnegotiation(mut self, value: SslNegotiation) -> Config {
        self.settings.sslnegotiation = value;
        self.give(Keyword::Sslnegotiation)
    }

    /// Sets [`sslcert`](super::Settings::sslcert).
    #[must_use]
    pub fn sslcert(mut self, path: impl Into<PathBuf>) -> Config {
        self.settings.sslcert = Some(path.into());
        self.give(Keyword::Sslcert)
    }

    /// Sets [`sslkey`](super::Settings::sslkey).
    #[must_use]
    pub fn sslkey(mut self, path: impl Into<PathBuf>) -> Config {
        self.settings.sslkey = Some(path.into());
        self.give(Keyword::Sslkey)
    }

    /// Sets [`sslcertmode`](super::Settings::sslcertmode).
    #[must_use]
    pub fn sslcertmode(mut self, value: SslCertMode) -> Config {
        self.settings.sslcertmode = value;
        self.give(Keyword::Sslcertmode)
    }

    /// Sets [`sslrootcert`](super::Settings::sslrootcert).
    #[must_use]
    pub fn sslrootcert(mut self, value: RootCert) -> Config {
        self.settings.sslrootcert = Some(value);
        self.give(Keyword::Sslrootcert)
    }

    /// Sets [`sslcrl`](super::Settings::sslcrl).
    #[must_use]
    pub fn sslcrl(mut self, path: impl Into<PathBuf>) -> Config {
        self.settings.sslcrl = Some(path.into());
        self.give(Keyword::Sslcrl)
    }

    /// Sets [`sslsni`](super::Settings::sslsni).
    #[must_use]
    pub fn sslsni(mut self, value: bool) -> Config {
        self.settings.sslsni = value;
        self.give(Keyword::Sslsni)
    }

    /// Sets [`ssl_min_protocol_version`](super::Settings::ssl_min_protocol_version).
    #[must_use]
    pub fn ssl_min_protocol_version(mut self, value: TlsVersion) -> Config {
        self.settings.ssl_min_protocol_version = value;
        self.give(Keyword::SslMinProtocolVersion)
    }

    /// Sets [`ssl_max_protocol_version`](super::Settings::ssl_max_protocol_version).
    #[must_use]
    pub fn ssl_max_protocol_version(mut self, value: impl Into<Option<TlsVersion>>) -> Config {
        self.settings.ssl_max_protocol_version = value.into();
        self.give(Keyword::SslMaxProtocolVersion)
    }

    /// Sets [`channel_binding`](super::Settings::channel_binding).
    #[must_use]
    pub fn channel_binding(mut self, value: ChannelBinding) -> Config {
        self.settings.channel_binding = value;
        self.give(Keyword::ChannelBinding)
    }

    /// Sets [`require_auth`](super::Settings::require_auth).
    #[must_use]
    pub fn require_auth(mut self, value: RequireAuth) -> Config {
        self.settings.require_auth = value;
        self.give(Keyword::RequireAuth)
    }

    /// Sets [`allow_plain_password`](super::Settings::allow_plain_password).
    #[must_use]
    pub fn allow_plain_password(mut self, value: bool) -> Config {
        self.settings.allow_plain_password = value;
        self.give(Keyword::AllowPlainPassword)
    }

    /// Sets [`scram_iterations_max`](super::Settings::scram_iterations_max).
    #[must_use]
    pub fn scram_iterations_max(mut self, value: u32) -> Config {
        self.settings.scram_iterations_max = value;
        self.give(Keyword::ScramIterationsMax)
    }

    /// Sets [`in_flight_max`](super::Settings::in_flight_max).
    #[must_use]
    pub fn in_flight_max(mut self, value: usize) -> Config {
        self.settings.in_flight_max = value;
        self.give(Keyword::InFlightMax)
    }

    /// Sets [`in_flight_bytes_max`](super::Settings::in_flight_bytes_max).
    #[must_use]
    pub fn in_flight_bytes_max(mut self, value: usize) -> Config {
        self.settings.in_flight_bytes_max = value;
        self.give(Keyword::InFlightBytesMax)
    }

    /// Sets [`one_segment`](super::Settings::one_segment).
    #[must_use]
    pub fn one_segment(mut self, value: bool) -> Config {
        self.settings.one_segment = value;
        self.give(Keyword::OneSegment)
    }

    /// Sets [`queue_max`](super::Settings::queue_max).
    #[must_use]
    pub fn queue_max(mut self, value: usize) -> Config {
        self.settings.queue_max = value;
        self.give(Keyword::QueueMax)
    }

    /// Sets [`queue_bytes_max`](super::Settings::queue_bytes_max).
    #[must_use]
    pub fn queue_bytes_max(mut self, value: usize) -> Config {
        self.settings.queue_bytes_max = value;
        self.give(Keyword::QueueBytesMax)
    }

    /// Sets [`when_full`](super::Settings::when_full).
    #[must_use]
    pub fn when_full(mut self, value: WhenFull) -> Config {
        self.settings.when_full = value;
        self.give(Keyword::WhenFull)
    }

    /// Sets [`waiting_bytes_max`](super::Settings::waiting_bytes_max).
    #[must_use]
    pub fn waiting_bytes_max(mut self, value: usize) -> Config {
        self.settings.waiting_bytes_max = value;
        self.give(Keyword::WaitingBytesMax)
    }

    /// Sets [`result_bytes_max`](super::Settings::result_bytes_max).
    #[must_use]
    pub fn result_bytes_max(mut self, value: usize) -> Config {
        self.settings.result_bytes_max = value;
        self.give(Keyword::ResultBytesMax)
    }

    /// Sets [`prepare_threshold`](super::Settings::prepare_threshold).
    #[must_use]
    pub fn prepare_threshold(mut self, value: u32) -> Config {
        self.settings.prepare_threshold = value;
        self.give(Keyword::PrepareThreshold)
    }

    /// Sets [`prepared_max`](super::Settings::prepared_max).
    #[must_use]
    pub fn prepared_max(mut self, value: usize) -> Config {
        self.settings.prepared_max = value;
        self.give(Keyword::PreparedMax)
    }

    /// Sets [`connections_max`](super::Settings::connections_max).
    #[must_use]
    pub fn connections_max(mut self, value: usize) -> Config {
        self.settings.connections_max = value;
        self.give(Keyword::ConnectionsMax)
    }

    /// Sets [`connections_min`](super::Settings::connections_min).
    #[must_use]
    pub fn connections_min(mut self, value: usize) -> Config {
        self.settings.connections_min = value;
        self.give(Keyword::ConnectionsMin)
    }

    /// Sets [`wait_timeout`](super::Settings::wait_timeout).
    #[must_use]
    pub fn wait_timeout(mut self, value: Duration) -> Config {
        self.settings.wait_timeout = value;
        self.give(Keyword::WaitTimeoutMs)
    }

    /// Sets [`waiting_max`](super::Settings::waiting_max).
    #[must_use]
    pub fn waiting_max(mut self, value: usize) -> Config {
        self.settings.waiting_max = value;
        self.give(Keyword::WaitingMax)
    }

    /// Sets [`idle_timeout`](super::Settings::idle_timeout).
    #[must_use]
    pub fn idle_timeout(mut self, value: Duration) -> Config {
        self.settings.idle_timeout = value;
        self.give(Keyword::IdleTimeoutMs)
    }

    /// Sets [`lifetime`](super::Settings::lifetime).
    #[must_use]
    pub fn lifetime(mut self, value: Duration) -> Config {
        self.settings.lifetime = value;
        self.give(Keyword::LifetimeMs)
    }

    /// Sets [`slow_head`](super::Settings::slow_head).
    #[must_use]
    pub fn slow_head(mut self, value: Duration) -> Config {
        self.settings.slow_head = value;
        self.give(Keyword::SlowHeadMs)
    }

    /// Sets [`yield_after`](super::Settings::yield_after).
    #[must_use]
    pub fn yield_after(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.yield_after = value.into();
        self.give(Keyword::YieldAfterMs)
    }

    /// Sets [`reads`](super::Settings::reads).
    #[must_use]
    pub fn reads(mut self, value: Reads) -> Config {
        self.settings.reads = value;
        self.give(Keyword::Reads)
    }

    /// Sets [`max_lag`](super::Settings::max_lag).
    #[must_use]
    pub fn max_lag(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.max_lag = value.into();
        self.give(Keyword::MaxLagMs)
    }

    /// Sets [`idle_order`](super::Settings::idle_order).
    #[must_use]
    pub fn idle_order(mut self, value: IdleOrder) -> Config {
        self.settings.idle_order = value;
        self.give(Keyword::IdleOrder)
    }

    /// Sets [`request_timeout`](super::Settings::request_timeout).
    #[must_use]
    pub fn request_timeout(mut self, value: impl Into<Option<Duration>>) -> Config {
        self.settings.request_timeout = value.into();
        self.give(Keyword::RequestTimeoutMs)
    }

    /// Sets [`log_statements`](super::Settings::log_statements).
    #[must_use]
    pub fn log_statements(mut self, value: LogStatements) -> Config {
        self.settings.log_statements = value;
        self.give(Keyword::LogStatements)
    }

    /// Sets [`stall_timeout`](super::Settings::stall_timeout).
    #[must_use]
    pub fn stall_timeout(mut self, value: Duration) -> Config {
        self.settings.stall_timeout = value;
        self.give(Keyword::StallTimeoutMs)
    }

    /// Sets [`cancel_on_timeout`](super::Settings::cancel_on_timeout).
    #[must_use]
    pub fn cancel_on_timeout(mut self, value: bool) -> Config {
        self.settings.cancel_on_timeout = value;
        self.give(Keyword::CancelOnTimeout)
    }

    /// Sets [`cancel_on_drop`](super::Settings::cancel_on_drop).
    #[must_use]
    pub fn cancel_on_drop(mut self, value: bool) -> Config {
        self.settings.cancel_on_drop = value;
        self.give(Keyword::CancelOnDrop)
    }

    /// Sets [`cancels_max`](super::Settings::cancels_max).
    #[must_use]
    pub fn cancels_max(mut self, value: usize) -> Config {
        self.settings.cancels_max = value;
        self.give(Keyword::CancelsMax)
    }

    /// Sets [`cancel_timeout`](super::Settings::cancel_timeout).
    #[must_use]
    pub fn cancel_timeout(mut self, value: Duration) -> Config {
        self.settings.cancel_timeout = value;
        self.give(Keyword::CancelTimeoutMs)
    }
}
