//! `onetrip proxy`: the lab's latency proxy in front of a server of yours, until it is stopped.

mod counts;
mod typed;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig, SelfCheckConfig, Upstream, self_check};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval_at};

use crate::output::{End, print};
use crate::runtime::runtime;
use crate::shown::Shown;
use crate::stop::Stop;
use counts::Counts;
use onetrip_measure::server::answering;

/// Put a network's round trip in front of a server, and count the trips that clients make.
///
/// While it runs it shows the trips per second and by connection, and how many were waited for one
/// after the other. On a terminal it updates one line; otherwise it prints a line for each interval
/// with trips. r and Enter, or SIGUSR1, prints the counts and resets them.
#[derive(Args, Debug)]
pub(crate) struct ProxyArgs {
    /// Address to listen on; loopback only. Port 0 takes a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// The server: HOST:PORT, or the path of its Unix socket.
    #[arg(long, value_name = "HOST:PORT|PATH", required_unless_present = "self_check")]
    upstream: Option<String>,

    /// Round trip to add, in milliseconds: half of it each way [default: none].
    #[arg(long, value_name = "MS", value_parser = milliseconds, conflicts_with_all = ["delay_up", "delay_down"])]
    rtt: Option<Duration>,

    /// Delay from the client to the server, in milliseconds [default: none].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    delay_up: Option<Duration>,

    /// Delay from the server to the client, in milliseconds [default: none].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    delay_down: Option<Duration>,

    /// Vary the delay of each direction by up to this much, in milliseconds; at most the delay.
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "0")]
    jitter: Duration,

    /// Bytes per second in each direction, with k, M or G for thousands, millions, billions
    /// [default: no limit].
    #[arg(long, value_name = "BYTES", value_parser = bytes_per_second)]
    bandwidth: Option<u64>,

    /// Seed of the jitter: the same seed draws the same delays.
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// How often the counts are shown, in seconds.
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Measure how exact the proxy is on this machine (about ten seconds), print the result and
    /// exit.
    #[arg(long, conflicts_with_all = ["upstream", "delay_up", "delay_down", "jitter", "bandwidth", "seed", "listen", "interval"])]
    self_check: bool,
}

/// Runs the proxy until SIGINT (Ctrl-C), SIGTERM or SIGHUP, or the self-check.
///
/// # Errors
/// One line: what is wrong, where, and what to do. Or standard output was closed.
pub(crate) fn run(args: ProxyArgs) -> Result<(), End> {
    if args.self_check {
        return check(args.rtt);
    }
    let name = args.upstream.as_deref().ok_or_else(|| {
        "proxy: --upstream is missing; give HOST:PORT or a unix socket's path".to_owned()
    })?;
    let shown = Shown::new();
    let line = shown.clone();
    let stop = Stop::catch(move || line.clear())?;
    let (up, down) = links(&args);
    let config = ProxyConfig {
        listen: args.listen,
        up,
        down,
        seed: args.seed,
        ..ProxyConfig::new(upstream("--upstream", name).map_err(|error| format!("proxy: {error}"))?)
    };
    let runtime = runtime(1).map_err(|error| format!("proxy: {error}"))?;
    // Called before it listens, so that a signal from then on prints the counts.
    stop.tidy_first("");
    let proxy = Proxy::start(config).map_err(|error| start_failed(args.listen, &error))?;
    let head = format!(
        "{} -> {name}: {} up, {} down; Ctrl-C prints the counts and exits, r and Enter resets them",
        proxy.addr(),
        describe(&up),
        describe(&down)
    );
    let told = runtime.block_on(tell(&proxy, &stop, args.interval, &shown, &head));
    stop.tidied();
    shown.clear();
    let counts = told?;
    print(&counts.summary(&proxy.stats(), Instant::now()))
}

