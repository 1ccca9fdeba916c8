//! Redis Sentinel: a master, replicas, and Sentinels that watch over them.

use std::time::{Duration, Instant};

use onetrip_redis::Command;

use super::plain::Answer;
use super::server::Server;
use super::settings::Settings;
use crate::private::{LabError, START_TIMEOUT, random_digits};

/// The pause between two looks at what is not ready yet.
const LOOK: Duration = Duration::from_millis(20);

/// How to start them; `SentinelSettings::default()` is right for most tests.
#[derive(Clone, Debug)]
pub struct SentinelSettings {
    /// Replicas of the master. Default: 2.
    pub replicas: usize,
    /// Sentinels. Default: 3, of which two must agree.
    pub sentinels: usize,
    /// After this time without an answer, a Sentinel takes a server for dead. Default: 1 s.
    pub down_after: Duration,
    /// The settings of the servers.
    pub server: Settings,
    /// The settings of the Sentinels.
    pub sentinel: Settings,
}

impl Default for SentinelSettings {
    fn default() -> Self {
        Self {
            replicas: 2,
            sentinels: 3,
            down_after: Duration::from_secs(1),
            server: Settings::default(),
            sentinel: Settings::default(),
        }
    }
}

/// A master, its replicas and their Sentinels, which belong to this process and end with it. The
/// first server begins as the master.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Server>,
    servers: Vec<Server>,
}

impl Sentinels {
    /// The name of the master in the Sentinels' configuration.
    pub const MASTER: &'static str = "mymaster";

    /// Starts them, and returns when the Sentinels know each other and all replicas: after a few
    /// seconds.
    ///
    /// # Errors
    /// As those of a [`Server`], and when they are not ready within 60 s.
    pub fn start(settings: &SentinelSettings) -> Result<Self, LabError> {
        let password = if settings.server.password { random_digits()? } else { String::new() };
        let of_server = of_replication(settings.server.clone())
            .setting("repl-diskless-sync-delay", "0")
            .setting("repl-ping-replica-period", "1");
        let master = Server::start_with(of_server.clone(), password.clone())?;
        let port = master.port();
        let of_replica = of_server.setting("replicaof", format!("127.0.0.1 {port}"));
        let mut servers = vec![master];
        for _ in 0..settings.replicas {
            servers.push(Server::start_with(of_replica.clone(), password.clone())?);
        }
        let sentinels = start_sentinels(settings, port, &password)?;
        let all = Self { sentinels, servers };
        all.wait_ok()?;
        Ok(all)
    }

