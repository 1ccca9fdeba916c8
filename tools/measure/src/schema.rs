//! The tool's own schema on the server: made at the start, dropped at the end, and nothing else is
//! touched.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use onetrip::Session;

use crate::error::{Error, Result};
use crate::target::APPLICATION;

/// Its name.
pub const SCHEMA: &str = "onetrip_bench";

/// What an end at once has to say of it.
pub const LEFT: &str = "the schema onetrip_bench may be left on the server: `drop schema if exists onetrip_bench cascade` drops it";

/// Has a connection look into the schema alone, as a startup option: a preset that lost its tables
/// must not find others of the same names.
pub fn search_path() -> String {
    format!("-c search_path={SCHEMA}")
}

/// Has one look into it first, and then where it would without: scripts may need both.
pub fn search_path_of_scripts() -> String {
    format!("{},\"$user\",public", search_path())
}

/// The schema of one run. It has a mark of that run, so that no run drops another's by mistake,
/// whatever happened since.
#[derive(Debug)]
pub(crate) struct Schema {
    mark: String,
}

impl Schema {
    /// One that isn't made yet.
    pub(crate) fn new() -> Schema {
        Schema {
            mark: format!("made by onetrip bench, run {:016x}", RandomState::new().hash_one(())),
        }
    }

    /// Makes it. With `force` one that is there already is dropped first, with all that is in it,
    /// unless another run is at work. Dropping the future leaves open whether it is made.
    ///
    /// # Errors
    /// It is there, or this user may not make one.
    pub(crate) async fn create(&self, session: &Session, force: bool) -> Result<()> {
        if force {
            check_alone(session).await?;
            session.script(&format!("drop schema if exists {SCHEMA} cascade")).await?;
        }
        let Schema { mark } = self;
        let sql = format!("create schema {SCHEMA}; comment on schema {SCHEMA} is '{mark}'");
        session.script(&sql).await.map(drop).map_err(|error| refused(&error))
    }

    /// Drops it, if it was made and is still that of this run. What the session was about to do is
    /// cancelled. Gives up on a server that does not answer.
    ///
    /// # Errors
    /// It is still there; the line says how to drop it.
    pub(crate) async fn drop(&self, session: &Session) -> Result<()> {
        let drop = async {
            let _ = session.canceller().cancel().await;
            session.script(&self.drop_sql()).await
        };
        match tokio::time::timeout(PATIENCE, drop).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Error::new(format!("{error}; {LEFT}"))),
            Err(_) => Err(Error::new(format!("the server did not answer within 10 s; {LEFT}"))),
        }
    }

    /// What a stop left running holds locks for as long as it takes, also when nobody waits for it
    /// any more. It is ended first, by what only this run has: the name of the load and locks in
    /// its schema.
    fn drop_sql(&self) -> String {
        let Schema { mark } = self;
        format!(
            "do $$
             declare own constant oid := pg_catalog.to_regnamespace('{SCHEMA}');
             begin
                 if pg_catalog.obj_description(own, 'pg_namespace') = '{mark}' then
                     perform pg_catalog.pg_terminate_backend(a.pid)
                         from pg_catalog.pg_stat_activity a where a.application_name = '{APPLICATION}'
                         and a.datname = pg_catalog.current_database() and a.pid in (
                             select l.pid from pg_catalog.pg_locks l, pg_catalog.pg_class c
                             where c.oid = l.relation and c.relnamespace = own);
                     drop schema {SCHEMA} cascade;
                 end if;
             end $$"
        )
    }
}

/// How the session that makes the tables is named at the server.
pub(crate) const MAKER: &str = "onetrip bench, tables";

/// Runs of other users need not be seen: their schema is theirs to drop.
async fn check_alone(session: &Session) -> Result<()> {
    let sql = "select pid from pg_catalog.pg_stat_activity where application_name = $1 \
         and datname = pg_catalog.current_database() and pid <> pg_catalog.pg_backend_pid() \
         limit 1";
    let Some(row) = session.query_opt(sql, &[&MAKER]).await? else { return Ok(()) };
    let pid: i32 = row.try_get(0)?;
    Err(Error::new(format!(
        "another run is at work in this database (server process {pid}), and the schema {SCHEMA} is \
         its: wait for its end"
    )))
}

fn refused(error: &onetrip::Error) -> Error {
    Error::new(match error.sqlstate() {
        // duplicate_schema, or unique_violation if another one makes it at the same time
        Some("42P06" | "23505") => format!(
            "the server has a schema {SCHEMA} already: if it is not needed, use --force, which drops it"
        ),
        // insufficient_privilege
        Some("42501") => format!(
            "the schema {SCHEMA} can't be made: {error}: let this user create schemas in the database \
             (grant create on database), or name another one"
        ),
        _ => format!("the schema {SCHEMA} can't be made: {error}"),
    })
}

/// How long a server may take to drop it, whose locks are all gone by then.
const PATIENCE: Duration = Duration::from_secs(10);
