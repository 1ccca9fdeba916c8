//! Cancelling at the server, and deadlines of single calls: the victim ends, its neighbours don't.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::pooled::shared;
use onetrip::{Cancelled, Client, Kind, Outcome};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Direction, Fault, Proxy, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::certificates::server as tls_server;
use crate::support::*;

const CANCELLED: &str = "57014";
/// Long enough for a statement to be sent. No test waits for more than a few of these.
const SHORT: Duration = Duration::from_millis(50);

/// One connection, so that all statements are neighbours.
async fn narrow(settings: &str) -> Client {
    client_with(&format!("connections_max=1&{settings}")).await
}

/// Waits until no statement waits at the gate.
async fn deserted(gate: &Gate) {
    let client = client().await;
    let sql = "select count(*) from pg_locks where relation = $1::regclass and not granted";
    until(async || {
        let row = client.query_one(sql, &[&gate.table.as_str()]).await.unwrap();
        row.get::<i64>(0) == 0
    })
    .await;
}

#[test]
fn a_statement_that_the_server_runs_is_cancelled() {
    run(async {
        let (client, gate) = (client().await, Gate::closed().await);
        let reply = client.query(&gate.statement(), &[]);
        let canceller = reply.canceller();
        gate.waiting_pid().await;
        assert_eq!(canceller.cancel().await, Cancelled::Yes);
        rejected(reply.await, CANCELLED);
        assert_usable(&client).await;
    });
}

#[test]
fn it_is_cancelled_though_nobody_awaits_the_answer() {
    run(async {
        let (client, gate) = (client().await, Gate::closed().await);
        let reply = client.query(&gate.statement(), &[]);
        // A statement that does not run yet can't be cancelled, and through a pooler it takes
        // longer to start.
        gate.waiting_pid().await;
        drop(reply.canceller().cancel());
        rejected(reply.await, CANCELLED);
    });
}

/// P25. A cancel names a connection, not a statement.
#[test]
fn its_neighbours_on_the_connection_are_answered() {
    run(async {
        let (client, gate) = (narrow("").await, Gate::closed().await);
        let before = client.query_one("select 1", &[]);
        let reply = client.query(&gate.statement(), &[]);
        let behind: Vec<_> = (0..50).map(|i| client.query_one("select $1 + 0", &[&i])).collect();
        gate.waiting_pid().await;
        let cancel = reply.canceller().cancel();
        let later: Vec<_> = (50..99).map(|i| client.query_one("select $1 + 0", &[&i])).collect();
        assert_eq!(cancel.await, Cancelled::Yes);
        rejected(reply.await, CANCELLED);
        assert_eq!(before.await.unwrap().get::<i32>(0), 1);
        for (i, reply) in behind.into_iter().chain(later).enumerate() {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i as i32);
        }
        assert_eq!(client.connections(), 1);
    });
}

