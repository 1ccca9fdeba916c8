//! Sentinels and clusters that tests in other languages command by lines of text.

use std::io::{self, BufRead, Write};

use super::cluster::{Cluster, ClusterSettings};
use super::sentinels::{SentinelSettings, Sentinels};
use super::settings::{ClientCertificates, Settings, Tls};

/// What `onetrip-private --sentinels` takes and answers.
pub const USAGE: &str = "\
usage: onetrip-private --sentinels [--users] [--tls CERTIFICATE KEY AUTHORITY]
  Starts a master, two replicas and three Sentinels, and prints the URL and the ports of the servers
  and of the Sentinels. Then it reads a command a line, and answers each with a line, until the end
  of its input:
    master              the port of the master
    fail-over           makes another server the master; its port
    kill-master         kills it (SIGKILL)
    switched            waits until another server is the master; its port
    restart             starts the killed server again, as the master that it was
    kill-sentinel N     kills one of the Sentinels, from 0
  --users: the servers have a user app with the password of-app, and the Sentinels a user watcher
  with the password of-watcher; both have a user guest without one. --tls: all speak TLS, with these PEM files.";

/// Starts them, and obeys until the end of the input.
///
/// # Errors
/// In words: an argument is wrong, they can't be started, or nobody reads the answers.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let mut all = Sentinels::start(&settings(arguments)?).map_err(|error| error.to_string())?;
    let ports = |of: &[super::Server]| {
        of.iter().map(|it| it.port().to_string()).collect::<Vec<_>>().join(" ")
    };
    say(&all.url())?;
    say(&ports(all.servers()))?;
    say(&ports(all.sentinels()))?;
    let mut killed = None;
    serve(|line| obey(&mut all, &mut killed, line))
}

/// What `onetrip-private --cluster` takes and answers.
pub const CLUSTER_USAGE: &str = "\
usage: onetrip-private --cluster REPLICAS
  Starts a cluster of three masters and so many replicas, and prints a URL that names its nodes.
  Then it reads a command a line, and answers each with a line, until the end of its input:
    kill SLOT           kills the node that has this hash slot (SIGKILL)
    well                waits until the nodes that run say that the cluster is well";

/// Starts a cluster, and obeys until the end of the input.
///
/// # Errors
/// As [`run`].
pub fn run_cluster(arguments: &[String]) -> Result<(), String> {
    let [replicas] = arguments else { return Err(CLUSTER_USAGE.into()) };
    let replicas = replicas.parse().map_err(|_| CLUSTER_USAGE)?;
    let settings = ClusterSettings { masters: 3, replicas, ..ClusterSettings::default() };
    let mut cluster = Cluster::start(&settings).map_err(|error| error.to_string())?;
    let hosts = |nodes: &[super::Server]| {
        let each = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        each.collect::<Vec<_>>().join(",")
    };
    let (all, first) = (hosts(cluster.nodes()), hosts(&cluster.nodes()[..1]));
    say(&format!("{}?cluster=1", cluster.nodes()[0].url().replace(&first, &all)))?;
    serve(|line| {
        let done = match line.split_once(' ') {
            Some(("kill", slot)) => {
                let slot = slot.parse().map_err(|_| format!("{slot} is no hash slot"))?;
                cluster.master_of(slot).and_then(|node| cluster.kill_node(node))
            }
            None if line == "well" => cluster.wait_ok(),
            _ => return Err(format!("{line} is no command")),
        };
        done.map(|()| "ok".to_owned()).map_err(|error| error.to_string())
    })
}

/// Answers each line of the input.
fn serve(mut obey: impl FnMut(&str) -> Result<String, String>) -> Result<(), String> {
    for line in io::stdin().lock().lines() {
        let answer = obey(&line.map_err(|error| error.to_string())?);
        say(&answer.unwrap_or_else(|error| format!("error: {error}")))?;
    }
    Ok(())
}

fn obey(all: &mut Sentinels, killed: &mut Option<usize>, line: &str) -> Result<String, String> {
    let port = |all: &Sentinels, server: usize| all.servers()[server].port().to_string();
    let (command, argument) = line.split_once(' ').unwrap_or((line, ""));
    let found = match command {
        "master" => all.master().map(|master| port(all, master)),
        "fail-over" => all.master().and_then(|master| {
            all.fail_over()?;
            Ok(port(all, all.wait_switched(master)?))
        }),
        "kill-master" => all.kill_master().map(|master| {
            *killed = Some(master);
            "ok".to_owned()
        }),
        "switched" => {
            let from = killed.ok_or("no server was killed")?;
            all.wait_switched(from).map(|master| port(all, master))
        }
        "restart" => {
            let server = killed.take().ok_or("no server was killed")?;
            all.restart(server).map(|()| "ok".to_owned())
        }
        "kill-sentinel" => {
            let count = all.sentinels().len();
            let at = argument.parse().ok().filter(|at| *at < count);
            all.kill_sentinel(at.ok_or("there is no such Sentinel")?).map(|()| "ok".to_owned())
        }
        _ => return Err(format!("{line} is no command")),
    };
    found.map_err(|error| error.to_string())
}

fn settings(arguments: &[String]) -> Result<SentinelSettings, String> {
    let mut settings = SentinelSettings::default();
    let user = |of: Settings, name: &str| {
        of.user(name, format!("on >of-{name} ~* &* +@all")).user("guest", "on nopass ~* &* +@all")
    };
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--users" => {
                settings.server = user(settings.server, "app");
                settings.sentinel = user(settings.sentinel, "watcher");
            }
            "--tls" => {
                let mut file = || {
                    let path = words.next().ok_or(USAGE)?;
                    std::fs::read(path).map_err(|error| format!("{path}: {error}"))
                };
                let tls = Tls {
                    certificate: file()?,
                    key: file()?,
                    authority: file()?,
                    clients: ClientCertificates::Ignored,
                };
                settings.server.tls = Some(tls.clone());
                settings.sentinel.tls = Some(tls);
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(settings)
}

fn say(line: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}
