//! One statement by itself, in each protocol.

use onetrip::types::ToSql;
use onetrip::{Session, unprepared};

use super::forms::{Part, Statement};
use super::machine::{Machine, Outcome, Place};
use super::plan::Protocol;
use super::row;
use super::value::{Scalar, Value};

/// What is sent for a variable that isn't set.
static NULL: Value = Value::Scalar(Scalar::Null);

type Parameter<'a> = &'a (dyn ToSql + Sync);

/// Hands over the values of a statement, without a list on the heap for the usual few.
pub(super) fn with_parameters<R>(
    statement: &Statement,
    variables: &[Option<Value>],
    send: impl FnOnce(&[Parameter<'_>]) -> R,
) -> R {
    const FEW: usize = 8;
    let value = |number: &usize| -> Parameter<'_> { variables[*number].as_ref().unwrap_or(&NULL) };
    let count = statement.parameters.len();
    if count > FEW {
        return send(&statement.parameters.iter().map(value).collect::<Vec<_>>());
    }
    let mut few: [Parameter<'_>; FEW] = [&NULL; FEW];
    for (place, number) in few.iter_mut().zip(&statement.parameters) {
        *place = value(number);
    }
    send(&few[..count])
}

impl Machine {
    /// Sends a statement and waits for its end.
    pub(super) async fn send_alone(
        &mut self,
        session: &Session,
        statement: &Statement,
        place: Place<'_>,
    ) -> Outcome {
        let protocol = self.plan.settings.protocol;
        if protocol == Protocol::Simple || statement.several {
            return self.send_simple(session, statement, place, Value::write_plain).await;
        }
        if statement.store.is_some() {
            return self.send_and_store(session, statement, place).await;
        }
        let variables = &self.variables;
        let sent = match protocol {
            Protocol::Prepared => {
                let prepared = self.statements.prepared(session, statement).await;
                let prepared = prepared.map_err(|error| place.failed(&error))?;
                with_parameters(statement, variables, |values| session.execute(prepared, values))
            }
            _ => with_parameters(statement, variables, |values| {
                session.execute(&unprepared(&statement.text), values)
            }),
        };
        sent.await.map(drop).map_err(|error| place.failed(&error))
    }

    /// The types of the columns decide how the values can be read.
    async fn send_and_store(
        &mut self,
        session: &Session,
        statement: &Statement,
        place: Place<'_>,
    ) -> Outcome {
        let statements = self.statements.clone();
        let prepared = statements.prepared(session, statement).await;
        let prepared = prepared.map_err(|error| place.failed(&error))?;
        if !row::is_readable(prepared) {
            return self.send_simple(session, statement, place, Value::write_literal).await;
        }
        let is_prepared = self.plan.settings.protocol == Protocol::Prepared;
        let sent = with_parameters(statement, &self.variables, |values| match is_prepared {
            true => session.query(prepared, values),
            false => session.query(&unprepared(&statement.text), values),
        });
        let rows = sent.await.map_err(|error| place.failed(&error))?;
        let Some(store) = &statement.store else { return Ok(()) };
        let stored = row::store_rows(&rows, store, &self.plan.names, &mut self.variables);
        stored.map_err(|what| place.fatal(what))
    }

    async fn send_simple(
        &mut self,
        session: &Session,
        statement: &Statement,
        place: Place<'_>,
        write: fn(&Value, &mut String),
    ) -> Outcome {
        self.write_text(statement, write);
        let sent = session.script(&self.text).await;
        let results = sent.map_err(|error| place.failed(&error))?;
        let Some(store) = &statement.store else { return Ok(()) };
        let stored = row::store_results(&results, store, &self.plan.names, &mut self.variables);
        stored.map_err(|what| place.fatal(what))
    }

    /// A statement with the values in its text, for the simple protocol.
    pub(super) fn write_text(&mut self, statement: &Statement, write: fn(&Value, &mut String)) {
        self.text.clear();
        for part in &statement.pieces {
            match part {
                Part::Text(text) => self.text.push_str(text),
                Part::Variable(number, shown) => match &self.variables[*number] {
                    Some(value) => write(value, &mut self.text),
                    None => self.text.push_str(shown),
                },
            }
        }
    }
}
