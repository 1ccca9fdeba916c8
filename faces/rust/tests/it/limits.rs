//! The window, the queue and the deadline.

use onetrip::{Kind, Outcome};

use crate::support::*;

#[test]
fn a_window_of_one_sends_one_after_the_other() {
    run(async {
        let client = client_with("connections_max=1&in_flight_max=1").await;
        let replies: Vec<_> = (0..300).map(|i| client.query_one("select $1", &[&i])).collect();
        assert_eq!(client.pending().in_flight, 1);
        assert_eq!(client.pending().queued, 299);
        for (i, reply) in (0..300).zip(replies) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), i);
        }
        let pending = client.pending();
        assert_eq!((pending.in_flight, pending.queued, pending.waiting), (0, 0, 0));
    });
}

#[test]
fn a_full_queue_refuses_and_what_it_took_still_runs() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client =
            client_with("connections_max=1&in_flight_max=1&queue_max=3&when_full=refuse").await;
        let head = client.query(&gate.statement(), &[]);
        let insert = format!("insert into {t} values ($1)");
        let replies: Vec<_> = (0..6).map(|id| client.execute(&insert, &[&id])).collect();
        gate.open().await;
        head.await.unwrap();
        for (id, reply) in replies.into_iter().enumerate() {
            match id < 3 {
                true => assert_eq!(reply.await.unwrap(), 1),
                false => {
                    let error = failed(reply.await, Outcome::NotSent, "queue_full");
                    assert!(error.is_retry_safe() && error.kind() == Kind::Misuse);
                    assert!(error.to_string().contains("queue_max"), "{error}");
                }
            }
        }
        assert_eq!(ids(&t).await, [0, 1, 2].into());
        assert_usable(&client).await;
    });
}

#[test]
fn a_full_queue_lets_callers_wait_in_their_order() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1&in_flight_max=1&queue_max=2").await;
        let t = table("place serial, id int").await;
        let head = client.query(&gate.statement(), &[]);
        let insert = format!("insert into {t} (id) values ($1)");
        let replies: Vec<_> = (0..30).map(|id| client.execute(&insert, &[&id])).collect();
        let pending = client.pending();
        assert_eq!((pending.in_flight, pending.queued, pending.waiting), (1, 2, 28));
        assert!(pending.is_full);
        gate.open().await;
        client.drained().await;
        assert!(!client.pending().is_full);
        head.await.unwrap();
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        let rows = client.query(&format!("select id from {t} order by place"), &[]).await.unwrap();
        assert!(rows.iter().map(|row| row.get::<i32>(0)).eq(0..30));
    });
}

#[test]
fn drained_resolves_at_once_where_nothing_is_full() {
    run(async {
        let client = client().await;
        client.drained().await;
        let reply = client.query("select 1", &[]);
        client.drained().await;
        reply.await.unwrap();
    });
}

#[test]
fn everyone_who_waits_for_drained_is_told_also_when_the_connection_ends() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1&in_flight_max=1&queue_max=1").await;
        let replies: Vec<_> = (0..4).map(|_| client.query(&gate.statement(), &[])).collect();
        let drained = async {
            let mut given_up = Box::pin(client.drained());
            assert!(!poll_once(&mut given_up).await);
            drop(given_up);
            tokio::join!(client.drained(), client.drained());
        };
        let ended = async { terminate(gate.waiting_pid().await).await };
        tokio::join!(drained, ended);
        // What was not sent goes on elsewhere, or says so.
        gate.open().await;
        for (number, reply) in replies.into_iter().enumerate() {
            let ended = reply.await.map_err(|error| error.outcome());
            match number {
                0 => assert_eq!(ended.err(), Some(Outcome::Unknown)),
                _ => assert!(matches!(ended, Ok(_) | Err(Outcome::NotSent)), "{number}"),
            }
        }
    });
}

#[test]
fn the_window_counts_bytes_too() {
    run(async {
        let gate = Gate::closed().await;
        let client = client_with("connections_max=1&in_flight_bytes_max=2000").await;
        let head = client.query(&gate.statement(), &[]);
        let text = "x".repeat(900);
        let replies: Vec<_> = (0..10).map(|_| client.query_one("select $1", &[&text])).collect();
        assert!(client.pending().in_flight <= 3, "{:?}", client.pending());
        gate.open().await;
        head.await.unwrap();
        for reply in replies {
            assert_eq!(reply.await.unwrap().get::<&str>(0), text);
        }
        // A request that is larger than the window travels alone.
        let large = "y".repeat(10_000);
        let (a, b) =
            (client.query_one("select $1", &[&large]), client.query_one("select $1", &[&large]));
        assert_eq!(a.await.unwrap().get::<&str>(0), large);
        assert_eq!(b.await.unwrap().get::<&str>(0), large);
    });
}

