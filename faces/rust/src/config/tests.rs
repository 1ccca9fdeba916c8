//! The configuration: compared with libpq's reading of the same texts; its order of precedence; and
//! that it never shows passwords.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::time::Duration;

use super::keyword::{Form, SWITCH};
use super::*;

/// Texts, and the result of `PQconninfoParse` of libpq 15 and 18 (both the same): keywords in the
/// order of their names, or `None` for an error.
const LIBPQ: &[(&str, Option<&str>)] = &[
    ("postgres://", Some("")),
    ("postgresql://", Some("")),
    ("postgres:///", Some("")),
    ("postgres:///db", Some("dbname=db")),
    ("postgres://host", Some("host=host")),
    ("postgres://host/", Some("host=host")),
    ("postgres://host/db", Some("dbname=db|host=host")),
    ("postgres://host:12345/db", Some("dbname=db|host=host|port=12345")),
    ("postgres://host:/db", Some("dbname=db|host=host")),
    ("postgres://:12345/", Some("port=12345")),
    ("postgres://user@", Some("user=user")),
    ("postgres://user@/db", Some("dbname=db|user=user")),
    ("postgres://user@host", Some("host=host|user=user")),
    (
        "postgres://user:secret@host:12345/db",
        Some("dbname=db|host=host|password=secret|port=12345|user=user"),
    ),
    ("postgres://user:@host", Some("host=host|user=user")),
    ("postgres://:secret@host", Some("host=host|password=secret")),
    ("postgres://@host", Some("host=host")),
    (
        "postgres://us%20er:p%40s%3As%2Fw%25@host/d%2Fb",
        Some("dbname=d/b|host=host|password=p@s:s/w%|user=us er"),
    ),
    ("postgres://user:a:b:c@host/db", Some("dbname=db|host=host|password=a:b:c|user=user")),
    ("postgres://user:a?b#c@host/db", Some("dbname=db|host=host|password=a?b#c|user=user")),
    ("postgres://u+v:p+w@host/d+b", Some("dbname=d+b|host=host|password=p+w|user=u+v")),
    ("postgres://[::1]", Some("host=::1")),
    ("postgres://[::1]:12345/db", Some("dbname=db|host=::1|port=12345")),
    ("postgres://[::1]:1,[fe80::2],h:3/db", Some("dbname=db|host=::1,fe80::2,h|port=1,,3")),
    ("postgres://h1,h2,h3/db", Some("dbname=db|host=h1,h2,h3|port=,,")),
    ("postgres://h1:1,h2:2,h3/db", Some("dbname=db|host=h1,h2,h3|port=1,2,")),
    ("postgres://h1:1,h2,h3/db", Some("dbname=db|host=h1,h2,h3|port=1,,")),
    ("postgres://h1,:2/db", Some("dbname=db|host=h1,|port=,2")),
    (
        "postgres://u:p@h1,h2:6432/db?application_name=x",
        Some("application_name=x|dbname=db|host=h1,h2|password=p|port=,6432|user=u"),
    ),
    ("postgres://%2Fvar%2Frun%2Fpostgresql/db", Some("dbname=db|host=/var/run/postgresql")),
    ("postgres://%2Ftmp:6432,h/db", Some("dbname=db|host=/tmp,h|port=6432,")),
    ("postgres://h%2Cg/db", Some("dbname=db|host=h,g")),
    ("postgres://?host=/path/to/socket", Some("host=/path/to/socket")),
    ("postgres://u@?host=/path", Some("host=/path|user=u")),
    ("postgres://u@/?host=/path", Some("host=/path|user=u")),
    ("postgres://u@:12345/db?host=/path", Some("dbname=db|host=/path|port=12345|user=u")),
    ("postgres://host?user=x", Some("host=host|user=x")),
    ("postgres://host/db?user=x&port=12345", Some("dbname=db|host=host|port=12345|user=x")),
    ("postgres://host/db?u%73er=x", Some("dbname=db|host=host|user=x")),
    ("postgres://host/db?user=a&user=b", Some("dbname=db|host=host|user=b")),
    ("postgres://a@host/db?user=b&password=p%26q", Some("dbname=db|host=host|password=p&q|user=b")),
    ("postgres://host?", Some("host=host")),
    ("postgres://host/?", Some("host=host")),
    ("postgres://host/db?&user=x", None),
    ("postgres://host/db?user=x&", Some("dbname=db|host=host|user=x")),
    ("postgres://host?options=-c%20a%3Db", Some("host=host|options=-c a=b")),
    ("postgres://host?hostaddr=127.0.0.1", Some("host=host|hostaddr=127.0.0.1")),
    ("postgres://host?user=a@b", Some("host=b|user=host?user=a")),
    ("postgres://h%C3%A9/d%C3%A9", Some("dbname=dé|host=hé")),
    ("postgres://host?zzz", None),
    ("postgres://host?user=a=b", None),
    ("postgres://host?=x", None),
    ("postgres://host?nonsense=1", None),
    ("postgres://[::1", None),
    ("postgres://[]", None),
    ("postgres://[::1]z", None),
    ("postgres://[::1]?user=x", Some("host=::1|user=x")),
    ("postgres://%zz", None),
    ("postgres://%1", None),
    ("postgres://%", None),
    ("postgres://a%00b", None),
    ("postgres://host/%GG", None),
    ("postgre://host", None),
    ("host=h user=u", Some("host=h|user=u")),
    ("host = h   user= u", Some("host=h|user=u")),
    ("  host=h  ", Some("host=h")),
    ("host=h\tuser=u\nport=1", Some("host=h|port=1|user=u")),
    ("host='h' user='a b'", Some("host=h|user=a b")),
    ("host='h'user='u'", Some("host=h|user=u")),
    ("user='it\\'s' password='a\\\\b'", Some("password=a\\b|user=it's")),
    ("user=it\\'s password=a\\\\b", Some("password=a\\b|user=it's")),
    ("password=\\'x\\'", Some("password='x'")),
    ("password=a'b", Some("password=a'b")),
    ("password='a=b c'", Some("password=a=b c")),
    ("password=a=b", Some("password=a=b")),
    ("user=a\\ b", Some("user=a b")),
    ("host=", Some("host=")),
    ("host= user=u", Some("host=user=u")),
    ("host='' user=u", Some("host=|user=u")),
    ("user='a", None),
    ("user", None),
    ("user u", None),
    ("user = ", Some("user=")),
    ("=x", None),
    ("nonsense=1", None),
    ("host=a,b port=1,2", Some("host=a,b|port=1,2")),
    ("host=a host=b", Some("host=b")),
    ("user=a\\", Some("user=a")),
    ("user='a\\", None),
    ("options='-c a=b'", Some("options=-c a=b")),
];

