//! Runs a command beside a private PostgreSQL server and, if one is installed, a private Redis
//! server: for tests and demos in other languages.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode};
use std::time::Duration;

use onetrip_lab::postgres::patroni;
use onetrip_lab::postgres::pgbouncer::{Options, PoolMode, PrivatePgBouncer, find_all};
use onetrip_lab::proxy::{Link, Proxy, ProxyConfig};
use onetrip_lab::{postgres, redis};

const USAGE: &str = "\
usage: onetrip-private [--rtt MS] [--standby]… [--patroni] COMMAND [ARGUMENT…]
  Starts private servers, runs COMMAND with these variables, and stops the servers when it ends:
    ONETRIP_TEST_POSTGRES  the URL of a PostgreSQL server
    ONETRIP_TEST_REDIS     the URL of a Redis or Valkey server; not set if none is installed
    ONETRIP_REDIS_SERVER   its program, for commands that start servers of their own
    ONETRIP_PRIVATE        this program, for commands that start servers of their own
    ONETRIP_TEST_POOLERS   the URLs of all PgBouncers found, in front of that PostgreSQL server: each
                           in transaction mode, on two connections and without prepared statements,
                           and in session mode
  --rtt adds a round trip of so many milliseconds to PostgreSQL and Redis.
  --standby starts a streaming standby of the PostgreSQL server, twice two of them:
    ONETRIP_TEST_STANDBY   their URLs, with spaces between; not set before PostgreSQL 12
  --patroni starts a cluster of three PostgreSQL servers under Patroni, too:
    ONETRIP_TEST_PATRONI       its URL with three hosts, which asks for the primary
    ONETRIP_TEST_PATRONI_REST  the URLs of the REST API of the nodes, in the order of the hosts
       onetrip-private --sentinels …
  Starts Redis Sentinels and what they watch over, which are told what to do by standard input;
  `onetrip-private --sentinels --help` says how.
       onetrip-private --cluster …
  The same with a cluster of Redis.";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let commanded = match arguments.first().map(String::as_str) {
        Some("--sentinels") => Some(redis::commanded::run(&arguments[1..])),
        Some("--cluster") => Some(redis::commanded::run_cluster(&arguments[1..])),
        _ => None,
    };
    if let Some(ended) = commanded {
        return match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("onetrip-private: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut rtt = None;
    if arguments.first().is_some_and(|it| it == "--rtt") {
        rtt = arguments.get(1).and_then(|it| it.parse().ok()).map(Duration::from_millis);
        if rtt.is_none() {
            eprintln!("onetrip-private: --rtt takes a number of milliseconds\n{USAGE}");
            return ExitCode::from(2);
        }
        arguments.drain(..2);
    }
    let standbys = arguments.iter().take_while(|it| *it == "--standby").count();
    arguments.drain(..standbys);
    let with_patroni = arguments.first().is_some_and(|it| it == "--patroni");
    arguments.drain(..usize::from(with_patroni));
    let Some((program, arguments)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(program, arguments, rtt, (standbys, with_patroni)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("onetrip-private: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    program: &str,
    arguments: &[String],
    rtt: Option<Duration>,
    (standbys, with_patroni): (usize, bool),
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let server = postgres::PrivatePostgres::start(postgres::Options::default())?;
    let mut far = Vec::new();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("ONETRIP_PRIVATE", std::env::current_exe()?)
        .env("ONETRIP_TEST_POSTGRES", away(server.url(), server.port(), rtt, &mut far)?);
    let count = if server.major() >= 12 { standbys } else { 0 };
    let start = |_| server.start_standby(postgres::Options::default());
    let standbys = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
    if !standbys.is_empty() {
        let url = |it: &postgres::PrivatePostgres| away(it.url(), it.port(), rtt, &mut far);
        let urls = standbys.iter().map(url).collect::<Result<Vec<_>, _>>()?;
        command.env("ONETRIP_TEST_STANDBY", urls.join(" "));
    }
    let redis = match redis::Installation::find() {
        Ok(found) => {
            // The command may change its directory.
            command.env(redis::REDIS_SERVER_VARIABLE, std::path::absolute(found.path())?);
            Some(redis::Server::start(redis::Settings::default())?)
        }
        Err(_) => None,
    };
    if let Some(redis) = &redis {
        command.env("ONETRIP_TEST_REDIS", away(redis.url(), redis.port(), rtt, &mut far)?);
    }
    let poolers = poolers(&server)?;
    let urls: Vec<String> = poolers.iter().map(PrivatePgBouncer::url).collect();
    command.env("ONETRIP_TEST_POOLERS", urls.join(" "));
    let cluster = with_patroni.then(patroni::Cluster::start).transpose()?;
    if let Some(cluster) = &cluster {
        let rest = cluster.nodes().iter().map(patroni::Node::rest_url).collect::<Vec<_>>();
        command.env("ONETRIP_TEST_PATRONI", cluster.url());
        command.env("ONETRIP_TEST_PATRONI_REST", rest.join(" "));
    }
    let status = command.status().map_err(|error| format!("{program} can't be run: {error}"))?;
    drop(cluster);
    drop(poolers);
    drop(standbys);
    server.stop()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts each PgBouncer that is found, set up like one before 1.21: without prepared statements.
/// One keeps sessions, so that clients which stay connected need a connection each.
fn poolers(
    server: &postgres::PrivatePostgres,
) -> Result<Vec<PrivatePgBouncer>, Box<dyn std::error::Error>> {
    let start = |(program, (pool_mode, pool_size))| {
        let (program, prepared_max) = (Some(program), Some(0));
        let options = Options { program, pool_mode, pool_size, prepared_max, ..Options::default() };
        Ok(PrivatePgBouncer::start(server, &options)?)
    };
    let modes = [(PoolMode::Transaction, 2), (PoolMode::Session, 25)];
    let each = find_all()?.into_iter().flat_map(|it| modes.map(|mode| (it.clone(), mode)));
    each.map(start).collect()
}

/// The URL of a server through a proxy that adds the round trip. The proxy is added to those that
/// are kept running.
fn away(
    url: String,
    port: u16,
    rtt: Option<Duration>,
    proxies: &mut Vec<Proxy>,
) -> Result<String, Box<dyn std::error::Error>> {
    let Some(rtt) = rtt else { return Ok(url) };
    let mut config = ProxyConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    (config.up, config.down) = Link::pair(rtt);
    let proxy = Proxy::start(config)?;
    let url = url.replace(&format!(":{port}"), &format!(":{}", proxy.addr().port()));
    proxies.push(proxy);
    Ok(url)
}
