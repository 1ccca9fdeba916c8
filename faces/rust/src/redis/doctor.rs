//! What the servers of a URL are: each Sentinel and what it believes, each node of a cluster, or a
//! single server with its replicas. `onetrip doctor` prints it.
//!
//! Each server is asked on a connection of its own, which is closed afterwards. Nothing is changed.

use std::fmt;
use std::time::{Duration, Instant};

use super::config::{Sentinel, Server};
use super::{Client, Config, Value};
use crate::Error;

/// How long a server may take for all of its answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The role of a Sentinel in which the configuration sees a server with data.
const SENTINEL: &str = "Sentinel, which has no data";

/// The servers of a configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Each server of the configuration, in its order. With Sentinels, the master that most of them
    /// name comes last.
    pub hosts: Vec<Host>,
    /// Settings that should be changed, each with its place and the reason.
    pub advice: Vec<Advice>,
}

/// A server of the configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Host {
    /// The host and the port, or the path of the Unix socket.
    pub name: String,
    /// What it said, fact by fact; or why it said nothing.
    pub found: Result<Vec<Fact>, String>,
}

/// Something that a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fact {
    /// What it is about, such as `master` or `epoch`.
    pub about: &'static str,
    /// What the server says of it.
    pub says: String,
}

/// A setting that should be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// `set in the URL` or `set in the server`.
    pub place: &'static str,
    /// The setting.
    pub setting: &'static str,
    /// Why.
    pub why: &'static str,
}

impl Diagnosis {
    /// Whether a client of this configuration can't work: no server answers as it should, or the
    /// Sentinels do not agree.
    pub fn is_harmful(&self) -> bool {
        self.hosts.iter().all(|host| host.found.is_err())
            || self.facts("agreement").any(|says| says.starts_with("no majority"))
            || self.facts("state").any(|says| says != "ok")
            || self.facts("role").any(|says| says == SENTINEL)
    }

    fn facts(&self, about: &str) -> impl Iterator<Item = &str> {
        let found = self.hosts.iter().filter_map(|host| host.found.as_ref().ok()).flatten();
        found.filter(move |fact| fact.about == about).map(|fact| fact.says.as_str())
    }
}

