//! Certificates and files for TLS, made for each run, and servers that use them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use onetrip::{Client, Config, Error};
use onetrip_lab::postgres::{Installation, Options, PrivatePostgres};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    RevokedCertParams, SerialNumber, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use tempfile::TempDir;

/// An authority with its certificate.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        Authority::signing_with(&PKCS_ECDSA_P256_SHA256, name)
    }

    pub(crate) fn signing_with(algorithm: &'static SignatureAlgorithm, name: &str) -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for these hosts.
    pub(crate) fn server(&self, names: &[&str]) -> Identity {
        self.issue(names, |_| {})
    }

    /// A certificate that names a client's user.
    pub(crate) fn client(&self, user: &str) -> Identity {
        self.issue(&[], |params| {
            params.distinguished_name.push(DnType::CommonName, user);
        })
    }

    pub(crate) fn issue(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.serial_number = Some(SERIAL.into());
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// A list of revoked certificates: all that this authority has issued, or none.
    pub(crate) fn revocations(&self, all: bool) -> String {
        let revoked = RevokedCertParams {
            serial_number: SERIAL.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: if all { vec![revoked] } else { vec![] },
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// All certificates have this number: tests look at one at a time.
const SERIAL: u64 = 4711;

/// A certificate of X.509 version 1, as `openssl x509 -req` made them for many years: no names, no
/// extensions (RFC 5280 section 4.1, with the version left out).
pub(crate) fn version_1_certificate() -> Identity {
    const ECDSA_WITH_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
    let key = KeyPair::generate().unwrap();
    let sequence = |parts: &[&[u8]]| der(0x30, parts);
    let algorithm = sequence(&[ECDSA_WITH_SHA256]);
    let name = sequence(&[&der(0x31, &[&sequence(&[COMMON_NAME, &der(0x0c, &[b"old"])])])]);
    let validity = sequence(&[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"491231000000Z"])]);
    let serial = der(0x02, &[&[1]]);
    let info = key.subject_public_key_info();
    let to_sign = sequence(&[&serial, &algorithm, &name, &validity, &name, &info]);
    let signature = der(0x03, &[&[0], &key.sign(&to_sign).unwrap()]);
    let certificate = BASE64.encode(sequence(&[&to_sign, &algorithm, &signature]));
    let lines: Vec<&str> = (0..certificate.len())
        .step_by(64)
        .map(|at| &certificate[at..certificate.len().min(at + 64)])
        .collect();
    let certificate = lines.join("\n");
    let certificate =
        format!("-----BEGIN CERTIFICATE-----\n{certificate}\n-----END CERTIFICATE-----\n");
    Identity { certificate, key: key.serialize_pem() }
}

/// One value in DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let header = match u8::try_from(content.len()) {
        Ok(len @ ..128) => vec![tag, len],
        Ok(len) => vec![tag, 0x81, len],
        Err(_) => vec![tag, 0x82, (content.len() >> 8) as u8, content.len() as u8],
    };
    [header, content].concat()
}

/// A server with TLS, and the files that clients need for it.
pub(crate) struct TlsServer {
    pub(crate) postgres: PrivatePostgres,
    pub(crate) authority: Authority,
    directory: TempDir,
}

/// The host that certificates are for. It is reached by its address, so no name is looked up.
pub(crate) const HOST: &str = "db.onetrip.example";

/// The access rules of the server.
const ACCESS: &str = "\
    local     all all                scram-sha-256\n\
    hostssl   all tls_only   all     scram-sha-256\n\
    hostssl   all no_login   all     scram-sha-256\n\
    hostnossl all no_plain   all     scram-sha-256\n\
    hostnossl all plain_only all     scram-sha-256\n\
    hostssl   all cert_user  all     cert\n\
    host      all trusted    all     trust\n\
    host      all clear      all     password\n\
    host      all hashed     all     md5\n\
    host      all postgres   all     scram-sha-256\n";

/// The roles of these rules, each with a password in the form that its method needs.
const ROLES: &str = "\
    create role tls_only login password 'pw'; create role plain_only login password 'pw';\n\
    create role no_login password 'pw'; create role no_plain password 'pw';\n\
    create role cert_user login; create role trusted login; create role clear login password 'pw';\n\
    set password_encryption = 'md5'; create role hashed login password 'pw'";

/// The server of most tests.
pub(crate) fn server() -> &'static TlsServer {
    static SERVER: OnceLock<TlsServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let authority = Authority::new("the authority");
        let identity = authority.server(&[HOST, "localhost", "127.0.0.1"]);
        TlsServer::start(authority, identity, Options::default())
    })
}

/// The newest server that supports a direct TLS handshake (PostgreSQL 17), if there is one.
pub(crate) fn direct_server() -> Option<&'static TlsServer> {
    static SERVER: OnceLock<Option<TlsServer>> = OnceLock::new();
    let start = |installation: Installation| {
        let authority = Authority::new("the authority");
        let identity = authority.server(&[HOST]);
        let options = Options { installation: Some(installation), ..Options::default() };
        TlsServer::start(authority, identity, options)
    };
    let newest = || onetrip_lab::postgres::find_all().unwrap().into_iter().next();
    SERVER.get_or_init(|| newest().filter(|newest| newest.major() >= 17).map(start)).as_ref()
}

impl TlsServer {
    /// Starts a server with this identity.
    pub(crate) fn start(authority: Authority, identity: Identity, options: Options) -> TlsServer {
        let options = ["ssl=on", "ssl_cert_file=server.crt", "ssl_key_file=server.key"]
            .iter()
            .chain(&["ssl_ca_file=clients.crt"])
            .filter_map(|setting| setting.split_once('='))
            .fold(options, |options, (name, value)| options.setting(name, value))
            .file("server.crt", identity.certificate)
            .file("server.key", identity.key)
            .file("clients.crt", authority.pem.clone())
            .file("pg_hba.conf", ACCESS);
        let postgres = PrivatePostgres::start(options).unwrap();
        let server = TlsServer { postgres, authority, directory: tempfile::tempdir().unwrap() };
        server.file("root.crt", &server.authority.pem);
        server.file("other.crt", &Authority::new("another authority").pem);
        server.make_roles();
        server
    }

    /// On a thread of its own, since the caller may be on a runtime.
    fn make_roles(&self) {
        let config = self.config("sslmode=disable");
        let make = async {
            let session = Client::connect_with(&config).await.unwrap().session().await.unwrap();
            session.script(ROLES).await.unwrap();
        };
        std::thread::scope(|scope| scope.spawn(|| crate::support::run(make)).join().unwrap());
    }

    /// A file that only its owner can read.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// How to connect as the superuser, with these settings. `ROOT` stands for the file with the
    /// right authority, `OTHER` for another one. Later settings win.
    pub(crate) fn config(&self, settings: &str) -> Config {
        let show = |path: &Path| path.display().to_string();
        let settings = settings
            .replace("ROOT", &format!("sslrootcert={}", show(&self.path("root.crt"))))
            .replace("OTHER", &format!("sslrootcert={}", show(&self.path("other.crt"))));
        let (port, password) = (self.postgres.port(), self.postgres.password());
        format!(
            "host={HOST} hostaddr=127.0.0.1 port={port} dbname=postgres user=postgres \
             password={password} passfile=/dev/null {settings}"
        )
        .parse()
        .unwrap()
    }

    pub(crate) async fn connect(&self, settings: &str) -> Result<Client, Error> {
        Client::connect_with(&self.config(settings)).await
    }
}
