//! What must be known of a batch's statement before its first row can be written.

use std::sync::Arc;

use onetrip_postgres::sql::{self, Place, Traits};
use postgres_types::{Kind as TypeKind, ToSql, Type};

use super::ParameterSet;
use crate::executor::Executor;
use crate::metadata::Metadata;
use crate::params::check_count;
use crate::params::{self, Found};
use crate::statement::Source;
use crate::statements::Bound;
use crate::types::{TypeCache, moments_for};
use crate::{Error, Statement};

/// The statement of a batch, with its types.
pub(super) struct Plan {
    pub(super) bound: Bound,
    /// Whether other statements of the client may use what is prepared.
    pub(super) shared: bool,
    /// Whether its metadata is new, and is to be remembered after a success.
    pub(super) is_new: bool,
}

/// A statement that the server has to describe.
pub(super) struct Undescribed {
    sql: String,
    traits: Traits,
    shared: bool,
    /// The known types of parameters; `None` if a type would be a guess.
    found: Vec<Option<Type>>,
}

/// A plan, or what the server must be asked first.
pub(super) enum Planned {
    Now(Plan),
    Ask(Undescribed),
}

/// Where a batch goes: a statement that must not be in a pipeline must not be in an atomic batch
/// either.
pub(super) fn place_of(executor: &Executor) -> Place {
    match executor.place {
        Place::Session { in_transaction: true } => executor.place,
        _ => Place::Pipeline { alone: false },
    }
}

impl Executor {
    /// Finds the types of a statement by its first row.
    pub(super) fn plan(
        &self,
        source: Source<'_>,
        first: &impl ParameterSet,
    ) -> Result<Planned, Error> {
        let (sql, shared) = match source {
            Source::Prepared(statement) => return self.plan_of(statement),
            Source::Text(sql) => (sql, true),
            Source::Unprepared(sql) => (sql, false),
        };
        let known =
            self.context.metadata_cache.get(sql).filter(|it| it.types.len() == first.count());
        if let Some(metadata) = known
            && all_fit(first, &metadata.types)
        {
            self.check_place(metadata.traits)?;
            let bound = Bound { metadata, explicit: None };
            return Ok(Planned::Now(Plan { bound, shared, is_new: false }));
        }
        let traits = sql::classify(sql);
        self.check_place(traits)?;
        let found: Vec<Option<Type>> = (0..first.count())
            .map(|number| {
                let found = params::find(number, first.parameter(number), &self.context.types).ok();
                found.filter(|found| !found.is_guess()).map(|Found { type_, .. }| type_)
            })
            .collect();
        match found.iter().cloned().collect::<Option<Vec<Type>>>() {
            Some(types) => Ok(Planned::Now(Plan::new(sql, traits, shared, types))),
            None => Ok(Planned::Ask(Undescribed { sql: sql.into(), traits, shared, found })),
        }
    }

    fn plan_of(&self, statement: &Statement) -> Result<Planned, Error> {
        self.check_owner(statement)?;
        let metadata = statement.0.metadata.clone();
        self.check_place(metadata.traits)?;
        let bound = Bound { metadata, explicit: Some(statement.clone()) };
        Ok(Planned::Now(Plan { bound, shared: true, is_new: false }))
    }
}

impl Plan {
    fn new(sql: &str, traits: Traits, shared: bool, types: Vec<Type>) -> Plan {
        Plan::of(Metadata::new(sql.into(), types, traits, Vec::new()), shared)
    }

    fn of(metadata: Arc<Metadata>, shared: bool) -> Plan {
        Plan { bound: Bound { metadata, explicit: None }, shared, is_new: true }
    }

    pub(super) fn metadata(&self) -> &Arc<Metadata> {
        &self.bound.metadata
    }
}

impl Undescribed {
    /// Asks the server: one trip.
    pub(super) fn ask(
        &self,
        executor: &Executor,
    ) -> impl Future<Output = Result<Statement, Error>> + use<> {
        let named = |found: &Option<Type>| found.clone().unwrap_or(Type::UNKNOWN);
        let types: Vec<Type> = self.found.iter().map(named).collect();
        executor.prepare(&self.sql, &types)
    }

    /// Makes the plan from the answer. A parameter whose type was no guess keeps that type.
    pub(super) fn answered(
        self,
        answer: &Statement,
        first: &impl ParameterSet,
    ) -> Result<Plan, Error> {
        check_count(first.count(), answer.params().len())?;
        let types = self.found.into_iter().zip(answer.params()).enumerate();
        let types = types.map(|(number, (found, wanted))| {
            found.unwrap_or_else(|| accepted(first, number, wanted))
        });
        let (sql, traits) = (self.sql.as_str().into(), self.traits);
        let metadata = Metadata::asked(sql, types.collect(), traits, Vec::new());
        Ok(Plan::of(metadata, self.shared))
    }
}

/// The wanted type, or the base type of a domain that the value does not accept.
fn accepted(row: &impl ParameterSet, number: usize, wanted: &Type) -> Type {
    let mut scratch = bytes::BytesMut::new();
    let mut type_ = wanted;
    while let TypeKind::Domain(base) = type_.kind()
        && !params::accepts(row.parameter(number), type_, &mut scratch)
    {
        type_ = base;
    }
    moment_of(row.parameter(number), type_).unwrap_or_else(|| type_.clone())
}

/// The type of a moment, if the value is one that goes to several types.
fn moment_of(value: &(dyn ToSql + Sync), wanted: &Type) -> Option<Type> {
    moments_for(wanted)?;
    let found = params::find(0, value, &TypeCache::default()).ok().filter(Found::is_guess)?;
    let (values, _) = params::alternatives(&found, value);
    params::moment_among(&values, wanted).map(|it| it.type_)
}

/// Whether the first row can be sent as these types. Of another row that can't, the error has the
/// next batch ask anew.
fn all_fit(row: &impl ParameterSet, types: &[Type]) -> bool {
    let mut scratch = bytes::BytesMut::new();
    let mut numbered = types.iter().enumerate();
    numbered.all(|(number, type_)| params::fits(row.parameter(number), type_, &mut scratch))
}