/// Shows the counts until the command is stopped. Returns the counts since the last reset.
async fn tell(
    proxy: &Proxy,
    stop: &Stop,
    interval: Duration,
    shown: &Shown,
    head: &str,
) -> Result<Counts, End> {
    let failed = |error| format!("proxy: can't wait for signals ({error}): try again");
    let mut signals = signal(SignalKind::user_defined1()).map_err(failed)?;
    // Printed once SIGUSR1 is caught: a script that reads the line may send the signal.
    print(head)?;
    let typed = typed::resets();
    let mut ticks = interval_at(tokio::time::Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counts = Counts::begin(Instant::now(), 0);
    loop {
        tokio::select! {
            _ = stop.requested() => return Ok(counts),
            _ = ticks.tick() => {
                let (line, happened) = counts.interval(proxy.stats(), Instant::now());
                shown.interval(line, happened)?;
                continue;
            }
            _ = signals.recv() => {}
            () = typed.notified() => {}
        }
        let (stats, now) = (proxy.stats(), Instant::now());
        // Reset before the line is printed: a script that reads the line may rely on the reset.
        proxy.reset_stats();
        shown.print(&format!("reset: {}", counts.summary(&stats, now)))?;
        counts = Counts::begin(now, stats.open.len());
    }
}

fn check(rtt: Option<Duration>) -> Result<(), End> {
    let mut config = SelfCheckConfig::default();
    config.rtt = rtt.unwrap_or(config.rtt);
    let result = self_check(&config)
        .map_err(|error| format!("proxy: the self-check could not run: {error}"))?;
    print(&result.to_string())?;
    if result.holds() {
        return Ok(());
    }
    let advice = "stop other programs and try again";
    Err(format!("proxy: the self-check failed: the proxy is not exact enough now; {advice}").into())
}

fn links(args: &ProxyArgs) -> (Link, Link) {
    let (up, down) = match args.rtt {
        Some(rtt) => Link::pair(rtt),
        None => (
            Link::delayed(args.delay_up.unwrap_or_default()),
            Link::delayed(args.delay_down.unwrap_or_default()),
        ),
    };
    let rest = |link| Link { jitter: args.jitter, bandwidth: args.bandwidth, ..link };
    (rest(up), rest(down))
}

/// The server that the value of an option means: a path if it has a slash, otherwise a host and a
/// port.
pub(crate) fn upstream(option: &str, name: &str) -> Result<Upstream, String> {
    if name.contains('/') {
        let path = Path::new(name);
        if path.is_dir() {
            return Err(format!(
                "{option} {name} is a folder; give the socket in it, such as {}",
                path.join(".s.PGSQL.5432").display()
            ));
        }
        if !path.exists() {
            return Err(format!("{option} {name} does not exist; is the server running?"));
        }
        return Ok(Upstream::Unix(path.into()));
    }
    let addresses: Vec<SocketAddr> = name
        .to_socket_addrs()
        .map_err(|error| {
            format!("{option} {name}: {error}; give HOST:PORT or the path of a unix socket")
        })?
        .collect();
    let chosen = answering(&addresses);
    let chosen = chosen.ok_or_else(|| format!("{option} {name} has no address; check the name"))?;
    Ok(Upstream::Tcp(chosen))
}

fn start_failed(listen: SocketAddr, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => error.to_string(),
        std::io::ErrorKind::AddrInUse => {
            format!(
                "proxy: {listen} is in use; choose another port with --listen, or port 0 for a free one"
            )
        }
        _ => format!(
            "proxy: can't listen on {listen}: {error}; choose another address with --listen"
        ),
    }
}

fn describe(link: &Link) -> String {
    let mut text = format!("{} ms", link.delay.as_secs_f64() * 1e3);
    if !link.jitter.is_zero() {
        text += &format!(" ± {} ms", link.jitter.as_secs_f64() * 1e3);
    }
    if let Some(bandwidth) = link.bandwidth {
        text += &format!(", {} MB/s", bandwidth as f64 / 1e6);
    }
    text
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok())
        .ok_or_else(|| "expected milliseconds, such as 0.5 or 20".into())
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds from 0.1 to 3600".into()),
    }
}

fn bytes_per_second(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((end, 'k')) => (&text[..end], 1e3),
        Some((end, 'M')) => (&text[..end], 1e6),
        Some((end, 'G')) => (&text[..end], 1e9),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>().map(|number| number * unit) {
        Ok(rate) if (1.0..1e15).contains(&rate) => Ok(rate as u64),
        _ => Err("expected bytes per second from 1 to 10^15, such as 500k, 12.5M or 1G".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_units() {
        assert_eq!(milliseconds("0.5"), Ok(Duration::from_micros(500)));
        assert!(milliseconds("-1").is_err() && milliseconds("NaN").is_err());
        assert!(milliseconds("1e300").is_err() && milliseconds("ten").is_err());
        assert_eq!(bytes_per_second("12.5M"), Ok(12_500_000));
        assert_eq!(bytes_per_second("9"), Ok(9));
        assert!(
            ["", "k", "0", "-1M", "inf", "5é"].iter().all(|text| bytes_per_second(text).is_err())
        );
    }

    #[test]
    fn an_upstream_is_an_address_or_an_existing_socket() {
        let address = SocketAddr::from(([127, 0, 0, 1], 5432));
        assert_eq!(upstream("--to", "127.0.0.1:5432"), Ok(Upstream::Tcp(address)));
        for (name, word) in [("127.0.0.1", "HOST:PORT"), ("/", "folder"), ("/no/such", "not exist")]
        {
            assert!(upstream("--to", name).is_err_and(|error| error.contains(word)), "{name}");
        }
    }

    #[test]
    fn a_link_is_described_with_its_units() {
        let link = Link {
            delay: Duration::from_micros(2_500),
            jitter: Duration::from_millis(1),
            bandwidth: Some(12_500_000),
        };
        assert_eq!(describe(&link), "2.5 ms ± 1 ms, 12.5 MB/s");
        assert_eq!(describe(&Link::default()), "0 ms");
    }
}
