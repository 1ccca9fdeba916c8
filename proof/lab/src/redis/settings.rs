//! The settings of a server, and the configuration file written from them.

use std::path::Path;
use std::time::Duration;

use super::installation::Installation;

/// How to start a server; `Settings::default()` is right for most tests.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program to run. Default: the result of [`Installation::find`].
    pub installation: Option<Installation>,
    /// Whether the user `default` has a password, which is random. Default: yes.
    pub password: bool,
    /// Whether it listens only on its Unix socket. Default: no.
    pub unix_only: bool,
    /// If given, the port accepts only TLS. The Unix socket never does. Default: none.
    pub tls: Option<Tls>,
    /// Further users by name, each with its rules as in an ACL file: `on >secret ~* &* +@all`.
    pub users: Vec<(String, String)>,
    /// Whether clients may send DEBUG. Servers before 7.0 always let them. Default: no.
    pub debug_command: bool,
    /// If given, it runs as a node of a cluster, and a node that does not answer for this long
    /// counts as dead. Default: none.
    pub cluster_node_timeout: Option<Duration>,
    /// Whether it is a Sentinel, which watches over other servers. Default: no.
    pub sentinel: bool,
    /// Further lines of the configuration, by name and value. They override all of the above.
    pub settings: Vec<(String, String)>,
}

/// Certificates and keys of a server, as PEM.
#[derive(Clone)]
pub struct Tls {
    /// The server's certificate, with those that lead to the authority.
    pub certificate: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
    /// The authority that must have issued clients' certificates.
    pub authority: Vec<u8>,
    /// Whether clients need a certificate.
    pub clients: ClientCertificates,
}

/// Whether a server asks its clients for certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// It does not.
    #[default]
    Ignored,
    /// It checks a certificate if the client sends one.
    Optional,
    /// It refuses clients without one.
    Required,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            installation: None,
            password: true,
            unix_only: false,
            tls: None,
            users: Vec::new(),
            debug_command: false,
            cluster_node_timeout: None,
            sentinel: false,
            settings: Vec::new(),
        }
    }
}

impl Settings {
    /// Adds one line of the configuration.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Adds one user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, rules: impl Into<String>) -> Self {
        self.users.push((name.into(), rules.into()));
        self
    }
}

impl std::fmt::Debug for Tls {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// Where a server is.
pub(super) struct Place<'a> {
    pub(super) port: u16,
    pub(super) socket: &'a Path,
    pub(super) data: &'a Path,
    pub(super) log: &'a Path,
    pub(super) password: &'a str,
}

/// Files of certificates in the data directory.
pub(super) const CERTIFICATE: &str = "server.crt";
pub(super) const KEY: &str = "server.key";
pub(super) const AUTHORITY: &str = "ca.crt";

/// The first version that has the settings `enable-debug-command` and `shutdown-timeout`.
const SINCE_DEBUG_COMMAND: u32 = 7;

/// `redis.conf`.
pub(super) fn configuration(settings: &Settings, major: u32, place: &Place<'_>) -> String {
    let mut lines = ports(settings, place);
    lines.extend(common(place));
    if !place.password.is_empty() {
        lines.push(("requirepass", place.password.into()));
        lines.push(("masterauth", place.password.into()));
    }
    if major >= SINCE_DEBUG_COMMAND {
        // A shutdown does not wait for replicas that may be gone.
        lines.push(("shutdown-timeout", "0".into()));
        lines.push(("enable-debug-command", yes_no(settings.debug_command)));
    }
    if let Some(timeout) = settings.cluster_node_timeout {
        lines.extend(of_cluster(timeout));
    }
    lines.extend(settings.users.iter().map(|(name, rules)| ("user", format!("{name} {rules}"))));
    let given = settings.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
    lines.into_iter().chain(given).map(|(name, value)| format!("{name} {value}\n")).collect()
}

type Lines = Vec<(&'static str, String)>;

fn ports(settings: &Settings, place: &Place<'_>) -> Lines {
    let Some(tls) = &settings.tls else { return vec![("port", place.port.to_string())] };
    let file = |name| quoted(&place.data.join(name));
    vec![
        ("port", "0".into()),
        ("tls-port", place.port.to_string()),
        ("tls-cert-file", file(CERTIFICATE)),
        ("tls-key-file", file(KEY)),
        ("tls-ca-cert-file", file(AUTHORITY)),
        ("tls-auth-clients", word(tls.clients).into()),
    ]
}

fn common(place: &Place<'_>) -> Lines {
    vec![
        ("bind", "127.0.0.1".into()),
        ("unixsocket", quoted(place.socket)),
        ("unixsocketperm", "700".into()),
        ("dir", quoted(place.data)),
        ("logfile", quoted(place.log)),
        ("daemonize", "no".into()),
        ("save", "\"\"".into()),
        ("appendonly", "no".into()),
    ]
}

fn of_cluster(timeout: Duration) -> Lines {
    vec![
        ("cluster-enabled", "yes".into()),
        ("cluster-node-timeout", timeout.as_millis().to_string()),
        // A replica takes over no matter how long it has not heard of its master.
        ("cluster-replica-validity-factor", "0".into()),
        // Replicas are synchronized at once instead of after five seconds.
        ("repl-diskless-sync-delay", "0".into()),
        // Clients are told of a replica only after its master has sent it something, at least a
        // ping.
        ("repl-ping-replica-period", "1".into()),
    ]
}

fn yes_no(value: bool) -> String {
    if value { "yes".into() } else { "no".into() }
}

fn word(clients: ClientCertificates) -> &'static str {
    match clients {
        ClientCertificates::Ignored => "no",
        ClientCertificates::Optional => "optional",
        ClientCertificates::Required => "yes",
    }
}

/// As `sdssplitargs` reads it, which knows these two escapes.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &Settings, major: u32) -> String {
        let place = Place {
            port: 7,
            socket: Path::new("/a b/\"s\""),
            data: Path::new("/d"),
            log: Path::new("/l"),
            password: "",
        };
        configuration(settings, major, &place)
    }

    #[test]
    fn what_the_caller_sets_comes_last_and_wins() {
        let text = of(&Settings::default().setting("appendonly", "yes"), 7);
        assert_eq!(text.lines().last(), Some("appendonly yes"));
    }

    #[test]
    fn an_older_server_is_told_only_what_it_knows() {
        let settings = Settings { debug_command: true, ..Settings::default() };
        assert!(of(&settings, 7).contains("enable-debug-command yes\n"));
        assert!(!of(&settings, 6).contains("enable-debug-command"));
        assert!(!of(&settings, 6).contains("shutdown-timeout"));
    }

    #[test]
    fn paths_with_spaces_and_quotes_are_quoted() {
        assert!(of(&Settings::default(), 7).contains(r#"unixsocket "/a b/\"s\"""#));
    }
}
