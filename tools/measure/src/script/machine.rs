//! Runs a script, step by step.

use std::sync::Arc;
use std::time::Duration;

use onetrip::{Session, TransactionStatus};
use tokio::sync::OnceCell;

use super::command::Length;
use super::expr::{Expression, Scope};
use super::failure::Failure;
use super::forms::Statement;
use super::parse::{ALREADY_IN_PIPELINE, Action, NOT_IN_PIPELINE, OPEN_PIPELINE, Step};
use super::pipe::{Pipe, Replies};
use super::plan::{Form, Plan, Protocol, Ready};
use super::random::Random;
use super::value::{Scalar, Value};
use crate::error::{Error, Result};
use crate::load::Tally;

/// The prepared statements by number.
#[derive(Debug)]
pub(super) struct Statements(Vec<OnceCell<onetrip::Statement>>);

impl Statements {
    pub(super) fn new(plan: &Plan) -> Statements {
        Statements((0..plan.statements).map(|_| OnceCell::new()).collect())
    }

    /// A statement, if it was prepared.
    pub(super) fn get(&self, statement: &Statement) -> Option<&onetrip::Statement> {
        self.0[statement.number].get()
    }

    /// Prepares a statement unless it is prepared already.
    pub(super) async fn prepared(
        &self,
        session: &Session,
        statement: &Statement,
    ) -> std::result::Result<&onetrip::Statement, onetrip::Error> {
        let cell = &self.0[statement.number];
        match cell.get() {
            Some(prepared) => Ok(prepared),
            None => cell.get_or_try_init(|| session.prepare(&statement.text)).await,
        }
    }
}

/// One client: its variables, its random numbers, and reused memory.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) plan: Arc<Plan>,
    pub(super) statements: Arc<Statements>,
    pub(super) variables: Vec<Option<Value>>,
    /// For expressions. The choice among scripts has its own random numbers.
    random: Random,
    choices: Random,
    /// Variables and random numbers as they were when the run began.
    saved: (Vec<Option<Value>>, Random),
    stack: Vec<Scalar>,
    pub(super) text: String,
    pub(super) replies: Replies,
}

/// The progress of a run.
pub(super) struct Progress {
    /// The next step.
    pub(super) at: usize,
    pub(super) pipe: Option<Pipe>,
}

/// The outcome of a step or of a run.
pub(super) type Outcome = std::result::Result<(), Failure>;

/// Where a run is.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) script: &'a Ready,
    pub(super) line: usize,
}

impl Place<'_> {
    pub(super) fn fatal(self, what: impl AsRef<str>) -> Failure {
        Failure::Fatal(Error::new(format!("{}: {}", self.shown(), what.as_ref())))
    }

    pub(super) fn failed(self, error: &onetrip::Error) -> Failure {
        Failure::of(error, &self.shown())
    }

    fn shown(self) -> String {
        format!("{}:{}", self.script.name, self.line)
    }
}

impl Machine {
    pub(super) fn new(plan: Arc<Plan>, statements: Arc<Statements>, client_id: u32) -> Machine {
        let mut variables = plan.variables.clone();
        if let Some(variable) = plan.names.get("client_id").map(|number| &mut variables[number]) {
            // A variable that the user defined is kept.
            variable.get_or_insert(Value::Scalar(Scalar::Int(i64::from(client_id))));
        }
        let mut seeds = Random::new(plan.settings.seed ^ u64::from(client_id).rotate_right(32));
        let (random, choices) = (Random::new(seeds.next()), Random::new(seeds.next()));
        Machine {
            saved: (Vec::new(), random.clone()),
            plan,
            statements,
            variables,
            random,
            choices,
            stack: Vec::new(),
            text: String::new(),
            replies: Replies::default(),
        }
    }

    /// Goes on with other random numbers, which follow from its own and from this seed.
    pub(super) fn reseed(&mut self, seed: u64) {
        let mut seeds = Random::new(self.random.next() ^ Random::new(seed).next());
        (self.random, self.choices) = (Random::new(seeds.next()), Random::new(seeds.next()));
    }

    /// One run of one script, with its retries.
    pub(super) async fn run(&mut self, session: &Session, tally: &mut Tally) -> Result<()> {
        let plan = self.plan.clone();
        let script = &plan.scripts[plan.choose(&mut self.choices)];
        let tries_max = plan.settings.max_tries;
        if tries_max != 1 {
            self.saved.0.clone_from(&self.variables);
            self.saved.1 = self.random.clone();
        }
        let mut tries = 1;
        loop {
            let ended = match plan.settings.form {
                Form::AsWritten => self.attempt(session, script).await,
                Form::Pipelined => self.attempt_pipelined(session, script).await,
            };
            let Err(failure) = ended else { return Ok(()) };
            match &failure {
                Failure::Fatal(_) => {}
                _ => roll_back(session, script).await?,
            }
            match failure {
                Failure::Conflict(code) if tries_max == 0 || tries < tries_max => {
                    tally.retried(&code);
                    self.variables.clone_from(&self.saved.0);
                    self.random = self.saved.1.clone();
                    tries += 1;
                }
                failure => return failure.count(tally),
            }
        }
    }

