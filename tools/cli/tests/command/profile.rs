//! `onetrip profile`: what it finds with real servers, what it writes, and how it ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use onetrip::redis::commands::*;
use onetrip_lab::postgres::shared;
use onetrip_lab::redis::{Server, Settings, found_or_skipped};
use onetrip_profile::Profile;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use tokio::signal::unix::{SignalKind, signal};

use crate::database::{database, run};
use crate::process::Onetrip;

/// With a literal that is nobody's business.
const PARENTS: &str = "select id from parent where 'canary' <> '' order by id";

/// Says what [`the_program`] does.
const TASK: &str = "ONETRIP_TEST_TASK";

/// Not a test: the program that the tests profile, which is this one once more.
#[test]
fn the_program() {
    let Ok(task) = std::env::var(TASK) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if task.contains("n+1") {
            let url = std::env::var("DATABASE_URL").unwrap();
            let client = onetrip::Client::connect(&url).await.unwrap();
            let mut session = client.session().await.unwrap();
            for _ in 0..30 {
                let tx = session.begin().await.unwrap();
                let parents = tx.query(PARENTS, &[]).await.unwrap();
                for parent in parents.iter() {
                    let id: i32 = parent.get(0);
                    tx.query("select name from child where parent = $1", &[&id]).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
        }
        if task.contains("signals") {
            let mut terminate = signal(SignalKind::terminate()).unwrap();
            let mut hang_up = signal(SignalKind::hangup()).unwrap();
            println!("ready");
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            std::process::exit(9);
        }
        if task.contains("redis") {
            let url = std::env::var("REDIS_URL").unwrap();
            let client = onetrip::redis::Client::connect(&url).await.unwrap();
            for key in 0..40 {
                client.set(format!("key:{key}"), "canary-value").await.unwrap();
                let _: Option<String> = client.get(format!("key:{key}")).await.unwrap();
            }
        }
    });
}

/// A database with rows to loop over.
fn family() -> String {
    let url = database();
    make_family(&url);
    url
}

pub(crate) fn make_family(url: &str) {
    run(url, "create table parent (id int primary key)");
    run(url, "create table child (parent int, name text)");
    run(url, "insert into parent select 700000000 + i * 13 from generate_series(1, 6) i");
    run(url, "insert into child select id, 'canary' || id from parent");
}

/// Profiles [`the_program`].
pub(crate) fn profile(task: &str, set: &[(&str, &str)], more: &[&str]) -> (Output, TempDir) {
    let out = tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut command = onetrip();
    command.args(["profile", "--out", out.path().to_str().unwrap()]).args(more);
    command.arg("--run").arg("--").arg(program);
    command.args(["--exact", "profile::the_program", "--nocapture"]);
    command.env(TASK, task).envs(set.iter().copied());
    (command.output().unwrap(), out)
}

