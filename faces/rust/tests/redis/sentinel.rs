//! Redis Sentinel: who is the master, and what becomes of commands when that changes.

use std::time::{Duration, Instant};

use onetrip::redis::{Client, Config, commands::*};
use onetrip::{Error, Outcome};
use onetrip_lab::redis::{
    ClientCertificates, SentinelSettings, Sentinels, Settings, Tls, found_or_skipped,
};

use crate::tls::{authority, identity};

const PATIENCE: Duration = Duration::from_secs(600);

fn started(settings: SentinelSettings) -> Option<Sentinels> {
    let installation = Some(found_or_skipped()?);
    let with = |of: Settings| Settings { installation: installation.clone(), ..of };
    let (server, sentinel) = (with(settings.server), with(settings.sentinel));
    Some(Sentinels::start(&SentinelSettings { server, sentinel, ..settings }).unwrap())
}

fn config(url: &str) -> Config {
    let config: Config = url.parse().unwrap();
    config.limits(|limits| limits.wait_timeout = PATIENCE)
}

/// Connects without success until the error gives this reason: on a busy machine a Sentinel may need
/// longer for its answer than the client waits.
async fn explained(url: &str, reason: &str) -> Error {
    let url = format!("{url}&wait_timeout_ms=500");
    let tries = async {
        loop {
            let error = Client::connect(&url).await.unwrap_err();
            if error.to_string().contains(reason) {
                return error;
            }
        }
    };
    let said = tokio::time::timeout(PATIENCE, tries).await;
    said.unwrap_or_else(|_| panic!("no error says {reason:?}"))
}

/// The port that a command is answered by, as the server itself says.
async fn port(client: &Client) -> u16 {
    let config: Vec<String> = client.cmd("CONFIG GET").arg("port").send().await.unwrap();
    config[1].parse().unwrap()
}

