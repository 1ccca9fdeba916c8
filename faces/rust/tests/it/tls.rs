//! TLS with real servers: who may log in, what is verified, what is encrypted.

use crate::pooled::shared;
use onetrip::{Client, Config, Error, Kind, Outcome};
use onetrip_lab::postgres::Options;
use rcgen::{PKCS_ECDSA_P384_SHA384, PKCS_ED25519, date_time_ymd};

use crate::certificates::*;
use crate::support::*;

/// How this connection is encrypted, according to the server.
async fn encryption(client: &Client) -> Option<String> {
    let sql = "select version from pg_stat_ssl where pid = pg_backend_pid() and ssl";
    client.query_opt(sql, &[]).await.unwrap().map(|row| row.get(0))
}

async fn is_encrypted(client: &Client) -> bool {
    assert_usable(client).await;
    encryption(client).await.is_some()
}

/// The error of a failed connection: one line, without a password.
async fn refused(server: &TlsServer, settings: &str) -> Error {
    let error = error(server.connect(settings).await);
    assert_eq!(error.outcome(), Outcome::NotSent, "{settings}: {error}");
    let said = format!("{error} {error:?}");
    assert!(!said.contains(server.postgres.password()), "{settings}: {said}");
    assert!(!error.to_string().contains('\n'), "{settings}: {said}");
    error
}

/// The same, and checks its code and some words.
async fn refused_as(server: &TlsServer, settings: &str, code: &str, words: &[&str]) -> Error {
    let error = refused(server, settings).await;
    assert_eq!(error.code(), code, "{settings}: {error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{settings}: {words:?}: {text}");
    error
}

/// Whether this user's home has no certificates that would change the results of tests, which can't
/// choose another home for their process.
fn home_is_bare() -> bool {
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
    let bare = !home.join(".postgresql").exists();
    if !bare {
        skipped("this user has files in ~/.postgresql");
    }
    bare
}

#[test]
fn each_mode_gets_what_it_asks_for_where_there_is_tls() {
    run(async {
        for (settings, encrypted) in [
            ("sslmode=disable", false),
            ("sslmode=allow", false),
            ("sslmode=prefer", true),
            ("", true),
            ("sslmode=require ROOT", true),
            ("sslmode=verify-ca ROOT", true),
            ("sslmode=verify-full ROOT", true),
            ("sslmode=verify-full ROOT host=localhost", true),
            ("sslmode=verify-full ROOT host=127.0.0.1", true),
            ("sslmode=require ROOT sslsni=0", true),
        ] {
            let client = server().connect(settings).await.unwrap();
            assert_eq!(is_encrypted(&client).await, encrypted, "{settings}");
            let session = client.session().await.unwrap();
            assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        }
        if home_is_bare() {
            assert!(is_encrypted(&server().connect("sslmode=require").await.unwrap()).await);
        }
    });
}

#[test]
fn each_mode_gets_what_it_asks_for_where_there_is_no_tls() {
    run(async {
        let root = server().path("root.crt").display().to_string();
        let connect = async |mode: &str| {
            let url = format!("{}?sslmode={mode}&sslrootcert={root}", shared().url());
            Client::connect_with(&url.parse().unwrap()).await
        };
        for mode in ["disable", "allow", "prefer"] {
            assert!(!is_encrypted(&connect(mode).await.unwrap()).await, "{mode}");
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            let error = failed(connect(mode).await, Outcome::NotSent, "tls_missing");
            assert_eq!(error.kind(), Kind::Transport);
            assert!(error.to_string().contains(&format!("127.0.0.1:{}", shared().port())));
        }
    });
}

#[test]
fn both_versions_of_tls_are_spoken() {
    run(async {
        for (settings, version) in [
            ("", "TLSv1.3"),
            ("ssl_min_protocol_version=TLSv1.3", "TLSv1.3"),
            ("ssl_max_protocol_version=TLSv1.2", "TLSv1.2"),
        ] {
            let settings = format!("sslmode=verify-full ROOT {settings}");
            let client = server().connect(&settings).await.unwrap();
            assert_eq!(encryption(&client).await.as_deref(), Some(version), "{settings}");
        }
    });
}