#[test]
fn a_statement_in_the_queue_is_taken_back() {
    run(async {
        let (client, gate) = (narrow("in_flight_max=1").await, Gate::closed().await);
        let t = table("id int").await;
        let first = client.query(&gate.statement(), &[]);
        let queued = client.execute(&format!("insert into {t} values (1)"), &[]);
        let parked = client.execute(&format!("insert into {t} values (2)"), &[]);
        assert_eq!(queued.canceller().cancel().await, Cancelled::Yes);
        assert_eq!(parked.canceller().cancel().await, Cancelled::Yes);
        for reply in [queued, parked] {
            assert_eq!(failed(reply.await, Outcome::NotSent, "cancelled").kind(), Kind::Cancelled);
        }
        gate.open().await;
        first.await.unwrap();
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn a_statement_that_waits_for_a_connection_is_taken_back() {
    run(async {
        let client = narrow("").await;
        let session = client.session().await.unwrap();
        let mut reply = client.query_one("select 1", &[]);
        assert!(!poll_once(&mut reply).await);
        let canceller = reply.canceller();
        assert_eq!(canceller.cancel().await, Cancelled::Yes);
        failed(reply.await, Outcome::NotSent, "cancelled");
        assert_eq!(canceller.cancel().await, Cancelled::TooLate);
        drop(session);
        assert_usable(&client).await;
    });
}

/// The handle follows the statement to the connection that it gets.
#[test]
fn a_statement_that_waited_for_its_connection_is_cancelled_there() {
    run(async {
        for polled in [true, false] {
            let (client, gate) = (narrow("").await, Gate::closed().await);
            let session = client.session().await.unwrap();
            let mut reply = client.query(&gate.statement(), &[]);
            let canceller = reply.canceller();
            drop(session);
            gate.waiting_pid().await;
            assert!(!polled || !poll_once(&mut reply).await);
            assert_eq!(canceller.cancel().await, Cancelled::Yes);
            rejected(reply.await, CANCELLED);
        }
    });
}

#[test]
fn a_statement_that_has_ended_is_past_cancelling() {
    run(async {
        let client = client().await;
        let mut reply = client.query_one("select 1", &[]);
        let canceller = reply.canceller();
        until(async || poll_once(&mut reply).await).await;
        assert_eq!(canceller.cancel().await, Cancelled::TooLate);
        drop(reply);
        assert_eq!(canceller.cancel().await, Cancelled::TooLate);
        let reply = client.query_one("select 2", &[]);
        assert_eq!(reply.await.unwrap().get::<i32>(0), 2);
    });
}

#[test]
fn a_cancel_of_a_reply_that_was_dropped_still_counts() {
    run(async {
        let (client, gate) = (client().await, Gate::closed().await);
        let reply = client.query(&gate.statement(), &[]);
        let canceller = reply.canceller();
        gate.waiting_pid().await;
        drop(reply);
        assert_eq!(canceller.cancel().await, Cancelled::Yes);
        deserted(&gate).await;
    });
}

/// A statement that can't be sent again must not be hit, so the one in front of it runs on.
#[test]
fn what_must_not_run_twice_protects_the_statement_in_front_of_it() {
    run(async {
        let (client, gate) = (narrow("").await, Gate::closed().await);
        let t = table("id int").await;
        let procedure = shared().new_name();
        let body = format!("insert into {t} values (1); commit; insert into {t} values (2)");
        let sql =
            format!("create procedure {procedure}() language plpgsql as $$ begin {body}; end $$");
        session().await.script(&sql).await.unwrap();
        let reply = client.query(&gate.statement(), &[]);
        let call = client.execute(&format!("call {procedure}()"), &[]);
        gate.waiting_pid().await;
        assert_eq!(reply.canceller().cancel().await, Cancelled::NotPossible);
        gate.open().await;
        reply.await.unwrap();
        call.await.unwrap();
        assert_eq!(ids(&t).await.len(), 2);
    });
}

#[test]
fn a_pipeline_is_cancelled_as_a_whole_and_only_so() {
    run(async {
        let (client, gate) = (narrow("").await, Gate::closed().await);
        let t = table("id int").await;
        let mut pipeline = client.pipeline();
        let insert = pipeline.execute(&format!("insert into {t} values (1)"), &[]);
        let waits = pipeline.query(&gate.statement(), &[]);
        let one = waits.canceller();
        let canceller = pipeline.canceller();
        assert_eq!(canceller.cancel().await, Cancelled::NotPossible, "its sync point is to come");
        let mut finish = Box::pin(pipeline.finish());
        assert!(!poll_once(&mut finish).await);
        gate.waiting_pid().await;
        assert_eq!(one.cancel().await, Cancelled::NotPossible);
        let neighbour = client.query_one("select 7", &[]);
        assert_eq!(canceller.cancel().await, Cancelled::Yes);
        rejected(finish.await, CANCELLED);
        rejected(waits.await, CANCELLED);
        failed(insert.await, Outcome::Rejected, "rolled_back");
        assert_eq!(neighbour.await.unwrap().get::<i32>(0), 7);
        assert!(ids(&t).await.is_empty());
        assert_eq!(canceller.cancel().await, Cancelled::TooLate);
    });
}

#[test]
fn what_a_session_runs_is_cancelled_from_another_task() {
    run(async {
        let gate = Gate::closed().await;
        let mut session = client().await.session().await.unwrap();
        let canceller = session.canceller();
        assert_eq!(canceller.cancel().await, Cancelled::TooLate, "nothing runs");
        let tx = session.begin().await.unwrap();
        tx.execute("select 1", &[]).await.unwrap();
        let reply = tx.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        assert_eq!(canceller.cancel().await, Cancelled::Yes);
        rejected(reply.await, CANCELLED);
        rejected(tx.query_one("select 1", &[]).await, "25P02");
        tx.rollback().await.unwrap();
        session.query_one("select 1", &[]).await.unwrap();
    });
}

/// P26. BEGIN is in flight with the first statement, and the server keeps its answer in its buffer.
#[test]
fn the_first_statement_of_a_transaction_is_cancelled_behind_its_begin() {
    run(async {
        let gate = Gate::closed().await;
        let mut session = client().await.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let reply = tx.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        assert_eq!(tx.canceller().cancel().await, Cancelled::Yes);
        rejected(reply.await, CANCELLED);
        rejected(tx.query_one("select 1", &[]).await, "25P02");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
    });
}

/// If BEGIN were hit, the second statement would be a transaction of its own.
#[test]
fn a_begin_is_not_risked_with_statements_behind_it() {
    run(async {
        let gate = Gate::closed().await;
        let mut session = client().await.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let reply = tx.query(&gate.statement(), &[]);
        let second = tx.query_one("select 1", &[]);
        gate.waiting_pid().await;
        assert_eq!(tx.canceller().cancel().await, Cancelled::NotPossible);
        gate.open().await;
        reply.await.unwrap();
        second.await.unwrap();
        tx.commit().await.unwrap();
    });
}

#[test]
fn the_canceller_of_a_session_that_is_over_leaves_the_next_one_alone() {
    run(async {
        let (client, gate) = (narrow("").await, Gate::closed().await);
        let session = client.session().await.unwrap();
        session.query_one("select 1", &[]).await.unwrap();
        let canceller = session.canceller();
        drop(session);
        let session = client.session().await.unwrap();
        let reply = session.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        assert_eq!(canceller.cancel().await, Cancelled::TooLate);
        gate.open().await;
        reply.await.unwrap();
    });
}

/// P30.
#[test]
fn a_late_statement_is_cancelled_and_its_neighbours_are_answered() {
    run(async {
        let (client, gate) = (narrow("").await, Gate::closed().await);
        let late = client.timeout(SHORT).query(&gate.statement(), &[]);
        let behind = client.query_one("select 2", &[]);
        assert_eq!(failed(late.await, Outcome::Unknown, "timeout").kind(), Kind::Timeout);
        // The gate is still closed.
        assert_eq!(behind.await.unwrap().get::<i32>(0), 2);
        assert_eq!(client.connections(), 1);
        deserted(&gate).await;
    });
}

#[test]
fn a_late_statement_runs_on_where_that_is_wanted() {
    run(async {
        for settings in ["cancel_on_timeout=0", "cancels_max=0"] {
            let (client, gate) = (narrow(settings).await, Gate::closed().await);
            let late = client.timeout(SHORT).query(&gate.statement(), &[]);
            failed(late.await, Outcome::Unknown, "timeout");
            let mut behind = client.query_one("select 2", &[]);
            gate.waiting_pid().await;
            assert!(!poll_once(&mut behind).await);
            gate.open().await;
            behind.await.unwrap();
        }
    });
}

#[test]
fn without_cancels_none_is_possible() {
    run(async {
        let (client, gate) = (narrow("cancels_max=0").await, Gate::closed().await);
        let reply = client.query(&gate.statement(), &[]);
        assert_eq!(reply.canceller().cancel().await, Cancelled::NotPossible);
        gate.open().await;
        reply.await.unwrap();
    });
}

/// P28. A deadline covers all of the waiting.
#[test]
fn a_deadline_covers_the_wait_for_a_connection_and_in_the_queue() {
    run(async {
        let client = narrow("in_flight_max=1").await;
        let session = client.session().await.unwrap();
        let late = client.timeout(SHORT).query_one("select 1", &[]).await;
        let error = error(late);
        assert_eq!((error.kind(), error.outcome()), (Kind::Timeout, Outcome::NotSent), "{error}");
        drop(session);
        let gate = Gate::closed().await;
        let first = client.query(&gate.statement(), &[]);
        let queued = client.timeout(SHORT).query_one("select 1", &[]);
        failed(queued.await, Outcome::NotSent, "timeout");
        gate.open().await;
        first.await.unwrap();
    });
}

#[test]
fn a_deadline_of_a_call_goes_before_that_of_all() {
    run(async {
        let one = "request_timeout_ms=30&connections_max=1";
        let (client, gate) = (client_with(one).await, Gate::closed().await);
        let patient = client.timeout(Duration::MAX);
        let reply = patient.query(&gate.statement(), &[]);
        failed(client.query(&gate.statement(), &[]).await, Outcome::Unknown, "timeout");
        gate.waiting_pid().await;
        gate.open().await;
        reply.await.unwrap();
    });
}

#[test]
fn sessions_transactions_and_pipelines_have_deadlines_of_calls_too() {
    run(async {
        let gate = Gate::closed().await;
        let mut session = client().await.session().await.unwrap();
        let late = session.timeout(SHORT).query(&gate.statement(), &[]);
        failed(late.await, Outcome::Unknown, "timeout");
        session.query_one("select 1", &[]).await.unwrap();
        let tx = session.begin().await.unwrap();
        let late = tx.timeout(SHORT).query(&gate.statement(), &[]);
        failed(late.await, Outcome::Unknown, "timeout");
        failed(tx.commit().await, Outcome::Rejected, "rolled_back");
        let client = client().await;
        let mut pipeline = client.timeout(SHORT).pipeline();
        let reply = pipeline.query(&gate.statement(), &[]);
        failed(pipeline.finish().await, Outcome::Unknown, "timeout");
        failed(reply.await, Outcome::Unknown, "timeout");
        gate.open().await;
    });
}

#[test]
fn a_dropped_statement_is_cancelled_only_where_that_is_wanted() {
    run(async {
        let gate = Gate::closed().await;
        let client = narrow("cancel_on_drop=1").await;
        let reply = client.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        drop(reply);
        assert_usable(&client).await;
        deserted(&gate).await;

        let client = narrow("").await;
        let reply = client.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        drop(reply);
        let mut behind = client.query_one("select 1", &[]);
        gate.waiting_pid().await;
        assert!(!poll_once(&mut behind).await);
        gate.open().await;
        behind.await.unwrap();
    });
}

/// A server behind a proxy; the client connects, and then can't reach the server any more.
async fn cut_off(fault: Fault) -> (Proxy, Client, Gate) {
    let proxy = proxy();
    let client = client_through(&proxy, "connections_max=1&cancel_timeout_ms=100").await;
    assert_usable(&client).await;
    proxy.fault(fault, Scope::Future);
    (proxy, client, Gate::closed().await)
}

#[test]
fn a_server_that_takes_no_cancel_holds_nobody_up() {
    run(async {
        for fault in [
            Fault::CutAfter { direction: Direction::Down, bytes: 0 },
            Fault::ResetAfter { direction: Direction::Down, bytes: 0 },
        ] {
            let (proxy, client, gate) = cut_off(fault).await;
            let late = client.timeout(SHORT).query(&gate.statement(), &[]);
            let behind = client.query_one("select 1", &[]);
            failed(late.await, Outcome::Unknown, "timeout");
            gate.open().await;
            behind.await.unwrap();
            // If the cancel was cut off after it was sent, the connection is not used further.
            proxy.clear_faults();
            assert_usable(&client).await;
        }
    });
}

/// The cancel was sent, and it is not known what became of it.
#[test]
fn a_connection_is_not_used_on_where_a_cancel_went_astray() {
    run(async {
        let stall = Fault::Stall { direction: Direction::Up };
        let (proxy, client, gate) = cut_off(stall).await;
        let before = pid_of(&client).await;
        let reply = client.query(&gate.statement(), &[]);
        gate.waiting_pid().await;
        let cancel = reply.canceller().cancel();
        // Until the cancel is sent, statements are sent.
        let mut behind = Vec::new();
        until(async || {
            behind.push(client.query_one("select $1 + 0", &[&(behind.len() as i32)]));
            client.pending().queued > 0
        })
        .await;
        // Statements are sent again once the cancel's time is up.
        until(async || client.pending().queued == 0).await;
        proxy.clear_faults();
        gate.open().await;
        // Now the cancel may arrive, and hit whatever runs.
        match reply.await {
            Ok(_) => assert_eq!(cancel.await, Cancelled::TooLate),
            Err(error) => assert_eq!(error.sqlstate(), Some(CANCELLED)),
        }
        for (i, reply) in behind.into_iter().enumerate() {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i as i32);
        }
        until(async || pid_of(&client).await != before).await;
    });
}

#[test]
fn a_server_that_is_killed_meanwhile_ends_everything_and_nothing_hangs() {
    run(async {
        let server = PrivatePostgres::start(Options::default()).unwrap();
        let client =
            Client::connect(&format!("{}?connections_max=1&wait_timeout_ms=2000", server.url()))
                .await
                .unwrap();
        let reply = client.query("select pg_sleep(60)", &[]);
        let behind = client.query_one("select 1", &[]);
        let canceller = reply.canceller();
        let cancel = tokio::spawn(async move { canceller.cancel().await });
        drop(server);
        let error = error(reply.await);
        assert!(error.is_connection_lost() || error.sqlstate() == Some(CANCELLED), "{error}");
        let _ = behind.await;
        let _ = cancel.await.unwrap();
    });
}

/// Passes bytes on, and keeps the first bytes of each client.
async fn eavesdropper(port: u16) -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let all = heard.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let all = all.clone();
            tokio::spawn(async move {
                let mut first = [0; 8];
                client.read_exact(&mut first).await.unwrap();
                all.lock().unwrap().push(first.to_vec());
                let mut server =
                    TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
                server.write_all(&first).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address.port(), heard)
}

/// P27. A cancel has TLS if the connection has it, and goes to the same address.
#[test]
fn a_cancel_goes_the_way_that_its_connection_went() {
    run(async {
        const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
        let server = tls_server();
        for (sslmode, encrypted) in [("require", true), ("disable", false)] {
            let (port, heard) = eavesdropper(server.postgres.port()).await;
            let settings = format!("sslmode={sslmode} port={port} max_protocol_version=latest");
            let client = Client::connect_with(&server.config(&settings)).await.unwrap();
            let reply = client.query("select pg_sleep(60)", &[]);
            let (pid, canceller) = (pid_of_sleeper(server).await, reply.canceller());
            assert_eq!(canceller.cancel().await, Cancelled::Yes, "{sslmode} {pid}");
            rejected(reply.await, CANCELLED);
            let heard = heard.lock().unwrap();
            assert_eq!(heard.len(), 2);
            assert_eq!(heard[1] == SSL_REQUEST, encrypted, "{sslmode}");
        }
    });
}

/// The process that sleeps, as soon as one does.
async fn pid_of_sleeper(server: &crate::certificates::TlsServer) -> i32 {
    let client = Client::connect_with(&server.config("sslmode=disable")).await.unwrap();
    let sql = "select pid from pg_stat_activity where wait_event = 'PgSleep'";
    loop {
        match client.query_opt(sql, &[]).await.unwrap() {
            Some(row) => return row.get(0),
            None => tokio::task::yield_now().await,
        }
    }
}
