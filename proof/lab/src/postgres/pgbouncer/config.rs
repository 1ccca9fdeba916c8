//! The configuration of a pooler: its options, and the two files written from them.

use std::path::Path;

use super::super::server::{PrivatePostgres, USER};
use super::program::Program;

/// Default of [`Options::clients_max`]: room for a test binary whose tests run in parallel.
pub const CLIENTS_MAX_DEFAULT: u16 = 200;

/// Default of [`Options::pool_size`], which is PgBouncer's own.
pub const POOL_SIZE_DEFAULT: u16 = 20;

/// When a client's server connection goes back into the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// At the end of each transaction. Session state is lost, or reaches another client.
    #[default]
    Transaction,
    /// At the end of each statement; transactions of several statements are refused.
    Statement,
}

/// How clients log in to the pooler. The pooler itself always logs in to the server with SCRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Login {
    /// With the password, by SCRAM.
    #[default]
    Scram,
    /// Without a password: the name of a user that the pooler knows is enough.
    Trust,
}

/// How to start a pooler; `Options::default()` is right for most tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// The PgBouncer to run. Default: the result of [`find`](super::find).
    pub program: Option<Program>,
    /// Default: [`PoolMode::Transaction`].
    pub pool_mode: PoolMode,
    /// Default: [`Login::Scram`].
    pub login: Login,
    /// Server connections for each pair of user and database (PgBouncer's `default_pool_size`).
    /// Default: [`POOL_SIZE_DEFAULT`].
    pub pool_size: u16,
    /// Clients in all (`max_client_conn`). Default: [`CLIENTS_MAX_DEFAULT`].
    pub clients_max: u16,
    /// Prepared statements tracked for each server connection
    /// (`max_prepared_statements`), 0 for none. PgBouncer before 1.21 has no such setting and is
    /// not told ([`Program::knows_prepared_statements`]). Default: PgBouncer's own.
    pub prepared_max: Option<u32>,
    /// Names and passwords of users besides the server's superuser. Default: none.
    pub users: Vec<(String, String)>,
    /// Further settings by name, as in `pgbouncer.ini`. They override all of the above.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: None,
            pool_mode: PoolMode::default(),
            login: Login::default(),
            pool_size: POOL_SIZE_DEFAULT,
            clients_max: CLIENTS_MAX_DEFAULT,
            prepared_max: None,
            users: Vec::new(),
            settings: Vec::new(),
        }
    }
}

impl Options {
    /// Adds one setting.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Adds one user, which the server has to know with this password.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.users.push((name.into(), password.into()));
        self
    }
}

/// Where this pooler is.
pub(super) struct Place<'a> {
    pub(super) socket_dir: &'a Path,
    pub(super) port: u16,
    /// The file that [`users`] is for.
    pub(super) users: &'a Path,
}

/// The server that a pooler is in front of.
#[derive(Clone, Debug)]
pub(super) struct Upstream {
    /// The directory of its Unix socket, or its address.
    host: String,
    port: u16,
    pub(super) password: String,
}

impl From<&PrivatePostgres> for Upstream {
    fn from(server: &PrivatePostgres) -> Self {
        let host = server.socket_dir().display().to_string();
        Self { host, port: server.port(), password: server.password().to_owned() }
    }
}

impl Upstream {
    /// A server of the lab on 127.0.0.1.
    pub(super) fn local(port: u16, password: &str) -> Self {
        Self { host: "127.0.0.1".into(), port, password: password.to_owned() }
    }
}

/// `pgbouncer.ini`: every database of the server, under its own name.
pub(super) fn ini(
    server: &Upstream,
    options: &Options,
    program: &Program,
    place: &Place<'_>,
) -> String {
    let host = server.host.replace('\'', "''");
    let mut text = format!("[databases]\n* = host='{host}' port={}\n[pgbouncer]\n", server.port);
    for (name, value) in settings(options, program, place) {
        text += &format!("{name} = {value}\n");
    }
    text
}

fn settings(options: &Options, program: &Program, place: &Place<'_>) -> Vec<(String, String)> {
    let mut settings = vec![
        ("listen_addr", "127.0.0.1".to_owned()),
        ("listen_port", place.port.to_string()),
        ("unix_socket_dir", place.socket_dir.display().to_string()),
        ("unix_socket_mode", "0700".into()),
        ("auth_type", login_word(options.login).into()),
        ("auth_file", place.users.display().to_string()),
        ("admin_users", USER.into()),
        ("pool_mode", mode_word(options.pool_mode).into()),
        ("default_pool_size", options.pool_size.to_string()),
        ("max_client_conn", options.clients_max.to_string()),
    ];
    if let Some(max) = options.prepared_max.filter(|_| program.knows_prepared_statements()) {
        settings.push(("max_prepared_statements", max.to_string()));
    }
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
    settings.chain(options.settings.iter().cloned()).collect()
}

/// The file of users. Passwords are in clear, since the pooler has to log in with them.
pub(super) fn users(server: &Upstream, options: &Options) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let superuser = (USER, server.password.as_str());
    let others = options.users.iter().map(|(name, password)| (name.as_str(), password.as_str()));
    let lines = std::iter::once(superuser).chain(others);
    lines.map(|(name, password)| format!("{} {}\n", quoted(name), quoted(password))).collect()
}

fn mode_word(mode: PoolMode) -> &'static str {
    match mode {
        PoolMode::Session => "session",
        PoolMode::Transaction => "transaction",
        PoolMode::Statement => "statement",
    }
}

fn login_word(login: Login) -> &'static str {
    match login {
        Login::Scram => "scram-sha-256",
        Login::Trust => "trust",
    }
}