#[test]
fn modes_that_leave_the_choice_follow_the_servers_rules() {
    run(async {
        for (settings, encrypted) in [
            ("user=tls_only sslmode=allow", true),
            ("user=tls_only sslmode=prefer", true),
            ("user=plain_only sslmode=prefer", false),
            ("user=plain_only sslmode=allow", false),
        ] {
            let client = server().connect(&format!("{settings} password=pw")).await.unwrap();
            assert_eq!(is_encrypted(&client).await, encrypted, "{settings}");
        }
        for settings in ["user=tls_only sslmode=disable", "user=plain_only sslmode=require ROOT"] {
            let error = refused(server(), &format!("{settings} password=pw")).await;
            assert_eq!(error.sqlstate(), Some("28000"), "{settings}: {error}");
        }
        // Both ways were tried, and the error names both. A wrong password is final.
        let error = refused(server(), "user=tls_only password=wrong").await;
        assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
        assert!(error.to_string().contains("without TLS"), "{error}");
        let error = refused(server(), "password=wrong").await;
        assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
        assert_eq!(error.to_string().matches("password").count(), 1, "{error}");
    });
}

/// P74. Each role is let in by its password, one way, and then told that it may not log in. The
/// other way would be refused for another reason.
#[test]
fn who_is_refused_behind_its_login_is_not_sent_the_other_way() {
    run(async {
        for settings in ["user=no_login sslmode=prefer", "user=no_plain sslmode=allow"] {
            let error = refused(server(), &format!("{settings} password=pw")).await;
            assert_eq!(error.sqlstate(), Some("28000"), "{settings}: {error}");
            assert!(error.to_string().contains("not permitted to log in"), "{settings}: {error}");
            assert!(!error.to_string().contains("TLS"), "{settings}: {error}");
        }
    });
}

#[test]
fn a_certificate_for_another_host_is_refused_by_verify_full_alone() {
    run(async {
        for settings in ["host=elsewhere.example", "host=10.1.2.3", "host=example"] {
            let full = format!("sslmode=verify-full ROOT {settings}");
            refused_as(server(), &full, "tls_failed", &["not for this host", HOST]).await;
            for mode in ["require", "verify-ca"] {
                let settings = format!("sslmode={mode} ROOT {settings}");
                assert!(is_encrypted(&server().connect(&settings).await.unwrap()).await);
            }
        }
    });
}

#[test]
fn an_authority_that_is_not_trusted_is_refused_by_all_modes_that_verify() {
    run(async {
        for mode in ["require", "verify-ca", "verify-full"] {
            let settings = format!("sslmode={mode} OTHER");
            let other = server().path("other.crt").display().to_string();
            refused_as(server(), &settings, "tls_failed", &["no authority", &other]).await;
            // The right name does not make up for it.
            let settings = format!("{settings} host=elsewhere.example");
            refused_as(server(), &settings, "tls_failed", &["no authority"]).await;
        }
        let client = server().connect("sslmode=prefer OTHER").await.unwrap();
        assert!(is_encrypted(&client).await);
    });
}

