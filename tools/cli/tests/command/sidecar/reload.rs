//! Settings in a file, and the file read again at SIGHUP.

use std::path::{Path, PathBuf};

use onetrip_lab::postgres::shared;
use rustix::process::Signal;

use super::scraped::Scraped;
use super::{Sidecar, fails, numbers, server};
use crate::database::wait_for_session;
use crate::wire::Wire;

/// A file of settings in a directory that goes with it.
struct Settings {
    _files: tempfile::TempDir,
    path: PathBuf,
}

impl Settings {
    fn of(text: &str) -> Settings {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("sidecar.toml");
        let settings = Settings { _files: files, path };
        settings.write(text);
        settings
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// Settings that work, and these.
fn with(more: &str) -> String {
    format!("listen = '127.0.0.1:0'\nmetrics = '127.0.0.1:0'\nto = '{}'\n{more}", server())
}

#[test]
fn all_settings_can_be_in_a_file() {
    let files = tempfile::tempdir().unwrap();
    let socket = files.path().join("socket");
    let (user, password, port) = (shared().user(), shared().password(), shared().port());
    let text = format!(
        "# A comment.\n\
         listen = '{}'\n\
         to = 'postgres://{user}:{password}@127.0.0.1:{port}/'\n\
         early = ['ping', 'set']\n\
         max-clients = 1\n\
         warm = 2\n\
         allow-remote = true\n\
         metrics = '0.0.0.0:0'\n\
         log = 'json'\n\
         tls = 'off'\n\
         tls-root = 'system'\n",
        socket.display()
    );
    let settings = Settings::of(&text);
    let (sidecar, line) = Sidecar::start(&["--config", settings.path()]);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let line = line["message"].as_str().unwrap();
    assert!(line.starts_with(socket.to_str().unwrap()), "{line}");
    let metrics = line.split("metrics at http://0.0.0.0:").nth(1).unwrap();
    let port = metrics.strip_suffix("/metrics").unwrap();
    let place = socket.to_str().unwrap().to_owned();
    let sidecar = Sidecar { process: sidecar.process, addr: place };
    let scraped = Scraped { sidecar, metrics: format!("127.0.0.1:{port}") };
    let log_in = || Wire::try_log_in(shared(), &scraped.sidecar.addr, "postgres");
    let mut wire = log_in().unwrap();
    assert!(log_in().err().unwrap().contains("too many clients"));
    for sql in ["select 1", "select 1", "begin", "set statement_timeout = 1000", "rollback"] {
        wire.query(sql);
    }
    assert!(scraped.value("trips_saved_total{kind=\"ping\"}") > 0.0);
    assert_eq!(scraped.value("trips_saved_total{kind=\"set\"}"), 1.0);
    assert_eq!(scraped.value("warm_total{event=\"logged_in\"}"), 1.0);
}

#[test]
fn an_option_wins_over_the_file() {
    let settings = Settings::of(
        "listen = '127.0.0.1:1'\nmetrics = '127.0.0.1:1'\nto = 'nowhere.invalid:1'\n\
         max-clients = 1\nearly = ['nothing']\nlog = 'json'\ntls = 'verify-full'\n",
    );
    let to = server();
    let scraped = Scraped::start(&[
        "--config",
        settings.path(),
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--to",
        &to,
        "--max-clients",
        "2",
        "--early",
        "ping",
        "--log",
        "text",
        "--tls",
        "off",
    ]);
    let log_in = || Wire::try_log_in(shared(), &scraped.sidecar.addr, "postgres");
    let (mut wire, _second) = (log_in().unwrap(), log_in().unwrap());
    assert!(log_in().is_err());
    wire.query("begin");
    wire.query("rollback");
    assert_eq!(scraped.value("trips_saved_total{kind=\"begin\"}"), 1.0);
}

/// What a wrong file is told as: its words beside the file's name.
const WRONG: [(&str, &[&str]); 21] = [
    ("listen = 5", &["listen", "text in quotes"]),
    ("listen = 'secret'", &["listen", "no IP:PORT"]),
    ("listen = 'secret'\nlisten = 'secret'", &["line 2"]),
    ("to = ['secret']", &["to", "text in quotes"]),
    ("to = 'secret", &["line 1"]),
    ("\n\nto 'secret'", &["line 3"]),
    ("early = 'ping'", &["early", "list"]),
    ("early = ['secret']", &["early", "known are ping, set"]),
    ("early = [5]", &["early", "list"]),
    ("max-clients = 0", &["max-clients", "from 1 to 4294967295"]),
    ("max-clients = 4294967296", &["max-clients", "from 1 to 4294967295"]),
    ("max-clients = 'secret'", &["max-clients", "from 1 to 4294967295"]),
    ("warm = -1", &["warm", "from 0 to"]),
    ("allow-remote = 'secret'", &["allow-remote", "true or false"]),
    ("metrics = 'secret'", &["metrics", "no IP:PORT"]),
    ("log = 'secret'", &["log", "text, json"]),
    ("tls = 'secret'", &["tls", "verify-full"]),
    ("tls = 'pass'", &["tls", "choose off"]),
    ("password = 'secret'", &["password", "no such setting"]),
    ("[sidecar]\nlisten = 'secret'", &["sidecar", "no such setting"]),
    ("warm = 1", &["listen", "missing"]),
];

#[test]
fn a_wrong_file_is_one_line_that_names_it_and_shows_no_value() {
    let settings = Settings::of("");
    let name = format!("{}: ", settings.path());
    let is_wrong = |text: &str, words: &[&str]| {
        settings.write(text);
        let said = fails(&["--config", settings.path()]);
        for word in [&[&*name], words].concat() {
            assert!(said.contains(word), "{text}: {word} is not in {said}");
        }
        assert!(!said.contains("secret"), "{said}");
    };
    WRONG.iter().for_each(|(text, words)| is_wrong(text, words));
    let listens = "listen = '127.0.0.1:0'\n";
    is_wrong(listens, &["to", "missing"]);
    is_wrong(&format!("{listens}to = 'nowhere.invalid:1'"), &["to: ", "nowhere.invalid"]);
    is_wrong(&format!("{listens}to = 'redis://u:secret@here'"), &["to: ", "only PostgreSQL"]);
    is_wrong(&format!("{listens}to = 'postgres://u:secret@h:x/'"), &["to: "]);
    let said = fails(&["--config", "/nonexistent/sidecar.toml"]);
    assert!(said.contains("/nonexistent/sidecar.toml: No such file"), "{said}");
    std::fs::write(Path::new(settings.path()), b"to = '\xff'").unwrap();
    assert!(fails(&["--config", settings.path()]).contains(&name));
}

#[test]
fn a_file_that_is_wrong_by_itself_is_wrong_where_an_option_wins() {
    let settings = Settings::of(&with("max-clients = 0\n"));
    let said = fails(&["--config", settings.path(), "--max-clients", "5"]);
    assert!(said.contains("max-clients: it is a whole number"), "{said}");
}

#[test]
fn at_sighup_who_comes_meets_the_new_settings_and_who_is_there_goes_on() {
    let socket = shared().socket_dir().join(format!(".s.PGSQL.{}", shared().port()));
    let socket = socket.to_str().unwrap().to_owned();
    let with = |more: &str| with(more).replace(&server(), &socket);
    let settings = Settings::of(&with("max-clients = 3\n"));
    let mut scraped = Scraped::start(&["--config", settings.path()]);
    let addr = scraped.sidecar.addr.clone();
    let database = numbers();
    let log_in = || Wire::try_log_in(shared(), &addr, &database);
    let (mut first, mut second) = (log_in().unwrap(), log_in().unwrap());
    first.query("begin");
    first.query("update number set v = 7 where k = 1");
    let mut read = |text: &str| {
        settings.write(text);
        scraped.sidecar.process.signal(Signal::HUP);
        let heard = scraped.sidecar.process.wait_for("the settings");
        assert!(heard.contains("the settings were read again"), "{heard}");
    };
    // Both that are there count, though they came by other settings.
    read(&with("max-clients = 2\n"));
    assert!(log_in().err().unwrap().contains("too many clients"));
    assert_eq!(first.query("commit"), ["C COMMIT", "Z Idle"]);
    second.query("begin");
    assert_eq!(second.query("rollback"), ["C ROLLBACK", "Z Idle"]);
    read(&with("max-clients = 3\nearly = ['nothing']\n"));
    let mut third = log_in().unwrap();
    third.query("begin");
    third.query("rollback");
    second.query("begin");
    second.query("rollback");
    third.terminate();
    // Programs that come are led to another place.
    read(&with("max-clients = 9\n").replace(&socket, &format!("{socket}0")));
    assert!(log_in().err().unwrap().contains("can't connect to"));
    assert_eq!(first.query("select 1"), ["T", "D 1", "C SELECT 1", "Z Idle"]);
    // And who is there is cancelled where it is.
    let sleeps = "select pg_sleep(3600)";
    first.begin_query(sleeps);
    let url = shared().database_url(&database);
    wait_for_session(&url, &format!("query = '{sleeps}' and state = 'active'"));
    first.cancel(&addr);
    assert!(first.hear(1).iter().any(|it| it.starts_with("E 57014")));
    assert_eq!(scraped.value("connections_total"), 4.0);
    // Three by the first two, and none by the third.
    assert_eq!(scraped.value("trips_saved_total{kind=\"begin\"}"), 3.0);
}

#[test]
fn wrong_settings_change_nothing_and_say_so() {
    let settings = Settings::of(&with("max-clients = 1\n"));
    let mut scraped = Scraped::start(&["--config", settings.path()]);
    let addr = scraped.sidecar.addr.clone();
    let wrong = |more: &str| with(&format!("max-clients = 5\n{more}"));
    for (text, word) in [
        (wrong("nonsense = 1\n"), "nonsense: there is no such setting"),
        (wrong("max-clients = 6\n"), "line 5: "),
        (wrong("").replace("listen = '127.0.0.1:0'", "listen = '127.0.0.1:1'"), "another listen"),
        (wrong("").replace("metrics = '127.0.0.1:0'\n", ""), "another metrics needs a restart"),
        (wrong("").replace(&server(), "nowhere.invalid:1"), "nowhere.invalid"),
        (String::new(), "listen: it is missing"),
    ] {
        settings.write(&text);
        scraped.sidecar.process.signal(Signal::HUP);
        let said = scraped.sidecar.process.wait_for("the settings");
        assert!(said.contains("stay as they were: ") && said.contains(word), "{said}");
    }
    std::fs::remove_file(settings.path()).unwrap();
    scraped.sidecar.process.signal(Signal::HUP);
    scraped.sidecar.process.wait_for("No such file");
    let _first = Wire::try_log_in(shared(), &addr, "postgres").unwrap();
    assert!(Wire::try_log_in(shared(), &addr, "postgres").is_err());
}

#[test]
fn a_warm_connection_that_was_lent_before_a_sighup_serves_its_program_and_nobody_behind_it() {
    let (user, password, port) = (shared().user(), shared().password(), shared().port());
    let to = format!("postgres://{user}:{password}@127.0.0.1:{port}/");
    let settings = Settings::of(&with("warm = 4\n").replace(&server(), &to));
    let mut scraped = Scraped::start(&["--config", settings.path()]);
    let addr = scraped.sidecar.addr.clone();
    let log_in = || Wire::log_in(shared(), &addr, "postgres");
    let pid = |wire: &mut Wire| wire.query("select pg_backend_pid()").swap_remove(1);
    let (idle, mut lent) = (log_in(), log_in());
    idle.terminate();
    scraped.wait_for("warm_connections{state=\"idle\"}", 1.0);
    let of = pid(&mut lent);
    scraped.sidecar.process.signal(Signal::HUP);
    scraped.sidecar.process.wait_for("the settings were read again");
    assert_eq!(scraped.value("warm_connections{state=\"idle\"}"), 0.0);
    assert_eq!(pid(&mut lent), of);
    lent.terminate();
    scraped.wait_for("warm_total{event=\"closed\"}", 1.0);
    assert_ne!(pid(&mut log_in()), of);
}

#[test]
fn without_a_file_sighup_stops_it() {
    let sidecar = Sidecar::to(&server(), &[]);
    sidecar.process.signal(Signal::HUP);
    let (status, said) = sidecar.process.end();
    assert!(status.success() && said.is_empty(), "{said}");
}