#[test]
fn texts_are_read_as_libpq_reads_them() {
    for (text, expected) in LIBPQ {
        let config = text.parse::<Config>();
        let read = config.as_ref().ok().map(pairs);
        let filled = |pair: &&str| !pair.ends_with('=');
        let expected: Option<Vec<_>> =
            expected.map(|pairs| pairs.split('|').filter(filled).collect());
        assert_eq!(read, expected.map(|pairs| pairs.join("|")), "{text:?}: {config:?}");
    }
}

fn pairs(config: &Config) -> String {
    let list = |items: Vec<String>| items.join(",");
    let ports = config.ports.iter().map(|port| port.map_or(String::new(), |port| port.to_string()));
    let addresses = config.hostaddrs.iter().flatten().map(ToString::to_string);
    let all = [
        ("application_name", config.settings.application_name.clone().unwrap_or_default()),
        ("dbname", config.dbname.clone()),
        ("host", list(config.hosts.clone())),
        ("hostaddr", list(addresses.collect())),
        ("options", config.options.clone().unwrap_or_default()),
        ("password", config.password.clone()),
        ("port", list(ports.collect())),
        ("user", config.user.clone()),
    ];
    let filled = all.iter().filter(|(_, value)| !value.is_empty());
    filled.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("|")
}

fn parse(text: &str) -> Config {
    text.parse().unwrap()
}

fn error(text: &str) -> ConfigError {
    text.parse::<Config>().unwrap_err()
}