/// A server whose certificate has expired, and which speaks only TLS 1.2.
fn old_server() -> TlsServer {
    let authority = Authority::signing_with(&PKCS_ECDSA_P384_SHA384, "the authority");
    let identity = authority.issue(&[HOST], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let options = Options::default().setting("ssl_max_protocol_version", "TLSv1.2");
    TlsServer::start(authority, identity, options)
}

#[test]
fn an_expired_certificate_and_an_old_version_are_refused() {
    run(async {
        if is_before(12, "the setting ssl_max_protocol_version") {
            return;
        }
        let server = old_server();
        for mode in ["require", "verify-ca", "verify-full"] {
            let settings = format!("sslmode={mode} ROOT");
            refused_as(&server, &settings, "tls_failed", &["expired"]).await;
            let settings = format!("{settings} host=elsewhere.example");
            refused_as(&server, &settings, "tls_failed", &["expired"]).await;
        }
        let newer = "ssl_min_protocol_version=TLSv1.3";
        if home_is_bare() {
            let bound = server.connect("sslmode=require channel_binding=require").await.unwrap();
            assert_eq!(encryption(&bound).await.as_deref(), Some("TLSv1.2"));
            let settings = format!("sslmode=require {newer}");
            refused_as(&server, &settings, "tls_failed", &["version"]).await;
        }
        // As in libpq, prefer goes on without TLS if TLS fails.
        let client = server.connect(&format!("sslmode=prefer {newer}")).await.unwrap();
        assert!(!is_encrypted(&client).await);
    });
}

#[test]
fn a_revoked_certificate_is_refused() {
    run(async {
        let lists = [true, false].map(|all| {
            let content = server().authority.revocations(all);
            server().file(&format!("{all}.crl"), &content).display().to_string()
        });
        for mode in ["require", "verify-ca", "verify-full"] {
            let settings = format!("sslmode={mode} ROOT sslcrl={}", lists[0]);
            refused_as(server(), &settings, "tls_failed", &["revoked"]).await;
            let settings = format!("sslmode={mode} ROOT sslcrl={}", lists[1]);
            assert!(is_encrypted(&server().connect(&settings).await.unwrap()).await);
        }
        let other = Authority::new("another authority").revocations(false);
        let other = server().file("other.crl", &other).display().to_string();
        let settings = format!("sslmode=verify-full ROOT sslcrl={other}");
        refused_as(server(), &settings, "tls_failed", &["sslcrl"]).await;
    });
}

/// Settings for a client's certificate.
fn with_identity(server: &TlsServer, name: &str, identity: &Identity) -> String {
    let certificate = server.file(&format!("{name}.crt"), &identity.certificate);
    let key = server.file(&format!("{name}.key"), &identity.key);
    format!("sslcert={} sslkey={}", certificate.display(), key.display())
}

#[test]
fn a_clients_certificate_says_who_it_is() {
    run(async {
        let settings = "sslmode=verify-full ROOT user=cert_user password=''";
        let right = with_identity(server(), "right", &server().authority.client("cert_user"));
        for version in ["TLSv1.2", "TLSv1.3"] {
            let settings = format!("{settings} {right} ssl_max_protocol_version={version}");
            let client = server().connect(&settings).await.unwrap();
            assert!(is_encrypted(&client).await);
            let row = client.query_one("select current_user::text", &[]).await.unwrap();
            assert_eq!(row.get::<&str>(0), "cert_user");
        }
        // No certificate, and one for another user: PostgreSQL's error.
        let error = refused(server(), settings).await;
        assert_eq!(error.sqlstate(), Some("28000"), "{error}");
        let wrong = with_identity(server(), "wrong", &server().authority.client("somebody"));
        let error = refused(server(), &format!("{settings} {wrong}")).await;
        assert_eq!(error.sqlstate(), Some("28000"), "{error}");
        // One that the server does not trust: an error of TLS, early or late.
        let stranger = Authority::new("another authority").client("cert_user");
        let stranger = with_identity(server(), "stranger", &stranger);
        for version in ["TLSv1.2", "TLSv1.3"] {
            let settings = format!("{settings} {stranger} ssl_max_protocol_version={version}");
            let error = refused(server(), &settings).await;
            assert!(error.to_string().contains("client's certificate"), "{version}: {error}");
        }
    });
}

#[test]
fn files_of_ours_that_can_not_be_used_are_an_error_and_no_reason_to_do_without_tls() {
    run(async {
        let identity = with_identity(server(), "mine", &server().authority.client("cert_user"));
        let missing = "sslcert=/no/such/file sslkey=/no/such/file";
        for mode in ["prefer", "require ROOT", "verify-full ROOT"] {
            let settings = format!("sslmode={mode} {missing}");
            refused_as(server(), &settings, "config", &["/no/such/file", "sslcert"]).await;
        }
        let key = server().path("mine.key");
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o604))
            .unwrap();
        let settings = format!("sslmode=prefer {identity}");
        refused_as(server(), &settings, "config", &["chmod 600", "mine.key"]).await;
        let settings = "sslmode=verify-full sslrootcert=/no/such/file";
        refused_as(server(), settings, "config", &["sslrootcert"]).await;
        // Without TLS they are not read.
        let client = server().connect(&format!("sslmode=disable {missing}")).await.unwrap();
        assert_usable(&client).await;
        let url = format!("{}?sslcert=/no/such/file", shared().url());
        assert_usable(&Client::connect(&url).await.unwrap()).await;
    });
}

