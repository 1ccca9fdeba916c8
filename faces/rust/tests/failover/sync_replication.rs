//! A commit of which the server says that it no longer waited for a synchronous standby. It stands
//! on this server, and a failover may lose it: so nobody is told that it is done.

use onetrip::{Client, Error, Outcome, Session};
use onetrip_lab::postgres::{Options, PrivatePostgres};

use crate::support::*;

const CODE: &str = "sync_replication_canceled";

/// A server whose commits wait for a standby that does not exist, a client of it, and a session
/// that does not wait.
struct Waiting {
    _server: PrivatePostgres,
    client: Client,
    observer: Session,
}

impl Waiting {
    async fn start() -> Waiting {
        let options = Options::default().setting("synchronous_standby_names", "nobody");
        let server = PrivatePostgres::start(options).unwrap();
        let url = server.url();
        let local = format!("{url}?options=-csynchronous_commit%3Dlocal");
        let observer = Client::connect(&local).await.unwrap().session().await.unwrap();
        observer.script("create table t (id int unique deferrable)").await.unwrap();
        let client = Client::connect(&format!("{url}?connections_max=1")).await.unwrap();
        Waiting { _server: server, client, observer }
    }

    /// Ends the next wait for the standby by this function, while `work` goes on.
    async fn end_the_wait<T>(&self, by: &str, work: impl Future<Output = T>) -> T {
        let ended = async {
            let sql =
                format!("select {by}(pid) from pg_stat_activity where wait_event = 'SyncRep'");
            until(async || !self.observer.query(&sql, &[]).await.unwrap().is_empty()).await;
        };
        tokio::join!(work, ended).0
    }

    async fn unconfirmed<T: std::fmt::Debug>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Error {
        failed(self.end_the_wait("pg_cancel_backend", work).await, Outcome::Unknown, CODE)
    }

    async fn ids(&self) -> Vec<i32> {
        let rows = self.observer.query("select id from t order by id", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[test]
fn a_statement_whose_wait_was_cancelled_is_unknown_and_its_connection_goes_on() {
    run(async {
        let on = Waiting::start().await;
        let client = &on.client;
        let insert = "insert into t values ($1)";
        let error = on.unconfirmed(client.execute(insert, &[&1])).await;
        assert!(error.to_string().contains("synchronous standby"), "{error}");
        on.unconfirmed(client.query("insert into t values (2) returning id", &[])).await;
        let prepared = client.prepare(insert).await.unwrap();
        on.unconfirmed(client.execute(&prepared, &[&3])).await;
        let session = client.session().await.unwrap();
        on.unconfirmed(session.script("insert into t values (4); insert into t values (5)")).await;
        drop(session);
        let rows = client.query_stream("insert into t values (6) returning id", &[]);
        let streamed = async {
            let mut rows = rows.await?;
            while rows.try_next().await?.is_some() {}
            Ok(())
        };
        on.unconfirmed(streamed).await;
        assert_eq!(on.ids().await, [1, 2, 3, 4, 5, 6], "all of it stands here");
        assert_usable(client).await;
        assert_eq!(client.metrics().opened, 1);
    });
}

#[test]
fn no_way_of_writing_acknowledges_what_was_not_replicated() {
    run(async {
        let on = Waiting::start().await;
        let client = &on.client;
        let insert = "insert into t values ($1)";

        let mut pipeline = client.pipeline();
        let replies = [1, 2].map(|id| pipeline.execute(insert, &[&id]));
        on.unconfirmed(pipeline.finish()).await;
        for reply in replies {
            assert_eq!(error(reply.await).outcome(), Outcome::Unknown);
        }

        let tx = client.begin().await.unwrap();
        tx.execute(insert, &[&3]).await.unwrap();
        on.unconfirmed(tx.commit()).await;

        let tx = client.begin().await.unwrap();
        on.unconfirmed(tx.commit_with::<u64, _>("insert into t values (4)", &[])).await;

        let rows = [(5,), (6,)];
        let batch =
            async { client.batch(insert, rows).atomic().await.map_err(|it| it.error().clone()) };
        on.unconfirmed(batch).await;

        let copied = async {
            let mut copy = client.copy_in("copy t from stdin").await?;
            copy.send(&b"7\n"[..]).await?;
            copy.finish().await
        };
        on.unconfirmed(copied).await;

        let session = client.session().await.unwrap();
        session.execute("begin", &[]).await.unwrap();
        session.execute(insert, &[&8]).await.unwrap();
        on.unconfirmed(session.execute("commit", &[])).await;
        drop(session);

        assert_eq!(on.ids().await, [1, 2, 3, 4, 5, 6, 7, 8], "all of it stands here");
        assert_usable(client).await;
    });
}

/// The answers to its rows come in one reply, of which only some can be believed.
#[test]
fn an_isolated_batch_acknowledges_the_rows_in_front_of_it_and_no_other() {
    run(async {
        let on = Waiting::start().await;
        let rows = [(1,), (2,), (3,)];
        let batch = async {
            on.client.batch("insert into t select $1 where $1 > 1", rows).isolated().await
        };
        let report = on.end_the_wait("pg_cancel_backend", batch).await;
        let outcomes: Vec<_> = report.errors().iter().map(|it| it.error().outcome()).collect();
        assert_eq!(outcomes, [Outcome::Unknown; 2], "{report:?}");
        assert_eq!(
            report.affected().get(0),
            Some(0),
            "the first wrote nothing, so it did not wait"
        );
    });
}

#[test]
fn a_server_process_that_is_terminated_while_it_waits_acknowledges_nothing() {
    run(async {
        let on = Waiting::start().await;
        let insert = on.client.execute("insert into t values (1)", &[]);
        let error = error(on.end_the_wait("pg_terminate_backend", insert).await);
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        // The server closes the connection behind the answer.
        until(async || on.client.is_closed()).await;
        let tx = on.client.begin().await.unwrap();
        tx.execute("insert into t values (2)", &[]).await.unwrap();
        let error = self::error(on.end_the_wait("pg_terminate_backend", tx.commit()).await);
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        assert_eq!(on.ids().await, [1, 2], "all of it stands here");
    });
}
