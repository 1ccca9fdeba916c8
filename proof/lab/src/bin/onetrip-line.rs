//! A proxy that tests in other languages command by its standard input.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use onetrip_lab::proxy::{Direction, Fault, Link, Proxy, ProxyConfig, Scope};

const USAGE: &str = "\
usage: onetrip-line PORT
  puts a proxy in front of this port of the loopback interface, and prints its own port; then reads
  a command a line, and answers each with a line, until the end of its input:
  trips    the trips since the last `trips`
  rtt MS   from now on a round trip takes so many milliseconds
  cut      ends all connections
  down     the same, and ends those that come, until `up`";

fn main() -> ExitCode {
    let port = std::env::args().nth(1).and_then(|it| it.parse().ok());
    let Some(port) = port else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onetrip-line: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(port: u16) -> std::io::Result<()> {
    let proxy = Proxy::start(ProxyConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))?;
    say(&proxy.addr().port().to_string())?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("trips", _) => {
                let trips = proxy.stats().trips;
                proxy.reset_stats();
                trips.to_string()
            }
            ("rtt", millis) => match millis.parse() {
                Ok(millis) => {
                    let (up, down) = Link::pair(Duration::from_millis(millis));
                    proxy.set_links(up, down)?;
                    "ok".to_owned()
                }
                Err(_) => "rtt takes a number of milliseconds".to_owned(),
            },
            (what @ ("cut" | "down"), _) => {
                let scope = if what == "cut" { Scope::Present } else { Scope::All };
                proxy.fault(Fault::CutAfter { direction: Direction::Down, bytes: 0 }, scope);
                "ok".to_owned()
            }
            ("stall", _) => {
                for direction in [Direction::Up, Direction::Down] {
                    proxy.fault(Fault::Stall { direction }, Scope::All);
                }
                "ok".to_owned()
            }
            ("up", _) => {
                proxy.clear_faults();
                "ok".to_owned()
            }
            _ => format!("{line} is no command"),
        };
        say(&answer)?;
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