/// Asks each server of the configuration who it is and whom it knows.
///
/// # Errors
/// Settings contradict each other. A server that does not answer is told as such.
pub async fn diagnose(config: &Config) -> Result<Diagnosis, Error> {
    config.check().map_err(Error::config)?;
    let mut hosts = Vec::new();
    for server in &config.servers {
        let facts = tokio::time::timeout(PATIENCE, ask(config, server)).await;
        let found = match facts {
            Ok(facts) => facts.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        hosts.push(Host { name: name(server), found });
    }
    if config.sentinel.is_some() {
        let agreed = agreed(&hosts);
        if let Some(server) = &agreed.server {
            let facts = tokio::time::timeout(PATIENCE, ask_server(&only(config, server))).await;
            let found = match facts {
                Ok(facts) => facts.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            };
            hosts.push(Host { name: name(server), found });
        }
        if let Some(facts) = hosts.last_mut().and_then(|host| host.found.as_mut().ok()) {
            facts.push(Fact { about: "agreement", says: agreed.says });
        }
    }
    let advice = advice(config, &hosts);
    Ok(Diagnosis { hosts, advice })
}

fn name(server: &Server) -> String {
    match server {
        Server::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
        Server::Tcp { host, port } => format!("{host}:{port}"),
        Server::Unix(path) => path.display().to_string(),
    }
}

/// The configuration for one server alone, as a single one.
fn only(config: &Config, server: &Server) -> Config {
    let mut only = config.clone();
    (only.servers, only.sentinel) = (vec![server.clone()], None);
    (only.is_cluster, only.cache_bytes, only.replica_reads) = (false, 0, false);
    only
}

async fn ask(config: &Config, server: &Server) -> Result<Vec<Fact>, Error> {
    match &config.sentinel {
        Some(sentinel) => ask_sentinel(&of_sentinel(config, sentinel, server), sentinel).await,
        None => ask_server(&only(config, server)).await,
    }
}

fn of_sentinel(config: &Config, sentinel: &Sentinel, server: &Server) -> Config {
    let mut only = only(config, server);
    only.login = sentinel.login.clone();
    only.database = 0;
    only
}

/// What a Sentinel believes of the master with the configured name.
async fn ask_sentinel(config: &Config, sentinel: &Sentinel) -> Result<Vec<Fact>, Error> {
    let client = Client::connect_with(config).await?;
    let trip = round_trip(&client).await?;
    let sub = |name: &'static str| client.cmd("SENTINEL").arg(name).arg(sentinel.master.as_str());
    let master = match sub("MASTER").send::<Value>().await {
        Ok(master) => pairs(&master),
        Err(error) if error.to_string().contains("No such master") => {
            let (name, watched) = (sentinel.master.escape_debug(), watched(&client).await?);
            let text = format!("it watches no master \"{name}\", but {watched}");
            return Err(Error::misuse("sentinel_master", text));
        }
        Err(error) => return Err(error),
    };
    let replicas = sub("REPLICAS").send::<Vec<Value>>().await?;
    let of = |name: &str| of(&master, name);
    let others = of("num-other-sentinels").parse::<u32>().unwrap_or(0);
    let known = others + 1;
    let mut facts = vec![
        fact("answers", format!("a Sentinel; {trip}")),
        fact("master", format!("{}:{}, {}", of("ip"), of("port"), of("flags"))),
        fact("epoch", of("config-epoch").to_owned()),
        fact("quorum", format!("{} of {known} Sentinels that it knows", of("quorum"))),
    ];
    for replica in &replicas {
        let replica = pairs(replica);
        let get = |name: &str| super::doctor::of(&replica, name).to_owned();
        let (link, offset) = (get("master-link-status"), get("slave-repl-offset"));
        let says = format!(
            "{}:{}, {}, its link to the master is {link}, offset {offset}",
            get("ip"),
            get("port"),
            get("flags")
        );
        facts.push(fact("replica", says));
    }
    Ok(facts)
}

/// What a server is: alone or a node of a cluster, master or replica.
async fn ask_server(config: &Config) -> Result<Vec<Fact>, Error> {
    let client = Client::connect_with(config).await?;
    let trip = round_trip(&client).await?;
    let info: String = client.cmd("INFO").send().await?;
    let get = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim()
    };
    let product = if get("valkey_version").is_empty() { "Redis" } else { "Valkey" };
    let version =
        [get("valkey_version"), get("redis_version")].into_iter().find(|it| !it.is_empty());
    let version = version.unwrap_or("of an unknown version");
    if get("redis_mode") == "sentinel" {
        return Ok(vec![
            fact("answers", format!("{product} {version}; {trip}")),
            fact("role", SENTINEL.to_owned()),
            fact("watches", watched(&client).await?),
        ]);
    }
    let mut facts = vec![
        fact("answers", format!("{product} {version}; {trip}")),
        fact("role", role(&get)),
        fact("history", format!("{}, offset {}", get("master_replid"), get("master_repl_offset"))),
    ];
    for line in info.lines() {
        let replica = line.strip_prefix("slave").and_then(|rest| rest.split_once(':'));
        if let Some((number, says)) = replica
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            facts.push(fact("replica", says.trim().replace(',', ", ")));
        }
    }
    if get("cluster_enabled") == "1" {
        cluster(&client, &mut facts).await?;
    }
    Ok(facts)
}

/// The names of the masters that a Sentinel watches.
async fn watched(client: &Client) -> Result<String, Error> {
    let masters = client.cmd("SENTINEL").arg("MASTERS").send::<Vec<Value>>().await?;
    let named = |master: &Value| format!("\"{}\"", of(&pairs(master), "name").escape_debug());
    let names: Vec<String> = masters.iter().map(named).collect();
    Ok(if names.is_empty() { "no master at all".into() } else { names.join(", ") })
}

fn role<'a>(get: &impl Fn(&str) -> &'a str) -> String {
    match get("role") {
        "slave" => format!(
            "replica of {}:{}, its link to the master is {}",
            get("master_host"),
            get("master_port"),
            get("master_link_status")
        ),
        other => other.to_owned(),
    }
}

/// What a node says of its cluster.
async fn cluster(client: &Client, facts: &mut Vec<Fact>) -> Result<(), Error> {
    let info: String = client.cmd("CLUSTER").arg("INFO").send().await?;
    let get = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    };
    facts.push(fact("state", get("cluster_state")));
    facts.push(fact("epoch", get("cluster_current_epoch")));
    facts.push(fact("slots", format!("{} of 16384 have a node", get("cluster_slots_ok"))));
    let nodes: String = client.cmd("CLUSTER").arg("NODES").send().await?;
    for line in nodes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, address, flags, master, _, _, epoch, link, slots @ ..] = &words[..] else {
            continue;
        };
        let address = address.split(['@', ',']).next().unwrap_or_default();
        let flags = flags.replace("myself,", "").replace("slave", "replica");
        let what = match *master {
            "-" => format!("slots {}", slots.join(" ")),
            master => format!("of {}", master.get(..8).unwrap_or(master)),
        };
        let id = words[0].get(..8).unwrap_or(words[0]);
        let says = format!("{address} ({id}), {flags}, {what}, epoch {epoch}, {link}");
        facts.push(fact("node", says));
    }
    Ok(())
}

