//! `onetrip demo`: a money transfer over a slow link, sent in four ways, and point selects without
//! latency, sent in three. Times are measured; trips are counted on the wire by the lab's proxy.

mod progress;
mod report;
mod schema;
mod throughput;
mod transfer;

use std::fs::File;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use onetrip::config::{Address, Config};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig, Upstream};

use progress::Progress;
use report::Report;

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
/// One line: what failed, where, and what to do.
pub(crate) fn run(args: DemoArgs) -> Result<(), String> {
    // Found out before the work rather than after it.
    let json = args.json.as_ref().map(|path| {
        let error =
            |error| format!("can't write {} ({error}): choose another --json file", path.display());
        File::create(path).map(|file| (file, path.clone())).map_err(error)
    });
    let json = json.transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("can't start the runtime ({error}): try again"))?;
    let report = runtime.block_on(measure(&args))?;
    println!("{report}");
    if let Some((file, path)) = json {
        report.write_json(file).map_err(|error| {
            format!("can't write {} ({error}): is the disk full?", path.display())
        })?;
    }
    Ok(())
}

/// Where the demo runs.
struct Setting {
    /// The server itself, without the proxy.
    direct: Config,
    /// The server behind the proxy.
    proxied: Config,
    proxy: Proxy,
    rtt: Duration,
    runs: u32,
    /// Kept running until the end.
    _server: Option<PrivatePostgres>,
}

async fn measure(args: &DemoArgs) -> Result<Report, String> {
    let progress = Progress::new();
    let setting = set_up(args, &progress)?;
    let schema = schema::Schema::create(&setting.direct, args.url.is_some()).await?;
    let measured = tokio::select! {
        measured = measure_all(&setting, &schema, &progress) => measured,
        _ = tokio::signal::ctrl_c() => Err("stopped by Ctrl-C".to_owned()),
    };
    progress.done();
    // Also after a failure nothing may stay behind; the first error is the one to show.
    let dropped = schema.drop_all().await;
    let report = measured?;
    dropped?;
    Ok(report)
}

async fn measure_all(
    setting: &Setting,
    schema: &schema::Schema,
    progress: &Progress,
) -> Result<Report, String> {
    let server = schema.server_version();
    let transfer = transfer::measure(setting, progress).await.map_err(|e| e.to_string())?;
    let throughput = throughput::measure(setting, progress).await.map_err(|e| e.to_string())?;
    Ok(Report::new(server, setting.rtt, setting.runs, transfer, throughput))
}

fn set_up(args: &DemoArgs, progress: &Progress) -> Result<Setting, String> {
    let (direct, server) = match &args.url {
        Some(url) => {
            let config: Config = url.parse().map_err(|error| format!("--url: {error}"))?;
            (config.or_env().map_err(|error| error.to_string())?, None)
        }
        None => {
            progress.say("starting a private PostgreSQL");
            let server = PrivatePostgres::start(Options::default()).map_err(|e| e.to_string())?;
            let config = server.url().parse().map_err(|error| format!("{error}"))?;
            (config, Some(server))
        }
    };
    let rtt = args.rtt.unwrap_or(match server {
        Some(_) => Duration::from_millis(100),
        None => Duration::ZERO,
    });
    let (up, down) = Link::pair(rtt);
    let config = ProxyConfig { up, down, ..ProxyConfig::new(upstream(&direct)?) };
    let proxy = Proxy::start(config)
        .map_err(|error| format!("can't start the latency proxy ({error}): try again"))?;
    let proxied = behind(&direct, &proxy)?;
    Ok(Setting { direct, proxied, proxy, rtt, runs: args.runs, _server: server })
}

/// The first address of the server, for the proxy to dial.
fn upstream(config: &Config) -> Result<Upstream, String> {
    let resolved = config.resolve().map_err(|error| error.to_string())?;
    let endpoint = resolved.endpoints().first().ok_or("--url names no host")?;
    if let Some(socket) = endpoint.socket() {
        return Ok(Upstream::Unix(socket));
    }
    let address = match endpoint.address() {
        Address::Tcp { address: Some(address), .. } => Some((*address, endpoint.port()).into()),
        Address::Tcp { host, .. } => (host.as_str(), endpoint.port())
            .to_socket_addrs()
            .map_err(|error| {
                format!("the host {host} can't be found ({error}): check its spelling")
            })?
            .next(),
        Address::Unix(_) => None,
    };
    address.map(Upstream::Tcp).ok_or_else(|| format!("{endpoint} has no address"))
}

/// The same user, password and database, reached through the proxy.
fn behind(direct: &Config, proxy: &Proxy) -> Result<Config, String> {
    let resolved = direct.resolve().map_err(|error| error.to_string())?;
    let mut config = Config::new()
        .host(proxy.addr().ip().to_string())
        .port(proxy.addr().port())
        .user(resolved.user())
        .dbname(resolved.dbname());
    if let Some(password) = resolved.endpoints().first().and_then(|it| it.password()) {
        config = config.password(password);
    }
    if let Some(options) = resolved.options() {
        config = config.options(options);
    }
    Ok(config)
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
