//! `onetrip profile`: which round trips a program could save.

mod analysis;
mod capture;
mod diff;
pub(crate) mod environment;
mod limit;
mod live;
mod ring;
pub(crate) mod run;
mod serve;
mod splice;
mod summary;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use onetrip_profile::{Profile, report};

use crate::output::{End, print, tell};
use crate::values;
pub(crate) use analysis::{Analysis, Settings};
use limit::{Limit, broken};
pub(crate) use splice::Front;

/// Find the round trips that a program could save, in any language and with any driver.
///
/// It looks at what the program says to PostgreSQL or Redis: as a proxy in between, or in a capture.
/// It counts round trips, finds out which statements wait for one another without need, and writes
/// what it found into a directory. Nothing is kept of values but hashes, and nothing of logins.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("source").required(true)),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    what: Option<What>,

    /// Address to listen on, with --to. Port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", group = "source", requires = "to")]
    listen: Option<SocketAddr>,

    /// The server behind --listen: HOST:PORT, a URL, or the path of its Unix socket.
    #[arg(long, value_name = "HOST:PORT|URL|PATH", requires = "listen")]
    to: Option<String>,

    /// Let --listen be an address that other machines can reach. Whoever can connect there reaches
    /// the server.
    #[arg(long, requires = "listen")]
    allow_remote: bool,

    /// Read a capture of traffic, as tcpdump -w writes it; - is standard input.
    #[arg(long, value_name = "FILE|-", group = "source")]
    pcap: Option<PathBuf>,

    /// With --pcap, the ports of servers, for connections that began before the capture.
    #[arg(
        long,
        value_name = "PORTS",
        value_delimiter = ',',
        requires = "pcap",
        default_value = "5432,6379"
    )]
    ports: Vec<u16>,

    /// Run a program, and profile it until it ends. The servers that its environment names, in
    /// PGHOST, PGPORT, PGHOSTADDR and in URLs such as DATABASE_URL and REDIS_URL, are replaced by
    /// ones of this command.
    #[arg(long, group = "source", requires = "command")]
    run: bool,

    /// Show what is found while it is found, on the whole terminal; q ends it.
    #[arg(long, requires = "listen")]
    live: bool,

    /// Directory for what was found.
    #[arg(long, value_name = "DIR", default_value = "onetrip-profile")]
    out: PathBuf,

    /// Show texts as they were sent, with the values in them. Whoever can read the files reads those.
    #[arg(long)]
    show_values: bool,

    /// Exit with 3 if one of these holds: trips (the most that a unit took), saved (trips that what
    /// is proven would save), unknown (the share of waits, from 0 to 1), lossy (pieces of traffic
    /// that were not analysed), units, or the number of findings of a kind, such as n+1, protocol or
    /// independent; each compared with a number by >, >=, < or <=, as in trips>10,n+1>0.
    #[arg(long, value_name = "LIMITS", value_delimiter = ',', value_parser = limit::limit)]
    fail_on: Vec<Limit>,

    /// The round trip to the server, in milliseconds, where a pooler in between hides it
    /// [default: measured].
    #[arg(long, value_name = "MS", value_parser = values::milliseconds, conflicts_with = "pcap")]
    rtt: Option<f64>,

    /// How often the counts are shown, in seconds.
    #[arg(long, value_name = "S", default_value = "1", value_parser = crate::proxy::interval,
          requires = "listen")]
    interval: Duration,

    #[command(flatten)]
    tls: tls::TlsArgs,

    /// The program to run and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Subcommand, Debug)]
enum What {
    Diff(diff::DiffArgs),
}

/// Profiles until the source ends or the command is stopped.
///
/// # Errors
/// One line: what is wrong, where, and what to do. Or standard output was closed.
pub(crate) fn run(args: ProfileArgs) -> Result<(), End> {
    if let Some(What::Diff(args)) = &args.what {
        return diff::run(args);
    }
    make(&args.out)?;
    if args.run {
        return run::run(&args);
    }
    let profile = match &args.pcap {
        Some(path) => capture::read(path, &args.ports, args.show_values)?,
        None => serve::serve(&args)?,
    };
    write(&profile, &args, Where::Stdout)
}

impl ProfileArgs {
    fn settings(&self) -> Settings {
        let rtt = self.rtt.map(|ms| Duration::from_secs_f64(ms / 1e3));
        Settings { rtt, show_values: self.show_values, ..Settings::default() }
    }
}

/// Makes the directory for what is found, so that a long run does not end where nothing can be
/// written. Nobody but its owner may look into it. One that is there stays as it is.
fn make(path: &Path) -> Result<(), String> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        format!("can't create {} ({error}): choose another directory with --out", path.display())
    })
}

/// Where the summary goes.
enum Where {
    Stdout,
    /// Standard output is the program's.
    Stderr,
}

/// Writes and prints what was found.
fn write(profile: &Profile, args: &ProfileArgs, to: Where) -> Result<(), End> {
    let shown = args.out.display();
    report::write(profile, &args.out).map_err(|error| {
        format!("can't write to {shown} ({error}): choose another directory with --out")
    })?;
    let text = format!("{}\nwritten    {shown}/report.html", summary::summary(profile));
    match to {
        Where::Stdout => print(&text)?,
        Where::Stderr => tell(&text),
    }
    if profile.connections == 0 {
        const UNSEEN: &str = "no connection was seen, so nothing was profiled: let the program \
            connect through the profiler, or capture its traffic";
        if !args.fail_on.is_empty() {
            return Err(format!("--fail-on: {UNSEEN}").into());
        }
        tell(&format!("onetrip: profile: {UNSEEN}"));
    }
    let broken = broken(&args.fail_on, |it| it.broken_by(profile));
    broken.iter().for_each(|line| tell(&format!("onetrip: profile: {line}")));
    if broken.is_empty() { Ok(()) } else { Err(End::Status(limit::STATUS)) }
}
