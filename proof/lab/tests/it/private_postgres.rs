//! Private PostgreSQL servers: what a test that uses one relies on.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onetrip_lab::postgres::{
    Durability, Installation, Options, PG_BIN_VARIABLE, PG_MAJOR_VARIABLE, PrivatePostgres,
    Shutdown, find_all, shared,
};

fn start() -> PrivatePostgres {
    PrivatePostgres::start(Options::default()).unwrap()
}

fn connect(server: &PrivatePostgres) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.port())).unwrap()
}

fn connect_to_socket(server: &PrivatePostgres) -> UnixStream {
    let path = server.socket_dir().join(format!(".s.PGSQL.{}", server.port()));
    assert!(path.as_os_str().len() < 100, "{} is too long for a socket", path.display());
    UnixStream::connect(path).unwrap()
}

/// The one byte that answers an SSLRequest.
fn ssl_answer(server: &PrivatePostgres) -> u8 {
    let mut stream = connect(server);
    stream.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    answer[0]
}

/// The first message that answers a StartupMessage: its type and its first four bytes as a number.
fn startup_answer(mut stream: impl Read + Write, user: &str) -> (u8, u32) {
    let parameters = format!("user\0{user}\0database\0postgres\0\0");
    let length = u32::try_from(8 + parameters.len()).unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    stream.write_all(&196_608_u32.to_be_bytes()).unwrap();
    stream.write_all(parameters.as_bytes()).unwrap();
    let mut answer = [0; 9];
    stream.read_exact(&mut answer).unwrap();
    (answer[0], u32::from_be_bytes(answer[5..].try_into().unwrap()))
}

#[test]
fn a_server_answers_on_tcp_and_names_itself() {
    let server = shared();
    assert!(matches!(ssl_answer(server), b'N' | b'S'));
    assert!(server.url().starts_with("postgres://postgres:"), "{}", server.url());
    assert!(server.url().ends_with(&format!("@127.0.0.1:{}/postgres", server.port())));
    assert!(server.version().starts_with(&server.major().to_string()));
    assert_ne!(server.new_name(), server.new_name());
}

#[test]
fn the_password_is_required_on_tcp_and_on_the_socket() {
    const SASL: (u8, u32) = (b'R', 10);
    let server = shared();
    assert_eq!(startup_answer(connect(server), server.user()), SASL);
    assert_eq!(startup_answer(connect_to_socket(server), server.user()), SASL);
}

#[test]
fn the_password_opens_and_another_does_not() {
    let server = shared();
    let Some(right) = psql(&server.url(), "select 1 + 1") else { return };
    assert_eq!(String::from_utf8_lossy(&right.stdout).trim(), "2", "{right:?}");
    let wrong = server.url().replace(server.password(), "wrong");
    let wrong = psql(&wrong, "select 1 + 1").unwrap();
    assert!(!wrong.status.success());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("password authentication failed"));
}

#[test]
fn settings_and_durability_reach_the_server() {
    let options =
        Options { durability: Durability::Full, connections_max: 33, ..Options::default() };
    let server = PrivatePostgres::start(options.setting("work_mem", "7MB")).unwrap();
    let query = "select string_agg(setting, ' ' order by name) from pg_settings \
                 where name in ('fsync', 'max_connections', 'work_mem', 'server_encoding')";
    let Some(answer) = psql(&server.url(), query) else { return };
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "on 33 UTF8 7168", "{answer:?}");
}

#[test]
fn a_file_of_the_callers_takes_the_place_of_the_servers_own() {
    let options = Options::default().file("pg_hba.conf", "nonsense all all trust");
    let error = PrivatePostgres::start(options).unwrap_err().to_string();
    assert!(error.contains("pg_hba.conf"), "{error}");
}

