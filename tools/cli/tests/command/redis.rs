//! `onetrip bench --preset redis`: what it leaves behind, how it ends, and what it refuses.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::bench::{onetrip, refusal};
use crate::process::Onetrip;
use onetrip::redis::Command;
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use onetrip_lab::redis::{Answer, ClientCertificates, Server, Settings, Tls, found_or_skipped};
use rustix::process::Signal;
use tempfile::tempdir;

/// A server with a foreign key; `None` if no program is installed.
fn server() -> Option<Server> {
    let installation = Some(found_or_skipped()?);
    let server = Server::start(Settings { installation, ..Settings::default() }).unwrap();
    ask(&server, &Command::new("SET").arg("dear").arg("mine"));
    Some(server)
}

fn ask(server: &Server, command: &Command) -> Answer {
    server.plain().unwrap().tell(command).unwrap()
}

/// Asserts that the server has the same keys as before the run.
fn assert_clean(server: &Server, said: &str) {
    let keys = ask(server, &Command::new("KEYS").arg("*"));
    assert_eq!(keys, Answer::Many(vec![Answer::Text("dear".into())]), "{said}");
}

/// Arguments for quick cells.
fn small<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["bench", "--preset", "redis", "--seconds", "0.01", "--url", url];
    let rtt: &[&str] = if more.contains(&"--rtt") { &[] } else { &["--rtt", "0,1"] };
    let few = ["--repetitions", "1"];
    let few: &[&str] = if more.contains(&"--repetitions") { &[] } else { &few };
    [&small[..], rtt, few, more].concat()
}

