//! The client whose statements run while something changes.

use std::cell::RefCell;
use std::collections::HashMap;

use onetrip::types::{AsText, ToSql};
use onetrip::{Client, Config, Error, ParameterSet, Rows, Session};
use serde_json::Value;

use super::cases::{Parameter, Statement};
use super::values::{Sent, shown};

/// One use of a statement.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) statement: Statement,
    pub(super) given: Value,
    /// The number of the row that it writes, if it writes one.
    pub(super) id: i32,
}

impl Use {
    /// What two uses have in common that come to the same.
    pub(super) fn key(&self) -> String {
        let has_value = self.statement.parameters.contains(&Parameter::Value);
        let given = if has_value { self.given.to_string() } else { String::new() };
        format!("{} {given}", self.statement.name)
    }

    pub(super) fn writes(&self) -> bool {
        self.statement.parameters.contains(&Parameter::Id)
    }

    fn sent(&self) -> Vec<Sent> {
        let one = |parameter: &Parameter| match parameter {
            Parameter::Id => Sent::Int(self.id),
            Parameter::Value => Sent::of(&self.given),
        };
        self.statement.parameters.iter().map(one).collect()
    }

    /// The text with literals in place of its parameters.
    pub(super) fn literal(&self) -> Option<String> {
        let mut text = self.statement.text.clone();
        for (at, sent) in self.sent().iter().enumerate().rev() {
            text = text.replace(&format!("${}", at + 1), &sent.literal()?);
        }
        Some(text)
    }
}

/// How several uses are run, of which all take effect or none; the first four take one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    Streamed,
    Batch,
    /// By a statement that was prepared once. Its values are sent as text.
    Prepared,
    Together,
    Transaction,
    Pipeline,
    Run,
}

impl Way {
    const ALL: [Way; 8] = [
        Way::Plain,
        Way::Streamed,
        Way::Batch,
        Way::Together,
        Way::Transaction,
        Way::Pipeline,
        Way::Run,
        Way::Prepared,
    ];

    /// Those by which texts are prepared on each connection.
    pub(super) const WARM: [Way; 3] = [Way::Transaction, Way::Prepared, Way::Plain];

    /// A statement that a program keeps has the types that it was prepared with, so the last is run
    /// only if `ONETRIP_LEFT` is set.
    pub(super) fn all() -> &'static [Way] {
        match std::env::var_os("ONETRIP_LEFT") {
            None => &Way::ALL[..Way::ALL.len() - 1],
            Some(_) => &Way::ALL,
        }
    }

    pub(super) fn is_single(self) -> bool {
        matches!(self, Way::Plain | Way::Streamed | Way::Batch | Way::Prepared)
    }
}

/// The name that the client under test gives its connections.
pub(super) const NAME: &str = "migrations";

#[derive(Debug)]
pub(super) struct Subject(pub(super) Client, RefCell<HashMap<String, onetrip::Statement>>);

impl Subject {
    pub(super) async fn connect(url: &str, connections: usize) -> Subject {
        let config: Config = url.parse().unwrap();
        let config = config.connections_max(connections).application_name(NAME);
        Subject(Client::connect_with(&config).await.unwrap(), RefCell::default())
    }