#[test]
fn a_wrong_setting_is_told_in_one_line() {
    let error = PrivatePostgres::start(Options::default().setting("work_mem", "much")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("work_mem") && text.contains("did not start"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn the_password_is_not_in_the_debug_output() {
    let server = shared();
    assert!(!format!("{server:?}").contains(server.password()));
}

#[test]
fn stopping_removes_the_directory_and_closes_the_port() {
    let server = start();
    let (directory, port) = (server.socket_dir().to_path_buf(), server.port());
    assert!(directory.is_dir());
    server.stop().unwrap();
    assert!(!directory.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn dropping_stops_it_even_with_a_client_connected() {
    let server = start();
    let directory = server.socket_dir().to_path_buf();
    let mut client = connect(&server);
    startup_answer(&mut client, server.user());
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn a_standby_has_what_the_primary_wrote_and_is_one_until_it_is_promoted() {
    let primary = start();
    if primary.major() < 12 {
        let error = primary.start_standby(Options::default()).unwrap_err().to_string();
        assert!(error.contains("12 or later"), "{error}");
        return;
    }
    if psql(&primary.url(), "create table written as select 7 as n").is_none() {
        return;
    }
    let standby = primary.start_standby(Options::default()).unwrap();
    let read = || said(&standby.url(), "select n from written");
    wait_until("the row is there", || read() == "7");
    assert_eq!(said(&standby.url(), "select pg_is_in_recovery()"), "t");
    assert_eq!(said(&standby.url(), "select pg_promote()"), "t");
    assert_eq!(said(&standby.url(), "insert into written values (8) returning n"), "8\nINSERT 0 1");
}

#[test]
fn a_standby_with_delayed_apply_is_behind() {
    let primary = start();
    if primary.major() < 12 || psql(&primary.url(), "select 1").is_none() {
        return;
    }
    let delayed = Options::default().setting("recovery_min_apply_delay", "1h");
    let standby = primary.start_standby(delayed).unwrap();
    said(&primary.url(), "create table written as select 7 as n");
    let position = said(&primary.url(), "select pg_current_wal_flush_lsn()");
    let received = format!("select pg_last_wal_receive_lsn() >= '{position}'");
    wait_until("the standby has received it", || said(&standby.url(), &received) == "t");
    assert_eq!(said(&standby.url(), "select to_regclass('written') is null"), "t");
}

#[cfg(target_os = "linux")]
#[test]
fn a_paused_server_keeps_its_connections_and_answers_when_it_wakes() {
    let server = start();
    let mut waiting = connect(&server);
    server.pause().unwrap();
    waiting.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]).unwrap();
    waiting.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    waiting.read(&mut [0]).expect_err("nobody answers");
    waiting.set_read_timeout(None).unwrap();
    server.resume().unwrap();
    let mut answer = [0];
    waiting.read_exact(&mut answer).unwrap();
    assert!(matches!(answer[0], b'N' | b'S'));
    server.pause().unwrap();
    // If it were not woken, it would never end.
    drop(server);
}

#[test]
fn two_servers_live_at_once() {
    let (one, other) = (start(), start());
    assert_ne!(one.port(), other.port());
    assert_ne!(one.socket_dir(), other.socket_dir());
    one.stop().unwrap();
    assert!(matches!(ssl_answer(&other), b'N' | b'S'));
}

#[test]
fn a_crashed_server_starts_again_with_its_data() {
    let mut server = start();
    let url = server.url();
    let created = psql(&url, "create table kept as select 7 as n");
    let first_pid = server.postmaster_pid();
    server.stop_immediate().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    assert!(server.stop_immediate().is_err(), "it is not running");
    server.start_again().unwrap();
    assert!(server.start_again().is_err(), "it is running");
    assert_eq!(server.url(), url);
    assert_ne!(server.postmaster_pid(), first_pid);
    assert!(matches!(ssl_answer(&server), b'N' | b'S'));
    if created.is_some() {
        let kept = psql(&url, "select n from kept").unwrap();
        assert_eq!(String::from_utf8_lossy(&kept.stdout).trim(), "7", "{kept:?}");
    }
}

#[test]
fn a_server_starts_again_however_it_was_shut_down() {
    let mut server = start();
    for how in [Shutdown::Smart, Shutdown::Fast, Shutdown::Immediate, Shutdown::Killed] {
        let pid = server.postmaster_pid();
        server.shut_down(how).unwrap();
        assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err(), "{how:?}");
        server.start_again().unwrap();
        assert_ne!(server.postmaster_pid(), pid, "{how:?}");
        assert!(matches!(ssl_answer(&server), b'N' | b'S'), "{how:?}");
    }
    assert!(server.kill_backend(std::process::id()).is_err(), "this is no process of the server");
}

#[test]
fn a_stopped_server_that_is_dropped_leaves_nothing() {
    let mut server = start();
    let directory = server.socket_dir().to_path_buf();
    server.stop_immediate().unwrap();
    assert!(directory.exists());
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn what_a_crash_left_behind_is_removed_by_the_next_start() {
    let base = shared().socket_dir().parent().unwrap();
    let left_over = base.join("pg-left-over");
    fs::create_dir_all(left_over.join("data")).unwrap();
    fs::write(left_over.join("log"), "nobody holds this file").unwrap();
    let server = start();
    assert!(!left_over.exists());
    assert!(server.socket_dir().exists() && shared().socket_dir().exists());
}

#[test]
fn every_version_found_starts() {
    for installation in find_all().unwrap() {
        let version = installation.version().to_owned();
        println!("PostgreSQL {version} in {}", installation.bin().display());
        let options = Options { installation: Some(installation), ..Options::default() };
        let server = PrivatePostgres::start(options).unwrap();
        assert_eq!(server.version(), version);
        assert!(matches!(ssl_answer(&server), b'N' | b'S'));
        server.stop().unwrap();
    }
}

#[test]
fn many_start_at_once() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(start)).collect();
    let servers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut ports: Vec<_> = servers.iter().map(PrivatePostgres::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 4);
}

#[test]
fn binaries_that_do_not_belong_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (program, version) in [("postgres", "17.1"), ("initdb", "16.2")] {
        let path = directory.path().join(program);
        write_script(&path, &format!("echo '{program} (PostgreSQL) {version}'"));
    }
    let error = Installation::at(directory.path()).unwrap_err().to_string();
    assert!(error.contains("17.1") && error.contains("16.2"), "{error}");
}

/// The result of a search among two fake servers, which only report a version.
fn found_with(major: Option<&str>, argument: Option<&str>) -> Output {
    let directories = ["99.1", "12.3"].map(|version| {
        let directory = tempfile::tempdir().unwrap();
        for program in ["postgres", "initdb"] {
            let line = format!("echo '{program} (PostgreSQL) {version}'");
            write_script(&directory.path().join(program), &line);
        }
        directory
    });
    let path = std::env::join_paths(directories.iter().map(tempfile::TempDir::path)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_onetrip-servers"));
    command.args(argument).env(PG_BIN_VARIABLE, path).env_remove(PG_MAJOR_VARIABLE);
    command.envs(major.map(|major| (PG_MAJOR_VARIABLE, major))).output().unwrap()
}

#[test]
fn a_variable_chooses_the_version_among_those_that_are_there() {
    let version = |output: Output| {
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(version(found_with(None, Some("--default"))), ["99.1"]);
    assert_eq!(version(found_with(Some("12"), Some("--default"))), ["12.3"]);
    assert_eq!(version(found_with(Some("12"), None)), ["99.1", "12.3"], "it hides none");
    for (wrong, word) in [("11", "no PostgreSQL 11"), ("twelve", "a number")] {
        let output = found_with(Some(wrong), Some("--default"));
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(PG_MAJOR_VARIABLE) && text.contains(word), "{text}");
    }
}

/// This test runs itself a second time as the parent that gets killed.
#[cfg(target_os = "linux")]
#[test]
fn the_server_ends_when_its_parent_is_killed() {
    const ROLE: &str = "ONETRIP_TEST_PARENT";
    const NAME: &str = "private_postgres::the_server_ends_when_its_parent_is_killed";
    if std::env::var_os(ROLE).is_some() {
        let server = start();
        println!("\nserver {} {}", server.postmaster_pid(), server.socket_dir().display());
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let mut parent = Command::new(std::env::current_exe().unwrap());
    parent.args(["--exact", NAME, "--nocapture"]).env(ROLE, "yes");
    parent.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut parent = parent.spawn().unwrap();
    let (postmaster, directory) = read_server_line(parent.stdout.take().unwrap());
    let supervisor = parent_of(postmaster);
    let ends = [postmaster, supervisor].map(watch_end);
    parent.kill().unwrap();
    parent.wait().unwrap();
    for end in ends {
        assert!(has_ended(&end), "a process was still there after {END_TIMEOUT_S} s");
    }
    assert!(!directory.exists(), "{} was left behind", directory.display());
}

/// For each signal the test runs itself as a parent process. The parent waits for a fake initdb
/// that never ends: a script that reports its process id and its directory.
#[cfg(target_os = "linux")]
#[test]
fn a_start_that_a_signal_ends_leaves_no_directory() {
    use rustix::process::{Pid, Signal, getpgid, kill_process};
    const ROLE: &str = "ONETRIP_TEST_STARTING";
    const NAME: &str = "private_postgres::a_start_that_a_signal_ends_leaves_no_directory";
    if let Some(bin) = std::env::var_os(ROLE) {
        let installation = Some(Installation::at(bin).unwrap());
        let options = Options { installation, ..Options::default() };
        panic!("initdb ended: {:?}", PrivatePostgres::start(options));
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let place = open_directory();
        let fifo = place.path().join("fifo");
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&fifo).status().unwrap().success());
        write_script(&place.path().join("postgres"), "echo 'postgres (PostgreSQL) 99.1'");
        let initdb = format!(
            "[ \"$1\" != --version ] || exec echo 'initdb (PostgreSQL) 99.1'\n\
             while [ \"$1\" != -D ]; do shift; done\n\
             echo \"server $$ $2\" >{}\nexec sleep 1000",
            fifo.display()
        );
        write_script(&place.path().join("initdb"), &initdb);
        let mut parent = Command::new("env");
        // If the harness was started with nohup, its child processes would ignore SIGHUP.
        parent.arg("--default-signal=HUP,INT,TERM").arg(std::env::current_exe().unwrap());
        parent.args(["--exact", NAME]).env(ROLE, place.path()).env("TMPDIR", place.path());
        let mut parent = parent.stdout(std::process::Stdio::null()).spawn().unwrap();
        let (initdb, data) = read_server_line(fs::File::open(&fifo).unwrap());
        let work = data.ancestors().nth(2).unwrap();
        assert!(work.is_dir() && work.starts_with(place.path()), "{}", work.display());
        let guard = getpgid(Pid::from_raw(initdb)).unwrap().as_raw_nonzero().get();
        let ends = [initdb, guard].map(watch_end);
        let parent_pid = Pid::from_child(&parent);
        kill_process(parent_pid, signal).unwrap();
        assert!(!parent.wait().unwrap().success());
        for end in ends {
            assert!(has_ended(&end), "a process was still there after {END_TIMEOUT_S} s");
        }
        assert!(!work.exists(), "{} was left behind by {signal:?}", work.display());
    }
}

/// A directory for the server's account too, if that is another than ours.
#[cfg(target_os = "linux")]
fn open_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(mode).tempdir_in("/tmp").unwrap()
}