#[test]
fn a_queue_of_few_bytes_refuses_what_does_not_fit() {
    run(async {
        let gate = Gate::closed().await;
        let client =
            client_with("connections_max=1&in_flight_max=1&queue_bytes_max=3000&when_full=refuse")
                .await;
        let head = client.query(&gate.statement(), &[]);
        let text = "x".repeat(1000);
        let replies: Vec<_> = (0..10).map(|_| client.query("select $1", &[&text])).collect();
        gate.open().await;
        head.await.unwrap();
        let mut refused = 0;
        for reply in replies {
            if let Err(error) = reply.await {
                assert_eq!((error.outcome(), error.code()), (Outcome::NotSent, "queue_full"));
                refused += 1;
            }
        }
        assert!((6..9).contains(&refused), "{refused}");
        assert_usable(&client).await;
    });
}

#[test]
fn what_is_dropped_in_the_queue_is_never_sent() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("connections_max=1&in_flight_max=1&queue_max=4").await;
        let head = client.query(&gate.statement(), &[]);
        let insert = format!("insert into {t} values ($1)");
        // Four are queued and six wait for room; some of both are taken back.
        let mut replies: Vec<_> = (0..10).map(|id| Some(client.execute(&insert, &[&id]))).collect();
        for id in [0, 2, 5, 9] {
            replies[id] = None;
        }
        gate.open().await;
        head.await.unwrap();
        for reply in replies.into_iter().flatten() {
            assert_eq!(reply.await.unwrap(), 1);
        }
        assert_eq!(ids(&t).await, [1, 3, 4, 6, 7, 8].into());
    });
}

#[test]
fn a_deadline_that_passes_in_the_queue_means_not_sent_and_it_never_runs() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client =
            client_with("connections_max=1&in_flight_max=1&queue_max=2&cancel_on_timeout=0&request_timeout_ms=200")
                .await;
        let head = client.query(&gate.statement(), &[]);
        let insert = format!("insert into {t} values ($1)");
        let replies: Vec<_> = (0..5).map(|id| client.execute(&insert, &[&id])).collect();
        let error = failed(head.await, Outcome::Unknown, "timeout");
        assert_eq!(error.kind(), Kind::Timeout);
        for reply in replies {
            failed(reply.await, Outcome::NotSent, "timeout");
        }
        gate.open().await;
        assert_usable(&client).await;
        assert!(ids(&t).await.is_empty());
        assert!(!client.is_closed());
    });
}

/// P28. A sent request can't be taken off the wire: it keeps its place.
#[test]
fn a_deadline_that_passes_leaves_later_replies_in_their_places() {
    run(async {
        let gate = Gate::closed().await;
        let client =
            client_with("connections_max=1&cancel_on_timeout=0&request_timeout_ms=300").await;
        let late: Vec<_> = (0..20).map(|_| client.query(&gate.statement(), &[])).collect();
        for reply in late {
            failed(reply.await, Outcome::Unknown, "timeout");
        }
        gate.open().await;
        for i in 0..50 {
            assert_eq!(client.query_one("select $1", &[&i]).await.unwrap().get::<i32>(0), i);
        }
    });
}

#[test]
fn a_pipeline_whose_deadline_passes_ends() {
    run(async {
        let gate = Gate::closed().await;
        let client =
            client_with("connections_max=1&cancel_on_timeout=0&request_timeout_ms=200").await;
        let mut pipeline = client.pipeline();
        let waits = pipeline.query(&gate.statement(), &[]);
        let behind = pipeline.query("select 1", &[]);
        let error = failed(pipeline.finish().await, Outcome::Unknown, "timeout");
        assert_eq!(error.kind(), Kind::Timeout);
        failed(waits.await, Outcome::Unknown, "timeout");
        failed(behind.await, Outcome::Unknown, "timeout");
        gate.open().await;
        assert_usable(&client).await;
    });
}

#[test]
fn callers_that_wait_have_a_limit_in_bytes() {
    run(async {
        let gate = Gate::closed().await;
        let client =
            client_with("connections_max=1&in_flight_max=1&queue_max=1&waiting_bytes_max=1000000")
                .await;
        let head = client.query(&gate.statement(), &[]);
        let text = "x".repeat(100_000);
        let replies: Vec<_> =
            (0..100).map(|_| client.query_one("select length($1)", &[&text])).collect();
        assert!((8..12).contains(&client.pending().waiting), "{:?}", client.pending());
        gate.open().await;
        head.await.unwrap();
        let mut refused = 0;
        for reply in replies {
            match reply.await {
                Ok(row) => assert_eq!(row.get::<i32>(0), 100_000),
                Err(error) => {
                    assert_eq!((error.outcome(), error.code()), (Outcome::NotSent, "queue_full"));
                    refused += 1;
                }
            }
        }
        assert!((85..95).contains(&refused), "{refused}");
        // Their memory is released.
        let row = client.query_one("select length($1)", &[&text]).await.unwrap();
        assert_eq!((row.get::<i32>(0), client.pending().waiting), (100_000, 0));
    });
}