#[test]
fn a_run_leaves_its_files_and_no_key() {
    let Some(server) = server() else { return };
    let (out, url) = (tempdir().unwrap(), server.url());
    let path = out.path().to_str().unwrap();
    let output = onetrip(&small(&url, &["--depth", "1,100", "--out", path]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_clean(&server, &said);
    let tables = String::from_utf8(output.stdout).unwrap();
    assert!(tables.contains("10,000 PINGs: ms for all"), "{tables}");
    let read = |name: &str| fs::read_to_string(out.path().join(name)).unwrap();
    let (results, page, csv) = (read("results.json"), read("report.html"), read("results.csv"));
    for text in [&said, &tables, &results, &page, &csv] {
        assert!(!text.contains(server.password()), "{text}");
    }
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results["server"]["product"], server.installation().product());
    assert_eq!(results["server"]["version"], server.version());
    // At each round trip 4 commands, these at 2 depths, and 5 updates; the PINGs where none is
    // added.
    assert_eq!(results["cells"].as_array().unwrap().len(), 2 * (4 + 8 + 5) + 2);
    for cell in results["cells"].as_array().unwrap() {
        let (mode, repetition) = (&cell["mode"], &cell["repetitions"][0]);
        let per_operation =
            repetition["trips"].as_f64().unwrap() / repetition["operations"].as_f64().unwrap();
        let trips = match (mode.as_str().unwrap(), cell["depth"].as_u64()) {
            ("GET then SET" | "WATCH and MULTI", _) => 2.0,
            ("100 GETs then 100 SETs", _) => 0.02,
            ("100 scripts at once", _) => 0.01,
            ("pipeline", _) => 0.0001,
            (_, depth) => 1.0 / depth.unwrap_or(1) as f64,
        };
        // The server's answer to a long list may come before its end was written.
        assert!(per_operation >= trips * 0.999, "{cell}");
        assert!(trips < 1.0 || per_operation < trips * 1.001, "{cell}");
        assert!(repetition["server_cpu_ms"].is_f64(), "{cell}");
    }
}

#[test]
fn sockets_and_the_latency_proxy_lead_to_the_same_server() {
    let Some(server) = server() else { return };
    let url = format!("unix::{}@{}", server.password(), server.socket().display());
    let output = onetrip(&small(&url, &["--workload", "commands"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let tables = String::from_utf8(output.stdout).unwrap();
    assert!(tables.contains(&format!("unix:{}", server.socket().display())), "{tables}");
    assert!(!tables.contains(server.password()), "{tables}");
    assert_clean(&server, &said);
}

#[test]
fn a_server_with_tls_is_measured_over_the_latency_proxy_too() {
    let Some(installation) = found_or_skipped() else { return };
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let pem = certificate.pem();
    let tls = Tls {
        certificate: pem.clone().into_bytes(),
        key: key.serialize_pem().into_bytes(),
        authority: pem.clone().into_bytes(),
        clients: ClientCertificates::Ignored,
    };
    let settings =
        Settings { installation: Some(installation), tls: Some(tls), ..Settings::default() };
    let server = Server::start(settings).unwrap();
    let root = tempdir().unwrap();
    let root = root.path().join("root.crt");
    fs::write(&root, pem).unwrap();
    let login = format!(":{}@localhost:{}", server.password(), server.port());
    let url = format!("rediss://{login}?sslrootcert={}", root.display());
    let output = onetrip(&small(&url, &["--workload", "commands"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("INCR, 1 ms added"), "{said}");
}

#[test]
fn a_signal_at_any_moment_leaves_no_key() {
    let Some(server) = server() else { return };
    let url = server.url();
    // Each is stopped while its commands are in flight: 10,000 SETs, or the commands after WATCH.
    for moment in ["writing the keys", "commands, GET", "SET, depth 1000,", "GET then SET"] {
        let more = ["--repetitions", "100", "--rtt", "5"];
        let mut bench = Onetrip::start(&small(&url, &more)[..], Stdio::null());
        bench.wait_for(moment);
        bench.signal(Signal::INT);
        let (status, said) = bench.end();
        assert_eq!(status.code(), Some(128 + 2), "{said}");
        assert!(said.contains("stopped by SIGINT"), "{said}");
        assert_clean(&server, &format!("while {moment}: {said}"));
    }
}

/// How many SETs it has done.
fn sets(server: &Server) -> u64 {
    let info = ask(server, &Command::new("INFO").arg("commandstats"));
    let calls = info.field("cmdstat_set").and_then(|it| it.strip_prefix("calls="));
    let calls = calls.and_then(|it| it.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn what_was_on_its_way_when_it_was_stopped_writes_no_key_again() {
    let Some(server) = server() else { return };
    let url = server.url();
    for _ in 0..4 {
        let before = sets(&server);
        let more = ["--workload", "depth", "--depth", "10000", "--rtt", "40"];
        let bench = Onetrip::start(&small(&url, &more), Stdio::null());
        // 10,000 come as a warm-up, so this is in the middle of those that are measured.
        let began = Instant::now();
        while sets(&server) < before + 10_500 {
            assert!(began.elapsed() < Duration::from_secs(600), "no SET comes");
        }
        bench.signal(Signal::INT);
        let (status, said) = bench.end();
        assert_eq!(status.code(), Some(128 + 2), "{said}");
        assert_clean(&server, &said);
    }
}

#[test]
fn a_server_that_dies_ends_it_with_what_was_measured_so_far() {
    let Some(mut server) = server() else { return };
    let (out, url) = (tempdir().unwrap(), server.url());
    let more = ["--repetitions", "100", "--out", out.path().to_str().unwrap()];
    let mut bench = Onetrip::start(&small(&url, &more), Stdio::null());
    bench.wait_for("commands, INCR");
    server.kill().unwrap();
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.lines().last().unwrap().starts_with("onetrip: bench: "), "{said}");
    let results = fs::read_to_string(out.path().join("results.json")).unwrap();
    assert!(results.contains("\"PING\"") && !results.contains("\"stopped\": null"), "{said}");
}

#[test]
fn a_server_that_hangs_is_given_up_and_its_keys_are_named() {
    let Some(server) = server() else { return };
    let there = ([127, 0, 0, 1], server.port());
    let line = Proxy::start(ProxyConfig::new(std::net::SocketAddr::from(there))).unwrap();
    let url = server.url().replace(&server.port().to_string(), &line.addr().port().to_string());
    let mut bench = Onetrip::start(&small(&url, &["--repetitions", "100"]), Stdio::null());
    bench.wait_for("commands, GET");
    for direction in [Direction::Up, Direction::Down] {
        line.fault(Fault::Stall { direction }, Scope::All);
    }
    bench.signal(Signal::INT);
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(128 + 2), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("keys that begin with onetrip-bench:"), "{said}");
    assert!(last.contains("redis-cli --scan --pattern"), "{said}");
}

#[test]
fn who_may_not_write_the_keys_is_told() {
    let Some(installation) = found_or_skipped() else { return };
    let settings = Settings { installation: Some(installation), ..Settings::default() };
    let settings = settings.user("reader", "on >secret ~* &* +@read +@connection");
    let server = Server::start(settings).unwrap();
    let url = format!("redis://reader:secret@127.0.0.1:{}", server.port());
    let said = refusal(&small(&url, &[]));
    assert!(said.contains("NOPERM") && said.contains("the ACL of the user"), "{said}");
    let url = url.replace("secret", "wrong");
    let said = refusal(&small(&url, &[]));
    assert!(said.contains("WRONGPASS") && !said.contains("wrong@"), "{said}");
}

#[test]
fn what_cannot_be_meant_is_one_line() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let preset = ["bench", "--preset", "redis"];
    for (more, part) in [
        (&["--preset", "trips"][..], "--preset redis measures another server than the others"),
        (&["--builtin", "tpcb-like"], "--preset redis measures another server than the others"),
        (&["--force"], "--force is for what is measured on a PostgreSQL"),
        (&["--tasks", "5"], "--tasks is for"),
        (&["--rate", "5"], "--rate is for"),
        (&["--workload", "ping"], "did you mean pings?"),
        (&["--workload", "pings", "--rtt", "5"], "add 0 to --rtt"),
        (&["--depth", "100000"], "100000 is not in 1..=10000"),
        (&["--url", "postgres://u:secret@db/d"], "--url: "),
        (&["--url", "redis://:secret@one,two"], "several servers"),
        (&["--url", "redis://nowhere.invalid"], "nowhere.invalid"),
        (&["--url", &format!("redis://:secret@{nobody}")], &nobody),
        (&["redis://u:secret@db/1"], "'redis://db/1'"),
    ] {
        let said = refusal(&[&preset[..], more].concat());
        assert!(said.contains(part) && !said.contains("secret"), "{more:?}: {said}");
    }
}
