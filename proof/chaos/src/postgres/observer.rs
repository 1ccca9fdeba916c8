//! An observer: a connection to the server that bypasses the proxy.

use std::collections::HashMap;
use std::time::Duration;

use onetrip::{Client, Session};

use super::stage::NAME;
use crate::check::Table;
use crate::drive::until;

pub(crate) struct Observer(Session);

impl Observer {
    /// Connects; if the server does not answer yet, waits for it.
    pub(crate) async fn connect(url: &str) -> Observer {
        let mut session = None;
        let is_there = until(PATIENCE, async || {
            session = match Client::connect(url).await {
                Ok(client) => client.session().await.ok(),
                Err(_) => None,
            };
            if session.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            session.is_some()
        });
        assert!(is_there.await, "the server does not answer");
        Observer(session.unwrap())
    }

    /// The rows of a statement, each as one text.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.0.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn script(&self, sql: &str) {
        self.0.script(sql).await.unwrap();
    }

    pub(crate) async fn show(&self, setting: &str) -> String {
        let row = self.0.query_one("select current_setting($1)", &[&setting]).await.unwrap();
        row.get(0)
    }

    /// The sessions of the client under test, by their state.
    pub(crate) async fn sessions(&self) -> HashMap<String, i64> {
        let sql = "select coalesce(state, 'unknown'), count(*) from pg_stat_activity \
                   where application_name = $1 and backend_type = 'client backend' group by 1";
        let rows = self.0.query(sql, &[&NAME]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The processes of these sessions, the busy ones first.
    pub(crate) async fn processes(&self) -> Vec<u32> {
        let sql = "select pid from pg_stat_activity where application_name = $1 \
                   order by state = 'active' desc, pid";
        let rows = self.0.query(sql, &[&NAME]).await.unwrap();
        rows.iter().map(|row| row.get::<i32>(0) as u32).collect()
    }

    /// How many processes of any session are running a statement on a table.
    pub(crate) async fn at_work(&self, name: &str) -> i64 {
        let sql = "select count(*) from pg_locks \
                   where relation = $1::text::regclass and pid <> pg_backend_pid()";
        self.0.query_one(sql, &[&name]).await.unwrap().get(0)
    }

    /// How often each number is in a table.
    pub(crate) async fn table(&self, name: &str) -> Table {
        let sql = format!("select n, count(*) from {name} group by n");
        let rows = self.0.query(&sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get::<i64>(1) as u64)).collect()
    }
}

/// How long the server may take to answer again: recovery on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
