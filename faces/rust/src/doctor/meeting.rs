//! Two connections that use the pooler at the same time: whether they come to share a connection to
//! the server, and what becomes of a prepared statement then.

use super::diagnosis::{Names, Pooling};
use super::wire::{DOCTOR_FAILED, Said, Trouble, Wire, refusal, value};
use crate::config::Config;
use crate::{Error, Kind, Outcome};

/// How many rounds are tried. A pooler mostly lends the server connection that came back last, so
/// one is enough while nobody else uses the pooler.
const ROUNDS: usize = 8;

/// The prepared statement: it returns the server process that runs it.
const WHO: &str = "select pg_catalog.pg_backend_pid()";

/// invalid_sql_statement_name, or duplicate_prepared_statement if another client has the name.
const LOST: [&str; 2] = ["26000", "42P05"];

/// The findings about two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) pooling: Pooling,
    pub(super) prepared: Names,
}

/// The first connection prepares a statement and uses it repeatedly. The second one is in a
/// transaction meanwhile, and so may hold the server connection that the first one had.
struct Meeting {
    first: Wire,
    second: Wire,
    name: String,
    /// The server process that ran the first connection's statement last.
    before: String,
}

pub(super) async fn meet(config: &Config) -> Result<Met, Error> {
    let (first, second) = (Wire::open(config).await?, Wire::open(config).await?);
    let name = format!("onetrip_doctor_{:x}", random()?);
    let mut meeting = Meeting { first, second, name, before: String::new() };
    let met = meeting.run().await?;
    meeting.end().await?;
    Ok(met)
}

impl Meeting {
    async fn run(&mut self) -> Result<Met, Error> {
        let Some(before) = self.prepare().await? else { return Ok(in_transactions(Names::Lost)) };
        self.before = before;
        for _ in 0..ROUNDS {
            if let Some(met) = self.round().await? {
                return Ok(met);
            }
        }
        let itself = self.before == self.first.process_id.to_string();
        let pooling = if itself { Pooling::Direct } else { Pooling::Session };
        Ok(Met { pooling, prepared: Names::Kept })
    }

    /// The server process that ran the statement; `None` if the statement was lost at once.
    async fn prepare(&mut self) -> Result<Option<String>, Error> {
        self.first.parse(&self.name, WHO)?;
        self.first.sync();
        let parsed = self.first.ask(1).await.map_err(Trouble::into_error)?;
        if refusal(&parsed).is_some() {
            return Ok(None);
        }
        let answer = self.use_it().await?.map_err(Trouble::into_error)?;
        Ok(value(&answer).map(str::to_owned))
    }

    async fn use_it(&mut self) -> Result<Result<Vec<Said>, Trouble>, Error> {
        self.first.execute(&self.name)?;
        self.first.sync();
        Ok(self.first.ask(1).await)
    }

    /// `None` if the first was answered by the same process as before, and the second by another
    /// one.
    async fn round(&mut self) -> Result<Option<Met>, Error> {
        self.second.statement("begin")?;
        self.second.statement(WHO)?;
        self.second.sync();
        let begun = self.second.ask(1).await.map_err(Trouble::into_error)?;
        let (Some(other), None) = (value(&begun).map(str::to_owned), refusal(&begun)) else {
            // In statement mode PgBouncer ends a connection that begins a transaction.
            return Ok(Some(Met { pooling: Pooling::Statement, prepared: Names::Lost }));
        };
        let answer = self.use_it().await?;
        self.part(&other).await?;
        self.conclude(&other, answer).await
    }

    /// Ends the second connection's transaction; the first one's statement may still be waiting.
    async fn part(&mut self, other: &str) -> Result<(), Error> {
        if self.before == other {
            self.second.close(&self.name)?;
        }
        self.second.statement("commit")?;
        self.second.sync();
        self.second.ask(1).await.map(drop).map_err(Trouble::into_error)
    }

    async fn conclude(
        &mut self,
        other: &str,
        answer: Result<Vec<Said>, Trouble>,
    ) -> Result<Option<Met>, Error> {
        let answer = match answer {
            // The first had to wait for the only server connection, which is free now.
            Err(Trouble::Silent) if self.before == other => {
                self.first.ask(1).await.map_err(Trouble::into_error)?;
                return Ok(Some(in_transactions(Names::Untested)));
            }
            answer => answer.map_err(Trouble::into_error)?,
        };
        match (value(&answer), refusal(&answer)) {
            (Some(who), None) if who == self.before => Ok(None),
            (Some(_), None) => Ok(Some(in_transactions(Names::Followed))),
            (_, Some(error)) if LOST.contains(&error.code.as_str()) => {
                Ok(Some(in_transactions(Names::Lost)))
            }
            (_, Some(error)) => Err(failed(&format!("a prepared statement was refused: {error}"))),
            (None, None) => Err(failed("a statement was answered without its row")),
        }
    }

    async fn end(mut self) -> Result<(), Error> {
        self.first.close(&self.name)?;
        self.first.sync();
        // The transaction ends with its connection at the latest.
        let _ = self.first.ask(1).await;
        self.first.end().await;
        self.second.end().await;
        Ok(())
    }
}

fn in_transactions(prepared: Names) -> Met {
    Met { pooling: Pooling::Transaction, prepared }
}

/// A random number, so that two runs have different names.
pub(super) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        failed(&format!("this system gives no random bytes: {error}"))
            .with_outcome(Outcome::NotSent)
    })
}

fn failed(message: &str) -> Error {
    Error::new(Kind::Server, Outcome::Unknown, DOCTOR_FAILED, message.to_owned())
}
