//! `onetrip sidecar`: what programs hear through it, and the trips that they pay.

mod drawn;
mod hosts;
mod ledger;
mod operated;
mod refused;
mod reload;
mod scraped;
mod warm;

use std::process::Stdio;

use bytes::BytesMut;
use onetrip_lab::postgres::shared;
use onetrip_lab::proxy::{Proxy, ProxyConfig};
use rustix::process::Signal;

use crate::database::{database, run};
use crate::process::Onetrip;
use crate::profile_tls::tls_server;
use crate::wire::Part::{Bind, Close, DescribePortal, DescribeStatement, Execute, Parse, Sync};
use crate::wire::{Wire, extended, query};

/// A sidecar in front of an address.
struct Sidecar {
    process: Onetrip,
    addr: String,
}

impl Sidecar {
    fn to(server: &str, more: &[&str]) -> Sidecar {
        let place = ["--listen", "127.0.0.1:0", "--to", server];
        Sidecar::start(&[&place, more].concat()).0
    }

    /// Starts it with these arguments. Its first line comes with it.
    fn start(arguments: &[&str]) -> (Sidecar, String) {
        let arguments = [&["sidecar"], arguments].concat();
        Sidecar::of(Onetrip::start(&arguments, Stdio::piped()))
    }

    fn of(mut process: Onetrip) -> (Sidecar, String) {
        let line = process.first_line();
        assert!(line.contains(" -> "), "{line}{}", process.end().1);
        let addr = line.split(" -> ").next().unwrap().to_owned();
        (Sidecar { process, addr }, line)
    }

    /// What it says at its end.
    fn end(mut self) -> String {
        self.process.signal(Signal::TERM);
        let said = self.process.first_line();
        let (status, error) = self.process.end();
        assert!(status.success() && error.is_empty(), "{error}");
        said
    }
}

/// What it says where it does not start: a line.
fn fails(arguments: &[&str]) -> String {
    let all = [&["sidecar"], arguments].concat();
    not_started(Onetrip::start(&all, Stdio::piped()))
}

fn not_started(mut process: Onetrip) -> String {
    // It would go on if it had started.
    assert_eq!(process.first_line(), "");
    let (status, said) = process.end();
    assert_eq!((status.code(), said.lines().count()), (Some(2), 1), "{said}");
    said
}

fn server() -> String {
    format!("127.0.0.1:{}", shared().port())
}

/// A database with a table of numbers, by its name.
fn numbers() -> String {
    let url = database();
    run(&url, "create table number (k int primary key, v int)");
    run(&url, "insert into number select k, 0 from generate_series(0, 9) k");
    url.rsplit('/').next().unwrap().to_owned()
}

/// A statement as libpq's PQexecParams sends it.
fn params(sql: &str, values: &[&str]) -> BytesMut {
    extended(&[Parse("", sql), Bind("", values), DescribePortal, Execute, Sync])
}

const READ: &str = "select v from number where k = $1";
const WRITE: &str = "update number set v = v + 1 where k = $1";

/// PHP's PDO: each statement is prepared, run and deallocated.
fn pdo() -> Vec<BytesMut> {
    let mut all = Vec::new();
    for (at, (sql, key)) in
        [(READ, "1"), (READ, "2"), (WRITE, "1"), (WRITE, "2"), (WRITE, "3")].into_iter().enumerate()
    {
        let name = format!("pdo_stmt_{at:08}");
        if at == 2 {
            all.push(query("BEGIN"));
        }
        all.push(extended(&[Parse(&name, sql), Sync]));
        all.push(extended(&[Bind(&name, &[key]), DescribePortal, Execute, Sync]));
        all.push(query(&format!("DEALLOCATE {name}")));
    }
    all.push(query("COMMIT"));
    all
}

/// psycopg 3: a transaction within a transaction, two writes.
fn psycopg() -> Vec<BytesMut> {
    vec![
        query("BEGIN"),
        params(WRITE, &["1"]),
        query("SAVEPOINT \"_pg3_1\""),
        params(WRITE, &["2"]),
        query("RELEASE \"_pg3_1\""),
        query("COMMIT"),
    ]
}

/// psycopg 3's cursor on the server, as Django's forms use it.
fn cursor() -> Vec<BytesMut> {
    vec![
        params("DECLARE \"c\" NO SCROLL CURSOR WITH HOLD FOR SELECT k FROM number", &[]),
        query("FETCH FORWARD 100 FROM \"c\""),
        query("FETCH FORWARD 100 FROM \"c\""),
        query("CLOSE \"c\""),
    ]
}