/// Resolves in an environment of these variables and files, in which the system calls the user
/// `system`.
fn resolve(
    config: &Config,
    variables: &[(&str, &str)],
    files: &[&str],
) -> Result<Resolved, ConfigError> {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    config.resolve_in(&Surroundings {
        variable: &|name| variables.get(name).map(ToString::to_string),
        exists: &|path| files.iter().any(|file| Path::new(file) == path),
        system_user: &|| Some("system".to_owned()),
    })
}

fn shown(resolved: &Resolved) -> Vec<String> {
    resolved.endpoints().iter().map(ToString::to_string).collect()
}

#[test]
fn an_error_never_repeats_a_value() {
    const SECRET: &str = "hunter";
    for text in [
        "postgres://u:hunter@2@h/db",
        "postgres://u:hunter/2@h/db",
        "postgres://u:1/hunter@h/db",
        "postgres://u:1/x?hunter=2@h/db",
        "postgres://u:hunter%2@h/db",
        "postgres://u:%ffhunter@h/db",
        "postgres://u:hunter@h:hunter/db",
        "postgres://u:p@[hunter/db",
        "postgres://h/db?password=a&hunter=b",
        "postgres://h/db?password=a&hunter",
        "postgres://h/db?password=a=hunter",
        "postgres://h/db?sslmode=hunter",
        "postgre://u:hunter@h/db",
        "mysql://u:hunter@h/db?x=y",
        "password=my hunter=2",
        "password=my hunter",
        "password='hunter",
        "hunter",
        "Hunter=hunter",
        "port=hunter",
        "hostaddr=hunter",
        "connect_timeout=hunter",
        "require_auth=hunter",
        "in_flight_max=hunter",
        "password=hunter\0",
        "client_encoding=hunter",
    ] {
        let error = error(text);
        let said = format!("{error} {error:?}").to_lowercase();
        assert!(!said.contains(SECRET), "{text:?}: {said}");
        assert!(!error.to_string().contains(['\n', '\0']) && !said.contains("  "), "{said}");
    }
}

#[test]
fn debug_shows_no_password_and_no_options() {
    let config = parse("postgres://u:hunter@h/db?options=-c%20a.b%3Dhunter");
    let resolved = resolve(&config, &[], &[]).unwrap();
    for said in [format!("{config:?}"), format!("{resolved:?}"), config.redacted_url()] {
        assert!(!said.contains("hunter"), "{said}");
        assert!(said.contains("***"), "{said}");
    }
    assert_eq!(resolved.endpoints()[0].password(), Some("hunter"));
    assert_eq!(resolved.options(), Some("-c a.b=hunter"));
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    for (text, kind, said) in [
        (
            "hots=x",
            ConfigErrorKind::Keyword,
            "in the connection string: there is no keyword hots; the nearest is host",
        ),
        (
            "postgres://h?aplication_name=x",
            ConfigErrorKind::Keyword,
            "in the connection URL: there is no keyword aplication_name; the nearest is \
             application_name",
        ),
        (
            "mysql://h",
            ConfigErrorKind::Scheme,
            "in the connection URL: the scheme must be postgres:// or postgresql://",
        ),
        (
            "postgres://u%4@h",
            ConfigErrorKind::PercentEncoding,
            "in the connection URL: the user: '%' needs two hexadecimal digits; '%' itself is \
             written %25",
        ),
        (
            "gssencmode=require",
            ConfigErrorKind::Unsupported,
            "in the connection string: this value of gssencmode asks for GSSAPI encryption which \
             isn't in this version: remove gssencmode or choose another value",
        ),
        (
            "sslpassword=x",
            ConfigErrorKind::Unsupported,
            "in the connection string: sslpassword needs encrypted key files, which isn't in this \
             version: remove it",
        ),
        (
            "when_full=drop",
            ConfigErrorKind::Value,
            "in the connection string: when_full takes one of wait, refuse",
        ),
        ("user", ConfigErrorKind::Syntax, "in the connection string: '=' is missing behind user"),
    ] {
        let error = error(text);
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, said));
    }
}