    async fn attempt(&mut self, session: &Session, script: &Ready) -> Outcome {
        self.replies.clear();
        let mut progress = Progress { at: 0, pipe: None };
        let mut place = Place { script, line: 1 };
        while let Some(step) = script.steps.get(progress.at) {
            place.line = step.line;
            progress.at += 1;
            self.step(session, &step.action, &mut progress, place).await?;
        }
        if progress.pipe.is_some() {
            return Err(place.fatal(OPEN_PIPELINE));
        }
        check_end(session, place)
    }

    pub(super) async fn step(
        &mut self,
        session: &Session,
        action: &Action<Statement>,
        progress: &mut Progress,
        place: Place<'_>,
    ) -> Outcome {
        match action {
            Action::Statement(statement) => match &mut progress.pipe {
                None => self.send_alone(session, statement, place).await?,
                Some(pipe) => self.add_to_pipe(session, pipe, statement, place).await?,
            },
            Action::Set { variable, value } => {
                let value = self.value(value, place)?;
                self.variables[*variable] = Some(Value::Scalar(value));
            }
            Action::Unless { condition, to } => {
                if !self.value(condition, place)?.is_truthy() {
                    progress.at = *to;
                }
            }
            Action::Jump(to) => progress.at = *to,
            Action::Sleep { length, unit_us } => {
                tokio::time::sleep(self.length(*length, *unit_us, place)?).await;
            }
            Action::StartPipeline => self.begin_pipeline(session, progress, place).await?,
            Action::SyncPipeline => {
                let pipe = progress.pipe.as_mut().ok_or_else(|| place.fatal(NOT_IN_PIPELINE))?;
                pipe.sync(&mut self.replies);
            }
            Action::EndPipeline => {
                let pipe = progress.pipe.take().ok_or_else(|| place.fatal(NOT_IN_PIPELINE))?;
                pipe.end(&mut self.replies, place).await?;
            }
        }
        Ok(())
    }

    async fn begin_pipeline(
        &mut self,
        session: &Session,
        progress: &mut Progress,
        place: Place<'_>,
    ) -> Outcome {
        if progress.pipe.is_some() {
            return Err(place.fatal(ALREADY_IN_PIPELINE));
        }
        let inside = until_end(&place.script.steps[progress.at..]);
        self.prepare_all(session, inside, place.script).await?;
        progress.pipe = Some(Pipe::begin(session, inside));
        Ok(())
    }

    fn value(
        &mut self,
        expression: &Expression,
        place: Place<'_>,
    ) -> std::result::Result<Scalar, Failure> {
        let mut scope = Scope {
            variables: &self.variables,
            names: self.plan.names.list(),
            random: &mut self.random,
            stack: &mut self.stack,
            place: &|| place.shown(),
        };
        expression.value(&mut scope).map_err(|what| place.fatal(what))
    }

    fn length(
        &self,
        length: Length,
        unit_us: u64,
        place: Place<'_>,
    ) -> std::result::Result<Duration, Failure> {
        let number = match length {
            Length::Fixed(number) => number,
            Length::Variable(number) => {
                let name = &self.plan.names.list()[number];
                let value = match &self.variables[number] {
                    Some(value) => value.to_scalar(name).and_then(Scalar::to_int),
                    None => Err(format!("undefined variable \"{name}\"")),
                };
                let value = value.map_err(|what| place.fatal(format!("\\sleep: {what}")))?;
                u64::try_from(value).unwrap_or(0)
            }
        };
        Ok(Duration::from_micros(number.saturating_mul(unit_us)))
    }

    /// Prepares all that can be prepared.
    pub(super) async fn prepare(&self, session: &Session) {
        if self.plan.settings.protocol != Protocol::Prepared {
            return;
        }
        for step in self.plan.scripts.iter().flat_map(|script| &script.steps) {
            if let Action::Statement(statement) = &step.action
                && !statement.several
            {
                // If that fails, the first use reports the error.
                self.statements.prepared(session, statement).await.ok();
            }
        }
    }

    /// Prepares the statements of a pipeline in advance, because inside of a pipeline nothing may
    /// wait.
    async fn prepare_all(
        &mut self,
        session: &Session,
        steps: &[Step<Statement>],
        script: &Ready,
    ) -> Outcome {
        if self.plan.settings.protocol != Protocol::Prepared {
            return Ok(());
        }
        for step in steps {
            let Action::Statement(statement) = &step.action else { continue };
            if self.statements.get(statement).is_none() && !statement.several {
                let place = Place { script, line: step.line };
                let prepared = self.statements.prepared(session, statement).await;
                prepared.map_err(|error| place.failed(&error))?;
            }
        }
        Ok(())
    }
}

/// A run leaves no transaction open; `place` is its last step.
pub(super) fn check_end(session: &Session, place: Place<'_>) -> Outcome {
    match session.status() {
        TransactionStatus::Idle => Ok(()),
        _ => Err(place.fatal("the script ends inside of a transaction: it has to end it")),
    }
}

fn until_end(steps: &[Step<Statement>]) -> &[Step<Statement>] {
    let end = steps.iter().position(|step| matches!(step.action, Action::EndPipeline));
    &steps[..end.unwrap_or(steps.len())]
}

/// Rolls back after a failure, so that no transaction stays open for the next run.
async fn roll_back(session: &Session, script: &Ready) -> Result<()> {
    if session.status() == TransactionStatus::Idle {
        return Ok(());
    }
    let rolled_back = session.execute("rollback", &[]).await;
    rolled_back.map_err(|error| Error::from(error).context(&script.name))?;
    Ok(())
}