/// lib/pq: Prepare, Query, Close.
fn lib_pq() -> Vec<BytesMut> {
    vec![
        extended(&[Parse("1", READ), DescribeStatement("1"), Sync]),
        extended(&[Bind("1", &["1"]), Execute, Sync]),
        extended(&[Close("1"), Sync]),
    ]
}

/// JDBC: a savepoint, whose BEGIN rides along, and two writes.
fn jdbc() -> Vec<BytesMut> {
    let begin = [Parse("", "BEGIN"), Bind("", &[]), Execute];
    let savepoint =
        [Parse("", "SAVEPOINT JDBC_SAVEPOINT_0"), Bind("", &[]), DescribePortal, Execute, Sync];
    let release = [Parse("", "RELEASE SAVEPOINT JDBC_SAVEPOINT_0"), Bind("", &[]), Execute, Sync];
    vec![
        [extended(&begin), extended(&savepoint)].concat()[..].into(),
        params(WRITE, &["1"]),
        params(WRITE, &["2"]),
        extended(&release),
        extended(&[Parse("", "COMMIT"), Bind("", &[]), Execute, Sync]),
    ]
}

/// What stands in front of reads by SQLAlchemy with `pool_pre_ping`, and behind them.
fn sqlalchemy() -> Vec<BytesMut> {
    let read = "SELECT v FROM number WHERE k = 1";
    ["SELECT 1", "BEGIN", read, read, "ROLLBACK"].map(query).into()
}

/// Rails: a statement that is prepared by its first use, in a transaction.
fn rails() -> Vec<BytesMut> {
    let mut all = vec![query("BEGIN"), extended(&[Parse("a1", WRITE), Sync])];
    all.push(extended(&[Bind("a1", &["1"]), DescribePortal, Execute, Sync]));
    all.push(query("SAVEPOINT active_record_1"));
    all.push(extended(&[Bind("a1", &["2"]), DescribePortal, Execute, Sync]));
    all.push(query("RELEASE SAVEPOINT active_record_1"));
    all.push(query("COMMIT"));
    all
}

/// A program that waits for nothing.
fn pipelined() -> Vec<BytesMut> {
    let all = [query("BEGIN"), params(WRITE, &["1"]), params(WRITE, &["2"]), query("COMMIT")];
    vec![all.concat()[..].into()]
}