/// The command, in an environment that names no server.
fn onetrip() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onetrip"));
    for name in ["PGHOST", "PGPORT", "PGHOSTADDR", "PGSERVICE", "DATABASE_URL", "REDIS_URL"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

pub(crate) fn read(out: &Path) -> Profile {
    serde_json::from_slice(&fs::read(out.join("profile.json")).unwrap()).unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_program_that_is_run_is_profiled_and_its_secrets_are_kept() {
    let url = family();
    let (output, out) = profile("n+1", &[("DATABASE_URL", &url)], &[]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("replaced DATABASE_URL") && said.contains("trips      now"), "{said}");
    let found = read(out.path());
    assert_eq!((found.lossy, found.incomplete.as_deref()), (0, None));
    let n_plus_1 = found.findings.iter().find(|it| it.kind == "n+1").expect(&said);
    assert!(n_plus_1.statements.iter().any(|it| it.contains("from child")), "{n_plus_1:?}");
    // Each transaction: the parents, six children, COMMIT.
    let shape = &found.shapes[0];
    assert_eq!((shape.trips.now, shape.trips_max), (8.0, 8), "{shape:?}");
    assert!(shape.count >= 29, "{shape:?}");
    for file in fs::read_dir(out.path()).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for secret in [shared().password(), "canary", "700000013"] {
            assert!(!text.contains(secret) && !said.contains(secret), "{}", path.display());
        }
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn values_are_shown_where_that_is_asked_for() {
    let (output, out) = profile("n+1", &[("DATABASE_URL", &family())], &["--show-values"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(out.path().join("profile.json")).unwrap();
    assert!(text.contains(PARENTS), "{text}");
    assert!(!text.contains(shared().password()));
}

#[test]
fn both_protocols_are_profiled_at_once() {
    let Some(installation) = found_or_skipped() else { return };
    let settings = Settings { installation: Some(installation), ..Settings::default() };
    let redis = Server::start(settings).unwrap();
    let url = family();
    let set = [("DATABASE_URL", url.as_str()), ("REDIS_URL", &redis.url())];
    let (output, out) = profile("n+1 redis", &set, &[]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let found = read(out.path());
    assert!(found.shapes.iter().any(|it| it.is_redis), "{said}");
    assert!(found.shapes.iter().any(|it| !it.is_redis), "{said}");
    let json = fs::read_to_string(out.path().join("profile.json")).unwrap();
    assert!(!json.contains("canary") && !json.contains(redis.password()));
}

#[test]
fn a_server_may_be_named_by_its_socket() {
    let url = family();
    let (front, rest) = url.split_once('@').unwrap();
    let database = rest.split_once('/').unwrap().1;
    let socket = shared().socket_dir().to_str().unwrap();
    let port = shared().port().to_string();
    let url = format!("{front}@/{database}?host={socket}&port={port}");
    let (output, out) = profile("n+1", &[("DATABASE_URL", &url)], &[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains(&format!("-> {socket}/.s.PGSQL.{port}")), "{}", said(&output));
    assert!(read(out.path()).units >= 30);
}

#[test]
fn a_limit_that_is_broken_is_a_status_of_its_own() {
    let url = family();
    let set = [("DATABASE_URL", url.as_str())];
    let (output, _) = profile("n+1", &set, &["--fail-on", "trips>7,n+1>0,units<1"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("--fail-on trips>7: it is 8") && text.contains("n+1>0"), "{text}");
    assert!(!text.contains("units<1"), "{text}");
    let (output, _) = profile("n+1", &set, &["--fail-on", "trips>8"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let (output, _) = profile("n+1", &set, &["--fail-on", "nonsense>8"]);
    assert_eq!(output.status.code(), Some(2));
    let text = said(&output);
    assert!(text.contains("\"nonsense\" is not known") && text.lines().count() == 1, "{text}");
}

#[test]
fn two_profiles_are_compared() {
    let url = family();
    let set = [("DATABASE_URL", url.as_str())];
    let (_, before) = profile("n+1", &set, &[]);
    run(&url, "delete from parent where id > 700000013");
    let (_, after) = profile("n+1", &set, &[]);
    let diff = |a: &TempDir, b: &Path, more: &[&str]| {
        let mut command = onetrip();
        command.args(["profile", "diff"]).args([a.path(), b]).args(more).output().unwrap()
    };
    let output = diff(&before, &after.path().join("profile.json"), &["--fail-on", "trips>0"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text} {}", said(&output));
    assert!(text.contains("8.0 -> 3.0"), "{text}");
    let output = diff(&after, before.path(), &["--fail-on", "trips>3"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).contains("--fail-on trips>3: it is "), "{}", said(&output));
    let output = diff(&before, Path::new("/no/such"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).starts_with("onetrip: profile: diff: can't read /no/such"));
}

#[test]
fn the_exit_status_of_the_program_is_passed_on() {
    let out = tempdir().unwrap();
    for (script, status) in [("exit 7", 7), ("kill -KILL $$", 137)] {
        let mut command = onetrip();
        command.args(["profile", "--out", out.path().to_str().unwrap(), "--run", "--"]);
        command.args(["sh", "-c", script]).env("PGHOST", shared().socket_dir());
        command.env("PGPORT", shared().port().to_string());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert!(out.path().join("profile.json").exists());
    }
    let mut command = onetrip();
    command.args(["profile", "--out", out.path().to_str().unwrap(), "--run", "--", "/no/such"]);
    let output = command.env("DATABASE_URL", shared().url()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = said(&output);
    assert!(text.lines().last().unwrap().contains("can't run /no/such"), "{text}");
}

#[test]
fn signals_are_passed_on_to_the_program() {
    let out = tempdir().unwrap();
    let (out, program) = (out.path().to_str().unwrap(), std::env::current_exe().unwrap());
    let program = program.to_str().unwrap();
    let tail = ["--exact", "profile::the_program", "--nocapture"];
    let arguments = [&["profile", "--out", out, "--run", "--", program][..], &tail].concat();
    for signal in [Signal::TERM, Signal::HUP] {
        let set = [("REDIS_URL", "redis://127.0.0.1:1"), (TASK, "signals")];
        let mut profile = Onetrip::start_with(&arguments, Stdio::piped(), &set);
        let mut lines = profile.lines().map(Result::unwrap);
        lines.find(|it| it.contains("ready")).unwrap();
        profile.signal(signal);
        let (status, said) = profile.end();
        assert_eq!(status.code(), Some(9), "{said}");
        assert!(said.contains("0 units"), "{said}");
    }
}

#[test]
fn a_proxy_is_profiled_until_a_signal() {
    let out = tempdir().unwrap();
    let (url, to) = (family(), format!("127.0.0.1:{}", shared().port()));
    let out_name = out.path().to_str().unwrap();
    let arguments = ["profile", "--listen", "127.0.0.1:0", "--to", &to, "--out", out_name];
    let mut profile = Onetrip::start(&arguments, Stdio::piped());
    let mut lines = profile.lines().map(Result::unwrap);
    let head = lines.next().unwrap();
    let address = head.split(" -> ").next().unwrap().to_owned();
    let url = url.replace(&format!("127.0.0.1:{}", shared().port()), &address);
    let url = url.replace(&format!("localhost:{}", shared().port()), &address);
    assert_eq!(run(&url, "select id from parent"), 6);
    profile.signal(Signal::INT);
    let text = lines.collect::<Vec<_>>().join("\n");
    let (status, said) = profile.end();
    assert!(status.success() && said.is_empty(), "{said}");
    assert!(text.contains("trips      now") && text.contains("written "), "{text}");
    assert!(read(out.path()).units > 0, "{text}");
}

#[test]
fn what_is_no_source_is_refused_in_a_line() {
    let out = tempdir().unwrap();
    let out = out.path().to_str().unwrap();
    let none = out.to_owned() + "/none";
    let remote = ["--listen", "0.0.0.0:0", "--to", "127.0.0.1:1"];
    for (arguments, word) in [
        (&["--pcap", &none][..], "none"),
        (&["--pcap", "/dev/null"], "empty"),
        (&remote, "--allow-remote"),
        (&["--listen", "127.0.0.1:0"], "--to"),
        (&["--run"], "COMMAND"),
        (&[], "--run"),
    ] {
        let output = onetrip().args(["profile", "--out", out]).args(arguments).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(word) && text.lines().count() == 1, "{arguments:?}: {text}");
        assert!(text.starts_with("onetrip: "), "{text}");
    }
}

/// The schema is versioned: what reads it may rely on these names.
#[test]
fn the_profile_is_json_with_a_version() {
    let (_, out) = profile("n+1", &[("DATABASE_URL", &family())], &[]);
    let text = fs::read_to_string(out.path().join("profile.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["version"], onetrip_profile::VERSION);
    for name in ["trips", "unknown", "shapes", "findings", "lossy", "units"] {
        assert!(!json[name].is_null(), "{name}");
    }
    assert_eq!(out.path().read_dir().unwrap().flatten().filter(is_hidden).count(), 0);
}

fn is_hidden(it: &fs::DirEntry) -> bool {
    it.file_name().to_string_lossy().starts_with('.')
}
