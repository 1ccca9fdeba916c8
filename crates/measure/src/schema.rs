//! The tool's own schema on the server: made at the start, dropped at the end, and nothing else is
//! touched.

use std::time::Duration;

use onetrip::Session;

use crate::error::{Error, Result};

/// Its name.
pub const SCHEMA: &str = "onetrip_bench";

/// What an end at once has to say of it.
pub const LEFT: &str = "the schema onetrip_bench may be left on the server: `drop schema if exists onetrip_bench cascade` drops it";

/// Has a connection look into the schema first, as a startup option.
pub fn search_path() -> String {
    format!("-c search_path={SCHEMA},public")
}

/// Makes it. With `force` one that is there already is dropped first, with all that is in it.
///
/// # Errors
/// It is there, or this user may not make one.
pub async fn create(session: &Session, force: bool) -> Result<()> {
    if force {
        session.script(&format!("drop schema if exists {SCHEMA} cascade")).await?;
    }
    session.script(&format!("create schema {SCHEMA}")).await.map(drop).map_err(|error| {
        Error::new(match error.sqlstate() {
            // duplicate_schema
            Some("42P06") => format!(
                "the server has a schema {SCHEMA} already: if nobody needs it, say --force, which drops it"
            ),
            // insufficient_privilege
            Some("42501") => format!(
                "the schema {SCHEMA} can't be made: {error}: let this user create schemas in the database \
                 (grant create on database), or name another one"
            ),
            _ => format!("the schema {SCHEMA} can't be made: {error}"),
        })
    })
}

/// Drops it, and gives up on a server that does not answer.
///
/// # Errors
/// It is still there; the line says how to drop it.
pub async fn drop_all(session: &Session) -> Result<()> {
    let drop = format!("drop schema if exists {SCHEMA} cascade");
    match tokio::time::timeout(PATIENCE, session.script(&drop)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(Error::new(format!("{error}; {LEFT}"))),
        Err(_) => Err(Error::new(format!("the server did not answer within 10 s; {LEFT}"))),
    }
}

/// How long a server may take to drop it, whose locks are all gone by then.
const PATIENCE: Duration = Duration::from_secs(10);
