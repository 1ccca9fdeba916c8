//! How a sidecar is to work: by its options, and by a file that may be read again.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use onetrip_postgres::client::early::Words;
use toml::{Table, Value};

use super::{NO_PASS, SidecarArgs, word};
use crate::profile::tls::{Mode, TlsArgs};

/// Where programs connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// On the socket that systemd has opened.
    Systemd,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        match text {
            "systemd" => Ok(Listen::Systemd),
            path if path.starts_with('/') => Ok(Listen::Unix(path.into())),
            address => address
                .parse()
                .map(Listen::Tcp)
                .map_err(|_| "it is no IP:PORT, no path of a socket, and not systemd".to_owned()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => path.display().fmt(f),
            Listen::Systemd => f.write_str("systemd"),
        }
    }
}

/// The form of what is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// All settings, with their defaults.
pub(super) struct Settings {
    pub(super) listen: Option<Listen>,
    pub(super) to: Option<String>,
    /// Where `to` was read, for errors.
    pub(super) to_from: String,
    pub(super) words: Words,
    pub(super) max_clients: u32,
    pub(super) warm: u32,
    pub(super) allow_remote: bool,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) log: Log,
    pub(super) tls: TlsArgs,
}

/// How many programs may be connected unless it is said.
const MAX_CLIENTS: u32 = 1000;

impl Settings {
    /// An option that is given wins over the file.
    ///
    /// # Errors
    /// The file can't be read, or something in it is wrong: one line, without a value of the file,
    /// as that may be a password at a wrong place.
    pub(super) fn of(args: &SidecarArgs) -> Result<Settings, String> {
        let mut file = args.config.as_deref().map_or(Ok(File::default()), File::read)?;
        // Each key is read, also where an option wins: the file is right or wrong by itself.
        let listen = file.parsed("listen", Listen::from_str)?;
        let to = file.text("to")?;
        let early = file.words("early")?;
        let max_clients = file.number("max-clients", 1)?;
        let warm = file.number("warm", 0)?;
        let allow_remote = file.flag("allow-remote")?;
        let no_address = |_| "it is no IP:PORT".to_owned();
        let metrics = file.parsed("metrics", |it| it.parse().map_err(no_address))?;
        let log = file.parsed("log", named::<Log>)?;
        let tls = file.parsed("tls", mode)?;
        let tls_root = file.text("tls-root")?;
        file.ends()?;
        let to_from = match (&args.to, &args.config) {
            (None, Some(path)) => format!("{}: to", path.display()),
            _ => "--to".to_owned(),
        };
        if let (None, Some(_)) = (args.listen.as_ref().or(listen.as_ref()), &args.config) {
            return Err(file.wrong("listen", "it is missing"));
        }
        if let (None, Some(_)) = (args.to.as_ref().or(to.as_ref()), &args.config) {
            return Err(file.wrong("to", "it is missing"));
        }
        let words = if args.early.is_empty() { early } else { args.early.clone() };
        let with = |words: Words, word: &&str| words.with(word).unwrap_or(words);
        let tls = args.tls.or(tls).unwrap_or_default();
        Ok(Settings {
            listen: args.listen.clone().or(listen),
            to: args.to.clone().or(to),
            to_from,
            words: words.iter().fold(Words::default(), with),
            max_clients: args.max_clients.or(max_clients).unwrap_or(MAX_CLIENTS),
            warm: args.warm.or(warm).unwrap_or(0),
            allow_remote: args.allow_remote || allow_remote,
            metrics: args.metrics.or(metrics),
            log: args.log.or(log).unwrap_or_default(),
            tls: TlsArgs::in_clear(tls, args.tls_root.clone().or(tls_root)),
        })
    }
}

/// What may be said of TLS.
fn mode(text: &str) -> Result<Mode, String> {
    named(text).and_then(|mode| match mode {
        Mode::Pass => Err(NO_PASS.to_owned()),
        mode => Ok(mode),
    })
}

/// One of several names.
fn named<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|it| it.get_name().to_owned()).collect();
        format!("known are {}", names.join(", "))
    })
}

/// The file: a table whose keys are the names of the options. What was read is taken out.
#[derive(Default)]
struct File {
    path: PathBuf,
    table: Table,
}

impl File {
    fn read(path: &Path) -> Result<File, String> {
        let failed = |why: &str| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error.to_string()))?;
        let table = text.parse().map_err(|error: toml::de::Error| {
            // Its own text shows the line, which may hold a password.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            failed(&format!("line {line}: {}", error.message().replace('\n', " ")))
        })?;
        Ok(File { path: path.to_owned(), table })
    }

    fn wrong(&self, key: &str, why: &str) -> String {
        format!("{}: {key}: {why}", self.path.display())
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.table.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "it is a text in quotes")),
        }
    }

    fn parsed<T>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let text = self.text(key)?;
        text.map(|text| parse(&text).map_err(|why| self.wrong(key, &why))).transpose()
    }

    fn number(&mut self, key: &str, min: u32) -> Result<Option<u32>, String> {
        let Some(value) = self.table.remove(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|it| u32::try_from(it).ok());
        let number = number.filter(|it| *it >= min);
        let why = || format!("it is a whole number from {min} to {}", u32::MAX);
        number.map(Some).ok_or_else(|| self.wrong(key, &why()))
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        let Some(value) = self.table.remove(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(key, "it is true or false"))
    }

    fn words(&mut self, key: &str) -> Result<Vec<&'static str>, String> {
        let Some(value) = self.table.remove(key) else { return Ok(Vec::new()) };
        let no_list = || self.wrong(key, "it is a list of texts: [\"ping\", \"set\"]");
        let known = |value: &Value| {
            let text = value.as_str().ok_or_else(no_list)?;
            word(text).map_err(|why| self.wrong(key, &why))
        };
        value.as_array().ok_or_else(no_list)?.iter().map(known).collect()
    }

    /// Whether all keys were read.
    fn ends(&self) -> Result<(), String> {
        self.table.keys().next().map_or(Ok(()), |key| {
            // A key may be quoted, and then hold anything.
            Err(self.wrong(&key.escape_debug().to_string(), "there is no such setting"))
        })
    }
}
