//! Statements on tables: what their texts take and return, which a server finds out with a Parse and
//! again with each Bind, if a table or the path has changed (RevalidateCachedQuery in
//! src/backend/utils/cache/plancache.c). It keeps the types of the parameters that the Parse found.

use bytes::BytesMut;
use onetrip_postgres::message::{Bind, Field, Format, data_row, row_description};

use super::super::reply::{Routine, code};
use super::super::{Server, Statement, Verb};
use super::schema::{Column, NAMES, Schema, Table};
use super::types::{Refused, Type, Value};

/// What a text takes and returns.
#[derive(Clone, Debug)]
pub(in super::super) struct Analysed {
    /// The types of its parameters.
    pub(in super::super) types: Vec<u32>,
    pub(in super::super) columns: Vec<Column>,
    table: Table,
}

/// A statement with its value, cast to the type of its column, or the error of that.
#[derive(Clone, Debug)]
pub(in super::super) struct Bound {
    analysed: Analysed,
    formats: Vec<Format>,
    value: Option<(Type, Result<Value, Refused>)>,
}

/// An error, and the function that reports it.
type Failed = (Refused, Option<Routine>);

impl Server {
    /// Whether its transaction has used this table, so that a migration of it waits.
    pub fn holds(&self, table: Table) -> bool {
        self.transaction.tables.contains(&table)
    }

    /// What this text takes and returns now. Its transaction holds the table from now on.
    fn analyse(&mut self, schema: &Schema, text: &str, named: &[u32]) -> Result<Analysed, Refused> {
        let statement = Statement::parse(text);
        let name = statement.table.as_deref().unwrap_or_default();
        let at = NAMES.iter().position(|known| *known == name).ok_or(code::NO_TABLE)?;
        let table = (self.transaction.session.path(), at);
        let of_table = schema.columns(table);
        let mut types = Statement::parameter_types(text);
        if types.len() < named.len() {
            return Err(code::PROTOCOL);
        }
        if let Some(number) = statement.value {
            types[number - 1] = of_table[0].type_.oid();
        }
        for (at, oid) in named.iter().enumerate().filter(|(_, oid)| **oid != 0) {
            let type_ = schema.type_of(*oid).ok_or(code::LOOKUP)?;
            if statement.value == Some(at + 1) && !of_table[0].type_.takes(type_) {
                return Err(code::DATATYPE);
            }
            types[at] = *oid;
        }
        self.transaction.tables.insert(table);
        let op = Column { name: "op".to_owned(), type_: Type::Int8 };
        let columns = match statement.returns_rows {
            true => std::iter::once(op).chain(of_table).collect(),
            false => Vec::new(),
        };
        Ok(Analysed { types, columns, table })
    }

    /// What a Parse finds out of a text on a table; nothing of any other.
    pub(in super::super) fn analysed(
        &mut self,
        name: &str,
        text: &str,
        named: &[u32],
    ) -> Result<Option<Analysed>, Refused> {
        let Some(schema) = self.schema_of(text) else { return Ok(None) };
        let Some(server) = self.pooled.filter(|_| !name.is_empty()) else {
            return self.analyse(&schema, text, named).map(Some);
        };
        let key = (text.to_owned(), named.to_vec());
        schema.pooled(server, key, || self.analyse(&schema, text, named)).map(Some)
    }

    fn schema_of(&self, text: &str) -> Option<Schema> {
        let is_of_table = Statement::parse(text).table.is_some();
        self.config.schema.clone().filter(|_| is_of_table)
    }

    /// What a statement takes and returns now, if that is what it took and returned when it was
    /// parsed.
    pub(in super::super) fn revalidated(
        &mut self,
        text: &str,
        parsed: &Analysed,
    ) -> Result<Analysed, Failed> {
        let none = |code| (code, None);
        let schema = self.schema_of(text).ok_or(none(code::NO_TABLE))?;
        let now = self.analyse(&schema, text, &parsed.types).map_err(none)?;
        match now.columns == parsed.columns {
            true => Ok(now),
            false => Err((code::STALE, Some(Routine::Plan))),
        }
    }

    /// Binds a statement on a table, in the order of exec_bind_message: values are read by the types
    /// that the Parse has found, the statement is analysed anew, and the formats are counted.
    pub(in super::super) fn bound(
        &mut self,
        text: &str,
        parsed: &Analysed,
        bind: &Bind<'_>,
        op: Option<u64>,
    ) -> Result<Bound, Failed> {
        let none = |code| (code, None);
        let schema = self.schema_of(text).ok_or(none(code::NO_TABLE))?;
        let statement = Statement::parse(text);
        let value = match statement.value {
            Some(number) => self.value(&schema, parsed, bind, number - 1).map_err(none)?,
            None => None,
        };
        let now = self.revalidated(text, parsed)?;
        let column = schema.columns(now.table)[0].type_;
        let value = value.map(|(from, value)| (column, column.cast(from, value, schema.zone())));
        // A plan for these values is made with the Bind and casts them; one for all values casts
        // them while it runs.
        if let Some((_, Err(refused))) = value
            && op.is_some_and(|op| op.is_multiple_of(2))
        {
            return Err(none(refused));
        }
        let count = bind.result_formats.len();
        if count > 1 && count != now.columns.len() {
            return Err((code::PROTOCOL, Some(Routine::Formats)));
        }
        let formats = (0..now.columns.len())
            .map(|at| bind.result_formats.of(at).unwrap_or_default())
            .collect();
        Ok(Bound { analysed: now, formats, value })
    }

