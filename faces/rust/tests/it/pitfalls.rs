//! Troubles that other drivers ran into and that belong to no single feature here: what blocks
//! what, who is told of a failure, how a connection is closed. docs/reference/pitfalls.md lists
//! them all.

use std::io::ErrorKind;
use std::time::Duration;

use onetrip::{Client, Error, Kind, Outcome};
use onetrip_lab::postgres::shared;
use onetrip_lab::proxy::{Direction, Fault, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::*;

/// P2. While a server sends it reads nothing, even if what it sends is no reply: a client that
/// stops reading until everything is sent waits for ever.
#[test]
fn notices_that_fill_every_buffer_do_not_stop_a_long_send() {
    run(async {
        let talk = shared().new_name();
        let function = format!(
            "create function {talk}(bytea) returns int language plpgsql as $$ begin
                for i in 1..40 loop raise notice '%', repeat('n', 100000); end loop;
                return octet_length($1); end $$"
        );
        session().await.execute(&function, &[]).await.unwrap();
        // No limit of the client holds any of it back.
        let client = client_with("in_flight_bytes_max=100000000&connections_max=1").await;
        let value = vec![7_u8; 1_000_000];
        let sql = format!("select {talk}($1)");
        let replies: Vec<_> = (0..20).map(|_| client.query_one(&sql, &[&value])).collect();
        for reply in replies {
            assert_eq!(reply.await.unwrap().get::<i32>(0), 1_000_000);
        }
    });
}

/// P30. A deadline that only forgets its statement leaves a pool of connections that are busy for
/// nobody; one that closes them causes a storm of new ones.
#[test]
fn late_statements_neither_use_up_a_pool_nor_its_connections() {
    run(async {
        // A statement that prepares itself could not be sent again, so it would not be put at risk.
        let client = client_with("connections_max=2&prepare_threshold=0").await;
        let gate = Gate::closed().await;
        for round in 0..5 {
            let late = client.timeout(Duration::from_millis(20));
            let replies: Vec<_> = (0..4).map(|_| late.query(&gate.statement(), &[])).collect();
            for reply in replies {
                assert_eq!(error(reply.await).kind(), Kind::Timeout);
            }
            // The gate stays closed, and the next caller gets its own reply.
            let row = client.query_one("select $1::int", &[&round]).await.unwrap();
            assert_eq!(row.get::<i32>(0), round);
        }
        let metrics = client.metrics();
        assert!(metrics.opened <= 2 && metrics.lost == 0, "{metrics:?}");
    });
}

/// P33. A transaction that began unnoticed includes statements of strangers that are on the same
/// connection already. The server here reports an open transaction after an innocent statement.
#[test]
fn nobody_goes_on_behind_a_transaction_that_slipped_through() {
    const BEGUN: &[u8] = b"1\0\0\0\x042\0\0\0\x04n\0\0\0\x04C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05T";
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            welcome(&mut stream).await;
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            // The stranger's answer comes in the same read.
            stream.write_all(&[BEGUN, BEGUN].concat()).await.unwrap();
            while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
        });
        let url = format!("postgres://me@127.0.0.1:{port}/db?sslmode=disable&connections_max=1");
        let client = Client::connect(&url).await.unwrap();
        let (first, second) = (client.execute("select 1", &[]), client.execute("select 2", &[]));
        assert_eq!(first.await.unwrap(), 0);
        let error = failed(second.await, Outcome::Unknown, "connection_lost");
        assert!(error.to_string().contains("began a transaction"), "{error}");
        server.await.unwrap();
    });
}

/// P36. If one writer serves all connections, one whose peer takes nothing holds up the others.
#[test]
fn a_connection_that_can_not_write_holds_no_other_up() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=3").await;
        let stuck = client.session().await.unwrap();
        let pid: i32 = stuck.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        // It is the only connection so far.
        proxy.fault(Fault::Stall { direction: Direction::Up }, Scope::Present);
        let huge = vec![7_u8; 50_000_000];
        let waits = stuck.query_one("select octet_length($1::bytea)", &[&huge]);
        for number in 0..100 {
            let row = client.query_one("select $1, pg_backend_pid()", &[&number]).await.unwrap();
            assert_eq!(row.get::<i32>(0), number);
            assert_ne!(row.get::<i32>(1), pid);
        }
        proxy.fault(Fault::Resume { direction: Direction::Up }, Scope::All);
        assert_eq!(waits.await.unwrap().get::<i32>(0), 50_000_000);
    });
}

