//! `onetrip doctor`: what it prints, and its exit status.

use std::process::{Command, Output};

use onetrip_lab::postgres::pgbouncer::{Options, PrivatePgBouncer, find_all};
use onetrip_lab::postgres::shared;

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