#[cfg(target_os = "linux")]
fn read_server_line(output: impl Read) -> (i32, PathBuf) {
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    let line = lines.find_map(|line| line.unwrap().strip_prefix("server ").map(str::to_owned));
    let line = line.expect("the parent names its server");
    let (pid, directory) = line.split_once(' ').unwrap();
    (pid.parse().unwrap(), directory.into())
}

#[cfg(target_os = "linux")]
fn parent_of(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

#[cfg(target_os = "linux")]
const END_TIMEOUT_S: i64 = 60;

#[cfg(target_os = "linux")]
fn watch_end(pid: i32) -> rustix::fd::OwnedFd {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}

/// A pidfd becomes readable when its process ends.
#[cfg(target_os = "linux")]
fn has_ended(process: &rustix::fd::OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: END_TIMEOUT_S, tv_nsec: 0 };
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(600);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}: not within 600 s");
    }
}

/// What psql prints for a query.
fn said(url: &str, query: &str) -> String {
    let output = psql(url, query).unwrap();
    assert!(output.status.success() || output.stdout.is_empty(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// `None` if there is no psql: the packages that scripts/setup can download lack it.
fn psql(url: &str, query: &str) -> Option<Output> {
    let output = Command::new("psql").args(["-X", "-A", "-t", "-w", "-c", query, url]).output();
    match output {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: this part needs psql ({error})");
            None
        }
    }
}

fn write_script(path: &Path, line: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
