//! The databases of a run: one for the client under test, and twins for those that it is held
//! against.

use std::collections::HashMap;

use onetrip::{Client, Session};
use onetrip_lab::postgres::{Options, PrivatePostgres};

use super::subject::NAME;

/// What is stored: for each number the other columns as text, once for each row that has it.
pub(super) type Stored = HashMap<i32, Vec<String>>;

/// Which database: of the client under test, of new clients, and of psql.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Twin {
    Ours,
    Fresh,
    Psql,
}

impl Twin {
    pub(super) const ALL: [Twin; 3] = [Twin::Ours, Twin::Fresh, Twin::Psql];
}

pub(super) struct Databases {
    server: PrivatePostgres,
    sessions: HashMap<Twin, Session>,
}

impl Databases {
    pub(super) async fn start() -> Databases {
        let server = PrivatePostgres::start(Options::default()).unwrap();
        let client = Client::connect(&server.url()).await.unwrap();
        let session = client.session().await.unwrap();
        let mut sessions = HashMap::new();
        for twin in Twin::ALL {
            session.script(&format!("create database {twin:?} template template0")).await.unwrap();
            let client = Client::connect(&url(&server, twin)).await.unwrap();
            sessions.insert(twin, client.session().await.unwrap());
        }
        Databases { server, sessions }
    }

    pub(super) fn url(&self, twin: Twin) -> String {
        url(&self.server, twin)
    }

    /// Texts of this session are simple queries, which the server reads anew each time.
    pub(super) fn of(&self, twin: Twin) -> &Session {
        &self.sessions[&twin]
    }

    /// Installs an extension everywhere. Returns whether the server has it.
    pub(super) async fn extension(&self, name: &str) -> bool {
        let sql = format!("select 1 from pg_available_extensions where name = '{name}'");
        if self.of(Twin::Ours).script(&sql).await.unwrap()[0].rows.is_empty() {
            return false;
        }
        self.script(&[format!("create extension if not exists {name}")]).await;
        true
    }

    pub(super) async fn script(&self, texts: &[String]) {
        for twin in Twin::ALL {
            for text in texts {
                self.of(twin).script(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }

    /// Makes a migration, in one transaction.
    pub(super) async fn migrate(&self, twin: Twin, texts: &[String]) {
        migrate(self.of(twin), texts).await;
    }

    /// The rows that clients wrote.
    pub(super) async fn stored(&self, twin: Twin, tables: &[String]) -> Stored {
        let mut stored = Stored::new();
        for table in tables {
            let sql = format!("select id::text, t::text from {table} t where id > 0");
            for row in &self.of(twin).script(&sql).await.unwrap()[0].rows {
                let [Some(id), Some(row)] = &row[..] else { continue };
                let others = row.split_once(',').map_or("", |(_, others)| others);
                let rows = stored.entry(id.parse().unwrap()).or_default();
                rows.push(format!("{table} {others}"));
            }
        }
        stored
    }

    /// The process numbers of the connections of the client under test.
    pub(super) async fn connections(&self) -> Vec<String> {
        let sql = format!(
            "select pid::text from pg_stat_activity \
             where datname = current_database() and application_name = '{NAME}'"
        );
        let found = self.of(Twin::Ours).script(&sql).await.unwrap();
        found[0].rows.iter().filter_map(|row| row[0].clone()).collect()
    }
}

/// Makes a migration in a session. A statement that has a weaker lock and wants another one may be
/// in its way.
pub(super) async fn migrate(session: &Session, texts: &[String]) {
    for tries in 0.. {
        let all = format!("begin; {}; commit", texts.join("; "));
        let Err(error) = session.script(&all).await else { return };
        session.script("rollback").await.unwrap();
        assert!(error.sqlstate() == Some("40P01") && tries < 20, "{all}: {error}");
    }
}

fn url(server: &PrivatePostgres, twin: Twin) -> String {
    server.database_url(&format!("{twin:?}").to_lowercase())
}
