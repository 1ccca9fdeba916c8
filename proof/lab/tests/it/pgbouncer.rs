//! Private poolers: the behaviour that tests rely on.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use onetrip_lab::postgres::pgbouncer::{
    Login, Options, PoolMode, PrivatePgBouncer, Program, find_all,
};
use onetrip_lab::postgres::{self, PrivatePostgres, shared};

/// What is waited for at most.
const PATIENCE: Duration = Duration::from_secs(600);

/// The installed PgBouncers, one of each version. If there is none, prints that past the test
/// runner, which hides the output of tests that pass.
fn programs() -> Vec<Program> {
    let programs = find_all().unwrap();
    if programs.is_empty() {
        skipped("there is no PgBouncer here");
    }
    programs
}

fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn trusting(program: Program) -> Options {
    Options { program: Some(program), login: Login::Trust, ..Options::default() }
}

fn start(options: &Options) -> PrivatePgBouncer {
    PrivatePgBouncer::start(shared(), options).unwrap()
}

/// A login without password: as much of the protocol as `select 1` needs.
struct Plain<S>(S);

impl<S: Read + Write> Plain<S> {
    fn connect(stream: S, user: &str, database: &str) -> Plain<S> {
        let mut plain = Plain(stream);
        let startup = format!("user\0{user}\0database\0{database}\0\0");
        plain.send(&[&196_608_u32.to_be_bytes(), startup.as_bytes()].concat());
        plain.until(b'Z');
        plain
    }

    /// The first column of the only row.
    fn value(&mut self, sql: &str) -> String {
        self.0.write_all(b"Q").unwrap();
        self.send(format!("{sql}\0").as_bytes());
        let row = self.until(b'D');
        self.until(b'Z');
        String::from_utf8(row[6..].to_vec()).unwrap()
    }

    fn send(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).unwrap();
        self.0.write_all(&[&length.to_be_bytes(), body].concat()).unwrap();
    }

    /// The body of the next message of this type.
    fn until(&mut self, type_: u8) -> Vec<u8> {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) - 4;
            let mut body = vec![0; length as usize];
            self.0.read_exact(&mut body).unwrap();
            let said = String::from_utf8_lossy(&body);
            assert!(head[0] != b'E' || type_ == b'E', "{said}");
            if head[0] == type_ {
                return body;
            }
        }
    }
}

