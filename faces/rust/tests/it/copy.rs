//! COPY of raw data in both directions: contents, pace, giving up, failing.

use std::sync::{Arc, Mutex};

use onetrip::{CopyIn, CopyOut, Outcome, Progress};
use tokio::io::AsyncReadExt;

use crate::support::*;

/// All that a COPY sends.
async fn collect(mut copy: CopyOut<'_>) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(piece) = copy.try_next().await.unwrap() {
        data.extend_from_slice(&piece);
    }
    data
}

fn lines(ids: std::ops::Range<i32>) -> String {
    ids.map(|id| format!("{id}\tline {id}\n")).collect()
}

fn into(table: &str) -> String {
    format!("copy {table} from stdin")
}

#[test]
fn what_goes_in_comes_out_byte_by_byte() {
    run(async {
        let (client, t) = (client().await, table("id int, name text").await);
        let data = lines(0..30_000);
        let mut random = Random(7);
        let mut copy = client.copy_in(&into(&t)).await.unwrap();
        let mut rest = data.as_bytes();
        while !rest.is_empty() {
            let len = (random.below(100_000) as usize).min(rest.len());
            copy.send(rest[..len].to_vec()).await.unwrap();
            rest = &rest[len..];
        }
        assert_eq!(copy.finish().await.unwrap(), 30_000);
        let sql = format!("copy (select * from {t} order by id) to stdout");
        let mut copy = client.copy_out(&sql).await.unwrap();
        assert!(!copy.is_binary() && copy.columns() == 2);
        assert_eq!(copy.try_next().await.unwrap().unwrap(), "0\tline 0\n");
        assert_eq!(collect(copy).await, data.as_bytes()[9..]);
        let mut text = String::new();
        client.copy_out(&sql).await.unwrap().read_to_string(&mut text).await.unwrap();
        assert_eq!(text, data);
        assert_usable(&client).await;
    });
}

#[test]
fn a_copy_without_data_copies_nothing() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        assert_eq!(client.copy_in(&into(&t)).await.unwrap().finish().await.unwrap(), 0);
        let out = client.copy_out(&format!("copy {t} to stdout")).await.unwrap();
        assert!(collect(out).await.is_empty());
    });
}

#[test]
fn a_short_copy_takes_one_trip() {
    run(async {
        let (proxy, t) = (proxy(), table("id int").await);
        let mut session = client_through(&proxy, "").await.session().await.unwrap();
        session.query("select 1", &[]).await.unwrap();
        proxy.reset_stats();
        let mut copy = session.copy_in(&into(&t)).await.unwrap();
        copy.send("1\n2\n").await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 2);
        assert_eq!(proxy.stats().trips, 1);
        // If the COPY is the first statement, it waits until the transaction has begun.
        proxy.reset_stats();
        let mut tx = session.begin().await.unwrap();
        let mut copy = tx.copy_in(&into(&t)).await.unwrap();
        copy.send("3\n").await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 1);
        assert_eq!(proxy.stats().trips, 2);
        tx.commit().await.unwrap();
        assert_eq!(ids(&t).await, [1, 2, 3].into());
    });
}

#[test]
fn only_a_copy_of_the_right_direction_is_taken() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let out = format!("copy {t} to stdout");
        for sql in ["select 1", &out, &format!("{}; select 1", into(&t)), "copy t from '/x'"] {
            failed(client.copy_in(sql).await.map(drop), Outcome::NotSent, "no_copy");
        }
        for sql in ["select 1", &into(&t), &format!("{out}; {out}")] {
            failed(client.copy_out(sql).await.map(drop), Outcome::NotSent, "no_copy");
        }
        assert_eq!(
            client.copy_in("copy t2 from stdin").await.unwrap().progress(),
            Progress::default()
        );
        failed(client.query(&out, &[]).await, Outcome::NotSent, "copy");
    });
}