/// P37. If no connection can be opened, all callers that wait must be told, not only the one that
/// asked for it.
#[test]
fn everyone_who_waits_hears_once_that_nobody_is_let_in() {
    run(async {
        let (role, owner) = (shared().new_name(), session().await);
        let create = format!("create role {role} login password 'pw'");
        owner.execute(&create, &[]).await.unwrap();
        let url = format!("postgres://{role}:pw@127.0.0.1:{}/postgres", shared().port());
        let client = Client::connect(&format!("{url}?connections_max=3")).await.unwrap();
        owner.execute(&format!("alter role {role} nologin"), &[]).await.unwrap();
        terminate(pid_of(&client).await).await;
        until(async || client.is_closed()).await;
        let sessions: Vec<_> = (0..20).map(|_| client.session()).collect();
        let statements: Vec<_> = (0..20).map(|_| client.query("select 1", &[])).collect();
        let pipelines: Vec<_> = (0..20)
            .map(|_| {
                let mut pipeline = client.pipeline();
                (pipeline.query("select 1", &[]), pipeline.finish())
            })
            .collect();
        for session in sessions {
            assert_not_let_in(session.await.map(drop));
        }
        for statement in statements {
            assert_not_let_in(statement.await.map(drop));
        }
        for (reply, finish) in pipelines {
            assert_not_let_in(finish.await);
            assert_not_let_in(reply.await.map(drop));
        }
        let pending = client.pending();
        assert_eq!((pending.in_flight, pending.queued, pending.waiting), (0, 0, 0));
        assert_eq!(
            client.metrics().counts.failed_in_all(),
            client.metrics().counts.failed_not_sent
        );
        // Nor is anybody told again once the pause behind a failure is over.
        owner.execute(&format!("alter role {role} login"), &[]).await.unwrap();
        until(async || client.query("select 1", &[]).await.is_ok()).await;
        assert_usable(&client).await;
    });
}

#[track_caller]
fn assert_not_let_in(result: Result<(), Error>) {
    let error = error(result);
    assert_eq!((error.outcome(), error.sqlstate()), (Outcome::NotSent, Some("28000")), "{error}");
}

/// What a server without a password, which answers nothing, sees of a client that leaves: the bytes
/// behind the startup, and how the stream ended. With `says` the server still sends something when
/// it is told goodbye, again and again.
async fn leaving(says: &'static [u8]) -> (Vec<u8>, Result<(), ErrorKind>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server =
        tokio::spawn(async move { see_off(listener.accept().await.unwrap().0, says).await });
    let url = format!("postgres://me@127.0.0.1:{port}/db?sslmode=disable");
    drop(Client::connect(&url).await.unwrap());
    server.await.unwrap()
}

async fn see_off(mut stream: TcpStream, says: &[u8]) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut buffer = [0; 4096];
    welcome(&mut stream).await;
    let len = stream.read(&mut buffer).await.unwrap();
    let heard = buffer[..len].to_vec();
    // While it sends, a line that was reset shows as an error of the next write.
    for _ in 0..if says.is_empty() { 0 } else { 20 } {
        if let Err(error) = stream.write_all(says).await {
            return (heard, Err(error.kind()));
        }
        tokio::task::yield_now().await;
    }
    let end = loop {
        match stream.read(&mut buffer).await {
            Ok(0) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error.kind()),
        }
    };
    (heard, end)
}

/// Lets a client in without a password.
async fn welcome(stream: &mut TcpStream) {
    assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    let ready = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
    stream.write_all(ready).await.unwrap();
}

const TERMINATE: &[u8] = b"X\0\0\0\x04";

/// P31. If a socket is closed while bytes lie in it, or still come, it is reset, and proxies and
/// servers log that as a failure.
#[test]
fn a_client_that_leaves_says_goodbye_and_ends_the_line_in_the_orderly_way() {
    run(async {
        assert_eq!(leaving(b"").await, (TERMINATE.to_vec(), Ok(())));
    });
}

/// P31. The client reads what a server still sends.
#[test]
fn a_line_on_which_the_server_still_talks_is_not_reset() {
    const NOTICE: &[u8] = b"N\0\0\0\x0bMbye.\0\0";
    run(async {
        assert_eq!(leaving(NOTICE).await, (TERMINATE.to_vec(), Ok(())));
    });
}