async fn round_trip(client: &Client) -> Result<String, Error> {
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let begin = Instant::now();
        client.cmd("PING").send::<Value>().await?;
        shortest = shortest.min(begin.elapsed());
    }
    Ok(format!("round trip {:.2} ms", shortest.as_secs_f64() * 1e3))
}

fn fact(about: &'static str, says: String) -> Fact {
    Fact { about, says }
}

/// The names and values of a map, or of a list of both in turns.
fn pairs(value: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::Bulk(bytes) | Value::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    };
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (text(name), text(value))).collect(),
        Value::Array(items) => {
            items.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
        }
        _ => Vec::new(),
    }
}

fn of<'a>(pairs: &'a [(String, String)], name: &str) -> &'a str {
    pairs.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
}

/// What the Sentinels agree on.
struct Agreed {
    says: String,
    server: Option<Server>,
}

fn agreed(hosts: &[Host]) -> Agreed {
    let about = |host: &Host, about: &str| {
        let facts = host.found.as_ref().ok()?;
        facts.iter().find(|fact| fact.about == about).map(|fact| fact.says.clone())
    };
    let named = |host: &Host| Some(about(host, "master")?.split(", ").next()?.to_owned());
    let names: Vec<String> = hosts.iter().filter_map(named).collect();
    let count = |name: &String| names.iter().filter(|other| *other == name).count();
    let Some(most) = names.iter().max_by_key(|name| count(name)) else {
        return Agreed { says: "no majority: no Sentinel answers".into(), server: None };
    };
    let (agree, all) = (count(most), hosts.len());
    let word = if agree * 2 > all { "a majority" } else { "no majority" };
    let says = format!("{word}: {agree} of {all} Sentinels of the URL name {most}");
    let server = most.rsplit_once(':').and_then(|(host, port)| {
        Some(Server::Tcp { host: host.to_owned(), port: port.parse().ok()? })
    });
    Agreed { says, server }
}

fn advice(config: &Config, hosts: &[Host]) -> Vec<Advice> {
    let mut advice = Vec::new();
    let facts = || hosts.iter().filter_map(|host| host.found.as_ref().ok()).flatten();
    let in_cluster = facts().any(|fact| fact.about == "slots");
    let has_role = |role: &str| facts().any(|it| it.about == "role" && it.says.starts_with(role));
    if has_role(SENTINEL) {
        advice.push(Advice {
            place: "set in the URL",
            setting: "redis+sentinel://",
            why: "this is a Sentinel: redis+sentinel://host,host,host/NAME, with the name of the \
                  master, has the client ask the Sentinels for it",
        });
    }
    if has_role("replica of") && !in_cluster && config.sentinel.is_none() {
        advice.push(Advice {
            place: "set in the URL",
            setting: "host",
            why: "this is a replica, which refuses writes: name its master, or the Sentinels",
        });
    }
    if config.sentinel.is_some() && config.servers.len() < 3 {
        advice.push(Advice {
            place: "set in the URL",
            setting: "three Sentinels or more",
            why: "the client believes a majority of them, so with fewer none may be down",
        });
    }
    if in_cluster && !config.is_cluster {
        advice.push(Advice {
            place: "set in the URL",
            setting: "cluster=1",
            why: "the server is a node of a cluster: without this, commands for the keys of \
                  other nodes fail",
        });
    }
    let has_replica = facts().any(|fact| fact.about == "replica");
    if has_replica && !in_cluster && config.sentinel.is_none() {
        advice.push(Advice {
            place: "set in the URL",
            setting: "redis+sentinel://",
            why: "the server has replicas: if Sentinels watch over it, name them, so that the \
                  client finds the next master",
        });
    }
    if has_replica || in_cluster {
        advice.push(Advice {
            place: "set in the server",
            setting: "min-replicas-to-write",
            why: "a master answers before its replicas have the write: with 1 or more, or with \
                  WAIT behind a write, less is lost when it crashes \
                  (docs/operations/clusters.md)",
        });
    }
    advice
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for host in &self.hosts {
            match &host.found {
                Err(why) => writeln!(f, "host              {}: not used: {why}", host.name)?,
                Ok(facts) => {
                    writeln!(f, "host              {}", host.name)?;
                    for Fact { about, says } in facts {
                        writeln!(f, "  {about:<15} {says}")?;
                    }
                }
            }
        }
        write!(f, "harmful           {}", if self.is_harmful() { "yes" } else { "no" })?;
        for Advice { place, setting, why } in &self.advice {
            write!(f, "\n{place:<17} {setting}: {why}")?;
        }
        Ok(())
    }
}
