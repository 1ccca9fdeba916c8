//! Clients without TLS, to servers with it and without.

use std::io::{Read, Write};
use std::net::TcpStream;

use onetrip_postgres::message::ssl_request::{GSSENC_REQUEST, SSL_REQUEST};

use super::super::{Mode, TlsArgs};
use super::support::{IS_ENCRYPTED, database, newest};

#[test]
fn a_server_on_this_machine_is_reached_without_tls_and_can_be_read() {
    let Some(database) = database() else { return };
    let profiled = database.profiled(&TlsArgs::default());
    let said = database.psql(profiled.port(), "user=postgres", IS_ENCRYPTED);
    assert_eq!(said.as_deref(), Ok("f"));
    let profile = profiled.end();
    assert_eq!((profile.connections, profile.opaque.len()), (1, 0), "{profile:?}");
    // A startup, two messages of SCRAM, and the query.
    assert!(profile.trips.now >= 4.0, "{:?}", profile.trips);
}

#[test]
fn a_client_without_tls_logs_in_at_a_server_that_wants_it() {
    for database in [database(), newest()].into_iter().flatten() {
        let profiled = database.profiled(&database.certificates.args(Mode::VerifyFull, None));
        let said = database.psql(profiled.port(), "", IS_ENCRYPTED);
        assert_eq!(said.as_deref(), Ok("t"));
        let said = database.psql(profiled.port(), "sslmode=disable", IS_ENCRYPTED);
        assert_eq!(said.as_deref(), Ok("t"));
        assert_eq!(profiled.notes(), [""; 0]);
        let profile = profiled.end();
        assert_eq!((profile.connections, profile.opaque.len()), (2, 0), "{profile:?}");
        assert!(profile.rtt_ms.is_some_and(|it| it > 0.0), "{:?}", profile.rtt_ms);
    }
}

#[test]
fn without_a_relay_the_same_login_is_refused_by_the_client() {
    // So the test above shows that the relay takes the mechanism out.
    let Some(database) = database() else { return };
    let said = database.psql(database.postgres.port(), "channel_binding=require", IS_ENCRYPTED);
    assert_eq!(said.as_deref(), Ok("t"));
    let profiled = database.profiled(&database.certificates.args(Mode::VerifyFull, None));
    let error = database.psql(profiled.port(), "channel_binding=require", IS_ENCRYPTED);
    let error = error.unwrap_err();
    assert!(error.contains("channel binding"), "{error}");
}

#[test]
fn a_client_that_asks_for_encryption_is_told_that_there_is_none() {
    let Some(database) = database() else { return };
    let profiled = database.profiled(&TlsArgs::default());
    let mut client = TcpStream::connect(("127.0.0.1", profiled.port())).unwrap();
    for request in [GSSENC_REQUEST, SSL_REQUEST] {
        client.write_all(&request).unwrap();
        let mut answer = [0];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"N");
    }
    client.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").unwrap();
    let mut answer = [0; 9];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[..1], b"R");
    drop(client);
    let error = database.psql(profiled.port(), "sslmode=require user=postgres", "select 1");
    assert!(error.unwrap_err().contains("server does not support SSL"));
    profiled.wait_for_note("a client asked for TLS and left");
    // One asked, and neither logged in.
    assert_eq!(profiled.end().opaque.len(), 0);
}

#[test]
fn much_data_arrives_unchanged_through_both_relays() {
    let Some(database) = database() else { return };
    let args = database.certificates.args(Mode::VerifyFull, Some("server"));
    let profiled = database.profiled(&args);
    let rows = "select i, md5(i::text), repeat(chr(97 + i % 26), i % 2000) \
                from generate_series(1, 15000) i";
    let out = format!("copy ({rows}) to stdout");
    let direct = database.psql(database.postgres.port(), "", &out).unwrap();
    let relayed = database.psql(profiled.port(), "sslmode=require", &out).unwrap();
    assert!(direct.len() > 15_000_000 && direct == relayed);
    let table = "create temp table t (i int, a text, b text); copy t from stdin; \
                 select md5(string_agg(t::text, ',' order by i)) from t";
    let sum = format!("select md5(string_agg(t::text, ',' order by i)) from ({rows}) t(i, a, b)");
    let file = database.certificates.path("rows");
    std::fs::write(&file, format!("{direct}\n")).unwrap();
    let mut psql = database.psql_command(profiled.port(), "sslmode=require", table);
    let output = psql.stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = database.psql(database.postgres.port(), "", &sum).unwrap();
    assert_eq!(said.lines().last(), Some(&*expected), "{:?}", output.stderr);
    assert_eq!(profiled.end().opaque.len(), 0);
}
