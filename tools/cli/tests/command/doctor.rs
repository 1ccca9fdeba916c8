//! `onetrip doctor`: what it prints, and its exit status.

use std::process::{Command, Output};

use onetrip_lab::postgres::pgbouncer::{Options, PrivatePgBouncer, find_all};
use onetrip_lab::postgres::shared;
use onetrip_lab::redis::{
    Cluster, ClusterSettings, SentinelSettings, Sentinels, Server, Settings, found_or_skipped,
};

fn doctor(url: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onetrip")).args(["doctor", url]).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_server_that_is_well_is_success() {
    let output = doctor(&shared().url());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for line in ["in between        nothing that shows", "harmful           no"] {
        assert!(said.lines().any(|it| it == line), "{said}");
    }
    assert!(output.stderr.is_empty());
}

#[test]
fn what_is_harmful_is_an_exit_status_of_its_own_until_the_settings_are_right() {
    let Some(program) = find_all().unwrap().into_iter().next() else {
        return eprintln!("skipped: there is no PgBouncer here");
    };
    let options = Options { program: Some(program), prepared_max: Some(0), ..Options::default() };
    let pooler = PrivatePgBouncer::start(shared(), &options).unwrap();
    let output = doctor(&pooler.url());
    let bad = said(&output);
    assert_eq!(output.status.code(), Some(1), "{bad}");
    assert!(bad.contains("set in the client prepare_threshold=0: "), "{bad}");
    let output = doctor(&format!("{}?prepare_threshold=0", pooler.url()));
    let good = said(&output);
    assert_eq!(output.status.code(), Some(0), "{good}");
    assert!(!good.contains("prepare_threshold"), "{good}");
}

#[test]
fn a_server_that_can_not_be_reached_is_a_failure_in_one_line() {
    // No server listens on port 1 of the loopback interface.
    let output = doctor("postgres://u@127.0.0.1:1/d");
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with("onetrip: doctor: can't connect"), "{error}");
    assert!(error.lines().count() == 1 && said(&output).is_empty(), "{error}");
}

#[test]
fn where_no_host_can_be_used_each_is_told() {
    let output = doctor("postgres://u@127.0.0.1:1,127.0.0.1:2/d");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for port in ["1", "2"] {
        let line = format!("host              127.0.0.1:{port}: not used: can't connect");
        assert!(said.lines().any(|it| it.starts_with(&line)), "{said}");
    }
}

/// The settings of a server of Redis, if one is installed.
fn of_redis() -> Option<Settings> {
    Some(Settings { installation: Some(found_or_skipped()?), ..Settings::default() })
}

#[test]
fn each_sentinel_is_told_with_the_master_that_it_names_and_its_replicas() {
    let Some(server) = of_redis() else { return };
    let settings = SentinelSettings { sentinel: server.clone(), server, ..Default::default() };
    let sentinels = Sentinels::start(&settings).unwrap();
    let master = &sentinels.servers()[sentinels.master().unwrap()];
    let output = doctor(&sentinels.url());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("host  "), 4, "three Sentinels and the master: {text}");
    assert_eq!(
        count(&format!("  master          127.0.0.1:{}, master", master.port())),
        3,
        "{text}"
    );
    assert_eq!(count("  quorum          2 of 3 "), 3, "{text}");
    assert_eq!(count("  replica "), 4 * settings.replicas, "{text}");
    assert_eq!(count("  role            master"), 1, "{text}");
    let agree = "  agreement       a majority: 3 of 3 Sentinels of the URL name 127.0.0.1:";
    assert_eq!(count(agree), 1, "{text}");

    let output = doctor(&sentinels.url().replace("/mymaster", "/other"));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("watches no master \"other\", but \"mymaster\""), "{text}");

    let url = sentinels.url();
    let (hosts, password) = url.split_once("/mymaster?sentinel_password=").unwrap();
    let one = hosts.rsplit(',').next().unwrap();
    let output = doctor(&format!("redis://:{password}@{one}"));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "a Sentinel has no data: {text}");
    assert!(text.contains("  role            Sentinel, which has no data"), "{text}");
    assert!(text.contains("  watches         \"mymaster\""), "{text}");
    assert!(text.contains("set in the URL    redis+sentinel://: this is a Sentinel"), "{text}");

    let mut servers = sentinels.servers().iter();
    let replica = servers.find(|server| server.port() != master.port()).unwrap();
    let text = said(&doctor(&replica.url()));
    assert!(text.contains("set in the URL    host: this is a replica"), "{text}");
}

#[test]
fn each_node_of_a_cluster_is_told_with_its_slots_and_its_epoch() {
    let Some(node) = of_redis() else { return };
    let cluster = Cluster::start(&ClusterSettings { node, ..Default::default() }).unwrap();
    let output = doctor(&cluster.urls()[0]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let nodes: Vec<&str> = text.lines().filter(|line| line.starts_with("  node ")).collect();
    let masters = nodes.iter().filter(|line| line.contains(", master, slots ")).count();
    let replicas = nodes.iter().filter(|line| line.contains(", replica, of ")).count();
    assert_eq!((masters, replicas), (3, 3), "{text}");
    assert!(text.contains("  state           ok"), "{text}");
    assert!(text.contains("  slots           16384 of 16384 have a node"), "{text}");
    assert!(text.contains("set in the URL    cluster=1: "), "{text}");
}

#[test]
fn a_redis_that_does_not_answer_is_harmful() {
    let output = doctor("redis://127.0.0.1:1");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("host              127.0.0.1:1: not used: "), "{text}");
    let Some(settings) = of_redis() else { return };
    let server = Server::start(settings).unwrap();
    let output = doctor(&server.url());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("  role            master"), "{text}");
}

/// Other users can see a URL in the list of processes, so the help names other ways to give a
/// password.
#[test]
fn a_password_need_not_stand_in_the_url() {
    let url = shared().url();
    let (front, rest) = url.split_once("://").unwrap();
    let (who, place) = rest.split_once('@').unwrap();
    let (user, password) = who.split_once(':').unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_onetrip"));
    command.args(["doctor", &format!("{front}://{user}@{place}")]);
    let refused = command.env_remove("PGPASSWORD").env("PGPASSFILE", "/dev/null").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let output = command.env("PGPASSWORD", password).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for command in ["bench", "demo", "doctor"] {
        let help = Command::new(env!("CARGO_BIN_EXE_onetrip")).args([command, "--help"]).output();
        let said = said(&help.unwrap());
        assert!(said.contains("PGPASSWORD") && said.contains("PGPASSFILE"), "{command}: {said}");
    }
}