/// Writes numbered keys, one after the other, until told to stop. Returns those that were
/// acknowledged, and the failures.
async fn write(
    client: Client,
    task: usize,
    stop: tokio::sync::watch::Receiver<bool>,
) -> (Vec<String>, Vec<Error>) {
    let (mut acknowledged, mut failed) = (Vec::new(), Vec::new());
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        let key = format!("{task}:{number}");
        match client.set(&key, number).await {
            Ok(()) => acknowledged.push(key),
            Err(error) => failed.push(error),
        }
        tokio::task::yield_now().await;
    }
    (acknowledged, failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_finds_the_master_and_follows_it_when_it_is_killed_under_load() {
    let Some(mut sentinels) = started(SentinelSettings::default()) else { return };
    let client = Client::connect_with(&config(&sentinels.url())).await.unwrap();
    let first = sentinels.master().unwrap();
    assert_eq!(port(&client).await, sentinels.servers()[first].port());

    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writers: Vec<_> =
        (0..50).map(|task| tokio::spawn(write(client.clone(), task, stopped.clone()))).collect();
    client.set("before", 1).await.unwrap();
    sentinels.kill_master().unwrap();
    sentinels.wait_switched(first).unwrap();
    client.set("after", 1).await.unwrap();
    at_the_master(&client, &sentinels).await;

    // The former master comes back as a master, and is not written to.
    sentinels.restart(first).unwrap();
    sentinels.wait_ok().unwrap();
    stop.send(true).unwrap();
    for writer in writers {
        let (acknowledged, failed) = writer.await.unwrap();
        assert!(!acknowledged.is_empty());
        for error in failed {
            // What was not sent went on by itself.
            assert!(matches!(error.outcome(), Outcome::Unknown | Outcome::Rejected), "{error}");
        }
        let last = acknowledged.last().unwrap();
        assert!(client.get::<Option<String>>(last).await.unwrap().is_some(), "{last}");
    }
    at_the_master(&client, &sentinels).await;
}

/// Until the client is where the Sentinels say that the master is: where the machine is busy they may
/// switch once more.
async fn at_the_master(client: &Client, sentinels: &Sentinels) {
    let agreed = async {
        let is_there =
            async |master: usize| port(client).await == sentinels.servers()[master].port();
        while !matches!(sentinels.master(), Ok(master) if is_there(master).await) {}
    };
    assert!(tokio::time::timeout(PATIENCE, agreed).await.is_ok(), "it is somewhere else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_by_an_operator_ends_no_command_untruly() {
    let Some(sentinels) = started(SentinelSettings::default()) else { return };
    let client = Client::connect_with(&config(&sentinels.url())).await.unwrap();
    let first = sentinels.master().unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writer = tokio::spawn(write(client.clone(), 0, stopped));
    sentinels.fail_over().unwrap();
    sentinels.wait_switched(first).unwrap();
    sentinels.wait_ok().unwrap();
    client.set("after", 1).await.unwrap();
    stop.send(true).unwrap();
    let (acknowledged, failed) = writer.await.unwrap();
    assert!(!acknowledged.is_empty());
    assert!(failed.iter().all(|error| error.outcome() != Outcome::NotSent), "{failed:?}");
    at_the_master(&client, &sentinels).await;
}

#[tokio::test]
async fn reads_go_to_a_replica_if_the_option_says_so_and_writes_to_the_master() {
    let Some(sentinels) = started(SentinelSettings::default()) else { return };
    let url = format!("{}{}", sentinels.url(), "&reads=prefer_replica");
    let client = Client::connect_with(&config(&url)).await.unwrap();
    let master = sentinels.master().unwrap();
    client.set("key", "value").await.unwrap();
    // The key is counted where it is read.
    let hits = |at: usize| {
        let mut plain = sentinels.servers()[at].plain().unwrap();
        let info = plain.tell(&onetrip::redis::Command::new("INFO").arg("stats")).unwrap();
        info.field("keyspace_hits").unwrap().parse::<u64>().unwrap()
    };
    let of_replicas = || (0..3).filter(|at| *at != master).map(hits).sum::<u64>();
    let deadline = Instant::now() + PATIENCE;
    while of_replicas() == 0 {
        assert!(Instant::now() < deadline, "no replica was read from");
        let _ = client.get::<Option<String>>("key").await.unwrap();
    }
    let before = hits(master);
    assert_eq!(client.get::<String>("key").await.unwrap(), "value");
    assert_eq!(hits(master), before);
}

#[tokio::test]
async fn a_sentinel_that_is_down_or_lost_its_memory_leads_nobody_astray() {
    let Some(mut sentinels) = started(SentinelSettings::default()) else { return };
    let first = sentinels.master().unwrap();
    // It begins anew with the master of its configuration, and hears nothing from the others.
    sentinels.kill_sentinel(0).unwrap();
    sentinels.kill_master().unwrap();
    sentinels.wait_switched(first).unwrap();
    let client = Client::connect_with(&config(&sentinels.url())).await.unwrap();
    at_the_master(&client, &sentinels).await;
    sentinels.restart(first).unwrap();
    sentinels.restart_sentinel(0).unwrap();
    let other = Client::connect_with(&config(&sentinels.url())).await.unwrap();
    at_the_master(&other, &sentinels).await;
}

#[tokio::test]
async fn users_and_passwords_of_servers_and_sentinels_are_two_things() {
    let user = |of: Settings, name: &str, password: &str| {
        of.user(name, format!("on >{password} ~* &* +@all"))
    };
    let settings = SentinelSettings {
        server: user(Settings::default(), "app", "of-app"),
        sentinel: user(Settings::default(), "watcher", "of-watcher"),
        ..SentinelSettings::default()
    };
    let Some(sentinels) = started(settings) else { return };
    let hosts = sentinels.url();
    let hosts = hosts.split('@').nth(1).unwrap().split('?').next().unwrap();
    let url = |user: &str, password: &str| {
        format!(
            "redis+sentinel://app:of-app@{hosts}?sentinel_username={user}\
             &sentinel_password={password}"
        )
    };
    let client = Client::connect(&url("watcher", "of-watcher")).await.unwrap();
    assert_eq!(client.cmd("ACL WHOAMI").send::<String>().await.unwrap(), "app");
    let error = explained(&url("watcher", "wrong-secret"), "refused the login (WRONGPASS)").await;
    let text = error.to_string();
    assert!(!text.contains("wrong-secret") && !text.contains('\n'), "{text}");
    assert_eq!(error.outcome(), Outcome::NotSent);
}

/// P50.
#[tokio::test]
async fn users_without_a_password_are_themselves_at_servers_and_sentinels() {
    let of = |name: &str, rules: &str| Settings::default().user(name, rules);
    let settings = SentinelSettings {
        server: of("guest", "on nopass ~* &* +@all"),
        // Sentinels have a password for others, so whoever gets an answer is this user.
        sentinel: of("watcher", "on nopass ~* &* +@all"),
        ..SentinelSettings::default()
    };
    let Some(sentinels) = started(settings) else { return };
    let hosts = sentinels.url();
    let hosts = hosts.split('@').nth(1).unwrap().split('?').next().unwrap();
    let url = |user: &str| format!("redis+sentinel://guest@{hosts}?sentinel_username={user}");
    let client = Client::connect(&url("watcher")).await.unwrap();
    assert_eq!(client.cmd("ACL WHOAMI").send::<String>().await.unwrap(), "guest");
    explained(&url("default"), "refused the login (WRONGPASS) (the user was given without").await;
}

#[tokio::test]
async fn tls_is_spoken_to_sentinels_and_servers_and_both_are_verified() {
    let (issuer, root) = authority("the authority");
    let (certificate, key) = identity(&issuer, &["127.0.0.1"]);
    let tls = Tls {
        certificate: certificate.into_bytes(),
        key: key.into_bytes(),
        authority: root.clone().into_bytes(),
        clients: ClientCertificates::Ignored,
    };
    let with_tls = Settings { tls: Some(tls), ..Settings::default() };
    let settings = SentinelSettings {
        server: with_tls.clone(),
        sentinel: with_tls,
        ..SentinelSettings::default()
    };
    let Some(sentinels) = started(settings) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let (ours, other) = (file("root.crt", &root), file("other.crt", &authority("another").1));
    let url = |root: &str| format!("{}&sslrootcert={root}", sentinels.url());
    assert!(url(&ours).starts_with("rediss+sentinel://"));
    let client = Client::connect(&url(&ours)).await.unwrap();
    client.set("key", 1).await.unwrap();
    assert_eq!(client.get::<u64>("key").await.unwrap(), 1);
    explained(&url(&other), "certificate").await;
}

#[tokio::test]
async fn who_is_not_found_is_explained_by_what_each_sentinel_said() {
    let Some(mut sentinels) = started(SentinelSettings::default()) else { return };
    let other = sentinels.url().replace("/mymaster", "/other");
    explained(&other, "knows no master of this name").await;
    sentinels.kill_sentinel(0).unwrap();
    sentinels.kill_sentinel(1).unwrap();
    let error = explained(&sentinels.url(), " names ").await;
    assert!(error.to_string().contains("the master was not found"), "{error}");
}

/// Numbers that one task wrote, with what is known of each.
#[derive(Default)]
struct Book {
    /// Acknowledged, and on both replicas by WAIT.
    copied: Vec<u64>,
    unknown: u64,
    not_sent: u64,
}

/// Writes numbers to a list of its own, each followed by WAIT 2 in the same flight. After a failure
/// it goes on with the next number on another session.
async fn keep_books(client: Client, task: usize, stop: tokio::sync::watch::Receiver<bool>) -> Book {
    let (mut book, mut number) = (Book::default(), 0);
    while !*stop.borrow() {
        let session = match client.session().await {
            Ok(session) => session,
            Err(error) => {
                assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
                book.not_sent += 1;
                continue;
            }
        };
        while !*stop.borrow() {
            number += 1;
            let (write, copies) =
                (session.rpush(format!("list:{task}"), [number]), session.wait(2, 1000));
            let (write, copies) = (write.await, copies.await);
            match (write, copies) {
                (Ok(_), Ok(2..)) => book.copied.push(number),
                (Ok(_), _) => break,
                (Err(error), _) => {
                    match error.outcome() {
                        Outcome::Unknown => book.unknown += 1,
                        _ => book.not_sent += 1,
                    }
                    break;
                }
            }
        }
    }
    book
}

/// One failover; ONETRIP_FAILOVERS says how many otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_both_replicas_had_is_there_after_failovers_under_two_hundred_tasks() {
    let Some(mut sentinels) = started(SentinelSettings::default()) else { return };
    let failovers = std::env::var("ONETRIP_FAILOVERS");
    let failovers: usize = failovers.map_or(1, |count| count.parse().unwrap());
    let config = config(&sentinels.url()).limits(|limits| limits.connections_max = 200);
    let client = Client::connect_with(&config).await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writers: Vec<_> = (0..200)
        .map(|task| tokio::spawn(keep_books(client.clone(), task, stopped.clone())))
        .collect();
    let mut pauses = Vec::new();
    for _ in 0..failovers {
        client.set("writing", 1).await.unwrap();
        let old = sentinels.kill_master().unwrap();
        let takes_writes = |at: usize| {
            let mut plain = sentinels.servers()[at].plain().ok()?;
            let info = plain.tell(&onetrip::redis::Command::new("INFO").arg("replication")).ok()?;
            (info.field("role") == Some("master")).then_some(())
        };
        let deadline = Instant::now() + PATIENCE;
        while !(0..3).filter(|at| *at != old).any(|at| takes_writes(at).is_some()) {
            assert!(Instant::now() < deadline, "no replica takes over");
            tokio::task::yield_now().await;
        }
        let since = Instant::now();
        client.set("writing", 2).await.unwrap();
        pauses.push(since.elapsed());
        sentinels.wait_switched(old).unwrap();
        sentinels.restart(old).unwrap();
        sentinels.wait_ok().unwrap();
    }
    stop.send(true).unwrap();
    let (mut copied, mut lost, mut doubled, mut unknown, mut not_sent) = (0, 0, 0, 0, 0);
    for (task, writer) in writers.into_iter().enumerate() {
        let book = writer.await.unwrap();
        let there: Vec<u64> = client.lrange(format!("list:{task}"), 0, -1).await.unwrap();
        let mut once = there.clone();
        once.sort_unstable();
        once.dedup();
        doubled += there.len() - once.len();
        lost += book.copied.iter().filter(|number| once.binary_search(number).is_err()).count();
        copied += book.copied.len();
        (unknown, not_sent) = (unknown + book.unknown, not_sent + book.not_sent);
    }
    pauses.sort();
    println!(
        "{failovers} failovers: {copied} acknowledged after WAIT 2, {lost} lost, {doubled} doubled, \
         {unknown} unknown, {not_sent} not sent; pauses {pauses:?}"
    );
    assert!(copied > 0);
    assert_eq!((lost, doubled), (0, 0));
}
