//! `onetrip sidecar`: between a program and a PostgreSQL server, it answers what the program need
//! not wait for. What may be answered is decided in `onetrip_postgres::client::early`.
//!
//! - `servers`, `dial`, `greeting`: the way to a server, by core's plan.
//! - `carry`: a program and its server.
//! - `warm`, `lend`: connections that are logged in already, and programs that they serve.
//! - `keys`: who may cancel what.
//! - `serve`, `run`: a sidecar, alone or beside a program.
//! - `settings`, `listener`, `systemd`, `metrics`, `scrape`: how it is operated.

mod carry;
mod dial;
mod greeting;
mod keys;
mod lend;
mod listener;
mod metrics;
mod run;
mod scrape;
mod serve;
mod servers;
mod settings;
mod stream;
mod systemd;
mod warm;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use onetrip_postgres::client::early::{Kind, Saved, Words};

use crate::output::{End, set_json, thousands};
use crate::profile::tls::Mode;
use settings::{Listen, Log, Settings};

/// Spare a program round trips to PostgreSQL, in any language and with any driver.
///
/// Runs on the program's machine, speaks PostgreSQL's protocol to it, and answers early what the
/// program need not wait for: BEGIN, SAVEPOINT, RELEASE, Parse, Close, DEALLOCATE. That leaves with
/// the program's next statement, in a form that the server skips if what was answered proves false.
/// At its end it says which trips were saved.
#[derive(Args, Debug)]
pub(crate) struct SidecarArgs {
    /// Where programs connect: IP:PORT, of which port 0 takes a free one; the path of a Unix socket;
    /// or systemd, for the socket that it has opened.
    #[arg(long, value_name = "IP:PORT|PATH|systemd", required_unless_present_any = ["run", "config"])]
    listen: Option<Listen>,

    /// The server, or several: HOST:PORT, a URL, keyword=value pairs (also service=NAME), or the path
    /// of a Unix socket. With --run it may be left out; then it is the one that the program's
    /// environment names.
    #[arg(long, value_name = "HOST:PORT|URL|PAIRS|PATH", required_unless_present_any = ["run", "config"])]
    to: Option<String>,

    /// What else is answered early: ping (an empty statement and select 1, while the server was
    /// heard within a second), set (SET and RESET within a transaction, of settings and values that
    /// the server never refuses); or nothing: all passes unchanged.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', value_parser = word)]
    early: Vec<&'static str>,

    /// Programs that may be connected at the same time; more are refused as PostgreSQL does it
    /// (53300) [default: 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_clients: Option<u32>,

    /// Keep up to N connections logged in for programs that come and go. A program gets one if it
    /// knows the password that --to or the password file has for its user; it is reset behind it, and
    /// kept only if that is proven [default: 0, each program logs in by itself].
    #[arg(long, value_name = "N")]
    warm: Option<u32>,

    /// A TOML file of settings, whose keys are the names of these options. Options win over it.
    /// SIGHUP reads it again.
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    config: Option<PathBuf>,

    /// Hand out counts for Prometheus at http://IP:PORT/metrics.
    #[arg(long, value_name = "IP:PORT", conflicts_with = "run")]
    metrics: Option<SocketAddr>,

    /// The form of what it says: text, or json, an object a line [default: text].
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        hide_possible_values = true,
        conflicts_with = "run"
    )]
    log: Option<Log>,

    /// Let --listen and --metrics be addresses that other machines can reach. Whoever can connect to
    /// the former reaches the server, and what is sent is not encrypted.
    #[arg(long)]
    allow_remote: bool,

    /// Whether the connection to the server is encrypted. Programs connect without TLS.
    #[arg(long, value_enum, value_name = "MODE")]
    tls: Option<Mode>,

    /// The authority that has signed the server's certificate: a PEM file, or system
    /// [default: sslrootcert of the URL or PGSSLROOTCERT, ~/.postgresql/root.crt, system].
    #[arg(long, value_name = "FILE|system")]
    tls_root: Option<String>,

    /// Run a program with the sidecar in place of its server, until it ends.
    #[arg(long, requires = "command")]
    run: bool,

    /// The program to run and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Carries connections until it is stopped, or until the program ends.
///
/// # Errors
/// One line: what is wrong, where, and what to do. Or standard output was closed.
pub(crate) fn run(args: &SidecarArgs) -> Result<(), End> {
    // What is wrong with the settings is said in the form that is known by then.
    set_json(args.log == Some(Log::Json));
    if args.tls == Some(Mode::Pass) {
        return Err(format!("--tls pass: {NO_PASS}").into());
    }
    let settings = Settings::of(args)?;
    set_json(settings.log == Log::Json);
    match args.run {
        true => run::run(args, &settings),
        false => serve::serve(args, &settings),
    }
}

/// Why TLS can't be left to program and server.
const NO_PASS: &str = "what can't be read can't be answered early; choose off";

/// Random bytes of good quality.
fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}

fn word(text: &str) -> Result<&'static str, String> {
    let known = Words::KNOWN.iter().find(|it| **it == text);
    known.copied().ok_or_else(|| format!("known are {}", Words::KNOWN.join(", ")))
}

/// `saved 12 trips: 10 begin, 2 prepare; 1 early answer proved false`.
fn told(saved: &Saved, connections: u64) -> String {
    let several = |count: u64, word: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{} {word}{plural}", thousands(count as f64))
    };
    let kinds: Vec<String> = Kind::ALL
        .iter()
        .filter(|it| saved.trips(**it) > 0)
        .map(|it| format!("{} {}", thousands(saved.trips(*it) as f64), it.name()))
        .collect();
    let mut text =
        format!("{}; saved {}", several(connections, "connection"), several(saved.all(), "trip"));
    if !kinds.is_empty() {
        text += &format!(": {}", kinds.join(", "));
    }
    if saved.all_refuted() > 0 {
        text += &format!("; {} proved false", several(saved.all_refuted(), "early answer"));
    }
    text
}