#[test]
fn an_error_of_the_server_is_said_by_the_next_send_or_finish() {
    run(async {
        let t = table("id int check (id < 100000)").await;
        let mut session = session().await;
        rejected(session.copy_out("copy nowhere to stdout").await.map(drop), "42P01");
        let copy = session.copy_in("copy nowhere from stdin").await.unwrap();
        rejected(copy.finish().await, "42P01");
        let mut copy = session.copy_in(&into(&t)).await.unwrap();
        let error = loop {
            if let Err(error) = copy.send("7\nseven\n".repeat(1000)).await {
                break error;
            }
        };
        assert_eq!((error.sqlstate(), error.outcome()), (Some("22P02"), Outcome::Rejected));
        failed(copy.send("8\n").await, Outcome::NotSent, "copy_ended");
        failed(copy.finish().await, Outcome::NotSent, "copy_ended");
        let mut copy = session.copy_in(&into(&t)).await.unwrap();
        copy.send("1\n100000\n").await.unwrap();
        rejected(copy.finish().await, "23514");
        let sql = format!("insert into {t} values (5)");
        assert_eq!(session.execute(&sql, &[]).await.unwrap(), 1);
        assert_eq!(ids(&t).await, [5].into());
    });
}

/// P7. At every stage: nothing sent, some data sent, much data sent, the end.
#[test]
fn a_copy_that_is_dropped_or_aborted_leaves_nothing_and_a_usable_connection() {
    run(async {
        let t = table("id int, name text").await;
        let mut session = session().await;
        for stage in 0..5 {
            for aborts in [false, true] {
                let mut copy = session.copy_in(&into(&t)).await.unwrap();
                match stage {
                    0 => {}
                    1 => copy.send("1\tone\n").await.unwrap(),
                    2 => {
                        copy.send("1\tone\n").await.unwrap();
                        copy.flush().await.unwrap();
                    }
                    // Within a row.
                    3 => copy.send(lines(0..10_000) + "10000\tli").await.unwrap(),
                    _ => {
                        let large = lines(0..100_000);
                        let mut sending = Box::pin(copy.send(large));
                        poll_once(&mut sending).await;
                    }
                }
                match aborts {
                    true => copy.abort("no\0 more").await.unwrap(),
                    false => drop(copy),
                }
                assert_eq!(count(&session, &t).await, 0, "stage {stage}");
            }
        }
        // Dropped while it finishes: either everything stands, or nothing.
        let copy = session.copy_in(&into(&t)).await.unwrap();
        let mut finishing = Box::pin(async {
            let mut copy = copy;
            copy.send(lines(0..10)).await.unwrap();
            copy.finish().await
        });
        poll_once(&mut finishing).await;
        drop(finishing);
        let left = count(&session, &t).await;
        assert!(left == 0 || left == 10, "{left}");
    });
}

#[test]
fn a_copy_that_waits_in_the_queue_can_be_given_up() {
    run(async {
        let (gate, t) = (Gate::closed().await, table("id int").await);
        let client = client_with("in_flight_max=1").await;
        let mut session = client.session().await.unwrap();
        let head = session.query(&gate.statement(), &[]);
        for aborts in [false, true] {
            let mut copy = session.copy_in(&into(&t)).await.unwrap();
            copy.send("2\n").await.unwrap();
            copy.flush().await.unwrap();
            assert_eq!(client.pending().queued, 1);
            match aborts {
                true => copy.abort("never mind").await.unwrap(),
                false => drop(copy),
            }
            assert_eq!(client.pending().queued, 0);
        }
        let waits = async {
            let mut copy = session.copy_in(&into(&t)).await.unwrap();
            copy.send("1\n").await.unwrap();
            copy.finish().await.unwrap()
        };
        let (copied, ()) = tokio::join!(waits, async {
            gate.waiting_pid().await;
            gate.open().await;
        });
        assert_eq!(copied, 1);
        head.await.unwrap();
        assert_eq!(ids(&t).await, [1].into());
    });
}

