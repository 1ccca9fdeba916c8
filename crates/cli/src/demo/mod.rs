//! `onetrip demo`: a money transfer over a slow link, sent in four ways, and point selects without
//! latency, sent in three. Times are measured; trips are counted on the wire by the lab's proxy.

mod progress;
mod report;
mod schema;
mod throughput;
mod transfer;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use onetrip::config::Config;
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig};

use crate::output::{End, print};
use crate::stop::Stop;
use onetrip_measure::server::Server;
use progress::Progress;
use report::Report;
use schema::{Schema, joined};

/// See on a real PostgreSQL what round trips cost, and what pipelining gives back.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Round trip to put in front of the server, in milliseconds, half of it each way
    /// [default: 100; 0 with --url].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    rtt: Option<Duration>,

    /// How often each way is measured; the median is shown.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Your own server, as a URL or key-value string, instead of a private one. The demo works in a
    /// schema of its own, onetrip_demo, and drops it at the end.
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Also write the figures to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the demo.
///
/// # Errors
/// One line: what failed, where, and what to do. Or nobody reads the report.
pub(crate) fn run(args: DemoArgs) -> Result<(), End> {
    let json = args.json.as_deref().map(JsonFile::open).transpose()?;
    let progress = Progress::new();
    let shown = progress.clone();
    let stop = Stop::catch(move || shown.done())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("can't start the runtime ({error}): try again"))?;
    let measured = runtime.block_on(measure(&args, &progress, &stop));
    stop.tidied();
    progress.done();
    let report = measured?;
    if let Some(json) = json {
        json.write(&report)?;
    }
    print(&report.to_string())
}

/// The file for the figures.
struct JsonFile {
    file: File,
    path: PathBuf,
}

impl JsonFile {
    /// Before the work rather than after it; what the file holds stays until there is better.
    fn open(path: &Path) -> Result<JsonFile, String> {
        match OpenOptions::new().write(true).create(true).truncate(false).open(path) {
            Ok(file) => Ok(JsonFile { file, path: path.to_owned() }),
            Err(error) => {
                Err(format!("can't write {} ({error}): choose another --json file", path.display()))
            }
        }
    }

    fn write(self, report: &Report) -> Result<(), String> {
        // A pipe or a device has no length to cut.
        let _ = self.file.set_len(0);
        report.write_json(self.file).map_err(|error| {
            format!("can't write {} ({error}): is the disk full?", self.path.display())
        })
    }
}

/// Where the demo runs.
struct Setting {
    /// The server itself, without the proxy.
    direct: Config,
    /// The server behind the proxy.
    proxied: Config,
    proxy: Proxy,
    /// The server's name for messages.
    name: String,
    rtt: Duration,
    runs: u32,
    /// Kept running until the end; None for a server of the user's.
    private: Option<PrivatePostgres>,
}

async fn measure(args: &DemoArgs, progress: &Progress, stop: &Stop) -> Result<Report, String> {
    let setting = set_up(args, progress, stop)?;
    let schema = unless_stopped(stop, Schema::connect(&setting.direct)).await?;
    if setting.private.is_none() {
        stop.tidy_first(schema::LEFT);
    }
    progress.say("making the demo's tables");
    schema.create(stop).await?;
    let measured = unless_stopped(stop, measure_all(&setting, &schema, progress)).await;
    // A private server takes the schema with it.
    if setting.private.is_some() {
        return measured;
    }
    // Whatever was still on its way through the proxy may hold locks.
    drop(setting.proxy);
    progress.say("dropping the schema onetrip_demo");
    match (measured, schema.drop_all().await) {
        (Ok(report), Ok(())) => Ok(report),
        (Ok(_), Err(left)) => Err(left),
        (Err(first), dropped) => Err(joined(first, dropped.err())),
    }
}

async fn unless_stopped<T>(
    stop: &Stop,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    tokio::select! {
        done = work => done,
        signal = stop.requested() => Err(format!("stopped by {signal}")),
    }
}

async fn measure_all(
    setting: &Setting,
    schema: &Schema,
    progress: &Progress,
) -> Result<Report, String> {
    let server = schema.server_version();
    let failed = |error: onetrip::Error| setting.explained(&error);
    let transfer = transfer::measure(setting, progress).await.map_err(failed)?;
    let throughput = throughput::measure(setting, progress).await.map_err(failed)?;
    Ok(Report::new(server, setting.rtt, setting.runs, transfer, throughput))
}

impl Setting {
    /// The proxy's own port says nothing to whoever gave a URL.
    fn explained(&self, error: &onetrip::Error) -> String {
        let proxy = self.proxy.addr();
        let through = format!("{} (through the demo's proxy)", self.name);
        let text = error.to_string();
        let text = match self.proxied.resolve().ok().and_then(|it| it.endpoints().first().cloned())
        {
            Some(endpoint) => text.replace(&endpoint.to_string(), &through),
            None => text,
        };
        text.replace(&proxy.to_string(), "the proxy")
    }
}

fn set_up(args: &DemoArgs, progress: &Progress, stop: &Stop) -> Result<Setting, String> {
    let (config, private) = match &args.url {
        Some(url) => {
            let config: Config = url.parse().map_err(|error| format!("--url: {error}"))?;
            (config.or_env().map_err(|error| error.to_string())?, None)
        }
        None => {
            progress.say("starting a private PostgreSQL");
            let server = PrivatePostgres::start(Options::default()).map_err(|e| e.to_string())?;
            stop.tidy_first("");
            (server.url().parse().map_err(|error| format!("{error}"))?, Some(server))
        }
    };
    let server = Server::of(config)?;
    let rtt = args.rtt.unwrap_or(match private {
        Some(_) => Duration::from_millis(100),
        None => Duration::ZERO,
    });
    let (up, down) = Link::pair(rtt);
    let config = ProxyConfig { up, down, ..ProxyConfig::new(server.upstream.clone()) };
    let proxy = Proxy::start(config)
        .map_err(|error| format!("can't start the latency proxy ({error}): try again"))?;
    let proxied = server.behind(proxy.addr())?;
    let Server { name, direct, .. } = server;
    Ok(Setting { direct, proxied, proxy, name, rtt, runs: args.runs, private })
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "give milliseconds, as in 100 or 0.5".to_owned())?;
    if !(0.0..=10_000.0).contains(&value) {
        return Err("give 0 to 10000 milliseconds".to_owned());
    }
    Ok(Duration::from_secs_f64(value / 1000.0))
}

/// One way to send something, as measured.
#[derive(Debug, serde::Serialize)]
struct Measured {
    /// A short name for programs.
    name: &'static str,
    /// What is done, for people.
    what: &'static str,
    /// Trips of one run, counted on the wire: the median over the runs.
    trips: u64,
    /// Each run's time in milliseconds.
    #[serde(rename = "runs_ms")]
    runs: Vec<f64>,
    median_ms: f64,
}

impl Measured {
    fn new(
        name: &'static str,
        what: &'static str,
        mut trips: Vec<u64>,
        runs: Vec<f64>,
    ) -> Measured {
        trips.sort_unstable();
        let trips = trips.get(trips.len() / 2).copied().unwrap_or(0);
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let median_ms = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        Measured { name, what, trips, runs, median_ms }
    }
}