    /// The rows of each use, as text.
    pub(super) async fn run(&self, way: Way, uses: &[Use]) -> Result<Vec<String>, Error> {
        match way {
            Way::Plain => {
                Ok(vec![asked(&uses[0], &mut |text, values| self.0.query(text, values)).await?])
            }
            Way::Streamed => self.streamed(&uses[0]).await,
            Way::Batch => self.batch(&uses[0]).await,
            Way::Prepared => self.prepared(&uses[0]).await,
            Way::Together => {
                let tx = self.0.begin().await?;
                let mut pending = Vec::new();
                for one in uses {
                    pending.push(asked(one, &mut |text, values| tx.query(text, values)));
                }
                let mut rows = Vec::new();
                for one in pending {
                    rows.push(one.await);
                }
                let rows = rows.into_iter().collect::<Result<_, Error>>()?;
                tx.commit().await?;
                Ok(rows)
            }
            Way::Transaction => {
                let tx = self.0.begin().await?;
                let mut rows = Vec::new();
                for one in uses {
                    rows.push(asked(one, &mut |text, values| tx.query(text, values)).await?);
                }
                tx.commit().await?;
                Ok(rows)
            }
            Way::Pipeline => {
                let mut pipeline = self.0.pipeline();
                let mut pending = Vec::new();
                for one in uses {
                    pending.push(asked(one, &mut |text, values| pipeline.query(text, values)));
                }
                pipeline.finish().await?;
                let mut rows = Vec::new();
                for one in pending {
                    rows.push(one.await?);
                }
                Ok(rows)
            }
            Way::Run => {
                let work = async |tx: &mut onetrip::Transaction<'_>| {
                    let mut rows = Vec::new();
                    for one in uses {
                        rows.push(asked(one, &mut |text, values| tx.query(text, values)).await?);
                    }
                    Ok::<_, Error>(rows)
                };
                Ok(self.0.run(work).await?.value)
            }
        }
    }

    /// The types that a stream's columns have are not asked for, so where one of them is not known
    /// yet, the statement runs once more. One that writes does not run twice.
    async fn streamed(&self, one: &Use) -> Result<Vec<String>, Error> {
        if one.writes() {
            return Box::pin(self.run(Way::Plain, std::slice::from_ref(one))).await;
        }
        let sent = one.sent();
        let values: Vec<_> = sent.iter().map(Sent::as_sql).collect();
        let mut stream = self.0.query_stream(&one.statement.text, &values).await?;
        let mut rows = Vec::new();
        while let Some(row) = stream.try_next().await? {
            rows.push(shown(&row, one.id));
        }
        if rows.iter().any(|row| row.contains(": with oid ")) {
            return Box::pin(self.run(Way::Plain, std::slice::from_ref(one))).await;
        }
        Ok(vec![rows.join("; ")])
    }

    /// Where a value has a type of its own, that of a prepared statement decides whether it fits. So
    /// only strings go this way.
    async fn prepared(&self, one: &Use) -> Result<Vec<String>, Error> {
        let text = |sent: Sent| match sent {
            Sent::Text(it) => Some(Some(AsText(it))),
            Sent::Null(_) => Some(None),
            _ => None,
        };
        let parameters = one.statement.parameters.iter();
        let sent = parameters.map(|parameter| match parameter {
            Parameter::Id => text(Sent::Text(one.id.to_string())),
            Parameter::Value => text(Sent::of(&one.given)),
        });
        let Some(sent) = sent.collect::<Option<Vec<_>>>() else {
            return Box::pin(self.run(Way::Plain, std::slice::from_ref(one))).await;
        };
        let known = self.1.borrow().get(&one.statement.text).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => self.0.prepare(&one.statement.text).await?,
        };
        self.1.borrow_mut().insert(one.statement.text.clone(), statement.clone());
        let values: Vec<_> = sent.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
        let rows = self.0.query(&statement, &values).await?;
        Ok(vec![rows.iter().map(|row| shown(&row, one.id)).collect::<Vec<_>>().join("; ")])
    }

    /// A batch returns no rows, so only what does not ask for any runs as one.
    async fn batch(&self, one: &Use) -> Result<Vec<String>, Error> {
        if one.statement.name != "insert" {
            return self.streamed(one).await;
        }
        let rows = [Values(one.sent())];
        self.0.batch(&one.statement.text, rows).atomic().await?;
        Ok(vec![String::new()])
    }
}

type Send<'a, F> = &'a mut dyn FnMut(&str, &[&(dyn ToSql + Sync)]) -> F;

/// Runs one use with a function that sends it. What it borrows is sent when the call returns.
fn asked<F: Future<Output = Result<Rows, Error>>>(
    one: &Use,
    send: Send<'_, F>,
) -> impl Future<Output = Result<String, Error>> + use<F> {
    let sent = one.sent();
    let values: Vec<_> = sent.iter().map(Sent::as_sql).collect();
    let pending = send(&one.statement.text, &values);
    let id = one.id;
    async move {
        let rows = pending.await?;
        Ok(rows.iter().map(|row| shown(&row, id)).collect::<Vec<_>>().join("; "))
    }
}

/// The values of a use, as a row of a batch.
struct Values(Vec<Sent>);

impl ParameterSet for Values {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn parameter(&self, number: usize) -> &(dyn ToSql + Sync) {
        self.0[number].as_sql()
    }
}

/// Runs one use in a session.
pub(super) async fn in_session(session: &Session, one: &Use) -> Result<Vec<String>, Error> {
    Ok(vec![asked(one, &mut |text, values| session.query(text, values)).await?])
}