#[test]
fn programs_hear_the_same_and_pay_for_fewer_trips() {
    let upstream = std::net::SocketAddr::from(([127, 0, 0, 1], shared().port()));
    let proxy = Proxy::start(ProxyConfig::new(upstream)).unwrap();
    let database = numbers();
    let sidecar = Sidecar::to(&proxy.addr().to_string(), &["--early", "ping"]);
    type Program = (&'static str, fn() -> Vec<BytesMut>, u64, u64);
    let programs: [Program; 8] = [
        ("PDO", pdo, 17, 6),
        ("psycopg", psycopg, 6, 3),
        ("a cursor", cursor, 4, 2),
        ("lib/pq", lib_pq, 3, 2),
        ("JDBC", jdbc, 5, 3),
        ("SQLAlchemy", sqlalchemy, 5, 3),
        ("Rails", rails, 7, 3),
        ("pipelined", pipelined, 1, 1),
    ];
    for (name, program, directly, through) in programs {
        let mut wires = [&proxy.addr().to_string(), &sidecar.addr]
            .map(|it| Wire::log_in(shared(), it, &database));
        let mut trips = [0, 0];
        let mut heard = [Vec::new(), Vec::new()];
        for (at, wire) in wires.iter_mut().enumerate() {
            let before = proxy.stats().trips;
            for message in program() {
                let readies = if name == "pipelined" { 4 } else { 1 };
                heard[at].extend(wire.say(&message, readies));
            }
            trips[at] = proxy.stats().trips - before;
        }
        assert_eq!(trips, [directly, through], "{name}");
        // Which row it was does not matter to what is compared.
        let [direct, through] =
            heard.map(|all| all.into_iter().filter(|it| !it.starts_with("D ")).collect::<Vec<_>>());
        assert_eq!(direct, through, "{name}");
        assert!(direct.iter().all(|it| !it.starts_with('E')), "{name}: {direct:?}");
    }
    let said = sidecar.end();
    assert!(said.starts_with("8 connections; saved "), "{said}");
    for kind in ["5 begin", "6 prepare", "1 ping", "1 empty fetch"] {
        assert!(said.contains(kind), "{kind}: {said}");
    }
}

#[test]
fn a_program_that_is_run_needs_no_setting() {
    let url = database();
    let program = std::env::current_exe().unwrap();
    let arguments = [
        "sidecar",
        "--run",
        "--",
        program.to_str().unwrap(),
        "--exact",
        "sidecar::the_program",
        "--nocapture",
    ];
    let set = [("ONETRIP_TEST_TASK", "sidecar"), ("DATABASE_URL", url.as_str())];
    let (status, said) = Onetrip::start_with(&arguments, Stdio::null(), &set).end();
    assert!(status.success(), "{said}");
    assert!(said.contains("DATABASE_URL"), "{said}");
    assert!(
        said.contains("1 connection; saved 1 trip: 1 end of an empty")
            || said.contains("saved 2 trips"),
        "{said}"
    );
    assert!(!said.contains(shared().password()), "{said}");
}

/// Not a test: the program that is run.
#[test]
fn the_program() {
    if std::env::var("ONETRIP_TEST_TASK").as_deref() != Ok("sidecar") {
        return;
    }
    let url = std::env::var("DATABASE_URL").unwrap();
    let place = url.rsplit('@').next().unwrap();
    let (addr, rest) = place.split_once('/').unwrap();
    let (user, password) =
        url["postgres://".len()..].split_once('@').unwrap().0.split_once(':').unwrap();
    let mut wire = Wire::as_user(user, password, addr, rest.split('?').next().unwrap()).unwrap();
    assert_eq!(wire.query("begin"), ["C BEGIN", "Z InTransaction"]);
    assert_eq!(wire.query("rollback"), ["C ROLLBACK", "Z Idle"]);
    wire.terminate();
}

#[test]
fn a_cancel_reaches_the_right_server_process() {
    let sidecar = Sidecar::to(&server(), &[]);
    let database = numbers();
    let mut wire = Wire::log_in(shared(), &sidecar.addr, &database);
    wire.query("begin");
    wire.begin_query("select pg_sleep(3600)");
    let url = shared().database_url(&database);
    crate::database::wait_for_session(&url, "query like 'select pg_sleep%' and state = 'active'");
    wire.cancel(&sidecar.addr);
    let heard = wire.hear(1);
    assert!(heard.iter().any(|it| it.starts_with("E 57014")), "{heard:?}");
    assert_eq!(wire.query("rollback"), ["C ROLLBACK", "Z Idle"]);
}

#[test]
fn the_server_is_reached_over_tls_and_verified() {
    let files = tempfile::tempdir().unwrap();
    let (tls, root) = tls_server(files.path());
    let to = |host: &str| {
        let root = root.display();
        format!("postgres://{host}:{}/?sslmode=verify-full&sslrootcert={root}", tls.port())
    };
    let sidecar = Sidecar::to(&to("localhost"), &[]);
    let mut wire = Wire::log_in(&tls, &sidecar.addr, "postgres");
    wire.query("begin");
    let heard = wire.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
    assert_eq!(heard, ["T", "D t", "C SELECT 1", "Z InTransaction"]);
    // By its address it is not the server that was asked for.
    let sidecar = Sidecar::to(&to("127.0.0.1"), &[]);
    let Err(error) = Wire::try_log_in(&tls, &sidecar.addr, "postgres") else { panic!() };
    assert!(error.contains("onetrip sidecar") && error.contains("not for this host"), "{error}");
}

#[test]
fn sigterm_lets_transactions_end_and_tells_idle_programs() {
    let sidecar = Sidecar::to(&server(), &[]);
    let database = numbers();
    let mut idle = Wire::log_in(shared(), &sidecar.addr, &database);
    let mut busy = Wire::log_in(shared(), &sidecar.addr, &database);
    busy.query("begin");
    busy.query("update number set v = 7 where k = 1");
    sidecar.process.signal(Signal::TERM);
    let heard = idle.hear(1);
    assert!(heard[0].starts_with("E 57P01 terminating connection"), "{heard:?}");
    assert_eq!(heard[1], "closed");
    assert_eq!(busy.query("commit"), ["C COMMIT", "Z Idle"]);
    assert!(busy.hear(1)[0].starts_with("E 57P01"));
    let (status, said) = sidecar.process.end();
    assert!(status.success() && said.is_empty(), "{said}");
    let url = shared().database_url(&database);
    assert_eq!(run(&url, "select 1 from number where v = 7"), 1);
}
