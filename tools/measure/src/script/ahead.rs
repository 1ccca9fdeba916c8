//! The pipelined form of a script: a statement is sent when its turn comes, and its reply is
//! awaited when a later step needs a value of it, or at the end of the run.

use std::collections::VecDeque;
use std::pin::Pin;

use onetrip::{Error, Reply, Rows, Session, SimpleResult, unprepared};

use super::command::Length;
use super::failure::Failure;
use super::forms::Statement;
use super::machine::{Machine, Outcome, Place, Progress, check_end};
use super::parse::Action;
use super::pipe::REPLIES_MAX;
use super::plan::{Protocol, Ready};
use super::row;
use super::send::with_parameters;
use super::value::Value;

/// Replies of a run that were not awaited yet, oldest first, and what failed first.
#[derive(Default)]
struct Ahead<'a> {
    sent: VecDeque<Sent<'a>>,
    failure: Option<Failure>,
}

/// A statement that was sent.
struct Sent<'a> {
    /// Its step.
    at: usize,
    place: Place<'a>,
    statement: &'a Statement,
    /// The variables that its result sets.
    sets: Vec<usize>,
    answer: Answer,
}

enum Answer {
    Count(Reply<u64>),
    Rows(Reply<Rows>),
    /// By the simple protocol, where the server writes the values.
    Results(Pin<Box<dyn Future<Output = Result<Vec<SimpleResult>, Error>> + Send>>),
}

/// A step that had to wait, and the variable and the step that it waited for; `None` for all
/// replies.
pub(super) type Wait = (usize, Option<(usize, usize)>);

impl Machine {
    /// One run in the pipelined form. The run's failure is the one that came first on the server,
    /// because it explains the later ones.
    pub(super) async fn attempt_pipelined(&mut self, session: &Session, script: &Ready) -> Outcome {
        let mut ahead = Ahead::default();
        let ran = self.send_all(session, script, &mut ahead).await;
        self.settle_oldest(&mut ahead, usize::MAX).await;
        ahead.failure.map_or(ran, Err)?;
        check_end(session, Place { script, line: script.steps.last().map_or(1, |it| it.line) })
    }

    /// Sends statement after statement, until one fails that was awaited.
    async fn send_all<'a>(
        &mut self,
        session: &Session,
        script: &'a Ready,
        ahead: &mut Ahead<'a>,
    ) -> Outcome {
        let mut progress = Progress { at: 0, pipe: None };
        while let Some(step) = script.steps.get(progress.at) {
            let (at, place) = (progress.at, Place { script, line: step.line });
            progress.at += 1;
            self.await_values(at, &step.action, ahead, script).await;
            if ahead.failure.is_some() {
                break;
            }
            match &step.action {
                Action::Statement(statement) if !statement.several => {
                    let (sets, answer) = self.send_ahead(session, statement, place).await?;
                    ahead.sent.push_back(Sent { at, place, statement, sets, answer });
                }
                action => self.step(session, action, &mut progress, place).await?,
            }
        }
        Ok(())
    }

    /// Waits for the replies that a step needs, and for the oldest reply if too many are
    /// outstanding.
    async fn await_values(
        &mut self,
        at: usize,
        action: &Action<Statement>,
        ahead: &mut Ahead<'_>,
        script: &Ready,
    ) {
        if ahead.sent.is_empty() {
            return;
        }
        if is_barrier(action) {
            script.note((at, None));
            return self.settle_oldest(ahead, usize::MAX).await;
        }
        let used = variables(action);
        let mut oldest = if ahead.sent.len() < REPLIES_MAX { 0 } else { REPLIES_MAX / 2 };
        for (number, sent) in ahead.sent.iter().enumerate() {
            for variable in sent.sets.iter().filter(|it| used.contains(it)) {
                script.note((at, Some((*variable, sent.at))));
                oldest = oldest.max(number + 1);
            }
        }
        self.settle_oldest(ahead, oldest).await;
    }

    async fn settle_oldest(&mut self, ahead: &mut Ahead<'_>, count: usize) {
        for _ in 0..count {
            let Some(sent) = ahead.sent.pop_front() else { return };
            if let Err(failure) = self.settle(sent).await {
                ahead.failure.get_or_insert(failure);
            }
        }
    }

    /// Waits for a reply and stores its values.
    async fn settle(&mut self, sent: Sent<'_>) -> Outcome {
        let Sent { place, statement, answer, .. } = sent;
        let failed = |error: Error| place.failed(&error);
        let (names, store) = (&self.plan.names, statement.store.as_ref());
        let stored = match answer {
            Answer::Count(reply) => reply.await.map(|_| Ok(())),
            Answer::Rows(reply) => reply.await.map(|rows| match store {
                Some(store) => row::store_rows(&rows, store, names, &mut self.variables),
                None => Ok(()),
            }),
            Answer::Results(reply) => reply.await.map(|results| match store {
                Some(store) => row::store_results(&results, store, names, &mut self.variables),
                None => Ok(()),
            }),
        };
        stored.map_err(failed)?.map_err(|what| place.fatal(what))
    }

    /// Sends a statement, and says which variables its result will set.
    async fn send_ahead(
        &mut self,
        session: &Session,
        statement: &Statement,
        place: Place<'_>,
    ) -> Result<(Vec<usize>, Answer), Failure> {
        let failed = |error: Error| place.failed(&error);
        let is_prepared = self.plan.settings.protocol == Protocol::Prepared;
        let statements = self.statements.clone();
        let Some(store) = &statement.store else {
            let prepared = match is_prepared {
                true => Some(statements.prepared(session, statement).await.map_err(failed)?),
                false => None,
            };
            let reply = with_parameters(statement, &self.variables, |values| match prepared {
                Some(prepared) => session.execute(prepared, values),
                None => session.execute(&unprepared(&statement.text), values),
            });
            return Ok((Vec::new(), Answer::Count(reply)));
        };
        let prepared = statements.prepared(session, statement).await.map_err(failed)?;
        let columns = prepared.columns().iter().map(|column| column.name());
        let sets = columns.filter_map(|it| row::variable(store, it, &self.plan.names)).collect();
        if !row::is_readable(prepared) {
            self.write_text(statement, Value::write_literal);
            return Ok((sets, Answer::Results(Box::pin(session.script(&self.text)))));
        }
        let reply = with_parameters(statement, &self.variables, |values| match is_prepared {
            true => session.query(prepared, values),
            false => session.query(&unprepared(&statement.text), values),
        });
        Ok((sets, Answer::Rows(reply)))
    }
}

/// Whether a step waits for all earlier replies: a `\sleep` belongs after them, and several
/// statements sent as one text are awaited by themselves.
fn is_barrier(action: &Action<Statement>) -> bool {
    match action {
        Action::Statement(statement) => statement.several,
        Action::Sleep { .. } => true,
        _ => false,
    }
}

/// The variables that a step reads or sets: a reply must not set them afterwards.
fn variables(action: &Action<Statement>) -> Vec<usize> {
    match action {
        Action::Statement(statement) => statement.parameters.clone(),
        Action::Set { variable, value } => value.variables().chain([*variable]).collect(),
        Action::Unless { condition, .. } => condition.variables().collect(),
        Action::Sleep { length: Length::Variable(number), .. } => vec![*number],
        _ => Vec::new(),
    }
}
