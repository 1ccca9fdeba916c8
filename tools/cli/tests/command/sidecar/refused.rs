//! What proves false with a real server, and input that is not what it should be.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use onetrip_lab::postgres::{Options, PrivatePostgres, shared};

use super::{Sidecar, WRITE, numbers, params, server};
use crate::database::run;
use crate::process::Onetrip;
use crate::wire::Part::{Bind, DescribePortal, Execute, Parse, Sync};
use crate::wire::{Wire, connect, extended, query};

#[test]
fn a_begin_that_a_standby_refuses_is_heard_at_the_next_statement() {
    let primary = PrivatePostgres::start(Options::default()).unwrap();
    let standby = primary.start_standby(Options::default()).unwrap();
    let sidecar = Sidecar::to(&format!("127.0.0.1:{}", standby.port()), &[]);
    let mut wire = Wire::log_in(&standby, &sidecar.addr, "postgres");
    for next in [query("select 1; select 2"), params("select 1", &[])] {
        assert_eq!(wire.query("begin read write"), ["C BEGIN", "Z InTransaction"]);
        let heard = wire.say(&next, 1);
        let [error, ready] = &heard[..] else { panic!("{heard:?}") };
        assert!(error.contains("during recovery"), "{error}");
        assert!(error.contains("\"begin read write\", answered early"), "{error}");
        assert_eq!(ready, "Z Failed");
        assert!(wire.query("select 1")[0].starts_with("E 25P02"));
        assert_eq!(wire.query("rollback"), ["C ROLLBACK", "Z Idle"]);
    }
    drop(wire);
    let said = sidecar.end();
    assert!(said.contains("2 early answers proved false"), "{said}");
}

#[test]
fn errors_are_as_without_it() {
    let sidecar = Sidecar::to(&server(), &[]);
    // A database each: a notification goes to all sessions of one.
    let mut wires =
        [server(), sidecar.addr.clone()].map(|it| Wire::log_in(shared(), &it, &numbers()));
    let said = [
        query("begin"),
        query("selec 1"),
        query("rollback"),
        query("begin; select nothing from number"),
        query("rollback"),
        query("begin"),
        params("select nothing from number", &[]),
        query("commit"),
        query("savepoint a"),
        query("release a"),
        query("deallocate a"),
        query("vacuum number"),
        query("begin"),
        query("vacuum number"),
        query("rollback"),
        query("begin"),
        query("begin"),
        query("do $$ begin raise notice 'a'; end $$"),
        query("set local application_name = 'b'"),
        query("commit"),
        query("listen a"),
        query("begin"),
        query("notify a"),
        query("commit"),
        query(""),
    ];
    for message in said {
        let [direct, through] = &mut wires;
        let text = String::from_utf8_lossy(&message).into_owned();
        assert_eq!(direct.say(&message, 1), through.say(&message, 1), "{text}");
    }
}

#[test]
fn what_can_not_be_prepared_is_told_where_it_is_used() {
    let sidecar = Sidecar::to(&server(), &[]);
    let database = numbers();
    let mut wire = Wire::log_in(shared(), &sidecar.addr, &database);
    let run_it = extended(&[Bind("a", &[]), DescribePortal, Execute, Sync]);
    assert_eq!(wire.say(&extended(&[Parse("a", "select * from later"), Sync]), 1), ["1", "Z Idle"]);
    let heard = wire.say(&run_it, 1);
    assert!(heard[0].starts_with("E 42P01 relation \"later\" does not exist @15 <"), "{heard:?}");
    run(&shared().database_url(&database), "create table later (a int)");
    assert_eq!(wire.say(&run_it, 1), ["2", "T", "C SELECT 0", "Z Idle"]);
    assert_eq!(wire.query("deallocate a"), ["C DEALLOCATE", "Z Idle"]);
    // What shares no implicit transaction stands alone behind it.
    assert_eq!(wire.query("vacuum later"), ["C VACUUM", "Z Idle"]);
}

#[test]
fn a_session_that_is_killed_meanwhile_says_so() {
    let sidecar = Sidecar::to(&server(), &[]);
    let database = numbers();
    let url = shared().database_url(&database);
    let mut wire = Wire::log_in(shared(), &sidecar.addr, &database);
    wire.query("begin");
    let pid = wire.ready.process_id;
    run(&url, &format!("select pg_terminate_backend({pid}, 60000)"));
    let heard = wire.say(&params(WRITE, &["1"]), 1);
    assert!(heard[0].starts_with("E 57P01") || heard[0] == "closed", "{heard:?}");
    assert_eq!(run(&url, "select 1 from number where v <> 0"), 0);
}

#[test]
fn too_many_clients_are_refused_as_by_postgresql_and_one_may_still_cancel() {
    let sidecar = Sidecar::to(&server(), &["--max-clients", "1"]);
    let database = numbers();
    let mut first = Wire::log_in(shared(), &sidecar.addr, &database);
    let Err(error) = Wire::try_log_in(shared(), &sidecar.addr, &database) else { panic!() };
    assert!(error.contains("sorry, too many clients already"), "{error}");
    first.begin_query("select pg_sleep(3600)");
    let url = shared().database_url(&database);
    crate::database::wait_for_session(&url, "query like 'select pg_sleep%' and state = 'active'");
    first.cancel(&sidecar.addr);
    assert!(first.hear(1).iter().any(|it| it.starts_with("E 57014")));
}

#[test]
fn a_server_that_is_not_there_or_not_postgresql_is_told_to_the_program() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sidecar = Sidecar::to(&free, &[]);
    let Err(error) = Wire::try_log_in(shared(), &sidecar.addr, "postgres") else { panic!() };
    assert!(error.contains("can't connect to") && error.lines().count() == 1, "{error}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let web = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 64]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        while stream.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
    });
    let sidecar = Sidecar::to(&addr, &[]);
    let Err(error) = Wire::try_log_in(shared(), &sidecar.addr, "postgres") else { panic!() };
    assert!(error.contains("does not speak PostgreSQL"), "{error}");
    drop(sidecar);
    web.join().unwrap();
}

#[test]
fn a_client_that_is_not_one_is_turned_away() {
    let mut sidecar = Sidecar::to(&server(), &[]);
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01\x00", b"\0\0\0\x03\0\0\0\0"]
    {
        let mut stream = connect(&sidecar.addr);
        stream.write_all(bytes).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        sidecar.process.wait_for("does not speak PostgreSQL");
    }
    // TLS is declined, and what comes then is served.
    let mut stream = connect(&sidecar.addr);
    stream.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"N");
}

#[test]
fn wrong_arguments_end_it_with_a_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    for (arguments, word) in [
        (&["--listen", &taken, "--to", "127.0.0.1:1"][..], "is in use"),
        (&["--listen", "0.0.0.0:0", "--to", "127.0.0.1:1"], "--allow-remote"),
        (&["--listen", free, "--to", "127.0.0.1:1", "--early", "commit"], "known are ping, set"),
        (&["--listen", free, "--to", "nowhere.invalid:1"], "nowhere.invalid"),
        (&["--listen", free, "--to", "redis://127.0.0.1"], "only PostgreSQL"),
        (&["--listen", free, "--to", "127.0.0.1:1", "--max-clients", "0"], "--max-clients"),
        (&["--listen", free], "--to"),
    ] {
        let all = [&["sidecar"], arguments].concat();
        let (status, said) = Onetrip::start(&all, Stdio::null()).end();
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
    }
}