#[test]
fn tls_begins_at_once_where_the_server_knows_how() {
    run(async {
        let settings = "sslmode=verify-full ROOT sslnegotiation=direct channel_binding=require";
        let Some(server) = direct_server() else {
            return skipped("there is no PostgreSQL 17 or later here");
        };
        for version in ["TLSv1.2", "TLSv1.3"] {
            let settings = format!("{settings} ssl_max_protocol_version={version}");
            let client = server.connect(&settings).await.unwrap();
            assert!(is_encrypted(&client).await);
        }
        let client = server.connect("sslmode=verify-full ROOT").await.unwrap();
        assert!(is_encrypted(&client).await);
    });
}

#[test]
fn a_server_that_can_not_begin_with_tls_is_told_of() {
    run(async {
        let settings = "sslmode=verify-full ROOT sslnegotiation=direct";
        if server().postgres.major() < 17 {
            refused_as(server(), settings, "tls_failed", &["PostgreSQL 17"]).await;
        }
        // Nor can a server without TLS, of any version.
        let root = server().path("root.crt").display().to_string();
        let url =
            format!("{}?sslmode=require&sslrootcert={root}&sslnegotiation=direct", shared().url());
        let config: Config = url.parse().unwrap();
        let error = error(Client::connect_with(&config).await);
        assert_eq!(error.code(), "tls_failed", "{error}");
    });
}

#[test]
fn a_login_is_bound_to_its_channel_where_that_is_demanded() {
    run(async {
        if is_before(11, "channel binding") {
            return;
        }
        for settings in [
            "sslmode=require ROOT channel_binding=require",
            "sslmode=verify-full ROOT channel_binding=require ssl_max_protocol_version=TLSv1.2",
            "sslmode=require ROOT channel_binding=prefer",
            "sslmode=require ROOT channel_binding=disable",
            "sslmode=require ROOT channel_binding=require require_auth=scram-sha-256",
        ] {
            assert!(is_encrypted(&server().connect(settings).await.unwrap()).await, "{settings}");
        }
        let right = with_identity(server(), "bound", &server().authority.client("cert_user"));
        for settings in [
            "sslmode=disable",
            "sslmode=allow",
            "sslmode=require ROOT user=trusted",
            "sslmode=disable user=trusted",
            "sslmode=verify-full ROOT user=clear password=pw",
            "sslmode=verify-full ROOT user=hashed password=pw",
            &format!("sslmode=verify-full ROOT user=cert_user {right}"),
        ] {
            let settings = format!("{settings} channel_binding=require");
            let error = refused_as(server(), &settings, "authentication", &["channel_binding"]);
            assert_eq!(error.await.kind(), Kind::Misuse);
        }
    });
}

/// For Ed25519 RFC 5929 does not define what a login is bound to, so it isn't bound.
#[test]
fn a_certificate_that_nothing_can_be_bound_to_is_good_enough_where_that_is_not_demanded() {
    run(async {
        let authority = Authority::signing_with(&PKCS_ED25519, "the authority");
        let identity = authority.server(&[HOST]);
        let server = TlsServer::start(authority, identity, Options::default());
        let client = server.connect("sslmode=verify-full ROOT").await.unwrap();
        assert!(is_encrypted(&client).await);
        let settings = "sslmode=verify-full ROOT channel_binding=require";
        refused_as(&server, settings, "authentication", &["channel_binding"]).await;
    });
}