#[test]
fn a_number_out_of_range_is_told_its_bound() {
    for (text, says) in [
        ("slow_head_ms=0", "slow_head_ms must be at least 1"),
        ("slow_head_ms=99999999999999999999", "slow_head_ms must be at most 2147483647"),
        ("slow_head_ms=many", "slow_head_ms takes a whole number"),
    ] {
        let error = error(text).to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_asks_for_something_that_is_not_there_is_refused() {
    for text in [
        "gssencmode=require",
        "sslcertmode=require",
        "sslcrldir=x",
        "sslpassword=x",
        "ssl_max_protocol_version=TLSv1.1",
        "replication=database",
    ] {
        assert_eq!(error(text).kind(), ConfigErrorKind::Unsupported, "{text}");
    }
    let plain = parse("sslmode=disable channel_binding=prefer gssencmode=disable");
    assert_eq!(plain.settings().sslmode, SslMode::Disable);
    for &(name, _) in UNSUPPORTED_VARIABLES {
        let lookup = |asked: &str| (asked == name).then(|| "x".to_owned());
        let error = Config::new().or_variables(lookup).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::Unsupported);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn settings_about_tls_are_read() {
    let text = "sslmode=verify-ca sslnegotiation=direct sslcert=c sslkey=k sslrootcert=r sslcrl=l \
                sslsni=0 ssl_min_protocol_version=tlsv1.3 ssl_max_protocol_version=TLSv1.3 \
                channel_binding=require";
    let set = Config::new()
        .sslmode(SslMode::VerifyCa)
        .sslnegotiation(SslNegotiation::Direct)
        .sslcert("c")
        .sslkey("k")
        .sslrootcert(RootCert::File("r".into()))
        .sslcrl("l")
        .sslsni(false)
        .ssl_min_protocol_version(TlsVersion::V1_3)
        .ssl_max_protocol_version(TlsVersion::V1_3)
        .channel_binding(ChannelBinding::Require);
    assert_eq!(parse(text), set);
    assert_eq!(parse("sslrootcert=system").settings().sslrootcert, Some(RootCert::System));
    assert_eq!(parse("postgres://h?ssl=true").settings().sslmode, SslMode::Require);
    for old in ["TLSv1", "TLSv1.1", "TLSv1.2", ""] {
        let config = parse(&format!("ssl_min_protocol_version='{old}'"));
        assert_eq!(config.settings().ssl_min_protocol_version, TlsVersion::V1_2, "{old}");
    }
    for text in ["sslmode=on", "sslnegotiation=x", "sslsni=2", "ssl_min_protocol_version=1.2"] {
        assert_eq!(error(text).kind(), ConfigErrorKind::Value, "{text}");
    }
    let old = |name: &str| (name == "PGREQUIRESSL").then(|| "1".to_owned());
    let mode = |config: Config| config.or_variables(old).unwrap().settings().sslmode;
    assert_eq!(mode(Config::new()), SslMode::Require);
    assert_eq!(mode(parse("sslmode=prefer")), SslMode::Prefer);
}

#[test]
fn files_in_their_usual_places_are_used_as_far_as_they_exist() {
    let home = [("HOME", "/home/me")];
    let at = |name: &str| PathBuf::from(format!("/home/me/.postgresql/{name}"));
    let all: Vec<_> =
        ["postgresql.crt", "root.crt", "root.crl"].iter().map(|name| at(name)).collect();
    let all: Vec<_> = all.iter().map(|path| path.to_str().unwrap()).collect();
    let settings = |text: &str, files: &[&str]| {
        resolve(&parse(text), &home, files).unwrap().settings().clone()
    };
    let found = settings("sslmode=verify-full", &all);
    assert_eq!(found.sslcert, Some(at("postgresql.crt")));
    assert_eq!(found.sslkey, Some(at("postgresql.key")));
    assert_eq!(found.sslrootcert, Some(RootCert::File(at("root.crt"))));
    assert_eq!(found.sslcrl, Some(at("root.crl")));
    let named = settings("sslcert=c sslrootcert=r sslcrl=l", &all);
    assert_eq!(named.sslcert, Some("c".into()));
    assert_eq!(named.sslkey, Some(at("postgresql.key")));
    for text in ["sslcertmode=disable", "sslcertmode=disable sslcert=c sslkey=k"] {
        let found = settings(text, &all);
        assert_eq!((found.sslcert, found.sslkey), (None, None), "{text}");
    }
    assert_eq!(named.sslrootcert, Some(RootCert::File("r".into())));
    assert_eq!(named.sslcrl, Some("l".into()));
    let none = settings("", &[]);
    assert_eq!((none.sslcert, none.sslkey, none.sslrootcert), (None, None, None));
    assert_eq!(settings("sslrootcert=system", &all).sslcrl, None);
}

#[test]
fn settings_about_tls_that_contradict_one_another_are_refused() {
    let tried = |text: &str| resolve(&parse(text), &[], &[]);
    for (text, says) in [
        ("sslrootcert=system sslmode=verify-ca", "verify-full"),
        ("sslrootcert=system sslmode=prefer", "verify-full"),
        ("sslnegotiation=direct", "require"),
        ("sslmode=require sslkey=k", "sslcert"),
        ("sslnegotiation=direct sslmode=prefer", "require"),
        ("sslmode=verify-full", "sslrootcert"),
        ("sslmode=verify-ca host=/tmp,h", "sslrootcert"),
        ("ssl_min_protocol_version=TLSv1.3 ssl_max_protocol_version=TLSv1.2", "newer"),
    ] {
        let error = tried(text).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::Tls, "{text}");
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
    let system = tried("sslrootcert=system").unwrap();
    assert_eq!(system.settings().sslmode, SslMode::VerifyFull);
    assert!(tried("sslrootcert=system sslmode=verify-full").is_ok());
    assert!(tried("sslmode=verify-full host=/tmp").is_ok());
    assert!(tried("sslnegotiation=direct sslmode=require").is_ok());
}

#[test]
fn settings_are_read_with_their_units() {
    let text = "connect_timeout=3 keepalives=0 keepalives_idle=4 keepalives_interval=0 \
                keepalives_count=5 tcp_user_timeout=1500 target_session_attrs=read-write \
                load_balance_hosts=random \
                min_protocol_version=3.0 max_protocol_version=latest require_auth=!md5,!password \
                allow_plain_password=true scram_iterations_max=9 in_flight_max=1 \
                in_flight_bytes_max=2 queue_max=3 queue_bytes_max=4 when_full=refuse \
                request_timeout_ms=250 stall_timeout_ms=10 fallback_application_name=f \
                prepare_threshold=0 prepared_max=7 waiting_bytes_max=8 \
                cancel_on_timeout=0 cancel_on_drop=true cancels_max=0 cancel_timeout_ms=12 \
                result_bytes_max=0 one_segment=1";
    let resolved = resolve(&parse(text), &[], &[]).unwrap();
    let settings = resolved.settings();
    assert_eq!(settings.connect_timeout, Some(Duration::from_secs(3)));
    assert!(!settings.keepalives);
    assert_eq!(settings.keepalives_idle, Some(Duration::from_secs(4)));
    assert_eq!(settings.keepalives_interval, None);
    assert_eq!(settings.keepalives_count, Some(5));
    assert_eq!(settings.tcp_user_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(settings.target_session_attrs, TargetSessionAttrs::ReadWrite);
    assert_eq!(settings.load_balance_hosts, LoadBalanceHosts::Random);
    assert_eq!(settings.max_protocol_version, ProtocolVersion::V3_2);
    assert!(settings.require_auth.allows(AuthMethod::ScramSha256));
    assert!(settings.require_auth.allows(AuthMethod::None));
    assert!(!settings.require_auth.allows(AuthMethod::Md5));
    assert!(settings.allow_plain_password);
    assert_eq!(settings.scram_iterations_max, 9);
    assert_eq!((settings.in_flight_max, settings.in_flight_bytes_max), (1, 2));
    assert!(settings.one_segment);
    assert_eq!((settings.queue_max, settings.queue_bytes_max), (3, 4));
    assert_eq!(settings.when_full, WhenFull::Refuse);
    assert_eq!((settings.prepare_threshold, settings.prepared_max), (0, 7));
    assert_eq!((settings.waiting_bytes_max, settings.result_bytes_max), (8, 0));
    assert_eq!(settings.request_timeout, Some(Duration::from_millis(250)));
    assert_eq!(settings.stall_timeout, Duration::from_millis(10));
    assert_eq!(settings.application_name.as_deref(), Some("f"));
    assert_eq!((settings.cancel_on_timeout, settings.cancel_on_drop), (false, true));
    assert_eq!(settings.cancels_max, 0);
    assert_eq!(settings.cancel_timeout, Duration::from_millis(12));

    let defaults = resolve(&parse("connect_timeout='' in_flight_max=''"), &[], &[]).unwrap();
    assert_eq!(defaults.settings(), &Settings::default());
    assert_eq!(parse("connect_timeout=0").settings().connect_timeout, None);
    for text in [
        "connect_timeout=-1",
        "keepalives=2",
        "keepalives_idle=-5",
        "keepalives_count=-1",
        "tcp_user_timeout=99999999999",
        "in_flight_max=0",
        "queue_max=-1",
        "in_flight_max=1.5",
        "stall_timeout_ms=0",
        "cancel_timeout_ms=0",
    ] {
        assert_eq!(error(text).kind(), ConfigErrorKind::Value, "{text}");
    }
    for text in ["require_auth=md5,!password", "require_auth=gss", "require_auth=x", "keepalives=x"]
    {
        assert_eq!(error(text).kind(), ConfigErrorKind::Value, "{text}");
    }
}

#[test]
fn every_keyword_has_its_bit() {
    let mut seen = 0_u128;
    for row in KEYWORDS {
        assert_eq!(seen & bit(row.keyword), 0);
        seen |= bit(row.keyword);
    }
}

#[test]
fn what_the_table_has_as_the_default_is_the_default_and_so_is_an_empty_text() {
    for row in KEYWORDS {
        for text in ["", row.default] {
            let mut config = Config::new();
            config.set(row.keyword, text, Place::Config).unwrap();
            assert_eq!(config.settings(), &Settings::default(), "{}={text}", row.name);
        }
    }
}

#[test]
fn every_word_of_the_table_is_taken_and_no_other() {
    for row in KEYWORDS {
        let set = |text: &str| Config::new().set(row.keyword, text, Place::Config);
        let words = match row.form {
            Form::Words(words) => words,
            Form::Switch => SWITCH,
            _ => continue,
        };
        for word in words.iter().filter(|_| row.keyword != Keyword::Keepalives) {
            assert!(set(word).is_ok(), "{}={word}", row.name);
        }
        assert!(set("nonsense").is_err(), "{}", row.name);
    }
}

#[test]
fn what_is_set_wins_over_the_environment_and_this_over_defaults() {
    let variables: HashMap<_, _> = [
        ("PGHOST", "eh"),
        ("PGPORT", "1"),
        ("PGUSER", "eu"),
        ("PGPASSWORD", "ep"),
        ("PGDATABASE", "ed"),
        ("PGAPPNAME", "ea"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGOPTIONS", ""),
    ]
    .into_iter()
    .collect();
    let lookup = |name: &str| variables.get(name).map(ToString::to_string);
    let config = Config::new().or_variables(lookup).unwrap();
    let read = pairs(&config);
    assert_eq!(read, "application_name=ea|dbname=ed|host=eh|password=ep|port=1|user=eu");
    assert_eq!(config.settings().connect_timeout, Some(Duration::from_secs(7)));

    let config = parse("host=h port=2 connect_timeout=10").user("u").or_variables(lookup).unwrap();
    assert_eq!(pairs(&config), "application_name=ea|dbname=ed|host=h|password=ep|port=2|user=u");
    assert_eq!(config.settings().connect_timeout, Some(Duration::from_secs(10)));
    // As in libpq, an empty value is a value, and means the default.
    assert!(parse("host=").or_variables(lookup).unwrap().hosts.is_empty());

    let wrong = |name: &'static str, value: &'static str| {
        let lookup = move |asked: &str| (asked == name).then(|| value.to_owned());
        Config::new().or_variables(lookup).unwrap_err().to_string()
    };
    assert!(wrong("PGPORT", "x").starts_with("in the environment variable PGPORT: a port must be"));
    assert!(wrong("PGSSLMODE", "on").contains("verify-full"));
}

#[test]
fn defaults_are_libpqs() {
    let resolved = resolve(&Config::new(), &[("USER", "me")], &[]).unwrap();
    assert_eq!((resolved.user(), resolved.dbname()), ("me", "me"));
    assert_eq!(shown(&resolved), ["localhost:5432"]);

    let resolved = resolve(&parse("user=u"), &[], &["/tmp/.s.PGSQL.5432"]).unwrap();
    assert_eq!(resolved.dbname(), "u");
    assert_eq!(shown(&resolved), ["/tmp/.s.PGSQL.5432"]);

    let both = ["/tmp/.s.PGSQL.7", "/var/run/postgresql/.s.PGSQL.7"];
    let resolved = resolve(&parse("port=7 dbname=d"), &[], &both).unwrap();
    assert_eq!((resolved.user(), resolved.dbname()), ("system", "d"));
    assert_eq!(shown(&resolved), ["/var/run/postgresql/.s.PGSQL.7"]);
    assert_eq!(resolved.endpoints()[0].socket(), Some(PathBuf::from(both[1])));

    let nobody = Surroundings { variable: &|_| None, exists: &|_| false, system_user: &|| None };
    assert_eq!(Config::new().resolve_in(&nobody).unwrap_err().kind(), ConfigErrorKind::User);
}

#[test]
fn hosts_addresses_and_ports_match_by_place() {
    for (text, expected) in [
        ("host=a,b", &["a:5432", "b:5432"][..]),
        ("host=a,b port=7", &["a:7", "b:7"]),
        ("host=a,b port=7,8", &["a:7", "b:8"]),
        ("host=a,b port=7,", &["a:7", "b:5432"]),
        ("host=a,,b", &["a:5432", "localhost:5432", "b:5432"]),
        ("host=/s,::1 port=7", &["/s/.s.PGSQL.7", "[::1]:7"]),
        ("hostaddr=127.0.0.1,::1", &["127.0.0.1:5432", "[::1]:5432"]),
        ("host=a,b hostaddr=127.0.0.1,", &["a:5432", "b:5432"]),
        ("postgres://a:1,b,[::1]:3", &["a:1", "b:5432", "[::1]:3"]),
    ] {
        let resolved = resolve(&parse(text), &[], &[]).unwrap();
        assert_eq!(shown(&resolved), expected, "{text}");
    }
    let resolved = resolve(&parse("host=a hostaddr=10.0.0.1"), &[], &[]).unwrap();
    let address = Address::Tcp { host: "a".to_owned(), address: "10.0.0.1".parse().ok() };
    assert_eq!(resolved.endpoints()[0].address(), &address);
    for (text, kind) in [
        ("host=a,b port=1,2,3", ConfigErrorKind::Port),
        ("host=a port=1,2", ConfigErrorKind::Port),
        ("host=a,b hostaddr=127.0.0.1", ConfigErrorKind::Host),
        ("host=@abstract", ConfigErrorKind::Host),
        ("min_protocol_version=3.2", ConfigErrorKind::Value),
    ] {
        let error = resolve(&parse(text), &[], &[]).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
    }
    for text in ["port=0", "port=65536", "port=x", "port=-1", "postgres://h:99999"] {
        assert_eq!(error(text).kind(), ConfigErrorKind::Port, "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_password_file_that_others_can_read_is_passed_over_with_a_note() {
    use std::os::unix::fs::PermissionsExt;
    let directory = std::env::temp_dir().join(format!("onetrip-pgpass-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(".pgpass");
    std::fs::write(&path, "a:*:*:*:pa\nlocalhost:*:*:*:pl\n").unwrap();
    let home = directory.to_string_lossy().into_owned();
    let variables = [("HOME", home.as_str())];
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    let config = parse("host=a,b,/tmp,/other user=u");
    let passwords = |resolved: &Resolved| -> Vec<Option<String>> {
        resolved.endpoints().iter().map(|e| e.password().map(str::to_owned)).collect()
    };

    mode(0o600);
    let resolved = resolve(&config, &variables, &[]).unwrap();
    let expected = [Some("pa".to_owned()), None, Some("pl".to_owned()), None];
    assert_eq!(passwords(&resolved), expected);
    assert!(resolved.notes().is_empty());
    let given = resolve(&config.clone().password("given"), &variables, &[]).unwrap();
    assert_eq!(given.endpoints()[0].password(), Some("given"));
    let named = resolve(&config.clone().passfile(&path), &[], &[]).unwrap();
    assert_eq!(passwords(&named), expected);

    mode(0o640);
    let resolved = resolve(&config, &variables, &[]).unwrap();
    assert_eq!(passwords(&resolved), [None, None, None, None]);
    assert!(resolved.notes()[0].contains("chmod 600"), "{:?}", resolved.notes());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn setters_and_texts_come_to_the_same() {
    let set = Config::new()
        .host("a")
        .host_path("/s")
        .port(1)
        .port(2)
        .user("u")
        .password("p")
        .dbname("d")
        .options("-c x=y")
        .connect_timeout(Duration::from_secs(2))
        .request_timeout(Duration::from_millis(5))
        .keepalives_count(None)
        .when_full(WhenFull::Refuse);
    let text = "host=a,/s port=1,2 user=u password=p dbname=d options='-c x=y' connect_timeout=2 \
                request_timeout_ms=5 keepalives_count=0 when_full=refuse";
    assert_eq!(set, parse(text));
    for wrong in [
        Config::new().in_flight_max(0),
        Config::new().port(0),
        Config::new().user("a\0b"),
        Config::new().host("a,b"),
        Config::new().stall_timeout(Duration::ZERO),
    ] {
        assert!(resolve(&wrong, &[], &[]).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_redacted_url_reads_back_without_the_password() {
    for (text, expected) in [
        ("postgres://u:p@h:1/d?application_name=x", "postgres://u:***@h:1/d"),
        ("host=h1,h2 port=7 dbname='a b'", "postgres://h1,h2:7/a%20b"),
        ("host=h1,h2 port=7,8", "postgres://h1:7,h2:8"),
        ("host=/tmp,::1", "postgres://%2Ftmp,[::1]"),
        ("hostaddr=::1 port=1", "postgres://[::1]:1"),
        ("password=p", "postgres://:***@"),
        ("port=1", "postgres://:1"),
        ("", "postgres://"),
    ] {
        let url = parse(text).redacted_url();
        assert_eq!(url, expected, "{text}");
        assert!(url.parse::<Config>().is_ok(), "{url}");
    }
}

#[test]
fn a_password_leaves_readable_only_where_it_may() {
    let settings = Settings::default();
    let allows = |peer: &str| settings.allows_plain_password(Some(peer.parse().unwrap()));
    assert!(settings.allows_plain_password(None));
    assert!(allows("127.0.0.1") && allows("127.1.2.3") && allows("::1"));
    assert!(allows("::ffff:127.0.0.1"));
    assert!(!allows("10.0.0.1") && !allows("::2") && !allows("0.0.0.0"));
    let allowed = Config::new().allow_plain_password(true);
    assert!(allowed.settings().allows_plain_password("10.0.0.1".parse().ok()));
}

#[test]
fn random_texts_never_panic() {
    const PIECES: [&str; 30] = [
        "postgres://",
        "postgresql://",
        "@",
        ":",
        "/",
        "?",
        "&",
        "=",
        ",",
        "[",
        "]",
        "%",
        "%41",
        "%00",
        "%ff",
        "'",
        "\\",
        " ",
        "host",
        "password",
        "port",
        "5432",
        "::1",
        "user",
        "é",
        "\0",
        "sslmode",
        "disable",
        "hostaddr",
        "127.0.0.1",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..50_000 {
        let text: String = (0..random(16)).map(|_| PIECES[random(PIECES.len())]).collect();
        match text.parse::<Config>() {
            Ok(config) => {
                let _ = (config.redacted_url(), resolve(&config, &[], &[]));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