    /// The servers; the first began as the master.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The Sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// `redis+sentinel://:password@host:port,…/mymaster?sentinel_password=…`; with TLS
    /// `rediss+sentinel`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
        let (server, sentinel) = (&self.servers[0], &self.sentinels[0]);
        let scheme = server.url();
        let scheme = scheme.split(':').next().unwrap_or_default();
        let login = match server.password() {
            "" => String::new(),
            password => format!(":{password}@"),
        };
        let query = match sentinel.password() {
            "" => String::new(),
            password => format!("?sentinel_password={password}"),
        };
        format!("{scheme}+sentinel://{login}{}/{}{query}", hosts.join(","), Self::MASTER)
    }

    /// The number of the server that is the master, as most of the running Sentinels say.
    ///
    /// # Errors
    /// When none can be asked, or they do not agree.
    pub fn master(&self) -> Result<usize, LabError> {
        let running: Vec<&Server> = self.sentinels.iter().filter(|it| it.is_running()).collect();
        let mut voices = vec![0; self.servers.len()];
        for sentinel in &running {
            let port = port_of(&asked(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME")?);
            if let Some(at) = self.servers.iter().position(|it| Some(it.port()) == port) {
                voices[at] += 1;
            }
        }
        let most = voices.iter().position(|count| count * 2 > running.len());
        most.ok_or_else(|| LabError::new("the Sentinels do not agree on a master"))
    }

    /// Kills the master (SIGKILL). Returns its number.
    ///
    /// # Errors
    /// As [`master`](Self::master), and when it is not running.
    pub fn kill_master(&mut self) -> Result<usize, LabError> {
        let master = self.master()?;
        self.servers[master].kill()?;
        Ok(master)
    }

    /// Waits until the Sentinels name another master than this.
    ///
    /// # Errors
    /// After 60 s.
    pub fn wait_switched(&self, from: usize) -> Result<usize, LabError> {
        wait_for("no other master was found", || match self.master() {
            Ok(master) if master != from => Ok(Ok(master)),
            Ok(_) => Ok(Err("it is the same".into())),
            Err(error) => Ok(Err(error.to_string())),
        })
    }

    /// Has the Sentinels make another server the master, as an operator would; once what they did
    /// before is over.
    ///
    /// # Errors
    /// When the first running Sentinel refuses for 60 s.
    pub fn fail_over(&self) -> Result<(), LabError> {
        let sentinel = self.sentinels.iter().find(|it| it.is_running());
        let sentinel = sentinel.ok_or_else(|| LabError::new("no Sentinel is running"))?;
        wait_for("no failover can begin", || {
            Ok(asked(sentinel, "SENTINEL FAILOVER").map(drop).map_err(|error| error.to_string()))
        })
    }

    /// Starts a server again: same port, no data. A former master comes back as a master, until the
    /// Sentinels make it a replica.
    ///
    /// # Errors
    /// As [`Server::restart`].
    pub fn restart(&mut self, server: usize) -> Result<(), LabError> {
        self.servers[server].restart()
    }

    /// Kills a Sentinel.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill_sentinel(&mut self, at: usize) -> Result<(), LabError> {
        self.sentinels[at].kill()
    }

    /// Starts a Sentinel again, with the memory that it had at the very beginning: it knows neither
    /// the others nor a later master.
    ///
    /// # Errors
    /// As [`Server::restart`].
    pub fn restart_sentinel(&mut self, at: usize) -> Result<(), LabError> {
        self.sentinels[at].restart()
    }

    /// Waits until all running Sentinels name one master, know each other, and see all running
    /// replicas linked to it.
    ///
    /// # Errors
    /// After 60 s, with what is still wrong.
    pub fn wait_ok(&self) -> Result<(), LabError> {
        wait_for("the Sentinels are not ready", || Ok(self.amiss()?.map_or(Ok(()), Err)))
    }

    fn amiss(&self) -> Result<Option<String>, LabError> {
        let master = match self.master() {
            Ok(master) => master,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let running = self.servers.iter().filter(|server| server.is_running()).count();
        let linked = format!("connected_slaves:{}", running - 1);
        let info = info(&self.servers[master])?;
        if !info.contains("role:master") || !info.contains(&linked) {
            return Ok(Some(format!("server {master} has not all replicas")));
        }
        for sentinel in self.sentinels.iter().filter(|it| it.is_running()) {
            let others = entries(&asked(sentinel, "SENTINEL SENTINELS")?);
            let replicas = entries(&asked(sentinel, "SENTINEL REPLICAS")?);
            let well = replicas.iter().filter(|it| it.contains("master-link-status ok"));
            if others.len() + 1 < self.sentinels.len() || well.count() + 1 < running {
                return Ok(Some(format!("the Sentinel at {} does not know all", sentinel.port())));
            }
        }
        Ok(None)
    }
}

fn start_sentinels(
    settings: &SentinelSettings,
    port: u16,
    password: &str,
) -> Result<Vec<Server>, LabError> {
    let name = Sentinels::MASTER;
    let quorum = settings.sentinels / 2 + 1;
    let of_sentinel = if settings.sentinel.password { random_digits()? } else { String::new() };
    let down_after = settings.down_after.as_millis();
    let mut one = of_replication(Settings { sentinel: true, ..settings.sentinel.clone() })
        .setting("sentinel", format!("monitor {name} 127.0.0.1 {port} {quorum}"))
        .setting("sentinel", format!("down-after-milliseconds {name} {down_after}"))
        .setting("sentinel", format!("failover-timeout {name} {}", 3 * down_after))
        .setting("sentinel", format!("parallel-syncs {name} {}", settings.replicas.max(1)));
    if !password.is_empty() {
        one = one.setting("sentinel", format!("auth-pass {name} {password}"));
    }
    if !of_sentinel.is_empty() {
        one = one.setting("sentinel", format!("sentinel-pass {of_sentinel}"));
    }
    (0..settings.sentinels).map(|_| Server::start_with(one.clone(), of_sentinel.clone())).collect()
}

/// With TLS, servers and Sentinels also speak it to each other.
fn of_replication(settings: Settings) -> Settings {
    match settings.tls.is_some() {
        true => settings.setting("tls-replication", "yes"),
        false => settings,
    }
}

/// The answer of a Sentinel to a question about the master.
fn asked(sentinel: &Server, question: &str) -> Result<Answer, LabError> {
    let answer = sentinel.plain().and_then(|mut plain| {
        let command = Command::new(question).arg(Sentinels::MASTER);
        plain.tell(&command).map_err(|error| LabError::new(format!("{question}: {error}")))
    });
    answer.map_err(|error| LabError::new(format!("the Sentinel at {}: {error}", sentinel.port())))
}

fn info(server: &Server) -> Result<String, LabError> {
    let info = server.plain()?.tell(&Command::new("INFO").arg("replication"));
    Ok(info
        .map_err(|error| LabError::new(format!("INFO: {error}")))?
        .text()
        .unwrap_or_default()
        .into())
}

fn port_of(answer: &Answer) -> Option<u16> {
    answer.items().get(1)?.text()?.parse().ok()
}

/// Each entry of a list as words: names and values.
fn entries(answer: &Answer) -> Vec<String> {
    let words = |entry: &Answer| {
        entry.items().iter().filter_map(Answer::text).collect::<Vec<_>>().join(" ")
    };
    answer.items().iter().map(words).collect()
}

/// Looks until it is there. The inner error says what is still wrong.
fn wait_for<T>(
    what: &str,
    look: impl Fn() -> Result<Result<T, String>, LabError>,
) -> Result<T, LabError> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match look()? {
            Ok(found) => return Ok(found),
            Err(why) if Instant::now() > deadline => {
                let seconds = START_TIMEOUT.as_secs();
                return Err(LabError::new(format!("{what} after {seconds} s: {why}")));
            }
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}
