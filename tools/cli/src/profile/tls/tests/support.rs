//! Servers with TLS, what is profiled on the way to them, and psql.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use onetrip_lab::postgres::{Installation, Options, PrivatePostgres, find_all};
use onetrip_profile::Profile;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

use super::super::{Mode, Relays, TlsArgs, Way};
use crate::profile::analysis::{Analysis, Settings};
use crate::profile::splice::{Front, Splice, Splicer};

/// A test that waits longer has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// The host that certificates are for. To others, such as 127.0.0.1, they are of no use.
pub(super) const HOST: &str = "localhost";

/// Files of certificates: `root.crt` has signed `server.crt` and `mine.crt`, each with its key
/// beside it; `other.crt` is another authority.
pub(super) struct Certificates {
    directory: TempDir,
    pub(super) root: String,
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Certificates {
    pub(super) fn new() -> Certificates {
        let directory = tempfile::tempdir().unwrap();
        let authority = |name: &str| {
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            let key = KeyPair::generate().unwrap();
            (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
        };
        let (root, issuer) = authority("the authority");
        let write = |name: &str, content: &str| {
            fs::write(directory.path().join(name), content).unwrap();
        };
        write("root.crt", &root);
        write("other.crt", &authority("another").0);
        let mut made = Vec::new();
        for name in ["server", "mine"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap().pem();
            write(&format!("{name}.crt"), &certificate);
            write(&format!("{name}.key"), &key.serialize_pem());
            made.push((certificate, key.serialize_pem()));
        }
        let (certificate, key) = made.remove(0);
        Certificates { directory, root, certificate, key }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Options with the authority, and perhaps with a certificate for clients.
    pub(super) fn args(&self, tls: Mode, identity: Option<&str>) -> TlsArgs {
        let file = |end: &str| identity.map(|name| self.path(&format!("{name}.{end}")));
        let tls_root = Some(self.path("root.crt").display().to_string());
        TlsArgs { tls, tls_root, cert: file("crt"), key: file("key") }
    }
}

/// PostgreSQL with TLS.
pub(super) struct Database {
    pub(super) postgres: PrivatePostgres,
    pub(super) certificates: Certificates,
}

/// Who may only log in over TLS, and by SCRAM, is `safe`; its password is `canary`.
const ACCESS: &str = "local all all scram-sha-256\n\
                      hostssl all safe all scram-sha-256\n\
                      host all postgres all scram-sha-256\n";

impl Database {
    fn start(installation: Option<Installation>) -> Database {
        let certificates = Certificates::new();
        let options = Options { installation, ..Options::default() }
            .setting("ssl", "on")
            .setting("ssl_cert_file", "server.crt")
            .setting("ssl_key_file", "server.key")
            .file("server.crt", certificates.certificate.clone())
            .file("server.key", certificates.key.clone())
            .file("pg_hba.conf", ACCESS);
        let database =
            Database { postgres: PrivatePostgres::start(options).unwrap(), certificates };
        let make = "create role safe login password 'canary'";
        let port = database.postgres.port();
        database.psql(port, "user=postgres sslmode=disable", make).unwrap();
        database
    }

    pub(super) fn to(&self) -> String {
        format!("{HOST}:{}", self.postgres.port())
    }

    /// A way to this server, profiled.
    pub(super) fn profiled(&self, args: &TlsArgs) -> Profiled {
        Profiled::to(&self.to(), args)
    }

    /// What psql prints, or the last line of its complaint.
    pub(super) fn psql(&self, port: u16, settings: &str, sql: &str) -> Result<String, String> {
        let output = self.psql_command(port, settings, sql).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap().trim_end_matches('\n').to_owned();
        match output.status.success() {
            true => Ok(text(output.stdout)),
            false => Err(text(output.stderr)),
        }
    }

    pub(super) fn psql_command(&self, port: u16, settings: &str, sql: &str) -> Command {
        let root = self.certificates.path("root.crt");
        let is_safe = !settings.contains("user=");
        let (user, password) = match is_safe {
            true => ("user=safe", "canary"),
            false => ("", self.postgres.password()),
        };
        let info = format!(
            "host={HOST} hostaddr=127.0.0.1 port={port} dbname=postgres passfile=/dev/null \
             sslrootcert={} {user} {settings}",
            root.display()
        );
        let mut psql = Command::new("psql");
        psql.args(["-XAtw", "-v", "ON_ERROR_STOP=1", "-c", sql, &info]);
        psql.env("PGPASSWORD", password).env("HOME", self.certificates.path(""));
        if let Some(libraries) = &self.libraries() {
            psql.env("LD_LIBRARY_PATH", libraries);
        }
        psql
    }

    /// Where the libpq of this server's version is, if it came with it.
    fn libraries(&self) -> Option<PathBuf> {
        let of_version = |it: &Installation| it.major() == self.postgres.major();
        let installation = find_all().unwrap().into_iter().find(of_version)?;
        let libraries = installation.bin().parent()?.join("lib");
        libraries.join("libpq.so.5").exists().then_some(libraries)
    }
}

/// The server of most tests; `None` where there is no psql, which is printed.
pub(super) fn database() -> Option<&'static Database> {
    static DATABASE: OnceLock<Option<Database>> = OnceLock::new();
    DATABASE.get_or_init(|| has_psql().then(|| Database::start(None))).as_ref()
}

/// A server with what PostgreSQL 17 and 18 have brought: TLS without asking, protocol 3.2.
pub(super) fn newest() -> Option<&'static Database> {
    static DATABASE: OnceLock<Option<Database>> = OnceLock::new();
    let start = || {
        let newest = find_all().unwrap().into_iter().next().filter(|it| it.major() >= 18);
        if newest.is_none() {
            println!("skipped: no PostgreSQL 18");
        }
        newest.filter(|_| has_psql()).map(|it| Database::start(Some(it)))
    };
    DATABASE.get_or_init(start).as_ref()
}

fn has_psql() -> bool {
    let has = Command::new("psql").arg("--version").output().is_ok();
    if !has {
        println!("skipped: no psql");
    }
    has
}

/// A splice with its relays.
pub(super) struct Profiled {
    splice: Splice,
    analysis: Analysis,
    _relays: Relays,
    notes: Arc<(Mutex<Vec<String>>, Condvar)>,
}

impl Profiled {
    pub(super) fn to(to: &str, args: &TlsArgs) -> Profiled {
        Profiled::begin(to, args).unwrap()
    }

