//! The worst failure of a pipelining client: rows of another caller. Everything that can be sent is
//! mixed over few connections, and each reply has to name the request that gets it.

use std::time::Duration;

use onetrip::{Client, Error, Kind, Row, Statement};

use crate::support::*;

/// How many tasks share the connections.
const TASKS: i32 = 12;
/// How many requests each makes.
const REQUESTS: i32 = 120;

/// P35. Pipelined rows that reach the wrong caller are worse than none.
#[test]
fn every_reply_of_any_mixture_names_its_own_request() {
    let seed = std::env::var("ONETRIP_SEED").map_or(35, |seed| seed.parse().unwrap());
    println!("seed {seed}; another by ONETRIP_SEED");
    run_long(Duration::from_secs(60), async move {
        for settings in ["connections_max=1", "connections_max=3&in_flight_max=7"] {
            let client =
                client_with(&format!("{settings}&prepare_threshold=3&prepared_max=4")).await;
            let statement = client.prepare("select $1::int, 'prepared'").await.unwrap();
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let random = Random(seed ^ u64::from(task.unsigned_abs()) << 32);
                    let caller = Caller { client: client.clone(), statement: statement.clone() };
                    tokio::spawn(caller.mix(task * REQUESTS, random))
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
}

struct Caller {
    client: Client,
    statement: Statement,
}

impl Caller {
    /// Makes requests with the tags from `first` on.
    async fn mix(self, first: i32, mut random: Random) {
        for tag in first..first + REQUESTS {
            match random.below(10) {
                0 | 1 => self.unprepared(tag).await,
                2 => self.several_at_once(tag, &mut random).await,
                3 => self.prepared(tag).await,
                4 => self.error(tag).await,
                5 => self.pipeline(tag, random.below(2) == 0).await,
                6 => self.dropped(tag),
                7 => self.late(tag).await,
                8 => self.session(tag).await,
                _ => self.stream(tag).await,
            }
        }
    }

    /// Few texts, so that they are prepared by counting, closed, and prepared again.
    async fn unprepared(&self, tag: i32) {
        let row = self.client.query_one(&text(tag), &[&tag]).await.unwrap();
        assert_own(&row, tag, tag);
    }

    /// Statements of every kind, whose replies are awaited in another order than they were made.
    async fn several_at_once(&self, tag: i32, random: &mut Random) {
        let text = text(tag);
        let mut replies: Vec<_> = (0..8)
            .map(|i| match i % 2 {
                0 => (i, self.client.query_one(&text, &[&(tag * 8 + i)])),
                _ => (i, self.client.query_one(&self.statement, &[&(tag * 8 + i)])),
            })
            .collect();
        while !replies.is_empty() {
            let (i, reply) = replies.swap_remove(random.below(replies.len() as u64) as usize);
            assert_eq!(reply.await.unwrap().get::<i32>(0), tag * 8 + i);
        }
    }

    async fn prepared(&self, tag: i32) {
        let row = self.client.query_one(&self.statement, &[&tag]).await.unwrap();
        assert_eq!((row.get::<i32>(0), row.get::<&str>(1)), (tag, "prepared"));
    }

    /// Each error is the request's own, too.
    async fn error(&self, tag: i32) {
        let reply = self.client.query("select $1::text::int", &[&format!("tag {tag}")]);
        assert_names(reply.await.map(drop), tag);
    }

    async fn pipeline(&self, tag: i32, fails: bool) {
        let mut pipeline = self.client.pipeline();
        let first = pipeline.query_one(&text(tag), &[&tag]);
        let second = pipeline.query_one(&self.statement, &[&tag]);
        let failing =
            fails.then(|| pipeline.query("select $1::text::int", &[&format!("tag {tag}")]));
        let finished = pipeline.finish().await;
        match failing {
            Some(failing) => {
                assert_names(finished, tag);
                assert_names(failing.await.map(drop), tag);
                assert!(first.await.is_err() && second.await.is_err());
            }
            None => {
                finished.unwrap();
                assert_own(&first.await.unwrap(), tag, tag);
                assert_eq!(second.await.unwrap().get::<i32>(0), tag);
            }
        }
    }

    fn dropped(&self, tag: i32) {
        drop(self.client.query_one(&text(tag), &[&-tag]));
    }

    /// A statement that may be late: its answer is its own.
    async fn late(&self, tag: i32) {
        let hasty = self.client.timeout(Duration::from_micros(300));
        let sql = "select $1::int, pg_sleep(0.0003)";
        match hasty.query_one(sql, &[&tag]).await {
            Ok(row) => assert_eq!(row.get::<i32>(0), tag),
            Err(error) => assert_eq!(error.kind(), Kind::Timeout, "{error}"),
        }
    }

    async fn session(&self, tag: i32) {
        let session = self.client.session().await.unwrap();
        let reply = session.query_one(&text(tag), &[&tag]);
        let results = session.script(&format!("select {tag}; select {tag} + 1"));
        let behind = session.query_one(&self.statement, &[&tag]);
        assert_own(&reply.await.unwrap(), tag, tag);
        let results = results.await.unwrap();
        assert_eq!(results[0].rows, [[Some(tag.to_string())]]);
        assert_eq!(results[1].rows, [[Some((tag + 1).to_string())]]);
        assert_eq!(behind.await.unwrap().get::<i32>(0), tag);
    }

    /// Some streams are dropped early.
    async fn stream(&self, tag: i32) {
        let sql = "select $1::int, i from generate_series(1, 50) i";
        let mut rows = self.client.query_stream(sql, &[&tag]).await.unwrap();
        for i in 1..=if tag % 2 == 0 { 50 } else { 10 } {
            let row = rows.try_next().await.unwrap().unwrap();
            assert_eq!((row.get::<i32>(0), row.get::<i32>(1)), (tag, i));
        }
    }
}

fn text(tag: i32) -> String {
    format!("select $1::int, {}", tag % 7)
}

/// Checks for a row of `text(tag)` with the requested number.
#[track_caller]
fn assert_own(row: &Row, number: i32, tag: i32) {
    assert_eq!((row.get::<i32>(0), row.get::<i32>(1)), (number, tag % 7));
}

/// Checks for an error of the server that quotes this tag.
#[track_caller]
fn assert_names(result: Result<(), Error>, tag: i32) {
    let error = error(result);
    let message = error.server().map(|server| server.message.clone()).unwrap_or_default();
    assert!(message.ends_with(&format!("\"tag {tag}\"")), "tag {tag}: {error}: {message}");
}
