//! Readings from the server: its product and version, its settings, and the CPU that it used.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use onetrip::redis::Client;
use onetrip::redis::commands::*;

use super::target::Target;
use crate::error::{Error, Result};
use crate::meter::ClientCpu;
use crate::results::{Repetition, Server};
use crate::spread::Spread;

/// All readings, over a connection of their own.
pub(crate) struct Meters {
    server: Server,
    admin: Client,
}

/// The readings before a repetition.
pub(crate) struct Before {
    trips: u64,
    client: ClientCpu,
    server: Option<f64>,
}

impl Meters {
    /// Connects and asks what the server is. Returns the client for the keys, too.
    ///
    /// # Errors
    /// It can't be reached, or is a node of a cluster.
    pub(crate) async fn connect(target: &Target) -> Result<(Client, Meters)> {
        let admin = Client::connect_with(target.direct()).await?;
        let server = describe(target, &admin).await?;
        Ok((admin.clone(), Meters { server, admin }))
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// `trips`: those that the client has made until now.
    pub(crate) async fn begin(&self, trips: u64) -> Before {
        let server = cpu_s(&self.admin).await;
        Before { trips, client: ClientCpu::start(), server }
    }

    /// Adds to the repetition what it cost, with the trips of the client until now.
    pub(crate) async fn end(&self, before: Before, trips: u64, to: &mut Repetition) {
        let Before { trips: earlier, client: mut cpu, server } = before;
        to.client_cpu_ms = cpu.elapsed().map(|time| time.as_secs_f64() * 1e3);
        let server = cpu_s(&self.admin).await.zip(server);
        to.server_cpu_ms = server.map(|(now, before)| (now - before) * 1e3);
        to.trips = Some(trips - earlier);
    }
}

/// CPU seconds of the server's process with all its threads, without the processes that it starts
/// to write files. `None` if the user has no permission to ask.
async fn cpu_s(admin: &Client) -> Option<f64> {
    let info = info(admin, "cpu").await.ok()?;
    let number = |name| info.get(name)?.parse::<f64>().ok();
    Some(number("used_cpu_user")? + number("used_cpu_sys")?)
}

/// The fields of INFO by name.
type Fields = std::result::Result<HashMap<String, String>, onetrip::Error>;

async fn info(admin: &Client, section: &str) -> Fields {
    let text: String = admin.timeout(ANSWER_MAX).info_section(section).await?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

async fn describe(target: &Target, admin: &Client) -> Result<Server> {
    let info = match info(admin, "server").await {
        Ok(info) => info,
        // A user without the permission for INFO can still run the measurement.
        Err(error) if error.redis_code() == Some("NOPERM") => HashMap::new(),
        Err(error) => return Err(error.into()),
    };
    let is = |name: &str| info.get(name).cloned();
    if is("redis_mode").is_some_and(|mode| mode == "cluster") {
        return Err(Error::new("the server is a node of a cluster: name one that is not"));
    }
    let (product, version) = match is("valkey_version") {
        Some(version) => ("Valkey", Some(version)),
        None => ("Redis", is("redis_version")),
    };
    Ok(Server {
        url: target.url().to_owned(),
        product: product.to_owned(),
        version: version.unwrap_or_else(|| "unknown".to_owned()),
        private: target.private().is_some(),
        settings: settings(admin).await?,
    })
}

/// The settings that affect measurements, by name. Settings that the server doesn't know or doesn't
/// show to this user are missing. One trip.
async fn settings(admin: &Client) -> Result<BTreeMap<String, String>> {
    let ask = |name: &&str| admin.config_get::<HashMap<String, String>>(*name);
    let replies: Vec<_> = NAMES.iter().map(ask).collect();
    let mut settings = BTreeMap::new();
    for reply in replies {
        match reply.await {
            Ok(found) => settings.extend(found),
            Err(error) if error.redis_code().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(settings)
}

const NAMES: [&str; 15] = [
    "activedefrag",
    "appendfsync",
    "appendonly",
    "client-output-buffer-limit",
    "databases",
    "hz",
    "io-threads",
    "io-threads-do-reads",
    "latency-tracking",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "save",
    "slowlog-log-slower-than",
    "tls-port",
];

/// Measures round trips of PING, one after the other on an open connection, in milliseconds. It
/// measures 50 after five for warm-up; on a slow line, as many as one second allows.
///
/// # Errors
/// The server did not answer within ten seconds.
pub(crate) async fn rtt(client: &Client) -> Result<Spread> {
    let client = client.timeout(ANSWER_MAX);
    let start = Instant::now();
    let mut times = vec![ping(&client).await?];
    while times.len() < WARM_UP + SAMPLES && start.elapsed() < TIME_MAX {
        times.push(ping(&client).await?);
    }
    let counted = times.split_off(WARM_UP.min(times.len() / 2));
    let spread = Spread::of(counted.iter().map(|time| time.as_secs_f64() * 1e3));
    Ok(spread.expect("at least one was measured"))
}

const WARM_UP: usize = 5;
const SAMPLES: usize = 50;
const TIME_MAX: Duration = Duration::from_secs(1);
const ANSWER_MAX: Duration = Duration::from_secs(10);

async fn ping(client: &Client) -> Result<Duration> {
    let start = Instant::now();
    client.ping().await?;
    Ok(start.elapsed())
}