/// Data waits for a server that takes none of it, because of a lock.
#[test]
fn sending_waits_for_the_server_in_bounded_memory() {
    run(async {
        let gate = Gate::closed().await;
        // Such a long wait is not a stalled peer.
        let client = client_with("stall_timeout_ms=50").await;
        let sql = format!("copy {} from stdin", gate.table);
        let mut copy = client.copy_in(&sql).await.unwrap();
        let data = bytes::Bytes::from("\n".repeat(1 << 20));
        let mut given = 0;
        loop {
            let mut sending = Box::pin(copy.send(data.clone()));
            if !poll_once(&mut sending).await {
                break;
            }
            given += data.len();
            tokio::task::yield_now().await;
            assert!(given < 64 << 20, "nothing stops it");
        }
        // The peer takes nothing for longer than `stall_timeout`.
        client.query("select pg_sleep(0.2)", &[]).await.unwrap();
        gate.open().await;
        let copied = copy.finish().await.unwrap();
        // The data of the dropped `send` is included.
        assert_eq!(copied as usize, given + data.len());
        assert_usable(&client).await;
    });
}

#[test]
fn copies_are_part_of_their_transaction() {
    run(async {
        let t = table("id int").await;
        let mut session = session().await;
        let mut tx = session.begin().await.unwrap();
        let mut copy = tx.copy_in(&into(&t)).await.unwrap();
        copy.send("1\n").await.unwrap();
        copy.finish().await.unwrap();
        // In a savepoint, behind another one whose RELEASE still waits, and in one that is undone.
        for id in [4, 5, 6] {
            let mut savepoint = tx.savepoint();
            let mut copy = savepoint.copy_in(&into(&t)).await.unwrap();
            copy.send(format!("{id}\n")).await.unwrap();
            copy.finish().await.unwrap();
            if id < 6 {
                drop(savepoint.release());
            }
        }
        tx.execute("savepoint s", &[]).await.unwrap();
        // A COPY of which nothing was sent has not failed either.
        tx.copy_in(&into(&t)).await.unwrap().abort("changed my mind").await.unwrap();
        tx.query("select 1", &[]).await.unwrap();
        let mut copy = tx.copy_in(&into(&t)).await.unwrap();
        copy.send("2\n").await.unwrap();
        copy.flush().await.unwrap();
        copy.abort("changed my mind").await.unwrap();
        rejected(tx.query("select 1", &[]).await, "25P02");
        tx.execute("rollback to s", &[]).await.unwrap();
        let mut copy = tx.copy_in(&into(&t)).await.unwrap();
        copy.send("2\n").await.unwrap();
        copy.finish().await.unwrap();
        let out = collect(tx.copy_out(&format!("copy {t} to stdout")).await.unwrap()).await;
        assert_eq!(out, b"1\n4\n5\n2\n");
        drop(tx.copy_out("copy (select generate_series(1, 100000)) to stdout").await.unwrap());
        tx.commit().await.unwrap();
        let mut tx = session.begin().await.unwrap();
        let mut copy = tx.copy_in(&into(&t)).await.unwrap();
        copy.send("3\n").await.unwrap();
        copy.finish().await.unwrap();
        drop(tx);
        assert_eq!(count(&session, &t).await, 4);
    });
}

#[test]
fn where_begin_is_refused_no_copy_runs() {
    run(async {
        let (t, mut session) = (table("id int").await, session().await);
        session
            .query_one("select set_config('default_transaction_read_only', 'on', false)", &[])
            .await
            .unwrap();
        let mut tx = session.begin().await.unwrap();
        let mut copy = tx.copy_in(&into(&t)).await.unwrap();
        copy.send("7\n").await.unwrap();
        rejected(copy.finish().await, "25006");
    });
}

#[test]
fn statements_that_are_submitted_meanwhile_come_after_the_copy() {
    run(async {
        let t = table("id int").await;
        let mut session = session().await;
        // A statement that is closed on the server while the COPY is under way.
        let statement = session.prepare("select 1").await.unwrap();
        session.query(&statement, &[]).await.unwrap();
        let mut copy = session.copy_in(&into(&t)).await.unwrap();
        copy.send("1\n").await.unwrap();
        copy.flush().await.unwrap();
        drop(statement);
        copy.send("2\n").await.unwrap();
        copy.flush().await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 2);
        assert_eq!(count(&session, &t).await, 2);
    });
}

