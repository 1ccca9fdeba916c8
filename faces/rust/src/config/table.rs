//! The table of settings (`proof/conformance`), whose expectations are held against libpq itself by
//! the tests of the Python package.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::keyword::Form;
use super::*;

#[test]
fn settings_come_to_what_libpq_makes_of_them() {
    let path = "../../proof/conformance/postgres_settings.json";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let table: Value = serde_json::from_str(&text).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let home = tempfile::tempdir().unwrap();
        let case = Case { case, home: home.path().to_str().unwrap() };
        case.write_files();
        case.compare(case.resolve());
    }
}

/// A case, with a directory of its own.
struct Case<'a> {
    case: &'a Value,
    home: &'a str,
}

impl Case<'_> {
    /// A text with what its places stand for.
    fn filled(&self, text: &Value) -> Option<String> {
        let text = text.as_str()?.replace("{home}", self.home);
        Some(text.replace("{p1}", "6001").replace("{p2}", "6002"))
    }

    fn pairs(&self, field: &str) -> Vec<(String, String)> {
        let of = self.case[field].as_object().into_iter().flatten();
        of.map(|(name, text)| (name.clone(), self.filled(text).unwrap())).collect()
    }

    fn write_files(&self) {
        let set = |path: &Path, mode| {
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        for (name, text) in self.pairs("files") {
            let path = Path::new(self.home).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            set(&path, 0o600);
        }
        for (name, mode) in self.pairs("modes") {
            set(&Path::new(self.home).join(name), u32::from_str_radix(&mode, 8).unwrap());
        }
    }

    fn resolve(&self) -> Result<Resolved, ConfigError> {
        let mut variables: HashMap<_, _> = self.pairs("environment").into_iter().collect();
        variables.insert("HOME".to_owned(), self.home.to_owned());
        let variable = |name: &str| variables.get(name).cloned();
        let config = self.filled(&self.case["text"]).unwrap().parse::<Config>()?;
        config.or_variables(variable)?.resolve_in(&Surroundings {
            variable: &variable,
            exists: &|path| path.exists(),
            system_user: &|| Some("system".to_owned()),
        })
    }

    /// What the error says, if there has to be one.
    fn error(&self) -> Option<String> {
        let refused = &self.case["refused"];
        let is_refused = match refused["faces"].as_array() {
            Some(faces) => faces.iter().any(|face| face == "rust"),
            None => refused.is_object(),
        };
        self.filled(if is_refused { &refused["says"] } else { &self.case["error"]["ours"] })
    }

    fn compare(&self, found: Result<Resolved, ConfigError>) {
        let name = &self.case["name"];
        if let Some(says) = self.error() {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(&says) && !error.contains('\n'), "{name}: {error}");
            return;
        }
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Some(servers) = self.case["servers"].as_array() {
            let expected: Vec<_> = servers.iter().map(|server| self.endpoint(server)).collect();
            let passwords: Vec<_> = found.endpoints().iter().map(Endpoint::password).collect();
            assert_eq!(found.endpoints(), expected, "{name}: {passwords:?}");
        }
        for (key, expected) in self.pairs("settings") {
            assert_eq!(said(&found, &key), Some(expected), "{name}: {key}");
        }
    }

    fn endpoint(&self, server: &Value) -> Endpoint {
        let host = self.filled(&server["host"]).unwrap();
        let address = self.filled(&server["hostaddr"]).map(|address| address.parse().unwrap());
        let address = match address {
            None if host.starts_with('/') => Address::Unix(PathBuf::from(host)),
            address => Address::Tcp { host, address },
        };
        let port = self.filled(&server["port"]).unwrap().parse().unwrap();
        Endpoint { address, port, password: self.filled(&server["password"]) }
    }
}

/// A setting, as libpq writes it.
fn said(found: &Resolved, key: &str) -> Option<String> {
    let settings = found.settings();
    let word = |form: Form, place: Option<usize>| match form {
        Form::Words(words) => place.map(|place| words[place].to_owned()),
        _ => None,
    };
    let of = |keyword: Keyword, place| word(keyword.row().form, place);
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let version = |version: TlsVersion| match version {
        TlsVersion::V1_2 => "TLSv1.2".to_owned(),
        TlsVersion::V1_3 => "TLSv1.3".to_owned(),
    };
    match key {
        "user" => Some(found.user().to_owned()),
        "dbname" => Some(found.dbname().to_owned()),
        "options" => found.options().map(str::to_owned),
        "application_name" | "fallback_application_name" => settings.application_name.clone(),
        "connect_timeout" => {
            Some(settings.connect_timeout.map_or(0, |time| time.as_secs()).to_string())
        }
        "target_session_attrs" => of(
            Keyword::TargetSessionAttrs,
            TargetSessionAttrs::ALL.iter().position(|it| *it == settings.target_session_attrs),
        ),
        "load_balance_hosts" => of(
            Keyword::LoadBalanceHosts,
            LoadBalanceHosts::ALL.iter().position(|it| *it == settings.load_balance_hosts),
        ),
        "channel_binding" => of(
            Keyword::ChannelBinding,
            ChannelBinding::ALL.iter().position(|it| *it == settings.channel_binding),
        ),
        "sslmode" => {
            of(Keyword::Sslmode, SslMode::ALL.iter().position(|it| *it == settings.sslmode))
        }
        "sslrootcert" => settings.sslrootcert.as_ref().map(|root| match root {
            RootCert::System => "system".to_owned(),
            RootCert::File(path) => path.display().to_string(),
        }),
        "sslcertmode" => of(
            Keyword::Sslcertmode,
            SslCertMode::ALL.iter().position(|it| *it == settings.sslcertmode),
        ),
        "sslcert" => path(&settings.sslcert),
        "sslkey" => path(&settings.sslkey),
        "sslcrl" => path(&settings.sslcrl),
        "sslsni" => Some(u8::from(settings.sslsni).to_string()),
        "ssl_min_protocol_version" => Some(version(settings.ssl_min_protocol_version)),
        "ssl_max_protocol_version" => settings.ssl_max_protocol_version.map(version),
        other => panic!("the table has the setting {other}, which is not compared"),
    }
}
