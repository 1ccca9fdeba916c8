//! Two connections that get in each other's way: whether they come to share one to the server, and
//! what becomes of a prepared statement then.

use super::wire::{Said, Trouble, Wire, refusal, value};
use super::{DOCTOR_FAILED, Names, Pooling};
use crate::config::Config;
use crate::{Error, Kind, Outcome};

/// How often they meet. A pooler mostly gives the connection that came back last, so once is enough
/// while nobody else is there.
const ROUNDS: usize = 8;

/// What is prepared: it says who runs it.
const WHO: &str = "select pg_catalog.pg_backend_pid()";

/// invalid_sql_statement_name, and duplicate_prepared_statement where a name is not one's own.
const LOST: [&str; 2] = ["26000", "42P05"];

/// What two connections found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) pooling: Pooling,
    pub(super) prepared: Names,
}

/// The first connection prepares a statement and uses it again and again; the second one is in a
/// transaction meanwhile, and so has what the first one had, if that is how it goes.
struct Meeting {
    first: Wire,
    second: Wire,
    name: String,
    /// Who ran the statement of the first one last.
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

    /// Who runs the statement; `None` if it was lost at once.
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

    /// `None` if the first one was answered by the same process as before, and the second by another.
    async fn round(&mut self) -> Result<Option<Met>, Error> {
        self.second.statement("begin")?;
        self.second.statement(WHO)?;
        self.second.sync();
        let begun = self.second.ask(1).await.map_err(Trouble::into_error)?;
        let (Some(other), None) = (value(&begun).map(str::to_owned), refusal(&begun)) else {
            // PgBouncer in statement mode ends a connection that begins a transaction.
            return Ok(Some(Met { pooling: Pooling::Statement, prepared: Names::Lost }));
        };
        let answer = self.use_it().await?;
        self.part(&other).await?;
        self.conclude(&other, answer).await
    }

    /// The second one leaves its transaction, and nothing of the first one's where that was before.
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
            // It had to wait for the only connection there is, which is free now.
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
        // It ends with its connection at the latest, if there is one to end.
        let _ = self.first.ask(1).await;
        self.first.end().await;
        self.second.end().await;
        Ok(())
    }
}

fn in_transactions(prepared: Names) -> Met {
    Met { pooling: Pooling::Transaction, prepared }
}

/// Something by which no two runs of this meet.
pub(super) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        failed(&format!("this system gives no random bytes: {error}"))
            .with_outcome(Outcome::NotSent)
    })
}

fn failed(message: &str) -> Error {
    Error::new(Kind::Server, Outcome::Unknown, DOCTOR_FAILED, message.to_owned())
}