    pub(super) fn begin(to: &str, args: &TlsArgs) -> Result<Profiled, String> {
        let notes = Arc::<(Mutex<Vec<String>>, Condvar)>::default();
        let said = notes.clone();
        let relays = Relays::start("onetrip profile", move |line| {
            said.0.lock().unwrap().push(line.to_owned());
            said.1.notify_all();
        })?;
        let analysis = Analysis::start(Settings::default())?;
        let way = Way::to(to, args, |_| None)?;
        let splicer = Splicer { analysis: &analysis, relays: &relays, tls: args };
        let splice = splicer.splice(Front::free(), way, 0)?;
        Ok(Profiled { splice, analysis, _relays: relays, notes })
    }

    pub(super) fn port(&self) -> u16 {
        self.splice.addr.port()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.0.lock().unwrap().clone()
    }

    /// Waits until something is said that begins so.
    pub(super) fn wait_for_note(&self, begin: &str) {
        let is_missing = |it: &mut Vec<String>| !it.iter().any(|line| line.starts_with(begin));
        let (notes, said) = &*self.notes;
        let notes = notes.lock().unwrap();
        let (notes, waited) = said.wait_timeout_while(notes, PATIENCE, is_missing).unwrap();
        assert!(!waited.timed_out(), "{begin:?} was not said: {notes:?}");
    }

    pub(super) fn end(self) -> Profile {
        drop(self.splice);
        self.analysis.finish().unwrap()
    }
}

/// Whether the server says that this session is encrypted.
pub(super) const IS_ENCRYPTED: &str = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