#[test]
fn only_the_ways_of_authentication_that_are_allowed_are_taken() {
    run(async {
        let methods = [
            ("none", "user=trusted"),
            ("password", "user=clear password=pw"),
            ("md5", "user=hashed password=pw"),
            ("scram-sha-256", ""),
        ];
        for (allowed, _) in methods {
            for (used, who) in methods {
                let settings =
                    |rule: &str| format!("sslmode=verify-full ROOT {who} require_auth={rule}");
                let only = settings(allowed);
                let all_but = settings(&format!("!{allowed}"));
                let (taken, not_taken) =
                    if allowed == used { (only, all_but) } else { (all_but, only) };
                assert_usable(&server().connect(&taken).await.unwrap()).await;
                let words = match used {
                    "none" => ["require_auth", "without authentication"],
                    used => ["require_auth", used],
                };
                refused_as(server(), &not_taken, "authentication", &words).await;
            }
        }
        let either = "user=hashed password=pw require_auth=scram-sha-256,md5";
        assert_usable(&server().connect(either).await.unwrap()).await;
        refused_as(server(), "user=trusted require_auth=md5,password", "authentication", &[]).await;
    });
}

#[test]
fn a_unix_socket_has_no_tls_whatever_the_mode() {
    run(async {
        let directory = server().postgres.socket_dir().display().to_string();
        for settings in ["sslmode=require ROOT", "sslmode=verify-full ROOT", "sslmode=prefer"] {
            let settings = format!("{settings} hostaddr='' host={directory}");
            assert!(!is_encrypted(&server().connect(&settings).await.unwrap()).await);
        }
    });
}

#[test]
fn each_host_of_a_list_is_tried_in_its_own_right() {
    run(async {
        let (plain, with_tls) = (shared().port(), server().postgres.port());
        let hosts = format!(
            "sslmode=verify-full ROOT host={HOST},elsewhere.example,{HOST} \
             hostaddr=127.0.0.1,127.0.0.1,127.0.0.1 port={plain},{with_tls},{with_tls}"
        );
        assert!(is_encrypted(&server().connect(&hosts).await.unwrap()).await);
        let hosts = hosts.replace(&format!(",{HOST} "), ",elsewhere.example ");
        let error = refused(server(), &hosts).await;
        for words in ["has no TLS", "not for this host"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    });
}

/// Certificates of version 1 have no field for names and can't be verified, but their keys work.
#[test]
fn a_certificate_of_version_1_serves_where_nothing_is_verified() {
    run(async {
        let server = TlsServer::start(
            Authority::new("the authority"),
            version_1_certificate(),
            Options::default(),
        );
        let refusal = refused_as(&server, "sslmode=verify-ca ROOT", "tls_failed", &["version 1"]);
        assert_eq!(refusal.await.kind(), Kind::Transport);
        for version in ["TLSv1.2", "TLSv1.3"] {
            let settings = format!("sslmode=prefer ssl_max_protocol_version={version}");
            let client = server.connect(&settings).await.unwrap();
            assert_eq!(encryption(&client).await.as_deref(), Some(version));
        }
    });
}

/// A variable names the system's certificates, so the test needs a process of its own.
#[test]
fn the_systems_authorities_are_trusted_where_that_is_asked_for() {
    const CHILD: &str = "ONETRIP_TEST_IS_CHILD";
    const SYSTEM: &str = "SSL_CERT_FILE";
    if std::env::var_os(CHILD).is_some() {
        let system = std::env::var_os(SYSTEM).unwrap();
        return run(async {
            std::fs::copy(server().path("root.crt"), &system).unwrap();
            let client = server().connect("sslrootcert=system").await.unwrap();
            assert!(is_encrypted(&client).await);
            let elsewhere = "sslrootcert=system host=elsewhere.example";
            refused_as(server(), elsewhere, "tls_failed", &["not for this host"]).await;
            std::fs::copy(server().path("other.crt"), &system).unwrap();
            refused_as(server(), "sslrootcert=system", "tls_failed", &["this system"]).await;
            std::fs::remove_file(&system).unwrap();
            refused_as(server(), "sslrootcert=system", "config", &["ca-certificates"]).await;
        });
    }
    let directory = tempfile::tempdir().unwrap();
    let name = "tls::the_systems_authorities_are_trusted_where_that_is_asked_for";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "yes")
        .env(SYSTEM, directory.path().join("system.crt"))
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