#[test]
fn progress_is_told_in_both_directions() {
    run(async {
        let (client, t) = (client().await, table("id int, name text").await);
        let told = Arc::new(Mutex::new(Vec::new()));
        let (of_in, of_out) = (told.clone(), told.clone());
        let copy = client.copy_in(&into(&t)).await.unwrap();
        let mut copy = copy.on_progress(move |progress| of_in.lock().unwrap().push(progress.bytes));
        let data = lines(0..20_000);
        copy.send(data.clone()).await.unwrap();
        copy.finish().await.unwrap();
        let seen = std::mem::take(&mut *told.lock().unwrap());
        assert!(seen.len() > 2 && seen.is_sorted(), "{seen:?}");
        assert_eq!(seen.last(), Some(&(data.len() as u64)));
        let copy = client.copy_out(&format!("copy {t} to stdout")).await.unwrap();
        let copy = copy.on_progress(move |progress| of_out.lock().unwrap().push(progress.rows));
        assert_eq!(collect(copy).await.len(), data.len());
        assert!(told.lock().unwrap().iter().copied().eq(1..=20_000));
    });
}

#[test]
fn a_copy_whose_server_goes_away_says_whether_it_can_stand() {
    run(async {
        let (client, t) = (client().await, table("id int").await);
        let pid = async |sql: &str| -> i32 {
            let find = "select pid from pg_stat_activity where query = $1";
            let session = session().await;
            loop {
                if let Some(row) = session.query_opt(find, &[&sql]).await.unwrap() {
                    return row.get(0);
                }
            }
        };
        let mut copy = client.copy_in(&into(&t)).await.unwrap();
        copy.send("1\n").await.unwrap();
        copy.flush().await.unwrap();
        terminate(pid(&into(&t)).await).await;
        let error = loop {
            if let Err(error) = copy.send("2\n".repeat(50_000)).await {
                break error;
            }
        };
        // Its end was never sent, so it can't have taken effect.
        assert_eq!((error.outcome(), error.code()), (Outcome::Rejected, "connection_lost"));
        drop(copy);
        let sql = "copy (select generate_series(1, 10000000), repeat('x', 100)) to stdout";
        let mut copy = client.copy_out(sql).await.unwrap();
        copy.try_next().await.unwrap();
        terminate(pid(sql).await).await;
        let error = loop {
            match copy.try_next().await {
                Ok(piece) => assert!(piece.is_some()),
                Err(error) => break error,
            }
        };
        assert_eq!((error.outcome(), error.code()), (Outcome::Unknown, "connection_lost"));
        drop(copy);
        assert!(ids(&t).await.is_empty());
        assert_usable(&client).await;
    });
}

#[test]
fn a_row_of_a_copy_that_is_long_comes_in_pieces() {
    run(async {
        let client = client().await;
        let sql = "copy (select repeat('x', 3000000)) to stdout";
        let mut copy = client.copy_out(sql).await.unwrap();
        let mut pieces = Vec::new();
        while let Some(piece) = copy.try_next().await.unwrap() {
            assert!(piece.iter().all(|byte| matches!(byte, b'x' | b'\n')));
            pieces.push(piece.len());
        }
        assert_eq!(pieces.iter().sum::<usize>(), 3_000_001);
        assert!(pieces.len() > 10 && pieces.iter().all(|len| *len <= 256 << 10), "{pieces:?}");
        assert_eq!(copy.progress(), Progress { bytes: 3_000_001, rows: 1 });
    });
}

#[test]
fn both_directions_are_right_one_byte_at_a_time() {
    use onetrip_lab::proxy::{Direction, Fault, Scope};
    run(async {
        let (proxy, t) = (proxy(), table("id int, name text").await);
        for direction in [Direction::Up, Direction::Down] {
            proxy.fault(Fault::ByteAtATime { direction, on: true }, Scope::All);
        }
        let client = client_through(&proxy, "").await;
        let mut copy: CopyIn<'_> = client.copy_in(&into(&t)).await.unwrap();
        copy.send(lines(0..200)).await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 200);
        let out = client.copy_out(&format!("copy {t} to stdout")).await.unwrap();
        assert_eq!(collect(out).await, lines(0..200).as_bytes());
    });
}
