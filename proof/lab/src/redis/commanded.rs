//! Sentinels that tests in other languages command by lines of text.

use std::io::{self, BufRead, Write};

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
  --users: the servers have a user app with the password of-app, the Sentinels a user watcher with
  the password of-watcher. --tls: all speak TLS, with these PEM files.";

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
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let answer = obey(&mut all, &mut killed, &line);
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
    let user = |of: Settings, name: &str| of.user(name, format!("on >of-{name} ~* &* +@all"));
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