    /// The value of this parameter, by the type that the Parse has found.
    fn value(
        &self,
        schema: &Schema,
        parsed: &Analysed,
        bind: &Bind<'_>,
        at: usize,
    ) -> Result<Option<(Type, Value)>, Refused> {
        let type_ = schema.type_of(parsed.types[at]).ok_or(code::LOOKUP)?;
        let Some(bytes) = bind.parameters.clone().nth(at).flatten() else { return Ok(None) };
        let value = match bind.parameter_formats.of(at) {
            Some(Format::Binary) => type_.receive(bytes)?,
            _ => type_.read(&String::from_utf8_lossy(bytes), schema.zone())?,
        };
        Ok(Some((type_, value)))
    }

    /// Runs it: stores its value, and returns rows. Returns how many, or the error.
    pub(in super::super) fn run_on_table(
        &mut self,
        statement: &Statement,
        bound: &Bound,
    ) -> Result<u32, Refused> {
        let Some(schema) = self.config.schema.clone() else { return Err(code::NO_TABLE) };
        let op = statement.op.unwrap_or(0);
        let value = match &bound.value {
            Some((type_, value)) => Some((*type_, value.clone()?)),
            None => None,
        };
        if let Some((type_, value)) = &value {
            schema.store(op, *type_, value);
        }
        let columns = &bound.analysed.columns;
        let count = match statement.verb {
            _ if columns.is_empty() => return Ok(1),
            Verb::Insert => 1,
            _ => SAMPLES,
        };
        let (mut told, zone) = (Vec::new(), schema.zone());
        for row in 0..count {
            let cell = |(at, column): (usize, &Column)| match (at, &value) {
                (0, _) => Value::Whole(op as i64),
                (1, Some((_, value))) => value.clone(),
                _ => sample(column.type_, row, zone),
            };
            let cells: Vec<Value> = columns.iter().enumerate().map(cell).collect();
            let named = columns.iter().zip(&cells);
            told.push(
                named
                    .map(|(of, it)| (of.name.clone(), of.type_.oid(), of.type_.write(it, zone)))
                    .collect(),
            );
            let sent = columns.iter().zip(&cells).zip(&bound.formats);
            let sent: Vec<Vec<u8>> = sent
                .map(|((of, it), format)| match format {
                    Format::Text => of.type_.write(it, zone).into_bytes(),
                    Format::Binary => of.type_.send(it),
                })
                .collect();
            self.put(|out| {
                data_row::write(out, sent.iter().map(|it| Some(&it[..]))).expect("a short row");
            });
        }
        schema.tell(op, told);
        Ok(count)
    }
}

impl Bound {
    /// The description of its rows.
    pub(in super::super) fn describe(&self, out: &mut BytesMut) {
        self.analysed.describe(out, &self.formats);
    }

    pub(in super::super) fn returns_rows(&self) -> bool {
        !self.analysed.columns.is_empty()
    }
}

impl Analysed {
    /// The description of its columns in these formats; text where there are none.
    pub(in super::super) fn describe(&self, out: &mut BytesMut, formats: &[Format]) {
        let field = |(at, column): (usize, &'_ Column)| (at as i16 + 1, column.type_.oid());
        let fields: Vec<_> = self.columns.iter().enumerate().map(field).collect();
        let fields = self.columns.iter().zip(fields).enumerate().map(|(at, (column, of))| Field {
            name: &column.name,
            table_oid: 0,
            column_id: of.0,
            type_oid: of.1,
            type_size: -1,
            type_modifier: -1,
            format: formats.get(at).copied().unwrap_or_default(),
        });
        let fields: Vec<Field<'_>> = fields.collect();
        row_description::write(out, fields.into_iter()).expect("a few short columns");
    }
}

/// How many rows every table has for those who read it.
const SAMPLES: u32 = 2;

/// The values in a table, as a migration has made them of those before.
fn sample(type_: Type, row: u32, zone: i64) -> Value {
    let text = match type_ {
        Type::Float4 | Type::Float8 | Type::Numeric => "0.1",
        Type::Date | Type::Timestamp | Type::Timestamptz => "2020-01-01 13:30:00",
        Type::Inet => "10.0.0.1",
        Type::Enum(_) => "red",
        Type::Text => "a text",
        Type::Int4 | Type::Int8 if row == 0 => "825373492",
        Type::Int4 | Type::Int8 => "7",
    };
    type_.read(text, zone).expect("each is a value of its type")
}