fn tcp(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn a_pooler_forwards_a_statement_on_tcp_and_on_its_socket() {
    for program in programs() {
        let version = program.version().to_owned();
        println!("PgBouncer {version} in {}", program.path().display());
        let pooler = start(&trusting(program));
        assert_eq!(pooler.version(), version);
        assert!(pooler.url().ends_with(&format!("@127.0.0.1:{}/postgres", pooler.port())));
        let mut client = Plain::connect(tcp(pooler.port()), "postgres", "postgres");
        assert_eq!(client.value("select 1"), "1");
        let socket = pooler.socket_dir().join(format!(".s.PGSQL.{}", pooler.port()));
        let mut client =
            Plain::connect(UnixStream::connect(socket).unwrap(), "postgres", "template1");
        assert_eq!(client.value("select current_database()"), "template1");
        pooler.stop().unwrap();
    }
}

#[test]
fn by_default_the_password_is_required() {
    const SASL: [u8; 4] = 10_u32.to_be_bytes();
    for program in programs() {
        let pooler = start(&Options { program: Some(program), ..Options::default() });
        let mut client = Plain(tcp(pooler.port()));
        let startup = b"user\0postgres\0database\0postgres\0\0";
        client.send(&[&196_608_u32.to_be_bytes()[..], startup].concat());
        assert_eq!(client.until(b'R')[..4], SASL);
        let psql = |url: &str| {
            Command::new("psql").args(["-X", "-A", "-t", "-w", "-c", "select 1", url]).output()
        };
        let Ok(right) = psql(&pooler.url()) else { return skipped("this part needs psql") };
        assert_eq!(String::from_utf8_lossy(&right.stdout).trim(), "1", "{right:?}");
        let wrong = psql(&pooler.url().replace(shared().password(), "wrong")).unwrap();
        assert!(!wrong.status.success(), "{wrong:?}");
    }
}

/// The server process of a client's statement, asked twice, with another client's statement in
/// between.
fn pids_of(pooler: &PrivatePgBouncer) -> [String; 3] {
    const PID: &str = "select pg_backend_pid()";
    let [mut one, mut other] =
        [(); 2].map(|()| Plain::connect(tcp(pooler.port()), "postgres", "postgres"));
    [one.value(PID), other.value(PID), one.value(PID)]
}

#[test]
fn clients_share_a_server_connection_between_transactions_and_keep_it_for_a_session() {
    for program in programs() {
        let transactions = start(&trusting(program.clone()));
        let [one, other, again] = pids_of(&transactions);
        assert!(one == other && other == again);
        let mode = PoolMode::Session;
        let sessions = start(&Options { pool_mode: mode, ..trusting(program) });
        let [one, other, again] = pids_of(&sessions);
        assert!(one != other && one == again);
    }
}

#[test]
fn options_reach_the_pooler_and_a_version_is_told_only_what_it_knows() {
    for program in programs() {
        let knows = program.knows_prepared_statements();
        let options = Options {
            pool_size: 3,
            clients_max: 17,
            prepared_max: Some(5),
            ..trusting(program).setting("query_wait_timeout", "44").user("some\"body", "pass")
        };
        let pooler = start(&options);
        assert_eq!(pooler.knows_prepared_statements(), knows);
        let ini = fs::read_to_string(pooler.socket_dir().join("data/pgbouncer.ini")).unwrap();
        for line in ["default_pool_size = 3", "max_client_conn = 17", "query_wait_timeout = 44"] {
            assert!(ini.lines().any(|it| it == line), "{line}: {ini}");
        }
        assert_eq!(ini.contains("max_prepared_statements = 5"), knows, "{ini}");
        // The console answers those who may use it.
        let mut console = Plain::connect(tcp(pooler.port()), "postgres", "pgbouncer");
        assert!(console.value("show version").starts_with("PgBouncer "));
        // A user that the pooler knows and the server does not.
        let mut unknown = Plain(tcp(pooler.port()));
        let startup = b"user\0some\"body\0database\0postgres\0\0";
        unknown.send(&[&196_608_u32.to_be_bytes()[..], startup].concat());
        assert!(!unknown.until(b'E').is_empty());
    }
}

#[test]
fn stopping_and_dropping_leave_no_process_and_no_file() {
    for program in programs() {
        for is_dropped in [false, true] {
            let pooler = start(&trusting(program.clone()));
            let (directory, port) = (pooler.socket_dir().to_path_buf(), pooler.port());
            // An idle client of a session must not hold it up.
            let mut client = Plain::connect(tcp(pooler.port()), "postgres", "postgres");
            assert_eq!(client.value("select 1"), "1");
            assert!(is_mentioned_by_a_process(&directory));
            match is_dropped {
                true => drop(pooler),
                false => pooler.stop().unwrap(),
            }
            assert!(!directory.exists());
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
            // The shell that watches over it sees its end a moment later.
            let end = Instant::now() + PATIENCE;
            while is_mentioned_by_a_process(&directory) {
                assert!(Instant::now() < end, "a process of {} is left", directory.display());
                std::thread::yield_now();
            }
        }
    }
}

/// The pooler's configuration is an argument of its process, and of the shell that watches over it.
fn is_mentioned_by_a_process(directory: &Path) -> bool {
    let output = Command::new("ps").args(["-ww", "-A", "-o", "args="]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains(&directory.display().to_string())
}

/// This test runs itself a second time as the parent that gets killed.
#[test]
fn a_pooler_ends_when_its_parent_is_killed() {
    const ROLE: &str = "ONETRIP_TEST_PARENT";
    const NAME: &str = "pgbouncer::a_pooler_ends_when_its_parent_is_killed";
    let Some(program) = programs().into_iter().next() else { return };
    if std::env::var_os(ROLE).is_some() {
        let server = PrivatePostgres::start(postgres::Options::default()).unwrap();
        let pooler = PrivatePgBouncer::start(&server, &trusting(program)).unwrap();
        println!("\npooler {}", pooler.port());
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let mut parent = Command::new(std::env::current_exe().unwrap());
    parent.args(["--exact", NAME, "--nocapture"]).env(ROLE, "yes");
    let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(parent.stdout.take().unwrap()));
    let port = lines.find_map(|line| line.unwrap().strip_prefix("pooler ").map(str::to_owned));
    let port: u16 = port.expect("the parent names its pooler").parse().unwrap();
    // It logs in, because the kernel does not hand over a silent connection (tcp_defer_accept).
    let mut client = Plain::connect(tcp(port), "postgres", "postgres").0;
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The pooler cuts its clients when it ends, and not before.
    let cut = client.read(&mut [0]);
    assert!(matches!(&cut, Ok(0)) || cut.is_err_and(|it| it.kind() != TIMED_OUT));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

const TIMED_OUT: std::io::ErrorKind = std::io::ErrorKind::WouldBlock;

#[test]
fn a_pooler_that_does_not_start_says_why_in_one_line() {
    for program in programs() {
        let options = trusting(program).setting("auth_type", "nonsense");
        let error = PrivatePgBouncer::start(shared(), &options).unwrap_err().to_string();
        assert!(error.contains("did not start") && error.contains("auth_type"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn what_is_no_pooler_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pgbouncer");
    fs::write(&path, "#!/bin/sh\necho something else\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Program::at(&path).unwrap_err().to_string();
    assert!(error.contains("is no PgBouncer") && error.contains("pgbouncer"), "{error}");
    assert!(Program::at("/nowhere").unwrap_err().to_string().contains("/nowhere"));
}
